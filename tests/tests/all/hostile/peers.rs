//! Hosts that pass inputs on, and mean it ill: sources that lie, stall, vanish or are somebody
//! else, and fetchers whose ticket or certificate is not theirs.

use common::host::{HostFacts, OwnerState};
use common::wire::Versions;
use common::wire::peer::{PeerSource, SharingOffer};
use common::wire::stream::GetReply;
use common::wire::worker::{Delivery, ToMaster, ToWorker};
use common::{BlobRef, Completion, Outcome, Span, Speed};
use link::peer::{PeerDoor, PeerPapers};
use link::{BlobStore, Channel};

use super::*;
use crate::e2e::sharing::{large, sent};

const BYTES: usize = 6_000_000;

/// A worker that does as it is told here, and nothing else.
struct Fake {
    identity: Identity,
    connection: Connection,
    control: Channel,
}

/// The conduct of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Conduct {
    WrongBytes,
    TooManyBytes,
    StallsHalfWay,
    VanishesHalfWay,
    Refuses,
    HasAnotherKey,
    SaysNothing,
}

impl Hostile {
    /// A worker with one slot and this label, which the master has welcomed.
    fn fake(&self, name: &str) -> Fake {
        let identity = self.enrol("worker", name);
        self.now(async {
            let connection = link::connect(&identity, Purpose::Worker).await;
            let connection = connection.expect("lets in whom it knows");
            let mut control = connection.open(&Open::Control).await.expect("a stream");
            let facts = HostFacts {
                name: name.to_owned(),
                slots: 1,
                speed: Speed::REFERENCE,
                labels: [name.parse().expect("a label")].into(),
                network: true,
                ..HostFacts::unknown(String::new())
            };
            let hello = ToMaster::Hello {
                versions: Versions::ours(),
                facts: Box::new(facts),
                status: OwnerState::Away.into(),
                held: Vec::new(),
            };
            control.tx.send(&hello).await.expect("it listens");
            let welcome = control.rx.expect::<ToWorker>().await;
            assert!(
                matches!(welcome, Ok(ToWorker::Welcome { .. })),
                "{welcome:?}"
            );
            Fake {
                identity,
                connection,
                control,
            }
        })
    }

    /// Waits until a message to this worker is of the kind that `found` wants.
    fn hears<T>(&self, fake: &mut Fake, found: impl Fn(ToWorker) -> Option<T>) -> T {
        self.now(async {
            loop {
                let message = fake.control.rx.expect().await.expect("a message");
                if let Some(found) = found(message) {
                    return found;
                }
            }
        })
    }

    /// Makes the worker offer this content at a door behind which it conducts itself so.
    fn offers(&self, fake: &mut Fake, content: &[u8], conduct: Conduct) {
        let blob = link::content::hash_bytes(content);
        let papers = match conduct {
            Conduct::HasAnotherKey => PeerPapers::of(&self.enrol("worker", "its-friend")),
            _ => PeerPapers::of(&fake.identity),
        };
        let (papers, content) = (papers.expect("a worker's"), content.to_vec());
        let victim = self.grid.state("real");
        self.now(async {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let door = PeerDoor::open(any, &papers).expect("a port");
            let at = door.address().expect("bound");
            tokio::spawn(misbehave(door, content, conduct, victim));
            let sharing = SharingOffer {
                port: at.port(),
                address: at.ip(),
                holds: vec![blob.hash],
            };
            let says = ToMaster::Shares(Some(sharing));
            fake.control.tx.send(&says).await.expect("it listens");
        });
    }

    /// The answer to this worker's wish for content.
    fn is_sent(&self, fake: &Fake, blob: BlobRef) -> GetReply {
        let wish = Open::Get {
            hash: blob.hash,
            offset: 0,
            peers: true,
            failed: Vec::new(),
        };
        self.now(async {
            let mut channel = fake.connection.open(&wish).await.expect("a stream");
            channel.rx.expect().await.expect("an answer")
        })
    }
}

/// The length of the longest unfinished transfer below a directory.
fn longest_file(dir: &std::path::Path) -> u64 {
    let files = walkdir::WalkDir::new(dir).into_iter().flatten();
    let parts = files.filter(|entry| entry.path().extension().is_some_and(|e| e == "part"));
    let sizes = parts.filter_map(|entry| Some(entry.metadata().ok()?.len()));
    sizes.max().unwrap_or(0)
}

async fn misbehave(door: PeerDoor, content: Vec<u8>, conduct: Conduct, victim: PathBuf) {
    while let Some(knock) = door.next().await {
        let Ok(guest) = knock.let_in().await else {
            continue;
        };
        while let Ok(question) = guest.next().await {
            let (asked, mut channel) = question.read().await.expect("a request");
            if conduct == Conduct::SaysNothing {
                std::future::pending::<()>().await;
            }
            if conduct == Conduct::Refuses {
                link::peer::refuse(channel, "not from me")
                    .await
                    .expect("it listens");
                continue;
            }
            let found = GetReply::Found(content.len() as u64);
            channel.tx.send(&found).await.expect("it listens");
            let rest = &content[asked.offset as usize..];
            let mut bytes = rest.to_vec();
            match conduct {
                Conduct::WrongBytes => bytes[rest.len() / 2] ^= 1,
                Conduct::TooManyBytes => bytes.push(0),
                _ => bytes.truncate(rest.len() / 2),
            }
            let _ = channel.tx.raw().write_all(&bytes).await;
            match conduct {
                Conduct::StallsHalfWay => std::future::pending().await,
                Conduct::VanishesHalfWay => {
                    while longest_file(&victim) < bytes.len() as u64 {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    guest.close("gone");
                }
                _ => channel.tx.finish(),
            }
        }
    }
}

/// What the task of a real worker reads while this source conducts itself so: the right bytes. Gives
/// the bytes that the master had to send.
fn despite(conduct: Conduct) -> (u64, Hostile) {
    let mut grid = Grid::start();
    grid.worker("real").config("labels = [\"real\"]\n").start();
    let hostile = Hostile::of(grid);
    let mut liar = hostile.fake("liar");
    let input = large(&hostile.grid, "input", BYTES);
    let (path, _) = input.rsplit_once(':').expect("a name");
    let content = std::fs::read(path).expect("the input");
    hostile.offers(&mut liar, &content, conduct);

    let words = ["--needs", "label=real", "--input", &input];
    let read = ["--output-file", "out", "--", "cp", "in", "out"];
    let job = hostile.grid.submit([&words[..], &read].concat());
    hostile.grid.wait(&job);
    hostile.hears(&mut liar, |message| {
        matches!(message, ToWorker::Serve(_)).then_some(())
    });
    let into = hostile.grid.fetch(&job, "read");
    let out = walkdir::WalkDir::new(into).into_iter().flatten();
    let mut files = out.filter(|entry| entry.file_name() == "out");
    let got = files.next().expect("its output").into_path();
    assert!(
        std::fs::read(got).expect("it is there") == content,
        "{conduct:?}"
    );
    (sent(&hostile.grid, "master"), hostile)
}

#[test]
fn wrong_bytes_of_a_host_are_thrown_away_and_told_to_the_admin() {
    for conduct in [Conduct::WrongBytes, Conduct::TooManyBytes] {
        let (bytes, hostile) = despite(conduct);
        assert_eq!(bytes, BYTES as u64, "nothing of it is used");
        let said = hostile.grid.logs();
        let warned = said
            .lines()
            .any(|line| line.contains("has passed on wrong bytes") && line.contains("host-2"));
        assert!(warned, "{conduct:?}");
    }
}

#[test]
fn a_host_that_stalls_or_vanishes_is_left_and_what_came_is_kept() {
    for conduct in [Conduct::StallsHalfWay, Conduct::VanishesHalfWay] {
        let (bytes, _) = despite(conduct);
        assert_eq!(bytes, BYTES as u64 / 2, "{conduct:?}");
    }
}

#[test]
fn a_host_that_refuses_is_silent_or_has_another_key_costs_only_a_moment() {
    for conduct in [
        Conduct::Refuses,
        Conduct::HasAnotherKey,
        Conduct::SaysNothing,
    ] {
        let (bytes, _) = despite(conduct);
        assert_eq!(bytes, BYTES as u64, "{conduct:?}");
    }
}

/// A real worker that has this input, as slow as a test likes, and a fake one that has the right to
/// fetch it.
fn with_a_right_to_it() -> (Hostile, Fake, BlobRef) {
    let mut grid = Grid::with_master("");
    let real = "labels = [\"real\"]\nshare_bytes_per_s = 1_500_000\n";
    grid.worker("real").config(real).dedicated().start();
    let hostile = Hostile::of(grid);
    let mut fake = hostile.fake("fake");
    let input = large(&hostile.grid, "input", BYTES);
    for label in ["label=real", "label=fake"] {
        let words = ["--needs", label, "--input", &input, "--", "true"];
        let job = hostile.grid.submit(words);
        if label == "label=real" {
            hostile.grid.wait(&job);
        }
    }
    hostile.hears(&mut fake, |message| {
        matches!(message, ToWorker::Assign(_)).then_some(())
    });
    let (path, _) = input.rsplit_once(':').expect("a name");
    let blob = link::content::hash_file(std::path::Path::new(path)).expect("the input");
    (hostile, fake, blob)
}

/// Fetches with this identity what a ticket names.
async fn fetch_as(
    identity: &Identity,
    source: &PeerSource,
    (blob, ticket): (BlobRef, u64),
    dir: &std::path::Path,
) -> Result<u64, LinkError> {
    let host = PeerPapers::of(identity)?.call(source).await?;
    let store = BlobStore::open(dir)?;
    let fetching = store.fetching(blob).await.expect("it is not here");
    fetching.take_from(&host, ticket).await
}

#[test]
fn a_ticket_is_good_for_its_key_its_content_and_once() {
    let (hostile, fake, blob) = with_a_right_to_it();
    let GetReply::At(source) = hostile.is_sent(&fake, blob) else {
        panic!("no source")
    };
    let dir = |name: &str| hostile.grid.dir().join(name);
    let tried = |who: &Identity, ticket: u64, at: &str| {
        let refused = hostile.now(fetch_as(who, &source, (blob, ticket), &dir(at)));
        refused.expect_err("it is refused").to_string()
    };

    let other = hostile.enrol("worker", "other");
    let told = tried(&other, source.ticket, "other");
    assert!(told.contains("no ticket of the master's"), "{told}");
    // No other number does, and no other words are said.
    assert_eq!(tried(&fake.identity, source.ticket ^ 1, "wrong"), told);

    let user = hostile.enrol("client", "ann");
    let not_let_in = tried(&user, source.ticket, "user");
    assert!(
        not_let_in.contains("only workers of this grid"),
        "{not_let_in}"
    );
    let forged = hostile
        .ca()
        .identity(&fake.identity, forge::Kind::OtherGrid);
    let not_let_in = tried(&forged, source.ticket, "grid");
    assert!(
        not_let_in.contains("only workers of this grid"),
        "{not_let_in}"
    );
    let foreign = Forger::new().identity(&fake.identity, forge::Kind::Good);
    let foreign = tried(&foreign, source.ticket, "foreign");
    assert!(!foreign.contains("no ticket"), "{foreign}");

    let own = dir("own");
    let whole = fetch_as(&fake.identity, &source, (blob, source.ticket), &own);
    assert_eq!(hostile.now(whole).expect("it has the ticket"), blob.size);
    assert_eq!(tried(&fake.identity, source.ticket, "again"), told);
}

#[test]
fn what_no_attempt_needs_is_not_passed_on_either() {
    let (hostile, _fake, blob) = with_a_right_to_it();
    let stranger = hostile.fake("stranger");
    let refused = hostile.is_sent(&stranger, blob);
    assert!(matches!(refused, GetReply::Refused(_)), "{refused:?}");
    hostile.audited("stranger", "read", "no attempt that it was given needs");
}

#[test]
fn a_revoked_host_gets_nothing_more_from_others_whatever_it_has_begun() {
    let (hostile, fake, blob) = with_a_right_to_it();
    let GetReply::At(source) = hostile.is_sent(&fake, blob) else {
        panic!("no source")
    };
    let dir = hostile.grid.dir().join("begun");
    let begun = async {
        let fetch = fetch_as(&fake.identity, &source, (blob, source.ticket), &dir);
        tokio::pin!(fetch);
        // Until something has come.
        loop {
            tokio::select! {
                done = &mut fetch => panic!("it is over: {done:?}"),
                () = tokio::time::sleep(Duration::from_millis(20)) => if longest_file(&dir) > 0 {
                    break;
                },
            }
        }
        let admin = hostile
            .grid
            .background_as("admin", ["host", "revoke", "fake"]);
        let ended = fetch.await;
        admin.finish().expect_code(0);
        ended
    };
    let ended = hostile.now(begun).expect_err("it is cut off");
    assert!(
        ended.to_string().contains("does not serve this any more"),
        "{ended}"
    );
    let again = hostile.now(fetch_as(
        &fake.identity,
        &source,
        (blob, source.ticket),
        &hostile.grid.dir().join("again"),
    ));
    let again = again.expect_err("its ticket holds no more").to_string();
    assert!(again.contains("no ticket of the master's"), "{again}");
}

#[test]
fn who_has_broken_off_a_fetch_keeps_no_place_at_its_source() {
    let mut grid = Grid::with_master("peer_fan_out = 1\n");
    let real = "labels = [\"real\"]\n";
    grid.worker("real").config(real).dedicated().start();
    let hostile = Hostile::of(grid);
    let input = large(&hostile.grid, "input", BYTES);
    let submit = |label| {
        let words = ["--needs", label, "--input", &input, "--", "true"];
        hostile.grid.submit(words)
    };
    let had = submit("label=real");
    hostile.grid.wait(&had);
    let (path, _) = input.rsplit_once(':').expect("a name");
    let blob = link::content::hash_file(std::path::Path::new(path)).expect("the input");

    let mut first = hostile.fake("first");
    let mut second = hostile.fake("second");
    let job = submit("label=first");
    submit("label=second");
    let assigned = |fake: &mut Fake| {
        hostile.hears(fake, |message| match message {
            ToWorker::Assign(all) => Some(all[0].attempt),
            _ => None,
        })
    };
    let attempt = assigned(&mut first);
    assigned(&mut second);
    let sent = hostile.is_sent(&first, blob);
    assert!(matches!(sent, GetReply::At(_)), "{sent:?}");

    // Its attempt is cancelled before it has asked the source.
    hostile
        .grid
        .deskgrid(["job", "cancel", &job])
        .expect_code(0);
    let stopped = Completion::bare(attempt, Outcome::Stopped);
    let delivered = ToMaster::Delivered(vec![Delivery {
        completion: stopped,
        ago: Span::ZERO,
    }]);
    // The second time shows that the first was seen to.
    for _ in 0..2 {
        let said = first.control.tx.send(&delivered);
        hostile.now(said).expect("it listens");
        hostile.hears(&mut first, |message| {
            matches!(message, ToWorker::Acknowledged(_)).then_some(())
        });
    }
    let sent = hostile.is_sent(&second, blob);
    assert!(matches!(sent, GetReply::At(_)), "{sent:?}");
}

#[test]
fn a_first_receiver_that_does_not_read_holds_the_others_for_a_moment_only() {
    let mut grid = Grid::with_master("");
    let real = "labels = [\"real\"]\n";
    grid.worker("real").config(real).dedicated().start();
    let hostile = Hostile::of(grid);
    let mut fake = hostile.fake("fake");
    let input = large(&hostile.grid, "input", BYTES);
    let words = |label| ["--needs", label, "--input", &input, "--", "true"];
    hostile.grid.submit(words("label=fake"));
    hostile.hears(&mut fake, |message| {
        matches!(message, ToWorker::Assign(_)).then_some(())
    });
    // It promises to pass it on, and takes it from the master.
    hostile.offers(&mut fake, b"something else", Conduct::SaysNothing);
    let (path, _) = input.rsplit_once(':').expect("a name");
    let blob = link::content::hash_file(std::path::Path::new(path)).expect("the input");
    let wish = Open::Get {
        hash: blob.hash,
        offset: 0,
        peers: true,
        failed: Vec::new(),
    };
    let mut held = hostile.now(fake.connection.open(&wish)).expect("a stream");
    let found = hostile.now(held.rx.expect::<GetReply>());
    assert!(matches!(found, Ok(GetReply::Found(_))), "{found:?}");

    let job = hostile.grid.submit(words("label=real"));
    hostile.grid.wait(&job);
    let said = hostile.grid.logs();
    assert!(said.contains("another host of this network is getting it"));
    drop(held);
}
