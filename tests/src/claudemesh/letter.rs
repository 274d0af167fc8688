//! Messages as they are put to an agent.

/// The text of a letter, if a prompt is one: between its two lines, with the same number on both.
///
/// # Panics
/// If it begins like one and is none.
pub fn letter(prompt: &str) -> Option<String> {
    let rest = prompt.strip_prefix("A message came over the mesh \"lab\" from ")?;
    let (_, rest) = rest.split_once("\n--- message ")?;
    let (number, rest) = rest.split_once(" ---\n")?;
    assert!(number.len() == 32 && number.bytes().all(|byte| byte.is_ascii_hexdigit()), "{prompt}");
    Some(rest.strip_suffix(&format!("\n--- end of message {number} ---")).expect("its end").to_owned())
}
