//! Tokens, identities and the audit log, for admins.

use common::wire::client::{Reply, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::collect;
use crate::answer::{JsonAnswer, JsonDocument, Made};
use crate::call::{Call, number};
use crate::json::{AuditJson, IdentityJson, NewTokenAnswer, NewTokenJson, Object, TokenJson, all};
use crate::problem::Problem;
use crate::table::{JsonBody, NoBody, NoQuery, Table};

/// The longest life of a token.
const LONGEST: std::time::Duration = std::time::Duration::from_secs(100 * 365 * 86_400);

pub(super) fn add(table: &mut Table) {
    table
        .get("/tokens", "listTokens")
        .about("Lists the tokens. Admins only.")
        .serve(tokens);
    table
        .post("/tokens", "makeToken")
        .about("Makes a token; its secret is shown this once. Admins only.")
        .serve(make_token);
    table
        .post("/tokens/{token}/revoke", "revokeToken")
        .about("Revokes a token. Admins only.")
        .serve(revoke_token);
    table
        .get("/identities", "listIdentities")
        .about("Lists who has joined. Admins only.")
        .serve(identities);
    table
        .post("/identities/{identity}/approve", "approveIdentity")
        .about("Lets somebody in who waits for it. Admins only.")
        .serve(approve);
    table
        .post("/identities/{identity}/revoke", "revokeIdentity")
        .about("Puts somebody out for good. Admins only.")
        .serve(revoke);

    table
        .get("/audit", "audit")
        .about("Shows the newest entries of the audit log, the oldest first. Admins only.")
        .serve(audit);
}

/// A token to be made.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TokenBody {
    /// The role of those who join with it, or with which it speaks: `worker`, `client` or `admin`.
    role: String,
    /// The time for which it is valid, such as `1h`.
    ttl: String,
    /// The number of times that it can be used.
    #[serde(default = "once")]
    uses: u32,
    /// Its name for lists and logs.
    #[serde(default)]
    name: String,
    /// Whether those who join with it wait for an admin's approval.
    #[serde(default)]
    approve: bool,
    /// The user for whom it speaks over HTTP; without it machines and people join with it.
    #[serde(rename = "for")]
    speaks_for: Option<String>,
}

fn once() -> u32 {
    1
}

async fn make_token(
    call: Call,
    _: NoQuery,
    JsonBody(body): JsonBody<TokenBody>,
) -> Result<Made<NewTokenJson>, Problem> {
    let wrong = |why: String| Problem::senseless(why, "nothing was made");
    let role = body.role.parse().map_err(wrong)?;
    let ttl = humantime::parse_duration(&body.ttl);
    let ttl = ttl.map_err(|why| wrong(format!("`ttl`: {why}")))?;

    let made = call.grid.one(Request::TokenCreate {
        role,
        ttl: ttl.min(LONGEST).into(),
        uses: body.uses,
        name: body.name,
        approval: body.approve,
        speaks_for: body.speaks_for,
    });
    match made.await? {
        Reply::Token(token, view, _) => Ok(Made {
            document: NewTokenAnswer(&token.to_string(), &view).json(),
            new: true,
        }),
        _ => Err(Problem::unexpected()),
    }
}

/// Tokens.
#[derive(Debug, Serialize, JsonSchema)]
struct TokensJson {
    /// The tokens.
    tokens: Vec<TokenJson>,
}

async fn token_list(call: &Call, request: Request) -> JsonAnswer<TokensJson> {
    let tokens = collect!(call.grid, request, Reply::Tokens);
    let tokens = all(&tokens);
    Ok(JsonDocument(TokensJson { tokens }))
}

async fn tokens(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<TokensJson> {
    token_list(&call, Request::TokenList).await
}

async fn revoke_token(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<TokensJson> {
    let id = number(call.param("token"));
    let id = id.ok_or_else(|| Problem::invalid("a token has a number", "GET /api/v1/tokens"))?;
    token_list(&call, Request::TokenRevoke { id }).await
}

/// Identities.
#[derive(Debug, Serialize, JsonSchema)]
struct IdentitiesJson {
    /// The identities.
    identities: Vec<IdentityJson>,
}

async fn identity_list(call: &Call, request: Request) -> JsonAnswer<IdentitiesJson> {
    let identities = collect!(call.grid, request, Reply::Identities);
    let identities = all(&identities);
    Ok(JsonDocument(IdentitiesJson { identities }))
}

async fn identities(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<IdentitiesJson> {
    let names = Vec::new();
    identity_list(&call, Request::Identities { names }).await
}

async fn approve(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<IdentitiesJson> {
    let name = call.param("identity").to_owned();
    identity_list(&call, Request::Approve { name }).await
}

async fn revoke(call: Call, _: NoQuery, _: NoBody) -> JsonAnswer<IdentitiesJson> {
    let name = call.param("identity").to_owned();
    identity_list(&call, Request::Revoke { name }).await
}

/// The entries that are wanted.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AuditQuery {
    /// The most entries: `100` if nothing is said.
    #[serde(default)]
    limit: super::list::PageLimit,
}

/// Entries of the audit log.
#[derive(Debug, Serialize, JsonSchema)]
struct AuditsJson {
    /// The entries, the oldest first.
    audit: Vec<AuditJson>,
}

async fn audit(call: Call, query: AuditQuery, _: NoBody) -> JsonAnswer<AuditsJson> {
    let most = u32::try_from(query.limit.0).unwrap_or(u32::MAX);
    let entries = collect!(call.grid, Request::Audit { most }, Reply::Audit);
    let audit = all(&entries);
    Ok(JsonDocument(AuditsJson { audit }))
}
