//! Content of files, named by its BLAKE3 hash.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The longest content that travels inside a message and lies inside the store, in bytes; longer
/// content is a [`Content::Blob`].
pub const MAX_INLINE: usize = 4_096;

/// The BLAKE3 hash of some content. Prints as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobHash(pub [u8; 32]);

/// A reference to content by hash and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlobRef {
    /// The BLAKE3 hash of the content.
    pub hash: BlobHash,
    /// The length in bytes.
    pub size: u64,
}

/// Some content, either inline or by reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// The bytes themselves, at most [`MAX_INLINE`].
    Inline(Vec<u8>),
    /// A reference to content in the master's (or the sender's) content store, to be fetched.
    Blob(BlobRef),
}

impl Content {
    /// Returns the length in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Blob(blob) => blob.size,
        }
    }

    /// Returns the blob reference; `None` for inline content.
    pub fn blob(&self) -> Option<BlobRef> {
        match self {
            Content::Inline(_) => None,
            Content::Blob(blob) => Some(*blob),
        }
    }
}

impl Default for Content {
    fn default() -> Self {
        Content::Inline(Vec::new())
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlobHash({self})")
    }
}

/// The error for a text that is not 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a BLAKE3 hash of 64 hexadecimal digits")]
pub struct BadHash(String);

impl FromStr for BlobHash {
    type Err = BadHash;
    fn from_str(s: &str) -> Result<Self, BadHash> {
        crate::token::unhex(s)
            .map(BlobHash)
            .ok_or_else(|| BadHash(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_parse_their_own_text() {
        let hash = BlobHash(std::array::from_fn(|i| i as u8 * 7));
        assert_eq!(hash.to_string().parse::<BlobHash>().unwrap(), hash);
        assert!("abc".parse::<BlobHash>().is_err() && "é".repeat(32).parse::<BlobHash>().is_err());
    }
}
