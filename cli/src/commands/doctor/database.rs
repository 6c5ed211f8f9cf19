//! Checks the database of a master whose store is in PostgreSQL.

use master::{DatabaseHealth, DatabaseSight};

use super::Finding;
use crate::state::StateDir;

/// Checks the database with this address; without one, names that of the master in the state
/// directory, if it has one.
pub(super) async fn findings(state: &StateDir, address: Option<String>) -> Vec<Finding> {
    let Some(address) = address else {
        let place = master::operations::database_of(state.root());
        return place.iter().map(|place| not_looked_at(place)).collect();
    };

    // It waits for the database on its own threads.
    let look = move || master::operations::database(&address);
    let found = tokio::task::spawn_blocking(look).await.unwrap_or_default();
    found.into_iter().map(finding).collect()
}

fn not_looked_at(place: &str) -> Finding {
    Finding::note(
        "database",
        format!(
            "the store of the master here is in PostgreSQL at {place}, which was not looked at"
        ),
        "deskgrid doctor --store postgres://… as in master start, or --master-config with the file that names it",
    )
}

fn finding((check, found): (&str, DatabaseSight)) -> Finding {
    let check = format!("database: {check}");
    match found.health {
        DatabaseHealth::Well => Finding::ok(check, found.what),
        DatabaseHealth::Note => Finding::note(check, found.what, found.todo),
        DatabaseHealth::Wrong => Finding::wrong(check, found.what, found.todo),
    }
}
