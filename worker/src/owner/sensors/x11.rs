//! Displays of the X Window System: for how long nobody touched anything there. Displays over the
//! network (VNC, xrdp) are seen by this as well, which input devices do not show. The server itself
//! tells the first touch after a pause, so that nothing is asked again and again.

mod authority;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use common::Span;
use link::files::unless_gone;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use x11rb::connection::{Connection, RequestConnection};
use x11rb::errors::{ConnectError, ReplyError};
use x11rb::protocol::Event;
use x11rb::protocol::screensaver::ConnectionExt as _;
use x11rb::protocol::sync::{self, ConnectionExt as _};
use x11rb::protocol::xinput::ConnectionExt as _;
use x11rb::protocol::xproto::ConnectionExt as _;
use x11rb::rust_connection::{DefaultStream, RustConnection};

use self::authority::DisplayServer;
use super::{Sensor, SensorUse, SensorsConfig, Unseen};
use crate::os::{self, FileStamp};
use crate::owner::sight::{Reading, Sight, Topic};

/// A touch after a pause of this length is told by the server, in milliseconds.
const PAUSE_MS: u32 = 500;
/// The interval at which a server is asked that cannot report input by itself.
const ASK: Duration = Duration::from_millis(100);
/// The time for which a display of a Wayland desktop is not connected to again.
const WAYLAND: Duration = Duration::from_secs(300);
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
    /// The same for a Wayland desktop, which starts a server at each connection: so this holds for
    /// a while (`WAYLAND`), as long as the socket is the same.
    Wayland(String, Option<FileStamp>, Instant),
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

    /// Returns the numbers of the displays to look at that are there now.
    ///
    /// # Errors
    /// If the directory of their sockets is there and cannot be listed.
    fn numbers(&self) -> io::Result<Vec<u32>> {
        let Some(entries) = unless_gone(fs::read_dir(&self.config.x11_dir))? else {
            return Ok(Vec::new());
        };
        let wanted = self.config.displays.iter();
        let wanted: Vec<u32> = wanted.filter_map(|name| number(name)).collect();

        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            let there = name
                .to_str()
                .and_then(|name| name.strip_prefix('X')?.parse().ok());
            let looked_at = |n: &u32| self.config.displays.is_empty() || wanted.contains(n);
            numbers.extend(there.filter(looked_at));
        }
        numbers.sort_unstable();

        Ok(numbers)
    }

    fn open(&self, display: u32) -> Display {
        let closed = |why: String| {
            Display::Closed(format!(
                "display :{display} does not let the worker look: {why}"
            ))
        };

        let path = socket_of(&self.config.x11_dir, display);
        // Before it is connected to: another one since is looked at next time.
        let stamp = stamp(&path);
        let wayland = |why: &str| {
            Display::Wayland(format!("display :{display} {why}"), stamp, Instant::now())
        };
        let socket = match reach(&path) {
            Ok(socket) => socket,
            Err(error) => {
                return self
                    .unreached(display, &path, &error)
                    .unwrap_or_else(closed);
            }
        };

        let server = DisplayServer::of(&socket, &self.config.proc_dir);
        let key = self
            .key_files(&server)
            .iter()
            .find_map(|file| authority::key(&fs::read(file).ok()?, display));
        match set_up(socket, key, self.config.patience() / 2) {
            Ok(Some(opened)) => Display::Open(Box::new(opened)),
            Ok(None) => wayland("is Xwayland, which sees a part of the input only"),
            Err(_) if server.wayland && self.sees_desktops() => {
                wayland("is of a Wayland desktop, whose input others see")
            }
            Err(_) if server.here && self.sees_devices() => Display::Beside(format!(
                "the input of display :{display} comes from this host's devices"
            )),
            Err(why) => closed(why),
        }
    }

    /// A display that cannot be connected to, if it is known to be nobody's, or seen by others.
    ///
    /// # Errors
    /// Says why it is not known.
    fn unreached(&self, display: u32, path: &Path, error: &io::Error) -> Result<Display, String> {
        match error.kind() {
            // Left behind by a server that is gone.
            io::ErrorKind::ConnectionRefused => Ok(Display::Beside(format!(
                "no server is behind display :{display}"
            ))),
            // Servers of X let every account connect, and ask for keys.
            io::ErrorKind::PermissionDenied if self.sees_desktops() && is_closed(path) => {
                Ok(Display::Beside(format!(
                    "display :{display} is of another account's Wayland desktop, whose input others see"
                )))
            }
            _ => Err(error.to_string()),
        }
    }

    /// Whether another sensor reads this host's input devices.
    fn sees_devices(&self) -> bool {
        self.config.evdev == SensorUse::Auto && self.config.input_dir.exists()
    }

    /// Whether others see all that happens on Wayland desktops: at this host's devices, and that
    /// there is one which somebody uses over the network.
    fn sees_desktops(&self) -> bool {
        self.sees_devices()
            && self.config.logind == SensorUse::Auto
            && self.config.unseen_sessions == Unseen::Present
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
        let dir = &self.config.x11_dir;
        let numbers = match self.numbers() {
            Ok(numbers) => numbers,
            Err(error) => {
                let dir = dir.display();
                return Sight::Unknown(format!("the displays in {dir} cannot be listed: {error}"));
            }
        };
        // Only those that answer are kept: the others may let us in now.
        self.displays.retain(|number, display| {
            numbers.contains(number)
                && match display {
                    Display::Open(_) => true,
                    Display::Wayland(_, was, since) => {
                        was.is_some()
                            && since.elapsed() < WAYLAND
                            && *was == stamp(&socket_of(dir, *number))
                    }
                    Display::Beside(_) | Display::Closed(_) => false,
                }
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
                Display::Beside(why) | Display::Wayland(why, ..) => {
                    beside = beside.or_else(|| Some(why.clone()));
                }
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

fn socket_of(dir: &Path, display: u32) -> PathBuf {
    dir.join(format!("X{display}"))
}

/// Whether a socket lets no other account connect by its own rights, and not by another rule of the system.
fn is_closed(socket: &Path) -> bool {
    fs::metadata(socket).is_ok_and(|meta| meta.mode() & 0o002 == 0)
}

fn stamp(socket: &Path) -> Option<FileStamp> {
    Some(os::stamp_of(&fs::metadata(socket).ok()?))
}

/// Connects, without waiting for a server that takes nobody in.
fn reach(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket.into())
}

/// Opens a display whose server answers within this time; as [`prepare`].
fn set_up(
    socket: UnixStream,
    key: Option<Vec<u8>>,
    time: Duration,
) -> Result<Option<OpenedDisplay>, String> {
    let _in_time = limit(&socket, time).map_err(|error| error.to_string())?;
    let connection = connect(socket, key).map_err(|error| error.to_string())?;
    prepare(connection).map_err(|error| error.to_string())
}

/// Has the connection end after this time, unless what it returns is dropped before.
fn limit(socket: &UnixStream, time: Duration) -> io::Result<Sender<()>> {
    let socket = socket.try_clone()?;
    let (in_time, is_over) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        if is_over.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
            let _ = socket.shutdown(Shutdown::Both);
        }
    })?;
    Ok(in_time)
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

#[cfg(test)]
mod tests {
    use super::*;
    use common::settings::ConfigDuration;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A host with input devices and a display `:1024`, whose server is called as it says.
    struct Desk {
        dir: tempfile::TempDir,
        connections: Arc<AtomicU32>,
    }

    impl Desk {
        /// The server turns everybody away, or never answers.
        fn new(called: &str, answers: bool) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let process = dir.path().join(format!("proc/{}", std::process::id()));
            fs::create_dir_all(&process).unwrap();
            fs::write(process.join("cmdline"), called).unwrap();
            for name in ["input", "x11"] {
                fs::create_dir(dir.path().join(name)).unwrap();
            }

            let connections = Arc::new(AtomicU32::new(0));
            let desk = Self { dir, connections };
            desk.serve(answers);
            desk
        }

        fn serve(&self, answers: bool) {
            let socket = self.dir.path().join("x11/X1024");
            let _ = fs::remove_file(&socket);
            let listener = UnixListener::bind(socket).unwrap();
            let connections = Arc::clone(&self.connections);
            thread::spawn(move || {
                let mut held = Vec::new();
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    connections.fetch_add(1, Ordering::SeqCst);
                    if answers {
                        // Failed; the length of the reason; the version; the length of what follows.
                        let [version, minor, words] = [11u16, 0, 1].map(u16::to_ne_bytes);
                        let refusal = [&[0_u8, 4][..], &version, &minor, &words, b"gone"].concat();
                        io::Write::write_all(&mut stream, &refusal).unwrap();
                    }
                    held.push(stream);
                }
            });
        }

        fn config(&self) -> SensorsConfig {
            SensorsConfig {
                x11_dir: self.dir.path().join("x11"),
                proc_dir: self.dir.path().join("proc"),
                input_dir: self.dir.path().join("input"),
                ..SensorsConfig::default()
            }
        }

        /// The same host, where input devices or sessions are not looked at, or not all of these count.
        fn blind(&self) -> [SensorsConfig; 4] {
            let off = SensorUse::Off;
            [
                SensorsConfig {
                    evdev: off,
                    ..self.config()
                },
                SensorsConfig {
                    logind: off,
                    ..self.config()
                },
                SensorsConfig {
                    input_dir: self.dir.path().join("none"),
                    ..self.config()
                },
                SensorsConfig {
                    unseen_sessions: Unseen::Ignore,
                    ..self.config()
                },
            ]
        }
    }

    #[test]
    fn a_display_that_another_account_may_not_reach_is_left_to_those_who_see_its_input() {
        let desk = Desk::new("", true);
        let socket = socket_of(&desk.config().x11_dir, 1024);
        let mode = |mode| fs::set_permissions(&socket, fs::Permissions::from_mode(mode)).unwrap();
        let denied = |config: &SensorsConfig, kind: io::ErrorKind| {
            X11::new(config).unreached(1024, &socket, &kind.into())
        };

        mode(0o755);
        let beside = denied(&desk.config(), io::ErrorKind::PermissionDenied);
        assert!(matches!(beside, Ok(Display::Beside(why)) if why.contains(":1024")));
        for blind in desk.blind() {
            assert!(denied(&blind, io::ErrorKind::PermissionDenied).is_err());
        }
        assert!(denied(&desk.config(), io::ErrorKind::WouldBlock).is_err());

        // Open to all by its own rights: something else keeps us from it.
        mode(0o777);
        assert!(denied(&desk.config(), io::ErrorKind::PermissionDenied).is_err());
    }

    #[test]
    fn displays_that_cannot_be_listed_are_not_taken_for_none() {
        let desk = Desk::new("", true);
        let in_place_of_a_directory = desk.dir.path().join("file");
        fs::write(&in_place_of_a_directory, "").unwrap();
        let sight_in = |x11_dir: PathBuf| {
            let config = SensorsConfig {
                x11_dir,
                ..desk.config()
            };
            X11::new(&config).sense()
        };
        let unlisted = sight_in(in_place_of_a_directory);
        assert!(
            matches!(&unlisted, Sight::Unknown(why) if why.contains("listed")),
            "{unlisted:?}"
        );
        assert!(matches!(
            sight_in(desk.dir.path().join("none")),
            Sight::Absent(_)
        ));
    }

    #[test]
    fn the_server_of_a_wayland_desktop_is_not_started_by_each_look() {
        let desk = Desk::new("/usr/bin/gnome-shell\0", true);
        let mut sensor = X11::new(&desk.config());
        for _ in 0..3 {
            let sight = sensor.sense();
            assert!(
                matches!(&sight, Sight::Absent(why) if why.contains("Wayland")),
                "{sight:?}"
            );
        }
        assert_eq!(desk.connections.load(Ordering::SeqCst), 1);

        desk.serve(true);
        sensor.sense();
        assert_eq!(desk.connections.load(Ordering::SeqCst), 2, "another socket");
        for blind in desk.blind() {
            assert!(matches!(X11::new(&blind).sense(), Sight::Unknown(_)));
        }
    }

    #[test]
    fn a_server_that_never_answers_holds_no_look_up() {
        let looks_at = |called| {
            let desk = Desk::new(called, false);
            let patience = ConfigDuration(Duration::from_millis(200));
            let config = SensorsConfig {
                patience,
                ..desk.config()
            };
            X11::new(&config).sense()
        };
        let remote = looks_at("Xvnc\0:1024\0");
        assert!(matches!(&remote, Sight::Unknown(_)), "{remote:?}");
        let here = looks_at("Xorg\0:1024\0vt2\0");
        assert!(matches!(&here, Sight::Absent(_)), "{here:?}");
    }
}
