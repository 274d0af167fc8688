use super::*;

fn pairs(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn named(env: &[(String, String)], name: &str) -> String {
    env.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()).unwrap_or_default()
}

#[test]
fn the_environment_is_the_request_and_the_account_and_nothing_else() {
    let of = |env, privilege, agent, display| environment(env, privilege, false, agent, display);
    let env = of(pairs(&[("TZ", "UTC"), ("HOME", "/x")]), Privilege::None, None, BTreeMap::new());
    let names: Vec<&str> = env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["HOME", "LOGNAME", "PATH", "TZ", "USER"]);
    assert_eq!(env[0].1, "/x", "what the request brings stays");
    assert_eq!(env[2].1, EXECUTION_PATH);
    let agent = of(BTreeMap::new(), Privilege::None, Some("/run/agent".into()), BTreeMap::new());
    assert!(agent.contains(&("SSH_AUTH_SOCK".to_owned(), "/run/agent".to_owned())));
    let display = pairs(&[("DISPLAY", ":0"), ("LD_PRELOAD", "/x.so")]);
    let pkexec = of(pairs(&[("LANG", "C"), ("HOME", "/x")]), Privilege::Pkexec, None, display);
    assert_eq!(pkexec, [("DISPLAY", ":0"), ("LANG", "C")].map(|(a, b)| (a.to_owned(), b.to_owned())));
}

#[test]
fn root_is_root_whatever_the_request_says() {
    let brought = pairs(&[("HOME", "/home/me"), ("TZ", "UTC")]);
    let env = environment(brought.clone(), Privilege::Sudo, false, None, BTreeMap::new());
    let root = account::root();
    assert_eq!((named(&env, "HOME"), named(&env, "USER")), (root.home.clone(), root.name.clone()));
    assert_eq!((named(&env, "LOGNAME"), named(&env, "TZ")), (root.name.clone(), "UTC".to_owned()));
    let names: Vec<&str> = env.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["HOME", "LOGNAME", "PATH", "TZ", "USER"]);
    // As the contract has it, where that is wanted.
    let env = environment(brought, Privilege::Sudo, true, None, BTreeMap::new());
    assert_eq!((named(&env, "HOME"), named(&env, "USER")), ("/home/me".to_owned(), account::account().name.clone()));
}

fn planned(ask: PlanRequest) -> Pipeline {
    let files: Vec<Files> = ask.stages.iter().map(|argv| examined(argv)).collect();
    assemble(ask, files.into_iter())
}

#[test]
fn a_plan_is_the_same_after_it_was_stored() {
    let ask = PlanRequest {
        stages: vec![
            vec!["sh".to_owned(), "-c".to_owned(), "\u{202e}x \u{1F600} /etc/passwd".to_owned()],
            vec!["nope".to_owned()],
        ],
        privilege: Privilege::Sudo,
        ..PlanRequest::default()
    };
    let plan = planned(ask);
    assert!(matches!(&plan.stages[0].file, Resolved::Found { writers: Writers::OnlyRoot, .. }));
    assert!(matches!(&plan.stages[1].file, Resolved::Missing { errno: 2, .. }));
    assert_eq!(plan.stages[0].named.len(), 1);
    assert!(plan.changeable_code().is_empty());
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Pipeline>(&text).unwrap(), plan);
    let digits = |text: &str| {
        serde_json::from_value::<Resolved>(serde_json::json!({"found": {
        "path": "/a", "target": "/a", "dev": 1, "inode": 2, "size": 3, "digest": text}}))
    };
    // As a version stored it that did not look who can change a file.
    assert!(matches!(digits(&"0f".repeat(32)).unwrap(), Resolved::Found { writers: Writers::Unknown, .. }));
    for wrong in ["", "0f", &"zz".repeat(32), &"é".repeat(32), &"0f".repeat(33)] {
        digits(wrong).unwrap_err();
    }
}

#[test]
fn code_that_others_can_change_is_listed() {
    let by_requester = || Writers::Requester("user 1000 owns it".to_owned());
    let file = |path: &str, writers, interpreters| Resolved::Found {
        path: path.into(),
        target: path.into(),
        dev: 1,
        inode: 2,
        size: 3,
        digest: [4; 32],
        writers,
        interpreters,
        libraries: Vec::new(),
    };
    let named = |is_code, is_directory, writers| NamedFile {
        word: 1,
        path: "/x".into(),
        is_directory,
        writers,
        is_code,
        digest: None,
    };
    let of = |path: &str, writers, is_loader| Interpreter {
        name: path.to_owned(),
        file: file(path, writers, vec![]),
        is_loader,
    };
    let sh = |writers| vec![of("/bin/sh", writers, false)];
    let mut stage = Stage::new(vec!["a".to_owned()], file("/a", Writers::OnlyRoot, sh(Writers::OnlyRoot)));
    stage.named = vec![named(true, false, Writers::OnlyRoot), named(false, false, by_requester())];
    assert_eq!(stage.changeable_code(), Vec::<String>::new());
    stage.file = file("/a", by_requester(), sh(Writers::Others("group 5 can".to_owned())));
    stage.named.extend([named(true, false, by_requester()), named(true, true, by_requester())]);
    stage.names_more = true;
    assert_eq!(
        stage.changeable_code(),
        [
            "the program /a: user 1000 owns it",
            "the interpreter /bin/sh: group 5 can",
            "the file /x: user 1000 owns it",
            "the directory /x: user 1000 owns it",
            "there are more files among the arguments than were examined",
        ]
    );
    let loader = vec![of("/x/ld.so", by_requester(), true)];
    let mut loaded = Stage::new(vec!["a".to_owned()], file("/a", Writers::OnlyRoot, loader));
    if let Resolved::Found { libraries, .. } = &mut loaded.file {
        libraries.push(LibraryPath { path: "/x/lib".into(), writers: by_requester() });
    }
    assert_eq!(
        loaded.changeable_code(),
        ["the loader /x/ld.so: user 1000 owns it", "the place of libraries /x/lib: user 1000 owns it"]
    );
    let unknown = Interpreter::missing("env -S 'x'".to_owned(), rustix::io::Errno::NOEXEC);
    let stage = Stage::new(vec!["a".to_owned()], file("/a", Writers::OnlyRoot, vec![unknown]));
    assert_eq!(stage.changeable_code(), ["the interpreter env -S 'x': nobody has looked who can"]);
}

#[tokio::test]
async fn what_was_looked_at_is_not_looked_at_again() {
    let ask = |words: &[&str]| {
        let stages = words.iter().map(|word| vec![(*word).to_owned()]).collect();
        PlanRequest { stages, ..PlanRequest::default() }
    };
    let looked = plan(ask(&["sh", "true"])).await;
    assert!(looked.stages.iter().all(|stage| matches!(stage.file, Resolved::Found { .. })));
    assert!(account::is_known(), "the environment has it");
    // Unless a name has just gone from the kernel's memory, all of it is known now.
    let known = (0..100).find_map(|_| known_files(&ask(&["sh", "true"]), true));
    let files: Vec<Resolved> = looked.stages.iter().map(|stage| stage.file.clone()).collect();
    assert_eq!(known.expect("it was looked at a moment ago"), files);
    assert_eq!(known_files(&ask(&["sh", "no-such-program"]), true), None, "one that somebody has to look for");
    assert_eq!(known_files(&ask(&["sh", "true"]), false), None, "whose environment is not known yet");
    assert_eq!(plan(ask(&["sh", "true"])).await, looked);
}
