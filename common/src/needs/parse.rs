//! Reads needs as users write them: `os=windows,mem=4G,label=lab3`.

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

impl Needs {
    /// Adds what a text asks for, `KEY=VALUE` with commas between.
    ///
    /// # Errors
    /// Names the first part that makes no sense, or contradicts what was added before.
    pub fn read(&mut self, text: &str) -> Result<(), BadNeeds> {
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        parts.into_iter().try_for_each(|part| self.read_one(part))
    }

    fn read_one(&mut self, part: &str) -> Result<(), BadNeeds> {
        let (key, value) = part
            .split_once('=')
            .ok_or_else(|| BadNeeds::NoPair(part.escape_debug().to_string()))?;

        match key.trim() {
            "os" => word(&mut self.os, "os", value, SYSTEMS),
            "arch" => word(&mut self.arch, "arch", value, PROCESSORS),
            "libc" => word(&mut self.libc, "libc", value, LIBRARIES),
            "platform" => {
                let name: PlatformName = value.parse()?;
                word(&mut self.os, "os", name.os(), SYSTEMS)?;
                word(&mut self.arch, "arch", name.arch(), PROCESSORS)
            }
            "cpus" => {
                let cores = count("cpus", value)?;
                fill(&mut self.takes.cores, 1, "cpus", cores)
            }
            "gpu" | "gpus" => {
                let gpus = count("gpu", value)?;
                fill(&mut self.takes.gpus, 0, "gpu", gpus)
            }
            "mem" => {
                let mib = size("mem", value)?;
                fill(&mut self.takes.memory_mib, 0, "mem", mib)
            }
            "disk" => {
                let mib = size("disk", value)?;
                fill(&mut self.disk_mib, 0, "disk", mib)
            }
            "label" => {
                self.labels.insert(value.parse()?);
                Ok(())
            }
            other => Err(BadNeeds::Key(other.escape_debug().to_string())),
        }
    }
}

fn word(
    place: &mut Option<String>,
    key: &'static str,
    value: &str,
    known: &[&str],
) -> Result<(), BadNeeds> {
    if !known.contains(&value) {
        let value = value.escape_debug().to_string();
        return Err(BadNeeds::Word(key, value, known.join(", ")));
    }
    match place.replace(value.to_owned()) {
        None => Ok(()),
        Some(_) => Err(BadNeeds::Twice(key)),
    }
}

fn fill(place: &mut u32, empty: u32, key: &'static str, value: u32) -> Result<(), BadNeeds> {
    if *place != empty {
        return Err(BadNeeds::Twice(key));
    }
    if value > super::MOST {
        return Err(BadNeeds::TooMuch(key));
    }
    *place = value;
    Ok(())
}

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
        "K" | "KiB" => 1.0 / 1024.0,
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
        let mut needs = Needs::default();
        let read = texts.iter().try_for_each(|text| needs.read(text));
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
            (&["cpus=2,cpus=3"], "`cpus` is given twice"),
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
        assert_eq!(mebibytes("1K"), Some(1));
        assert_eq!(mebibytes("1.5G"), Some(1536));
        assert_eq!(mebibytes("2TiB"), Some(2 << 20));
        for bad in ["", "G", "4", "4g", "4GB", "1e3M", ".", "∞G"] {
            assert_eq!(mebibytes(bad), None, "{bad}");
        }
    }
}
