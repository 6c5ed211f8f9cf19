//! What was tried against a grid from outside and from within, row by row, and what holds now: a
//! hostile client, a hostile worker, or a hostile task each time, against real processes.

mod bag;
mod confine;
mod content;
mod fleet;
mod gateways;
mod means;
mod shares;
mod stuck;
