//! Decides which task runs on which host, and when: events in, effects out, one step at a time.
//!
//! [`Scheduler::step`] takes the time and one [`Event`], and appends [`Effect`]s to a list; it is
//! total. Carry out all effects of a step before the next one: make durable what has to be, then
//! send. [`Scheduler::next_wakeup`] says when to call `step` with [`Event::Tick`] though nothing
//! happens. Everything else on [`Scheduler`] only answers questions.
//!
//! ```
//! use common::{Incarnation, Time};
//! use scheduler::{Effect, Event, Scheduler, Settings};
//!
//! let mut scheduler = Scheduler::new(Settings::default(), Incarnation(1));
//! let mut effects: Vec<Effect> = Vec::new();
//! let mut now = Time(0);
//! for _ in 0..3 {
//!     scheduler.step(now, Event::Tick, &mut effects);
//!     for effect in effects.drain(..) {
//!         println!("{effect:?}");
//!     }
//!     let Some(wakeup) = scheduler.next_wakeup() else { break };
//!     now = wakeup;
//! }
//! ```
//!
//! The modules, from the ground up; a module uses only those above it in this list: `collections`,
//! `prediction`, `protocol`, [`policy`], `state`, `forecast`, `handlers`, then the features
//! `deadline`, `disclosed`, `gang`, `windows` and `faults`, which do not use each other, and
//! `views`. Each `mod.rs` says what its module is for.
//!
//! There is no clock here (time is an argument), no input and output, no async, no randomness
//! without a seed and no hash order: the same events give the same effects.

mod collections;
mod deadline;
mod disclosed;
mod faults;
mod forecast;
mod gang;
mod handlers;
pub mod policy;
mod prediction;
mod protocol;
mod state;
mod views;
mod windows;

pub use deadline::admission::PlannedTask;
pub use deadline::status::Keeping;
pub use disclosed::billing;
pub use forecast::starts::{HostsWait, Starting};
pub use gang::width_choice::{Together, WidthOffer};
pub use policy::{Policy, catalogue};
pub use prediction::experience::Experience;
pub use prediction::lessons::{FIRST_RUNS, LearnedLimits};
pub use prediction::predict::Prediction;
pub use prediction::silence::Parting;
pub use prediction::widths::{WaitErrors, WidthRuns};
pub use prediction::{estimates, experience, malleable, predict, reservation, runs};
pub use protocol::effect::Effect;
pub use protocol::event::Event;
pub use protocol::{effect, event, record};
pub use state::after::Predecessor;
pub use state::host::GONE_AFTER;
pub use state::scheduler::Scheduler;
pub use state::settings::Settings;
pub use state::shares::{Sharing, UserShare};
pub use views::explain::{Doubt, Explanation, HeldUp};
pub use views::running::AttemptOutlook;
pub use views::status::{HostStatus, LiveAttempt};
