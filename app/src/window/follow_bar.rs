//! The bar below the top bar while a recording is followed, and the page of a window that waits for one.

use super::app::App;
use super::following::file_name;
use crate::theme::{Palette, body, icons, mono, palette, strong, widgets};
use egui::accesskit::Role;
use egui::{Align, Align2, Color32, FontId, Frame, Layout, Margin, Panel, Rect, RichText, Sense, Stroke, Ui};
use egui::{WidgetInfo, pos2, vec2};
use kinescope_session::following::{FollowPhase, FollowStatus};
use kinescope_session::{Document, GrowthState, text};
use std::time::{Duration, SystemTime};
use trace_core::container::TransferBytes;

/// Time without growth that the bar shows.
const QUIET: Duration = Duration::from_secs(5);
/// Time without growth after which the recorder may be gone.
const STALLED: Duration = Duration::from_secs(30);
/// Gap between parts, points.
const GAP: f32 = 12.0;
/// Height of the bar, points.
const HEIGHT: f32 = 32.0;

/// A text of the bar.
struct Part {
    text: String,
    font: FontId,
    ink: Color32,
}

/// What the bar shows.
struct Bar {
    mark: &'static str,
    ink: Color32,
    title: String,
    hover: String,
    parts: Vec<Part>,
    buttons: Vec<Button>,
}

/// A button of the bar.
#[derive(Clone, Copy)]
struct Button {
    command: &'static str,
    text: &'static str,
    label: &'static str,
    hover: &'static str,
}

const STOP: Button = Button {
    command: "stop-following",
    text: "Stop",
    label: "Stop following",
    hover: "Read the file no further; the recording so far stays open",
};
const SNAPSHOT: Button = Button {
    command: "save-snapshot",
    text: "Save snapshot…",
    label: "Save a snapshot",
    hover: "Save what was read so far as a recording",
};
const END: Button = Button {
    command: "go-to-end",
    text: "Go to the end",
    label: "Go to the end",
    hover: "Show the newest events, and those that follow",
};
const AGAIN: Button = Button {
    command: "follow-again",
    text: "Follow again",
    label: "Follow again",
    hover: "Follow the recording of which this is a part",
};

/// Draws the bar, if a recording is followed or was followed in part.
pub(super) fn draw_follow_bar(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let bar = match (&app.following, &app.doc) {
        (Some(followed), Some(doc)) => build_following_bar(doc, followed.status(), app.is_at_end(), p),
        (None, Some(doc)) if doc.growth() == GrowthState::Partial => build_partial_bar(doc, p),
        _ => return,
    };
    let frame = Frame::new().fill(p.raised).inner_margin(Margin::symmetric(12, 0));
    Panel::top("following")
        .exact_size(HEIGHT)
        .frame(frame)
        .show(ui, |ui| draw(app, ui, &bar));
}

fn build_following_bar(doc: &Document, status: &FollowStatus, is_at_end: bool, p: &Palette) -> Bar {
    let quiet = status.grown.elapsed();
    let (mark, ink) = match status.phase {
        _ if status.problem.is_some() => ("▲", p.error),
        FollowPhase::Growing if quiet >= STALLED => ("!", p.warning),
        _ => ("●", p.job),
    };
    let verb = match status.phase {
        FollowPhase::Growing => "Following",
        _ => "Finishing",
    };
    let mut parts = vec![number_part(format_elapsed(status.since), p)];
    if let Some(problem) = &status.problem {
        parts.push(text_part(problem.clone(), p.error));
    }
    if status.phase == FollowPhase::Growing && quiet >= QUIET {
        let seconds = text::count(quiet.as_secs());
        let (message, ink) = match quiet >= STALLED {
            false => (format!("no growth for {seconds} s"), p.quiet),
            true => (
                format!("no growth for {seconds} s; its recorder may be gone"),
                p.warning,
            ),
        };
        parts.push(text_part(message, ink));
    }
    let mut counts = status.counts.describe();
    // The counts are ahead of what a reading has derived.
    if let Some(first) = counts.first_mut().filter(|_| doc.len() < status.counts.events) {
        first.push_str(&format!(", {} shown", text::count(doc.len())));
    }
    parts.extend(counts.into_iter().map(|count| number_part(count, p)));
    if let Some(TransferBytes { sent, received }) = status.transfer {
        parts.push(number_part(format!("{} sent", text::bytes(sent)), p));
        parts.push(number_part(format!("{} received", text::bytes(received)), p));
    }
    parts.push(number_part(text::bytes(status.bytes), p));
    // A narrow window has no room for all parts.
    let all: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    let all = all.join(" · ");
    let mut buttons = vec![STOP, SNAPSHOT];
    if !is_at_end {
        buttons.push(END);
    }
    let file = status.file.as_deref().unwrap_or(&doc.path).display();
    Bar {
        mark,
        ink,
        // The name is in the top bar.
        title: verb.to_owned(),
        hover: format!("{file}\n{all}\nThe recorder still writes this file. Edits and replays wait for its end."),
        parts,
        buttons,
    }
}

fn build_partial_bar(doc: &Document, p: &Palette) -> Bar {
    Bar {
        mark: "!",
        ink: p.warning,
        title: "Part of a recording".to_owned(),
        hover: doc.path.display().to_string(),
        parts: vec![
            number_part(text::count_noun(doc.len(), "event", "events"), p),
            text_part(
                "It was not followed to its end, and has no file of its own.".to_owned(),
                p.quiet,
            ),
        ],
        buttons: vec![AGAIN, SNAPSHOT],
    }
}

fn number_part(text: String, p: &Palette) -> Part {
    Part {
        text,
        font: mono(),
        ink: p.quiet,
    }
}

fn text_part(text: String, ink: Color32) -> Part {
    Part {
        text,
        font: body(),
        ink,
    }
}

/// Returns the time since the recording began: `0:42`, `1:02:07`.
fn format_elapsed(since: Option<SystemTime>) -> String {
    let elapsed = since.and_then(|s| s.elapsed().ok()).unwrap_or_default().as_secs();
    let (hours, minutes, seconds) = (elapsed / 3600, elapsed / 60 % 60, elapsed % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Draws the bar: buttons on the right, and as many texts as fit on the left.
fn draw(app: &mut App, ui: &mut Ui, bar: &Bar) {
    let p = palette(ui);
    let full = ui.max_rect();
    ui.painter().hline(
        full.left() - 12.0..=full.right() + 12.0,
        full.bottom() - 0.5,
        Stroke::new(1.0, p.line),
    );
    let mut right = ui.new_child(
        egui::UiBuilder::new()
            .id_salt("buttons")
            .max_rect(full)
            .layout(Layout::right_to_left(Align::Center)),
    );
    for Button {
        command,
        text,
        label,
        hover,
    } in &bar.buttons
    {
        let button = right.button(*text);
        button.widget_info(|| WidgetInfo::labeled(Role::Button, true, *label));
        if button.on_hover_text(app.actions.tooltip(command, hover)).clicked() {
            app.actions.run_command(command);
        }
    }
    let end = right.min_rect().left() - GAP;
    let mut x = full.left();
    let title = text_part(bar.title.clone(), p.text);
    let mark = Part {
        text: bar.mark.to_owned(),
        font: FontId::new(if bar.mark == "●" { 9.0 } else { 12.0 }, body().family),
        ink: bar.ink,
    };
    let title = Part {
        font: strong(),
        ..title
    };
    x += paint(ui, &mark, x, end, full, None) + 6.0;
    x += paint(ui, &title, x, end, full, Some(&bar.hover)) + GAP;
    for part in &bar.parts {
        let width = measure(ui, part);
        // The rest goes, rather than a part of a number. The whole is in the hover text of the title.
        if x + width > end {
            break;
        }
        x += paint(ui, part, x, end, full, None) + GAP;
    }
}

fn measure(ui: &Ui, part: &Part) -> f32 {
    let galley = ui
        .painter()
        .layout_no_wrap(part.text.clone(), part.font.clone(), Color32::WHITE);
    galley.size().x.ceil() + 1.0
}

/// Paints a text at `x`, with its label for assistive technology. Returns its width.
fn paint(ui: &Ui, part: &Part, x: f32, end: f32, full: Rect, hover: Option<&str>) -> f32 {
    let width = measure(ui, part).min((end - x).max(0.0));
    let cell = Rect::from_min_size(pos2(x, full.top()), vec2(width, full.height()));
    let r = ui.interact(cell, ui.scope_id().with(("part", &part.text)), Sense::hover());
    r.widget_info(|| WidgetInfo::labeled(Role::Label, true, &part.text));
    widgets::paint_text(ui, cell, Align2::LEFT_CENTER, &part.text, part.font.clone(), part.ink);
    if let Some(hover) = hover {
        r.on_hover_text(hover);
    }
    width
}

/// Draws the page of a window that waits for a recording.
pub(super) fn draw_waiting(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let Some(followed) = &app.following else { return };
    let (path, status) = (followed.path(), followed.status());
    let name = file_name(path);
    let title = match (&status.phase, &status.file) {
        (FollowPhase::Waiting, _) | (_, None) => format!("Waiting for {name}"),
        _ => format!("{name} holds no events yet"),
    };
    let running = app
        .program
        .as_ref()
        .filter(|shown| shown.run.request().recording == path);
    let (hint, command) = match running {
        Some(shown) => (
            "The window shows the calls as soon as the program makes them.",
            format!("{} on {}", shown.run.request().describe(), shown.run.request().target),
        ),
        None => (
            "The window shows the calls as soon as a recorder writes them, for example:",
            format!("kinescope record --with cuda -o {name} -- PROGRAM"),
        ),
    };
    ui.add_space((ui.available_height() * 0.22).max(24.0));
    ui.vertical_centered(|ui| {
        ui.label(RichText::new(icons::HOURGLASS_SIMPLE_MEDIUM).size(36.0).color(p.quiet));
        ui.add_space(8.0);
        ui.label(RichText::new(title).font(strong()).size(16.0));
        ui.add_space(4.0);
        let folder = path.parent().map(|f| f.display().to_string()).unwrap_or_default();
        ui.label(RichText::new(format!("in {}", text::truncate_middle(&folder, 80))).color(p.quiet))
            .on_hover_text(path.display().to_string());
        if let Some(problem) = &status.problem {
            ui.add_space(8.0);
            ui.label(RichText::new(format!("▲ {problem}")).color(p.error));
        }
        ui.add_space(16.0);
        ui.set_max_width((ui.available_width() - 32.0).clamp(120.0, 640.0));
        ui.add(egui::Label::new(RichText::new(hint).color(p.quiet)).wrap());
        ui.add_space(4.0);
        ui.add(egui::Label::new(RichText::new(command).font(mono()).color(p.text)).wrap());
        ui.add_space(16.0);
        let stop = ui.button(STOP.label);
        let hover = app.actions.tooltip(STOP.command, "Wait for the recording no longer");
        if stop.on_hover_text(hover).clicked() {
            app.actions.run_command(STOP.command);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_times_have_the_digits_of_a_clock() {
        let ago = |seconds| Some(SystemTime::now() - Duration::from_secs(seconds));
        assert_eq!(format_elapsed(ago(42)), "0:42");
        assert_eq!(format_elapsed(ago(605)), "10:05");
        assert_eq!(format_elapsed(ago(3727)), "1:02:07");
        assert_eq!(format_elapsed(None), "0:00");
    }
}
