//! Meshes, invites, joining.

use hostel_broker::registry::{JoinError, JoinRequest, NewInvite, NewMesh, RegistrySettings, Role, What};
use hostel_wire::invite::{Invite, InviteLink, Terms};
use hostel_wire::keys::SecretKey;
use serde_json::json;

use crate::registry::support::{DAY, World, join, new_mesh};

fn code<T: std::fmt::Debug>(result: Result<T, JoinError>) -> &'static str {
    result.unwrap_err().code()
}

#[tokio::test]
async fn a_mesh_has_an_owner_a_slug_of_its_own_and_general() {
    let world = World::new().await;
    assert_eq!((world.mesh.slug.as_str(), world.mesh.display_name.as_str()), ("lab", "alice"));
    let mesh = world.now();
    let alice = mesh.member(world.alice()).unwrap();
    assert_eq!((alice.role, alice.joined_seq, alice.is_admin()), (Role::Owner, 1, true));
    let general = mesh.general().unwrap();
    assert_eq!((general.name.as_str(), general.epoch), ("general", 0));
    assert!(mesh.subscribed(&general.id, world.alice()) && mesh.has_key(general, 0));
    let mut slugs = Vec::new();
    for name in ["lab", "LAB!", "  My lab  ", "my-lab"] {
        let (owner, member) = (SecretKey::generate(), SecretKey::generate());
        let made = world.registry.create_mesh(new_mesh(name, &owner, &member)).await.unwrap();
        // The answer may have been lost.
        assert_eq!(world.registry.create_mesh(new_mesh(name, &owner, &member)).await.unwrap(), made);
        slugs.push(made.slug);
    }
    assert_eq!(slugs, ["lab-2", "lab-3", "my-lab", "my-lab-2"]);
    assert_eq!(world.registry.mesh_by_slug("lab-3").unwrap().record.name, "LAB!");
    assert!(world.registry.mesh_by_slug("lab-4").is_none());
    let (owner, member) = (SecretKey::generate(), SecretKey::generate());
    let good = new_mesh("x", &owner, &member);
    for bad in [
        NewMesh { name: "!!".into(), ..good.clone() },
        NewMesh { owner_pubkey: "00".into(), ..good.clone() },
        NewMesh { member_pubkey: "zz".repeat(32), ..good },
    ] {
        assert_eq!(world.registry.create_mesh(bad).await.unwrap_err().code(), "invalid_argument");
    }
}

#[tokio::test]
async fn a_broker_has_so_many_meshes() {
    let world = World::with(RegistrySettings { meshes: 1, ..RegistrySettings::default() }).await;
    let refused = world.registry.create_mesh(new_mesh("b", &SecretKey::generate(), &SecretKey::generate())).await;
    assert_eq!(refused.unwrap_err().code(), "capacity");
}

#[tokio::test]
async fn an_invite_lets_in_as_many_as_it_says() {
    let world = World::new().await;
    let token = world.invite("member", 2, None).await;
    let (bob, carol, dave) = (SecretKey::generate(), SecretKey::generate(), SecretKey::generate());
    let mut changes = world.registry.changes();
    let joined = world.join_with(&token, &bob, "bob").await.unwrap();
    assert_eq!((joined.slug.as_str(), joined.mesh_name.as_str()), ("lab", "lab"));
    assert_eq!((joined.already_member, joined.sealed_root_key.as_deref()), (false, Some("c2VhbGVk")));
    let change = changes.recv().await.unwrap();
    assert_eq!(change.what, What::Joined { member: joined.member_id.clone() });
    assert_eq!((change.what.member(), change.roster_rev), (Some(&joined.member_id[..]), world.now().roster_rev));
    // Known keys join again without using it up, also when it is used up.
    let again = world.join_with(&token, &bob, "robert").await.unwrap();
    assert!(again.already_member && again.member_id == joined.member_id && again.display_name == "bob");
    // Base64url may come with its padding, and the key in capitals.
    let shouted = JoinRequest {
        peer_pubkey: carol.public().hex().to_uppercase(),
        ..join(&format!("{token}=="), &carol, "carol")
    };
    let second = world.registry.join(shouted).await;
    assert!(second.is_ok() || code(second) == "member_insert_failed");
    assert_eq!(code(world.join_with(&token, &dave, "dave").await), "invite_exhausted");
    assert!(world.join_with(&token, &bob, "bob").await.unwrap().already_member);
    let mesh = world.now();
    let member = mesh.member(&joined.member_id).unwrap();
    assert_eq!((member.role, member.joined_seq, member.name.as_str()), (Role::Member, 1, "bob"));
    assert!(mesh.subscribed(&mesh.general().unwrap().id, &joined.member_id));
    assert_eq!(mesh.invites().next().unwrap().uses, 2);
}

#[tokio::test]
async fn every_way_an_invite_is_refused() {
    let world = World::new().await;
    let key = SecretKey::generate();
    let try_it = |token: String| world.registry.join(join(&token, &key, "bob"));
    assert_eq!(code(try_it("garbage!".into()).await), "invite_not_found");
    let terms = world.terms("member");
    let link = |terms: &Terms, owner: &SecretKey| InviteLink::make(terms, owner, None).unwrap();
    let elsewhere = link(&Terms { mesh_id: "0".repeat(26), ..terms.clone() }, &world.owner);
    assert_eq!(code(try_it(elsewhere.token).await), "mesh_not_found");
    let stranger = link(&terms, &key);
    assert_eq!(code(try_it(stranger.token).await), "invite_owner_mismatch");
    // What the mesh is called on the inviter's host is for people; nobody has registered this one.
    let renamed = link(&Terms { mesh_slug: "other".into(), ..terms.clone() }, &world.owner);
    assert_eq!(code(try_it(renamed.token).await), "invite_not_found");
    let good = link(&terms, &world.owner);
    assert_eq!(code(try_it(good.token.clone()).await), "invite_not_found");
    let forged = Invite { role: "admin".into(), ..good.payload.clone() };
    assert_eq!(code(try_it(forged.token()).await), "invite_bad_signature");
    // Registered, but another payload beside it.
    let token = world.invite("member", 1, None).await;
    let payload = Invite::from_token(&token).unwrap();
    let with = |payload| JoinRequest { invite_payload: Some(payload), ..join(&token, &key, "bob") };
    let other = Invite { mesh_id: "x".into(), ..payload.clone() };
    assert_eq!(code(world.registry.join(with(other)).await), "invite_mesh_mismatch");
    let other = Invite { role: "admin".into(), ..payload.clone() };
    assert_eq!(code(world.registry.join(with(other)).await), "invite_bad_signature");
    let bad_key = JoinRequest { peer_pubkey: "00".repeat(32), ..join(&token, &key, "bob") };
    assert_eq!(code(world.registry.join(bad_key).await), "member_insert_failed");
    let mallory = world.member("mallory").await;
    assert_eq!(world.registry.invite_revoke(world.id(), &mallory, &token).await.unwrap_err().code(), "forbidden");
    world.registry.invite_revoke(world.id(), world.alice(), &token).await.unwrap();
    world.registry.invite_revoke(world.id(), world.alice(), &token).await.unwrap();
    assert_eq!(code(try_it(token).await), "invite_revoked");
    let token = world.invite("member", 1, None).await;
    world.pass(7 * DAY);
    assert_eq!(code(try_it(token).await), "invite_expired");
    assert_eq!(world.now().active().count(), 2);
}

/// Who owns the mesh by succession has not the key it was made with, and invites with its own.
#[tokio::test]
async fn an_heir_invites_with_its_own_key() {
    let world = World::new().await;
    let before = world.invite("member", 1, None).await;
    let (token, key) = (world.invite("admin", 1, None).await, SecretKey::generate());
    let heir = world.join_with(&token, &key, "heir").await.unwrap().member_id;
    let signed = |by: &SecretKey| InviteLink::make(&world.terms("member"), by, None).unwrap().token;
    let create = async |by: &str, token: &str| {
        let new = NewInvite { token: token.to_owned(), sealed_root_key: None, max_uses: Some(2), preset: None };
        world.registry.invite_create(world.id(), by, new).await.map(drop).map_err(|error| error.code())
    };
    let early = signed(&key);
    assert_eq!(create(&heir, &early).await, Err("forbidden"), "an administrator's key signs nothing");
    let joining = SecretKey::generate();
    assert_eq!(code(world.registry.join(join(&early, &joining, "x")).await), "invite_owner_mismatch");
    world.registry.leave(world.id(), world.alice(), None).await.unwrap();
    let own = signed(&key);
    create(&heir, &own).await.unwrap();
    world.join_with(&own, &joining, "bob").await.unwrap();
    world.join_with(&before, &SecretKey::generate(), "carol").await.unwrap();
    assert_eq!(create(&heir, &signed(&SecretKey::generate())).await, Err("forbidden"));
    // Another owner, and what the heir has registered stays good; what it signs from then on is not.
    let next = SecretKey::generate();
    let promoted = world.join_with(&signed_admin(&world, &key, &heir).await, &next, "next").await.unwrap().member_id;
    world.registry.leave(world.id(), &heir, None).await.unwrap();
    world.join_with(&own, &SecretKey::generate(), "dave").await.unwrap();
    assert_eq!(create(&promoted, &signed(&key)).await, Err("forbidden"));
    create(&promoted, &signed(&next)).await.unwrap();
}

/// An invite for an administrator, signed by an heir.
async fn signed_admin(world: &World, key: &SecretKey, by: &str) -> String {
    let token = InviteLink::make(&world.terms("admin"), key, None).unwrap().token;
    let new = NewInvite { token: token.clone(), sealed_root_key: None, max_uses: None, preset: None };
    world.registry.invite_create(world.id(), by, new).await.unwrap();
    token
}

#[tokio::test]
async fn who_may_invite_and_with_what() {
    let world = World::new().await;
    let (admin, member) = (world.member_as("admin", "admin").await, world.member("bob").await);
    let new = |token: String| NewInvite { token, sealed_root_key: None, max_uses: None, preset: None };
    let signed = || InviteLink::make(&world.terms("member"), &world.owner, None).unwrap().token;
    let create = |by: &str, new: NewInvite| {
        let (registry, mesh, by) = (world.registry.clone(), world.id().to_owned(), by.to_owned());
        async move { registry.invite_create(&mesh, &by, new).await.map_err(|error| error.code()) }
    };
    assert_eq!(create(&member, new(signed())).await.unwrap_err(), "forbidden");
    let token = signed();
    let made = create(&admin, new(token.clone())).await.unwrap();
    assert_eq!((made.max_uses, made.uses, made.created_by.as_str()), (1, 0, &admin[..]));
    assert_eq!(create(world.alice(), new(token)).await.unwrap().id, made.id);
    let stranger = InviteLink::make(&world.terms("member"), &SecretKey::generate(), None).unwrap().token;
    assert_eq!(create(world.alice(), new(stranger)).await.unwrap_err(), "forbidden");
    for bad in [
        new("garbage".into()),
        NewInvite { max_uses: Some(0), ..new(signed()) },
        NewInvite { sealed_root_key: Some("x".repeat(10_000)), ..new(signed()) },
        NewInvite { preset: Some(json!({"groups": "ops"})), ..new(signed()) },
        NewInvite { preset: Some(json!({"groups": [{"name": "no good"}]})), ..new(signed()) },
    ] {
        assert_eq!(create(world.alice(), bad).await.unwrap_err(), "invalid_argument");
    }
    assert_eq!(world.registry.invite_list(world.id(), &member).unwrap_err().code(), "forbidden");
    let listed = world.registry.invite_list(world.id(), &admin).unwrap();
    assert_eq!(listed.len(), 3);
    // The token is half of what the link holds, and is not kept.
    let stored = std::fs::read(world.scratch.path().join("broker.db-wal")).unwrap();
    let token = world.invite("member", 1, None).await;
    assert!(!stored.windows(40).any(|part| part == &token.as_bytes()[..40]));
}

#[tokio::test]
async fn presets_and_names() {
    let world = World::new().await;
    let preset = json!({"displayName": "Worker", "roleTag": "build", "groups": [{"name": "ops", "role": "lead"}], "messageMode": "inbox"});
    let token = world.invite("admin", 3, Some(preset)).await;
    let joined = world.join_with(&token, &SecretKey::generate(), "ignored").await.unwrap();
    let mesh = world.now();
    let member = mesh.member(&joined.member_id).unwrap();
    assert_eq!((member.name.as_str(), member.role), ("Worker", Role::Admin));
    assert_eq!((member.role_tag.as_deref(), member.message_mode.as_deref()), (Some("build"), Some("inbox")));
    assert_eq!(mesh.group("ops"), [joined.member_id]);
    // Names are unique without regard to case, and can be mentioned.
    let second = world.join_with(&token, &SecretKey::generate(), "x").await.unwrap();
    assert_eq!(second.display_name, "Worker-2");
    let token = world.invite("member", 9, None).await;
    for (wanted, got) in [("ALICE", "ALICE-2"), ("Ada Lovelace!", "Ada-Lovelace"), ("", "peer"), ("日本", "peer-2")] {
        let joined = world.join_with(&token, &SecretKey::generate(), wanted).await.unwrap();
        assert_eq!(joined.display_name, got);
    }
}

#[tokio::test]
async fn a_full_mesh_lets_nobody_in_and_a_left_one_may_come_back() {
    let world = World::with(RegistrySettings { members: 2, ..RegistrySettings::default() }).await;
    let token = world.invite("member", 9, None).await;
    let (bob, carol) = (SecretKey::generate(), SecretKey::generate());
    let joined = world.join_with(&token, &bob, "bob").await.unwrap();
    assert_eq!(code(world.join_with(&token, &carol, "carol").await), "member_insert_failed");
    world.registry.leave(world.id(), &joined.member_id, None).await.unwrap();
    world.join_with(&token, &carol, "bob").await.unwrap();
    let refused = world.join_with(&token, &bob, "bob").await;
    assert_eq!(code(refused), "member_insert_failed");
    let world = World::new().await;
    let token = world.invite("member", 9, None).await;
    let joined = world.join_with(&token, &bob, "bob").await.unwrap();
    world.registry.leave(world.id(), &joined.member_id, None).await.unwrap();
    let back = world.join_with(&token, &bob, "bob").await.unwrap();
    assert_eq!((back.member_id.as_str(), back.already_member), (&joined.member_id[..], false));
    let mesh = world.now();
    assert!(mesh.member(&back.member_id).unwrap().is_active());
    assert!(mesh.subscribed(&mesh.general().unwrap().id, &back.member_id));
    // A revoked key does not come back this way.
    world.registry.revoke(world.id(), world.alice(), "bob").await.unwrap();
    assert_eq!(code(world.join_with(&token, &bob, "bob").await), "member_insert_failed");
}
