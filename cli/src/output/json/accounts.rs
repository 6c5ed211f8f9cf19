//! The JSON of users' accounts.

use common::view::{AccountView, ShareView};
use serde::ser::SerializeMap;

use super::{Fields, Json, Object};

impl Object for AccountView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("user", &self.user);
        to.some("job", self.job.map(|job| job.0));
        to.field("tasks", self.tasks);
        to.field("requested", self.requested);
        to.field("finished", self.finished);
        to.field("used_s", self.used_s);
        to.field("billed_s", self.billed_s);
        to.field("free_s", self.free_s);
        to.field("kept_bytes", self.kept_bytes);
        to.field("scaled_if_all_billed", self.scaled_if_all_billed);
        to.field("scaled_by_waited_for", self.scaled_by_waited_for);
        to.field("visible_response_s", self.response_s);
        to.field("visible_slowdown", self.slowdown);
        to.some("share", self.share.as_ref().map(Json));
    }
}

/// A user's part of the grid; `due` is what users of their weights are due.
impl Object for ShareView {
    fn put<M: SerializeMap>(&self, to: &mut Fields<M>) {
        to.field("slots", self.slots);
        to.field("average_slots", self.average);
        to.field("part", self.part);
        to.field("due", self.due);
        to.field("weight", self.weight);
        to.field("most_running", self.most_running);
    }
}
