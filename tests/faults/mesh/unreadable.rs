//! Who may not read, reads nothing: a member that was sent away, and one to whom something false comes.

use std::fs;
use std::path::{Path, PathBuf};

use dryoc::classic::crypto_generichash::crypto_generichash;
use dryoc::classic::crypto_secretbox::crypto_secretbox_open_easy;
use hostel_tests::claudemesh::{Host, Lab, Options, Transport};
use hostel_tests::wait;
use serde_json::{Value, json};

use super::check;
use super::needles::Needles;
use super::privacy::{accepted, bodies, join_group, wait_for, word};

fn log_file(lab: &Lab) -> PathBuf {
    lab.path().join("broker/broker/broker.db")
}

/// The entries of the broker's log, in their order, as it keeps them.
fn entries(path: &Path) -> Vec<(i64, Value)> {
    let log = rusqlite::Connection::open(path).expect("the broker's log");
    let mut read = log.prepare("SELECT place, body FROM log ORDER BY place").expect("a log");
    let rows = read.query_map([], |row| Ok((row.get(0)?, row.get::<_, Vec<u8>>(1)?))).expect("rows");
    rows.map(|row| row.expect("a row"))
        .map(|(place, body)| (place, serde_json::from_slice(&body).expect("an entry is JSON")))
        .collect()
}

fn bytes(entry: &Value, field: &str) -> Vec<u8> {
    base64_simd::STANDARD.decode_to_vec(entry[field].as_str().expect("a text")).expect("base64")
}

/// Whether a key opens an entry: the bare box, without any of the product's own code.
fn opens(entry: &Value, key: &[u8; 32]) -> bool {
    let (nonce, sealed) = (bytes(entry, "nonce"), bytes(entry, "ciphertext"));
    let mut plain = vec![0; sealed.len().saturating_sub(16)];
    let nonce: [u8; 24] = nonce.try_into().expect("a nonce");
    crypto_secretbox_open_easy(&mut plain, &sealed, &nonce, key).is_ok()
}

/// Every key of a topic that a host has ever had.
fn keys(host: &Host) -> Vec<[u8; 32]> {
    let text = fs::read_to_string(host.directory().join("topics.json")).expect("topics");
    let topics: Value = serde_json::from_str(&text).expect("JSON");
    let rings = topics["keys"].as_object().expect("keys").values();
    let kept = rings.flat_map(|epochs| epochs.as_object().expect("epochs").values());
    let mut all: Vec<[u8; 32]> = kept
        .map(|key| base64_simd::STANDARD.decode_to_vec(key.as_str().expect("a key")).expect("base64"))
        .map(|key| key.try_into().expect("32 bytes"))
        .collect();
    // What every member can make for itself.
    let root = base64_simd::URL_SAFE_NO_PAD.decode_to_vec(host.member("rootKey")).expect("base64");
    let mut general = [0; 32];
    crypto_generichash(&mut general, b"claudemesh-general-0", Some(&root)).expect("sizes that it takes");
    all.push(general);
    all.push(root.try_into().expect("32 bytes"));
    all
}

/// The keys of files for everybody as the broker keeps them: a word, the epoch, the nonce, the box.
fn file_keys(path: &Path) -> Vec<Value> {
    let log = rusqlite::Connection::open(path).expect("the broker's records");
    let mut read = log.prepare("SELECT value FROM kv").expect("records");
    let rows = read.query_map([], |row| row.get::<_, Vec<u8>>(0)).expect("rows");
    let texts = rows.map(|row| String::from_utf8_lossy(&row.expect("a row")).into_owned());
    texts
        .flat_map(|text| text.split('"').map(str::to_owned).collect::<Vec<String>>())
        .filter_map(|text| {
            let parts: Vec<&str> = text.strip_prefix("general:")?.split(':').collect();
            let [epoch, nonce, ciphertext] = parts[..] else { return None };
            Some(json!({"keyEpoch": epoch, "nonce": nonce, "ciphertext": ciphertext}))
        })
        .collect()
}

/// To everybody in every way, and to carol.
fn say_everywhere(lab: &Lab, text: &str) -> Vec<String> {
    let alice = lab.host("alice").client(Transport::Socket);
    let body = |way: &str| format!("{way} {text}");
    for (to, way) in
        [("*", "all"), ("@crew", "group"), ("#general", "general"), ("#quiet", "quiet"), ("carol", "carol")]
    {
        accepted(&alice, "/v1/send", &json!({"to": to, "message": body(way)}));
    }
    ["all", "group", "general", "quiet", "carol"].map(body).to_vec()
}

#[test]
fn who_is_revoked_reads_nothing_that_is_said_afterwards() {
    let mut lab = Lab::prepare(&Options::of(&["alice", "bob", "carol"]));
    join_group(&lab.hosts, "crew");
    lab.hosts.iter_mut().for_each(Host::start);
    lab.hosts.iter().for_each(Host::wait_connected);
    for host in &lab.hosts {
        accepted(&host.client(Transport::Socket), "/v1/topic/subscribe", &json!({"topic": "quiet"}));
    }
    let (before, after) = (format!("before {}", word()), word());
    let all = say_everywhere(&lab, &before);
    wait_for(lab.host("carol"), &all);
    wait_for(lab.host("bob"), &all[..4]);
    let said = entries(&log_file(&lab)).len();

    let alice = lab.host("alice").client(Transport::Socket);
    accepted(&alice, "/v1/member/revoke", &json!({"target": "bob"}));
    let ended = lab.host_mut("bob").ended();
    assert_eq!(ended.code(), Some(78), "{}", lab.host("bob").printed());
    let file = lab.path().join("later.txt");
    fs::write(&file, &after).expect("a file");
    let shared = alice.post("/v1/file/share", &json!({"path": file}));
    assert_eq!(shared.status, 200, "{}", shared.text());
    let shared = shared.json()["fileId"].as_str().expect("an id").to_owned();
    let all = say_everywhere(&lab, &after);
    wait_for(lab.host("carol"), &all);
    let carol = lab.host("carol").client(Transport::Socket);
    let path = format!("/v1/file/get?id={shared}&out={}", lab.path().join("got.txt").display());
    wait::until_true(wait::LIMIT, "the file", || carol.get(&path).status == 200);
    // He comes again, with everything he has.
    lab.host_mut("bob").launch(&[]);
    assert_eq!(lab.host_mut("bob").ended().code(), Some(78));

    let needles = Needles::of(&after);
    let (found, _) = needles.in_files(&lab.host("bob").home());
    assert!(found.is_empty(), "who was sent away has it: {found:?}");
    // Even with the broker's files.
    let keys = keys(lab.host("bob"));
    let log = entries(&log_file(&lab));
    let shared = |entry: &&(i64, Value)| entry.1["kind"] != "dm";
    let (old, new): (Vec<_>, Vec<_>) =
        (log[..said].iter().filter(shared).collect(), log[said..].iter().filter(shared).collect());
    // The announcement of the file is one of them.
    assert_eq!((old.len(), new.len()), (4, 5), "{log:?}");
    let sealed = file_keys(&log_file(&lab));
    assert_eq!(sealed.len(), 1, "{sealed:?}");
    assert!(!keys.iter().any(|key| opens(&sealed[0], key)), "an old key opens the file's: {sealed:?}");
    for (_, entry) in old {
        assert!(keys.iter().any(|key| opens(entry, key)), "an old key opens what was said before: {entry}");
    }
    for (_, entry) in new {
        assert!(!keys.iter().any(|key| opens(entry, key)), "an old key opens {entry}");
        assert!(entry["keyEpoch"].as_u64() >= Some(1), "{entry}");
    }
}

/// Changes entries of a broker that does not run.
fn change(lab: &Lab, mut how: impl FnMut(&mut Vec<(i64, Value)>)) {
    let mut all = entries(&log_file(lab));
    how(&mut all);
    let log = rusqlite::Connection::open(log_file(lab)).expect("the broker's log");
    for (place, entry) in all {
        let body = serde_json::to_vec(&entry).expect("JSON");
        log.execute("UPDATE log SET body = ?2 WHERE place = ?1", (place, body)).expect("a change");
    }
}

/// Puts an entry into the log once more, at its end.
fn repeat_entry(lab: &Lab, id: &str) {
    let log = rusqlite::Connection::open(log_file(lab)).expect("the broker's log");
    let done = log.execute(
        "INSERT INTO log SELECT (SELECT max(place) + 1 FROM log), id || 'x', ts_ms, kind, dest, sender, client_id, \
         fingerprint, priority, audience, expires_ms, body FROM log WHERE client_id = ?1",
        [id],
    );
    assert_eq!(done.expect("an insertion"), 1);
    assert_eq!(log.execute("UPDATE logs SET last_seq = last_seq + 1", []).expect("a change"), 1);
}

/// A count of the daemon's metrics.
fn invalid(host: &Host, reason: &str) -> u64 {
    let text = host.client(Transport::Socket).get("/v1/metrics").text();
    let lines = text.lines().filter(|line| line.starts_with("cm_daemon_invalid_inbound_total"));
    let line = lines.into_iter().find(|line| line.contains(&format!("reason=\"{reason}\"")));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_else(|| panic!("no {reason} in {text}"))
}

#[test]
fn what_was_changed_on_its_way_has_no_text() {
    let mut lab = Lab::start(&["alice", "bob", "carol"]);
    for host in &lab.hosts {
        accepted(&host.client(Transport::Socket), "/v1/topic/subscribe", &json!({"topic": "quiet"}));
    }
    let alice = lab.host("alice").client(Transport::Socket);
    accepted(&alice, "/v1/topic/post", &json!({"topic": "quiet", "message": "hello"}));
    wait_for(lab.host("bob"), &["hello".to_owned()]);
    lab.host_mut("bob").stop();
    let word = word();
    let changed = ["direct", "all", "topic", "nonce", "sender"];
    let swapped = ["one", "two"];
    for name in changed.iter().chain(&swapped).chain(&["whole", "last"]) {
        let to = match *name {
            "all" => "*",
            "topic" => "#quiet",
            _ => "bob",
        };
        let body = json!({"to": to, "message": format!("{name} {word}"), "client_message_id": format!("id-{name}")});
        accepted(&alice, "/v1/send", &body);
    }
    wait::until_true(wait::LIMIT, "the outbox to be empty", || {
        let items = alice.get_json("/v1/outbox?status=pending&limit=1")["items"].clone();
        let flying = alice.get_json("/v1/outbox?status=inflight&limit=1")["items"].clone();
        items == json!([]) && flying == json!([])
    });
    lab.kill_broker();
    let carol = lab.host("carol").membership();
    change(&lab, |all| {
        let place = |name: &str| {
            let id = format!("id-{name}");
            all.iter().position(|(_, entry)| entry["client_message_id"] == *id).expect("an entry")
        };
        let (one, two) = (place("one"), place("two"));
        let places = changed.map(|name| (name, place(name)));
        for (name, place) in places {
            if name == "sender" {
                for (field, of_it) in
                    [("senderPubkey", "pubkey"), ("senderMemberPubkey", "pubkey"), ("senderMemberId", "memberId")]
                {
                    assert!(all[place].1[field].is_string(), "{}", all[place].1);
                    all[place].1[field] = json!(carol[of_it]);
                }
                continue;
            }
            let field = if name == "nonce" { "nonce" } else { "ciphertext" };
            let mut sealed = bytes(&all[place].1, field);
            let middle = sealed.len() / 2;
            sealed[middle] ^= 1;
            all[place].1[field] = json!(base64_simd::STANDARD.encode_to_string(&sealed));
        }
        // Two that are whole, each in the other's place.
        for field in ["nonce", "ciphertext"] {
            let first = all[one].1[field].clone();
            all[one].1[field] = all[two].1[field].clone();
            all[two].1[field] = first;
        }
    });
    repeat_entry(&lab, "id-whole");
    lab.host_mut("bob").start();
    let bob = lab.host("bob").client(Transport::Socket);
    let mut stream = bob.events("", &[]);
    lab.start_broker();
    let mut events = Vec::new();
    while events.last().is_none_or(|event: &Value| event["body"] != "the end") {
        let event = stream.event().1;
        if event["body"] == format!("last {word}") {
            // What the log has after it comes before this one.
            accepted(&alice, "/v1/send", &json!({"to": "bob", "message": "the end"}));
        }
        events.push(event);
    }
    let texts: Vec<&str> = events.iter().filter_map(|event| event["body"].as_str()).collect();
    assert_eq!(texts, [&format!("whole {word}"), &format!("last {word}"), "the end"], "events with a text");
    assert_eq!((invalid(lab.host("bob"), "decrypt"), invalid(lab.host("bob"), "mismatch")), (5, 2));
    let inbox = check::inbox(&bob);
    for name in changed.iter().chain(&swapped) {
        let id = format!("id-{name}");
        let rows: Vec<&Value> = inbox.iter().filter(|row| row["client_message_id"] == *id).collect();
        assert_eq!(rows.len(), 1, "{name} is in the inbox, without a text: {rows:?}");
        assert!(rows[0]["body"].is_null() && rows[0]["meta"].is_null(), "{}", rows[0]);
    }
    let found = bob.get_json(&format!("/v1/inbox/search?q={word}"))["items"].as_array().expect("items").len();
    assert_eq!(found, 2, "what has no text is not found");
    let whole = inbox.iter().filter(|row| row["body"] == format!("whole {word}")).count();
    assert_eq!(whole, 1, "what the log has twice is in the inbox once");
    // And it goes on.
    accepted(&alice, "/v1/send", &json!({"to": "bob", "message": "after all"}));
    wait_for(lab.host("bob"), &["after all".to_owned()]);
    assert!(bodies(&bob).contains(&json!("after all")));
}

#[test]
fn a_wrong_key_opens_nothing() {
    let mut lab = Lab::start(&["alice", "bob"]);
    for host in &lab.hosts {
        accepted(&host.client(Transport::Socket), "/v1/topic/subscribe", &json!({"topic": "quiet"}));
    }
    let alice = lab.host("alice").client(Transport::Socket);
    accepted(&alice, "/v1/topic/post", &json!({"topic": "quiet", "message": "hello"}));
    wait_for(lab.host("bob"), &["hello".to_owned()]);
    lab.host_mut("bob").stop();
    // Somebody has given him other keys than the topic's.
    let file = lab.host("bob").directory().join("topics.json");
    let mut topics: Value = serde_json::from_str(&fs::read_to_string(&file).expect("topics")).expect("JSON");
    let mut keys = 0;
    for ring in topics["keys"].as_object_mut().expect("keys").values_mut() {
        for key in ring.as_object_mut().expect("epochs").values_mut() {
            *key = json!(base64_simd::STANDARD.encode_to_string([7; 32]));
            keys += 1;
        }
    }
    assert!(keys > 0, "he had a key: {topics}");
    fs::write(&file, topics.to_string()).expect("a file");
    let word = word();
    accepted(&alice, "/v1/topic/post", &json!({"topic": "quiet", "message": word}));
    accepted(&alice, "/v1/send", &json!({"to": "bob", "message": "after it"}));
    lab.host_mut("bob").start();
    wait_for(lab.host("bob"), &["after it".to_owned()]);
    assert!(!bodies(&lab.host("bob").client(Transport::Socket)).contains(&json!(word)));
    assert_eq!(invalid(lab.host("bob"), "decrypt"), 1);
    let (found, _) = Needles::of(&word).in_files(&lab.host("bob").home());
    assert!(found.is_empty(), "{found:?}");
}
