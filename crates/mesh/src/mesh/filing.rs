//! Files as callers see them.
//!
//! Guarantee: no byte of a file leaves this host before the hook `pre-send` has let its announcement through and the
//! outbox has stored it. Until then the sealed copy lies in the spool and the uploader does not take it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::PathBuf;

use hostel_wire::frames::Priority;
use hostel_wire::ids;
use hostel_wire::keys::PublicKey;
use hostel_wire::sealed::{FileKey, plain_size};
use serde_json::{Value, json};

use super::sending::{self, Destination};
use super::{Caller, Fetched, FileItem, Mesh, Refusal, ShareRequest, Shared};
use crate::files::fetch::{self, Out};
use crate::files::place::FilePlace;
use crate::files::{Outgoing, keys, share};
use crate::link::pages;
use crate::outbox::DestKind;
use crate::topics::GENERAL;

/// What a broker allows that does not say.
const DEFAULT_MOST: u64 = 50 * 1024 * 1024;

/// Files that are listed at most.
const MOST_LISTED: u32 = 10_000;

impl Mesh {
    /// Shares a file: it is sealed before this returns, and gets to the broker when that is there.
    ///
    /// The future must run to its end even if the caller has gone: a file may leave only after its announcement is stored,
    /// and that is said here.
    pub async fn file_share(&self, request: ShareRequest, caller: &Caller) -> Result<Shared, Refusal> {
        self.share(request, None, caller).await
    }

    /// Shares a file that somebody has opened. The path of the request only gives it its name.
    pub async fn file_share_opened(
        &self,
        request: ShareRequest,
        opened: File,
        caller: &Caller,
    ) -> Result<Shared, Refusal> {
        self.share(request, Some(opened), caller).await
    }

    async fn share(&self, request: ShareRequest, opened: Option<File>, caller: &Caller) -> Result<Shared, Refusal> {
        self.core.check_sending()?;
        let shared = self.try_share(request, opened, caller).await;
        self.core.metrics.sent("file", if shared.is_ok() { "queued" } else { "rejected" }, 1);
        shared
    }

    async fn try_share(&self, request: ShareRequest, opened: Option<File>, caller: &Caller) -> Result<Shared, Refusal> {
        let core = &self.core;
        let path = PathBuf::from(&request.path);
        if !path.is_absolute() {
            return Err(Refusal::field("path", "`path` must be absolute"));
        }
        if request.tags.len() > 32 || request.tags.iter().any(|tag| tag.len() > 64) {
            return Err(Refusal::field("tags", "at most 32 tags of at most 64 bytes"));
        }
        let destination = sending::destination(core, request.to.as_deref().unwrap_or("*"), caller).await?;
        if destination.is_here() {
            return Err(Refusal::field("to", "whoever is on this host can read the file itself: send its path"));
        }
        let key = FileKey::generate();
        let (target, keys) = self.readers(&destination, &key)?;
        let most = self.most_bytes();
        if !core.files.has_room(most) {
            return Err(Refusal::new("insufficient_storage", "too many files wait for the broker"));
        }
        let id = ids::ulid(core.clock.now_ms());
        let place = core.files.place(&id).map_err(Refusal::internal)?;
        let sealing =
            hostel_tasks::spawn_blocking(move || share::snapshot(&path, opened, most, &key, place.as_deref()));
        let snapshot = sealing.await.map_err(Refusal::internal)??;
        let head = snapshot.head;
        let outgoing = Outgoing {
            id: id.clone(),
            name: head.name.clone(),
            tags: request.tags.clone(),
            persistent: request.persistent,
            target,
            keys,
            sealed_size: snapshot.sealed_size,
            sealed_sha256: snapshot.sealed_sha256,
            shared_at: core.clock.now_ms(),
            ..Outgoing::default()
        };
        let about = json!({"file": {"id": id, "name": head.name, "size": head.size, "sha256": head.sha256}});
        let admitted = async {
            let mut payload = sending::payload(&request.text(), Some(about), None, &[], &destination)?;
            payload.file_id = Some(id.clone());
            self.admit(None, &destination, Priority::Next, payload, caller).await
        };
        let payload = match admitted.await {
            Ok(payload) => payload,
            Err(refusal) => {
                // The uploader has never heard of it.
                core.files.discard(&id, &snapshot.body);
                return Err(refusal);
            }
        };
        core.files.put(outgoing, snapshot.body).map_err(Refusal::internal)?;
        if let Err(refusal) = self.take(None, destination, Priority::Next, payload, caller).await {
            core.files.forget(&id);
            return Err(refusal);
        }
        core.files.announced(&id);
        Ok(Shared { ok: true, file_id: id, name: head.name, size: head.size, sha256: head.sha256, to: request.to })
    }

    /// The key, sealed for those who may read.
    fn readers(&self, destination: &Destination, key: &FileKey) -> Result<(String, BTreeMap<String, String>), Refusal> {
        let core = &self.core;
        let sealed =
            |public: &PublicKey| key.seal_for(public).map_err(|_| Refusal::internal("a member's key is no key"));
        let mut copies = BTreeMap::new();
        match destination.kind {
            DestKind::Dm => {
                let reference = &destination.reference;
                let member = reference.split_once('/').map_or(reference.as_str(), |(member, _)| member);
                let public =
                    core.roster.key(member).ok_or_else(|| Refusal::new("peer_not_found", "the member is not known"))?;
                copies.insert(member.to_owned(), sealed(&public)?);
                copies.insert(core.me.member_id.clone(), sealed(&core.key().public())?);
                Ok((member.to_owned(), copies))
            }
            DestKind::All => {
                let (epoch, general) = core.topics.posting_key(GENERAL).map_err(|_| Refusal::offline())?;
                copies.insert("*".to_owned(), keys::for_all(key, epoch, &general));
                Ok(("*".to_owned(), copies))
            }
            DestKind::Topic | DestKind::Group => {
                Err(Refusal::field("to", "a file can be shared with one member or with everybody"))
            }
        }
    }

    fn most_bytes(&self) -> u64 {
        let welcome = self.core.welcome();
        let files = welcome.as_ref().and_then(|welcome| welcome.features.supported.get("files"));
        files.and_then(|files| files.get("max_bytes")).and_then(Value::as_u64).unwrap_or(DEFAULT_MOST)
    }

    /// Fetches a file to an absolute path.
    /// `take_unverified`: also one that nobody is proven to have shared, of a member that proves what it shares.
    pub async fn file_get(&self, id: &str, out: &str, take_unverified: bool) -> Result<Fetched, Refusal> {
        self.fetch(id, out, Out::Path(out), take_unverified).await
    }

    /// Fetches a file to a place that somebody has resolved; `out` is what its path is called.
    pub async fn file_get_to(
        &self,
        id: &str,
        out: &str,
        place: &FilePlace,
        take_unverified: bool,
    ) -> Result<Fetched, Refusal> {
        self.fetch(id, out, Out::Place(place), take_unverified).await
    }

    async fn fetch(&self, id: &str, out: &str, to: Out<'_>, take_unverified: bool) -> Result<Fetched, Refusal> {
        self.core.check()?;
        let fetch::File { head, verified } = fetch::fetch(&self.core, id, to, take_unverified).await?;
        Ok(Fetched {
            ok: true,
            file_id: id.to_owned(),
            name: head.name,
            saved_to: out.to_owned(),
            size: head.size,
            sha256: head.sha256,
            verified,
        })
    }

    /// Files that are shared with us.
    pub async fn file_list(&self) -> Result<Vec<FileItem>, Refusal> {
        let line = self.core.line_soon().await?;
        let listed = pages::files(&line).await?.items;
        let announced = self.core.inbox.announced_files(MOST_LISTED).await.map_err(Refusal::internal)?;
        let digest = |about: &Value| {
            let text = |key: &str| about.get(key).and_then(Value::as_str).map(str::to_owned);
            Some((text("id")?, text("sha256")?))
        };
        let digests: HashMap<String, String> = announced.iter().filter_map(digest).collect();
        let proven = self.core.inbox.proven_files().await.map_err(Refusal::internal)?;
        let items = listed.iter().take(MOST_LISTED as usize).filter_map(|value| item(value, &digests));
        let judged = |item: FileItem| {
            let senders = proven.get(&item.id).map(Vec::as_slice).unwrap_or_default();
            FileItem { verified: senders.contains(&item.uploaded_by), ..item }
        };
        Ok(items.map(judged).collect())
    }
}

/// A file as its readers know it. The broker knows the sealed one only: the digest is in the announcement, and the size
/// follows from the sealed one's.
fn item(value: &Value, digests: &HashMap<String, String>) -> Option<FileItem> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let id = text("id")?;
    let name = text("name").unwrap_or_default();
    let sealed = value.get("size").and_then(Value::as_u64).unwrap_or_default();
    let tags = value.get("tags").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    Some(FileItem {
        sha256: digests.get(&id).cloned(),
        size: plain_size(&name, sealed).unwrap_or(sealed),
        id,
        name,
        tags: tags.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        uploaded_by: text("uploadedBy").unwrap_or_default(),
        uploaded_at: text("uploadedAt").unwrap_or_default(),
        persistent: value.get("persistent").and_then(Value::as_bool).unwrap_or_default(),
        encrypted: true,
        to: text("to").filter(|to| to != "*"),
        verified: false,
    })
}
