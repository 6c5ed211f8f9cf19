//! What is kept of what nobody has requested: whose share is full, who is told so, and whom it does
//! not concern.

use common::job::SPECULATIVE_POLICY;

use super::*;

/// Somebody who discloses, and what the worker prints for them.
pub(super) struct User {
    pub(super) client: Client,
    next: u128,
}

impl User {
    pub(super) async fn of(master: &Master, name: &str, number: u128) -> Self {
        Self {
            client: master.user(name).await,
            next: number * 1_000,
        }
    }

    pub(super) async fn disclose(&mut self, count: u32) -> JobId {
        self.next += 1;
        let rules = Rules {
            policy: SPECULATIVE_POLICY.to_owned(),
            ..Rules::default()
        };
        let spec = Submission::from(JobSpec {
            rules,
            ..noops(count)
        });
        let request = Request::Submit {
            id: RequestId(uuid::Uuid::from_u128(self.next)),
            spec,
            disclosed: true,
            dry_run: false,
        };
        submitted(&self.client, &request).await.unwrap().0
    }

    async fn job(&self, job: JobId) -> JobView {
        let mut views = job_views(&self.client, one(job), Vec::new()).await;
        views.remove(0)
    }

    async fn kept(&self) -> u64 {
        account(&self.client).await.kept_bytes
    }

    /// Whether tasks of a job wait since too much is kept of this user's.
    async fn is_held_back(&self, job: JobId) -> bool {
        let waiting = explain(&self.client, job).await.waiting;
        waiting
            .iter()
            .any(|(why, _)| why.contains("as much is kept"))
    }
}

impl Worker {
    /// Executes so many tasks, each of which prints so many bytes.
    pub(super) async fn executes(&mut self, tasks: u32, bytes: usize) {
        self.stdout = Content::Inline(vec![b'x'; bytes]);
        for _ in 0..tasks {
            let attempt = self.assignments(1).await.remove(0).attempt;
            self.finish(attempt).await;
        }
    }
}

fn six_thousand(config: &mut Config) {
    config.limits.unrequested_bytes = 6_000;
    config.limits.unrequested_bytes_per_user = 6_000;
}

/// How often the scheduler was told that somebody's share is full, or is not.
fn told(master: &Master) -> Vec<(String, bool)> {
    let shares = master
        .steps()
        .into_iter()
        .filter_map(|step| match step.event {
            Event::ShareFull { user, full } => Some((user, full)),
            _ => None,
        });
    shares.collect()
}

/// A master that records what its scheduler is told.
pub(super) async fn recorded(settings: fn(&mut Config)) -> Master {
    let mut master = Master::start().await;
    master.record = Some(master.dir.path().join("record"));
    master.restart_with(settings).await;
    master
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_whose_output_was_evicted_for_another_runs_on() {
    let mut master = recorded(six_thousand).await;
    let mut ann = User::of(&master, "ann", 1).await;
    let mut bob = User::of(&master, "bob", 2).await;
    let mut worker = master.host("pc").await;

    ann.disclose(2).await;
    worker.executes(2, 999).await;
    bob.disclose(3).await;
    worker.executes(3, 2_000).await;
    assert_eq!((ann.kept().await, bob.kept().await), (0, 6_000));

    let small = ann.disclose(9).await;
    worker.executes(9, 6).await;
    assert_eq!(
        (ann.job(small).await.state, ann.kept().await),
        (JobState::Finished, 54)
    );

    // Of the other one's something had to go, so that there is room again.
    let more = bob.disclose(1).await;
    assert!(!bob.is_held_back(more).await);
    master.stop().await;
    assert_eq!(
        told(&master),
        [("bob".to_owned(), true), ("bob".to_owned(), false)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_over_the_share_goes_on_once_others_freed_space() {
    let mut master = recorded(six_thousand).await;
    let mut bob = User::of(&master, "bob", 2).await;
    let mut cyd = User::of(&master, "cyd", 3).await;
    let mut worker = master.host("pc").await;

    cyd.disclose(3).await;
    worker.executes(3, 2_000).await;

    let held = cyd.disclose(6).await;
    assert!(cyd.is_held_back(held).await);
    bob.disclose(2).await;
    worker.executes(2, 2_000).await;
    assert_eq!((bob.kept().await, cyd.kept().await), (4_000, 2_000));
    assert!(!cyd.is_held_back(held).await);
    worker.executes(6, 1).await;
    assert_eq!(cyd.job(held).await.state, JobState::Finished);

    master.stop().await;
    assert_eq!(
        told(&master),
        [("cyd".to_owned(), true), ("cyd".to_owned(), false)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_fills_the_shared_space_is_held_back_alone() {
    let master = Master::with(|config| {
        config.limits.unrequested_bytes = 6_000;
        config.limits.unrequested_bytes_per_user = 1_000_000;
    })
    .await;
    let mut ann = User::of(&master, "ann", 1).await;
    let mut bob = User::of(&master, "bob", 2).await;
    let mut worker = master.host("pc").await;
    let much = ann.disclose(9).await;

    // The fourth has been started when the third one is kept.
    worker.executes(4, 2_000).await;
    assert!(ann.is_held_back(much).await && worker.waiting.is_empty());
    assert_eq!(
        (ann.job(much).await.tasks.finished, ann.kept().await),
        (4, 6_000)
    );

    let small = bob.disclose(2).await;
    worker.executes(2, 6).await;
    assert_eq!(
        (bob.job(small).await.state, bob.kept().await),
        (JobState::Finished, 12)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_over_the_share_is_held_back_until_output_is_released() {
    let master = Master::with(|config| {
        config.limits.unrequested_bytes = 1_000_000;
        config.limits.unrequested_bytes_per_user = 6_000;
    })
    .await;
    let mut ann = User::of(&master, "ann", 1).await;
    let mut worker = master.host("pc").await;

    // Two fit, and are less than nine tenths.
    let job = ann.disclose(9).await;
    worker.executes(4, 2_600).await;
    assert!(ann.is_held_back(job).await && worker.waiting.is_empty());
    assert_eq!(
        (ann.job(job).await.tasks.finished, ann.kept().await),
        (4, 5_200)
    );

    let tasks = Selector::Ids(IdSet::from_range(4, 4));
    let request = Request::RequestTasks { job, tasks };
    changed(&ann.client, &request).await;
    worker.executes(1, 6).await;
    assert_eq!(ann.kept().await, 2_606);
}
