//! Search in memory for bytes, text, a value, an expression or pointers, off the interface thread.

use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::theme::{body, field, icons, mono, palette, small, widgets};
use egui::{RichText, Ui};
use kinescope_files::scene::Selection;
use kinescope_session::{Document, lookup, pattern, text};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::memory::{Hit, MAX_HITS, SearchError};

/// Draws the search field and the matches.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let width = (ui.available_width() - 150.0).clamp(90.0, 240.0);
    let hint = "search: 0a ff, \"text\", /re/, ->buffer";
    let hint = RichText::new(hint).font(body()).color(p.quiet);
    let id = egui::Id::unique("memory-search");
    let field = field::value(ui, id, "Search memory", &mut view.search, None, |text| {
        egui::TextEdit::singleline(text)
            .font(mono())
            .desired_width(width)
            .hint_text(hint)
    });
    if field.enter {
        start(doc, view, actions);
        if view.wrong.is_some() {
            field.select_all();
        }
    }
    if let Some(w) = &view.wrong {
        let rich_text = RichText::new(format!("▲ {w}")).color(p.error).font(small());
        ui.add(egui::Label::new(rich_text).truncate()).on_hover_text(w);
    } else if let Some((_, progress)) = view.searching.clone() {
        ui.label(RichText::new("searching").font(small()).color(p.quiet));
        if widgets::icon_button(ui, icons::X, "Stop searching").clicked() {
            progress.cancel();
        }
    } else if let Some(hits) = view.hits.clone() {
        if hits.is_empty() {
            ui.label(RichText::new("not found").font(small()).color(p.warning));
            return;
        }
        if widgets::icon_button(ui, icons::CARET_UP, "Previous hit").clicked() {
            go_hit(doc, view, &hits, false);
        }
        if widgets::icon_button(ui, icons::CARET_DOWN, "Next hit").clicked() {
            go_hit(doc, view, &hits, true);
        }
        let n = hits.len();
        let at = match doc.selection() {
            Selection::Memory { va, .. } => hits.binary_search_by_key(va, |h| h.va).ok(),
            _ => None,
        };
        let more = if n >= MAX_HITS { "the first " } else { "" };
        let message = match at {
            Some(i) => format!("{} of {more}{}", text::count(i as u64 + 1), text::count(n as u64)),
            None => format!("{more}{} found", text::count(n as u64)),
        };
        ui.add(egui::Label::new(RichText::new(message).font(small()).color(p.quiet)).truncate());
    }
}

fn go_hit(doc: &mut Document, view: &mut View, hits: &[Hit], forward: bool) {
    let from = match doc.selection() {
        Selection::Memory { va, .. } => *va,
        _ => view.top,
    };
    let hit = if forward {
        let n = hits.partition_point(|h| h.va <= from);
        hits.get(n).or(hits.first())
    } else {
        let n = hits.partition_point(|h| h.va < from);
        n.checked_sub(1).and_then(|n| hits.get(n)).or(hits.last())
    };
    if let Some(h) = hit.copied() {
        view.show(doc, view.space, h.va, h.bytes);
    }
}

fn start(doc: &Document, view: &mut View, actions: &mut UiActions) {
    let pattern = match pattern::parse(&view.search, view.element, &doc.recording.metadata.buffers) {
        Ok(p) => p,
        Err(e) => {
            view.wrong = Some(e.to_string());
            return;
        }
    };
    if let Some((_, old)) = view.searching.take() {
        old.cancel();
    }
    view.searches += 1;
    let id = view.searches;
    view.wrong = None;
    view.hits = None;
    let (recording, space, current_event) = (Arc::clone(&doc.recording), view.space, doc.current_event());
    let path = doc.path.clone();
    let progress = actions.start_work::<View>("searching memory", move |progress| {
        let found = match lookup::memory_at(&recording, space, current_event) {
            Some(memory) => memory.search(&pattern, GpuVa::ZERO..GpuVa::MAX, progress),
            None => Ok(Vec::new()),
        };
        Box::new(move |doc, view, _| {
            // A search that was replaced by another one has no result to show.
            if doc.path != path || view.searching.as_ref().is_none_or(|s| s.0 != id) {
                return;
            }
            view.searching = None;
            match found {
                Ok(hits) => {
                    let hits = Arc::new(hits);
                    view.hits = Some(Arc::clone(&hits));
                    go_hit(doc, view, &hits, true);
                }
                Err(SearchError::Cancelled(_)) => view.wrong = Some("the search was stopped".into()),
                Err(e) => view.wrong = Some(e.to_string()),
            }
        })
    });
    view.searching = Some((id, progress));
}
