//! The requests that the picture needs, at most one a second for what is on the screen. What can be
//! pushed is not asked for: events come by themselves, and hint at jobs and hosts that have changed.

use common::selector::Selector;
use common::view::TaskState;
use common::wire::client::Request;
use common::{IdSet, JobId, Span};

use super::app::{App, OpenPage, Tab, TextOf};
use super::ask::{AskSlot, GridAsk};
use super::jobs::{older_jobs, open_jobs};
use super::tasks::TaskBook;

/// The time between two looks at what is on the screen, and at what is not.
pub(super) const SEEN: Span = Span(1_000_000);
pub(super) const UNSEEN: Span = Span(10_000_000);
/// The jobs that the reasons of a host are told for.
pub(super) const WHY_JOBS: usize = 4;
/// The failed tasks of a job that are named.
pub(super) const FAILURES: usize = 20;

impl App {
    /// Returns the requests that are due now.
    pub(crate) fn wants(&mut self) -> Vec<GridAsk> {
        self.arrange();
        if self.lost.is_none() {
            self.want_streams();
            self.want_page();
            if self.frozen.is_none() {
                self.want_lists();
            }
        }
        std::mem::take(&mut self.asks)
    }

    /// Sends a request that is answered once.
    pub(super) fn ask(&mut self, slot: AskSlot, request: Request, most: usize) {
        let serial = self.pacer.begin(slot, self.now.up);
        self.asks.push(GridAsk::Once {
            slot,
            serial,
            request,
            most,
        });
    }

    /// Whether everything in the picture has been answered.
    pub(crate) fn is_whole(&self) -> bool {
        let rows = self.rows();
        let seen = |slot| !self.pacer.is_new(slot) && !self.pacer.is_under_way(slot);
        let lists = self.jobs.board.loaded && self.hosts.loaded;

        lists
            && match self.tab {
                Tab::Jobs => {
                    let older = !self.jobs.needs_newest() && self.jobs.older(rows).is_none();
                    older && (!self.jobs.has_open(rows) || seen(AskSlot::SeenJobs))
                }
                Tab::Tasks => match self.tasks.job {
                    Some(_) => self.tasks.loaded && seen(AskSlot::SeenJobs),
                    None => true,
                },
                Tab::Hosts => true,
                Tab::Events => self.events.past,
            }
    }

    fn is_due(&self, slot: AskSlot) -> bool {
        self.pacer.is_due(slot, self.now.up)
    }

    fn want_streams(&mut self) {
        let stream = |app: &mut Self, slot, request| {
            let serial = app.pacer.begin(slot, app.now.up);
            app.asks.push(GridAsk::Stream {
                slot,
                serial,
                request,
            });
        };
        if self.is_due(AskSlot::Events) {
            let request = self.events.request();
            stream(self, AskSlot::Events, request);
        }

        if let Some(request) = self.events.past_request()
            && !self.events.past
            && self.is_due(AskSlot::PastEvents)
        {
            stream(self, AskSlot::PastEvents, request);
        }
        if let Some(OpenPage::Log(log)) = self.readings.last()
            && !log.settled
            && self.is_due(AskSlot::Log)
        {
            let request = log.request();
            stream(self, AskSlot::Log, request);
        }
    }

    /// The lists of which everything is in memory.
    fn want_lists(&mut self) {
        let rows = self.rows();
        if self.is_due(AskSlot::OpenJobs) {
            self.ask(AskSlot::OpenJobs, open_jobs(), usize::MAX);
        }
        if self.is_due(AskSlot::AllHosts) {
            let names = Vec::new();
            self.ask(AskSlot::AllHosts, Request::Hosts { names }, usize::MAX);
        }
        if self.jobs.needs_newest() && self.is_due(AskSlot::NewestJob) {
            let request = Request::Jobs {
                jobs: Selector::Last,
                states: Vec::new(),
            };
            self.ask(AskSlot::NewestJob, request, usize::MAX);
        }
        if self.tab == Tab::Jobs
            && self.is_due(AskSlot::OlderJobs)
            && let Some(ids) = self.jobs.older(rows)
        {
            let (request, most) = older_jobs(&ids);
            self.asked.insert(AskSlot::OlderJobs, ids);
            self.ask(AskSlot::OlderJobs, request, most);
        }

        if self.is_due(AskSlot::SeenJobs)
            && let Some(ids) = self.seen_jobs(rows)
        {
            let request = Request::Jobs {
                jobs: Selector::Ids(ids.clone()),
                states: Vec::new(),
            };
            self.asked.insert(AskSlot::SeenJobs, ids);
            self.ask(AskSlot::SeenJobs, request, usize::MAX);
        }
        if self.tab == Tab::Hosts && self.is_due(AskSlot::SeenHosts) {
            let seen = self
                .hosts
                .seen(rows)
                .map(|(host, _)| host.facts.name.clone());
            let names: Vec<String> = seen.collect();
            // No name would mean every host.
            if !names.is_empty() {
                self.ask(AskSlot::SeenHosts, Request::Hosts { names }, usize::MAX);
            }
        }
    }

    fn seen_jobs(&mut self, rows: usize) -> Option<IdSet> {
        match (self.tab, self.tasks.job) {
            (Tab::Jobs, _) => self.jobs.wanted(rows),
            // Not on the screen, but heard of.
            (_, job) => {
                let mut ids = self.jobs.wanted(0).unwrap_or_default();
                if let Some(job) = job.filter(|_| self.tab == Tab::Tasks) {
                    ids.insert(job.0);
                }
                (!ids.is_empty()).then_some(ids)
            }
        }
    }

    /// The tasks on the screen and the text that is read. In a frozen picture they are asked for once:
    /// somebody has gone there.
    fn want_page(&mut self) {
        let rows = self.rows();
        let wanted =
            |app: &Self, slot| app.is_due(slot) && (app.frozen.is_none() || app.pacer.is_new(slot));
        if self.tab == Tab::Tasks
            && wanted(self, AskSlot::Tasks)
            && let Some(request) = self.tasks.request(rows)
        {
            self.ask(AskSlot::Tasks, request, TaskBook::most(rows));
        }

        if wanted(self, AskSlot::Text)
            && let Some(request) = self.text_request()
        {
            self.ask(AskSlot::Text, request, FAILURES);
        }
    }

    fn has_failed(&self, job: JobId) -> bool {
        let view = self.jobs.board.entry(job.0);
        view.is_some_and(|view| view.tasks.failed > 0)
    }

    fn text_request(&self) -> Option<Request> {
        let Some(OpenPage::Text(of, ..)) = self.readings.last() else {
            return None;
        };

        Some(match of {
            TextOf::WhyJob(job, task, None) if task.is_some() || self.has_failed(*job) => {
                let this = task.map(|task| Selector::Ids(IdSet::from_range(task, task)));
                let failed = task.is_none().then_some(TaskState::Failed);
                Request::Tasks {
                    job: *job,
                    tasks: this.unwrap_or(Selector::All),
                    states: failed.into_iter().collect(),
                }
            }
            TextOf::WhyJob(job, ..) => Request::Explain { job: *job },
            TextOf::WhyHost(_, known) => {
                let waiting = self.jobs.board.all().filter(|job| job.tasks.waiting > 0);
                let some: Vec<_> = waiting.map(|job| job.job).take(WHY_JOBS).collect();
                let next = some.iter().find(|job| !known.contains_key(job));
                Request::Explain { job: *next? }
            }
            TextOf::Task(task) => Request::Tasks {
                job: task.job,
                tasks: Selector::Ids(IdSet::from_range(task.index, task.index)),
                states: Vec::new(),
            },
            TextOf::Host(host) => Request::Hosts {
                names: vec![self.hosts.entry(host.0)?.facts.name.clone()],
            },
        })
    }
}
