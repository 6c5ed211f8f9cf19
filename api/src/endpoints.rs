//! The endpoints, by what they are about.

mod content;
mod events;
mod grid;
mod hosts;
mod jobs;
mod list;
mod peers;
mod submit;
mod tasks;
mod timeline;

use axum::http::Method;

use crate::table::{Row, Table};

/// Fills the table.
pub(crate) fn fill(table: &mut Table) {
    grid::add(table);
    jobs::add(table);
    submit::add(table);
    tasks::add(table);
    timeline::add(table);
    content::add(table);
    hosts::add(table);
    events::add(table);
    peers::add(table);
}

/// The row of something that is read.
fn get(path: &'static str, name: &'static str, about: &'static str) -> Row {
    let verb = Method::GET;
    Row {
        verb,
        path,
        name,
        about,
    }
}

/// The row of something that changes the grid.
fn post(path: &'static str, name: &'static str, about: &'static str) -> Row {
    let verb = Method::POST;
    Row {
        verb,
        path,
        name,
        about,
    }
}

#[cfg(test)]
mod tests;
