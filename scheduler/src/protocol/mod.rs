//! The scheduler's two doors and their record: [`event`] is all that can happen to it, [`effect`] all
//! that it can want done, [`record`] a run of both in bytes.
//!
//! Both enums are closed. An effect that refuses, ends or delays something carries its reason, and that
//! reason is what people are shown. An event carries everything that its handling needs: nothing is
//! looked up elsewhere, so a recording of events replays to identical effects.
//!
//! Nothing is decided here. What an event changes is in `handlers` and in the features.

pub mod effect;
pub mod event;
pub mod record;
