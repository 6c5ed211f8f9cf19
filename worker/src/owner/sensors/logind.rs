//! Sessions of people, here and over the network, as systemd's login manager tells over the
//! system's message bus. Reading needs no privilege. What it does not see is what happens on a
//! desktop: that is left to those who see its input.

mod session;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::Span;
use tokio::runtime::{Builder, Runtime};
use zbus::{Connection, OwnedObjectPath, OwnedVariant, connection, fdo};

use self::session::{Activity, LogindSession};
use super::{Sensor, SensorUse, SensorsConfig, Unseen};
use crate::os;
use crate::owner::sight::{Reading, Sight, Topic};

const LOGIND: &str = "org.freedesktop.login1";
const MANAGER: &str = "/org/freedesktop/login1";
const BUS: &str = "org.freedesktop.DBus";
/// The signals to subscribe to: people who come and go, and sessions that are locked.
const NEWS: &str = "type='signal',sender='org.freedesktop.login1'";
/// The longest time that one question to the bus may take.
const ANSWER: Duration = Duration::from_secs(2);
/// However much is told, sessions are not looked at more often than this.
const SETTLE: Duration = Duration::from_millis(100);

/// The sensor of sessions.
pub(super) struct Logind {
    bus: String,
    every: Duration,
    unseen: Unseen,
    /// The sources of this host's own input, for the sensors that look at it.
    watched: Vec<PathBuf>,
    /// Drives the connection, within this sensor's own thread: made there when it first looks.
    runtime: Option<Runtime>,
    connection: Option<Connection>,
    /// The last sign of a person so far, also of sessions that have ended, in microseconds since
    /// 1970.
    last: u64,
    /// Signs of sessions from a time that lay ahead, with the time at which each was first seen.
    ahead: BTreeMap<String, (u64, u64)>,
}

impl Logind {
    pub(super) fn new(config: &SensorsConfig) -> Self {
        let looked_at =
            |sensor: SensorUse, place: &PathBuf| (sensor == SensorUse::Auto).then(|| place.clone());
        let now = now();
        Self {
            bus: config.system_bus.clone(),
            every: config.input_every.0,
            unseen: config.unseen_sessions,
            watched: [
                looked_at(config.evdev, &config.input_dir),
                looked_at(config.x11, &config.x11_dir),
            ]
            .into_iter()
            .flatten()
            .collect(),
            runtime: None,
            connection: None,
            last: now.saturating_sub(os::since_boot().0),
            ahead: BTreeMap::new(),
        }
    }

    fn look(&mut self) -> zbus::Result<Vec<LogindSession>> {
        let runtime = match self.runtime.take() {
            Some(runtime) => runtime,
            None => Builder::new_current_thread().enable_all().build()?,
        };
        let runtime = &*self.runtime.insert(runtime);
        let connection = match &self.connection {
            Some(connection) => connection,
            None => self.connection.insert(runtime.block_on(open(&self.bus))?),
        };
        let sessions = runtime.block_on(sessions(connection));
        if sessions.is_err() {
            self.connection = None;
        }

        sessions
    }

    fn judge(&mut self, sessions: &[LogindSession], now: u64) -> Sight {
        let watched = self.watched.iter().any(|place| place.exists());
        let mut unseen = None;
        self.ahead
            .retain(|id, _| sessions.iter().any(|session| session.id == *id));

        for session in sessions {
            match session.activity(watched, self.unseen) {
                Activity::Nothing => {}
                Activity::At(at) => self.last = self.last.max(self.came(&session.id, at, now)),
                Activity::Unseen(who) => {
                    self.last = now;
                    unseen.get_or_insert(who);
                }
            }
        }

        self.last = self.last.min(now);
        unseen.map_or_else(
            || Sight::Seen(Reading::Idle(Span(now - self.last))),
            Sight::Unknown,
        )
    }

    /// The time of a session's sign. One from before the clock was set back would lie ahead, and be
    /// new at each look: it counts once, at the time at which it was first seen.
    fn came(&mut self, session: &str, at: u64, now: u64) -> u64 {
        let known = self.ahead.get(session).filter(|(told, _)| *told == at);
        if known.is_none() && at <= now {
            return at;
        }
        let seen = known.map_or(now, |(_, seen)| now.min(*seen));
        self.ahead.insert(session.to_owned(), (at, seen));
        seen
    }
}

impl Sensor for Logind {
    fn name(&self) -> &'static str {
        "logind"
    }

    fn topic(&self) -> Topic {
        Topic::Input
    }

    fn sense(&mut self) -> Sight {
        match self.look() {
            Ok(sessions) => self.judge(&sessions, now()),
            Err(error) if no_bus(&error) => {
                Sight::Absent("there is no system message bus".to_owned())
            }
            Err(error) if no_logind(&error) => {
                Sight::Absent("no login manager is on the system message bus".to_owned())
            }
            Err(error) => Sight::Unknown(format!("the login manager does not answer: {error}")),
        }
    }

    fn wait(&mut self, pause: Duration) {
        let pause = self.every.max(pause);
        match (&self.runtime, &self.connection) {
            (Some(runtime), Some(connection)) => runtime.block_on(async {
                let news = tokio::time::timeout(pause, connection.monitor_activity());
                let _ = tokio::join!(news, tokio::time::sleep(SETTLE));
            }),
            _ => thread::sleep(pause),
        }
    }
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| Span::from(since).0)
}

async fn open(bus: &str) -> zbus::Result<Connection> {
    let builder = if bus.is_empty() {
        connection::Builder::system()
    } else {
        connection::Builder::address(bus)
    };
    let connection = builder.method_timeout(ANSWER).build().await?;
    connection
        .call_method(
            Some(BUS),
            "/org/freedesktop/DBus",
            Some(BUS),
            "AddMatch",
            &(NEWS,),
        )
        .await?;

    Ok(connection)
}

async fn sessions(connection: &Connection) -> zbus::Result<Vec<LogindSession>> {
    let list = connection
        .call_method(
            Some(LOGIND),
            MANAGER,
            Some("org.freedesktop.login1.Manager"),
            "ListSessions",
            &(),
        )
        .await?;
    let list: Vec<(String, u32, String, String, OwnedObjectPath)> = list.body().deserialize()?;
    let mut sessions = Vec::new();

    for (id, _, _, seat, path) in list {
        let all = (format!("{LOGIND}.Session"),);
        match connection
            .call_method(
                Some(LOGIND),
                path,
                Some("org.freedesktop.DBus.Properties"),
                "GetAll",
                &all,
            )
            .await
        {
            Ok(answer) => {
                let properties: BTreeMap<String, OwnedVariant> = answer.body().deserialize()?;
                sessions.push(LogindSession::of(id, seat, &properties));
            }
            // It has ended meanwhile.
            Err(zbus::Error::MethodError(..) | zbus::Error::FDO(_)) => {}
            Err(error) => return Err(error),
        }
    }

    Ok(sessions)
}

fn no_bus(error: &zbus::Error) -> bool {
    let missing = |kind| {
        matches!(
            kind,
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
        )
    };
    match error {
        zbus::Error::InputOutput(error) => missing(error.kind()),
        zbus::Error::Connection(error, _) => missing(error.kind()),
        _ => false,
    }
}

fn no_logind(error: &zbus::Error) -> bool {
    matches!(error, zbus::Error::FDO(error) if matches!(**error, fdo::Error::ServiceUnknown(_) | fdo::Error::NameHasNoOwner(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_from_before_the_clock_was_set_back_counts_once() {
        let mut logind = Logind {
            last: 0,
            ..Logind::new(&SensorsConfig::default())
        };
        let mut idle = |typed: u64, now: u64| {
            let session = LogindSession {
                id: "3".to_owned(),
                class: "user".to_owned(),
                kind: "tty".to_owned(),
                idle_since: typed,
                ..LogindSession::default()
            };
            match logind.judge(&[session], now) {
                Sight::Seen(Reading::Idle(idle)) => idle.0,
                other => panic!("{other:?}"),
            }
        };

        assert_eq!(idle(9_000, 1_000), 0);
        assert_eq!(idle(9_000, 4_000), 3_000);
        assert_eq!(idle(9_000, 9_500), 8_500, "nobody typed at nine thousand");
        assert_eq!(idle(9_000, 500), 0, "the clock was set back once more");
        assert_eq!(idle(9_000, 700), 200);
        assert_eq!(idle(800, 900), 100);
    }
}
