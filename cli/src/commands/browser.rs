//! Serves pages to this user's own browser for as long as a terminal is there: prints the address
//! with its ticket, opens a browser, prints another address for each Enter. What is served is the
//! affair of [`super::dashboard`] and [`super::owner`].

use std::borrow::Cow;
#[cfg(not(unix))]
use std::io::IsTerminal;
use std::net::Ipv4Addr;
use std::path::Path;

use api::{TICKET_LIFE, Tickets};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{Context, hung_up, interrupted};
use crate::failure::Failure;
use crate::output::note;

/// The addresses of what is served.
#[derive(Serialize)]
struct Address<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<Cow<'a, str>>,
}

/// The way in for one user, and the terminal that it ends with.
pub(super) struct WayIn<'a> {
    /// The command's settings.
    pub context: &'a Context,
    /// The tickets of the addresses that are printed.
    pub tickets: &'a Tickets,
    /// The socket for programs, if there is one.
    pub socket: Option<&'a Path>,
    /// Whether it ends with standard input, even if that is no terminal.
    pub tied: bool,
}

/// Makes a directory that only this user can look into.
pub(super) fn private_dir() -> Result<tempfile::TempDir, Failure> {
    let private = tempfile::Builder::new().prefix("deskgrid-").tempdir();
    private.map_err(|e| Failure::io("cannot make a temporary directory", &e))
}

/// Listens on this port of the loopback address, or on a free one; returns it, too.
pub(super) async fn listen(port: u16) -> Result<(TcpListener, u16), Failure> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener =
        listener.map_err(|e| Failure::io(format!("cannot listen on port {port}"), &e))?;
    let port = listener.local_addr().map_or(port, |bound| bound.port());
    Ok((listener, port))
}

impl WayIn<'_> {
    /// Prints the address, opens a browser by a file in `opens` if there is one, and returns at the
    /// end: when the terminal goes away, the user interrupts, or `end` has come.
    pub(super) async fn stay(
        self,
        opens: Option<&Path>,
        end: impl Future<Output = ()>,
    ) -> Result<(), Failure> {
        let url = self.tickets.link();
        self.say(&url)?;
        if let Some(private) = opens {
            open(private, &url);
        }

        let mut lines = Some(lines(self.tied || in_front()));
        tokio::pin!(end);
        loop {
            tokio::select! {
                line = next(&mut lines) => match line {
                    Some(()) => self.say(&self.tickets.link())?,
                    None if self.tied => return Ok(()),
                    None => lines = None,
                },
                () = interrupted() => return Ok(()),
                () = hung_up() => return Ok(()),
                () = &mut end => return Ok(()),
            }
        }
    }

    /// Prints an address as [`OutputForm`](crate::output::OutputForm) wants it.
    fn say(&self, url: &str) -> Result<(), Failure> {
        let socket = self.socket;
        let text = || {
            let life = TICKET_LIFE.as_secs();
            let socket = socket.map_or(String::new(), |socket| {
                format!(
                    "programs: curl --unix-socket {} http://d/api/v1/jobs\n",
                    socket.display()
                )
            });
            format!(
                "{url}\nlets one browser in, within {life} s; Enter prints another address\n{socket}"
            )
        };
        // Temporary files may lie where a name is no text.
        let socket = socket.map(Path::to_string_lossy);
        let address = Address { url, socket };

        self.context
            .out
            .show(&address, text, || vec![url.to_owned()])
    }
}

/// Returns the next line of standard input, if that is looked at.
async fn next(lines: &mut Option<mpsc::Receiver<()>>) -> Option<()> {
    match lines {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}

/// Whether somebody may press Enter: a read of the terminal stops a process in the background.
fn in_front() -> bool {
    let stdin = std::io::stdin();
    #[cfg(unix)]
    let in_front =
        rustix::termios::tcgetpgrp(&stdin).is_ok_and(|group| group == rustix::process::getpgrp());
    #[cfg(not(unix))]
    let in_front = stdin.is_terminal();
    in_front
}

/// Returns a message for each line of standard input, until it ends.
fn lines(wanted: bool) -> mpsc::Receiver<()> {
    let (tx, rx) = mpsc::channel(1);
    // A thread of its own: a read of standard input cannot be cancelled.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = |line: &mut String| {
            line.clear();
            std::io::stdin().read_line(line).unwrap_or(0)
        };
        while wanted && read(&mut line) > 0 {
            if tx.blocking_send(()).is_err() {
                return;
            }
        }
    });

    rx
}

/// Opens a browser by a file that only this user can read: other accounts see command lines, and
/// the ticket must not be in one.
fn open(private: &Path, url: &str) {
    let file = private.join("open.html");
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>deskgrid</title>\
         <meta http-equiv=\"refresh\" content=\"0;url={url}\"><a href=\"{url}\">deskgrid</a>\n"
    );
    let opened = std::fs::write(&file, page).and_then(|()| browser(&file));
    if let Err(error) = opened {
        note(&format!(
            "no browser could be opened ({error}): open the address yourself"
        ));
    }
}

/// Starts the program that opens files.
fn browser(file: &Path) -> std::io::Result<()> {
    let (program, before): (&str, &[&str]) = if cfg!(windows) {
        ("cmd", &["/C", "start", ""])
    } else if cfg!(target_os = "macos") {
        ("open", &[])
    } else {
        ("xdg-open", &[])
    };
    let mut command = std::process::Command::new(program);
    command.args(before).arg(file);
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());

    command.spawn().map(drop)
}
