//! A way for connections to a server that can be cut, fall silent, or lose answers.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// The time after which a connection looks at what has become of the way.
const LOOK: Duration = Duration::from_millis(20);

/// Passes connections on to a server of PostgreSQL.
pub(crate) struct Way {
    url: String,
    state: Arc<State>,
}

/// What becomes of connections.
#[derive(Default)]
struct State {
    /// They end, and new ones as well.
    cut: AtomicBool,
    /// Nothing comes through, and nobody is told.
    silent: AtomicBool,
    /// The number of commits whose answers are still to be lost, with the connection.
    lost_answers: AtomicU32,
    /// It falls silent after the next takeover that comes by.
    silent_after_takeover: AtomicBool,
}

/// The words of a takeover.
const TAKEOVER: &[u8] = b"UPDATE lease l SET token";

impl Way {
    /// A way to the server of this address, `postgres://USER@HOST:PORT/DATABASE`.
    pub(crate) fn to(url: &str) -> Self {
        let (front, rest) = url.split_once('@').expect("a user");
        let (server, database) = rest.split_once('/').expect("a database");
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let here = listener.local_addr().expect("bound");
        let url = format!("{front}@{here}/{database}");

        let state = Arc::new(State::default());
        let (shared, server) = (state.clone(), server.to_owned());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&server) else {
                    continue;
                };
                let state = shared.clone();
                std::thread::spawn(move || state.pass_on(&client, &server));
            }
        });
        Self { url, state }
    }

    /// The address of the database by this way.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Connections end, and new ones as well; or no more.
    pub(crate) fn cut(&self, cut: bool) {
        self.state.cut.store(cut, Ordering::SeqCst);
    }

    /// Nothing comes through, and connections stay: a cable is pulled, or put in again.
    pub(crate) fn silence(&self, silent: bool) {
        self.state.silent.store(silent, Ordering::SeqCst);
    }

    /// The answers to so many further commits are lost with their connections: they are done, and
    /// whoever sent them does not hear of it.
    pub(crate) fn lose_answers(&self, commits: u32) {
        self.state.lost_answers.store(commits, Ordering::SeqCst);
    }

    /// Nothing comes through from the moment at which a master has taken the store over by this way.
    pub(crate) fn silence_after_takeover(&self) {
        self.state
            .silent_after_takeover
            .store(true, Ordering::SeqCst);
    }

    /// The number of commits whose answers are still to be lost.
    pub(crate) fn answers_to_lose(&self) -> u32 {
        self.state.lost_answers.load(Ordering::SeqCst)
    }
}

impl State {
    fn pass_on(&self, client: &TcpStream, server: &TcpStream) {
        let in_doubt = AtomicBool::new(false);
        let takes_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                self.pass(client, server, |bytes| {
                    if has(bytes, TAKEOVER)
                        && self.silent_after_takeover.swap(false, Ordering::SeqCst)
                    {
                        takes_over.store(true, Ordering::SeqCst);
                    }
                    if has(bytes, b"COMMIT\0") && self.lost_answers.load(Ordering::SeqCst) > 0 {
                        in_doubt.store(true, Ordering::SeqCst);
                    }
                    true
                });
            });
            scope.spawn(|| {
                let mut kept = true;
                self.pass(server, client, |bytes| {
                    if takes_over.load(Ordering::SeqCst) && has(bytes, b"COMMIT\0") {
                        self.silent.store(true, Ordering::SeqCst);
                    }
                    if in_doubt.load(Ordering::SeqCst) {
                        kept = false;
                        // The answer has this word as well, once it is done.
                        if has(bytes, b"COMMIT\0") {
                            self.lost_answers.fetch_sub(1, Ordering::SeqCst);
                            let _ = client.shutdown(Shutdown::Both);
                            let _ = server.shutdown(Shutdown::Both);
                        }
                    }
                    kept
                });
            });
        });
    }

    /// Passes bytes on as long as the way is not cut, those that `look` lets through.
    fn pass(&self, mut from: &TcpStream, mut to: &TcpStream, mut look: impl FnMut(&[u8]) -> bool) {
        let _ = from.set_read_timeout(Some(LOOK));
        let mut bytes = [0; 65_536];
        while !self.cut.load(Ordering::SeqCst) {
            let read = from.read(&mut bytes);
            while self.silent.load(Ordering::SeqCst) && !self.cut.load(Ordering::SeqCst) {
                std::thread::sleep(LOOK);
            }
            match read {
                Ok(0) => break,
                Ok(read) if look(&bytes[..read]) => {
                    if to.write_all(&bytes[..read]).is_err() {
                        break;
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        let _ = from.shutdown(Shutdown::Both);
        let _ = to.shutdown(Shutdown::Both);
    }
}

fn has(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|part| part == word)
}
