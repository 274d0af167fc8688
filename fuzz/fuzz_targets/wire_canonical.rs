//! Any JSON: its canonical text is JSON of the same value and its own canonical text, with names in the order of UTF-16;
//! a number that is refused is one a look at the text refuses too.
#![no_main]

use hostel_wire::canonical::{NotCanonical, canonical, check_numbers};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let looked = check_numbers(text);
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    assert!(!matches!(looked, Err(NotCanonical::Malformed(_))), "it is JSON: {looked:?}");
    let written = match canonical(&value) {
        Ok(written) => written,
        Err(NotCanonical::Number(_)) => {
            assert!(looked.is_err());
            return;
        }
        Err(_) => return,
    };
    let again: Value = serde_json::from_str(&written).expect("canonical JSON is JSON");
    assert_eq!(canonical(&again).as_ref(), Ok(&written));
    same(&value, &again);
});

/// Equal, where a whole number may have become a double of the same value.
fn same(left: &Value, right: &Value) {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => assert_eq!(left.as_f64(), right.as_f64()),
        (Value::Array(left), Value::Array(right)) => {
            assert_eq!(left.len(), right.len());
            left.iter().zip(right).for_each(|(left, right)| same(left, right));
        }
        (Value::Object(left), Value::Object(right)) => {
            assert_eq!(left.len(), right.len());
            for (name, value) in left {
                same(value, &right[name]);
            }
        }
        _ => assert_eq!(left, right),
    }
}
