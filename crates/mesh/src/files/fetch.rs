//! How a file is fetched: opened as it comes in, written beside its place, and moved there only when it is whole and
//! the one it claims to be.
//!
//! Invariant: a file of a member that proves what it shares is only taken if that member announced it, with these very
//! bytes. How it is written is the matter of `place`.

use std::time::Duration;

use bytes::Bytes;
use hostel_wire::encoding::hex;
use hostel_wire::fingerprint::sha256;
use hostel_wire::frames::client::Call;
use hostel_wire::sealed::{FileHead, FileOpener};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::{Method, Response};
use serde_json::Value;
use tokio::time::Instant;

use super::http::{self, Ask};
use super::keys;
use super::place::FilePlace;
use crate::mesh::Refusal;
use crate::mesh::core::Core;

/// How long the broker may pause while a file comes.
const PAUSE: Duration = Duration::from_secs(60);

/// How long the announcement of a file that is listed already may take, and how often it is looked for.
const ANNOUNCEMENT_WAIT: Duration = Duration::from_secs(3);
const ANNOUNCEMENT_POLL: Duration = Duration::from_millis(50);

/// A file that was fetched.
pub(crate) struct File {
    pub(crate) head: FileHead,
    /// Whether the member that is named as its sender is proven to have shared it.
    pub(crate) verified: bool,
}

/// Where a file is to go.
#[derive(Clone, Copy)]
pub(crate) enum Out<'a> {
    /// An absolute path.
    Path(&'a str),
    /// What somebody has resolved.
    Place(&'a FilePlace),
}

/// Fetches a file to `out`.
pub(crate) async fn fetch(core: &Core, id: &str, out: Out<'_>, take_unverified: bool) -> Result<File, Refusal> {
    if !hostel_wire::ids::is_ulid(id) {
        return Err(Refusal::new("file_not_found", "there is no such file").about("id"));
    }
    let resolved;
    let place = match out {
        Out::Place(place) => place,
        Out::Path(out) => {
            resolved = FilePlace::at(out)?;
            &resolved
        }
    };
    place.check()?;
    let fields = core.line()?.fields(Call::GetFile { file_id: id.to_owned() }).await?;
    let sharer = fields.get("uploadedBy").and_then(Value::as_str).unwrap_or_default().to_owned();
    let proven = proven(core, id, &sharer, take_unverified).await?;
    let sealed = fields.get("sealedKey").and_then(Value::as_str);
    let key = sealed.and_then(|text| keys::open(core, text));
    let key = key.ok_or_else(|| Refusal::new("not_shared_with_you", "this file's key is not for this member"))?;
    let path = format!("/download/{id}?mesh={}", core.me.mesh_id);
    let answer = match download(core, &path).await {
        Err(refusal) if http::is_untimely(&refusal) => download(core, &path).await,
        answer => answer,
    }?;
    let mut beside = place.begin()?;
    let mut opener = FileOpener::new(key);
    let mut body = answer.into_body();
    let mut plain = Vec::new();
    loop {
        let piece = tokio::time::timeout(PAUSE, body.frame()).await;
        let piece = match piece {
            Ok(None) => break,
            Ok(Some(Ok(piece))) => piece,
            _ => return Err(Refusal::new("broker_unavailable", "the file broke off")),
        };
        let Ok(bytes) = piece.into_data() else { continue };
        opener.push(&bytes, &mut plain).map_err(|_| mismatch())?;
        beside.write(&mut plain).await?;
    }
    let head = opener.finish(&mut plain).map_err(|_| mismatch())?;
    let verified = proven.contains(&head.sha256);
    if !verified && !proven.is_empty() {
        return Err(mismatch());
    }
    beside.write(&mut plain).await?;
    beside.keep().await?;
    Ok(File { head, verified })
}

/// Digests of a file, as members are proven to have announced it. None: nobody has, and then a sender that proves what it
/// shares has not shared it. The announcement may be on its way.
async fn proven(core: &Core, id: &str, sharer: &str, take_unverified: bool) -> Result<Vec<String>, Refusal> {
    let deadline = Instant::now() + ANNOUNCEMENT_WAIT;
    loop {
        let announced = core.inbox.announced(id).await.map_err(Refusal::internal)?;
        let proven: Vec<String> = announced.into_iter().filter(|one| one.verified).map(|one| one.sha256).collect();
        let must_prove = sharer != core.me.member_id && core.authors().signs(sharer) && !take_unverified;
        if !proven.is_empty() || !must_prove {
            return Ok(proven);
        }
        if Instant::now() >= deadline {
            let why =
                "the member that is said to have shared this file proves what it shares, and has not shared this one";
            return Err(Refusal::new("unverified_file", why));
        }
        tokio::time::sleep(ANNOUNCEMENT_POLL).await;
    }
}

/// Asks for what the broker has.
async fn download(core: &Core, path: &str) -> Result<Response<Incoming>, Refusal> {
    let body = Empty::<Bytes>::new().map_err(|never| match never {}).boxed_unsync();
    let ask =
        Ask { method: Method::GET, path, headers: Vec::new(), body, body_size: 0, body_sha256: hex(&sha256(b"")) };
    let answer = http::send(core, ask).await?;
    if !answer.status().is_success() {
        http::json(answer).await?;
        return Err(Refusal::new("broker_unavailable", "the broker sends no file"));
    }
    Ok(answer)
}

fn mismatch() -> Refusal {
    Refusal::new("hash_mismatch", "the file is not the one that was shared")
}
