//! What is believed of members, by what they have signed.

use std::collections::BTreeMap;

use hostel_wire::authorship::{Remint, Statement};
use hostel_wire::frames::server::{Member, RetiredKey};
use hostel_wire::hello::{remint_request, succeed};
use hostel_wire::keys::SecretKey;

use super::*;

const MESH: &str = "mesh";

/// Members as they are shown, and what is proven of them.
#[derive(Default)]
struct World {
    authors: Authors,
    known: BTreeMap<String, Member>,
}

impl World {
    /// A list of the broker's; what a person is told of it.
    fn hear(&mut self, members: &[Member], signs_from: Option<u64>) -> Vec<&'static str> {
        let mut members = members.to_vec();
        let notices = self.authors.admit(MESH, "me", &mut members, &mut self.known, signs_from);
        self.known.extend(members.into_iter().map(|member| (member.id.clone(), member)));
        notices.iter().map(|notice| notice.told().0).collect()
    }

    fn name(&self, id: &str) -> &str {
        &self.known[id].name
    }

    fn line(&self, id: &str) -> Option<u64> {
        self.authors.0.lock().pins[id].signs_from
    }
}

fn member(id: &str, name: &str, key: &SecretKey) -> Member {
    Member { id: id.to_owned(), name: name.to_owned(), pubkey: key.public().hex(), ..Member::default() }
}

fn stated(id: &str, name: &str, at: u64, key: &SecretKey) -> Member {
    Member { statement: Some(Statement::new(MESH, id, name, at, key)), ..member(id, name, key) }
}

#[test]
fn a_key_without_a_proof_is_believed_of_members_that_never_signed() {
    let (mut world, old, new) = (World::default(), SecretKey::generate(), SecretKey::generate());
    assert!(world.hear(&[member("bob", "bob", &old)], Some(1)).is_empty());
    assert_eq!(world.authors.keys("bob"), [old.public()]);
    assert_eq!(world.hear(&[member("bob", "bob", &new)], Some(1)), ["member_key_unproven"]);
    assert_eq!(world.known["bob"].pubkey, new.public().hex());
    assert!(world.authors.keys("bob").is_empty(), "and nothing is proven with it");
    assert_eq!(world.authors.trust("bob"), Some(new.public().hex()));
    assert_eq!(world.authors.keys("bob"), [new.public()]);
}

#[test]
fn earlier_keys_of_who_signs_have_to_be_proven() {
    let (mut world, old, new, made_up) =
        (World::default(), SecretKey::generate(), SecretKey::generate(), SecretKey::generate());
    let earlier = |key: &SecretKey| RetiredKey { pubkey: key.public().hex(), at: 1, until: 2 };
    world.hear(&[stated("bob", "bob", 1, &new)], Some(1));
    let claimed = Member { retired: vec![earlier(&old), earlier(&made_up)], ..stated("bob", "bob", 1, &new) };
    world.hear(std::slice::from_ref(&claimed), None);
    assert!(world.known["bob"].retired.is_empty());
    let proven = Member { lineage: vec![succeed(MESH, "bob", &old, &new, 1)], ..claimed };
    world.hear(&[proven], None);
    assert_eq!(world.known["bob"].retired, [earlier(&old)]);
    assert_eq!(world.authors.keys("bob"), [new.public(), old.public()]);
    // A broker that was set back names the earlier key.
    assert!(world.hear(&[stated("bob", "bob", 1, &old)], None).is_empty());
    assert_eq!(world.known["bob"].pubkey, new.public().hex());
}

#[test]
fn a_statement_counts_from_the_beginning_of_a_connection() {
    let (mut world, key) = (World::default(), SecretKey::generate());
    world.hear(&[stated("bob", "bob", 1, &key)], None);
    assert_eq!(world.line("bob"), None, "heard in the middle of one");
    world.hear(&[member("bob", "bob", &key)], Some(5));
    assert_eq!(world.line("bob"), None, "that one does not say it");
    world.hear(&[stated("bob", "bob", 1, &key)], Some(9));
    assert_eq!(world.line("bob"), Some(9));
    world.hear(&[stated("bob", "bob", 1, &key)], Some(20));
    assert_eq!(world.line("bob"), Some(9));
    world.authors.log_replaced();
    assert_eq!(world.line("bob"), Some(0));
}

#[test]
fn what_a_host_remembers_counts_though_its_databases_are_lost() {
    let key = SecretKey::generate();
    let kept = [stated("bob", "bob", 1, &key), member("carol", "carol", &SecretKey::generate())];
    let mut world = World::default();
    world.authors.remember(MESH, "me", &mut kept.clone(), &mut world.known);
    assert!(world.authors.signs("bob") && !world.authors.signs("carol"));
    // The broker does not say it any more.
    world.hear(&[member("bob", "bob", &key)], Some(7));
    assert_eq!(world.line("bob"), Some(7));
    let stored = world.authors.take_changes();
    assert_eq!(stored.len(), 2);
    assert!(world.authors.take_changes().is_empty());
    world.authors.give_back(["bob".to_owned()]);
    assert_eq!(world.authors.take_changes().len(), 1);
}

#[test]
fn a_name_changes_with_its_members_word_alone() {
    let (mut world, key) = (World::default(), SecretKey::generate());
    world.hear(&[stated("bob", "bob", 5, &key)], Some(1));
    let renamed = Member { name: "robert".to_owned(), ..stated("bob", "bob", 5, &key) };
    assert_eq!(world.hear(std::slice::from_ref(&renamed), None), ["member_name_unproven"]);
    assert!(world.hear(&[renamed], None).is_empty(), "told once");
    assert_eq!(world.name("bob"), "bob");
    assert!(world.hear(&[stated("bob", "robert", 6, &key)], None).is_empty());
    assert_eq!(world.name("bob"), "robert");
    // An earlier word does not come back.
    world.hear(&[stated("bob", "bob", 5, &key)], None);
    assert_eq!(world.name("bob"), "robert");
}

#[test]
fn who_comes_later_does_not_get_a_name_that_is_in_use() {
    let (mut world, bob, eve, older) =
        (World::default(), SecretKey::generate(), SecretKey::generate(), SecretKey::generate());
    world.hear(&[stated("m1", "bob", 1, &bob), member("m2", "ann", &older), member("me", "me", &eve)], Some(1));
    let eves = format!("bob-{}", &eve.public().hex()[..8]);
    assert_eq!(world.hear(&[stated("m0", "Bob", 9, &eve)], None), ["member_name_taken"]);
    assert_eq!((world.name("m1"), world.name("m0").to_lowercase()), ("bob", eves));
    // Nor one of a member that signs nothing, nor our own.
    for (id, name) in [("m3", "ann"), ("m4", "me")] {
        world.hear(&[stated(id, name, 9, &SecretKey::generate())], None);
        assert!(world.name(id).starts_with(&format!("{name}-")), "{}", world.name(id));
    }
    assert_eq!((world.name("m2"), world.name("me")), ("ann", "me"));
    // A name of somebody who is gone can be had, and that is told.
    world.hear(&[Member { left: true, ..stated("m1", "bob", 1, &bob) }], None);
    assert_eq!(world.hear(&[stated("m5", "bob", 9, &SecretKey::generate())], None), ["member_name_reused"]);
    assert_eq!(world.name("m5"), "bob");
}

#[test]
fn a_name_goes_to_who_has_taken_its_members_place() {
    let (old, new, thief) = (SecretKey::generate(), SecretKey::generate(), SecretKey::generate());
    let remint = |new: &SecretKey, signer: &SecretKey| {
        let text = remint_request(MESH, &old.public().hex(), &new.public().hex(), false, 7);
        Remint {
            member_id: "m1".to_owned(),
            old_pubkey: old.public().hex(),
            timestamp: 7,
            signature: signer.sign(text.as_bytes()).hex(),
            proof: new.sign(text.as_bytes()).hex(),
        }
    };
    let before = stated("m1", "bob", 1, &old);
    let renamed = Member { name: "bob-old".to_owned(), ..before.clone() };
    for one_list in [true, false] {
        let mut world = World::default();
        world.hear(std::slice::from_ref(&before), Some(1));
        let stolen = Member { remint: Some(remint(&thief, &thief)), ..stated("m0", "bob", 8, &thief) };
        assert_eq!(world.hear(&[stolen], None), ["member_name_taken"]);
        let heir = Member { remint: Some(remint(&new, &old)), ..stated("m2", "bob", 8, &new) };
        let told = match one_list {
            true => world.hear(&[renamed.clone(), heir], None),
            false => [world.hear(&[heir], None), world.hear(std::slice::from_ref(&renamed), None)].concat(),
        };
        assert!(told.is_empty(), "{told:?}");
        assert_eq!((world.name("m1"), world.name("m2")), ("bob-old", "bob"));
    }
}
