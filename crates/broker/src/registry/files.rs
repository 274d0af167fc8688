//! Records of shared files; their bytes are blobs, sealed before they came.
//!
//! Invariant: a record is written once its blob is whole and removed before its blob is, so a record always has its bytes,
//! and the bytes it was written with: an id stands for one upload, and a blob gets to its place in the same turn as its
//! record, so that nobody who uploads under the same id at the same time can come between. Nobody sees a file of a member
//! they have blocked.

use std::collections::BTreeMap;
use std::sync::Arc;

use hostel_wire::ids;
use serde_json::json;

use super::change::What;
use super::error::RegistryError;
use super::mesh::Mesh;
use super::records::{FileRecord, Held};
use super::update::Update;
use super::{Engine, Inner, Registry};
use crate::audit::kind;
use crate::engine::BlobSink as _;

const NAME: usize = 255;
const TAGS: usize = 32;
const TAG: usize = 64;
/// A sealed key, as base64.
const KEY: usize = 512;
const KEYS: usize = 10_000;

/// A file to be recorded.
#[derive(Debug, Clone, Default)]
pub struct NewFile {
    /// Its id, which its uploader may have made.
    pub id: String,
    /// As the uploader calls it.
    pub name: String,
    /// Bytes as they are stored.
    pub size: u64,
    /// Hex of their digest.
    pub sha256: String,
    /// Words for finding it.
    pub tags: Vec<String>,
    /// Kept until it is deleted.
    pub persistent: bool,
    /// The member it is for; `None`: the mesh.
    pub to: Option<String>,
    /// Its key, sealed: by member id, or `*` for the mesh.
    pub keys: BTreeMap<String, String>,
}

impl NewFile {
    /// The epoch of `general` whose key the copy for everybody is sealed with, if it says so: `general:EPOCH:...`. Who was
    /// revoked holds older ones.
    fn general_epoch(&self) -> Option<u64> {
        self.keys.get("*")?.strip_prefix("general:")?.split(':').next()?.parse().ok()
    }

    /// Whether this is the upload that a record was made of. Keys may be others: they are sealed anew when a topic's key
    /// was replaced in between, and more are added later.
    fn made(&self, known: &FileRecord) -> bool {
        let this = (&self.name, self.size, &self.sha256, &self.tags, self.persistent, &self.to);
        this == (&known.name, known.size, &known.sha256, &known.tags, known.persistent, &known.to)
    }

    fn check(&self) -> Result<(), RegistryError> {
        let keys_fit = self.keys.len() <= KEYS && self.keys.iter().all(|(id, key)| id.len() <= 64 && key.len() <= KEY);
        let tags_fit = self.tags.len() <= TAGS && self.tags.iter().all(|tag| tag.len() <= TAG);
        let wrong = match () {
            () if !ids::is_ulid(&self.id) => "the file's id must be a ULID in lower case",
            () if self.name.is_empty() || self.name.len() > NAME => "the file's name must have 1 to 255 bytes",
            () if !tags_fit => "too many or too long tags",
            () if !keys_fit => "too many or too long keys",
            () => return Ok(()),
        };
        Err(RegistryError::Invalid(wrong.to_owned()))
    }
}

/// The blob of a file. Members may choose a file's id, so a mesh's files cannot meet another's.
#[must_use]
pub fn blob_id(mesh: &str, file: &str) -> String {
    format!("{mesh}-{file}")
}

impl<E: Engine> Registry<E> {
    /// Whether there is room for a file of this size, and whether it is there already: then it needs no upload.
    pub fn file_room(
        &self,
        mesh: &str,
        by: &str,
        new: &NewFile,
    ) -> Result<Option<Arc<Held<FileRecord>>>, RegistryError> {
        self.inner.file_room(&*self.inner.snapshot(mesh)?, by, new)
    }

    /// Puts a blob in its place and records it as a file. The same again changes nothing; another file under an id that
    /// is in use is refused, and nothing is left of its blob.
    pub async fn file_add(
        &self,
        mesh: &str,
        by: &str,
        new: NewFile,
        blob: E::Blob,
    ) -> Result<Arc<Held<FileRecord>>, RegistryError> {
        let (mesh, by) = (mesh.to_owned(), by.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            if let Some(known) = inner.file_room(&snapshot, &by, &new)? {
                return Ok(known);
            }
            blob.finish().await?;
            let now = inner.clock.now_ms();
            let id = new.id.clone();
            let record = FileRecord {
                id: new.id,
                name: new.name,
                size: new.size,
                sha256: new.sha256,
                tags: new.tags,
                uploaded_by: by,
                uploaded_ms: now,
                persistent: new.persistent,
                expires_ms: (!new.persistent).then(|| now + inner.settings.ephemeral_hours * 3_600_000),
                to: new.to,
                keys: new.keys,
            };
            let mut update = Update::of(&mesh);
            update.file(&id, Some(record));
            update.news(What::FileAdded { file: id.clone() });
            // If this fails its record may be there after all: a blob without one is swept up later.
            inner.commit(update).await?.files.get(&id).cloned().ok_or(RegistryError::FileNotFound)
        })
        .await
    }

    /// A file that a member may read, with its key sealed for that member.
    pub fn file_for(
        &self,
        mesh: &str,
        member: &str,
        file: &str,
    ) -> Result<(Arc<Held<FileRecord>>, Option<String>), RegistryError> {
        let snapshot = self.inner.snapshot(mesh)?;
        snapshot.active_member(member)?;
        let now = self.inner.ages.now_ms();
        let found = snapshot.file(file).filter(|file| file.is_kept(now)).ok_or(RegistryError::FileNotFound)?;
        if !snapshot.shows_file(member, found) {
            return Err(RegistryError::NotShared);
        }
        let key = found.keys.get(member).or_else(|| found.keys.get("*")).cloned();
        Ok((Arc::clone(found), key))
    }

    /// Files that a member may read, newest first, at most so many: with this in their names or tags, by this member.
    pub fn files_for(
        &self,
        mesh: &str,
        member: &str,
        query: Option<&str>,
        from: Option<&str>,
    ) -> Result<Vec<Arc<Held<FileRecord>>>, RegistryError> {
        let snapshot = self.inner.snapshot(mesh)?;
        snapshot.active_member(member)?;
        let from = from.map(|from| snapshot.find(from).map(|found| found.id.clone())).transpose()?;
        let query = query.map(str::to_lowercase);
        let now = self.inner.ages.now_ms();
        let fits = |file: &FileRecord| {
            let named = |query: &String| {
                file.name.to_lowercase().contains(query) || file.tags.iter().any(|tag| tag.to_lowercase() == *query)
            };
            file.is_kept(now)
                && snapshot.shows_file(member, file)
                && from.as_ref().is_none_or(|from| file.uploaded_by == *from)
                && query.as_ref().is_none_or(named)
        };
        let mut all: Vec<_> = snapshot.files().filter(|file| fits(file)).cloned().collect();
        all.sort_by(|one, other| (other.uploaded_ms, &other.id).cmp(&(one.uploaded_ms, &one.id)));
        Ok(all)
    }

    /// Deletes a file; for who shared it and for administrators.
    pub async fn file_delete(&self, mesh: &str, by: &str, file: &str) -> Result<(), RegistryError> {
        let (mesh, by, id) = (mesh.to_owned(), by.to_owned(), file.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            let member = snapshot.active_member(&by)?;
            let found = snapshot.file(&id).ok_or(RegistryError::FileNotFound)?;
            if found.uploaded_by != by && !member.is_admin() {
                let why = "only who shared a file and administrators may delete it";
                return Err(RegistryError::Forbidden(why.to_owned()));
            }
            let mut update = Update::of(&mesh);
            inner.tell(&mut update, kind::FILE_DELETED, &by, &id, json!({"name": found.name}));
            update.file(&id, None);
            update.news(What::FileDeleted { file: id.clone() });
            inner.commit(update).await?;
            Ok(inner.engine.blob_delete(&blob_id(&mesh, &id)).await?)
        })
        .await
    }

    /// Lets another member read a file; for who shared it.
    pub async fn file_grant(
        &self,
        mesh: &str,
        by: &str,
        file: &str,
        member: &str,
        sealed_key: String,
    ) -> Result<(), RegistryError> {
        let (mesh, by, id, reader) = (mesh.to_owned(), by.to_owned(), file.to_owned(), member.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.active_member(&by)?;
            let found = snapshot.file(&id).ok_or(RegistryError::FileNotFound)?;
            if found.uploaded_by != by {
                return Err(RegistryError::Forbidden("only who shared a file may let others read it".to_owned()));
            }
            let reader = snapshot.find(&reader)?.id.clone();
            if !snapshot.may(&reader, &by, "dm") {
                return Err(RegistryError::Blocked);
            }
            if sealed_key.len() > KEY || found.keys.len() >= KEYS {
                return Err(RegistryError::Invalid("too many or too long keys".to_owned()));
            }
            let mut record = found.record.clone();
            record.keys.insert(reader, sealed_key);
            let mut update = Update::of(&mesh);
            update.file(&id, Some(record));
            inner.commit(update).await.map(drop)
        })
        .await
    }
}

impl<E: Engine> Registry<E> {
    /// A reader's own copy of a file's key, sealed anew by that reader, which has one.
    pub async fn file_key_replace(
        &self,
        mesh: &str,
        by: &str,
        file: &str,
        sealed_key: String,
    ) -> Result<(), RegistryError> {
        let (mesh, by, id) = (mesh.to_owned(), by.to_owned(), file.to_owned());
        self.in_turn(|inner| async move {
            let snapshot = inner.snapshot(&mesh)?;
            snapshot.active_member(&by)?;
            let found = snapshot.file(&id).ok_or(RegistryError::FileNotFound)?;
            if !found.keys.contains_key(&by) {
                return Err(RegistryError::NotShared);
            }
            if sealed_key.is_empty() || sealed_key.len() > KEY {
                return Err(RegistryError::Invalid("the key is empty or too long".to_owned()));
            }
            let mut record = found.record.clone();
            record.keys.insert(by, sealed_key);
            let mut update = Update::of(&mesh);
            update.file(&id, Some(record));
            inner.commit(update).await.map(drop)
        })
        .await
    }
}

impl<E: Engine> Inner<E> {
    fn file_room(&self, mesh: &Mesh, by: &str, new: &NewFile) -> Result<Option<Arc<Held<FileRecord>>>, RegistryError> {
        mesh.active_member(by)?;
        new.check()?;
        match mesh.file(&new.id) {
            // One may have begun what the one that has taken its place goes on with, and either may come first.
            Some(known) if mesh.are_one(&known.uploaded_by, by) && new.made(known) => {
                return Ok(Some(Arc::clone(known)));
            }
            Some(known) if known.uploaded_by == by => return Err(RegistryError::Reused),
            Some(_) => return Err(RegistryError::Taken("a file of this id exists".to_owned())),
            None => {}
        }
        if let Some(to) = &new.to {
            mesh.member(to)
                .filter(|member| member.is_active())
                .ok_or_else(|| RegistryError::NotFound(format!("no member `{to}`")))?;
            if !mesh.may(to, by, "dm") {
                return Err(RegistryError::Blocked);
            }
        }
        if let Some(general) = mesh.general()
            && new.general_epoch().is_some_and(|epoch| epoch != general.epoch || !mesh.has_key(general, epoch))
        {
            return Err(RegistryError::StaleKeyEpoch);
        }
        let used: u64 = mesh.files().map(|file| file.size).sum();
        if mesh.files.len() >= self.settings.files || used.saturating_add(new.size) > self.settings.file_bytes {
            return Err(RegistryError::Full("the mesh has too many files".to_owned()));
        }
        Ok(None)
    }
}

impl Mesh {
    /// Whether a member may see a file: it is for that member, who has not blocked the one that shared it. What was
    /// shared before it was blocked is hidden as well, and is there again afterwards.
    fn shows_file(&self, member: &str, file: &FileRecord) -> bool {
        let capability = if file.to.is_none() { "broadcast" } else { "dm" };
        file.is_for(member) && (file.uploaded_by == member || self.may(member, &file.uploaded_by, capability))
    }
}

impl FileRecord {
    /// Not over yet.
    #[must_use]
    pub fn is_kept(&self, now_ms: u64) -> bool {
        self.expires_ms.is_none_or(|expires| now_ms < expires)
    }

    /// Whether a member may read it.
    #[must_use]
    pub fn is_for(&self, member: &str) -> bool {
        let to_all = self.to.is_none();
        to_all || self.uploaded_by == member || self.to.as_deref() == Some(member) || self.keys.contains_key(member)
    }
}
