//! The door through which end-to-end tests and benchmarks speak to a real grid: real processes of
//! the built `deskgrid` on loopback, in a temporary directory, all gone when the door closes.
//!
//! What is not here: any knowledge of how the rooms work inside. Tests see what a person at a
//! terminal sees.

mod bench;
pub mod chaos;
mod display;
mod entry;
mod gateway;
mod grid;
mod http;
mod ports;
mod postgres;
mod process;
mod replica;

pub use bench::{argument, spread};
pub use display::Display;
pub use entry::WorkerGateway;
pub use gateway::Gateway;
pub use grid::{Grid, WorkerSetup};
pub use http::{Answer, Coming, Http};
pub use ports::free_addresses;
pub use postgres::Postgres;
pub use process::{
    Output, Started, alive_with, build_release, build_worker, children_processor_s, clean,
    eventually, lab, lab_json, processor_s, program, resident,
};
pub use replica::Replicated;
