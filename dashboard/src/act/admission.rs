//! Changes of who may come in: tokens that an admin makes and revokes, and machines that wait for
//! somebody's word.

use api::{Problem, collect};
use axum::Form;
use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use common::Span;
use common::identity::IdentityState;
use common::text::printable;
use common::token::Role;
use common::wire::client::{Reply, Request};
use maud::html;
use serde::Deserialize;

use super::{Act, find, question};
use crate::error::PageError;
use crate::shell::{HtmlPage, LoggedIn, Renewal, Shared};
use crate::when::now;

/// The page from which all of it is reached.
const ADMIN: &str = "/admin";

const TOKEN_ACTS: [Act; 1] = [Act {
    verb: "revoke",
    button: "Revoke the token",
    question: "lets nobody in any more. Machines that joined with it stay.",
    harms: true,
}];

const IDENTITY_ACTS: [Act; 1] = [Act {
    verb: "approve",
    button: "Approve",
    question: "may connect from then on.",
    harms: false,
}];

/// Makes the error about somebody, or something, that is not there.
fn missing(what: String) -> PageError {
    Problem::not_found(what, "see the lists at /admin").into()
}

/// The fields of the form that makes a token.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct TokenForm {
    name: String,
    role: String,
    uses: u32,
    hours: u32,
}

pub(crate) async fn token_form(who: LoggedIn, headers: HeaderMap) -> Result<Response, PageError> {
    if who.role != Role::Admin {
        let what = format!("making a token needs the role admin, not {}", who.role);
        let hint = "ask an admin for a token";
        return Err(Problem::new(StatusCode::FORBIDDEN, "not-authorised", what, hint).into());
    }

    let body = html! {
        h1 { "Make a join token" }
        p.lead { "With it PCs join the grid, or the machines of people who submit jobs." }
        form.submit method="post" {
            div.pair {
                div.field { label for="role" { "For a" } select #role name="role" { option { "worker" } option { "client" } } }
                div.field { label for="name" { "Name" } input #name name="name" required maxlength="60" autocomplete="off"; }
                div.field { label for="uses" { "Uses" } input #uses name="uses" type="number" min="1" max="10000" value="1" required; }
                div.field { label for="hours" { "Hours" } input #hours name="hours" type="number" min="1" max="8760" value="24" required; }
            }
            p.actions { button.go { "Make the token" } a.action href=(ADMIN) { "No, go back" } }
        }
    };
    Ok(HtmlPage {
        title: "make a token".to_owned(),
        who: &who,
        place: ADMIN,
        renewal: Renewal::Never,
        body,
    }
    .answer(&headers))
}

pub(crate) async fn make_token(
    grid: Shared,
    who: LoggedIn,
    headers: HeaderMap,
    Form(form): Form<TokenForm>,
) -> Result<Response, PageError> {
    let role = match form.role.as_str() {
        "worker" => Role::Worker,
        "client" => Role::Client,
        _ => {
            let what = "a token is for a worker or a client";
            return Err(PageError::invalid(what, ""));
        }
    };
    let request = Request::TokenCreate {
        role,
        ttl: Span::from_secs(u64::from(form.hours.clamp(1, 24 * 365)) * 3_600),
        uses: form.uses.clamp(1, 10_000),
        name: form.name,
        approval: false,
        speaks_for: None,
    };
    let Reply::Token(token, ..) = grid.of(&who).one(request).await? else {
        return Err(PageError::unexpected());
    };

    let body = html! {
        h1 { "A token" }
        p.lead { "This is the only time that it is shown:" }
        pre.token { (token) }
        p { a.action href=(ADMIN) { "Back" } }
    };
    Ok(HtmlPage {
        title: "a token".to_owned(),
        who: &who,
        place: ADMIN,
        renewal: Renewal::Never,
        body,
    }
    .answer(&headers))
}

pub(crate) async fn ask_token(
    grid: Shared,
    who: LoggedIn,
    Path((number, verb)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let act = find(&TOKEN_ACTS, &verb)?;
    let grid = grid.of(&who);
    let mut tokens = collect!(grid, Request::TokenList, Reply::Tokens);
    tokens.retain(|token| token.ended(now()).is_none() && token.id.to_string() == number);
    let token = tokens.pop().ok_or_else(|| no_token(&number))?;

    let subject = match &token.speaks_for {
        Some(user) => format!("token {}, which acts as {}", token.id, printable(user)),
        None => format!("token {} ({})", token.id, printable(&token.name)),
    };
    Ok(question(&who, &headers, act, ADMIN, ADMIN, &subject))
}

pub(crate) async fn do_token(
    grid: Shared,
    who: LoggedIn,
    Path((number, verb)): Path<(String, String)>,
) -> Result<Response, PageError> {
    find(&TOKEN_ACTS, &verb)?;
    let id = number.parse().map_err(|_| no_token(&number))?;
    grid.of(&who).one(Request::TokenRevoke { id }).await?;
    Ok(Redirect::to(ADMIN).into_response())
}

fn no_token(number: &str) -> PageError {
    missing(format!(
        "there is no token {} that counts",
        printable(number)
    ))
}

pub(crate) async fn ask_identity(
    grid: Shared,
    who: LoggedIn,
    Path((name, verb)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, PageError> {
    let act = find(&IDENTITY_ACTS, &verb)?;
    let grid = grid.of(&who);
    let names = Vec::new();
    let mut identities = collect!(grid, Request::Identities { names }, Reply::Identities);
    identities.retain(|known| known.state == IdentityState::Waiting && known.name == name);
    let waits = identities.pop().ok_or_else(|| {
        missing(format!(
            "nobody called {} waits to be let in",
            printable(&name)
        ))
    })?;

    let subject = format!("{} ({})", printable(&waits.name), waits.role);
    Ok(question(&who, &headers, act, ADMIN, ADMIN, &subject))
}

pub(crate) async fn do_identity(
    grid: Shared,
    who: LoggedIn,
    Path((name, verb)): Path<(String, String)>,
) -> Result<Response, PageError> {
    find(&IDENTITY_ACTS, &verb)?;
    grid.of(&who).one(Request::Approve { name }).await?;
    Ok(Redirect::to(ADMIN).into_response())
}
