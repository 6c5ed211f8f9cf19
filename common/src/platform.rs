//! Platforms: the operating system, processor architecture and C library of a host.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::needs::BadNeeds;

/// The longest operating system, architecture and C library, in bytes.
const MAX_PART: usize = 32;

/// A host's platform, as its worker found it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostPlatform {
    /// The operating system, by Rust's name: `linux`, `windows`, `macos`.
    pub os: String,
    /// The architecture of the processor, by Rust's name: `x86_64`, `aarch64`.
    pub arch: String,
    /// The C library and its version, such as `gnu 2.36` or `musl`; empty where there is no choice
    /// or none was found.
    pub libc: String,
}

impl HostPlatform {
    /// Makes a platform of its parts.
    pub fn new(os: &str, arch: &str, libc: &str) -> Self {
        Self {
            os: os.to_owned(),
            arch: arch.to_owned(),
            libc: libc.to_owned(),
        }
    }

    /// Returns the name by which jobs ask for it, such as `linux-x86_64`.
    pub fn name(&self) -> String {
        format!("{}-{}", self.os, self.arch)
    }

    /// Returns the kind of C library, without its version.
    pub fn libc_kind(&self) -> &str {
        self.libc.split(' ').next().unwrap_or_default()
    }

    /// Whether its parts are short and printable, as every worker of ours sends them.
    pub fn is_sound(&self) -> bool {
        let sound = |part: &str| {
            part.len() <= MAX_PART
                && part
                    .bytes()
                    .all(|byte| byte == b' ' || byte.is_ascii_graphic())
        };
        [&self.os, &self.arch, &self.libc]
            .into_iter()
            .all(|part| sound(part))
    }
}

impl fmt::Display for HostPlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.os, self.arch)?;
        if self.libc.is_empty() {
            Ok(())
        } else {
            write!(f, " ({})", self.libc)
        }
    }
}

/// The name of a platform, such as `linux-x86_64`, as a job's inputs name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PlatformName(String);

impl PlatformName {
    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the operating system.
    pub fn os(&self) -> &str {
        self.0.split('-').next().unwrap_or_default()
    }

    /// Returns the architecture.
    pub fn arch(&self) -> &str {
        self.0.split('-').nth(1).unwrap_or_default()
    }
}

impl FromStr for PlatformName {
    type Err = BadNeeds;
    fn from_str(text: &str) -> Result<Self, BadNeeds> {
        text.to_owned().try_into()
    }
}

impl TryFrom<String> for PlatformName {
    type Error = BadNeeds;
    fn try_from(text: String) -> Result<Self, BadNeeds> {
        let parts: Vec<&str> = text.split('-').collect();
        let sound = |part: &&str| {
            let known =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            !part.is_empty() && part.len() <= MAX_PART && part.bytes().all(known)
        };
        if parts.len() == 2 && parts.iter().all(sound) {
            Ok(Self(text))
        } else {
            Err(BadNeeds::Platform(text))
        }
    }
}

impl From<PlatformName> for String {
    fn from(name: PlatformName) -> Self {
        name.0
    }
}

impl PartialEq<str> for PlatformName {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl fmt::Display for PlatformName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_has_the_name_that_jobs_ask_for() {
        let debian = HostPlatform::new("linux", "x86_64", "gnu 2.36");
        assert_eq!(debian.to_string(), "linux-x86_64 (gnu 2.36)");
        assert_eq!(
            (debian.name().as_str(), debian.libc_kind()),
            ("linux-x86_64", "gnu")
        );
        let name: PlatformName = debian.name().parse().unwrap();
        assert_eq!((name.os(), name.arch()), ("linux", "x86_64"));
        assert!(debian.is_sound());

        let windows = HostPlatform::new("windows", "x86_64", "");
        assert_eq!(windows.to_string(), "windows-x86_64");
        assert!(!HostPlatform::new("a\nb", "", "").is_sound());
    }

    #[test]
    fn names_of_platforms_have_two_parts() {
        for bad in [
            "",
            "linux",
            "linux-",
            "-x86_64",
            "Linux-x86_64",
            "a-b-c",
            "a b-c",
            "C:-x",
        ] {
            assert!(bad.parse::<PlatformName>().is_err(), "{bad:?}");
        }
    }
}
