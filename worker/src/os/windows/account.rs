//! Accounts for tasks: a worker on Windows gives its tasks none.

/// Returns an error: Windows accounts have no numeric ids such as `Confines::account` needs.
pub(crate) fn find(name: &str) -> Result<(u32, u32), String> {
    Err(format!(
        "tasks cannot have an account of their own on Windows, such as `{name}`"
    ))
}

/// Returns `None`: no task gets the account of nobody on Windows.
pub(crate) fn of_nobody() -> Option<(u32, u32)> {
    None
}

/// Returns the name of the account with this id.
pub(crate) fn name_of(user: u32) -> String {
    user.to_string()
}

/// Returns the name of the account of this process.
pub(crate) fn own() -> String {
    std::env::var("USERNAME").unwrap_or_else(|_| "the worker's account".to_owned())
}
