//! Settings for workers are sent to those whose version knows of them, and to no other.

#[path = "updates.rs"]
mod updates;

use common::site::{SiteAnswer, SiteScope, SiteStanding};
use common::wire::SITE_VERSION;

use super::*;

async fn set(admin: &Client, text: Option<&str>) {
    let request = Request::SiteChange {
        scope: SiteScope::All,
        text: text.map(str::to_owned),
    };
    let replies = within(admin.ask(&request)).await.unwrap();
    let of_site = |reply: &Reply| matches!(reply, Reply::Site(..));
    assert!(
        !replies.is_empty() && replies.iter().all(of_site),
        "{replies:?}"
    );
}

/// How the settings of the one host stand, with the reason of a refusal.
async fn standing(admin: &Client) -> (SiteStanding, Option<String>) {
    let replies = within(admin.ask(&Request::Site)).await.unwrap();
    let hosts = replies.into_iter().flat_map(|reply| match reply {
        Reply::Site(_, hosts) => hosts,
        other => panic!("{other:?}"),
    });
    let hosts: Vec<_> = hosts.collect();
    assert_eq!(hosts.len(), 1, "{hosts:?}");
    (hosts[0].standing, hosts[0].why.clone())
}

impl Worker {
    /// The next settings that it is sent.
    async fn site(&mut self) -> common::site::SiteSettings {
        loop {
            if let ToWorker::Site(settings) = self.next().await {
                return settings;
            }
        }
    }

    async fn answers(&mut self, digest: u64, refused: Option<&str>) {
        let refused = refused.map(str::to_owned);
        let answer = ToMaster::Site(SiteAnswer { digest, refused });
        self.tell(answer).await;
        self.heard().await;
    }

    /// Waits until the master has heard what was said before; false if settings came meanwhile.
    async fn heard(&mut self) -> bool {
        let came = self.before_next_beat().await;
        !came
            .iter()
            .any(|message| matches!(message, ToWorker::Site(_)))
    }

    /// Sends a heartbeat; returns what comes before its answer.
    pub(super) async fn before_next_beat(&mut self) -> Vec<ToWorker> {
        self.tell(heartbeat(Vec::new())).await;
        let mut came = Vec::new();
        loop {
            match self.next().await {
                ToWorker::Beat { .. } => return came,
                message => came.push(message),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_are_sent_at_once_and_at_each_connection_and_answers_are_kept() {
    let mut master = Master::start().await;
    let identity = master.enrol(Role::Worker, "pc").await;
    let mut worker = master.worker(&identity, Vec::new()).await;
    assert!(worker.heard().await, "there are no settings");

    let admin = master.admin().await;
    set(&admin, Some("slots = 1")).await;
    let sent = worker.site().await;
    assert_eq!(sent.texts[0].text, "slots = 1");
    assert_eq!(standing(&admin).await.0, SiteStanding::Waiting);
    worker.answers(sent.digest, Some("not\u{1b} here")).await;
    let refused = (SiteStanding::Refused, Some("not  here".to_owned()));
    assert_eq!(standing(&admin).await, refused);

    // A master that starts again knows the answer, and sends the same settings.
    drop(worker);
    master.restart_with(|_| ()).await;
    let admin = master.admin().await;
    assert_eq!(standing(&admin).await, refused);
    let mut worker = master.worker(&identity, Vec::new()).await;
    assert_eq!(worker.site().await, sent);
    worker.answers(sent.digest, None).await;
    assert_eq!(standing(&admin).await, (SiteStanding::Taken, None));

    // What was withdrawn while a host was away goes when it says that it has it.
    drop(worker);
    set(&admin, None).await;
    let mut worker = master.worker(&identity, Vec::new()).await;
    let still = SiteAnswer {
        digest: sent.digest,
        refused: None,
    };
    worker.tell(ToMaster::Site(still)).await;
    assert_eq!(worker.site().await, common::site::SiteSettings::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_of_an_earlier_version_works_on_and_is_sent_no_settings() {
    let master = Master::start().await;
    let identity = master.enrol(Role::Worker, "pc").await;

    let admin = master.admin().await;
    set(&admin, Some("slots = 1")).await;
    let old = hello_before(SITE_VERSION);
    let mut worker = master.worker_with(&identity, &old).await;
    assert!(matches!(worker.welcome, ToWorker::Welcome { version, .. } if version < SITE_VERSION));
    set(&admin, Some("slots = 2")).await;
    assert!(worker.heard().await);
    assert_eq!(standing(&admin).await.0, SiteStanding::TooOld);
    submit(&admin, 1, &noops(1)).await.unwrap();
    assert_eq!(worker.assignments(1).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_that_refuses_again_and_again_does_not_fill_the_audit_log() {
    let master = Master::start().await;
    let mut worker = master.host("pc").await;
    let admin = master.admin().await;
    set(&admin, Some("slots = 1")).await;
    let sent = worker.site().await;
    worker.answers(sent.digest + 1, Some("of none")).await;
    assert_eq!(standing(&admin).await, (SiteStanding::Waiting, None));
    for number in 0..20 {
        let why = format!("reason {number}");
        worker.answers(sent.digest, Some(&why)).await;
        worker.answers(sent.digest, None).await;
    }
    worker.answers(sent.digest, Some("the last")).await;
    let last = (SiteStanding::Refused, Some("the last".to_owned()));
    assert_eq!(standing(&admin).await, last);

    let entries = super::identity::audit(&master).await.into_iter();
    let refused: Vec<_> = entries
        .filter(|of| of.what == "settings" && !of.allowed)
        .collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert_eq!(refused[0].why, "reason 0");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_for_a_host_that_is_named_by_its_number_hold_for_it() {
    let master = Master::start().await;
    let mut worker = master.host("pc").await;
    let admin = master.admin().await;
    let change = |text: Option<&str>| Request::SiteChange {
        scope: SiteScope::Host("host-1".to_owned()),
        text: text.map(str::to_owned),
    };
    within(admin.ask(&change(Some("slots = 1")))).await.unwrap();
    let sent = worker.site().await;
    assert_eq!(sent.texts[0].scope, SiteScope::Host("pc".to_owned()));
    within(admin.ask(&change(None))).await.unwrap();
    assert_eq!(worker.site().await.digest, 0);
}
