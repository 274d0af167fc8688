//! A pipeline as one line of text: for the log and for lists.
//!
//! Invariant: the line is read by a shell as exactly these words; a word that looks like a pipe is quoted, so that
//! only pipes look like pipes. It is cut where it gets too long, and says so.

/// The most characters of a command that are written.
const LONGEST: usize = 1024;

/// The stages, joined by pipes.
pub(crate) fn line(pipeline: &[Vec<String>]) -> String {
    let mut text = String::new();
    let mut hidden = 0;
    for (index, words) in pipeline.iter().enumerate() {
        let joint = if index == 0 { "" } else { " | " };
        for (place, word) in words.iter().enumerate() {
            let joint = if place == 0 { joint } else { " " };
            push(&mut text, &mut hidden, joint, &quoted(word, place == 0));
        }
    }
    if hidden > 0 {
        text.push_str(&format!(" [… {hidden} more characters]"));
    }
    text
}

/// Appends as much as there is room for and counts the rest.
fn push(text: &mut String, hidden: &mut usize, joint: &str, word: &str) {
    // Bytes are no fewer than characters, and quick to have.
    let room = if *hidden > 0 { 0 } else { LONGEST.saturating_sub(text.len()) };
    let mut kept = 0;
    for character in joint.chars().chain(word.chars()) {
        if kept + character.len_utf8() <= room && *hidden == 0 {
            kept += character.len_utf8();
            text.push(character);
        } else {
            *hidden += 1;
        }
    }
}

/// A word that a shell reads as itself; before a command a `=` would make it an assignment.
fn quoted(word: &str, is_command: bool) -> std::borrow::Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"%+,-./:@_^=".contains(&byte) || byte >= 0x80;
    let is_plain = !word.is_empty() && word.bytes().all(plain) && !(is_command && word.contains('='));
    if is_plain { word.into() } else { format!("'{}'", word.replace('\'', "'\\''")).into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(stages: &[&[&str]]) -> String {
        let stages: Vec<Vec<String>> =
            stages.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect();
        line(&stages)
    }

    #[test]
    fn only_pipes_look_like_pipes() {
        assert_eq!(of(&[&["apt", "install", "nginx"]]), "apt install nginx");
        assert_eq!(of(&[&["echo", "hi there", "|", ";", ""], &["cat"]]), "echo 'hi there' '|' ';' '' | cat");
        assert_eq!(of(&[&["sh", "-c", "it's $HOME > x"]]), r"sh -c 'it'\''s $HOME > x'");
        assert_eq!(of(&[&["grep", "-v", "é", "~", "*", "a\tb", "#"]]), "grep -v é '~' '*' 'a\tb' '#'");
        assert_eq!(of(&[&["A=1", "if=x"]]), "'A=1' if=x");
    }

    #[test]
    fn a_long_one_says_how_much_is_missing() {
        let long = "x".repeat(5000);
        let text = of(&[&["echo", &long], &["wc", "é"]]);
        assert!(text.ends_with(&format!("x [… {} more characters]", 5000 - 1024 + 5 + 7)), "{text}");
    }

    proptest! {
        #[test]
        fn a_shell_reads_the_same_words(words in proptest::collection::vec("[^\u{0}]{0,12}", 1..6)) {
            let stage: Vec<String> = [vec!["printf".to_owned(), "%s\\0".to_owned()], words.clone()].concat();
            let output = std::process::Command::new("sh").arg("-c").arg(line(&[stage])).output().unwrap();
            let expected: String = words.iter().map(|word| format!("{word}\0")).collect();
            prop_assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
        }
    }
}
