//! Executes `deskgrid token`.

use common::token::Role;
use common::view::TokenView;
use common::wire::client::Request;

use super::Context;
use crate::args::TokenCommand;
use crate::failure::{Exit, Failure};
use crate::output::json::{Json, List};
use crate::output::table::Rows;
use crate::output::{json, when};
use crate::session::Session;

/// Executes one verb of `deskgrid token`.
pub(super) async fn run(context: &Context, command: TokenCommand) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;

    match command {
        TokenCommand::Create {
            role,
            ttl,
            uses,
            name,
            approve,
            http,
            speaks_for,
        } => {
            let ttl = ttl.span();
            let own = || session.client().user().to_owned();
            let request = Request::TokenCreate {
                role,
                ttl,
                uses,
                name,
                approval: approve,
                speaks_for: http.then(|| speaks_for.unwrap_or_else(own)),
            };
            create(context, &session, &request).await
        }
        TokenCommand::List => list(context, &session, &Request::TokenList).await,
        TokenCommand::Revoke { id } => list(context, &session, &Request::TokenRevoke { id }).await,
    }
}

async fn create(context: &Context, session: &Session, request: &Request) -> Result<Exit, Failure> {
    let (token, view, place) = session.new_token(request).await?;
    let token = token.to_string();
    let text = || {
        if let Some(user) = &view.speaks_for {
            return speaker(&token, &view, user, &place);
        }
        let command = match view.role {
            Role::Worker => "worker start",
            Role::Gateway => "gateway start",
            Role::Client | Role::Admin => "login",
        };

        let times = if view.uses_left == 1 {
            "once".to_owned()
        } else {
            format!("{} times", view.uses_left)
        };

        let until = when::relative(view.expires, when::now());
        format!(
            "{token}\n\ntoken {} makes a {}; it works {times} and expires {until}. On the other machine:\n  \
             deskgrid {command} --master {place}\n\
             It asks for the token there. A script gives it by --join @FILE or --join - (standard input); other accounts \
             can read what stands in a command line.\n",
            view.id, view.role,
        )
    };

    context.show(&Json(&json::NewTokenAnswer(&token, &view)), text, || {
        vec![token.clone()]
    })
}

/// Says how a token is used over HTTP at this URL. It is empty where the master serves no HTTP; an older master tells the
/// address at which it is joined.
fn speaker(token: &str, view: &TokenView, user: &str, url: &str) -> String {
    let until = when::relative(view.expires, when::now());
    let example = |url: &str| {
        format!(
            "curl -H @FILE {url}/api/v1/jobs   FILE holds the line `Authorization: Bearer TOKEN`"
        )
    };
    let use_of_it = if url.is_empty() {
        "The master serves no HTTP now: see `http` in its configuration.".to_owned()
    } else if url.contains("://") {
        format!("For example:\n  {}", example(url))
    } else {
        format!(
            "For example, where MASTER is the master's HTTP address:\n  {}",
            example("http://MASTER")
        )
    };

    format!(
        "{token}\n\ntoken {} speaks for {user} over HTTP, with the role {}; it expires {until}. {use_of_it}\n\
         deskgrid token revoke {} ends it; so does revoking {user}.\n",
        view.id, view.role, view.id
    )
}

async fn list(context: &Context, session: &Session, request: &Request) -> Result<Exit, Failure> {
    let tokens = session.tokens(request).await?;
    let now = when::now();
    let row = |token: &TokenView| {
        let state = match (token.ended(now), &token.speaks_for) {
            (Some(ended), _) => ended.to_owned(),
            (None, Some(user)) => format!("speaks for {user}"),
            (None, None) => "usable".to_owned(),
        };
        [
            ("TOKEN", token.id.to_string()),
            ("ROLE", token.role.to_string()),
            ("NAME", token.name.clone()),
            ("USES LEFT", token.uses_left.to_string()),
            ("EXPIRES", when::relative(token.expires, now)),
            ("STATE", state),
        ]
    };
    let text = || {
        Rows::of(tokens.iter().map(row), context.out.color())
            .text("there are no tokens: deskgrid token create --role worker")
    };

    let document = List("tokens", &tokens);
    context.show(&document, text, || {
        tokens.iter().map(|token| token.id.to_string()).collect()
    })
}
