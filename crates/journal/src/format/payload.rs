//! The payloads with a fixed shape: who the process is, how it ended, marks and notes.
//!
//! Longer payloads than a type has today decode to the fields known here, so that fields can be added at the end.

use super::{FRAME_BYTES, FormatError, MAX_LABEL, META_FIXED_BYTES, Put, Take};
use crate::ProcessId;

/// How a process ended and what it used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exit {
    /// Exit code, or -1 if a signal ended it.
    pub code: i32,
    /// The signal that ended it, or 0.
    pub signal: i32,
    /// Time from start to end.
    pub wall_ns: u64,
    /// Processor time in user mode.
    pub user_us: u64,
    /// Processor time in the kernel.
    pub system_us: u64,
    /// Largest resident set.
    pub max_rss_kib: u64,
}

impl Exit {
    /// The payload of an EXIT record.
    pub fn encode(&self) -> [u8; 40] {
        let mut out = [0; 40];
        let mut writer = Put(&mut out);
        writer.bytes(&self.code.to_le_bytes());
        writer.bytes(&self.signal.to_le_bytes());
        for field in [self.wall_ns, self.user_us, self.system_us, self.max_rss_kib] {
            writer.bytes(&field.to_le_bytes());
        }
        out
    }

    /// Reads the payload of an EXIT record.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut take = Take(bytes);
        Ok(Self {
            code: take.u32()?.cast_signed(),
            signal: take.u32()?.cast_signed(),
            wall_ns: take.u64()?,
            user_us: take.u64()?,
            system_us: take.u64()?,
            max_rss_kib: take.u64()?,
        })
    }
}

/// Who the process is. Never its environment or arguments: the file outlives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meta {
    /// The process.
    pub id: ProcessId,
    /// The run of the machine in which it started.
    pub boot_id: [u8; 16],
    /// The keeper that held it.
    pub keeper_id: [u8; 16],
    /// Its process number then.
    pub pid: u32,
    /// Field 22 of its `/proc` stat line: with `pid` and `boot_id` this names the process for ever.
    pub start_ticks: u64,
    /// Wall clock at its start.
    pub start_ns: u64,
    /// Whatever the creator wants to find again; at most [`MAX_LABEL`] bytes.
    pub label: Vec<u8>,
}

impl Meta {
    /// The payload of a META record.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(META_FIXED_BYTES + self.label.len());
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.boot_id);
        out.extend_from_slice(&self.keeper_id);
        out.extend_from_slice(&(FRAME_BYTES as u32).to_le_bytes());
        out.extend_from_slice(&self.pid.to_le_bytes());
        out.extend_from_slice(&self.start_ticks.to_le_bytes());
        out.extend_from_slice(&self.start_ns.to_le_bytes());
        out.extend_from_slice(&self.label);
        out
    }

    /// Reads the payload of a META record.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut take = Take(bytes);
        let id = ProcessId(take.array()?);
        let boot_id = take.array()?;
        let keeper_id = take.array()?;
        if take.u32()? as usize != FRAME_BYTES {
            return Err(FormatError::Value);
        }
        let pid = take.u32()?;
        let start_ticks = take.u64()?;
        let start_ns = take.u64()?;
        let Take(label) = take;
        if label.len() > MAX_LABEL {
            return Err(FormatError::PayloadLength);
        }
        Ok(Self { id, boot_id, keeper_id, pid, start_ticks, start_ns, label: label.to_vec() })
    }
}

/// Something that happened to the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Note {
    /// Output is no longer read; the reason is the writer's own number.
    Held(u32),
    /// Output is read again.
    Resumed,
    /// This signal was sent to the process.
    Signal(i32),
}

impl Note {
    /// The payload of a NOTE record.
    pub fn encode(&self) -> [u8; 8] {
        let (kind, value) = match *self {
            Self::Held(reason) => (1, reason),
            Self::Resumed => (2, 0),
            Self::Signal(number) => (3, number.cast_unsigned()),
        };
        let mut out = [0; 8];
        let mut writer = Put(&mut out);
        writer.bytes(&u32::to_le_bytes(kind));
        writer.bytes(&u32::to_le_bytes(value));
        out
    }

    /// Reads the payload of a NOTE record.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut take = Take(bytes);
        match (take.u32()?, take.u32()?) {
            (1, reason) => Ok(Self::Held(reason)),
            (2, _) => Ok(Self::Resumed),
            (3, number) => Ok(Self::Signal(number.cast_signed())),
            _ => Err(FormatError::Value),
        }
    }
}

/// The payload of a MARK record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The asker's own number.
    pub mark: u64,
    /// Where in standard input the marked bytes begin.
    pub stdin_offset: u64,
    /// How many bytes they are.
    pub len: u32,
}

impl Mark {
    /// The payload of a MARK record.
    pub fn encode(&self) -> [u8; 20] {
        let mut out = [0; 20];
        let mut writer = Put(&mut out);
        writer.bytes(&self.mark.to_le_bytes());
        writer.bytes(&self.stdin_offset.to_le_bytes());
        writer.bytes(&self.len.to_le_bytes());
        out
    }

    /// Reads the payload of a MARK record.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut take = Take(bytes);
        Ok(Self { mark: take.u64()?, stdin_offset: take.u64()?, len: take.u32()? })
    }
}

/// Reads the payload of a LOST record: the reason.
pub fn decode_lost(bytes: &[u8]) -> Result<u32, FormatError> {
    Take(bytes).u32()
}
