//! Shows how far files are on their way between this machine and the master, and says what an
//! interruption leaves behind. Always on standard error.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use link::Client;
use link::content::ByteCount;

use crate::commands::interruptible;
use crate::failure::Failure;
use crate::output::note;
use crate::progress::bar;

/// A transfer that ends sooner is not shown on a terminal.
const SOON: Duration = Duration::from_secs(1);
/// The time before the first line where there is no terminal, and between two of them.
const FIRST_LINE: Duration = Duration::from_secs(2);
const LINE_EVERY: Duration = Duration::from_secs(5);
/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);
const MB: f64 = 1e6;

/// Files on their way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShownTransfer {
    /// The verb for what is done with them, as the [`line`](ShownTransfer::line) says it: "sent" or "fetched".
    pub(crate) verb: &'static str,
    /// Their size in bytes, if it is known.
    pub(crate) total: Option<u64>,
    /// Whether people are shown how far they are.
    pub(crate) shown: bool,
    /// The words for what an [`interruption`](ShownTransfer::interruption) leaves behind.
    pub(crate) left: &'static str,
}

impl ShownTransfer {
    /// Runs `work`, which carries the files with this client or its clones ([`Client::carried`]).
    ///
    /// # Errors
    /// Those of the work; or the program is to end.
    pub(crate) async fn run<T>(
        self,
        client: &Client,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let count = client.carried();
        let mut display = TransferDisplay::new(self);
        let show = async {
            loop {
                tokio::time::sleep(LOOK_EVERY).await;
                if self.shown {
                    display.show(count);
                }
            }
        };
        let shown = async {
            tokio::select! {
                ended = work => ended,
                never = show => never,
            }
        };
        let ended = interruptible(shown, || self.interruption(count.moved())).await;
        display.end();
        ended
    }

    /// The failure of a command that was to end after so many bytes.
    pub(crate) fn interruption(self, bytes: u64) -> Failure {
        let Self { verb, left, .. } = self;
        let what = format!("interrupted; {} was {verb}; {left}", mb(bytes));
        let hint = "run the same command again: it goes on where this one has stopped";
        Failure::error("interrupted", what, hint)
    }

    /// Describes how far the files are after this time, in which so many bytes have moved beside those that were there.
    fn line(self, moved: u64, there: u64, after: Duration) -> String {
        let bytes = moved + there;
        let Some(total) = self.total else {
            return format!("{} {}", self.verb, mb(bytes));
        };
        let left = if moved > 0 {
            let left_s = total.saturating_sub(bytes) as f64 / moved as f64 * after.as_secs_f64();
            format!(", about {left_s:.0} s left")
        } else {
            String::new()
        };
        format!("{} {} of {}{left}", self.verb, mb(bytes), mb(total))
    }
}

fn mb(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / MB)
}

/// The place where a [`ShownTransfer`] is shown.
struct TransferDisplay {
    transfer: ShownTransfer,
    begun: Instant,
    /// The time of the next line, [`LINE_EVERY`] after the one before.
    next: Instant,
    /// The bar, on a terminal, once it is drawn ([`SOON`]).
    bar: Option<ProgressBar>,
    is_terminal: bool,
}

impl TransferDisplay {
    fn new(transfer: ShownTransfer) -> Self {
        let now = Instant::now();
        Self {
            transfer,
            begun: now,
            next: now + FIRST_LINE,
            bar: None,
            is_terminal: std::io::stderr().is_terminal(),
        }
    }

    fn show(&mut self, count: &ByteCount) {
        let after = self.begun.elapsed();
        let moved = count.moved();
        let there = count.there();
        let line = self.transfer.line(moved, there, after);
        if !self.is_terminal {
            let now = Instant::now();
            if now >= self.next {
                self.next = now + LINE_EVERY;
                note(&line);
            }
            return;
        }

        if after >= SOON {
            let bar = self.bar.get_or_insert_with(|| match self.transfer.total {
                Some(total) => bar(total, "[{elapsed_precise}] {bar:32} {msg}"),
                None => bar(0, "[{elapsed_precise}] {msg}"),
            });
            bar.set_position(moved + there);
            bar.set_message(line);
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SENDING: ShownTransfer = ShownTransfer {
        verb: "sent",
        total: Some(500_000_000),
        shown: true,
        left: "nothing was submitted",
    };

    #[test]
    fn a_line_says_how_much_is_there_and_how_long_the_rest_takes() {
        let after = Duration::from_secs(10);
        assert_eq!(
            SENDING.line(125_000_000, 0, after),
            "sent 125.0 MB of 500.0 MB, about 30 s left"
        );
        assert_eq!(SENDING.line(0, 0, after), "sent 0.0 MB of 500.0 MB");
        // What was there before says nothing of how fast the rest comes.
        assert_eq!(
            SENDING.line(10_000_000, 390_000_000, after),
            "sent 400.0 MB of 500.0 MB, about 100 s left"
        );
        let of_trees = ShownTransfer {
            total: None,
            ..SENDING
        };
        assert_eq!(of_trees.line(125_000_000, 0, after), "sent 125.0 MB");
    }

    #[test]
    fn an_interruption_says_what_is_left_behind() {
        let failure = SENDING.interruption(125_000_000);
        assert_eq!(
            failure.what,
            "interrupted; 125.0 MB was sent; nothing was submitted"
        );
    }
}
