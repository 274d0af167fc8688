//! Proofs of authorship, whoever wrote them: nothing that the member's key has not signed is ever taken for proven, and a
//! key that is known stays the member's whatever rotations are shown.
#![no_main]

use hostel_wire::authorship::{
    BodySignature, KeyHistory, MessageContext, RecordContext, RecordPart, Remint, SessionProof, Statement, follow,
};
use hostel_wire::frames::Kind;
use hostel_wire::frames::client::Succession;
use hostel_wire::keys::SecretKey;
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;

/// Everything that a broker could hand out about a member, as JSON.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Shown {
    statement: Statement,
    remint: Remint,
    session: Option<SessionProof>,
    lineage: Vec<Succession>,
    record: serde_json::Value,
}

fuzz_target!(|bytes: &[u8]| {
    // A key that nobody who writes these bytes has.
    let (key, session) = (SecretKey::from_seed(&[9; 32]).public(), SecretKey::from_seed(&[10; 32]).public());
    if let Some(signature) = BodySignature::read(bytes) {
        assert!(bytes.ends_with(b"\"}") && bytes.len() > 96);
        let context = MessageContext {
            mesh_id: "mesh",
            member_id: "alice",
            member_key: &key,
            sender_key: &session,
            kind: Kind::All,
            destination: "*",
            client_message_id: "c1",
        };
        assert!(!signature.verify(&context), "nobody has signed this");
    }
    let Ok(mut shown) = serde_json::from_slice::<Shown>(bytes) else { return };
    assert!(!shown.statement.verify("mesh", "alice", &key));
    assert!(!shown.remint.verify("mesh", &key));
    assert!(!shown.session.is_some_and(|proof| proof.verify(&key, &session)));
    let record = RecordContext { mesh_id: "mesh", member_id: "alice", part: RecordPart::StateValue, record: "k" };
    assert_ne!(record.check(&mut shown.record, [&key]), Some(true));
    let before = KeyHistory { current: key.hex(), earlier: Vec::new() };
    let mut after = before.clone();
    assert!(!follow(&mut after, "mesh", "alice", &shown.lineage, 64));
    assert_eq!(after, before);
});
