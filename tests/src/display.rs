//! A display without a screen (Xvfb), and a person who presses keys on it. What is not here: who
//! looks at it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use x11rb::connection::Connection;
use x11rb::protocol::xproto::{KEY_PRESS_EVENT, KEY_RELEASE_EVENT};
use x11rb::protocol::xtest::ConnectionExt as _;
use x11rb::rust_connection::RustConnection;

/// A display of its own, gone when this is dropped.
pub struct Display {
    name: String,
    person: RustConnection,
    // After the connection: fields are dropped in this order.
    _server: Server,
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Display {
    /// A new display; none where there is no Xvfb (Debian: xvfb).
    ///
    /// # Panics
    /// If Xvfb is there and does not work.
    pub fn open() -> Option<Self> {
        let mut command = Command::new("Xvfb");
        command.args([
            "-displayfd",
            "1",
            "-screen",
            "0",
            "64x64x24",
            "-nolisten",
            "tcp",
            // Else the server begins anew when its last client leaves, and drops whoever comes then.
            "-noreset",
        ]);

        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut server = Server(child);
        let mut line = String::new();
        let said = server.0.stdout.take().expect("a pipe");
        BufReader::new(said)
            .read_line(&mut line)
            .expect("Xvfb says its number");

        let name = format!(":{}", line.trim());
        let (person, _) = x11rb::connect(Some(&name)).expect("the display answers");
        Some(Self {
            name,
            person,
            _server: server,
        })
    }

    /// What it is called, such as `:1`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Presses a key and lets it go.
    ///
    /// # Panics
    /// If the display is gone.
    pub fn press_key(&self) {
        for kind in [KEY_PRESS_EVENT, KEY_RELEASE_EVENT] {
            self.person
                .xtest_fake_input(kind, 38, 0, x11rb::NONE, 0, 0, 0)
                .expect("the display takes a key");
        }
        self.person.flush().expect("the display takes a key");
    }
}
