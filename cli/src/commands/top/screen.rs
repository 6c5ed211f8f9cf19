//! The terminal of `top`: it is taken over, and given back however the program ends, but by SIGKILL. Keys
//! are read by a thread of their own; a picture is drawn after a key, and else four times a second at
//! most, of which the terminal gets what has changed.

use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::super::{hung_up, interrupted};
use super::TopClock;
use super::app::App;
use super::line::MasterLine;
use crate::failure::Failure;

/// The time between two pictures (`Screen::draw`).
const FRAME: Duration = Duration::from_millis(250);

/// A terminal that shows pictures until this is dropped. A panic gives it back, too, before its
/// message is printed.
struct Screen(DefaultTerminal);

impl Screen {
    fn enter() -> Result<Self, Failure> {
        let terminal = ratatui::try_init();
        terminal.map(Self).map_err(|error| {
            ratatui::restore();
            Failure::io("the terminal cannot show pictures", &error)
        })
    }

    fn draw(&mut self, app: &mut App) -> Result<(), Failure> {
        let drawn = self.0.draw(|frame| {
            let area = frame.area();
            if app.size != (area.width, area.height) {
                app.resize(area.width, area.height);
            }
            app.draw(frame.buffer_mut());
        });
        let failed = |error| Failure::io("the terminal does not take pictures any more", &error);
        drawn.map(|_| ()).map_err(failed)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows pictures until somebody quits, or the program is told to end.
///
/// # Errors
/// If the terminal or the master does not play along any more.
pub(super) async fn run(app: App, line: MasterLine, clock: TopClock) -> Result<(), Failure> {
    let screen = Screen::enter()?;
    let keys = keys();
    tokio::select! {
        end = show(app, line, clock, screen, keys) => end,
        () = interrupted() => Ok(()),
        () = hung_up() => Ok(()),
    }
}

/// Reads keys and sizes on a thread of its own, which ends with the program.
fn keys() -> mpsc::UnboundedReceiver<std::io::Result<Event>> {
    let (tx, rx) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        loop {
            let event = event::read();
            let failed = event.is_err();
            if tx.send(event).is_err() || failed {
                return;
            }
        }
    });
    rx
}

async fn show(
    mut app: App,
    mut line: MasterLine,
    clock: TopClock,
    mut screen: Screen,
    mut keys: mpsc::UnboundedReceiver<std::io::Result<Event>>,
) -> Result<(), Failure> {
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);

    while !app.is_over() {
        tokio::select! {
            Some(event) = keys.recv() => {
                app.tick(clock.now());
                match event {
                    Ok(Event::Key(key)) => app.press(&key),
                    Ok(_) => {}
                    Err(error) => return Err(Failure::io("the terminal sends no keys any more", &error)),
                }
                screen.draw(&mut app)?;
            }
            news = line.news() => {
                app.tick(clock.now());
                let news = news?;
                let awaited = news.is_awaited();
                app.hear(news);
                if awaited {
                    screen.draw(&mut app)?;
                }
            }
            _ = frames.tick() => {
                app.tick(clock.now());
                screen.draw(&mut app)?;
            }
        }
        app.wants().into_iter().for_each(|ask| line.send(ask));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// Not a test by itself: the one below runs it on a terminal of its own.
    #[test]
    #[ignore = "takes over the terminal and panics"]
    fn a_panic_with_the_screen_taken() {
        let _screen = Screen::enter().expect("a terminal");
        panic!("as planned");
    }

    #[test]
    fn a_panic_gives_the_terminal_back_and_then_says_what_happened() {
        let server = format!("deskgrid-panic-{}", std::process::id());
        let tmux = |words: &[&str]| {
            let mut command = Command::new("tmux");
            command.args(["-L", &server]).args(words).env_remove("TMUX");
            command.stdin(Stdio::null()).output()
        };
        let this = std::env::current_exe().expect("this program has a path");
        let module = module_path!().split_once("::").map_or("", |(_, path)| path);
        let run = format!(
            "echo before; {} --ignored --exact {module}::a_panic_with_the_screen_taken --nocapture; stty -a; exec cat",
            this.display()
        );
        let size = ["-x", "120", "-y", "60"];
        let start = [
            &["-f", "/dev/null", "new-session", "-d"],
            &size[..],
            &["sh", "-c", &run],
        ];
        if tmux(&start.concat()).is_err() {
            println!("SKIPPED: no tmux here (Debian: tmux)");
            return;
        }

        let shown = |words: &[&str]| {
            let output = tmux(words).expect("tmux answers");
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let begun = Instant::now();
        let mut picture = String::new();
        while !picture.contains("icanon") && begun.elapsed() < Duration::from_secs(60) {
            picture = shown(&["capture-pane", "-p"]);
            std::thread::sleep(Duration::from_millis(20));
        }
        let modes = shown(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        shown(&["kill-server"]);

        assert!(
            picture.contains("before") && picture.contains("as planned"),
            "{picture}"
        );
        assert!(
            picture.contains(" icanon") && !picture.contains(" -echo "),
            "{picture}"
        );
        assert_eq!(modes.trim(), "0 1", "the first screen, with its cursor");
    }
}
