use super::*;
use proptest::prelude::*;

fn encoded(text: &[u8]) -> String {
    let mut out = Vec::new();
    push_string(&mut out, text);
    String::from_utf8(out).unwrap()
}

fn float(number: f64) -> String {
    let mut out = Vec::new();
    push_float(&mut out, number);
    String::from_utf8(out).unwrap()
}

#[test]
fn strings_are_escaped_as_go_does() {
    for (text, written) in [
        (&b""[..], r#""""#),
        (b"plain /text", r#""plain /text""#),
        (b"<a href=\"x\">&", r#""\u003ca href=\"x\"\u003e\u0026""#),
        (b"\\ \x08\x0c\n\r\t", r#""\\ \b\f\n\r\t""#),
        (b"\x00\x01\x0b\x1f\x7f", "\"\\u0000\\u0001\\u000b\\u001f\x7f\""),
        ("\u{2028}\u{2029}\u{2027}\u{e9}\u{1f600}".as_bytes(), "\"\\u2028\\u2029\u{2027}\u{e9}\u{1f600}\""),
        (b"a\xff\xc3(", r#""a\ufffd\ufffd(""#),
        (b"\xe2\x80", r#""\ufffd\ufffd""#),
        (b"\xed\xa0\x80", r#""\ufffd\ufffd\ufffd""#),
        ("\u{fffd}".as_bytes(), "\"\u{fffd}\""),
    ] {
        assert_eq!(encoded(text), written, "{}", text.escape_ascii());
    }
}

#[test]
fn numbers_are_written_as_go_does() {
    for (number, written) in [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (100.0, "100"),
        (-2.5, "-2.5"),
        (0.1, "0.1"),
        (1e-6, "0.000001"),
        (9.99e-7, "9.99e-7"),
        (1e-9, "1e-9"),
        (1.5e-10, "1.5e-10"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
        (-1.25e22, "-1.25e+22"),
        (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        (12_345_678_901_234_567_890.0, "12345678901234567000"),
        (1_700_000_000.123_456_7, "1700000000.1234567"),
        (1_700_000_000.0, "1700000000"),
    ] {
        assert_eq!(float(number), written);
    }
    let mut out = Vec::new();
    for number in [0, 7, 10, u64::MAX] {
        push_unsigned(&mut out, number);
        out.push(b' ');
    }
    for number in [0, -1, i64::MIN, i64::MAX] {
        push_signed(&mut out, number);
        out.push(b' ');
    }
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "0 7 10 18446744073709551615 0 -1 -9223372036854775808 9223372036854775807 "
    );
}

#[test]
fn objects_keep_the_order_of_their_members() {
    let mut out = Vec::new();
    Object::open(&mut out)
        .boolean("b", false)
        .flag("absent", false)
        .flag("present", true)
        .string("s", "x")
        .nonempty("absent", "")
        .nonempty("n", "y")
        .unsigned("u", 1)
        .signed("i", -1)
        .float("f", 0.5)
        .strings("l", ["p", "q"])
        .strings("e", [""; 0])
        .close();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"{"b":false,"present":true,"s":"x","n":"y","u":1,"i":-1,"f":0.5,"l":["p","q"],"e":[]}"#
    );
}

proptest! {
    #[test]
    fn any_text_reads_back(text in any::<String>()) {
        let read: String = serde_json::from_str(&encoded(text.as_bytes())).unwrap();
        prop_assert_eq!(read, text);
    }

    #[test]
    fn pieces_make_the_whole(
        text in proptest::collection::vec(
            prop_oneof![any::<char>().prop_map(|c| c.to_string().into_bytes()), any::<u8>().prop_map(|b| vec![b])],
            0..40,
        ),
        size in 4usize..20,
    ) {
        let text = text.concat();
        let mut out = b"\"".to_vec();
        let mut rest = &text[..];
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(piece_end(rest, size));
            prop_assert!(!piece.is_empty());
            push_escaped(&mut out, piece);
            rest = after;
        }
        out.push(b'"');
        prop_assert_eq!(String::from_utf8(out).unwrap(), encoded(&text));
    }

    #[test]
    fn any_float_reads_back(number in any::<f64>().prop_filter("finite", |number| number.is_finite())) {
        prop_assert_eq!(float(number).parse::<f64>().unwrap().to_bits(), number.to_bits());
    }
}
