//! What is forgotten because it is old. What is not here: how hosts were available, and content.

use common::Span;

use super::Core;
use crate::Config;
use crate::store::StoreError;

const DAY: u64 = 86_400;
/// So many jobs are forgotten in one turn, so that nobody waits long.
const PORTION: u32 = 100;
/// Tokens stay in lists for so long after they expired.
const TOKENS: Span = Span::from_secs(90 * DAY);

/// For how long settled jobs are kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct JobRetention(Option<Span>);

impl JobRetention {
    pub(super) fn of(config: &Config) -> Self {
        let days = u64::from(config.job_days);
        Self((days > 0).then_some(Span::from_secs(DAY.saturating_mul(days))))
    }
}

impl Core {
    /// Forgets some of the jobs that were settled long ago, and tokens that expired long ago. Says
    /// whether there may be more.
    pub(crate) fn retire(&mut self) -> Result<bool, StoreError> {
        self.store.trim_tokens(self.now - TOKENS)?;
        let JobRetention(Some(span)) = self.jobs_kept else {
            return Ok(false);
        };
        let old = self.store.settled_before(self.now - span, PORTION)?;
        for job in &old {
            self.forget(*job)?;
        }
        if !old.is_empty() {
            tracing::info!(jobs = old.len(), "forgotten: they were settled long ago");
        }
        Ok(old.len() == PORTION as usize)
    }
}
