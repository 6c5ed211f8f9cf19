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
    let (token, view, master) = session.new_token(request).await?;
    let token = token.to_string();
    let text = || {
        if let Some(user) = &view.speaks_for {
            return speaker(&token, &view, user);
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
             deskgrid {command} --master {master}\n\
             It asks for the token there. A script gives it by --join @FILE or --join - (standard input); other accounts \
             can read what stands in a command line.\n",
            view.id, view.role,
        )
    };

    context.show(&Json(&json::NewTokenAnswer(&token, &view)), text, || {
        vec![token.clone()]
    })
}

/// Says how a token is used over HTTP. The answer does not tell at which address that is.
fn speaker(token: &str, view: &TokenView, user: &str) -> String {
    let until = when::relative(view.expires, when::now());
    format!(
        "{token}\n\ntoken {} speaks for {user} over HTTP, with the role {}; it expires {until}. For example:\n  \
         curl -H @FILE http://MASTER/api/v1/jobs   MASTER is the master's HTTP address (`--http` of `master start`); FILE holds the line `Authorization: Bearer TOKEN`\n\
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
