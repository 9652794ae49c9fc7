//! Times from the events of one filter to those of another: a histogram and figures.

use super::bars;
use super::results::{IntervalResult, IntervalsKey};
use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::theme::widgets::{self, StyledText};
use crate::theme::{icons, mono, palette, small};
use egui::{Key as Press, RichText, Ui};
use kinescope_session::{Document, lanes, text};
use std::sync::Arc;
use trace_core::filter::{Query, Selection};
use trace_core::progress::Progress;
use trace_query::IntervalStatistics;

/// Width of the figures, points.
const FIGURES: f32 = 260.0;

/// Formats a time difference, which may be negative.
fn time(doc: &Document, n: i64) -> String {
    let sign = if n < 0 { "-" } else { "" };
    format!("{sign}{}", doc.format_interval(n.unsigned_abs()))
}

/// Draws fields, chart and figures.
pub(super) fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let mut now = false;
    ui.horizontal(|ui| {
        let width = ((ui.available_width() - 150.0) / 2.0).clamp(100.0, 320.0);
        for (text, word, hint, name) in [
            (&mut view.from, "from", "submit", "From events that pass"),
            (&mut view.to, "to", "irq.line = job", "To events that pass"),
        ] {
            ui.label(RichText::new(word).color(p.quiet));
            let hint = RichText::new(hint).font(mono()).color(p.quiet);
            let edit = egui::TextEdit::singleline(text).font(mono()).hint_text(hint);
            let r = ui.add(edit.desired_width(width)).accessible_name(name);
            now |= r.lost_focus() && ui.input(|i| i.key_pressed(Press::Enter));
        }
        now |= ui.button("Measure").clicked();
    });
    let key: IntervalsKey = (view.from.trim().to_owned(), view.to.trim().to_owned());
    let empty = key.0.is_empty() || key.1.is_empty();
    if now && !empty && doc.can_filter() {
        measure(doc, view, actions, &key);
    }
    if let Some(why) = view.between.error(&key) {
        let rich_text = RichText::new(format!("▲ {why}")).color(p.error).font(small());
        ui.add(egui::Label::new(rich_text).wrap());
        return;
    }
    let Some(m) = view.between.result(&key).cloned() else {
        if view.between.is_for(&key) {
            ui.label(RichText::new("measuring…").color(p.quiet));
            return;
        }
        let message = if empty {
            "Enter two filters to measure the time from each event that passes the first to the next one that passes \
             the second."
        } else {
            "Press Enter to measure the time from the first to the second."
        };
        let example = empty.then_some("From submits to job interrupts");
        if widgets::empty_state(ui, icons::CLOCK, message, example) {
            view.from = "submit".into();
            view.to = "irq.line = job".into();
            let key = (view.from.clone(), view.to.clone());
            if doc.can_filter() {
                measure(doc, view, actions, &key);
            }
        }
        return;
    };
    if m.0.times_or_ticks().is_none() {
        let message = "No event that passes the first filter is followed by one that passes the second.";
        widgets::empty_state(ui, icons::CLOCK, message, None);
        return;
    }
    let mut go = None;
    bars::split(ui, FIGURES, |left, right| {
        draw(doc, left, &m.0);
        go = figures(doc, right, &m.0);
    });
    if let Some(e) = go {
        doc.go(e);
    }
}

fn measure(doc: &Document, view: &mut View, actions: &mut UiActions, key: &IntervalsKey) {
    let (recording, derived, mine) = (Arc::clone(&doc.recording), Arc::clone(&doc.derived), key.clone());
    let progress = actions.start_work::<View>("measuring times between events", move |progress: &Progress| {
        let select = |text: &str, which: &str| -> Result<Selection, String> {
            let wrong = |e| format!("{which}: {e}");
            let query = Query::parse(text).map_err(wrong)?;
            let found = lanes::search(&query, &recording, &derived, progress).map_err(wrong)?;
            found.map_err(|_| "The measurement was stopped; press Enter to measure again.".to_owned())
        };
        let found = select(&mine.0, "from").and_then(|from| {
            let to = select(&mine.1, "to")?;
            Ok(trace_query::measure_intervals(&recording, &from, &to))
        });
        let own = progress.clone();
        Box::new(move |_, view, _| view.between.finish(mine, &own, found.map(IntervalResult)))
    });
    view.between.start(key.clone(), progress);
}

fn draw(doc: &Document, ui: &mut Ui, b: &IntervalStatistics) {
    let p = palette(ui);
    let list: Vec<bars::ChartBar> = b
        .bins
        .iter()
        .map(|bin| bars::ChartBar {
            height: bin.count as f64,
            short: time(doc, bin.from),
            hover_text: format!(
                "{} to {}\n{}",
                time(doc, bin.from),
                time(doc, bin.to),
                text::count_noun(bin.count, "time", "times")
            ),
        })
        .collect();
    bars::chart(ui, "Times between", &list, p.job, None, bars::format_integer);
}

/// Draws the figures; returns the event that is clicked.
fn figures(doc: &Document, ui: &mut Ui, b: &IntervalStatistics) -> Option<u64> {
    let t = b.times_or_ticks()?;
    let mut go = None;
    let real = |ns: f64| time(doc, ns.round() as i64);
    widgets::key_value(ui, "count", StyledText::mono(text::count(b.count)));
    widgets::key_value(ui, "median", StyledText::mono(real(t.median)));
    widgets::key_value(ui, "mean", StyledText::mono(real(t.mean)));
    widgets::key_value(ui, "99 %", StyledText::mono(real(t.p99)));
    for (word, ns, ends) in [("shortest", t.min, t.shortest), ("longest", t.max, t.longest)] {
        widgets::key_value(ui, word, StyledText::mono(time(doc, ns)));
        for (word, event) in [("  from", ends.from), ("  to", ends.to)] {
            if widgets::key_link(ui, word, &format!("event {}", text::count(event))).clicked() {
                go = Some(event);
            }
        }
    }
    if b.repeated > 0 {
        let message = format!(
            "{} before the previous one ended",
            text::count_noun(b.repeated, "start", "starts")
        );
        widgets::key_wrapped(ui, "repeated", StyledText::body(message));
    }
    if b.strays > 0 {
        let message = format!("{} without a start", text::count_noun(b.strays, "end", "ends"));
        widgets::key_wrapped(ui, "unmatched", StyledText::body(message));
    }
    if let Some(e) = b.open
        && widgets::key_link(ui, "not ended", &format!("event {}", text::count(e))).clicked()
    {
        go = Some(e);
    }
    go
}
