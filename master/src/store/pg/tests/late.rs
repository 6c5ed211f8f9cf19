//! A commit says of the lease what held when it was sent, however late its answer comes.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::{Span, Time};

use super::super::group::Group;
use super::super::session::DbSession;
use super::super::takeover::Takeover;
use super::super::{
    Database, SimulatedAnswer, SimulatedDatabase, SimulatedFault, SimulatedStatement, Simulation,
};
use crate::laws::SafetyRules;
use crate::store::ObjectName;

/// A database whose answers to commits take these times, and then none.
#[derive(Debug, Default)]
struct LateDatabase {
    takes: Mutex<Vec<Span>>,
    now: Mutex<Time>,
    commits: Mutex<usize>,
}

impl SimulatedDatabase for LateDatabase {
    fn connect(&self) -> Result<u64, SimulatedFault> {
        Ok(1)
    }

    fn fly(
        &self,
        _: u64,
        statements: Vec<SimulatedStatement>,
    ) -> Result<Vec<SimulatedAnswer>, SimulatedFault> {
        if statements.iter().any(|last| &*last.sql == "COMMIT") {
            *self.commits.lock().unwrap() += 1;
            let takes = self.takes.lock().unwrap().pop().unwrap_or_default();
            let mut now = self.now.lock().unwrap();
            *now = *now + takes;
        }
        Ok(vec![SimulatedAnswer::default(); statements.len()])
    }

    fn close(&self, _: u64) {}

    fn delete(&self, _: ObjectName) {}

    fn now(&self) -> Time {
        *self.now.lock().unwrap()
    }

    fn sleep(&self, _: Duration) {}
}

/// The number of commits of one group, the first of which takes these seconds to be answered.
fn commits(takes: &[u64]) -> usize {
    let database = Arc::new(LateDatabase::default());
    let takes = takes.iter().rev().map(|secs| Span::from_secs(*secs));
    *database.takes.lock().unwrap() = takes.collect();
    let place = Database::simulated(Simulation {
        database: database.clone(),
        laws: SafetyRules::KEPT,
    });
    let place = place.with_lease(Span::from_secs(5));

    let session = DbSession::to_write(&place).unwrap();
    let mut group = Group::of(&place, session, Takeover::of_tests(7), 0);
    group.note("DELETE FROM host", &[]);
    group.commit(&place).unwrap();
    *database.commits.lock().unwrap()
}

#[test]
fn a_commit_that_is_answered_when_another_may_have_the_store_is_followed_by_one_more() {
    assert_eq!(commits(&[0]), 1);
    assert_eq!(commits(&[3]), 1);
    assert_eq!(commits(&[4]), 2);
    assert_eq!(commits(&[60]), 2);
    assert_eq!(commits(&[60, 5, 3]), 3);
}
