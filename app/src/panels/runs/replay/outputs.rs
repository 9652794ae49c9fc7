//! Outputs of the replay next to the recorded ones: whether they match, the first mismatch, the first values.

use super::text_lines::wrapped_text;
use crate::panels::common::actions::{UiAction, UiActions};
use crate::theme::{mono, palette, small, widgets};
use egui::accesskit::Role;
use egui::{Align2, Button, Color32, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::scene::Selection;
use kinescope_files::values;
use kinescope_session::output_diff::{MAX_SHOWN_ELEMENTS, OutputDiff};
use kinescope_session::{Document, text};
use replay_engine::plan::RewriteKind;
use replay_engine::run::{Outcome, OutputBuffer, Verdict};
use trace_core::recording::ElementType;

/// Width below which bars have less room for numbers, points.
const NARROW: f32 = 220.0;

pub(super) fn draw(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, o: &Outcome) {
    let edited = is_edited(doc, o);
    let whose = match doc.is_edited_copy {
        true => "with the edits of this copy",
        false => "with your edits",
    };
    for out in &o.outputs {
        let n = out.data.len() / out.element.bytes().max(1);
        ui.add_space(8.0);
        let words = format!("output {} · {} {}", out.name, out.element.name(), text::count(n as u64));
        ui.horizontal_wrapped(|ui| {
            if widgets::link(ui, &format!("Output {}", out.name), &words).clicked() {
                doc.select(Selection::Buffer(out.name.clone()));
                actions.run_command("show-inputs");
            }
            let save = ui.add(Button::new(RichText::new("Save…").font(small())).small());
            let save = save.accessible_name(format!("Save output {}…", out.name));
            if save
                .on_hover_text("Saves what the replay left here, as raw bytes or NPY.")
                .clicked()
            {
                actions.push(UiAction::SaveOutput(out.name.clone()));
            }
        });
        let diff = doc.replay.output_diffs.iter().find(|c| c.name == out.name).cloned();
        if let Some(c) = &diff {
            let (words, colour) = match o.computed {
                true => describe_result(ui, c, edited.then_some(whose)),
                false => ("! not compared: not computed".to_owned(), palette(ui).warning),
            };
            wrapped_text(ui, words, colour);
        }
        let is_free = edited && diff.as_ref().is_none_or(|d| d.expected_from.is_none());
        bars(ui, out, diff.as_ref(), is_free);
    }
}

/// Returns whether the replay succeeded with the user's inputs, so that outputs are expected to differ from the
/// recorded ones. The inputs were edited here, or in the copy that is open.
pub fn is_edited(doc: &Document, o: &Outcome) -> bool {
    let well = o.computed && o.verdict == Verdict::Match;
    well && (doc.is_edited_copy || o.rewrites.get(&RewriteKind::Input).is_some_and(|n| *n > 0))
}

/// Returns the verdict on an output and its colour. `edited`: whose edits the replay used, if any.
fn describe_result(ui: &Ui, c: &OutputDiff, edited: Option<&str>) -> (String, Color32) {
    let p = palette(ui);
    if c.unknown == c.elements {
        let message = "the recording does not hold the final content of this output, so there is nothing to compare \
                       with";
        return (message.into(), p.quiet);
    }
    let known = c.elements - c.unknown;
    if let Some(file) = &c.expected_from {
        return match c.first {
            None => (
                format!("as expected by {file}, all {} elements", text::count(known)),
                p.job,
            ),
            Some(first) => (
                format!(
                    "▲ {} of {} elements differ from {file}, the first is [{}]",
                    text::count(c.differ),
                    text::count(known),
                    text::count(first)
                ),
                p.error,
            ),
        };
    }
    let part = match c.unknown {
        0 => String::new(),
        n => format!("; {} are not in the recording", text::count(n)),
    };
    match c.first {
        None => (format!("as recorded, all {} elements{part}", text::count(known)), p.job),
        Some(first) => match edited {
            Some(edits) => (
                format!(
                    "{edits} {} of {} elements differ from the recording{part}",
                    text::count(c.differ),
                    text::count(known)
                ),
                p.edited,
            ),
            None => (
                format!(
                    "▲ {} of {} elements differ from the recording, the first is [{}]{part}",
                    text::count(c.differ),
                    text::count(known),
                    text::count(first)
                ),
                p.error,
            ),
        },
    }
}

/// Formats a value for the user; long values would overlap the bar.
fn number(element: ElementType, bytes: &[u8], v: f64) -> String {
    let whole = values::format_element(element, bytes);
    if v.fract() == 0.0 && whole.len() <= 10 {
        whole
    } else if v.abs() >= 1e6 || (v != 0.0 && v.abs() < 1e-3) {
        format!("{v:.4e}")
    } else {
        format!("{v:.4}")
    }
}

/// Draws bars of the first values, with a mark at the recorded value. `edited`: a difference is no error.
pub fn bars(ui: &mut Ui, out: &OutputBuffer, diff: Option<&OutputDiff>, edited: bool) {
    let p = palette(ui);
    let element: ElementType = out.element;
    let list: Vec<f64> = out
        .data
        .chunks_exact(element.bytes().max(1))
        .take(MAX_SHOWN_ELEMENTS)
        .filter_map(|c| values::element_f64(element, c))
        .collect();
    let recorded = |i: usize| -> Option<f64> {
        let bytes = diff?.recorded.get(i)?.as_ref()?;
        values::element_f64(element, bytes)
    };
    let max = (0..list.len())
        .flat_map(|i| [list.get(i).copied(), recorded(i)])
        .flatten()
        .filter(|v| v.is_finite())
        .fold(0.0_f64, |a, v| a.max(v.abs()));
    if max == 0.0 {
        let words = "all of the first values are zero";
        ui.label(RichText::new(words).font(small()).color(p.quiet));
        return;
    }
    let best = list.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|x| x.0);
    let signed = list.iter().any(|v| *v < 0.0);
    let each = out.data.chunks_exact(element.bytes().max(1));
    // At the side of a list there is less room for numbers.
    let (names, numbers) = if ui.available_width() < NARROW {
        (18.0, 82.0)
    } else {
        (28.0, 104.0)
    };
    for (i, (v, bytes)) in list.iter().zip(each).enumerate() {
        let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), 16.0), Sense::hover());
        r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("output value {i} {v}")));
        let y = rect.center().y;
        let was = recorded(i);
        let differs = was.is_some_and(|w| w.to_bits() != v.to_bits());
        let wrong = differs && !edited;
        let ink = match (wrong, best == Some(i)) {
            (true, _) => p.error,
            (_, true) => p.job,
            _ => p.text,
        };
        ui.painter()
            .text(pos2(rect.left(), y), Align2::LEFT_CENTER, i.to_string(), mono(), ink);
        let message = format!("{}{}", if wrong { "▲ " } else { "" }, number(element, bytes, *v));
        let right = if wrong { p.error } else { p.quiet };
        ui.painter()
            .text(pos2(rect.right(), y), Align2::RIGHT_CENTER, message, mono(), right);
        let (a, b) = (
            rect.left() + names,
            (rect.right() - numbers).max(rect.left() + names + 12.0),
        );
        let zero = if signed { (a + b) / 2.0 } else { a };
        let x = |v: f64| zero + (b - zero) * (v / max) as f32;
        let bar = Rect::from_min_max(
            pos2(zero.min(x(*v)), y - 5.0),
            pos2(zero.max(x(*v)).max(zero.min(x(*v)) + 1.0), y + 5.0),
        );
        let colour = match (best == Some(i), *v < 0.0) {
            (true, _) => p.job,
            (_, true) => p.poll,
            _ => p.read,
        };
        ui.painter().rect_filled(bar, 2.0, colour);
        if let Some(w) = was.filter(|_| differs) {
            ui.painter().vline(x(w), y - 7.0..=y + 7.0, Stroke::new(1.0, p.text));
            let word = diff.map_or("recorded", |d| {
                if d.expected_from.is_some() {
                    "expected"
                } else {
                    "recorded"
                }
            });
            r.on_hover_text(format!("{v}, {word} {w}"));
        } else {
            r.on_hover_text(v.to_string());
        }
    }
}
