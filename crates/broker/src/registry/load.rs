//! What is on disk, as it is in memory.

use std::collections::HashMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::error::RegistryError;
use super::mesh::Mesh;
use super::records::{CursorRecord, Held, MeshRecord, SeenRecord, bucket};
use super::update::Edit;
use crate::engine::{Engine, EngineError, KvEntry};

pub(super) struct Loaded {
    pub(super) meshes: HashMap<String, Arc<Mesh>>,
    pub(super) seen: HashMap<(String, String), SeenRecord>,
    pub(super) cursors: HashMap<(String, String), CursorRecord>,
}

pub(super) fn parse<T: DeserializeOwned>(bucket: &str, entry: &KvEntry) -> Result<T, RegistryError> {
    serde_json::from_slice(&entry.value)
        .map_err(|error| EngineError::Unreadable(format!("`{}` of `{bucket}`: {error}", entry.key)).into())
}

pub(super) async fn load(engine: &impl Engine) -> Result<Loaded, RegistryError> {
    let mut meshes = HashMap::new();
    for entry in engine.scan(bucket::MESH, "").await? {
        let record: MeshRecord = parse(bucket::MESH, &entry)?;
        // A log is made before its mesh is; one that is missing was lost.
        engine.ensure_log(&record.id).await?;
        meshes.insert(record.id.clone(), Mesh::new(Held { revision: entry.revision, record }));
    }
    let buckets = [
        bucket::MEMBER,
        bucket::INVITE,
        bucket::TOPIC,
        bucket::SUB,
        bucket::SEAL,
        bucket::GRANT,
        bucket::FILE,
        bucket::SESSION,
    ];
    for bucket in buckets {
        for entry in engine.scan(bucket, "").await? {
            let mut parts = entry.key.split('/');
            let Some(mesh) = parts.next().and_then(|id| meshes.get_mut(id)) else { continue };
            let parts: Vec<_> = parts.map(str::to_owned).collect();
            if let Some(edit) = edit(bucket, &parts, &entry)? {
                mesh.apply(edit, entry.revision);
            }
        }
    }
    let meshes = meshes.into_iter().map(|(id, mesh)| (id, Arc::new(mesh))).collect();
    Ok(Loaded {
        meshes,
        seen: by_member(engine, bucket::SEEN).await?,
        cursors: by_member(engine, bucket::CURSOR).await?,
    })
}

fn edit(bucket: &str, key: &[String], entry: &KvEntry) -> Result<Option<Edit>, RegistryError> {
    Ok(match (bucket, key) {
        (bucket::MEMBER, [id]) => Some(Edit::Member(id.clone(), Some(parse(bucket, entry)?))),
        (bucket::INVITE, [id]) => Some(Edit::Invite(id.clone(), Some(parse(bucket, entry)?))),
        (bucket::TOPIC, [id]) => Some(Edit::Topic(id.clone(), Some(parse(bucket, entry)?))),
        (bucket::FILE, [id]) => Some(Edit::File(id.clone(), Some(parse(bucket, entry)?))),
        (bucket::SESSION, [key]) => Some(Edit::Session(key.clone(), Some(parse(bucket, entry)?))),
        (bucket::SUB, [topic, member]) => {
            Some(Edit::Sub { topic: topic.clone(), member: member.clone(), sub: Some(parse(bucket, entry)?) })
        }
        (bucket::GRANT, [receiver, sender]) => {
            let grant = Some(parse(bucket, entry)?);
            Some(Edit::Grant { receiver: receiver.clone(), sender: sender.clone(), grant })
        }
        (bucket::SEAL, [topic, epoch, member]) => epoch.parse().ok().map(|epoch| Edit::Seal {
            topic: topic.clone(),
            epoch,
            member: member.clone(),
            kept: true,
        }),
        _ => None,
    })
}

async fn by_member<T: DeserializeOwned>(
    engine: &impl Engine,
    bucket: &'static str,
) -> Result<HashMap<(String, String), T>, RegistryError> {
    let mut all = HashMap::new();
    for entry in engine.scan(bucket, "").await? {
        if let Some((mesh, member)) = entry.key.split_once('/') {
            all.insert((mesh.to_owned(), member.to_owned()), parse(bucket, &entry)?);
        }
    }
    Ok(all)
}
