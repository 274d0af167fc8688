//! Every params decoder against Go's rules over another reader; and base64 as Go takes it.
#![no_main]

use hostel_doors::claustrum::base64;
use hostel_doors::claustrum::gojson::Malformed;
use hostel_doors::claustrum::params::{
    ExtractParams, GitParams, KillAndWaitParams, KillParams, PathParams, ReattachParams, SpawnParams, StdinParams,
};
use hostel_fuzz::fields::{Field, Members, fill};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|document: &[u8]| {
    base64_like_go(document);
    let path = PathParams::decode(document).map(|read| vec![text(&read.path), Field::Signed(read.max_bytes)]);
    judge(document, &["path", "maxBytes"], path);
    let extract = ExtractParams::decode(document).map(|read| vec![text(&read.archive_path), text(&read.dest_dir)]);
    judge(document, &["archivePath", "destDir"], extract);
    let git = GitParams::decode(document).map(|read| {
        [read.path, read.base_repo, read.branch_name, read.worktree_path, read.source_branch]
            .iter()
            .map(|field| text(field))
            .collect()
    });
    judge(document, &["path", "baseRepo", "branchName", "worktreePath", "sourceBranch"], git);
    let spawn = SpawnParams::decode(document).map(|read| {
        let mut env = read.env;
        env.sort();
        vec![
            text(&read.id),
            text(&read.command),
            Field::List(read.args),
            text(&read.cwd),
            Field::Map(env),
            Field::Flag(read.want_pid),
        ]
    });
    judge(document, &["id", "command", "args", "cwd", "env", "wantPid"], spawn);
    let stdin = StdinParams::decode(document).map(|read| {
        base64_like_go(read.data.as_bytes());
        vec![text(&read.id), text(&read.data), Field::MaybeUnsigned(read.offset)]
    });
    judge(document, &["id", "data", "offset"], stdin);
    let kill = KillParams::decode(document).map(|read| vec![text(&read.id), text(&read.signal)]);
    judge(document, &["id", "signal"], kill);
    let kill_and_wait = KillAndWaitParams::decode(document).map(|read| {
        vec![text(&read.id), text(&read.signal), Field::MaybeSigned(read.timeout_ms), Field::MaybeFlag(read.escalate)]
    });
    judge(document, &["id", "signal", "timeoutMs", "escalate"], kill_and_wait);
    let reattach = ReattachParams::decode(document)
        .map(|read| vec![text(&read.id), Field::Unsigned(read.from_seq), Field::Flag(read.want_pid)]);
    judge(document, &["id", "fromSeq", "wantPid"], reattach);
});

fn text(field: &str) -> Field {
    Field::Text(field.to_owned())
}

/// Compares with the second opinion wherever that one can have any.
fn judge(document: &[u8], names: &[&str], ours: Result<Vec<Field>, Malformed>) {
    let Ok(members) = serde_json::from_slice::<Members>(document) else {
        return;
    };
    // Read by that reader as a fraction, and as a whole number by Go.
    if document.windows(2).any(|pair| pair == b"-0") {
        return;
    }
    // That reader keeps one value per key of a nested object; a value it dropped may have had the wrong type.
    let nested = members.0.iter().any(|(_, value)| matches!(value, Value::Object(_)));
    let empty: Vec<Field> = names.iter().map(|name| nothing(name)).collect();
    match (fill(&members, names, empty), ours) {
        (Some(theirs), Ok(ours)) => assert_eq!(theirs, ours),
        (None, Err(Malformed)) => {}
        (Some(_), Err(Malformed)) if nested => {}
        (theirs, ours) => panic!("{names:?}: {theirs:?} against {ours:?}"),
    }
}

fn nothing(name: &str) -> Field {
    match name {
        "maxBytes" => Field::Signed(0),
        "fromSeq" => Field::Unsigned(0),
        "wantPid" => Field::Flag(false),
        "offset" => Field::MaybeUnsigned(None),
        "timeoutMs" => Field::MaybeSigned(None),
        "escalate" => Field::MaybeFlag(None),
        "args" => Field::List(Vec::new()),
        "env" => Field::Map(Vec::new()),
        _ => text(""),
    }
}

fn base64_like_go(encoded: &[u8]) {
    let decoded = base64::decode(encoded);
    let bare: Vec<u8> = encoded.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    assert_eq!(base64::decode(&bare), decoded, "line ends mean nothing");
    if let Some(decoded) = &decoded {
        assert_eq!(bare.len() % 4, 0);
        let again = base64_simd::STANDARD.encode_to_string(decoded);
        assert_eq!(again.len(), bare.len());
        assert_eq!(base64::decode(again.as_bytes()).as_ref(), Some(decoded));
    }
    if let Ok(strict) = base64_simd::STANDARD.decode_to_vec(encoded) {
        assert_eq!(decoded, Some(strict));
    }
}
