//! Executes `deskgrid doctor`: checks the parts of deskgrid on this machine, and says what is wrong
//! and what to do. It changes nothing; it asks the master who it is, and no more.

#[cfg(unix)]
mod database;
mod machine;
mod master;
mod running;

use std::fmt::Write;

use common::text::printable;
use serde::Serialize;

use super::Context;
use crate::args::serve::DoctorArgs;
use crate::failure::{Exit, Failure};

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Severity {
    /// All is well.
    Ok,
    /// Worth knowing; nothing has to be done.
    Note,
    /// Broken.
    Wrong,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    /// The name of the check.
    check: String,
    severity: Severity,
    /// The result, in words.
    what: String,
    /// The remedy.
    #[serde(rename = "do", skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

impl Finding {
    fn ok(check: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            check: check.into(),
            severity: Severity::Ok,
            what: what.into(),
            todo: None,
        }
    }

    fn note(check: impl Into<String>, what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self {
            severity: Severity::Note,
            todo: Some(todo.into()),
            ..Self::ok(check, what)
        }
    }

    fn wrong(check: impl Into<String>, what: impl Into<String>, todo: impl Into<String>) -> Self {
        Self {
            severity: Severity::Wrong,
            todo: Some(todo.into()),
            ..Self::ok(check, what)
        }
    }

    /// Turns a failure into a finding.
    fn failed(check: impl Into<String>, failure: &Failure) -> Self {
        Self::wrong(check, failure.line(), failure.hint.clone())
    }
}

#[derive(Serialize)]
struct Findings {
    wrong: bool,
    findings: Vec<Finding>,
}

impl Findings {
    /// Returns those of this severity.
    fn of(&self, severity: Severity) -> impl Iterator<Item = &Finding> {
        let findings = self.findings.iter();
        findings.filter(move |finding| finding.severity == severity)
    }
}

/// Checks every part of deskgrid on this machine.
pub(super) async fn run(context: &Context, args: &DoctorArgs) -> Result<Exit, Failure> {
    let config = super::worker::settings(args.config.as_deref(), None, args.dedicated)?;

    // Masters run on Unix only.
    #[cfg(unix)]
    let master_config = super::operations::config(args.master_config.as_deref())?;

    let here = master::identities(&context.state);
    let has_joined = here.iter().any(|(who, _)| *who == master::WORKER);
    let worker = running::worker(&context.state, has_joined).await;
    // A worker that is to join here needs no other one.
    let is_new = here.is_empty() && worker.severity == Severity::Ok;
    let mut findings = machine::program(&context.state, is_new);
    for (who, identity) in &here {
        findings.extend(master::identity(who, identity).await);
    }

    findings.extend(machine::store(&context.state));
    #[cfg(unix)]
    {
        findings.extend(machine::surroundings(&context.state, &master_config));
        findings
            .extend(machine::bucket(&context.state, &master_config, args.content.clone()).await);
        let address = args.store.clone().or(master_config.store);
        findings.extend(database::findings(&context.state, address).await);
    }

    findings.push(worker);
    if here.is_empty() || has_joined {
        #[cfg(unix)]
        findings.extend(machine::account(&context.state, args));
        findings.extend(machine::sensors(&config).await);
        #[cfg(windows)]
        findings.extend(machine::watcher());
        findings.extend(machine::abilities(&config).await);
    }

    findings.extend(machine::disk(&context.state));
    let wrong = findings
        .iter()
        .any(|finding| finding.severity == Severity::Wrong);
    let found = Findings { wrong, findings };
    let names = found.of(Severity::Wrong).map(|f| f.check.clone());
    let ids = || names.collect();
    context.show(&found, || text(&found), ids)?;

    Ok(if wrong { Exit::Error } else { Exit::Well })
}

/// Counts the notes, in words; empty if there are none.
fn of_notes(found: &Findings) -> String {
    match found.of(Severity::Note).count() {
        0 => String::new(),
        1 => "; one note".to_owned(),
        count => format!("; {count} notes"),
    }
}

fn text(found: &Findings) -> String {
    let width = found
        .findings
        .iter()
        .map(|finding| finding.check.len())
        .max()
        .unwrap_or(0);

    let mut text = String::new();
    for Finding {
        check,
        severity,
        what,
        todo,
    } in &found.findings
    {
        let mark = match severity {
            Severity::Ok => "ok   ",
            Severity::Note => "note ",
            Severity::Wrong => "WRONG",
        };
        let _ = writeln!(text, "{mark}  {check:width$}  {}", printable(what));
        if let Some(todo) = todo.as_ref().filter(|todo| !todo.is_empty()) {
            let _ = writeln!(text, "{:7}{:width$}  try: {}", "", "", printable(todo));
        }
    }

    let _ = match found.of(Severity::Wrong).count() {
        0 => writeln!(text, "nothing is wrong{}", of_notes(found)),
        1 => writeln!(text, "one thing is wrong"),
        n => writeln!(text, "{n} things are wrong"),
    };

    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_line_up_and_say_what_to_do() {
        let findings = vec![
            Finding::ok("disk", "12 GB free"),
            Finding::wrong("clock", "an hour ahead", "set it"),
            Finding::note("x", "y", ""),
        ];
        let found = Findings {
            wrong: true,
            findings,
        };
        let want = "ok     disk   12 GB free\nWRONG  clock  an hour ahead\n              try: set it\nnote   x      y\none thing is wrong\n";
        assert_eq!(text(&found), want);

        let json = serde_json::to_string(&found).unwrap();
        assert!(
            json.contains(
                r#"{"check":"clock","severity":"wrong","what":"an hour ahead","do":"set it"}"#
            ),
            "{json}"
        );

        assert!(
            json.contains(r#"{"check":"disk","severity":"ok","what":"12 GB free"}"#),
            "{json}"
        );
    }
}
