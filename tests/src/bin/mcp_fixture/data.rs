//! What the suite asks a server to have.

use serde_json::Value;
use serde_json::json;

/// One red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// A sound of no length.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA=";

/// The tools, and what each takes.
pub(super) fn tools() -> Value {
    let plain = |name: &str| json!({"name": name, "description": "For the suite", "inputSchema": {"type": "object", "properties": {}}});
    let taking = |name: &str, argument: &str| {
        json!({"name": name, "description": "For the suite", "inputSchema": {
            "type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}})
    };
    json!([
        plain("test_simple_text"),
        plain("test_image_content"),
        plain("test_audio_content"),
        plain("test_embedded_resource"),
        plain("test_multiple_content_types"),
        plain("test_tool_with_logging"),
        plain("test_tool_with_progress"),
        plain("test_error_handling"),
        plain("test_reconnection"),
        plain("test_elicitation_sep1034_defaults"),
        plain("test_elicitation_sep1330_enums"),
        taking("test_sampling", "prompt"),
        taking("test_elicitation", "message"),
        {
            "name": "json_schema_2020_12_tool",
            "description": "Tool with JSON Schema 2020-12 features",
            "inputSchema": {
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "type": "object",
                "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
                "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
                "additionalProperties": false,
            },
        },
    ])
}

/// What a tool gives that does nothing else.
pub(super) fn content(tool: &str) -> Option<Value> {
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    Some(match tool {
        "test_simple_text" => json!([{"type": "text", "text": "This is a simple text response for testing."}]),
        "test_image_content" => json!([image]),
        "test_audio_content" => json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]),
        "test_embedded_resource" => json!([{"type": "resource", "resource": {
            "uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is an embedded resource content."}}]),
        "test_multiple_content_types" => json!([
            {"type": "text", "text": "Multiple content types test:"},
            image,
            {"type": "resource", "resource": {"uri": "test://mixed-content-resource", "mimeType": "application/json",
                "text": "{\"test\":\"data\",\"value\":123}"}},
        ]),
        "test_reconnection" => json!([{"type": "text", "text": "Here again."}]),
        "json_schema_2020_12_tool" => json!([{"type": "text", "text": "As the schema says."}]),
        _ => return None,
    })
}

/// The resources that are always there.
pub(super) fn resources() -> Value {
    let resource =
        |uri: &str, mime: &str| json!({"uri": uri, "name": uri, "description": "For the suite", "mimeType": mime});
    json!([
        resource("test://static-text", "text/plain"),
        resource("test://static-binary", "image/png"),
        resource("test://watched-resource", "text/plain"),
    ])
}

/// One resource.
pub(super) fn resource(uri: &str) -> Option<Value> {
    let text = |mime: &str, text: String| json!([{"uri": uri, "mimeType": mime, "text": text}]);
    Some(match uri {
        "test://static-text" => text("text/plain", "This is the content of the static text resource.".to_owned()),
        "test://watched-resource" => text("text/plain", "Watched.".to_owned()),
        "test://static-binary" => json!([{"uri": uri, "mimeType": "image/png", "blob": PNG}]),
        other => {
            let id = other.strip_prefix("test://template/")?.strip_suffix("/data")?;
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            text("application/json", data.to_string())
        }
    })
}

/// The prompts.
pub(super) fn prompts() -> Value {
    let prompt = |name: &str, arguments: &[&str]| {
        let arguments: Vec<Value> = arguments
            .iter()
            .map(|name| json!({"name": name, "description": "For the suite", "required": true}))
            .collect();
        json!({"name": name, "description": "For the suite", "arguments": arguments})
    };
    json!([
        prompt("test_simple_prompt", &[]),
        prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
        prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
        prompt("test_prompt_with_image", &[]),
    ])
}

/// One prompt.
pub(super) fn prompt(name: &str, arguments: &Value) -> Option<Value> {
    let user = |content: Value| json!({"role": "user", "content": content});
    let text = |text: String| user(json!({"type": "text", "text": text}));
    let given = |name: &str| arguments[name].as_str().unwrap_or_default().to_owned();
    Some(match name {
        "test_simple_prompt" => json!([text("This is a simple prompt for testing.".to_owned())]),
        "test_prompt_with_arguments" => {
            json!([text(format!("Prompt with arguments: arg1='{}', arg2='{}'", given("arg1"), given("arg2")))])
        }
        "test_prompt_with_embedded_resource" => json!([
            user(json!({"type": "resource", "resource": {"uri": given("resourceUri"), "mimeType": "text/plain",
                "text": "Embedded resource content for testing."}})),
            text("Please process the embedded resource above.".to_owned()),
        ]),
        "test_prompt_with_image" => json!([
            user(json!({"type": "image", "data": PNG, "mimeType": "image/png"})),
            text("Please analyze the image above.".to_owned()),
        ]),
        _ => return None,
    })
}

/// The schema of a question that a tool asks the client's user.
pub(super) fn form(tool: &str) -> Value {
    let options = json!(["option1", "option2", "option3"]);
    let titled = |word: &str| {
        json!([{"const": "value1", "title": format!("First {word}")}, {"const": "value2", "title": format!("Second {word}")},
            {"const": "value3", "title": format!("Third {word}")}])
    };
    match tool {
        "test_elicitation" => json!({"type": "object", "properties": {
            "username": {"type": "string", "description": "User's response"},
            "email": {"type": "string", "description": "User's email address"}}, "required": ["username", "email"]}),
        "test_elicitation_sep1034_defaults" => json!({"type": "object", "properties": {
            "name": {"type": "string", "description": "User name", "default": "John Doe"},
            "age": {"type": "integer", "description": "User age", "default": 30},
            "score": {"type": "number", "description": "User score", "default": 95.5},
            "status": {"type": "string", "description": "User status", "enum": ["active", "inactive", "pending"], "default": "active"},
            "verified": {"type": "boolean", "description": "Verification status", "default": true}}, "required": []}),
        _ => json!({"type": "object", "properties": {
            "untitledSingle": {"type": "string", "enum": options},
            "titledSingle": {"type": "string", "oneOf": titled("Option")},
            "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}}}, "required": []}),
    }
}
