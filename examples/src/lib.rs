//! Room examples.
