//! One picture as text, for scripts and documents: drawn once everything in it has been answered.

use std::io::IsTerminal;
use std::time::Duration;

use ratatui::backend::IntoCrossterm;
use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::style::{ContentStyle, StyledContent};
use ratatui::layout::Rect;

use super::super::Context;
use super::TopClock;
use super::app::App;
use super::line::MasterLine;
use crate::failure::{Exit, Failure};

/// The size where standard output is no terminal, and `COLUMNS` and `LINES` say nothing.
const SIZE: (u16, u16) = (120, 40);
/// The longest wait until `App::is_whole`.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest wait for news: then what has become due is asked for.
const TURN: Duration = Duration::from_millis(20);

/// Prints one picture.
///
/// # Errors
/// If the master does not answer.
pub(super) async fn run(
    context: &Context,
    mut app: App,
    mut line: MasterLine,
    clock: TopClock,
) -> Result<(), Failure> {
    let terminal = std::io::stdout().is_terminal();
    let (width, height) = size(terminal);
    app.resize(width, height);

    let answers = async {
        while !app.is_whole() {
            app.tick(clock.now());
            app.wants().into_iter().for_each(|ask| line.send(ask));
            if let Ok(news) = tokio::time::timeout(TURN, line.news()).await {
                app.hear(news?);
            }
            if let Some((_, why)) = &app.lost {
                return Err(lost(why));
            }
        }
        Ok::<(), Failure>(())
    };
    tokio::time::timeout(PATIENCE, answers)
        .await
        .unwrap_or_else(|_| Err(lost("it takes too long")))?;

    let mut buf = Buffer::empty(Rect::new(0, 0, width, height));
    app.draw(&mut buf);
    context
        .out
        .bytes(text(&buf, context.out.color()).as_bytes())
}

fn lost(why: &str) -> Failure {
    let what = "the master does not answer";
    Failure::new(Exit::Unreachable, "unreachable", what, "deskgrid doctor").because(why)
}

/// The size of the picture: that of the terminal, less a line for the prompt.
fn size(terminal: bool) -> (u16, u16) {
    let here = ratatui::crossterm::terminal::size()
        .ok()
        .filter(|_| terminal);
    let said = |name| std::env::var(name).ok()?.parse::<u16>().ok();
    let (width, height) = here.map_or(SIZE, |(width, height)| (width, height.saturating_sub(1)));
    let width = said("COLUMNS").filter(|_| here.is_none()).unwrap_or(width);
    let height = said("LINES").filter(|_| here.is_none()).unwrap_or(height);
    (width.clamp(1, 500), height.clamp(1, 500))
}

/// Returns the picture as lines, without spaces at their ends.
pub(super) fn text(buf: &Buffer, colours: bool) -> String {
    let width = usize::from(buf.area.width);
    let rows = buf.content.chunks(width.max(1));
    rows.map(|row| line(row, colours) + "\n").collect()
}

fn line(row: &[Cell], colours: bool) -> String {
    let plain =
        |cell: &Cell| cell.symbol() == " " && (cell.style() == Cell::EMPTY.style() || !colours);
    let end = row
        .iter()
        .rposition(|cell| !plain(cell))
        .map_or(0, |at| at + 1);
    let mut out = String::new();
    let mut skip = 0;

    for group in row[..end].chunk_by(|a, b| a.style() == b.style()) {
        let mut text = String::new();
        for cell in group {
            // The cell after a wide character is covered by it.
            if skip > 0 {
                skip -= 1;
                continue;
            }
            skip = console::measure_text_width(cell.symbol()).saturating_sub(1);
            text.push_str(cell.symbol());
        }
        match group.first().filter(|_| colours) {
            Some(cell) => {
                let style: ContentStyle = cell.style().into_crossterm();
                out += &StyledContent::new(style, text).to_string();
            }
            None => out += &text,
        }
    }
    out
}
