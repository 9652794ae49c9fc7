//! What there is in a recording of calls: its device, kernels, streams, buffers, modules.

use crate::document::Document;
use crate::document::called;
use crate::document::moment::Selection;
use crate::panels::desk::{Ask, Asks};
use crate::theme::widgets::{self, Part, list_row, section};
use crate::theme::{palette, text};
use egui::Ui;
use std::sync::Arc;
use trace_core::calls::Calls;
use trace_core::recording::CodeKind;

/// Kernels that are listed: those that are launched most.
const KERNELS: usize = 8;
/// Buffers that are listed.
const BUFFERS: usize = 8;
/// Streams that are listed.
const STREAMS: usize = 8;
/// Modules that are listed.
const MODULES: usize = 4;

/// What is listed of a recording, found once: kernels by launches.
type Kept = (usize, Arc<Vec<u32>>);

/// Draws it.
pub(super) fn ui(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let Some(calls) = doc.called() else { return };
    kernels(doc, asks, ui, &calls);
    streams(doc, ui, &calls);
    buffers(doc, asks, ui, &calls);
    modules(asks, ui, &calls);
    device(ui, &calls);
}

/// Functions by how often they are launched.
fn by_launches(ui: &Ui, calls: &Arc<Calls>) -> Arc<Vec<u32>> {
    let id = egui::Id::unique("kernels by launches");
    let key = Arc::as_ptr(calls) as usize;
    let kept: Option<Kept> = ui.data(|d| d.get_temp(id));
    if let Some((_, list)) = kept.filter(|k| k.0 == key) {
        return list;
    }
    let mut list: Vec<u32> = (0..calls.facts().functions.len() as u32).collect();
    list.sort_by_key(|f| std::cmp::Reverse(calls.launches_of(*f).len()));
    list.truncate(KERNELS);
    let list = Arc::new(list);
    ui.data_mut(|d| d.insert_temp(id, (key, Arc::clone(&list))));
    list
}

fn more(ui: &mut Ui, label: &str, n: usize) -> bool {
    let p = palette(ui);
    let told = Part::words(format!("{} more", text::count(n as u64))).colour(p.quiet);
    list_row(ui, label, false, 0.0, told, Part::mono("")).clicked()
}

fn kernels(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, calls: &Arc<Calls>) {
    let all = calls.facts().functions.len();
    if all == 0 {
        return;
    }
    section(ui, "Kernels");
    let here = doc
        .launch_meant()
        .and_then(|n| calls.launches().get(n as usize))
        .map(|l| l.function);
    for f in by_launches(ui, calls).iter().copied() {
        let name = calls.function_name(f);
        let n = calls.launches_of(f);
        let short = called::short(name).rsplit("::").next().unwrap_or_default().to_owned();
        let right = Part::mono(format!("{}×", text::count(n.len() as u64)));
        let label = format!("outline kernel {}", called::short(name));
        let row = list_row(ui, &label, here == Some(f), 0.0, Part::mono(short), right);
        widgets::copies(&row.clone().on_hover_text(name), &[("name", name.to_owned())]);
        if row.clicked() {
            let first = n.first().and_then(|l| calls.launches().get(*l as usize));
            if let Some(l) = first.filter(|_| here != Some(f)) {
                doc.go(l.event);
            }
            asks.push(Ask::Kernel(f));
            asks.command("show-kernel");
        }
    }
    if all > KERNELS && more(ui, "more kernels", all - KERNELS) {
        asks.command("show-launches");
    }
}

fn streams(doc: &mut Document, ui: &mut Ui, calls: &Calls) {
    let all = calls.facts().streams.len();
    let used = (0..all as u32).filter(|s| !calls.events_of(*s).is_empty());
    let used: Vec<u32> = used.take(STREAMS).collect();
    if used.is_empty() {
        return;
    }
    section(ui, "Streams");
    for s in used {
        let events = calls.events_of(s);
        let name = calls.stream_name(s);
        let right = Part::mono(text::count(events.len() as u64));
        let row = list_row(ui, &format!("outline {name}"), false, 0.0, Part::words(&name), right);
        let blocks = calls.facts().streams.get(s as usize).is_some_and(|s| s.flags & 1 != 0);
        let told = if blocks {
            "does not wait for the default stream"
        } else {
            "waits for the default stream"
        };
        let told = if s == 0 {
            "the other streams wait for it, unless they are told not to"
        } else {
            told
        };
        if row.on_hover_text(format!("calls that go to it\n{told}")).clicked() {
            // The next one behind the moment, so that clicking again goes along it.
            let n = events.partition_point(|e| *e <= doc.moment());
            if let Some(e) = events.get(n).or(events.first()) {
                doc.go(*e);
            }
        }
    }
}

fn buffers(doc: &mut Document, asks: &mut Asks, ui: &mut Ui, calls: &Calls) {
    let all = calls.buffers().list();
    if all.is_empty() {
        return;
    }
    section(ui, "Buffers");
    let at = doc.moment();
    let here = match *doc.selection() {
        Selection::Memory { va, .. } => calls.buffers().near(va, at).map(|p| p.buffer),
        _ => None,
    };
    for (n, b) in (0u32..).zip(all).take(BUFFERS) {
        let p = palette(ui);
        let mut name = Part::words(&b.name);
        if doc.changes().inputs().contains_key(&b.name) {
            name = Part::words(format!("{}  ●", b.name)).colour(p.edited);
        } else if !b.lives_at(at) {
            name = name.colour(p.quiet);
        }
        let label = format!("outline buffer {}", b.name);
        let row = list_row(ui, &label, here == Some(n), 0.0, name, Part::mono(text::bytes(b.bytes)));
        let told = format!("{:#x}, {}", b.at, b.kind.name());
        widgets::copies(&row.clone().on_hover_text(told), &[("address", format!("{:#x}", b.at))]);
        if row.clicked() {
            doc.select(Selection::Memory {
                space: 0,
                va: b.at,
                bytes: 1,
            });
            asks.command("show-memory");
        }
    }
    if all.len() > BUFFERS && more(ui, "more device buffers", all.len() - BUFFERS) {
        asks.command("show-memory");
    }
}

fn modules(asks: &mut Asks, ui: &mut Ui, calls: &Calls) {
    let all = &calls.facts().modules;
    if all.is_empty() {
        return;
    }
    section(ui, "Modules");
    for (n, m) in (0u32..).zip(all).take(MODULES) {
        let kind = match m.kind {
            CodeKind::Ptx => "PTX",
            CodeKind::Cubin => "machine code",
            CodeKind::Fatbin => "container",
            CodeKind::Unknown => "unknown",
        };
        let p = palette(ui);
        let (right, left) = if m.bytes == 0 {
            (
                Part::words("not stored").colour(p.warning),
                Part::words(format!("! {n} · {kind}")),
            )
        } else {
            (Part::mono(text::bytes(m.bytes)), Part::words(format!("{n} · {kind}")))
        };
        let row = list_row(ui, &format!("outline module {n}"), false, 0.0, left, right);
        let mut told = format!("from {}", m.origin);
        if !m.missing.is_empty() {
            told.push_str(&format!("\nnot stored: {}", m.missing));
        }
        if row.on_hover_text(told).clicked() {
            let of = |f: &trace_core::recording::CallFunction| f.module == Some(n);
            if let Some(f) = calls.facts().functions.iter().position(of) {
                asks.push(Ask::Kernel(f as u32));
                asks.command("show-kernel");
            }
        }
    }
    if all.len() > MODULES && more(ui, "more modules", all.len() - MODULES) {
        asks.command("show-kernel");
    }
}

fn device(ui: &mut Ui, calls: &Calls) {
    let (d, facts) = (&calls.facts().device, calls.facts());
    if d.name.is_empty() {
        return;
    }
    section(ui, "Device");
    let capability = format!("{}.{}", d.capability[0], d.capability[1]);
    let row = list_row(
        ui,
        "outline device",
        false,
        0.0,
        Part::words(&d.name),
        Part::mono(capability),
    );
    row.on_hover_text(format!(
        "{}\n{} multiprocessors, {}\nCUDA {}.{}, {} recorded",
        d.name,
        d.multiprocessors,
        text::bytes(d.memory),
        facts.version / 1000,
        facts.version % 1000 / 10,
        facts.range
    ));
}
