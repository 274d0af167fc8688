use super::*;

fn screen() -> Look {
    Look {
        width: 60,
        height: 24,
        paint_text: false,
        paint_aside: false,
        aside: StreamName::Stderr,
        joined: true,
        prompts: false,
    }
}

/// What a screen shows, or each stream for itself.
fn shown(look: Look, updates: &[&str]) -> (String, String) {
    let mut page = Page::new(look);
    let mut pieces = Vec::new();
    for update in updates {
        pieces.extend(page.update(&Update::parse(update).unwrap(), Some(Duration::from_millis(12_300))));
    }
    pieces.extend(page.finish());
    let of = |wanted: StreamName| -> String {
        pieces.iter().filter(|piece| look.joined || piece.stream == wanted).map(|piece| piece.text.as_str()).collect()
    };
    (of(StreamName::Stdout), of(StreamName::Stderr))
}

fn on_screen(updates: &[&str]) -> String {
    shown(screen(), updates).0
}

const TURN: [&str; 10] = [
    r#"{"type":"turn_started","turn":1,"seq":1,"prompt":"fix it","door":"native"}"#,
    r#"{"type":"agent_thought_chunk","text":"\nlet me"}"#,
    r#"{"type":"agent_thought_chunk","text":" see"}"#,
    r#"{"type":"agent_message_chunk","text":"I will "}"#,
    r#"{"type":"agent_message_chunk","text":"look.\n"}"#,
    r#"{"type":"tool_call","tool_call_id":"c1","name":"Bash","raw_input":{"command":"cargo test"}}"#,
    r#"{"type":"tool_result","tool_call_id":"c1","name":"Bash","raw_output":"running 3 tests\nok\nok\n"}"#,
    r#"{"type":"tool_call","tool_call_id":"c2","name":"Read","raw_input":{"file_path":"src/a.rs"}}"#,
    r#"{"type":"agent_message_chunk","text":"All is well."}"#,
    r#"{"type":"turn_complete","turn":1,"outcome":"completed","content":"All is well.",
        "usage":{"input_tokens":3200,"output_tokens":410,"cached_tokens":1000,"cost_usd":0.0213}}"#,
];

#[test]
fn a_turn_on_a_screen() {
    assert_eq!(
        on_screen(&TURN),
        "let me see\n\nI will look.\n\n▸ Bash cargo test\n  └ running 3 tests (2 more lines)\n▸ Read src/a.rs\n\n\
         All is well.\n\n✓ done in 12s · tokens 3.2k in (1k cached), 410 out · $0.0213\n"
    );
}

#[test]
fn an_answer_goes_on_after_a_remark_of_ours() {
    let chunk = |text: &str| Update::parse(&format!(r#"{{"type":"agent_message_chunk","text":"{text}"}}"#)).unwrap();
    let told = |look: Look| {
        let mut page = Page::new(look);
        let mut pieces = page.update(&chunk("half an "), None);
        pieces.extend(page.note("hostel: away"));
        pieces.extend(page.note("hostel: back"));
        pieces.extend(page.update(&chunk("answer"), None));
        pieces.extend(page.update(&Update::parse(TURN[5]).unwrap(), None));
        let of = |wanted: StreamName| -> String {
            pieces.iter().filter(|piece| piece.stream == wanted).map(|piece| piece.text.as_str()).collect()
        };
        let all: String = pieces.iter().map(|piece| piece.text.as_str()).collect();
        (all, of(StreamName::Stdout), of(StreamName::Stderr))
    };
    assert_eq!(told(screen()).0, "half an \nhostel: away\nhostel: back\nanswer\n\n▸ Bash cargo test\n");
    let (_, answer, rest) = told(Look { joined: false, ..screen() });
    assert_eq!((answer.as_str(), rest.as_str()), ("half an answer", "hostel: away\nhostel: back\n▸ Bash cargo test\n"));
}

#[test]
fn an_answer_that_is_piped_on_is_an_answer_alone() {
    let (answer, rest) = shown(Look { joined: false, ..screen() }, &TURN);
    assert_eq!(answer, "I will look.\n\nAll is well.\n");
    assert_eq!(
        rest,
        "let me see\n\n▸ Bash cargo test\n  └ running 3 tests (2 more lines)\n▸ Read src/a.rs\n\
         ✓ done in 12s · tokens 3.2k in (1k cached), 410 out · $0.0213\n"
    );
}

#[test]
fn colour_begins_and_ends_in_one_piece() {
    let look = Look { paint_text: true, paint_aside: true, ..screen() };
    let mut page = Page::new(look);
    for update in TURN {
        for piece in page.update(&Update::parse(update).unwrap(), None) {
            let painted = piece.text.matches('\u{1b}').count();
            assert!(painted == 0 || (painted == 2 && piece.text.ends_with("\u{1b}[0m")), "{piece:?}");
        }
    }
    let thought = page.update(&Update::parse(TURN[1]).unwrap(), None);
    assert_eq!(thought.last().unwrap().text, "\u{1b}[2mlet me\u{1b}[0m");
}

#[test]
fn nothing_an_agent_writes_steers_the_terminal() {
    let evil = r"\u001b[2J\u009b8m\u0007\u202ex\r\b";
    let updates = [
        format!(r#"{{"type":"turn_started","turn":1,"prompt":"{evil}","door":"{evil}"}}"#),
        format!(r#"{{"type":"agent_message_chunk","text":"{evil}"}}"#),
        format!(r#"{{"type":"agent_thought_chunk","text":"{evil}"}}"#),
        format!(r#"{{"type":"tool_call","tool_call_id":"c","name":"{evil}","raw_input":{{"{evil}":"{evil}"}}}}"#),
        format!(r#"{{"type":"tool_result","tool_call_id":"c","name":"{evil}","raw_output":"{evil}"}}"#),
        format!(
            r#"{{"type":"approval_request","request_id":"{evil}","tool_name":"{evil}","arguments_summary":"{evil}"}}"#
        ),
        format!(r#"{{"type":"approval_request","request_id":"r","tool_name":"x","raw_input":{{"{evil}":"{evil}"}}}}"#),
        format!(r#"{{"type":"approval_resolved","request_id":"r","decision":"{evil}"}}"#),
        format!(r#"{{"type":"plan","entries":[{{"content":"{evil}","status":"{evil}"}}]}}"#),
        format!(r#"{{"type":"notice","message":"{evil}"}}"#),
        format!(r#"{{"type":"error","message":"{evil}"}}"#),
        format!(r#"{{"type":"history_trimmed","reason":"{evil}"}}"#),
        format!(r#"{{"type":"turn_complete","turn":1,"outcome":"failed","content":"{evil}"}}"#),
        format!(r#"{{"type":"turn_complete","turn":2,"outcome":"completed","content":"{evil}"}}"#),
    ];
    let updates: Vec<&str> = updates.iter().map(String::as_str).collect();
    let text = on_screen(&updates).replace('\n', "");
    let look = Look { prompts: true, aside: StreamName::Stdout, ..screen() };
    let watched = shown(look, &updates).0.replace('\n', "");
    for text in [text, watched] {
        assert!(!text.chars().any(|letter| letter.is_control() || letter == '\u{202e}'), "{text:?}");
        assert!(text.contains("⟨ESC⟩[2J"), "{text}");
    }
}

#[test]
fn long_lines_are_cut_to_the_width() {
    let long = "x".repeat(500);
    let call = format!(r#"{{"type":"tool_call","tool_call_id":"c","name":"Bash","raw_input":{{"command":"{long}"}}}}"#);
    let result = format!(r#"{{"type":"tool_result","tool_call_id":"c","name":"Bash","raw_output":"{long}\nmore\n"}}"#);
    let text = on_screen(&[&call, &result]);
    for line in text.lines() {
        assert!(text::columns(line) <= 60, "{line}");
        assert!(line.contains('…'), "{line}");
    }
    assert!(text.contains("(1 more line)"), "{text}");
}

#[test]
fn results_of_calls_side_by_side_say_whose_they_are() {
    let text = on_screen(&[
        r#"{"type":"tool_call","tool_call_id":"1","name":"Read","raw_input":{"path":"a"}}"#,
        r#"{"type":"tool_call","tool_call_id":"2","name":"Grep","raw_input":{"pattern":"b"}}"#,
        r#"{"type":"tool_result","tool_call_id":"1","name":"","raw_output":"one"}"#,
        r#"{"type":"tool_result","tool_call_id":"2","name":"","raw_output":"","failed":true}"#,
    ]);
    assert_eq!(text, "▸ Read a\n▸ Grep b\n  └ Read: one\n  └ Grep: failed\n");
}

#[test]
fn a_question_says_how_to_answer() {
    let asked = r#"{"type":"approval_request","request_id":"7c1e0000-aaaa-4bbb-8ccc-000000000000","tool_name":"Bash",
        "arguments_summary":"command: rm -rf build","raw_input":{"command":"rm -rf build"},"timeout_secs":86400}"#;
    let resolved =
        r#"{"type":"approval_resolved","request_id":"7c1e0000-aaaa-4bbb-8ccc-000000000000","decision":"reject"}"#;
    assert_eq!(
        on_screen(&[asked, resolved]),
        "? Bash asks for permission\n    command: rm -rf build\n  answer with `hostel approvals approve 7c1e0000` or \
         `hostel approvals deny 7c1e0000`; it waits 1d\n  └ denied\n"
    );
    let Update { what: What::Asked(question), .. } = Update::parse(asked).unwrap() else { panic!() };
    let mut page = Page::new(screen());
    let text: String = page.ask(&question).into_iter().map(|piece| piece.text).collect();
    assert!(text.ends_with("  allow it? y = once, a = always, n = no: "), "{text}");
    page.typed_line();
    let after: String =
        page.update(&Update::parse(resolved).unwrap(), None).into_iter().map(|piece| piece.text).collect();
    assert_eq!(after, "  └ denied\n");
}

#[test]
fn a_long_question_is_shown_to_its_end_before_it_can_be_agreed_to() {
    let script = "line\\n".repeat(100);
    let asked = format!(
        r#"{{"type":"approval_request","request_id":"r","tool_name":"Bash","raw_input":{{"command":"{script}"}}}}"#
    );
    let Update { what: What::Asked(question), .. } = Update::parse(&asked).unwrap() else { panic!() };
    let text = |pieces: Vec<Piece>| pieces.into_iter().map(|piece| piece.text).collect::<String>();
    let mut page = Page::new(screen());
    let first = text(page.ask(&question));
    assert!(first.ends_with("  … 80 more lines; Enter = read on, n = no: ") && !page.is_read(), "{first}");
    assert_eq!(first.matches("line↵\n").count(), 20);
    let told = text(page.not_yet());
    assert!(told.starts_with("  this is not all of it") && told.ends_with("n = no: ") && !page.is_read(), "{told}");
    let mut shown = 20;
    while !page.is_read() {
        shown += text(page.read_on()).matches("line↵\n").count();
    }
    assert_eq!(shown, 100);
    assert!(text(page.ask_again()).ends_with("allow it? y = once, a = always, n = no: "));
    let past = text(Page::new(screen()).past_question(&question));
    assert!(past.ends_with("    … 61 more lines: `hostel approvals show r`\n"), "{past}");
}

#[test]
fn ends_of_all_kinds() {
    let end = |outcome: &str, content: &str| {
        on_screen(&[&format!(r#"{{"type":"turn_complete","turn":1,"outcome":"{outcome}","content":"{content}"}}"#)])
    };
    assert_eq!(end("failed", "the model said no"), "✗ failed after 12s: the model said no\n");
    assert_eq!(end("cancelled", "stopped (client_rpc)"), "■ cancelled after 12s: stopped (client_rpc)\n");
    assert_eq!(end("completed", "an answer in one piece"), "an answer in one piece\n\n✓ done in 12s\n");
    let error = r#"{"type":"error","message":"no key"}"#;
    let failed = r#"{"type":"turn_complete","turn":1,"outcome":"failed","content":"no key"}"#;
    assert_eq!(on_screen(&[error, failed]), "! no key\n✗ failed after 12s\n");
    assert_eq!(brief(Duration::from_millis(1_240)), "1.2s");
}

#[test]
fn a_watched_session_shows_what_was_asked() {
    let look = Look { prompts: true, aside: StreamName::Stdout, joined: true, ..screen() };
    let (text, _) = shown(
        look,
        &[
            r#"{"type":"turn_started","turn":1,"prompt":"one\ntwo","door":"codecast"}"#,
            r#"{"type":"agent_message_chunk","text":"yes"}"#,
            r#"{"type":"turn_complete","turn":1,"outcome":"completed","content":"yes"}"#,
            r#"{"type":"turn_started","turn":2,"prompt":"more","door":"native"}"#,
            r#"{"type":"gap","from_seq":4,"to_seq":9}"#,
        ],
    );
    assert_eq!(
        text,
        "── turn 1 · codecast\n› one\n  two\n\nyes\n\n✓ done in 12s\n\n── turn 2 · native\n› more\n\n… the updates 4 to 9 are gone\n"
    );
}
