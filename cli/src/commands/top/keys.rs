//! The keys of `top`: one table, of which the bottom line, the help page and what a key does are all
//! made. When a key is valid, `App::takes` says.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyAct {
    Yes,
    No,
    Keep,
    Drop,
    Open,
    Back,
    Why,
    Log,
    OtherStream,
    Cancel,
    Retry,
    Drain,
    Filter,
    Sort,
    Freeze,
    Help,
    Quit,
    Jobs,
    Tasks,
    Hosts,
    Events,
    Down,
    Up,
    PageDown,
    PageUp,
    First,
    Last,
}

/// A row of the table.
#[derive(Debug)]
pub(super) struct KeyRow {
    /// The meaning.
    pub(super) act: KeyAct,
    /// The keys.
    codes: &'static [KeyCode],
    /// The keys, as people read them.
    pub(super) keys: &'static str,
    /// The word in the bottom line.
    pub(super) word: &'static str,
    /// The line of the help page.
    pub(super) help: &'static str,
}

const fn row(
    act: KeyAct,
    codes: &'static [KeyCode],
    keys: &'static str,
    word: &'static str,
    help: &'static str,
) -> KeyRow {
    KeyRow {
        act,
        codes,
        keys,
        word,
        help,
    }
}

use KeyCode::{Char, Down, End, Enter, Esc, Home, PageDown, PageUp, Up};

/// Every key, in the order of the bottom line.
#[rustfmt::skip]
pub(super) const KEYS: &[KeyRow] = &[
    row(KeyAct::Open, &[Enter], "Enter", "open", "Opens a job, a task, a host, or what an event is about"),
    row(KeyAct::Back, &[Esc], "Esc", "back", "Goes back; removes a filter"),
    row(KeyAct::Why, &[Char('w')], "w", "why", "Says why a job or task is not done, or a host gets no tasks"),
    row(KeyAct::Log, &[Char('l')], "l", "log", "Shows what a task prints, and goes on with it"),
    row(KeyAct::OtherStream, &[Char('e')], "e", "stdout/stderr", "In a log: shows the other of standard output and standard error"),
    row(KeyAct::Cancel, &[Char('c')], "c", "cancel", "Cancels a job or a task, after a question"),
    row(KeyAct::Retry, &[Char('r')], "r", "retry failed", "Runs the failed tasks of a job again, or one failed task"),
    row(KeyAct::Drain, &[Char('d')], "d", "drain", "Drains a host, or gives it tasks again, after a question (admins)"),
    row(KeyAct::Filter, &[Char('/')], "/", "filter", "Filters: words of jobs, hosts and events; numbers and states of tasks"),
    row(KeyAct::Sort, &[Char('s')], "s", "sort", "Sorts in another way; among tasks: shows those of the next state"),
    row(KeyAct::Freeze, &[Char(' ')], "space", "freeze", "Freezes the picture, and lets it go on"),
    row(KeyAct::Help, &[Char('?')], "?", "help", "Shows this page"),
    row(KeyAct::Quit, &[Char('q')], "q", "quit", "Quits; the grid works on"),
    row(KeyAct::Jobs, &[Char('1')], "1", "jobs", "Shows jobs"),
    row(KeyAct::Tasks, &[Char('2')], "2", "tasks", "Shows the tasks of a job"),
    row(KeyAct::Hosts, &[Char('3')], "3", "hosts", "Shows hosts"),
    row(KeyAct::Events, &[Char('4')], "4", "events", "Shows events"),
    row(KeyAct::Down, &[Char('j'), Down], "j ↓", "down", "Goes down"),
    row(KeyAct::Up, &[Char('k'), Up], "k ↑", "up", "Goes up"),
    row(KeyAct::PageDown, &[PageDown], "PgDn", "page down", "Goes down a page"),
    row(KeyAct::PageUp, &[PageUp], "PgUp", "page up", "Goes up a page"),
    row(KeyAct::First, &[Char('g'), Home], "g", "first", "Goes to the first line"),
    row(KeyAct::Last, &[Char('G'), End], "G", "last", "Goes to the last line; among jobs, looks further back"),
    row(KeyAct::Yes, &[Char('y')], "y", "yes", "Answers a question: do it"),
    row(KeyAct::No, &[Char('n'), Esc], "n Esc", "no", "Answers a question: do not"),
    row(KeyAct::Keep, &[Enter], "Enter", "keep the filter", "Ends a filter that you type"),
    row(KeyAct::Drop, &[Esc], "Esc", "no filter", "Removes a filter that you type"),
];

/// Returns the meaning of a key among those that `takes` lets through.
pub(super) fn meaning(key: &KeyEvent, takes: impl Fn(KeyAct) -> bool) -> Option<KeyAct> {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if control || key.modifiers.contains(KeyModifiers::ALT) {
        let quits = control && matches!(key.code, Char('c' | 'q'));
        return quits.then_some(KeyAct::Quit);
    }
    let rows = KEYS.iter().filter(|row| row.codes.contains(&key.code));
    rows.map(|row| row.act).find(|act| takes(*act))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_that_the_table_shows_is_one_that_it_has() {
        for row in KEYS {
            for code in row.codes {
                let key = KeyEvent::new(*code, KeyModifiers::NONE);
                assert_eq!(meaning(&key, |act| act == row.act), Some(row.act));
            }
            let shown = |code: &KeyCode| match code {
                Char(' ') => "space".to_owned(),
                Char(c) => c.to_string(),
                Enter => "Enter".to_owned(),
                Esc => "Esc".to_owned(),
                Down => "↓".to_owned(),
                Up => "↑".to_owned(),
                PageDown => "PgDn".to_owned(),
                PageUp => "PgUp".to_owned(),
                _ => String::new(),
            };
            let codes: Vec<String> = row.codes.iter().map(shown).collect();
            for word in row.keys.split(' ') {
                assert!(codes.iter().any(|code| code == word), "{}", row.help);
            }
        }
    }
}
