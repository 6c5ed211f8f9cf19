//! A database that a simulated world plays, in the place of a server: `session` asks it what it would ask a
//! server, and `group` takes the time from it. No running program has one.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use common::Time;
pub use rusqlite::types::Value as SimulatedValue;

use super::cells::KeptValue;
use super::session::Database;
use crate::laws::SafetyRules;
use crate::store::ObjectName;

/// A database of a simulated world, as one process sees it. A call returns once its simulated time has
/// passed.
pub trait SimulatedDatabase: Debug + Send + Sync {
    /// Begins a session, and returns its number.
    ///
    /// # Errors
    /// If the database does not answer.
    fn connect(&self) -> Result<u64, SimulatedFault>;

    /// Executes statements in this order, until one fails.
    ///
    /// # Errors
    /// That of the statement, or that the session is lost.
    fn fly(
        &self,
        session: u64,
        statements: Vec<SimulatedStatement>,
    ) -> Result<Vec<SimulatedAnswer>, SimulatedFault>;

    /// Ends a session. It does not wait.
    fn close(&self, session: u64);

    /// Deletes an object of the world's bucket. It does not wait.
    fn delete(&self, name: ObjectName);

    /// The time since the machine was started.
    fn now(&self) -> Time;

    /// Lets this time pass.
    fn sleep(&self, time: Duration);
}

/// A statement of `fly`, with its values.
#[derive(Debug, Clone)]
pub struct SimulatedStatement {
    /// The text, as a server gets it.
    pub sql: Arc<str>,
    /// The values of its parameters.
    pub values: Vec<SimulatedValue>,
}

/// The answer to a [`SimulatedStatement`].
#[derive(Debug, Clone, Default)]
pub struct SimulatedAnswer {
    /// The number of rows that it changed.
    pub changed: u64,
    /// The rows of a question.
    pub rows: Vec<Vec<SimulatedValue>>,
}

/// An error of a [`SimulatedDatabase`].
#[derive(Debug, Clone)]
pub struct SimulatedFault {
    /// The SQLSTATE, such as a server gives.
    pub code: &'static str,
    /// The constraint that was violated, if one was.
    pub constraint: Option<&'static str>,
    /// The error in words.
    pub words: String,
}

impl SimulatedStatement {
    pub(super) fn of(sql: &str, values: impl Iterator<Item = KeptValue>) -> Self {
        let values = values.map(|value| match value {
            KeptValue::Null => SimulatedValue::Null,
            KeptValue::Flag(flag) => SimulatedValue::Integer(flag.into()),
            KeptValue::Int(n) => SimulatedValue::Integer(n),
            KeptValue::Real(n) => SimulatedValue::Real(n),
            KeptValue::Text(text) => SimulatedValue::Text(text.into()),
            KeptValue::Bytes(bytes) => SimulatedValue::Blob(bytes.into()),
        });
        Self {
            sql: Arc::from(sql),
            values: values.collect(),
        }
    }
}

/// The way of a process to its [`SimulatedDatabase`], with the [`SafetyRules`] that are kept there.
#[derive(Debug, Clone)]
pub(crate) struct Simulation {
    pub(crate) database: Arc<dyn SimulatedDatabase>,
    pub(crate) laws: SafetyRules,
}

/// A session with a [`SimulatedDatabase`]; dropping it ends it.
pub(super) struct SimulatedSession {
    database: Arc<dyn SimulatedDatabase>,
    number: u64,
}

impl SimulatedSession {
    pub(super) fn connect(simulation: &Simulation) -> Result<Self, SimulatedFault> {
        let database = simulation.database.clone();
        let number = database.connect()?;
        Ok(Self { database, number })
    }

    pub(super) fn fly(
        &self,
        statements: Vec<SimulatedStatement>,
    ) -> Result<Vec<SimulatedAnswer>, SimulatedFault> {
        self.database.fly(self.number, statements)
    }

    /// The answer to one statement.
    pub(super) fn ask(
        &self,
        sql: &str,
        values: impl Iterator<Item = KeptValue>,
    ) -> Result<SimulatedAnswer, SimulatedFault> {
        let answers = self.fly(vec![SimulatedStatement::of(sql, values)])?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }
}

impl Drop for SimulatedSession {
    fn drop(&mut self) {
        self.database.close(self.number);
    }
}

impl Database {
    /// The time since the machine was started, its sleep included.
    pub(super) fn since_boot(&self) -> Time {
        match self.simulation() {
            Some(simulation) => simulation.database.now(),
            None => crate::clock::since_boot(),
        }
    }

    /// Waits.
    pub(super) fn sleep(&self, time: Duration) {
        match self.simulation() {
            Some(simulation) => simulation.database.sleep(time),
            None => std::thread::sleep(time),
        }
    }

    /// The rules that are kept: all of them, but where a simulated world breaks one.
    pub(in crate::store) fn laws(&self) -> SafetyRules {
        self.simulation()
            .map_or(SafetyRules::KEPT, |simulation| simulation.laws)
    }
}
