//! The API of deskgrid over HTTP: one router over the requests and replies of `common::wire`, in
//! the master and in every client that opens a gateway. Its types are also those of `--output json`.
//! Not here: who is let in at the master, and how a gateway reaches it.

pub mod json;
