//! The decompressing side of extraction: gzip members one after the other as one bounded stream of bytes.
//!
//! The first header is read when the stream is opened, so a file that is no gzip is known before anything else
//! happens. What comes out is counted against a limit, whatever the compressed size promised.
//!
//! Bytes after the member in which the archive ended are never looked at.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

use super::StreamFault;
use super::tarball::Source;
use crate::workspace::errno_of;

const DISCARD_BUFFER: usize = 32 * 1024;

/// A bounded decompressed stream.
pub(super) struct Gunzip<R> {
    /// Empty only after a failure, or within `next_member`.
    decoder: Option<GzDecoder<R>>,
    produced: u64,
    limit: u64,
}

impl<R: BufRead> Gunzip<R> {
    /// Reads the first gzip header.
    pub(super) fn open(mut reader: R, limit: u64) -> Result<Self, StreamFault> {
        if reader.fill_buf().map_err(|error| fault(&error))?.is_empty() {
            return Err(StreamFault::Empty);
        }
        Ok(Self { decoder: Some(Self::member(reader)?), produced: 0, limit })
    }

    fn member(reader: R) -> Result<GzDecoder<R>, StreamFault> {
        let mut decoder = GzDecoder::new(reader);
        if decoder.header().is_some() {
            return Ok(decoder);
        }
        // The decoder keeps the reason until it is read from.
        match decoder.read(&mut [0]) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(StreamFault::UnexpectedEnd),
            Err(error) if error.raw_os_error().is_some() => Err(fault(&error)),
            _ => Err(StreamFault::InvalidHeader),
        }
    }

    /// Steps to the next member; false at the end of the input.
    fn next_member(&mut self) -> Result<bool, StreamFault> {
        let Some(mut reader) = self.decoder.take().map(GzDecoder::into_inner) else {
            return Ok(false);
        };
        if reader.fill_buf().map_err(|error| fault(&error))?.is_empty() {
            return Ok(false);
        }
        self.decoder = Some(Self::member(reader)?);
        Ok(true)
    }

    fn read_member(&mut self, buffer: &mut [u8]) -> Result<usize, StreamFault> {
        let Some(decoder) = self.decoder.as_mut() else {
            return Ok(0);
        };
        let count = loop {
            match decoder.read(buffer) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.decoder = None;
                    return Err(fault(&error));
                }
            }
        };
        self.produced = self.produced.saturating_add(count as u64);
        if self.produced > self.limit {
            self.decoder = None;
            return Err(StreamFault::TooLarge { limit: self.limit });
        }
        Ok(count)
    }
}

impl<R: BufRead> Source for Gunzip<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, StreamFault> {
        loop {
            let count = self.read_member(buffer)?;
            if count > 0 || !self.next_member()? {
                return Ok(count);
            }
        }
    }

    /// Reads the current member to its end, which is where its checksum stands.
    fn finish(&mut self) -> Result<(), StreamFault> {
        let mut discarded = [0; DISCARD_BUFFER];
        while self.read_member(&mut discarded)? > 0 {}
        Ok(())
    }
}

fn fault(error: &io::Error) -> StreamFault {
    match error.kind() {
        _ if error.raw_os_error().is_some() => StreamFault::Read { errno: errno_of(error) },
        io::ErrorKind::UnexpectedEof => StreamFault::UnexpectedEnd,
        // The decoder tells a wrong checksum from undecodable data by its words alone.
        _ if error.to_string().contains("checksum") => StreamFault::Checksum,
        _ => StreamFault::Corrupt,
    }
}
