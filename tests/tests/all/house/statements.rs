//! The statements of the master's store have one text for SQLite and PostgreSQL. What only one of
//! them understands, or what means another thing to each, must not be in it. What is of one engine
//! alone has a file of its own.

use super::source::literals;
use super::{files, text};

/// The files that speak to one engine alone, or are a directory of such.
const ENGINES: [&str; 2] = ["lite.rs", "pg"];

/// The words that PostgreSQL reserves: as names they are an error there, or, like `user`, a function.
const RESERVED: &str = "all analyse analyze and any array as asc asymmetric authorization between both case cast check \
    collate collation column concurrently constraint create cross current_catalog current_date current_role \
    current_schema current_time current_timestamp current_user default deferrable desc distinct do else end except \
    exists false fetch for foreign freeze from full grant group having ilike in initially inner intersect into is \
    isnull join lateral leading left like limit localtime localtimestamp natural not notnull null offset on only or \
    order outer overlaps placing primary references returning right select session_user similar some symmetric \
    system_user table tablesample then to trailing true union unique user using variadic verbose when where window \
    with";

/// Forms that only SQLite has, each with what both understand.
const LITE_ONLY: [(&str, &str); 12] = [
    ("INSERT OR ", "ON CONFLICT"),
    ("REPLACE INTO", "ON CONFLICT"),
    ("AUTOINCREMENT", "numbers of the store's own (`numbers.rs`)"),
    (
        "last_insert_rowid",
        "numbers of the store's own (`numbers.rs`)",
    ),
    ("group_concat", "string_agg"),
    ("ifnull(", "COALESCE"),
    ("PRAGMA", "a method of `Db`"),
    ("VACUUM", "a method of `Db`"),
    ("sqlite_", "a method of `Db`"),
    (" GLOB ", "LIKE"),
    ("?", "$1, $2 and so on"),
    (" IS $", "a condition for NULL of its own"),
];

/// A statement, or a part of one: its names are in lower case, its keywords in capitals.
fn is_statement(literal: &str) -> bool {
    let begins = |word: &str| literal.trim_start().starts_with(word);
    let name = |part: &str| {
        let part = part.trim_matches(|c: char| c.is_whitespace() || "\\\".".contains(c));
        part.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let names = literal.split(',').count() > 3 && literal.split(',').all(name);
    [
        "SELECT ",
        "INSERT ",
        "UPDATE ",
        "DELETE ",
        "CREATE ",
        "(SELECT ",
        "\nCREATE ",
    ]
    .iter()
    .any(|word| begins(word))
        || names
}

/// A statement without what is between quotes of either kind, or put in by `format!`.
fn bare(statement: &str) -> String {
    let plain = statement.replace("\\\"", "\"");
    let mut quote = None;
    let outside = |c: char| match quote {
        Some(open) if c == open => {
            quote = None;
            ' '
        }
        Some(_) => ' ',
        None if c == '\'' || c == '"' => {
            quote = Some(c);
            ' '
        }
        None if c == '{' => {
            quote = Some('}');
            ' '
        }
        None => c,
    };
    plain.chars().map(outside).collect()
}

/// The fault of a statement.
fn faults(statement: &str) -> Vec<String> {
    let bare = bare(statement);
    let words = || bare.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let reserved = words().filter(|word| {
        RESERVED
            .split_whitespace()
            .any(|reserved| reserved == *word)
    });
    let mut faults: Vec<String> = reserved
        .map(|word| format!("`{word}` is reserved in PostgreSQL: put it in quotes"))
        .collect();

    let forms = LITE_ONLY.iter().filter(|(form, _)| bare.contains(form));
    faults.extend(
        forms.map(|(form, instead)| format!("`{form}` is SQLite's alone: write {instead}")),
    );

    let mut parameters = Vec::new();
    for part in bare.split('$').skip(1) {
        let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: usize = part[..digits].parse().unwrap_or(0);
        if !parameters.contains(&number) {
            parameters.push(number);
        }
    }
    if !parameters.iter().copied().eq(1..=parameters.len()) {
        faults.push("its parameters do not first appear in the order of their numbers, by which SQLite goes".to_owned());
    }
    faults
}

#[test]
fn statements_mean_the_same_to_both_engines() {
    let mut seen = 0;
    for path in files("master/src/store", "rs") {
        let name = path
            .file_name()
            .expect("a file")
            .to_string_lossy()
            .into_owned();
        let of_one = path
            .iter()
            .any(|part| ENGINES.iter().any(|engine| part == *engine));
        if of_one || name == "tests.rs" || name == "year.rs" {
            continue;
        }
        let source = text(&path);
        let source = source
            .split("#[cfg(test)]\nmod tests {")
            .next()
            .unwrap_or_default();
        for statement in literals(source)
            .into_iter()
            .filter(|literal| is_statement(literal))
        {
            seen += 1;
            let faults = faults(statement);
            assert!(
                faults.is_empty(),
                "{}: {faults:#?} in\n{statement}",
                path.display()
            );
        }
    }
    assert!(seen > 140, "only {seen} statements found");
}

#[test]
fn a_statement_that_one_engine_takes_in_another_sense_is_found() {
    for bad in [
        "SELECT id FROM job WHERE user = $1",
        "SELECT start, end FROM availability",
        "INSERT OR IGNORE INTO share (job) VALUES ($1)",
        "SELECT id FROM job WHERE id = ?",
        "UPDATE job SET open = $2 WHERE id = $1",
        "SELECT group_concat(label) FROM job_label",
        "id, name, user, state",
    ] {
        assert!(is_statement(bad) && !faults(bad).is_empty(), "{bad}");
    }

    for good in [
        "SELECT id FROM job WHERE \\\"user\\\" = $1 AND state = 'end or user?'",
        "SELECT CASE WHEN a = $1 THEN b END FROM c WHERE d = $2 OR e = $1",
    ] {
        assert!(is_statement(good), "{good}");
        assert_eq!(faults(good), [""; 0], "{good}");
    }
}
