//! Details next to a kernel's code: its parameters, the source of its code, and all its launches.

use super::view::View;
use crate::theme::widgets::{self, StyledText, paint_text};
use crate::theme::{focus, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Rect, RichText, Ui, WidgetInfo, pos2};
use kinescope_session::{Document, api_trace, text};
use trace_core::api_trace::ApiTrace;
use trace_core::recording::CodeKind;

/// Draws the details.
pub(super) fn ui(doc: &mut Document, view: &mut View, ui: &mut Ui, api_trace: &ApiTrace, function: u32) {
    ui.spacing_mut().item_spacing.y = 0.0;
    // Launches take a third of the height; the part above them scrolls if it has no room.
    let full = ui.available_rect_before_wrap();
    let below = (full.height() * 0.36).max(90.0).min(full.height());
    let top = Rect::from_min_max(full.min, pos2(full.right(), full.bottom() - below));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(top));
    child.shrink_clip_rect(top);
    egui::ScrollArea::vertical()
        .id_salt("kernel facts")
        .auto_shrink(false)
        .show(&mut child, |ui| {
            ui.spacing_mut().item_spacing.y = 0.0;
            parameters(view, ui);
            module(view, ui, api_trace, function);
        });
    ui.advance_cursor_after_rect(top);
    launches(doc, view, ui, api_trace, function);
}

fn parameters(view: &View, ui: &mut Ui) {
    let p = palette(ui);
    widgets::section(ui, "Resources");
    let Some(code) = &view.code else {
        ui.label(RichText::new("reading…").font(small()).color(p.quiet));
        return;
    };
    let r = &code.resources;
    let mut any = false;
    let mut describe = |ui: &mut Ui, key: &str, summary: Option<String>| {
        if let Some(message) = summary {
            any = true;
            widgets::key_value(ui, key, StyledText::mono(message));
        }
    };
    describe(ui, "registers", r.registers.map(|n| format!("{n} per thread")));
    describe(ui, "shared", r.shared.map(|n| format!("{} per block", text::bytes(n))));
    describe(ui, "local", r.local.map(|n| format!("{} per thread", text::bytes(n))));
    describe(ui, "constant", r.constant.map(text::bytes));
    describe(
        ui,
        "threads",
        r.max_threads.map(|n| format!("{} at most", text::count(u64::from(n)))),
    );
    describe(
        ui,
        "bound",
        r.bound.map(|d| format!("{} by its source", api_trace::format_dims(d))),
    );
    describe(ui, "required", r.required.map(api_trace::format_dims));
    describe(ui, "cluster", r.cluster.map(api_trace::format_dims));
    describe(ui, "barriers", r.barriers.filter(|n| *n > 0).map(|n| n.to_string()));
    describe(ui, "instructions", r.code.map(text::bytes));
    if !any {
        ui.label(RichText::new("not recorded").font(small()).color(p.quiet));
    }
}

fn module(view: &View, ui: &mut Ui, api_trace: &ApiTrace, function: u32) {
    let p = palette(ui);
    let metadata = api_trace.metadata();
    let Some(f) = metadata.functions.get(function as usize) else {
        return;
    };
    widgets::section(ui, "Module");
    if let Some((n, m)) = f.module.and_then(|n| Some((n, metadata.modules.get(n as usize)?))) {
        let kind = match m.kind {
            CodeKind::Ptx => "PTX",
            CodeKind::Cubin => "machine code",
            CodeKind::Fatbin => "container",
            CodeKind::Unknown => "unknown",
        };
        widgets::key_value(ui, "module", StyledText::mono(n.to_string()));
        widgets::key_value(ui, "form", StyledText::body(kind));
        widgets::key_value(ui, "from", StyledText::body(&m.origin));
        if m.bytes > 0 {
            widgets::key_value(ui, "size", StyledText::mono(text::bytes(m.bytes)));
        }
        if !m.missing.is_empty() {
            let styled_text = StyledText::body(format!("! not stored: {}", m.missing)).colour(p.warning);
            widgets::key_wrapped(ui, "code", styled_text);
        }
        if !m.globals.is_empty() {
            let message = text::count_noun(m.globals.len() as u64, "variable", "variables");
            let names: Vec<&str> = m.globals.iter().take(40).map(|g| g.name.as_str()).collect();
            widgets::key_value(ui, "holds", StyledText::body(message)).on_hover_text(names.join("\n"));
        }
    }
    if let Some(code) = view.code.as_ref().filter(|c| !c.arch.is_empty()) {
        let device = &metadata.device;
        widgets::key_value(ui, "compiled for", StyledText::mono(&code.arch)).on_hover_text(format!(
            "recorded on {}, compute capability {}.{}",
            device.name, device.capability[0], device.capability[1]
        ));
    }
    let name = widgets::key_value(ui, "name", StyledText::mono(&f.name));
    widgets::add_copy_menu(
        &name,
        &[
            ("mangled name", f.name.clone()),
            ("name", api_trace.function_name(function).to_owned()),
        ],
    );
}

fn launches(doc: &mut Document, view: &mut View, ui: &mut Ui, api_trace: &ApiTrace, function: u32) {
    let p = palette(ui);
    let all = api_trace.launches_of(function);
    widgets::section(ui, &text::count_noun(all.len() as u64, "launch", "launches"));
    if all.is_empty() {
        let summary = "never launched in this recording";
        ui.label(RichText::new(summary).font(small()).color(p.quiet));
        return;
    }
    let meant = doc.current_launch();
    let mut go = None;
    let mut rows = view.launches;
    rows.show(ui, "Launches of the kernel", all.len() as u64, |ui, row, rect| {
        let Some((n, l)) = all
            .get(row as usize)
            .and_then(|n| Some((*n, api_trace.launches().get(*n as usize)?)))
        else {
            return;
        };
        let Some(launch) = api_trace::launch(&doc.recording, l.event) else {
            return;
        };
        let r = focus::row_response(ui, rect, ui.scope_id().with(("of kernel", n)));
        let selected = meant == Some(n);
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, selected, format!("launch {n} of the kernel")));
        if selected {
            widgets::select(ui, rect);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let number = Rect::from_min_max(rect.min, pos2(rect.left() + 44.0, rect.bottom()));
        paint_text(
            ui,
            number,
            Align2::RIGHT_CENTER,
            &text::count(u64::from(n)),
            mono(),
            p.read,
        );
        let at = Rect::from_min_max(
            pos2(number.right() + 10.0, rect.top()),
            pos2(rect.right() - 92.0, rect.bottom()),
        );
        let message = format!(
            "{} in {}",
            api_trace::format_dims(launch.grid),
            api_trace::format_dims(launch.block)
        );
        paint_text(ui, at, Align2::LEFT_CENTER, &message, mono(), p.text);
        let event = Rect::from_min_max(pos2(rect.right() - 90.0, rect.top()), rect.max);
        let message = format!("event {}", text::count(l.event));
        paint_text(ui, event, Align2::RIGHT_CENTER, &message, small(), p.quiet);
        let r = r.on_hover_text(format!("grid and block, {}", api_trace.stream_name(l.stream)));
        if r.clicked() {
            go = Some(l.event);
        }
    });
    view.launches = rows;
    if let Some(event) = go {
        doc.go(event);
    }
}
