//! The rights that requests need: one table of all requests. `answers::jobs` looks up whose a job
//! is, and `content` decides about reading content.

use common::wire::client::Request;

/// The right that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Right {
    /// No right: the request concerns the asker's own.
    Anybody,
    /// The right to see the jobs that it names: the asker's own, and those shared with the asker.
    See,
    /// The right to change the jobs that it names: the asker's own.
    Change,
    /// The right to administer the grid; the text says what the request does.
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
        | Request::HostExplain { .. }
        | Request::Masters
        | Request::Hosts { .. } => Right::Anybody,
        Request::Jobs { .. }
        | Request::Watch { .. }
        | Request::Tasks { .. }
        | Request::Outputs { .. }
        | Request::Tail { .. }
        // Of hosts only admins are told; `follow` sees to it.
        | Request::Follow(_)
        | Request::Explain { .. }
        | Request::Running { .. }
        | Request::Work { .. } => Right::See,
        Request::Cancel { .. }
        | Request::Retry { .. }
        | Request::Recompute { .. }
        | Request::Forget { .. }
        // Whoever asks what waits for a comparison is about to say how it came out.
        | Request::Undecided { .. }
        | Request::Judge { .. }
        | Request::Share { .. }
        | Request::AddTasks { .. }
        | Request::Close { .. }
        | Request::RequestTasks { .. }
        | Request::CancelUnrequested { .. } => Right::Change,
        Request::Drain { .. } => Right::Administer("draining a host"),
        Request::HostForget { .. } => Right::Administer("forgetting a host"),
        Request::Undrain { .. } => Right::Administer("resuming a host"),
        Request::HostOwner { .. } => Right::Administer("saying whose a host is"),
        Request::HostLabels { .. } => Right::Administer("labelling a host"),
        Request::Site => Right::Administer("looking at settings for workers"),
        Request::SiteChange { .. } => Right::Administer("changing settings for workers"),
        Request::Update(_) => Right::Administer("rolling out programs for workers"),
        Request::Availability { .. } => Right::Administer("reading how hosts were available"),
        Request::TokenCreate { .. } => Right::Administer("making a join token"),
        Request::TokenList => Right::Administer("listing join tokens"),
        Request::TokenRevoke { .. } => Right::Administer("revoking a join token"),
        Request::Identities { .. } => Right::Administer("listing identities"),
        Request::Approve { .. } => Right::Administer("approving an identity"),
        Request::Revoke { .. } => Right::Administer("revoking an identity"),
        Request::HandOver => Right::Administer("handing the store over"),
        Request::Audit { .. } => Right::Administer("reading the audit log"),
    }
}
