//! Forecasts: the start of a waiting job, the wait for a number of free hosts, and the completion of
//! a job.
//!
//! [`starts`] and [`finish`] ask the models of `prediction` with the present hosts and queue. They
//! change nothing. Answers are a median and an interval that should hold with a probability of 80 %;
//! where too little is known there is none.

pub(crate) mod finish;
pub(crate) mod overdue;
mod owners;
mod slots;
pub(crate) mod starts;
