//! Reads needs as users write them: `os=windows,mem=4G,label=lab3`.

use std::collections::BTreeSet;

use super::{BadNeeds, Needs};
use crate::platform::PlatformName;

/// The operating systems that a job can ask for, by Rust's names.
pub(super) const SYSTEMS: &[&str] = &["linux", "windows", "macos", "freebsd"];
/// The processor architectures.
pub(super) const PROCESSORS: &[&str] = &[
    "x86_64",
    "aarch64",
    "x86",
    "arm",
    "riscv64",
    "powerpc64",
    "s390x",
];
/// The kinds of C libraries.
pub(super) const LIBRARIES: &[&str] = &["gnu", "musl"];

/// Needs as they are read, each key at most once.
#[derive(Default)]
struct NeedsReader {
    needs: Needs,
    given: BTreeSet<&'static str>,
}

impl Needs {
    /// Reads texts such as `os=windows,mem=4G`: `KEY=VALUE` with commas between.
    ///
    /// # Errors
    /// Names the first part that makes no sense, or contradicts what stands before it.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Needs, BadNeeds> {
        let mut reader = NeedsReader::default();
        let parts = texts.into_iter().flat_map(|text| text.split(','));
        for part in parts {
            reader.read(part.trim())?;
        }
        Ok(reader.needs)
    }
}

impl NeedsReader {
    fn read(&mut self, part: &str) -> Result<(), BadNeeds> {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| BadNeeds::NoPair(part.escape_debug().to_string()))?;

        match key.trim() {
            "os" => self.needs.os = Some(self.word("os", value, SYSTEMS)?),
            "arch" => self.needs.arch = Some(self.word("arch", value, PROCESSORS)?),
            "libc" => self.needs.libc = Some(self.word("libc", value, LIBRARIES)?),
            "platform" => {
                let name: PlatformName = value.parse()?;
                self.needs.os = Some(self.word("os", name.os(), SYSTEMS)?);
                self.needs.arch = Some(self.word("arch", name.arch(), PROCESSORS)?);
            }
            "cpus" => self.needs.takes.cores = self.number("cpus", count("cpus", value)?)?,
            "gpu" | "gpus" => self.needs.takes.gpus = self.number("gpu", count("gpu", value)?)?,
            "mem" => self.needs.takes.memory_mib = self.number("mem", size("mem", value)?)?,
            "disk" => self.needs.disk_mib = self.number("disk", size("disk", value)?)?,
            "label" => {
                self.needs.labels.insert(value.parse()?);
            }
            other => return Err(BadNeeds::Key(other.escape_debug().to_string())),
        }
        Ok(())
    }

    fn once(&mut self, key: &'static str) -> Result<(), BadNeeds> {
        if self.given.insert(key) {
            Ok(())
        } else {
            Err(BadNeeds::Twice(key))
        }
    }

    fn word(&mut self, key: &'static str, value: &str, known: &[&str]) -> Result<String, BadNeeds> {
        if !known.contains(&value) {
            let value = value.escape_debug().to_string();
            return Err(BadNeeds::Word(key, value, known.join(", ")));
        }
        self.once(key)?;
        Ok(value.to_owned())
    }

    fn number(&mut self, key: &'static str, value: u32) -> Result<u32, BadNeeds> {
        self.once(key)?;
        if value > super::MOST {
            return Err(BadNeeds::TooMuch(key));
        }
        Ok(value)
    }
}

/// Returns the whole number.
fn count(key: &'static str, value: &str) -> Result<u32, BadNeeds> {
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    if !digits {
        return Err(BadNeeds::Count(key, value.escape_debug().to_string()));
    }
    // A number that is too long for the type is more than any host has, too.
    match value.parse() {
        Ok(0) => Err(BadNeeds::Nothing(key)),
        Ok(number) => Ok(number),
        Err(_) => Err(BadNeeds::TooMuch(key)),
    }
}

fn size(key: &'static str, value: &str) -> Result<u32, BadNeeds> {
    match mebibytes(value) {
        None => Err(BadNeeds::Size(key, value.escape_debug().to_string())),
        Some(0) => Err(BadNeeds::Nothing(key)),
        Some(mib) => u32::try_from(mib).map_err(|_| BadNeeds::TooMuch(key)),
    }
}

/// Parses a size such as `512M`, `1.5G` or `2TiB`, rounded up to MiB; `None` where it is none. The
/// units are powers of 1024.
pub fn mebibytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = text.split_at(end);
    let number: f64 = number.parse().ok()?;
    let mib = match unit {
        "M" | "MiB" => 1.0,
        "G" | "GiB" => 1024.0,
        "T" | "TiB" => 1024.0 * 1024.0,
        _ => return None,
    };
    Some((number * mib).ceil() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(texts: &[&str]) -> String {
        let read = Needs::parse(texts.iter().copied());
        read.expect_err("it makes no sense").to_string()
    }

    #[test]
    fn each_kind_of_nonsense_is_refused_in_its_own_words() {
        for (texts, said) in [
            (&["windows"][..], "write KEY=VALUE"),
            (&["ram=4G"], "`ram` is nothing that a job can need"),
            (&["os=windoze"], "say one of linux, windows"),
            (&["platform=linux"], "is no platform"),
            (
                &["platform=linux-x86_64", "os=windows"],
                "`os` is given twice",
            ),
            (&["mem=4"], "write a number with M, G or T"),
            (&["mem=-4G"], "is no size"),
            (&["mem=nanG"], "is no size"),
            (&["mem=1.2.3G"], "is no size"),
            (&["mem=0G"], "asks for nothing"),
            (&["mem=99999999999T"], "more than any host"),
            (&["cpus=0"], "asks for nothing"),
            (&["cpus=1.5"], "is no count"),
            (&["cpus=99999999999999999999"], "more than any host"),
            (&["cpus=1,cpus=2"], "`cpus` is given twice"),
            (&[""], "write KEY=VALUE"),
            (&["cpus=2,,mem=1G"], "write KEY=VALUE"),
            (&["mem=1K"], "write a number with M, G or T"),
            (&["gpu=1", "gpu=2"], "`gpu` is given twice"),
            (&["label="], "is no label"),
            (&["label=a b"], "is no label"),
        ] {
            let why = refused(texts);
            assert!(why.contains(said), "{texts:?}: {why}");
        }
    }

    #[test]
    fn sizes_are_rounded_up_to_whole_mebibytes() {
        assert_eq!(mebibytes("1.5G"), Some(1536));
        assert_eq!(mebibytes("2TiB"), Some(2 << 20));
        for bad in ["", "G", "4", "4g", "4GB", "1e3M", ".", "1K", "∞G"] {
            assert_eq!(mebibytes(bad), None, "{bad}");
        }
    }
}
