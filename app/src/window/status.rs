//! The status bar: the current event, the cursors, running tasks with a stop button, and some shortcuts.
//!
//! Contents are measured before they are drawn. If the bar is too narrow, key hints go first, then what is visible
//! elsewhere. Nothing overlaps.

use super::app::App;
use crate::theme::{body, icons, mono, mono_small, palette, small, widgets};
use egui::accesskit::Role;
use egui::{Align2, Color32, FontId, Rect, Response, RichText, Sense, Stroke, Ui, UiBuilder, WidgetInfo, pos2, vec2};
use kinescope_files::journal::SaveState;
use kinescope_session::{Document, text};

/// Gap between parts, points.
const GAP: f32 = 12.0;
/// Width of the progress bar, points.
const PROGRESS: f32 = 110.0;
/// Width of the stop button, points.
const STOP: f32 = 24.0;

/// A part of the left side.
struct Part {
    text: String,
    font: FontId,
    ink: Color32,
    hover: Option<String>,
    /// Priority of removal if space is short: the highest goes first; 0 never goes.
    leaves: u8,
    does: Option<&'static str>,
}

impl Part {
    fn new(text: impl Into<String>, font: FontId, ink: Color32) -> Self {
        Self {
            text: text.into(),
            font,
            ink,
            hover: None,
            leaves: 0,
            does: None,
        }
    }

    fn with_drop_order(mut self, order: u8) -> Self {
        self.leaves = order;
        self
    }

    fn with_hover(mut self, text: impl Into<String>) -> Self {
        self.hover = Some(text.into());
        self
    }

    fn with_command(mut self, command: &'static str) -> Self {
        self.does = Some(command);
        self
    }
}

/// A hint on the right side: keys and their effect.
struct Hint {
    keys: Vec<String>,
    word: &'static str,
    does: &'static str,
}

/// Draws the status bar.
pub(super) fn draw_status_bar(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let full = ui.max_rect();
    ui.painter().hline(
        full.left() - 12.0..=full.right() + 12.0,
        full.top() + 0.5,
        Stroke::new(1.0, p.line),
    );
    let mut parts = app.doc.as_ref().map_or_else(Vec::new, |doc| position_parts(doc, ui));
    parts.extend(app.doc.as_ref().and_then(|doc| unsaved_part(doc, ui)));
    let running = running_width(app, ui);
    let room = full.width() - running;
    let mut widths: Vec<f32> = parts
        .iter()
        .map(|part| text_width(ui, &part.text, &part.font))
        .collect();
    while widths.iter().map(|w| w + GAP).sum::<f32>() > room {
        let Some((i, _)) = parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part.leaves > 0)
            .max_by_key(|(_, part)| part.leaves)
        else {
            break;
        };
        parts.remove(i);
        widths.remove(i);
    }
    let mut x = full.left();
    for (part, width) in parts.iter().zip(widths) {
        let end = (x + width).min(full.left() + room.max(0.0));
        let cell = Rect::from_min_max(pos2(x, full.top()), pos2(end.max(x), full.bottom()));
        draw(app, ui, part, cell);
        x += width + GAP;
    }
    if running > 0.0 {
        let cell = Rect::from_min_max(pos2(x, full.top()), pos2(x + running, full.bottom()));
        let mut child = ui.new_child(UiBuilder::new().id_salt("running").max_rect(cell.intersect(full)));
        child.horizontal_centered(|ui| draw_running(app, ui));
        x += running;
    }
    hints(app, ui, full.with_min_x((x + GAP).min(full.right())));
    ui.advance_cursor_after_rect(full);
}

fn text_width(ui: &Ui, text: &str, font: &FontId) -> f32 {
    let galley = ui
        .painter()
        .layout_no_wrap(text.to_owned(), font.clone(), Color32::WHITE);
    galley.size().x.ceil() + 1.0
}

fn draw(app: &mut App, ui: &Ui, part: &Part, cell: Rect) {
    let sense = if part.does.is_some() {
        Sense::click()
    } else {
        Sense::hover()
    };
    let r = ui.interact(cell, ui.scope_id().with(("status", &part.text)), sense);
    let role = if part.does.is_some() { Role::Button } else { Role::Label };
    r.widget_info(|| WidgetInfo::labeled(role, true, &part.text));
    widgets::paint_text(ui, cell, Align2::LEFT_CENTER, &part.text, part.font.clone(), part.ink);
    if let Some(command) = part.does.filter(|_| r.clicked()) {
        app.actions.run_command(command);
    }
    if let Some(hover) = &part.hover {
        r.on_hover_text(hover);
    }
}

/// Returns the parts that show the current position in the recording.
fn position_parts(doc: &Document, ui: &Ui) -> Vec<Part> {
    let p = palette(ui);
    if doc.is_empty() {
        return Vec::new();
    }
    let m = doc.current_event();
    let thread = usize::try_from(m).ok().and_then(|m| doc.recording.events.thread.get(m));
    let mut out = vec![
        Part::new(
            format!("event {} of {}", text::count(m), text::count(doc.len())),
            mono(),
            p.quiet,
        ),
        Part::new(doc.format_time(m), mono(), p.quiet)
            .with_drop_order(2)
            .with_hover("time since the first event"),
    ];
    if let Some(thread) = thread.filter(|t| *t != 0) {
        out.push(Part::new(format!("thread {thread}"), body(), p.quiet).with_drop_order(5));
    }
    if let Some(span) = doc.cursor_span() {
        let hover = format!(
            "Cursors A and B: events {} to {}. Click to zoom to them.",
            text::count(span.first),
            text::count(span.last)
        );
        let part = Part::new(span.describe(), mono(), p.text)
            .with_drop_order(1)
            .with_hover(hover);
        out.push(part.with_command("zoom-cursors"));
    } else if let Some((name, event, go)) = [("A", doc.cursors.a, "go-cursor-a"), ("B", doc.cursors.b, "go-cursor-b")]
        .into_iter()
        .find_map(|(name, event, go)| Some((name, event?, go)))
    {
        let message = format!("{name} at event {}", text::count(event));
        out.push(Part::new(message, mono(), p.text).with_drop_order(4).with_command(go));
    }
    if !doc.changes().inputs().is_empty() {
        let message = format!("● {} edited", doc.changes().inputs().len());
        out.push(Part::new(message, body(), p.edited).with_drop_order(3));
    }
    out
}

/// Returns the part that shows where the edits are, while they are not next to the recording.
fn unsaved_part(doc: &Document, ui: &Ui) -> Option<Part> {
    let p = palette(ui);
    match doc.save_state() {
        SaveState::InMemory(u) => {
            let more = format!("{}\nKinescope tries to save them again every second.", u.error);
            Some(Part::new("▲ edits not saved", body(), p.error).with_hover(more))
        }
        SaveState::InFallback { path, why } => {
            let more = format!("{}\n{why}", path.display());
            Some(Part::new("! edits saved in the settings folder", body(), p.warning).with_hover(more))
        }
        SaveState::NextToRecording => None,
    }
}

/// Returns the task that the bar shows: the first one that runs long enough to be visible.
fn shown_task(app: &App) -> Option<&super::tasks::RunningTask> {
    let mut running = app.tasks.running().iter();
    running.find(|r| r.since.elapsed().as_millis() >= 100)
}

fn running_title(title: &str) -> String {
    text::truncate_middle(title, 44)
}

fn other_tasks_text(app: &App) -> Option<String> {
    let others = app.tasks.running().len().saturating_sub(1);
    (others > 0).then(|| format!("and {others} more"))
}

/// Returns the width of the running task; 0 if none is shown.
fn running_width(app: &App, ui: &Ui) -> f32 {
    let Some(r) = shown_task(app) else { return 0.0 };
    let others = other_tasks_text(app).map_or(0.0, |t| text_width(ui, &t, &body()) + 8.0);
    // Includes the percentage.
    text_width(ui, &running_title(&r.title), &body()) + PROGRESS + STOP + 48.0 + others + 4.0 * 8.0
}

fn draw_running(app: &App, ui: &mut Ui) {
    let p = palette(ui);
    let Some(r) = shown_task(app) else { return };
    ui.label(RichText::new(running_title(&r.title)).color(p.quiet));
    let (rect, response) = ui.allocate_exact_size(vec2(PROGRESS, 6.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::ProgressIndicator, true, &r.title));
    ui.painter().rect_filled(rect, 3.0, p.raised);
    if let Some(f) = r.progress.fraction() {
        let done = Rect::from_min_size(rect.min, vec2(rect.width() * f, rect.height()));
        ui.painter().rect_filled(done, 3.0, p.read);
        ui.label(RichText::new(format!("{:.0} %", f * 100.0)).font(mono()).color(p.quiet));
    }
    if let Some(others) = other_tasks_text(app) {
        ui.label(RichText::new(others).color(p.quiet));
    }
    if widgets::icon_button(ui, icons::X, "Stop").clicked() {
        r.progress.cancel();
    }
}

/// Returns the hints by priority, from the right.
fn all_hints(app: &App) -> Vec<Hint> {
    let caps = |ids: &[&str]| -> Vec<String> {
        let first = |id: &&str| app.keys.shortcuts(id).first().map(|s| s.text());
        ids.iter().filter_map(first).collect()
    };
    let mut out = vec![Hint {
        keys: caps(&["help"]),
        word: "all keys",
        does: "help",
    }];
    if app.sides.folded && app.tasks.running().is_empty() {
        out.push(Hint {
            keys: caps(&["toggle-inspector"]),
            word: "inspector",
            does: "toggle-inspector",
        });
    }
    // Without a recording there is nothing to step through.
    if let Some(doc) = &app.doc {
        out.push(Hint {
            keys: caps(&["numbers"]),
            word: doc.numbers.name(),
            does: "numbers",
        });
        out.push(Hint {
            keys: caps(&["previous-event", "next-event"]),
            word: "step",
            does: "",
        });
        let moves = caps(&["zoom-in", "pan-left", "zoom-out", "pan-right"]);
        // Single letters form one group, as on a keyboard.
        let together = moves.iter().all(|m| m.chars().count() == 1);
        out.push(Hint {
            keys: if together { vec![moves.join(" ")] } else { moves },
            word: "move",
            does: "",
        });
    }
    out
}

/// Draws as many hints as fit.
fn hints(app: &mut App, ui: &mut Ui, area: Rect) {
    let mut right = area.right();
    for hint in all_hints(app) {
        let word = text_width(ui, hint.word, &small());
        let keys = hint
            .keys
            .iter()
            .map(|k| text_width(ui, k, &mono_small()) + 8.0 + 6.0)
            .sum::<f32>();
        let left = right - word - keys;
        if left < area.left() {
            return;
        }
        let cell = Rect::from_min_max(pos2(left, area.top()), pos2(right, area.bottom()));
        let r = one_hint(ui, &hint, cell, keys);
        if !hint.does.is_empty() && r.clicked() {
            app.actions.run_command(hint.does);
        }
        right = left - GAP;
    }
}

fn one_hint(ui: &mut Ui, hint: &Hint, cell: Rect, keys: f32) -> Response {
    let p = palette(ui);
    let mut child = ui.new_child(UiBuilder::new().id_salt(("hint", hint.word)).max_rect(cell));
    child.spacing_mut().item_spacing.x = 6.0;
    child.horizontal_centered(|ui| {
        for k in &hint.keys {
            widgets::key_cap(ui, k);
        }
    });
    let name = cell.with_min_x(cell.left() + keys);
    let sense = if hint.does.is_empty() {
        Sense::hover()
    } else {
        Sense::click()
    };
    let r = ui.interact(name, ui.scope_id().with(("hint word", hint.word)), sense);
    let label = match hint.does {
        "numbers" => format!("Values in {}", hint.word),
        _ => hint.word.to_owned(),
    };
    let role = if hint.does.is_empty() {
        Role::Label
    } else {
        Role::Button
    };
    r.widget_info(|| WidgetInfo::labeled(role, true, &label));
    let ink = if r.hovered() && !hint.does.is_empty() {
        p.text
    } else {
        p.quiet
    };
    widgets::paint_text(ui, name, Align2::LEFT_CENTER, hint.word, small(), ink);
    if hint.does == "numbers" {
        return r.on_hover_text("Format of values. Click for the next of hex, decimal, float, binary.");
    }
    r
}
