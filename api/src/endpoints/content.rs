//! Content by its hash, for programs that send files of a job and fetch results.

use super::get;
use crate::answer::Raw;
use crate::call::Call;
use crate::content::by_hash;
use crate::problem::Problem;
use crate::table::{NoBody, NoQuery, Table};

pub(super) fn add(table: &mut Table) {
    table.add(
        &get(
            "/content/{hash}",
            "content",
            "Sends content that a job of yours needs or left.",
        ),
        fetch,
    );
}

async fn fetch(call: Call, _: NoQuery, _: NoBody) -> Result<Raw, Problem> {
    let hash = call.param("hash").parse();
    let hash = hash.map_err(|error| Problem::invalid(format!("{error}"), ""))?;
    by_hash(&call, hash).await
}
