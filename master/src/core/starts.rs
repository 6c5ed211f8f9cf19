//! Shows the predicted starts of waiting jobs and of free hosts. The prediction is the scheduler's.

use common::view::{JobState, JobView, StartView, WaitView};
use common::{JobId, Span};

use super::Core;

impl Core {
    /// The predicted start of the job, if it waits.
    pub(super) fn starts(&self, id: JobId) -> Option<StartView> {
        self.scheduler.predict_start(id, self.now).map(seen)
    }

    /// Fills in `starts` of the views whose jobs wait.
    pub(super) fn say_starts<'a>(&self, views: impl Iterator<Item = &'a mut JobView>) {
        let waiting: Vec<&mut JobView> = views
            .filter(|view| view.state == JobState::Waiting)
            .collect();
        if waiting.is_empty() {
            return;
        }
        let ids: Vec<JobId> = waiting.iter().map(|view| view.job).collect();
        let mut starts = self.scheduler.predict_starts(&ids, self.now);
        for view in waiting {
            view.starts = starts.remove(&view.job).map(seen);
        }
    }

    /// The predicted time until `wanted` hosts are free together.
    pub(super) fn hosts_wait(&self, wanted: u32) -> WaitView {
        let predicted = self.scheduler.predict_hosts(wanted, self.now);
        let wait = predicted.wait;

        let span = |seconds: Option<f64>| seconds.map(Span::from_secs_f64);
        WaitView {
            wanted,
            free: predicted.free,
            hosts: predicted.hosts,
            benefactors: wait.benefactors,
            median: span(wait.median_s),
            mean: span(wait.mean_s),
            used: span(wait.used_s),
            likely: span(predicted.median_s),
            low: span(predicted.low_s),
            high: span(predicted.high_s),
        }
    }
}

fn seen(starting: scheduler::Starting) -> StartView {
    let scheduler::Starting { start, low, high } = starting;
    StartView { start, low, high }
}
