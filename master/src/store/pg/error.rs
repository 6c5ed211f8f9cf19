//! Errors of a database: a server's, or a simulated one's.

use tokio_postgres::error::SqlState;

use super::simulated::SimulatedFault;

/// An error of a statement, or of the connection.
#[derive(Debug)]
pub(in crate::store) enum DbError {
    /// From a server, or the way to it.
    Server(tokio_postgres::Error),
    /// From a `SimulatedDatabase`.
    Simulated(SimulatedFault),
}

impl From<tokio_postgres::Error> for DbError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Server(error)
    }
}

impl From<SimulatedFault> for DbError {
    fn from(fault: SimulatedFault) -> Self {
        Self::Simulated(fault)
    }
}

impl DbError {
    /// The SQLSTATE, if it has one.
    pub(super) fn code(&self) -> Option<&str> {
        match self {
            Self::Server(error) => error.code().map(SqlState::code),
            Self::Simulated(fault) => Some(fault.code),
        }
    }

    /// Whether it has this [`SqlState`].
    pub(super) fn is(&self, state: &SqlState) -> bool {
        self.code() == Some(state.code())
    }

    /// The constraint that was violated, if one was.
    pub(super) fn constraint(&self) -> Option<&str> {
        match self {
            Self::Server(error) => error.as_db_error()?.constraint(),
            Self::Simulated(fault) => fault.constraint,
        }
    }

    /// Whether it passes with a new connection or with time.
    pub(super) fn passes(&self) -> bool {
        let code = match (self.code(), self) {
            (Some(code), _) => code,
            (None, Self::Server(error)) => {
                return error.is_closed()
                    || std::error::Error::source(error)
                        .is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
            }
            (None, Self::Simulated(_)) => return false,
        };
        ["08", "53", "57P"].iter().any(|class| code.starts_with(class))
            // A standby that is not promoted yet; a conflict of transactions; a lock that is held for long.
            || ["25006", "40001", "40P01", "55P03", "25P03"].contains(&code)
    }

    /// The error with what the server said of it, and without the statement's values.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Server(error) => words(error),
            Self::Simulated(fault) => fault.words.clone(),
        }
    }
}

/// A server's error with what it said of it, and without the statement's values.
pub(super) fn words(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(said), _) => match said.detail() {
            Some(detail) => format!("{} ({detail})", said.message()),
            None => said.message().to_owned(),
        },
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}
