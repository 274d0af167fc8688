//! Requests come and go, keys answer what was read, and nothing else.

use crossterm::event::KeyCode;
use crossterm::event::KeyEvent;
use crossterm::event::KeyModifiers;
use serde_json::json;

use super::super::dialog::What;
use super::*;

struct Bench {
    model: Model,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let mut model = Model { bell: true, ..Model::default() };
        let now = Instant::now();
        model.add_house("home".to_owned());
        model.news(0, HouseNews::Connected { has_passphrase: true }, now);
        Bench { model, now }
    }

    fn wait(&mut self, millis: u64) {
        self.now += Duration::from_millis(millis);
    }

    fn pending(&mut self, ids: &[&str]) -> Vec<Deed> {
        let values: Vec<Value> = ids
            .iter()
            .map(|id| {
                json!({"id": id, "kind": "agent_tool", "state": "pending", "digest": "d", "tool": "Bash",
                       "created_at": u64::try_from(id.len()).unwrap()})
            })
            .collect();
        self.model.news(0, HouseNews::Pending(values), self.now)
    }

    fn paint(&mut self, rows: usize, height: usize) -> Vec<Deed> {
        self.model.painted(rows, height, self.now)
    }

    fn press(&mut self, code: KeyCode) -> Vec<Deed> {
        self.model.key(KeyEvent::new(code, KeyModifiers::NONE), self.now)
    }

    fn unlock(&mut self) {
        self.model.news(0, HouseNews::Unlocked(Ok(())), self.now);
    }
}

fn decided(deeds: &[Deed]) -> Vec<(&str, &What)> {
    deeds
        .iter()
        .filter_map(|deed| match deed {
            Deed::Decide { answer, .. } => Some((answer.id.as_str(), &answer.what)),
            _ => None,
        })
        .collect()
}

#[test]
fn a_request_is_shown_read_and_approved() {
    let mut bench = Bench::new();
    bench.unlock();
    let deeds = bench.pending(&["a"]);
    assert!(matches!(deeds[..], [Deed::Bell, Deed::Drain]), "{deeds:?}");
    // Typed before it was painted, and just after.
    assert!(decided(&bench.press(KeyCode::Char('y'))).is_empty());
    bench.wait(1_000);
    assert!(matches!(&bench.paint(10, 20)[..], [Deed::Shown { id, .. }] if id == "a"));
    assert!(bench.paint(10, 20).is_empty());
    bench.wait(100);
    assert!(decided(&bench.press(KeyCode::Char('y'))).is_empty());
    bench.wait(450);
    assert_eq!(decided(&bench.press(KeyCode::Char('y'))), [("a", &What::Approve)]);
}

#[test]
fn keys_are_kept_while_nothing_is_shown() {
    let mut bench = Bench::new();
    assert!(bench.pending(&[]).is_empty());
    assert!(matches!(bench.pending(&["a"])[..], [Deed::Bell, Deed::Drain]));
    assert!(matches!(bench.pending(&[])[..], [Deed::Drain]));
    assert!(bench.pending(&[]).is_empty());
}

#[test]
fn a_long_request_is_scrolled_to_its_end_first() {
    let mut bench = Bench::new();
    bench.unlock();
    bench.pending(&["a"]);
    bench.paint(100, 20);
    bench.wait(1_000);
    assert!(decided(&bench.press(KeyCode::Char('y'))).is_empty());
    assert!(bench.model.remark.as_ref().unwrap().0.contains("to its end"));
    bench.press(KeyCode::PageDown);
    bench.paint(100, 20);
    bench.wait(1_000);
    assert!(decided(&bench.press(KeyCode::Char('y'))).is_empty());
    bench.press(KeyCode::End);
    bench.paint(100, 20);
    assert_eq!(bench.model.scroll, 80);
    bench.wait(1_000);
    assert_eq!(decided(&bench.press(KeyCode::Char('y'))).len(), 1);
}

#[test]
fn the_next_request_is_not_answered_by_the_same_keys() {
    let mut bench = Bench::new();
    bench.unlock();
    bench.pending(&["a", "bb"]);
    bench.paint(5, 20);
    bench.wait(1_000);
    assert_eq!(decided(&bench.press(KeyCode::Char('y'))), [("a", &What::Approve)]);
    assert!(matches!(bench.pending(&["bb"])[..], [Deed::Drain]));
    // The key is still held down.
    for _ in 0..50 {
        bench.wait(30);
        bench.paint(5, 20);
        assert!(decided(&bench.press(KeyCode::Char('y'))).is_empty());
    }
    bench.wait(500);
    assert_eq!(decided(&bench.press(KeyCode::Char('n'))), [("bb", &What::Deny(String::new()))]);
}

#[test]
fn a_request_that_comes_does_not_take_the_place_of_the_one_that_is_read() {
    let mut bench = Bench::new();
    bench.pending(&["bb"]);
    bench.paint(5, 20);
    let deeds = bench.pending(&["a", "bb"]);
    assert!(matches!(deeds[..], [Deed::Bell]), "{deeds:?}");
    assert_eq!(bench.model.current().unwrap().request.id, "bb");
    bench.press(KeyCode::Char('k'));
    assert_eq!(bench.model.current().unwrap().request.id, "a");
}

#[test]
fn the_passphrase_is_asked_once_and_the_answer_follows() {
    let mut bench = Bench::new();
    bench.pending(&["a"]);
    bench.paint(5, 20);
    bench.wait(1_000);
    assert!(bench.press(KeyCode::Char('y')).is_empty());
    assert!(matches!(bench.model.dialog, Some(Dialog::Passphrase { .. })));
    // Letters go into the dialog and answer nothing.
    for letter in "ny q".chars() {
        assert!(bench.press(KeyCode::Char(letter)).is_empty());
    }
    let deeds = bench.press(KeyCode::Enter);
    assert!(matches!(&deeds[..], [Deed::Unlock { houses, passphrase }] if houses == &[0] && passphrase == "ny q"));
    let told = bench.model.news(0, HouseNews::Unlocked(Err("wrong; 4 more tries".to_owned())), bench.now);
    assert!(told.is_empty());
    assert!(
        matches!(&bench.model.dialog, Some(Dialog::Passphrase { problem: Some(words), .. }) if words.contains('4'))
    );
    bench.press(KeyCode::Char('x'));
    bench.press(KeyCode::Enter);
    let deeds = bench.model.news(0, HouseNews::Unlocked(Ok(())), bench.now);
    assert_eq!(decided(&deeds), [("a", &What::Approve)]);
    assert!(bench.model.dialog.is_none() && bench.model.unlocked());
}

#[test]
fn an_answer_that_waits_for_the_passphrase_goes_with_its_request() {
    let mut bench = Bench::new();
    bench.pending(&["a"]);
    bench.paint(5, 20);
    bench.wait(1_000);
    bench.press(KeyCode::Char('y'));
    bench.pending(&["cc"]);
    assert!(bench.model.dialog.is_none());
    assert!(decided(&bench.model.news(0, HouseNews::Unlocked(Ok(())), bench.now)).is_empty());
}

#[test]
fn a_daemon_that_restarts_wants_the_passphrase_again() {
    let mut bench = Bench::new();
    bench.unlock();
    assert!(bench.model.unlocked());
    bench.pending(&["a"]);
    bench.model.news(0, HouseNews::Lost, bench.now);
    assert!(!bench.model.unlocked() && bench.model.items.is_empty());
    bench.model.news(0, HouseNews::Connected { has_passphrase: true }, bench.now);
    bench.pending(&["a"]);
    bench.paint(5, 20);
    bench.wait(1_000);
    assert!(bench.press(KeyCode::Char('y')).is_empty());
    assert!(bench.model.dialog.is_some());
}

#[test]
fn without_a_passphrase_it_says_what_to_do() {
    let mut bench = Bench::new();
    bench.model.news(0, HouseNews::Connected { has_passphrase: false }, bench.now);
    bench.pending(&["a"]);
    bench.paint(5, 20);
    bench.wait(1_000);
    assert!(bench.press(KeyCode::Char('n')).is_empty());
    assert!(bench.model.dialog.is_none());
    assert!(bench.model.remark.as_ref().unwrap().0.contains("hostel approver set"));
}

#[test]
fn a_grant_is_given_with_its_terms() {
    let mut bench = Bench::new();
    bench.unlock();
    bench.pending(&["a"]);
    bench.paint(5, 20);
    bench.wait(1_000);
    bench.press(KeyCode::Char('g'));
    assert!(bench.press(KeyCode::Enter).is_empty(), "too soon");
    bench.wait(1_000);
    let deeds = bench.press(KeyCode::Enter);
    assert!(matches!(decided(&deeds)[..], [("a", What::Grant(terms))] if terms.seconds == 600));
}

#[test]
fn a_reason_is_told_and_pasted_text_answers_nothing() {
    let mut bench = Bench::new();
    bench.unlock();
    bench.pending(&["a"]);
    bench.paint(5, 20);
    bench.wait(1_000);
    bench.model.paste("y\ny\n");
    assert!(bench.model.dialog.is_none());
    bench.press(KeyCode::Char('r'));
    bench.model.paste("not\ntoday");
    let deeds = bench.press(KeyCode::Enter);
    assert_eq!(decided(&deeds), [("a", &What::Deny("nottoday".to_owned()))]);
}

#[test]
fn what_is_not_whole_cannot_be_answered() {
    let mut bench = Bench::new();
    bench.unlock();
    let values = vec![json!({"id": "a", "kind": "pipeline", "state": "pending", "abridged": true, "created_at": 1})];
    let deeds = bench.model.news(0, HouseNews::Pending(values), bench.now);
    assert!(deeds.iter().any(|deed| matches!(deed, Deed::Fetch { .. })), "{deeds:?}");
    bench.paint(0, 0);
    bench.wait(1_000);
    assert!(decided(&bench.press(KeyCode::Char('n'))).is_empty());
    let whole = json!({"id": "a", "kind": "pipeline", "state": "pending", "created_at": 1,
                       "subject": {"stages": [{"argv": ["ls"], "file": {}}]}});
    bench.model.news(0, HouseNews::Whole(whole), bench.now);
    let deeds = bench.paint(5, 20);
    assert!(matches!(deeds[..], [Deed::Shown { .. }, Deed::Look { .. }]), "{deeds:?}");
    bench.wait(1_000);
    assert_eq!(decided(&bench.press(KeyCode::Char('y'))).len(), 1);
}

#[test]
fn files_that_change_have_to_be_read_again() {
    let mut bench = Bench::new();
    bench.unlock();
    let value = json!({"id": "a", "kind": "pipeline", "state": "pending", "created_at": 1,
                       "subject": {"stages": [{"argv": ["ls"], "file": {"path": "/bin/ls"}}]}});
    bench.model.news(0, HouseNews::Pending(vec![value.clone()]), bench.now);
    bench.paint(5, 20);
    bench.wait(1_000);
    let mut changed = value;
    changed["subject"]["stages"][0]["file"]["changed"] = true.into();
    bench.model.looked(Request::read(&changed).unwrap());
    bench.paint(6, 20);
    assert!(decided(&bench.press(KeyCode::Char('y'))).is_empty());
    // News about its clock do not bring the old page back.
    bench.wait(1_000);
    assert!(bench.model.current().unwrap().request.pipeline().unwrap().stages[0].file.changed);
}

#[test]
fn a_key_that_was_meant_for_a_request_that_went_answers_no_other() {
    for key in ['y', 'n'] {
        let mut bench = Bench::new();
        bench.unlock();
        bench.pending(&["a", "bb"]);
        bench.paint(5, 10);
        bench.wait(1_000);
        // It is withdrawn, and the next one takes its place. The person presses the key a while later.
        bench.pending(&["bb"]);
        bench.paint(5, 10);
        bench.wait(2_000);
        assert!(decided(&bench.press(KeyCode::Char(key))).is_empty(), "{key}");
        assert!(bench.model.remark.as_ref().is_some_and(|(words, ..)| words.contains("another one")));
        bench.wait(1_000);
        assert_eq!(decided(&bench.press(KeyCode::Char(key))).len(), 1, "{key}");
        // What was answered here goes as expected, and the next one is answered by one key.
        bench.pending(&["ccc"]);
        bench.paint(5, 10);
        bench.wait(1_000);
        assert_eq!(decided(&bench.press(KeyCode::Char(key))).len(), 1, "{key}");
        // Whoever looks around has seen what is there.
        bench.pending(&["dddd"]);
        bench.paint(5, 10);
        bench.pending(&["eeeee"]);
        bench.paint(5, 10);
        bench.wait(1_000);
        bench.press(KeyCode::Home);
        assert_eq!(decided(&bench.press(KeyCode::Char(key))).len(), 1, "{key}");
    }
}
