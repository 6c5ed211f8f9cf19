//! The book of sources, by hand and with anything that may happen in any order.

use proptest::prelude::*;

use super::*;

const MB: u64 = 1_000_000;
const HASHES: u8 = 3;

fn host(n: u64) -> HostId {
    HostId(n as u32)
}

fn blob(n: u8) -> BlobRef {
    BlobRef {
        hash: BlobHash([n; 32]),
        size: 200 * MB,
    }
}

fn at(s: f64) -> Time {
    Time(0) + Span::from_secs_f64(1_000.0 + s)
}

fn office(n: u64) -> IpAddr {
    IpAddr::from([10, 1, 0, n as u8])
}

fn sharing(n: u64, holds: &[BlobRef]) -> SharingOffer {
    SharingOffer {
        port: 40_000,
        address: office(n),
        holds: holds.iter().map(|blob| blob.hash).collect(),
    }
}

/// A book with hosts 1 to `n` of one network, all of which share, and none has anything.
fn sharers(n: u64) -> Sources {
    let mut book = Sources::new(2);
    for n in 1..=n {
        book.enter(host(n), SessionId(n), office(n), [n as u8; 32]);
        book.shares(host(n), SessionId(n), Some(sharing(n, &[])));
    }
    book
}

fn wants(book: &mut Sources, s: f64, n: u64, number: u64) -> SourceChoice {
    book.choose(at(s), (host(n), blob(1)), at(s), number)
}

fn source(choice: &SourceChoice) -> HostId {
    match choice {
        SourceChoice::Host(chosen) => chosen.host,
        other => panic!("no host: {other:?}"),
    }
}

#[test]
fn one_host_gets_it_from_the_master_and_the_others_from_hosts_that_have_it() {
    let mut book = sharers(6);
    assert_eq!(wants(&mut book, 0.0, 1, 1), SourceChoice::Master);
    for n in 2..=6 {
        assert!(matches!(wants(&mut book, 0.0, n, n), SourceChoice::Wait(_)));
    }
    // Sent, and not yet kept there: the others go on waiting.
    book.sent(at(4.0), 1, blob(1).size);
    book.over(at(4.0), 1, true);
    assert!(matches!(wants(&mut book, 4.0, 2, 2), SourceChoice::Wait(_)));

    assert_eq!(book.fetched(host(1), blob(1).hash, None, 200 * MB), None);
    let second = wants(&mut book, 5.0, 2, 12);
    let SourceChoice::Host(chosen) = &second else {
        panic!("{second:?}")
    };
    assert_eq!((chosen.host, chosen.key), (host(1), [1; 32]));
    assert_eq!(chosen.ticket.fetcher, [2; 32], "for this one alone");
    assert_eq!(chosen.addresses, [SocketAddr::new(office(1), 40_000)]);
    assert_eq!(source(&wants(&mut book, 5.0, 3, 13)), host(1));
    // It serves two at a time.
    assert!(matches!(
        wants(&mut book, 5.0, 4, 14),
        SourceChoice::Wait(_)
    ));

    assert_eq!(
        book.fetched(host(2), blob(1).hash, Some(12), 200 * MB),
        Some((200 * MB, host(1)))
    );
    assert_eq!(
        source(&wants(&mut book, 6.0, 4, 24)),
        host(2),
        "who serves fewest"
    );
}

#[test]
fn a_transfer_that_stalls_or_is_slow_keeps_nobody_waiting_for_long() {
    let mut book = sharers(3);
    wants(&mut book, 0.0, 1, 1);
    book.sent(at(1.0), 1, 100 * MB);
    let SourceChoice::Wait(until) = wants(&mut book, 1.0, 2, 2) else {
        panic!("it is good so far")
    };
    assert_eq!(until, at(6.0), "five seconds without a byte");
    assert_eq!(wants(&mut book, 6.0, 2, 2), SourceChoice::Master);

    let mut slow = sharers(2);
    wants(&mut slow, 0.0, 1, 1);
    for s in 1..=8_u32 {
        slow.sent(at(f64::from(s)), 1, u64::from(s) * 100_000);
    }
    assert_eq!(wants(&mut slow, 8.0, 2, 2), SourceChoice::Master);

    // It vanishes.
    let mut gone = sharers(2);
    wants(&mut gone, 0.0, 1, 1);
    assert!(matches!(wants(&mut gone, 0.5, 2, 2), SourceChoice::Wait(_)));
    gone.leave(host(1), SessionId(1));
    assert_eq!(wants(&mut gone, 0.6, 2, 2), SourceChoice::Master);
}

#[test]
fn hosts_that_do_not_share_are_elsewhere_or_came_by_tcp_are_no_reason_to_wait() {
    let mut book = sharers(2);
    // The owner says no, or the master has not heard of any sharing.
    book.shares(host(1), SessionId(1), None);
    wants(&mut book, 0.0, 1, 1);
    assert_eq!(wants(&mut book, 0.1, 2, 2), SourceChoice::Master);
    book.fetched(host(1), blob(1).hash, None, 0);

    // In another network: 2 has it by now.
    book.fetched(host(2), blob(1).hash, None, 0);
    book.enter(host(3), SessionId(3), IpAddr::from([10, 2, 0, 3]), [3; 32]);
    assert_eq!(wants(&mut book, 0.2, 3, 3), SourceChoice::Master);

    // One that is not in the book.
    assert_eq!(wants(&mut book, 0.3, 9, 9), SourceChoice::Master);
}

#[test]
fn a_source_that_fails_is_not_named_again_to_the_same_and_after_two_to_nobody() {
    let mut book = sharers(4);
    let shared = sharing(1, &[blob(1)]);
    book.shares(host(1), SessionId(1), Some(shared.clone()));
    let report = |ticket, failure| PeerReport { ticket, failure };
    assert_eq!(source(&wants(&mut book, 0.0, 2, 2)), host(1));
    // Only who has the ticket can say so.
    assert_eq!(
        book.failed(at(1.0), host(3), report(2, PeerFailure::Damaged)),
        None
    );
    let failed = book.failed(at(1.0), host(2), report(2, PeerFailure::Damaged));
    assert_eq!(failed.map(|failed| failed.source), Some(host(1)));
    assert_eq!(wants(&mut book, 1.0, 2, 12), SourceChoice::Master);

    assert_eq!(
        source(&wants(&mut book, 1.0, 3, 3)),
        host(1),
        "one alone proves nothing"
    );
    book.failed(at(2.0), host(3), report(3, PeerFailure::Unreachable));
    book.over(at(2.0), 12, false);
    assert_eq!(wants(&mut book, 2.0, 4, 4), SourceChoice::Master);
    book.over(at(2.0), 4, false);
    assert_eq!(
        source(&wants(&mut book, 303.0, 4, 14)),
        host(1),
        "five minutes later"
    );

    // It says that it has it no more: no failure.
    book.failed(at(303.0), host(4), report(14, PeerFailure::Refused));
    assert_eq!(wants(&mut book, 303.0, 4, 24), SourceChoice::Master);
    book.over(at(303.0), 24, false);
    book.shares(host(1), SessionId(1), Some(shared));
    assert_eq!(source(&wants(&mut book, 304.0, 4, 34)), host(1));
}

#[test]
fn who_leaves_or_is_revoked_has_no_tickets_and_is_no_source() {
    let mut book = sharers(3);
    book.shares(host(1), SessionId(1), Some(sharing(1, &[blob(1)])));
    wants(&mut book, 0.0, 2, 1);
    // Who asks anew has no second ticket.
    assert_eq!(book.end_of(host(2), blob(1).hash), [(host(1), 1)]);
    wants(&mut book, 0.0, 2, 2);
    assert_eq!(
        book.leave(host(2), SessionId(9)),
        [],
        "that was another session"
    );
    assert_eq!(book.leave(host(2), SessionId(2)), [(host(1), 2)]);
    wants(&mut book, 0.0, 3, 3);
    assert_eq!(
        book.leave(host(1), SessionId(1)),
        [],
        "its own are nobody's"
    );
    assert_eq!(wants(&mut book, 0.1, 3, 13), SourceChoice::Master);
}

#[test]
fn a_private_address_counts_only_behind_the_same_public_one() {
    let mut book = Sources::new(2);
    let outside = IpAddr::from([203, 0, 113, 7]);
    for n in 1..=2 {
        book.enter(host(n), SessionId(n), outside, [n as u8; 32]);
    }
    book.shares(host(1), SessionId(1), Some(sharing(1, &[blob(1)])));
    let addresses = |choice: &SourceChoice| match choice {
        SourceChoice::Host(chosen) => chosen.addresses.iter().map(SocketAddr::ip).collect(),
        _ => Vec::new(),
    };
    assert_eq!(
        addresses(&wants(&mut book, 0.0, 2, 2)),
        [office(1), outside]
    );

    let next_door = IpAddr::from([203, 0, 113, 8]);
    book.enter(host(3), SessionId(3), next_door, [3; 32]);
    assert_eq!(addresses(&wants(&mut book, 0.0, 3, 3)), [outside]);

    // Nobody is sent to an address of somebody else's choice.
    book.enter(host(1), SessionId(1), outside, [1; 32]);
    let elsewhere = SharingOffer {
        address: IpAddr::from([198, 51, 100, 1]),
        ..sharing(1, &[blob(1)])
    };
    book.shares(host(1), SessionId(1), Some(elsewhere));
    book.enter(host(2), SessionId(2), outside, [2; 32]);
    assert_eq!(addresses(&wants(&mut book, 0.0, 2, 22)), [outside]);
}

/// Something that happens.
#[derive(Debug, Clone)]
enum Step {
    Enter(u64, u8),
    Leave(u64),
    Shares(u64, Option<Vec<u8>>),
    Wants(u64, u8),
    Sent(u64, u64),
    Over(u64, bool),
    Fetched(u64, u8, Option<u64>),
    Failed(u64, u64, PeerFailure),
    Later(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (h, b, number) = (1..7_u64, 0..HASHES, 0..60_u64);
    let failure = prop_oneof![
        Just(PeerFailure::Unreachable),
        Just(PeerFailure::Refused),
        Just(PeerFailure::Stalled),
        Just(PeerFailure::Damaged)
    ];
    let listed = prop::option::of(prop::collection::vec(b.clone(), 0..3));
    let step = prop_oneof![
        2 => (h.clone(), 0..2_u8).prop_map(|(n, net)| Step::Enter(n, net)),
        1 => h.clone().prop_map(Step::Leave),
        2 => (h.clone(), listed).prop_map(|(n, holds)| Step::Shares(n, holds)),
        8 => (h.clone(), b.clone()).prop_map(|(n, b)| Step::Wants(n, b)),
        2 => (number.clone(), 0..300 * MB).prop_map(|(n, bytes)| Step::Sent(n, bytes)),
        2 => (number.clone(), any::<bool>()).prop_map(|(n, all)| Step::Over(n, all)),
        4 => (h.clone(), b, prop::option::of(number.clone()))
            .prop_map(|(n, b, ticket)| Step::Fetched(n, b, ticket)),
        2 => (h, number, failure).prop_map(|(n, ticket, why)| Step::Failed(n, ticket, why)),
        2 => (1..400_u64).prop_map(Step::Later),
    ];
    prop::collection::vec(step, 1..120)
}

impl Sources {
    /// The laws that hold at any time.
    fn check(&self) {
        for (id, member) in &self.hosts {
            let serving = self.transfers.values().filter(|of| of.source == Some(*id));
            assert_eq!(serving.count() as u32, member.serving);
            assert!(member.serving <= self.fan_out);
            let listed = |hash: &BlobHash| self.holders.get(hash).is_some_and(|of| of.contains(id));
            assert!(member.holds.iter().all(listed));
            assert!(member.offer.is_some() || member.holds.is_empty());
        }
        for (hash, holders) in &self.holders {
            let holds = |id: &HostId| self.hosts.get(id).is_some_and(|of| of.holds.contains(hash));
            assert!(!holders.is_empty() && holders.iter().all(holds));
        }
        let indexed: usize = self.by_blob.values().map(BTreeSet::len).sum();
        assert_eq!(indexed, self.transfers.len());
        for transfer in self.transfers.values() {
            assert!(self.hosts.contains_key(&transfer.fetcher));
            assert!(
                transfer
                    .source
                    .is_none_or(|id| self.hosts.contains_key(&id))
            );
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_the_books_agree_and_no_source_serves_too_many_or_whom_it_should_not(
        steps in steps()
    ) {
        let mut book = Sources::new(2);
        let mut now = at(0.0);
        let mut next = 0;
        for step in steps {
            match step {
                Step::Enter(n, net) => {
                    let seen = IpAddr::from([10, net, 0, n as u8]);
                    book.enter(host(n), SessionId(n), seen, [n as u8; 32]);
                }
                Step::Leave(n) => drop(book.leave(host(n), SessionId(n))),
                Step::Shares(n, holds) => {
                    let holds = holds.map(|of| of.into_iter().map(blob).collect::<Vec<_>>());
                    book.shares(host(n), SessionId(n), holds.map(|of| sharing(n, &of)));
                }
                Step::Wants(n, b) => {
                    next += 1;
                    let good = book.hope(now, host(n), blob(b).hash).is_some();
                    match book.choose(now, (host(n), blob(b)), now, next) {
                        SourceChoice::Master => prop_assert!(!good || !book.hosts.contains_key(&host(n))
                            || book.hope(now, host(n), blob(b).hash).is_none()),
                        SourceChoice::Wait(until) => prop_assert!(until >= now),
                        SourceChoice::Host(chosen) => {
                            let there = &book.hosts[&chosen.host];
                            prop_assert!(chosen.host != host(n) && there.offer.is_some());
                            prop_assert!(there.holds.contains(&blob(b).hash));
                            prop_assert_eq!(network(there.seen), network(book.hosts[&host(n)].seen));
                            prop_assert_eq!(chosen.ticket.fetcher, [n as u8; 32]);
                        }
                    }
                }
                Step::Sent(number, bytes) => book.sent(now, number, bytes),
                Step::Over(number, all) => book.over(now, number, all),
                Step::Fetched(n, b, ticket) => {
                    let bytes = book.fetched(host(n), blob(b).hash, ticket, u64::MAX);
                    prop_assert!(bytes.is_none_or(|(bytes, _)| bytes <= blob(b).size));
                }
                Step::Failed(n, ticket, failure) => {
                    book.failed(now, host(n), PeerReport { ticket, failure });
                }
                Step::Later(s) => now = now + Span::from_secs(s),
            }
            book.check();
        }
        for n in 1..7 {
            book.leave(host(n), SessionId(n));
        }
        prop_assert!(book.transfers.is_empty() && book.holders.is_empty() && book.by_blob.is_empty());
    }
}
