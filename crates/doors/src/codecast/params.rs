//! What each method takes. Pure.
//!
//! Invariant: a parameter of another type is as good as none, and the texts are the contract's own: people see them.

use hostel_agents::Mode;
use serde_json::Value;

use super::rpc::Failure;

/// The parameters of a call, whatever was sent as such.
#[derive(Debug)]
pub(super) struct Params(Value);

/// `session.create`
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Create {
    pub(super) path: String,
    pub(super) mode: Option<Mode>,
    pub(super) model: Option<String>,
    pub(super) agent: String,
}

/// `session.send`
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Send {
    pub(super) session: String,
    pub(super) message: String,
}

impl Params {
    /// The parameters, which must be there.
    pub(super) fn of(params: Option<Value>) -> Result<Self, Failure> {
        match params {
            None | Some(Value::Null) => Err(Failure::params("Missing params")),
            Some(params) => Ok(Self(params)),
        }
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.0.get_mut(name)?.take() {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// The session of a method that needs nothing else.
    pub(super) fn session(&mut self) -> Result<String, Failure> {
        self.text("sessionId").ok_or_else(|| Failure::params("Missing required param: sessionId"))
    }

    /// The CLI's own session, if it is named.
    pub(super) fn cli_session(&mut self) -> Option<String> {
        self.text("sdkSessionId").filter(|id| !id.is_empty())
    }

    /// Whether everything of the last stream is wanted again.
    pub(super) fn wants_all_again(&self) -> bool {
        self.0.get("fromStart") == Some(&Value::Bool(true))
    }

    pub(super) fn create(mut self) -> Result<Create, Failure> {
        let path = self.text("path").ok_or_else(|| Failure::params("Missing required param: path"))?;
        let mode =
            match self.text("mode") {
                None => None,
                Some(name) => Some(Mode::named(&name).ok_or_else(|| {
                    Failure::params(format!("Unknown mode: {name} (there are: auto, code, plan, ask)"))
                })?),
            };
        let model = self.text("model").filter(|model| !model.is_empty());
        let agent = self.text("cli_type").unwrap_or_else(|| "claude".to_owned());
        Ok(Create { path, mode, model, agent })
    }

    pub(super) fn set_mode(mut self) -> Result<(String, Mode), Failure> {
        let (Some(session), Some(mode)) = (self.text("sessionId"), self.text("mode")) else {
            return Err(Failure::params("Missing required params: sessionId, mode"));
        };
        let mode = Mode::named(&mode).ok_or_else(|| Failure::failed("Invalid mode"))?;
        Ok((session, mode))
    }

    pub(super) fn set_model(mut self) -> Result<(String, Option<String>), Failure> {
        let session = self.text("sessionId").ok_or_else(|| Failure::params("Missing required params: sessionId"))?;
        Ok((session, self.text("model").filter(|model| !model.is_empty())))
    }

    /// `session.send` has one sentence for everything that can be missing.
    pub(super) fn send(params: Option<Value>) -> Result<Send, Failure> {
        let missing = || Failure::params("Missing required params: sessionId, message");
        let mut params = Self::of(params).map_err(|_| missing())?;
        let (Some(session), Some(message)) = (params.text("sessionId"), params.text("message")) else {
            return Err(missing());
        };
        Ok(Send { session, message })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)] // test code
mod tests {
    use super::*;
    use crate::codecast::rpc::{FAILED, INVALID_PARAMS};
    use serde_json::json;

    fn params(value: Value) -> Params {
        Params::of(Some(value)).unwrap()
    }

    #[test]
    fn what_create_takes() {
        let create = params(json!({"path": "p"})).create().unwrap();
        assert_eq!(create, Create { path: "p".into(), mode: None, model: None, agent: "claude".into() });
        let odd = json!({"path": "", "mode": 5, "model": null, "cli_type": []});
        assert_eq!(params(odd).create().unwrap().agent, "claude");
        let full = json!({"path": "p", "mode": "plan", "model": "m", "cli_type": "codex"});
        let create = params(full).create().unwrap();
        assert_eq!(
            (create.mode, create.model.as_deref(), create.agent.as_str()),
            (Some(Mode::Plan), Some("m"), "codex")
        );
        let failure = params(json!({"path": "p", "mode": "yolo"})).create().unwrap_err();
        assert_eq!(failure.code, INVALID_PARAMS);
        assert!(failure.message.contains("yolo") && failure.message.contains("auto, code, plan, ask"));
    }

    #[test]
    fn what_is_missing_is_named() {
        for value in [json!([]), json!({}), json!(5), json!("x"), json!({"sessionId": 5}), json!(["sessionId"])] {
            let failure = params(value.clone()).session().unwrap_err();
            assert_eq!(failure, Failure::params("Missing required param: sessionId"), "{value}");
            assert_eq!(params(value.clone()).create().unwrap_err(), Failure::params("Missing required param: path"));
            let failure = params(value.clone()).set_mode().unwrap_err();
            assert_eq!(failure, Failure::params("Missing required params: sessionId, mode"));
            let failure = params(value.clone()).set_model().unwrap_err();
            assert_eq!(failure, Failure::params("Missing required params: sessionId"));
            let failure = Params::send(Some(value)).unwrap_err();
            assert_eq!(failure, Failure::params("Missing required params: sessionId, message"));
        }
        for absent in [None, Some(Value::Null)] {
            assert_eq!(Params::of(absent.clone()).unwrap_err(), Failure::params("Missing params"));
            assert_eq!(Params::send(absent).unwrap_err().message, "Missing required params: sessionId, message");
        }
    }

    #[test]
    fn an_unknown_mode_is_invalid_whatever_the_session() {
        let failure = params(json!({"sessionId": "nobody", "mode": "AUTO"})).set_mode().unwrap_err();
        assert_eq!((failure.code, failure.message.as_ref()), (FAILED, "Invalid mode"));
    }

    #[test]
    fn a_model_may_be_taken_back() {
        for model in [json!(null), json!(5), json!("")] {
            assert_eq!(params(json!({"sessionId": "s", "model": model})).set_model().unwrap(), ("s".to_owned(), None));
        }
        assert_eq!(params(json!({"sessionId": "s"})).set_model().unwrap().1, None);
    }
}
