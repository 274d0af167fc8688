use super::*;

fn fill<T: Default>(
    document: &str,
    mut read: impl FnMut(&mut Scanner<'_>, &mut T) -> Result<(), Malformed>,
) -> Result<T, Malformed> {
    let mut field = T::default();
    members(document.as_bytes(), |key, scanner| {
        if field_of(key, &["f"]).is_none() {
            return Ok(false);
        }
        read(scanner, &mut field)?;
        Ok(true)
    })?;
    Ok(field)
}

#[test]
fn keys_match_without_regard_to_case() {
    let names = ["path", "maxBytes", "desk"];
    for (key, field) in [
        ("path", Some(0)),
        ("PATH", Some(0)),
        ("MAXBYTES", Some(1)),
        ("maxbyte\u{17f}", Some(1)),
        ("de\u{17f}\u{212a}", Some(2)),
        ("paths", None),
        ("pat", None),
        ("", None),
        ("p\u{e4}th", None),
    ] {
        assert_eq!(field_of(key, &names), field, "{key:?}");
    }
    // An exact match is preferred whatever the order.
    assert_eq!(field_of("ab", &["AB", "ab"]), Some(1));
}

#[test]
fn integers_take_integer_literals_only() {
    let read = |literal: &str| fill(&format!("{{\"f\":{literal}}}"), signed);
    assert_eq!(read("7"), Ok(7));
    assert_eq!(read("-0"), Ok(0));
    assert_eq!(read("null"), Ok(0));
    assert_eq!(read("9223372036854775807"), Ok(i64::MAX));
    for bad in ["9223372036854775808", "4.0", "1e3", "\"4\"", "true", "[]", "{}", "4.5"] {
        assert_eq!(read(bad), Err(Malformed), "{bad}");
    }
    let read = |literal: &str| fill(&format!("{{\"f\":{literal}}}"), optional_unsigned);
    assert_eq!(read("18446744073709551615"), Ok(Some(u64::MAX)));
    assert_eq!(read("null"), Ok(None));
    for bad in ["-1", "-0", "18446744073709551616"] {
        assert_eq!(read(bad), Err(Malformed), "{bad}");
    }
}

#[test]
fn repeated_fields() {
    let read = |document: &str| {
        let mut field = Cow::Borrowed("");
        let document = document.as_bytes().to_vec();
        members(&document, |_, scanner| {
            let mut read = Cow::Borrowed("");
            let null = scanner.peek() == Some(b'n');
            string(scanner, &mut read)?;
            if !null {
                field = Cow::<str>::Owned(read.into_owned());
            }
            Ok(true)
        })
        .map(|()| field.into_owned())
    };
    assert_eq!(read(r#"{"f":"a","f":"b"}"#).as_deref(), Ok("b"));
    assert_eq!(read(r#"{"f":"a","f":null}"#).as_deref(), Ok("a"));
    assert_eq!(read(r#"{"f":5,"f":"b"}"#), Err(Malformed));

    let lists = |document: &str| fill(document, strings);
    assert_eq!(lists(r#"{"f":["a",null]}"#), Ok(vec!["a".into(), String::new()]));
    assert_eq!(lists(r#"{"f":["a","b"],"f":[null]}"#), Ok(vec!["a".into()]));
    assert_eq!(lists(r#"{"f":["a"],"f":null}"#), Ok(vec![]));
    assert_eq!(lists(r#"{"f":"a"}"#), Err(Malformed));
    assert_eq!(lists(r#"{"f":["a",1]}"#), Err(Malformed));

    let maps = |document: &str| fill(document, string_map);
    let expected = [("A", "1"), ("B", ""), ("C", "3")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(maps(r#"{"f":{"A":"0","B":"2"},"f":{"A":"1","B":null,"C":"3"}}"#), Ok(expected.to_vec()));
    assert_eq!(maps(r#"{"f":{"A":"0"},"f":null}"#), Ok(vec![]));
    assert_eq!(maps(r#"{"f":{"A":0}}"#), Err(Malformed));
    assert_eq!(maps(r#"{"f":[]}"#), Err(Malformed));
}

#[test]
fn only_objects_and_null_have_members() {
    let unknown = |document: &str| members(document.as_bytes(), |_, _| Ok(false));
    for good in ["{}", "null", r#"{"x":[1,{"y":2}],"z":"\u0000"}"#, " {} "] {
        assert_eq!(unknown(good), Ok(()), "{good}");
    }
    for bad in ["[]", "1", "\"x\"", "true", "", "{}x", "null null"] {
        assert_eq!(unknown(bad), Err(Malformed), "{bad}");
    }
}
