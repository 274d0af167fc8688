//! Refusals are on record, and a loop of them does not fill it.

use serde_json::json;

use super::home::Home;

#[test]
fn a_refusal_is_recorded_once_and_a_loop_is_counted() {
    let home = Home::start("");
    let inside = home.hosted("plain", "exec $RELAY");
    let mut native = inside.native();
    for _ in 0..300 {
        assert!(native.call("house/down", json!({})).get("error").is_some());
    }
    let of = |method: &str| {
        let all = home.audit("refused");
        all.into_iter().filter(|record| record["body"]["method"] == method).collect::<Vec<_>>()
    };
    // At most one more if the minute is over meanwhile.
    let records = of("house/down");
    assert!((1..=2).contains(&records.len()), "{records:?}");
    let body = &records[0]["body"];
    assert_eq!(body["door"], "native", "{body}");
    assert!(body["why"].as_str().unwrap_or_default().contains("inside this house"), "{body}");
    assert!(body["origin"].as_str().unwrap_or_default().starts_with("process:"), "{body}");
    assert!(body["peer"].as_str().unwrap_or_default().starts_with("pid "), "{body}");
    assert!(native.call("keeper/upgrade", json!({})).get("error").is_some());
    assert_eq!(of("keeper/upgrade").len(), 1);
    assert_eq!(home.native().ask("audit/verify", json!({}))["broken"], json!(null));
}
