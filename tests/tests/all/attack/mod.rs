//! What the attacks on the grid found, each row as a scenario that holds now.

mod stuck;
