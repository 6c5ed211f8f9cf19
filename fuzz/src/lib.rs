//! The fuzz targets for cargo-fuzz. The ordinary tests take the same files by their paths.

#[cfg(feature = "cli")]
mod job_file;
mod targets;

#[cfg(feature = "cli")]
pub use job_file::job_file;
pub use targets::*;
