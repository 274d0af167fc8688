//! Well-formed frames with any fields, and every message with any content.
#![no_main]

use arbitrary::{Arbitrary, Result, Unstructured};
use hostel_fuzz::messages::{decode_every, same_again};
use hostel_journal::ProcessId;
use hostel_keeper::key::OwnerToken;
use hostel_keeper::proto::{
    Builder, Execute, Held, Hello, Limits, Note, NoteExit, OnFull, Phase, Pin, PipelineTerms, Role, Spawn, State,
    StdinKind, Welcome, split,
};
use libfuzzer_sys::fuzz_target;

/// A field with a known tag (both the protocol's and the state's) or any other.
#[derive(Arbitrary, Debug)]
struct Field {
    tag: Tag,
    value: Value,
}

#[derive(Arbitrary, Debug)]
enum Tag {
    Protocol(u8),
    State(u8),
    Any(u16),
}

#[derive(Arbitrary, Debug)]
enum Value {
    Short(u32),
    Small(u8),
    Long(u64),
    Id([u8; 16]),
    Bytes(Vec<u8>),
}

#[derive(Debug)]
enum Input {
    Frames(Vec<(u16, u64, Vec<Field>)>),
    Hello(Hello),
    Welcome(Welcome),
    State(State),
    Note(Note),
    Spawn(Spawn),
    Limits(Limits),
}

impl<'a> Arbitrary<'a> for Input {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        Ok(match u.int_in_range(0..=9)? {
            0 => Self::Hello(Hello {
                proto_min: u.arbitrary()?,
                proto_max: u.arbitrary()?,
                role: *u.choose(&[Role::Controller, Role::Notes, Role::Observer])?,
                build: u.arbitrary()?,
                started: u.arbitrary()?,
                notes_key: u.arbitrary()?,
            }),
            1 => Self::Welcome(Welcome {
                proto: u.arbitrary()?,
                features: u.arbitrary()?,
                keeper_id: u.arbitrary()?,
                pid: u.arbitrary()?,
                since_ns: u.arbitrary()?,
                build: u.arbitrary()?,
                child_limit: u.arbitrary()?,
                cgroup: u.arbitrary()?,
                journal: u.arbitrary()?,
                house_tag: u.arbitrary()?,
                image_ns: u.arbitrary()?,
                notes_key: u.arbitrary()?,
                recognised: u.arbitrary()?,
            }),
            2 => {
                let note = note(u)?;
                Self::State(State {
                    id: note.id,
                    label: u.arbitrary()?,
                    command: u.arbitrary()?,
                    pid: u.arbitrary()?,
                    start_ns: u.arbitrary()?,
                    phase: *u.choose(&[Phase::Starting, Phase::Running, Phase::Draining, Phase::Exited])?,
                    note,
                    applied: u.arbitrary()?,
                    written: u.arbitrary()?,
                })
            }
            3 => Self::Note(note(u)?),
            4 => Self::Spawn(Spawn {
                id: ProcessId(u.arbitrary()?),
                label: u.arbitrary()?,
                program: u.arbitrary()?,
                argv: u.arbitrary()?,
                env: u.arbitrary()?,
                cwd: u.arbitrary()?,
                umask: u.arbitrary()?,
                nofile: u.arbitrary()?,
                stdin: *u.choose(&[StdinKind::Pipe, StdinKind::Socket, StdinKind::Null, StdinKind::From])?,
                quota: u.arbitrary()?,
                on_full: *u.choose(&[OnFull::Hold, OnFull::DropOldest])?,
                terms: if u.arbitrary()? { Some(terms(u)?) } else { None },
                execute: *u.choose(&[None, Some(Execute::Program), Some(Execute::Script)])?,
                owner: u.arbitrary::<Option<[u8; 32]>>()?.map(OwnerToken::from_bytes),
            }),
            5 => Self::Limits(Limits {
                total_quota: u.arbitrary()?,
                process_quota: u.arbitrary()?,
                floor: u.arbitrary()?,
            }),
            _ => Self::Frames(u.arbitrary()?),
        })
    }
}

fn terms(u: &mut Unstructured<'_>) -> Result<PipelineTerms> {
    let numbers: Option<(u64, u64, u64, i64, i64)> = u.arbitrary()?;
    let from: Option<[u8; 16]> = u.arbitrary()?;
    Ok(PipelineTerms {
        stdin_from: from.map(ProcessId),
        holds_stdout: u.arbitrary()?,
        keep_bytes: u.arbitrary()?,
        drain_ms: u.arbitrary()?,
        own_cgroup: u.arbitrary()?,
        limit_tag: u.arbitrary()?,
        pin: numbers.map(|(dev, inode, size, mtime_ns, ctime_ns)| Pin { dev, inode, size, mtime_ns, ctime_ns }),
        only_if_known: u.arbitrary()?,
    })
}

fn note(u: &mut Unstructured<'_>) -> Result<Note> {
    let ended: bool = u.arbitrary()?;
    Ok(Note {
        id: ProcessId(u.arbitrary()?),
        committed: u.arbitrary()?,
        next_seq: u.arbitrary()?,
        held: *u.choose(&[Held::No, Held::Quota, Held::Disk, Held::Error])?,
        has_file: u.arbitrary()?,
        exit: if ended {
            Some(NoteExit { code: u.arbitrary()?, signal: u.arbitrary()?, wall_ns: u.arbitrary()? })
        } else {
            None
        },
    })
}

fuzz_target!(|input: Input| {
    match input {
        Input::Frames(frames) => every_frame(&frames),
        Input::Hello(message) => same_again(&message, Hello::decode, |message, out| message.encode(1, out)),
        Input::Welcome(message) => same_again(&message, Welcome::decode, |message, out| message.encode(2, out)),
        Input::State(message) => same_again(&message, State::decode, |message, out| message.encode(3, out)),
        Input::Note(message) => same_again(&message, Note::decode, |message, out| message.encode(out)),
        Input::Spawn(message) => same_again(&message, Spawn::decode, |message, out| message.encode(4, out)),
        Input::Limits(message) => same_again(&message, Limits::decode, |message, out| message.encode(5, out)),
    }
});

fn every_frame(frames: &[(u16, u64, Vec<Field>)]) {
    let mut bytes = Vec::new();
    for (kind, corr, fields) in frames {
        let mut builder = Builder::new(&mut bytes, *kind, *corr);
        for field in fields {
            let tag = match field.tag {
                Tag::Protocol(tag) => u16::from(tag % 70),
                Tag::State(tag) => 1100 + u16::from(tag % 30),
                Tag::Any(tag) => tag,
            };
            builder = match &field.value {
                Value::Short(value) => builder.u32(tag, *value),
                Value::Small(value) => builder.u32(tag, u32::from(*value)),
                Value::Long(value) => builder.u64(tag, *value),
                Value::Id(id) => builder.bytes(tag, id),
                Value::Bytes(bytes) => builder.bytes(tag, bytes),
            };
        }
        builder.finish();
    }
    hostel_keeper::fuzz_state(&bytes);
    let mut rest = &bytes[..];
    for (kind, corr, fields) in frames {
        let (frame, length) = split(rest).expect("a built frame is good").expect("a built frame is whole");
        assert_eq!((frame.kind, frame.corr), (*kind, *corr));
        assert_eq!(frame.fields().filter(std::result::Result::is_ok).count(), fields.len());
        decode_every(&frame);
        rest = &rest[length..];
    }
    assert!(rest.is_empty());
}
