//! Entry points for fuzz targets: everything here is a pure function of a stranger's bytes.
//!
//! They return what was produced so that a target can check it; they never check by themselves.

use hostel_agents::Raw;
use serde_json::Value;

use super::Incoming;
use super::Params;
use super::Spelling;
use super::keys;
use crate::rpc::Failure;

/// The code and the message of a refusal.
pub type Refusal = (i64, String);

/// A frame, understood.
#[derive(Debug)]
pub enum Frame {
    /// Nothing to answer.
    Blank,
    /// Answered if it has an id.
    Request {
        /// None for a notification.
        id: Option<Value>,
        /// Known or not.
        method: String,
        /// An object or a list.
        params: Option<Value>,
    },
    /// Never answered.
    Response {
        /// Which question of ours it answers.
        id: Option<Value>,
        /// None for an error.
        result: Option<Value>,
    },
    /// Answered with an error.
    Refused {
        /// The id of that answer.
        id: Value,
        /// The error.
        refusal: Refusal,
    },
}

/// A field of params, read as every type a method may want.
#[derive(Debug, PartialEq)]
pub struct Field {
    /// A text.
    pub text: Result<Option<String>, Refusal>,
    /// A text that has to be there.
    pub need: Result<String, Refusal>,
    /// Yes or no.
    pub flag: Result<Option<bool>, Refusal>,
    /// A number from 0.
    pub number: Result<Option<u64>, Refusal>,
    /// A number that counts things.
    pub count: Result<Option<usize>, Refusal>,
    /// A list.
    pub list: Result<Vec<Value>, Refusal>,
    /// Texts by name.
    pub texts: Result<Vec<(String, String)>, Refusal>,
}

fn refusal(failure: Failure) -> Refusal {
    (failure.code, failure.message)
}

fn value(id: &Raw) -> Value {
    serde_json::from_str(id.get()).unwrap_or_default()
}

/// Reads a frame.
pub fn frame(bytes: &[u8]) -> Frame {
    match super::read(bytes) {
        Incoming::Blank => Frame::Blank,
        Incoming::Request { id, method, params } => Frame::Request { id: id.as_ref().map(value), method, params },
        Incoming::Response { id, result } => Frame::Response { id, result },
        Incoming::Refused { id, failure } => Frame::Refused { id: value(&id), refusal: refusal(failure) },
    }
}

/// Reads the field `key` of `params`; a list is taken in the order of `fields`.
///
/// # Errors
/// The params are none for these fields.
pub fn field(params: Value, fields: &[&str], key: &str) -> Result<Field, Refusal> {
    let params = Params::read(params, fields).map_err(refusal)?;
    Ok(Field {
        text: params.text(key).map(|text| text.map(str::to_owned)).map_err(refusal),
        need: params.need(key).map(str::to_owned).map_err(refusal),
        flag: params.flag(key).map_err(refusal),
        number: params.number(key).map_err(refusal),
        count: params.count(key).map_err(refusal),
        list: params.list(key).map(<[Value]>::to_vec).map_err(refusal),
        texts: params.texts(key).map_err(refusal),
    })
}

/// The other spelling of a key.
pub fn camel(key: &str) -> String {
    keys::camel(key).into_owned()
}

/// A result with its keys in the spellings that are wanted.
pub fn spell(value: Value, spelling: Spelling) -> Value {
    keys::spell(value, spelling)
}

/// The same of one object, as what is sent often is written. The keys are our own words.
pub fn object(members: &[(&str, Value)], spelling: Spelling) -> Vec<u8> {
    let mut out = Vec::new();
    let mut object = keys::Object::open(&mut out, spelling);
    for (key, value) in members {
        object.value(key, value);
    }
    object.close();
    out
}
