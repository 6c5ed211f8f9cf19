//! The tables of a store in PostgreSQL: those of the whole store with the types that it has here,
//! and those by which one master at a time writes.

use super::super::schema;

/// The tables beside those of the store. `lease` has one row, which changes only when a master
/// takes the store or gives it up: `token` fences off whoever had it before, `member` names the
/// master (empty: nobody), `holder` and `address` say the same to people, `commits` counts what was
/// committed before this token, `backend` and `begun` name the holder's connection, `layout` is the
/// version of the tables, `taken` the time by the holder's clock. `turn` has a row for each group that
/// the holder of a token committed. `member` lists the masters that stand by, with when they last
/// said so, by the server's clock: for people only.
pub const LEASE_TABLES: &str = "
CREATE TABLE lease (
    grid integer PRIMARY KEY CHECK (grid = 1), token bigint NOT NULL, member text NOT NULL, holder text NOT NULL,
    address text NOT NULL, backend bigint NOT NULL, begun bigint NOT NULL, commits bigint NOT NULL, layout bigint NOT NULL,
    taken bigint NOT NULL);
CREATE TABLE turn (token bigint NOT NULL, seq bigint NOT NULL, PRIMARY KEY (token, seq));
CREATE TABLE member (id text PRIMARY KEY, holder text NOT NULL, address text NOT NULL, seen timestamptz NOT NULL);
ALTER TABLE attempt SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
INSERT INTO lease VALUES (1, 0, '', '', '', 0, 0, 0, 0, 0);
";

/// The number of groups that were ever committed.
pub(super) const COMMITS: &str =
    "SELECT l.commits + COALESCE((SELECT max(seq) FROM turn t WHERE t.token = l.token), 0)
    FROM lease l WHERE grid = 1";

/// Sets the number of commits that the holder of the lease counts on from.
pub(super) const COUNTS_ON: &str = "UPDATE lease SET commits = $1 WHERE grid = 1 AND commits < $1";

/// The lease, with the last turn of its token and whether its holder's connection lives.
pub(super) const LEASE: &str =
    "SELECT token, COALESCE((SELECT max(seq) FROM turn t WHERE t.token = l.token), 0),
    member, holder, address,
    EXISTS (SELECT 1 FROM pg_stat_activity a WHERE a.pid = l.backend
            AND CAST(extract(epoch FROM a.backend_start) * 1000000 AS bigint) = l.begun),
    layout, taken, commits FROM lease l WHERE grid = 1";

/// Holds the lease of this token against all groups, and waits for one that is under way.
pub(super) const HOLD: &str = "SELECT 1 FROM lease WHERE grid = 1 AND token = $1 FOR UPDATE";

/// The last turn of a token. A question of its own after [`HOLD`]: it sees the group that was waited
/// for.
pub(super) const LAST_TURN: &str = "SELECT COALESCE(max(seq), 0) FROM turn WHERE token = $1";

/// Takes the lease: the token changes, so that groups of the one before fail.
pub(super) const TAKE: &str = "UPDATE lease l SET token = $1, member = $2, holder = $3, address = $4, taken = $5,
    backend = pg_backend_pid(),
    begun = (SELECT CAST(extract(epoch FROM backend_start) * 1000000 AS bigint) FROM pg_stat_activity
             WHERE pid = pg_backend_pid()),
    commits = commits + $6 WHERE grid = 1 AND token = $7";

/// Gives the lease up.
pub(super) const RESIGN: &str = "UPDATE lease SET member = '' WHERE grid = 1 AND token = $1";

/// Ends the connection of the holder of this token.
pub(super) const CUT_OFF: &str =
    "SELECT pg_terminate_backend(a.pid) FROM lease l, pg_stat_activity a
    WHERE l.grid = 1 AND l.token = $1 AND a.pid = l.backend
    AND CAST(extract(epoch FROM a.backend_start) * 1000000 AS bigint) = l.begun";

/// Notes the holder's new connection.
pub(super) const MOVE: &str = "UPDATE lease SET backend = pg_backend_pid(),
    begun = (SELECT CAST(extract(epoch FROM backend_start) * 1000000 AS bigint) FROM pg_stat_activity
             WHERE pid = pg_backend_pid())
    WHERE grid = 1 AND token = $1";

/// Says that a master stands by.
pub(super) const STANDS_BY: &str = "INSERT INTO member (id, holder, address, seen) VALUES ($1, $2, $3, now())
    ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, address = excluded.address, seen = excluded.seen";

/// Removes a master from those that stand by, and all that have not said so for a day.
pub(super) const STANDS_NOT: &str =
    "DELETE FROM member WHERE id = $1 OR seen < now() - interval '1 day'";

/// The masters that stand by, with the seconds since they said so.
pub(super) const MEMBERS: &str = "SELECT holder, address,
    CAST(extract(epoch FROM now() - seen) AS double precision) FROM member ORDER BY address, id";

/// Fails (22012, division by zero) where the lease is another's; else holds it to the end of the
/// transaction.
pub(super) const FENCE: &str = "SELECT 1 / count(*) FROM (SELECT 1 FROM lease WHERE grid = 1 AND token = $1 FOR SHARE) AS mine";

/// Notes a turn: a group that is sent twice fails here.
pub(super) const TURN: &str = "INSERT INTO turn (token, seq) VALUES ($1, $2)";

/// Whether there is a table of this name.
pub(super) const HAS_TABLE: &str = "SELECT EXISTS (SELECT 1 FROM pg_tables
    WHERE schemaname = current_schema() AND tablename = $1)";

/// The columns, indexes and views that there are, each in words.
pub(super) const PARTS: &str = "SELECT CASE c.relkind WHEN 'v' THEN 'the view ' || c.relname
        ELSE 'the column ' || c.relname || '.' || a.attname END
    FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relkind IN ('r', 'v') AND a.attnum > 0
    AND NOT a.attisdropped
    UNION SELECT 'the index ' || c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND i.indisvalid";

/// Whether the server keeps checksums of its pages.
pub(super) const CHECKSUMS: &str = "SELECT current_setting('data_checksums') = 'on'";

/// The version of the tables.
pub(super) const VERSION: &str = "SELECT layout FROM lease WHERE grid = 1";

/// Removes turns that tell nothing any more.
pub(super) const TRIM: &str = "DELETE FROM turn WHERE token < $1 OR (token = $1 AND seq < $2)";

/// The text that makes the schema, and the tables of the first version in it.
pub(super) fn made(name: &str) -> String {
    let first = here(schema::MIGRATIONS[0]);
    format!("CREATE SCHEMA IF NOT EXISTS \"{name}\"; {first}{LEASE_TABLES}")
}

/// The text that brings tables of version `found` to this version.
pub(super) fn upgrade(found: usize) -> String {
    let steps = schema::MIGRATIONS.get(found.max(1)..).unwrap_or_default();
    let steps: String = steps.iter().map(|step| here(step)).collect();
    format!("{steps}; UPDATE lease SET layout = {}", schema::VERSION)
}

/// The text of a migration with the types of this engine.
fn here(migration: &str) -> String {
    migration
        .replace(" INTEGER", " bigint")
        .replace(" BLOB", " bytea")
        .replace(" REAL", " double precision")
        .replace(" WITHOUT ROWID", "")
        .replace("datetime(", "to_timestamp(")
        .replace(", 'unixepoch')", ")")
        // SQLite compares texts byte by byte, and so must this: lists are told in that order.
        .replace(" TEXT", " text COLLATE \"C\"")
}
