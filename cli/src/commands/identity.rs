//! Executes `deskgrid identity` and `deskgrid audit`.

use common::identity::IdentityView;
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

    let text = || {
        let headings = [
            "IDENTITY",
            "ROLE",
            "STATE",
            "JOINED",
            "CERTIFICATE EXPIRES",
            "CONNECTIONS",
        ];
        let mut rows = Rows::new(&headings, context.out.color());
        for view in &views {
            rows.add([
                view.name.clone(),
                view.role.to_string(),
                view.state.to_string(),
                when::relative(view.enrolled, when::now()),
                view.expires.map_or_else(
                    || "unknown".to_owned(),
                    |at| when::relative(at, when::now()),
                ),
                view.connections.to_string(),
            ]);
        }

        rows.text("nobody has joined yet: deskgrid token create --role worker")
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
    let text = || {
        let mut rows = Rows::new(
            &["AT", "WHO", "WHAT", "WITH", "ANSWER", "TIMES", "WHY"],
            context.out.color(),
        );
        for view in &views {
            let answer = if view.allowed { "allowed" } else { "refused" };
            rows.add([
                when::date(view.at),
                view.who.clone(),
                view.what.clone(),
                view.subject.clone(),
                answer.to_owned(),
                view.count.to_string(),
                view.why.clone(),
            ]);
        }

        rows.text("the audit log is empty")
    };

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
