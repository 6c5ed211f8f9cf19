//! A grid that is made up, for the benchmark of `top` and for tests of its pictures: it answers what `App`
//! asks, with as many hosts as are wanted, and nothing of it leaves the process.

use std::io::Write;

use common::event::{EventPage, EventView, GridEvent};
use common::host::HostFacts;
use common::token::Role;
use common::view::{HostState, HostView};
use common::wire::client::{Reply, Request};
use common::wire::{decode, encode};
use common::{HostId, Span, Time};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

use super::app::{App, Tab};
use super::ask::{AskSlot, GridAsk, GridNews, TopMoment};

/// The time at which made-up grids begin: a morning.
pub(super) const MORNING: Time = Time(1_800_000_000_000_000);
/// The pictures of a second, and the changes of hosts that are pushed between two of them.
const FRAMES: u64 = 4;
const CHANGES: u32 = 5;
/// The screen.
const SCREEN: Rect = Rect::new(0, 0, 160, 50);

/// A host in this state, for this reason.
pub(super) fn host(number: u32, state: HostState, why: Option<&str>) -> HostView {
    let mut facts = HostFacts::unknown(format!("desk-{number}"));
    facts.slots = 2;

    HostView {
        id: HostId(number),
        facts,
        state,
        reason: why.map(str::to_owned),
        gone: false,
        since: MORNING,
        heard: Some(MORNING),
        cpu_availability: Some(0.9),
        undisturbed_1h: None,
        owner_active: Some(why.is_some()),
        slots_usable: if why.is_some() { 0 } else { 2 },
        attempts: Vec::new(),
        finished: u64::from(number),
        lost: 0,
        belongs_to: None,
        agreed: 0,
        labels: std::collections::BTreeSet::default(),
    }
}

/// Counts what is written to it.
#[derive(Debug, Default)]
struct CountedBytes(u64);

impl Write for CountedBytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The outcome of a rehearsal.
#[derive(Debug, Clone, Copy)]
pub struct Rehearsed {
    /// The pictures that were drawn.
    pub frames: u64,
    /// The bytes that the terminal got.
    pub written: u64,
    /// The bytes that the master sent.
    pub received: u64,
}

/// A made-up master.
struct MadeUp {
    hosts: u32,
    /// The number of the last event.
    seq: u64,
    received: u64,
}

/// Looks at the hosts of a made-up grid for so many seconds of its time, which passes as fast as it
/// can: some of the hosts change all the time, and all of them are listed now and then.
///
/// # Panics
/// If a picture cannot be drawn in memory.
#[expect(clippy::expect_used, reason = "for benchmarks")]
pub fn rehearse_top(hosts: u32, seconds: u64) -> Rehearsed {
    let mut master = MadeUp {
        hosts,
        seq: 0,
        received: 0,
    };
    let start = moment(0);
    let mut app = App::new("grid:7411", "ann", Role::Admin, true, start);
    app.resize(SCREEN.width, SCREEN.height);
    app.show_tab(Tab::Hosts);

    let mut counted = CountedBytes::default();
    let backend = CrosstermBackend::new(&mut counted);
    let options = TerminalOptions {
        viewport: Viewport::Fixed(SCREEN),
    };
    let mut terminal = Terminal::with_options(backend, options).expect("it is in memory");
    for frame in 0..seconds * FRAMES {
        app.tick(moment(frame));
        for ask in app.wants() {
            for news in master.answer(ask) {
                app.hear(news);
            }
        }
        let drawn = terminal.draw(|frame| app.draw(frame.buffer_mut()));
        drawn.expect("it is in memory");
    }

    drop(terminal);
    Rehearsed {
        frames: seconds * FRAMES,
        written: counted.0,
        received: master.received,
    }
}

fn moment(frame: u64) -> TopMoment {
    let up = Span(frame * 1_000_000 / FRAMES);
    TopMoment {
        wall: MORNING + Span::from_secs(3_600) + up,
        up,
    }
}

impl MadeUp {
    fn answer(&mut self, ask: GridAsk) -> Vec<GridNews> {
        match ask {
            GridAsk::Once {
                slot,
                serial,
                request,
                ..
            } => {
                let replies = self.replies(request);
                let mut news = vec![GridNews::Answer(slot, serial, Ok(replies))];
                if slot == AskSlot::SeenHosts {
                    // The stream of events has the second number.
                    news.extend(
                        (0..FRAMES).map(|_| GridNews::Piece(AskSlot::Events, 1, self.changes())),
                    );
                }
                news
            }
            _ => Vec::new(),
        }
    }

    /// Passes a reply through the bytes that a master would send.
    fn sent(&mut self, reply: &Reply) -> Option<Reply> {
        let bytes = encode(reply).ok()?;
        self.received += bytes.len() as u64;
        decode(bytes.get(4..)?).ok()
    }

    fn replies(&mut self, request: Request) -> Vec<Reply> {
        let all: Vec<u32> = match request {
            Request::Hosts { names } if names.is_empty() => (1..=self.hosts).collect(),
            Request::Hosts { names } => {
                let numbers = names
                    .iter()
                    .filter_map(|name| name.strip_prefix("desk-")?.parse().ok());
                numbers.collect()
            }
            _ => return Vec::new(),
        };
        let mut replies = Vec::new();

        for some in all.chunks(100) {
            let views = some.iter().map(|number| self.host(*number)).collect();
            replies.extend(self.sent(&Reply::Hosts(views)));
        }
        replies
    }

    fn host(&self, number: u32) -> HostView {
        let mut view = match number % 3 {
            0 => host(number, HostState::Suspended, Some("in-use")),
            1 => host(number, HostState::Busy, None),
            _ => host(number, HostState::Ready, None),
        };
        view.finished += self.seq;
        view
    }

    fn changes(&mut self) -> Reply {
        let mut events = Vec::new();
        for _ in 0..CHANGES {
            self.seq += 1;
            let number = u32::try_from(self.seq.wrapping_mul(7_919) % u64::from(self.hosts))
                .unwrap_or(0)
                + 1;
            let in_use = self.seq.is_multiple_of(2);
            events.push(EventView {
                seq: self.seq,
                at: MORNING + Span::from_secs(self.seq),
                event: GridEvent::HostChanged {
                    host: HostId(number),
                    state: if in_use {
                        HostState::Suspended
                    } else {
                        HostState::Ready
                    },
                    why: in_use.then(|| "in-use".to_owned()),
                },
                result: None,
            });
        }

        let page = Reply::Events(EventPage {
            events,
            hosts: Vec::new(),
            upto: self.seq,
        });
        self.sent(&page).unwrap_or(page)
    }
}
