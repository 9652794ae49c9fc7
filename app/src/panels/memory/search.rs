//! Searching memory for bytes, text or a value, apart from the interface thread.

use super::view::View;
use crate::document::moment::Selection;
use crate::document::{Document, lookup, values};
use crate::panels::desk::Asks;
use crate::theme::{body, field, icons, mono, palette, small, text, widgets};
use egui::{RichText, Ui};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::memory::SearchError;
use trace_core::recording::ElementType;

/// Places that a search gives at most.
const MOST: usize = 100_000;

/// The search field and what was found.
pub fn ui(doc: &mut Document, view: &mut View, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    let width = (ui.available_width() - 150.0).clamp(90.0, 240.0);
    let hint = "search: 0a ff, \"text\", f32:1.5";
    let hint = RichText::new(hint).font(body()).color(p.quiet);
    let id = egui::Id::unique("memory-search");
    let field = field::value(ui, id, "Search memory", &mut view.search, None, |text| {
        egui::TextEdit::singleline(text)
            .font(mono())
            .desired_width(width)
            .hint_text(hint)
    });
    if field.enter {
        start(doc, view, asks);
        if view.wrong.is_some() {
            field.take();
        }
    }
    if let Some(w) = &view.wrong {
        let told = RichText::new(format!("▲ {w}")).color(p.error).font(small());
        ui.add(egui::Label::new(told).truncate()).on_hover_text(w);
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
            Selection::Memory { va, .. } => hits.binary_search(va).ok(),
            _ => None,
        };
        let more = if n >= MOST { "the first " } else { "" };
        let told = match at {
            Some(i) => format!("{} of {more}{}", text::count(i as u64 + 1), text::count(n as u64)),
            None => format!("{more}{} found", text::count(n as u64)),
        };
        ui.add(egui::Label::new(RichText::new(told).font(small()).color(p.quiet)).truncate());
    }
}

fn go_hit(doc: &mut Document, view: &mut View, hits: &[u64], forward: bool) {
    let from = match doc.selection() {
        Selection::Memory { va, .. } => *va,
        _ => view.top,
    };
    let hit = if forward {
        let n = hits.partition_point(|h| *h <= from);
        hits.get(n).or(hits.first())
    } else {
        let n = hits.partition_point(|h| *h < from);
        n.checked_sub(1).and_then(|n| hits.get(n)).or(hits.last())
    };
    if let Some(h) = hit.copied() {
        view.show(doc, view.space, h, view.hit_bytes.max(1));
    }
}

/// The bytes that a search's text means: `"text"` in quotes, `TYPE:VALUE`, a value where memory is viewed as elements,
/// else hex digits.
#[must_use]
pub fn pattern(text: &str, element: Option<ElementType>) -> Option<Vec<u8>> {
    let t = text.trim();
    let typed = t.split_once(':').and_then(|(name, value)| {
        let e = ElementType::ALL.into_iter().find(|e| e.name() == name.trim())?;
        Some((e, value))
    });
    let out = match (t.strip_prefix('"'), typed, element) {
        (Some(rest), ..) => rest.strip_suffix('"').unwrap_or(rest).as_bytes().to_vec(),
        (None, Some((e, value)), _) => values::parse_element(e, value).ok()?,
        (None, None, Some(e)) => values::parse_element(e, t).ok()?,
        (None, None, None) => values::parse_hex(t.strip_prefix("0x").unwrap_or(t))?,
    };
    Some(out).filter(|b| !b.is_empty())
}

fn start(doc: &Document, view: &mut View, asks: &mut Asks) {
    let Some(bytes) = pattern(&view.search, view.element) else {
        let told = match view.element {
            Some(e) => format!("write a value of type {}, or text in quotes", e.name()),
            None => "write bytes as hex digits, or text in quotes".into(),
        };
        view.wrong = Some(told);
        return;
    };
    if let Some((_, old)) = view.searching.take() {
        old.cancel();
    }
    view.searches += 1;
    let id = view.searches;
    view.wrong = None;
    view.hits = None;
    view.hit_bytes = bytes.len() as u64;
    let (recording, space, moment) = (Arc::clone(&doc.recording), view.space, doc.moment());
    let path = doc.path.clone();
    let progress = asks.work("searching memory", move |progress| {
        let found = match lookup::memory_at(&recording, space, moment) {
            Some(memory) => memory.search(&bytes, GpuVa(0)..GpuVa(u64::MAX), progress),
            None => Ok(Vec::new()),
        };
        Box::new(move |desk| {
            let view = &mut desk.views.memory;
            // A search that another one took the place of has nothing to tell.
            if desk.doc.path != path || view.searching.as_ref().is_none_or(|s| s.0 != id) {
                return;
            }
            view.searching = None;
            match found {
                Ok(hits) => {
                    let hits: Arc<Vec<u64>> = Arc::new(hits.into_iter().map(|h| h.0).collect());
                    view.hits = Some(Arc::clone(&hits));
                    go_hit(desk.doc, view, &hits, true);
                }
                Err(SearchError::Cancelled(_)) => view.wrong = Some("the search was stopped".into()),
                Err(e) => view.wrong = Some(e.to_string()),
            }
        })
    });
    view.searching = Some((id, progress));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_for_bytes_text_or_a_value() {
        assert_eq!(pattern("0a ff", None), Some(vec![10, 255]));
        assert_eq!(pattern("\"ab\"", None), Some(b"ab".to_vec()));
        assert_eq!(pattern("0x10", None), Some(vec![16]));
        assert_eq!(pattern("f32:1", None), Some(1f32.to_le_bytes().to_vec()));
        assert_eq!(pattern("f16: -2", None), Some(vec![0, 0xc0]));
        assert_eq!(pattern("10", Some(ElementType::U16)), Some(vec![10, 0]));
        assert_eq!(pattern("\"10\"", Some(ElementType::U16)), Some(b"10".to_vec()));
        assert_eq!(pattern("", None), None);
        assert_eq!(pattern("xyz", None), None);
        assert_eq!(pattern("300", Some(ElementType::U8)), None);
    }
}
