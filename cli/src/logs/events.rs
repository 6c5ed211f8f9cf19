//! Passes what an admin must see on to the system's event log: log lines of the targets in
//! [`worker::admin`]. The same words come once a day at most, and never a token.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;
use worker::admin::event_id;

/// The time for which the same words are not written again.
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// The field with the pause before another try. Another pause is no news.
const PAUSE: &str = "again_in";
/// The start of every join token.
const TOKEN: &str = "dg1.";
/// The most characters of an event; the system takes 31,839.
const LONGEST: usize = 30_000;

/// Returns the source of the events of a service.
#[cfg(windows)]
pub(crate) fn source_of(service: &str) -> String {
    format!("{service}-worker")
}

/// Makes the layer that gives each event with its level and number to `write`.
pub(crate) fn layer<S>(write: impl Fn(Level, u32, &str) + Send + Sync + 'static) -> impl Layer<S>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let heeded = filter_fn(|line| event_id(line.target()).is_some());
    let told = Mutex::default();
    EventLayer { write, told }.with_filter(heeded.with_max_level_hint(LevelFilter::INFO))
}

struct EventLayer<W> {
    write: W,
    told: Mutex<ToldWords>,
}

impl<S: Subscriber, W: Fn(Level, u32, &str) + 'static> Layer<S> for EventLayer<W> {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let line = event.metadata();
        let Some(id) = event_id(line.target()) else {
            return;
        };
        let mut words = EventWords::default();
        event.record(&mut words);

        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.are_news(&words.text, Instant::now()) {
            (self.write)(*line.level(), id, &presentable(&words));
        }
    }
}

/// The words of the last day, with the time at which they were written.
#[derive(Default)]
struct ToldWords(BTreeMap<String, Instant>);

impl ToldWords {
    /// Whether these words are to be written now; notes them then.
    fn are_news(&mut self, words: &str, now: Instant) -> bool {
        self.0.retain(|_, at| now.duration_since(*at) < DAY);
        let news = !self.0.contains_key(words);
        if news {
            self.0.insert(words.to_owned(), now);
        }
        news
    }
}

/// The words of one line: what it says with its fields, and the pause that follows.
#[derive(Default)]
struct EventWords {
    text: String,
    pause: String,
}

impl Visit for EventWords {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a text does not fail.
        let _ = match field.name() {
            "message" => {
                self.text.insert_str(0, &format!("{value:?}"));
                Ok(())
            }
            PAUSE => write!(self.pause, "\r\nagain in: {value:?}"),
            name => write!(self.text, "\r\n{name}: {value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// Returns the words as an event can have them: without tokens, and without what a reader of events
/// would take for the place of another text (`%1`).
fn presentable(words: &EventWords) -> String {
    let whole = format!("{}{}", words.text, words.pause);
    let mut parts = whole.split(TOKEN);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("a token");
        text.push_str(part.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '.'));
    }

    let text = text.replace('%', "% ").replace('\0', "");
    text.chars().take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tracing_subscriber::layer::SubscriberExt;
    use worker::admin;

    use super::*;

    /// The events that come of what `say` logs.
    fn events(say: impl FnOnce()) -> Vec<(Level, u32, String)> {
        let kept: Arc<Mutex<Vec<_>>> = Arc::default();
        let written = Arc::clone(&kept);
        let layer = layer(move |level, id, text: &str| {
            written.lock().unwrap().push((level, id, text.to_owned()));
        });
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, say);
        let kept = kept.lock().unwrap();
        kept.clone()
    }

    #[test]
    fn a_refusal_is_an_event_once_for_each_reason_and_not_at_each_try() {
        let found = events(|| {
            for (because, again_in) in [
                ("it is used up", "20s"),
                ("it is used up", "40s"),
                ("it has expired", "80s"),
            ] {
                tracing::warn!(target: admin::JOINING, because, %again_in, "cannot join the grid yet: {}", "refused");
            }
            tracing::error!("an ordinary line");
        });
        let texts: Vec<_> = found.iter().map(|(.., text)| text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "cannot join the grid yet: refused\r\nbecause: it is used up\r\nagain in: 20s",
                "cannot join the grid yet: refused\r\nbecause: it has expired\r\nagain in: 80s"
            ]
        );
        assert!(
            found
                .iter()
                .all(|(level, id, _)| *level == Level::WARN && *id == 3)
        );
    }

    #[test]
    fn the_same_words_are_an_event_again_after_a_day() {
        let start = Instant::now();
        let mut told = ToldWords::default();
        let mut at = |seconds| told.are_news("refused", start + Duration::from_secs(seconds));
        assert!(at(0) && !at(3_600) && !at(86_399) && at(86_400) && !at(90_000));
    }

    #[test]
    fn an_event_has_no_token_and_nothing_that_stands_for_another_text() {
        let found = events(|| {
            tracing::error!(
                target: admin::ENDED,
                "ended: `dg1.7.00112233.ffee` at [fe80::1%3]:7411"
            );
        });
        let (level, id, text) = &found[0];
        assert_eq!((*level, *id), (Level::ERROR, 2));
        assert_eq!(text, "ended: `a token` at [fe80::1% 3]:7411");
    }
}
