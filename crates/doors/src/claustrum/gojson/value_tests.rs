use super::*;
use proptest::prelude::*;

fn again(document: &str) -> Result<String, Malformed> {
    let mut scanner = Scanner::new(document.as_bytes());
    let text = canonical(&mut scanner)?;
    scanner.end()?;
    Ok(String::from_utf8(text.into_owned()).unwrap())
}

#[test]
fn ids_come_back_as_go_would_send_them() {
    for (sent, back) in [
        ("1", "1"),
        ("-0", "-0"),
        ("0", "0"),
        ("1.0", "1"),
        ("1e2", "100"),
        ("-1.50", "-1.5"),
        ("999999999999999", "999999999999999"),
        ("9007199254740993", "9007199254740992"),
        ("12345678901234567890", "12345678901234567000"),
        ("1e21", "1e+21"),
        ("1E-7", "1e-7"),
        ("null", "null"),
        ("true", "true"),
        (r#""plain id-1""#, r#""plain id-1""#),
        (r#""a<b""#, r#""a\u003cb""#),
        (r#""\u0061\/""#, r#""a/""#),
        ("\"\u{7f}\"", "\"\u{7f}\""),
        (r#""\ud800""#, "\"\u{fffd}\""),
        (r#"{"b":1,"a":2}"#, r#"{"a":2,"b":1}"#),
        (r#"{"a":1,"b":2,"a":3,"\u0061":4}"#, r#"{"a":4,"b":2}"#),
        (r#"{"é":1,"z":2,"Z":3}"#, r#"{"Z":3,"z":2,"é":1}"#),
        (" [ 1.0 , [ ] , { } , [ { \"k\" : [ null , true ] } ] ] ", r#"[1,[],{},[{"k":[null,true]}]]"#),
    ] {
        assert_eq!(again(sent).as_deref(), Ok(back), "{sent}");
    }
    for bad in ["1e999", "-1e400", "[1e999]", "01", "[1", "{\"a\":}"] {
        assert_eq!(again(bad), Err(Malformed), "{bad}");
    }
}

#[test]
fn depth_costs_neither_stack_nor_time() {
    let deep = format!("{}1.0{}", "[{\"k\":".repeat(4999), "}]".repeat(4999));
    let back = again(&deep).unwrap();
    assert_eq!(back, deep.replace("1.0", "1"));
    let wide = format!("[{}0.0]", "{\"b\":1.0,\"a\":[]},".repeat(50_000));
    assert!(again(&wide).unwrap().starts_with(r#"[{"a":[],"b":1},{"a":[],"#));
}

proptest! {
    #[test]
    fn agrees_with_another_writer(
        members in proptest::collection::btree_map("[a-z]{0,4}", any::<i32>(), 0..8),
        list in proptest::collection::vec("[a-z0-9 ]{0,6}", 0..8),
    ) {
        let value = serde_json::json!({"members": members, "list": list});
        // That writer sorts keys too, and has nothing to escape here.
        prop_assert_eq!(again(&serde_json::to_string_pretty(&value).unwrap()).unwrap(), value.to_string());
    }

    #[test]
    fn writing_again_changes_nothing(text in r#"[\[\]{},:"ab10.e ]{0,14}"#) {
        if let Ok(once) = again(&text) {
            prop_assert_eq!(again(&once), Ok(once.clone()));
        }
    }
}
