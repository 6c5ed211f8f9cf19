//! Defines the flags of `deskgrid content`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The examples below the help of `deskgrid content send`.
const SEND: &str = "\
Examples:
  deskgrid --output json content send sim params.csv
  deskgrid --output json content send --tree ./env
`submit` sends files by itself. This is for programs that submit over the API: what is printed goes into `input` there. The \
master drops content that no job has named after a while (`content_grace`, an hour).";

/// The verbs of `deskgrid content`.
#[derive(Debug, Subcommand)]
pub(crate) enum ContentCommand {
    /// Send files or directories to the master, and print their hashes, by which jobs can name them
    #[command(after_help = SEND)]
    Send(SendArgs),
}

/// The flags of `deskgrid content send`.
#[derive(Debug, Clone, Args)]
pub(crate) struct SendArgs {
    /// Send each directory or archive as a tree
    #[arg(long)]
    pub tree: bool,
    /// The files; with --tree the directories or archives
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
}
