//! Sensors against what they look at: input devices (named pipes that carry real events), a login
//! manager (dbusmock on a private bus) and a display (Xvfb). What this machine lacks is skipped,
//! and said.
//!
//! Without libtest, because the program must be able to be the watcher of input devices, and for
//! that its `main` has to be its own.
#![allow(clippy::unwrap_used)] // A test's panic is its message.

mod runner;

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::settings::ConfigDuration;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use worker::owner::sensors::{Sensor, SensorUse, SensorsConfig, Unseen, all};
use worker::owner::sight::{Reading, Sight};
use x11rb::connection::Connection;
use x11rb::protocol::xtest::ConnectionExt as _;

/// A test fails if what it waits for has not come by then.
const PATIENCE: Duration = Duration::from_secs(60);

macro_rules! tests {
    ($($name:ident),* $(,)?) => { &[$((stringify!($name), $name)),*] };
}

const TESTS: &[(&str, fn())] = tests![
    a_touch_is_told_at_once_and_nothing_else_is,
    devices_come_go_and_are_refused,
    a_host_without_input_devices_says_so,
    the_watcher_can_do_nothing_else,
    a_watcher_that_was_killed_is_replaced,
    sessions_tell_of_their_people,
    a_host_without_a_bus_has_no_sessions,
    a_key_press_on_a_display_is_told_at_once,
    a_touch_ends_a_pause_in_which_nobody_looked,
    a_display_that_cannot_be_read_is_not_known,
];

fn main() {
    worker::spawner::main_if_asked();
    let args: Vec<String> = std::env::args().skip(1).collect();
    runner::run(&args, TESTS, |test| test());
}

/// A configuration with every sensor off.
fn nothing() -> SensorsConfig {
    let off = SensorUse::Off;
    // Patience above any pause: what wakes a test up is an event, not the clock.
    let input_every = ConfigDuration::from_secs(600);
    SensorsConfig {
        evdev: off,
        logind: off,
        x11: off,
        load: off,
        memory: off,
        power: off,
        input_every,
        ..SensorsConfig::default()
    }
}

fn only(config: &SensorsConfig) -> Box<dyn Sensor> {
    let mut sensors = all(config);
    assert_eq!(sensors.len(), 1);
    sensors.pop().unwrap()
}

/// Looks until it sees what is wanted.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn idle(sight: &Sight) -> Option<Duration> {
    if let Sight::Seen(Reading::Idle(span)) = sight {
        Some((*span).into())
    } else {
        None
    }
}

/// Waits until nothing was touched for a while, touches, and looks whether that is told and then
/// seen.
fn expect_touch(sensor: &mut dyn Sensor, pause: Duration, touch: impl FnOnce()) {
    until("nobody touches anything", || {
        idle(&sensor.sense()).filter(|idle| *idle >= pause)
    });

    let before = Instant::now();
    touch();
    loop {
        sensor.wait(PATIENCE * 10);
        let sight = sensor.sense();
        let idle = idle(&sight).unwrap_or_else(|| panic!("{sight:?}"));
        // A display counts in whole milliseconds.
        if idle <= before.elapsed() + Duration::from_millis(1) {
            return println!("noticed after {:?}", before.elapsed());
        }
        assert!(
            before.elapsed() < PATIENCE,
            "{sight:?} {:?} after a touch",
            before.elapsed()
        );
    }
}

/// A host's input devices: named pipes, and what the system would say of each.
struct Devices(tempfile::TempDir);

impl Devices {
    fn new() -> Self {
        let devices = Self(tempfile::tempdir().unwrap());
        fs::create_dir(devices.0.path().join("input")).unwrap();
        devices
    }

    /// A device that says that it has these kinds of events and keys.
    fn add(&self, name: &str, ev: &str, key: &str, mode: u32) -> File {
        let dir = self
            .0
            .path()
            .join("sys/class/input")
            .join(name)
            .join("device/capabilities");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("ev"), ev).unwrap();
        fs::write(dir.join("key"), key).unwrap();

        let path = self.path(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(mode), 0).unwrap();
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .unwrap()
    }

    fn keyboard(&self, name: &str) -> File {
        self.add(name, "120013", "fffffffffffffffe", 0o600)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join("input").join(name)
    }

    fn sensor(&self) -> Box<dyn Sensor> {
        let input_dir = self.0.path().join("input");
        let sys_dir = self.0.path().join("sys");
        only(&SensorsConfig {
            evdev: SensorUse::Auto,
            input_dir,
            sys_dir,
            ..nothing()
        })
    }
}

/// The bytes of a `struct input_event`.
fn event(kind: u16, code: u16, value: i32) -> Vec<u8> {
    let time = [0; 2 * size_of::<usize>()];
    [
        &time[..],
        &kind.to_ne_bytes(),
        &code.to_ne_bytes(),
        &value.to_ne_bytes(),
    ]
    .concat()
}

fn key_press() -> Vec<u8> {
    [event(4, 4, 30), event(1, 30, 1), event(0, 0, 0)].concat()
}

fn a_touch_is_told_at_once_and_nothing_else_is() {
    let devices = Devices::new();
    let mut keyboard = devices.keyboard("event0");
    let mut lid = devices.add("event1", "21", "0", 0o600);
    let mut sensor = devices.sensor();
    let first = sensor.sense();
    assert!(
        idle(&first).is_some_and(|idle| idle < PATIENCE),
        "before the start nobody looked: {first:?}"
    );

    // More events than are ever read at a time, none of them a person's, and a lid, which is not
    // even opened.
    keyboard.write_all(&event(4, 4, 30).repeat(1_000)).unwrap();
    lid.write_all(&[event(5, 0, 1), event(1, 30, 1)].concat())
        .unwrap();
    for _ in 0..3 {
        expect_touch(&mut *sensor, Duration::from_millis(700), || {
            keyboard.write_all(&key_press()).unwrap();
        });
    }
}

fn devices_come_go_and_are_refused() {
    let devices = Devices::new();
    let mut sensor = devices.sensor();
    assert!(matches!(sensor.sense(), Sight::Absent(why) if why.contains("input")));

    let _power_button = devices.add("event0", "3", "10000000000000 0", 0o600);
    let mut keyboard = devices.keyboard("event1");
    until("a new device is seen", || idle(&sensor.sense()));
    expect_touch(&mut *sensor, Duration::from_millis(700), || {
        keyboard.write_all(&key_press()).unwrap();
    });

    // Its owner may not read it. Root may read everything, but the watcher has given that up.
    let _mouse = devices.add("event2", "17", "1f0000 0 0 0 0", 0o000);
    let why = until("a refused device is not known", || match sensor.sense() {
        Sight::Unknown(why) => Some(why),
        _ => None,
    });
    assert!(
        why.contains("event2") && why.contains("group `input`"),
        "{why}"
    );
    fs::set_permissions(devices.path("event2"), Permissions::from_mode(0o600)).unwrap();
    until("it may be read now", || idle(&sensor.sense()));
    for name in ["event0", "event1", "event2"] {
        fs::remove_file(devices.path(name)).unwrap();
    }

    until("everything is unplugged", || {
        matches!(sensor.sense(), Sight::Absent(_)).then_some(())
    });
}

fn a_host_without_input_devices_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let config = SensorsConfig {
        evdev: SensorUse::Auto,
        input_dir: dir.path().join("input"),
        ..nothing()
    };
    assert!(matches!(only(&config).sense(), Sight::Absent(why) if why.contains("there is no")));
}

/// The watcher of this process.
fn watcher() -> i32 {
    let me = std::process::id().to_string();
    let mine = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let parent = stat
            .rsplit(") ")
            .next()
            .and_then(|rest| rest.split(' ').nth(1))
            .unwrap_or_default()
            .to_owned();
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        parent == me && line.starts_with(b"deskgrid-input\0")
    };

    let mut pids = fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.find(mine).expect("a watcher runs")
}

fn the_watcher_can_do_nothing_else() {
    let devices = Devices::new();
    let _keyboard = devices.keyboard("event0");
    let mut sensor = devices.sensor();
    assert!(idle(&sensor.sense()).is_some());

    let pid = watcher();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or_default()
            .trim()
            .to_owned()
    };
    assert_eq!(
        (
            &*field("NoNewPrivs:"),
            &*field("Seccomp:"),
            &*field("Threads:")
        ),
        ("1", "2", "1"),
        "{status}"
    );

    for set in ["CapEff:", "CapPrm:", "CapInh:"] {
        assert_eq!(field(set).trim_matches('0'), "", "{status}");
    }

    let open: Vec<String> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .map(|to| to.to_string_lossy().into_owned())
        .collect();

    let known = |to: &String| {
        ["socket:", "anon_inode:inotify", "/dev/null"]
            .iter()
            .any(|k| to.starts_with(k))
            || to.ends_with("event0")
    };
    assert!(open.iter().all(known), "{open:?}");
    drop(sensor);
    assert!(
        !Path::new(&format!("/proc/{pid}")).exists(),
        "it ends with the sensor"
    );
}

fn a_watcher_that_was_killed_is_replaced() {
    let devices = Devices::new();
    let mut keyboard = devices.keyboard("event0");
    let mut sensor = devices.sensor();
    assert!(idle(&sensor.sense()).is_some());

    let pid = rustix::process::Pid::from_raw(watcher()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    sensor.wait(PATIENCE);

    let blind = sensor.sense();
    assert!(matches!(blind, Sight::Unknown(_)), "{blind:?}");
    assert!(idle(&sensor.sense()).is_some());
    expect_touch(&mut *sensor, Duration::from_millis(700), || {
        keyboard.write_all(&key_press()).unwrap();
    });
}

/// A process that ends with the test.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server that says one line when it is there.
fn serve(command: &mut Command) -> Option<(Server, String)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut line = String::new();
    let read = BufReader::new(child.stdout.take().unwrap()).read_line(&mut line);
    let server = Server(child);
    (read.unwrap() > 0).then(|| (server, line.trim().to_owned()))
}

/// A bus of its own, with its address.
fn bus() -> Option<(Server, String)> {
    serve(Command::new("dbus-daemon").args([
        "--session",
        "--nofork",
        "--nopidfile",
        "--print-address=1",
    ]))
}

/// A login manager on a bus of its own.
struct Logins {
    address: String,
    _bus: Server,
    _manager: Server,
}

impl Logins {
    fn start() -> Option<Self> {
        let (bus, address) = bus()?;

        let mut python = Command::new("/usr/bin/python3");
        let there = python
            .args(["-c", "import dbusmock"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !there {
            return None;
        }

        let mut mock = Command::new("/usr/bin/python3");
        mock.args(["-m", "dbusmock", "--system", "--template", "logind"])
            .env("DBUS_SYSTEM_BUS_ADDRESS", &address);

        let manager = Server(
            mock.stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap(),
        );
        let logins = Self {
            address,
            _bus: bus,
            _manager: manager,
        };
        until("the login manager is there", || {
            logins.call(
                "/org/freedesktop/login1",
                "org.freedesktop.DBus.Peer.Ping",
                &[],
            )
        });

        Some(logins)
    }

    /// Calls a method with arguments as `gdbus`-like words of `dbus-send`.
    fn call(&self, path: &str, method: &str, args: &[&str]) -> Option<()> {
        let mut send = Command::new("dbus-send");
        send.arg(format!("--bus={}", self.address)).args([
            "--print-reply",
            "--dest=org.freedesktop.login1",
            path,
            method,
        ]);

        send.args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .unwrap()
            .success()
            .then_some(())
    }

    fn login(&self, id: &str, person: &str) {
        let id = format!("string:{id}");
        let args = [
            &*id,
            "string:seat0",
            "uint32:500",
            &format!("string:{person}"),
            "boolean:true",
        ];
        self.call(
            "/org/freedesktop/login1",
            "org.freedesktop.DBus.Mock.AddSession",
            &args,
        )
        .expect("a session can be added");
    }

    /// Changes a property of a session; dbus-send has no nested types, so each goes by its own
    /// call.
    fn set(&self, id: &str, property: &str, value: &str) {
        let path = format!("/org/freedesktop/login1/session/{id}");
        let args = [
            "string:org.freedesktop.login1.Session",
            &format!("string:{property}"),
            &format!("variant:{value}"),
        ];
        self.call(&path, "org.freedesktop.DBus.Properties.Set", &args)
            .expect("a property can be set");
    }

    fn sensor(&self, config: &SensorsConfig) -> Box<dyn Sensor> {
        only(&SensorsConfig {
            logind: SensorUse::Auto,
            system_bus: self.address.clone(),
            ..config.clone()
        })
    }
}

fn sessions_tell_of_their_people() {
    let Some(logins) = Logins::start() else {
        return println!(
            "SKIPPED: no dbus-daemon with python3-dbusmock here (Debian: python3-dbusmock, dbus)"
        );
    };
    let mut sensor = logins.sensor(&nothing());
    let hours = |n: u64| Duration::from_secs(3_600 * n);
    let up = idle(&sensor.sense()).expect("nobody is logged in");
    let now = || {
        std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
    };
    let ago = |past: Duration| format!("uint64:{}", (now() - past).as_micros());

    logins.login("c1", "alice");
    logins.set("c1", "Type", "string:tty");
    logins.set("c1", "IdleSinceHint", &ago(Duration::from_secs(40)));

    let typed = idle(&sensor.sense()).expect("a terminal says when something was typed");
    assert!(
        (Duration::from_secs(40).min(up)..hours(1)).contains(&typed),
        "{typed:?}"
    );

    logins.set("c1", "IdleSinceHint", "uint64:0");
    logins.set("c1", "Remote", "boolean:true");

    let sight = sensor.sense();
    assert!(
        matches!(&sight, Sight::Unknown(who) if who.contains("alice") && who.contains("c1")),
        "no terminal: {sight:?}"
    );
    logins.set("c1", "IdleSinceHint", &ago(Duration::from_secs(40)));

    logins.login("c2", "bob");
    logins.set("c2", "Type", "string:x11");
    logins.set("c2", "Remote", "boolean:true");

    let sight = sensor.sense();
    assert!(
        matches!(&sight, Sight::Unknown(who) if who.contains("bob")),
        "{sight:?}"
    );
    logins.set("c2", "LockedHint", "boolean:true");
    sensor.wait(PATIENCE);

    let locked = idle(&sensor.sense()).expect("a locked desktop is left");
    assert!(
        locked < Duration::from_secs(60),
        "bob was there until now: {locked:?}"
    );

    logins.login("g1", "gdm");
    logins.set("g1", "Class", "string:greeter");
    logins.set("g1", "Remote", "boolean:true");
    assert!(idle(&sensor.sense()).is_some(), "a greeter is nobody");
    logins.set("c2", "LockedHint", "boolean:false");

    let mut trusting = logins.sensor(&SensorsConfig {
        unseen_sessions: Unseen::Ignore,
        ..nothing()
    });
    assert!(idle(&trusting.sense()).is_some());
}

fn a_host_without_a_bus_has_no_sessions() {
    let dir = tempfile::tempdir().unwrap();
    let system_bus = format!("unix:path={}/bus", dir.path().display());
    let sight = only(&SensorsConfig {
        logind: SensorUse::Auto,
        system_bus,
        ..nothing()
    })
    .sense();
    assert!(
        matches!(&sight, Sight::Absent(why) if why.contains("bus")),
        "{sight:?}"
    );

    let Some((_bus, address)) = bus() else {
        return println!("SKIPPED: no dbus-daemon here (Debian: dbus)");
    };
    let sight = only(&SensorsConfig {
        logind: SensorUse::Auto,
        system_bus: address,
        ..nothing()
    })
    .sense();
    assert!(
        matches!(&sight, Sight::Absent(why) if why.contains("login manager")),
        "{sight:?}"
    );
}

/// A display of its own; its server says the number once it is there.
fn display(args: &[&str]) -> Option<(Server, String)> {
    let mut server = Command::new("Xvfb");
    server
        .args([
            "-displayfd",
            "1",
            "-screen",
            "0",
            "64x64x24",
            "-nolisten",
            "tcp",
            // Else the server begins anew when its last client leaves, and drops whoever comes then.
            "-noreset",
        ])
        .args(args);

    serve(&mut server).map(|(server, number)| (server, format!(":{number}")))
}

fn a_key_press_on_a_display_is_told_at_once() {
    let Some((server, name)) = display(&[]) else {
        return println!("SKIPPED: no Xvfb here (Debian: xvfb)");
    };
    let mut sensor = only(&SensorsConfig {
        x11: SensorUse::Auto,
        displays: vec![name.clone()],
        ..nothing()
    });
    let (person, _) = x11rb::connect(Some(&name)).unwrap();
    press(&person);
    for _ in 0..5 {
        expect_touch(&mut *sensor, Duration::from_millis(700), || press(&person));
    }

    drop(server);
    sensor.wait(PATIENCE);
    until("the display is gone", || {
        matches!(sensor.sense(), Sight::Absent(_)).then_some(())
    });
}

fn press(person: &impl Connection) {
    for kind in [
        x11rb::protocol::xproto::KEY_PRESS_EVENT,
        x11rb::protocol::xproto::KEY_RELEASE_EVENT,
    ] {
        person
            .xtest_fake_input(kind, 38, 0, x11rb::NONE, 0, 0, 0)
            .unwrap();
    }
    person.flush().unwrap();
}

fn a_touch_ends_a_pause_in_which_nobody_looked() {
    let Some((_server, name)) = display(&[]) else {
        return println!("SKIPPED: no Xvfb here (Debian: xvfb)");
    };
    let config = SensorsConfig {
        x11: SensorUse::Auto,
        displays: vec![name.clone()],
        input_every: ConfigDuration::from_secs(20),
        ..nothing()
    };
    let mut sensor = only(&config);
    let (person, _) = x11rb::connect(Some(&name)).unwrap();

    for _ in 0..3 {
        press(&person);
        sensor.sense();
        std::thread::sleep(Duration::from_millis(700));
        let before = Instant::now();
        press(&person);
        sensor.wait(Duration::ZERO);
        assert!(
            before.elapsed() < config.input_every.0,
            "it waited until it was to look again"
        );
    }
}

fn a_display_that_cannot_be_read_is_not_known() {
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys");

    // One entry: any family, any address, every display.
    let counted = |text: &[u8]| [&u16::try_from(text.len()).unwrap().to_be_bytes(), text].concat();
    let entry = [
        vec![0xff, 0xff],
        counted(b""),
        counted(b""),
        counted(b"MIT-MAGIC-COOKIE-1"),
        counted(&[7; 16]),
    ]
    .concat();
    fs::write(&keys, entry).unwrap();

    let Some((_server, name)) = display(&["-auth", &keys.display().to_string()]) else {
        return println!("SKIPPED: no Xvfb here (Debian: xvfb)");
    };
    let config = SensorsConfig {
        x11: SensorUse::Auto,
        displays: vec![name.clone()],
        ..nothing()
    };
    let sight = only(&config).sense();
    assert!(
        idle(&sight).is_some(),
        "who may read the server's keys may look: {sight:?}"
    );

    // Where the system does not tell who serves the display, its keys have to be named.
    let hidden = SensorsConfig {
        proc_dir: dir.path().into(),
        ..config
    };
    let sight = only(&hidden).sense();
    assert!(
        matches!(&sight, Sight::Unknown(why) if why.contains(&name)),
        "{sight:?}"
    );

    let named = SensorsConfig {
        xauthority: keys,
        ..hidden
    };
    let sight = only(&named).sense();
    assert!(idle(&sight).is_some(), "{sight:?}");
}
