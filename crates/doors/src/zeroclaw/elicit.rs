//! Multiple choices, put to a client that can show them: `elicitation/create`.
//!
//! Invariant: a question of ours is open until it is answered or no longer matters, and an answer is looked up among
//! this connection's own questions alone. Keys are camelCase here: it is another protocol's shape.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;

use hostel_agents::Decision;
use hostel_agents::Raw;
use hostel_house::approvals::Approval;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use serde_json::json;
use tokio::sync::oneshot;

use super::decide;
use super::visitor::Visitor;

/// Questions of ours that may be open on one connection.
const OPEN: usize = 16;

/// The tool by which an agent asks.
const TOOL: &str = "AskUserQuestion";

/// What the door asked its client, by id.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    next: AtomicU64,
    open: Mutex<HashMap<String, oneshot::Sender<Option<Value>>>>,
}

impl Questions {
    /// A new question's id, and where its answer will be; none if too many are open.
    fn open(&self) -> Option<(String, oneshot::Receiver<Option<Value>>)> {
        let mut open = self.open.lock();
        open.retain(|_, asker| !asker.is_closed());
        if open.len() >= OPEN {
            return None;
        }
        let id = format!("zc-out-{}", self.next.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        open.insert(id.clone(), answer);
        Some((id, answered))
    }

    /// Hands an answer to whoever asked. Says whether anybody did.
    pub(crate) fn resolve(&self, id: &str, result: Option<Value>) -> bool {
        let asker = self.open.lock().remove(id);
        asker.is_some_and(|asker| asker.send(result).is_ok())
    }
}

#[derive(Debug, Deserialize)]
struct Input {
    questions: Vec<Choice>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    question: String,
    #[serde(default)]
    options: Vec<Label>,
    #[serde(default, rename = "multiSelect")]
    several: bool,
}

#[derive(Debug, Deserialize)]
struct Label {
    label: String,
}

/// Whether a tool call is a set of multiple choices.
pub(crate) fn applies(tool: &str, input: &Raw) -> bool {
    tool == TOOL && choices(input).is_some()
}

fn choices(input: &Raw) -> Option<Vec<Choice>> {
    let input: Input = serde_json::from_str(input.get()).ok()?;
    let usable = !input.questions.is_empty() && input.questions.iter().all(|choice| !choice.options.is_empty());
    usable.then_some(input.questions)
}

/// Puts the choices of an approval to the client, one after the other, and settles it.
pub(crate) async fn ask(visitor: Arc<Visitor>, approval: Approval) {
    let Some(choices) = choices(&approval.input) else { return };
    let mut answers = Vec::with_capacity(choices.len());
    for choice in choices {
        let answer = tokio::select! {
            answer = put(&visitor, &approval.session, &choice) => answer,
            () = settled(&visitor, &approval.id) => return,
        };
        match answer {
            Some(answer) => answers.push((choice.question, answer)),
            None => {
                let declined = Decision::Reject("the person declined to answer".to_owned());
                return report(&visitor, decide::settle(&visitor, &approval.id, declined).await);
            }
        }
    }
    report(&visitor, decide::settle(&visitor, &approval.id, Decision::Answers(answers)).await);
}

fn report(visitor: &Visitor, settled: Result<(), crate::rpc::Failure>) {
    if let Err(failure) = settled {
        visitor.house().log.warn(format_args!("[zeroclaw] an answer was not taken: {}", failure.message));
    }
}

/// Waits until somebody else has settled it.
async fn settled(visitor: &Visitor, approval: &str) {
    let approvals = &visitor.house().approvals;
    let mut changed = approvals.changed();
    loop {
        changed.borrow_and_update();
        if !approvals.pending().iter().any(|pending| pending.id == approval) || changed.changed().await.is_err() {
            return;
        }
    }
}

/// Asks one question; none if the person would not say.
async fn put(visitor: &Visitor, session: &str, choice: &Choice) -> Option<String> {
    let (id, answered) = visitor.questions.open()?;
    let params = json!({
        "sessionId": session,
        "mode": "form",
        "message": choice.question,
        "requestedSchema": schema(choice),
    });
    visitor.writer.ask(&id, "elicitation/create", &params).await.ok()?;
    read(choice, &answered.await.ok().flatten()?)
}

fn schema(choice: &Choice) -> Value {
    let options: Vec<Value> = choice
        .options
        .iter()
        .enumerate()
        .map(|(index, option)| json!({"const": format!("choice-{index}"), "title": option.label}))
        .collect();
    let (name, property) = match choice.several {
        false => ("choice", json!({"type": "string", "oneOf": options})),
        true => ("choices", json!({"type": "array", "items": {"type": "string", "oneOf": options}})),
    };
    json!({"type": "object", "properties": {name: property}, "required": [name]})
}

fn read(choice: &Choice, answer: &Value) -> Option<String> {
    if answer.get("action")? != "accept" {
        return None;
    }
    let label = |chosen: &Value| {
        let index: usize = chosen.as_str()?.strip_prefix("choice-")?.parse().ok()?;
        choice.options.get(index).map(|option| option.label.clone())
    };
    let content = answer.get("content")?;
    match choice.several {
        false => label(content.get("choice")?),
        true => {
            let chosen: Option<Vec<String>> = content.get("choices")?.as_array()?.iter().map(label).collect();
            Some(chosen?.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(text: &str) -> Raw {
        Raw(serde_json::value::RawValue::from_string(text.to_owned()).unwrap())
    }

    const BOTH: &str = r#"{"questions":[
        {"question":"Which?","header":"h","multiSelect":false,"options":[{"label":"a","description":""},{"label":"b"}]},
        {"question":"All?","multiSelect":true,"options":[{"label":"x"},{"label":"y"}]}]}"#;

    #[test]
    fn only_choices_that_can_be_shown() {
        assert!(applies(TOOL, &input(BOTH)));
        assert!(!applies("Bash", &input(BOTH)));
        assert!(!applies(TOOL, &input(r#"{"questions":[]}"#)));
        assert!(!applies(TOOL, &input(r#"{"questions":[{"question":"Free text?"}]}"#)));
    }

    #[test]
    fn a_choice_there_and_back() {
        let choices = choices(&input(BOTH)).unwrap();
        assert_eq!(
            schema(&choices[0]),
            json!({"type": "object", "required": ["choice"], "properties": {"choice": {"type": "string", "oneOf": [
                {"const": "choice-0", "title": "a"}, {"const": "choice-1", "title": "b"}]}}})
        );
        let answer = |content: Value| json!({"action": "accept", "content": content});
        assert_eq!(read(&choices[0], &answer(json!({"choice": "choice-1"}))).as_deref(), Some("b"));
        assert_eq!(read(&choices[1], &answer(json!({"choices": ["choice-0", "choice-1"]}))).as_deref(), Some("x, y"));
        for wrong in [json!({"choice": "choice-2"}), json!({"choice": 1}), json!({})] {
            assert_eq!(read(&choices[0], &answer(wrong)), None);
        }
        assert_eq!(read(&choices[0], &json!({"action": "decline"})), None);
    }

    #[tokio::test]
    async fn answers_find_their_question_once() {
        let questions = Questions::default();
        let (id, answered) = questions.open().unwrap();
        assert_eq!(id, "zc-out-0");
        assert!(!questions.resolve("zc-out-1", None));
        assert!(questions.resolve(&id, Some(json!(1))));
        assert!(!questions.resolve(&id, Some(json!(1))));
        assert_eq!(answered.await.unwrap(), Some(json!(1)));
        let open: Vec<_> = (0..OPEN).map(|_| questions.open().unwrap()).collect();
        assert!(questions.open().is_none());
        drop(open);
        assert!(questions.open().is_some());
    }
}
