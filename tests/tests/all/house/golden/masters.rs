//! Values of the messages by which masters are found, every field different from its default.

use common::token::Role;
use common::view::{MastersView, StandbyView};
use common::wire::enrol::EnrolReply;
use common::{Incarnation, Span, Time};

use super::values::{refusal, versions};

pub(super) fn view() -> MastersView {
    MastersView {
        address: "grid-1:7411".into(),
        incarnation: Incarnation(7),
        since: Time(1_700_000_000_000_000),
        store: "PostgreSQL at db:5432/grid".into(),
        standbys: vec![StandbyView {
            name: "process 7 on grid-2".into(),
            address: "grid-2:7411".into(),
            said: Span::from_millis(700),
        }],
    }
}

pub(super) fn enrol_replies() -> Vec<EnrolReply> {
    let certificate = vec![1, 2];
    let ca = vec![3];
    let name = "office-12".into();
    vec![
        EnrolReply::Enrolled {
            certificate,
            ca,
            role: Role::Worker,
            name,
        },
        EnrolReply::Refused(refusal()),
        EnrolReply::Here {
            versions: versions(),
            now: Time(1_700_000_000_000_000),
            incarnation: Incarnation(7),
        },
        EnrolReply::StandsBy {
            versions: versions(),
            now: Time(1_700_000_000_000_000),
            active: Some("grid-1:7411".into()),
            incarnation: Incarnation(7),
            trouble: Some("no answer".into()),
        },
        super::updates::enrolled(),
    ]
}
