//! Jobs of several ranks: their width once they start, and the predictions of their start. The
//! scheduler decides on the width.

use std::sync::Arc;

use common::view::{ScalingView, StartView, WayView, WidthView};
use common::{JobId, Ranks, Span, Time};
use scheduler::event::Bag;
use scheduler::policy::width::{WidthChoice, WidthOption};
use scheduler::{Prediction, WidthOffer};

use super::Core;
use crate::store::{Awaited, StoreResult, WaitPrediction};

/// The least time between two stored predictions of the same kind, and that for each host.
const FORETOLD_EVERY: Span = Span::from_millis(100);
const FORETOLD_PER_HOST: Span = Span(100);
/// The most ways to run a job that are shown.
const WAYS: usize = 16;

impl Core {
    /// The width that a bag of several ranks would get; `None` for any other bag.
    pub(super) fn width_of(&self, bag: &Bag) -> Option<WidthView> {
        Some(view_of(
            &self.scheduler.width_offered(bag, self.now)?,
            self.now,
        ))
    }

    /// The width and progress of a job of several ranks; `None` for any other job.
    pub(super) fn width(&self, id: JobId) -> Option<WidthView> {
        let together = self.scheduler.together(id, self.now)?;
        let width = together.width;
        let ranks = width.unwrap_or_default();

        let held = || WidthView {
            least: ranks,
            most: ranks,
            ranks: width,
            formed: together.formed,
            begun: together.begun,
            free: 0,
            hosts: ranks,
            behind: 0,
            scaling: None,
            ways: Vec::new(),
            chosen: None,
            why: None,
        };
        Some(together.offer.map_or_else(held, |offer| WidthView {
            ranks: width,
            ..view_of(&offer, self.now)
        }))
    }

    /// Fixes the job's number of ranks; `free` hosts were free for it together.
    pub(super) fn on_formed(&mut self, id: JobId, ranks: u32, free: u32) -> StoreResult<()> {
        let Some(job) = self.jobs.get_mut(&id) else {
            return Ok(());
        };
        tracing::info!(job = %id, ranks, free, "starts on several hosts");
        Arc::make_mut(&mut job.spec).tasks.ids = Ranks::tasks(ranks);
        let spec = Arc::clone(&job.spec);
        self.store.settle_width(id, &spec)?;
        self.store.came(id, Awaited::Hosts(free), self.now)
    }

    /// Stores the prediction that `hosts` hosts are free for the job after `wait`, which lies
    /// between `low` and `high`.
    pub(super) fn on_foretold(
        &mut self,
        id: JobId,
        hosts: u32,
        (wait, low, high): (Span, Span, Span),
    ) -> StoreResult<()> {
        tracing::debug!(job = %id, hosts, %wait, %low, %high, "holds out");
        self.store.foretell(
            id,
            &WaitPrediction {
                awaited: Awaited::Hosts(hosts),
                at: self.now,
                wait,
                low,
                high,
            },
        )
    }

    /// Predicts the end of a job, if it was never predicted before.
    pub(super) fn predict(&mut self, id: JobId) -> StoreResult<()> {
        let Some(job) = self.jobs.get(&id) else {
            return Ok(());
        };
        if job.view.predicted_makespan.is_some() || job.view.open {
            return Ok(());
        }
        match self.scheduler.predict(id, self.now) {
            Some(prediction) => self.note_first(id, prediction),
            None => Ok(()),
        }
    }

    /// Keeps the first prediction of a job's end, beside which its actual makespan is shown; stores it
    /// with its interval, at most once in `pause` for all jobs.
    pub(super) fn note_first(
        &mut self,
        id: JobId,
        Prediction { finish, low, high }: Prediction,
    ) -> StoreResult<()> {
        let stored = self.now.since(self.foretold_finish) >= self.pause();
        let Some(job) = self.jobs.get_mut(&id) else {
            return Ok(());
        };
        let makespan = finish.since(job.view.submitted);
        job.view.predicted_makespan = Some(makespan);
        job.foretold |= stored;
        self.store.note_makespan(id, makespan)?;
        if !stored {
            return Ok(());
        }

        self.foretold_finish = self.now;
        self.store.foretell(
            id,
            &WaitPrediction {
                awaited: Awaited::Finish,
                at: self.now,
                wait: finish.since(self.now),
                low: low.since(self.now),
                high: high.since(self.now),
            },
        )
    }

    /// Returns the least time between two stored predictions of the same kind: it takes longer to
    /// predict where there are more hosts.
    fn pause(&self) -> Span {
        let hosts = self.scheduler.hosts().count() as u64;
        FORETOLD_EVERY.max(Span(FORETOLD_PER_HOST.0 * hosts))
    }

    /// Stores the predicted start of a new job that must wait, at most once in `pause` for all jobs.
    pub(super) fn foretell_start(&mut self, id: JobId) -> StoreResult<()> {
        let waits = self
            .scheduler
            .job_attempts(id)
            .is_some_and(|(attempts, _)| attempts == 0);
        if !waits || self.now.since(self.foretold) < self.pause() {
            return Ok(());
        }

        let Some(StartView { start, low, high }) = self.starts(id) else {
            return Ok(());
        };
        self.foretold = self.now;
        if let Some(job) = self.jobs.get_mut(&id) {
            job.foretold = true;
        }

        let after = |time: Time| time.since(self.now);
        let prediction = WaitPrediction {
            awaited: Awaited::Start,
            at: self.now,
            wait: after(start),
            low: after(low),
            high: after(high),
        };
        self.store.foretell(id, &prediction)
    }
}

/// Builds the view of a `WidthOffer`.
fn view_of(offer: &WidthOffer, now: Time) -> WidthView {
    let scaling = offer.scaling;
    let after = |seconds: f64| now + Span::from_secs_f64(seconds);
    let seen = |way: &WidthOption| WayView {
        hosts: way.hosts,
        start: after(way.wait_s),
        finish: scaling.map(|_| after(way.total_s())),
    };
    let chosen = offer.choice.map(|choice| {
        let (hosts, wait_s) = match choice {
            WidthChoice::Start(hosts) => (hosts, 0.0),
            WidthChoice::Hold(held) => (held.hosts, held.left_s(now.secs())),
        };
        let finish = scaling.map(|scaling| after(wait_s + scaling.run_s(hosts)));
        WayView {
            hosts,
            start: after(wait_s),
            finish,
        }
    });

    let why = match (scaling, chosen) {
        (_, None) => Some(format!(
            "it needs {} hosts at once, and {} that will do are there",
            offer.least, offer.hosts
        )),
        (None, _) => Some(
            "nothing is known of how long it takes on how many hosts: say so with --work and --parallelism, or let it run; \
             until then it takes the hosts that are free"
                .to_owned(),
        ),
        _ => None,
    };

    let scaling = scaling.map(|scaling| ScalingView {
        work: Span::from_secs_f64(scaling.work_s),
        parallelism: scaling.speedup.parallelism(),
        sigma: scaling.speedup.sigma(),
        runs: offer.runs as u64,
    });

    WidthView {
        least: offer.least,
        most: offer.most,
        ranks: None,
        formed: None,
        begun: None,
        free: offer.free,
        hosts: offer.hosts,
        behind: offer.behind,
        scaling,
        ways: told(&offer.ways, chosen.map(|way| way.hosts))
            .map(seen)
            .collect(),
        chosen,
        why,
    }
}

/// At most about `WAYS` of many ways: the first, the last, the chosen one, the soonest, and others
/// evenly between.
fn told(ways: &[WidthOption], chosen: Option<u32>) -> impl Iterator<Item = &WidthOption> {
    let every = ways.len().div_ceil(WAYS).max(1);
    let soonest = ways
        .iter()
        .min_by(|a, b| a.total_s().total_cmp(&b.total_s()))
        .map(|way| way.hosts);
    let last = ways.len().saturating_sub(1);

    ways.iter().enumerate().filter_map(move |(at, way)| {
        let wanted = at % every == 0
            || at == last
            || chosen == Some(way.hosts)
            || soonest == Some(way.hosts);
        wanted.then_some(way)
    })
}
