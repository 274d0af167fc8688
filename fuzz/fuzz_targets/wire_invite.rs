//! Whatever somebody pastes as an invite: one that is read is signed by the owner it names, can be written and read
//! again, and what a broker gets of it does not contain its secret.
#![no_main]

use hostel_wire::invite::{Invite, InviteLink};
use hostel_wire::topic::is_mesh_slug;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(payload) = Invite::from_token(text) {
        assert_eq!(Invite::from_token(&payload.token()).as_ref(), Ok(&payload));
    }
    let link = match InviteLink::parse(text) {
        Ok(link) => link,
        Err(error) => {
            assert!(!error.to_string().is_empty() && !error.code().is_empty());
            return;
        }
    };
    assert_eq!(link.payload.verify(), Ok(()));
    assert!(is_mesh_slug(&link.payload.mesh_slug), "a slug is a directory's name");
    let again = InviteLink::parse(&link.text()).expect("our own writing");
    assert_eq!(again.payload, link.payload);
    assert_eq!(again.cert, link.cert);
    assert_eq!(again.secret.is_some(), link.secret.is_some());
    if let Some(secret) = &link.secret {
        assert!(!link.token.contains(secret.to_b64url().as_str()));
    }
});
