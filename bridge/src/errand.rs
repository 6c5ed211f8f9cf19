//! One attempt from its beginning to its end in the other grid: its inputs are brought there, it is submitted
//! as a job, followed, and its results are brought here. Whatever breaks off meanwhile is begun again.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use common::content::BlobHash;
use common::manifest::Manifest;
use common::needs::Label;
use common::view::OutputView;
use common::wire::RefusalCode;
use common::wire::client::{Reply, Request, Submission};
use common::wire::worker::{Errand, StagedInput, StagedKind};
use common::{AttemptId, BlobRef, JobId, JobSpec, Outcome, SubmitOptions};
use link::client::unexpected;
use link::retry::Backoff;
use link::{Client, LinkError, UnnamedPuts, content};
use tokio::sync::watch;
use worker::delegate::{Desk, Report};
use worker::engine::AttemptEnding;

use crate::journal::{Journal, JournalEntry};
use crate::order::{self, Grids};
use crate::other::{self, JobStanding, OtherGridWay, Standings};
use crate::verdict::{self, elsewhere};

/// The bounds of the pauses before something is tried again over a connection that is still there.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The same while this disk is full: what had come by then is fetched anew.
const FULL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(600));
/// The time after which is asked how a job stands of which nothing was told.
const LOOK: Duration = Duration::from_secs(300);
/// The most bytes of a job within the request.
const MAX_INLINE_SPEC: usize = 128 * 1024;

/// The state that every [`CarriedAttempt`] shares.
pub(crate) struct Shared {
    pub(crate) desk: Desk,
    pub(crate) journal: Journal,
    pub(crate) way: OtherGridWay,
    pub(crate) standings: Standings,
    pub(crate) label: Label,
    pub(crate) grids: Grids,
    /// The directory of results on their way.
    pub(crate) incoming: PathBuf,
    /// The contents that are being sent to the other grid, each by one errand.
    pub(crate) sending: Mutex<BTreeMap<BlobHash, Arc<tokio::sync::Mutex<()>>>>,
}

/// An attempt that is being carried.
pub(crate) struct CarriedAttempt {
    pub(crate) shared: Arc<Shared>,
    pub(crate) entry: JournalEntry,
    /// Whether it is in the journal: until then, nothing of it is in the other grid.
    pub(crate) noted: bool,
    /// Its job in the other grid.
    pub(crate) job: Option<JobId>,
    /// Whether it is to end.
    pub(crate) end: watch::Receiver<bool>,
    /// Whether its start was reported.
    pub(crate) started: bool,
    /// The files of its result that have come, in the order in which the result names them. They are kept from one
    /// try to the next.
    pub(crate) come: Vec<BlobRef>,
}

/// The reason why an errand does not go on.
enum Obstacle {
    /// It passes, and the errand is tried again.
    Passing(LinkError),
    /// It does not: the attempt ends with this [`Outcome`].
    Final(Outcome),
}

impl From<LinkError> for Obstacle {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Refused(refusal) if !LinkError::from(refusal.clone()).passing() => {
                let hint = match refusal.hint.is_empty() {
                    true => String::new(),
                    false => format!(" ({})", refusal.hint),
                };

                let why = elsewhere(&format!("{}{hint}", refusal.message));
                Self::Final(match refusal.code {
                    // A limit of its user or a right, no fault of this task: the host is to get nothing for a while.
                    RefusalCode::Conflict | RefusalCode::NotAuthorised => Outcome::NoRoom(why),
                    _ => Outcome::NotStarted(why),
                })
            }
            // This disk is full, or cannot be read.
            LinkError::File { .. } if error.is_full() => {
                Self::Final(Outcome::NoRoom(error.to_string()))
            }
            error @ LinkError::File { .. } => Self::Final(Outcome::NotStarted(error.to_string())),
            error => Self::Passing(error),
        }
    }
}

impl CarriedAttempt {
    /// Carries the attempt and reports its end.
    pub(crate) async fn run(mut self) {
        let ending = self.carry().await;
        // What has come is held for an ending that does not come.
        self.drop_come(0);
        if let Some(job) = self.job {
            self.shared.standings.forget(job);
        }
        let id = self.id();
        tracing::info!(attempt = %id, outcome = %ending.outcome, "an attempt has ended");
        self.shared.desk.report(Report::Ended(id, Box::new(ending)));
    }

    fn id(&self) -> AttemptId {
        self.entry.assignment.attempt
    }

    async fn carry(&mut self) -> AttemptEnding {
        if let Err(why) = order::command(&self.entry, &self.shared.grids) {
            return AttemptEnding::bare(Outcome::NotStarted(why.to_owned()));
        }

        let mut way = self.shared.way.clone();
        let mut pauses = Backoff::new(PAUSES.0, PAUSES.1);
        let mut while_full = Backoff::new(FULL.0, FULL.1);
        let mut heard = false;
        loop {
            let client = tokio::select! {
                client = way.wait_for(Option::is_some) => client.ok().and_then(|client| client.clone()),
                () = ends(&mut self.end), if !self.noted => {
                    return AttemptEnding::bare(Outcome::Stopped);
                }
            };
            let Some(client) = client else {
                // The bridge ends; the attempt is found again.
                return std::future::pending().await;
            };
            let had = self.come.len();
            match self.go(&client).await {
                Ok(ending) => return ending,
                Err(Obstacle::Final(outcome)) => return AttemptEnding::bare(outcome),
                Err(Obstacle::Passing(error)) => {
                    if self.come.len() > had {
                        pauses.reset();
                        // What came before the disk was full says nothing of its room.
                        if !error.is_full() {
                            while_full.reset();
                        }
                    }
                    let pause = match error.is_full() {
                        true => {
                            // Of several results that wait for room for the rest of each, none would ever be whole.
                            self.drop_come(0);
                            while_full.delay()
                        }
                        false => pauses.delay(),
                    };
                    tracing::warn!(attempt = %self.id(), %error, ?pause, "an attempt does not come on; trying again");
                    let lost = client.connection().closed();
                    rest(pause, lost, &mut self.end, &mut heard).await;
                }
            }
        }
    }

    /// Goes on from wherever it is, over this connection.
    async fn go(&mut self, client: &Client) -> Result<AttemptEnding, Obstacle> {
        let job = match self.job {
            Some(job) => job,
            None => {
                let (job, nowhere) = self.place(client).await?;
                if let Some(why) = nowhere {
                    self.give_up(client, job, &why).await?;
                }
                self.note(job).await;
                job
            }
        };

        let mut news = self.shared.standings.watch(job);
        let Some(now) = other::standing(client, job).await? else {
            let why = elsewhere(&format!("there is no job {job} any more"));
            return Err(Obstacle::Final(Outcome::ResultLost(why)));
        };
        self.shared.standings.note(job, now);
        self.until_settled(client, job, &mut news).await?;

        let task = other::task(client, job).await?;
        let limit = self.entry.assignment.limit;
        let mut ending = match task {
            Some(task) => verdict::ending(&task, limit),
            None => AttemptEnding::bare(Outcome::ResultLost(elsewhere("the task is gone"))),
        };
        if *self.end.borrow() {
            ending.outcome = Outcome::Stopped;
            return Ok(ending);
        }
        let Some(output) = other::output(client, job).await? else {
            return Ok(ending);
        };
        self.collect(client, output, ending).await
    }

    /// Makes the attempt a job of the other grid, or finds the job that it is; with the reason why no host there suits it,
    /// if none does.
    async fn place(&mut self, client: &Client) -> Result<(JobId, Option<String>), Obstacle> {
        let unnamed = UnnamedPuts::over(client.connection());
        if !self.noted {
            self.bring_inputs(client, &unnamed).await?;
            let shared = Arc::clone(&self.shared);
            let entry = self.entry.clone();
            let noted = off(move || shared.journal.add(&entry)).await;
            noted.map_err(|error| {
                let why = format!("the bridge cannot note it: {error}");
                Obstacle::Final(Outcome::NoRoom(why))
            })?;
            self.noted = true;
            return self.submit(client).await;
        }

        match self.submit(client).await {
            Err(Obstacle::Final(_)) if *self.end.borrow() => Err(Obstacle::Final(Outcome::Stopped)),
            // Its inputs may be gone there, if nothing came of it before.
            Err(Obstacle::Final(_)) => {
                self.bring_inputs(client, &unnamed).await?;
                self.submit(client).await
            }
            placed => placed,
        }
    }

    /// Submits the attempt, whose inputs are there. Returns what [`Self::place`] does.
    async fn submit(&self, client: &Client) -> Result<(JobId, Option<String>), Obstacle> {
        let Shared { grids, label, .. } = &*self.shared;
        let spec = order::command(&self.entry, grids)
            .map(|command| order::job(&self.entry, command, grids));
        let spec = spec.map_err(|why| Obstacle::Final(Outcome::NotStarted(why.to_owned())))?;
        let submit = Request::Submit {
            id: grids.request(self.id()),
            spec: submission(client, spec, order::options(label)).await?,
            disclosed: false,
            dry_run: false,
        };
        match client.ask(&submit).await?.pop() {
            Some(Reply::Submitted {
                job: Some(job),
                again,
                nowhere,
                ..
            }) => {
                tracing::info!(attempt = %self.id(), %job, again, "an attempt is a job of the other grid");
                Ok((job, nowhere))
            }
            other => Err(unexpected(other.as_ref()).into()),
        }
    }

    /// Cancels a job that waits for a host that does not exist. Only once that was answered the attempt is over: until
    /// then the job may still run.
    async fn give_up(&self, client: &Client, job: JobId, why: &str) -> Result<(), Obstacle> {
        if other::standing(client, job).await? != Some(JobStanding::Waits) {
            return Ok(());
        }
        other::cancel(client, job)
            .await
            .map_err(Obstacle::Passing)?;
        let why = elsewhere(&format!("no host suits it: {why}"));
        Err(Obstacle::Final(Outcome::NotStarted(why)))
    }

    /// Notes the job that the attempt has become.
    async fn note(&mut self, job: JobId) {
        let id = self.id();
        let shared = Arc::clone(&self.shared);
        if let Err(error) = off(move || shared.journal.note(id, job)).await {
            // The request id finds the job all the same.
            tracing::warn!(attempt = %id, %job, %error, "a job cannot be noted");
        }
        self.job = Some(job);
        self.report_scratch();
    }

    /// States that were saved in this grid stay here.
    fn report_scratch(&self) {
        let command = order::command(&self.entry, &self.shared.grids).ok();
        let checkpoint = command.and_then(|command| command.checkpoint);
        if checkpoint.is_some_and(|checkpoint| checkpoint.from.is_some()) {
            let why = "a bridge carries no saved states to another grid".to_owned();
            self.shared.desk.report(Report::FromScratch(self.id(), why));
        }
    }

    /// Brings what the command reads to the other grid, unless it is there.
    async fn bring_inputs(
        &mut self,
        client: &Client,
        unnamed: &UnnamedPuts,
    ) -> Result<(), Obstacle> {
        let mut end = self.end.clone();
        self.entry.parts = tokio::select! {
            brought = self.bring_all(client, unnamed) => brought?,
            () = ends(&mut end) => return Err(Obstacle::Final(Outcome::Stopped)),
        };
        Ok(())
    }

    /// Brings each file and tree; returns the contents of the trees.
    async fn bring_all(
        &self,
        client: &Client,
        unnamed: &UnnamedPuts,
    ) -> Result<BTreeMap<BlobHash, Vec<BlobRef>>, Obstacle> {
        let Errand::Command(command) = &self.entry.assignment.work else {
            return Ok(BTreeMap::new());
        };

        let mut trees = BTreeMap::new();
        for input in &command.inputs {
            if input.kind == StagedKind::Tree {
                let parts = self.parts(input).await?;
                for part in &parts {
                    self.bring(client, *part).await?;
                    unnamed.add(*part);
                }
                trees.insert(input.blob.hash, parts);
            }
            self.bring(client, input.blob).await?;
            unnamed.add(input.blob);
        }
        Ok(trees)
    }

    /// Returns the contents of a tree beside its list.
    async fn parts(&self, tree: &StagedInput) -> Result<Vec<BlobRef>, Obstacle> {
        let list = self.input(tree.blob).await?;
        let path = list.path();
        let bytes = off(move || std::fs::read(path)).await;
        let manifest = bytes
            .ok()
            .and_then(|bytes| Manifest::from_bytes(&bytes).ok());
        manifest.map(|manifest| manifest.parts).ok_or_else(|| {
            let why = format!("the list of its tree `{}` cannot be read", tree.path);
            Obstacle::Final(Outcome::NotStarted(why))
        })
    }

    async fn input(&self, blob: BlobRef) -> Result<worker::delegate::InputFile, Obstacle> {
        self.shared.desk.input(blob).await.map_err(|error| {
            let why = format!("an input cannot be fetched: {error}");
            Obstacle::Final(match error.is_full() {
                true => Outcome::NoRoom(why),
                false => Outcome::NotStarted(why),
            })
        })
    }

    /// Brings one content; several errands that want the same one wait for each other.
    async fn bring(&self, client: &Client, blob: BlobRef) -> Result<(), Obstacle> {
        let file = self.input(blob).await?;
        let turn = {
            let mut sending = self
                .shared
                .sending
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            sending.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(sending.entry(blob.hash).or_default())
        };
        let _turn = turn.lock().await;
        Ok(content::put(client.connection(), &file.path(), blob).await?)
    }

    /// Waits until the job is settled; reports its start, and cancels it when it is to end.
    async fn until_settled(
        &mut self,
        client: &Client,
        job: JobId,
        news: &mut watch::Receiver<JobStanding>,
    ) -> Result<(), Obstacle> {
        let mut cancelled = false;
        loop {
            match *news.borrow_and_update() {
                JobStanding::Settled => return Ok(()),
                JobStanding::Runs if !self.started => {
                    self.started = true;
                    self.shared.desk.report(Report::Started(self.id()));
                }
                JobStanding::Runs | JobStanding::Waits => {}
            }

            if *self.end.borrow() && !cancelled {
                // For whatever reason it is refused, the job runs on.
                other::cancel(client, job)
                    .await
                    .map_err(Obstacle::Passing)?;
                cancelled = true;
                continue;
            }
            tokio::select! {
                _ = news.changed() => {}
                () = tokio::time::sleep(LOOK) => {
                    // An event may have been missed.
                    let now = other::standing(client, job).await?;
                    self.shared.standings.note(job, now.unwrap_or(JobStanding::Settled));
                }
                () = ends(&mut self.end), if !cancelled => {}
                lost = client.connection().closed() => {
                    return Err(Obstacle::Passing(lost));
                }
            }
        }
    }

    /// Brings the results here. They count once all of them are here and verified.
    async fn collect(
        &mut self,
        client: &Client,
        output: OutputView,
        mut ending: AttemptEnding,
    ) -> Result<AttemptEnding, Obstacle> {
        let blobs = blobs_of(&output);
        let mut end = self.end.clone();
        tokio::select! {
            come = self.fetch_rest(client, &blobs) => come?,
            () = ends(&mut end) => return Err(Obstacle::Final(Outcome::Stopped)),
        }

        ending.warnings = output.warnings;
        ending.stdout = output.stdout.0;
        ending.stderr = output.stderr.0;
        ending.outputs = output.files;
        // From here on the ending holds them.
        self.come.clear();
        Ok(ending)
    }

    /// Brings those of these contents that have not come yet.
    async fn fetch_rest(&mut self, client: &Client, blobs: &[BlobRef]) -> Result<(), Obstacle> {
        let pairs = self.come.iter().zip(blobs);
        let same = pairs.take_while(|(come, blob)| come == blob).count();
        self.drop_come(same);
        for blob in &blobs[same..] {
            self.fetch(client, *blob).await?;
        }
        Ok(())
    }

    /// Removes what has come of the result but for the first `kept` files.
    fn drop_come(&mut self, kept: usize) {
        let dropped = self.come.split_off(kept.min(self.come.len()));
        let hashes: Vec<BlobHash> = dropped.iter().map(|blob| blob.hash).collect();
        self.shared.desk.release(&hashes);
    }

    /// Brings one content to where results wait for the master, verified and durable.
    async fn fetch(&mut self, client: &Client, blob: BlobRef) -> Result<(), Obstacle> {
        // What came before a break is found again under this name.
        let AttemptId { task, number, .. } = self.id();
        let name = format!("{task}-{number}-{}", blob.hash);
        let path = self.shared.incoming.join(name);
        let fetched = client.fetch(blob, &path).await;
        fetched.map_err(|error| match error {
            LinkError::Refused(refusal) if refusal.code != RefusalCode::Unavailable => {
                let why = elsewhere(&refusal.message);
                Obstacle::Final(Outcome::ResultLost(why))
            }
            // The result is whole there, and waits until it can be had and this disk has room.
            error => Obstacle::Passing(error),
        })?;

        let desk = self.shared.desk.clone();
        let kept = off(move || {
            let kept = desk.keep(&mut File::open(&path)?);
            let removed = std::fs::remove_file(&path);
            let kept = kept?;
            removed.map(|()| kept)
        });
        match kept.await {
            Ok(kept) if kept == blob => {
                self.come.push(kept);
                Ok(())
            }
            Ok(damaged) => {
                self.shared.desk.release(&[damaged.hash]);
                Err(Obstacle::Passing(LinkError::Closed(
                    "a result was damaged on this host".to_owned(),
                )))
            }
            Err(error) => {
                let place = &self.shared.incoming;
                let error = LinkError::file("cannot keep a result in", place)(error);
                Err(Obstacle::Passing(error))
            }
        }
    }
}

/// Returns the contents of a result, in the order in which it names them.
fn blobs_of(output: &OutputView) -> Vec<BlobRef> {
    let streams = [&output.stdout.0, &output.stderr.0];
    let streams = streams
        .into_iter()
        .filter_map(|stream| stream.content.blob());
    let files = output.files.iter().map(|file| file.blob);
    streams.chain(files).collect()
}

/// Makes the [`Submission`] of a job, beside the request if it is long.
async fn submission(
    client: &Client,
    spec: JobSpec,
    options: SubmitOptions,
) -> Result<Submission, Obstacle> {
    let bytes = postcard::to_stdvec(&(&spec, &options)).map_err(|error| {
        Obstacle::Final(Outcome::NotStarted(format!(
            "it cannot be encoded: {error}"
        )))
    })?;

    if bytes.len() <= MAX_INLINE_SPEC {
        return Ok(Submission::Inline(Box::new(spec), options));
    }
    Ok(Submission::Blob(client.put_bytes(&bytes).await?))
}

/// Resolves once the attempt is to end.
async fn ends(end: &mut watch::Receiver<bool>) {
    if end.wait_for(|end| *end).await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// Waits before the next try: for so long, until the connection is lost, or until the attempt is to end. That is `heard` once;
/// where the end does not come on, either, its next try waits as any other.
async fn rest(
    pause: Duration,
    lost: impl Future,
    end: &mut watch::Receiver<bool>,
    heard: &mut bool,
) {
    tokio::select! {
        () = tokio::time::sleep(pause) => {}
        _ = lost => {}
        () = ends(end), if !*heard => *heard = true,
    }
}

/// Does something slow on another thread.
async fn off<T: Send + 'static>(
    work: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> std::io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|gone| Err(std::io::Error::other(gone)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    /// Whether a rest of an hour is over at once.
    async fn is_over(lost: impl Future, end: &mut watch::Receiver<bool>, heard: &mut bool) -> bool {
        tokio::select! {
            biased;
            () = rest(HOUR, lost, end, heard) => true,
            () = std::future::ready(()) => false,
        }
    }

    #[tokio::test]
    async fn a_pause_ends_once_when_the_attempt_is_to_end_and_whenever_the_connection_is_lost() {
        let (tell, mut end) = watch::channel(false);
        let mut heard = false;
        let there = std::future::pending::<()>;
        assert!(!is_over(there(), &mut end, &mut heard).await);
        assert!(is_over(async {}, &mut end, &mut heard).await);
        assert!(!heard);

        tell.send(true).unwrap();
        assert!(is_over(there(), &mut end, &mut heard).await);
        assert!(heard);
        // A cancellation that is refused for now is not tried again and again without a pause.
        assert!(!is_over(there(), &mut end, &mut heard).await);
        assert!(is_over(async {}, &mut end, &mut heard).await);
    }
}
