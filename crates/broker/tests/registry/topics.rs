//! Topics, subscriptions, keys.

use hostel_broker::registry::{Ask, RegistrySettings, SealsStored, What};
use hostel_wire::frames::To;
use hostel_wire::frames::client::Seal;

use crate::registry::support::{DAY, World, seals};

#[tokio::test]
async fn a_topic_is_made_once_and_found_by_name_or_id() {
    let world = World::with(RegistrySettings { topics: 3, ..RegistrySettings::default() }).await;
    let bob = world.member("bob").await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let made = registry.topic_create(id, &bob, "#Alerts", Some("what breaks".into()), None).await.unwrap();
    assert!(made.created && made.topic.name == "alerts" && made.topic.visibility == "public" && made.topic.epoch == 0);
    let again = registry.topic_create(id, alice, "alerts", None, Some("private".into())).await.unwrap();
    assert!(!again.created && again.topic.id == made.topic.id && again.topic.visibility == "public");
    let mesh = world.now();
    for text in [&made.topic.id[..], "alerts", "#alerts", "ALERTS"] {
        assert_eq!(mesh.topic(text).unwrap().id, made.topic.id);
    }
    assert!(mesh.subscribed(&made.topic.id, &bob) && !mesh.subscribed(&made.topic.id, alice));
    let made = registry.topic_create(id, &bob, "secret", None, Some("private".into())).await.unwrap().topic;
    let carol = world.member("carol").await;
    let mesh = world.now();
    assert!(mesh.shows(&made, &bob) && mesh.shows(&made, alice) && !mesh.shows(&made, &carol));
    for (name, visibility, code) in
        [("a b", None, "invalid_argument"), ("x", Some("odd"), "invalid_argument"), ("one-more", None, "capacity")]
    {
        let refused = registry.topic_create(id, &bob, name, None, visibility.map(str::to_owned)).await;
        assert_eq!(refused.unwrap_err().code(), code);
    }
    assert_eq!(registry.topic_create(id, "nobody", "x", None, None).await.unwrap_err().code(), "forbidden");
}

#[tokio::test]
async fn a_subscription_is_intervals_of_the_log() {
    let world = World::new().await;
    let bob = world.member("bob").await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let topic = registry.topic_create(id, alice, "alerts", None, None).await.unwrap().topic.id.clone();
    let post = async |client: &str| {
        let to = To::Topic(topic.clone());
        let route = world.now().route(Ask { sender: alice, kind: None, to: &to, key_epoch: None }).unwrap();
        world.append(alice, client, route).await
    };
    post("1").await;
    let subscribed = registry.subscribe(id, &bob, "alerts", false).await.unwrap();
    assert!(!subscribed.created && !subscribed.already);
    assert!(registry.subscribe(id, &bob, "alerts", false).await.unwrap().already);
    post("2").await;
    registry.unsubscribe(id, &bob, "alerts").await.unwrap();
    registry.unsubscribe(id, &bob, "alerts").await.unwrap();
    post("3").await;
    registry.subscribe(id, &bob, "#alerts", false).await.unwrap();
    post("4").await;
    let mesh = world.now();
    assert_eq!(
        (1..=4).map(|seq| mesh.subscribed_at(&topic, &bob, seq)).collect::<Vec<_>>(),
        [false, true, false, true]
    );
    // Nothing was posted in between: no interval is left of it.
    registry.unsubscribe(id, &bob, "alerts").await.unwrap();
    registry.subscribe(id, &bob, "alerts", false).await.unwrap();
    registry.unsubscribe(id, &bob, "alerts").await.unwrap();
    assert!(!world.now().subscribed(&topic, &bob) && world.now().subscribed_at(&topic, &bob, 4));
    let created = registry.subscribe(id, &bob, "New", true).await.unwrap();
    assert!(created.created && created.topic.name == "new" && world.now().subscribed(&created.topic.id, &bob));
    assert_eq!(registry.subscribe(id, &bob, "none", false).await.unwrap_err().code(), "topic_not_found");
    assert_eq!(registry.subscribe(id, &bob, "a b", true).await.unwrap_err().code(), "invalid_argument");
    assert_eq!(registry.unsubscribe(id, &bob, "none").await.unwrap_err().code(), "topic_not_found");
}

#[tokio::test]
async fn a_topic_goes_with_all_that_belongs_to_it() {
    let world = World::new().await;
    let bob = world.member("bob").await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let topic = registry.subscribe(id, &bob, "alerts", true).await.unwrap().topic;
    registry.seal_put(id, &bob, &topic.id, 0, seals(&[&bob, alice])).await.unwrap();
    assert_eq!(registry.topic_delete(id, &bob, "alerts").await.unwrap_err().code(), "forbidden");
    assert_eq!(registry.topic_delete(id, alice, "general").await.unwrap_err().code(), "forbidden");
    let mut changes = registry.changes();
    registry.topic_delete(id, alice, "alerts").await.unwrap();
    let what = What::TopicDeleted { topic: topic.id.clone(), name: "alerts".into() };
    assert_eq!(changes.recv().await.unwrap().what, what);
    let mesh = world.now();
    assert!(mesh.topic("alerts").is_none() && mesh.holders(&topic.id, 0).count() == 0);
    assert!(!mesh.subscribed(&topic.id, &bob));
    assert_eq!(registry.topic_delete(id, alice, "alerts").await.unwrap_err().code(), "topic_not_found");
    // The name is free, and it is another topic.
    assert_ne!(registry.subscribe(id, &bob, "alerts", true).await.unwrap().topic.id, topic.id);
}

fn ids(mut members: Vec<String>) -> Vec<String> {
    members.sort();
    members
}

#[tokio::test]
async fn the_first_key_of_an_epoch_is_its_only_one() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let topic = registry.subscribe(id, &bob, "alerts", true).await.unwrap().topic;
    registry.subscribe(id, alice, "alerts", false).await.unwrap();
    let put = |by: &str, epoch: u64, whom: Vec<Seal>| {
        let (registry, id, by, topic) = (registry.clone(), id.to_owned(), by.to_owned(), topic.id.clone());
        async move { registry.seal_put(&id, &by, &topic, epoch, whom).await.map_err(|error| error.code()) }
    };
    assert_eq!(registry.seal_get(id, &bob, "alerts", None).await.unwrap_err().code(), "key_not_sealed_for_member");
    // Nobody waits for a key that nobody has made.
    assert!(world.now().without_key(&topic).is_empty() && !world.now().has_key(&topic, 0));
    assert_eq!(put(alice, 0, seals(&[&bob])).await.unwrap_err(), "forbidden");
    let stored = put(&bob, 0, seals(&[&bob, "nobody"])).await.unwrap();
    assert_eq!(stored, SealsStored { members: vec![bob.clone()], made: true });
    assert_eq!(*world.now().without_key(&topic), [alice.to_owned()]);
    assert_eq!(world.now().wanted_of(&bob).len(), 1);
    // Alice drew one as well, a moment later: none of hers is stored, not even for who has none yet.
    assert_eq!(put(alice, 0, seals(&[alice, &carol])).await.unwrap_err(), "epoch_taken");
    assert!(!world.now().holds(&topic.id, 0, &carol));
    let stored = put(&bob, 0, seals(&[alice, alice])).await.unwrap();
    assert_eq!(stored, SealsStored { members: vec![alice.to_owned()], made: false });
    // Now Alice has it and may hand it on; a copy that is there stays.
    let other = Seal { blob: "b3RoZXI=".into(), ..seals(&[&carol]).remove(0) };
    assert_eq!(put(alice, 0, vec![other]).await.unwrap().members, std::slice::from_ref(&carol));
    assert!(put(&bob, 0, seals(&[&carol])).await.unwrap().members.is_empty());
    let (epoch, seal) = registry.seal_get(id, &carol, &topic.id, Some(0)).await.unwrap();
    assert_eq!((epoch, seal.blob.as_str(), seal.by.as_str()), (0, "b3RoZXI=", alice));
    for (by, epoch, whom, code) in [
        (&bob[..], 0, Vec::new(), "invalid_argument"),
        (&bob, 1, seals(&[&bob]), "invalid_argument"),
        (&bob, 1, seals(&[alice]), "forbidden"),
        (&bob, 0, vec![Seal { blob: "no base64".into(), ..seals(&[alice]).remove(0) }], "invalid_argument"),
        (&bob, 0, vec![Seal { nonce: "x".repeat(10_000), ..seals(&[alice]).remove(0) }], "invalid_argument"),
    ] {
        assert_eq!(put(by, epoch, whom).await.unwrap_err(), code);
    }
    let general = world.now().general().unwrap().id.clone();
    assert_eq!(
        registry.seal_put(id, alice, &general, 0, seals(&[alice])).await.unwrap_err().code(),
        "invalid_argument"
    );
}

#[tokio::test]
async fn who_may_no_longer_read_makes_another_key_necessary() {
    let world = World::with(RegistrySettings { epochs: 2, ..RegistrySettings::default() }).await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let topic = registry.subscribe(id, &bob, "alerts", true).await.unwrap().topic.id.clone();
    for member in [alice, &carol] {
        registry.subscribe(id, member, "alerts", false).await.unwrap();
    }
    let epoch = |name: &str| world.now().topic(name).unwrap().epoch;
    // Carol has no copy of it: nothing to fear.
    registry.seal_put(id, &bob, &topic, 0, seals(&[&bob, alice])).await.unwrap();
    registry.unsubscribe(id, &carol, "alerts").await.unwrap();
    assert_eq!(epoch("alerts"), 0);
    registry.unsubscribe(id, &bob, "alerts").await.unwrap();
    assert_eq!((epoch("alerts"), epoch("general")), (1, 0));
    // Until somebody makes the new key nothing can be posted with any.
    let to = To::Topic(topic.clone());
    for key_epoch in [Some(0), Some(1)] {
        let refused = world.now().route(Ask { sender: alice, kind: None, to: &to, key_epoch }).unwrap_err();
        assert_eq!((refused.code(), refused.is_permanent()), ("stale_key_epoch", false));
    }
    assert_eq!(registry.seal_put(id, alice, &topic, 0, seals(&[alice])).await.unwrap_err().code(), "epoch_taken");
    registry.seal_put(id, alice, &topic, 1, seals(&[alice])).await.unwrap();
    assert!(world.now().route(Ask { sender: alice, kind: None, to: &to, key_epoch: Some(1) }).is_ok());
    assert!(world.now().route(Ask { sender: alice, kind: None, to: &to, key_epoch: Some(0) }).is_err());
    // General's key is everybody's, so leaving the topic changes nothing and being banned does.
    registry.unsubscribe(id, &bob, "general").await.unwrap();
    assert_eq!(epoch("general"), 0);
    registry.revoke(id, alice, "bob").await.unwrap();
    assert_eq!((epoch("general"), epoch("alerts")), (1, 1));
    assert_eq!(registry.seal_get(id, &bob, &topic, Some(0)).await.unwrap_err().code(), "forbidden");
    let general = world.now().general().unwrap().id.clone();
    assert_eq!(registry.seal_put(id, &bob, &general, 1, seals(&[&bob])).await.unwrap_err().code(), "forbidden");
    registry.seal_put(id, &carol, &general, 1, seals(&[&carol, &bob])).await.unwrap();
    assert!(!world.now().holds(&general, 1, &bob));
    assert_eq!(*world.now().without_key(world.now().general().unwrap()), [alice.to_owned()]);
    // Who comes back, or is new, waits for it as well.
    registry.unban(id, alice, "bob").await.unwrap();
    let dave = world.member("dave").await;
    assert_eq!(
        ids(world.now().without_key(world.now().general().unwrap()).to_vec()),
        ids(vec![alice.to_owned(), bob.clone(), dave])
    );
    // Copies from long ago go.
    registry.seal_put(id, alice, &topic, 1, seals(&[&carol])).await.unwrap();
    registry.revoke(id, alice, "carol").await.unwrap();
    assert_eq!(epoch("alerts"), 2);
    let mesh = world.now();
    assert!(mesh.holders(&topic, 0).count() == 0 && mesh.holds(&topic, 1, alice));
}

#[tokio::test]
async fn a_private_topic_is_there_for_those_who_are_in_it() {
    let world = World::new().await;
    let (bob, carol) = (world.member("bob").await, world.member("carol").await);
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let made = registry.topic_create(id, &bob, "secret", None, Some("private".into())).await.unwrap();
    let topic = made.topic.id.clone();
    let to = To::Topic(topic.clone());
    for text in ["secret", &topic] {
        let code = |error: hostel_broker::registry::RegistryError| error.code();
        assert_eq!(registry.subscribe(id, &carol, text, false).await.map(drop).map_err(code), Err("topic_not_found"));
        assert_eq!(registry.unsubscribe(id, &carol, text).await.map(drop).map_err(code), Err("topic_not_found"));
        assert_eq!(registry.seal_get(id, &carol, text, None).await.map(drop).map_err(code), Err("topic_not_found"));
        let put = registry.seal_put(id, &carol, text, 0, seals(&[&carol])).await;
        assert_eq!(
            put.map(drop).map_err(code),
            Err("topic_not_found"),
            "nobody makes the key of a topic they do not see"
        );
        assert_eq!(registry.let_in(id, &carol, text, "carol").await.map(drop).map_err(code), Err("topic_not_found"));
    }
    assert_eq!(registry.topic_create(id, &carol, "secret", None, None).await.unwrap_err().code(), "name_taken");
    assert_eq!(registry.subscribe(id, &carol, "secret", true).await.unwrap_err().code(), "name_taken");
    let post = |sender: &str| {
        let route = world.now().route(Ask { sender, kind: None, to: &to, key_epoch: None });
        route.map(drop).map_err(hostel_broker::registry::Refusal::code)
    };
    assert_eq!((post(&carol), post(&bob)), (Err("topic_not_found"), Ok(())));
    // Who is in may let others in, and a key is sealed for those alone.
    let stored = registry.seal_put(id, &bob, &topic, 0, seals(&[&bob, &carol])).await.unwrap();
    assert_eq!(stored.members, std::slice::from_ref(&bob));
    assert!(!registry.let_in(id, &bob, "secret", "carol").await.unwrap().already);
    assert!(registry.let_in(id, &bob, "secret", "carol").await.unwrap().already);
    assert_eq!(post(&carol), Ok(()));
    assert_eq!(*world.now().without_key(world.now().topic("secret").unwrap()), std::slice::from_ref(&carol));
    registry.seal_put(id, &bob, &topic, 0, seals(&[&carol])).await.unwrap();
    // Who leaves is out; what was posted before can still be opened.
    registry.unsubscribe(id, &carol, "secret").await.unwrap();
    assert_eq!(post(&carol), Err("topic_not_found"));
    assert_eq!(registry.seal_get(id, &carol, &topic, Some(0)).await.unwrap().0, 0);
    // Administrators see all of them; into a public one everybody goes by themselves.
    registry.subscribe(id, alice, "secret", false).await.unwrap();
    registry.topic_create(id, &bob, "open", None, None).await.unwrap();
    assert_eq!(registry.let_in(id, &bob, "open", "carol").await.unwrap_err().code(), "forbidden");
}

#[tokio::test]
async fn copies_of_a_key_stay_as_long_as_posts_may_need_them() {
    let world = World::new().await;
    let bob = world.member("bob").await;
    let (registry, id, alice) = (&world.registry, world.id(), world.alice());
    let topic = registry.subscribe(id, alice, "alerts", true).await.unwrap().topic.id.clone();
    let round = async |epoch: u64| {
        registry.subscribe(id, &bob, &topic, false).await.unwrap();
        registry.seal_put(id, alice, &topic, epoch, seals(&[alice, &bob])).await.unwrap();
        registry.unsubscribe(id, &bob, &topic).await.unwrap();
        assert_eq!(world.now().topic(&topic).unwrap().epoch, epoch + 1);
    };
    for epoch in 0..70 {
        round(epoch).await;
        world.pass(1);
    }
    let held = || (0..100).filter(|epoch| world.now().holds(&topic, *epoch, alice)).count();
    assert_eq!(held(), 70, "somebody may have been away all the time");
    world.pass(31 * DAY - 1);
    round(70).await;
    assert_eq!(held(), 2, "those that ended a month ago are needed by nothing");
}
