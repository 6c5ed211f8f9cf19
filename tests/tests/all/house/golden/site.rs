//! Values of the messages about settings from the master.

use common::Time;
use common::site::{
    HostSiteView, SiteAnswer, SiteScope, SiteSettings, SiteStanding, SiteText, SiteTextView,
};
use common::wire::client::{Reply, Request};
use common::wire::worker::{ToMaster, ToWorker};

fn scope() -> SiteScope {
    SiteScope::Label("lab3".parse().expect("a label"))
}

pub(super) fn to_worker() -> ToWorker {
    let text = |scope, text: &str| SiteText {
        scope,
        text: text.to_owned(),
    };
    ToWorker::Site(SiteSettings {
        digest: 1 << 40,
        texts: vec![
            text(SiteScope::All, "slots = 1"),
            text(scope(), ""),
            text(SiteScope::Host("office-12".to_owned()), "slots = 2"),
        ],
    })
}

pub(super) fn to_master() -> ToMaster {
    ToMaster::Site(SiteAnswer {
        digest: 1 << 40,
        refused: Some("there is no setting `x`".to_owned()),
    })
}

pub(super) fn change() -> Request {
    Request::SiteChange {
        scope: scope(),
        text: Some("slots = 1".to_owned()),
    }
}

pub(super) fn reply() -> Reply {
    let text = SiteTextView {
        scope: scope().to_string(),
        text: "slots = 1".to_owned(),
        by: "ann".to_owned(),
        at: Time(1_700_000_000_000_000),
    };
    let host = HostSiteView {
        host: "office-12".to_owned(),
        standing: SiteStanding::Refused,
        answered: Some(Time(1_700_000_000_000_001)),
        why: Some("there is no setting `x`".to_owned()),
    };
    Reply::Site(vec![text], vec![host])
}
