//! A network that lets TCP through and UDP not, and later UDP too: a relay on a port of its own, in
//! front of the master.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tests::{Grid, eventually};

/// Passes TCP connections on to `master`; where it listens. On the port of the same number no
/// datagram is taken.
fn pass_tcp(master: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let here = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // While there is no master, whoever comes is sent away.
            let Ok(onward) = TcpStream::connect(master) else {
                continue;
            };
            let both = [(&stream, &onward), (&onward, &stream)];
            for (from, to) in both.map(|(a, b)| {
                (
                    a.try_clone().expect("a handle"),
                    b.try_clone().expect("a handle"),
                )
            }) {
                thread::spawn(move || copy(from, to));
            }
        }
    });

    here
}

fn copy(mut from: TcpStream, mut to: TcpStream) {
    let _ = io::copy(&mut Read::by_ref(&mut from), &mut Write::by_ref(&mut to));
    for end in [from, to] {
        let _ = end.shutdown(Shutdown::Both);
    }
}

/// From now on passes the datagrams of one peer at a time on, too.
fn pass_udp(here: SocketAddr, master: SocketAddr) {
    let near = Arc::new(UdpSocket::bind(here).expect("nobody else has this port"));
    let far = Arc::new(UdpSocket::bind("127.0.0.1:0").expect("a port"));
    far.connect(master).expect("an address");

    let peer = Arc::new(Mutex::new(None));
    let near_too = Arc::clone(&near);
    let far_too = Arc::clone(&far);
    let peer_too = Arc::clone(&peer);

    thread::spawn(move || {
        let mut datagram = [0; 65_536];
        loop {
            let Ok((length, from)) = near.recv_from(&mut datagram) else {
                continue;
            };
            *peer.lock().unwrap_or_else(PoisonError::into_inner) = Some(from);
            let _ = far.send(&datagram[..length]);
        }
    });

    thread::spawn(move || {
        let mut datagram = [0; 65_536];
        loop {
            // Nobody is there while the master is down.
            let Ok(length) = far_too.recv(&mut datagram) else {
                continue;
            };
            let peer = *peer_too.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = peer.map(|peer| near_too.send_to(&datagram[..length], peer));
        }
    });
}

fn runs_a_job(grid: &Grid) {
    let input = grid.file("in", vec![7; 300_000]);
    let input = format!("{}:in", input.display());
    grid.submit([
        "--input",
        &input,
        "--output-file",
        "out",
        "--array",
        "1-3",
        "--",
        "sh",
        "-c",
        "cat in in > out",
    ]);

    grid.wait("last");
}

#[test]
fn a_grid_falls_back_to_tcp_and_returns_to_udp() {
    let mut grid = Grid::start();
    let master: SocketAddr = grid.listen().parse().expect("an address");
    let relay = pass_tcp(master);
    let through = relay.to_string();
    grid.worker("far")
        .via(&through)
        .config("udp_retry = \"1s\"")
        .start();

    let said = |word: &str| grid_log(&grid, "far").matches(word).count();
    // The master may know of it a moment before it has said so itself.
    eventually("the worker joins", Duration::from_secs(60), || {
        (said("way=") > 0).then_some(())
    });
    assert_eq!((said("way=TCP"), said("way=UDP")), (1, 0));
    runs_a_job(&grid);

    grid.as_user(
        "remote",
        [
            "login",
            "--master",
            &through,
            "--join",
            &grid.token("client"),
            "--name",
            "remote",
        ],
    )
    .expect_code(0);

    grid.as_user("remote", ["job", "list"]).expect_code(0);
    assert!(remembered(&grid), "the next command need not wait for UDP");

    let doctor = grid
        .as_user("remote", ["--output", "json", "doctor"])
        .expect_code(0)
        .json();
    let finding = |check: &str| {
        let all = doctor["findings"].as_array().expect("findings");
        all.iter()
            .find(|finding| finding["check"] == check)
            .unwrap_or_else(|| panic!("{check} in {doctor}"))["severity"]
            .clone()
    };
    assert_eq!(
        (
            finding("user: master over UDP"),
            finding("user: master over TCP")
        ),
        ("note".into(), "ok".into())
    );
    // The wait for the way that is blocked is not taken for a difference of the clocks.
    assert_eq!(finding("user: clock"), "ok");

    grid.kill_master();
    grid.start_master();

    let again = |way: &str, times: usize| {
        eventually(
            &format!("the worker joins over {way}"),
            Duration::from_secs(60),
            || {
                (grid_log(&grid, "far")
                    .matches(&format!("way={way}"))
                    .count()
                    >= times)
                    .then_some(())
            },
        );
    };
    again("TCP", 2);
    runs_a_job(&grid);

    pass_udp(relay, master);
    again("UDP", 1);
    runs_a_job(&grid);
    // TCP sets out soon after UDP here, and gets through first where the machine is busy.
    eventually("UDP gets through again", Duration::from_secs(60), || {
        grid.as_user("remote", ["job", "list"]).expect_code(0);
        (!remembered(&grid)).then_some(())
    });
}

#[test]
fn an_orderly_end_of_a_worker_warns_nobody_over_udp_or_tcp() {
    let mut grid = Grid::start();
    let master: SocketAddr = grid.listen().parse().expect("an address");
    let through = pass_tcp(master).to_string();
    grid.worker("far").via(&through).start();
    grid.worker("near").start();
    let joined = |who: &str, times: usize| {
        eventually("it joins", Duration::from_secs(60), || {
            (grid_log(&grid, who).matches("way=").count() >= times).then_some(())
        });
    };
    joined("far", 1);
    joined("near", 1);

    for who in ["far", "near"] {
        grid.running(who).terminate();
        eventually("it ends", Duration::from_secs(60), || {
            grid.running(who).ended()
        });
    }
    for log in ["far", "near", "master"].map(|who| grid_log(&grid, who)) {
        assert!(!log.contains("WARN"), "{log}");
    }
}

/// Whether the user knows of a network that lets only TCP through.
fn remembered(grid: &Grid) -> bool {
    let networks = grid.state("remote").join("client/networks.toml");
    std::fs::read_to_string(networks).is_ok_and(|text| text.contains("127.0.0.1"))
}

fn grid_log(grid: &Grid, who: &str) -> String {
    std::fs::read_to_string(grid.dir().join(format!("{who}.log"))).unwrap_or_default()
}
