//! The front of storage for tests: a proxy before the server, which passes on, breaks, holds or lies as a
//! test says. Clients send one request after the other on a connection, and wait for each answer.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// How the proxy treats what comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Front {
    /// It passes all on.
    Open,
    /// It hangs up.
    Closed,
    /// It answers that the service is unavailable.
    Unavailable,
    /// It answers that there is too much to do.
    SlowDown,
    /// It passes requests on, and no answers.
    Mute,
    /// It hangs up in the middle of a large object.
    BreaksOff,
    /// It passes all on but the first deletion, which waits for [`Proxy::release`].
    HoldsDeletion,
    /// It acknowledges objects, and drops them.
    Drops,
    /// It acknowledges objects, drops them, and says that they are there until it is asked for them.
    Lies,
}

/// The answers of a server that does not serve now.
const UNAVAILABLE: &str =
    "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
const SLOW_DOWN: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>SlowDown</Code>\
    <Message>Please reduce your request rate.</Message><RequestId>1</RequestId></Error>";

/// The bytes of answers on one connection behind which [`Front::BreaksOff`] hangs up.
const LARGE: usize = 256 << 10;

/// A proxy before the server.
pub(crate) struct Proxy {
    pub(crate) address: String,
    inside: Arc<Inside>,
}

struct Inside {
    server: String,
    front: Mutex<Front>,
    /// Whether a writer was not told of its object, or the deletion that was held is done.
    answered: AtomicBool,
    /// Whether a deletion was held, and whether it may go on.
    held: AtomicBool,
    released: AtomicBool,
    /// The sizes of objects that were acknowledged and dropped, by path.
    dropped: Mutex<BTreeMap<String, usize>>,
}

impl Proxy {
    pub(crate) fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let proxy = Self {
            address: listener.local_addr().expect("bound").to_string(),
            inside: Arc::new(Inside {
                server: server.to_owned(),
                front: Mutex::new(Front::Open),
                answered: AtomicBool::default(),
                held: AtomicBool::default(),
                released: AtomicBool::default(),
                dropped: Mutex::default(),
            }),
        };
        let inside = proxy.inside.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let inside = inside.clone();
                thread::spawn(move || serve(client, &inside));
            }
        });
        proxy
    }

    pub(crate) fn set(&self, front: Front) {
        *lock(&self.inside.front) = front;
        self.inside.answered.store(false, Ordering::SeqCst);
    }

    /// Whether an object was written whose writer was not told, or what was held is done.
    pub(crate) fn has_answered(&self) -> bool {
        self.inside.answered.load(Ordering::SeqCst)
    }

    /// Whether a deletion stands before the server.
    pub(crate) fn holds(&self) -> bool {
        self.inside.held.load(Ordering::SeqCst)
    }

    /// Lets the deletion that is held go on.
    pub(crate) fn release(&self) {
        self.inside.released.store(true, Ordering::SeqCst);
    }

    /// The number of objects that were acknowledged and dropped.
    pub(crate) fn dropped(&self) -> usize {
        lock(&self.inside.dropped).len()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one connection, until the proxy is told to do something else.
fn serve(mut client: TcpStream, inside: &Arc<Inside>) {
    let front = *lock(&inside.front);
    match front {
        Front::Closed => return,
        Front::Unavailable => return refuse(&mut client, UNAVAILABLE),
        Front::SlowDown => return refuse(&mut client, &slow_down()),
        _ => {}
    }

    let Ok(to_server) = TcpStream::connect(&inside.server) else {
        return;
    };
    let (from, to) = (
        client.try_clone().expect("a socket"),
        to_server.try_clone().expect("a socket"),
    );
    let holds = Arc::new(AtomicBool::default());
    let (there, holds_there) = (inside.clone(), holds.clone());
    thread::spawn(move || pass_requests(from, to, &there, &holds_there));
    pass_answers(to_server, &mut client, inside, &holds);
}

/// Reads a request before it answers: otherwise the answer is lost with the connection.
fn refuse(client: &mut TcpStream, answer: &str) {
    let _ = client.set_read_timeout(Some(Duration::from_millis(300)));
    let mut piece = [0; 65_536];
    while matches!(client.read(&mut piece), Ok(1..)) {}
    let _ = client.write_all(answer.as_bytes());
}

fn slow_down() -> String {
    let length = SLOW_DOWN.len();
    let head = "HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\nConnection: close";
    format!("{head}\r\nContent-Length: {length}\r\n\r\n{SLOW_DOWN}")
}

fn pass_requests(
    mut client: TcpStream,
    mut server: TcpStream,
    inside: &Inside,
    holds: &AtomicBool,
) {
    let mut piece = vec![0; 65_536];
    while let Ok(count @ 1..) = client.read(&mut piece) {
        let begun = &piece[..count];
        let front = *lock(&inside.front);
        let goes_on = match front {
            Front::Closed => false,
            Front::Drops | Front::Lies if begun.starts_with(b"PUT ") => {
                inside.drop_object(begun, &mut client)
            }
            Front::Lies if begun.starts_with(b"HEAD ") && inside.size_of(begun).is_some() => {
                let size = inside.size_of(begun).unwrap_or_default();
                let headers = "Last-Modified: Fri, 27 Nov 2026 00:00:00 GMT\r\nETag: \"x\"";
                let answer =
                    format!("HTTP/1.1 200 OK\r\n{headers}\r\nContent-Length: {size}\r\n\r\n");
                client.write_all(answer.as_bytes()).is_ok()
            }
            Front::HoldsDeletion if is_deletion(begun) => {
                inside.hold(holds);
                server.write_all(begun).is_ok()
            }
            _ => server.write_all(begun).is_ok(),
        };
        if !goes_on {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}

fn pass_answers(
    mut server: TcpStream,
    client: &mut TcpStream,
    inside: &Inside,
    holds: &AtomicBool,
) {
    let mut piece = vec![0; 65_536];
    let mut passed = 0;
    while let Ok(count @ 1..) = server.read(&mut piece) {
        let answer = &piece[..count];
        passed += count;
        let front = *lock(&inside.front);
        if holds.load(Ordering::SeqCst) && answer.starts_with(b"HTTP/1.1 2") {
            inside.answered.store(true, Ordering::SeqCst);
        }
        let goes_on = match front {
            Front::Mute => {
                if answer.starts_with(b"HTTP/1.1 200") {
                    inside.answered.store(true, Ordering::SeqCst);
                }
                true
            }
            Front::Closed | Front::Unavailable | Front::SlowDown => false,
            Front::BreaksOff if passed > LARGE => false,
            _ => client.write_all(answer).is_ok() || holds.load(Ordering::SeqCst),
        };
        if !goes_on {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}

/// The path of the request that begins so.
fn path_of(begun: &[u8]) -> String {
    let text = String::from_utf8_lossy(begun);
    let target = text.split(' ').nth(1).unwrap_or_default();
    target.split('?').next().unwrap_or_default().to_owned()
}

/// Whether a request deletes objects, one or a list of them.
fn is_deletion(begun: &[u8]) -> bool {
    let text = String::from_utf8_lossy(begun);
    let line = text.lines().next().unwrap_or_default();
    line.starts_with("DELETE ") || (line.starts_with("POST ") && line.contains("?delete"))
}

impl Inside {
    /// Waits with the first deletion until it may go on.
    fn hold(&self, holds: &AtomicBool) {
        if self.held.swap(true, Ordering::SeqCst) {
            return;
        }
        while !self.released.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(10));
        }
        holds.store(true, Ordering::SeqCst);
    }

    fn size_of(&self, begun: &[u8]) -> Option<usize> {
        lock(&self.dropped).get(&path_of(begun)).copied()
    }

    /// Reads the rest of an object, and acknowledges it.
    fn drop_object(&self, begun: &[u8], client: &mut TcpStream) -> bool {
        let mut read = begun.to_vec();
        let mut piece = vec![0; 65_536];
        loop {
            if let Some(size) = whole(&read) {
                lock(&self.dropped).insert(path_of(begun), size);
                let answer = "HTTP/1.1 200 OK\r\nETag: \"x\"\r\nContent-Length: 0\r\n\r\n";
                return client.write_all(answer.as_bytes()).is_ok();
            }
            match client.read(&mut piece) {
                Ok(count @ 1..) => read.extend(&piece[..count]),
                _ => return false,
            }
        }
    }
}

/// The size of the body of a request, once all of it has come.
fn whole(request: &[u8]) -> Option<usize> {
    let end = request.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = String::from_utf8_lossy(&request[..end]).to_ascii_lowercase();
    let mut lines = head.lines();
    let size = lines.find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
    let size = size.unwrap_or(0);
    (request.len() - end >= size).then_some(size)
}
