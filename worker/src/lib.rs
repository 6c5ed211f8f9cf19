//! Room worker.
