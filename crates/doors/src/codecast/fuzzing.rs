//! Entry points for fuzz targets: everything here is a pure function of a stranger's bytes.
//!
//! They return what was produced so that a target can check it; they never check by themselves.

use hostel_agents::{Event, Hosting, Kind};
use hostel_house::sessions::Entry;

use super::event::{Out, Shape};
use super::ledger::Ledger;
use super::params::Params;
use super::present::Presenter;
use super::rpc::Failure;
use super::{auth, rpc};

/// The answer to a request, and the answers of methods that would refuse its params.
pub type Answered = (Vec<u8>, Vec<Vec<u8>>);

/// Reads `body` as a request. Gives an answer that names its method and says which methods would take its params
/// (create, set_mode, set_model, session, send), and beside it the answer of each that would not.
///
/// # Errors
/// What is said about a body that is none: whether it is JSON at all, and a text.
pub fn request(body: &[u8]) -> Result<Answered, (bool, String)> {
    let call = rpc::read(body).map_err(|unreadable| match unreadable {
        rpc::Unreadable::Syntax(text) => (false, text),
        rpc::Unreadable::Shape(text) => (true, text),
    })?;
    let params = || Params::of(call.params.clone());
    let taken: [Result<(), Failure>; 5] = [
        params().and_then(Params::create).map(drop),
        params().and_then(Params::set_mode).map(drop),
        params().and_then(Params::set_model).map(drop),
        params().and_then(|mut params| params.session()).map(drop),
        Params::send(call.params.clone()).map(drop),
    ];
    let answer = rpc::result(call.id, "", &(&call.method, taken.each_ref().map(Result::is_ok)));
    let refusals = taken.into_iter().filter_map(Result::err).map(|failure| rpc::error(call.id, &failure)).collect();
    Ok((answer, refusals))
}

/// Reads `text` as what is kept with a session; gives it as it would be kept again, and what is owed of `last`
/// events.
pub fn ledger(text: &str, last: u64) -> Option<(String, Vec<(u64, u64)>)> {
    Ledger::from_text(text).map(|ledger| (ledger.to_text(None), ledger.owed(last)))
}

/// Reads `text` as a token file; gives the digests of the tokens.
///
/// # Errors
/// What is wrong with it.
pub fn tokens(text: &str) -> Result<Vec<[u8; 32]>, String> {
    auth::parse(text)
}

/// Writes the events of one turn as frames of a stream, and as elements of an array.
pub fn events(kind: Kind, hosting: Hosting, events: &[Event]) -> (Vec<u8>, Vec<u8>) {
    let write = |shape| {
        let mut out = Out::new(shape);
        let mut presenter = Presenter::new(kind, hosting);
        for (seq, event) in (1..).zip(events) {
            presenter.tell(&Entry { seq, turn: 1, time_ns: 0, event: event.clone() }, &mut out);
        }
        out.take(0)
    };
    (write(Shape::Frames), write(Shape::Elements))
}
