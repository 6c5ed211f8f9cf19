//! The files that the process may have open, divided among their uses. The share that strangers can
//! take is bounded, so that the store, content and known peers find some.

use link::TunnelLimits;
use rustix::process::{Resource, getrlimit, setrlimit};

/// The number of files below which the master serves only few peers.
const FEW: u64 = 4_096;
/// The most files that are asked for. More are of no use, and some systems allow more than fits the
/// number of tunnels.
const ENOUGH: u64 = 1 << 20;

/// The share of the process's files for each use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileTransfers {
    /// The limits of TCP tunnels.
    pub(crate) tunnels: TunnelLimits,
    /// The most HTTP connections.
    pub(crate) http: usize,
    /// The most HTTP connections from one address.
    pub(crate) http_of_one: usize,
    /// The most content streams of users.
    pub(crate) contents: usize,
}

impl FileTransfers {
    /// Raises the process's limit of open files (`RLIMIT_NOFILE`) as far as the system allows, and
    /// divides it.
    pub(crate) fn raise() -> Self {
        let mut limits = getrlimit(Resource::Nofile);
        let wanted = limits.maximum.unwrap_or(ENOUGH).min(ENOUGH);
        if limits.current.is_some_and(|current| current < wanted) {
            limits.current = Some(wanted);
            if let Err(error) = setrlimit(Resource::Nofile, limits) {
                tracing::warn!(%error, "the limit of open files could not be raised");
            }
        }

        let most = getrlimit(Resource::Nofile)
            .current
            .unwrap_or(ENOUGH)
            .min(ENOUGH);
        if most < FEW {
            tracing::warn!(
                most,
                "few files may be open: raise the limit (LimitNOFILE=, ulimit -Hn) before many connect over TCP"
            );
        }

        tracing::debug!(most, "files");
        Self::of(usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// Returns the most HTTP connections from one address. Behind a proxy all come from its own, and share
    /// what there is.
    pub(crate) fn http_of(self, behind_proxy: bool) -> usize {
        if behind_proxy {
            self.http
        } else {
            self.http_of_one
        }
    }

    /// Divides `most` files: half to tunnels, a quarter to content, the rest to the store and all
    /// else.
    fn of(most: usize) -> Self {
        let part = |of: usize, bound: usize| (most / of).clamp(4, bound);
        let tunnels = TunnelLimits {
            most: most / 2,
            unknown: part(8, 1_024),
            unknown_of_one: part(32, 64),
        };
        Self {
            tunnels,
            http: part(16, 1_024),
            http_of_one: part(32, 512),
            contents: part(4, 4_096),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_never_get_the_greater_part_of_the_files() {
        for most in [256, 1_024, 4_096, 1 << 20] {
            let files = FileTransfers::of(most);
            assert!(files.tunnels.unknown + files.http <= most / 4, "{files:?}");
            assert!(
                files.tunnels.most + files.http + files.contents <= most * 7 / 8,
                "{files:?}"
            );
        }
    }

    #[test]
    fn behind_a_proxy_all_who_come_from_its_address_share_every_place() {
        let files = FileTransfers::of(4_096);
        assert_eq!(files.http_of(true), files.http);
        assert!(files.http_of(false) < files.http);
    }
}
