use super::*;
use proptest::prelude::*;

/// The verdict as one line: the id, then the method and params or the error.
fn verdict(line: &[u8]) -> String {
    let token = Secret::new(b"tok".to_vec());
    let gate = Gate { token: &token, shutdown_needs_auth: true };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match ask(line, &gate) {
        Asked::Call(call) => format!("{} {:?} {}", text(&call.id), call.method, text(call.params)),
        Asked::Refuse(refusal) => {
            format!("{} {} {}", text(&refusal.id), refusal.error.code, text(&refusal.error.message))
        }
    }
}

#[test]
fn the_first_failing_check_answers() {
    const UNAUTHORIZED: &str = "-32001 Unauthorized: invalid or missing auth token";
    for (line, expected) in [
        ("", "null -32700 Parse error".to_owned()),
        ("   ", "null -32700 Parse error".to_owned()),
        ("[]", "null -32700 Parse error".to_owned()),
        ("5", "null -32700 Parse error".to_owned()),
        (r#"{"id":4,"method":5}"#, "null -32700 Parse error".to_owned()),
        (r#"{"id":4,"auth":1}"#, "null -32700 Parse error".to_owned()),
        (r#"{"id":1e999,"auth":"tok"}"#, "null -32700 Parse error".to_owned()),
        (r#"{"id":4} x"#, "null -32700 Parse error".to_owned()),
        ("null", format!("null {UNAUTHORIZED}")),
        ("{}", format!("null {UNAUTHORIZED}")),
        (r#"{"id":4,"auth":"Tok"}"#, format!("4 {UNAUTHORIZED}")),
        (r#"{"id":4,"auth":"","jsonrpc":"1"}"#, format!("4 {UNAUTHORIZED}")),
        (r#"{"id":"s","auth":"tok","method":"nodot"}"#, r#""s" -32600 Invalid JSON-RPC version"#.to_owned()),
        (
            r#"{"id":1,"auth":"tok","jsonrpc":"2.00","method":"server.ping"}"#,
            "1 -32600 Invalid JSON-RPC version".to_owned(),
        ),
        (r#"{"id":1,"auth":"tok","jsonrpc":"2.0"}"#, "1 -32601 Invalid method format: ".to_owned()),
        (
            r#"{"id":1,"auth":"tok","jsonrpc":"2.0","method":"nodot"}"#,
            "1 -32601 Invalid method format: nodot".to_owned(),
        ),
        (
            r#"{"id":1,"auth":"tok","jsonrpc":"2.0","method":"nope.list"}"#,
            "1 -32601 Unknown namespace: nope".to_owned(),
        ),
        (r#"{"id":1,"auth":"tok","jsonrpc":"2.0","method":".x"}"#, "1 -32601 Unknown namespace: ".to_owned()),
        (
            r#"{"id":1,"auth":"tok","jsonrpc":"2.0","method":"files.list.x"}"#,
            "1 -32601 Unknown method: files.list.x".to_owned(),
        ),
        (
            r#"{"id":1,"auth":"tok","jsonrpc":"2.0","method":"Server.ping"}"#,
            "1 -32601 Unknown namespace: Server".to_owned(),
        ),
        (r#"{"id":1,"auth":"tok","jsonrpc":"2.0","method":"files.list"}"#, "1 -32602 Invalid params".to_owned()),
        (r#"{"id":1,"auth":"tok","jsonrpc":"2.0","method":"files.list","params":null}"#, "1 FilesList null".to_owned()),
        (r#"{"auth":"tok","jsonrpc":"2.0","method":"server.ping","params":"x"}"#, "null ServerPing \"x\"".to_owned()),
        (r#"{"ID":1,"Auth":"tok","JSONRPC":"2.0","Method":"server.ping","extra":[1]}"#, "1 ServerPing null".to_owned()),
        (
            r#"{"id":1,"id":2,"auth":"x","auth":"tok","auth":null,"jsonrpc":"2.0","method":"git.info","params":{},"params":{"path":"p"}}"#,
            r#"2 GitInfo {"path":"p"}"#.to_owned(),
        ),
    ] {
        assert_eq!(verdict(line.as_bytes()), expected, "{line}");
    }
}

#[test]
fn shutdown_can_be_exempt_from_the_token_but_not_from_the_version() {
    let token = Secret::new(b"tok".to_vec());
    let gate = Gate { token: &token, shutdown_needs_auth: false };
    let line = br#"{"jsonrpc":"2.0","method":"server.shutdown"}"#;
    assert!(matches!(ask(line, &gate), Asked::Call(Call { method: Method::ServerShutdown, .. })));
    let line = br#"{"method":"server.shutdown"}"#;
    assert!(matches!(ask(line, &gate), Asked::Refuse(refusal) if refusal.error.code == errors::VERSION));
    let line = br#"{"jsonrpc":"2.0","method":"server.ping"}"#;
    assert!(matches!(ask(line, &gate), Asked::Refuse(refusal) if refusal.error.code == errors::UNAUTHORIZED));
}

#[test]
fn every_method_is_found_under_its_name_and_listed_once() {
    for (place, (method, name)) in METHODS.iter().enumerate() {
        assert_eq!(Method::find(name), Some(*method));
        assert!(METHODS[..place].iter().all(|(_, earlier)| earlier != name));
    }
    assert_eq!(METHODS.iter().filter(|(method, _)| !method.takes_params()).count(), 4);
}

proptest! {
    #[test]
    fn what_another_writer_wrote_is_understood(
        id in any::<i32>(),
        path in any::<String>(),
        method in 0..METHODS.len(),
    ) {
        let (method, name) = METHODS[method];
        let params = serde_json::json!({"path": path});
        let line = serde_json::json!({
            "jsonrpc": "2.0", "id": id, "method": name, "params": params, "auth": "tok",
        });
        prop_assert_eq!(verdict(line.to_string().as_bytes()), format!("{id} {method:?} {params}"));
    }

    #[test]
    fn garbage_is_a_parse_error_or_unauthorized(line in proptest::collection::vec(any::<u8>(), 0..80)) {
        let verdict = verdict(&line);
        prop_assert!(verdict.contains(" -32700 ") || verdict.contains(" -32001 "), "{verdict}");
    }
}
