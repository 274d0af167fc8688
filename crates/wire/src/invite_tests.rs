//! Invites: what is signed, what is read, what is refused.

use proptest::prelude::*;

use super::*;

fn terms() -> Terms {
    Terms {
        mesh_id: "01hzzzzzzzzzzzzzzzzzzzzzzz".into(),
        mesh_slug: "lab".into(),
        broker_url: "wss://host:8443/ws".into(),
        expires_at: 1_790_000_000,
        role: "member".into(),
    }
}

#[test]
fn a_link_is_read_as_it_was_written() {
    let owner = SecretKey::generate();
    for cert in [None, Some([5; 32].into()), Some(CertPin { cert: [5; 32], key: Some([6; 32]) })] {
        let made = InviteLink::make(&terms(), &owner, cert).unwrap();
        let link = made.text();
        assert!(link.starts_with("ic://join/"));
        let read = InviteLink::parse(&link).unwrap();
        assert_eq!(read.payload, made.payload);
        assert_eq!(read.token, made.token);
        assert_eq!(read.cert, cert);
        let root = RootKey::generate();
        let sealed = made.secret.as_ref().unwrap().seal_root(&root);
        assert_eq!(read.secret.unwrap().open_root(&sealed), Ok(root));

        let fragment = link.split_once('#').unwrap().1;
        for other in [
            format!("https://example.org/join/{}#{fragment}", made.token),
            format!("{}#{fragment}", made.token),
            format!("  ic://join/{}/#{fragment}&later=1\n", made.token),
        ] {
            let read = InviteLink::parse(&other).unwrap();
            assert_eq!(read.payload, made.payload);
            assert!(read.secret.is_some());
        }
        let bare = InviteLink::parse(&made.token).unwrap();
        assert!(bare.secret.is_none());
    }
}

#[test]
fn the_signed_text() {
    let owner = SecretKey::from_seed(&[1; 32]);
    let made = InviteLink::make(&terms(), &owner, None).unwrap();
    let expected = format!(
        "1|01hzzzzzzzzzzzzzzzzzzzzzzz|lab|wss://host:8443/ws|1790000000|{}|member|{}",
        made.payload.mesh_root_key,
        owner.public()
    );
    assert_eq!(made.payload.signed_text(), expected);
    assert!(!made.payload.is_expired(1_789_999_999_999));
    assert!(made.payload.is_expired(1_790_000_000_000));
}

#[test]
fn the_root_key_is_not_in_the_token() {
    let made = InviteLink::make(&terms(), &SecretKey::generate(), None).unwrap();
    let secret = encoding::b64url(&made.secret.as_ref().unwrap().0[..]);
    let shown = String::from_utf8(encoding::unb64url(&made.token).unwrap()).unwrap();
    assert!(!made.token.contains(&secret) && !shown.contains(&secret));
    let other = InviteSecret::generate();
    let sealed = made.secret.unwrap().seal_root(&RootKey::generate());
    assert_eq!(other.open_root(&sealed).err(), Some(OpenError::Refused));
    assert_eq!(other.open_root("AAAA").err(), Some(OpenError::Encoding));
    assert_eq!(format!("{other:?}"), "InviteSecret");
}

#[test]
fn what_is_changed_is_noticed() {
    let owner = SecretKey::generate();
    let made = InviteLink::make(&terms(), &owner, None).unwrap();
    for change in [
        |invite: &mut Invite| invite.role = "admin".into(),
        |invite: &mut Invite| invite.broker_url = "wss://evil/ws".into(),
        |invite: &mut Invite| invite.expires_at += 1,
        |invite: &mut Invite| invite.mesh_root_key = InviteSecret::generate().commitment(),
        |invite: &mut Invite| invite.owner_pubkey = SecretKey::generate().public().hex(),
        |invite: &mut Invite| invite.signature.clear(),
    ] {
        let mut payload = made.payload.clone();
        change(&mut payload);
        assert_eq!(InviteLink::parse(&payload.token()).err(), Some(InviteError::BadSignature));
    }
    let foreign = InviteLink::make(&terms(), &owner, None).unwrap();
    let mixed = format!("{}#{}", made.token, foreign.text().split_once('#').unwrap().1);
    assert_eq!(InviteLink::parse(&mixed).err(), Some(InviteError::WrongSecret));
}

#[test]
fn fields_cannot_run_into_each_other() {
    let mut shifted = terms();
    shifted.mesh_id = "a|b".into();
    assert!(matches!(InviteLink::make(&shifted, &SecretKey::generate(), None), Err(InviteError::Malformed(_))));
}

#[test]
fn what_is_no_invite() {
    let owner = SecretKey::generate();
    let signed = |change: fn(&mut Invite)| {
        let mut payload = InviteLink::make(&terms(), &owner, None).unwrap().payload;
        change(&mut payload);
        payload.signature = owner.sign(payload.signed_text().as_bytes()).hex();
        payload.token()
    };
    assert_eq!(InviteLink::parse("https://host/i/abc").err(), Some(InviteError::ShortLink));
    assert_eq!(InviteLink::parse(&signed(|invite| invite.v = 2)).err(), Some(InviteError::Version(2)));
    let good = InviteLink::make(&terms(), &owner, None).unwrap().token;
    for bad in [
        String::new(),
        "hello".into(),
        "https://host/".into(),
        "ftp://host/join/x".into(),
        "/etc/passwd".into(),
        "a".repeat(LINK_LIMIT + 1),
        encoding::b64url(b"{}"),
        format!("{good}#k=abc"),
        format!("{good}#cert=abc"),
        signed(|invite| invite.mesh_slug = "../up".into()),
        signed(|invite| invite.role = "god".into()),
    ] {
        assert!(matches!(InviteLink::parse(&bad), Err(InviteError::Malformed(_))), "{bad}");
    }
}

proptest! {
    #[test]
    fn nothing_makes_it_panic(text in ".{0,200}") {
        InviteLink::parse(&text).ok();
        InviteLink::parse(&format!("ic://join/{text}")).ok();
        InviteLink::parse(&format!("ic://join/{}#{text}", encoding::b64url(text.as_bytes()))).ok();
    }
}
