//! `deskgrid login`, and how any machine gets its identity.

use std::path::Path;

use common::token::Role;
use link::Identity;
use serde::Serialize;

use super::Context;
use crate::args::Enrol;
use crate::failure::{Exit, Failure};
use crate::output::note;

#[derive(Serialize)]
struct LoggedIn<'a> {
    master: &'a str,
    name: &'a str,
    role: String,
    new: bool,
}

/// Gives this machine the identity of a user.
pub(super) async fn run(context: &Context, args: Enrol) -> Result<Exit, Failure> {
    let (identity, new) = identity(&context.state.client(), &args, Who::User).await?;
    let link = &identity.link;
    let document = LoggedIn { master: &link.master, name: &link.name, role: link.role.to_string(), new };
    let text = || format!("you are {} ({}) of the grid at {}\n", link.name, link.role, link.master);
    context.out.show(&document, text, || vec![link.name.clone()])?;
    Ok(Exit::Well)
}

/// Who joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// A person's machine, as client or admin.
    User,
    /// A host.
    Worker,
}

/// The identity in `dir`, or a new one where there is none (or it is to be replaced), and whether it is new.
///
/// # Errors
/// If there is none and no token, or the master does not take the token.
pub(super) async fn identity(dir: &Path, args: &Enrol, who: Who) -> Result<(Identity, bool), Failure> {
    let there = Identity::exists(dir);
    match (&args.master, &args.join) {
        (Some(_), Some(_)) if there && !args.rejoin => {
            note("note: this machine has joined before; the token is not used (--rejoin joins again)");
            Ok((Identity::load(dir)?, false))
        }
        (Some(master), Some(token)) => {
            let name = args.name.clone().unwrap_or_else(|| own_name(who));
            let identity = link::enrol(master, token, &name).await?;
            check_role(identity.link.role, who)?;
            identity.save(dir)?;
            Ok((identity, true))
        }
        _ if there => Ok((Identity::load(dir)?, false)),
        _ => {
            let what = format!("there is no identity in {}", dir.display());
            let hint = match who {
                Who::User => "deskgrid login --master HOST:PORT --join TOKEN, with a token from the admin",
                Who::Worker => "deskgrid worker start --master HOST:PORT --join TOKEN, with a token from the admin",
            };
            Err(Failure::new(Exit::NotAuthorised, "no-identity", what, hint))
        }
    }
}

fn check_role(role: Role, who: Who) -> Result<(), Failure> {
    let hint = match (role, who) {
        (Role::Worker, Who::User) => "use it with: deskgrid worker start --master HOST:PORT --join TOKEN",
        (Role::Client | Role::Admin, Who::Worker) => "ask for one made with: deskgrid token create --role worker",
        _ => return Ok(()),
    };
    Err(Failure::new(Exit::NotAuthorised, "wrong-role", format!("this token is for a {role}"), hint))
}

fn own_name(who: Who) -> String {
    let host = || hostname::get().map_or_else(|_| "unnamed".to_owned(), |name| name.to_string_lossy().into_owned());
    let user = ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok());
    match who {
        Who::Worker => host(),
        Who::User => user.filter(|user| !user.is_empty()).unwrap_or_else(host),
    }
}
