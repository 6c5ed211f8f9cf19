//! Room link.
