//! Who may ask what: one table of all requests. What is not here: whose a job is (`answers::jobs`
//! looks that up), and who may read which content (`content`).

use common::wire::client::Request;

/// The right that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    /// None: what it tells or takes is the asker's own.
    Anybody,
    /// To see the jobs that it names: the asker's own, and those shared with the asker.
    See,
    /// To change the jobs that it names: the asker's own.
    Change,
    /// To administer the grid, for doing this.
    Administer(&'static str),
}

/// Returns the right that `user` needs for a request. Admins have all of them.
pub(super) fn needed(request: &Request, user: &str) -> Right {
    match request {
        Request::Account { user: of, .. } | Request::Estimates { user: of }
            if of.as_ref().is_some_and(|of| of != user) =>
        {
            Right::Administer("looking at another user's account")
        }
        Request::Account { .. }
        | Request::Estimates { .. }
        | Request::Hello(_)
        | Request::Submit { .. }
        | Request::Accuracy
        | Request::HostsWait { .. }
        | Request::Hosts { .. } => Right::Anybody,
        Request::Jobs { .. }
        | Request::Watch { .. }
        | Request::Tasks { .. }
        | Request::Outputs { .. }
        | Request::Undecided { .. }
        | Request::Explain { .. } => Right::See,
        Request::Cancel { .. }
        | Request::Retry { .. }
        | Request::Recompute { .. }
        | Request::Forget { .. }
        | Request::Judge { .. }
        | Request::Share { .. }
        | Request::RequestTasks { .. }
        | Request::CancelUnrequested { .. } => Right::Change,
        Request::Drain { .. } => Right::Administer("draining a host"),
        Request::Undrain { .. } => Right::Administer("resuming a host"),
        Request::HostOwner { .. } => Right::Administer("saying whose a host is"),
        Request::Availability { .. } => Right::Administer("reading how hosts were available"),
        Request::TokenCreate { .. } => Right::Administer("making a join token"),
        Request::TokenList => Right::Administer("listing join tokens"),
        Request::TokenRevoke { .. } => Right::Administer("revoking a join token"),
        Request::Identities { .. } => Right::Administer("listing identities"),
        Request::Approve { .. } => Right::Administer("approving an identity"),
        Request::Revoke { .. } => Right::Administer("revoking an identity"),
        Request::Audit { .. } => Right::Administer("reading the audit log"),
    }
}
