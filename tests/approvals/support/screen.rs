//! A screen as a terminal would show it, from the bytes a program wrote.
//!
//! It knows what a well-behaved full-screen program sends and nothing else: any other control character or sequence ends
//! the test, because it would have steered a real terminal.

use std::fmt::Write as _;

/// A screen.
#[derive(Debug)]
pub(crate) struct Screen {
    cells: Vec<Vec<char>>,
    column: usize,
    row: usize,
    /// The other screen is shown.
    pub(crate) alternate: bool,
    /// The cursor is hidden.
    pub(crate) hidden: bool,
    /// How often it rang.
    pub(crate) rung: usize,
    /// Some colour was asked for.
    pub(crate) coloured: bool,
    /// Nothing was painted since the program last hid the cursor, which is how it ends a frame.
    pub(crate) settled: bool,
    /// Bytes that are not complete yet.
    rest: Vec<u8>,
}

impl Screen {
    pub(crate) fn new(columns: u16, rows: u16) -> Self {
        let cells = vec![vec![' '; usize::from(columns)]; usize::from(rows)];
        Self {
            cells,
            column: 0,
            row: 0,
            alternate: false,
            hidden: false,
            rung: 0,
            coloured: false,
            settled: false,
            rest: Vec::new(),
        }
    }

    /// Another size; what was painted is painted again by the program.
    pub(crate) fn resize(&mut self, columns: u16, rows: u16) {
        self.cells = vec![vec![' '; usize::from(columns)]; usize::from(rows)];
    }

    /// Takes what was written.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let mut bytes = std::mem::take(&mut self.rest);
        let mut at = 0;
        while at < bytes.len() {
            match self.step(&bytes[at..]) {
                Some(used) => at += used,
                None => break,
            }
        }
        self.rest = bytes.split_off(at);
    }

    /// Takes one character or sequence; none if it is not complete.
    fn step(&mut self, bytes: &[u8]) -> Option<usize> {
        match bytes[0] {
            0x1b => self.escape(bytes),
            b'\r' => {
                self.column = 0;
                Some(1)
            }
            b'\n' => {
                self.row = (self.row + 1).min(self.cells.len() - 1);
                Some(1)
            }
            0x07 => {
                self.rung += 1;
                Some(1)
            }
            byte @ (0..0x20 | 0x7f) => panic!("the raw control character {byte:#x} reached the terminal"),
            first => {
                let length = match first {
                    0..0x80 => 1,
                    0xc0..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    _ => 4,
                };
                let character = std::str::from_utf8(bytes.get(..length)?).expect("text is UTF-8");
                let character = character.chars().next().expect("a character");
                let hostile = character.is_control()
                    || matches!(u32::from(character), 0x80..0xa0 | 0xad | 0x300..0x370 | 0x590..0x900 | 0x180e
                        | 0x200b..0x2010 | 0x2028..0x202f | 0x2060..0x2070 | 0xfe00..0xfe10 | 0xfeff | 0xe0000..);
                assert!(!hostile, "U+{:04X} reached the terminal", u32::from(character));
                self.print(character);
                Some(length)
            }
        }
    }

    fn print(&mut self, character: char) {
        self.settled = false;
        if let Some(cell) = self.cells.get_mut(self.row).and_then(|row| row.get_mut(self.column)) {
            *cell = character;
        }
        self.column += 1;
    }

    fn escape(&mut self, bytes: &[u8]) -> Option<usize> {
        assert!(*bytes.get(1)? == b'[', "an escape sequence nobody expects: {:?}", &bytes[..bytes.len().min(8)]);
        let end = 2 + bytes[2..].iter().position(|byte| (0x40..=0x7e).contains(byte))?;
        let parameters = std::str::from_utf8(&bytes[2..end]).expect("parameters are ASCII");
        let number = |position: usize, usual: usize| {
            parameters.split(';').nth(position).and_then(|text| text.parse().ok()).unwrap_or(usual)
        };
        match (bytes[end], parameters) {
            (b'H', _) => (self.row, self.column) = (number(0, 1) - 1, number(1, 1) - 1),
            (b'G', _) => self.column = number(0, 1) - 1,
            (b'C', _) => self.column += number(0, 1),
            (b'J', "2") => self.cells.iter_mut().flatten().for_each(|cell| *cell = ' '),
            (b'm', _) => {
                let mut codes = parameters.split(';').map(|code| code.parse().unwrap_or(0));
                while let Some(code) = codes.next() {
                    match code {
                        38 | 48 => {
                            self.coloured = true;
                            codes.by_ref().take(2).for_each(drop);
                        }
                        30..=37 | 40..=47 | 90..=107 => self.coloured = true,
                        _ => {}
                    }
                }
            }
            (b'h', "?1049") => self.alternate = true,
            (b'l', "?1049") => self.alternate = false,
            (b'h', "?25") => self.hidden = false,
            (b'l', "?25") => (self.hidden, self.settled) = (true, self.rest.is_empty()),
            (b'h' | b'l', "?2004") => {}
            (last, parameters) => panic!("a sequence nobody expects: CSI {parameters} {}", char::from(last)),
        }
        Some(end + 1)
    }

    /// One row, without blanks at its end.
    pub(crate) fn row(&self, row: usize) -> String {
        self.cells[row].iter().collect::<String>().trim_end().to_owned()
    }

    /// All of it.
    pub(crate) fn text(&self) -> String {
        (0..self.cells.len()).map(|row| self.row(row)).collect::<Vec<_>>().join("\n")
    }

    /// With a frame around it, for people who read the output of a test.
    pub(crate) fn framed(&self) -> String {
        let width = self.cells[0].len();
        let mut text = format!("┌{}┐\n", "─".repeat(width));
        for row in &self.cells {
            writeln!(text, "│{}│", row.iter().collect::<String>()).expect("text");
        }
        text + &format!("└{}┘\n", "─".repeat(width))
    }
}

#[test]
fn a_screen_shows_what_was_written() {
    let mut screen = Screen::new(10, 2);
    screen.feed(b"\x1b[?1049h\x1b[2;3H\x1b[1;36mab\x1b[0m\x1b[1;1H\xc3");
    screen.feed(b"\xa4\x07");
    assert_eq!((screen.text().as_str(), screen.rung, screen.coloured, screen.alternate), ("ä\n  ab", 1, true, true));
}
