//! Archives with well-formed headers and hostile content: names that lead out, links, lying sizes, extensions.
#![no_main]

use std::os::unix::ffi::OsStrExt as _;

use arbitrary::Arbitrary;
use hostel_fuzz::sandbox::{LIMITS, PLANTED, Sandbox};
use hostel_fuzz::tarball::{gzip, header, pax_record, push_data};
use hostel_house::workspace::archive::{unpack, unpack_plain};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
enum Part {
    Up,
    Here,
    Nothing,
    Planted(u8),
    Outside,
    Letter(u8),
    Long(u8),
    Bytes(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
struct Name {
    rooted: bool,
    parts: Vec<Part>,
    slash_behind: bool,
}

#[derive(Arbitrary, Debug)]
enum Extension {
    GnuName(Name),
    GnuLink(Name),
    PaxName(Name),
    PaxSize(u64),
    Pax(Vec<u8>, Vec<u8>),
    PaxBytes(Vec<u8>),
    Global(Vec<u8>),
}

#[derive(Arbitrary, Debug)]
enum Kind {
    File,
    OldFile,
    Directory,
    Link,
    SymbolicLink,
    Other(u8),
}

#[derive(Arbitrary, Debug)]
struct Member {
    extensions: Vec<Extension>,
    name: Name,
    prefix: Option<Name>,
    kind: Kind,
    data: Vec<u8>,
    /// A size that need not be the data's.
    lie: Option<u64>,
}

#[derive(Arbitrary, Debug)]
struct Input {
    planted: bool,
    compressed: bool,
    ended: bool,
    cut: Option<u16>,
    members: Vec<Member>,
}

fuzz_target!(|input: Input| {
    let mut bytes = Vec::new();
    for member in &input.members {
        push_member(&mut bytes, member);
    }
    if input.ended {
        bytes.extend_from_slice(&[0; 1024]);
    }
    let sandbox = Sandbox::get();
    sandbox.fresh(input.planted);
    let destination = sandbox.destination();
    let outcome = if input.compressed {
        // In two gzip members if there is a cut.
        let (front, back) = bytes.split_at(input.cut.map_or(bytes.len(), usize::from).min(bytes.len()));
        let mut packed = gzip(front);
        if !back.is_empty() {
            packed.extend_from_slice(&gzip(back));
        }
        unpack(&packed[..], &destination, &LIMITS)
    } else {
        bytes.truncate(input.cut.map_or(bytes.len(), usize::from));
        unpack_plain(&bytes, &destination, &LIMITS)
    };
    sandbox.check(&outcome, input.planted);
});

fn push_member(out: &mut Vec<u8>, member: &Member) {
    for extension in &member.extensions {
        let (kind, data) = match extension {
            Extension::GnuName(name) => (b'L', [&spelled(name)[..], b"\0"].concat()),
            Extension::GnuLink(name) => (b'K', spelled(name)),
            Extension::PaxName(name) => (b'x', pax_record(b"path", &spelled(name))),
            Extension::PaxSize(size) => (b'x', pax_record(b"size", size.to_string().as_bytes())),
            Extension::Pax(key, value) => (b'x', pax_record(key, value)),
            Extension::PaxBytes(bytes) => (b'x', bytes.clone()),
            Extension::Global(bytes) => (b'g', bytes.clone()),
        };
        out.extend_from_slice(&header(b"extension", b"", kind, data.len() as u64, true));
        push_data(out, &data);
    }
    let kind = match member.kind {
        Kind::File => b'0',
        Kind::OldFile => 0,
        Kind::Directory => b'5',
        Kind::Link => b'1',
        Kind::SymbolicLink => b'2',
        Kind::Other(kind) => kind,
    };
    let prefix = member.prefix.as_ref().map(spelled);
    let size = member.lie.unwrap_or(member.data.len() as u64);
    let posix = prefix.is_some();
    out.extend_from_slice(&header(&spelled(&member.name), &prefix.unwrap_or_default(), kind, size, posix));
    push_data(out, &member.data);
}

fn spelled(name: &Name) -> Vec<u8> {
    let outside = Sandbox::get().outside();
    let parts: Vec<Vec<u8>> = name
        .parts
        .iter()
        .map(|part| match part {
            Part::Up => b"..".to_vec(),
            Part::Here => b".".to_vec(),
            Part::Nothing => Vec::new(),
            Part::Planted(which) => PLANTED[usize::from(*which) % PLANTED.len()].as_bytes().to_vec(),
            Part::Outside => outside.as_os_str().as_bytes().to_vec(),
            Part::Letter(letter) => vec![b'a' + letter % 4],
            Part::Long(count) => vec![b'n'; usize::from(*count) + 100],
            Part::Bytes(bytes) => bytes.clone(),
        })
        .collect();
    let mut spelled = if name.rooted { b"/".to_vec() } else { Vec::new() };
    spelled.extend_from_slice(&parts.join(&b'/'));
    if name.slash_behind {
        spelled.push(b'/');
    }
    spelled
}
