//! Topics: intervals, keys and who is asked for them.

use serde_json::{Value, json};

use super::peer::message;
use super::{Lab, Link};

async fn post(link: &mut Link, topic: &Value, id: &str, epoch: u64) -> Value {
    let mut sent = message(&json!({"topic": topic}), "topic", id);
    sent["keyEpoch"] = epoch.into();
    link.send(sent).await
}

fn seal(member: &str) -> Value {
    json!({"memberId": member, "blob": hostel_wire::encoding::b64(&[7; 80]), "nonce": hostel_wire::encoding::b64(&[9; 24])})
}

#[tokio::test]
async fn posts_are_for_who_was_subscribed_then() {
    let lab = Lab::new().await;
    let (bob, carol) = (lab.join("bob").await, lab.join("carol").await);
    let (mut a, mut b, mut c) = (lab.alice().await, bob.link(&lab.host).await, carol.link(&lab.host).await);
    let made = a.ask(json!({"type": "topic_create", "name": "Alerts", "description": "what burns"})).await;
    assert_eq!((&made["type"], &made["created"]), (&json!("topic_created"), &json!(true)));
    let topic = made["topic"]["id"].clone();
    assert_eq!((&made["topic"]["name"], &made["topic"]["epoch"]), (&json!("alerts"), &json!(0)));
    assert_eq!(made["topic"]["subscribed"], true);
    let put = json!({"type": "topic_key_put", "topicId": topic, "epoch": 0, "seals": [seal(&lab.alice.member)]});
    assert_eq!(a.ask(put).await["type"], "ok");
    assert_eq!(post(&mut a, &topic, "p1", 0).await["queued"], true);
    let subscribed = b.ask(json!({"type": "topic_subscribe", "topic": "#alerts"})).await;
    assert_eq!((&subscribed["subscribed"], &subscribed["topic"]["memberCount"]), (&json!(true), &json!(2)));
    // Alice has the key, bob needs it.
    let needed = a.hear(|frame| frame["type"] == "topic_key_needed").await;
    assert_eq!((&needed["topicId"], &needed["members"]), (&topic, &json!([bob.member])));
    assert_eq!(b.ask(json!({"type": "topic_key_get", "topicId": topic})).await["code"], "key_not_sealed_for_member");
    let put = json!({"type": "topic_key_put", "topicId": topic, "epoch": 0, "seals": [seal(&bob.member)]});
    assert_eq!(a.ask(put).await["stored"], json!([bob.member]));
    let key = b.hear(|frame| frame["type"] == "topic_key" && frame["_reqId"].is_null()).await;
    assert_eq!((&key["memberId"], &key["epoch"]), (&json!(bob.member), &json!(0)));
    let key = b.ask(json!({"type": "topic_key_get", "topicId": topic, "epoch": 0})).await;
    assert_eq!(key["blob"], hostel_wire::encoding::b64(&[7; 80]));
    // Carol only wants to post: she may see the topic, so she may have its key.
    assert_eq!(c.ask(json!({"type": "topic_key_get", "topicId": topic})).await["code"], "key_not_sealed_for_member");
    let needed = a.hear(|frame| frame["type"] == "topic_key_needed" && frame["members"] == json!([carol.member])).await;
    assert_eq!(needed["topicId"], topic);
    let put = json!({"type": "topic_key_put", "topicId": topic, "epoch": 0, "seals": [seal(&carol.member)]});
    assert_eq!(a.ask(put).await["stored"], json!([carol.member]));
    c.hear(|frame| frame["type"] == "topic_key").await;
    assert_eq!(post(&mut a, &topic, "p2", 0).await["queued"], true);
    let push = b.push().await;
    assert_eq!(
        (&push["client_message_id"], &push["topic"], &push["topicId"]),
        (&json!("p2"), &json!("alerts"), &topic)
    );
    b.no_push().await;
    c.no_push().await;
    // A late subscriber finds the older ones in the history.
    let old = b.ask(json!({"type": "history", "filter": {"topicId": topic}})).await;
    assert_eq!(old["messages"].as_array().unwrap().len(), 2);
    let old = b.ask(json!({"type": "topic_history", "topic": "alerts", "limit": 1})).await;
    let newest = old["messages"][0]["id"].clone();
    assert_eq!((&old["messages"][0]["seq"], &old["more"]), (&json!(2), &json!(true)));
    let older = b.ask(json!({"type": "topic_history", "topic": "alerts", "beforeId": newest})).await;
    assert_eq!(older["messages"][0]["client_message_id"], "p1");
    // Who leaves takes the key along: the next post needs another.
    let gone = b.ask(json!({"type": "topic_unsubscribe", "topic": "alerts"})).await;
    assert_eq!((&gone["subscribed"], &gone["topic"]["epoch"]), (&json!(false), &json!(1)));
    assert_eq!(post(&mut a, &topic, "p3", 0).await["code"], "stale_key_epoch");
    assert_eq!(post(&mut a, &topic, "p3", 1).await["code"], "stale_key_epoch", "nobody has made it yet");
    let put = json!({"type": "topic_key_put", "topicId": topic, "epoch": 1, "seals": [seal(&lab.alice.member)]});
    assert_eq!(a.ask(put.clone()).await["type"], "ok");
    assert_eq!(a.ask(put).await["code"], "epoch_taken");
    assert_eq!(post(&mut a, &topic, "p3", 1).await["queued"], true);
    b.no_push().await;
}

#[tokio::test]
async fn a_holder_that_comes_is_told_who_needs_a_key() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let mut a = lab.alice().await;
    let topic = a.ask(json!({"type": "topic_create", "name": "deep"})).await["topic"]["id"].clone();
    let put = json!({"type": "topic_key_put", "topicId": topic, "epoch": 0, "seals": [seal(&lab.alice.member)]});
    a.ask(put).await;
    a.bye().await;
    let mut b = bob.link(&lab.host).await;
    b.ask(json!({"type": "topic_subscribe", "topic": "deep"})).await;
    let mut a = lab.alice().await;
    let needed = a.hear(|frame| frame["type"] == "topic_key_needed").await;
    assert_eq!((&needed["topicId"], &needed["members"]), (&topic, &json!([bob.member])));
}

#[tokio::test]
async fn topics_are_listed_and_only_administrators_delete_them() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let (mut a, mut b) = (lab.alice().await, bob.link(&lab.host).await);
    assert_eq!(b.ask(json!({"type": "topic_subscribe", "topic": "new one"})).await["code"], "topic_not_found");
    let made = b.ask(json!({"type": "topic_subscribe", "topic": "new", "create": true})).await;
    assert_eq!((&made["created"], &made["subscribed"]), (&json!(true), &json!(true)));
    let list = a.ask(json!({"type": "topic_list"})).await;
    let names: Vec<_> = list["topics"].as_array().unwrap().iter().map(|topic| topic["name"].clone()).collect();
    assert_eq!(names, [json!("general"), json!("new")]);
    assert_eq!((&list["topics"][0]["subscribed"], &list["topics"][1]["subscribed"]), (&json!(true), &json!(false)));
    let members = a.ask(json!({"type": "topic_members", "topic": "new"})).await;
    assert_eq!(members["members"][0]["memberId"], bob.member);
    assert_eq!(b.ask(json!({"type": "topic_delete", "topic": "new"})).await["code"], "forbidden");
    assert_eq!(a.ask(json!({"type": "topic_delete", "topic": "new"})).await["type"], "ok");
    // The older words: nothing is said when it works and nobody asks.
    b.ask(json!({"type": "topic_create", "name": "other"})).await;
    a.say_text(r#"{"type":"topic_join","topic":"other"}"#).await;
    let members = a.ask(json!({"type": "topic_members", "topic": "other"})).await;
    assert_eq!(members["members"].as_array().unwrap().len(), 2);
    a.say_text(r#"{"type":"topic_leave","topic":"nowhere"}"#).await;
    assert_eq!(a.hear(|frame| frame["type"] == "error").await["code"], "topic_not_found");
}

#[tokio::test]
async fn intervals_outlive_a_restart() {
    let lab = Lab::new().await;
    let bob = lab.join("bob").await;
    let (mut a, mut b) = (lab.alice().await, bob.link(&lab.host).await);
    let general = a.ask(json!({"type": "topic_list"})).await["topics"][0]["id"].clone();
    b.ask(json!({"type": "topic_unsubscribe", "topic": "general"})).await;
    post(&mut a, &general, "p1", 0).await;
    b.ask(json!({"type": "topic_subscribe", "topic": "general"})).await;
    post(&mut a, &general, "p2", 0).await;
    b.ask(json!({"type": "topic_unsubscribe", "topic": "general"})).await;
    post(&mut a, &general, "p3", 0).await;
    drop((a, b));
    let lab = lab.restart(hostel_broker::Settings::default()).await;
    let mut b = bob.link(&lab.host).await;
    assert_eq!(b.push().await["client_message_id"], "p2");
    assert_eq!(b.news("caught_up").await["seq"], 3);
    b.no_push().await;
}

#[tokio::test]
async fn a_key_of_an_earlier_time_is_asked_for_as_well() {
    let lab = Lab::new().await;
    let (bob, carol) = (lab.join("bob").await, lab.join("carol").await);
    let (mut a, mut b, mut c) = (lab.alice().await, bob.link(&lab.host).await, carol.link(&lab.host).await);
    let topic = a.ask(json!({"type": "topic_create", "name": "alerts"})).await["topic"]["id"].clone();
    let put = |epoch: u64, seals: Vec<Value>| json!({"type": "topic_key_put", "topicId": topic, "epoch": epoch, "seals": seals});
    c.ask(json!({"type": "topic_subscribe", "topic": "alerts"})).await;
    a.ask(put(0, vec![seal(&lab.alice.member), seal(&carol.member)])).await;
    b.ask(json!({"type": "topic_subscribe", "topic": "alerts"})).await;
    a.hear(|frame| frame["type"] == "topic_key_needed" && frame["members"] == json!([bob.member])).await;
    assert_eq!(post(&mut a, &topic, "p1", 0).await["queued"], true);
    assert_eq!(b.push().await["keyEpoch"], 0);
    // Before anybody has sealed it for bob, carol leaves and the topic needs another key.
    c.ask(json!({"type": "topic_unsubscribe", "topic": "alerts"})).await;
    a.ask(put(1, vec![seal(&lab.alice.member), seal(&bob.member)])).await;
    let get = json!({"type": "topic_key_get", "topicId": topic, "epoch": 0});
    assert_eq!(b.ask(get.clone()).await["code"], "key_not_sealed_for_member");
    let needed = a.hear(|frame| frame["type"] == "topic_key_needed" && frame["epoch"] == 0).await;
    assert_eq!(needed["members"], json!([bob.member]));
    assert_eq!(a.ask(put(0, vec![seal(&bob.member)])).await["stored"], json!([bob.member]));
    assert_eq!(b.ask(get).await["epoch"], 0);
}

#[tokio::test]
async fn a_long_list_comes_in_parts() {
    let lab = Lab::new().await;
    let mut a = lab.alice().await;
    for number in 0..350 {
        let create = json!({"type": "topic_create", "name": format!("t{number:03}"), "description": "x".repeat(500)});
        assert_eq!(a.ask(create).await["created"], true);
    }
    let (mut names, mut after, mut parts) = (Vec::new(), Value::Null, 0);
    loop {
        let list = a.ask(json!({"type": "topic_list", "after": after})).await;
        assert!(list.to_string().len() < hostel_wire::frames::FRAME_LIMIT);
        names.extend(list["topics"].as_array().unwrap().iter().map(|topic| topic["name"].as_str().unwrap().to_owned()));
        parts += 1;
        if list["more"] == false {
            break;
        }
        after = json!(names.last().unwrap());
    }
    let mut expected: Vec<_> = (0..350).map(|number| format!("t{number:03}")).collect();
    expected.insert(0, "general".to_owned());
    assert_eq!((names, parts > 1), (expected, true));
}
