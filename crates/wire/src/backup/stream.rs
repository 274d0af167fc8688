//! A backup as a stream: `header | frame | SHA-256 of both | frame | … | last frame`.
//!
//! A frame is its length (4 bytes, big-endian) and a message of a secretstream; the last one is marked as such, so that
//! a stream that was cut off is known. The first one is bound to the header and followed by a digest: if the digest is
//! right and the message does not open, the passphrase is wrong.
//!
//! Invariant: messages come out in the order in which they went in, none twice and none left out; that the end is the
//! end, only `StreamOpener::is_over` says.

use dryoc::classic::crypto_secretstream_xchacha20poly1305::{
    State, crypto_secretstream_xchacha20poly1305_init_pull as init_pull,
    crypto_secretstream_xchacha20poly1305_init_push as init_push, crypto_secretstream_xchacha20poly1305_pull as pull,
    crypto_secretstream_xchacha20poly1305_push as push,
};
use dryoc::constants::{
    CRYPTO_SECRETSTREAM_XCHACHA20POLY1305_TAG_FINAL as FINAL,
    CRYPTO_SECRETSTREAM_XCHACHA20POLY1305_TAG_MESSAGE as MESSAGE,
};
use zeroize::Zeroizing;

use super::{BackupError, BackupKey, Content, Cost, HEADER, Header};
use crate::fingerprint::sha256;

/// The bytes of one message at most.
pub const FRAME: usize = 64 * 1024;

/// The bytes before a sealed message that say how long it is.
pub const FRAME_PREFIX: usize = 4;

const OVERHEAD: usize = 17;
const SUM: usize = 32;

/// How long the sealed message is whose prefix this is.
pub fn frame_length(prefix: [u8; FRAME_PREFIX]) -> Result<usize, BackupError> {
    let length = usize::try_from(u32::from_be_bytes(prefix)).unwrap_or(usize::MAX);
    match (OVERHEAD..=FRAME + OVERHEAD).contains(&length) {
        true => Ok(length),
        false => Err(BackupError::Damaged("a piece of it has no length that can be")),
    }
}

/// Seals a stream.
pub struct StreamSealer {
    state: State,
}

impl StreamSealer {
    /// Begins with a first message of at most `FRAME` bytes; what is returned are the first bytes of the file.
    pub fn begin(
        content: Content,
        cost: Cost,
        passphrase: &[u8],
        first: &[u8],
    ) -> Result<(Self, Vec<u8>), BackupError> {
        let header = Header::fresh(content, cost);
        let key = header.key(passphrase)?;
        Ok(Self::begin_with(header, &key, first))
    }

    /// The same with a key that was made before.
    #[must_use]
    pub fn begin_with(mut header: Header, key: &BackupKey, first: &[u8]) -> (Self, Vec<u8>) {
        let mut state = State::new();
        init_push(&mut state, &mut header.nonce, &key.0);
        let mut sealer = Self { state };
        let header = header.to_bytes();
        let frame = sealer.seal(first, Some(&header), MESSAGE);
        let mut bytes = [&header[..], &frame].concat();
        let sum = sha256(&bytes);
        bytes.extend_from_slice(&sum);
        (sealer, bytes)
    }

    /// The next message, of at most `FRAME` bytes, as it stands in the file.
    #[must_use]
    pub fn next(&mut self, plain: &[u8]) -> Vec<u8> {
        self.seal(plain, None, MESSAGE)
    }

    /// The last message.
    #[must_use]
    pub fn finish(mut self, plain: &[u8]) -> Vec<u8> {
        self.seal(plain, None, FINAL)
    }

    fn seal(&mut self, plain: &[u8], bound: Option<&[u8]>, tag: u8) -> Vec<u8> {
        // Longer ones are the caller's mistake: what is cut off is missed when the stream is read.
        let plain = plain.get(..FRAME).unwrap_or(plain);
        let length = plain.len() + OVERHEAD;
        let mut bytes = vec![0; FRAME_PREFIX + length];
        let (prefix, sealed) = bytes.split_at_mut(FRAME_PREFIX);
        prefix.copy_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        // The sizes are right by construction; were it to fail, what is written opens nowhere.
        push(&mut self.state, sealed, plain, bound, tag).ok();
        bytes
    }
}

impl std::fmt::Debug for StreamSealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StreamSealer")
    }
}

/// Opens a stream.
pub struct StreamOpener {
    state: State,
    over: bool,
}

impl StreamOpener {
    /// Opens the beginning: the header, the first frame as it stands in the file with its prefix, and the digest after
    /// it. Gives the first message.
    pub fn begin(
        wanted: Content,
        passphrase: &[u8],
        header: &[u8; HEADER],
        frame: &[u8],
        sum: &[u8; SUM],
    ) -> Result<(Self, Zeroizing<Vec<u8>>), BackupError> {
        let parsed = check(wanted, header, frame, sum)?;
        let key = parsed.key(passphrase)?;
        Self::start(&parsed, &key, header, frame)
    }

    /// The same with a key that was made before.
    pub fn begin_with(
        wanted: Content,
        key: &BackupKey,
        header: &[u8; HEADER],
        frame: &[u8],
        sum: &[u8; SUM],
    ) -> Result<(Self, Zeroizing<Vec<u8>>), BackupError> {
        Self::start(&check(wanted, header, frame, sum)?, key, header, frame)
    }

    fn start(
        parsed: &Header,
        key: &BackupKey,
        header: &[u8; HEADER],
        frame: &[u8],
    ) -> Result<(Self, Zeroizing<Vec<u8>>), BackupError> {
        let mut opener = Self { state: State::new(), over: false };
        init_pull(&mut opener.state, &parsed.nonce, &key.0);
        let sealed = frame.get(FRAME_PREFIX..).unwrap_or_default();
        let first = opener.open(sealed, Some(header)).map_err(|_| BackupError::Passphrase)?;
        Ok((opener, first))
    }

    /// Opens the next message, without its prefix.
    pub fn next(&mut self, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, BackupError> {
        if self.over {
            return Err(BackupError::Damaged("there is more after its end"));
        }
        self.open(sealed, None)
    }

    /// Whether the last message was the last one there is.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over
    }

    fn open(&mut self, sealed: &[u8], bound: Option<&[u8]>) -> Result<Zeroizing<Vec<u8>>, BackupError> {
        let damaged = BackupError::Damaged("a piece of it is not what was written");
        let length = sealed.len().checked_sub(OVERHEAD).filter(|length| *length <= FRAME).ok_or(damaged)?;
        let mut plain = Zeroizing::new(vec![0; length]);
        let mut tag = 0;
        pull(&mut self.state, &mut plain, &mut tag, sealed, bound).map_err(|_| damaged)?;
        self.over = tag == FINAL;
        Ok(plain)
    }
}

impl std::fmt::Debug for StreamOpener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("StreamOpener")
    }
}

fn check(wanted: Content, header: &[u8; HEADER], frame: &[u8], sum: &[u8; SUM]) -> Result<Header, BackupError> {
    let parsed = Header::expect(header, wanted)?;
    match sha256(&[&header[..], frame].concat()) == *sum {
        true => Ok(parsed),
        false => Err(BackupError::Damaged("its beginning is not what was written")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cheap() -> Cost {
        Cost { passes: 1, memory: 8192 }
    }

    /// Reads a whole stream.
    fn read(passphrase: &[u8], bytes: &[u8]) -> Result<Vec<Vec<u8>>, BackupError> {
        let cut = BackupError::Damaged("cut");
        let (header, rest) = bytes.split_first_chunk::<HEADER>().ok_or(cut)?;
        let frame = |bytes: &[u8]| -> Result<usize, BackupError> {
            frame_length(*bytes.first_chunk::<FRAME_PREFIX>().ok_or(cut)?).map(|length| length + FRAME_PREFIX)
        };
        let (first, rest) = rest.split_at_checked(frame(rest)?).ok_or(cut)?;
        let (sum, mut rest) = rest.split_first_chunk::<SUM>().ok_or(cut)?;
        let (mut opener, plain) = StreamOpener::begin(Content::House, passphrase, header, first, sum)?;
        let mut messages = vec![plain.to_vec()];
        while !rest.is_empty() {
            let (next, later) = rest.split_at_checked(frame(rest)?).ok_or(cut)?;
            messages.push(opener.next(&next[FRAME_PREFIX..])?.to_vec());
            rest = later;
        }
        if opener.is_over() { Ok(messages) } else { Err(cut) }
    }

    #[test]
    fn messages_come_out_as_they_went_in_and_nothing_else_does() {
        let (mut sealer, mut bytes) = StreamSealer::begin(Content::House, cheap(), b"right", b"first").unwrap();
        bytes.extend(sealer.next(b""));
        bytes.extend(sealer.next(b"second"));
        bytes.extend(sealer.finish(b"last"));
        let messages = read(b"right", &bytes).unwrap();
        assert_eq!(messages, [&b"first"[..], b"", b"second", b"last"]);
        assert_eq!(read(b"wrong", &bytes), Err(BackupError::Passphrase));
        for end in 0..bytes.len() {
            assert!(read(b"right", &bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(read(b"right", &changed).is_err(), "{at}");
        }
        bytes.extend([0, 0, 0, 17]);
        bytes.extend([0; 17]);
        assert!(read(b"right", &bytes).is_err(), "more after the end");
    }
}
