//! Who wrote the selected byte: a copy or a fill for certain, or the launches that may have.

use super::state_words;
use super::view::Side;
use crate::document::Document;
use crate::document::called;
use crate::document::moment::Selection;
use crate::panels::desk::Asks;
use crate::theme::widgets::{self, Part};
use crate::theme::{palette, small, text};
use egui::{RichText, Ui};
use std::sync::Arc;
use trace_core::calls::{BufferKind, Calls, Who, Writer};

/// Launches that are listed.
const MOST: usize = 12;

/// What an answer is of: the calls, the byte, the event before which it holds.
type Key = (usize, u64, u64);

/// The answer, found once for each byte and moment.
fn answer(doc: &Document, ui: &Ui, calls: &Arc<Calls>, va: u64, event: u64) -> Arc<Who> {
    let id = egui::Id::unique("who wrote the byte");
    let key: Key = (Arc::as_ptr(calls) as usize, va, event);
    let kept: Option<(Key, Arc<Who>)> = ui.data(|d| d.get_temp(id));
    if let Some((_, who)) = kept.filter(|k| k.0 == key) {
        return who;
    }
    let who = Arc::new(calls.who(&doc.recording, va, event));
    ui.data_mut(|d| d.insert_temp(id, (key, Arc::clone(&who))));
    who
}

/// Draws it for the first selected byte, as the inspector shows it too. `side`: which side of the moment Memory shows;
/// of both it is told as it stands behind it.
pub fn who(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, side: Side) {
    let (Some(calls), Selection::Memory { va, bytes, .. }) = (doc.called(), doc.selection().clone()) else {
        return;
    };
    let p = palette(ui);
    ui.spacing_mut().item_spacing.y = 0.0;
    let (event, when) = match side {
        Side::Before => (doc.moment(), "before"),
        Side::After | Side::Both => (doc.moment().saturating_add(1), "after"),
    };
    let who = answer(doc, ui, &calls, va, event);
    widgets::section(ui, "Memory");
    let name = match who.place {
        Some(place) => calls.buffers().place_words(place),
        None => "no buffer at the moment".to_owned(),
    };
    let row = widgets::key_value(ui, "place", Part::mono(&name));
    widgets::copies(&row, &[("name", name.clone()), ("address", format!("{va:#x}"))]);
    widgets::key_value(ui, "address", Part::mono(format!("{va:#x}")));
    if bytes > 1 {
        widgets::key_value(ui, "selected", Part::mono(text::counted(bytes, "byte", "bytes")));
    }
    if let Some(b) = who.place.and_then(|p| calls.buffers().get(p.buffer)) {
        let told = format!("{}, {}", text::bytes(b.bytes), b.kind.name());
        widgets::key_value(ui, "buffer", Part::words(told));
        if b.kind != BufferKind::Variable
            && b.kind != BufferKind::Before
            && widgets::key_link(ui, "taken", &format!("event {}", text::count(b.from))).clicked()
        {
            doc.go_following(b.from);
        }
    }
    input(doc, asks, ui, va);
    widgets::key_value(
        ui,
        "as it is",
        Part::words(format!("{when} event {}", text::count(doc.moment()))),
    );
    match who.byte {
        Some(b) => {
            widgets::key_value(ui, "byte", Part::mono(format!("{b:#04x}")));
        }
        None => {
            widgets::key_value(ui, "byte", Part::words("not known").colour(p.quiet));
        }
    }
    widgets::key_wrapped(ui, "known", Part::words(state_words(&calls, who.state)).colour(p.quiet));
    writers(doc, asks, ui, &calls, &who);
}

/// The input that the byte was given with, which may be edited.
fn input(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, va: u64) {
    let Some((name, by)) = doc.buffers.input_at(0, va).map(|(b, by)| (b.name.clone(), by)) else {
        return;
    };
    let edited = doc.changes().inputs().get(&name).is_some_and(|e| e.touches(by));
    let mark = if edited { "● " } else { "" };
    let r = widgets::key_link(ui, "input", &format!("{mark}{name} + {by:#x}"));
    if r.on_hover_text("shows the values of the input, to edit them").clicked() {
        doc.select(Selection::Buffer(name));
        asks.command("show-inputs");
    }
}

fn writers(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, calls: &Calls, who: &Who) {
    let p = palette(ui);
    widgets::section(ui, "Who wrote it");
    let quiet = |ui: &mut Ui, told: String| {
        ui.add(egui::Label::new(RichText::new(told).font(small()).color(p.quiet)).wrap());
    };
    for t in who.launches.iter().take(MOST) {
        let Some(l) = calls.launches().get(t.launch as usize) else {
            continue;
        };
        let name = called::short(calls.function_name(l.function));
        let key = if t.reach.is_certain() { "may have" } else { "possibly" };
        let r = widgets::key_link(ui, key, &format!("launch {} {name}", text::count(u64::from(t.launch))));
        let told = format!(
            "event {} · {}\n{}",
            text::count(t.event),
            t.reach.words(),
            calls.function_name(l.function)
        );
        if r.on_hover_text(told).clicked() {
            doc.go_following(t.event);
        }
    }
    if who.launches.len() > MOST {
        quiet(
            ui,
            format!(
                "and {} launches before these",
                text::count((who.launches.len() - MOST) as u64)
            ),
        );
    }
    if let Some((event, writer)) = who.certain {
        let what = match writer {
            Writer::Copy => "copy from the host".to_owned(),
            Writer::Fill => "fill".to_owned(),
            Writer::CopyFrom(at) => format!("copy of {}", calls.buffers().words(at, event)),
        };
        let r = widgets::key_link(ui, "for certain", &format!("event {}, {what}", text::count(event)));
        if r.on_hover_text(called::means(calls, &doc.recording, event)).clicked() {
            doc.go_following(event);
        }
        if let Writer::CopyFrom(at) = writer {
            let r = widgets::key_link(ui, "it came from", &calls.buffers().words(at, event));
            if r.on_hover_text("goes to the copy, with the byte selected that it copied")
                .clicked()
            {
                doc.go_with(
                    event,
                    Selection::Memory {
                        space: 0,
                        va: at,
                        bytes: 1,
                    },
                );
                asks.command("show-memory");
            }
        }
    } else if who.launches.is_empty() {
        let told = match who.taken {
            Some(e) => format!("nobody since it was taken at event {}", text::count(e)),
            None if who.place.is_some() => "nobody in this recording".to_owned(),
            None => "there is no buffer that is known".to_owned(),
        };
        quiet(ui, told);
    }
    if who.readers > 0 {
        let told = text::counted(who.readers, "launch has", "launches have");
        quiet(ui, format!("{told} its address since, to read it by their signatures"));
    }
    if who.others > 0 {
        let told = text::counted(who.others, "other launch", "other launches");
        quiet(
            ui,
            format!(
                "{told} since, with no address in this buffer among their arguments; one found in memory is not seen"
            ),
        );
    }
}
