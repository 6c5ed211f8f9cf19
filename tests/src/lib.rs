//! The door through which end-to-end tests speak to a real grid: `Grid` (see its own module). Only for tests.
