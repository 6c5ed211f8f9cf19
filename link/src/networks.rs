//! A memory of networks that let only TCP through on the way to a master, each known by this
//! machine's own address in it: a new connection from there loses no time to UDP. It is kept beside
//! an identity. A wrong or lost record costs only that time, so nothing here fails.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::endpoint::{Carrier, any_like};
use crate::files;

const FILE: &str = "networks.toml";
/// The most networks that are remembered; beyond that all are learned anew.
const MOST: usize = 32;

#[derive(Default, Serialize, Deserialize)]
struct Networks {
    #[serde(default)]
    only_tcp: BTreeSet<IpAddr>,
}

fn read(dir: &Path) -> Networks {
    std::fs::read_to_string(dir.join(FILE))
        .ok()
        .and_then(|text| toml::from_str(&text).ok())
        .unwrap_or_default()
}

/// The network from which a master is reached, and the record of it.
pub(crate) struct Network<'a> {
    dir: &'a Path,
    /// This machine's address in it.
    here: IpAddr,
    /// Whether only TCP got through when a master was last reached.
    pub(crate) only_tcp: bool,
}

impl<'a> Network<'a> {
    /// The one between us and this master, as `dir` knows it. Nothing is sent to find it.
    pub(crate) fn to(master: SocketAddr, dir: &'a Path) -> Option<Self> {
        let socket = UdpSocket::bind(any_like(master)).ok()?;
        socket.connect(master).ok()?;
        Some(Self::at(socket.local_addr().ok()?.ip(), dir))
    }

    fn at(here: IpAddr, dir: &'a Path) -> Self {
        Self {
            dir,
            here,
            only_tcp: read(dir).only_tcp.contains(&here),
        }
    }

    /// Records that a master was reached from there in this [`Carrier`].
    pub(crate) fn note(&self, way: Carrier) {
        if self.only_tcp == (way == Carrier::Tcp) {
            return;
        }

        let mut known = read(self.dir);
        match way {
            Carrier::Udp => known.only_tcp.remove(&self.here),
            Carrier::Tcp => known.only_tcp.insert(self.here),
        };

        if known.only_tcp.len() > MOST {
            known.only_tcp = BTreeSet::from([self.here]);
        }

        let written = toml::to_string(&known).map_err(std::io::Error::other);
        let written = written
            .and_then(|text| files::write_whole(&self.dir.join(FILE), text.as_bytes(), 0o600));
        if let Err(error) = written {
            tracing::debug!(%error, "how this network is reached is not remembered");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn a_network_is_remembered_as_it_was_last_seen() {
        let dir = tempfile::tempdir().unwrap();
        let known = |last| Network::at(address(last), dir.path()).only_tcp;
        Network::at(address(1), dir.path()).note(Carrier::Tcp);
        Network::at(address(2), dir.path()).note(Carrier::Udp);
        assert_eq!((known(1), known(2)), (true, false));
        Network::at(address(1), dir.path()).note(Carrier::Udp);
        assert!(!known(1));
    }

    #[test]
    fn an_unreadable_network_memory_is_empty_and_its_size_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), "only_tcp = 7").unwrap();
        assert!(!Network::at(address(1), dir.path()).only_tcp);
        for last in 0..100 {
            Network::at(address(last), dir.path()).note(Carrier::Tcp);
        }
        assert!(
            Network::at(address(99), dir.path()).only_tcp
                && read(dir.path()).only_tcp.len() <= MOST
        );
    }

    #[test]
    fn on_loopback_we_are_where_the_master_is() {
        let master: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(
            Network::to(master, dir.path()).map(|network| network.here),
            Some(master.ip())
        );
    }
}
