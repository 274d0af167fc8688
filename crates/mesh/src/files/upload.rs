//! How sealed files get to the broker: one after the other, again until it has them or says that it never will.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt as _;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::Method;
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;

use super::http::{self, Ask, Sent};
use super::{Body, Outgoing, keys};
use crate::mesh::Refusal;
use crate::mesh::core::{Core, Standing};
use crate::topics::GENERAL;

/// Between tries.
const FIRST: Duration = Duration::from_millis(500);
const LAST: Duration = Duration::from_secs(30);

/// Uploads whatever waits, until dropped.
pub(crate) async fn run(core: &Arc<Core>) {
    let mut standing = core.watch_standing();
    let mut files = core.files.watch();
    let mut wait = FIRST;
    loop {
        files.mark_unchanged();
        if standing.wait_for(|standing| *standing == Standing::Open).await.is_err() {
            return;
        }
        let mut failed = false;
        for file in core.files.waiting() {
            match upload(core, &file).await {
                Ok(()) => core.files.settle(&file.id, None, core.clock.now_ms()),
                Err(refusal) if is_final(refusal.code()) => {
                    core.log.warn("upload_refused", json!({"file": file.id, "code": refusal.code()}));
                    let why = (refusal.code().to_owned(), refusal.detail().to_owned());
                    core.files.settle(&file.id, Some(why), core.clock.now_ms());
                }
                Err(refusal) => {
                    core.log.debug(
                        "upload_failed",
                        json!({"file": file.id, "code": refusal.code(), "detail": refusal.detail()}),
                    );
                    failed = true;
                }
            }
        }
        if failed {
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(LAST);
        } else {
            wait = FIRST;
            if files.changed().await.is_err() {
                return;
            }
        }
    }
}

fn is_final(code: &str) -> bool {
    matches!(
        code,
        "payload_too_large"
            | "message_too_large"
            | "forbidden"
            | "blocked"
            | "invalid"
            | "invalid_argument"
            | "not_found"
            | "name_taken"
            | "ambiguous_prefix"
            | "idempotency_key_reused"
            | "hash_mismatch"
            | "file_exists"
            | "file_not_found"
            | "not_shared_with_you"
            | "recipient_unknown"
            | "recipient_revoked"
    )
}

/// The copies of a file's key. The one for everybody is sealed anew if `general` has come to another epoch since the
/// file was shared: who was revoked meanwhile holds the key of that time.
fn copies(core: &Core, file: &Outgoing) -> Result<BTreeMap<String, String>, Refusal> {
    let mut copies = file.keys.clone();
    let Some((text, sealed)) = copies.get_mut("*").and_then(|text| keys::epoch(text).map(|epoch| (text, epoch))) else {
        return Ok(copies);
    };
    let (epoch, general) = core.topics.posting_key(GENERAL).map_err(|_| {
        core.topics.ask(crate::topics::Ask::Post(GENERAL.to_owned()));
        Refusal::new("key_pending", "the key for everybody is not here yet")
    })?;
    if epoch != sealed {
        let key = keys::open(core, text).ok_or_else(|| Refusal::new("invalid", "the file's key does not open"))?;
        *text = keys::for_all(&key, epoch, &general);
    }
    Ok(copies)
}

async fn upload(core: &Core, file: &Outgoing) -> Result<(), Refusal> {
    let copies = copies(core, file)?;
    let gone = || Refusal::new("file_not_found", "the sealed file is gone");
    let body = match core.files.body(&file.id).ok_or_else(gone)? {
        Body::Memory(bytes) => Full::new(bytes).map_err(|never| match never {}).boxed_unsync(),
        Body::File(path) => stream(tokio::fs::File::open(path).await.map_err(|_| gone())?),
    };
    let headers = vec![
        ("x-file-id", file.id.clone()),
        ("x-file-name", percent(&file.name)),
        ("x-tags", ascii(&json!(file.tags))),
        ("x-persistent", file.persistent.to_string()),
        ("x-target-spec", file.target.clone()),
        ("x-encrypted", "true".to_owned()),
        ("x-owner-pubkey", core.pubkey()),
        ("x-file-keys", ascii(&json!(copies))),
        ("content-type", "application/octet-stream".to_owned()),
    ];
    let ask = Ask {
        method: Method::POST,
        path: "/upload",
        headers,
        body,
        body_size: file.sealed_size,
        body_sha256: file.sealed_sha256.clone(),
    };
    let answer = http::json(http::send(core, ask).await?).await;
    if answer.as_ref().is_err_and(|refusal| refusal.code() == "stale_key_epoch") {
        core.topics.stale(GENERAL);
    }
    answer.map(drop)
}

fn stream(file: tokio::fs::File) -> Sent {
    let pieces = futures_util::stream::unfold(file, |mut file| async move {
        let mut piece = vec![0; 64 * 1024];
        match file.read(&mut piece).await {
            Ok(0) => None,
            Ok(count) => {
                piece.truncate(count);
                Some((Ok(Frame::data(Bytes::from(piece))), file))
            }
            Err(error) => Some((Err(error), file)),
        }
    });
    StreamBody::new(pieces.boxed()).boxed_unsync()
}

/// A file's name in a header, where only some characters may be.
fn percent(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'~');
    name.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

/// JSON in a header: everything beyond ASCII escaped.
fn ascii(value: &Value) -> String {
    let mut text = String::new();
    for c in value.to_string().chars() {
        match c.is_ascii() {
            true => text.push(c),
            false => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_hold_ascii_alone() {
        assert_eq!(percent("grüße 1%.txt"), "gr%C3%BC%C3%9Fe%201%25.txt");
        let tags = json!(["ü", "🦀", "a\"b"]);
        let text = ascii(&tags);
        assert!(text.is_ascii());
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), tags);
    }
}
