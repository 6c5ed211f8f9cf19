//! The encoding of a frame: a length, then exactly one postcard value.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest frame, without its length, in bytes. Checked before anything is allocated.
pub const MAX_FRAME: usize = 256 * 1024;
/// The size of the length field, in bytes.
pub const PREFIX: usize = 4;

/// The error for bytes that are not a frame of the expected message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFrame {
    /// The message is longer than [`MAX_FRAME`].
    #[error("a message of {0} bytes is longer than the {MAX_FRAME} that are allowed")]
    TooLong(usize),
    /// The bytes are not a value of the expected type.
    #[error("a message does not decode: {0}")]
    Malformed(postcard::Error),
    /// The frame has this many bytes more than the value takes.
    #[error("a message has {0} bytes too many")]
    Trailing(usize),
}

/// Encodes a message as a length and its bytes.
///
/// # Errors
/// If it is longer than [`MAX_FRAME`].
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, BadFrame> {
    let mut out = Vec::with_capacity(64);
    encode_into(message, &mut out)?;
    Ok(out)
}

/// Appends a message as a length and its bytes to `out`, so that several leave in one write.
///
/// # Errors
/// If it is longer than [`MAX_FRAME`]; `out` is then as it was.
pub fn encode_into<T: Serialize>(message: &T, out: &mut Vec<u8>) -> Result<(), BadFrame> {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX]);
    *out = postcard::to_extend(message, std::mem::take(out)).map_err(BadFrame::Malformed)?;
    let length = out.len() - start - PREFIX;
    if length > MAX_FRAME {
        out.truncate(start);
        return Err(BadFrame::TooLong(length));
    }
    out[start..start + PREFIX].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Returns the number of bytes that follow this length field.
///
/// # Errors
/// If it is more than [`MAX_FRAME`].
pub fn length(prefix: [u8; PREFIX]) -> Result<usize, BadFrame> {
    let length = u32::from_le_bytes(prefix) as usize;
    if length > MAX_FRAME {
        Err(BadFrame::TooLong(length))
    } else {
        Ok(length)
    }
}

/// Decodes the message in the bytes after the length.
///
/// # Errors
/// If they are not exactly one value of this type.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, BadFrame> {
    let (value, rest) = postcard::take_from_bytes(bytes).map_err(BadFrame::Malformed)?;
    if rest.is_empty() {
        Ok(value)
    } else {
        Err(BadFrame::Trailing(rest.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_carry_their_length_and_nothing_more() {
        let frame = encode(&(7u32, "ab")).unwrap();
        assert_eq!(frame, [4, 0, 0, 0, 7, 2, b'a', b'b']);
        assert_eq!(
            decode::<(u32, String)>(&frame[PREFIX..]),
            Ok((7, "ab".into()))
        );
        assert_eq!(
            decode::<(u32, String)>(&[7, 2, b'a', b'b', 0]),
            Err(BadFrame::Trailing(1))
        );
        assert!(matches!(
            decode::<(u32, String)>(&[7, 9, b'a']),
            Err(BadFrame::Malformed(_))
        ));
    }

    #[test]
    fn too_long_is_refused_on_both_sides() {
        let mut out = vec![1, 2];
        assert!(matches!(
            encode_into(&vec![0u8; MAX_FRAME], &mut out),
            Err(BadFrame::TooLong(_))
        ));
        assert_eq!(out, [1, 2]);
        assert!(length(u32::MAX.to_le_bytes()).is_err());
        assert_eq!(length((MAX_FRAME as u32).to_le_bytes()), Ok(MAX_FRAME));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<super::super::worker::ToMaster>(&bytes);
            let _ = decode::<super::super::worker::ToWorker>(&bytes);
            let _ = decode::<super::super::client::Request>(&bytes);
            let _ = decode::<super::super::client::Reply>(&bytes);
        }
    }
}
