//! Executes `deskgrid identity` and `deskgrid audit`.

use common::identity::{AuditView, IdentityView};
use common::wire::client::{Reply, Request};

use super::Context;
use crate::args::IdentityCommand;
use crate::args::serve::AuditArgs;
use crate::failure::{Exit, Failure};
use crate::output::json::List;
use crate::output::table::Rows;
use crate::output::when;
use crate::session::{Session, answers};

/// Executes one verb of `deskgrid identity`.
pub(super) async fn run(context: &Context, command: IdentityCommand) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    let request = match command {
        IdentityCommand::List => Request::Identities { names: Vec::new() },
        IdentityCommand::Approve { name } => Request::Approve { name },
        IdentityCommand::Revoke { name } => Request::Revoke { name },
    };
    judge(context, &session, &request).await
}

/// Sends a request that is answered with identities, and shows them.
pub(super) async fn judge(
    context: &Context,
    session: &Session,
    request: &Request,
) -> Result<Exit, Failure> {
    let replies = session.client().ask(request).await?;
    let views: Vec<IdentityView> = answers!(replies, Reply::Identities);

    let now = when::now();
    let row = |view: &IdentityView| {
        let expires = view.expires.map(|at| when::relative(at, now));
        [
            ("IDENTITY", view.name.clone()),
            ("ROLE", view.role.to_string()),
            ("STATE", view.state.to_string()),
            ("JOINED", when::relative(view.enrolled, now)),
            (
                "CERTIFICATE EXPIRES",
                expires.unwrap_or_else(|| "unknown".to_owned()),
            ),
            ("CONNECTIONS", view.connections.to_string()),
        ]
    };
    let text = || {
        Rows::of(views.iter().map(row), context.out.color())
            .text("nobody has joined yet: deskgrid token create --role worker")
    };

    let document = List("identities", &views);
    context.show(&document, text, || {
        views.iter().map(|view| view.name.clone()).collect()
    })
}

/// Prints the audit log for `deskgrid audit`.
pub(super) async fn audit(context: &Context, args: &AuditArgs) -> Result<Exit, Failure> {
    let session = Session::open(&context.state).await?;
    let views = session.audit(args.last).await?;
    session.close().await;
    let row = |view: &AuditView| {
        let answer = if view.allowed { "allowed" } else { "refused" };
        [
            ("AT", when::date(view.at)),
            ("WHO", view.who.clone()),
            ("WHAT", view.what.clone()),
            ("WITH", view.subject.clone()),
            ("ANSWER", answer.to_owned()),
            ("TIMES", view.count.to_string()),
            ("WHY", view.why.clone()),
        ]
    };
    let text =
        || Rows::of(views.iter().map(row), context.out.color()).text("the audit log is empty");

    let document = List("entries", &views);
    context.show(&document, text, || {
        views.iter().map(|view| view.number.to_string()).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::document;
    use crate::output::json::tests::golden;
    use common::identity::{AuditView, IdentityState};
    use common::token::Role;
    use common::{HostId, Time};

    #[test]
    fn the_json_of_identities_and_of_the_audit_log_is_as_it_was() {
        let at = Time(1_700_000_000_000_000);
        let bare = IdentityView {
            name: "ann".into(),
            role: Role::Client,
            state: IdentityState::Waiting,
            host: None,
            enrolled: at,
            expires: None,
            connections: 0,
        };
        let full = IdentityView {
            host: Some(HostId(3)),
            expires: Some(at),
            ..bare.clone()
        };
        let entry = AuditView {
            number: 4,
            at,
            who: "ann".into(),
            what: "share".into(),
            subject: "jobs 7".into(),
            allowed: true,
            why: "with bob".into(),
            count: 2,
        };

        let identities = List("identities", &[full, bare]);
        let audit = List("entries", &[entry]);
        golden(
            "json-identities",
            &[
                ("identities", document(&identities)),
                ("audit", document(&audit)),
            ],
        );
    }
}
