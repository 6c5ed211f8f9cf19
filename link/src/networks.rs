//! Networks that were seen to let only TCP through on the way to a master, told apart by our own address there: whoever
//! connects from one of them again loses no time to UDP. Kept beside an identity. What is wrong or lost costs that time and
//! no more, so nothing here fails.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::endpoint::Way;
use crate::files;

const FILE: &str = "networks.toml";
/// So many are remembered; beyond that all are learned anew.
const MOST: usize = 32;

#[derive(Default, Serialize, Deserialize)]
struct Networks {
    #[serde(default)]
    only_tcp: BTreeSet<IpAddr>,
}

/// Our own address on the way to a master. Nothing is sent to find it.
pub(crate) fn here(master: SocketAddr) -> Option<IpAddr> {
    let any: SocketAddr = if master.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(master).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

fn read(dir: &Path) -> Networks {
    std::fs::read_to_string(dir.join(FILE)).ok().and_then(|text| toml::from_str(&text).ok()).unwrap_or_default()
}

/// Whether only TCP got through from there when a master was last reached.
pub(crate) fn only_tcp(dir: &Path, here: IpAddr) -> bool {
    read(dir).only_tcp.contains(&here)
}

/// A master was reached from there in this way.
pub(crate) fn note(dir: &Path, here: IpAddr, way: Way) {
    let mut known = read(dir);
    let changed = match way {
        Way::Udp => known.only_tcp.remove(&here),
        Way::Tcp => known.only_tcp.insert(here),
    };
    if !changed {
        return;
    }
    if known.only_tcp.len() > MOST {
        known.only_tcp = BTreeSet::from([here]);
    }
    let written = toml::to_string(&known).map_err(std::io::Error::other);
    let written = written.and_then(|text| files::write_whole(&dir.join(FILE), text.as_bytes(), 0o600));
    if let Err(error) = written {
        tracing::debug!(%error, "how this network is reached is not remembered");
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
        let known = |last| only_tcp(dir.path(), address(last));
        note(dir.path(), address(1), Way::Tcp);
        note(dir.path(), address(2), Way::Udp);
        assert_eq!((known(1), known(2)), (true, false));
        note(dir.path(), address(1), Way::Udp);
        assert!(!known(1));
    }

    #[test]
    fn what_cannot_be_read_is_nothing_known_and_there_is_an_end_to_what_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), "only_tcp = 7").unwrap();
        assert!(!only_tcp(dir.path(), address(1)));
        for last in 0..100 {
            note(dir.path(), address(last), Way::Tcp);
        }
        assert!(only_tcp(dir.path(), address(99)) && read(dir.path()).only_tcp.len() <= MOST);
    }

    #[test]
    fn on_loopback_we_are_where_the_master_is() {
        let master: SocketAddr = "127.0.0.1:9".parse().unwrap();
        assert_eq!(here(master), Some(master.ip()));
    }
}
