//! The width of gangs: the number of hosts that one waits for, the prospects with others, and its
//! predicted completion. The policy's `Width` is asked with the present hosts. The hosts themselves
//! are assigned in `placement`.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use common::needs::Needs;
use common::{HostId, JobId, Ranks, Span, Time};

use crate::forecast::starts::{FAR_S, LifetimeLaws, PARTS, SlotLife, counts};
use crate::policy::width::{Holdout, Width, WidthChoice, WidthOption, WidthQuestion};
use crate::policy::{Policy, policy};
use crate::prediction::estimates::{Estimator, UNPROVEN};
use crate::prediction::malleable::{
    Guess, HostHolder, MachineState, Malleable, Paced, Speedup, fit,
};
use crate::protocol::effect::Effect;
use crate::protocol::event::Bag;
use crate::state::gang::Gang;
use crate::state::host::Host;
use crate::state::job::Job;
use crate::state::scheduler::Scheduler;

/// The most widths that are compared, spread evenly on a logarithmic scale.
const WIDTHS: u32 = 48;
/// The most hosts for which the law of the number of free ones is computed exactly.
const EXACT: u32 = 256;
/// A gang that should have ended already goes on for this part of the time that it has run.
const OVERDUE: f64 = 0.1;
/// The least interval between decisions of a gang that waits.
const SOONEST: Span = Span::from_secs(1);
/// The largest width tried for a job of which nothing is known.
const WIDEST: u32 = 64;

/// The prospects of a gang at each number of hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct WidthOffer {
    /// The speedup law ([`Malleable`]) on hosts of the present mean speed, where known.
    pub scaling: Option<Malleable>,
    /// The number of runs that `scaling` is fitted to.
    pub runs: usize,
    /// The fewest hosts that it may have.
    pub least: u32,
    /// The most hosts that it may have.
    pub most: u32,
    /// The number of hosts that are free for it.
    pub free: u32,
    /// The number of all hosts.
    pub hosts: u32,
    /// The number of jobs that wait behind it, whose waits count under some policies.
    pub behind: u32,
    /// Every width and wait that was compared; empty where the speedup is unknown.
    pub ways: Vec<WidthOption>,
    /// The number of hosts on which it starts, or for which it waits.
    pub choice: Option<WidthChoice>,
}

/// The state of a gang.
#[derive(Debug, Clone, PartialEq)]
pub struct Together {
    /// The number of its ranks, once settled.
    pub width: Option<u32>,
    /// The time at which it got its hosts.
    pub formed: Option<Time>,
    /// The time at which its ranks began to run.
    pub begun: Option<Time>,
    /// The predicted completion time, once it holds its hosts and its speedup is known.
    pub finish: Option<Time>,
    /// The prospects at each number of hosts, while it holds none, see [`WidthOffer`].
    pub offer: Option<WidthOffer>,
}

/// The hosts as seen by a gang.
pub(super) struct GangView<'a> {
    policy: &'a Policy,
    gang: &'a Gang,
    /// The number of hosts that it could have at once.
    free: u32,
    /// The number of jobs that wait behind it.
    behind: u32,
    /// The number of its waiting ranks, if it had begun before.
    again: Option<u32>,
    /// The number of ranks that its user's bound allows.
    allowed: u32,
}

/// The predicted waits for each number of free hosts, each computed at most once.
pub(super) struct PredictedWaits<'a> {
    pub(super) machine: &'a MachineState<'a>,
    likely_s: RefCell<BTreeMap<u32, Option<f64>>>,
    edges_s: RefCell<BTreeMap<u32, [f64; 2]>>,
}

impl Scheduler {
    /// Returns the speedup law of a gang, from its user's statements and from earlier runs, and the
    /// number of these runs.
    pub(crate) fn scaling(&self, ranks: &Ranks, of: &Estimator) -> (Option<Malleable>, usize) {
        let runs = self.foresight.experience.widths.of(of);
        let guess = Guess {
            work_s: ranks.work.map(Span::secs),
            parallelism: ranks.parallelism,
            sigma: ranks.sigma,
        };
        let hosts = self.hosts.table.values().filter(|host| counts(host));
        let hosts = (hosts.count() as u32).min(WIDEST);
        let widest = ranks.most.unwrap_or(hosts).max(ranks.least);

        let said = |fitted: Malleable| {
            // The user's statements hold for this job; runs give the rest.
            let sigma = ranks.sigma.unwrap_or(fitted.speedup.sigma());
            let curve = ranks
                .parallelism
                .and_then(|parallelism| Speedup::new(parallelism, sigma));
            Malleable {
                work_s: guess.work_s.unwrap_or(fitted.work_s),
                speedup: curve.unwrap_or(fitted.speedup),
            }
        };

        (fit(&runs, &guess, widest).map(said), runs.len())
    }

    /// Returns the prospects of a bag of ranks at each number of hosts, if it were submitted now.
    pub fn width_offered(&self, bag: &Bag, now: Time) -> Option<WidthOffer> {
        let ranks = bag.ranks?;
        let policy = policy(&bag.rules.policy)?;
        let gang = Gang::new(ranks, self.scaling(&ranks, &bag.terms.estimator));
        let needs = &bag.rules.needs;
        let ready = self.hosts.index.all.ready.by_since();
        let free = ready.filter(|id| {
            self.hosts.offer(*id, needs)
                && self.hosts.has_room(*id, needs.takes)
                && self.starts_together(*id)
        });
        let most = self.jobs.lines.shares.most_of(&bag.terms.estimator.user);
        let view = GangView {
            policy: &policy,
            gang: &gang,
            free: free.count() as u32,
            behind: 0,
            again: None,
            allowed: most.map_or(u32::MAX, |(_, most)| most),
        };
        Some(self.with_machine(needs, &[], now, |machine| self.weigh(&view, machine, now)))
    }

    /// Returns the hosts that are kept for this gang while it waits for more: they count as free for it.
    pub(crate) fn kept_for(&self, id: JobId, gang: &Gang) -> Vec<HostId> {
        if gang.holdout.is_some() {
            self.kept_hosts(|of| of == id)
        } else {
            Vec::new()
        }
    }

    /// Returns the hosts of `Jobs::kept` that are kept for a gang that passes `of`.
    pub(crate) fn kept_hosts(&self, of: impl Fn(JobId) -> bool) -> Vec<HostId> {
        let kept = self.jobs.kept.iter().filter(|kept| of(kept.gang));
        kept.map(|kept| kept.host).collect()
    }

    /// Whether the host can start an attempt together with those of other hosts.
    pub(crate) fn starts_together(&self, id: HostId) -> bool {
        let host = self.hosts.table.get(&id);
        host.is_some_and(|host| host.offers.together)
    }

    /// Returns the state of a gang; `None` for any other job.
    pub fn together(&self, id: JobId, now: Time) -> Option<Together> {
        let job = self.jobs.table.get(&id)?;
        let gang = job.gang.as_ref()?;
        let waits = gang.formed.is_none() && !job.settled();
        let offer = waits.then(|| {
            let kept = self.kept_for(id, gang);
            let free = self.free_with(id, &kept);
            let view = self.view(job, gang, free as u32);
            let offer = self.with_machine(&job.rules.needs, &kept, now, |machine| {
                self.weigh(&view, machine, now)
            });

            WidthOffer {
                choice: gang.holdout.map(WidthChoice::Hold).or(offer.choice),
                ..offer
            }
        });

        let finish = self.held_until(gang, now);
        Some(Together {
            width: gang.width,
            formed: gang.formed,
            begun: gang.begun,
            finish: finish.map(|finish| finish.max(now)),
            offer,
        })
    }

    /// Predicts the end of a gang that holds its hosts, where its speedup is known.
    pub(super) fn held_until(&self, gang: &Gang, now: Time) -> Option<Time> {
        let run_s = self.paced(gang.scaling?).run_s(gang.width?);
        let begun = gang.begun.unwrap_or(gang.formed?.max(now));
        Some(begun + Span::from_secs_f64(run_s))
    }

    /// Returns the number of hosts that the job could have at once, with `also` among them.
    pub(super) fn free_with(&self, id: JobId, also: &[HostId]) -> usize {
        let mut free = self.free_for(id);
        free.extend(also);
        free.sort_unstable();
        free.dedup();
        free.len()
    }

    /// Counts the jobs that wait behind this one. They may be thousands: not for each event.
    fn behind(&self, job: &Job) -> u32 {
        let waiting = self.jobs.lines.waiting.range(job.rank..);
        waiting.count().saturating_sub(1) as u32
    }

    pub(super) fn view<'a>(&self, job: &'a Job, gang: &'a Gang, free: u32) -> GangView<'a> {
        let again = gang.width.map(|_| job.waiting() as u32);
        let room = self.jobs.lines.shares.room(job.user);
        GangView {
            policy: &job.policy,
            gang,
            free,
            behind: self.behind(job),
            again,
            allowed: room.map_or(u32::MAX, |room| u32::try_from(room).unwrap_or(u32::MAX)),
        }
    }

    /// Returns the gang's number of hosts, and whether it starts now. The last choice stands while
    /// nothing has changed.
    pub(crate) fn choose_width(&mut self, id: JobId, free: u32) -> Option<WidthChoice> {
        let now = self.now;
        let job = self.jobs.table.get(&id)?;
        let gang = job.gang.as_ref()?;

        if let Some((before, behind, looked)) = gang.looked {
            let soon = now < looked + SOONEST;
            let unchanged = || soon || (before == free && behind == self.behind(job));
            match gang.holdout {
                Some(held) if free < held.hosts && now.secs() < held.until_s && unchanged() => {
                    return Some(WidthChoice::Hold(held));
                }
                None if soon && before == free => return None,
                _ => {}
            }
        }

        let view = self.view(job, gang, free);
        let looked = Some((free, view.behind, now));
        let choice = self.with_machine(&job.rules.needs, &[], now, |machine| {
            self.choose(&view, &PredictedWaits::of(machine), now)
        });
        let waits = !matches!(choice, Some(WidthChoice::Start(_)));
        self.jobs.table.get_mut(&id)?.gang.as_mut()?.looked = looked.filter(|_| waits);

        choice
    }

    /// The same choice if `free` hosts were free for it; `also` are those among them that are not.
    pub(crate) fn width_with(&self, id: JobId, free: u32, also: &[HostId]) -> Option<WidthChoice> {
        let job = self.jobs.table.get(&id)?;
        let view = self.view(job, job.gang.as_ref()?, free);
        self.with_machine(&job.rules.needs, also, self.now, |machine| {
            self.choose(&view, &PredictedWaits::of(machine), self.now)
        })
    }

    /// Predicts when the number of hosts that a gang waits for should be free.
    pub(crate) fn foretell(&self, id: JobId, holdout: &Holdout) -> Option<Effect> {
        let job = self.jobs.table.get(&id)?;
        let span = |seconds: Option<f64>| {
            Span::from_secs_f64(seconds.unwrap_or(holdout.predicted_s).min(3.2e8))
        };
        let (low, high) = self.with_machine(&job.rules.needs, &[], self.now, |machine| {
            let edge = |part: f64| span(machine.quantile_s(holdout.hosts, part));
            (edge(PARTS[0]), edge(PARTS[2]))
        });

        let wait = span(Some(holdout.predicted_s));
        Some(Effect::Foretold {
            job: id,
            hosts: holdout.hosts,
            wait,
            low: low.min(wait),
            high: high.max(wait),
        })
    }

    /// Scales a speedup law to the mean speed of the present hosts.
    pub(super) fn paced(&self, scaling: Malleable) -> Malleable {
        let mean = self.hosts.index.all.mean_speed();
        let speed = mean.filter(|speed| *speed > 0.0).unwrap_or(1.0);
        Malleable {
            work_s: scaling.work_s / speed,
            ..scaling
        }
    }

    fn weigh(&self, view: &GangView<'_>, machine: &MachineState<'_>, now: Time) -> WidthOffer {
        let (waits, (least, most)) = (PredictedWaits::of(machine), bounds(view, machine.hosts()));
        let scaling = view.gang.scaling.map(|scaling| self.paced(scaling));
        let rule = view.policy.width.soonest();
        let ways = scaling.map_or_else(Vec::new, |scaling| {
            let question = self.question(view, &scaling, (least, most), now);
            rule.ways(&question, &|from, to| waits.likely_s(from, to))
        });

        WidthOffer {
            scaling,
            runs: view.gang.runs,
            least,
            most,
            free: view.free,
            hosts: machine.hosts(),
            behind: view.behind,
            ways,
            choice: self.choose(view, &waits, now),
        }
    }

    pub(super) fn choose(
        &self,
        view: &GangView<'_>,
        waits: &PredictedWaits<'_>,
        now: Time,
    ) -> Option<WidthChoice> {
        let (least, most) = bounds(view, waits.machine.hosts());
        if least > most {
            return None;
        }

        let unknown = Malleable {
            work_s: 1.0,
            speedup: Speedup::new(f64::from(most.max(1)), 0.0)?,
        };
        let (scaling, width) = match view.gang.scaling {
            Some(scaling) => (self.paced(scaling), view.policy.width),
            // Without a known speedup no times can be compared.
            None => (unknown, Width::Average),
        };
        let question = self.question(view, &scaling, (least, most), now);

        width.choose(&question, &|from, to| waits.likely_s(from, to))
    }

    fn question<'a>(
        &'a self,
        view: &GangView<'_>,
        job: &'a Malleable,
        (least, most): (u32, u32),
        now: Time,
    ) -> WidthQuestion<'a> {
        WidthQuestion {
            job,
            least,
            most,
            free: view.free,
            behind: view.behind,
            now_s: now.secs(),
            held: view.gang.holdout,
            bias: &self.foresight.experience.waits.bias,
        }
    }

    /// Builds the [`MachineState`] of the hosts for a job with these needs, with `also` among the free
    /// ones, and asks it. Idle hosts that are kept for other gangs are taken until these have had them.
    pub(crate) fn with_machine<T>(
        &self,
        needs: &Needs,
        also: &[HostId],
        now: Time,
        ask: impl FnOnce(&MachineState<'_>) -> T,
    ) -> T {
        let laws = LifetimeLaws::of(self);
        let seats = self.seats();
        let usable = |host: &&Host| {
            counts(host) && host.owner.lets_run() && host.suits(needs) && host.offers.together
        };
        let filled: BTreeSet<HostId> = self.jobs.fillers.values().copied().collect();
        let kept = self.jobs.kept.iter().map(|kept| (kept.host, kept.gang));
        let kept: BTreeMap<HostId, JobId> = kept.collect();
        let mut free = 0;
        let mut gangs = BTreeMap::<JobId, u32>::new();
        let mut waiting = BTreeMap::<JobId, u32>::new();
        let mut busy = Vec::new();

        for host in self.hosts.table.values().filter(usable) {
            if host.room_for(needs.takes) > 0
                || also.contains(&host.id)
                || filled.contains(&host.id)
            {
                free += 1;
            } else if let Some(gang) = seats.get(&host.id) {
                *gangs.entry(*gang).or_default() += 1;
            } else if let Some(gang) = kept.get(&host.id).filter(|_| host.in_slots() == 0) {
                *waiting.entry(*gang).or_default() += 1;
            } else {
                busy.push((1, self.next_end(&laws, host, now)));
            }
        }

        for (id, hosts) in gangs {
            busy.push((hosts, self.gang_life(&laws, id, now)));
        }
        for (id, hosts) in waiting {
            busy.push((hosts, self.kept_life(&laws, id, now)));
        }

        busy.sort_by(|(_, (_, a)), (_, (_, b))| a.known_s().total_cmp(&b.known_s()));
        let mut known = Vec::new();
        let mut by_law = Vec::new();
        for (hosts, (age_s, law)) in &busy {
            let kind = match law {
                SlotLife::Known(_) => &mut known,
                SlotLife::OfProgram(_) => &mut by_law,
            };
            kind.push(HostHolder {
                hosts: *hosts,
                age_s: *age_s,
                law,
            });
        }

        let stays = self.stays(needs, now).into_iter();
        let owners = stays.map(|(age_s, _)| HostHolder::of_one(age_s, &laws.stay));

        let kinds = [known, by_law, owners.collect()];
        ask(&MachineState::sampled(free, kinds))
    }

    /// Returns the age, in seconds, of a gang that holds its hosts, and the law of how long it does.
    fn gang_life<'a>(
        &self,
        laws: &'a LifetimeLaws<'_>,
        id: JobId,
        now: Time,
    ) -> (f64, SlotLife<'a>) {
        let gang = self.jobs.table.get(&id).and_then(|job| job.gang.as_ref());
        let formed = gang.and_then(|gang| gang.formed).unwrap_or(now);
        let age_s = now.since(formed).secs();
        if let Some((gang, end)) = gang.and_then(|gang| Some((gang, self.held_until(gang, now)?))) {
            let left_s = end.since(now).secs().max(OVERDUE * age_s);
            let sigma = if gang.runs == 0 { UNPROVEN } else { 0.0 };
            return (0.0, SlotLife::known(left_s, sigma));
        }

        let law = laws.program(self, id);
        let rate = self.hosts.index.all.mean_speed().unwrap_or(1.0);
        (age_s, SlotLife::OfProgram(Paced { law, rate }))
    }

    /// Returns the same for the hosts that are kept for a gang: it is about to wait for the others, and to
    /// run then.
    fn kept_life<'a>(
        &self,
        laws: &'a LifetimeLaws<'_>,
        id: JobId,
        now: Time,
    ) -> (f64, SlotLife<'a>) {
        let gang = self.jobs.table.get(&id).and_then(|job| job.gang.as_ref());
        let known = gang.and_then(|gang| Some((gang, gang.holdout?)));
        let wait_s = known.map_or(0.0, |(_, held)| held.left_s(now.secs()));

        let run_s = known.and_then(|(gang, held)| {
            let run = self.paced(gang.scaling?);
            Some(run.run_s(held.hosts))
        });
        let run_s = run_s.unwrap_or_else(|| laws.unknown_s(0.5));
        (0.0, SlotLife::known(wait_s + run_s, UNPROVEN))
    }

    /// Returns the gang that holds each held host.
    fn seats(&self) -> BTreeMap<HostId, JobId> {
        let jobs = self.jobs.gangs.iter();
        let gangs = jobs.filter_map(|id| Some((*id, self.jobs.table.get(id)?.gang.as_ref()?)));
        let seats = gangs.flat_map(|(id, gang)| gang.seats.keys().map(move |host| (*host, id)));
        seats.collect()
    }
}

/// Returns the least and the largest number of hosts that the job can choose.
fn bounds(view: &GangView<'_>, hosts: u32) -> (u32, u32) {
    let hosts = hosts.min(view.allowed);
    if let Some(again) = view.again {
        return if again <= hosts {
            (again, again)
        } else {
            (again, hosts)
        };
    }

    let Ranks { least, most, .. } = view.gang.ranks;
    let useful = view
        .gang
        .scaling
        .map_or(u32::MAX, |scaling| scaling.most().max(least));

    (least, most.unwrap_or(u32::MAX).min(useful).min(hosts))
}

impl<'a> PredictedWaits<'a> {
    pub(super) fn of(machine: &'a MachineState<'a>) -> Self {
        Self {
            machine,
            likely_s: RefCell::default(),
            edges_s: RefCell::default(),
        }
    }

    /// Returns the predicted waits for each number of hosts from `from` to `to`. Of more than
    /// [`WIDTHS`] numbers only some are computed.
    fn likely_s(&self, from: u32, to: u32) -> Vec<Option<f64>> {
        if to < from {
            return Vec::new();
        }

        let many = to - from + 1;
        if many <= WIDTHS {
            return (from..=to).map(|hosts| self.one_s(hosts)).collect();
        }

        let mut waits = vec![None; many as usize];
        let ratio = f64::from(to) / f64::from(from.max(1));
        for step in 0..WIDTHS {
            let hosts =
                f64::from(from.max(1)) * ratio.powf(f64::from(step) / f64::from(WIDTHS - 1));
            let hosts = (hosts.round() as u32).clamp(from, to);
            if let Some(wait) = waits.get_mut((hosts - from) as usize) {
                *wait = self.one_s(hosts);
            }
        }

        waits
    }

    /// Returns the median of the law of the number of free hosts. Beyond [`EXACT`] hosts it uses
    /// Downey's predictors, which know nothing of the last few hosts.
    pub(super) fn one_s(&self, hosts: u32) -> Option<f64> {
        *self.likely_s.borrow_mut().entry(hosts).or_insert_with(|| {
            match self.machine.hosts() <= EXACT {
                true => self
                    .machine
                    .quantile_s(hosts, 0.5)
                    .filter(|wait_s| *wait_s < FAR_S),
                false => self.machine.wait(hosts).used_s,
            }
        })
    }

    /// Returns the ends of the prediction interval for this many hosts.
    pub(super) fn edges_s(&self, hosts: u32) -> [f64; 2] {
        let edge = |part: f64| self.machine.quantile_s(hosts, part).filter(|s| *s < FAR_S);
        let reckon = || {
            [
                edge(PARTS[0]).unwrap_or(0.0),
                edge(PARTS[2]).unwrap_or(FAR_S),
            ]
        };
        *self
            .edges_s
            .borrow_mut()
            .entry(hosts)
            .or_insert_with(reckon)
    }
}
