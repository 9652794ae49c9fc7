//! The status bar: the moment, what is running and how to stop it, a few keys.

use super::app::App;
use crate::document::Document;
use crate::document::journal::Keeping;
use crate::theme::{icons, mono, palette, text, widgets};
use egui::accesskit::Role;
use egui::{Align, Layout, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, vec2};

/// Draws the status bar.
pub(super) fn status(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let full = ui.max_rect();
    ui.painter().hline(
        full.left() - 12.0..=full.right() + 12.0,
        full.top() + 0.5,
        Stroke::new(1.0, p.line),
    );
    ui.horizontal_centered(|ui| {
        if let Some(doc) = &app.doc
            && !doc.is_empty()
        {
            let m = doc.moment();
            let thread = doc
                .recording
                .events
                .thread
                .get(usize::try_from(m).unwrap_or(0))
                .unwrap_or(0);
            let told = format!("event {} of {}", text::count(m), text::count(doc.len()));
            ui.label(RichText::new(told).font(mono()).color(p.quiet));
            ui.label(RichText::new(text::seconds(doc.ns(m))).font(mono()).color(p.quiet));
            if thread != 0 {
                ui.label(RichText::new(format!("thread {thread}")).color(p.quiet));
            }
            if !doc.changes().inputs().is_empty() {
                ui.label(RichText::new(format!("● {} edited", doc.changes().inputs().len())).color(p.edited));
            }
        }
        kept(app, ui);
        running(app, ui);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            let cap = |id: &str| app.keys.of(id).first().map(|s| s.text());
            let caps = |ids: &[&str]| ids.iter().filter_map(|id| cap(id)).collect::<Vec<_>>();
            let mut shown = vec![(caps(&["help"]), "all keys", "help")];
            // Without a recording there is nothing to step through.
            if let Some(doc) = &app.doc {
                shown.push((caps(&["numbers"]), doc.numbers.name(), "numbers"));
                shown.push((caps(&["previous-event", "next-event"]), "step", ""));
                let moves = caps(&["zoom-in", "pan-left", "zoom-out", "pan-right"]);
                // Letters stand together as they do on a keyboard.
                let together = moves.iter().all(|m| m.chars().count() == 1);
                shown.push((if together { vec![moves.join(" ")] } else { moves }, "move", ""));
            }
            if app.sides.folded && app.tasks.running().is_empty() {
                shown.push((caps(&["toggle-inspector"]), "inspector", "toggle-inspector"));
            }
            for (keys, word, id) in shown {
                let r = ui.add(egui::Label::new(RichText::new(word).color(p.quiet)).sense(Sense::click()));
                if id == "numbers" {
                    r.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Values in {word}")));
                }
                if !id.is_empty() && r.clicked() {
                    app.asks.command(id);
                }
                if id == "numbers" {
                    r.on_hover_text("values are written so; a click goes to the next of hex, decimal, float, binary");
                }
                for k in &keys {
                    widgets::key_cap(ui, k);
                }
            }
        });
    });
}

/// Says where the edits are, as long as they are not beside the recording.
fn kept(app: &App, ui: &mut Ui) {
    let p = palette(ui);
    match app.doc.as_ref().map(Document::keeping) {
        Some(Keeping::Nowhere(u)) => {
            let words = RichText::new("▲ edits not kept").color(p.error);
            let more = format!("{}\nThey are tried again every second.", u.why);
            ui.label(words).on_hover_text(more);
        }
        Some(Keeping::Elsewhere { path, why }) => {
            let words = RichText::new("! edits kept in the settings").color(p.warning);
            ui.label(words).on_hover_text(format!("{}\n{why}", path.display()));
        }
        Some(Keeping::Beside) | None => {}
    }
}

fn running(app: &App, ui: &mut Ui) {
    let p = palette(ui);
    let Some(r) = app
        .tasks
        .running()
        .iter()
        .find(|r| r.since.elapsed().as_millis() >= 100)
    else {
        return;
    };
    ui.add_space(24.0);
    ui.label(RichText::new(text::middle(&r.title, 44)).color(p.quiet));
    let (rect, response) = ui.allocate_exact_size(vec2(110.0, 6.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::ProgressIndicator, true, &r.title));
    ui.painter().rect_filled(rect, 3.0, p.raised);
    if let Some(f) = r.progress.fraction() {
        let done = Rect::from_min_size(rect.min, vec2(rect.width() * f, rect.height()));
        ui.painter().rect_filled(done, 3.0, p.read);
        ui.label(RichText::new(format!("{:.0} %", f * 100.0)).font(mono()).color(p.quiet));
    }
    let others = app.tasks.running().len() - 1;
    if others > 0 {
        ui.label(RichText::new(format!("and {others} more")).color(p.quiet));
    }
    if widgets::icon_button(ui, icons::X, "Stop").clicked() {
        r.progress.cancel();
    }
}
