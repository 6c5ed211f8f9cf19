//! Room simulator.
