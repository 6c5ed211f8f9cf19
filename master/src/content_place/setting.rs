//! The setting of where content lies, and the file beside the store that repeats it for those who look
//! at the master's files while no settings are at hand.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use link::{LinkError, files};
use serde::{Deserialize, Serialize};

use crate::MasterError;

/// The start of a bucket's address.
const SCHEME: &str = "s3://";
/// The file in the master's directory that repeats which bucket has its content.
const FILE: &str = "bucket";

/// The settings of S3-compatible storage, beside the name of the bucket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct S3Settings {
    /// The address of the storage, `https://HOST[:PORT]`; `None`: that of AWS in the region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// The region; `None`: what the environment says, else `us-east-1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The file with the access key, in the form of AWS's own tools; `None`: the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<PathBuf>,
    /// The file with the certificates of authorities, as PEM; `None`: those of the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificates: Option<PathBuf>,
    /// The most bytes of content that are kept on the master's disk, too.
    pub cache_bytes: u64,
}

impl Default for S3Settings {
    fn default() -> Self {
        Self {
            endpoint: None,
            region: None,
            credentials: None,
            certificates: None,
            cache_bytes: 10 << 30,
        }
    }
}

/// A bucket, or the part of one whose names begin with a prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BucketPlace {
    /// The name of the bucket.
    pub(crate) bucket: String,
    /// The prefix, without a slash at its ends; may be empty.
    pub(crate) prefix: String,
    /// The storage that has it.
    pub(crate) s3: S3Settings,
}

impl fmt::Display for BucketPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.bucket)?;
        match &*self.prefix {
            "" => Ok(()),
            prefix => write!(f, "/{prefix}"),
        }
    }
}

impl BucketPlace {
    /// Reads an address, `s3://BUCKET[/PREFIX]`; `None` if it is not one of a bucket at all.
    ///
    /// # Errors
    /// If the names in it are none, in words for the admin.
    pub(crate) fn parse(address: &str, s3: &S3Settings) -> Option<Result<Self, String>> {
        let (bucket, prefix) = match address.strip_prefix(SCHEME)?.split_once('/') {
            Some((bucket, prefix)) => (bucket, prefix.trim_end_matches('/')),
            None => (address.strip_prefix(SCHEME)?, ""),
        };

        let letters = |more: &'static str| {
            move |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-' || more.contains(c)
        };
        let fits = !bucket.is_empty()
            && bucket.chars().all(letters(""))
            && prefix.chars().all(letters("_/"))
            && (prefix.is_empty()
                || prefix
                    .split('/')
                    .all(|part| !["", ".", ".."].contains(&part)));
        if !fits {
            return Some(Err(format!(
                "`{address}` is not s3://BUCKET[/PREFIX]: of both, letters, digits, `.` and `-` are taken; of a prefix `_`, too"
            )));
        }
        Some(Ok(Self {
            bucket: bucket.to_owned(),
            prefix: prefix.to_owned(),
            s3: s3.clone(),
        }))
    }

    /// Reads which bucket has the content of the master in `home`; `None` if it lies in a directory.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn of_master(home: &Path) -> Result<Option<Self>, LinkError> {
        let path = home.join(FILE);
        let text = files::unless_gone(fs::read_to_string(&path));
        let Some(text) = text.map_err(LinkError::file("cannot read", &path))? else {
            return Ok(None);
        };
        let read = toml::from_str(&text).map_err(io::Error::other);
        read.map(Some).map_err(LinkError::file("cannot use", path))
    }
}

/// Where the content of a master is to lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ContentSetting {
    /// In this directory.
    Directory(PathBuf),
    /// In this bucket.
    Bucket(BucketPlace),
}

impl fmt::Display for ContentSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(dir) => write!(f, "{}", dir.display()),
            Self::Bucket(place) => write!(f, "{place}"),
        }
    }
}

impl ContentSetting {
    /// Repeats it in the file for those who look at the files of the master in `home`.
    pub(super) fn note(&self, home: &Path) -> Result<(), MasterError> {
        let path = home.join(FILE);
        match self {
            Self::Directory(_) => {
                let removed = files::remove(&path);
                Ok(removed.map_err(LinkError::file("cannot remove", path))?)
            }
            Self::Bucket(place) => {
                let text =
                    toml::to_string(place).map_err(|e| MasterError::Config(e.to_string()))?;
                let written = files::write_whole(&path, text.as_bytes(), 0o600);
                Ok(written.map_err(LinkError::file("cannot write", path))?)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(address: &str) -> Option<Result<BucketPlace, String>> {
        BucketPlace::parse(address, &S3Settings::default())
    }

    #[test]
    fn a_bucket_is_told_from_a_directory_and_a_wrong_name_is_refused() {
        assert!(parse("/mnt/content").is_none() && parse("s3/x").is_none());
        for (address, bucket, prefix) in [
            ("s3://grid", "grid", ""),
            ("s3://grid/", "grid", ""),
            ("s3://my.grid-1/a_b/c", "my.grid-1", "a_b/c"),
        ] {
            let place = parse(address).unwrap().unwrap();
            assert_eq!((&*place.bucket, &*place.prefix), (bucket, prefix));
            assert_eq!(place.to_string(), address.trim_end_matches('/'));
        }
        for wrong in [
            "s3://",
            "s3:///x",
            "s3://a b",
            "s3://grid/a//b",
            "s3://grid/../x",
            "s3://key:secret@grid",
        ] {
            let told = parse(wrong).unwrap().unwrap_err();
            assert!(told.contains("s3://BUCKET[/PREFIX]"), "{told}");
        }
    }

    #[test]
    fn the_file_beside_the_store_repeats_the_bucket_and_goes_with_it() {
        let home = tempfile::tempdir().unwrap();
        let s3 = S3Settings {
            endpoint: Some("http://127.0.0.1:8333".to_owned()),
            ..S3Settings::default()
        };
        let place = BucketPlace::parse("s3://grid/one", &s3).unwrap().unwrap();
        let read = || BucketPlace::of_master(home.path()).unwrap();
        assert_eq!(read(), None);
        ContentSetting::Bucket(place.clone())
            .note(home.path())
            .unwrap();
        assert_eq!(read(), Some(place));
        for _ in 0..2 {
            ContentSetting::Directory(home.path().to_owned())
                .note(home.path())
                .unwrap();
            assert_eq!(read(), None);
        }
    }
}
