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

use crate::table::Table;

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

#[cfg(test)]
mod tests;
