//! Who sits at a Windows PC, put together from two sources: the sessions that the system lists, and
//! what a watcher in each session says of its keyboard and mouse. Pure: the system's calls and the
//! pipe are elsewhere.
//!
//! A service cannot see input itself. So a session of somebody at the PC that no watcher speaks for
//! counts as input that cannot be seen, and a change among the sessions as a sign of a person.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use common::{Span, Time};
use serde::{Deserialize, Serialize};

use super::Unseen;
use crate::owner::sight::{Reading, Sight};

/// The session of the services, in which nobody sits: `0`.
pub(crate) const OF_SERVICES: u32 = 0;
/// The longest line of a watcher's, in bytes.
pub(crate) const MAX_LINE: usize = 256;
/// The time after which a watcher without a word is silent. A watcher speaks every `BEAT`.
pub(crate) const SILENT: Span = Span::from_secs(10);
/// The most watchers at a time.
const MOST: usize = 256;
/// The longest pause between two words of a watcher's.
const BEAT: Span = Span::from_secs(2);
/// The shortest pause between two words that tell of nothing but input.
const TOUCH: Span = Span::from_secs(1);
/// Less than this that is missing of an idle time is no input: the system's clock goes in steps.
const STEP_MS: u64 = 100;

/// The state of a session at the moment, as the system lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionState {
    /// Somebody is logged on, and a screen shows it: here, or over the network (`WTSActive`).
    Active,
    /// Somebody is logged on, and no screen shows it: another user is at the PC, or the connection
    /// was closed.
    Disconnected,
    /// Nobody is logged on, as at the logon screen (`WTSConnected`).
    Nobody,
}

/// The words of a watcher on its session: one line of JSON. Keys that this version does not know are
/// skipped, so that a newer watcher is understood after an upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WatcherWord {
    /// The time without input, in milliseconds.
    pub idle_ms: u64,
    /// Whether the screen is locked.
    pub locked: bool,
    /// Whether a program fills the screen, such as a game, a film or a presentation.
    pub full_screen: bool,
}

impl WatcherWord {
    /// Reads a line of at most `MAX_LINE` bytes, without its end.
    ///
    /// # Errors
    /// If it is longer, or no such word.
    pub(crate) fn read(line: &[u8]) -> Result<Self, String> {
        if line.len() > MAX_LINE {
            return Err(format!("a line of more than {MAX_LINE} bytes"));
        }
        serde_json::from_slice(line).map_err(|error| format!("a line that is no word: {error}"))
    }

    /// Returns the time of the last input, by a word that came at this time.
    fn last_input(&self, came: Time) -> Time {
        Time(came.0.saturating_sub(self.idle_ms.saturating_mul(1_000)))
    }

    /// Returns the word as a line, with its end.
    pub(crate) fn line(&self) -> Vec<u8> {
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// The pace at which a watcher has to speak: at once when something changed, otherwise now and then.
#[derive(Debug, Default)]
pub(crate) struct WatcherPace {
    said: Option<(Time, WatcherWord)>,
}

impl WatcherPace {
    /// Whether this word is to be said at `now`; it counts as said then.
    pub(crate) fn due(&mut self, now: Time, word: WatcherWord) -> bool {
        let due = self.said.is_none_or(|(at, said)| {
            let silence = now.since(at);
            let untouched = said.idle_ms.saturating_add(silence.0 / 1_000);
            let touched = word.idle_ms.saturating_add(STEP_MS) < untouched;
            let turned = (word.locked, word.full_screen) != (said.locked, said.full_screen);
            turned || silence >= BEAT || (touched && silence >= TOUCH)
        });

        if due {
            self.said = Some((now, word));
        }
        due
    }
}

/// A watcher that is connected.
#[derive(Debug, Clone, Copy)]
struct ConnectedWatcher {
    session: u32,
    /// Its last word, and when it came.
    word: Option<(Time, WatcherWord)>,
}

/// The sights that come of the sessions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SessionSights {
    /// The time without input.
    pub input: Sight,
    /// A program that fills a screen.
    pub full_screen: Sight,
}

/// The sessions of this PC and their watchers.
#[derive(Debug)]
pub(crate) struct Sessions {
    unseen: Unseen,
    /// The last sign of a person so far.
    last: Time,
    /// The sessions with a person at the last look; `None` before the first.
    before: Option<BTreeMap<u32, SessionState>>,
    /// The watchers by the number of their connection.
    watchers: BTreeMap<u64, ConnectedWatcher>,
    /// The last program that was turned away, by its session, with the reason.
    refused: Option<(u32, String)>,
}

impl Sessions {
    /// Makes the state before any look. No sign from before `since` is known, so that counts as one.
    pub(crate) fn new(unseen: Unseen, since: Time) -> Self {
        Self {
            unseen,
            last: since,
            before: None,
            watchers: BTreeMap::new(),
            refused: None,
        }
    }

    /// Takes a watcher in, which has not spoken yet.
    ///
    /// # Errors
    /// If it is not in a session where anybody could sit, or there are too many.
    pub(crate) fn came(&mut self, connection: u64, session: u32) -> Result<(), String> {
        if session == OF_SERVICES {
            return Err("it runs in the session of the services, where nobody sits".to_owned());
        }
        if self.watchers.len() >= MOST {
            return Err(format!("there are {MOST} watchers already"));
        }
        let word = None;
        self.watchers
            .insert(connection, ConnectedWatcher { session, word });
        Ok(())
    }

    /// Takes a word of a watcher that came before.
    pub(crate) fn said(&mut self, connection: u64, now: Time, word: WatcherWord) {
        if let Some(watcher) = self.watchers.get_mut(&connection) {
            watcher.word = Some((now, word));
            self.last = self.last.max(word.last_input(now));
        }
    }

    /// Forgets a watcher that has gone.
    pub(crate) fn gone(&mut self, connection: u64) {
        self.watchers.remove(&connection);
    }

    /// Notes that a program of this session was turned away.
    pub(crate) fn refused(&mut self, session: u32, why: String) {
        self.refused = Some((session, why));
    }

    /// Puts together what is known now. `listed` are the sessions that the system lists, and
    /// `console` is the one that keyboard and screen of the PC itself belong to, if there is one.
    pub(crate) fn look(
        &mut self,
        now: Time,
        listed: &BTreeMap<u32, SessionState>,
        console: Option<u32>,
    ) -> SessionSights {
        let people = self.people(listed);
        if self.before.as_ref().is_some_and(|before| *before != people) {
            // Somebody has come, gone, or changed places.
            self.last = now;
        }

        let mut unseen = Vec::new();
        let mut full_screen = None;
        if let Some(console) = console.filter(|console| !listed.contains_key(console)) {
            unseen.push(format!(
                "the system lists its sessions without number {console}, which is at the screen"
            ));
        }

        // Nobody can touch what no screen shows: the moment at which it was left counts.
        for (&session, _) in people
            .iter()
            .filter(|(_, state)| **state == SessionState::Active)
        {
            match self.fills_screen(now, session) {
                Ok(true) => full_screen = full_screen.or(Some(session)),
                Ok(false) => {}
                Err(why) => unseen.push(why),
            }
        }

        self.before = Some(people);
        let unseen = match self.unseen {
            Unseen::Present => unseen.into_iter().next(),
            Unseen::Ignore => None,
        };
        self.sights(now, unseen, full_screen)
    }

    /// Returns the sessions with a person: those listed, and those that a watcher speaks from
    /// although they are not listed.
    fn people(&self, listed: &BTreeMap<u32, SessionState>) -> BTreeMap<u32, SessionState> {
        let speaking = self.watchers.values().filter(|w| w.word.is_some());
        let mut people: BTreeMap<u32, SessionState> = speaking
            .map(|watcher| (watcher.session, SessionState::Active))
            .collect();
        for (&session, &state) in listed {
            if state != SessionState::Nobody {
                people.insert(session, state);
            }
        }

        people.remove(&OF_SERVICES);
        people
    }

    /// Whether a program fills the screen of a session, by any of its watchers.
    ///
    /// # Errors
    /// Says why the session cannot be seen: it has no watcher, or one that is silent.
    fn fills_screen(&self, now: Time, session: u32) -> Result<bool, String> {
        let mut seen = None;
        for watcher in self.watchers.values().filter(|w| w.session == session) {
            let Some((_, word)) = watcher.word.filter(|(at, _)| now.since(*at) < SILENT) else {
                let told = if watcher.word.is_some() {
                    "since"
                } else {
                    "yet"
                };
                return Err(format!(
                    "the watcher of session {session} has not spoken {told}"
                ));
            };
            seen = Some(seen.unwrap_or(false) || (word.full_screen && !word.locked));
        }

        seen.ok_or_else(|| {
            let refused = self.refused.as_ref().filter(|(of, _)| *of == session);
            let refused = refused.map_or(String::new(), |(_, why)| {
                format!("; a program there was turned away: {why}")
            });
            format!("session {session} has no watcher, which starts when its user logs on{refused}")
        })
    }

    fn sights(&self, now: Time, unseen: Option<String>, full_screen: Option<u32>) -> SessionSights {
        let fills = full_screen
            .map(|session| format!("a program that fills the screen of session {session}"));
        match unseen {
            Some(why) => SessionSights {
                input: Sight::Unknown(why.clone()),
                full_screen: match fills {
                    Some(fills) => Sight::Seen(Reading::Program(Some(fills))),
                    None => Sight::Unknown(why),
                },
            },
            None => SessionSights {
                input: Sight::Seen(Reading::Idle(now.since(self.last))),
                full_screen: Sight::Seen(Reading::Program(fills)),
            },
        }
    }
}
