//! What a daemon reads: a broker's frames, its own files, what hooks print, the answer to who joins.

use hostel_wire::hello::succeed;
use hostel_wire::keys::SecretKey;

use super::{Failure, put};

/// What a daemon reads: a broker's frames, its own files, the answer to who joins.
pub fn all() -> Result<(), Failure> {
    let push = r#"{"type":"push","messageId":"m-1","meshId":"mesh","senderMemberId":"bob-id","senderName":"bob","priority":"next","nonce":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","ciphertext":"AAAAAAAAAAAAAAAAAAAAAAAAAAAA","createdAt":"2026-01-01T00:00:00.000Z","client_message_id":"c-1","seq":1,"kind":"dm","bodyVersion":3,"mentions":[]}"#;
    let topic = push.replace("\"kind\":\"dm\"", "\"kind\":\"topic\",\"topicId\":\"t\",\"keyEpoch\":1");
    let system = |event: &str, data: &str| {
        format!(r#"{{"type":"push","subtype":"system","event":"{event}","eventData":{data},"seq":0}}"#)
    };
    put(
        "mesh_frames",
        "pushes",
        format!("{push}\n{topic}\n{}\n", push.replace("\"seq\":1", "\"seq\":9,\"ahead\":true")),
    )?;
    let news = [
        system("peer_joined", r#"{"memberId":"bob-id","name":"bob","pubkey":"00"}"#),
        system("peer_left", r#"{"memberId":"bob-id"}"#),
        system("member_renamed", r#"{"memberId":"alice-id","name":"ada"}"#),
        system("member_clone_suspected", r#"{"memberId":"bob-id","hostname":"x"}"#),
        system("member_keypair_rotated", r#"{"memberId":"bob-id","name":"bob","oldPubkey":"00","newPubkey":"01"}"#),
        system("caught_up", r#"{"seq":7}"#).replace("\"seq\":0", "\"seq\":7"),
    ];
    put("mesh_frames", "news", news.join("\n"))?;
    let shared = [
        r#"{"type":"push","meshId":"mesh","seq":3,"kind":"state","eventData":{"entry":{"key":"00","version":1,"name":{"epoch":0,"nonce":"","ciphertext":""},"by":"b","atMs":1},"removed":false}}"#,
        r#"{"type":"push","meshId":"mesh","seq":4,"kind":"task","eventData":{"step":"claimed","task":{"id":"01jh3q5w6e7r8t9y0a1s2d3f4g","title":{"epoch":7,"nonce":"","ciphertext":""}}}}"#,
    ];
    put("mesh_frames", "shared", shared.join("\n"))?;
    put("mesh_frames", "revoked", system("member_revoked", r#"{"memberId":"alice-id"}"#))?;
    let answers = [
        r#"{"type":"topic_list_response","_reqId":"","topics":[{"id":"t","name":"alerts","visibility":"public","epoch":1,"subscribed":true}]}"#,
        r#"{"type":"topic_key","_reqId":"","topicId":"t","epoch":1,"memberId":"alice-id","blob":"AAAA","nonce":"AAAA"}"#,
        r#"{"type":"peers_list","_reqId":"","peers":[{"pubkey":"00","memberId":"bob-id","sessionId":"s","status":"idle"}]}"#,
        r#"{"type":"error","_reqId":"","code":"forbidden","message":"no"}"#,
    ];
    put("mesh_frames", "answers", answers.join("\n"))?;
    put(
        "mesh_frames",
        "roster",
        r#"{"type":"roster","rev":2,"members":[{"id":"carol-id","name":"carol","pubkey":"00","role":"admin"}]}
{"type":"roster_delta","rev":3,"members":[{"id":"bob-id","name":"robert","pubkey":"","revoked":true}]}
{"type":"topic_key_needed","topicId":"t","epoch":1,"members":["bob-id"]}"#,
    )?;
    for (name, text) in
        [("place", "01jh3q5w6e7r8t9y0a1s2d3f4g"), ("number", "17"), ("event", "0a1b2c3d-5"), ("empty", "")]
    {
        put("mesh_cursors", name, text)?;
    }
    let key = SecretKey::from_seed(&[7; 32]);
    let entry = format!(
        r#"{{"meshId":"m","memberId":"a","slug":"lab","name":"lab","pubkey":"{}","secretKey":"{}","brokerUrl":"ws://127.0.0.1:1/ws","brokerUrls":["ws://127.0.0.1:1/ws","wss://b/ws"],"joinedAt":"2026-01-01T00:00:00Z","rootKey":"{}","brokerCert":"{}","inviteVersion":1,"more":true}}"#,
        key.public().hex(),
        &*key.to_hex(),
        "A".repeat(43),
        "0".repeat(64)
    );
    let config = format!(
        r#"{{"version":1,"meshes":[{entry},{{}}],"displayName":"ada","groups":[{{"name":"ops"}}],"accountId":"x"}}"#
    );
    put("mesh_home", "config", [&[0], config.as_bytes()].concat())?;
    let kept = format!(
        r#"{{"format":1,"made_at":"2026-01-01T00:00:00Z","program":"1","slug":"lab","membership":{entry},"files":{{"config.toml":"","topics.json":"e30=","schema_version":"MQ=="}}}}"#
    );
    put("mesh_backup", "lab", kept)?;
    put("mesh_home", "empty", [0])?;
    let pair = format!(
        r#"{{"schema_version":1,"ed25519_public":"{}","ed25519_secret":"{}","x25519_public":"","x25519_secret":"","created_at":""}}"#,
        key.public().hex(),
        &*key.to_hex()
    );
    put("mesh_home", "keypair", [&[1], pair.as_bytes()].concat())?;
    let record = r#"{"schema_version":2,"fingerprint":"00","host_id":"linux:00","stable_mac":"00:16:3e:00:00:02","written_at":""}"#;
    put("mesh_home", "host", [&[2], record.as_bytes()].concat())?;
    let hex = hostel_wire::encoding::hex;
    let archived = format!(
        r#"{{"schema_version":1,"keys":[{{"ed25519_public":"{}","x25519_public":"{}","x25519_secret":"{}","archived_at":"2027-01-01T00:00:00.000Z","expires_at":"2027-01-08T00:00:00.000Z"}}]}}"#,
        key.public().hex(),
        hex(&key.x25519_public()),
        hex(&*key.x25519_secret())
    );
    put("mesh_home", "archive", [&[3], archived.as_bytes()].concat())?;
    let next = format!(
        r#"{{"schema_version":1,"mesh_id":"m","member_id":"a","old_public":"{}","ed25519_public":"{}","ed25519_secret":"{}","created_at":""}}"#,
        SecretKey::from_seed(&[8; 32]).public().hex(),
        key.public().hex(),
        &*key.to_hex()
    );
    put("mesh_home", "next", [&[4], next.as_bytes()].concat())?;
    let step = serde_json::to_string(&succeed("m", "a", &SecretKey::from_seed(&[8; 32]), &key, 1))?;
    let lineage = format!(r#"{{"schema_version":1,"rotations":[{step}]}}"#);
    put("mesh_home", "lineage", [&[5], lineage.as_bytes()].concat())?;
    let settings = "[daemon]\nmesh = \"lab\"\n[ipc]\nuds_mode = \"0660\"\nhttp_bind = \"::1\"\nmax_body_bytes = \"2MiB\"\n\
        [broker]\nurls = [\"wss://a/ws\"]\nping_s = 5\nsilence_s = 0x10\nca_file = \"/a\"\n[outbox]\nmax_bytes = \"1.5GB\"\n\
        fsync_mode = \"batched\"\n[inbox]\nfts_enabled = false\n[reconnect]\nbackoff_multiplier = 1e1\n[unknown]\nx = 1\n";
    put("mesh_settings", "some", settings)?;
    let fleet = "[fleet]\nmax_daemons = 4\ntotal_memory_budget = \"1GB\"\ntotal_disk_budget = \"20GB\"\n[capabilities]\nstate = true\n";
    put("mesh_settings", "fleet", fleet)?;
    put(
        "mesh_hooks",
        "contract",
        "[on-mention]\nenabled = true\ntimeout_s = 30\noutput_size_limit = 65536\n\
         redact_payload = [\"body.password\", \"meta.api_key\"]\nallow_reply = true\n\
         capability_token_scope = [\"topic:alerts:post\"]\nnetwork_policy = \"deny\"\nnetwork_allowlist = []\n\
         fs_policy = \"readonly\"\nkillpg_on_timeout = true\naudit = true\n",
    )?;
    put("mesh_hooks", "topic", "[\"on-topic-a.b\"]\nsandbox = \"bubblewrap\"\n[pre-send]\nenabled = false\n")?;
    for (name, text) in [
        ("reply", "\0{\"reply\":\"text\",\"priority\":\"now\",\"meta\":{}}"),
        ("replace", "\x01{\"action\":\"replace\",\"body\":\"x\",\"meta\":{\"a\":1}}"),
        ("title", "\x01{\"action\":\"replace\",\"title\":\"x\",\"body\":\"y\"}"),
        ("drop", "\x01{\"action\":\"drop\",\"reason\":\"no\"}"),
        ("path", "\x02$.meta['api key'][0].x[*]"),
    ] {
        put("hook_output", name, text)?;
    }
    for (name, body) in [
        (
            "joined",
            r#"{"ok":true,"memberId":"a","displayName":"bob","sealed_root_key":"$SEALED","brokers":["ws://broker/ws"]}"#,
        ),
        ("known", r#"{"ok":true,"memberId":"a","alreadyMember":true,"sealed_root_key":"AAAA"}"#),
        ("refused", r#"{"ok":false,"error":"invite_expired","detail":"x"}"#),
    ] {
        let status = if name == "refused" { "400 Bad Request" } else { "200 OK" };
        // Longer than it says: what `$SEALED` stands for is longer.
        let answer = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\n\r\n{body}");
        put("mesh_enrol", name, answer)?;
    }
    Ok(())
}
