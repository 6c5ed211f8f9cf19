//! The one test binary of the whole: the house rules, and the scenarios that run real processes
//! through the door `tests::Grid`. What one room can test alone is tested in that room.

mod attack;
mod chaos;
mod corpora;
mod days;
mod e2e;
mod hostile;
mod house;
mod masters;
