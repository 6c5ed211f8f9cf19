//! The loop of a delegate: it takes inputs, passes them to the [`Engine`], and has its outputs carried out
//! by the [`Executor`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc as threads;
use std::time::Duration;

use common::checkpoint::Saving;
use common::host::{HostFacts, OwnerState, Status, YieldReason};
use common::needs::Demand;
use common::site::SiteAnswer;
use common::update::{UpdateAnswer, UpdateStanding, UpdateStatement};
use common::wire::stream::Open;
use common::wire::worker::{Assignment, Errand, ToMaster, ToWorker};
use common::{AttemptId, Outcome, Span, Time};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{DelegateInput, Desk, Executor, Report};
use crate::blocking::off;
use crate::engine::{Engine, EngineInput, EngineOutput, SpoolRequest, Spooled};
use crate::error::WorkerError;
use crate::given_back::GivenBackFile;
use crate::machine::{Action, AttemptEnding, MachineEvent};
use crate::os;
use crate::session::{SessionEvent, Uplink};
use crate::share::UpTime;
use crate::spool::writer::SpoolThread;
use crate::worker::beats::{Beats, next_beat};
use crate::worker::{LAST_DELIVERY, sleep_until};

/// The time that attempts have to end where the delegate is to leave.
const LAST_ENDS: Duration = Duration::from_secs(10);
/// The inputs that are taken before their outputs are carried out.
const BATCH: usize = 1_024;

pub(super) struct DelegateShell<E> {
    engine: Engine,
    executor: E,
    facts: HostFacts,
    spool: threads::Sender<SpoolRequest>,
    spooling: SpoolThread,
    given_back: GivenBackFile,
    desk: Desk,
    /// Each [`Assignment`] of the master that is not begun.
    orders: BTreeMap<AttemptId, Assignment>,
    /// The attempts that are begun and have not ended.
    live: BTreeSet<AttemptId>,
    uplink: Option<(Uplink, Beats)>,
    /// The reason why nothing more can be begun.
    away: Option<String>,
    away_since: Time,
    up: UpTime,
    origin: Instant,
    /// The time since which nothing runs any more, or attempts have had to end for long enough.
    left: Option<Instant>,
}

impl<E: Executor> DelegateShell<E> {
    /// Makes the loop of a host with these facts.
    pub(super) fn new(
        (engine, facts): (Engine, HostFacts),
        executor: E,
        (spool, spooling): (threads::Sender<SpoolRequest>, SpoolThread),
        (desk, given_back): (Desk, GivenBackFile),
    ) -> Self {
        Self {
            engine,
            executor,
            facts,
            spool,
            spooling,
            given_back,
            desk,
            orders: BTreeMap::new(),
            live: BTreeSet::new(),
            uplink: None,
            away: None,
            away_since: Time(0),
            up: UpTime::new(os::since_boot(), os::awake()),
            origin: Instant::now(),
            left: None,
        }
    }

    /// Begins anew what an earlier run had begun. What has ended meanwhile for the master is only
    /// ended.
    pub(super) fn resume(&mut self, begun: Vec<Assignment>) {
        let ended: BTreeSet<AttemptId> = self.engine.ended().collect();
        let (over, go_on): (Vec<_>, Vec<_>) = begun
            .into_iter()
            .partition(|assignment| ended.contains(&assignment.attempt));
        for assignment in over {
            let attempt = assignment.attempt;
            self.begin(assignment);
            self.executor.end(attempt);
        }

        let mut outputs = Vec::new();
        self.take(go_on, &mut outputs);
        self.carry_out(&mut outputs);
    }

    /// Runs until `shutdown` resolves and what it has is ended.
    pub(super) async fn run(
        mut self,
        mut inputs: UnboundedReceiver<DelegateInput>,
        session: JoinHandle<()>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), WorkerError> {
        tokio::pin!(shutdown);
        let mut batch = Vec::new();
        let mut outputs = Vec::new();
        let mut leaving = None;

        while !self.may_end(leaving) {
            let wakeup = self.wakeup(leaving);
            tokio::select! {
                _ = inputs.recv_many(&mut batch, BATCH) => {}
                () = sleep_until(wakeup) => batch.push(DelegateInput::Machine(MachineEvent::Tick)),
                () = &mut shutdown, if leaving.is_none() => {
                    leaving = Some(Instant::now());
                    batch.push(DelegateInput::Machine(MachineEvent::Shutdown));
                }
                () = next_beat(&mut self.uplink) => self.beat(),
            }

            for input in batch.drain(..) {
                match input {
                    DelegateInput::Machine(event) => self.happen(event, &mut outputs),
                    DelegateInput::Spool(Spooled::Broken(error)) => {
                        return Err(WorkerError::Spool(error));
                    }
                    DelegateInput::Spool(spooled) => self.on_spooled(spooled, &mut outputs),
                    DelegateInput::Session(event) => self.on_session(event, &mut outputs),
                    DelegateInput::Told(report) => self.on_report(report, &mut outputs),
                }
            }
            self.carry_out(&mut outputs);
            if let Some((uplink, _)) = &self.uplink {
                let idle = self.engine.machine().holds_nothing();
                uplink.alive.set_busy(!idle);
            }
        }

        self.leave().await;
        session.abort();
        Ok(())
    }

    fn now(&self) -> Time {
        Time(0) + Span::from(self.origin.elapsed())
    }

    fn wakeup(&self, leaving: Option<Instant>) -> Option<Instant> {
        let next = self.engine.next_wakeup();
        let next = next.map(|at| self.origin + Duration::from(at.since(Time(0))));
        next.into_iter()
            .chain(leaving.map(|since| since + LAST_ENDS))
            .chain(self.left.map(|left| left + LAST_DELIVERY))
            .min()
    }

    /// Whether nothing runs any more, or does so for too long, and finished results are delivered or
    /// cannot be for now.
    fn may_end(&self, leaving: Option<Instant>) -> bool {
        if leaving.is_some_and(|since| since.elapsed() >= LAST_ENDS) {
            return true;
        }
        let patient = |left: Instant| left.elapsed() < LAST_DELIVERY;
        self.left.is_some_and(|left| {
            self.uplink.is_none() || self.engine.ended().next().is_none() || !patient(left)
        })
    }

    async fn leave(self) {
        // While attempts are not ended elsewhere, the master is to wait for this to come back.
        if let Some((uplink, _)) = &self.uplink {
            if self.live.is_empty() {
                uplink.say(ToMaster::Leaving);
                let _ = tokio::time::timeout(LAST_DELIVERY, uplink.closed()).await;
            }
            uplink.close().await;
        }

        let owes = self.engine.owes();
        let given_back = self.given_back;
        let _ = off(move || given_back.write(&owes)).await;
        drop(self.spool);
        self.spooling.finish().await;
        match self.live.len() {
            0 => tracing::info!("the bridge has left; nothing of its tasks is left"),
            running => tracing::warn!(
                running,
                "the bridge has left; what still runs elsewhere is found again at its next start"
            ),
        }
    }

    fn happen(&mut self, event: MachineEvent, outputs: &mut Vec<EngineOutput>) {
        self.tell(EngineInput::Happened(event), outputs);
    }

    fn tell(&mut self, input: EngineInput, outputs: &mut Vec<EngineOutput>) {
        self.engine.step(self.now(), input, outputs);
    }

    fn say(&self, message: ToMaster) {
        if let Some((uplink, _)) = &self.uplink {
            uplink.say(message);
        }
    }

    fn beat(&mut self) {
        let status = self.status();
        let beat = self.engine.heartbeat(self.now(), status);
        self.say(beat);
    }

    fn owner(&self) -> OwnerState {
        match self.away {
            Some(_) => OwnerState::Present(YieldReason::OtherGridAway),
            None => OwnerState::Away,
        }
    }

    fn status(&mut self) -> Status {
        Status {
            owner: self.owner(),
            cpu: 1.0,
            up_for: self.up.look(os::since_boot(), os::awake()),
            owner_for: self.now().since(self.away_since),
        }
    }

    fn on_session(&mut self, event: SessionEvent, outputs: &mut Vec<EngineOutput>) {
        match event {
            SessionEvent::Greet(answer) => {
                let status = self.status();
                let hello = self.engine.hello(self.now(), self.facts.clone(), status);
                let _ = answer.send(hello);
            }
            SessionEvent::Up(uplink, heartbeat) => {
                // Earlier outputs are not for this connection.
                self.carry_out(outputs);

                self.uplink = Some((uplink, Beats::of(heartbeat)));
                self.tell(EngineInput::Up, outputs);
            }
            SessionEvent::Said(message) => self.on_message(message, outputs),
            SessionEvent::Settings(settings, looked) => {
                let refused = "a bridge has no owner whom settings could bind".to_owned();
                self.say(ToMaster::Site(SiteAnswer {
                    digest: settings.digest,
                    refused: Some(refused),
                }));
                drop(looked);
            }
            SessionEvent::Down => {
                self.uplink = None;
                self.tell(EngineInput::Down, outputs);
            }
            SessionEvent::Out(_) => {}
        }
    }

    fn on_message(&mut self, message: ToWorker, outputs: &mut Vec<EngineOutput>) {
        match message {
            ToWorker::Assign(work) => self.take(work, outputs),
            // Without an order they are refused once they are to be staged.
            ToWorker::AssignTogether(work) => {
                let work = work.into_iter().map(without_limits).collect();
                self.tell(EngineInput::Said(ToWorker::AssignTogether(work)), outputs);
            }
            // Nothing can be held elsewhere: it goes on.
            ToWorker::Hold { .. } => {}
            ToWorker::Tail(order) => {
                let Some((uplink, _)) = &self.uplink else {
                    return;
                };

                let connection = uplink.connection().clone();
                tokio::spawn(async move {
                    let ticket = order.ticket;
                    let _ = connection.open(&Open::Tail { ticket }).await;
                });
            }
            ToWorker::Update(update) => {
                let Ok(statement) = UpdateStatement::read(&update.statement) else {
                    return;
                };

                let why = "a bridge takes no programs: replace it by hand".to_owned();
                self.say(ToMaster::Update(UpdateAnswer {
                    hash: statement.blob.hash,
                    standing: UpdateStanding::Unwanted(why),
                }));
            }
            message => self.tell(EngineInput::Said(message), outputs),
        }
    }

    /// Takes attempts; while nothing can be begun, those that are not here yet go back at once.
    fn take(&mut self, work: Vec<Assignment>, outputs: &mut Vec<EngineOutput>) {
        let known = |id: &AttemptId| self.live.contains(id) || self.orders.contains_key(id);
        let (work, new): (Vec<_>, Vec<_>) = work
            .into_iter()
            .partition(|assignment| known(&assignment.attempt) || self.away.is_none());
        if let Some(why) = self.away.clone().filter(|_| !new.is_empty()) {
            self.say(ToMaster::Returned {
                attempts: new.iter().map(|assignment| assignment.attempt).collect(),
                why,
            });
        }

        let mut plain = Vec::with_capacity(work.len());
        for assignment in work {
            let id = assignment.attempt;
            let whole = assignment.clone();
            plain.push(without_limits(assignment));
            if !self.live.contains(&id) {
                self.orders.insert(id, whole);
            }
        }
        self.tell(EngineInput::Said(ToWorker::Assign(plain)), outputs);
    }

    fn on_report(&mut self, report: Report, outputs: &mut Vec<EngineOutput>) {
        match report {
            Report::Started(id) => self.happen(MachineEvent::Staged(id), outputs),
            Report::FromScratch(id, why) => {
                let saving = Saving::FromScratch(why);
                self.happen(MachineEvent::Saving(id, 0, saving), outputs);
            }
            Report::Ended(id, ending) => self.on_ended(id, ending, outputs),
            Report::Away(why) => {
                if why.is_some() != self.away.is_some() {
                    self.away_since = self.now();
                }
                self.away = why;
                self.say(ToMaster::Owner(self.owner()));
            }
        }
    }

    fn on_ended(
        &mut self,
        id: AttemptId,
        ending: Box<AttemptEnding>,
        outputs: &mut Vec<EngineOutput>,
    ) {
        self.live.remove(&id);
        let left = ending.clone();
        let mut told = Vec::new();
        self.happen(MachineEvent::Ended(id, ending), &mut told);

        let wanted = told.iter().any(
            |output| matches!(output, EngineOutput::Keep(completion) if completion.attempt == id),
        );
        if !wanted {
            let hashes: Vec<_> = left.blobs().collect();
            self.desk.release(&hashes);
            self.executor.forget(id);
        }
        outputs.append(&mut told);
    }

    fn on_spooled(&mut self, spooled: Spooled, outputs: &mut Vec<EngineOutput>) {
        if let Spooled::Durable(deliveries) = &spooled {
            let ids = deliveries
                .iter()
                .map(|delivery| delivery.completion.attempt);
            for id in ids.filter(|id| !self.live.contains(id)) {
                self.executor.forget(id);
            }
        }
        self.tell(EngineInput::Spooled(spooled), outputs);
    }

    fn carry_out(&mut self, outputs: &mut Vec<EngineOutput>) {
        for output in outputs.drain(..) {
            match output {
                EngineOutput::Act(action) => self.act(&action),
                EngineOutput::Say(message) => self.say(message),
                EngineOutput::Keep(completion) => {
                    self.orders.remove(&completion.attempt);
                    let more = self.engine.has_queued();
                    self.ask_spool(SpoolRequest::Append {
                        completions: vec![completion],
                        more,
                    });
                }
                EngineOutput::Deliver(deliveries) => {
                    if let Some((uplink, _)) = &self.uplink {
                        uplink.deliver(deliveries);
                    }
                }
                EngineOutput::Forget(attempts) => self.ask_spool(SpoolRequest::Forget(attempts)),
                EngineOutput::Read(attempts) => self.ask_spool(SpoolRequest::Read(attempts)),
            }
        }
    }

    fn ask_spool(&self, request: SpoolRequest) {
        // A spool that is gone has said so: the loop is about to end.
        let _ = self.spool.send(request);
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Stage(id, _) => {
                if let Some(assignment) = self.orders.remove(id) {
                    return self.begin(assignment);
                }

                let why = "a bridge carries no ranks of parallel jobs".to_owned();
                let ending = AttemptEnding::bare(Outcome::NotStarted(why));
                self.desk.report(Report::Ended(*id, Box::new(ending)));
            }
            Action::Terminate(id) | Action::Kill(id) | Action::Drop(id)
                if self.live.contains(id) =>
            {
                self.executor.end(*id);
            }
            Action::Left => {
                self.left.get_or_insert_with(Instant::now);
            }
            // There are no processes, and states are saved where the command runs. Results that are
            // not wanted are released in `on_ended`. The engine turns the others into its outputs.
            _ => {}
        }
    }

    fn begin(&mut self, assignment: Assignment) {
        self.live.insert(assignment.attempt);
        self.executor.begin(assignment);
    }
}

/// The [`Assignment`] as the machine may know it: its limits hold where it runs.
fn without_limits(mut assignment: Assignment) -> Assignment {
    assignment.limit = None;
    if let Errand::Command(command) = &mut assignment.work {
        command.takes = Demand::PLAIN;
    }
    assignment
}
