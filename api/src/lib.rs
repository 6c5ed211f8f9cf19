//! The API of deskgrid over HTTP: one router over the requests and replies of `common::wire`, in
//! the master and in every client that opens a gateway. Its types are also those of `--output json`.
//! Not here: how the master decides who may do what, and how a gateway reaches it; both stand behind
//! [`Door`].

mod access;
mod answer;
mod body;
mod call;
mod content;
mod cursor;
mod door;
mod endpoints;
pub mod failures;
mod gate;
pub mod json;
mod problem;
mod router;
mod safety;
mod serve;
mod submit;
mod table;
mod ticket;
pub mod timeline;
mod way_in;

pub use access::GridAccess;
pub use call::Call;
pub use door::{Coming, Door, Entrance, FoundContent, Pieces, Replies, Who};
pub use gate::{Gate, Turn};
pub use problem::Problem;
pub use router::{SitePages, guarded, openapi, router, site};
pub use serve::{HttpBounds, serve};
pub use submit::{JobBody, usual_name};
pub use ticket::{OwnSocket, TICKET_LIFE, Tickets};
