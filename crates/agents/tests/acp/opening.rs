//! Opening a conversation: sessions new and old, modes, models, and everything that can be wrong with them.

use hostel_agents::{Driver, Event, Heard, Hosting, Input, Kind, Mode, Outcome, Setup, driver};
use serde_json::{Value, json};

use crate::support::{hear, send, setup};

const LOADS: &str = r#"{"id":0,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}"#;

fn of(kind: Kind, mode: Mode, change: impl FnOnce(&mut Setup)) -> Box<dyn Driver> {
    let mut setup = setup(kind, Hosting::Warm, mode);
    change(&mut setup);
    driver(&setup)
}

fn resuming(kind: Kind) -> Box<dyn Driver> {
    of(kind, Mode::Ask, |setup| setup.resume = Some("S".to_owned()))
}

fn own(driver: &mut dyn Driver) -> Value {
    serde_json::from_str(&send(driver, &Input::Own)).unwrap()
}

fn answer(driver: &mut dyn Driver, id: u64, result: &Value) -> Heard {
    hear(driver, &[&json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()])
}

/// Answers `initialize` and `session/new`, and gives what was told with that.
fn opened(driver: &mut dyn Driver, session: &Value) -> Heard {
    assert_eq!(own(driver)["method"], "initialize");
    answer(driver, 0, &json!({ "protocolVersion": 1 }));
    assert_eq!(own(driver)["method"], "session/new");
    answer(driver, 1, session)
}

fn modes(current: &str) -> Value {
    json!({ "currentModeId": current, "availableModes": [
        { "id": "default" }, { "id": "acceptEdits" }, { "id": "plan" }, { "id": "bypassPermissions" },
    ] })
}

#[test]
fn the_wanted_mode_is_set_before_anything_is_asked() {
    for (mode, wanted) in
        [(Mode::Auto, "bypassPermissions"), (Mode::Code, "acceptEdits"), (Mode::Plan, "plan"), (Mode::Ask, "default")]
    {
        let mut driver = of(Kind::Acp, mode, |_| {});
        opened(&mut *driver, &json!({ "sessionId": "S", "modes": modes("other") }));
        assert!(!driver.ready());
        let set = own(&mut *driver);
        assert_eq!(
            (&set["method"], &set["params"]),
            (&json!("session/set_mode"), &json!({ "sessionId": "S", "modeId": wanted }))
        );
        assert!(!driver.ready());
        answer(&mut *driver, 2, &json!({}));
        assert!(driver.ready());

        let mut driver = of(Kind::Acp, mode, |_| {});
        opened(&mut *driver, &json!({ "sessionId": "S", "modes": modes(wanted) }));
        assert!(driver.ready() && driver.wants().is_none(), "it is in force already");
    }
}

#[test]
fn a_mode_can_be_a_configuration_option() {
    let option = json!({ "id": "m1", "category": "mode", "currentValue": "build", "options": [
        { "value": "build" }, { "group": "more", "options": [{ "value": "plan" }] },
    ] });
    let mut driver = of(Kind::Opencode, Mode::Plan, |_| {});
    opened(&mut *driver, &json!({ "sessionId": "S", "configOptions": [7, option] }));
    let set = own(&mut *driver);
    let params = json!({ "sessionId": "S", "configId": "m1", "value": "plan" });
    assert_eq!((&set["method"], &set["params"]), (&json!("session/set_config_option"), &params));
    answer(&mut *driver, 2, &json!({}));
    assert!(driver.ready());
}

#[test]
fn an_agent_of_opencode_that_the_user_made_stays_chosen() {
    for (current, changed) in [("mine", false), ("build", false), ("plan", true)] {
        let option =
            json!({ "id": "mode", "currentValue": current, "options": [{ "value": "build" }, { "value": "plan" }] });
        let mut driver = of(Kind::Opencode, Mode::Code, |_| {});
        opened(&mut *driver, &json!({ "sessionId": "S", "configOptions": [option] }));
        assert_eq!(driver.wants().is_some(), changed, "{current}");
    }
}

#[test]
fn an_agent_without_the_mode_says_so_and_one_without_modes_for_us_does_not() {
    let notices = |kind, session: &Value| {
        let mut driver = of(kind, Mode::Plan, |_| {});
        let heard = opened(&mut *driver, session);
        assert!(driver.ready());
        heard.events.iter().filter(|event| matches!(event, Event::Notice { .. })).count()
    };
    assert_eq!(notices(Kind::Acp, &json!({ "sessionId": "S" })), 1);
    assert_eq!(notices(Kind::Acp, &json!({ "sessionId": "S", "modes": { "availableModes": [{ "id": "wild" }] } })), 1);
    assert_eq!(notices(Kind::Echo, &json!({ "sessionId": "S" })), 0);
}

#[test]
fn the_model_is_set_where_it_can_be() {
    let with = |kind, session: &Value| {
        let mut driver = of(kind, Mode::Ask, |setup| setup.model = Some("big".to_owned()));
        let heard = opened(&mut *driver, session);
        let Some(Event::Init { model, .. }) = heard.events.first() else { panic!("{heard:?}") };
        assert_eq!(model.as_deref(), Some("big"));
        let told = heard.events.len() > 1;
        let set = driver.wants().map(|_| own(&mut *driver));
        assert_eq!(driver.ready(), set.is_none());
        (set, told)
    };
    let default = json!({ "currentModeId": "default", "availableModes": [{ "id": "default" }] });
    let option = json!([{ "id": "model", "category": "model", "currentValue": "small", "options": [] }]);
    let (set, told) =
        with(Kind::Acp, &json!({ "sessionId": "S", "modes": default, "configOptions": option, "models": {} }));
    assert_eq!(set.unwrap()["params"], json!({ "sessionId": "S", "configId": "model", "value": "big" }));
    assert!(!told);
    let (set, _) =
        with(Kind::Acp, &json!({ "sessionId": "S", "modes": default, "models": { "currentModelId": "small" } }));
    let set = set.unwrap();
    assert_eq!((&set["method"], &set["params"]["modelId"]), (&json!("session/set_model"), &json!("big")));
    let (set, _) =
        with(Kind::Acp, &json!({ "sessionId": "S", "modes": default, "models": { "currentModelId": "big" } }));
    assert_eq!(set, None);
    let (set, told) = with(Kind::Acp, &json!({ "sessionId": "S", "modes": default }));
    assert!(set.is_none() && told, "it cannot be chosen");
    let (set, told) =
        with(Kind::Gemini, &json!({ "sessionId": "S", "modes": default, "models": { "currentModelId": "x" } }));
    assert!(set.is_none() && !told, "it was chosen with the command line");
}

#[test]
fn what_cannot_be_opened_fails_the_turn_that_waits() {
    let plan = json!({ "sessionId": "S", "modes": modes("default") });
    let refused = r#"{"id":2,"error":{"code":-32602,"message":"no such mode"}}"#;
    let cases: [(&[&str], &str); 6] = [
        (&[r#"{"id":0,"error":{"code":-1,"message":"boom"}}"#], "the agent could not be started: boom"),
        (&[r#"{"id":0,"result":{"protocolVersion":2}}"#], "the agent speaks version 2 of ACP, not 1"),
        (
            &[LOADS, r#"{"id":1,"error":{"code":-32000,"message":"Authentication required"}}"#],
            "no session could be made: Authentication required (log in with the agent's own program)",
        ),
        (&[LOADS, r#"{"id":1,"result":{}}"#], "the agent gave its new session no id"),
        (&[LOADS, r#"{"id":1,"result":null}"#], "the agent gave its new session no id"),
        (
            &[LOADS, &json!({ "id": 1, "result": plan }).to_string(), refused],
            "the mode plan could not be set: no such mode",
        ),
    ];
    for (lines, reason) in cases {
        let mut driver = of(Kind::Acp, Mode::Plan, |_| {});
        let mut heard = Heard::default();
        for line in lines {
            own(&mut *driver);
            driver.line(line.as_bytes(), &mut heard);
        }
        let over = heard.over.unwrap();
        assert_eq!((over.outcome, &*over.reason), (Outcome::Failed, reason));
        assert_eq!(heard.events.last(), Some(&Event::Error { message: reason.to_owned() }));
        assert!(driver.wants_eof() && !driver.ready() && driver.wants().is_none());
        // It is of no use any more, and its end is no news.
        let mut heard = Heard::default();
        driver.line(LOADS.as_bytes(), &mut heard);
        driver.ended(crate::support::exit(1), "x", &mut heard);
        assert_eq!(heard, Heard::default());
    }
}

#[test]
fn an_earlier_session_is_loaded_and_its_history_is_no_news() {
    let mut driver = resuming(Kind::Echo);
    own(&mut *driver);
    hear(&mut *driver, &[LOADS]);
    let load = own(&mut *driver);
    assert_eq!(load["method"], "session/load");
    assert_eq!(load["params"], json!({ "sessionId": "S", "cwd": "/home/dev/project", "mcpServers": [] }));
    let past = r#"{"method":"session/update","params":{"sessionId":"S","update":{"sessionUpdate":"agent_message_chunk","content":{"text":"past"}}}}"#;
    assert_eq!(hear(&mut *driver, &[past]), Heard::default());
    let heard = hear(&mut *driver, &[r#"{"id":1,"result":null}"#]);
    assert!(matches!(&heard.events[..], [Event::Init { session_id: Some(id), .. }] if id == "S"));
    assert!(driver.ready());
    assert_eq!(driver.session_id(), Some("S"));
}

#[test]
fn an_agent_that_cannot_load_begins_anew_and_says_so() {
    let mut driver = resuming(Kind::Echo);
    own(&mut *driver);
    let heard = answer(&mut *driver, 0, &json!({ "protocolVersion": 1 }));
    assert!(matches!(&heard.events[..], [Event::Notice { .. }]));
    assert_eq!(own(&mut *driver)["method"], "session/new");
    answer(&mut *driver, 1, &json!({ "sessionId": "T" }));
    assert_eq!(driver.session_id(), Some("T"));
}

#[test]
fn a_session_that_cannot_be_loaded_is_not_replaced_by_another() {
    let mut driver = resuming(Kind::Echo);
    own(&mut *driver);
    hear(&mut *driver, &[LOADS]);
    own(&mut *driver);
    let heard = hear(&mut *driver, &[r#"{"id":1,"error":{"code":1,"message":"gone"}}"#]);
    assert_eq!(heard.over.unwrap().reason, "session S could not be loaded: gone");
    assert_eq!(driver.wants(), None);
}

/// What gemini answers to `session/load`.
fn loaded() -> Value {
    json!({ "modes": { "currentModeId": "default", "availableModes": [{ "id": "default" }, { "id": "yolo" }] } })
}

#[test]
fn gemini_gets_a_blank_before_the_id_and_is_waited_for() {
    let commands = r#"{"method":"session/update","params":{"sessionId":" S","update":{"sessionUpdate":"available_commands_update"}}}"#;
    let answered = r#"{"id":2,"result":{}}"#;
    for end_of_history in [commands, answered] {
        let mut driver = resuming(Kind::Gemini);
        own(&mut *driver);
        hear(&mut *driver, &[LOADS]);
        assert_eq!(own(&mut *driver)["params"]["sessionId"], " S");
        answer(&mut *driver, 1, &loaded());
        assert_eq!(driver.session_id(), Some("S"));
        let echo = own(&mut *driver);
        assert_eq!((&echo["method"], &echo["params"]["modeId"]), (&json!("session/set_mode"), &json!("default")));
        assert!(!driver.ready(), "the history is still to come");
        hear(&mut *driver, &[end_of_history]);
        assert!(driver.ready());
        let prompt = send(&mut *driver, &Input::Prompt { turn: 1, text: "x" });
        assert!(prompt.contains("\"sessionId\":\" S\""), "{prompt}");
        // The other one may come later.
        assert_eq!(hear(&mut *driver, &[commands, answered]), Heard::default());
    }
}

#[test]
fn gemini_is_in_the_wanted_mode_before_the_history_matters() {
    let mut driver = of(Kind::Gemini, Mode::Auto, |setup| setup.resume = Some("S".to_owned()));
    own(&mut *driver);
    hear(&mut *driver, &[LOADS]);
    own(&mut *driver);
    answer(&mut *driver, 1, &loaded());
    assert_eq!(own(&mut *driver)["params"]["modeId"], "yolo");
    hear(
        &mut *driver,
        &[r#"{"method":"session/update","params":{"update":{"sessionUpdate":"available_commands_update"}}}"#],
    );
    assert!(!driver.ready());
    answer(&mut *driver, 2, &json!({}));
    assert!(driver.ready());
}

#[test]
fn a_gemini_that_does_not_trim_ids_is_asked_again_without_the_blank() {
    let mut driver = resuming(Kind::Gemini);
    own(&mut *driver);
    hear(&mut *driver, &[LOADS]);
    own(&mut *driver);
    hear(&mut *driver, &[r#"{"id":1,"error":{"code":-32603,"message":"Invalid session identifier"}}"#]);
    assert_eq!(own(&mut *driver)["params"]["sessionId"], "S");
    let heard = hear(&mut *driver, &[r#"{"id":2,"error":{"code":-32603,"message":"Invalid session identifier"}}"#]);
    assert_eq!(heard.over.unwrap().reason, "session S could not be loaded: Invalid session identifier");
    // Somebody who has to log in could only lose by a second try.
    let mut driver = resuming(Kind::Gemini);
    own(&mut *driver);
    hear(&mut *driver, &[LOADS]);
    own(&mut *driver);
    let heard = hear(&mut *driver, &[r#"{"id":1,"error":{"code":-32000,"message":"log in"}}"#]);
    assert!(heard.over.is_some());
}
