//! Executes `deskgrid dashboard`: serves the API on this machine, for its user's browsers and
//! programs, until the terminal goes away.

mod door;
mod pool;

use std::sync::Arc;

use api::{HttpBounds, Tickets};

use super::Context;
use super::browser::{WayIn, listen, private_dir};
use crate::args::dashboard::DashboardArgs;
use crate::failure::{Exit, Failure};
use door::{Gateway, LinkDoor};

/// Serves until it is stopped.
pub(super) async fn run(context: &Context, args: DashboardArgs) -> Result<Exit, Failure> {
    let (door, who) = LinkDoor::open(&context.state).await?;
    let door: Arc<dyn api::Door> = Arc::new(Gateway(door));
    let private = private_dir()?;

    let (listener, port) = listen(args.port).await?;
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

    let way_in = WayIn {
        context,
        tickets: &tickets,
        socket: path,
        tied: args.tied,
    };
    let opens = (!args.no_open).then_some(private.path());
    way_in.stay(opens, std::future::pending()).await?;
    Ok(Exit::Well)
}

/// The socket for programs.
#[cfg(unix)]
mod socket {
    use std::io::ErrorKind;
    use std::path::{Path, PathBuf};

    use rustix::fs::Mode;
    use tokio::net::UnixListener;

    use crate::failure::Failure;

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
            return Err(Failure::error("io", what, hint).because("something is there already"));
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
