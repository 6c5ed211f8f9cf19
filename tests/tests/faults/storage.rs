//! S3-compatible storage for one test: a place of its own in the bucket of `tests/s3`, seen past the
//! front of the server, and reached through a proxy that breaks as a test says.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use tests::Http;
use uuid::Uuid;

/// How the proxy treats what comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Front {
    /// It passes all on.
    Open,
    /// It hangs up.
    Closed,
    /// It answers that the service is unavailable.
    Unavailable,
    /// It passes requests on, and no answers.
    Mute,
}

/// A place in the bucket.
pub(crate) struct Storage {
    prefix: String,
    files: Http,
    proxy: Proxy,
}

impl Storage {
    /// `None` where there is none; says so.
    pub(crate) fn new() -> Option<Self> {
        let (place, files) = (
            std::env::var("DESKGRID_TEST_S3"),
            std::env::var("DESKGRID_TEST_S3_FILES"),
        );
        let (Ok(place), Ok(files)) = (place, files) else {
            super::skip("DESKGRID_TEST_S3 names no storage (tests/s3 starts one)");
            return None;
        };
        Some(Self {
            prefix: Uuid::from_bytes(rand::random()).simple().to_string(),
            files: Http::tcp(&files).with("Accept", "application/json"),
            proxy: Proxy::to(place.trim_start_matches("http://")),
        })
    }

    /// Its address, as for `--content`.
    pub(crate) fn content(&self) -> String {
        format!("s3://deskgrid/{}", self.prefix)
    }

    /// The settings of a master that has its content there.
    pub(crate) fn settings(&self) -> String {
        self.settings_at(&format!("http://{}", self.proxy.address))
    }

    /// The same of a master that goes to the server itself by https; `None` where the server has no
    /// certificate.
    pub(crate) fn settings_by_https(&self) -> Option<String> {
        let Ok(endpoint) = std::env::var("DESKGRID_TEST_S3_TLS") else {
            super::skip("the storage has no certificate (tests/s3 makes one by openssl)");
            return None;
        };
        Some(self.settings_at(&endpoint))
    }

    fn settings_at(&self, endpoint: &str) -> String {
        let content = self.content();
        format!(
            "content = \"{content}\"\ncontent_grace = \"2s\"\n[s3]\nendpoint = \"{endpoint}\"\n"
        )
    }

    /// From now on the proxy does this.
    pub(crate) fn set(&self, front: Front) {
        self.proxy.front.store(front as u8, Ordering::SeqCst);
        self.proxy.answered.store(false, Ordering::SeqCst);
    }

    /// Whether an object was written whose writer was not told.
    pub(crate) fn has_answered(&self) -> bool {
        self.proxy.answered.load(Ordering::SeqCst)
    }

    /// The names of all objects of content, as paths of the server's files.
    pub(crate) fn objects(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![format!("/buckets/deskgrid/{}/content", self.prefix)];
        while let Some(dir) = open.pop() {
            let answer = self.files.get(&format!("{dir}/?limit=10000"));
            if answer.status == 404 {
                continue;
            }
            let listed = answer.expect(200).json();
            for entry in listed["Entries"].as_array().into_iter().flatten() {
                let path = entry["FullPath"].as_str().expect("a path").to_owned();
                // Directories have this bit in their mode.
                let is_dir = entry["Mode"]
                    .as_u64()
                    .is_some_and(|mode| mode & (1 << 31) != 0);
                if is_dir {
                    open.push(path);
                } else {
                    found.push(path);
                }
            }
        }
        found.sort_unstable();
        found
    }

    /// The objects with these bytes as their content, whole or not.
    pub(crate) fn objects_of(&self, content: &[u8]) -> Vec<String> {
        let hash = blake3::hash(content).to_string();
        let within = format!("/{}/{}/", &hash[..2], &hash[2..]);
        let mut found = self.objects();
        found.retain(|path| path.contains(&within));
        found
    }

    /// Reads an object.
    pub(crate) fn read(&self, path: &str) -> Vec<u8> {
        self.files.get(path).expect(200).body
    }

    /// Removes an object by hand.
    pub(crate) fn remove(&self, path: &str) {
        self.files.send("DELETE", path, None).expect(204);
    }

    /// Gives an object other bytes.
    pub(crate) fn damage(&self, path: &str, bytes: &[u8]) {
        let sent = self.files.send("PUT", path, Some(bytes));
        assert!(sent.status < 300, "{}", sent.status);
    }
}

/// A proxy before the server.
struct Proxy {
    address: String,
    front: Arc<AtomicU8>,
    answered: Arc<AtomicBool>,
}

impl Proxy {
    fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let proxy = Self {
            address: listener.local_addr().expect("bound").to_string(),
            front: Arc::new(AtomicU8::new(Front::Open as u8)),
            answered: Arc::default(),
        };
        let (server, front, answered) = (
            server.to_owned(),
            proxy.front.clone(),
            proxy.answered.clone(),
        );
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (server, front, answered) = (server.clone(), front.clone(), answered.clone());
                thread::spawn(move || serve(client, &server, &front, &answered));
            }
        });
        proxy
    }
}

/// Serves one connection, until the proxy is told to do something else.
fn serve(mut client: TcpStream, server: &str, front: &Arc<AtomicU8>, answered: &AtomicBool) {
    let begun = front.load(Ordering::SeqCst);
    if begun == Front::Closed as u8 {
        return;
    }
    if begun == Front::Unavailable as u8 {
        // It is read first: otherwise the answer is lost with the connection.
        let _ = client.set_read_timeout(Some(Duration::from_millis(300)));
        let mut piece = [0; 65_536];
        while matches!(client.read(&mut piece), Ok(1..)) {}
        let _ = client.write_all(
            b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        );
        return;
    }

    let Ok(to_server) = TcpStream::connect(server) else {
        return;
    };
    let mut forward = (
        client.try_clone().expect("a socket"),
        to_server.try_clone().expect("a socket"),
    );
    let front_there = front.clone();
    thread::spawn(move || {
        let (from, to) = &mut forward;
        copy(from, |piece| {
            front_there.load(Ordering::SeqCst) != Front::Closed as u8 && to.write_all(piece).is_ok()
        });
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });

    let mut from = to_server;
    copy(&mut from, |piece| match front.load(Ordering::SeqCst) {
        mute if mute == Front::Mute as u8 => {
            if piece.starts_with(b"HTTP/1.1 200") {
                answered.store(true, Ordering::SeqCst);
            }
            true
        }
        open if open == Front::Open as u8 => client.write_all(piece).is_ok(),
        _ => false,
    });
    let _ = from.shutdown(Shutdown::Both);
    let _ = client.shutdown(Shutdown::Both);
}

fn copy(from: &mut TcpStream, mut to: impl FnMut(&[u8]) -> bool) {
    let mut piece = vec![0; 65_536];
    while let Ok(count @ 1..) = from.read(&mut piece) {
        if !to(&piece[..count]) {
            return;
        }
    }
}
