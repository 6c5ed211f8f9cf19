//! Room tests.
