//! Refuses `deskgrid master backup`, `check`, `restore` and `move` in a program without a master.

use std::path::Path;

use super::Context;
use crate::args::serve::PlaceArgs;
use crate::failure::{Exit, Failure};

fn no_master() -> Failure {
    let hint = "run it on Linux, where the master is";
    Failure::usage(
        "this program was built for Windows, without the master",
        hint,
    )
}

/// Refuses: this program has no master.
pub(super) async fn backup(_: &Context, _: &Path, _: PlaceArgs) -> Result<Exit, Failure> {
    Err(no_master())
}

/// Refuses: this program has no master.
pub(super) fn check(_: &Context, _: PlaceArgs, _: bool) -> Result<Exit, Failure> {
    Err(no_master())
}

/// Refuses: this program has no master.
pub(super) async fn restore(_: &Context, _: &Path) -> Result<Exit, Failure> {
    Err(no_master())
}

/// Refuses: this program has no master.
pub(super) fn transfer(_: &Context, _: Option<&str>, _: Option<&str>) -> Result<Exit, Failure> {
    Err(no_master())
}
