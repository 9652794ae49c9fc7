//! Details of an event of a driver trace: an object, a ring entry, saved memory, or a request to the kernel driver.

use crate::panels::common::actions::{PanelAction, UiActions};
use crate::theme::palette;
use crate::theme::widgets::{self, StyledText};
use egui::Ui;
use kinescope_session::driver_data::{DriverData, ObjectText, PointedBuffer};
use kinescope_session::{Document, api_trace, text};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::driver_trace::Submission;
use trace_core::families::find_family;
use trace_core::recording::{
    EventKind, ObjectAction, ObjectKind, ObjectRow, Recording, RingEntryRow, SaveReason, SavedMemoryRow, StoredContent,
};

/// Maximum number of links to submissions or calls.
const MAX_LINKS: usize = 12;
/// Number of bytes of saved memory that are shown.
const SHOWN_BYTES: u64 = 16;

/// Draws the details of the current event; returns `false` if it is of another kind.
pub(super) fn ui(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) -> bool {
    let event = doc.current_event();
    let Ok(at) = usize::try_from(event) else {
        return false;
    };
    let recording = Arc::clone(&doc.recording);
    let data = doc.derived.driver.clone();
    let events = &recording.events;
    match events.kind(at) {
        Some(EventKind::Object) => match events.object(at) {
            Some(row) => object(doc, actions, ui, data.as_deref(), &row),
            None => return false,
        },
        Some(EventKind::RingEntry) => match events.ring_entry(at) {
            Some(row) => ring_entry(doc, actions, ui, data.as_deref(), &row),
            None => return false,
        },
        Some(EventKind::SavedMemory) => {
            let row = events.payload.get(at).unwrap_or(0) as usize;
            match events.saved_memory.get(row) {
                Some(row) => saved_memory(doc, actions, ui, data.as_deref(), &row),
                None => return false,
            }
        }
        Some(EventKind::Call) if recording.api().is_none() && recording.driver_trace().is_some() => {
            widgets::section(ui, "Request to the kernel driver");
            let what = recording.describe_driver_event(at).unwrap_or_default();
            widgets::key_wrapped(ui, "request", StyledText::mono(what));
        }
        _ => return false,
    }
    widgets::key_value(ui, "event", StyledText::mono(text::count(event)));
    widgets::key_value(ui, "time", StyledText::mono(doc.format_time(event)));
    true
}

/// Draws a value with its copy menu.
fn value(ui: &mut Ui, key: &str, shown: String) {
    let r = widgets::key_value(ui, key, StyledText::mono(&shown));
    widgets::add_copy_menu(&r, &[(key, shown)]);
}

fn format_known(n: u32) -> Option<String> {
    (n != 0).then(|| format!("{n:#x}"))
}

fn object(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, data: Option<&DriverData>, row: &ObjectRow) {
    let p = palette(ui);
    let action = ObjectAction::from_raw(row.action);
    let kind = ObjectKind::from_raw(row.kind);
    let kind_name = kind.map_or("object", ObjectKind::name).replace('-', " ");
    let title = match action {
        Some(ObjectAction::Create) => format!("Created {kind_name}"),
        Some(ObjectAction::Free) => format!("Freed {kind_name}"),
        Some(ObjectAction::Map) => format!("Mapped {kind_name}"),
        Some(ObjectAction::Unmap) => format!("Unmapped {kind_name}"),
        None => format!("Changed {kind_name}"),
    };
    widgets::section(ui, &title);
    let index = data.and_then(|d| d.object_at(doc.current_event()));
    match (index, data) {
        (Some(index), Some(data)) => object_link(doc, actions, ui, data, "object", index),
        _ => {
            if let Some(handle) = format_known(row.handle) {
                value(ui, "handle", handle);
            }
        }
    }
    if row.class != 0 {
        let name = find_family(&doc.recording)
            .class_name(row.class)
            .unwrap_or("unknown class");
        value(ui, "class", format!("{:#x} {name}", row.class));
    }
    if let Some(bytes) = row.known_bytes() {
        value(ui, "size", format!("{bytes:#x} ({})", text::bytes(bytes)));
    }
    let is_channel = kind == Some(ObjectKind::Channel);
    if let Some(at) = row.known_address() {
        value(ui, if is_channel { "push buffer" } else { "address" }, at.to_string());
    }
    if let Some(second) = row.known_second() {
        value(ui, if is_channel { "ring" } else { "offset" }, format!("{second:#x}"));
    }
    let memory = match row.flags {
        f if f & ObjectRow::VIDEO_MEMORY != 0 => Some("video"),
        f if f & ObjectRow::HOST_MEMORY != 0 => Some("host"),
        _ => None,
    };
    if let Some(memory) = memory {
        widgets::key_value(ui, "memory", StyledText::body(memory));
    }
    let handles = [
        ("client", row.client),
        ("parent", row.parent),
        ("address space", row.space),
    ];
    for (key, handle) in handles {
        if let Some(handle) = format_known(handle) {
            value(ui, key, handle);
        }
    }
    let caller = doc.recording.driver_trace().and_then(|m| m.name(row.caller));
    if let Some(caller) = caller {
        let caller = caller.to_owned();
        let r = widgets::key_wrapped(ui, "asked for by", StyledText::mono(&caller));
        widgets::add_copy_menu(&r, &[("caller", caller)]);
    }
    if row.result != 0 {
        let message = StyledText::body(format!("▲ failed with {:#x}", row.result)).colour(p.error);
        widgets::key_value(ui, "result", message);
    }
    if let (Some(index), Some(data)) = (index, data) {
        life_time(doc, ui, data, index);
        buttons(actions, ui, index);
    }
}

/// Draws when an object was allocated and freed.
fn life_time(doc: &mut Document, ui: &mut Ui, data: &DriverData, index: u32) {
    let Some(o) = data.trace.objects().get(index as usize) else {
        return;
    };
    for (key, event, without) in [
        ("allocated", o.alloc_event, "before the recording"),
        ("freed", o.free_event, "not in the recording"),
    ] {
        match event {
            Some(event) => {
                if widgets::key_link(ui, key, &format!("event {}", text::count(event))).clicked() {
                    doc.go(event);
                }
            }
            None => {
                widgets::key_value(ui, key, StyledText::body(without).colour(palette(ui).quiet));
            }
        }
    }
}

/// Draws the buttons that show an object in other panels.
fn buttons(actions: &mut UiActions, ui: &mut Ui, index: u32) {
    ui.add_space(8.0);
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.y = 4.0;
        if ui.button("Show in Objects").clicked() {
            actions.push(PanelAction::DriverObject(index));
            actions.run_command("show-objects");
        }
        if ui.button("Show in Address space").clicked() {
            actions.push(PanelAction::ObjectAddresses(index));
            actions.run_command("show-address-space");
        }
    });
    ui.add_space(4.0);
}

/// Draws the name of an object as a link to Objects.
fn object_link(doc: &Document, actions: &mut UiActions, ui: &mut Ui, data: &DriverData, key: &str, index: u32) {
    let Some(t) = ObjectText::new(&doc.recording, &data.trace, index as usize) else {
        return;
    };
    if widgets::key_link(ui, key, &t.name()).clicked() {
        actions.push(PanelAction::DriverObject(index));
        actions.run_command("show-objects");
    }
}

/// Draws an address and the buffer that it points into.
fn pointer(doc: &Document, actions: &mut UiActions, ui: &mut Ui, data: Option<&DriverData>, key: &str, va: GpuVa) {
    value(ui, key, va.to_string());
    let found = data.and_then(|d| d.trace.find_buffer(va, doc.current_event()));
    let (Some((object, offset)), Some(data)) = (found, data) else {
        return;
    };
    let Ok(object) = u32::try_from(object) else { return };
    let target = PointedBuffer {
        va,
        buffer: Some((object, offset)),
    };
    let name = target.describe(&doc.recording, &data.trace).unwrap_or_default();
    if widgets::key_link(ui, "in", &name).on_hover_text(&name).clicked() {
        actions.push(PanelAction::DriverObject(object));
        actions.run_command("show-objects");
    }
}

/// Draws the call that made a submission, and the launches of a graph in it, as links.
fn call_links(doc: &mut Document, ui: &mut Ui, data: &DriverData, submission: &Submission) {
    let (Some(call), Some(trace)) = (data.call_of(submission), doc.api_trace()) else {
        return;
    };
    let launches = data.kernels.launches_of(submission.index).into_iter().map(|l| l.1);
    let launches = launches.filter(|launch| *launch != call).take(MAX_LINKS);
    let mut to = None;
    for (key, event) in std::iter::once(("call", call)).chain(launches.map(|l| ("launch", l))) {
        let name = api_trace::name_call(&trace, &doc.recording, event);
        let hover = format!("{name}, event {}", text::count(event));
        let name = match key {
            "launch" => name.trim_start_matches("launch of "),
            _ => &name,
        };
        let link = widgets::key_link(ui, key, name).on_hover_text(hover);
        to = to.or(link.clicked().then_some(event));
    }
    if let Some(event) = to {
        doc.go(event);
    }
}

/// Draws the submissions that the call at the current event made, as links; nothing if it made none.
pub(super) fn submission_links(doc: &mut Document, ui: &mut Ui) {
    let Some(data) = doc.derived.driver.clone() else {
        return;
    };
    let event = doc.current_event();
    let all: Vec<&Submission> = data.submissions_of(event).collect();
    if all.is_empty() {
        return;
    }
    widgets::section(ui, "Submissions");
    let launch = data.kernels.find_launch(event).map(|(submission, _)| submission);
    let mut to = None;
    for s in all.iter().take(MAX_LINKS) {
        let channel = data.channel_name(s).map_or_else(String::new, |c| c.format());
        let shown = match launch == Some(s.index) {
            true => format!("submission {}: the launch", s.index),
            false => format!("submission {}", s.index),
        };
        let hover = format!("event {}", text::count(s.event));
        let link = widgets::key_link(ui, &channel, &shown).on_hover_text(hover);
        to = to.or(link.clicked().then_some(s.event));
    }
    if all.len() > MAX_LINKS {
        let more = format!("{} more", text::count((all.len() - MAX_LINKS) as u64));
        widgets::key_value(ui, "and", StyledText::body(more).colour(palette(ui).quiet));
    }
    if let Some(event) = to {
        doc.go(event);
    }
}

fn ring_entry(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, data: Option<&DriverData>, row: &RingEntryRow) {
    let p = palette(ui);
    widgets::section(ui, "Ring entry");
    let submission = data.and_then(|d| d.submission_of(doc.current_event()));
    let channel = submission
        .and_then(|s| data?.trace.channels().get(s.channel))
        .map(|c| c.object);
    match (channel.and_then(|c| u32::try_from(c).ok()), data) {
        (Some(index), Some(data)) => object_link(doc, actions, ui, data, "channel", index),
        _ => value(ui, "channel", format!("{:#x}", row.channel)),
    }
    if let Some(client) = format_known(row.client) {
        value(ui, "client", client);
    }
    value(ui, "ring index", row.index.to_string());
    if row.entry != 0 {
        value(ui, "entry", format!("{:#018x}", row.entry));
        for (key, shown) in find_family(&doc.recording).ring_entry_fields(row.entry) {
            // Below, the address has its upper bits and its buffer.
            if key != "address" {
                value(ui, key, shown);
            }
        }
    }
    pointer(doc, actions, ui, data, "commands", row.va);
    value(ui, "size", format!("{:#x} ({})", row.bytes, text::bytes(row.bytes)));
    if !has_content(&doc.recording, doc.current_event()) {
        widgets::key_value(ui, "content", StyledText::body("! not recorded").colour(p.warning));
    }
    if let Some(doorbell) = submission.and_then(|s| s.doorbell) {
        let shown = format!("event {}", text::count(doorbell));
        if widgets::key_link(ui, "doorbell", &shown).clicked() {
            doc.go(doorbell);
        }
    }
    if let (Some(submission), Some(data)) = (submission, data) {
        call_links(doc, ui, data, submission);
    }
    ui.add_space(8.0);
    if ui.button("Show push buffer").clicked() {
        actions.run_command("show-push-buffer");
    }
    ui.add_space(4.0);
}

/// Returns the content that an event stores, if the recording holds it.
fn find_content(recording: &Recording, event: u64) -> Option<StoredContent> {
    let stored = recording.events.stored_content(usize::try_from(event).ok()?)?;
    stored.rows().is_some().then_some(stored)
}

fn has_content(recording: &Recording, event: u64) -> bool {
    find_content(recording, event).is_some()
}

fn saved_memory(
    doc: &mut Document,
    actions: &mut UiActions,
    ui: &mut Ui,
    data: Option<&DriverData>,
    row: &SavedMemoryRow,
) {
    let p = palette(ui);
    widgets::section(ui, "Saved memory");
    let why = SaveReason::from_raw(row.reason).map_or("memory", SaveReason::name);
    widgets::key_value(ui, "what", StyledText::body(why));
    pointer(doc, actions, ui, data, "address", row.va);
    value(ui, "size", format!("{:#x} ({})", row.bytes, text::bytes(row.bytes)));
    let mut bytes = vec![0; row.bytes.min(SHOWN_BYTES) as usize];
    let stored = find_content(&doc.recording, doc.current_event());
    match stored.filter(|s| doc.recording.read_content(s, 0, &mut bytes)) {
        Some(_) => {
            let hex: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
            let more = if row.bytes > SHOWN_BYTES { " …" } else { "" };
            value(ui, "begins with", format!("{}{more}", hex.join(" ")));
        }
        None => {
            widgets::key_value(ui, "content", StyledText::body("! not recorded").colour(p.warning));
        }
    }
}
