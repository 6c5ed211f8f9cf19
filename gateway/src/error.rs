//! The errors that stop a gateway, in words for the person who started it.

use std::path::PathBuf;

use link::LinkError;

/// The reason why a gateway stopped, or did not start.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Another gateway uses this directory.
    #[error("another gateway is using {dir}: stop it, or give this one a directory of its own with --dir", dir = .0.display())]
    InUse(PathBuf),
    /// A connection or a file.
    #[error(transparent)]
    Link(#[from] LinkError),
}
