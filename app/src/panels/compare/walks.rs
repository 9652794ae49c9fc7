//! The walks of an address through the page tables of both recordings, level by level; what differs stands out.

use super::causes;
use super::field::three_column_row;
use super::view::View;
use crate::panels::common::actions::UiActions;
use crate::theme::{body, mono, palette, strong};
use egui::Ui;
use kinescope_session::comparison::Comparison;
use kinescope_session::difference::DifferenceRef;
use kinescope_session::page_table_marks::{describe_entry_kind, format_entry_bits};
use kinescope_session::{Document, lookup};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::mmu::{Walk, WalkStep};
use trace_core::recording::{MmuFormat, Recording};

/// Returns the index and format of the address space with this number.
fn space(r: &Recording, number: u8) -> Option<(u32, MmuFormat)> {
    let spaces = r.metadata.address_spaces.iter().enumerate();
    let found = spaces.into_iter().find(|(_, s)| s.number == number)?;
    Some((u32::try_from(found.0).ok()?, found.1.format))
}

/// A name with the values of A and B.
struct Line {
    name: String,
    a: String,
    b: String,
    /// Whether it may differ from run to run: locations in physical memory.
    own: bool,
}

/// Describes an entry without the address that it leads to.
fn word(s: Option<&WalkStep>) -> String {
    s.map_or_else(String::new, |s| describe_entry_kind(s.kind).0.to_owned())
}

/// Returns the walks of an address in A and of one in B, line by line.
fn lines(doc: &Document, c: &Comparison, number: u8, a_va: u64, b_va: u64) -> Vec<Line> {
    let (a, b) = (&*doc.recording, &*c.other.recording);
    let at_b = doc.other_event().unwrap_or(0);
    let in_a =
        space(a, number).and_then(|(i, f)| Some((lookup::walk(a, i, GpuVa::new(a_va), doc.current_event())?, f)));
    let in_b = space(b, number).and_then(|(i, f)| Some((lookup::walk(b, i, GpuVa::new(b_va), at_b)?, f)));
    let steps = |w: &Option<(Walk, MmuFormat)>| w.as_ref().map(|w| w.0.steps.clone()).unwrap_or_default();
    let (x, y) = (steps(&in_a), steps(&in_b));
    let mut out = Vec::new();
    for n in 0..x.len().max(y.len()) {
        let (s, t) = (x.get(n), y.get(n));
        let Some(some) = s.or(t) else { continue };
        let index = |s: Option<&WalkStep>| s.map_or_else(String::new, |s| format!("[{}] {}", s.index, word(Some(s))));
        out.push(Line {
            name: format!("level {}", some.level),
            a: index(s),
            b: index(t),
            own: false,
        });
        let raw = |s: Option<&WalkStep>| s.map_or_else(String::new, |s| format!("{:#x}", s.raw));
        out.push(Line {
            name: "  entry".into(),
            a: raw(s),
            b: raw(t),
            own: true,
        });
    }
    let bits = |r: &Recording, w: &Option<(Walk, MmuFormat)>| {
        let last = w.as_ref().and_then(|(w, f)| Some((w.steps.last()?, *f)));
        last.map(|(s, f)| format_entry_bits(r, f, s)).unwrap_or_default()
    };
    let (x, y) = (bits(a, &in_a), bits(b, &in_b));
    let names: Vec<&String> = x.iter().map(|b| &b.0).collect();
    let more = y.iter().map(|b| &b.0).filter(|n| !names.contains(n));
    for name in names.iter().copied().chain(more) {
        let of = |list: &[(String, String)]| list.iter().find(|b| b.0 == *name).map(|b| b.1.clone());
        out.push(Line {
            name: name.clone(),
            a: of(&x).unwrap_or_default(),
            b: of(&y).unwrap_or_default(),
            own: false,
        });
    }
    let fault = |w: &Option<(Walk, MmuFormat)>| match w {
        Some((w, _)) => w.result.as_ref().err().map(ToString::to_string).unwrap_or_default(),
        None => "no such address space".into(),
    };
    let (fa, fb) = (fault(&in_a), fault(&in_b));
    if !fa.is_empty() || !fb.is_empty() {
        out.push(Line {
            name: "fault".into(),
            a: fa,
            b: fb,
            own: false,
        });
    }
    out
}

/// Draws the walks of the selected mapping, and why it differs.
pub(super) fn ui(doc: &mut Document, c: &Arc<Comparison>, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let at = view.selected.and_then(|r| usize::try_from(r).ok()).unwrap_or(0);
    let Some(m) = c.diff.mappings.list.get(at) else { return };
    let there = m.moved_to.unwrap_or(m.va).get();
    ui.spacing_mut().item_spacing.y = 0.0;
    let heads = [
        ("walk".to_owned(), strong(), p.quiet),
        (format!("A {:#x}", m.va.get()), mono(), p.only_a),
        (format!("B {there:#x}"), mono(), p.only_b),
    ];
    three_column_row(ui, &format!("walks of A {:#x} and B {there:#x}", m.va.get()), heads);
    egui::ScrollArea::vertical()
        .id_salt("walks")
        .auto_shrink(false)
        .show(ui, |ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            for l in lines(doc, c, m.address_space, m.va.get(), there) {
                let differs = !l.own && l.a != l.b;
                let or = |t: &str| if t.is_empty() { "–".to_owned() } else { t.to_owned() };
                let (ink, value) = if differs { (p.error, p.text) } else { (p.quiet, p.quiet) };
                let name = if differs {
                    format!("≠ {}", l.name)
                } else {
                    format!("   {}", l.name)
                };
                let font = if differs { strong() } else { body() };
                let label = format!("{}: A {}, B {}", l.name.trim(), or(&l.a), or(&l.b));
                three_column_row(
                    ui,
                    &label,
                    [(name, font, ink), (or(&l.a), mono(), value), (or(&l.b), mono(), value)],
                );
            }
            causes::ui(doc, c, &DifferenceRef::Mapping(at), view, actions, ui);
        });
}
