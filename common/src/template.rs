//! Text with placeholders: `%{JOB_ID}`, `%{TASK_ID}`, `%{ATTEMPT_ID}`, `%{HOST}`, `%{ITEM}`,
//! `%{RANK}`, `%{WIDTH}`, `%{PLATFORM}`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::ids::AttemptId;
use crate::path::{escaped, escaped_bytes};

/// The names that may stand between `%{` and `}`.
pub const PLACEHOLDERS: [&str; 8] = [
    "JOB_ID",
    "TASK_ID",
    "ATTEMPT_ID",
    "HOST",
    "ITEM",
    "RANK",
    "WIDTH",
    "PLATFORM",
];

/// A text whose placeholders are all in [`PLACEHOLDERS`]. `%{` opens a placeholder, `%%{` stands for
/// `%{`, and any other `%` for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Template(String);

/// The values of the placeholders for one attempt.
#[derive(Debug, Clone, Copy)]
pub struct TemplateValues<'a> {
    /// The attempt, which gives `JOB_ID`, `TASK_ID` and `ATTEMPT_ID`.
    pub attempt: AttemptId,
    /// The name of the host that runs the attempt.
    pub host: &'a str,
    /// The name of that host's platform, `PLATFORM`.
    pub platform: &'a str,
    /// The task's item, `ITEM`; empty if the job has none.
    pub item: &'a str,
    /// The number of ranks of its gang, `WIDTH`; `None` if the job is no gang.
    pub width: Option<u32>,
}

/// The error for a text with an unknown or unclosed placeholder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadTemplate {
    /// The name between the braces is unknown.
    #[error(
        "`%{{{0}}}` is not a placeholder: use one of %{{JOB_ID}} %{{TASK_ID}} %{{ATTEMPT_ID}} %{{HOST}} %{{ITEM}} %{{RANK}} %{{WIDTH}} %{{PLATFORM}}"
    )]
    Unknown(String),
    /// No closing brace follows.
    #[error("`%{{` in `{0}` is never closed by `}}`")]
    Unclosed(String),
}

/// The text that stands for a `%{` that opens no placeholder.
const ESCAPED: &str = "%%{";

impl Template {
    /// Makes a template that expands to this text, whatever is in it.
    pub fn literal(text: &str) -> Self {
        Template(text.replace("%{", ESCAPED))
    }

    /// Returns the text as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the placeholder `name` occurs.
    pub fn mentions(&self, name: &str) -> bool {
        pieces(&self.0)
            .flatten()
            .any(|piece| piece == TemplatePiece::Placeholder(name))
    }

    /// Returns the text with each placeholder replaced by its value.
    pub fn expand(&self, values: &TemplateValues<'_>) -> String {
        self.replaced(|name| values.value_of(name))
    }

    /// Returns the text as an output pattern in which each value stands for itself, whatever
    /// characters it has.
    pub fn expand_pattern(&self, values: &TemplateValues<'_>) -> String {
        self.replaced(|name| escaped(&values.value_of(name)))
    }

    fn replaced(&self, value_of: impl Fn(&str) -> String) -> String {
        let mut out = String::with_capacity(self.0.len() + 8);
        for piece in pieces(&self.0).flatten() {
            match piece {
                TemplatePiece::Text(text) => out.push_str(text),
                TemplatePiece::Placeholder(name) => out.push_str(&value_of(name)),
            }
        }
        out
    }

    /// Returns the bytes of the text that [`Template::expand`] makes of values of these lengths, or
    /// [`Template::expand_pattern`] of values of these escaped lengths, without making it.
    pub fn expanded_bytes(&self, lengths: &ValueLengths) -> usize {
        let bytes = pieces(&self.0).flatten().map(|piece| match piece {
            TemplatePiece::Text(text) => text.len(),
            TemplatePiece::Placeholder(name) => lengths.of(name),
        });
        bytes.fold(0, usize::saturating_add)
    }
}

/// The lengths of the values of all placeholders, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueLengths([usize; PLACEHOLDERS.len()]);

impl ValueLengths {
    /// Returns the length of the value of a placeholder.
    pub fn of(&self, name: &str) -> usize {
        let mut all = PLACEHOLDERS.iter().zip(self.0);
        all.find(|(placeholder, _)| **placeholder == name)
            .map_or(0, |(_, bytes)| bytes)
    }
}

impl TemplateValues<'_> {
    /// Returns the lengths of the values.
    pub fn lengths(&self) -> ValueLengths {
        ValueLengths(PLACEHOLDERS.map(|name| self.value_of(name).len()))
    }

    /// Returns the lengths of the values as [`Template::expand_pattern`] writes them.
    pub fn escaped_lengths(&self) -> ValueLengths {
        ValueLengths(PLACEHOLDERS.map(|name| escaped_bytes(&self.value_of(name))))
    }

    /// Returns the value of a placeholder, which tasks also get as the environment variable
    /// `DESKGRID_` + `name`.
    pub fn value_of(&self, name: &str) -> String {
        match name {
            "JOB_ID" => self.attempt.task.job.to_string(),
            "TASK_ID" => self.attempt.task.index.to_string(),
            "ATTEMPT_ID" => self.attempt.number.to_string(),
            "HOST" => self.host.to_owned(),
            "PLATFORM" => self.platform.to_owned(),
            "ITEM" => self.item.to_owned(),
            // Without ranks the task is rank 0 of 1, so that the same program runs with and without
            // them.
            "RANK" => self
                .width
                .map_or(0, |_| self.attempt.task.index)
                .to_string(),
            "WIDTH" => self.width.unwrap_or(1).to_string(),
            _ => String::new(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TemplatePiece<'a> {
    Text(&'a str),
    Placeholder(&'a str),
}

fn pieces(text: &str) -> impl Iterator<Item = Result<TemplatePiece<'_>, BadTemplate>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }

        if let Some(after) = rest.strip_prefix(ESCAPED) {
            rest = after;
            return Some(Ok(TemplatePiece::Text("%{")));
        }
        // An escape that comes first begins a byte before: a search for it would read the rest of a long text
        // for each piece.
        let open = rest.find("%{").unwrap_or(rest.len());
        let open = open - usize::from(rest[..open].ends_with('%') && open < rest.len());
        if open > 0 {
            let (before, after) = rest.split_at(open);
            rest = after;
            return Some(Ok(TemplatePiece::Text(before)));
        }

        let Some(close) = rest.find('}') else {
            rest = "";
            return Some(Err(BadTemplate::Unclosed(text.to_owned())));
        };
        let name = &rest[2..close];
        rest = &rest[close + 1..];

        Some(if PLACEHOLDERS.contains(&name) {
            Ok(TemplatePiece::Placeholder(name))
        } else {
            Err(BadTemplate::Unknown(name.to_owned()))
        })
    })
}

impl TryFrom<String> for Template {
    type Error = BadTemplate;
    fn try_from(text: String) -> Result<Self, BadTemplate> {
        pieces(&text).try_for_each(|piece| piece.map(drop))?;
        Ok(Template(text))
    }
}

impl FromStr for Template {
    type Err = BadTemplate;
    fn from_str(s: &str) -> Result<Self, BadTemplate> {
        Template::try_from(s.to_owned())
    }
}

impl From<Template> for String {
    fn from(t: Template) -> String {
        t.0
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Incarnation, JobId, TaskId};

    fn values(item: &str) -> TemplateValues<'_> {
        TemplateValues {
            attempt: AttemptId {
                task: TaskId::new(JobId(7), 3),
                number: 2,
                incarnation: Incarnation(1),
            },
            host: "pc9",
            platform: "linux-x86_64",
            item,
            width: None,
        }
    }

    #[test]
    fn placeholders_expand_and_other_percent_signs_stay() {
        let values = values("a%{HOST}b");

        let t: Template = "%{JOB_ID}.%{TASK_ID}/%{ATTEMPT_ID} 100% %d %{ITEM} on %{HOST}"
            .parse()
            .unwrap();
        assert_eq!(t.expand(&values), "7.3/2 100% %d a%{HOST}b on pc9");

        let build: Template = "bin/%{PLATFORM}".parse().unwrap();
        assert_eq!(build.expand(&values), "bin/linux-x86_64");

        let ranks: Template = "%{RANK} of %{WIDTH}".parse().unwrap();
        assert_eq!(ranks.expand(&values), "0 of 1");
        assert_eq!(
            ranks.expand(&TemplateValues {
                width: Some(8),
                ..values
            }),
            "3 of 8"
        );

        let lengths = values.lengths();
        for template in [&t, &build, &ranks] {
            let text = template.expand(&values);
            assert_eq!(template.expanded_bytes(&lengths), text.len(), "{text}");
        }

        assert!(t.mentions("ITEM") && !"%ITEM".parse::<Template>().unwrap().mentions("ITEM"));
    }

    #[test]
    fn the_values_in_a_pattern_are_no_patterns() {
        let pattern: Template = "%{ITEM}/*-%{TASK_ID}[ab]".parse().unwrap();
        let values = values("x[1]*");
        let expanded = pattern.expand_pattern(&values);
        assert_eq!(expanded, "x[[]1[]][*]/*-3[ab]");
        let bytes = pattern.expanded_bytes(&values.escaped_lengths());
        assert_eq!(bytes, expanded.len());
    }

    #[test]
    fn a_doubled_percent_sign_makes_a_brace_literal() {
        let values = values("");
        let expand = |text: &str| text.parse::<Template>().unwrap().expand(&values);
        assert_eq!(
            expand("%%{http_code} %%{TASK_ID} %%{"),
            "%{http_code} %{TASK_ID} %{"
        );
        assert_eq!(
            expand("%%%{JOB_ID} 5%% %%{}%{JOB_ID}"),
            "%%{JOB_ID} 5%% %{}7"
        );
        assert_eq!(expand("%{JOB_ID}%{JOB_ID}%%{%{JOB_ID}% %"), "77%{7% %");
        assert_eq!(Template::literal("a%{b%%{c").expand(&values), "a%{b%%{c");
    }

    #[test]
    fn unknown_placeholders_are_refused() {
        assert_eq!(
            "%{JOB}".parse::<Template>(),
            Err(BadTemplate::Unknown("JOB".into()))
        );
        assert_eq!(
            "a%{ITEM".parse::<Template>(),
            Err(BadTemplate::Unclosed("a%{ITEM".into()))
        );
    }
}
