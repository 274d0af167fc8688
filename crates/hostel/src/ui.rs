//! Everything a command prints goes through here: lines, tables, data, errors.
//!
//! Invariant: colour only where the stream is a terminal and `NO_COLOR` is unset (or `--color` says so); with
//! `--json` standard output holds data and nothing else.
//!
//! It never prints a child's output: `run`, `attach` and `logs` copy bytes themselves.

use std::io::IsTerminal as _;
use std::io::Write as _;

use serde::Serialize;

use crate::cli::ColorChoice;
use crate::error::CommandError;
use crate::error::Kind;
use crate::text;

/// How the text of a cell is painted on a terminal.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Paint {
    Plain,
    Bold,
    Dim,
    Green,
    Yellow,
    Red,
    Reverse,
}

impl Paint {
    fn code(self) -> &'static str {
        match self {
            Paint::Plain => "",
            Paint::Bold => "\x1b[1m",
            Paint::Dim => "\x1b[2m",
            Paint::Green => "\x1b[32m",
            Paint::Yellow => "\x1b[33m",
            Paint::Red => "\x1b[31m",
            Paint::Reverse => "\x1b[7m",
        }
    }

    /// Text in this paint, where the stream takes any. The paint ends with the text.
    pub(crate) fn apply(self, text: &str, on: bool) -> String {
        if on && self != Paint::Plain { format!("{}{text}\x1b[0m", self.code()) } else { text.to_owned() }
    }
}

/// The printing side of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    json: bool,
    color_out: bool,
    color_err: bool,
    /// Columns of the terminal that standard output is, if it is one.
    columns: Option<usize>,
}

/// Columns of the terminal behind a stream, if there is one and it says.
pub(crate) fn columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Columns and rows of the terminal behind a stream, if there is one and it says.
pub(crate) fn screen_size(stream: impl std::os::fd::AsFd) -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    Some((usize::from(size.ws_col), usize::from(size.ws_row))).filter(|(columns, rows)| *columns > 0 && *rows > 0)
}

impl Ui {
    /// Decides once about colour and data.
    pub(crate) fn new(json: bool, color: ColorChoice) -> Self {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        let decide = |terminal: bool| match color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => terminal && !plain,
        };
        Ui {
            json,
            color_out: decide(std::io::stdout().is_terminal()),
            color_err: decide(std::io::stderr().is_terminal()),
            columns: columns(std::io::stdout()),
        }
    }

    /// Whether the caller asked for data.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Whether standard output and standard error take colour.
    pub(crate) fn colours(&self) -> (bool, bool) {
        (self.color_out, self.color_err)
    }

    /// Columns of the terminal that standard output is, if it is one.
    pub(crate) fn columns(&self) -> Option<usize> {
        self.columns
    }

    /// Text painted for standard output.
    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        paint.apply(text, self.color_out)
    }

    /// A line on standard output.
    pub(crate) fn line(&self, text: &str) -> Result<(), CommandError> {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.write_all(b"\n")?;
        out.flush()?;
        Ok(())
    }

    /// Bytes on standard output, as they are.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), CommandError> {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()?;
        Ok(())
    }

    /// One value as one line of JSON on standard output.
    pub(crate) fn data(&self, value: &impl Serialize) -> Result<(), CommandError> {
        let text = serde_json::to_string(value)
            .map_err(|error| CommandError::failure(format!("cannot encode the answer: {error}")))?;
        // Compact JSON has no line ends of its own: what is a hazard stands in a text.
        self.raw(format!("{}\n", text::plain_json(&text)).as_bytes())
    }

    /// A remark on standard error; a closed standard error is nobody's problem.
    pub(crate) fn note(&self, text: &str) {
        let line = if self.color_err { format!("{}{text}\x1b[0m\n", Paint::Dim.code()) } else { format!("{text}\n") };
        std::io::stderr().lock().write_all(line.as_bytes()).unwrap_or_default();
    }

    /// The error that ends a command.
    pub(crate) fn error(&self, error: &CommandError) {
        if error.kind() == Kind::ReaderGone {
            return;
        }
        let line = if self.json {
            format!("{}\n", text::plain_json(&error.to_json().to_string()))
        } else if self.color_err {
            format!("{}hostel:\x1b[0m {}\n", Paint::Red.code(), text::prose(&error.to_string()))
        } else {
            format!("hostel: {}\n", text::prose(&error.to_string()))
        };
        std::io::stderr().lock().write_all(line.as_bytes()).unwrap_or_default();
    }
}

/// The least a last column is cut to on a narrow terminal.
const LAST_COLUMN: usize = 12;

/// A table whose columns line up; every cell is made harmless before it is measured. On a narrow terminal columns that
/// can be missed are left out, the last of them first, and the last column is cut to what fits.
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<(Paint, String)>>,
    right: Vec<bool>,
    missable: Vec<bool>,
}

impl Table {
    /// A table with these column names; before a name, `>` aligns to the right and `?` says that it can be missed.
    pub(crate) fn new(columns: &[&'static str]) -> Self {
        let marks = |name: &&'static str| name.trim_end_matches(|letter| !matches!(letter, '>' | '?'));
        Table {
            header: columns.iter().map(|name| name.trim_start_matches(['>', '?'])).collect(),
            right: columns.iter().map(|name| marks(name).contains('>')).collect(),
            missable: columns.iter().map(|name| marks(name).contains('?')).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells stay empty.
    pub(crate) fn row(&mut self, cells: Vec<(Paint, String)>) {
        self.rows.push(cells.into_iter().map(|(paint, cell)| (paint, text::printable(&cell).into_owned())).collect());
    }

    /// The finished text, without a final newline.
    pub(crate) fn render(&self, ui: &Ui) -> String {
        // None for a column that is left out.
        let mut widths: Vec<Option<usize>> = self.header.iter().map(|name| Some(text::columns(name))).collect();
        for row in &self.rows {
            for (width, (_, cell)) in widths.iter_mut().zip(row) {
                *width = (*width).max(Some(text::columns(cell)));
            }
        }
        if let Some(columns) = ui.columns {
            let needed = |widths: &[Option<usize>]| -> usize {
                let others = widths.len().saturating_sub(1);
                widths.iter().take(others).flatten().map(|width| width + 2).sum()
            };
            let missable = self.missable.iter().enumerate().rev().filter(|(_, missable)| **missable);
            for (position, _) in missable {
                if needed(&widths) + LAST_COLUMN > columns
                    && let Some(width) = widths.get_mut(position)
                {
                    *width = None;
                }
            }
            let taken = needed(&widths);
            if let Some(last) = widths.last_mut() {
                *last = last.map(|last| last.min(columns.saturating_sub(taken).max(LAST_COLUMN)));
            }
        }
        let header: Vec<(Paint, String)> = self.header.iter().map(|name| (Paint::Bold, (*name).to_owned())).collect();
        let lines: Vec<String> =
            std::iter::once(&header).chain(&self.rows).map(|row| self.line(ui, row, &widths)).collect();
        lines.join("\n")
    }

    fn line(&self, ui: &Ui, row: &[(Paint, String)], widths: &[Option<usize>]) -> String {
        let mut line = String::new();
        for (column, (width, (paint, cell))) in widths.iter().zip(row).enumerate() {
            let Some(width) = *width else { continue };
            let cell = &text::fit(cell, width);
            let gap = " ".repeat(width.saturating_sub(text::columns(cell)));
            let last = column + 1 == widths.len();
            if column > 0 {
                line.push_str("  ");
            }
            if self.right.get(column).copied().unwrap_or(false) {
                line.push_str(&gap);
                line.push_str(&ui.paint(*paint, cell));
            } else {
                line.push_str(&ui.paint(*paint, cell));
                if !last {
                    line.push_str(&gap);
                }
            }
        }
        line.truncate(line.trim_end_matches(' ').len());
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Ui {
        Ui { json: false, color_out: false, color_err: false, columns: None }
    }

    #[test]
    fn columns_line_up_and_stay_harmless() {
        let mut table = Table::new(&["NAME", ">PID", "COMMAND"]);
        table.row(vec![
            (Paint::Plain, "web".to_owned()),
            (Paint::Plain, "7".to_owned()),
            (Paint::Plain, "sleep 1\n\u{1b}[31m".to_owned()),
        ]);
        table.row(vec![
            (Paint::Green, "a-longer-name".to_owned()),
            (Paint::Plain, "12345".to_owned()),
            (Paint::Plain, String::new()),
        ]);
        assert_eq!(
            table.render(&plain()),
            "NAME             PID  COMMAND\nweb                7  sleep 1⟨LF⟩⟨ESC⟩[31m\na-longer-name  12345"
        );
    }

    #[test]
    fn a_narrow_terminal_cuts_the_last_column_only() {
        let mut table = Table::new(&["NAME", "WHERE"]);
        table.row(vec![(Paint::Plain, "web".to_owned()), (Paint::Plain, "/a/long/way/to/go".to_owned())]);
        let narrow = Ui { columns: Some(20), ..plain() };
        assert_eq!(table.render(&narrow), "NAME  WHERE\nweb   /a/long/way/t…");
        let tiny = Ui { columns: Some(3), ..plain() };
        assert_eq!(table.render(&tiny), "NAME  WHERE\nweb   /a/long/way…");
        let mut table = Table::new(&["NAME", ">?AGE", "?DOOR", "WHERE"]);
        let cells = ["web", "7", "native", "/a/long/way/to/go"];
        table.row(cells.iter().map(|cell| (Paint::Plain, (*cell).to_owned())).collect());
        assert_eq!(table.render(&plain()), "NAME  AGE  DOOR    WHERE\nweb     7  native  /a/long/way/to/go");
        let narrow = Ui { columns: Some(25), ..plain() };
        assert_eq!(table.render(&narrow), "NAME  AGE  WHERE\nweb     7  /a/long/way/t…");
    }

    #[test]
    fn colour_wraps_the_text_and_not_the_padding() {
        let ui = Ui { color_out: true, ..plain() };
        assert_eq!(ui.paint(Paint::Red, "x"), "\x1b[31mx\x1b[0m");
        assert_eq!(ui.paint(Paint::Plain, "x"), "x");
    }
}
