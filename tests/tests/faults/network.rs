//! Networks that lose, double, divide and renumber: the master, the user and one worker at home,
//! another worker away in a network namespace of its own behind a cable of two interfaces, on which
//! nftables does the damage.

use std::time::Duration;

use tests::{Grid, eventually};

use super::ledger::Ledger;
use super::space::Space;
use super::{have, long, skip, worker};

/// Where the master is, at home.
const MASTER: &str = "10.77.0.1:7411";
/// The end of the cable at home, and the one away.
const CABLE: [&str; 2] = ["10.77.1.1", "10.77.1.2"];

/// Two networks and a cable.
struct Network {
    home: Space,
    away: Space,
}

impl Network {
    /// None where the machine cannot do that, which is said.
    fn new() -> Option<Self> {
        if !(have("unshare", "util-linux") && have("ip", "iproute2") && have("nft", "nftables")) {
            return None;
        }
        let made = Self::lay();
        if let Err(why) = &made {
            skip(&format!("no network of its own: {why}"));
        }
        made.ok()
    }

    fn lay() -> Result<Self, String> {
        let home = Space::new(
            &["-n"],
            "ip link set lo up\nip address add 10.77.0.1/32 dev lo",
        )?;
        let away = Space::new(&["-n"], "ip link set lo up")?;
        let pid = away.pid().to_string();
        home.run(&[
            "ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", &pid,
        ])?;

        for (space, address) in [(&home, CABLE[0]), (&away, CABLE[1])] {
            space.run(&[
                "ip",
                "address",
                "add",
                &format!("{address}/24"),
                "dev",
                "cable",
            ])?;

            space.run(&["ip", "link", "set", "cable", "up"])?;
            // Both directions are tables of their own, so that each can be made bad alone.
            space.run(&["nft", "add table ip faults"])?;
            space.run(&[
                "nft",
                "add chain ip faults out { type filter hook output priority 0 ; }",
            ])?;
        }

        away.run(&["ip", "route", "add", "10.77.0.0/24", "via", CABLE[0]])?;
        Ok(Self { home, away })
    }

    /// A grid on it, with a worker at home and one away.
    fn grid(&self) -> Grid {
        let mut grid = Grid::prepared_fast("");
        grid.listen_at(MASTER, "127.0.0.1:7412");
        for who in ["admin", "user", "near"] {
            grid.wrap(who, self.home.words());
        }
        grid.wrap("far", self.away.words());
        grid.begin();
        worker(&mut grid, "near", 1).start();
        worker(&mut grid, "far", 2).start();
        grid
    }

    /// What leaves home for the cable, or the cable for home, meets this rule.
    fn rule(&self, [from_home, from_away]: [&str; 2]) {
        for (space, rule) in [(&self.home, from_home), (&self.away, from_away)] {
            if !rule.is_empty() {
                space.must(&[
                    "nft",
                    &format!("add rule ip faults out oifname cable udp length > 0 {rule}"),
                ]);
            }
        }
    }

    /// The cable is as good as new.
    fn heal(&self) {
        for space in [&self.home, &self.away] {
            space.must(&["nft", "flush chain ip faults out"]);
        }
    }
}

/// What the two ends of the cable do to packets, and for how many seconds.
type Weather<'a> = ([&'a str; 2], u64);

/// Work goes on while the cable is bad in one way after another; then everything that was promised
/// is there.
fn in_weather(all: &[Weather<'_>]) {
    let Some(network) = Network::new() else {
        return;
    };
    let mut grid = network.grid();
    let mut ledger = Ledger::new(0.4);

    for (rules, seconds) in all {
        ledger.submit(&grid, 2);
        network.rule(*rules);
        ledger.submit(&grid, 2);
        std::thread::sleep(Duration::from_secs(if long() {
            seconds * 5
        } else {
            *seconds
        }));
        ledger.check(&grid);
        network.heal();
    }

    ledger.submit(&grid, 2);
    ledger.settle(&grid);
    eventually("the far worker is there", Duration::from_secs(90), || {
        (grid.json(["host", "info", "far"])["state"] == "ready").then_some(())
    });
    assert!(grid.master().ended().is_none() && grid.running("far").ended().is_none());
}

#[test]
fn partitions_shorter_and_longer_than_a_lease_lose_no_result() {
    in_weather(&[(["drop", "drop"], 2), (["drop", "drop"], 7)]);
}

#[test]
fn a_worker_that_does_not_hear_or_is_not_heard_loses_no_result() {
    in_weather(&[(["", "drop"], 5), (["drop", ""], 5)]);
}

#[test]
fn a_third_of_all_packets_may_be_lost_and_every_packet_may_come_twice() {
    let third = "numgen random mod 100 < 30 drop";
    let [home, away] = CABLE;
    let twice = |to: &str| format!("dup to {to} device cable");
    in_weather(&[([third, third], 4), ([&twice(away), &twice(home)], 3)]);
}

#[test]
fn a_worker_may_change_its_address_in_the_middle_of_its_work() {
    let Some(network) = Network::new() else {
        return;
    };
    let mut grid = network.grid();
    let mut ledger = Ledger::new(0.4);
    let job = ledger.submit(&grid, 6).to_string();

    for last in [3, 4] {
        let some = |j: &serde_json::Value| {
            (j["tasks"]["finished"].as_u64() >= Some(last - 2)).then_some(())
        };
        grid.until("it is under way", &["job", "info", &job], some);
        network
            .away
            .must(&["ip", "address", "flush", "dev", "cable"]);
        network.away.must(&[
            "ip",
            "address",
            "add",
            &format!("10.77.1.{last}/24"),
            "dev",
            "cable",
        ]);

        network
            .away
            .must(&["ip", "route", "add", "10.77.0.0/24", "via", CABLE[0]]);
    }

    ledger.submit(&grid, 2);
    ledger.settle(&grid);
    assert!(grid.running("far").ended().is_none());
}
