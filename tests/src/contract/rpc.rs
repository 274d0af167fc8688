//! Parts of JSON-RPC calls, for the doors that have them.

/// Method and params of a call as the data files write it.
pub(super) fn split_call(text: &str) -> (&str, Option<&str>) {
    text.split_once(' ').map_or((text, None), |(method, params)| (method, Some(params)))
}

/// The member `params` of a call, with the comma before it; empty if there are none.
pub(super) fn params_member(params: Option<&str>) -> String {
    params.map_or_else(String::new, |params| format!(r#","params":{params}"#))
}

/// The inside of a JSON string, escaped as it is on the wire.
pub(super) fn escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
