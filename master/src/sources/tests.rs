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
    IpAddr::from([10, 1, (n >> 8) as u8, n as u8])
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
        book.quit(n);
    }
    // Sent, and not yet kept there: the others go on waiting.
    book.sent(at(4.0), 1, blob(1).size);
    book.over(at(4.0), 1, true);
    assert!(matches!(wants(&mut book, 4.0, 2, 2), SourceChoice::Wait(_)));
    book.quit(2);

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
        Some(200 * MB)
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
    assert_eq!(book.end_of(host(2), blob(1).hash), Some((host(1), 1)));
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

/// Lets a host that waits look again; it has waited from the beginning.
fn asks_again(book: &mut Sources, s: f64, n: u64, number: u64) -> SourceChoice {
    book.choose(at(s), (host(n), blob(1)), at(0.0), number)
}

/// A book in which host 1 has the content and serves 2 and 3, and all after it pass nothing on. So 4 to
/// `n` wait, each under its own number.
fn crowd(n: u64) -> Sources {
    let mut book = sharers(n);
    book.shares(host(1), SessionId(1), Some(sharing(1, &[blob(1)])));
    for n in 2..=n {
        book.shares(host(n), SessionId(n), None);
        let choice = wants(&mut book, 0.0, n, n);
        assert_eq!(matches!(choice, SourceChoice::Wait(_)), n > 3);
    }
    assert!(book.take_woken().is_empty());
    book
}

#[test]
fn a_place_wakes_one_and_goes_to_the_next_when_that_one_has_gone() {
    let mut book = crowd(7);
    book.fetched(host(2), blob(1).hash, Some(2), 0);
    assert_eq!(book.take_woken(), [4], "who has waited for longest");
    // It went before it looked.
    book.quit(4);
    assert_eq!(book.take_woken(), [5]);
    assert_eq!(source(&asks_again(&mut book, 1.0, 5, 5)), host(1));

    // It was given the place, and could not be told of it.
    assert_eq!(book.give_up(5), Some((host(1), 5)));
    assert_eq!(book.take_woken(), [6]);
    // It is kept for 6, however quick another one is.
    book.enter(host(8), SessionId(8), office(8), [8; 32]);
    assert!(matches!(wants(&mut book, 1.0, 8, 8), SourceChoice::Wait(_)));
    assert_eq!(source(&asks_again(&mut book, 1.0, 6, 6)), host(1));
    assert!(book.take_woken().is_empty());

    // The host of a waiter leaves.
    book.fetched(host(3), blob(1).hash, Some(3), 0);
    assert_eq!(book.take_woken(), [7]);
    book.leave(host(7), SessionId(7));
    assert_eq!(asks_again(&mut book, 1.0, 7, 7), SourceChoice::Master);
    assert_eq!(book.take_woken(), [8]);
}

#[test]
fn a_place_is_not_kept_for_long_for_who_does_not_look() {
    let mut book = crowd(5);
    book.fetched(host(2), blob(1).hash, Some(2), 0);
    assert_eq!(book.take_woken(), [4]);
    assert_eq!(source(&asks_again(&mut book, 5.0, 5, 5)), host(1));
    assert!(matches!(
        asks_again(&mut book, 5.0, 4, 4),
        SourceChoice::Wait(_)
    ));
    book.fetched(host(3), blob(1).hash, Some(3), 0);
    assert_eq!(book.take_woken(), [4]);
}

#[test]
fn a_source_that_leaves_while_a_place_is_kept_there_sends_the_waiter_elsewhere() {
    let mut book = crowd(5);
    book.fetched(host(2), blob(1).hash, Some(2), 0);
    assert_eq!(book.take_woken(), [4]);
    book.leave(host(1), SessionId(1));
    assert_eq!(book.take_woken(), [5], "there is no reason to wait");
    assert_eq!(asks_again(&mut book, 1.0, 4, 4), SourceChoice::Master);
    assert_eq!(asks_again(&mut book, 1.0, 5, 5), SourceChoice::Master);
    assert!(book.take_woken().is_empty());
}

#[test]
fn a_place_is_offered_only_to_whom_its_source_has_not_failed() {
    let mut book = crowd(5);
    let report = PeerReport {
        ticket: 3,
        failure: PeerFailure::Stalled,
    };
    book.failed(at(1.0), host(3), report);
    assert_eq!(book.take_woken(), [4]);
    assert_eq!(source(&asks_again(&mut book, 1.0, 4, 4)), host(1));

    // 3 waits for 5, which has begun to pass it on, and not for 1.
    book.shares(host(5), SessionId(5), Some(sharing(5, &[])));
    book.send_directly(at(1.0), host(5), blob(1), 15);
    let waits = asks_again(&mut book, 1.0, 3, 13);
    assert_eq!(waits, SourceChoice::Wait(at(6.0)));
    book.quit(5);
    assert!(book.take_woken().is_empty());
    book.fetched(host(2), blob(1).hash, Some(2), 0);
    assert!(book.take_woken().is_empty(), "1 has a place, not for 3");
    book.fetched(host(5), blob(1).hash, None, 0);
    assert_eq!(book.take_woken(), [13]);
    assert_eq!(source(&asks_again(&mut book, 2.0, 3, 13)), host(5));
}

#[test]
fn one_of_a_line_looks_for_all_when_the_reason_to_wait_is_gone() {
    let mut book = sharers(9);
    wants(&mut book, 0.0, 1, 1);
    let until = |choice: SourceChoice| match choice {
        SourceChoice::Wait(until) => until,
        other => panic!("{other:?}"),
    };
    for n in 2..=4 {
        assert_eq!(until(wants(&mut book, 0.0, n, n)), at(5.0));
    }
    // Once the last one has come, the others have only their patience.
    assert_eq!(
        until(asks_again(&mut book, 0.0, 2, 2)),
        at(0.0) + longest(200 * MB)
    );

    // Nothing that is to do with another content, or with none, wakes anybody.
    book.shares(host(9), SessionId(9), Some(sharing(9, &[blob(2)])));
    book.shares(host(9), SessionId(9), None);
    book.leave(host(8), SessionId(8));
    book.enter(host(8), SessionId(8), office(8), [8; 32]);
    assert!(book.take_woken().is_empty());

    book.leave(host(1), SessionId(1));
    assert_eq!(book.take_woken(), [4]);
    assert_eq!(asks_again(&mut book, 1.0, 4, 4), SourceChoice::Master);
    assert_eq!(book.take_woken(), [3], "the next lookout");
    assert_eq!(until(asks_again(&mut book, 1.0, 3, 3)), at(6.0));
    assert!(book.take_woken().is_empty());
    // A lookout that goes has a successor, too.
    book.quit(3);
    assert_eq!(book.take_woken(), [2]);
    assert_eq!(until(asks_again(&mut book, 1.0, 2, 2)), at(6.0));
}

#[test]
fn transfers_that_are_late_give_their_places_to_those_who_wait() {
    let mut book = crowd(5);
    // Those to 2 and 3 have lasted too long. 5 looks out.
    let late = at(0.0) + longest(200 * MB);
    let choice = book.choose(late, (host(5), blob(1)), late, 5);
    assert_eq!(source(&choice), host(1));
    assert_eq!(book.take_woken(), [4]);

    let choice = book.choose(late, (host(4), blob(1)), late, 4);
    assert_eq!(source(&choice), host(1));
    assert!(book.take_woken().is_empty());
}

/// The looks, and the waiters that were woken, until all of `n` hosts have a content, each of which has
/// 50 others. A transfer lasts a second.
fn spread(n: u64) -> (u64, u64) {
    let mut book = sharers(n);
    let others: Vec<BlobRef> = (100..150).map(blob).collect();
    for n in 1..=n {
        book.shares(host(n), SessionId(n), Some(sharing(n, &others)));
        let choice = wants(&mut book, 0.0, n, n);
        assert_eq!(choice == SourceChoice::Master, n == 1);
    }

    let mut fetching = vec![(1, None)];
    let mut have = 0;
    let mut wakes = 0;
    for s in 1_u32.. {
        if fetching.is_empty() {
            break;
        }
        for (n, ticket) in std::mem::take(&mut fetching) {
            book.fetched(host(n), blob(1).hash, ticket, 0);
            have += 1;
            for number in book.take_woken() {
                let choice = asks_again(&mut book, f64::from(s), number, number);
                assert_ne!(source(&choice), host(number));
                fetching.push((number, Some(number)));
                wakes += 1;
            }
        }
    }
    assert_eq!(have, n);
    (book.looks.get(), wakes)
}

#[test]
fn the_work_for_a_transfer_does_not_grow_with_the_hosts() {
    for n in [100, 1_000] {
        let (looks, wakes) = spread(n);
        assert_eq!(wakes, n - 1, "one for each that got it from a host");
        assert!(looks <= 12 * n, "{looks} looks for {n} hosts");
    }
}

#[test]
fn the_work_of_a_look_does_not_grow_with_the_sources_and_those_who_wait() {
    for n in [100, 1_000] {
        let mut book = sharers(4 * n);
        for n in 1..=n {
            book.shares(host(n), SessionId(n), Some(sharing(n, &[blob(1)])));
        }
        // Two for each source, and n that wait for one.
        for n in n + 1..=4 * n {
            wants(&mut book, 0.0, n, n);
        }
        assert!(book.take_woken().is_empty());
        let looks = book.looks.replace(0);
        assert!(looks <= 12 * 3 * n, "{looks} looks for {n} sources");

        // Who fetches leaves, and then who has waited.
        let mut woken = 0;
        for n in n + 1..=4 * n {
            book.leave(host(n), SessionId(n));
            for number in book.take_woken() {
                woken += 1;
                asks_again(&mut book, 1.0, number, number);
            }
        }
        let looks = book.looks.get();
        assert!(woken <= 2 * 3 * n, "{woken} wakes");
        assert!(looks <= 24 * 3 * n, "{looks} looks for {n} sources");
    }
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
    /// One of those who were woken looks again, or one that nobody has woken.
    Looks(usize),
    /// One of those who wait, or were woken, goes.
    Quits(usize),
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
        6 => (0..8_usize).prop_map(Step::Looks),
        2 => (0..8_usize).prop_map(Step::Quits),
    ];
    prop::collection::vec(step, 1..120)
}

impl Sources {
    /// The laws that hold at any time.
    fn check(&self) {
        for (id, member) in &self.hosts {
            let from_it = self
                .transfers
                .iter()
                .filter(|(_, of)| of.source == Some(*id));
            let serves: BTreeSet<u64> = from_it.map(|(number, _)| *number).collect();
            assert_eq!(serves, member.serves);
            let to_it = self.transfers.iter().filter(|(_, of)| of.fetcher == *id);
            let to_it = to_it.map(|(number, of)| (of.blob.hash, *number));
            assert_eq!(to_it.collect::<BTreeMap<_, _>>(), member.fetches);

            assert!(member.taken() <= self.fan_out);
            assert!(member.offer.is_some() || member.holds.is_empty());
            assert!(
                member
                    .holds
                    .values()
                    .all(|behind| *behind <= member.taken())
            );
            let raised = member.holds.iter().filter(|(_, behind)| **behind > 0);
            let raised = raised.map(|(hash, behind)| (*behind, *hash));
            assert_eq!(raised.collect::<BTreeSet<_>>(), member.raised);
            for number in &member.waits {
                assert_eq!(self.lines.waiter(*number).unwrap().fetcher, *id);
            }
            for number in &member.offered {
                let (source, until) = self.lines.waiter(*number).unwrap().place().unwrap();
                assert!(source == *id && self.kept.contains(&(until, *number)));
            }
            assert_eq!(
                self.next_for(*id),
                None,
                "a place, and somebody who waits for it"
            );
        }
        for transfer in self.transfers.values() {
            assert!(self.hosts.contains_key(&transfer.fetcher));
            assert!(
                transfer
                    .source
                    .is_none_or(|id| self.hosts.contains_key(&id))
            );
        }
        self.check_indexes();
    }

    /// Checks that the indexes find what is found without them.
    fn check_indexes(&self) {
        let mut shelves = ContentShelves::default();
        for (id, member) in self.hosts.iter().filter(|(_, of)| of.passes_on()) {
            for (hash, behind) in &member.holds {
                shelves.put((member.network(), *hash), (*behind, *id));
            }
            for (hash, number) in &member.fetches {
                let until = self.transfers[number].good_until();
                shelves.put_coming((member.network(), *hash), (until, *number));
            }
        }
        assert_eq!(shelves, self.shelves);

        let unwatched = self.transfers.iter().filter(|(_, of)| of.is_unwatched());
        let ends = unwatched.map(|(number, of)| (of.good_until(), *number));
        assert_eq!(ends.collect::<BTreeSet<_>>(), self.ends);
        let out = self
            .hosts
            .iter()
            .filter_map(|(id, of)| Some((of.out_until?, *id)));
        assert_eq!(out.collect::<BTreeSet<_>>(), self.out);
        let avoided = self.avoided.iter().map(|(pair, until)| (*until, *pair));
        assert_eq!(avoided.collect::<BTreeSet<_>>(), self.avoided_until);
        for (until, number) in &self.kept {
            let place = self.lines.waiter(*number).unwrap().place();
            assert!(place.is_some_and(|(_, kept)| kept == *until));
        }
    }
}

/// Anything that happens, with those who wait: their hosts, contents, and since and until when.
struct Play {
    book: Sources,
    now: Time,
    next: u64,
    waiting: BTreeMap<u64, (u64, u8, Time, Time)>,
    woken: Vec<u64>,
}

impl Play {
    fn ask(&mut self, n: u64, b: u8, since: Time, number: u64) {
        let choice = self
            .book
            .choose(self.now, (host(n), blob(b)), since, number);
        self.waiting.remove(&number);
        let here = self.book.hosts.get(&host(n));
        let of = here.map(|here| (here.network(), blob(b).hash));
        match choice {
            SourceChoice::Master => assert!(of.is_none_or(|of| {
                self.now >= since + longest(blob(b).size) || self.book.hope(host(n), of).is_none()
            })),
            SourceChoice::Wait(until) => {
                assert!(until > self.now);
                self.waiting.insert(number, (n, b, since, until));
            }
            SourceChoice::Host(chosen) => {
                let there = &self.book.hosts[&chosen.host];
                assert!(chosen.host != host(n) && there.offer.is_some());
                assert!(there.holds.contains_key(&blob(b).hash));
                assert_eq!(Some(there.network()), of.map(|of| of.0));
                assert_eq!(chosen.ticket.fetcher, [n as u8; 32]);
            }
        }
    }

    fn take(&mut self, step: Step) {
        let now = self.now;
        match step {
            Step::Enter(n, net) => {
                let seen = IpAddr::from([10, net, 0, n as u8]);
                self.book.enter(host(n), SessionId(n), seen, [n as u8; 32]);
            }
            Step::Leave(n) => drop(self.book.leave(host(n), SessionId(n))),
            Step::Shares(n, holds) => {
                let holds = holds.map(|of| of.into_iter().map(blob).collect::<Vec<_>>());
                let sharing = holds.map(|of| sharing(n, &of));
                self.book.shares(host(n), SessionId(n), sharing);
            }
            Step::Wants(n, b) => {
                self.next += 1;
                self.ask(n, b, now, self.next);
            }
            Step::Sent(number, bytes) => self.book.sent(now, number, bytes),
            Step::Over(number, all) => self.book.over(now, number, all),
            Step::Fetched(n, b, ticket) => {
                let bytes = self.book.fetched(host(n), blob(b).hash, ticket, u64::MAX);
                assert!(bytes.is_none_or(|bytes| bytes <= blob(b).size));
            }
            Step::Failed(n, ticket, failure) => {
                let report = PeerReport { ticket, failure };
                self.book.failed(now, host(n), report);
            }
            Step::Later(s) => self.now = now + Span::from_secs(s),
            Step::Looks(k) => {
                let number = match self.woken.len() {
                    0 => self.waiting.keys().nth(k).copied(),
                    woken => Some(self.woken.remove(k % woken)),
                };
                if let Some(number) = number {
                    let (n, b, since, _) = self.waiting[&number];
                    self.ask(n, b, since, number);
                }
            }
            Step::Quits(k) => {
                if let Some(number) = self.waiting.keys().nth(k).copied() {
                    self.waiting.remove(&number);
                    self.woken.retain(|woken| *woken != number);
                    self.book.quit(number);
                }
            }
        }
    }

    /// Nobody was woken twice, and each line has a lookout that has reason to wait, or is to look.
    fn check(&mut self) {
        for number in self.book.take_woken() {
            assert!(self.waiting.contains_key(&number) && !self.woken.contains(&number));
            self.woken.push(number);
        }

        self.book.check();
        for (of, line) in self.book.lines.all() {
            assert!(line.waiters().next().is_some());
            let lookout = line.lookout().expect("a line has a lookout");
            let waiter = self.book.lines.waiter(lookout).unwrap();
            let (_, _, _, until) = self.waiting[&lookout];
            assert_eq!(waiter.of, of);
            assert_eq!(waiter.woken.is_some(), self.woken.contains(&lookout));
            assert!(
                waiter.woken.is_some()
                    || until <= self.book.now
                    || self.book.hope(waiter.fetcher, of).is_some()
            );
        }
    }
}

proptest! {
    #[test]
    fn whatever_happens_the_books_agree_and_no_source_serves_too_many_or_whom_it_should_not(
        steps in steps()
    ) {
        let mut play = Play {
            book: Sources::new(2),
            now: at(0.0),
            next: 0,
            waiting: BTreeMap::new(),
            woken: Vec::new(),
        };
        for step in steps {
            play.take(step);
            play.check();
        }

        for n in 1..7 {
            play.take(Step::Leave(n));
            play.check();
        }
        prop_assert_eq!(play.woken.len(), play.waiting.len(), "all are to look");
        while !play.waiting.is_empty() {
            play.take(Step::Quits(0));
        }
        let book = play.book;
        prop_assert!(book.transfers.is_empty() && book.shelves.is_empty() && book.ends.is_empty());
        prop_assert!(book.kept.is_empty() && book.out.is_empty());
        prop_assert_eq!(book.lines.all().count(), 0);
    }
}
