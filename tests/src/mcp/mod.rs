//! What the tests of the MCP door need: a house of `hostel up`, and clients on both transports.

mod http;
mod place;
mod stdio;

pub use http::{Answer, Http, read};
pub use place::Place;
pub use stdio::Stdio;

use serde_json::Value;

/// The texts of a tool's result.
///
/// # Panics
/// If it is not a result.
pub fn texts(answer: &Value) -> Vec<String> {
    let content = answer["result"]["content"].as_array().unwrap_or_else(|| panic!("not a result: {answer}"));
    content.iter().map(|block| block["text"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The one text of a tool's result.
///
/// # Panics
/// If there are several.
pub fn text(answer: &Value) -> String {
    let texts = texts(answer);
    assert_eq!(texts.len(), 1, "{answer}");
    texts.concat()
}

/// Whether a tool's result says that it failed.
pub fn is_error(answer: &Value) -> bool {
    answer["result"]["isError"] == true
}
