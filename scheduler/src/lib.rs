//! The pure brain of deskgrid: events in, effects out, one step at a time.
//!
//! What is not here: clocks (time is an argument), input and output, async, randomness without a seed, hash order.

pub mod effect;
pub mod event;

pub use effect::Effect;
pub use event::Event;
