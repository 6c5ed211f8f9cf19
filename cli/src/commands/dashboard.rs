//! Executes `deskgrid dashboard`: serves the API on this machine, for its user's browsers and
//! programs, until the terminal goes away.

mod door;

use std::io::IsTerminal;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;

use api::{HttpBounds, TICKET_LIFE, Tickets};
use serde::Serialize;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::{Context, hung_up, interrupted};
use crate::args::dashboard::DashboardArgs;
use crate::failure::{Exit, Failure};
use crate::output::note;
use door::{Gateway, LinkDoor};

/// The addresses of the gateway.
#[derive(Serialize)]
struct Address<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    socket: Option<&'a Path>,
}

/// Serves until it is stopped.
pub(super) async fn run(context: &Context, args: DashboardArgs) -> Result<Exit, Failure> {
    let (door, who) = LinkDoor::open(&context.state).await?;
    let door: Arc<dyn api::Door> = Arc::new(Gateway(door));
    let private = tempfile::Builder::new().prefix("deskgrid-").tempdir();
    let private = private.map_err(|e| Failure::io("cannot make a temporary directory", &e))?;

    let address = (Ipv4Addr::LOCALHOST, args.port);
    let listener = TcpListener::bind(address).await;
    let listener =
        listener.map_err(|e| Failure::io(format!("cannot listen on port {}", args.port), &e))?;
    let port = listener
        .local_addr()
        .map_or(args.port, |bound| bound.port());
    let tickets = Arc::new(Tickets::new(who.clone(), port));
    let pages = dashboard::pages(door.clone());
    let pages = api::router(door.clone(), tickets.clone(), pages);
    tokio::spawn(api::serve(listener, pages, HttpBounds::default()));

    #[cfg(unix)]
    let socket = {
        let path = args.socket.clone();
        let path = path.unwrap_or_else(|| private.path().join("gateway.sock"));
        let listener = socket::listen(&path)?;
        let own = Arc::new(api::OwnSocket(who));
        let router = api::router(door, own, api::SitePages::default());
        tokio::spawn(api::serve(listener, router, HttpBounds::default()));
        Some(socket::SocketFile(path))
    };
    #[cfg(unix)]
    let path = socket.as_ref().map(|socket| socket.0.as_path());
    #[cfg(windows)]
    let path = None;

    let url = tickets.link();
    say(context, &url, path)?;
    if !args.no_open {
        open(private.path(), &url);
    }

    let mut lines = lines(args.tied || std::io::stdin().is_terminal());
    loop {
        tokio::select! {
            line = lines.recv() => match line {
                Some(()) => say(context, &tickets.link(), path)?,
                None if args.tied => break,
                None => return until_interrupted().await,
            },
            () = interrupted() => break,
            () = hung_up() => break,
        }
    }
    Ok(Exit::Well)
}

async fn until_interrupted() -> Result<Exit, Failure> {
    tokio::select! {
        () = interrupted() => {}
        () = hung_up() => {}
    }
    Ok(Exit::Well)
}

/// Prints where the gateway is.
fn say(context: &Context, url: &str, socket: Option<&Path>) -> Result<(), Failure> {
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
    let address = Address { url, socket };

    context.out.show(&address, text, || vec![url.to_owned()])
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

/// The socket for programs.
#[cfg(unix)]
mod socket {
    use std::io::ErrorKind;
    use std::path::{Path, PathBuf};

    use rustix::fs::Mode;
    use tokio::net::UnixListener;

    use crate::failure::{Exit, Failure};

    /// A socket that is removed when this is dropped.
    pub(super) struct SocketFile(pub(super) PathBuf);

    impl Drop for SocketFile {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    /// Listens on a socket that only this user can open. One that an ended gateway left is
    /// replaced.
    pub(super) fn listen(path: &Path) -> Result<UnixListener, Failure> {
        let what = format!("cannot listen on {}", path.display());
        match bind(path) {
            Err(error) if error.kind() == ErrorKind::AddrInUse => {}
            bound => return bound.map_err(|e| Failure::io(what, &e)),
        }

        let is_socket = std::fs::symlink_metadata(path)
            .is_ok_and(|meta| std::os::unix::fs::FileTypeExt::is_socket(&meta.file_type()));
        let dead = std::os::unix::net::UnixStream::connect(path)
            .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused);
        if !(is_socket && dead) {
            let hint = "choose another place, or end what listens there";
            return Err(
                Failure::new(Exit::Error, "io", what, hint).because("something is there already")
            );
        }
        std::fs::remove_file(path).map_err(|e| Failure::io(&what, &e))?;
        bind(path).map_err(|e| Failure::io(what, &e))
    }

    /// Binds a socket with the mode 0600 from its first moment on.
    fn bind(path: &Path) -> std::io::Result<UnixListener> {
        let before = rustix::process::umask(Mode::from_raw_mode(0o177));
        let bound = UnixListener::bind(path);
        rustix::process::umask(before);
        bound
    }
}
