//! Questions of the agent, requests it makes of us, and interruptions.

use hostel_agents::{Decision, Encoded, Event, Heard, Hosting, Input, Kind, Mode, Outcome, driver};
use serde_json::{Value, json};

use crate::acp::talk::{ask, names, opened, own, prompted, three, update};
use crate::support::{hear, send, setup};

#[test]
fn what_we_do_not_offer_is_refused_in_the_order_it_was_asked_for() {
    let mut driver = prompted(Hosting::Warm);
    let ids = [json!(0), json!("0"), json!(1.5), json!([1])];
    for (id, method) in ids.iter().zip(["fs/read_text_file", "terminal/create", "x", "authenticate"]) {
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": {} }).to_string();
        assert_eq!(hear(&mut *driver, &[&line]), Heard::default());
    }
    for id in ids {
        let refusal = own(&mut *driver);
        assert_eq!((&refusal["id"], &refusal["error"]["code"]), (&id, &json!(-32601)));
    }
    assert_eq!(driver.wants(), None);
    // Own words that wait do not keep a turn from ending.
    hear(&mut *driver, &[r#"{"id":9,"method":"x"}"#, r#"{"id":2,"result":{"stopReason":"end_turn"}}"#]);
    assert!(driver.ready() && driver.wants().is_some());
}

#[test]
fn an_agent_that_asks_without_end_is_not_answered_without_end() {
    let mut driver = prompted(Hosting::Warm);
    for id in 0..5000 {
        driver.line(format!(r#"{{"id":{id},"method":"x"}}"#).as_bytes(), &mut Heard::default());
    }
    let mut answers = 0;
    while driver.wants().is_some() {
        own(&mut *driver);
        answers += 1;
    }
    assert_eq!(answers, 1024);
}

#[test]
fn decisions_become_the_options_of_their_kind() {
    let once = json!([{ "optionId": "O", "kind": "allow_once" }]);
    let always = json!([{ "optionId": "A", "kind": "allow_always" }]);
    let no = || Decision::Reject("because".to_owned());
    let answers = |answer: &str| Decision::Answers(vec![("Which?".to_owned(), answer.to_owned())]);
    let cases = [
        (three(), Decision::AllowOnce, Some("O")),
        (three(), Decision::AllowAlways, Some("A")),
        (three(), no(), Some("R")),
        (three(), Decision::RejectWithEdit("instead".to_owned()), Some("R")),
        (three(), answers("Always"), Some("A")),
        (three(), answers("R"), Some("R")),
        (three(), answers("else"), None),
        (once.clone(), Decision::AllowAlways, Some("O")),
        (once, no(), None),
        // More than was granted is never taken.
        (always, Decision::AllowOnce, None),
        (json!([]), Decision::AllowAlways, None),
        (json!("odd"), no(), None),
    ];
    for (options, decision, expected) in cases {
        let mut driver = prompted(Hosting::Warm);
        ask(&mut *driver, json!(7), options.clone());
        let answer = send(&mut *driver, &Input::Decision { request: "7", decision: &decision, shown: None });
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["id"], 7);
        let outcome = match expected {
            Some(option) => json!({ "outcome": "selected", "optionId": option }),
            None => json!({ "outcome": "cancelled" }),
        };
        assert_eq!(answer["result"]["outcome"], outcome, "{decision:?} of {options}");
        let again = driver.encode(&Input::Decision { request: "7", decision: &decision, shown: None });
        assert_eq!(again, Encoded::Nothing);
    }
}

#[test]
fn questions_are_told_apart_by_the_type_of_their_ids() {
    let mut driver = prompted(Hosting::Warm);
    for (id, request) in [(json!(7), "7"), (json!("7"), "\"7\""), (json!(7.5), "7.5")] {
        let events = ask(&mut *driver, id.clone(), three());
        let Some(Event::PermissionAsked { request: told, call, tool, summary, .. }) = events.last() else {
            panic!("{events:?}")
        };
        assert_eq!((&**told, &**call, &**tool, &**summary), (request, "c", "bash", "bash: ls"));
    }
    for request in ["7.5", "\"7\"", "7"] {
        let answer = send(&mut *driver, &Input::Decision { request, decision: &Decision::AllowOnce, shown: None });
        assert!(answer.contains(&format!("\"id\":{request},")), "{answer}");
    }
    let unknown = driver.encode(&Input::Decision { request: "8", decision: &Decision::AllowOnce, shown: None });
    assert_eq!(unknown, Encoded::Nothing);
}

#[test]
fn a_question_that_is_asked_again_under_its_id_replaces_the_first() {
    let mut driver = prompted(Hosting::Warm);
    assert_eq!(names(&ask(&mut *driver, json!(1), three())), ["tool_call", "permission_asked"]);
    assert_eq!(names(&ask(&mut *driver, json!(1), three())), ["permission_withdrawn", "permission_asked"]);
    assert_eq!(driver.wants(), None);
}

#[test]
fn a_question_can_be_taken_back() {
    let mut driver = prompted(Hosting::Warm);
    ask(&mut *driver, json!("q"), three());
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"q"}}"#;
    let heard = hear(&mut *driver, &[cancel, cancel]);
    assert_eq!(heard.events, [Event::PermissionWithdrawn { request: "\"q\"".to_owned() }]);
    assert_eq!(own(&mut *driver)["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(driver.wants(), None);
}

#[test]
fn questions_nobody_can_be_asked_are_cancelled() {
    for mut driver in [opened(Hosting::Warm), driver(&setup(Kind::Echo, Hosting::Warm, Mode::Auto))] {
        while driver.wants().is_some() {
            own(&mut *driver);
        }
        assert_eq!(ask(&mut *driver, json!(3), three()), []);
        assert_eq!(
            own(&mut *driver),
            json!({ "jsonrpc": "2.0", "id": 3, "result": { "outcome": { "outcome": "cancelled" } } })
        );
    }
    let mut driver = prompted(Hosting::Warm);
    for id in 0..100 {
        ask(&mut *driver, json!(id), three());
    }
    assert_eq!(own(&mut *driver)["id"], 64);
    let odd = r#"{"id":1000,"method":"session/request_permission","params":{"toolCall":7}}"#;
    assert_eq!(hear(&mut *prompted(Hosting::Warm), &[odd]), Heard::default());
}

#[test]
fn an_interruption_voids_the_open_questions() {
    let mut driver = prompted(Hosting::Warm);
    ask(&mut *driver, json!(5), three());
    let mut heard = Heard::default();
    let Encoded::Bytes(cancel) = driver.encode(&Input::Interrupt) else { panic!() };
    assert_eq!(
        serde_json::from_slice::<Value>(&cancel).unwrap(),
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "S" } })
    );
    driver.sent(&Input::Interrupt, &mut heard);
    assert_eq!(heard.events, [Event::PermissionWithdrawn { request: "5".to_owned() }]);
    assert_eq!(own(&mut *driver)["id"], 5);
    // Whatever it asks from now on.
    assert_eq!(ask(&mut *driver, json!(6), three()), []);
    assert_eq!(own(&mut *driver)["id"], 6);
    // What it still says belongs to the turn, and an error is no failure of a turn that was stopped.
    let said = update(&mut *driver, json!({ "sessionUpdate": "agent_message_chunk", "content": { "text": "oh" } }));
    assert_eq!(names(&said), ["tool_result", "text_delta"]);
    let heard = hear(&mut *driver, &[r#"{"id":2,"error":{"code":-1,"message":"aborted"}}"#]);
    assert_eq!(names(&heard.events), ["text"]);
    assert_eq!(heard.over.unwrap().outcome, Outcome::Cancelled);
    assert_eq!(driver.encode(&Input::Interrupt), Encoded::Nothing);
    assert!(driver.ready());
}
