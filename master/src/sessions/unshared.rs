//! Shares that end while somebody looks at a job: [`Unshared`] says which jobs the right to look is to be
//! checked for again. It does not check it.

use std::sync::Arc;

use common::IdSet;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::answers::Answered;
use crate::core::{EndedShare, NoReply};

/// Tells one user who looks at jobs of shares that have ended.
pub(super) struct Unshared {
    ended: Receiver<Arc<EndedShare>>,
    /// The user; `None` for an admin, who needs no share.
    user: Option<String>,
}

impl Unshared {
    pub(super) fn new(ended: Receiver<Arc<EndedShare>>, user: Option<String>) -> Self {
        Self { ended, user }
    }

    /// Waits until this user's share of some of `jobs` has ended, and returns those: all of them if there was
    /// too much to hear. Nothing that was heard is lost if the wait is given up.
    pub(super) async fn among(&mut self, jobs: &IdSet) -> Answered<IdSet> {
        loop {
            let ended = match self.ended.recv().await {
                Ok(ended) if self.user.as_ref() == Some(&ended.user) => {
                    jobs.intersection(&ended.jobs)
                }
                Err(RecvError::Lagged(_)) if self.user.is_some() => jobs.clone(),
                Ok(_) | Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return Err(NoReply::Stopped.into()),
            };

            if !ended.is_empty() {
                return Ok(ended);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::broadcast::channel;

    use super::*;

    #[tokio::test]
    async fn an_ended_share_concerns_only_whom_it_was_with_and_who_looks_at_its_jobs() {
        let (tell, ended) = channel(4);
        let mut bob = Unshared::new(ended, Some("bob".to_owned()));
        let jobs = IdSet::from_range(3, 7);
        let tell_of = |user: &str, jobs: IdSet| {
            let user = user.to_owned();
            tell.send(Arc::new(EndedShare { user, jobs })).unwrap()
        };

        tell_of("cid", IdSet::from_range(5, 5));
        tell_of("bob", IdSet::from_range(9, 9));
        tell_of("bob", IdSet::from_range(1, 4));
        let concerned = bob.among(&jobs).await.ok().unwrap();
        assert_eq!(concerned, IdSet::from_range(3, 4));

        // More than is kept for those who listen.
        for _ in 0..5 {
            tell_of("cid", IdSet::from_range(5, 5));
        }
        assert_eq!(bob.among(&jobs).await.ok(), Some(jobs.clone()));

        drop(tell);
        assert!(bob.among(&jobs).await.is_err());
    }
}
