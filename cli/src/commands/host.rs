//! Executes `deskgrid host`.

use std::collections::BTreeSet;

use common::Span;
use common::host::{Gpu, HostFacts};
use common::needs::{Capacity, Label};
use common::text::{plural, printable};
use common::units::Bytes;
use common::view::{HostExplainView, HostState, HostView};
use common::wire::client::Request;
use serde::Serialize;

use super::{Context, host_settings, host_update};
use crate::args::HostCommand;
use crate::args::serve::HostSettingsCommand;
use crate::failure::{Exit, Failure};
use crate::output::json::{Json, List};
use crate::output::table::{Rows, facts};
use crate::output::{note, when};
use crate::session::Session;

/// The number of entries of the audit log in which refusals are looked for.
const NEWEST: u32 = 1_000;

/// Executes one verb of `deskgrid host`.
pub(super) async fn run(context: &Context, command: HostCommand) -> Result<Exit, Failure> {
    if let HostCommand::Settings(HostSettingsCommand::Example) = command {
        return super::config::site(context);
    }
    let session = Session::open(&context.state).await?;

    match command {
        HostCommand::Settings(command) => host_settings::run(context, &session, command).await,
        HostCommand::Update(command) => host_update::run(context, &session, command).await,
        HostCommand::List { all } => list(context, &session, all).await,
        HostCommand::Info { host } => {
            one(context, &session, Request::Hosts { names: vec![host] }).await
        }
        HostCommand::Explain { host } => explain(context, &session, host).await,
        HostCommand::Revoke { host } => revoke(context, &session, host).await,
        HostCommand::Drain { host } => one(context, &session, Request::Drain { host }).await,
        HostCommand::Owner { host, owner, .. } => {
            one(context, &session, Request::HostOwner { host, owner }).await
        }
        HostCommand::Forget { host } => forget(context, &session, host).await,
        HostCommand::Label {
            host,
            labels,
            remove,
        } => {
            let add = labels;
            note_missing(&session, &host, &remove).await?;
            one(context, &session, Request::HostLabels { host, add, remove }).await
        }
        HostCommand::Resume { host } => one(context, &session, Request::Undrain { host }).await,
    }
}

/// Says of labels that are to be removed and that no admin has given the host that nothing changes.
async fn note_missing(session: &Session, host: &str, remove: &[Label]) -> Result<(), Failure> {
    if remove.is_empty() {
        return Ok(());
    }
    let names = vec![host.to_owned()];
    let hosts = session.hosts(&Request::Hosts { names }).await?;

    for (view, label) in hosts
        .iter()
        .flat_map(|view| remove.iter().map(move |label| (view, label)))
    {
        let name = &view.facts.name;
        if view.facts.labels.contains(label) {
            note(&format!(
                "{name} keeps the label {label}: its owner has given it, and only the worker's settings end that"
            ));
        } else if !view.labels.contains(label) {
            note(&format!("{name} has no label {label}"));
        }
    }
    Ok(())
}

/// Revokes a host's identity, which has the host's name.
async fn revoke(context: &Context, session: &Session, host: String) -> Result<Exit, Failure> {
    let named = session
        .hosts(&Request::Hosts {
            names: vec![host.clone()],
        })
        .await?;
    let name = named
        .into_iter()
        .next()
        .map_or(host, |view| view.facts.name);
    super::identity::judge(context, session, &Request::Revoke { name }).await
}

/// Leaves a revoked host out of lists.
async fn forget(context: &Context, session: &Session, host: String) -> Result<Exit, Failure> {
    let gone = session.hosts(&Request::HostForget { host }).await?;
    let text = || format!("forgotten: {}\n", printable(&names(&gone).join(", ")));
    context.show(&List("hosts", &gone), text, || names(&gone))
}

/// The hosts, and where joining was refused to somebody of late, to how many.
#[derive(Serialize)]
struct HostList<'a> {
    #[serde(flatten)]
    hosts: List<'a, HostView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused_last_hour: Option<usize>,
}

/// Counts the PCs and users to whom the master has refused joining within the last hour; `None` if
/// there are none, and for users who may not read the audit log.
async fn refused_last_hour(session: &Session) -> Result<Option<usize>, Failure> {
    if !session.of_admin() {
        return Ok(None);
    }
    let now = when::now();
    let entries = session.audit(NEWEST).await?;
    let refused = entries.iter().filter(|entry| {
        entry.what == "enrol" && !entry.allowed && now.since(entry.at) < Span::from_secs(3_600)
    });

    // Behind one address there can be many, each with a name.
    let who: BTreeSet<_> = refused.map(|entry| (&entry.who, &entry.subject)).collect();
    Ok(Some(who.len()).filter(|count| *count > 0))
}

async fn list(context: &Context, session: &Session, all: bool) -> Result<Exit, Failure> {
    let mut hosts = session.hosts(&Request::Hosts { names: Vec::new() }).await?;
    let known = hosts.len();
    hosts.retain(|host| all || !host.gone);
    let hidden = match known - hosts.len() {
        0 => String::new(),
        1 => "\n1 host is not expected back and not shown (--all shows it)\n".to_owned(),
        count => {
            format!("\n{count} hosts are not expected back and not shown (--all shows them)\n")
        }
    };

    let refused = refused_last_hour(session).await?;
    let refusals = refused.map_or_else(String::new, |count| {
        format!("\njoining was refused to {count} within the last hour: deskgrid audit\n")
    });
    let text = || {
        let headings = [
            "HOST", "STATE", "WHY", "SINCE", "SPEED", "SLOTS", "HOLDS", "FINISHED", "LOST",
        ];
        let mut rows = Rows::new(&headings, context.out.color());
        hosts.iter().for_each(|host| rows.add(row(host)));
        let table = rows.text("no host has joined yet: deskgrid token create --role worker");
        let benched = hosts
            .iter()
            .filter(|host| host.state == HostState::Benched)
            .map(|host| host.facts.name.as_str());
        table + &of_benched(benched) + &hidden + &refusals
    };
    let document = HostList {
        hosts: List("hosts", &hosts),
        refused_last_hour: refused,
    };
    context.show(&document, text, || names(&hosts))
}

/// Explains why a host takes no more tasks.
async fn explain(context: &Context, session: &Session, host: String) -> Result<Exit, Failure> {
    let view = session.host_explained(host).await?;
    let color = context.out.color();
    context.show(
        &Json(&view),
        || explained(&view, session.of_admin(), color),
        || vec![view.host.facts.name.clone()],
    )
}

fn explained(view: &HostExplainView, of_all: bool, color: bool) -> String {
    let HostView {
        facts,
        state,
        reason,
        since,
        slots_usable,
        ..
    } = &view.host;
    let why = reason.as_ref();
    let why = why.map_or_else(String::new, |why| format!(" ({})", printable(why)));
    let mut out = format!(
        "{} has been {state}{why} for {}; tasks may use {slots_usable} of {}\n\n",
        printable(&facts.name),
        when::now().since(*since),
        plural(u64::from(facts.slots), "slot"),
    );

    let rows = view.jobs.iter().map(|job| {
        [
            ("JOB", job.job.to_string()),
            ("WAITING", job.waiting.to_string()),
            ("WHY NOT HERE", job.why.clone()),
        ]
    });
    out += &Rows::of(rows, color).text(match of_all {
        true => "there is nothing to compute: no job is unfinished\n",
        false => "there is nothing to compute: no job of yours is unfinished\n",
    });
    if view.more > 0 {
        out += &format!("\n{} not shown\n", plural(view.more, "more job"));
    }
    let benched = (*state == HostState::Benched).then_some(facts.name.as_str());
    out + &of_benched(benched.into_iter())
}

/// Says when a benched host gets tasks again, and who can end the benching.
fn next_try(host: &str) -> String {
    format!(
        "it gets one task at a time after a pause, until one succeeds; an admin can end that with: deskgrid host resume {}",
        printable(host)
    )
}

/// Says the same of all benched hosts, below their table; empty if there are none.
pub(super) fn of_benched<'a>(mut hosts: impl Iterator<Item = &'a str>) -> String {
    match (hosts.next(), hosts.next()) {
        (None, _) => String::new(),
        (Some(host), None) => {
            format!("\n{} is benched: {}\n", printable(host), next_try(host))
        }
        (Some(_), Some(_)) => {
            format!("\nof each benched host: {}\n", next_try("HOST"))
        }
    }
}

fn names(hosts: &[HostView]) -> Vec<String> {
    hosts.iter().map(|host| host.facts.name.clone()).collect()
}

/// Formats a host's slots: `4`, or `1 of 4` where its owner lets tasks use only some.
fn slots(host: &HostView) -> String {
    let usable = host.slots_usable;
    let all = host.facts.slots;
    if usable == 0 || usable >= all {
        all.to_string()
    } else {
        format!("{usable} of {all}")
    }
}

fn row(host: &HostView) -> [String; 9] {
    [
        host.facts.name.clone(),
        host.state.to_string(),
        host.reason.clone().unwrap_or_default(),
        when::relative(host.since, when::now()),
        host.facts.speed.to_string(),
        slots(host),
        host.attempts.len().to_string(),
        host.finished.to_string(),
        host.lost.to_string(),
    ]
}

async fn one(context: &Context, session: &Session, request: Request) -> Result<Exit, Failure> {
    let hosts = session.hosts(&request).await?;
    let Some(host) = hosts.first() else {
        let hint = "deskgrid host list shows the hosts that there are";
        return Err(Failure::error("not-found", "there is no such host", hint));
    };

    context.show(&Json(host), || describe(host), || names(&hosts))
}

pub(super) fn describe(host: &HostView) -> String {
    let now = when::now();
    let held: Vec<_> = host.attempts.iter().map(ToString::to_string).collect();
    let held = match held.is_empty() {
        true => "none".to_owned(),
        false => held.join(" "),
    };
    let per_cent = |part: f64| format!("{:.0} % of the processor", part * 100.0);
    let state = format!("{} for {}", host.state, now.since(host.since));
    let next = (host.state == HostState::Benched).then(|| next_try(&host.facts.name));
    let owner = (host.owner_active).map(|active| if active { "active" } else { "away" });

    let HostFacts { slots, cores, .. } = host.facts;
    let mhz = host.facts.clock_mhz;
    let speed = format!("{} of the reference host, at {mhz} MHz", host.facts.speed);
    let slots = format!("{slots} on {cores} logical processors");
    let agreed = (host.agreed > 0).then(|| format!("{} compared results in a row", host.agreed));
    let so_far = format!("{} finished, {} lost", host.finished, host.lost);

    facts(&[
        ("host", Some(format!("{}  ({})", host.facts.name, host.id))),
        ("state", Some(state)),
        ("why", host.reason.clone()),
        ("next task", next),
        ("heard", host.heard.map(|time| when::relative(time, now))),
        ("owner", owner.map(str::to_owned)),
        ("availability", host.cpu_availability.map(per_cent)),
        ("survival", host.undisturbed_1h.map(survival)),
        ("speed", Some(speed)),
        ("slots", Some(slots)),
        (
            "memory",
            Some(Bytes(host.facts.memory_mib << 20).to_string()),
        ),
        ("lends", lends(&host.facts)),
        (
            "platform",
            Some(printable(&host.facts.platform.to_string())),
        ),
        ("GPUs", gpus(&host.facts)),
        ("labels", labels(host)),
        ("confines", Some(confines(&host.facts))),
        ("attempts", Some(held)),
        ("belongs to", host.belongs_to.clone()),
        ("agreed", agreed),
        ("so far", Some(so_far)),
    ])
}

/// Says how likely a task runs on the host for an hour.
fn survival(undisturbed: f64) -> String {
    format!(
        "{:.0} %: a task that begins now runs for an hour undisturbed",
        100.0 * undisturbed
    )
}

/// Describes what the owner lends to all tasks together, and to one of them.
fn lends(facts: &HostFacts) -> Option<String> {
    let Capacity {
        cores, memory_mib, ..
    } = facts.lends;
    let limit = |mib: u32| {
        if mib == u32::MAX {
            "any".to_owned()
        } else {
            format!("{mib} MiB")
        }
    };

    (facts.slots > 0).then(|| {
        format!(
            "{cores} processors and {} of memory; to one task {} of memory and {} of disk",
            limit(memory_mib),
            limit(facts.task_memory_mib),
            limit(facts.task_disk_mib)
        )
    })
}

/// Lists the graphics processors, and how many of them are lent.
fn gpus(facts: &HostFacts) -> Option<String> {
    let named = |gpu: &Gpu| format!("{} ({} MiB)", printable(&gpu.name), gpu.memory_mib);
    let all: Vec<String> = facts.gpus.iter().map(named).collect();
    (!all.is_empty()).then(|| format!("{}; {} lent", all.join(", "), facts.lends.gpus))
}

/// Lists the labels, those of the owner first.
fn labels(host: &HostView) -> Option<String> {
    let all = host.facts.labels.union(&host.labels);
    let words: Vec<&str> = all.map(Label::as_str).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// Describes how well the host confines tasks.
fn confines(facts: &HostFacts) -> String {
    let level = match (facts.confinement, facts.confinement_most) {
        (level, most) if most > level => format!("{level}, and {most} where a job asks for it"),
        (level, _) => level.to_string(),
    };
    let network = if facts.network {
        "network where a job asks for it"
    } else {
        "no network"
    };
    format!("{level}; {network}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survival_is_a_probability() {
        let said = "83 %: a task that begins now runs for an hour undisturbed";
        assert_eq!(survival(0.834), said);
    }

    #[test]
    fn a_benched_host_shows_its_next_try_and_how_to_end_the_bench() {
        let one = of_benched(["pc-1"].into_iter());
        assert_eq!(
            one,
            "\npc-1 is benched: it gets one task at a time after a pause, until one succeeds; an admin can end that with: \
             deskgrid host resume pc-1\n"
        );
        let two = of_benched(["pc-1", "pc-2"].into_iter());
        assert!(two.contains("deskgrid host resume HOST"), "{two}");
        assert_eq!(of_benched([].into_iter()), "");
    }
}
