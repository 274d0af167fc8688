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
        }
    }
}

/// The printing side of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ui {
    json: bool,
    color_out: bool,
    color_err: bool,
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
        }
    }

    /// Whether the caller asked for data.
    pub(crate) fn json(&self) -> bool {
        self.json
    }

    /// Text painted for standard output.
    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        if self.color_out && paint != Paint::Plain { format!("{}{text}\x1b[0m", paint.code()) } else { text.to_owned() }
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
        let mut text = serde_json::to_vec(value)
            .map_err(|error| CommandError::failure(format!("cannot encode the answer: {error}")))?;
        text.push(b'\n');
        self.raw(&text)
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
            format!("{}\n", error.to_json())
        } else if self.color_err {
            format!("{}hostel:\x1b[0m {error}\n", Paint::Red.code())
        } else {
            format!("hostel: {error}\n")
        };
        std::io::stderr().lock().write_all(line.as_bytes()).unwrap_or_default();
    }
}

/// A table whose columns line up; every cell is made harmless before it is measured.
pub(crate) struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<(Paint, String)>>,
    right: Vec<bool>,
}

impl Table {
    /// A table with these column names; a name that starts with `>` is aligned to the right.
    pub(crate) fn new(columns: &[&'static str]) -> Self {
        Table {
            header: columns.iter().map(|name| name.trim_start_matches('>')).collect(),
            right: columns.iter().map(|name| name.starts_with('>')).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells stay empty.
    pub(crate) fn row(&mut self, cells: Vec<(Paint, String)>) {
        self.rows.push(cells.into_iter().map(|(paint, cell)| (paint, text::printable(&cell).into_owned())).collect());
    }

    /// The finished text, without a final newline.
    pub(crate) fn render(&self, ui: &Ui) -> String {
        let mut widths: Vec<usize> = self.header.iter().map(|name| name.chars().count()).collect();
        for row in &self.rows {
            for (width, (_, cell)) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let header: Vec<(Paint, String)> = self.header.iter().map(|name| (Paint::Bold, (*name).to_owned())).collect();
        let lines: Vec<String> =
            std::iter::once(&header).chain(&self.rows).map(|row| self.line(ui, row, &widths)).collect();
        lines.join("\n")
    }

    fn line(&self, ui: &Ui, row: &[(Paint, String)], widths: &[usize]) -> String {
        let mut line = String::new();
        for (column, (width, (paint, cell))) in widths.iter().zip(row).enumerate() {
            let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
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
        Ui { json: false, color_out: false, color_err: false }
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
            "NAME             PID  COMMAND\nweb                7  sleep 1\\n\\u{1b}[31m\na-longer-name  12345"
        );
    }

    #[test]
    fn colour_wraps_the_text_and_not_the_padding() {
        let ui = Ui { color_out: true, ..plain() };
        assert_eq!(ui.paint(Paint::Red, "x"), "\x1b[31mx\x1b[0m");
        assert_eq!(ui.paint(Paint::Plain, "x"), "x");
    }
}
