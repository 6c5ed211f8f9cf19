//! The output of one task while it runs, and its rest once it is settled: the newest lines of it, as
//! a screen may show them, whatever the task prints.

use common::attempt::StreamKind;
use common::text::ShownOutput;
use common::view::OutputView;
use common::wire::client::{Request, TailFrom, TailNews};
use common::{AttemptId, BlobRef, Content, TaskId};

use super::super::cat::{captured, name_of};
use super::look::Tone;
use super::text::{TextLine, TextPlace};

/// The lines that are kept, and as many again before the oldest are dropped.
const LINES: usize = 5_000;
/// The bytes of a line that are kept.
const LINE: usize = 4_096;
/// The bytes of a settled task's output that are fetched: its end.
const END: u64 = 64 * 1024;

/// The output of a task, for `OpenPage::Log`.
#[derive(Debug)]
pub(super) struct TaskLog {
    /// The task.
    pub(super) task: TaskId,
    /// The stream.
    pub(super) stream: StreamKind,
    /// The newest lines.
    pub(super) lines: Vec<TextLine>,
    /// The part of them that is on the screen.
    pub(super) place: TextPlace,
    /// The way in which bytes become text.
    output: ShownOutput,
    /// The attempt that is shown with its host, and the number of its next byte.
    attempt: Option<(AttemptId, String)>,
    next: u64,
    /// Whether the last line has no end yet.
    begun: bool,
    /// Whether the task is settled.
    pub(super) settled: bool,
}

/// The rest of the output of a settled task.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LogRest {
    /// It was there, or there is none.
    Shown,
    /// It is to be fetched from this byte on.
    Fetch(BlobRef, u64),
}

impl TaskLog {
    pub(super) fn new(task: TaskId, stream: StreamKind) -> Self {
        Self {
            task,
            stream,
            lines: Vec::new(),
            place: TextPlace::at_end(),
            output: ShownOutput::default(),
            attempt: None,
            next: 0,
            begun: false,
            settled: false,
        }
    }

    /// The request that follows the task from where the log is.
    pub(super) fn request(&self) -> Request {
        let from = self.attempt.as_ref().map(|(attempt, _)| *attempt);
        Request::Tail {
            task: self.task,
            stream: self.stream,
            from: from.map_or(TailFrom::Newest, |attempt| {
                TailFrom::Byte(attempt, self.next)
            }),
        }
    }

    /// The title: the task, the stream, and the attempt that writes.
    pub(super) fn title(&self) -> String {
        let task = self.task;
        let stream = name_of(self.stream);

        match (&self.attempt, self.settled) {
            (Some((attempt, host)), false) => format!(
                "{stream} of task {task}: attempt {} on {host}",
                attempt.number
            ),
            (Some((_, host)), true) => {
                format!("{stream} of task {task}, which is settled; it was on {host}")
            }
            (None, settled) => format!(
                "{stream} of task {task}{}",
                if settled { ", which is settled" } else { "" }
            ),
        }
    }

    /// Takes [`TailNews`] of the task.
    pub(super) fn take(&mut self, news: TailNews) {
        match news {
            TailNews::Begins { attempt, host } => self.begins(attempt, host),
            TailNews::Part(part) => {
                if part.offset > self.next && self.next > 0 {
                    self.note(&format!("{} bytes are left out", part.offset - self.next));
                }
                self.next = part.offset.saturating_add(part.bytes.len() as u64);
                self.bytes(&part.bytes);
            }
            TailNews::Waits(why) => self.note(&format!("nothing to show for now: {why}")),
            TailNews::Settled => self.settled = true,
        }
    }

    fn begins(&mut self, attempt: AttemptId, host: String) {
        let before = self.attempt.as_ref().map(|(before, _)| *before);
        if before != Some(attempt) {
            if let Some(before) = before {
                self.note(&format!(
                    "{before} is over; attempt {} on {host} follows",
                    attempt.number
                ));
            }
            self.next = 0;
        }
        self.attempt = Some((attempt, host));
    }

    /// Takes the output of the settled task: shows what is not shown yet, or says what to fetch.
    pub(super) fn take_output(&mut self, output: Option<&OutputView>) -> LogRest {
        let Some(output) = output else {
            self.note("it has left no output");
            return LogRest::Shown;
        };
        self.begins(output.attempt, output.host.clone());
        let stream = captured(output, self.stream);
        let size = stream.content.size();
        let from = self.next.max(size.saturating_sub(END));
        if from > self.next {
            self.note(&format!(
                "{} bytes before are left out: deskgrid job cat has them all",
                from - self.next
            ));
        }

        self.next = from;
        match &stream.content {
            _ if output.removed => self.note("its output was removed: nobody had requested it"),
            Content::Inline(bytes) => {
                let rest = usize::try_from(from)
                    .ok()
                    .and_then(|from| bytes.get(from..));
                self.rest(rest.unwrap_or_default());
            }
            Content::Blob(blob) if from < size => return LogRest::Fetch(*blob, from),
            Content::Blob(_) => self.rest(&[]),
        }
        LogRest::Shown
    }

    /// Takes the last bytes of a settled task, which `LogRest::Fetch` named.
    pub(super) fn rest(&mut self, bytes: &[u8]) {
        self.next = self.next.saturating_add(bytes.len() as u64);
        self.bytes(bytes);
        if self.lines.is_empty() {
            let stream = name_of(self.stream);
            self.note(&format!(
                "it wrote nothing to {stream}; e shows the other stream"
            ));
        }
    }

    /// Adds a line of ours.
    pub(super) fn note(&mut self, text: &str) {
        self.lines
            .push(TextLine::new(&format!("--- {text} ---"), Tone::Quiet));
        self.begun = false;
        self.trim();
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let text = self.output.piece(bytes).replace('\t', "        ");
        for piece in text.split_inclusive('\n') {
            let (line, ends) = match piece.strip_suffix('\n') {
                Some(line) => (line, true),
                None => (piece, false),
            };
            self.add(line);
            self.begun = !ends;
        }
        self.trim();
    }

    /// Adds to the line that has begun, or begins one; of a long line only the beginning is kept.
    fn add(&mut self, text: &str) {
        if !self.begun {
            self.lines.push(TextLine::new("", Tone::Plain));
        }
        let Some(line) = self.lines.last_mut().filter(|line| line.len() <= LINE) else {
            return;
        };
        let room = LINE - line.len();
        let end = text.char_indices().map(|(at, _)| at).find(|at| *at >= room);

        match end {
            Some(end) => {
                line.push(&text[..end]);
                line.push("… the rest of the line is left out");
            }
            None => line.push(text),
        }
    }

    fn trim(&mut self) {
        if self.lines.len() > 2 * LINES {
            let gone = self.lines.len() - LINES;
            self.lines.drain(..gone);
            self.place.shift(gone);
        }
    }
}

#[cfg(test)]
mod tests {
    use common::wire::stream::TailPart;
    use common::{Incarnation, JobId};

    use super::*;

    fn log() -> TaskLog {
        TaskLog::new(TaskId::new(JobId(1), 1), StreamKind::Stdout)
    }

    fn part(offset: u64, bytes: &[u8]) -> TailNews {
        TailNews::Part(TailPart {
            offset,
            bytes: bytes.to_vec(),
        })
    }

    #[test]
    fn pieces_of_output_become_lines_and_nothing_in_them_acts() {
        let mut log = log();
        log.take(part(0, b"one\ntw"));
        log.take(part(6, b"o\x1b]0;title\x07\xe2\x80"));
        log.take(part(18, b"\xaethree\n"));
        let want = ["one", "two\u{fffd}]0;title\u{fffd}\u{fffd}three"];
        assert_eq!(log.lines, want.map(|text| TextLine::new(text, Tone::Plain)));

        log.take(part(100, b"later"));
        assert!(
            log.lines.len() == 4,
            "a line says that something is left out"
        );
    }

    #[test]
    fn a_line_of_ten_megabytes_and_a_million_lines_keep_the_log_small() {
        let mut log = log();
        for _ in 0..160 {
            log.take(part(log.next, &[b'x'; 65_536]));
        }
        assert_eq!(log.lines.len(), 1);
        assert!(log.lines[0].len() < 2 * LINE);

        for _ in 0..100 {
            log.take(part(log.next, &b"\ny".repeat(10_000)));
        }
        assert!(log.lines.len() <= 2 * LINES);
    }

    #[test]
    fn after_a_lost_connection_the_log_goes_on_at_the_same_byte() {
        let mut log = log();
        assert!(matches!(
            log.request(),
            Request::Tail {
                from: TailFrom::Newest,
                ..
            }
        ));

        let attempt = AttemptId {
            task: log.task,
            number: 1,
            incarnation: Incarnation(1),
        };
        log.take(TailNews::Begins {
            attempt,
            host: "desk-1".to_owned(),
        });
        log.take(part(7, b"abc"));
        let Request::Tail { from, .. } = log.request() else {
            panic!()
        };
        assert_eq!(from, TailFrom::Byte(attempt, 10));
    }
}
