//! Params of the zeroclaw door: a field reads the same in either spelling and in a list, `null` is as good as absent, and
//! results carry both spellings with one value.
#![no_main]

use std::collections::BTreeSet;

use hostel_doors::zeroclaw::Spelling;
use hostel_doors::zeroclaw::code::PARAMS;
use hostel_doors::zeroclaw::fuzzing::{Field, camel, field, object, spell};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

/// Fields that methods have, of one word and of several.
const FIELDS: [&str; 5] = ["session_id", "prompt", "agent_alias", "since_seq", "data_b64"];
/// What is passed on as it is.
const OPAQUE: [&str; 2] = ["raw_input", "input"];

fuzz_target!(|bytes: &[u8]| {
    let Ok(document) = serde_json::from_slice::<Value>(bytes) else { return };
    for key in FIELDS {
        either_spelling(&document, key);
    }
    in_a_list(&document);
    spelled(&document);
});

fn read(params: &Value, key: &str) -> Field {
    field(params.clone(), &FIELDS, key).expect("an object is always taken")
}

/// Each reading of a field, judged by the value alone.
fn judge(found: &Field, value: Option<&Value>) {
    let value = value.filter(|value| !value.is_null());
    let wrong = |right: bool| if value.is_some() && !right { Some(PARAMS) } else { None };
    let is = |check: fn(&Value) -> bool| value.is_some_and(check);
    assert_eq!(found.text.as_ref().err().map(|refusal| refusal.0), wrong(is(Value::is_string)));
    assert_eq!(found.flag.as_ref().err().map(|refusal| refusal.0), wrong(is(Value::is_boolean)));
    assert_eq!(found.number.as_ref().err().map(|refusal| refusal.0), wrong(is(Value::is_u64)));
    assert_eq!(found.list.as_ref().err().map(|refusal| refusal.0), wrong(is(Value::is_array)));
    let texts = |value: &Value| value.as_object().is_some_and(|texts| texts.values().all(Value::is_string));
    assert_eq!(found.texts.is_err(), value.is_some_and(|value| !texts(value)));
    assert_eq!(found.need.as_ref().ok(), found.text.as_ref().ok().and_then(Option::as_ref));
    if let Ok(text) = &found.text {
        assert_eq!(text.as_deref(), value.and_then(Value::as_str));
    }
    if let Ok(flag) = found.flag {
        assert_eq!(flag, value.and_then(Value::as_bool));
    }
    if let Ok(number) = found.number {
        assert_eq!(number, value.and_then(Value::as_u64));
        assert_eq!(found.count.as_ref().ok().copied().flatten(), number.map(|number| number as usize));
    }
    if let Ok(list) = &found.list {
        assert_eq!(Some(list), value.and_then(Value::as_array).or(Some(&Vec::new())));
    }
    if let (Ok(texts), Some(Value::Object(members))) = (&found.texts, value) {
        let members: Vec<_> =
            members.iter().map(|(name, text)| (name.clone(), text.as_str().unwrap_or_default())).collect();
        assert!(texts.iter().map(|(name, text)| (name.clone(), text.as_str())).eq(members));
    }
}

fn either_spelling(document: &Value, key: &str) {
    let Value::Object(members) = document else {
        let refused = field(document.clone(), &[], key);
        assert!(refused.is_ok() == document.as_array().is_some_and(Vec::is_empty));
        return;
    };
    let other = camel(key);
    let mut bare = members.clone();
    let values = [bare.remove(key), bare.remove(&other)].map(|value| value.filter(|value| !value.is_null()));
    let with = |name: &str, value: &Value| {
        let mut members = bare.clone();
        members.insert(name.to_owned(), value.clone());
        Value::Object(members)
    };
    judge(&read(&Value::Object(bare.clone()), key), None);
    match values {
        [Some(snake), Some(camel)] if other != key && snake != camel => {
            let Field { text, need, flag, number, count, list, texts } = read(document, key);
            let refused = [text.err(), need.err(), flag.err(), number.err(), count.err(), list.err(), texts.err()];
            assert!(refused.iter().all(|refusal| refusal.as_ref().is_some_and(|refusal| refusal.0 == PARAMS)));
        }
        [snake, camel] => {
            let value = snake.or(camel).unwrap_or(Value::Null);
            let found = read(document, key);
            judge(&found, Some(&value));
            let mut both = with(key, &value);
            assert_eq!(read(&both, key), found);
            assert_eq!(read(&with(&other, &value), key), found);
            both[&other] = value;
            assert_eq!(read(&both, key), found);
            both["a field of a later version"] = json!(1);
            assert_eq!(read(&both, key), found, "what nobody knows is passed over");
        }
    }
}

fn in_a_list(document: &Value) {
    let Value::Array(items) = document else { return };
    let taken = field(document.clone(), &FIELDS, FIELDS[0]);
    if items.len() > FIELDS.len() {
        assert!(taken.is_err_and(|refusal| refusal.0 == PARAMS));
        return;
    }
    let named: Map<String, Value> = FIELDS.iter().map(|field| (*field).to_owned()).zip(items.iter().cloned()).collect();
    for key in FIELDS {
        assert_eq!(field(document.clone(), &FIELDS, key).ok(), field(named.clone().into(), &FIELDS, key).ok());
    }
}

/// Our results never have two keys that differ in spelling alone.
fn unambiguous(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(unambiguous),
        Value::Object(members) => {
            let names: BTreeSet<String> = members.keys().map(|key| camel(key)).collect();
            names.len() == members.len() && members.values().all(unambiguous)
        }
        _ => true,
    }
}

fn spelled(document: &Value) {
    if !unambiguous(document) {
        return;
    }
    let both = spell(document.clone(), Spelling::Both);
    carries_both(document, &both);
    assert_eq!(spell(document.clone(), Spelling::Snake), *document);
    if let (Value::Object(members), Value::Object(camels)) = (document, spell(document.clone(), Spelling::Camel)) {
        let names: BTreeSet<String> = members.keys().map(|key| camel(key)).collect();
        assert!(camels.keys().eq(names.iter()));
    }
    for spelling in [Spelling::Both, Spelling::Snake, Spelling::Camel] {
        let members: Vec<(&str, Value)> = FIELDS.iter().map(|field| (*field, document.clone())).collect();
        let written: Value = serde_json::from_slice(&object(&members, spelling)).expect("an object is JSON");
        let members: Map<String, Value> = members.into_iter().map(|(key, _)| (key.to_owned(), json!(0))).collect();
        let Value::Object(keys) = spell(members.into(), spelling) else { panic!("an object stays one") };
        let Value::Object(written) = written else { panic!("an object is written as one") };
        assert!(keys.keys().eq(written.keys()) && written.values().all(|value| value == document));
    }
}

fn carries_both(document: &Value, both: &Value) {
    match (document, both) {
        (Value::Array(items), Value::Array(spelled)) => {
            assert_eq!(items.len(), spelled.len());
            items.iter().zip(spelled).for_each(|(item, spelled)| carries_both(item, spelled));
        }
        (Value::Object(members), Value::Object(spelled)) => {
            for (key, value) in members {
                assert_eq!(spelled.get(key), spelled.get(&camel(key)), "both spellings carry the same");
                match spelled.get(key) {
                    Some(kept) if OPAQUE.contains(&key.as_str()) => assert_eq!(kept, value),
                    Some(inner) => carries_both(value, inner),
                    None => panic!("{key} got lost"),
                }
            }
            let keys: BTreeSet<String> = members.keys().flat_map(|key| [key.clone(), camel(key)]).collect();
            assert!(spelled.keys().eq(keys.iter()), "keys from nowhere");
        }
        (plain, spelled) => assert_eq!(plain, spelled),
    }
}
