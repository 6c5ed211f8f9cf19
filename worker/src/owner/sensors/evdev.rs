//! Keyboards, mice and touchpads of this host, on whatever desktop, or on none: when one of them
//! was touched last.
//!
//! Whoever can read these devices can read passwords. So a process of its own does it
//! ([`watcher`]), which can do nothing else ([`confine`]) and says nothing but the time. This file
//! is the worker's end.

mod confine;
mod device;
mod watcher;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use common::Time;
use common::wire::frame;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use self::watcher::{DeviceDirs, Devices, WatcherMessage};
use super::{Sensor, SensorsConfig};
use crate::os;
use crate::owner::sight::{Reading, Sight, Topic};

/// The first argument with which the program is the watcher. For nobody but the worker itself.
pub(crate) const ARG: &str = "internal-input-watcher";
/// The longest time to wait for a new watcher's first word.
const FIRST_WORD: Duration = Duration::from_secs(2);

/// Runs the watcher; its standard input is the socket to the worker, its arguments are the two
/// directories. Returns its exit code.
pub(crate) fn watcher_main() -> i32 {
    os::close_inherited();
    let mut dirs = std::env::args_os().skip(2).map(PathBuf::from);
    let (Some(input), Some(sys)) = (dirs.next(), dirs.next()) else {
        return 2;
    };
    let Ok(worker) = rustix::io::dup(io::stdin()) else {
        return 1;
    };
    let places = DeviceDirs { input, sys };

    // Finds out how to read the clock, which it cannot any more once it is confined.
    let _ = os::since_boot();
    confine::confine(&places);

    // As a file: what is left to this process does not include the calls that are for sockets
    // alone.
    i32::from(watcher::watch(places, &File::from(worker)).is_err())
}

/// The sensor of input devices, by means of the watcher process.
pub(super) struct Evdev {
    program: PathBuf,
    places: DeviceDirs,
    every: Duration,
    watcher: Option<RunningWatcher>,
}

/// A running watcher, and its last messages.
struct RunningWatcher {
    child: Child,
    socket: UnixStream,
    inbox: Vec<u8>,
    devices: Option<Devices>,
    /// The time of the last touch. Before the watcher exists nobody knows it: its start is taken
    /// instead.
    touched: Time,
}

impl Evdev {
    pub(super) fn new(config: &SensorsConfig) -> Self {
        Self {
            program: os::this_program(),
            places: DeviceDirs {
                input: config.input_dir.clone(),
                sys: config.sys_dir.clone(),
            },
            every: config.input_every.0,
            watcher: None,
        }
    }
}

impl Sensor for Evdev {
    fn name(&self) -> &'static str {
        "evdev"
    }

    fn topic(&self) -> Topic {
        Topic::Input
    }

    fn sense(&mut self) -> Sight {
        let watcher = match &mut self.watcher {
            Some(watcher) => watcher,
            none => match RunningWatcher::start(&self.program, &self.places) {
                Ok(watcher) => none.insert(watcher),
                Err(error) => {
                    return Sight::Unknown(format!(
                        "the process that watches input devices does not start: {error}"
                    ));
                }
            },
        };

        match watcher.listen() {
            Ok(()) => watcher.sight(&self.places),
            Err(error) => {
                self.watcher = None;
                Sight::Unknown(format!(
                    "the process that watches input devices has ended ({error}); the next look starts another"
                ))
            }
        }
    }

    fn wait(&mut self, pause: Duration) {
        let pause = self.every.max(pause);
        let (Some(watcher), Ok(timeout)) = (&self.watcher, Timespec::try_from(pause)) else {
            return thread::sleep(pause);
        };
        // However it ends, it is time to look.
        let _ = poll(
            &mut [PollFd::new(&watcher.socket, PollFlags::IN)],
            Some(&timeout),
        );
    }
}

impl RunningWatcher {
    fn start(program: &PathBuf, places: &DeviceDirs) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        let args: [OsString; 2] = [places.input.clone().into(), places.sys.clone().into()];
        let child = Command::new(program)
            .arg0("deskgrid-input")
            .arg(ARG)
            .args(args)
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;

        Ok(Self {
            child,
            socket,
            inbox: Vec::new(),
            devices: None,
            touched: os::since_boot(),
        })
    }

    /// Takes the watcher's messages; waits for the first one (`FIRST_WORD`).
    fn listen(&mut self) -> io::Result<()> {
        loop {
            let first = self.devices.is_none();
            self.socket.set_nonblocking(!first)?;
            self.socket.set_read_timeout(first.then_some(FIRST_WORD))?;

            let mut bytes = [0; 1_024];
            match self.socket.read(&mut bytes) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.inbox.extend(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !first => return Ok(()),
                Err(error) => return Err(error),
            }

            while let Some(word) = self.word()? {
                match word {
                    WatcherMessage::Touched(at) => self.touched = self.touched.max(at),
                    WatcherMessage::Devices(devices) => self.devices = Some(devices),
                }
            }
        }
    }

    fn word(&mut self) -> io::Result<Option<WatcherMessage>> {
        let Some(prefix) = self.inbox.first_chunk::<{ frame::PREFIX }>() else {
            return Ok(None);
        };
        let end = frame::PREFIX + frame::length(*prefix).map_err(io::Error::other)?;
        let Some(bytes) = self.inbox.get(frame::PREFIX..end) else {
            return Ok(None);
        };
        let word = frame::decode(bytes).map_err(io::Error::other)?;
        self.inbox.drain(..end);
        Ok(Some(word))
    }

    fn sight(&self, places: &DeviceDirs) -> Sight {
        let dir = places.input.display();
        match self.devices.as_ref() {
            None => Sight::Unknown(
                "the process that watches input devices has said nothing yet".to_owned(),
            ),
            Some(Devices { listed: None, .. }) => Sight::Absent(format!("there is no {dir}")),
            Some(Devices {
                listed: Some(Err(why)),
                ..
            }) => Sight::Unknown(format!("cannot list {dir}: {why}")),
            Some(Devices {
                refused: Some((file, why)),
                ..
            }) => Sight::Unknown(format!(
                "cannot open {file}: {why}; run the worker as the system's service, or let its user into the group `input`"
            )),
            Some(Devices { watched: 0, .. }) => {
                Sight::Absent(format!("no device in {dir} that somebody could touch"))
            }
            Some(_) => Sight::Seen(Reading::Idle(os::since_boot().since(self.touched))),
        }
    }
}

impl Drop for RunningWatcher {
    fn drop(&mut self) {
        // It ends when this socket does; it has nothing to lose, so it is not asked.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
