//! The sights that come of the sessions of a PC, in known cases and in any.

use proptest::prelude::*;

mod sleep;

use super::SessionState::{Active, Disconnected, Nobody};
use super::*;

const MINUTE: u64 = 60_000_000;

fn at(seconds: u64) -> Time {
    Time(seconds * 1_000_000)
}

fn word(idle_s: u64) -> WatcherWord {
    WatcherWord {
        idle_ms: idle_s * 1_000,
        locked: false,
        full_screen: false,
    }
}

fn idle(seconds: u64) -> Sight {
    Sight::Seen(Reading::Idle(Span::from_secs(seconds)))
}

/// A PC whose session of services and console are listed as Windows does.
struct Pc {
    sessions: Sessions,
    listed: BTreeMap<u32, SessionState>,
    console: Option<u32>,
}

impl Pc {
    fn new(listed: &[(u32, SessionState)]) -> Self {
        let services = [(OF_SERVICES, Disconnected)];
        Self {
            sessions: Sessions::new(Unseen::Present, Time(0)),
            listed: services.iter().chain(listed).copied().collect(),
            console: Some(1),
        }
    }

    /// A watcher comes in this session and says its first word.
    fn says(&mut self, connection: u64, session: u32, now: Time, word: WatcherWord) {
        self.sessions.came(connection, session).unwrap();
        self.sessions.said(connection, now, word);
    }

    fn look(&mut self, now: Time) -> SessionSights {
        self.sessions.look(now, &self.listed, self.console)
    }

    fn input(&mut self, now: Time) -> Sight {
        self.look(now).input
    }

    fn unknown(&mut self, now: Time) -> String {
        match self.input(now) {
            Sight::Unknown(why) => why,
            other => panic!("{other:?} is known"),
        }
    }
}

#[test]
fn with_nobody_logged_on_the_owner_is_away_since_the_start() {
    let mut pc = Pc::new(&[(1, Nobody)]);
    assert_eq!(pc.input(at(0)), idle(0));
    assert_eq!(pc.input(at(600)), idle(600));
    let nothing = Sight::Seen(Reading::Program(None));
    assert_eq!(pc.look(at(600)).full_screen, nothing);
}

#[test]
fn a_session_of_somebody_without_a_watcher_is_an_owner_who_is_present() {
    let mut pc = Pc::new(&[(1, Active)]);
    assert!(pc.unknown(at(9_000)).contains("session 1 has no watcher"));
    assert!(matches!(pc.look(at(9_001)).full_screen, Sight::Unknown(_)));

    // Connected is not enough: it must have spoken.
    pc.sessions.came(7, 1).unwrap();
    assert!(pc.unknown(at(9_002)).contains("has not spoken yet"));
    pc.sessions.said(7, at(9_003), word(500));
    assert_eq!(pc.input(at(9_004)), idle(501));
    pc.sessions.said(7, at(9_900), word(890));
    assert_eq!(pc.input(at(9_901)), idle(891));
}

#[test]
fn a_watcher_that_falls_silent_or_goes_is_an_owner_who_is_present() {
    let mut pc = Pc::new(&[(1, Active)]);
    pc.input(at(0));
    pc.says(7, 1, at(1_000), word(900));
    assert_eq!(pc.input(at(1_009)), idle(909));
    assert!(pc.unknown(at(1_010)).contains("has not spoken since"));
    pc.sessions.said(7, at(1_011), word(911));
    assert_eq!(pc.input(at(1_011)), idle(911), "it is believed again");
    pc.sessions.gone(7);
    assert!(pc.unknown(at(1_012)).contains("no watcher"));
}

#[test]
fn one_touch_in_any_session_counts_and_no_watcher_can_take_it_back() {
    let mut pc = Pc::new(&[(1, Active), (3, Active)]);
    pc.input(at(0));
    pc.says(7, 1, at(1_000), word(900));
    pc.says(8, 3, at(1_000), word(2));
    assert_eq!(pc.input(at(1_000)), idle(2));
    // A second one in the same session, which tells of long silence, hides nothing.
    pc.says(9, 3, at(1_000), word(950));
    assert_eq!(pc.input(at(1_000)), idle(2));
    pc.sessions.said(8, at(1_001), word(800));
    assert_eq!(pc.input(at(1_001)), idle(3));
}

#[test]
fn after_a_switch_of_users_the_session_that_no_screen_shows_needs_no_watcher() {
    let mut pc = Pc::new(&[(1, Active)]);
    pc.input(at(0));
    pc.says(7, 1, at(500), word(400));
    assert_eq!(pc.input(at(500)), idle(400));

    pc.listed.extend([(1, Disconnected), (2, Active)]);
    pc.console = Some(2);
    assert!(
        pc.unknown(at(501)).contains("session 2"),
        "nobody watches the new one"
    );
    pc.says(8, 2, at(502), word(0));
    pc.sessions.gone(7);
    assert_eq!(pc.input(at(502)), idle(0));

    // The second one leaves: her logging off is her last sign.
    pc.listed.remove(&2);
    pc.listed.insert(4, Nobody);
    pc.console = Some(4);
    pc.sessions.gone(8);
    assert_eq!(pc.input(at(900)), idle(0));
    assert_eq!(
        pc.input(at(960)),
        idle(60),
        "the first one is still logged on, elsewhere"
    );
}

#[test]
fn a_remote_desktop_is_a_session_like_another() {
    let mut pc = Pc::new(&[(1, Nobody), (2, Active)]);
    assert!(pc.unknown(at(100)).contains("session 2"));
    pc.says(7, 2, at(400), word(290));
    assert_eq!(pc.input(at(400)), idle(290));
    pc.listed.insert(2, Disconnected);
    assert_eq!(
        pc.input(at(401)),
        idle(0),
        "closing the connection was a sign"
    );
}

#[test]
fn a_program_that_fills_a_screen_counts_unless_the_screen_is_locked_or_shows_nothing() {
    let mut pc = Pc::new(&[(1, Active)]);
    let film = WatcherWord {
        full_screen: true,
        ..word(3_000)
    };
    pc.says(7, 1, at(4_000), film);
    let Sight::Seen(Reading::Program(Some(says))) = pc.look(at(4_000)).full_screen else {
        panic!("{:?}", pc.look(at(4_000)));
    };
    assert!(says.contains("session 1"), "{says}");

    let none = Sight::Seen(Reading::Program(None));
    pc.sessions.said(
        7,
        at(4_001),
        WatcherWord {
            locked: true,
            ..film
        },
    );
    assert_eq!(pc.look(at(4_001)).full_screen, none);
    pc.sessions.said(7, at(4_002), film);
    pc.listed.insert(1, Disconnected);
    assert_eq!(pc.look(at(4_002)).full_screen, none);
}

#[test]
fn a_watcher_among_the_services_is_refused_and_a_refused_program_is_told_of() {
    let mut pc = Pc::new(&[(1, Active)]);
    assert!(pc.sessions.came(7, OF_SERVICES).is_err());
    pc.sessions.said(7, at(1), word(900));
    assert!(matches!(pc.input(at(1)), Sight::Unknown(_)));
    pc.sessions
        .refused(1, r"C:\Users\eve\watch.exe is not the watcher".to_owned());
    assert!(pc.unknown(at(2)).contains("eve"));
    pc.sessions.refused(2, "another".to_owned());
    assert!(
        !pc.unknown(at(3)).contains("another"),
        "that is of another session"
    );
}

#[test]
fn a_touch_counts_although_its_watcher_is_gone_at_the_next_look() {
    let mut pc = Pc::new(&[(1, Active)]);
    pc.says(7, 1, at(1_000), word(990));
    assert_eq!(pc.input(at(1_000)), idle(990));
    pc.says(8, 1, at(1_500), word(3));
    pc.sessions.gone(8);
    pc.sessions.said(7, at(1_501), word(1_491));
    assert_eq!(pc.input(at(1_501)), idle(4));
}

#[test]
fn a_touch_from_before_the_first_look_is_as_old_as_it_is_and_a_newcomer_is_a_sign() {
    let mut pc = Pc::new(&[(1, Active)]);
    pc.says(7, 1, at(5_000), word(4_000));
    assert_eq!(pc.input(at(5_000)), idle(4_000));
    pc.listed.insert(2, Active);
    pc.says(8, 2, at(5_001), word(4_500));
    assert_eq!(pc.input(at(5_001)), idle(0));
}

#[test]
fn there_are_no_more_watchers_than_a_pc_can_have_sessions() {
    let mut pc = Pc::new(&[(1, Active)]);
    let taken = (0..1_000).filter(|n| pc.sessions.came(*n, 1).is_ok());
    assert_eq!(taken.count(), MOST);
}

#[test]
fn a_list_that_leaves_out_the_session_at_the_screen_is_not_believed() {
    let mut pc = Pc::new(&[]);
    assert!(pc.unknown(at(600)).contains("without number 1"));
    // A watcher there is believed for its own session, and proves nothing of others.
    pc.says(7, 1, at(600), word(500));
    assert!(matches!(pc.input(at(600)), Sight::Unknown(_)));
    pc.console = None;
    assert_eq!(
        pc.input(at(700)),
        Sight::Unknown("the watcher of session 1 has not spoken since".to_owned())
    );
}

#[test]
fn an_owner_may_ignore_sessions_that_nobody_watches() {
    let mut pc = Pc::new(&[(1, Active)]);
    pc.sessions = Sessions::new(Unseen::Ignore, Time(0));
    assert_eq!(pc.input(at(0)), idle(0));
    assert_eq!(pc.input(at(600)), idle(600));
    pc.says(7, 1, at(600), word(5));
    assert_eq!(
        pc.input(at(600)),
        idle(5),
        "what is seen counts all the same"
    );
}

#[test]
fn a_watcher_speaks_at_a_touch_and_at_each_change_and_else_every_two_seconds() {
    let mut pace = WatcherPace::default();
    let mut due = |ms: u64, idle_ms: u64, locked: bool| {
        let now = Time(MINUTE + ms * 1_000);
        let word = WatcherWord {
            idle_ms,
            locked,
            full_screen: false,
        };
        pace.due(now, word)
    };
    assert!(due(0, 50_000, false), "the first word");
    assert!(!due(250, 50_250, false));
    assert!(!due(500, 50_484, false), "a coarse clock is no touch");
    assert!(!due(750, 0, false), "too soon");
    assert!(due(1_000, 250, false), "a touch");
    assert!(!due(1_250, 0, false), "typing on is not told at each key");
    assert!(due(1_300, 50, true), "a lock is told at once");
    assert!(!due(3_250, 2_000, true));
    assert!(due(3_300, 2_050, true), "a sign of life");
}

#[test]
fn a_word_of_a_newer_watcher_is_understood_and_nonsense_is_refused() {
    let newer = br#"{"idle_ms":5,"locked":true,"full_screen":false,"mood":"good"}"#;
    assert!(WatcherWord::read(newer).unwrap().locked);
    for wrong in [
        &b"{}"[..],
        b"",
        b"[1]",
        br#"{"idle_ms":-1,"locked":true,"full_screen":false}"#,
    ] {
        assert!(WatcherWord::read(wrong).is_err());
    }
    assert!(
        WatcherWord::read(&[b' '; MAX_LINE + 1])
            .unwrap_err()
            .contains("256")
    );
}

/// Something that happens at a PC.
#[derive(Debug, Clone)]
enum Happens {
    Lists(u32, Option<SessionState>),
    Says(u64, u32, WatcherWord),
    Goes(u64),
}

fn happens() -> impl Strategy<Value = Happens> {
    let state = prop_oneof![Just(Active), Just(Disconnected), Just(Nobody)];
    let said = (any::<u64>(), any::<bool>(), any::<bool>(), 0..600_000_u64);
    let word = said.prop_map(|(wild, locked, full_screen, idle_ms)| WatcherWord {
        idle_ms: if wild % 16 == 0 { wild } else { idle_ms },
        locked,
        full_screen,
    });
    prop_oneof![
        (0..4_u32, proptest::option::of(state)).prop_map(|(id, state)| Happens::Lists(id, state)),
        (0..5_u64, 0..4_u32, word).prop_map(|(id, of, word)| Happens::Says(id, of, word)),
        (0..5_u64).prop_map(Happens::Goes),
    ]
}

proptest! {
    #[test]
    fn no_line_breaks_the_reader_and_a_word_comes_back(bytes: Vec<u8>, idle_ms: u64, locked: bool, full_screen: bool) {
        let _ = WatcherWord::read(&bytes);
        let word = WatcherWord { idle_ms, locked, full_screen };
        let line = word.line();
        prop_assert!(line.len() <= MAX_LINE);
        prop_assert_eq!(WatcherWord::read(line.trim_ascii_end()), Ok(word));
    }

    /// Whatever happens: a session of somebody that nobody speaks for is never an absent owner, no
    /// watcher among the services counts, and no idle time reaches back beyond a sign of a person.
    #[test]
    fn the_owner_is_away_only_where_every_session_at_a_screen_is_seen(
        story in proptest::collection::vec((happens(), 0..15_u64), 1..60)
    ) {
        let mut pc = Pc::new(&[(1, Nobody)]);
        let mut heard: BTreeMap<u64, (u32, Time, WatcherWord)> = BTreeMap::new();
        let (mut now, mut newest) = (Time(0), Time(0));
        for (happens, pause) in story {
            now = now + Span::from_secs(pause);
            match happens {
                Happens::Lists(id, Some(state)) if id != OF_SERVICES => drop(pc.listed.insert(id, state)),
                Happens::Lists(1, None) | Happens::Lists(OF_SERVICES, _) => {}
                Happens::Lists(id, _) => drop(pc.listed.remove(&id)),
                Happens::Says(connection, of, word) => {
                    if pc.sessions.came(connection, of).is_ok() {
                        pc.sessions.said(connection, now, word);
                        heard.insert(connection, (of, now, word));
                    }
                }
                Happens::Goes(connection) => {
                    pc.sessions.gone(connection);
                    heard.remove(&connection);
                }
            }

            let sights = pc.look(now);
            let fresh = |session: u32| heard.values().any(|(of, at, _)| *of == session && now.since(*at) < SILENT);
            let unwatched = pc.listed.iter().any(|(&id, &state)| id != OF_SERVICES && state == Active && !fresh(id));
            if unwatched {
                prop_assert!(matches!(sights.input, Sight::Unknown(_)), "{:?}", sights);
            }
            for (of, at, word) in heard.values() {
                prop_assert!(*of != OF_SERVICES);
                newest = newest.max(word.last_input(*at));
            }
            if let Sight::Seen(Reading::Idle(idle)) = sights.input {
                prop_assert!(idle <= now.since(newest), "{:?} after {:?}", idle, newest);
            }
        }
    }
}
