//! The machine's properties.
