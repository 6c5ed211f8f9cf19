//! An installer as a shell script with the plain archive behind its text.

use super::{PlainPackage, SiteFiles};

/// The script, with names between at signs for what differs.
const TEXT: &str = include_str!("installer.sh");

/// Makes the installer.
pub(super) fn installer(plain: &PlainPackage, site: &SiteFiles, token: &str) -> Vec<u8> {
    let settings = site.settings.as_deref().unwrap_or_default().trim_end();
    let script = TEXT
        .replace("@VERSION@", &plain.version)
        .replace("@ARCH@", &plain.arch)
        .replace("@JOIN@", site.join_file(token).trim_end());
    let lines = script.lines().count() + settings.lines().count().saturating_sub(1);

    // What the settings say is put in last, so that nothing in them is taken for a name.
    let script = script.replace("@LINES@", &lines.to_string());
    let mut bytes = script.replace("@SETTINGS@", settings).into_bytes();
    bytes.extend_from_slice(&plain.bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use crate::args::package::InstallerKind;

    use super::*;

    #[test]
    fn the_archive_begins_behind_the_line_that_the_script_names() {
        let plain = PlainPackage {
            kind: InstallerKind::Sh,
            arch: "x86_64".to_owned(),
            version: "1.2.3".to_owned(),
            bytes: b"\xfd7zXZ\nand more\n".to_vec(),
        };
        let site = SiteFiles {
            master: "grid:7411".to_owned(),
            settings: Some("slots = 1\n".to_owned()),
        };
        let made = installer(&plain, &site, "dg1.secret");

        let text = String::from_utf8_lossy(&made);
        let lines = text
            .lines()
            .find_map(|line| line.strip_prefix("TEXT_LINES="));
        let lines: usize = lines.expect("the line").parse().expect("a number");
        let behind: Vec<&[u8]> = made.splitn(lines + 1, |byte| *byte == b'\n').collect();
        assert_eq!(behind.last().copied(), Some(&plain.bytes[..]));
        assert!(text.contains("token = \"dg1.secret\"\n") && text.contains("\nslots = 1\n"));
        assert!(!text.contains('@'), "{text}");
    }

    #[test]
    fn the_script_has_no_name_that_a_shell_gives_another_value() {
        // After a program in a terminal bash puts the terminal's size there.
        for name in ["LINES=", "COLUMNS="] {
            let sets = |word: &str| word.starts_with(name);
            assert!(!TEXT.split_whitespace().any(sets), "{name}");
        }
    }
}
