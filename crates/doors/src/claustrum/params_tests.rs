use super::*;
use proptest::prelude::*;

#[test]
fn every_field_reaches_its_place() {
    assert_eq!(
        PathParams::decode(br#"{"path":"p","maxBytes":-3}"#),
        Ok(PathParams { path: "p".into(), max_bytes: -3 })
    );
    assert_eq!(
        ExtractParams::decode(br#"{"archivePath":"a","destDir":"d","path":5}"#),
        Ok(ExtractParams { archive_path: "a".into(), dest_dir: "d".into() })
    );
    assert_eq!(
        GitParams::decode(br#"{"path":"p","baseRepo":"r","branchName":"b","worktreePath":"w","sourceBranch":"s"}"#),
        Ok(GitParams {
            path: "p".into(),
            base_repo: "r".into(),
            branch_name: "b".into(),
            worktree_path: "w".into(),
            source_branch: "s".into(),
        })
    );
    assert_eq!(
        SpawnParams::decode(br#"{"id":"i","command":"c","args":["a"],"cwd":"d","env":{"K":"V"},"wantPid":true}"#),
        Ok(SpawnParams {
            id: "i".into(),
            command: "c".into(),
            args: vec!["a".into()],
            cwd: "d".into(),
            env: vec![("K".into(), "V".into())],
            want_pid: true,
        })
    );
    assert_eq!(
        StdinParams::decode(br#"{"id":"i","data":"aGk=","offset":0}"#),
        Ok(StdinParams { id: "i".into(), data: "aGk=".into(), offset: Some(0) })
    );
    assert_eq!(
        KillParams::decode(br#"{"id":"i","signal":"KILL"}"#),
        Ok(KillParams { id: "i".into(), signal: "KILL".into() })
    );
    assert_eq!(
        KillAndWaitParams::decode(br#"{"id":"i","signal":"INT","timeoutMs":-1,"escalate":false}"#),
        Ok(KillAndWaitParams { id: "i".into(), signal: "INT".into(), timeout_ms: Some(-1), escalate: Some(false) })
    );
    assert_eq!(
        ReattachParams::decode(br#"{"id":"i","fromSeq":18446744073709551615,"wantPid":false}"#),
        Ok(ReattachParams { id: "i".into(), from_seq: u64::MAX, want_pid: false })
    );
}

#[test]
fn null_and_an_empty_object_are_the_defaults() {
    for params in [&b"null"[..], b"{}"] {
        assert_eq!(PathParams::decode(params), Ok(PathParams::default()));
        assert_eq!(ExtractParams::decode(params), Ok(ExtractParams::default()));
        assert_eq!(GitParams::decode(params), Ok(GitParams::default()));
        assert_eq!(SpawnParams::decode(params), Ok(SpawnParams::default()));
        assert_eq!(StdinParams::decode(params), Ok(StdinParams::default()));
        assert_eq!(KillParams::decode(params), Ok(KillParams::default()));
        assert_eq!(KillAndWaitParams::decode(params), Ok(KillAndWaitParams::default()));
        assert_eq!(ReattachParams::decode(params), Ok(ReattachParams::default()));
    }
    let nulls = br#"{"id":null,"command":null,"args":null,"cwd":null,"env":null,"wantPid":null}"#;
    assert_eq!(SpawnParams::decode(nulls), Ok(SpawnParams::default()));
}

#[test]
fn mistyped_fields_of_the_namespace_are_refused() {
    for params in [r#"{"maxBytes":"{"}"#, r#"{"path":123}"#, r#"{"maxBytes":4.0}"#, r#""x""#, "[1]"] {
        assert_eq!(PathParams::decode(params.as_bytes()), Err(Malformed), "{params}");
    }
    for params in [r#"{"baseRepo":[1,2]}"#, r#"{"sourceBranch":true}"#] {
        assert_eq!(GitParams::decode(params.as_bytes()), Err(Malformed), "{params}");
    }
    for params in [r#"{"args":"a"}"#, r#"{"args":[1]}"#, r#"{"env":{"A":1}}"#, r#"{"env":[]}"#, r#"{"wantPid":1}"#] {
        assert_eq!(SpawnParams::decode(params.as_bytes()), Err(Malformed), "{params}");
    }
    for params in [r#"{"offset":-1}"#, r#"{"offset":"1"}"#, r#"{"data":[]}"#] {
        assert_eq!(StdinParams::decode(params.as_bytes()), Err(Malformed), "{params}");
    }
    assert_eq!(KillParams::decode(br#"{"signal":9}"#), Err(Malformed));
    assert_eq!(KillAndWaitParams::decode(br#"{"timeoutMs":1.5}"#), Err(Malformed));
    assert_eq!(KillAndWaitParams::decode(br#"{"escalate":"no"}"#), Err(Malformed));
    assert_eq!(ReattachParams::decode(br#"{"fromSeq":-1}"#), Err(Malformed));
}

proptest! {
    #[test]
    fn what_another_writer_wrote_is_understood(
        id in any::<String>(),
        command in any::<String>(),
        args in proptest::collection::vec(any::<String>(), 0..5),
        env in proptest::collection::btree_map(any::<String>(), any::<String>(), 0..5),
        want_pid in any::<bool>(),
    ) {
        let params = serde_json::json!({
            "id": id, "command": command, "args": args, "env": env, "wantPid": want_pid, "other": {"id": 1},
        })
        .to_string();
        let read = SpawnParams::decode(params.as_bytes()).unwrap();
        let expected = SpawnParams {
            id: id.into(),
            command: command.into(),
            args,
            cwd: "".into(),
            env: env.into_iter().collect(),
            want_pid,
        };
        prop_assert_eq!(read, expected);
    }
}
