//! Keys to X displays: which the usual files hold, and what the process behind a display says of
//! itself.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Families of addresses in such a file: this host, and any.
const LOCAL: u16 = 256;
const WILD: u16 = 65_535;
/// Programs behind the displays of Wayland desktops.
const COMPOSITORS: [&str; 9] = [
    "Xwayland",
    "gnome-shell",
    "kwin_wayland",
    "kwin_wayland_wrapper",
    "sway",
    "labwc",
    "Hyprland",
    "weston",
    "cosmic-comp",
];
/// The only kind of key that is in use.
const COOKIE: &[u8] = b"MIT-MAGIC-COOKIE-1";

/// The key to a display of this host, from the bytes of a file of keys (as `Xau` writes them):
/// big-endian, each entry a family and four counted strings: address, number of the display, name
/// and key.
pub(super) fn key(bytes: &[u8], display: u32) -> Option<Vec<u8>> {
    let mut rest = bytes;
    let wanted = display.to_string();
    while !rest.is_empty() {
        let family = word(&mut rest)?;
        let _address = counted(&mut rest)?;
        let number = counted(&mut rest)?;
        let name = counted(&mut rest)?;
        let key = counted(&mut rest)?;
        let ours =
            matches!(family, LOCAL | WILD) && (number.is_empty() || number == wanted.as_bytes());
        if ours && name == COOKIE {
            return Some(key.to_owned());
        }
    }

    None
}

fn word(rest: &mut &[u8]) -> Option<u16> {
    let (word, after) = rest.split_first_chunk::<2>()?;
    *rest = after;
    Some(u16::from_be_bytes(*word))
}

fn counted<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = word(rest)?.into();
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(text)
}

/// The process at the other end of a display's socket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DisplayServer {
    /// The file of keys that it was given.
    pub keys: Option<PathBuf>,
    /// Whether it shows a desktop on this host's own screen, with this host's own input devices.
    pub here: bool,
    /// Whether it is a Wayland compositor, or the server that one starts for programs of X.
    pub wayland: bool,
}

impl DisplayServer {
    /// Reads the server's command line, as far as the system shows it.
    pub(super) fn of(socket: &UnixStream, proc: &Path) -> Self {
        let pid =
            rustix::net::sockopt::socket_peercred(socket).map(|peer| peer.pid.as_raw_nonzero());
        let line = pid
            .ok()
            .and_then(|pid| fs::read(proc.join(pid.to_string()).join("cmdline")).ok());
        line.map(|line| Self::called(&String::from_utf8_lossy(&line)))
            .unwrap_or_default()
    }

    /// By the arguments, which zero bytes end.
    fn called(line: &str) -> Self {
        let mut words = line.split_terminator('\0');
        let program = words
            .next()
            .unwrap_or_default()
            .rsplit('/')
            .next()
            .unwrap_or_default();

        let words: Vec<&str> = words.collect();
        let after = |flag: &str| {
            words
                .iter()
                .position(|word| *word == flag)
                .and_then(|at| words.get(at + 1))
        };

        let terminal = words.iter().any(|word| {
            word.strip_prefix("vt")
                .is_some_and(|n| n.parse::<u32>().is_ok())
        });
        Self {
            keys: after("-auth").map(PathBuf::from),
            here: matches!(program, "X" | "Xorg" | "Xorg.bin" | "Xorg.wrap")
                && (terminal || after("-seat").is_some()),
            wayland: COMPOSITORS.contains(&program),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(family: u16, number: &str, name: &[u8], key: &[u8]) -> Vec<u8> {
        let counted =
            |text: &[u8]| [&u16::try_from(text.len()).unwrap().to_be_bytes(), text].concat();
        [
            family.to_be_bytes().to_vec(),
            counted(b"host"),
            counted(number.as_bytes()),
            counted(name),
            counted(key),
        ]
        .concat()
    }

    #[test]
    fn the_key_is_that_of_the_display() {
        let file = [
            entry(LOCAL, "1", COOKIE, b"one"),
            entry(0, "0", COOKIE, b"network"),
            entry(LOCAL, "0", b"XDM", b"old"),
            entry(WILD, "", COOKIE, b"any"),
        ];
        let file = file.concat();
        assert_eq!(key(&file, 1).as_deref(), Some(&b"one"[..]));
        assert_eq!(key(&file, 0).as_deref(), Some(&b"any"[..]));
        assert_eq!(
            key(&file[..40], 0),
            None,
            "a file that ends too early has what comes before"
        );
        assert_eq!(key(b"", 0), None);
    }

    #[test]
    fn servers_of_this_hosts_screen_are_told_from_others() {
        let gdm = "/usr/lib/xorg/Xorg\0vt2\0-displayfd\x003\0-auth\0/run/user/1000/gdm/Xauthority\0-nolisten\0tcp\0";
        assert_eq!(
            DisplayServer::called(gdm),
            DisplayServer {
                keys: Some("/run/user/1000/gdm/Xauthority".into()),
                here: true,
                wayland: false,
            }
        );

        assert!(!DisplayServer::called("Xvfb\0:99\0-screen\x000\0").here);
        assert!(
            !DisplayServer::called(
                "/usr/lib/xorg/Xorg\0:10\0-auth\0.Xauthority\0-config\0xrdp/xorg.conf\0"
            )
            .here
        );

        assert_eq!(DisplayServer::called(""), DisplayServer::default());
    }
}
