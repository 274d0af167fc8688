use super::*;
use proptest::prelude::*;

fn whole(document: &[u8]) -> Result<&[u8], Malformed> {
    let mut scanner = Scanner::new(document);
    let raw = scanner.skip()?;
    scanner.end()?;
    Ok(raw)
}

#[test]
fn documents_that_are_and_are_not_json() {
    for good in [
        "0",
        "-0",
        "-0.5e+7",
        "1E9",
        " [ ] ",
        "{}",
        r#"{"a":[1,{"b":null}],"c":"\u00e9\/"}"#,
        "\t\r\n true ",
        "\"\u{7f}\"",
        r#""\ud800""#,
    ] {
        assert_eq!(whole(good.as_bytes()), Ok(good.trim().as_bytes()), "{good:?}");
    }
    for bad in [
        "",
        " ",
        "01",
        "+1",
        ".5",
        "1.",
        "1e",
        "1e+",
        "-",
        "nul",
        "nulll",
        "True",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[",
        "]",
        "{,}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "[}",
        "{]",
        "\"",
        "\"\\\"",
        "\"\n\"",
        "\"\t\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u12\"",
        "\"\\u+123\"",
        "'a'",
        "1 2",
        "{} {}",
        "\u{b}1",
        "\u{a0}1",
        "\u{feff}1",
        "NaN",
        "1a",
    ] {
        assert_eq!(whole(bad.as_bytes()), Err(Malformed), "{bad:?}");
    }
}

#[test]
fn nesting_is_counted_and_not_recursed() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
        let levels = open.bytes().filter(|byte| b"[{".contains(byte)).count();
        let nested = |count: usize| format!("{}1{}", open.repeat(count), close.repeat(count));
        let deepest = nested(MAX_DEPTH / levels);
        assert!(whole(deepest.as_bytes()).is_ok());
        let deeper = nested(MAX_DEPTH / levels + 1);
        assert_eq!(whole(deeper.as_bytes()), Err(Malformed));
        assert_eq!(whole(&deepest.as_bytes()[..deepest.len() - 1]), Err(Malformed));
    }
    // Depth counts what is open, not what has been.
    let wide = format!("[{}1]", "[[]],".repeat(2 * MAX_DEPTH));
    assert!(whole(wide.as_bytes()).is_ok());
}

#[test]
fn text_decodes_as_in_go() {
    for (written, decoded) in [
        (&br#""plain""#[..], "plain"),
        (br#""\"\\\/\b\f\n\r\t\u0041""#, "\"\\/\u{8}\u{c}\n\r\tA"),
        (br#""\u00E9\u00e9""#, "éé"),
        (br#""\ud83d\ude00""#, "\u{1f600}"),
        (br#""\ud83dx""#, "\u{fffd}x"),
        (br#""\ud83d\u0041""#, "\u{fffd}A"),
        (br#""\ud83d\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
        (br#""\ude00\ud83d""#, "\u{fffd}\u{fffd}"),
        (br#""\ud83d\n""#, "\u{fffd}\n"),
        (b"\"a\xff\xfeb\"", "a\u{fffd}\u{fffd}b"),
        // A truncated sequence counts byte by byte, and so does an encoded surrogate.
        (b"\"\xe2\x82\"", "\u{fffd}\u{fffd}"),
        (b"\"\xe2\x82\\n\"", "\u{fffd}\u{fffd}\n"),
        (b"\"\xed\xa0\x80\"", "\u{fffd}\u{fffd}\u{fffd}"),
        (b"\"\xf0\x9f\x98\x80\"", "\u{1f600}"),
        (br#""\u0000""#, "\0"),
    ] {
        let text = Scanner::new(written).text().unwrap();
        assert_eq!(text.decode(), decoded, "{}", written.escape_ascii());
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i64>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        any::<String>().prop_map(serde_json::Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            proptest::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn valid_documents_are_taken_whole(value in any_json(), pretty in any::<bool>()) {
        let text = if pretty {
            serde_json::to_string_pretty(&value).unwrap()
        } else {
            value.to_string()
        };
        prop_assert_eq!(whole(text.as_bytes()), Ok(text.as_bytes()));
        for cut in 0..text.len() {
            if !text.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
                prop_assert_eq!(whole(&text.as_bytes()[..cut]), Err(Malformed));
            }
        }
    }

    #[test]
    fn verdicts_agree_with_another_parser(text in r#"[\[\]{},:"\\ue10.\-+ntrlasf ]{0,12}"#) {
        let theirs = serde_json::from_str::<serde_json::Value>(&text);
        // The other parser refuses lone surrogates and numbers beyond a double; Go's scanner
        // takes both.
        let excused = text.contains("\\u") || text.contains('e') || text.contains('E');
        if !excused {
            prop_assert_eq!(whole(text.as_bytes()).is_ok(), theirs.is_ok());
        } else if theirs.is_ok() {
            prop_assert!(whole(text.as_bytes()).is_ok());
        }
    }

    #[test]
    fn strings_decode_as_written(text in any::<String>()) {
        let written = serde_json::to_string(&text).unwrap();
        let scanned = Scanner::new(written.as_bytes()).text().unwrap();
        prop_assert_eq!(scanned.decode(), text);
    }

    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
        if let Ok(raw) = whole(&bytes) {
            prop_assert!(!raw.is_empty());
        }
    }
}
