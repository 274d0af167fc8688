//! Files: where they are and who may read them. Their bytes go over HTTP.

use hostel_wire::frames::client::Call;
use hostel_wire::iso;
use serde_json::{Value, json};

use super::{Asker, Outcome, Reply, dated};
use crate::engine::Engine;
use crate::registry::{FileRecord, RegistryError};

fn described(file: &FileRecord) -> Value {
    json!({
        "id": file.id,
        "name": file.name,
        "size": file.size,
        "tags": file.tags,
        "uploadedBy": file.uploaded_by,
        "uploadedAt": iso(file.uploaded_ms),
        "persistent": file.persistent,
        "expiresAt": file.expires_ms.map(iso),
        "encrypted": true,
        "sha256": file.sha256,
        "to": file.to,
    })
}

impl<E: Engine> Asker<'_, E> {
    pub(super) async fn files(&self, call: Call) -> Outcome {
        let (mesh, member) = (self.mesh_id(), self.member());
        let registry = &self.broker.registry;
        match call {
            Call::GetFile { file_id } => {
                let (file, sealed_key) = registry.file_for(mesh, member, &file_id)?;
                let mut said = described(&file);
                said["fileId"] = file.id.clone().into();
                said["url"] = format!("/download/{}?mesh={mesh}", file.id).into();
                said["sealedKey"] = json!(sealed_key);
                Ok(Reply::Of("file_url", said))
            }
            Call::ListFiles { query, from, after } => {
                let after = after.as_deref().map(dated).transpose()?;
                let files = registry.files_for(mesh, member, query.as_deref(), from.as_deref())?;
                // The newest first.
                let behind = |file: &FileRecord| after.is_none_or(|after| (file.uploaded_ms, file.id.as_str()) < after);
                let files = files.iter().filter(|file| behind(file));
                let files = files.map(|file| (format!("{}:{}", file.uploaded_ms, file.id), described(file)));
                Ok(Reply::Of("file_list", self.paged("files", files)))
            }
            Call::DeleteFile { file_id } => {
                registry.file_delete(mesh, member, &file_id).await?;
                Ok(Reply::Ok(json!({})))
            }
            Call::GrantFileAccess { file_id, member_id, sealed_key } => {
                registry.file_grant(mesh, member, &file_id, &member_id, sealed_key).await?;
                Ok(Reply::Ok(json!({})))
            }
            _ => Err(RegistryError::Invalid("this cannot be asked".to_owned())),
        }
    }
}
