//! Hosts: lists, one host, and what admins do with one.

use common::needs::Label;
use common::view::HostView;
use common::wire::client::{Reply, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::list::{ListPage, PageLimit};
use crate::access::collect;
use crate::answer::{JsonAnswer, JsonDocument};
use crate::call::Call;
use crate::cursor::PageStart;
use crate::json::{HostExplainJson, HostJson, Object, SiteJson, UpdatesJson};
use crate::problem::Problem;
use crate::table::{JsonBody, NoBody, NoQuery, Table};

pub(super) fn add(table: &mut Table) {
    table
        .get("/hosts", "listHosts")
        .about("Lists the hosts.")
        .serve(list);
    table
        .get("/hosts/{host}", "host")
        .about("Shows a host.")
        .serve(info);
    table
        .get("/hosts/{host}/explain", "explainHost")
        .about("Says why a host takes no more tasks of your jobs.")
        .serve(explain);
    table
        .post("/hosts/{host}/drain", "drainHost")
        .about("Drains a host: it gets no new attempts. Admins only.")
        .serve(drain);
    table
        .post("/hosts/{host}/resume", "resumeHost")
        .about("Ends a drain. Admins only.")
        .serve(resume);
    table
        .post("/hosts/{host}/owner", "ownHost")
        .about("Says whose a host is. Admins only.")
        .serve(own);

    table
        .post("/hosts/{host}/labels", "labelHost")
        .about("Changes the labels that admins give a host. Admins only.")
        .serve(label);
    table
        .post("/hosts/{host}/revoke", "revokeHost")
        .about("Shuts a host out for good; its tasks run elsewhere. Admins only.")
        .serve(revoke);
    table
        .post("/hosts/{host}/forget", "forgetHost")
        .about("Leaves a revoked host out of lists. Admins only.")
        .serve(forget);
    table
        .get("/settings", "workerSettings")
        .about(
            "Shows the settings that admins keep for workers, and which hosts have taken them. \
             Admins only.",
        )
        .serve(settings);
    table
        .get("/updates", "workerUpdates")
        .about(
            "Shows the new programs that go round to workers, and how each host stands. \
             Admins only.",
        )
        .serve(updates);
}

async fn updates(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<UpdatesJson> {
    Ok(JsonDocument(call.grid.updates().await?.json()))
}

async fn settings(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<SiteJson> {
    let (settings, hosts) = call.grid.site().await?;
    Ok(JsonDocument(SiteJson::new(&settings, &hosts)))
}

/// The hosts that are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct HostsQuery {
    /// The most hosts of the page: `100` if nothing is said.
    #[serde(default)]
    limit: PageLimit,
    /// The `next` of the page before.
    after: Option<PageStart>,
}

/// A page of hosts.
#[derive(Debug, Serialize, JsonSchema)]
struct HostsPage {
    /// The hosts, by number.
    hosts: Vec<HostJson>,
    /// The cursor of the next page, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

async fn list(call: Call, query: HostsQuery, _: NoBody) -> JsonAnswer<HostsPage> {
    let after = query.after.as_ref().map(PageStart::after).transpose()?;
    let wanted = |view: &&HostView| after.is_none_or(|number| view.id.0 > number);
    let names = Vec::new();
    let mut page = ListPage::new(query.limit);

    // They come by number. The answer is given up once the page is full.
    let mut replies = call.grid.ask(Request::Hosts { names });
    while !page.more
        && let Some(reply) = replies.recv().await
    {
        let Reply::Hosts(views) = reply? else {
            return Err(Problem::unexpected());
        };
        let views = views.iter().filter(wanted);
        page.extend(views.map(|view| (view.id.0, view.json())));
    }

    let next = page.next();
    let hosts = page.entries;
    Ok(JsonDocument(HostsPage { hosts, next }))
}

/// The one host with which the master answers.
async fn one(call: &Call, request: Request) -> JsonAnswer<HostJson> {
    let mut views = collect!(call.grid, request, Reply::Hosts);
    let missing = || Problem::not_found("there is no such host", "GET /api/v1/hosts");
    Ok(JsonDocument(views.pop().ok_or_else(missing)?.json()))
}

fn name(call: &Call) -> String {
    call.param("host").to_owned()
}

async fn info(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<HostJson> {
    let names = vec![name(&call)];
    one(&call, Request::Hosts { names }).await
}

async fn explain(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<HostExplainJson> {
    let host = name(&call);
    match call.grid.one(Request::HostExplain { host }).await? {
        Reply::HostExplained(view) => Ok(JsonDocument(view.json())),
        _ => Err(Problem::unexpected()),
    }
}

async fn revoke(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<HostJson> {
    // The name of an identity is that of its host; a number is looked up first.
    let names = vec![name(&call)];
    let views = collect!(
        call.grid,
        Request::Hosts {
            names: names.clone()
        },
        Reply::Hosts
    );
    let found = views.first().map(|view| view.facts.name.clone());
    let missing = || Problem::not_found("there is no such host", "GET /api/v1/hosts");

    let name = found.ok_or_else(missing)?;
    collect!(call.grid, Request::Revoke { name }, Reply::Identities);
    one(&call, Request::Hosts { names }).await
}

async fn forget(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<HostJson> {
    let host = name(&call);
    one(&call, Request::HostForget { host }).await
}

async fn drain(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<HostJson> {
    let host = name(&call);
    one(&call, Request::Drain { host }).await
}

async fn resume(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<HostJson> {
    let host = name(&call);
    one(&call, Request::Undrain { host }).await
}

/// The owner of a host.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct OwnerBody {
    /// The owner; without it the host is an owner of its own.
    owner: Option<String>,
}

async fn own(call: Call, _: NoQuery, JsonBody(body): JsonBody<OwnerBody>) -> JsonAnswer<HostJson> {
    let request = Request::HostOwner {
        host: name(&call),
        owner: body.owner,
    };
    one(&call, request).await
}

/// Changes of a host's labels.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct LabelsBody {
    /// Labels that it gets, such as `lab3`.
    add: Vec<String>,
    /// Labels that it has no more.
    remove: Vec<String>,
}

async fn label(
    call: Call,
    _: NoQuery,
    JsonBody(body): JsonBody<LabelsBody>,
) -> JsonAnswer<HostJson> {
    let read = |words: Vec<String>| {
        let labels: Result<Vec<Label>, _> = words.iter().map(|word| word.parse()).collect();
        labels.map_err(|error| Problem::senseless(format!("{error}"), ""))
    };
    let request = Request::HostLabels {
        host: name(&call),
        add: read(body.add)?,
        remove: read(body.remove)?,
    };

    one(&call, request).await
}
