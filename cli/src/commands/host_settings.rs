//! Executes `deskgrid host settings`: settings that an admin keeps at the master for the workers of
//! the grid.

use std::collections::BTreeMap;
use std::path::Path;

use api::json::SiteJson;
use common::site::{HostSiteView, SiteScope, SiteText, SiteTextView};
use common::text::printable;
use common::wire::SITE_VERSION;
use common::wire::client::{Reply, Request};
use link::client::unexpected;

use super::Context;
use crate::args::serve::{HostSettingsCommand, SettingsScope};
use crate::failure::{Exit, Failure};
use crate::output::table::Rows;
use crate::output::{note, when};
use crate::session::Session;

/// The text of a file that has every setting.
pub(super) const EXAMPLE: &str = include_str!("../../../configs/site.toml");

/// Executes one verb of `deskgrid host settings`.
pub(super) async fn run(
    context: &Context,
    session: &Session,
    command: HostSettingsCommand,
) -> Result<Exit, Failure> {
    if session.client().version() < SITE_VERSION {
        let what = "this master is too old to keep settings for workers";
        return Err(Failure::too_old(what));
    }

    match command {
        HostSettingsCommand::Show => show(context, session).await,
        HostSettingsCommand::Set { file, scope } => {
            let scope = scope.of();
            let text = read(&file, &scope)?;
            change(context, session, scope, Some(text)).await
        }
        HostSettingsCommand::Clear { scope } => change(context, session, scope.of(), None).await,
        // The caller has printed it: it needs no master.
        HostSettingsCommand::Example => Ok(Exit::Well),
    }
}

impl SettingsScope {
    /// Returns the hosts that the flags name; all if they name none.
    fn of(self) -> SiteScope {
        match (self.label, self.host) {
            (Some(label), _) => SiteScope::Label(label),
            (None, Some(host)) => SiteScope::Host(host),
            (None, None) => SiteScope::All,
        }
    }
}

/// Reads a file of settings, after the same checks that a worker makes.
fn read(file: &Path, scope: &SiteScope) -> Result<String, Failure> {
    let text = crate::files::read_text(file)
        .map_err(|error| Failure::unreadable(format!("cannot read {}", file.display()), &error))?;
    let whole = SiteText {
        scope: scope.clone(),
        text,
    };
    let sound = whole.check().map_err(|bad| bad.to_string());
    let sound = sound.and_then(|()| worker::site::check(&whole.text));
    sound.map_err(|why| {
        let what = format!("{} cannot be settings for workers", file.display());
        let hint = "see what can be set: deskgrid host settings example";
        Failure::usage(what, hint).because(why)
    })?;

    Ok(whole.text)
}

async fn change(
    context: &Context,
    session: &Session,
    scope: SiteScope,
    text: Option<String>,
) -> Result<Exit, Failure> {
    let words = scope.to_string();
    let stored = text.is_some();
    let (settings, hosts) = asked(
        session,
        &Request::SiteChange {
            scope: scope.clone(),
            text,
        },
    )
    .await?;

    let answer = SiteJson::new(&settings, &hosts);
    let told = || match stored {
        true => stored_in_words(&scope, hosts.len()),
        false => format!("withdrawn for {}\n", printable(&words)),
    };
    let shown = context.show(&answer, told, || vec![words.clone()])?;
    if stored && hosts.is_empty() {
        note(&holds_for_none(&scope));
    }
    Ok(shown)
}

/// Says for how many hosts settings hold that were just stored.
fn stored_in_words(scope: &SiteScope, hosts: usize) -> String {
    let words = scope.to_string();
    let hosts = match hosts {
        0 => return format!("stored for {}\n", printable(&words)),
        1 => "one host".to_owned(),
        more => format!("{more} hosts"),
    };

    format!(
        "stored for {}, {hosts} for now; connected workers get them at once, others when they connect\n\
         see which have taken them: deskgrid host settings show\n",
        printable(&words)
    )
}

/// Warns of settings that hold for no host yet.
fn holds_for_none(scope: &SiteScope) -> String {
    match scope {
        SiteScope::All => "note: no host has joined yet; those that do get them".to_owned(),
        SiteScope::Host(name) => format!("note: `{}` has not been here", printable(name)),
        SiteScope::Label(label) => format!(
            "note: no host has the label `{label}`; they hold for those that get it: deskgrid host label HOST {label}"
        ),
    }
}

async fn show(context: &Context, session: &Session) -> Result<Exit, Failure> {
    let (settings, hosts) = asked(session, &Request::Site).await?;
    let answer = SiteJson::new(&settings, &hosts);
    let text = || shown(&settings, &hosts, context.out.color());
    let scopes = || settings.iter().map(|view| view.scope.clone()).collect();
    context.show(&answer, text, scopes)
}

/// Sends a request, and collects the settings and hosts of its replies.
async fn asked(
    session: &Session,
    request: &Request,
) -> Result<(Vec<SiteTextView>, Vec<HostSiteView>), Failure> {
    let mut settings = Vec::new();
    let mut hosts = Vec::new();

    for reply in session.client().ask(request).await? {
        match reply {
            Reply::Site(some, of_hosts) => {
                settings.extend(some);
                hosts.extend(of_hosts);
            }
            other => return Err(unexpected(Some(&other)).into()),
        }
    }
    Ok((settings, hosts))
}

fn shown(settings: &[SiteTextView], hosts: &[HostSiteView], color: bool) -> String {
    if settings.is_empty() {
        return "no settings for workers are kept here: deskgrid host settings set FILE\n"
            .to_owned();
    }

    let now = when::now();
    let mut text = String::new();
    for view in settings {
        let scope = printable(&view.scope);
        let by = printable(&view.by);
        let stored = when::relative(view.at, now);
        text += &format!("{scope}, stored by {by} {stored}:\n");
        for line in view.text.lines() {
            text += &format!("  {}\n", printable(line));
        }
    }

    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut rows = Rows::new(&["HOST", "SETTINGS", "ANSWERED", "WHY"], color);
    for view in hosts {
        *counts.entry(view.standing.to_string()).or_default() += 1;
        let answered = view.answered.map(|at| when::relative(at, now));
        rows.add([
            view.host.clone(),
            view.standing.to_string(),
            answered.unwrap_or_default(),
            view.why.clone().unwrap_or_default(),
        ]);
    }

    let counts: Vec<String> = counts
        .iter()
        .map(|(standing, count)| format!("{count} {standing}"))
        .collect();
    if !counts.is_empty() {
        text += &format!("\nhosts: {}\n", counts.join(", "));
    }
    text + "\n" + &rows.text("they hold for no host that has joined\n")
}

#[cfg(test)]
mod tests {
    use common::Time;
    use common::site::SiteStanding;

    use super::*;

    #[test]
    fn settings_are_shown_with_who_stored_them_and_which_hosts_have_them() {
        let settings = [SiteTextView {
            scope: "label lab3".to_owned(),
            text: "slots = 1\n".to_owned(),
            by: "ann".to_owned(),
            at: Time(1),
        }];
        let host = |host: &str, standing, why: Option<&str>| HostSiteView {
            host: host.to_owned(),
            standing,
            answered: None,
            why: why.map(str::to_owned),
        };
        let hosts = [
            host("pc-1", SiteStanding::Taken, None),
            host("pc-2", SiteStanding::TooOld, None),
            host(
                "pc-3",
                SiteStanding::Refused,
                Some("the owner\u{1b} says no"),
            ),
        ];
        let text = shown(&settings, &hosts, false);
        for part in [
            "label lab3, stored by ann ",
            "\n  slots = 1\n",
            "hosts: 1 refused, 1 taken, 1 too-old",
            "pc-3  refused",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}'));
        assert!(shown(&[], &[], false).contains("host settings set FILE"));
    }
}
