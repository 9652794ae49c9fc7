//! The outline of an API trace: its device, kernels, streams, buffers, modules.

use crate::panels::common::actions::{PanelAction, UiActions};
use crate::theme::palette;
use crate::theme::widgets::{self, StyledText, list_row, section};
use egui::Ui;
use kinescope_files::scene::Selection;
use kinescope_session::{Document, api_trace, text};
use std::sync::Arc;
use trace_core::api_trace::ApiTrace;
use trace_core::recording::CodeKind;

/// Maximum number of kernels that are listed: those with most launches.
const KERNELS: usize = 8;
/// Maximum number of buffers that are listed.
const BUFFERS: usize = 8;
/// Maximum number of streams that are listed.
const STREAMS: usize = 8;
/// Maximum number of modules that are listed.
const MODULES: usize = 4;

/// The list of a recording, computed once: kernels by launches.
type CachedOrder = (usize, Arc<Vec<u32>>);

/// Draws the outline.
pub(super) fn ui(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    if let Some(copies) = doc.derived.run_copies().cloned() {
        return super::wasm_run::ui(actions, ui, &copies);
    }
    let Some(api_trace) = doc.api_trace() else { return };
    kernels(doc, actions, ui, &api_trace);
    streams(doc, ui, &api_trace);
    buffers(doc, actions, ui, &api_trace);
    modules(actions, ui, &api_trace);
    device(ui, &api_trace);
}

/// Returns the functions by number of launches.
fn by_launches(ui: &Ui, api_trace: &Arc<ApiTrace>) -> Arc<Vec<u32>> {
    let id = egui::Id::unique("kernels by launches");
    let key = Arc::as_ptr(api_trace) as usize;
    let kept: Option<CachedOrder> = ui.data(|d| d.get_temp(id));
    if let Some((_, list)) = kept.filter(|k| k.0 == key) {
        return list;
    }
    let mut list: Vec<u32> = (0..api_trace.metadata().functions.len() as u32).collect();
    list.sort_by_key(|f| std::cmp::Reverse(api_trace.launches_of(*f).len()));
    list.truncate(KERNELS);
    let list = Arc::new(list);
    ui.data_mut(|d| d.insert_temp(id, (key, Arc::clone(&list))));
    list
}

fn more(ui: &mut Ui, label: &str, n: usize) -> bool {
    let p = palette(ui);
    let styled_text = StyledText::body(format!("{} more", text::count(n as u64))).colour(p.quiet);
    list_row(ui, label, false, 0.0, styled_text, StyledText::mono("")).clicked()
}

fn kernels(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, api_trace: &Arc<ApiTrace>) {
    let all = api_trace.metadata().functions.len();
    if all == 0 {
        return;
    }
    section(ui, "Kernels");
    let here = doc
        .current_launch()
        .and_then(|n| api_trace.launches().get(n as usize))
        .map(|l| l.function);
    for f in by_launches(ui, api_trace).iter().copied() {
        let name = api_trace.function_name(f);
        let n = api_trace.launches_of(f);
        let short = api_trace::short_function_name(name)
            .rsplit("::")
            .next()
            .unwrap_or_default()
            .to_owned();
        let right = StyledText::mono(format!("{}×", text::count(n.len() as u64)));
        let label = format!("outline kernel {}", api_trace::short_function_name(name));
        let row = list_row(ui, &label, here == Some(f), 0.0, StyledText::mono(short), right);
        widgets::add_copy_menu(&row.clone().on_hover_text(name), &[("name", name.to_owned())]);
        if row.clicked() {
            let first = n.first().and_then(|l| api_trace.launches().get(*l as usize));
            if let Some(l) = first.filter(|_| here != Some(f)) {
                doc.go(l.event);
            }
            actions.push(PanelAction::Kernel(f));
            actions.run_command("show-kernel");
        }
    }
    if all > KERNELS && more(ui, "more kernels", all - KERNELS) {
        actions.run_command("show-launches");
    }
}

fn streams(doc: &mut Document, ui: &mut Ui, api_trace: &ApiTrace) {
    let all = api_trace.metadata().streams.len();
    let used = (0..all as u32).filter(|s| !api_trace.events_of(*s).is_empty());
    let used: Vec<u32> = used.take(STREAMS).collect();
    if used.is_empty() {
        return;
    }
    section(ui, "Streams");
    for s in used {
        let events = api_trace.events_of(s);
        let name = api_trace.stream_name(s);
        let right = StyledText::mono(text::count(events.len() as u64));
        let row = list_row(
            ui,
            &format!("outline {name}"),
            false,
            0.0,
            StyledText::body(&name),
            right,
        );
        let blocks = api_trace
            .metadata()
            .streams
            .get(s as usize)
            .is_some_and(|s| s.flags & 1 != 0);
        let message = if blocks {
            "does not wait for the default stream"
        } else {
            "waits for the default stream"
        };
        let message = if s == 0 {
            "the other streams wait for it, unless they opt out"
        } else {
            message
        };
        if row.on_hover_text(format!("calls that go to it\n{message}")).clicked() {
            // The next launch after the current event, so that repeated clicks step through the launches.
            let n = events.partition_point(|e| *e <= doc.current_event());
            if let Some(e) = events.get(n).or(events.first()) {
                doc.go(*e);
            }
        }
    }
}

fn buffers(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, api_trace: &ApiTrace) {
    if api_trace.buffers().list().is_empty() {
        return;
    }
    section(ui, "Buffers");
    let at = doc.current_event();
    let here = match *doc.selection() {
        Selection::Memory { va, .. } => api_trace.buffers().locate_nearest(va, at).map(|p| p.buffer),
        _ => None,
    };
    let rows = api_trace.buffers().rows();
    for memory in rows.iter().take(BUFFERS) {
        let (Some(b), Some((from, bytes))) = (
            api_trace.buffers().get(memory.buffer),
            api_trace.buffers().row_memory(*memory),
        ) else {
            continue;
        };
        let p = palette(ui);
        let shown = api_trace.buffers().name_row(*memory, at);
        let mut name = StyledText::body(shown);
        if !memory.is_part() && doc.changes().inputs().contains_key(&b.name) {
            name = StyledText::body(format!("{shown}  ●")).colour(p.edited);
        } else if !b.is_live_at(at) {
            name = name.colour(p.quiet);
        }
        let label = format!("outline buffer {shown}");
        let row = list_row(
            ui,
            &label,
            !memory.is_part() && here == Some(memory.buffer),
            if memory.is_part() { 12.0 } else { 0.0 },
            name,
            StyledText::mono(text::bytes(bytes)),
        );
        let message = match memory.is_part() {
            true => format!("{from:#x}, a part of {}", b.name),
            false => format!("{from:#x}, {}", b.kind.name()),
        };
        widgets::add_copy_menu(
            &row.clone().on_hover_text(message),
            &[("address", format!("{from:#x}"))],
        );
        if row.clicked() {
            doc.select(Selection::Memory {
                space: 0,
                va: from,
                bytes: 1,
            });
            actions.run_command("show-memory");
        }
    }
    if rows.len() > BUFFERS && more(ui, "more device buffers", rows.len() - BUFFERS) {
        actions.run_command("show-memory");
    }
}

fn modules(actions: &mut UiActions, ui: &mut Ui, api_trace: &ApiTrace) {
    let all = &api_trace.metadata().modules;
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
                StyledText::body("not stored").colour(p.warning),
                StyledText::body(format!("! {n} · {kind}")),
            )
        } else {
            (
                StyledText::mono(text::bytes(m.bytes)),
                StyledText::body(format!("{n} · {kind}")),
            )
        };
        let row = list_row(ui, &format!("outline module {n}"), false, 0.0, left, right);
        let mut message = format!("from {}", m.origin);
        if !m.missing.is_empty() {
            message.push_str(&format!("\nnot stored: {}", m.missing));
        }
        if row.on_hover_text(message).clicked() {
            let of = |f: &trace_core::recording::CallFunction| f.module == Some(n);
            if let Some(f) = api_trace.metadata().functions.iter().position(of) {
                actions.push(PanelAction::Kernel(f as u32));
                actions.run_command("show-kernel");
            }
        }
    }
    if all.len() > MODULES && more(ui, "more modules", all.len() - MODULES) {
        actions.run_command("show-kernel");
    }
}

fn device(ui: &mut Ui, api_trace: &ApiTrace) {
    let (d, metadata) = (&api_trace.metadata().device, api_trace.metadata());
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
        StyledText::body(&d.name),
        StyledText::mono(capability),
    );
    row.on_hover_text(format!(
        "{}\n{} multiprocessors, {}\nCUDA {}.{}, {} recorded",
        d.name,
        d.multiprocessors,
        text::bytes(d.memory),
        metadata.version / 1000,
        metadata.version % 1000 / 10,
        metadata.range
    ));
}
