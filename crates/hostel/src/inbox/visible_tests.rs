//! Nothing deceives: known tricks, the corpus, and arbitrary strings.

use proptest::prelude::*;

use super::*;

/// What may reach a terminal.
fn harmless(character: char) -> bool {
    matches!(character, ' '..='~' | '⟨' | '⟩' | '␣' | '⇥' | '↵') || LETTERS.contains(character)
}

/// Reads back what was painted: the proof that nothing was lost or confused.
fn read_back(painted: &str) -> String {
    let mut text = String::new();
    let mut letters = painted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '␣' => text.push(' '),
            '⇥' => text.push('\t'),
            '↵' => text.push('\n'),
            '⟨' => {
                let name: String = letters.by_ref().take_while(|letter| *letter != '⟩').collect();
                let position = CONTROLS.iter().position(|known| *known == name);
                match (name.as_str(), position, name.strip_prefix("U+")) {
                    ("empty", ..) => {}
                    ("DEL", ..) => text.push('\u{7f}'),
                    (_, Some(position), _) => text.push(char::from(u8::try_from(position).unwrap())),
                    (_, _, Some(digits)) => {
                        text.push(char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap());
                    }
                    _ => panic!("{name}"),
                }
            }
            other => text.push(other),
        }
    }
    text
}

#[test]
fn tricks_are_seen() {
    for (given, seen) in [
        ("", "⟨empty⟩"),
        ("plain-word_1", "plain-word_1"),
        ("a b", "a␣b"),
        ("größe.txt", "größe.txt"),
        ("\u{1b}[2J", "⟨ESC⟩[2J"),
        ("\u{9b}2J", "⟨U+009B⟩2J"),
        ("a\u{202e}b", "a⟨U+202E⟩b"),
        ("a\u{200b}b", "a⟨U+200B⟩b"),
        ("e\u{301}", "e⟨U+0301⟩"),
        ("\u{301}x", "⟨U+0301⟩x"),
        ("\u{430}pt", "⟨U+0430⟩pt"),
        ("日本", "⟨U+65E5⟩⟨U+672C⟩"),
        ("⟨LF⟩", "⟨U+27E8⟩LF⟨U+27E9⟩"),
        ("a\nb\r\t", "a⟨LF⟩b⟨CR⟩⟨TAB⟩"),
        ("\u{7f}\u{ad}\u{feff}", "⟨DEL⟩⟨U+00AD⟩⟨U+FEFF⟩"),
        ("\u{e0041}", "⟨U+E0041⟩"),
        ("␣", "⟨U+2423⟩"),
    ] {
        assert_eq!(text(&word(given)), seen);
        assert!(word(given).iter().all(|mark| mark.width() == text(&[*mark]).chars().count()), "{given:?}");
    }
    assert_eq!(text(&bytes(b"a\xff\xe2\x82b")), "a⟨0xFF⟩⟨0xE2⟩⟨0x82⟩b");
}

#[test]
fn letters_that_look_like_others_are_spelled_out() {
    let lookalikes = "аеорсухіјѕһԁԛԝАВЕЅІЈКМНОРСТУХαοντρυΑΒΕΖΗΙΚΜΝΟΡΤΥΧıǀǃɡｅ１‐‑−∕⁄⧸ꓲ𝐚ⅰＡ";
    for letter in lookalikes.chars() {
        assert_eq!(word(&letter.to_string()), [Mark::Escape(letter)], "{letter}");
    }
}

#[test]
fn a_word_that_is_a_bar_is_no_pipe() {
    let one = text(&command([["echo", "|", "sh"]]));
    let two = text(&command([vec!["echo"], vec!["sh"]]));
    assert_eq!((one.as_str(), two.as_str()), ("echo '|' sh", "echo | sh"));
    assert_eq!(text(&command([["sh", "-c", "it's a\nb"]])), "sh -c 'it'\\''s␣a⟨LF⟩b'");
    assert_eq!(text(&command([["", "a b"]])), "'' 'a␣b'");
}

#[test]
fn code_keeps_its_lines_and_shows_what_trails() {
    assert_eq!(text(&code("if x:\n\treturn  \n\nend ")), "if x:↵⇥return␣␣↵↵end␣");
    assert_eq!(rows(&code("a\nb"), 80).len(), 2);
}

#[test]
fn prose_lets_scripts_through_that_do_not_turn_around() {
    assert_eq!(text(&prose("Привет, 世界 — ok…")), "Привет, 世界 — ok…");
    assert_eq!(text(&prose("שלום")), "⟨U+05E9⟩⟨U+05DC⟩⟨U+05D5⟩⟨U+05DD⟩");
    assert_eq!(text(&prose("a\u{202e}b\u{1b}]0;x\u{7}")), "a⟨U+202E⟩b⟨ESC⟩]0;x⟨BEL⟩");
}

#[test]
fn rows_lose_nothing_and_fit() {
    let marks = prose("the quick brown fox jumps over the lazy dog and a-very-long-word-that-does-not-fit");
    let broken = rows(&marks, 20);
    assert!(broken.iter().all(|row| text(row).trim_end().chars().count() <= 20));
    assert_eq!(broken.concat(), marks);
    assert_eq!(text(&broken[0]), "the quick brown fox ");
    // A mark wider than the row has one of its own.
    assert_eq!(rows(&word("a\u{202e}b"), 3).len(), 3);
    assert_eq!(rows(&[], 10), [Vec::<Mark>::new()]);
    assert_eq!(rows(&prose("a b\n"), 2).len(), 2);
    let printed: Vec<String> = rows(&prose("A=1  B=abcdef  C=3"), 10).iter().map(|row| text(row)).collect();
    assert_eq!(printed, ["A=1  ", "B=abcdef  ", "C=3"]);
}

#[test]
fn the_corpus_is_painted_harmless_and_read_back() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/approvals/hostile");
    let mut seen = std::collections::BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let hostile: String =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{path:?}: {line}: {error}"));
            for (marks, modes) in [(word(&hostile), "word"), (code(&hostile), "code")] {
                let painted = text(&marks);
                assert!(painted.chars().all(harmless), "{painted}");
                assert_eq!(read_back(&painted), hostile);
                if let Some(other) = seen.insert((modes, painted), hostile.clone()) {
                    assert_eq!(other, hostile);
                }
            }
        }
    }
    assert!(seen.len() > 100, "the corpus is there");
}

fn hostile() -> impl Strategy<Value = String> {
    let letter = prop_oneof![
        proptest::char::any(),
        proptest::char::range('\0', '\u{ff}'),
        proptest::char::range('\u{2000}', '\u{206f}'),
        proptest::char::range('\u{27e0}', '\u{27ef}'),
        proptest::sample::select("⟨⟩␣⇥↵ \n\t'\\|U+0".chars().collect::<Vec<_>>()),
    ];
    proptest::collection::vec(letter, 0..40).prop_map(|letters| letters.into_iter().collect())
}

proptest! {
    #[test]
    fn any_string_is_harmless_and_read_back(given in hostile()) {
        for marks in [word(&given), code(&given)] {
            let painted = text(&marks);
            prop_assert!(painted.chars().all(harmless), "{}", painted);
            prop_assert_eq!(read_back(&painted), given.clone());
        }
        prop_assert_eq!(read_back(&text(&prose(&given))), given.clone());
        prop_assert!(!text(&prose(&given)).chars().any(|letter| letter.is_control() && letter != '\n'));
    }

    #[test]
    fn different_commands_look_different(
        one in proptest::collection::vec(proptest::collection::vec(hostile(), 1..4), 1..4),
        two in proptest::collection::vec(proptest::collection::vec(hostile(), 1..4), 1..4),
    ) {
        let show = |stages: &Vec<Vec<String>>| {
            text(&command(stages.iter().map(|words| words.iter().map(String::as_str))))
        };
        prop_assert_eq!(one == two, show(&one) == show(&two));
        prop_assert!(show(&one).chars().all(harmless));
    }

    #[test]
    fn breaking_into_rows_keeps_every_mark(given in hostile(), width in 1_usize..60) {
        let marks = word(&given);
        let broken = rows(&marks, width);
        prop_assert_eq!(broken.concat(), marks);
        for row in broken {
            let used: usize = row.iter().map(|mark| mark.width()).sum();
            prop_assert!(used <= width || row.len() == 1, "{:?}", row);
        }
    }
}
