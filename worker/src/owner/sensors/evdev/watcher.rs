//! The process that reads input devices, so that nothing else has to: it keeps the time of the last
//! event and nothing of what the events were, and tells that time to the worker. It ends when the
//! worker does.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use common::wire::frame;
use common::{Span, Time};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, inotify};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::device::{self, Chatter, DeviceKind, EVENT, Touch};
use crate::os;

/// The interval between reads while somebody is active: events meanwhile wait in the kernel, and
/// cost nothing.
const REST: Span = Span::from_millis(500);
/// The interval between looks for devices where nothing reports new ones.
const RESCAN: Span = Span::from_secs(60);
/// Events read at a time, and how often in a row: more than a device's queue holds.
const EVENTS: usize = 64;
const READS: usize = 16;

/// A message of the watcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum WatcherMessage {
    /// Somebody touched something, at this time since the host was started.
    Touched(Time),
    /// The input devices of the host.
    Devices(Devices),
}

/// The input devices of the host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Devices {
    /// Whether the directory of devices exists, or why it cannot be listed.
    pub listed: Option<Result<(), String>>,
    /// The number of watched devices.
    pub watched: u32,
    /// The first of those that somebody could sit at and that cannot be opened, with why.
    pub refused: Option<(String, String)>,
}

/// The directories to look in.
#[derive(Debug, Clone)]
pub(super) struct DeviceDirs {
    /// The directory of the devices.
    pub input: PathBuf,
    /// The directory of the system's descriptions of them.
    pub sys: PathBuf,
}

struct InputDevice {
    file: OwnedFd,
    chatter: Chatter,
}

struct Watcher<'a> {
    places: DeviceDirs,
    worker: &'a File,
    devices: BTreeMap<String, InputDevice>,
    news: Option<OwnedFd>,
    said: Option<Devices>,
    rested: Time,
    scanned: Time,
}

/// Watches until the worker is gone.
///
/// # Errors
/// If the worker cannot be told, which is its end.
pub(super) fn watch(places: DeviceDirs, worker: &File) -> io::Result<()> {
    let news = listen(&places);
    let mut watcher = Watcher {
        places,
        worker,
        devices: BTreeMap::new(),
        news,
        said: None,
        rested: Time(0),
        scanned: Time(0),
    };
    watcher.scan()?;
    while watcher.step()? {}

    Ok(())
}

/// Tells of devices that come, go, or may be opened now.
fn listen(places: &DeviceDirs) -> Option<OwnedFd> {
    let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK).ok()?;
    let news =
        inotify::WatchFlags::CREATE | inotify::WatchFlags::DELETE | inotify::WatchFlags::ATTRIB;
    // The directory itself may come later, with the first device.
    let found = [Some(&*places.input), places.input.parent()]
        .into_iter()
        .flatten();
    let watched = found
        .filter(|dir| inotify::add_watch(&fd, *dir, news).is_ok())
        .count();
    (watched > 0).then_some(fd)
}

impl Watcher<'_> {
    /// Waits for one thing to happen and deals with it; false once the worker is gone.
    fn step(&mut self) -> io::Result<bool> {
        let now = os::since_boot();
        let resting = self.rested > now;
        let until = if resting {
            self.rested
        } else {
            self.scanned + RESCAN
        };

        let timeout =
            Timespec::try_from(Duration::from(until.since(now)) + Duration::from_millis(1)).ok();

        let mut fds = vec![PollFd::new(self.worker, PollFlags::IN)];
        fds.extend(self.news.as_ref().map(|fd| PollFd::new(fd, PollFlags::IN)));

        let first = fds.len();
        if !resting {
            fds.extend(
                self.devices
                    .values()
                    .map(|device| PollFd::new(&device.file, PollFlags::IN)),
            );
        }

        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }

        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        if ready[0] {
            return Ok(false);
        }

        if first > 1 && ready[1] {
            self.hear();
            self.scan()?;
        } else {
            let names: Vec<String> = self
                .devices
                .keys()
                .cloned()
                .zip(&ready[first..])
                .filter(|(_, r)| **r)
                .map(|(n, _)| n)
                .collect();
            self.read(&names)?;
        }

        if os::since_boot() >= self.scanned + RESCAN {
            self.news = listen(&self.places);
            self.scan()?;
        }

        Ok(true)
    }

    /// Takes note that something is new; what, a look shows.
    fn hear(&self) {
        let Some(news) = &self.news else { return };
        let mut space = [MaybeUninit::uninit(); 4_096];
        let mut events = inotify::Reader::new(news, &mut space);
        while events.next().is_ok() {}
    }

    /// Reads these devices until they have nothing more, and tells if a person touched one.
    fn read(&mut self, names: &[String]) -> io::Result<()> {
        let now = os::since_boot();
        let mut person = false;
        for name in names {
            let Some(device) = self.devices.get_mut(name) else {
                continue;
            };
            match drain(&device.file) {
                Ok(touch) => person |= device.chatter.is_person(now, touch),
                // Unplugged.
                Err(_) => drop(self.devices.remove(name)),
            }
        }

        if !names.is_empty() {
            self.rested = now + REST;
        }

        if person {
            self.tell(&WatcherMessage::Touched(now))
        } else {
            Ok(())
        }
    }

    /// Looks which devices there are, opens those that are new, and tells if anything has changed.
    fn scan(&mut self) -> io::Result<()> {
        self.scanned = os::since_boot();
        let mut seen = Devices::default();
        let names: Vec<String> = match fs::read_dir(&self.places.input) {
            Ok(entries) => {
                seen.listed = Some(Ok(()));
                let names = entries
                    .flatten()
                    .filter_map(|entry| entry.file_name().into_string().ok());
                names.filter(|name| name.starts_with("event")).collect()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => {
                seen.listed = Some(Err(error.to_string()));
                Vec::new()
            }
        };

        self.devices.retain(|name, _| names.contains(name));
        for name in names {
            if self.devices.contains_key(&name) {
                continue;
            }

            let kind = device::kind(
                &self
                    .places
                    .sys
                    .join("class/input")
                    .join(&name)
                    .join("device"),
            );
            if kind == DeviceKind::Ignored {
                continue;
            }

            let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
            let file = self.places.input.join(&name);
            match OpenOptions::new()
                .read(true)
                .custom_flags(flags.bits().cast_signed())
                .open(&file)
            {
                Ok(file) => drop(self.devices.insert(
                    name,
                    InputDevice {
                        file: file.into(),
                        chatter: Chatter::default(),
                    },
                )),
                // Gone again.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if kind == DeviceKind::Seat && seen.refused.is_none() => {
                    seen.refused = Some((file.display().to_string(), error.to_string()));
                }
                Err(_) => {}
            }
        }

        seen.watched = u32::try_from(self.devices.len()).unwrap_or(u32::MAX);
        if self.said.as_ref() == Some(&seen) {
            return Ok(());
        }

        self.said = Some(seen.clone());
        self.tell(&WatcherMessage::Devices(seen))
    }

    fn tell(&self, word: &WatcherMessage) -> io::Result<()> {
        let bytes = frame::encode(word).map_err(io::Error::other)?;
        let mut worker = self.worker;
        worker.write_all(&bytes)
    }
}

/// Everything that a device has to say.
fn drain(file: &OwnedFd) -> io::Result<Touch> {
    let mut strongest = Touch::None;
    let mut events = [0; EVENTS * EVENT];
    for _ in 0..READS {
        match rustix::io::read(file.as_fd(), &mut events) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => strongest = strongest.max(device::touch(&events[..count])),
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(strongest)
}
