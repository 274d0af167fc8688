//! Archives made by hand, byte by byte, so that they can say anything; and a place to extract them in.

#![allow(dead_code, reason = "each test binary uses its own part")]

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use flate2::Compression;
use flate2::write::GzEncoder;
use hostel_house::workspace::archive::{self, Failure, Limits};
use tempfile::TempDir;

/// A tar block as the archive's author writes it: nothing is checked, so anything can be said.
pub(crate) fn header(name: &[u8], kind: u8, size: u64) -> [u8; 512] {
    let mut header = tar::Header::new_gnu();
    let old = header.as_old_mut();
    old.name = [0; 100];
    old.name[..name.len()].copy_from_slice(name);
    header.set_entry_type(tar::EntryType::new(kind));
    header.as_old_mut().linkflag[0] = kind;
    header.set_size(size);
    header.set_mode(0o755);
    header.set_cksum();
    *header.as_bytes()
}

#[derive(Default, Clone)]
pub(crate) struct Tar(pub(crate) Vec<u8>);

impl Tar {
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn member(self, name: &[u8], kind: u8, data: &[u8]) -> Self {
        let padding = vec![0; data.len().next_multiple_of(512) - data.len()];
        self.raw(&header(name, kind, data.len() as u64)).raw(data).raw(&padding)
    }

    pub(crate) fn file(self, name: &str, data: &str) -> Self {
        self.member(name.as_bytes(), b'0', data.as_bytes())
    }

    pub(crate) fn directory(self, name: &str) -> Self {
        self.member(name.as_bytes(), b'5', b"")
    }

    pub(crate) fn pax(self, key: &str, value: &[u8]) -> Self {
        let rest = key.len() + value.len() + 3;
        let length = (rest..rest + 12).find(|length| length.to_string().len() + rest == *length).unwrap();
        let record = [format!("{length} {key}=").as_bytes(), value, b"\n"].concat();
        self.member(b"pax", b'x', &record)
    }

    pub(crate) fn end(self) -> Self {
        self.raw(&[0; 1024])
    }

    pub(crate) fn gzip(&self) -> Vec<u8> {
        gzip(&self.0)
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A place with an archive beside a destination that already holds something.
pub(crate) struct Place {
    pub(crate) root: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir_all(place.destination().join("old/deep")).unwrap();
        fs::write(place.destination().join("old/deep/file"), "old").unwrap();
        fs::write(place.destination().join(".synced"), "").unwrap();
        place
    }

    pub(crate) fn destination(&self) -> PathBuf {
        self.root.path().join("dest")
    }

    pub(crate) fn archive(&self) -> PathBuf {
        self.root.path().join("archive.tgz")
    }

    pub(crate) fn extract(&self, bytes: &[u8]) -> Result<u64, Failure> {
        self.extract_within(bytes, &Limits::default())
    }

    pub(crate) fn extract_within(&self, bytes: &[u8], limits: &Limits) -> Result<u64, Failure> {
        fs::write(self.archive(), bytes).unwrap();
        archive::extract_tar(&self.archive(), &self.destination(), &[], limits)
    }

    pub(crate) fn kept_old_content(&self) -> bool {
        fs::read(self.destination().join("old/deep/file")).is_ok_and(|content| content == b"old")
    }
}
