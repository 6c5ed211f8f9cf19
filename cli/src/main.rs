//! The `deskgrid` program.
fn main() {}
