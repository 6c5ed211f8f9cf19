//! A small client of HTTP/1.1, which sends what a test says, sound or not.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

/// The longest time that a test waits for bytes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server, and the headers that a client of it sends with every request.
#[derive(Debug, Clone)]
pub struct Http {
    place: Place,
    headers: Vec<(String, String)>,
}

/// A place at which a server listens.
#[derive(Debug, Clone)]
enum Place {
    Tcp(String),
    Unix(PathBuf),
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, with names in small letters.
    pub headers: BTreeMap<String, String>,
    /// Its body.
    pub body: Vec<u8>,
}

/// A stream of bytes both ways.
trait Both: Read + Write + Send {}
impl<T: Read + Write + Send> Both for T {}

impl Answer {
    /// Returns the body as text.
    ///
    /// # Panics
    /// If it is no UTF-8.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("UTF-8")
    }

    /// Returns the body as JSON.
    ///
    /// # Panics
    /// If it is none.
    #[track_caller]
    pub fn json(&self) -> Value {
        let read = serde_json::from_slice(&self.body);
        read.unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// Returns the answer if it has this status.
    ///
    /// # Panics
    /// If it has another one.
    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        let body = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{body}");
        self
    }
}

/// A body that is read while it comes.
pub struct Coming {
    reader: BufReader<Box<dyn Both>>,
    chunked: bool,
    rest: Vec<u8>,
}

impl Coming {
    /// Returns the next line, without its end; `None` when the body ends or breaks off.
    pub fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line[..end]).into_owned();
                return Some(line);
            }
            let piece = self.piece()?;
            self.rest.extend(piece);
        }
    }

    /// Returns the next bytes.
    fn piece(&mut self) -> Option<Vec<u8>> {
        if !self.chunked {
            let mut piece = vec![0; 4096];
            let count = self.reader.read(&mut piece).ok()?;
            piece.truncate(count);
            return (count > 0).then_some(piece);
        }
        let mut head = String::new();
        self.reader.read_line(&mut head).ok()?;
        let size = usize::from_str_radix(head.trim(), 16).ok()?;
        let mut piece = vec![0; size + 2];
        self.reader.read_exact(&mut piece).ok()?;
        piece.truncate(size);
        (size > 0).then_some(piece)
    }
}

impl Http {
    /// A server at an address.
    pub fn tcp(address: &str) -> Self {
        let host = ("Host".to_owned(), address.to_owned());
        Self {
            place: Place::Tcp(address.to_owned()),
            headers: vec![host],
        }
    }

    /// A server at a socket.
    pub fn unix(path: impl AsRef<Path>) -> Self {
        let host = ("Host".to_owned(), "d".to_owned());
        Self {
            place: Place::Unix(path.as_ref().to_owned()),
            headers: vec![host],
        }
    }

    /// The same with this header in every request; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The headers of every request.
    pub fn headers(&self) -> &[(String, String)] {
        &self.headers
    }

    /// Opens a connection.
    fn connect(&self) -> std::io::Result<Box<dyn Both>> {
        Ok(match &self.place {
            Place::Tcp(address) => {
                let stream = TcpStream::connect(address)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
            Place::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                Box::new(stream)
            }
        })
    }

    /// Sends a request, and returns the head of its answer with the body as it comes.
    ///
    /// # Errors
    /// If nobody answers.
    pub fn open(
        &self,
        verb: &str,
        path: &str,
        body: Option<&[u8]>,
    ) -> std::io::Result<(Answer, Coming)> {
        let mut stream = self.connect()?;
        let mut head = format!("{verb} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        if let Some(body) = body {
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        stream.write_all((head + "\r\n").as_bytes())?;
        // A server may refuse before it has read all.
        let _ = stream.write_all(body.unwrap_or_default());

        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let odd = || std::io::Error::other(format!("no HTTP: {line:?}"));
        let status = line
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status = status.ok_or_else(odd)?;

        let mut headers = BTreeMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(": ") else {
                break;
            };
            headers.insert(name.to_ascii_lowercase(), value.to_owned());
        }
        let chunked = headers.contains_key("transfer-encoding");
        let answer = Answer {
            status,
            headers,
            body: Vec::new(),
        };
        let rest = Vec::new();
        Ok((
            answer,
            Coming {
                reader,
                chunked,
                rest,
            },
        ))
    }

    /// Sends a request, and returns the whole answer.
    ///
    /// # Panics
    /// If nobody answers.
    #[track_caller]
    pub fn send(&self, verb: &str, path: &str, body: Option<&[u8]>) -> Answer {
        let opened = self.open(verb, path, body);
        let (mut answer, mut coming) = opened.unwrap_or_else(|e| panic!("{verb} {path}: {e}"));
        let length = answer.headers.get("content-length");
        let length: Option<usize> = length.and_then(|length| length.parse().ok());
        let ends = |body: &Vec<u8>| length.is_some_and(|length| body.len() >= length);
        while verb != "HEAD"
            && !ends(&answer.body)
            && let Some(piece) = coming.piece()
        {
            answer.body.extend(piece);
        }
        answer
    }

    /// Reads something.
    #[track_caller]
    pub fn get(&self, path: &str) -> Answer {
        self.send("GET", path, None)
    }

    /// Sends JSON.
    #[track_caller]
    pub fn post(&self, path: &str, body: &Value) -> Answer {
        let with = self.clone().with("Content-Type", "application/json");
        with.send("POST", path, Some(body.to_string().as_bytes()))
    }
}
