//! Tokens, identities and the audit log, for admins.

use common::wire::client::{Reply, Request};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{get, post};
use crate::answer::JsonDocument;
use crate::call::{Call, collect, number};
use crate::json::{AuditJson, IdentityJson, TokenJson, all};
use crate::problem::Problem;
use crate::table::{NoBody, NoQuery, Table};

pub(super) fn add(table: &mut Table) {
    table.add(
        &get("/tokens", "listTokens", "Lists the tokens. Admins only."),
        tokens,
    );
    table.add(
        &post(
            "/tokens/{token}/revoke",
            "revokeToken",
            "Revokes a token. Admins only.",
        ),
        revoke_token,
    );
    table.add(
        &get(
            "/identities",
            "listIdentities",
            "Lists who has joined. Admins only.",
        ),
        identities,
    );
    table.add(
        &post(
            "/identities/{identity}/approve",
            "approveIdentity",
            "Lets somebody in who waits for it. Admins only.",
        ),
        approve,
    );
    table.add(
        &post(
            "/identities/{identity}/revoke",
            "revokeIdentity",
            "Puts somebody out for good. Admins only.",
        ),
        revoke,
    );

    table.add(
        &get(
            "/audit",
            "audit",
            "Shows the newest entries of the audit log, the oldest first. Admins only.",
        ),
        audit,
    );
}

/// Tokens.
#[derive(Debug, Serialize, JsonSchema)]
struct TokensJson {
    /// The tokens.
    tokens: Vec<TokenJson>,
}

async fn token_list(call: &Call, request: Request) -> Result<JsonDocument<TokensJson>, Problem> {
    let tokens = collect!(call, request, Reply::Tokens);
    let tokens = all(&tokens);
    Ok(JsonDocument(TokensJson { tokens }))
}

async fn tokens(call: Call, _: NoQuery, _: NoBody) -> Result<JsonDocument<TokensJson>, Problem> {
    token_list(&call, Request::TokenList).await
}

async fn revoke_token(
    call: Call,
    _: NoQuery,
    _: NoBody,
) -> Result<JsonDocument<TokensJson>, Problem> {
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

async fn identity_list(
    call: &Call,
    request: Request,
) -> Result<JsonDocument<IdentitiesJson>, Problem> {
    let identities = collect!(call, request, Reply::Identities);
    let identities = all(&identities);
    Ok(JsonDocument(IdentitiesJson { identities }))
}

async fn identities(
    call: Call,
    _: NoQuery,
    _: NoBody,
) -> Result<JsonDocument<IdentitiesJson>, Problem> {
    let names = Vec::new();
    identity_list(&call, Request::Identities { names }).await
}

async fn approve(
    call: Call,
    _: NoQuery,
    _: NoBody,
) -> Result<JsonDocument<IdentitiesJson>, Problem> {
    let name = call.param("identity").to_owned();
    identity_list(&call, Request::Approve { name }).await
}

async fn revoke(
    call: Call,
    _: NoQuery,
    _: NoBody,
) -> Result<JsonDocument<IdentitiesJson>, Problem> {
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

async fn audit(
    call: Call,
    query: AuditQuery,
    _: NoBody,
) -> Result<JsonDocument<AuditsJson>, Problem> {
    let most = u32::try_from(query.limit.0).unwrap_or(u32::MAX);
    let entries = collect!(call, Request::Audit { most }, Reply::Audit);
    let audit = all(&entries);
    Ok(JsonDocument(AuditsJson { audit }))
}
