//! Settings from the master in the running worker: they are taken or refused, bound the owner's
//! policy at once, are kept by another thread, and only then answered. What they may say is decided in
//! [`crate::site`].

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use common::host::HostFacts;
use common::site::{SiteAnswer, SiteReport, SiteSettings};
use common::wire::SITE_VERSION;
use common::wire::worker::ToMaster;
use common::{Span, Time};
use tokio::sync::mpsc::UnboundedSender;

use super::{LoopInput, Shell, share_disk};
use crate::config::Config;
use crate::owner;
use crate::owner::guard::Guard;
use crate::owner::rules::HostSize;
use crate::owner::sensors::{self, SensorStop, Timeouts};
use crate::owner::sight::Topic;
use crate::site::{SiteFile, SiteState};
use link::wall_clock;

/// The end of a write of settings.
#[derive(Debug)]
pub(super) struct SiteKept {
    version: u64,
    /// The answer to the master once they are kept.
    answer: SiteAnswer,
    kept: io::Result<()>,
}

/// The settings from the master, with what their sensors need.
pub(super) struct SiteKeeper {
    site: SiteState,
    file: SiteFile,
    room: HostSize,
    tell: UnboundedSender<LoopInput>,
    /// Whether a write is under way. What comes meanwhile is written, and answered, after it.
    writing: bool,
    /// Whether the master of this connection knows of settings.
    known: bool,
    /// The sensors that only the settings need, by their numbers.
    eyes: BTreeMap<usize, (Topic, SensorStop)>,
    /// Whether one of them could not be started.
    blind: bool,
}

impl SiteKeeper {
    /// Reads the settings that an earlier run kept.
    pub(super) fn open(
        dir: &Path,
        own: &Config,
        room: HostSize,
        tell: &UnboundedSender<LoopInput>,
    ) -> Self {
        Self {
            site: SiteState::open(dir, own, wall_clock()),
            file: SiteFile::below(dir),
            room,
            tell: tell.clone(),
            writing: false,
            known: false,
            eyes: BTreeMap::new(),
            blind: false,
        }
    }

    /// Returns the settings with which the worker runs from its start on, and the bytes that the
    /// cache may take: limits of the owner's own, and lower ones from the master. The host then
    /// lends no more.
    pub(super) fn bound(&mut self, dir: &Path, facts: &mut HostFacts) -> (Config, u64) {
        let mut config = self.own().clone();
        self.site.bound(&mut config);
        let lent = facts.slots;
        let room = HostSize {
            slots: config.slots_here(),
            memory_per_task: config.memory_limit_bytes,
            ..self.room
        };

        // A lower limit for each task makes room for more of them, and is not meant to.
        facts.slots = config.owner.slots_idle(&room).min(facts.slots);
        config.slots = facts.slots;
        config.say_of(facts, &room);
        self.room = HostSize {
            slots: facts.slots,
            ..room
        };

        // Fewer slots are no reason for larger parts of the disk.
        let cache_bytes = share_disk(&mut config, dir, lent);
        (config, cache_bytes)
    }

    /// Returns the owner's own settings.
    pub(super) fn own(&self) -> &Config {
        self.site.own()
    }

    /// Returns the number of slots of the worker.
    pub(super) fn slots(&self) -> u32 {
        self.room.slots
    }

    pub(super) fn timeouts(&self) -> Timeouts {
        Timeouts {
            pause: self.own().owner_poll(),
            patience: self.own().sensors.patience(),
        }
    }

    /// Bounds the owner's policy with the settings. Starts the sensors that only they need, and stops
    /// those that they need no more: nobody's keys are watched for a rule that is gone.
    pub(super) fn restrict(&mut self, policy: &mut Guard, now: Time) {
        let rules = self.site.strictest(self.room.cores);
        let heeds = |topic| rules.as_ref().is_some_and(|rules| rules.heeds(topic));
        let anew = std::mem::take(&mut self.blind);
        self.eyes.retain(|_, (topic, stop)| {
            let stays = heeds(*topic) && !anew;
            if !stays {
                stop.stop();
            }
            stays
        });
        policy.leave(|number| self.eyes.contains_key(&number));

        let eyes = rules.as_ref().map_or_else(Vec::new, |rules| {
            owner::more_eyes(self.own(), rules, policy.sensors())
        });
        let named: Vec<_> = eyes
            .iter()
            .map(|sensor| (sensor.name().to_owned(), sensor.topic()))
            .collect();

        let first = policy.next_sensor();
        policy.restrict(now, rules, &self.room, named);
        for (number, sensor) in (first..).zip(eyes) {
            let topic = sensor.topic();
            match sensors::watch(number, vec![sensor], self.timeouts(), &self.tell) {
                Ok(stop) => drop(self.eyes.insert(number, (topic, stop))),
                Err(error) => {
                    // What has not looked counts as the owner's presence.
                    tracing::warn!(%error, "a sensor for the settings from the master cannot be started yet");
                    self.blind = true;
                }
            }
        }
    }

    /// Returns the time that a task may be suspended.
    pub(super) fn patience(&self) -> Option<Span> {
        let strictest = self.site.strictest(self.room.cores);
        strictest.as_ref().unwrap_or(&self.own().owner).patience()
    }

    pub(super) fn report(&self) -> SiteReport {
        self.site.report()
    }
}

impl Shell {
    /// Takes settings from the master, or refuses them.
    pub(super) fn take_site(&mut self, settings: SiteSettings) {
        self.site.site.take(settings, wall_clock());
        let now = self.now();
        self.site.restrict(&mut self.policy, now);
        self.engine.be_patient(self.site.patience());

        self.keep_site();
    }

    /// Tries again where sensors for the settings could not be started.
    pub(super) fn open_eyes(&mut self) {
        if self.site.blind {
            let now = self.now();
            self.site.restrict(&mut self.policy, now);
        }
    }

    /// Writes the settings, unless a write is under way.
    fn keep_site(&mut self) {
        let Some(answer) = self.site.site.answer().filter(|_| !self.site.writing) else {
            return;
        };

        self.site.writing = true;
        let file = self.site.file.clone();
        let version = self.site.site.version();
        let record = self.site.site.record();
        let tell = self.tell.clone();
        tokio::task::spawn_blocking(move || {
            let kept = SiteKept {
                version,
                answer,
                kept: file.write(&record),
            };
            let _ = tell.send(LoopInput::SiteKept(kept));
        });
    }

    /// Answers the master once the newest settings are durable.
    pub(super) fn answer_site(&mut self, written: SiteKept) {
        self.site.writing = false;
        if written.version < self.site.site.version() {
            self.keep_site();
        } else if self.site.known {
            self.say(ToMaster::Site(told(written.answer, written.kept)));
        }
    }

    /// Tells a master that knows of settings which ones this worker has. Those that are being
    /// written are told later.
    pub(super) fn say_site(&mut self, version: u16) {
        self.site.known = version >= SITE_VERSION;
        let tells = self.site.known && !self.site.writing;
        if let Some(answer) = self.site.site.answer().filter(|_| tells) {
            self.say(ToMaster::Site(answer));
        }
    }
}

/// Returns the answer, which is a refusal where the settings are not kept.
fn told(answer: SiteAnswer, kept: io::Result<()>) -> SiteAnswer {
    match (kept, &answer.refused) {
        (Err(error), None) => SiteAnswer {
            refused: Some(format!(
                "they hold until the worker ends, and cannot be kept: {error}"
            )),
            ..answer
        },
        _ => answer,
    }
}
