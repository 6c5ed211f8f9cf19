//! The volunteer's side: takes attempts from the master, runs them while the owner lets it, and delivers what they
//! left.
mod os;
pub mod spawner;
