//! The picture of `App`: a line about the grid, the tabs, what is listed or read, a line that says or asks
//! something, and the keys that are valid now.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span as Piece};

use common::text::plural;
use common::view::JobState;
use common::{HostId, Span};

use super::app::{App, LEAST, OpenPage, Over, Tab, TextOf};
use super::ask::AskSlot;
use super::keys::KEYS;
use super::look::{Column, Tone, draw_row, fitted};
use super::{events, hosts, jobs, tasks, text};
use crate::output::when;

/// The silence after which the master is said not to answer.
const SILENCE: Span = Span(3_000_000);
/// The columns of the time of day with its zone.
const CLOCK: u16 = 12;
/// The requests that a master answers soon.
const SOON: &[AskSlot] = &[
    AskSlot::SeenJobs,
    AskSlot::Tasks,
    AskSlot::SeenHosts,
    AskSlot::Text,
    AskSlot::Change,
    AskSlot::OpenJobs,
];

impl App {
    /// Draws the picture.
    pub(crate) fn draw(&mut self, buf: &mut Buffer) {
        self.arrange();
        let area = buf.area;
        if area.width < LEAST.0 || area.height < LEAST.1 {
            let (width, height) = LEAST;
            let text = format!("top needs {width} columns and {height} lines");
            buf.set_stringn(0, 0, text, area.width.into(), Style::new());
            if area.height > 1 {
                let now = format!("here are {} and {}; q quits", area.width, area.height);
                buf.set_stringn(0, 1, now, area.width.into(), Style::new());
            }
            return;
        }

        let row = |y| Rect::new(0, y, area.width, 1);
        self.draw_grid(buf, row(0));
        self.draw_tabs(buf, row(1));
        let body = Rect::new(0, 2, area.width, area.height - 4);
        match (&self.over, self.readings.last()) {
            (Some(Over::Help(lines, place)), _) => {
                self.draw_text(buf, body, "keys", (lines, *place));
            }
            (_, Some(OpenPage::Text(of, lines, place))) => {
                self.draw_text(buf, body, &self.title(of), (lines, *place));
            }
            (_, Some(OpenPage::Log(log))) => {
                self.draw_text(buf, body, &log.title(), (&log.lines, log.place));
            }
            (_, None) => self.draw_list(buf, body),
        }
        self.draw_notice(buf, row(area.height - 2));
        self.draw_keys(buf, row(area.height - 1));
    }

    /// The line about the grid: who asks whom, what is there, and whether the picture is alive.
    fn draw_grid(&self, buf: &mut Buffer, area: Rect) {
        let sums = hosts::sums(&self.hosts);
        let count = |state| {
            self.jobs
                .board
                .all()
                .filter(|job| job.state == state)
                .count()
        };
        let run = count(JobState::Running);
        let wait = count(JobState::Waiting);
        let known = self.hosts.loaded && self.jobs.board.loaded;
        let silence = self.pacer.silence(SOON, self.now.up);

        let (status, tone) = match (&self.lost, self.frozen) {
            (Some((since, why)), _) => {
                let since = when::clock(*since, self.now.wall);
                (
                    format!("MASTER AWAY since {since}, connecting again ({why})"),
                    Tone::Bad,
                )
            }
            (None, Some(_)) => ("FROZEN, space goes on".to_owned(), Tone::Suspended),
            (None, None) if silence > SILENCE => (
                format!("no answer for {:.0} s", silence.secs()),
                Tone::Suspended,
            ),
            _ => (String::new(), Tone::Plain),
        };
        let left = match (&self.lost, known) {
            (Some(_), _) => String::new(),
            (None, false) => "asking the master ...".to_owned(),
            (None, true) => {
                let slots = plural(sums.slots, "slot");
                let runs = plural(run as u64, "job");
                let run = if run == 1 { "runs" } else { "run" };
                let wait = format!("{wait} wait{}", if wait == 1 { "s" } else { "" });
                let hosts = format!("{} of {} hosts lend", sums.lend, sums.all);
                format!("{hosts} {slots}; {runs} {run}, {wait}")
            }
        };

        let at = when::date(self.shown_time());
        let clock = at.get(11..).unwrap_or_default();
        let who = format!(" deskgrid {}  {}, {}  ", self.master, self.user, self.role);
        // Bad news come first: the screen may be narrow.
        let mut line = Line::default();
        if !status.is_empty() {
            line.push_span(Piece::raw(" "));
            line.push_span(Piece::styled(status, self.theme.style(tone)));
            line.push_span(Piece::raw(" "));
        }
        line.push_span(Piece::styled(who, self.theme.style(Tone::Strong)));
        line.push_span(Piece::raw(left));
        let room = area.width.saturating_sub(CLOCK + 2);
        buf.set_line(area.x, area.y, &line, room);
        let end = Rect::new(area.x + room + 1, area.y, CLOCK, 1);
        self.write(buf, end, clock, Tone::Quiet);
    }

    fn draw_tabs(&self, buf: &mut Buffer, area: Rect) {
        let tasks = match self.tasks.job {
            Some(job) => format!("2 tasks of {job}"),
            None => "2 tasks".to_owned(),
        };
        let tabs = [
            (Tab::Jobs, format!("1 jobs {}", self.jobs.board.len())),
            (Tab::Tasks, tasks),
            (Tab::Hosts, format!("3 hosts {}", self.hosts.len())),
            (Tab::Events, "4 events".to_owned()),
        ];
        let mut line = Line::raw(" ");
        for (tab, name) in tabs {
            let style = match tab == self.tab {
                true => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
                false => Style::new(),
            };
            line.push_span(Piece::styled(format!(" {name} "), style));
            line.push_span(Piece::raw(" "));
        }

        let sorted = match self.tab {
            Tab::Jobs => format!("by {}", self.jobs.board.sorted_by()),
            Tab::Hosts => format!("by {}", self.hosts.sorted_by()),
            Tab::Tasks => self
                .tasks
                .only()
                .map_or_else(String::new, |state| format!("only {state}")),
            Tab::Events => String::new(),
        };
        let filter = &self.filters[self.tab as usize];
        let filter = if filter.is_empty() {
            String::new()
        } else {
            format!("/{filter}")
        };
        line.push_span(Piece::styled(sorted, self.theme.style(Tone::Quiet)));
        line.push_span(Piece::raw("  "));
        line.push_span(Piece::styled(filter, self.theme.style(Tone::Suspended)));
        buf.set_line(area.x, area.y, &line, area.width);
    }

    fn title(&self, of: &TextOf) -> String {
        let name = |host: HostId| {
            let view = self.hosts.entry(host.0);
            view.map_or_else(
                || "a host".to_owned(),
                |view| super::look::shown(&view.facts.name),
            )
        };

        match of {
            TextOf::WhyJob(job, None, _) => format!("why job {job} is not done"),
            TextOf::WhyJob(job, Some(task), _) => format!("why task {job}.{task} is not done"),
            TextOf::WhyHost(host, _) => format!("why {} gets no tasks", name(*host)),
            TextOf::Task(task) => format!("task {task}"),
            TextOf::Host(host) => format!("host {}", name(*host)),
        }
    }

    fn draw_text(
        &self,
        buf: &mut Buffer,
        area: Rect,
        title: &str,
        text: (&[text::TextLine], text::TextPlace),
    ) {
        let below = Rect::new(area.x, area.y + 1, area.width, area.height - 1);
        let upto = text::draw(buf, below, text, self.theme);
        let follows = if text.1.follows { ", follows" } else { "" };
        let line = format!(" {title}  ({upto} %{follows})");

        self.write(buf, area, &line, Tone::Strong);
    }

    fn draw_list(&self, buf: &mut Buffer, area: Rect) {
        let now = self.shown_time();
        let rows = self.rows();

        match self.tab {
            Tab::Jobs => {
                let columns = jobs::COLUMNS;
                let places = fitted(columns, area.width);
                let bar = places[3].map_or(0, |(_, width)| width);
                let seen = self.jobs.board.seen(rows);
                let lines =
                    seen.map(|(job, chosen)| (jobs::row(job, self.theme, bar, now), chosen));
                self.draw_table(buf, area, columns, lines);
                self.draw_end_of_jobs(buf, area, rows);
            }
            Tab::Tasks => self.draw_tasks(buf, area),
            Tab::Hosts => {
                let seen = self.hosts.seen(rows);
                let lines = seen.map(|(host, chosen)| (hosts::row(host, self.theme, now), chosen));
                self.draw_table(buf, area, hosts::COLUMNS, lines);
                let filtered = !self.filters[Tab::Hosts as usize].is_empty();
                let nothing = match (self.hosts.loaded, filtered) {
                    (false, _) => "asking the master ...",
                    (true, true) => "no such host",
                    (true, false) => "no host has joined yet: deskgrid token create --role worker",
                };
                self.draw_nothing(buf, area, self.hosts.len() == 0, nothing);
            }
            Tab::Events => {
                let seen = self.events.seen(rows);
                let lines = seen.map(|(event, chosen)| (events::row(event, self.theme), chosen));
                self.draw_table(buf, area, events::COLUMNS, lines);
                let nothing = match self.events.past {
                    true => "no such event is kept",
                    false => "asking the master ...",
                };
                self.draw_nothing(buf, area, self.events.len() == 0, nothing);
            }
        }
    }

    fn draw_end_of_jobs(&self, buf: &mut Buffer, area: Rect, rows: usize) {
        let board = &self.jobs.board;
        let filtered = !self.filters[Tab::Jobs as usize].is_empty();
        let nothing = match (board.loaded, filtered) {
            (false, _) => "asking the master ...",
            (true, true) => "no such job among those that were looked at",
            (true, false) => "there are no jobs: deskgrid submit -- CMD ARG...",
        };
        self.draw_nothing(buf, area, board.len() == 0, nothing);

        if self.jobs.has_older() && board.shows_end(rows) && board.len() < rows {
            let y = area.y + 1 + u16::try_from(board.len().max(1)).unwrap_or(0);
            let line = Rect::new(area.x + 1, y, area.width, 1);
            self.write(buf, line, "G looks further back", Tone::Quiet);
        }
    }

    fn draw_tasks(&self, buf: &mut Buffer, area: Rect) {
        let now = self.shown_time();
        let Some(id) = self.tasks.job else {
            let why = "choose a job first: 1, then Enter on a job";
            return self.draw_nothing(buf, area, true, why);
        };
        let head = match self.jobs.board.entry(id.0) {
            Some(job) => jobs::headline(job, self.theme, now),
            None => Line::raw(format!(" job {id}")),
        };
        buf.set_line(area.x, area.y, &head, area.width);

        let below = Rect::new(area.x, area.y + 1, area.width, area.height - 1);
        let seen = self.tasks.seen();
        let lines = seen.map(|(task, chosen)| (tasks::row(task, self.theme), chosen));
        self.draw_table(buf, below, tasks::COLUMNS, lines);
        let nothing = if self.tasks.loaded {
            "no such task"
        } else {
            "asking the master ..."
        };
        self.draw_nothing(buf, below, self.tasks.seen().next().is_none(), nothing);
    }

    fn draw_table(
        &self,
        buf: &mut Buffer,
        area: Rect,
        columns: &[Column],
        lines: impl Iterator<Item = (Vec<Line<'static>>, bool)>,
    ) {
        let places = fitted(columns, area.width);
        let quiet = self
            .theme
            .style(Tone::Quiet)
            .add_modifier(Modifier::UNDERLINED);
        let titles: Vec<Line<'_>> = columns
            .iter()
            .map(|column| Line::raw(column.title))
            .collect();
        let head = Rect::new(area.x, area.y, area.width, 1);
        buf.set_style(head, quiet);
        draw_row(buf, head, columns, &places, &titles);

        for (y, (cells, chosen)) in (area.y + 1..area.bottom()).zip(lines) {
            let row = Rect::new(area.x, y, area.width, 1);
            draw_row(buf, row, columns, &places, &cells);
            if chosen {
                buf.set_style(row, Style::new().add_modifier(Modifier::REVERSED));
            }
        }
    }

    fn draw_nothing(&self, buf: &mut Buffer, area: Rect, nothing: bool, why: &str) {
        if nothing {
            let line = Rect::new(area.x + 1, area.y + 1, area.width, 1);
            self.write(buf, line, why, Tone::Quiet);
        }
    }

    /// Writes on the first line of an area.
    fn write(&self, buf: &mut Buffer, area: Rect, text: &str, tone: Tone) {
        let style = self.theme.style(tone);
        buf.set_stringn(area.x, area.y, text, area.width.into(), style);
    }

    /// The line above the keys: a question, the filter that is typed, or a sentence.
    fn draw_notice(&self, buf: &mut Buffer, area: Rect) {
        let (text, style) = match (&self.over, &self.notice) {
            (Some(Over::Question(question)), _) => {
                let style = Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD);
                (format!(" {}", question.text), style)
            }
            (_, Some((text, tone, _))) => (format!(" {text}"), self.theme.style(*tone)),
            (Some(Over::Typing(text)), None) => {
                (format!(" filter: {text}_"), self.theme.style(Tone::Strong))
            }
            _ => return,
        };
        buf.set_stringn(area.x, area.y, text, area.width.into(), style);
    }

    /// The keys that are valid now, as many as there is room for.
    fn draw_keys(&self, buf: &mut Buffer, area: Rect) {
        let mut x = area.x + 1;

        for row in KEYS.iter().filter(|row| self.takes(row.act)) {
            let needed = u16::try_from(row.keys.chars().count() + row.word.chars().count() + 1);
            let needed = needed.unwrap_or(u16::MAX);
            if x.saturating_add(needed) > area.right() {
                break;
            }
            let strong = self.theme.style(Tone::Strong);
            let (next, _) = buf.set_stringn(x, area.y, row.keys, usize::MAX, strong);
            let quiet = self.theme.style(Tone::Quiet);
            let (end, _) = buf.set_stringn(next + 1, area.y, row.word, usize::MAX, quiet);
            x = end + 2;
        }
    }
}
