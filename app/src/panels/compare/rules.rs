//! Rules of a comparison (what it ignores, tolerances) as text, one rule a line, in the file format of rules.

use super::style::SIDE;
use super::view::View;
use crate::panels::common::actions::{UiAction, UiActions};
use crate::theme::{mono, palette, small};
use egui::accesskit::Role;
use egui::text::{LayoutJob, TextFormat};
use egui::{Key, Modifiers, RichText, Stroke, Ui, WidgetInfo};
use kinescope_session::comparison::Comparison;
use kinescope_session::{Document, text};
use std::sync::Arc;
use trace_core::diff::{Rule, RuleError, Rules};

const EXAMPLES: &str = "ignore register FLUSH_ID          # the values of a register, * for any text\n\
ignore register JS*_CONFIG field start_flush\n\
ignore events interrupt           # a kind of events\n\
ignore buffer scratch             # what a buffer holds\n\
ignore memory 0:0x1000..0x2000    # addresses of an address space\n\
ignore mappings\n\
tolerance buffer output absolute 1e-6 relative 1e-4 ulp 2";

/// Compares again by the rules in the field. Returns `false` if the rules cannot be parsed.
pub fn apply(doc: &mut Document, view: &mut View, actions: &mut UiActions) -> bool {
    match view.rules.text.parse::<Rules>() {
        Ok(rules) => {
            view.rules.wrong = None;
            doc.comparison.rules = Arc::new(rules);
            if let Some(c) = &doc.comparison.done {
                actions.push(UiAction::Compare(c.other.source.clone()));
            }
            true
        }
        Err(e) => {
            view.rules.wrong = Some(e);
            false
        }
    }
}

/// Appends a rule and compares again.
pub fn add(doc: &mut Document, view: &mut View, actions: &mut UiActions, rule: &Rule) {
    let text = &mut view.rules.text;
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    *text += &format!("{rule}\n");
    apply(doc, view, actions);
}

/// Returns the byte offset of the character at the line and column of an error.
fn byte_at(text: &str, e: &RuleError) -> usize {
    let mut at = 0;
    for line in text.split_inclusive('\n').take(e.line.saturating_sub(1)) {
        at += line.len();
    }
    let line = text.get(at..).unwrap_or_default();
    let end = line.find('\n').unwrap_or(line.len());
    let within = line.char_indices().nth(e.column.saturating_sub(1)).map_or(end, |c| c.0);
    at + within.min(end)
}

/// Lays out the text with the wrong location underlined.
fn layout_text(ui: &Ui, text: &str, wrong: Option<usize>, width: f32) -> LayoutJob {
    let p = palette(ui);
    let plain = TextFormat::simple(mono(), p.text);
    let mut job = LayoutJob {
        wrap: egui::text::TextWrapping::wrap_at_width(width),
        ..LayoutJob::default()
    };
    let Some(at) = wrong.filter(|at| *at < text.len()) else {
        job.append(text, 0.0, plain);
        return job;
    };
    let rest = text.get(at..).unwrap_or_default();
    let len = rest.find(|c: char| c.is_whitespace()).unwrap_or(rest.len()).max(1);
    let (before, from) = text.split_at(at);
    let len = (len..=from.len())
        .find(|n| from.is_char_boundary(*n))
        .unwrap_or(from.len());
    let (word, behind) = from.split_at(len);
    job.append(before, 0.0, plain.clone());
    let marked = TextFormat {
        color: p.error,
        underline: Stroke::new(1.5, p.error),
        ..plain.clone()
    };
    job.append(word, 0.0, marked);
    job.append(behind, 0.0, plain);
    job
}

/// Draws the field and its buttons.
pub(super) fn ui(doc: &mut Document, c: &Comparison, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let same = view.rules.text.parse::<Rules>().is_ok_and(|r| r == *c.rules);
    ui.horizontal(|ui| {
        ui.add_space(SIDE);
        let apply_it = ui
            .add_enabled(!same, egui::Button::new("Compare with these rules"))
            .on_hover_text("Shift Enter");
        if apply_it.clicked() {
            apply(doc, view, actions);
        }
        if ui
            .button("Open…")
            .on_hover_text("Replaces these rules with the rules of a file")
            .clicked()
        {
            actions.run_command("open-rules");
        }
        let some = !view.rules.text.trim().is_empty();
        if ui.add_enabled(some, egui::Button::new("Save…")).clicked() {
            actions.run_command("save-rules");
        }
        let words = match &view.rules.wrong {
            Some(e) => e.to_string(),
            None if same => match c.rules.list.len() as u64 {
                0 => "No rule is in force.".into(),
                n => format!("{} in force.", text::count_noun(n, "rule", "rules")),
            },
            None => "The rules have changed: compare again to apply them.".into(),
        };
        let ink = if view.rules.wrong.is_some() { p.error } else { p.quiet };
        let r = ui.label(RichText::new(&words).font(small()).color(ink));
        r.widget_info(|| WidgetInfo::labeled(Role::Status, true, words.clone()));
    });
    let wrong = view.rules.wrong.as_ref().map(|e| byte_at(&view.rules.text, e));
    let room = ui.available_rect_before_wrap().shrink2(egui::vec2(SIDE, 4.0));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(room));
    egui::ScrollArea::vertical().auto_shrink(false).show(&mut child, |ui| {
        let mut layouter = |ui: &Ui, buffer: &dyn egui::TextBuffer, width: f32| {
            let job = layout_text(ui, buffer.as_str(), wrong, width);
            ui.fonts_mut(|f| f.layout_job(job))
        };
        // The key is taken before the field reads it as a new line.
        let id = egui::Id::unique("comparison-rules");
        let focused = ui.memory(|m| m.has_focus(id));
        let now = focused && ui.input_mut(|i| i.consume_key(Modifiers::SHIFT, Key::Enter));
        let field = egui::TextEdit::multiline(&mut view.rules.text)
            .id(id)
            .desired_width(f32::INFINITY)
            .desired_rows(8)
            .hint_text(RichText::new(EXAMPLES).font(mono()).color(p.quiet))
            .layouter(&mut layouter);
        let r = ui.add(field).accessible_name("Comparison rules");
        if r.changed() {
            view.rules.wrong = None;
        }
        if now && !same {
            apply(doc, view, actions);
        }
    });
    ui.advance_cursor_after_rect(room);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_errors_give_their_byte_offset() {
        let text = "ignore mappings\n# größer\nignore buffr x\n";
        let e = text.parse::<Rules>().unwrap_err();
        assert_eq!(&text[byte_at(text, &e)..][..5], "buffr");
        let end = "ignore\n";
        let e = end.parse::<Rules>().unwrap_err();
        assert_eq!(
            byte_at(end, &e),
            6,
            "the offset is the end of the line, not of the text"
        );
    }
}
