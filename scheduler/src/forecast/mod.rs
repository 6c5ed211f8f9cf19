//! Forecasts: the start of a waiting job, and the wait for a number of free hosts.
//!
//! [`starts`] asks the models of `prediction` with the present hosts and queue. It changes nothing.
//! Answers are a median and an interval that should hold with a probability of 80 %; where too
//! little is known there is none.
//!
//! The completion of a job is predicted by `views::status`.

pub(crate) mod starts;
