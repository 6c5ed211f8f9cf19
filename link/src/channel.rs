//! [`Channel`]: messages over a QUIC stream.

use bytes::{Buf, Bytes, BytesMut};
use common::wire::frame;
use quinn::{RecvStream, SendStream};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::LinkError;

/// Both directions of one stream.
#[derive(Debug)]
pub struct Channel {
    /// The sender of frames to the other end.
    pub tx: FrameSender,
    /// The receiver of frames from the other end.
    pub rx: FrameReceiver,
}

/// The most pieces of raw bytes that are read at a time.
const CHUNKS: usize = 64;

/// A sender of messages; [`FrameSender::push`] lets several leave in one write.
#[derive(Debug)]
pub struct FrameSender {
    stream: SendStream,
    pending: Vec<u8>,
    /// The number of bytes of `pending` that have been sent.
    sent: usize,
}

/// A receiver of messages, and of raw bytes after them.
#[derive(Debug)]
pub struct FrameReceiver {
    stream: RecvStream,
    buffer: BytesMut,
    /// The space for raw bytes, empty between reads.
    chunks: Vec<Bytes>,
}

impl Channel {
    /// Makes a channel of the two halves of a stream.
    pub fn new(tx: SendStream, rx: RecvStream) -> Self {
        Self {
            tx: FrameSender::new(tx),
            rx: FrameReceiver::new(rx),
        }
    }
}

impl FrameSender {
    /// Sends messages over this stream.
    pub fn new(stream: SendStream) -> Self {
        Self {
            stream,
            pending: Vec::new(),
            sent: 0,
        }
    }

    /// Sends a message, after those that were pushed.
    ///
    /// # Errors
    /// If the message is too long or the stream is gone.
    pub async fn send<T: Serialize>(&mut self, message: &T) -> Result<(), LinkError> {
        self.push(message)?;
        self.flush().await
    }

    /// Keeps a message for the next [`FrameSender::flush`].
    ///
    /// # Errors
    /// If the message is too long; it is then not kept.
    pub fn push<T: Serialize>(&mut self, message: &T) -> Result<(), LinkError> {
        Ok(frame::encode_into(message, &mut self.pending)?)
    }

    /// Keeps a message as [`FrameSender::push`] does, unless it is too long; returns whether it was kept.
    ///
    /// # Errors
    /// If it cannot be encoded.
    pub fn push_if_fits<T: Serialize>(&mut self, message: &T) -> Result<bool, LinkError> {
        match frame::encode_into(message, &mut self.pending) {
            Err(frame::BadFrame::TooLong(_)) => Ok(false),
            kept => Ok(kept.map(|()| true)?),
        }
    }

    /// Breaks the sending direction off: the other end learns that something is missing.
    pub fn reset(&mut self) {
        // Fails only on a stream that is finished or reset already.
        let _ = self.stream.reset(0_u32.into());
    }

    /// Keeps a message that came from another stream, without its length, for the next [`FrameSender::flush`].
    ///
    /// # Errors
    /// If it is too long; it is then not kept.
    pub fn push_body(&mut self, body: &[u8]) -> Result<(), LinkError> {
        if body.len() > frame::MAX_FRAME {
            return Err(frame::BadFrame::TooLong(body.len()).into());
        }
        let length = body.len() as u32;
        self.pending.extend_from_slice(&length.to_le_bytes());
        self.pending.extend_from_slice(body);
        Ok(())
    }

    /// Returns the number of bytes that wait for a flush.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Sends everything that was pushed. Dropped half way it has sent a part, and the next flush goes on there.
    ///
    /// # Errors
    /// If the stream is gone.
    pub async fn flush(&mut self) -> Result<(), LinkError> {
        while self.sent < self.pending.len() {
            self.sent += self.stream.write(&self.pending[self.sent..]).await?;
        }
        self.pending.clear();
        self.sent = 0;
        Ok(())
    }

    /// Ends the sending direction. The other end may still be sending.
    pub fn finish(&mut self) {
        // Fails only on a stream that is finished or reset already.
        let _ = self.stream.finish();
    }

    /// Sends a last message; resolves once the other end has it, or is gone.
    ///
    /// # Errors
    /// As for [`FrameSender::send`].
    pub async fn send_last<T: Serialize>(&mut self, message: &T) -> Result<(), LinkError> {
        self.send(message).await?;
        self.finish();
        self.delivered().await;
        Ok(())
    }

    /// Resolves once the other end has everything, or is gone.
    pub async fn delivered(&mut self) {
        let _ = self.stream.stopped().await;
    }

    /// Returns the stream itself, for raw bytes. Call `flush` first.
    pub fn raw(&mut self) -> &mut SendStream {
        &mut self.stream
    }
}

impl FrameReceiver {
    /// Receives messages from this stream.
    pub fn new(stream: RecvStream) -> Self {
        Self {
            stream,
            buffer: BytesMut::new(),
            chunks: Vec::new(),
        }
    }

    /// The next message; none where the stream has ended between messages.
    ///
    /// # Errors
    /// If the stream breaks, ends inside a message, or holds something else than a `T`.
    pub async fn recv<T: DeserializeOwned>(&mut self) -> Result<Option<T>, LinkError> {
        match self.recv_body().await? {
            Some(body) => Ok(Some(frame::decode(&body)?)),
            None => Ok(None),
        }
    }

    /// The bytes of the next message, whatever it is; none where the stream has ended between messages.
    ///
    /// # Errors
    /// If the stream breaks, ends inside a message, or the message is too long.
    pub async fn recv_body(&mut self) -> Result<Option<Bytes>, LinkError> {
        loop {
            if let Some(body) = self.take_body()? {
                return Ok(Some(body));
            }
            if !self.fill().await? {
                return match self.buffer.len() {
                    0 => Ok(None),
                    _ => Err(LinkError::Closed(
                        "the stream ended inside a message".to_owned(),
                    )),
                };
            }
        }
    }

    /// The bytes of the next message if it has arrived whole, for [`FrameSender::push_body`].
    ///
    /// # Errors
    /// If it is too long.
    pub fn take_body(&mut self) -> Result<Option<Bytes>, LinkError> {
        let Some(prefix) = self.buffer.first_chunk::<{ frame::PREFIX }>() else {
            return Ok(None);
        };
        let length = frame::length(*prefix)?;
        if self.buffer.len() < frame::PREFIX + length {
            return Ok(None);
        }
        self.buffer.advance(frame::PREFIX);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }

    /// The next message, which must come.
    ///
    /// # Errors
    /// As [`FrameReceiver::recv`], and if the stream has ended.
    pub async fn expect<T: DeserializeOwned>(&mut self) -> Result<T, LinkError> {
        self.recv()
            .await?
            .ok_or_else(|| LinkError::Closed("the stream ended where an answer was due".to_owned()))
    }

    /// Adds the next raw bytes to `to`, as many as have come but not much more than `CHUNKS`
    /// datagrams hold. Returns `false` at the stream's end.
    ///
    /// # Errors
    /// If the stream breaks.
    pub async fn read_onto(&mut self, to: &mut Vec<u8>) -> Result<bool, LinkError> {
        if !self.buffer.is_empty() {
            to.extend_from_slice(&self.buffer.split());
            return Ok(true);
        }

        self.chunks.resize(CHUNKS, Bytes::new());
        let Some(count) = self.stream.read_chunks(&mut self.chunks).await? else {
            return Ok(false);
        };
        let chunks = self.chunks.drain(..).take(count);
        chunks.for_each(|chunk| to.extend_from_slice(&chunk));
        Ok(true)
    }

    /// Tells the other end that nothing more will be read.
    pub fn stop(&mut self) {
        let _ = self.stream.stop(quinn::VarInt::from_u32(0));
    }

    async fn fill(&mut self) -> Result<bool, LinkError> {
        match self.stream.read_chunk(256 * 1024, true).await? {
            Some(chunk) => {
                self.buffer.extend_from_slice(&chunk.bytes);
                Ok(true)
            }
            None => Ok(false),
        }
    }
}
