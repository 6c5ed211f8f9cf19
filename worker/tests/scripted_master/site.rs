//! Settings from the master: answered once they are kept, told to each master that knows of them, and
//! never to one that does not.

use common::site::{SiteAnswer, SiteScope, SiteSettings, SiteText};
use common::wire::SITE_VERSION;

use super::*;

fn settings(digest: u64, text: &str) -> ToWorker {
    ToWorker::Site(SiteSettings {
        digest,
        texts: vec![SiteText {
            scope: SiteScope::All,
            text: text.to_owned(),
        }],
    })
}

impl Worker {
    /// What it says next of its settings.
    async fn site(&mut self) -> SiteAnswer {
        self.until(|message| match message {
            ToMaster::Site(answer) => Some(answer),
            _ => None,
        })
        .await
    }

    /// Whether it says anything of its settings until it has been heard twice.
    async fn speaks_of_site(&mut self) -> bool {
        let mut beats = 0;
        self.until(|message| {
            beats += usize::from(matches!(message, ToMaster::Heartbeat { .. }));
            match message {
                ToMaster::Site(_) => Some(true),
                _ => (beats >= 2).then_some(false),
            }
        })
        .await
    }
}

pub(super) async fn settings_are_kept_before_they_are_answered_and_told_to_masters_that_know_of_them()
 {
    let mut master = Master::new();
    let (stop, run) = master.start();
    let mut worker = master.welcome(Vec::new()).await;
    assert!(!worker.speaks_of_site().await, "it has none");
    let file = master.home().join("site.json");

    worker.tell(settings(5, "slots = 1")).await;
    let taken = SiteAnswer {
        digest: 5,
        refused: None,
    };
    assert_eq!(worker.site().await, taken);
    assert!(fs::read_to_string(&file).unwrap().contains("slots = 1"));

    worker.tell(settings(6, "confinement = \"process\"")).await;
    let refused = worker.site().await;
    let why = refused.refused.clone().unwrap();
    assert!(
        refused.digest == 6 && why.contains("only the PC's own"),
        "{why}"
    );
    assert!(fs::read_to_string(&file).unwrap().contains("slots = 1"));

    // A master of an earlier version hears nothing of them, in whatever order masters come.
    worker.connection.close(0u32.into(), b"");
    let mut worker = master.welcome_as(SITE_VERSION - 1).await;
    assert!(!worker.speaks_of_site().await);
    worker.connection.close(0u32.into(), b"");
    let mut worker = master.welcome(Vec::new()).await;
    assert_eq!(worker.site().await, refused);

    drop(stop);
    within(run).await.unwrap().unwrap();
    let (_stop, _run) = master.start();
    let mut worker = master.welcome(Vec::new()).await;
    assert_eq!(
        worker.facts.slots, 1,
        "a limit counts from the next start on"
    );
    assert_eq!(worker.site().await, refused);
}

pub(super) async fn of_settings_in_a_row_the_last_ones_hold_and_are_answered_last() {
    let mut master = Master::new();
    let (stop, run) = master.start();
    let mut worker = master.welcome(Vec::new()).await;
    for digest in 1..=200 {
        let text = format!("slots = {digest}");
        worker.tell(settings(digest, &text)).await;
    }
    let mut last = 0;
    while last < 200 {
        let SiteAnswer { digest, refused } = worker.site().await;
        assert!(digest > last && refused.is_none(), "{digest} after {last}");
        last = digest;
    }
    let kept = fs::read_to_string(master.home().join("site.json")).unwrap();
    assert!(kept.contains("\"slots = 200\""), "{kept}");
    assert!(!worker.speaks_of_site().await, "nothing of earlier ones");

    drop(stop);
    within(run).await.unwrap().unwrap();
}

/// The most memory that this process has had, in MiB.
fn peak_mib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    kib.unwrap().parse::<u64>().unwrap() / 1_024
}

pub(super) async fn settings_that_come_faster_than_they_can_be_read_do_not_pile_up() {
    let (_master, _stop, mut worker) = welcomed().await;
    let large = |digest| {
        let text = "slots = 1\n".to_owned() + &"#\n".repeat(1_400);
        let text = SiteText {
            scope: SiteScope::All,
            text,
        };
        ToWorker::Site(SiteSettings {
            digest,
            texts: vec![text; 66],
        })
    };
    worker.tell(large(1)).await;
    assert_eq!(worker.site().await.refused, None);
    let before = peak_mib();
    for digest in 2..=300 {
        worker.tell(large(digest)).await;
    }
    worker.tell(settings(301, "slots = 1")).await;
    worker
        .until(|message| match message {
            ToMaster::Site(answer) => (answer.digest == 301).then_some(()),
            _ => None,
        })
        .await;
    let grown = peak_mib() - before;
    assert!(grown < 24, "{grown} MiB for 300 messages of 185 KB");
}
