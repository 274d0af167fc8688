//! Characters that must not reach an approver's screen.
//!
//! Invariant: what passes here moves no cursor, starts no terminal sequence, turns no text around and takes part in what
//! is drawn. The contract's own ranges are a subset: refusing more is compatible, showing less is not.
//!
//! It judges single characters. Look-alikes that can be seen are the approver's to notice.

/// Whether `text` holds a character that is refused everywhere.
pub(crate) fn has_forbidden(text: &str) -> bool {
    // Almost all text is plain: bytes from blank to tilde need no second look.
    text.bytes().any(|byte| !(b' '..=b'~').contains(&byte)) && text.chars().any(is_forbidden)
}

/// Whether a character is refused.
///
/// Variation selectors 1 to 16 pass: emoji in ordinary text have them, and faces show that they are there.
pub fn is_forbidden(character: char) -> bool {
    match character {
        '\t' => false,
        // C0, DEL and C1: U+009B alone starts a sequence on many terminals.
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        // Soft hyphen, grapheme joiner, Arabic letter mark.
        '\u{ad}' | '\u{34f}' | '\u{61c}' => true,
        // Fillers and vowels that draw nothing.
        '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{3164}' | '\u{ffa0}' => true,
        // Mongolian selectors and separator.
        '\u{180b}'..='\u{180f}' => true,
        // Zero width, directions, line and paragraph separators, embeddings.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        // Word joiner, invisible operators, isolates, deprecated format characters.
        '\u{2060}'..='\u{206f}' => true,
        '\u{feff}' | '\u{fff0}'..='\u{fffb}' => true,
        // Shorthand and musical format characters.
        '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' => true,
        // Tags, and the selectors among them.
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_contract_forbids_and_what_it_forgot() {
        let contract = ('\0'..='\u{1f}').filter(|character| *character != '\t');
        let contract = contract.chain('\u{200b}'..='\u{200f}').chain('\u{202a}'..='\u{202e}');
        for character in contract.chain('\u{2066}'..='\u{2069}') {
            assert!(is_forbidden(character), "{character:?}");
        }
        let forgotten = "\u{7f}\u{80}\u{85}\u{9b}\u{9f}\u{ad}\u{61c}\u{180e}\u{2028}\u{2029}\u{2060}\u{feff}\u{115f}\u{1160}\u{3164}\u{ffa0}\u{e0001}\u{e0041}\u{e007f}";
        assert!(forgotten.chars().all(is_forbidden));
    }

    #[test]
    fn text_passes() {
        for text in
            ["", "plain", "a\tb", "naïve Ω 漢字 한국어 \u{5d0}\u{5d1}", "⚠\u{fe0f}", "é e\u{301}", "\u{a0}", "😀"]
        {
            assert!(!has_forbidden(text), "{text:?}");
        }
        assert!(has_forbidden("a\u{1b}[1m") && has_forbidden("漢\u{202e}字") && has_forbidden("\u{7f}"));
    }
}
