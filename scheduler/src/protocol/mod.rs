//! The scheduler's inputs and outputs: [`event`] has everything that can happen to it, [`effect`]
//! everything that it can ask for, [`record`] a recording of a run of both in bytes.
//!
//! Both enums are closed. An effect that refuses, ends or delays something carries its reason, and
//! that reason is shown to people. An event carries everything that its handling needs: nothing is
//! looked up elsewhere, so a recording of events replays to identical effects.
//!
//! Decisions are made in `handlers` and in the features.

pub mod effect;
pub mod event;
pub mod record;
