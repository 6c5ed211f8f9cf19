//! A client's session: each request on a stream of its own.

use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use common::selector::Selector;
use common::view::{ExplainView, TaskState};
use common::wire::client::{Reply, Request};
use common::wire::enrol::EnrolReply;
use common::wire::stream::Open;
use common::wire::{Refusal, RefusalCode, Versions};
use common::{JobId, Span, TaskId, Time};
use link::{Channel, LinkError};
use quinn::Connection;

use super::answer::Response;
use super::answers::{self, Answered, Asker, JobListing, NoAnswer, shortened};
use super::follow::follow;
use super::live::Busy;
use super::rights::needed;
use super::tail::tail;
use super::views::{Listing, in_frames};
use super::{NOT_NOW, accept, content, read_open, renew, within_deadline};
use crate::core::ask::TokenWish;
use crate::core::{NoReply, SiteViews};
use crate::run::SessionContext;
use crate::store::Peer;

/// The shortest time between two progress messages to a watcher.
const WATCH_PERIOD: Duration = Duration::from_millis(100);
/// The same where the grid is large: a message takes one part in so many of a watcher's time, since the
/// predictions in it are made for each anew; and the longest pause that comes of that.
const WATCH_SHARE: u32 = 50;
const WATCH_PERIOD_AT_MOST: Duration = Duration::from_secs(2);
/// The most entries in one reply; entries of ordinary size then stay far below the frame limit.
const CHUNK: usize = 100;
/// The most jobs in one reply about what was changed: each takes 15 bytes at most.
const CHANGED: usize = 10_000;
/// The most texts of settings in one reply.
const SITE_TEXTS: usize = 30;
/// Replies are sent once this many bytes have collected.
const FLUSH: usize = 64 * 1024;

/// Serves a client until its connection ends.
pub(super) async fn serve(
    state: &Arc<SessionContext>,
    connection: Connection,
    peer: Peer,
    busy: Busy,
) -> Result<(), LinkError> {
    loop {
        let channel = accept(&connection).await?;
        let state = state.clone();
        let peer = peer.clone();
        let connection = connection.clone();
        let busy = busy.clone();
        tokio::spawn(async move {
            if let Err(error) = serve_stream(&state, &peer, &connection, channel).await {
                tracing::debug!(user = peer.name, %error, "stream ended");
            }
            drop(busy);
        });
    }
}

/// Refuses what a client asks first, whoever it is.
pub(super) async fn refuse(connection: &Connection, refusal: Refusal) -> Result<(), LinkError> {
    let told = async {
        let mut channel = accept(connection).await?;
        match read_open(&mut channel).await? {
            Open::Request => {
                channel.rx.expect::<Request>().await?;
                channel.tx.send(&Reply::Refused(refusal)).await?;
            }
            Open::Renew { .. } => channel.tx.send(&EnrolReply::Refused(refusal)).await?,
            // A client greets the master before it asks for anything else.
            _ => return Ok(()),
        }

        channel.tx.finish();
        channel.tx.delivered().await;
        Ok(())
    };
    within_deadline(told).await
}

async fn serve_stream(
    state: &Arc<SessionContext>,
    peer: &Peer,
    connection: &Connection,
    mut channel: Channel,
) -> Result<(), LinkError> {
    match read_open(&mut channel).await? {
        Open::Request => serve_request(state, peer, connection, channel).await,
        Open::Renew { csr } => renew::serve(state, peer, Ok(&csr), channel).await,
        open => {
            // Each content stream takes one of the master's files.
            let _turn = state.counters.contents.enter(peer.id).await;
            content::serve(state, peer, open, channel).await
        }
    }
}

async fn serve_request(
    state: &Arc<SessionContext>,
    peer: &Peer,
    connection: &Connection,
    mut channel: Channel,
) -> Result<(), LinkError> {
    let request = within_deadline(channel.rx.expect::<Request>()).await?;
    let asked = name(&request);
    tracing::debug!(user = peer.name, request = asked, "request");

    let mut tx = Response::new(channel.tx, state.config.limits.answer_patience.0);
    let told = carry_out(state, peer, request, &mut tx).await;
    if matches!(told, Err(LinkError::Unread)) {
        state.refused(&peer.name, "read", &asked, NOT_READ);
        connection.close(NOT_NOW, NOT_READ.as_bytes());
    }

    told
}

/// The reason why a client loses its connection.
pub(super) const NOT_READ: &str = "the answer to a request was not read";

/// Carries a request out, in the user's turns and within its rights, and sends the answer.
pub(super) async fn carry_out(
    state: &Arc<SessionContext>,
    peer: &Peer,
    request: Request,
    tx: &mut Response,
) -> Result<(), LinkError> {
    let asked = name(&request);
    let asker = &Asker::new(state.clone(), peer, needed(&request, &peer.name));
    asker.pace().await;

    let watches = matches!(
        request,
        Request::Watch { .. } | Request::Follow(_) | Request::Tail { .. }
    );
    // A watcher waits most of the time, and takes a turn of its own for each message.
    let turn = if watches {
        None
    } else {
        Some(asker.answer_turn().await)
    };

    let answered = answer(asker, request, tx).await;
    let told = conclude(asker, &asked, answered, tx).await;
    drop(turn);
    told
}

/// Sends the end of an answer, and waits until the client has read it.
async fn conclude(
    asker: &Asker,
    asked: &str,
    answered: Answered<()>,
    tx: &mut Response,
) -> Result<(), LinkError> {
    match answered {
        Ok(()) => {}
        Err(NoAnswer::Refused(refusal)) if refusal.code == RefusalCode::NotAuthorised => {
            asker.refused("request", asked, &refusal.message);
            tx.push_if_fits(&Reply::Refused(refusal))?;
        }
        Err(NoAnswer::Refused(refusal)) => drop(tx.push_if_fits(&Reply::Refused(refusal))?),
        Err(NoAnswer::Link(error)) => return Err(error),
    }

    tx.flush().await?;
    tx.end().await
}

/// Returns the name of a request, as the audit log and messages have it: `token create`.
pub(super) fn name(request: &Request) -> String {
    let mut name = FirstWord::default();
    // It ends with an error where there is more than a word.
    let _ = write!(name, "{request:?}");
    let mut words = String::new();
    for c in name.0.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

/// Takes the first word of a text and refuses the rest: that of a request may be very long.
#[derive(Default)]
struct FirstWord(String);

impl Write for FirstWord {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        match text.split_once([' ', '(']) {
            None => {
                self.0.push_str(text);
                Ok(())
            }
            Some((end, _)) => {
                self.0.push_str(end);
                Err(std::fmt::Error)
            }
        }
    }
}

#[expect(clippy::too_many_lines, reason = "one arm for each request")]
async fn answer(asker: &Asker, request: Request, tx: &mut Response) -> Answered<()> {
    asker.authorise()?;
    match request {
        Request::Hello(versions) => {
            let version = Versions::ours()
                .agree(&versions)
                .map_err(NoAnswer::Refused)?;
            push(tx, &asker.welcome(version).await?)?;
        }
        Request::Submit {
            id,
            spec,
            disclosed,
            dry_run,
        } => {
            push(tx, &asker.submit(id, spec, disclosed, dry_run).await?)?;
        }
        Request::Jobs { jobs, states } => {
            send_jobs(asker, asker.job_listing(&jobs, states).await?, tx).await?;
        }
        Request::Watch {
            jobs,
            quiet,
            timeout,
        } => watch(asker, &jobs, quiet, timeout, tx).await?,
        Request::Tasks { job, tasks, states } => {
            let listing = asker.listing(job, &tasks).await?.only(&states);
            send_tasks(asker, listing, &states, tx).await?;
        }
        Request::Outputs { job, tasks } => {
            send_outputs(asker, asker.listing_of_outputs(job, &tasks).await?, tx).await?;
        }
        Request::AddTasks {
            id,
            job,
            tasks,
            dry_run,
        } => push(tx, &asker.add_tasks(id, job, tasks, dry_run).await?)?,
        Request::Close { jobs } => send_changed(tx, asker.close(&jobs).await?).await?,
        Request::Cancel { jobs, tasks } => {
            send_changed(tx, asker.cancel(&jobs, tasks).await?).await?;
        }
        Request::Retry {
            job,
            tasks,
            only_failed,
        } => push(tx, &asker.retry(job, tasks, only_failed).await?)?,
        Request::Recompute { job, tasks } => push(tx, &asker.recompute(job, &tasks).await?)?,
        Request::Forget { jobs } => send_changed(tx, asker.forget(&jobs).await?).await?,
        Request::Undecided { job } => send_undecided(tx, asker, job).await?,
        Request::Judge { attempt, agrees } => push(tx, &asker.judge(attempt, agrees).await?)?,
        Request::Estimates { user } => {
            send_list(tx, &asker.estimates(user).await?, Reply::Estimates).await?;
        }
        Request::Explain { job } => push_explained(tx, asker.explain(job).await?)?,
        Request::Running { job } => {
            send_all(tx, &asker.running(job).await?, Reply::Running).await?;
        }
        Request::Work { job } => push(tx, &asker.work(job).await?)?,
        Request::Accuracy => push(
            tx,
            &Reply::Accuracy(asker.read(crate::store::Reader::accuracy).await?),
        )?,
        Request::HostExplain { host } => push(tx, &asker.explain_host(host).await?)?,
        Request::HostsWait { hosts } => push(tx, &asker.hosts_wait(hosts).await?)?,
        Request::Hosts { names } if names.is_empty() => send_hosts(asker, tx).await?,
        Request::Hosts { names } => {
            send_all(tx, &asker.hosts(names).await?, Reply::Hosts).await?;
        }
        Request::Drain { host } => push(tx, &Reply::Hosts(asker.drain(host, true).await?))?,
        Request::HostOwner { host, owner } => {
            push(tx, &Reply::Hosts(asker.own(host, owner).await?))?;
        }
        Request::HostForget { host } => push(tx, &Reply::Hosts(asker.forget_host(host).await?))?,
        Request::HostLabels { host, add, remove } => {
            push(tx, &Reply::Hosts(asker.label(host, add, remove).await?))?;
        }
        Request::Site => send_site(asker.site().await?, tx).await?,
        Request::SiteChange { scope, text } => {
            send_site(asker.change_site(scope, text).await?, tx).await?;
        }
        Request::Update(order) => push(tx, &Reply::Updates(Box::new(asker.update(order).await?)))?,
        Request::Undrain { host } => push(tx, &Reply::Hosts(asker.drain(host, false).await?))?,
        Request::TokenCreate {
            role,
            ttl,
            uses,
            name,
            approval,
            speaks_for,
        } => {
            let wish = TokenWish {
                by: asker.user.clone(),
                role,
                ttl,
                uses,
                name,
                approval,
                ca_key_hash: asker.ca_key_hash(),
                speaks_for,
            };
            push(tx, &asker.create_token(wish).await?)?;
        }
        Request::Identities { names } => {
            send_all(tx, &asker.identities(names).await?, Reply::Identities).await?;
        }
        Request::Approve { name } => push(tx, &Reply::Identities(asker.approve(name).await?))?,
        Request::Revoke { name } => push(tx, &Reply::Identities(asker.revoke(name).await?))?,
        Request::Share { jobs, user, on } => {
            send_changed(tx, asker.share(&jobs, user, on).await?).await?;
        }
        Request::Audit { most } => {
            send_all(tx, &asker.audit_log(most).await?, Reply::Audit).await?;
        }
        Request::TokenList => send_list(tx, &asker.tokens().await?, Reply::Tokens).await?,
        Request::Availability {
            hosts,
            since,
            until,
        } => send_availability(asker, hosts, (since, until), tx).await?,
        Request::TokenRevoke { id } => push(tx, &asker.revoke_token(id).await?)?,
        Request::RequestTasks { job, tasks } => push(tx, &asker.request(job, tasks).await?)?,
        Request::CancelUnrequested { jobs } => {
            send_changed(tx, asker.drop_unrequested(&jobs).await?).await?;
        }
        Request::Account { user, jobs } => {
            send_list(tx, &asker.accounts(user, jobs).await?, Reply::Accounts).await?;
        }
        Request::Follow(following) => follow(asker, following, tx).await?,
        Request::Masters => push(tx, &Reply::Masters(Box::new(asker.masters().await?)))?,
        Request::HandOver => push(tx, &Reply::Masters(Box::new(asker.hand_over().await?)))?,
        Request::Tail { task, stream, from } => tail(asker, task, stream, from, tx).await?,
    }

    Ok(())
}

/// Sends results with those that they are to be compared with. What has no room in a message is left out, and refused
/// where nothing else waits: the results of other tasks can be compared first.
async fn send_undecided(tx: &mut Response, asker: &Asker, job: JobId) -> Answered<()> {
    let mut sent = false;
    let mut left_out = None;
    let mut last = None;
    while !sent {
        let all = asker.undecided(job, last).await?;
        if all.is_empty() {
            break;
        }
        for undecided in all {
            let attempt = undecided.result.attempt;
            last = Some(attempt);
            if tx.push_if_fits(&Reply::Undecided(Box::new(undecided)))? {
                sent = true;
                flush_if_full(tx).await?;
            } else {
                left_out.get_or_insert(attempt.task);
            }
        }
    }

    let Some(TaskId { job, index }) = left_out.filter(|_| !sent) else {
        return Ok(());
    };
    let what = format!(
        "the results of task {job}.{index} cannot be compared: the names of their files are too many for a message"
    );
    let hint = format!(
        "deskgrid job cancel {job} --tasks {index}, and have such a task leave fewer files, such as one archive"
    );
    Err(answers::refuse(RefusalCode::Conflict, what, hint))
}

/// Keeps a reply for the next flush, or refuses where it is too long.
pub(super) fn push(tx: &mut Response, reply: &Reply) -> Answered<()> {
    if tx.push_if_fits(reply)? {
        Ok(())
    } else {
        Err(too_long())
    }
}

/// Sends the numbers of what was changed in jobs, which is not undone where there are very many of them.
async fn send_changed(tx: &mut Response, reply: Reply) -> Answered<()> {
    for reply in in_replies(reply) {
        send(tx, &reply).await?;
    }
    Ok(())
}

/// Splits what was changed in very many jobs into replies that are each short enough for a message.
fn in_replies(reply: Reply) -> Vec<Reply> {
    match reply {
        Reply::Changed(jobs) if jobs.len() > CHANGED => {
            let portions = jobs.chunks(CHANGED);
            portions.map(|some| Reply::Changed(some.to_vec())).collect()
        }
        reply => vec![reply],
    }
}

/// Keeps an explanation for the next flush, shortened where it is too long for a message.
fn push_explained(tx: &mut Response, view: Box<ExplainView>) -> Answered<()> {
    let reply = Reply::Explained(view);
    if tx.push_if_fits(&reply)? {
        return Ok(());
    }
    match reply {
        Reply::Explained(view) => push(tx, &Reply::Explained(Box::new(shortened(*view)))),
        _ => Err(too_long()),
    }
}

fn too_long() -> NoAnswer {
    let what = "an entry of the answer is too long for a message";
    let hint = "ask for the others alone, or over the HTTP API";
    answers::refuse(RefusalCode::Unavailable, what, hint)
}

/// Sends these entries in as many replies as they need.
async fn send_all<T: Clone>(
    tx: &mut Response,
    entries: &[T],
    reply: impl Fn(Vec<T>) -> Reply,
) -> Answered<()> {
    let mut rest = entries;
    let mut most = CHUNK;

    while !rest.is_empty() {
        let (some, others) = rest.split_at(most.min(rest.len()));
        if tx.push_if_fits(&reply(some.to_vec()))? {
            flush_if_full(tx).await?;
            rest = others;
            most = CHUNK;
        } else if some.len() > 1 {
            most = some.len() / 2;
        } else {
            return Err(too_long());
        }
    }
    Ok(())
}

async fn send(tx: &mut Response, reply: &Reply) -> Answered<()> {
    push(tx, reply)?;
    flush_if_full(tx).await
}

async fn flush_if_full(tx: &mut Response) -> Answered<()> {
    if tx.pending() >= FLUSH {
        tx.flush().await?;
    }
    Ok(())
}

/// Sends settings for workers, some at a time: each may be long.
async fn send_site((texts, hosts): SiteViews, tx: &mut Response) -> Answered<()> {
    for chunk in texts.chunks(SITE_TEXTS) {
        send(tx, &Reply::Site(chunk.to_vec(), Vec::new())).await?;
    }
    send_all(tx, &hosts, |hosts| Reply::Site(Vec::new(), hosts)).await?;

    // None at all is an answer too.
    if texts.is_empty() && hosts.is_empty() {
        push(tx, &Reply::Site(texts, hosts))?;
    }
    Ok(())
}

/// Sends all hosts, some at a time: whoever has seen enough gives the answer up.
async fn send_hosts(asker: &Asker, tx: &mut Response) -> Answered<()> {
    let mut hosts = asker.hosts_after(None).await?;
    while let Some(last) = hosts.last() {
        let after = last.id;
        send_all(tx, &hosts, Reply::Hosts).await?;
        hosts = asker.hosts_after(Some(after)).await?;
    }
    Ok(())
}

async fn send_tasks(
    asker: &Asker,
    mut listing: Listing,
    states: &[TaskState],
    tx: &mut Response,
) -> Answered<()> {
    while let Some(mut views) = asker.next_tasks(&mut listing).await? {
        views.retain(|view| states.is_empty() || states.contains(&view.state));
        send_all(tx, &views, Reply::Tasks).await?;
    }
    Ok(())
}

async fn send_outputs(asker: &Asker, mut listing: Listing, tx: &mut Response) -> Answered<()> {
    while let Some(views) = asker.next_outputs(&mut listing).await? {
        for outputs in in_frames(views) {
            send(tx, &Reply::Outputs(outputs)).await?;
        }
    }
    Ok(())
}

async fn send_availability(
    asker: &Asker,
    hosts: Vec<String>,
    (since, until): (Time, Time),
    tx: &mut Response,
) -> Answered<()> {
    for host in asker.hosts(hosts).await? {
        let mut from = Some(since);
        while let Some(since) = from {
            let (view, next) = asker.availability(&host, since, until).await?;
            send(tx, &Reply::Availability(view)).await?;
            from = next;
        }
    }

    Ok(())
}

/// Sends a list in as many replies as it needs. An empty one is an answer too.
async fn send_list<T: Clone>(
    tx: &mut Response,
    entries: &[T],
    reply: impl Fn(Vec<T>) -> Reply,
) -> Answered<()> {
    if entries.is_empty() {
        return push(tx, &reply(Vec::new()));
    }
    send_all(tx, entries, reply).await
}

async fn send_jobs(asker: &Asker, mut listing: JobListing, tx: &mut Response) -> Answered<()> {
    let mut sent = false;
    while let Some(views) = asker.next_jobs(&mut listing).await? {
        if !views.is_empty() {
            sent = true;
            send_all(tx, &views, Reply::Jobs).await?;
        }
    }

    // An empty list of jobs is an answer too.
    if sent {
        Ok(())
    } else {
        push(tx, &Reply::Jobs(Vec::new()))
    }
}

/// Tells of the jobs at once, of the unsettled ones whenever something changes, and at the end. Jobs whose
/// share ends meanwhile are left out.
async fn watch(
    asker: &Asker,
    jobs: &Selector,
    quiet: bool,
    timeout: Option<Span>,
    tx: &mut Response,
) -> Answered<()> {
    let mut unshared = asker.unshared();
    let mut jobs = asker.pick(jobs).await?;
    let (mut changed, mut settled) = asker.counters();
    let over = tokio::time::sleep(
        timeout.map_or(Duration::from_secs(u64::from(u32::MAX)), Duration::from),
    );
    tokio::pin!(over);

    let mut first = true;
    let mut rest = jobs.clone();
    let mut pause = WATCH_PERIOD;
    loop {
        // A change from here on is seen in the next round.
        changed.mark_unchanged();
        settled.mark_unchanged();

        let open = asker.open_of(&rest).await?;
        let done = open.is_empty();
        if first || done || !quiet {
            // A watcher that hears of every change has heard of the jobs that settled before.
            let told = if quiet { jobs.clone() } else { rest };
            let _turn = asker.answer_turn().await;
            let asked = tokio::time::Instant::now();
            send_jobs(asker, JobListing::new(told, Vec::new()), tx).await?;
            tx.flush().await?;
            pause = (asked.elapsed() * WATCH_SHARE).clamp(WATCH_PERIOD, WATCH_PERIOD_AT_MOST);
        }

        rest = open;
        if done {
            return Ok(());
        }

        first = false;
        let stirred = async {
            if quiet {
                settled.changed().await.is_ok()
            } else {
                let changed = changed.changed().await.is_ok();
                let _ = tokio::time::timeout(pause, settled.changed()).await;
                changed
            }
        };
        tokio::pin!(stirred);
        loop {
            tokio::select! {
                biased;
                concerned = unshared.among(&jobs) => {
                    jobs = asker.still_seen(jobs, concerned?).await?;
                    rest = rest.intersection(&jobs);
                    if rest.is_empty() {
                        break;
                    }
                }
                () = &mut over => return send_jobs(asker, JobListing::new(jobs, Vec::new()), tx).await,
                // The watch ends with the client's stream.
                () = gone(tx) => return Ok(()),
                alive = &mut stirred => match alive {
                    true => break,
                    false => return Err(NoReply::Stopped.into()),
                },
            }
        }
    }
}

async fn gone(tx: &mut Response) {
    tx.gone().await;
}

#[cfg(test)]
mod tests {
    use common::JobId;

    use super::*;

    #[test]
    fn a_request_is_named_by_its_first_word() {
        assert_eq!(name(&Request::TokenList), "token list");
        assert_eq!(name(&Request::Hello(Versions::ours())), "hello");
        assert_eq!(name(&Request::Explain { job: JobId(7) }), "explain");
    }

    #[test]
    fn what_was_changed_in_very_many_jobs_comes_whole_in_replies_that_fit() {
        for count in [0, 1, CHANGED, 100_000] {
            let changed = |number: usize| (JobId(u32::MAX - number as u32), u64::MAX);
            let all: Vec<_> = (0..count).map(changed).collect();
            let mut told = Vec::new();
            for reply in in_replies(Reply::Changed(all.clone())) {
                assert!(common::wire::encode(&reply).is_ok(), "of {count}");
                let Reply::Changed(some) = reply else {
                    panic!("{reply:?}")
                };
                assert_eq!(some.is_empty(), count == 0);
                told.extend(some);
            }
            assert_eq!(told, all);
        }
        let none = in_replies(Reply::Changed(Vec::new()));
        assert_eq!(none.len(), 1, "none is an answer too");
    }

    #[test]
    fn what_follows_the_first_word_is_not_written() {
        /// Something whose content may not be looked at.
        struct Long;

        impl std::fmt::Debug for Long {
            fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                unreachable!("it would be very long")
            }
        }

        #[derive(Debug)]
        #[expect(dead_code, reason = "they are only written")]
        enum LongRequest {
            Fields { long: Long },
            Tuple(Long),
        }

        for (named, first) in [
            (LongRequest::Fields { long: Long }, "Fields"),
            (LongRequest::Tuple(Long), "Tuple"),
        ] {
            let mut word = FirstWord::default();
            assert!(write!(word, "{named:?}").is_err());
            assert_eq!(word.0, first);
        }
    }
}
