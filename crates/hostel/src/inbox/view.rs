//! The inbox on the screen.
//!
//! Invariant: foreign text comes as spans of a page or through `visible`; nothing else is painted. A page is painted as
//! far as it fits and the screen says how much of it was; what is too small to read is not called painted.

use std::time::Instant;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Color;
use ratatui::style::Modifier;
use ratatui::style::Style;
use ratatui::text::Line as TextLine;
use ratatui::text::Span as TextSpan;
use ratatui::widgets::Paragraph;

use super::model::Deed;
use super::model::Item;
use super::model::Model;
use super::overlay;
use super::page::Line;
use super::page::Look;
use super::page::page;
use super::page::span;
use super::visible;
use crate::text;

/// The smallest screen on which a request can be read.
const SMALLEST: (u16, u16) = (28, 10);

/// From this width on the list stands beside the request.
const WIDE: u16 = 120;

/// Columns of the list beside the request.
const LIST: u16 = 42;

/// A request with less time than this is about to go.
const SOON: u64 = 15;

/// How things look: one accent, and colours only where they mean something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Palette {
    pub(crate) colour: bool,
}

impl Palette {
    pub(crate) fn style(self, look: Look) -> Style {
        let plain = Style::new();
        let coloured = |colour: Color| if self.colour { plain.fg(colour) } else { plain };
        match look {
            Look::Plain => plain,
            Look::Strong => plain.add_modifier(Modifier::BOLD),
            Look::Dim => plain.add_modifier(Modifier::DIM),
            Look::Accent => coloured(Color::Cyan).add_modifier(Modifier::BOLD),
            Look::Danger => coloured(Color::Red).add_modifier(Modifier::BOLD),
            Look::Caution => coloured(Color::Yellow),
            Look::Meta => coloured(Color::Cyan).add_modifier(Modifier::BOLD),
            Look::Escape => coloured(Color::Red).add_modifier(Modifier::REVERSED),
        }
    }

    pub(crate) fn line(self, line: &Line) -> TextLine<'static> {
        TextLine::from(
            line.iter().map(|span| TextSpan::styled(span.text.clone(), self.style(span.look))).collect::<Vec<_>>(),
        )
    }
}

/// Paints everything; what follows from what could be seen comes back.
pub(crate) fn draw(frame: &mut Frame<'_>, model: &mut Model, palette: Palette, now: Instant, now_ns: u64) -> Vec<Deed> {
    let area = frame.area();
    if area.width < SMALLEST.0 || area.height < SMALLEST.1 {
        model.guard.reset();
        let words = "This window is too small to read a request in.";
        let rows = visible::rows(&visible::prose(words), usize::from(area.width.max(1)));
        let lines: Vec<TextLine<'_>> = rows.iter().map(|row| TextLine::from(visible::text(row))).collect();
        frame.render_widget(Paragraph::new(lines), area);
        return Vec::new();
    }
    let [top, bottom] = [1, 2];
    let body = Rect { y: area.y + top, height: area.height - top - bottom, ..area };
    header(frame, model, palette, Rect { height: top, ..area });
    let deeds = match model.current() {
        None => {
            empty(frame, model, palette, body);
            model.guard.reset();
            Vec::new()
        }
        Some(_) => {
            let (list, request) = split(body, model.items.len());
            list_pane(frame, model, palette, list, now_ns);
            request_pane(frame, model, palette, request, now)
        }
    };
    let foot = Rect { y: area.y + area.height - bottom, height: bottom, ..area };
    footer(frame, model, palette, foot, now_ns);
    overlay::draw(frame, model, palette, body);
    deeds
}

/// Where the list goes, and where the request.
fn split(body: Rect, items: usize) -> (Rect, Rect) {
    if body.width >= WIDE {
        let list = Rect { width: LIST, ..body };
        return (list, Rect { x: body.x + LIST + 1, width: body.width - LIST - 1, ..body });
    }
    // One line for each, a rule below; the request gets most of the room.
    let most = (body.height / 6).max(3);
    let rows = u16::try_from(items).unwrap_or(u16::MAX).min(most);
    let list = Rect { height: rows + 1, ..body };
    (list, Rect { y: body.y + rows + 1, height: body.height - rows - 1, ..body })
}

fn header(frame: &mut Frame<'_>, model: &Model, palette: Palette, area: Rect) {
    let width = usize::from(area.width);
    let lost: Vec<&str> =
        model.houses.iter().filter(|house| !house.connected).map(|house| house.label.as_str()).collect();
    let lock = match (model.unlocked(), model.houses.iter().any(|house| house.has_passphrase)) {
        _ if !model.houses.iter().any(|house| house.connected) => span("", Look::Dim),
        (true, _) => span("unlocked", Look::Accent),
        (false, true) => span("locked", Look::Dim),
        (false, false) => span("no passphrase", Look::Caution),
    };
    let waits = match model.items.len() {
        0 => "nothing waits".to_owned(),
        1 => "1 waits".to_owned(),
        more => format!("{more} wait"),
    };
    let mut right: Line = vec![span(waits, Look::Plain)];
    if !lock.text.is_empty() {
        right.extend([span(" · ", Look::Dim), lock]);
    }
    if !lost.is_empty() {
        let names = visible::text(&visible::prose(&lost.join(", ")));
        let words = text::fit(&format!("looking for {names}"), width / 2).into_owned();
        right = vec![span(words, Look::Caution), span(" · ", Look::Dim)].into_iter().chain(right).collect();
    }
    let title = if width >= 60 { " hostel approvals" } else { " hostel" };
    let used: usize = right.iter().map(|span| text::columns(&span.text)).sum();
    let gap = width.saturating_sub(text::columns(title) + used + 1);
    let mut line: Line = vec![span(title, Look::Accent), span(" ".repeat(gap), Look::Plain)];
    line.extend(right);
    frame.render_widget(Paragraph::new(palette.line(&line)), area);
}

fn empty(frame: &mut Frame<'_>, model: &Model, palette: Palette, area: Rect) {
    let connected = model.houses.iter().any(|house| house.connected);
    let (title, more) = match connected {
        true => ("Nothing waits for an answer.", "Requests appear here as they come."),
        false => ("No house answers.", "They are shown as soon as one is back."),
    };
    let centred = |words: &str, look: Look| {
        let gap = usize::from(area.width).saturating_sub(text::columns(words)) / 2;
        palette.line(&vec![span(" ".repeat(gap), Look::Plain), span(words, look)])
    };
    let lines = vec![centred(title, Look::Strong), TextLine::default(), centred(more, Look::Dim)];
    let y = area.y + area.height.saturating_sub(3) / 2;
    frame.render_widget(Paragraph::new(lines), Rect { y, height: 3.min(area.height), ..area });
}

fn list_pane(frame: &mut Frame<'_>, model: &Model, palette: Palette, area: Rect, now_ns: u64) {
    let beside = area.height > 1 && area.width == LIST;
    let height = usize::from(if beside { area.height } else { area.height - 1 });
    // The selected one stays in sight.
    let first = (model.selected + 1).saturating_sub(height);
    let several = model.houses.len() > 1;
    let mut lines: Vec<TextLine<'_>> = model
        .items
        .iter()
        .enumerate()
        .skip(first)
        .take(height)
        .map(|(position, item)| {
            let house = model.houses.get(item.house).filter(|_| several).map(|house| house.label.as_str());
            let width = usize::from(area.width).saturating_sub(1);
            let line = list_row(item, position == model.selected, house, width, now_ns);
            palette.line(&line)
        })
        .collect();
    if !beside {
        lines.push(palette.line(&vec![span("─".repeat(usize::from(area.width)), Look::Dim)]));
    }
    frame.render_widget(Paragraph::new(lines), area);
    if beside {
        let rule: Vec<TextLine<'_>> = (0..area.height).map(|_| palette.line(&vec![span("│", Look::Dim)])).collect();
        frame.render_widget(Paragraph::new(rule), Rect { x: area.x + area.width, width: 1, ..area });
    }
}

fn list_row(item: &Item, selected: bool, house: Option<&str>, width: usize, now_ns: u64) -> Line {
    let request = &item.request;
    let look = if selected { Look::Strong } else { Look::Plain };
    let left = request.left(now_ns).map_or(u64::MAX, |left| left.as_secs());
    let clock = if left == u64::MAX { "     -".to_owned() } else { format!("{:>6}", clock(left)) };
    let clock_look = match left {
        0..SOON => Look::Danger,
        _ => Look::Dim,
    };
    let kind = match request.kind.as_str() {
        "privileged_pipeline" => span("root ", Look::Danger),
        "pipeline" => span("run  ", Look::Dim),
        "question" => span("asks ", Look::Dim),
        "mesh_message" => span("mail ", Look::Dim),
        _ => span("tool ", Look::Dim),
    };
    let mut line = vec![
        span(if selected { "▸" } else { " " }, Look::Accent),
        span(clock, clock_look),
        span("  ", Look::Plain),
        kind,
    ];
    let used: usize = line.iter().map(|span| text::columns(&span.text)).sum();
    let room = width.saturating_sub(used);
    let who = request.caller();
    let who = match house {
        Some(house) => format!("{who}@{}", visible::text(&visible::word(house))),
        None => who,
    };
    if room > 40 {
        let share = (room / 3).min(24);
        line.push(span(format!("{:<share$}  ", text::fit(&who, share)), look));
        line.push(span(text::fit(&what(item), room - share - 2), look));
    } else {
        line.push(span(text::fit(&what(item), room), look));
    }
    line
}

/// What is asked, on one line.
fn what(item: &Item) -> String {
    let request = &item.request;
    match request.pipeline() {
        Some(pipeline) => {
            let stages = pipeline.stages.iter().map(|stage| stage.argv.iter().map(String::as_str));
            visible::text(&visible::command(stages))
        }
        None if request.kind == "question" => {
            let asked = request.question().map(|(text, _)| text.to_owned()).unwrap_or_default();
            visible::text(&visible::prose(&asked.replace('\n', " ")))
        }
        None if request.kind == "mesh_message" => {
            let part = |key| request.letter(key).unwrap_or_default();
            let said = visible::text(&visible::prose(&part("text").replace('\n', " ")));
            format!("{}: {said}", visible::text(&visible::word(part("from"))))
        }
        None => {
            let summary = visible::text(&visible::prose(&request.summary.replace('\n', " ")));
            match request.summary.starts_with(&request.tool) {
                true => summary,
                false => format!("{} {summary}", visible::text(&visible::word(&request.tool))),
            }
        }
    }
}

/// Minutes and seconds, or more where there is more.
fn clock(seconds: u64) -> String {
    match seconds {
        0..=5_999 => format!("{}:{:02}", seconds / 60, seconds % 60),
        6_000..=172_799 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

fn request_pane(frame: &mut Frame<'_>, model: &mut Model, palette: Palette, area: Rect, now: Instant) -> Vec<Deed> {
    let Some(item) = model.current() else { return Vec::new() };
    // A blank column on each side.
    let inner = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    if item.abridged {
        frame.render_widget(Paragraph::new(palette.line(&vec![span("fetching it…", Look::Dim)])), inner);
        return model.painted(0, 0, now);
    }
    let mut lines = page(&item.request, usize::from(inner.width));
    let height = usize::from(inner.height);
    let deeds = model.painted(lines.len(), height, now);
    // Said where there is room for it: what was read was all.
    let end = "─── end of the request ───";
    lines.push(vec![span(text::fit(end, usize::from(inner.width)), Look::Dim)]);
    let shown: Vec<TextLine<'_>> =
        lines.iter().skip(model.scroll).take(height).map(|line| palette.line(line)).collect();
    frame.render_widget(Paragraph::new(shown), inner);
    deeds
}

fn footer(frame: &mut Frame<'_>, model: &Model, palette: Palette, area: Rect, now_ns: u64) {
    let width = usize::from(area.width);
    let first = match (&model.remark, model.current()) {
        (Some((words, look, _)), _) => vec![span(format!(" {}", text::fit(words, width.saturating_sub(2))), *look)],
        (None, Some(item)) => progress(model, item, width, now_ns),
        (None, None) => Vec::new(),
    };
    let keys: &[(&str, &str)] = match model.current() {
        Some(_) => &[("y", "approve"), ("n", "deny"), ("g", "grant"), ("w", "why"), ("?", "help"), ("q", "quit")],
        None => &[("u", "unlock"), ("?", "help"), ("q", "quit")],
    };
    let full: usize = keys.iter().map(|(key, words)| key.len() + words.len() + 3).sum();
    let mut second: Line = vec![span(" ", Look::Plain)];
    for (key, words) in keys {
        // y is dim until it counts.
        let ready = *key != "y" && *key != "g" || model.guard.is_read();
        second.push(span(*key, if ready { Look::Accent } else { Look::Dim }));
        let words = if full < width { format!(" {words}  ") } else { " ".to_owned() };
        second.push(span(words, Look::Dim));
    }
    frame.render_widget(Paragraph::new(vec![palette.line(&first), palette.line(&second)]), area);
}

/// How much time is left, and how much of the request was seen.
fn progress(model: &Model, item: &Item, width: usize, now_ns: u64) -> Line {
    let mut line = vec![span(" ", Look::Plain)];
    if let Some(left) = item.request.left(now_ns) {
        let seconds = left.as_secs();
        let look = if seconds < SOON { Look::Danger } else { Look::Dim };
        line.push(span(format!("{} left", clock(seconds)), look));
    }
    let (rows, height) = model.rows;
    if rows > height {
        let seen = (model.scroll + height).min(rows) * 100 / rows.max(1);
        let words = match (model.guard.is_read(), width >= 60) {
            (true, _) => format!("  {seen}%"),
            (false, true) => format!("  {seen}%, scroll to the end before you approve"),
            (false, false) => format!("  {seen}%, Space for more"),
        };
        line.push(span(words, if model.guard.is_read() { Look::Dim } else { Look::Caution }));
    }
    line
}
