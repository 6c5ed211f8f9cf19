//! Answers that say why tasks wait, and what runs. In a large grid one would be too long for a message:
//! then some hosts and tasks of each reason are named, and the others counted.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use common::selector::parse_ids;
use common::text::plural;
use common::view::{DuplicateView, ExplainView, RunningView};
use common::{AttemptId, HostId, IdSet, JobId};

use crate::core::ask::{HostNames, JobAsk};

use super::{Answered, Asker, no_job};

/// The most duplicates that `explain` lists, so that the answer fits a message.
const SHOWN_DUPLICATES: u32 = 500;
/// The bytes that the hosts, and the reasons for waiting, take in an answer that was too long.
const SHORT: usize = 64 * 1024;
/// The hosts of one reason that are named there.
const NAMED: usize = 20;
/// The bytes that the tasks of one reason take there.
const SELECTOR: usize = 2_000;
/// The reason of hosts that are counted without theirs.
const OTHER_REASONS: &str = "for other reasons, each of few hosts";

impl Asker {
    pub(in crate::sessions) async fn running(&self, job: JobId) -> Answered<Vec<RunningView>> {
        self.pick_one(job).await?;
        self.core(JobAsk::Running(job)).await
    }

    pub(in crate::sessions) async fn explain(&self, job: JobId) -> Answered<Box<ExplainView>> {
        self.pick_one(job).await?;
        let explained: Box<Option<(ExplainView, HostNames)>> =
            self.core(JobAsk::Explain(job)).await?;
        if let Some((mut view, names)) = *explained {
            let named = |(attempt, host, why): (AttemptId, HostId, String)| {
                let host = names
                    .get(&host)
                    .cloned()
                    .unwrap_or_else(|| host.to_string());
                DuplicateView { attempt, host, why }
            };

            let live = self
                .read(move |reader| reader.live_duplicates(job, SHOWN_DUPLICATES))
                .await?;
            view.duplicates = live.into_iter().map(named).collect();
            view.job.reason = view.job.reason.or_else(|| self.state.blobs.trouble());
            return Ok(Box::new(view));
        }

        let job = self
            .read(move |reader| reader.job(job))
            .await?
            .ok_or_else(|| no_job(job))?;
        Ok(Box::new(ExplainView {
            job,
            waiting: Vec::new(),
            hosts: Vec::new(),
            duplicates: Vec::new(),
            share: None,
        }))
    }
}

/// Shortens an explanation that is too long for a message.
pub(in crate::sessions) fn shortened(view: ExplainView) -> ExplainView {
    let mut duplicates = view.duplicates;
    duplicates.truncate(SHOWN_DUPLICATES as usize / 5);
    ExplainView {
        waiting: shortened_waiting(view.waiting),
        hosts: shortened_hosts(view.hosts),
        duplicates,
        ..view
    }
}

/// Names some hosts of each reason and counts the others, beginning with hosts that take work and then with
/// the reason of most hosts: whether there are any that do must not be lost among other reasons.
fn shortened_hosts(hosts: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut by_reason = BTreeMap::<String, Vec<String>>::new();
    for (host, why) in hosts {
        by_reason.entry(why).or_default().push(host);
    }
    let mut groups: Vec<_> = by_reason.into_iter().collect();
    groups.sort_by_key(|(why, hosts)| (!takes_work(why), Reverse(hosts.len())));

    let mut rows = Vec::new();
    let mut room = SHORT;
    let mut left = 0;
    for (why, mut hosts) in groups {
        let more = hosts.len().saturating_sub(NAMED);
        let counted = (more > 0).then(|| ExplainView::more_hosts(more));
        let named = hosts.drain(..hosts.len() - more).chain(counted);
        let group: Vec<_> = named.map(|host| (host, why.clone())).collect();

        let bytes: usize = group.iter().map(length).sum();
        if left == 0 && bytes <= room {
            room -= bytes;
            rows.extend(group);
        } else {
            left += group.len() - usize::from(more > 0) + more;
        }
    }

    if left > 0 {
        rows.push((ExplainView::more_hosts(left), OTHER_REASONS.to_owned()));
    }
    rows
}

/// Whether this reason is that of a host that is free to take work.
fn takes_work(why: &str) -> bool {
    let kind = why.split_once(": ").map_or(why, |(kind, _)| kind);
    kind == "ready" || kind == "passed over"
}

/// Names some tasks of each reason and says how many there are more.
fn shortened_waiting(waiting: Vec<(String, String)>) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let mut room = SHORT;
    let mut left = Vec::new();
    for (why, tasks) in waiting {
        let row = some_tasks(why, tasks);
        if left.is_empty() && length(&row) <= room {
            room -= length(&row);
            rows.push(row);
        } else {
            left.push(row.1);
        }
    }

    if !left.is_empty() {
        let mut tasks = IdSet::new();
        for some in &left {
            tasks.union_with(&parse_ids(some).unwrap_or_default());
        }
        let why = plural(left.len() as u64, "other reason");
        rows.push(some_tasks(why, tasks.to_string()));
    }
    rows
}

/// Cuts a long selector of tasks between two of its parts. The reason then says how many tasks that leaves
/// out, so that the selector still reads back.
fn some_tasks(why: String, tasks: String) -> (String, String) {
    let cut = tasks
        .get(..SELECTOR)
        .and_then(|first| first.rfind(','))
        .filter(|_| tasks.len() > SELECTOR);
    let Some(cut) = cut else {
        return (why, tasks);
    };
    let more = parse_ids(&tasks[cut + 1..]).unwrap_or_default().len();
    let why = format!("{why} (so do {} not named here)", plural(more, "task"));
    (why, tasks[..cut].to_owned())
}

/// Returns about the bytes that a row takes in a message.
fn length((one, other): &(String, String)) -> usize {
    one.len() + other.len() + 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(rows: &[(String, String)]) -> usize {
        rows.iter().map(length).sum()
    }

    #[test]
    fn of_very_many_hosts_some_of_each_reason_are_named_and_the_others_counted() {
        let host = |number: usize| {
            let why = match number % 10 {
                0 => "ready: 1 of 4 slots free".to_owned(),
                // Each of these says something else.
                1 => format!("suspended: in-use, and its owner comes back in {number} s"),
                _ => "busy: 4 slots, 4 attempts held".to_owned(),
            };
            (format!("pc{number:05}"), why)
        };
        let rows = shortened_hosts((0..20_000).map(host).collect());
        assert!(bytes(&rows) <= SHORT + 100, "{} bytes", bytes(&rows));
        let counted = rows.iter().map(|(host, _)| ExplainView::left_out(host));
        assert_eq!(counted.map(|more| more.unwrap_or(1)).sum::<usize>(), 20_000);

        let busy = |row: &&(String, String)| row.1.starts_with("busy");
        let busy: Vec<_> = rows.iter().filter(busy).collect();
        assert_eq!((busy.len(), busy[0].0.as_str()), (NAMED + 1, "pc00002"));
        assert_eq!(busy[NAMED].0, "15980 more hosts");
        assert!(rows.iter().any(|(host, _)| host == "pc00010"));
        assert_eq!(
            rows.last().map(|(_, why)| why.as_str()),
            Some(OTHER_REASONS)
        );
    }

    #[test]
    fn few_hosts_that_take_work_are_named_beside_very_many_other_reasons() {
        let suspended = (0..4_000).map(|number| {
            let why = format!(
                "suspended: in-use, and its owner comes back in {} s",
                number / 2
            );
            (format!("pc{number:05}"), why)
        });
        let free = [
            ("one", "ready: 1 of 4 slots free"),
            ("two", "passed over: too slow"),
        ];
        let free = free.map(|(host, why)| (host.to_owned(), why.to_owned()));

        let rows = shortened_hosts(suspended.chain(free.clone()).collect());
        assert!(free.iter().all(|row| rows.contains(row)));
        let last = rows.last().map(|(_, why)| why.as_str());
        assert_eq!(last, Some(OTHER_REASONS));
    }

    #[test]
    fn scattered_tasks_are_cut_where_the_selector_still_reads_back() {
        let odd: IdSet = (0..60_000).map(|number| 2 * number + 1).collect();
        let rows = shortened_waiting(vec![("no slot is free".to_owned(), odd.to_string())]);
        let [(why, tasks)] = &rows[..] else {
            panic!("{rows:?}")
        };
        let named = parse_ids(tasks).unwrap();
        assert_eq!(named, odd.intersection(&named));
        let more = odd.len() - named.len();
        assert!(why.contains(&format!("{more} tasks not named")), "{why}");
        assert!(bytes(&rows) <= SELECTOR + 100);
    }

    #[test]
    fn very_many_reasons_for_waiting_end_with_their_number() {
        let held_up = |task: u32| (format!("suspended on pc{task} for 3m"), task.to_string());
        let rows = shortened_waiting((1..=9_000).map(held_up).collect());
        assert!(bytes(&rows) <= SHORT + SELECTOR + 100);
        let (why, tasks) = rows.last().cloned().unwrap();
        let listed = rows.len() as u32 - 1;
        assert_eq!(why, format!("{} other reasons", 9_000 - listed));
        assert_eq!(tasks, format!("{}-9000", listed + 1));
    }
}
