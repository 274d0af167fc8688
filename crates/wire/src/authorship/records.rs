//! Signatures of what members keep together: entries of the shared state and parts of tasks.
//!
//! The signature is a field of the sealed object, `"a"`. The rest of the object is signed in its canonical form, because
//! these objects are written and read as JSON values and have no fixed bytes.
//!
//! Limit: which of several signed values of one entry is the present one, only the broker says. A broker can therefore
//! show an earlier value of the same entry; it cannot make one up, nor say that somebody else wrote it.

use serde_json::Value;

use super::SignedText;
use crate::canonical::canonical;
use crate::encoding;
use crate::keys::{PublicKey, SecretKey, Signature};

const PURPOSE: &str = "claudemesh-record-v1";

/// The field that holds the signature.
const FIELD: &str = "a";

/// What part of a record a sealed object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordPart {
    /// The name of an entry that is written.
    StateName,
    /// The name of an entry that is removed.
    StateRemoved,
    /// The name and the value of an entry.
    StateValue,
    /// The title of a task, with its urgency and assignee.
    TaskTitle,
    /// The body of a task.
    TaskBody,
    /// What came of a task.
    TaskResult,
}

impl RecordPart {
    fn as_str(self) -> &'static str {
        match self {
            Self::StateName => "state-name",
            Self::StateRemoved => "state-removed",
            Self::StateValue => "state-value",
            Self::TaskTitle => "task-title",
            Self::TaskBody => "task-body",
            Self::TaskResult => "task-result",
        }
    }
}

/// Where a sealed object belongs.
#[derive(Debug, Clone, Copy)]
pub struct RecordContext<'a> {
    /// The mesh.
    pub mesh_id: &'a str,
    /// Who wrote it.
    pub member_id: &'a str,
    /// Which part of a record it is.
    pub part: RecordPart,
    /// The digest of an entry's name, or a task's id.
    pub record: &'a str,
}

impl RecordContext<'_> {
    fn text(&self, key: &PublicKey, plain: &Value) -> Option<String> {
        let text = canonical(plain).ok()?;
        let signed = SignedText::new(PURPOSE)
            .field(self.mesh_id.as_bytes())
            .field(self.member_id.as_bytes())
            .field(&key.0)
            .field(self.part.as_str().as_bytes())
            .field(self.record.as_bytes())
            .field(text.as_bytes());
        Some(signed.finish())
    }

    /// Adds the author's signature to an object. What has no canonical form stays unsigned.
    #[must_use]
    pub fn sign(&self, mut plain: Value, key: &SecretKey) -> Value {
        let signature = self.text(&key.public(), &plain).map(|text| key.sign(text.as_bytes()));
        if let (Some(fields), Some(signature)) = (plain.as_object_mut(), signature) {
            fields.insert(FIELD.to_owned(), encoding::b64(&signature.0).into());
        }
        plain
    }

    /// Takes the signature out of an object and says whether one of these keys made it; none if there is no signature.
    pub fn check<'k>(&self, plain: &mut Value, keys: impl IntoIterator<Item = &'k PublicKey>) -> Option<bool> {
        let signature = plain.as_object_mut()?.remove(FIELD)?;
        let signature = signature.as_str().and_then(encoding::unb64_array).map(Signature);
        let Some(signature) = signature else { return Some(false) };
        let is_by = |key: &PublicKey| self.text(key, plain).is_some_and(|text| key.verify(text.as_bytes(), &signature));
        Some(keys.into_iter().any(is_by))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_belongs_to_its_author_and_its_place() {
        let key = SecretKey::generate();
        let (mine, other) = (key.public(), SecretKey::generate().public());
        let here = RecordContext { mesh_id: "m", member_id: "alice", part: RecordPart::StateValue, record: "k" };
        let signed = here.sign(json!({"k": "name", "v": {"b": 1, "a": 2}}), &key);
        let check = |context: &RecordContext<'_>, keys: &[PublicKey]| context.check(&mut signed.clone(), keys);
        assert_eq!(check(&here, &[other, mine]), Some(true));
        assert_eq!(check(&here, &[other]), Some(false));
        for elsewhere in [
            RecordContext { mesh_id: "n", ..here },
            RecordContext { member_id: "bob", ..here },
            RecordContext { part: RecordPart::StateName, ..here },
            RecordContext { record: "l", ..here },
        ] {
            assert_eq!(check(&elsewhere, &[mine]), Some(false), "{elsewhere:?}");
        }
        let mut changed = signed.clone();
        changed["v"]["b"] = 2.into();
        assert_eq!(here.check(&mut changed, &[mine]), Some(false));
        let mut read = signed.clone();
        here.check(&mut read, &[mine]);
        assert_eq!(read, json!({"k": "name", "v": {"b": 1, "a": 2}}), "the signature is taken out");
    }

    #[test]
    fn what_is_not_signed_is_told_from_what_is_forged() {
        let here = RecordContext { mesh_id: "m", member_id: "a", part: RecordPart::TaskTitle, record: "t" };
        assert_eq!(here.check(&mut json!({"t": "x"}), &[]), None);
        assert_eq!(here.check(&mut json!("text"), &[]), None);
        assert_eq!(here.check(&mut json!({"t": "x", "a": 7}), &[]), Some(false));
    }
}
