//! Answers to monitors, who prove nothing and ask as often as they like: `/healthz` and `/metrics`. The
//! core is asked once a second at most, however many ask.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State as Shared;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::core::NoReply;
use crate::core::ask::UpkeepAsk;
use crate::numbers::{self, GridNumbers};
use crate::run::SessionContext;
use crate::whole;

/// The time in which the core answers while all is well.
const HEALTH: Duration = Duration::from_secs(3);
/// The time for which an answer of the core is given to everybody.
const FRESH: Duration = Duration::from_secs(1);

/// Something that was asked for and is given to all who ask for it again soon.
struct FreshAnswer<T>(Mutex<Option<(Instant, T)>>);

impl<T: Clone> FreshAnswer<T> {
    fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Returns the answer, by `ask` where there is none that is fresh: one asks, and others wait for it.
    async fn of(&self, ask: impl Future<Output = T>) -> T {
        let mut kept = self.0.lock().await;
        if let Some((at, answer)) = &*kept
            && at.elapsed() < FRESH
        {
            return answer.clone();
        }

        let answer = ask.await;
        *kept = Some((Instant::now(), answer.clone()));
        answer
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

/// What monitors ask.
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
    let health = monitors.health.of(core_health(state)).await;

    match health {
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

async fn core_health(state: &SessionContext) -> CoreHealth {
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
    monitors.measured.of(measure(state)).await?;
    Ok(state.metrics.render())
}

async fn measure(state: &SessionContext) -> Result<(), StatusCode> {
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
                let ask = async {
                    // The core takes its time, in which others ask.
                    tokio::time::sleep(Duration::from_millis(300)).await;
                    asked.fetch_add(1, Ordering::SeqCst) + 1
                };
                answers.of(ask).await
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
    async fn a_monitor_that_goes_away_while_it_asks_leaves_the_question_to_the_next_one() {
        let answers = FreshAnswer::new();
        let never = tokio::time::timeout(FRESH, answers.of(std::future::pending::<u32>())).await;
        assert!(never.is_err());
        assert_eq!(answers.of(async { 7 }).await, 7);
    }
}
