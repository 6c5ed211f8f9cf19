//! A network namespace for each host, with a cable to the master's, and the hosts' directories.
//! Everything is in a network of this program's own, which ends with it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::plan::HOSTS;

/// The master's address, inside only.
pub(crate) const MASTER: &str = "10.79.0.1";
/// The environment variable that says that this program is inside.
const INSIDE: &str = "DESKGRID_BENCH_INSIDE";

pub(crate) struct Network {
    dir: TempDir,
}

impl Network {
    pub(crate) fn is_inside() -> bool {
        std::env::var_os(INSIDE).is_some()
    }

    /// Runs this program again in a network of its own.
    pub(crate) fn enter(args: &[String]) {
        let this = std::env::current_exe().expect("Linux says");
        let mut command = Command::new("unshare");
        command.args(["--net", "--mount"]).arg(this).args(args);
        let status = command.env(INSIDE, "1").status();
        assert!(
            status.is_ok_and(|status| status.success()),
            "no network of its own: this needs root and util-linux"
        );
    }

    /// Lays the cables.
    pub(crate) fn lay() -> Self {
        must("mkdir -p /run/netns");
        must("mount -t tmpfs none /run/netns");
        must("ip link set lo up");
        must(&format!("ip address add {MASTER}/32 dev lo"));
        must("nft add table ip cut");
        for (chain, hook) in [("out", "output"), ("in", "input")] {
            must(&format!(
                "nft add chain ip cut {chain} {{ type filter hook {hook} priority 0 ; }}"
            ));
        }

        let dir = tempfile::tempdir().expect("a temporary directory");
        open_to_all(dir.path(), 0o755);
        let network = Self { dir };
        for host in 0..HOSTS {
            must(&format!("ip netns add host{host}"));
            must(&format!(
                "ip link add cable{host} type veth peer name cable netns host{host}"
            ));
            let net = format!("10.79.{}", host + 1);
            must(&format!("ip address add {net}.1/24 dev cable{host}"));
            must(&format!("ip link set cable{host} up"));
            for words in [
                "link set lo up".to_owned(),
                format!("address add {net}.2/24 dev cable"),
                "link set cable up".to_owned(),
                format!("route add {MASTER} via {net}.1"),
            ] {
                must(&format!("ip -n host{host} {words}"));
            }

            let at = network.host_dir(host);
            fs::create_dir(&at).expect("the directory is ours");
            open_to_all(&at, 0o777);
            let this = std::env::current_exe().expect("Linux says");
            fs::copy(this, at.join("paced")).expect("the directory is ours");
        }

        network
    }

    /// Returns the directory of a host: the first in its tasks' `PATH`.
    pub(crate) fn host_dir(&self, host: usize) -> PathBuf {
        self.dir.path().join(format!("h{host}"))
    }

    /// Returns the `PATH` of a host's tasks.
    pub(crate) fn path(&self, host: usize) -> String {
        format!("{}:/usr/bin:/bin", self.host_dir(host).display())
    }

    /// Returns the words behind which a process runs on a host.
    pub(crate) fn words(host: usize) -> Vec<String> {
        ["ip", "netns", "exec", &format!("host{host}")]
            .map(str::to_owned)
            .to_vec()
    }

    /// Drops every packet to and from a host.
    pub(crate) fn cut(&self, host: usize) {
        must(&format!("nft add rule ip cut out oifname cable{host} drop"));
        must(&format!("nft add rule ip cut in iifname cable{host} drop"));
    }

    /// Makes every host as good as new.
    pub(crate) fn heal(&self) {
        must("nft flush table ip cut");
        for host in 0..HOSTS {
            for name in ["speed", "hang", "pause"] {
                // Most are not there.
                let _ = fs::remove_file(self.host_dir(host).join(name));
            }
        }
    }
}

fn open_to_all(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the directory is ours");
}

fn must(line: &str) {
    let mut words = line.split(' ');
    let program = words.next().expect("a program");
    let status = Command::new(program).args(words).status();
    assert!(status.is_ok_and(|status| status.success()), "{line} failed");
}
