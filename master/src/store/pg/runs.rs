//! The changes of a group as few statements: changes of one kind that concern different rows become a
//! run, which is sent as one statement over arrays (`unnest`). The text is still the one of the whole
//! store: it is read here, and what is not understood is sent as it is, alone and in its place.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tokio_postgres::types::Type;

use super::cells::KeptValue;
use crate::store::value::quoted_list;

/// A table whose rows are often changed one by one.
pub(super) struct KeyedTable {
    pub(super) name: &'static str,
    /// The columns of its primary key. None of them is a text, which would be compared by other rules in an array.
    pub(super) key: &'static [&'static str],
    /// The other columns in which no two rows may be alike. A change of them depends on other rows.
    pub(super) unique: &'static [&'static str],
}

const fn table(
    name: &'static str,
    key: &'static [&'static str],
    unique: &'static [&'static str],
) -> KeyedTable {
    KeyedTable { name, key, unique }
}

/// The tables of which runs are made.
pub(super) const TABLES: &[KeyedTable] = &[
    table("attempt", &["job", "task", "number"], &[]),
    table("availability", &["host", "start"], &[]),
    table("blob_use", &["hash", "job"], &[]),
    table("checkpoint", &["job", "task"], &[]),
    table("checkpoint_blob", &["job", "task", "hash"], &[]),
    table("host", &["id"], &["name"]),
    table("job", &["id"], &["request"]),
    table("kept", &["job", "task", "number"], &[]),
    table("kept_blob", &["job", "task", "number", "hash"], &[]),
    table("settled", &["job", "first"], &[]),
];

/// A statement that changes only the one row that its parameters name, and looks at no other.
#[derive(Debug, PartialEq)]
pub(super) struct RowChange {
    table: usize,
    /// The parameters that are the key, counted from 0.
    key: Vec<usize>,
    /// The text before and after `FROM unnest(…)`, with a column `each.p1`, `each.p2` … for each parameter.
    front: String,
    back: String,
    /// Whether one statement may have a row twice: then only the first counts, as one by one.
    repeats: bool,
}

/// A change that is kept until its group is durable.
pub(super) struct KeptChange {
    pub(super) text: Arc<KeptText>,
    pub(super) values: Vec<KeptValue>,
    /// Whether somebody waits for the number of rows that it changes.
    pub(super) counted: bool,
}

/// The text of a statement.
pub(super) struct KeptText {
    pub(super) sql: Arc<str>,
    pub(super) row: Option<RowChange>,
}

impl KeptText {
    pub(super) fn new(sql: &str) -> Self {
        Self {
            sql: Arc::from(sql),
            row: RowChange::read(sql),
        }
    }
}

/// Changes that are sent together, by their place among all, in this order.
pub(super) type ChangeRun = Vec<usize>;

/// Orders changes into runs. Those that concern one row stay in their order, and so do all before
/// and all after one that is not a [`RowChange`].
pub(super) fn runs(changes: &[KeptChange]) -> Vec<ChangeRun> {
    let mut runs: Vec<ChangeRun> = Vec::new();
    let mut last_of_row: HashMap<u64, usize> = HashMap::new();
    let mut last_of_kind: HashMap<*const KeptText, usize> = HashMap::new();

    for (at, change) in changes.iter().enumerate() {
        let Some(row) = change.text.row.as_ref().filter(|_| !change.counted) else {
            runs.push(vec![at]);
            last_of_row.clear();
            last_of_kind.clear();
            continue;
        };

        let key = row.hash_of_key(&change.values);
        let kind = Arc::as_ptr(&change.text);

        let same = last_of_kind.get(&kind).copied();
        let joined = same.filter(|run| match last_of_row.get(&key) {
            None => true,
            Some(before) => before < run || (before == run && row.repeats),
        });
        let run = joined.unwrap_or_else(|| {
            runs.push(Vec::new());
            runs.len() - 1
        });

        runs[run].push(at);
        last_of_row.insert(key, run);
        last_of_kind.insert(kind, run);
    }
    runs
}

impl RowChange {
    /// Reads a statement; `None` if it may do more than change the row that its parameters name.
    fn read(sql: &str) -> Option<Self> {
        let literals = sql.split('\'').skip(1).step_by(2);
        if literals
            .into_iter()
            .any(|text| text.contains(char::is_whitespace))
        {
            return None;
        }

        let sql = sql.split_whitespace().collect::<Vec<_>>().join(" ");
        if sql.contains("SELECT") || sql.contains(" OR ") {
            return None;
        }
        match sql.strip_prefix("INSERT INTO ") {
            Some(rest) => Self::read_insert(rest),
            None => Self::read_update(sql.strip_prefix("UPDATE ")?),
        }
    }

    fn read_insert(sql: &str) -> Option<Self> {
        let (name, rest) = sql.split_once(" (")?;
        let (columns, rest) = rest.split_once(") VALUES (")?;
        let (items, rest) = rest.split_once(')')?;
        let table = TABLES
            .iter()
            .position(|table| table.name == unquoted(name))?;
        let known = &TABLES[table];
        let plain = rest.is_empty() || rest.starts_with(" ON CONFLICT");
        if !known.unique.is_empty() || items.contains('(') || rest.contains('$') || !plain {
            return None;
        }

        let columns: Vec<&str> = columns.split(", ").map(unquoted).collect();
        let items: Vec<&str> = items.split(", ").collect();
        let parameter_of = |column: &&str| {
            let at = columns.iter().position(|name| name == column)?;
            parameter(items.get(at)?)
        };
        Some(Self {
            table,
            key: known.key.iter().map(parameter_of).collect::<Option<_>>()?,
            front: format!(
                "INSERT INTO {name} ({}) SELECT {}",
                quoted_list(columns.iter().copied()),
                over_each(&items.join(", "))
            ),
            back: rest.to_owned(),
            repeats: rest.ends_with(" DO NOTHING"),
        })
    }

    fn read_update(sql: &str) -> Option<Self> {
        let (name, rest) = sql.split_once(" SET ")?;
        let (changed, which) = rest.split_once(" WHERE ")?;
        let table = TABLES
            .iter()
            .position(|table| table.name == unquoted(name))?;
        let known = &TABLES[table];
        let mut fixed = known.key.iter().chain(known.unique);
        if which.contains(" WHERE ") || fixed.any(|column| sets(changed, column)) {
            return None;
        }

        let conditions: Vec<(&str, &str)> = which
            .split(" AND ")
            .filter_map(|one| one.split_once(" = "))
            .collect();
        let parameter_of = |column: &&str| {
            let found = conditions
                .iter()
                .find(|(name, _)| unquoted(name) == *column)?;
            parameter(found.1)
        };
        Some(Self {
            table,
            key: known.key.iter().map(parameter_of).collect::<Option<_>>()?,
            front: format!("UPDATE {name} SET {}", over_each(changed)),
            back: format!(" WHERE {}", over_each(which)),
            repeats: false,
        })
    }

    /// The statement for many rows, with an array of each of these types for a parameter.
    pub(super) fn over_arrays(&self, kinds: &[Type]) -> String {
        let listed = |part: &dyn Fn(usize, &Type) -> String| {
            let parts = kinds
                .iter()
                .enumerate()
                .map(|(at, kind)| part(at + 1, kind));
            parts.collect::<Vec<_>>().join(", ")
        };
        let arrays = listed(&|at, kind| format!("${at}::{}[]", kind.name()));
        let columns = listed(&|at, _| format!("p{at}"));

        let Self { front, back, .. } = self;
        format!("{front} FROM unnest({arrays}) AS each ({columns}){back}")
    }

    /// A number that is the same for the same row. That other rows may have it too only makes more
    /// runs.
    fn hash_of_key(&self, values: &[KeptValue]) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.table.hash(&mut hasher);

        for at in &self.key {
            match values.get(*at) {
                Some(KeptValue::Int(n)) => n.hash(&mut hasher),
                Some(KeptValue::Bytes(bytes)) => bytes.hash(&mut hasher),
                // No key has another type.
                _ => {}
            }
        }
        hasher.finish()
    }
}

/// Whether these assignments set this column.
fn sets(assignments: &str, column: &str) -> bool {
    let quoted = format!("\"{column}\"");
    [column, &quoted].iter().any(|name| {
        let first = format!("{name} =");
        let later = format!(", {name} =");
        assignments.starts_with(&first) || assignments.contains(&later)
    })
}

fn unquoted(name: &str) -> &str {
    name.trim_matches('"')
}

/// The place of the parameter, counted from 0, if this is one.
fn parameter(item: &str) -> Option<usize> {
    let number: usize = item.strip_prefix('$')?.parse().ok()?;
    number.checked_sub(1)
}

/// A part of a statement with the columns of the arrays for the parameters.
fn over_each(part: &str) -> String {
    let mut pieces = part.split('$');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + "each.p" + piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::lite;
    use crate::store::schema;

    fn changes(all: &[(&Arc<KeptText>, &[i64])]) -> Vec<KeptChange> {
        let change = |(text, values): &(&Arc<KeptText>, &[i64])| KeptChange {
            text: (*text).clone(),
            values: values.iter().map(|n| KeptValue::Int(*n)).collect(),
            counted: false,
        };
        all.iter().map(change).collect()
    }

    #[test]
    fn the_keys_are_those_of_the_tables_and_no_other_column_has_to_be_unique() {
        let tables = lite::tables().unwrap();
        let schema = schema::MIGRATIONS.concat();
        for keyed in TABLES {
            let (_, columns) = tables.iter().find(|(name, _)| name == keyed.name).unwrap();
            let mut key: Vec<_> = columns
                .iter()
                .filter(|column| column.key.is_some())
                .collect();
            key.sort_by_key(|column| column.key);
            let names: Vec<&str> = key.iter().map(|column| column.name.as_str()).collect();
            assert_eq!(names, keyed.key, "{}", keyed.name);
            assert!(
                key.iter().all(|column| column.kind != "TEXT"),
                "{}",
                keyed.name
            );

            let start = format!("CREATE TABLE {} (", keyed.name);
            let made = schema
                .split(&start)
                .nth(1)
                .unwrap()
                .split(';')
                .next()
                .unwrap();
            let unique: Vec<&str> = made
                .split(", ")
                .filter(|column| column.contains(" UNIQUE"))
                .filter_map(|column| column.split_whitespace().next())
                .collect();
            assert_eq!(unique, keyed.unique, "{}", keyed.name);
            let index = format!(" ON {} (", keyed.name);
            let is_of_it = |made: &&str| made.contains("UNIQUE INDEX") && made.contains(&index);
            assert_eq!(schema.split(';').find(is_of_it), None);
        }
    }

    #[test]
    fn a_statement_over_arrays_says_the_same_of_each_row() {
        let text = KeptText::new(
            "INSERT INTO settled (job, first, last, state, why) VALUES ($1, $2, $2, 'open', $3)
             ON CONFLICT (job, first) DO UPDATE SET last = excluded.last",
        );
        let kinds = [Type::INT8, Type::INT8, Type::TEXT];
        assert_eq!(
            text.row.unwrap().over_arrays(&kinds),
            "INSERT INTO settled (\"job\", \"first\", \"last\", \"state\", \"why\") SELECT each.p1, each.p2, each.p2, 'open', each.p3 \
             FROM unnest($1::int8[], $2::int8[], $3::text[]) AS each (p1, p2, p3) ON CONFLICT (job, first) DO UPDATE SET last = \
             excluded.last"
        );
        let text = KeptText::new(
            "UPDATE attempt SET started = COALESCE(started, $1) WHERE job = $2 AND task = $3 AND number = $4
             AND state IN ('killed', 'lost')",
        );
        let row = text.row.unwrap();
        assert_eq!(row.key, [1, 2, 3]);
        assert_eq!(
            row.over_arrays(&[Type::INT8, Type::INT8, Type::INT8, Type::INT8]),
            "UPDATE attempt SET started = COALESCE(started, each.p1) FROM unnest($1::int8[], $2::int8[], $3::int8[], $4::int8[]) \
             AS each (p1, p2, p3, p4) WHERE job = each.p2 AND task = each.p3 AND number = each.p4 AND state IN ('killed', 'lost')"
        );
    }

    #[test]
    fn a_statement_that_may_concern_more_than_one_row_is_sent_alone() {
        for sql in [
            "UPDATE attempt SET charged = FALSE WHERE job = $1 AND task BETWEEN $2 AND $3",
            "UPDATE attempt SET task = $1 WHERE job = $2 AND task = $3 AND number = $4",
            "UPDATE attempt SET cpu = 0 WHERE job = $1 AND task = $2 OR number = $3",
            "UPDATE attempt SET cpu = (SELECT 1) WHERE job = $1 AND task = $2 AND number = $3",
            "UPDATE attempt SET start_why = start_why || ' a' WHERE job = $1 AND task = $2 AND number = $3",
            "UPDATE host SET name = $1 WHERE id = $2",
            "INSERT INTO host (id, name) VALUES ($1, $2)",
            "INSERT INTO blob_use (hash, job) VALUES ($1, 7)",
            "INSERT INTO blob_use (hash, job) VALUES ($1, abs($2))",
            "INSERT INTO blob_use SELECT $1, $2",
            "DELETE FROM kept WHERE job = $1 AND task = $2 AND number = $3",
            "UPDATE meta SET value = $1 WHERE key = $2",
        ] {
            assert_eq!(RowChange::read(sql), None, "{sql}");
        }
    }

    #[test]
    fn changes_of_one_row_stay_in_order_and_those_of_others_share_a_run() {
        let kind = |sql: &str| Arc::new(KeptText::new(sql));
        let which = "WHERE job = $2 AND task = $3 AND number = $4";
        let ran = kind(&format!("UPDATE attempt SET ran = $1 {which}"));
        let cpu = kind(&format!("UPDATE attempt SET cpu = $1 {which}"));
        let any = kind("DELETE FROM attempt WHERE job = $1");
        let all = changes(&[
            (&ran, &[1, 1, 1, 1]),
            (&cpu, &[2, 1, 1, 1]),
            (&ran, &[3, 1, 2, 1]),
            (&cpu, &[4, 1, 2, 1]),
            // The first row again: behind what was done to it.
            (&ran, &[5, 1, 1, 1]),
            (&any, &[1]),
            (&ran, &[6, 1, 3, 1]),
        ]);
        assert_eq!(
            runs(&all),
            [vec![0, 2], vec![1, 3], vec![4], vec![5], vec![6]]
        );

        let used = kind(
            "INSERT INTO kept_blob (job, task, number, hash) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
        );
        let all = changes(&[(&used, &[1, 1, 1, 1]), (&used, &[1, 1, 1, 1])]);
        assert_eq!(runs(&all), [vec![0, 1]]);

        let mut all = changes(&[(&ran, &[1, 1, 1, 1]), (&ran, &[1, 1, 2, 1])]);
        all[1].counted = true;
        assert_eq!(runs(&all), [vec![0], vec![1]]);
    }
}
