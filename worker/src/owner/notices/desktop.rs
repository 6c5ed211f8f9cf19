//! Shows notices by the desktop's own service, `org.freedesktop.Notifications` on the session's
//! message bus. When they are due is decided in [`super`].

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use zbus::{Connection, Variant, connection};

use super::{Notice, NoticeKind};

const SERVICE: &str = "org.freedesktop.Notifications";
const OBJECT: &str = "/org/freedesktop/Notifications";
/// The longest time that one question to the bus may take.
const ANSWER: Duration = Duration::from_secs(5);
/// The urgency of every notice: low.
const URGENCY: u8 = 0;
/// The desktop decides how long a notice stays.
const AS_USUAL: i32 = -1;

/// Shows what is sent, until the sender is dropped. A worker that reaches no desktop says so in its
/// log, and tries again with the next notice.
pub(super) fn serve() -> UnboundedSender<Notice> {
    let (tell, notices) = unbounded_channel();
    tokio::spawn(show_all(notices));
    tell
}

async fn show_all(mut notices: UnboundedReceiver<Notice>) {
    let mut bus = open()
        .await
        .inspect_err(|error| cannot(error, "the session's message bus"))
        .ok();
    // A later notice of a kind takes the place of the earlier one.
    let mut last: Vec<(NoticeKind, u32)> = Vec::new();

    while let Some(notice) = notices.recv().await {
        let place = last.iter().position(|(kind, _)| *kind == notice.kind);
        let replaces = place.map_or(0, |place| last.swap_remove(place).1);
        match show(&mut bus, notice, replaces).await {
            Ok(number) => last.push((notice.kind, number)),
            Err(error) => {
                bus = None;
                cannot(&error, notice.title);
            }
        }
    }
}

fn cannot(error: &zbus::Error, what: &str) {
    tracing::warn!(%error, what, "`notify`: this worker cannot show notices here");
}

async fn open() -> zbus::Result<Connection> {
    let builder = connection::Builder::session();
    builder.method_timeout(ANSWER).build().await
}

/// Shows a notice; returns its number at the desktop.
async fn show(bus: &mut Option<Connection>, notice: Notice, replaces: u32) -> zbus::Result<u32> {
    let bus = match bus {
        Some(bus) => bus,
        None => bus.insert(open().await?),
    };

    let icon = "";
    let actions: Vec<&str> = Vec::new();
    let hints = BTreeMap::from([("urgency", Variant::from(URGENCY))]);
    let words = (
        "deskgrid",
        replaces,
        icon,
        notice.title,
        notice.text,
        actions,
        hints,
        AS_USUAL,
    );
    let answer = bus
        .call_method(Some(SERVICE), OBJECT, Some(SERVICE), "Notify", &words)
        .await?;
    answer.body().deserialize()
}
