//! What a broker reads, by HTTP and from daemons.

use hostel_wire::invite::{InviteLink, Terms};
use hostel_wire::keys::SecretKey;

use super::{Failure, put};

/// Requests.
pub fn http() -> Result<(), Failure> {
    let (owner, member) =
        (SecretKey::from_seed(&[1; 32]).public().hex(), SecretKey::from_seed(&[2; 32]).public().hex());
    let mesh =
        format!(r#"{{"name":"Lab 2","owner_pubkey":"{owner}","member":{{"pubkey":"{member}","display_name":"bob"}}}}"#);
    put("broker_http", "mesh", [&[0], mesh.as_bytes()].concat())?;
    let terms = Terms {
        mesh_id: "m".into(),
        mesh_slug: "lab".into(),
        broker_url: "ws://host/ws".into(),
        expires_at: 4_000_000_000,
        role: "member".into(),
    };
    let link = InviteLink::make(&terms, &SecretKey::from_seed(&[1; 32]), None)?;
    let payload = serde_json::to_string(&link.payload)?;
    let join = format!(
        r#"{{"invite_token":"{}","invite_payload":{payload},"peer_pubkey":"{member}","display_name":"bob","timestamp":1,"signature":"{}"}}"#,
        link.token,
        "0".repeat(128)
    );
    put("broker_http", "join", [&[1], join.as_bytes()].concat())?;
    let upload =
        b"\x0201jh3q5w6e7r8t9y0a1s2d3f4g\0r%C3%A9sum%C3%A9.txt\0[\"a\"]\0true\0*\0{\"*\":\"k\"}\0bytes of a file";
    put("broker_http", "upload", upload)?;
    let leave = format!(r#"{{"meshId":"m","timestamp":1,"signature":"{}"}}"#, "0".repeat(128));
    put("broker_http", "leave", [&[3], leave.as_bytes()].concat())?;
    let remint = format!(
        r#"{{"meshId":"m","newPubkey":"{member}","displayName":"x","ephemeral":true,"timestamp":1,"signature":"{0}","proof":"{0}"}}"#,
        "0".repeat(128)
    );
    put("broker_http", "remint", [&[4], remint.as_bytes()].concat())?;
    put(
        "broker_http",
        "raw",
        b"\x05GET /health HTTP/1.1\r\nHost: x\r\n\r\nGET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
    )
}

/// What a daemon says after its hello, a frame per line.
pub fn frames() -> Result<(), Failure> {
    let (digest, boxed) = ("0".repeat(64), r#"{"epoch":0,"nonce":"AAAA","ciphertext":"AAAA"}"#);
    let sealed = r#""nonce":"bm9uY2U=","ciphertext":"Y2lwaGVydGV4dA==","bodyVersion":3,"keyEpoch":0"#;
    let send = |id: &str, to: &str, kind: &str| {
        format!(
            r#"{{"type":"send","id":"{id}","client_message_id":"{id}","request_fingerprint":"{digest}","kind":"{kind}","to":{to},{sealed}}}"#
        )
    };
    let sends = [
        send("1", r#"{"member":"$ME"}"#, "dm"),
        send("1", r#"{"member":"$ME"}"#, "dm"),
        send("2", r#"{"all":true}"#, "broadcast"),
        r#"{"type":"client_ack","seq":1,"above":[3]}"#.to_owned(),
        r#"{"type":"history","_reqId":"h","after":0}"#.to_owned(),
    ];
    put("broker_frames", "sends", sends.join("\n"))?;
    let state = [
        format!(
            r#"{{"type":"state_set","_reqId":"1","key":"{digest}","ifVersion":0,"name":{boxed},"value":{boxed},"clientId":"c","fingerprint":"{digest}"}}"#
        ),
        format!(r#"{{"type":"state_get","_reqId":"2","keys":["{digest}"]}}"#),
        r#"{"type":"state_list","_reqId":"3"}"#.to_owned(),
        format!(
            r#"{{"type":"state_set","_reqId":"4","key":"{digest}","name":{boxed},"clientId":"d","fingerprint":"{digest}"}}"#
        ),
    ];
    put("broker_frames", "state", state.join("\n"))?;
    let task = "01jh3q5w6e7r8t9y0a1s2d3f4g";
    let step = |id: u8, step: &str, more: &str| {
        format!(
            r#"{{"type":"task_step","_reqId":"{id}","id":"{task}","step":"{step}"{more},"clientId":"t{id}","fingerprint":"{digest}"}}"#
        )
    };
    let tasks = [
        format!(
            r#"{{"type":"task_create","_reqId":"1","id":"{task}","title":{boxed},"body":{boxed},"assignee":"$ME","priority":"now","clientId":"t","fingerprint":"{digest}"}}"#
        ),
        step(2, "claim", r#","leaseS":60"#),
        step(3, "release", ""),
        step(4, "complete", &format!(r#","result":{boxed}"#)),
        r#"{"type":"task_list","_reqId":"5","status":"open"}"#.to_owned(),
        format!(r#"{{"type":"task_get","_reqId":"6","id":"{task}"}}"#),
    ];
    put("broker_frames", "tasks", tasks.join("\n"))?;
    let keys = [
        format!(
            r#"{{"type":"rotate_key","_reqId":"1","oldPubkey":"{}","newPubkey":"{}","timestamp":1,"signature":"{2}","proof":"{2}"}}"#,
            SecretKey::from_seed(&[5; 32]).public().hex(),
            SecretKey::from_seed(&[9; 32]).public().hex(),
            "0".repeat(128)
        ),
        r#"{"type":"topic_create","_reqId":"2","name":"alerts","visibility":"public"}"#.to_owned(),
        r#"{"type":"topic_list","_reqId":"3"}"#.to_owned(),
        r#"{"type":"topic_subscribe","_reqId":"4","topic":"alerts"}"#.to_owned(),
        r#"{"type":"topic_key_get","_reqId":"5","topicId":"t","epoch":0}"#.to_owned(),
        r#"{"type":"file_key_replace","_reqId":"6","fileId":"f","sealedKey":"k"}"#.to_owned(),
        r#"{"type":"shared_links","_reqId":"7"}"#.to_owned(),
    ];
    put("broker_frames", "keys", keys.join("\n"))?;
    let people = [
        r#"{"type":"set_status","status":"working"}"#,
        r#"{"type":"set_profile","_reqId":"1","title":"x"}"#,
        r#"{"type":"join_group","name":"ops"}"#,
        r#"{"type":"rename","_reqId":"2","displayName":"ada"}"#,
        r#"{"type":"invite_create","_reqId":"3"}"#,
        r#"{"type":"audit_query","_reqId":"4"}"#,
        r#"{"type":"list_files","_reqId":"5"}"#,
        r#"{"type":"leave","_reqId":"6","afterHours":5}"#,
        r#"{"type":"bye"}"#,
    ];
    put("broker_frames", "people", people.join("\n"))
}
