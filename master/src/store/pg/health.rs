//! A look at the health of a database, for `deskgrid doctor`: whether it can have a store, what is
//! promised where the primary is lost, and what an admin of it has to mend. It changes nothing.

use common::Span;
use common::units::Bytes;
use tokio_postgres::{Error, Row};

use super::error::words;
use super::session::DbSession;
use super::{Database, PgError};

/// The age of a transaction from which it is told of: as long as it is open, rows that were changed since
/// cannot be removed.
const LONG_OPEN: Span = Span::from_secs(3_600);
/// The bytes of log that a replica which is not connected may hold back before that is wrong.
const HELD_BACK: i64 = 1 << 30;
/// The number of transactions after which a table must be frozen soon: a half of what PostgreSQL
/// takes before it refuses changes.
const UNFROZEN: i32 = 1_000_000_000;
/// The number of free connections below which there is a note: a master needs a few, and its
/// successor as well.
const FREE: i64 = 8;

/// The severity of a [`DatabaseSight`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseHealth {
    /// All is well.
    Well,
    /// Worth knowing.
    Note,
    /// Broken, or about to break.
    Wrong,
}

/// One result of a look at a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseSight {
    /// The severity.
    pub health: DatabaseHealth,
    /// The result, in words.
    pub what: String,
    /// The remedy; empty where all is well.
    pub todo: String,
}

/// Looks at the database with this address. Returns the results by the names of the checks.
pub(crate) fn look(address: &str) -> Vec<(&'static str, DatabaseSight)> {
    look_for_long_open(address, LONG_OPEN)
}

/// The same, where a transaction is told of that is open for longer than `long_open`.
pub(super) fn look_for_long_open(
    address: &str,
    long_open: Span,
) -> Vec<(&'static str, DatabaseSight)> {
    let looked = Database::parse(address).and_then(|place| {
        let session = DbSession::to_write(&place)?;
        Ok((place, session))
    });
    let (place, session) = match looked {
        Ok(both) => both,
        Err(error) => return vec![("server", unusable(&error))],
    };

    let name = place.name();
    let of_server = match session.ask(SERVER) {
        Ok(row) => server(&name, row.get(0), row.get(1)),
        Err(error) => unasked(&error),
    };
    let of_pooler = match session.look_for_pooler(&place) {
        Ok(()) => DatabaseSight::well("none stands between that splits sessions"),
        Err(error) => unusable(&error),
    };
    let questions: [(&'static str, &str, &Judge<'_>); 7] = [
        ("rights", RIGHTS, &|row| {
            rights(row.get(0), row.get(1), row.get(2), row.get(3))
        }),
        ("commits", SYNC, &|row| syncs(row.get(0), row.get(1))),
        ("replication", REPLICATION, &|row| {
            replication(&Replicas {
                wanted: row.get(0),
                all: row.get(1),
                confirming: row.get(2),
                unseen: row.get(3),
                account: row.get(4),
            })
        }),
        ("replication slots", SLOTS, &|row| {
            slots(row.get(0), row.get(1), row.get(2))
        }),
        ("open transactions", TRANSACTIONS, &|row| {
            transactions(row.get(0), row.get(1), long_open)
        }),
        ("transaction numbers", AGE, &|row| age(row.get(0))),
        ("connections", CONNECTIONS, &|row| connections(row.get(0))),
    ];
    let asked = questions.map(|(check, question, judge)| match session.ask(question) {
        Ok(row) => (check, judge(&row)),
        Err(error) => (check, unasked(&error)),
    });

    let first = [("server", of_server), ("pooler", of_pooler)];
    first.into_iter().chain(asked).collect()
}

/// Makes a `DatabaseSight` of the answer to a question.
type Judge<'a> = dyn Fn(&Row) -> DatabaseSight + 'a;

impl DatabaseSight {
    fn well(what: impl Into<String>) -> Self {
        Self {
            health: DatabaseHealth::Well,
            what: what.into(),
            todo: String::new(),
        }
    }

    fn note(what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self {
            health: DatabaseHealth::Note,
            what: what.into(),
            todo: todo.into(),
        }
    }

    fn wrong(what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self {
            health: DatabaseHealth::Wrong,
            ..Self::note(what, todo)
        }
    }
}

/// The `DatabaseSight` of one that cannot have a store, or cannot be reached.
fn unusable(error: &PgError) -> DatabaseSight {
    let todo = match error {
        PgError::Address(_) => "give the address as postgres://USER@HOST/DATABASE",
        PgError::Away { .. } => {
            "see whether the server runs, and whether its pg_hba.conf lets this machine in; and whether account, password and database in \
             the address are right: postgres://USER:PASSWORD@HOST/DATABASE"
        }
        _ => "docs/operations.md says what a database must be like",
    };
    DatabaseSight::wrong(error.to_string(), todo)
}

fn unasked(error: &Error) -> DatabaseSight {
    let what = format!("cannot be asked: {}", words(error));
    DatabaseSight::note(what, "ask the admin of the database")
}

const SERVER: &str =
    "SELECT current_setting('server_version'), pg_database_size(current_database())";

fn server(name: &str, version: &str, bytes: i64) -> DatabaseSight {
    let size = Bytes(bytes.unsigned_abs());
    DatabaseSight::well(format!("PostgreSQL {version} at {name}, {size}"))
}

/// The account and the database, whether the account may make a schema there, and whether the schema
/// of a store, if there is one, is its own.
const RIGHTS: &str = "SELECT CAST(current_user AS text), CAST(current_database() AS text),
    has_database_privilege(current_database(), 'CREATE'),
    (SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = 'deskgrid')";

fn rights(account: &str, database: &str, may_make: bool, owns: Option<bool>) -> DatabaseSight {
    match (owns, may_make) {
        (Some(true), _) => {
            DatabaseSight::well(format!("the store belongs to the account {account}"))
        }
        (None, true) => DatabaseSight::well(format!("the account {account} may make a store")),
        (Some(false), _) => DatabaseSight::wrong(
            format!("the store belongs to another account than {account}, which cannot write it"),
            "name its owner in the address; or, as an admin of the database, give its tables and the schema deskgrid to this account",
        ),
        (None, false) => DatabaseSight::wrong(
            format!("the account {account} may not make a schema, and so no store"),
            format!(
                "as an admin of the database: GRANT CREATE ON DATABASE \"{database}\" TO \"{account}\""
            ),
        ),
    }
}

const SYNC: &str =
    "SELECT current_setting('fsync') = 'on', current_setting('full_page_writes') = 'on'";

fn syncs(fsync: bool, full_pages: bool) -> DatabaseSight {
    let off = match (fsync, full_pages) {
        (true, true) => {
            return DatabaseSight::well("are on the server's disk before they are acknowledged");
        }
        (false, _) => "fsync",
        (true, false) => "full_page_writes",
    };
    DatabaseSight::wrong(
        format!("the server runs with {off} = off: a power failure damages the store"),
        format!("set {off} = on in postgresql.conf, and reload it"),
    )
}

/// The fields of [`Replicas`].
const REPLICATION: &str = "SELECT current_setting('synchronous_standby_names'), count(pid),
    count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')), count(pid) FILTER (WHERE sync_state IS NULL),
    CAST(current_user AS text) FROM pg_stat_replication";

/// The replicas of a database.
struct Replicas {
    /// Those that are to confirm commits, as `synchronous_standby_names` has them.
    wanted: String,
    /// The number of those that are connected.
    all: i64,
    /// The number of those that confirm commits.
    confirming: i64,
    /// The number of those of which `account` may not see whether they do.
    unseen: i64,
    /// The account that asks.
    account: String,
}

fn replication(replicas: &Replicas) -> DatabaseSight {
    let Replicas {
        wanted,
        all,
        confirming,
        unseen,
        account,
    } = replicas;
    if *unseen > 0 {
        return DatabaseSight::note(
            format!("the account {account} may not see whether the replicas confirm commits"),
            format!("as an admin of the database: GRANT pg_monitor TO \"{account}\""),
        );
    }

    match (wanted.is_empty(), all, confirming) {
        (false, _, 0) => DatabaseSight::wrong(
            format!(
                "commits wait for a replica ({wanted}), and none of these is connected: the master stands still"
            ),
            "start the replica, or take it out of synchronous_standby_names",
        ),
        (false, ..) => DatabaseSight::well(format!(
            "{confirming} of {all} confirm commits: what is acknowledged outlives the loss of the primary"
        )),
        (true, 0, _) => DatabaseSight::note(
            "there is no replica: if the server's disk fails, what is in no backup is lost",
            "set up a replica, and name it in synchronous_standby_names",
        ),
        (true, ..) => DatabaseSight::note(
            format!(
                "none of {all} replicas confirms commits: one that takes over may lack the last moment"
            ),
            "name one in synchronous_standby_names, so that what is acknowledged is on two machines",
        ),
    }
}

/// The number of replicas that are not connected and hold back the log, the bytes that the worst of
/// them does, and its name.
const SLOTS: &str = "SELECT count(*), COALESCE(max(held), 0), COALESCE((array_agg(name ORDER BY held DESC))[1], '')
    FROM (SELECT CAST(slot_name AS text) AS name, CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) AS bigint) AS held
          FROM pg_replication_slots WHERE NOT active AND restart_lsn IS NOT NULL) AS gone";

fn slots(count: i64, bytes: i64, worst: &str) -> DatabaseSight {
    if count == 0 {
        return DatabaseSight::well("none holds back the server's log");
    }

    let held = Bytes(bytes.unsigned_abs());
    let what = format!(
        "{count} of replicas that are not connected; that of {worst} holds back {held} of the log"
    );
    let todo = format!(
        "start that replica, or give it up with SELECT pg_drop_replication_slot('{worst}'), before the log fills the disk"
    );
    if bytes > HELD_BACK {
        DatabaseSight::wrong(what, todo)
    } else {
        DatabaseSight::note(what, todo)
    }
}

/// The age of the oldest open transaction that holds back the removal of rows, in seconds, and what
/// has it open.
const TRANSACTIONS: &str = "SELECT COALESCE(CAST(extract(epoch FROM clock_timestamp() - since) AS double precision), 0), COALESCE(who, '')
    FROM (SELECT 1) AS one LEFT JOIN (
        SELECT xact_start AS since, 'process ' || pid || ' (' || application_name || ')' AS who FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND backend_xmin IS NOT NULL AND backend_type = 'client backend'
        UNION ALL SELECT prepared, 'the prepared transaction ' || gid FROM pg_prepared_xacts
        ORDER BY since LIMIT 1) AS oldest ON true";

fn transactions(age: f64, who: &str, long_open: Span) -> DatabaseSight {
    if age <= long_open.secs() {
        return DatabaseSight::well(format!("none is older than {long_open}"));
    }
    let hours = age / 3_600.0;
    DatabaseSight::wrong(
        format!(
            "{who} has one open for {hours:.1} h: rows that were changed since stay, and the store grows"
        ),
        "end it with pg_terminate_backend(PID), or with ROLLBACK PREPARED",
    )
}

const AGE: &str = "SELECT age(datfrozenxid) FROM pg_database WHERE datname = current_database()";

fn age(used: i32) -> DatabaseSight {
    if used > UNFROZEN {
        return DatabaseSight::wrong(
            format!(
                "{used} were used since rows were last frozen: at 2 billion the server refuses changes"
            ),
            "VACUUM (FREEZE) the database, and see why autovacuum does not",
        );
    }
    DatabaseSight::well(format!(
        "{used} of 2 billion were used since rows were last frozen"
    ))
}

const CONNECTIONS: &str = "SELECT CAST(current_setting('max_connections') AS bigint)
    - CAST(current_setting('superuser_reserved_connections') AS bigint) - count(*)
    FROM pg_stat_activity WHERE backend_type = 'client backend'";

fn connections(free: i64) -> DatabaseSight {
    let what = format!("{} are free", free.max(0));
    if free < FREE {
        return DatabaseSight::note(
            what,
            "raise max_connections, or let other programs use fewer",
        );
    }
    DatabaseSight::well(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(wanted: &str, all: i64, confirming: i64, unseen: i64) -> DatabaseSight {
        let (wanted, account) = (wanted.to_owned(), "deskgrid".to_owned());
        replication(&Replicas {
            wanted,
            all,
            confirming,
            unseen,
            account,
        })
    }

    #[test]
    fn what_is_lost_with_the_primary_depends_on_replicas_that_confirm_commits() {
        use DatabaseHealth::{Note, Well, Wrong};
        for (wanted, all, confirming, unseen, health, said) in [
            ("", 0, 0, 0, Note, "there is no replica"),
            ("", 2, 0, 0, Note, "none of 2 replicas confirms"),
            ("b", 2, 1, 0, Well, "1 of 2 confirm"),
            ("b", 0, 0, 0, Wrong, "commits wait for a replica (b)"),
            ("b", 1, 0, 0, Wrong, "commits wait for a replica (b)"),
            ("", 1, 0, 1, Note, "may not see"),
        ] {
            let judged = replicas(wanted, all, confirming, unseen);
            assert_eq!(judged.health, health, "{}", judged.what);
            assert!(judged.what.contains(said), "{}", judged.what);
        }
    }

    #[test]
    fn whatever_is_not_well_has_a_remedy() {
        let gib = 1 << 30;
        for (judged, health) in [
            (syncs(true, true), DatabaseHealth::Well),
            (syncs(true, false), DatabaseHealth::Wrong),
            (syncs(false, true), DatabaseHealth::Wrong),
            (slots(0, 0, ""), DatabaseHealth::Well),
            (slots(1, gib, "b"), DatabaseHealth::Note),
            (slots(2, gib + 1, "b"), DatabaseHealth::Wrong),
            (
                transactions(3_600.0, "process 7", LONG_OPEN),
                DatabaseHealth::Well,
            ),
            (
                transactions(3_601.0, "process 7", LONG_OPEN),
                DatabaseHealth::Wrong,
            ),
            (age(UNFROZEN), DatabaseHealth::Well),
            (age(UNFROZEN + 1), DatabaseHealth::Wrong),
            (rights("a", "grid", false, Some(true)), DatabaseHealth::Well),
            (
                rights("a", "grid", true, Some(false)),
                DatabaseHealth::Wrong,
            ),
            (rights("a", "grid", true, None), DatabaseHealth::Well),
            (rights("a", "grid", false, None), DatabaseHealth::Wrong),
            (connections(8), DatabaseHealth::Well),
            (connections(-1), DatabaseHealth::Note),
        ] {
            assert_eq!(judged.health, health, "{}", judged.what);
            let well = health == DatabaseHealth::Well;
            assert_eq!(judged.todo.is_empty(), well, "{}", judged.what);
        }
    }
}
