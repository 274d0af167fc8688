//! Tar bytes whose checksums are right, so that what is wrong with them lies deeper.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Bytes of a header.
pub const BLOCK: usize = 512;

/// Writes the checksum into a header block.
pub fn seal(block: &mut [u8; BLOCK]) {
    block[148..156].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

/// Seals every block that is not all zeros.
pub fn seal_all(bytes: &mut [u8]) {
    let (blocks, _) = bytes.as_chunks_mut::<BLOCK>();
    for block in blocks.iter_mut().filter(|block| block.iter().any(|byte| *byte != 0)) {
        seal(block);
    }
}

/// A sealed header.
pub fn header(name: &[u8], prefix: &[u8], kind: u8, size: u64, posix: bool) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let name = &name[..name.len().min(100)];
    block[..name.len()].copy_from_slice(name);
    block[100..108].copy_from_slice(b"0007777\0");
    block[108..116].copy_from_slice(b"0000000\0");
    block[116..124].copy_from_slice(b"0000000\0");
    if size < 1 << 33 {
        block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    } else {
        block[124] = 0x80;
        block[128..136].copy_from_slice(&size.to_be_bytes());
    }
    block[136..148].copy_from_slice(b"00000000000\0");
    block[156] = kind;
    block[257..265].copy_from_slice(if posix { b"ustar\x0000" } else { b"ustar  \0" });
    if posix {
        let prefix = &prefix[..prefix.len().min(155)];
        block[345..345 + prefix.len()].copy_from_slice(prefix);
    }
    seal(&mut block);
    block
}

/// Appends data and what fills its last block.
pub fn push_data(out: &mut Vec<u8>, data: &[u8]) {
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
}

/// One PAX record.
pub fn pax_record(key: &[u8], value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let length = (rest..rest + 12).find(|length| length.to_string().len() + rest == *length).unwrap_or(rest);
    [length.to_string().as_bytes(), b" ", key, b"=", value, b"\n"].concat()
}

/// Compresses as one gzip member.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory has room");
    encoder.finish().expect("memory has room")
}
