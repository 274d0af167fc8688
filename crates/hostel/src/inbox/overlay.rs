//! Dialogs over the inbox.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line as TextLine;
use ratatui::widgets::Block;
use ratatui::widgets::BorderType;
use ratatui::widgets::Clear;
use ratatui::widgets::Padding;
use ratatui::widgets::Paragraph;

use super::dialog::CONFIRMATION;
use super::dialog::Dialog;
use super::dialog::Field;
use super::dialog::GrantForm;
use super::dialog::What;
use super::model::Model;
use super::page::Line;
use super::page::Look;
use super::page::ours;
use super::page::span;
use super::view::Palette;
use super::visible;
use crate::text;

/// Columns of a dialog, where there is room.
const WIDTH: u16 = 64;

/// Columns that a dialog's frame takes.
const FRAME: u16 = 4;

/// Paints the dialog, if there is one.
pub(crate) fn draw(frame: &mut Frame<'_>, model: &Model, palette: Palette, area: Rect) {
    let Some(dialog) = &model.dialog else { return };
    let width = WIDTH.min(area.width);
    let room = usize::from(width.saturating_sub(FRAME));
    let (title, lines) = match dialog {
        Dialog::Passphrase { typed, then, problem, waiting } => {
            let purpose = match then.as_ref().map(|answer| &answer.what) {
                Some(What::Deny(_)) => "to deny",
                Some(_) => "to approve",
                None => "to unlock",
            };
            ("Passphrase of the approver", passphrase(typed.length(), purpose, problem.as_deref(), *waiting, room))
        }
        Dialog::Grant { form, .. } => ("Approve, and the same again", grant(form)),
        Dialog::Reason { typed, .. } => ("Deny, because", reason(typed, room)),
        Dialog::Changeable { typed, .. } => ("Others can change this", changeable(typed, room)),
        Dialog::Text { title, lines, scroll } => {
            let height = usize::from(area.height.saturating_sub(2));
            let wrapped: Vec<Line> = lines.iter().flat_map(|line| wrap(line, room)).collect();
            let first = (*scroll).min(wrapped.len().saturating_sub(height));
            (*title, wrapped.into_iter().skip(first).collect())
        }
    };
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(2).min(area.height);
    let place = Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    let block = Block::bordered()
        .border_type(BorderType::Rounded)
        .border_style(palette.style(Look::Dim))
        .padding(Padding::horizontal(1))
        .title(palette.line(&vec![span(format!(" {} ", text::fit(title, room)), Look::Accent)]));
    let lines: Vec<TextLine<'_>> = lines.iter().map(|line| palette.line(line)).collect();
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(lines).block(block), place);
}

fn passphrase(length: usize, purpose: &str, problem: Option<&str>, waiting: bool, room: usize) -> Vec<Line> {
    let dots = "•".repeat(length.min(room.saturating_sub(1)));
    let mut lines = vec![vec![span(dots, Look::Strong), span("▏", Look::Accent)], Vec::new()];
    match (waiting, problem) {
        (true, _) => lines.push(vec![span("looking at it…", Look::Dim)]),
        (false, Some(words)) => {
            for row in visible::rows(&ours(words), room) {
                lines.push(vec![span(visible::text(&row), Look::Danger)]);
            }
        }
        (false, None) => lines.push(vec![
            span("Enter", Look::Accent),
            span(format!(" {purpose}  "), Look::Dim),
            span("Esc", Look::Accent),
            span(" to leave", Look::Dim),
        ]),
    }
    lines
}

fn reason(typed: &str, room: usize) -> Vec<Line> {
    let rows = visible::rows(&visible::prose(typed), room.saturating_sub(1));
    let mut lines: Vec<Line> = rows.iter().map(|row| vec![span(visible::text(row), Look::Plain)]).collect();
    if let Some(last) = lines.last_mut() {
        last.push(span("▏", Look::Accent));
    }
    lines.push(Vec::new());
    lines.push(vec![
        span("Enter", Look::Accent),
        span(" to deny and say so  ", Look::Dim),
        span("Esc", Look::Accent),
        span(" to leave", Look::Dim),
    ]);
    lines
}

fn changeable(typed: &str, room: usize) -> Vec<Line> {
    let text = format!(
        "Others than root can change what would run as root, also after you have looked. The lines with ▲ say what \
         exactly. Type {CONFIRMATION} to approve it all the same."
    );
    let mut lines: Vec<Line> = visible::rows(&ours(&text), room)
        .iter()
        .map(|row| vec![span(visible::text(row).trim_end(), Look::Danger)])
        .collect();
    let typed = visible::text(&visible::prose(typed));
    lines.extend([
        Vec::new(),
        vec![span(text::fit(&typed, room.saturating_sub(1)), Look::Strong), span("▏", Look::Accent)],
        Vec::new(),
        vec![
            span("Enter", Look::Accent),
            span(" to approve  ", Look::Dim),
            span("Esc", Look::Accent),
            span(" to leave", Look::Dim),
        ],
    ]);
    lines
}

fn grant(form: &GrantForm) -> Vec<Line> {
    let field = |which: Field, label: &str, value: String| {
        let active = form.field == which;
        vec![
            span(if active { "▸ " } else { "  " }, Look::Accent),
            span(format!("{label:<9}"), if active { Look::Strong } else { Look::Dim }),
            span(value, if active { Look::Strong } else { Look::Plain }),
            span(if active { "▏" } else { "" }, Look::Accent),
        ]
    };
    let choice = |yes: bool, one: &str, other: &str| match yes {
        true => format!("  {one}  [{other}]"),
        false => format!(" [{one}]  {other}"),
    };
    let count = if form.count.is_empty() { "any number of times".to_owned() } else { format!("{} times", form.count) };
    let mut lines = vec![
        field(Field::Scope, "for", choice(form.requester, "this session", "this program")),
        field(Field::Minutes, "minutes", form.minutes.clone()),
        field(Field::Count, "at most", count),
    ];
    if let Some(meant) = form.root {
        lines.push(field(Field::Root, "as root", choice(meant, "no", "yes, as root")));
    }
    lines.extend([
        Vec::new(),
        vec![span("Only exactly the same: words, files, place, variables.", Look::Dim)],
        vec![
            span("Enter", Look::Accent),
            span(" to approve  ", Look::Dim),
            span("Tab", Look::Accent),
            span(" next  ", Look::Dim),
            span("Esc", Look::Accent),
            span(" to leave", Look::Dim),
        ],
    ]);
    lines
}

/// A line of spans broken to a width; further rows are indented.
fn wrap(line: &Line, room: usize) -> Vec<Line> {
    let mut rows: Vec<Line> = Vec::new();
    let mut row: Line = Vec::new();
    let mut used = 0;
    for part in line {
        for word in part.text.split_inclusive(' ') {
            let columns = text::columns(word.trim_end());
            if used + columns > room && used > 2 {
                rows.push(std::mem::replace(&mut row, vec![span("  ", Look::Plain)]));
                used = 2;
            }
            // A word that is longer than a row is cut: dialogs hold our own words and names.
            let word = text::fit(word, room.saturating_sub(used).max(1)).into_owned();
            used += text::columns(&word);
            row.push(span(word, part.look));
        }
    }
    rows.push(row);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words() {
        let line = vec![span("allow ", Look::Dim), span("a rule with a long name", Look::Plain)];
        let rows = wrap(&line, 16);
        let texts: Vec<String> =
            rows.iter().map(|row| row.iter().map(|span| span.text.as_str()).collect::<String>()).collect();
        assert_eq!(texts, ["allow a rule ", "  with a long ", "  name"]);
    }
}
