//! Displays of the X Window System: for how long nobody touched anything there. Displays over the
//! network (VNC, xrdp) are seen by this as well, which input devices do not show. The server itself
//! tells the first touch after a pause, so that nothing is asked again and again.

mod authority;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use common::Span;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use x11rb::connection::{Connection, RequestConnection};
use x11rb::errors::{ConnectError, ReplyError};
use x11rb::protocol::Event;
use x11rb::protocol::screensaver::ConnectionExt as _;
use x11rb::protocol::sync::{self, ConnectionExt as _};
use x11rb::protocol::xinput::ConnectionExt as _;
use x11rb::protocol::xproto::ConnectionExt as _;
use x11rb::rust_connection::{DefaultStream, RustConnection};

use self::authority::DisplayServer;
use super::{Sensor, SensorUse, SensorsConfig};
use crate::owner::sight::{Reading, Sight, Topic};

/// A touch after a pause of this length is told by the server, in milliseconds.
const PAUSE_MS: u32 = 500;
/// The interval at which a server is asked that cannot report input by itself.
const ASK: Duration = Duration::from_millis(100);
/// The counter of the server that says for how long nothing was touched.
const COUNTER: &[u8] = b"IDLETIME";

/// Looks at X displays.
pub(super) struct X11 {
    config: SensorsConfig,
    displays: BTreeMap<u32, Display>,
}

/// The state of one display.
enum Display {
    /// It answers.
    Open(Box<OpenedDisplay>),
    /// It shows only a part of what happens on its desktop, or what happens there is seen by
    /// others; says so.
    Beside(String),
    /// It could be somebody's, and does not let us look; says why.
    Closed(String),
}

struct OpenedDisplay {
    connection: RustConnection,
    /// The alarm with which the server reports a touch, if it can.
    touched: Option<sync::Alarm>,
    counter: Option<sync::Counter>,
}

impl X11 {
    pub(super) fn new(config: &SensorsConfig) -> Self {
        Self {
            config: config.clone(),
            displays: BTreeMap::new(),
        }
    }

    /// The numbers of the displays to look at that are there now.
    fn numbers(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.config.x11_dir)
            .into_iter()
            .flatten()
            .flatten();
        let there =
            entries.filter_map(|entry| entry.file_name().to_str()?.strip_prefix('X')?.parse().ok());

        let wanted: Vec<u32> = self
            .config
            .displays
            .iter()
            .filter_map(|name| number(name))
            .collect();
        let mut numbers: Vec<u32> = there
            .filter(|n| self.config.displays.is_empty() || wanted.contains(n))
            .collect();
        numbers.sort_unstable();

        numbers
    }

    fn open(&self, display: u32) -> Display {
        let closed = |why: String| {
            Display::Closed(format!(
                "display :{display} does not let the worker look: {why}"
            ))
        };

        let path = self.config.x11_dir.join(format!("X{display}"));
        let socket = match UnixStream::connect(&path) {
            Ok(socket) => socket,
            // Left behind by a server that is gone.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                return Display::Beside(format!("no server is behind display :{display}"));
            }
            Err(error) => return closed(error.to_string()),
        };

        let server = DisplayServer::of(&socket, &self.config.proc_dir);
        let key = self
            .key_files(&server)
            .iter()
            .find_map(|file| authority::key(&fs::read(file).ok()?, display));
        match connect(socket, key)
            .map_err(|error| error.to_string())
            .and_then(|c| prepare(c).map_err(|e| e.to_string()))
        {
            Ok(Some(opened)) => Display::Open(Box::new(opened)),
            Ok(None) => Display::Beside(format!(
                "display :{display} is Xwayland, which sees a part of the input only"
            )),
            Err(_)
                if server.here
                    && self.config.evdev == SensorUse::Auto
                    && self.config.input_dir.exists() =>
            {
                Display::Beside(format!(
                    "the input of display :{display} comes from this host's devices"
                ))
            }
            Err(why) => closed(why),
        }
    }

    fn key_files(&self, server: &DisplayServer) -> Vec<PathBuf> {
        let variable = |name: &str| {
            std::env::var_os(name)
                .filter(|value| !value.is_empty())
                .map(PathBuf::from)
        };
        let own = Some(self.config.xauthority.clone()).filter(|file| !file.as_os_str().is_empty());
        let home = variable("HOME").map(|home| home.join(".Xauthority"));
        [own, server.keys.clone(), variable("XAUTHORITY"), home]
            .into_iter()
            .flatten()
            .collect()
    }
}

impl Sensor for X11 {
    fn name(&self) -> &'static str {
        "x11"
    }

    fn topic(&self) -> Topic {
        Topic::Input
    }

    fn sense(&mut self) -> Sight {
        let numbers = self.numbers();
        // Only those that answer are kept: the others may let us in now.
        self.displays.retain(|number, display| {
            numbers.contains(number) && matches!(display, Display::Open(_))
        });

        let mut idle = None::<Span>;
        let mut beside = None;
        let mut closed = None;

        for number in numbers {
            let display = match self.displays.remove(&number) {
                Some(display) => display,
                None => self.open(number),
            };
            let display = match display {
                Display::Open(opened) => match opened.idle() {
                    Ok(span) => {
                        idle = Some(idle.map_or(span, |idle| idle.min(span)));
                        Display::Open(opened)
                    }
                    Err(error) => {
                        Display::Closed(format!("display :{number} does not answer: {error}"))
                    }
                },
                display => display,
            };

            match &display {
                Display::Open(_) => {}
                Display::Beside(why) => beside = beside.or_else(|| Some(why.clone())),
                Display::Closed(why) => closed = closed.or_else(|| Some(why.clone())),
            }

            self.displays.insert(number, display);
        }

        let dir = self.config.x11_dir.display();
        match (closed, idle) {
            (Some(why), _) => Sight::Unknown(why),
            (None, Some(idle)) => Sight::Seen(Reading::Idle(idle)),
            (None, None) => Sight::Absent(beside.unwrap_or_else(|| format!("no display in {dir}"))),
        }
    }

    fn wait(&mut self, pause: Duration) {
        let opened: Vec<&OpenedDisplay> = self
            .displays
            .values()
            .filter_map(|d| {
                if let Display::Open(o) = d {
                    Some(&**o)
                } else {
                    None
                }
            })
            .collect();
        let all_tell = opened.iter().all(|display| display.touched.is_some());
        let pause = if all_tell {
            pause.max(self.config.input_every.0)
        } else {
            ASK
        };
        if opened.is_empty() {
            return thread::sleep(pause);
        }

        let deadline = Instant::now() + pause;
        loop {
            // What arrived with an answer lies in the connection already.
            if opened.iter().any(|display| display.told()) {
                return;
            }

            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(timeout) = Timespec::try_from(left) else {
                return;
            };
            let mut fds: Vec<_> = opened
                .iter()
                .map(|o| PollFd::new(o.connection.stream(), PollFlags::IN))
                .collect();

            match poll(&mut fds, Some(&timeout)) {
                Ok(0) => return,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return thread::sleep(left),
            }
        }
    }
}

/// The number of `:0`, `:0.0` or `0`.
fn number(name: &str) -> Option<u32> {
    name.trim_start_matches(':').split('.').next()?.parse().ok()
}

fn connect(socket: UnixStream, key: Option<Vec<u8>>) -> Result<RustConnection, ConnectError> {
    let (stream, _) = DefaultStream::from_unix_stream(socket)?;
    let (name, key) = key.map_or_else(Default::default, |key| {
        (b"MIT-MAGIC-COOKIE-1".to_vec(), key)
    });
    RustConnection::connect_to_stream_with_auth_info(stream, 0, name, key)
}

/// Asks the server to tell of the first touch after a pause; nothing if it does not see all that
/// happens.
fn prepare(connection: RustConnection) -> Result<Option<OpenedDisplay>, ReplyError> {
    if is_xwayland(&connection)? {
        return Ok(None);
    }

    let counter = match connection.extension_information(sync::X11_EXTENSION_NAME)? {
        None => None,
        Some(_) => {
            connection.sync_initialize(3, 1)?.reply()?;
            let counters = connection.sync_list_system_counters()?.reply()?.counters;
            counters
                .into_iter()
                .find(|counter| counter.name == COUNTER)
                .map(|counter| counter.counter)
        }
    };

    // The server looks at its counter when it has a reason to: without the alarm at the begin of a
    // pause it might never see that there was one, and so not that it ended.
    let touched = counter.and_then(|counter| {
        alarm(&connection, counter, sync::TESTTYPE::POSITIVE_TRANSITION)?;
        alarm(&connection, counter, sync::TESTTYPE::NEGATIVE_TRANSITION)
    });
    Ok(Some(OpenedDisplay {
        connection,
        touched,
        counter,
    }))
}

/// Has the server tell whenever the counter passes the length of a pause in this direction; nothing
/// where it does not.
fn alarm(
    connection: &RustConnection,
    counter: sync::Counter,
    direction: sync::TESTTYPE,
) -> Option<sync::Alarm> {
    let value = |ms: u32| sync::Int64 { hi: 0, lo: ms };
    let alarm = sync::CreateAlarmAux::new()
        .counter(counter)
        .value_type(sync::VALUETYPE::ABSOLUTE)
        .value(value(PAUSE_MS))
        .test_type(direction)
        .delta(value(0))
        .events(1);

    let id = connection.generate_id().ok()?;
    connection
        .sync_create_alarm(id, &alarm)
        .ok()?
        .check()
        .ok()?;

    Some(id)
}

fn is_xwayland(connection: &RustConnection) -> Result<bool, ReplyError> {
    if connection.query_extension(b"XWAYLAND")?.reply()?.present {
        return Ok(true);
    }
    if connection
        .extension_information(x11rb::protocol::xinput::X11_EXTENSION_NAME)?
        .is_none()
    {
        return Ok(false);
    }
    connection.xinput_xi_query_version(2, 2)?.reply()?;

    // Older ones do not name the extension, but their devices.
    let devices = connection
        .xinput_xi_query_device(x11rb::protocol::xinput::Device::ALL)?
        .reply()?;
    Ok(devices
        .infos
        .iter()
        .any(|device| device.name.starts_with(b"xwayland-")))
}

impl OpenedDisplay {
    fn idle(&self) -> Result<Span, ReplyError> {
        if let Some(counter) = self.counter {
            let value = self
                .connection
                .sync_query_counter(counter)?
                .reply()?
                .counter_value;
            return Ok(Span::from_millis(
                (u64::from(value.hi.cast_unsigned()) << 32) | u64::from(value.lo),
            ));
        }

        let root = self
            .connection
            .setup()
            .roots
            .first()
            .map_or(0, |screen| screen.root);
        let answer = self.connection.screensaver_query_info(root)?.reply()?;

        Ok(Span::from_millis(answer.ms_since_user_input.into()))
    }

    /// Whether the server has told of a touch since, or is gone.
    fn told(&self) -> bool {
        let mut told = false;
        loop {
            match self.connection.poll_for_event() {
                Ok(Some(Event::SyncAlarmNotify(event))) => {
                    told |= Some(event.alarm) == self.touched;
                }
                Ok(Some(_)) => {}
                Ok(None) => return told,
                Err(_) => return true,
            }
        }
    }
}
