//! Room master.
