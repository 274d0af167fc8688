//! What became of a command, in a few lines: exit codes, and how each of its streams begins.
//!
//! Invariant: whatever a command printed, a digest has a bounded number of lines of bounded length, and nothing in it
//! steers a terminal.

use std::fmt::Write as _;

use crate::text;

/// Lines of a stream that are shown.
const LINES: usize = 3;

/// Bytes of a line that are shown.
const LINE: usize = 400;

/// Bold and dim, or nothing at all.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Style {
    pub(super) bold: &'static str,
    pub(super) dim: &'static str,
    pub(super) reset: &'static str,
}

impl Style {
    pub(super) const PLAIN: Style = Style { bold: "", dim: "", reset: "" };
    const WEIGHTS: Style = Style { bold: "\x1b[1m", dim: "\x1b[2m", reset: "\x1b[0m" };

    /// What the user wants: `NO_COLOR` wants nothing.
    pub(super) fn wanted() -> Self {
        match std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
            true => Style::PLAIN,
            false => Style::WEIGHTS,
        }
    }
}

/// How a stream begins and how many lines it has; fed piece by piece.
#[derive(Clone, Debug, Default)]
pub(crate) struct Excerpt {
    shown: Vec<Line>,
    /// Line ends so far.
    ends: u64,
    /// The last byte was no line end.
    open: bool,
    /// There was more than was fed.
    more: bool,
}

#[derive(Clone, Debug, Default)]
struct Line {
    start: Vec<u8>,
    length: u64,
}

impl Excerpt {
    /// All of a stream at once.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut excerpt = Excerpt::default();
        excerpt.feed(bytes);
        excerpt
    }

    /// The next piece.
    pub(crate) fn feed(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while !rest.is_empty() && (self.shown.len() < LINES || (self.open && self.ends < LINES as u64)) {
            let end = rest.iter().position(|byte| *byte == b'\n');
            let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
            if !self.open {
                self.shown.push(Line::default());
            }
            if let Some(shown) = self.shown.last_mut() {
                let room = LINE.saturating_sub(shown.start.len()).min(line.len());
                shown.start.extend_from_slice(line.get(..room).unwrap_or_default());
                shown.length += line.len() as u64;
            }
            self.open = end.is_none();
            self.ends += u64::from(!self.open);
            rest = after.get(usize::from(!self.open)..).unwrap_or_default();
        }
        if let Some(last) = rest.last() {
            self.ends += rest.iter().filter(|byte| **byte == b'\n').count() as u64;
            self.open = *last != b'\n';
        }
    }

    /// The same of a stream that goes on.
    pub(crate) fn and_more(mut self) -> Self {
        self.more = true;
        self
    }

    fn lines(&self) -> u64 {
        self.ends + u64::from(self.open)
    }

    /// A heading and the first lines, each after `margin`; nothing of an empty stream.
    fn render(&self, label: &str, style: Style, margin: &str, out: &mut String) {
        let lines = self.lines();
        if lines == 0 {
            return;
        }
        let cut = if self.more || lines > self.shown.len() as u64 { ", truncated" } else { "" };
        let beginning = if self.more { "first " } else { "" };
        // Writing to a string cannot fail.
        writeln!(out, "{}== {label} == ({beginning}{lines} lines{cut}){}", style.dim, style.reset).unwrap_or_default();
        for line in &self.shown {
            let (bytes, hidden) = (line.start.as_slice(), line.length.saturating_sub(line.start.len() as u64));
            let bytes = bytes.strip_suffix(b"\r").filter(|_| hidden == 0).unwrap_or(bytes);
            let text = String::from_utf8_lossy(bytes);
            // A letter that was cut in two is not shown as a broken one.
            let text = if hidden > 0 { text.trim_end_matches('\u{fffd}') } else { &text };
            write!(out, "{margin}{}", text::prose(text)).unwrap_or_default();
            if hidden > 0 {
                write!(out, "{}… [{hidden} more bytes hidden]{}", style.dim, style.reset).unwrap_or_default();
            }
            out.push('\n');
        }
    }
}

/// The digest of a pipeline that ran: the exit code of each stage, its standard output and each standard error.
pub(crate) fn render(codes: &[i32], stdout: &Excerpt, stderrs: &[Excerpt], style: Style, margin: &str) -> String {
    let mut out = String::new();
    let last = codes.last().copied().unwrap_or(0);
    let weight = if last == 0 { style.dim } else { style.bold };
    let several = codes.len() > 1;
    let label = match several {
        true => format!("[{}]", codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")),
        false => last.to_string(),
    };
    writeln!(out, "{weight}exit {label}{}", style.reset).unwrap_or_default();
    stdout.render("stdout", style, margin, &mut out);
    for (stage, stderr) in stderrs.iter().enumerate() {
        let label = if several { format!("stderr[{stage}]") } else { "stderr".to_owned() };
        stderr.render(&label, style, margin, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(codes: &[i32], stdout: &[u8], stderrs: &[&[u8]]) -> String {
        let stderrs: Vec<Excerpt> = stderrs.iter().map(|bytes| Excerpt::of(bytes)).collect();
        render(codes, &Excerpt::of(stdout), &stderrs, Style::PLAIN, "")
    }

    #[test]
    fn a_few_lines_whatever_was_printed() {
        assert_eq!(plain(&[0], b"", &[b""]), "exit 0\n");
        assert_eq!(
            plain(&[3], b"one\r\ntwo\n", &[b"oh"]),
            "exit 3\n== stdout == (2 lines)\none\ntwo\n== stderr == (1 lines)\noh\n"
        );
        assert_eq!(
            plain(&[0, -1], b"1\n2\n3\n4\n5", &[b"", b"x\n"]),
            "exit [0, -1]\n== stdout == (5 lines, truncated)\n1\n2\n3\n== stderr[1] == (1 lines)\nx\n"
        );
        let long = vec![b'x'; 1_000_000];
        let shown = plain(&[0], &long, &[]);
        assert!(shown.len() < 600 && shown.contains("[999600 more bytes hidden]"), "{shown}");
        let steering = plain(&[0], "\x1b[2J\u{9b}H\tok\u{202e}".as_bytes(), &[]);
        assert_eq!(steering, "exit 0\n== stdout == (1 lines)\n⟨ESC⟩[2J⟨U+009B⟩H\tok⟨U+202E⟩\n");
    }

    #[test]
    fn pieces_make_no_difference() {
        let whole = b"a\n\nlong line\nmore\nand more\n";
        for cut in 0..whole.len() {
            let mut pieces = Excerpt::default();
            pieces.feed(&whole[..cut]);
            pieces.feed(&whole[cut..]);
            let show = |excerpt: &Excerpt| render(&[0], excerpt, &[], Style::PLAIN, "| ");
            assert_eq!(show(&pieces), show(&Excerpt::of(whole)), "{cut}");
        }
    }

    #[test]
    fn a_stream_that_goes_on_says_so() {
        let shown = render(&[0], &Excerpt::of(b"1\n2").and_more(), &[], Style::PLAIN, "│ ");
        assert_eq!(shown, "exit 0\n== stdout == (first 2 lines, truncated)\n│ 1\n│ 2\n");
    }

    #[test]
    fn failure_is_bold() {
        let style = Style::WEIGHTS;
        assert_eq!(render(&[0], &Excerpt::default(), &[], style, ""), "\x1b[2mexit 0\x1b[0m\n");
        assert_eq!(render(&[1], &Excerpt::default(), &[], style, ""), "\x1b[1mexit 1\x1b[0m\n");
    }
}
