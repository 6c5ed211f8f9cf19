//! `deskgrid master backup`, `check` and `restore` in a program without a master: they say so.

use std::path::Path;

use super::Context;
use crate::failure::{Exit, Failure};

fn no_master() -> Failure {
    let hint = "run it on Linux, where the master is";
    Failure::usage(
        "this program was built for Windows, without the master",
        hint,
    )
}

/// Not here.
pub(super) fn backup(_: &Context, _: &Path) -> Result<Exit, Failure> {
    Err(no_master())
}

/// Not here.
pub(super) fn check(_: &Context, _: bool) -> Result<Exit, Failure> {
    Err(no_master())
}

/// Not here.
pub(super) fn restore(_: &Context, _: &Path) -> Result<Exit, Failure> {
    Err(no_master())
}
