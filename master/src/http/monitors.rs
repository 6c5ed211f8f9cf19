//! Answers to monitors, who prove nothing and ask as often as they like: `/healthz` and `/metrics`. The
//! core is asked once a second at most for each, however many ask.

use std::borrow::Cow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::core::NoReply;
use crate::core::ask::UpkeepAsk;
use crate::locked;
use crate::numbers::{self, GridNumbers};
use crate::run::SessionContext;
use crate::whole;

/// The time in which the core answers while all is well.
const HEALTH: Duration = Duration::from_secs(3);
/// The time for which an answer of the core is given to everybody.
const FRESH: Duration = Duration::from_secs(1);

/// Something that was asked for and is given to all who ask for it again soon.
struct FreshAnswer<T>(Mutex<Option<watch::Receiver<MonitorAnswer<T>>>>);

/// An answer, and when it came; `None` while it is awaited.
type MonitorAnswer<T> = Option<(Instant, T)>;

impl<T: Clone + Send + Sync + 'static> FreshAnswer<T> {
    fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Returns the answer, by `ask` where there is none that is fresh: one asks, and others wait for it. `None` if the
    /// question broke off.
    async fn of(&self, ask: impl Future<Output = T> + Send + 'static) -> Option<T> {
        let mut answer = self.fresh_or_asked(ask);
        let answer = answer.wait_for(Option::is_some).await.ok()?;
        answer.as_ref().map(|(_, answer)| answer.clone())
    }

    /// Returns where the answer is or will be. A question goes on when whoever asked it has gone: else who comes and
    /// goes would ask as often.
    fn fresh_or_asked(
        &self,
        ask: impl Future<Output = T> + Send + 'static,
    ) -> watch::Receiver<MonitorAnswer<T>> {
        let mut kept = locked(&self.0);
        if let Some(answer) = kept.as_ref().filter(|answer| is_fresh(answer)) {
            return answer.clone();
        }

        let (tx, answer) = watch::channel(None);
        *kept = Some(answer.clone());
        tokio::spawn(async move {
            let answer = ask.await;
            tx.send_replace(Some((Instant::now(), answer)));
        });
        answer
    }
}

/// Whether an answer came within the last second, or is still awaited.
fn is_fresh<T>(answer: &watch::Receiver<MonitorAnswer<T>>) -> bool {
    match &*answer.borrow() {
        Some((at, _)) => at.elapsed() < FRESH,
        // Nobody asks any more where the sender has gone without a word.
        None => answer.has_changed().is_ok(),
    }
}

/// The state of the core.
#[derive(Clone, Copy)]
enum CoreHealth {
    Well,
    Stopped,
    /// It waits for the store, and everybody for it.
    Waits,
}

/// The answers that are shared by all monitors which ask at about the same time.
struct Monitors {
    state: Arc<SessionContext>,
    health: FreshAnswer<CoreHealth>,
    /// Whether the numbers that are measured when somebody asks were measured.
    measured: FreshAnswer<Result<(), StatusCode>>,
}

/// Returns the routes for monitors.
pub(super) fn routes(state: Arc<SessionContext>) -> Router {
    let monitors = Monitors {
        state,
        health: FreshAnswer::new(),
        measured: FreshAnswer::new(),
    };
    Router::new()
        .route("/healthz", get(healthz))
        .route("/metrics", get(show_metrics))
        .with_state(Arc::new(monitors))
}

/// Answers that all is well if the core replies, which it does only after a commit. A second line says where files
/// wait for their storage.
async fn healthz(Shared(monitors): Shared<Arc<Monitors>>) -> (StatusCode, Cow<'static, str>) {
    let state = &monitors.state;
    let health = monitors.health.of(core_health(Arc::clone(state))).await;

    match health.unwrap_or(CoreHealth::Stopped) {
        CoreHealth::Well => match state.blobs.trouble() {
            None => (StatusCode::OK, "ok\n".into()),
            Some(trouble) => (StatusCode::OK, format!("ok\n{trouble}\n").into()),
        },
        CoreHealth::Stopped => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the core has stopped\n".into(),
        ),
        CoreHealth::Waits => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the store does not answer\n".into(),
        ),
    }
}

async fn core_health(state: Arc<SessionContext>) -> CoreHealth {
    let well = tokio::time::timeout(HEALTH, state.for_people.ask(UpkeepAsk::Ping)).await;
    match well {
        Ok(Ok(())) => CoreHealth::Well,
        Ok(Err(NoReply::Stopped)) => CoreHealth::Stopped,
        Ok(Err(NoReply::NotAsked(_) | NoReply::InDoubt)) | Err(_) => CoreHealth::Waits,
    }
}

/// Shows all numbers: what is counted as it happens as it is now, and what is measured as it was within the
/// last second.
async fn show_metrics(Shared(monitors): Shared<Arc<Monitors>>) -> Result<String, StatusCode> {
    let state = &monitors.state;
    let measured = monitors.measured.of(measure(Arc::clone(state))).await;
    measured.unwrap_or(Err(StatusCode::SERVICE_UNAVAILABLE))?;
    Ok(state.metrics.render())
}

async fn measure(state: Arc<SessionContext>) -> Result<(), StatusCode> {
    let grid = state.for_people.ask(UpkeepAsk::Numbers).await;
    let grid: Box<GridNumbers> = grid.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    let home = state.home.clone();
    let reader = state.reader.clone();
    let disk = tokio::task::spawn_blocking(move || {
        let free = link::files::free_bytes(&home).ok();
        let store = match reader.database_bytes() {
            Ok(bytes) => Some(bytes.unwrap_or_else(|| whole::store_bytes(&home))),
            Err(error) => {
                tracing::debug!(%error, "the size of the database is not known");
                None
            }
        };

        numbers::record_disk(free, store);
        numbers::record_process();
    });
    disk.await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;

    numbers::record(&grid);
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_monitors_ask_is_asked_of_the_core_once_a_second_however_many_ask() {
        let answers = Arc::new(FreshAnswer::new());
        let asked = Arc::new(AtomicU32::new(0));
        let look = || {
            let answers = Arc::clone(&answers);
            let asked = Arc::clone(&asked);
            tokio::spawn(async move {
                let ask = async move {
                    // The core takes its time, in which others ask.
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    asked.fetch_add(1, Ordering::SeqCst) + 1
                };
                answers.of(ask).await.unwrap()
            })
        };

        let all: Vec<_> = (0..500).map(|_| look()).collect();
        for answer in all {
            assert_eq!(answer.await.unwrap(), 1);
        }
        tokio::time::advance(FRESH - Duration::from_millis(1)).await;
        assert_eq!(look().await.unwrap(), 1);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(look().await.unwrap(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn monitors_that_go_away_while_they_ask_have_asked_once() {
        let answers = FreshAnswer::new();
        let asked = Arc::new(AtomicU32::new(0));
        let ask = || {
            let asked = Arc::clone(&asked);
            async move {
                let question = asked.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::time::sleep(Duration::from_millis(300)).await;
                question
            }
        };

        for _ in 0..100 {
            let gone = tokio::time::timeout(Duration::from_millis(1), answers.of(ask())).await;
            assert!(gone.is_err());
        }
        assert_eq!(answers.of(ask()).await, Some(1));
        assert_eq!(asked.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_question_that_broke_off_is_asked_again() {
        let answers = FreshAnswer::<u32>::new();
        let breaks_off = answers.of(async { panic!("as if the core had stopped") });
        assert_eq!(breaks_off.await, None);
        assert_eq!(answers.of(async { 7 }).await, Some(7));
    }
}
