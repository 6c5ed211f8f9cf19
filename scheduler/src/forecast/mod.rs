//! When will a waiting job start, and when will so many hosts be free together?
//!
//! [`starts`] asks the models of `prediction` with the hosts and the queue as they are now. Asking
//! changes nothing. Answers are a median and an interval that should hold nine times in ten; where too
//! little is known there is none.
//!
//! When a job that has begun will end is said by `views::status`.

pub(crate) mod starts;
