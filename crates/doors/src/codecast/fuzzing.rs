//! Entry points for fuzz targets: everything here is a pure function of a stranger's bytes.
//!
//! They return what was produced so that a target can check it; they never check by themselves.

use hostel_agents::{Event, Hosting, Kind};
use hostel_house::sessions::Entry;

use super::event::{Out, Shape};
use super::ledger::Ledger;
use super::params::Params;
use super::present::Presenter;
use super::{auth, rpc};

/// Reads `body` as a request; gives the answer that names its method, or what is wrong with it.
pub fn request(body: &[u8]) -> Vec<u8> {
    match rpc::read(body) {
        Ok(call) => {
            let params = Params::of(call.params.clone());
            let taken = [
                params.is_ok_and(|params| params.create().is_ok()),
                Params::of(call.params.clone()).is_ok_and(|params| params.set_mode().is_ok()),
                Params::of(call.params.clone()).is_ok_and(|params| params.set_model().is_ok()),
                Params::of(call.params.clone()).is_ok_and(|mut params| params.session().is_ok()),
                Params::send(call.params).is_ok(),
            ];
            rpc::result(call.id, "", &(call.method, taken))
        }
        Err(rpc::Unreadable::Syntax(text) | rpc::Unreadable::Shape(text)) => text.into_bytes(),
    }
}

/// Reads `text` as what is kept with a session; gives it as it would be kept again.
pub fn ledger(text: &str) -> Option<String> {
    Ledger::from_text(text).map(|ledger| ledger.to_text(None))
}

/// Reads `text` as a token file; gives the number of tokens.
pub fn tokens(text: &str) -> usize {
    auth::parse(text).map_or(0, |tokens| tokens.len())
}

/// Writes `text` as every event that has one, in frames.
pub fn frames(text: &str) -> Vec<u8> {
    let mut out = Out::new(Shape::Frames);
    let mut presenter = Presenter::new(Kind::Codex, Hosting::PerMessage);
    let events = [
        Event::TextDelta { text: text.to_owned() },
        Event::Text { text: text.to_owned(), streamed: true },
        Event::ToolProgress { name: text.to_owned(), message: text.to_owned(), raw: None },
        Event::Error { message: text.to_owned() },
    ];
    for (seq, event) in (1..).zip(events) {
        presenter.tell(&Entry { seq, turn: 1, time_ns: 0, event }, &mut out);
    }
    out.take(0)
}
