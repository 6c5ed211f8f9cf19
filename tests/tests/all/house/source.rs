//! Rust text without its comments and literals, so that rules about names do not trip over prose.
//! It knows just enough of the language for that; it is no parser.

/// `source` with every comment, string and character literal blanked; lines stay where they are.
pub(super) fn code(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let inside_name = out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let length = blank_length(rest, inside_name);
        if length == 0 {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        } else {
            out.extend(
                rest[..length]
                    .chars()
                    .map(|c| if c == '\n' { '\n' } else { ' ' }),
            );
            rest = &rest[length..];
        }
    }

    out
}

/// The string literals of `source`, as they are written between their quotes.
pub(super) fn literals(source: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = source;
    let mut inside_name = false;
    while let Some(first) = rest.chars().next() {
        let length = blank_length(rest, inside_name);
        if first == '"' && length > 1 {
            found.push(&rest[1..length - 1]);
        }
        rest = &rest[length.max(first.len_utf8())..];
        inside_name = length == 0 && (first.is_alphanumeric() || first == '_');
    }
    found
}

/// How many bytes at the start of `rest` are a comment or a literal.
fn blank_length(rest: &str, inside_name: bool) -> usize {
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return block_comment(rest);
    }
    if rest.starts_with('"') {
        return quoted(rest, '"');
    }
    if rest.starts_with('\'') {
        return character(rest);
    }
    if inside_name { 0 } else { raw_string(rest) }
}

fn block_comment(rest: &str) -> usize {
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let step = if rest[at..].starts_with("/*") {
            depth += 1;
            2
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            2
        } else {
            rest[at..].chars().next().map_or(1, char::len_utf8)
        };

        at += step;
        if depth == 0 {
            return at;
        }
    }

    rest.len()
}

/// Up to and with the quote that closes the one at the start.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A character literal; 0 for a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) => quoted(rest, '\''),
        (Some(c), Some('\'')) => c.len_utf8() + 2,
        _ => 0,
    }
}

fn raw_string(rest: &str) -> usize {
    let after = rest
        .strip_prefix("br")
        .or_else(|| rest.strip_prefix('r'))
        .unwrap_or("");
    let hashes = after.len() - after.trim_start_matches('#').len();
    let Some(body) = after[hashes..].strip_prefix('"') else {
        return 0;
    };
    let end = format!("\"{}", "#".repeat(hashes));
    let opening = rest.len() - body.len();
    body.find(&end)
        .map_or(rest.len(), |at| opening + at + end.len())
}

#[test]
fn only_code_is_left() {
    let given = "a // b\n/* c /* d */ e */f(\"g\\\" h\", 'i', '\\'', r#\"j\" k\"#, &'l m)";
    let left: String = code(given).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(left, "a f( , , , , &'l m)");
    assert_eq!(code(given).lines().count(), 2);
}

#[test]
fn literals_are_found_outside_comments() {
    let given = "a(\"b\"); // \"c\"\nd('\"', \"e \\\"f\\\"\", \"\")";
    assert_eq!(literals(given), ["b", "e \\\"f\\\"", ""]);
}

#[test]
fn a_name_that_ends_in_r_does_not_open_a_raw_string() {
    assert_eq!(code("r#type for\"x\" y").trim_end(), "r#type for    y");
}
