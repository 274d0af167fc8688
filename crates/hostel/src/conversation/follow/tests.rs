use super::*;
use crate::conversation::page::Look;
use crate::paths::HouseDir;

fn follow(until: Until) -> Follow {
    let house = House { dir: HouseDir::at("/nowhere"), label: "home".to_owned() };
    let look = Look {
        width: 80,
        height: 24,
        paint_text: false,
        paint_aside: false,
        aside: StreamName::Stdout,
        joined: true,
        prompts: false,
    };
    Follow::new(house, "s".to_owned(), until, Format::Page(Box::new(Page::new(look))), Duration::ZERO)
}

fn hear(follow: &mut Follow, update: &str) -> Option<End> {
    let params = RawValue::from_string(update.to_owned()).unwrap();
    follow.heard("session/update", &params).unwrap()
}

fn written(follow: &mut Follow) -> String {
    let jobs = std::mem::take(&mut follow.waiting);
    jobs.into_iter()
        .filter_map(|job| match job {
            Job::Write(piece) => Some(piece.text),
            Job::Tell(_) => None,
        })
        .collect()
}

fn chunk(seq: u64, text: &str) -> String {
    format!(r#"{{"type":"agent_message_chunk","session_id":"s","seq":{seq},"turn":1,"text":"{text}"}}"#)
}

/// What a new connection does before the first update.
fn reconnect(follow: &mut Follow) -> u64 {
    follow.skip = follow.taken;
    follow.seq.saturating_sub(1)
}

#[test]
fn nothing_is_shown_twice_or_left_out_after_a_break() {
    let mut follow = follow(Until::Closed);
    for (seq, text) in [(1, "a"), (2, "b"), (2, "c")] {
        hear(&mut follow, &chunk(seq, text));
    }
    // The break came between updates of one number: two of 2 were taken, a third was not.
    assert_eq!(reconnect(&mut follow), 1);
    for (seq, text) in [(2, "b"), (2, "c"), (2, "d"), (3, "e")] {
        hear(&mut follow, &chunk(seq, text));
    }
    assert_eq!(written(&mut follow), "abcde");
    assert_eq!(reconnect(&mut follow), 2);
    for (seq, text) in [(3, "e"), (4, "f")] {
        hear(&mut follow, &chunk(seq, text));
    }
    assert_eq!(written(&mut follow), "f");
}

#[test]
fn following_begins_after_the_number_it_is_given() {
    let mut follow = follow(Until::Closed).since(7);
    assert_eq!(reconnect(&mut follow), 7);
    hear(&mut follow, &chunk(7, "old"));
    hear(&mut follow, &chunk(8, "new"));
    assert_eq!(written(&mut follow), "new");
}

#[test]
fn only_the_turn_that_was_asked_for_counts() {
    let mut follow = follow(Until::Turn { turn: 2, first: false });
    let end = |turn: u64, outcome: &str| {
        format!(
            r#"{{"type":"turn_complete","session_id":"s","seq":{0},"turn":{turn},"outcome":"{outcome}","content":""}}"#,
            turn * 10
        )
    };
    assert_eq!(hear(&mut follow, &chunk(1, "another's")), None);
    assert_eq!(hear(&mut follow, &end(1, "completed")), None);
    assert!(!follow.may_stop());
    follow.on_interrupt = OnInterrupt::StopTurn;
    // Ctrl-C must not stop what somebody else asked for.
    assert!(!follow.may_stop());
    hear(&mut follow, r#"{"type":"turn_started","session_id":"s","seq":11,"turn":2,"prompt":"x","door":"native"}"#);
    assert!(follow.may_stop());
    let done = hear(&mut follow, &end(2, "failed"));
    assert_eq!(done, Some(End::Turn { outcome: Outcome::Failed, interrupted: false }));
    assert!(!written(&mut follow).contains("another's"));
}

#[test]
fn updates_of_other_sessions_are_not_ours() {
    let mut follow = follow(Until::Closed);
    hear(&mut follow, r#"{"type":"agent_message_chunk","session_id":"t","seq":1,"turn":1,"text":"x"}"#);
    assert_eq!(written(&mut follow), "");
    assert_eq!(follow.seq, 0);
}

#[test]
fn a_question_told_twice_is_shown_once() {
    let mut follow = follow(Until::Closed);
    let asked = r#"{"type":"approval_request","session_id":"s","request_id":"r","tool_name":"Bash","turn":1}"#;
    hear(&mut follow, asked);
    hear(&mut follow, asked);
    assert_eq!(written(&mut follow).matches("asks for permission").count(), 1);
}

#[test]
fn only_open_questions_are_told_how_to_answer() {
    let mut follow = follow(Until::Closed).with_open(HashSet::from(["open".to_owned()]));
    follow.history = 2;
    for (seq, id) in [(1, "past"), (2, "open"), (3, "new")] {
        let asked = format!(
            r#"{{"type":"approval_request","session_id":"s","seq":{seq},"request_id":"{id}","tool_name":"Bash"}}"#
        );
        hear(&mut follow, &asked);
    }
    let written = written(&mut follow);
    assert_eq!(written.matches("asks for permission").count(), 3);
    assert!(!written.contains("approve past") && written.contains("approve open") && written.contains("approve new"));
}

#[test]
fn data_has_each_field_once() {
    let params =
        RawValue::from_string(r#"{"type":"gap","session_id":"s","sessionId":"s","from_seq":1,"fromSeq":1}"#.to_owned());
    assert_eq!(data_line(&params.unwrap()).unwrap(), "{\"from_seq\":1,\"session_id\":\"s\",\"type\":\"gap\"}\n");
}
