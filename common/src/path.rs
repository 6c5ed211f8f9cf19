//! The one validator of file names that cross machines ([`PortablePath`]): relative, without `..`,
//! and valid on Linux, macOS and Windows alike.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::legible;

/// The longest path, in bytes.
pub const MAX_PATH: usize = 1_024;
/// The longest name between two slashes, in bytes.
const MAX_NAME: usize = 255;
/// The most names in a path.
const MAX_DEPTH: usize = 32;

/// A relative path with `/` between its names that means the same file on every system.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PortablePath(String);

/// A path that deskgrid does not take from or give to another machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{shown}` is not a portable path: {why}")]
pub struct BadPath {
    shown: String,
    why: &'static str,
}

impl BadPath {
    fn new(path: &str, why: &'static str) -> Self {
        Self {
            shown: legible(path, 80),
            why,
        }
    }
}

impl PortablePath {
    /// Returns the path with `/` between its names.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn why_bad(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("it is empty");
    }
    if path.len() > MAX_PATH {
        return Some("it is longer than 1024 bytes");
    }
    if path.starts_with('/') {
        return Some("it is absolute");
    }
    if path.split('/').count() > MAX_DEPTH {
        return Some("it has more than 32 names");
    }

    path.split('/').find_map(why_bad_name)
}

fn why_bad_name(name: &str) -> Option<&'static str> {
    match name {
        "" => return Some("it has an empty name (two slashes, or one at the end)"),
        "." | ".." => return Some("it has `.` or `..` as a name"),
        _ => {}
    }

    if name.len() > MAX_NAME {
        return Some("a name is longer than 255 bytes");
    }
    if name
        .chars()
        .any(|c| c.is_control() || "<>:\"|?*\\".contains(c))
    {
        return Some("a name has a control character or one of < > : \" | ? * \\");
    }
    if name.ends_with(['.', ' ']) {
        return Some("a name ends in a dot or a space");
    }

    let stem = name
        .split('.')
        .next()
        .unwrap_or(name)
        .trim_end()
        .to_ascii_uppercase();
    let numbered = |prefix: &str| {
        stem.strip_prefix(prefix).is_some_and(|n| {
            matches!(n.chars().next(), Some('0'..='9' | '¹' | '²' | '³')) && n.chars().count() == 1
        })
    };

    (matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL") || numbered("COM") || numbered("LPT"))
        .then_some("a name is reserved on Windows")
}

/// The characters that can mean more than themselves in an output pattern.
pub const SPECIAL: [char; 7] = ['*', '?', '[', ']', '{', '}', '\\'];

/// Returns an output pattern that stands for this text alone: each special character is in brackets.
pub fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for c in text.chars() {
        if SPECIAL.contains(&c) {
            pattern.extend(['[', c, ']']);
        } else {
            pattern.push(c);
        }
    }
    pattern
}

/// Returns the bytes of [`escaped`]'s pattern for this text, without making it.
pub(crate) fn escaped_bytes(text: &str) -> usize {
    text.len() + 2 * text.matches(SPECIAL).count()
}

/// Returns the path of the one file or directory that an output pattern stands for, or `None` if it has
/// special characters beside those that [`escaped`] puts in brackets.
pub fn plain(pattern: &str) -> Option<String> {
    let stands_for_itself = |c| !['*', '?', '[', '{', '\\'].contains(&c);
    characters(pattern)
        .map(|(c, in_brackets)| (in_brackets || stands_for_itself(c)).then_some(c))
        .collect()
}

/// Checks an output pattern whose placeholders are filled in with [`escaped`] values: a file that it stands
/// for can lie below the task's directory and, where it stands for one file alone, be kept by its name. A
/// directory, with a slash at the end, can have a name that is not portable.
///
/// # Errors
/// Says why no file can.
pub fn check_output(pattern: &str) -> Result<(), BadPath> {
    // A host with Windows reads the backslash of a value as a slash.
    let pattern = pattern.replace(r"[\]", "/");
    let name = plain(&pattern).filter(|path| !path.ends_with('/'));
    let unportable = || name.as_deref().and_then(why_bad);

    match why_outside(&pattern).or_else(unportable) {
        None => Ok(()),
        Some(why) => Err(BadPath::new(&readable(&pattern), why)),
    }
}

/// Says why no file that an output pattern matches can lie below the task's directory.
fn why_outside(pattern: &str) -> Option<&'static str> {
    if pattern.starts_with('/') {
        return Some("it is absolute");
    }
    // A slash at the end stands for all that lies in a directory.
    let bare = pattern.strip_suffix('/').unwrap_or(pattern);
    bare.split('/').find_map(|name| match name {
        "" => Some("it has an empty name"),
        "." => Some("it has `.` as a name, which no file has"),
        ".." => Some("it leads out of the task's directory"),
        _ => None,
    })
}

/// Returns an output pattern for people: without the brackets that [`escaped`] puts.
pub fn readable(pattern: &str) -> String {
    characters(pattern).map(|(c, _)| c).collect()
}

/// Iterates over the characters of a pattern, each with whether it is one that [`escaped`] has put in
/// brackets, which are left out.
fn characters(pattern: &str) -> impl Iterator<Item = (char, bool)> {
    let mut rest = pattern;
    std::iter::from_fn(move || {
        let in_brackets = rest.strip_prefix('[').and_then(|inner| {
            let c = inner.chars().next().filter(|c| SPECIAL.contains(c))?;
            Some((c, inner[c.len_utf8()..].strip_prefix(']')?))
        });
        if let Some((c, after)) = in_brackets {
            rest = after;
            return Some((c, true));
        }

        let c = rest.chars().next()?;
        rest = &rest[c.len_utf8()..];
        Some((c, false))
    })
}

/// Whether a path lies inside the directory `dir`, case ignored.
pub fn is_inside(path: &str, dir: &str) -> bool {
    let (path, dir) = (path.to_lowercase(), dir.to_lowercase());
    path.strip_prefix(&dir)
        .is_some_and(|rest| rest.starts_with('/'))
}

impl TryFrom<String> for PortablePath {
    type Error = BadPath;
    fn try_from(path: String) -> Result<Self, BadPath> {
        match why_bad(&path) {
            None => Ok(PortablePath(path)),
            Some(why) => Err(BadPath::new(&path, why)),
        }
    }
}

impl std::str::FromStr for PortablePath {
    type Err = BadPath;
    fn from_str(s: &str) -> Result<Self, BadPath> {
        PortablePath::try_from(s.to_owned())
    }
}

impl From<PortablePath> for String {
    fn from(p: PortablePath) -> String {
        p.0
    }
}

impl AsRef<std::path::Path> for PortablePath {
    fn as_ref(&self) -> &std::path::Path {
        self.0.as_ref()
    }
}

impl fmt::Display for PortablePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn tricks_and_unportable_names_are_refused() {
        for wrong in [
            "",
            "/etc/passwd",
            "../x",
            "a/../b",
            "a/./b",
            "a//b",
            "a/",
            "c:\\x",
            "a\\b",
            "x\0y",
            "a\nb",
            "NUL",
            "nul.txt",
            "dir/COM1",
            "lpt9.log",
            "COM².txt",
            "end.",
            "end ",
            "a?b",
            "con .txt",
        ] {
            assert!(wrong.parse::<PortablePath>().is_err(), "{wrong:?}");
        }

        for (wrong, shown) in [
            ("back\\slash", "`back\\slash` is"),
            ("it's\n\"", "`it's\\n\"` is"),
        ] {
            let said = wrong.parse::<PortablePath>().expect_err("not portable");
            assert!(said.to_string().starts_with(shown), "{said}");
        }

        assert!("a/".repeat(40).parse::<PortablePath>().is_err());
        assert!("x".repeat(256).parse::<PortablePath>().is_err());
    }

    #[test]
    fn ordinary_names_are_taken() {
        for right in [
            "out.txt",
            "a/b/c.tar.gz",
            ".hidden",
            "naïve file (1).png",
            "COM10",
            "console",
            "..x",
            "%41",
        ] {
            assert_eq!(right.parse::<PortablePath>().unwrap().as_str(), right);
        }
    }

    #[test]
    fn a_path_is_inside_a_directory_whatever_the_case() {
        for inside in ["env/bin", "ENV/bin/x"] {
            assert!(is_inside(inside, "Env"), "{inside}");
        }
        for outside in ["env", "environment/bin", "en", "other/env/bin"] {
            assert!(!is_inside(outside, "env"), "{outside}");
        }
    }

    #[test]
    fn a_pattern_that_stands_for_one_path_is_known_as_such() {
        assert_eq!(escaped("scan[1]{a}.png"), "scan[[]1[]][{]a[}].png");
        for (pattern, path) in [
            ("out/a,b!.txt", "out/a,b!.txt"),
            ("scan[[]1[]].png", "scan[1].png"),
            ("[*][\\]", "*\\"),
        ] {
            assert_eq!(plain(pattern).as_deref(), Some(path), "{pattern}");
        }
        for pattern in ["*.txt", "a[1]", "[[]*", "[]a]", "{a,b}", "a\\b", "[["] {
            assert_eq!(plain(pattern), None, "{pattern}");
        }
        assert_eq!(readable("a[[]1[]]/*.png"), "a[1]/*.png");
    }

    #[test]
    fn an_output_pattern_that_no_file_can_be_kept_for_is_refused() {
        for (pattern, why) in [
            ("", "empty name"),
            ("/out.txt", "absolute"),
            ("/", "absolute"),
            ("../*", "leads out"),
            ("a/./*.txt", "`.` as a name"),
            ("a//", "empty name"),
            ("a:b.txt", "control character"),
            ("[*].txt", "control character"),
            ("nul.txt", "reserved"),
            ("end.", "ends in a dot"),
            (r"[\]abs", "absolute"),
            (r"a[\]..[\]b", "leads out"),
        ] {
            let refused = check_output(pattern).expect_err(pattern).to_string();
            assert!(refused.contains(why), "{pattern}: {refused}");
        }
        let long = "x".repeat(256);
        assert!(check_output(&long).is_err());

        // Names that are found only when the task has run may be odd, and so may those of directories.
        for pattern in [
            "out.txt",
            "a/",
            "a:b/",
            "a:*",
            "**",
            "..x/a..b",
            "{a,b}/c",
            "x[[]1[]].png",
            r"a[\]b",
        ] {
            assert_eq!(check_output(pattern), Ok(()), "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn an_escaped_text_is_a_pattern_for_that_text(text in "[a\\[\\]*?{}\\\\!,-]{0,8}|\\PC{0,12}") {
            let pattern = escaped(&text);
            let name = plain(&pattern);
            prop_assert_eq!(name.as_deref(), Some(text.as_str()));
            prop_assert_eq!(readable(&pattern), text);
        }

        #[test]
        fn accepted_paths_stay_below_the_directory(path in "[a./\\\\:]{0,12}|\\PC{0,20}") {
            if let Ok(p) = path.parse::<PortablePath>() {
                let components: Vec<_> = std::path::Path::new(p.as_str()).components().collect();
                prop_assert!(!components.is_empty());
                prop_assert!(components.iter().all(|c| matches!(c, std::path::Component::Normal(_))));
            }
        }
    }
}
