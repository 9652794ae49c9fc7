//! The Inspector panel, at the right: details of the selected item.

mod call;
mod driver_event;
mod entry;
mod pixel;
mod reference_list;
mod run_event;

use crate::panels::common::actions::{PageTablesTarget, PanelAction, UiActions};
use crate::panels::common::copy_menu;
use crate::panels::common::severity::{kind_name, severity_colour, severity_label};
use crate::panels::contents::memory::Side;
use crate::panels::contents::{memory as memory_panel, screen};
use crate::panels::gpu::{jobs, register};
use crate::panels::recording::notebook;
use crate::panels::runs::{inputs, replay};
use crate::theme::widgets::{self, StyledText};
use crate::theme::{mono, palette, small};
use egui::{RichText, Ui};
use kinescope_files::buffer_index::BufferOrigin;
use kinescope_files::scene::Selection;
use kinescope_files::values;
use kinescope_session::wasm_run::is_wasm_run;
use kinescope_session::{Document, derived_data, descriptions, lookup, page_runs, page_table_marks, text, xref_text};
use trace_core::GpuVa;
use trace_core::recording::{Buffer, ElementType};
use trace_core::xref::{last_level, read_entry};

/// The states of other panels that the inspector reads.
#[derive(Clone, Copy)]
pub struct OtherViews<'a> {
    /// The side of the current event that Memory shows.
    pub side: Side,
    /// State of the Inputs panel, for the selected pixel of a buffer.
    pub inputs: &'a inputs::View,
    /// State of the Screen panel, for the selected pixel of a framebuffer.
    pub screen: &'a screen::View,
}

/// Draws the inspector.
pub fn ui(doc: &mut Document, actions: &mut UiActions, views: OtherViews<'_>, ui: &mut Ui) {
    ui.spacing_mut().item_spacing.y = 0.0;
    match doc.selection().clone() {
        Selection::Event | Selection::Register(_) => match doc.current_register() {
            Some(r) => register::details(doc, actions, ui, r),
            None if run_event::ui(doc, actions, ui) => {}
            None if call::ui(doc, actions, ui) => {}
            None if driver_event::ui(doc, actions, ui) => {}
            None => event(doc, ui),
        },
        Selection::Job(j) => jobs::details(doc, actions, ui, j),
        Selection::Buffer(name) => buffer(doc, actions, ui, &name),
        Selection::Memory { .. } if doc.derived.api_trace.is_some() => {
            memory_panel::last_writer_ui(doc, actions, ui, views.side);
        }
        Selection::Memory { space, va, bytes } => memory(doc, actions, views.inputs, ui, (space, va.get(), bytes)),
        Selection::Entry { space, va, level } => entry::ui(doc, actions, ui, (space, va.get(), level)),
        Selection::Framebuffer { space, offset, bytes } => {
            pixel::framebuffer_pixel(doc, actions, views.screen, ui, (space, offset, bytes));
        }
        Selection::Finding(i) => finding(doc, actions, ui, i),
        Selection::Note(e) => note(doc, actions, ui, e),
        Selection::Divergence(i) => divergence(doc, actions, ui, i),
        Selection::Fault(i) => fault(doc, actions, ui, i),
    }
    if let Some(text) = doc.changes().notes().get(&doc.current_event()).map(|n| n.text.clone())
        && !matches!(doc.selection(), Selection::Note(_))
    {
        widgets::section(ui, "Note");
        ui.add(egui::Label::new(RichText::new(text).color(palette(ui).edited)).wrap());
    }
    edits(doc, actions, ui);
    ui.add_space(12.0);
}

fn event(doc: &mut Document, ui: &mut Ui) {
    widgets::section(ui, "Event");
    if doc.is_empty() {
        ui.label(RichText::new("This recording holds no events.").color(palette(ui).quiet));
        return;
    }
    widgets::key_value(ui, "index", StyledText::mono(text::count(doc.current_event())));
    widgets::key_value(ui, "time", StyledText::mono(doc.format_time(doc.current_event())));
    widgets::key_value(
        ui,
        "what",
        StyledText::body(descriptions::format_event(doc, doc.current_event())),
    );
}

fn buffer(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, name: &str) {
    let p = palette(ui);
    let Some(b) = doc.buffers.get(name).cloned() else {
        return;
    };
    let carrier = doc.buffers.origin(name).copied();
    let what = carrier.map_or(b.role.name(), |c| c.kind.name());
    widgets::section(ui, "Buffer");
    ui.label(RichText::new(&b.name).font(mono()));
    ui.label(RichText::new(format!("{what} · {}", descriptions::describe_buffer_type(doc, &b))).color(p.quiet));
    ui.add_space(4.0);
    let at = widgets::key_link(ui, "address", &b.va.to_string());
    let own = [("address", b.va.to_string()), ("name", b.name.clone())];
    copy_menu::for_selection(&at, doc, actions, &own, &Selection::Buffer(b.name.clone()));
    if at.clicked() {
        actions.show_memory(Some(b.address_space), b.va, b.bytes.min(16));
        actions.run_command("show-memory");
    }
    widgets::key_value(ui, "size", StyledText::mono(text::bytes(b.bytes)));
    match carrier {
        Some(c) => buffer_copies(doc, ui, &b, &c),
        None => rights(doc, ui, &b),
    }
    let edited = doc.changes().inputs().contains_key(&b.name);
    let state = if edited {
        StyledText::body("● edited by you").colour(p.edited)
    } else if carrier.is_none() && !lookup::has_content(&doc.recording, &b, doc.current_event()) {
        StyledText::body("not recorded").colour(p.warning)
    } else {
        StyledText::body("as recorded")
    };
    widgets::key_value(ui, "content", state);
    ui.add_space(8.0);
    ui.horizontal_wrapped(|ui| {
        let values = if doc.buffers.is_editable(&b.name) {
            "Edit values"
        } else {
            "Show values"
        };
        if ui.button(values).clicked() {
            actions.run_command("show-inputs");
        }
        if carrier.is_none() && ui.button("Show pages").clicked() {
            actions.push(PanelAction::Pages(PageTablesTarget {
                space: Some(b.address_space),
                frame: Some((b.va, b.bytes.div_ceil(4096))),
                at: None,
            }));
            actions.run_command("show-page-tables");
        }
    });
}

/// Draws the access rights of a buffer's mapping.
fn rights(doc: &Document, ui: &mut Ui, b: &Buffer) {
    let space = doc.derived.spaces.get(b.address_space as usize);
    let mapping = space.and_then(|s| s.mapping_at(b.va));
    let rights = mapping.map_or_else(|| "not mapped".into(), |m| page_runs::format_rights(m.rights));
    widgets::key_value(ui, "rights", StyledText::mono(rights));
}

/// Draws the copies that carry a buffer of an API trace.
fn buffer_copies(doc: &mut Document, ui: &mut Ui, b: &Buffer, c: &BufferOrigin) {
    let message = format!("event {}", text::count(c.event));
    if widgets::key_link(ui, "copy", &message).clicked() {
        doc.go_with(c.event, Selection::Buffer(b.name.clone()));
    }
    if c.times > 1 {
        let message = text::count_noun(c.times, "copy", "copies");
        widgets::key_value(ui, "in all", StyledText::body(message))
            .on_hover_text("a replay uses the edited values for all of them");
    }
}

/// Draws the selected bytes of an address space: what they belong to, their translation, values and references.
fn memory(
    doc: &mut Document,
    actions: &mut UiActions,
    inputs: &inputs::View,
    ui: &mut Ui,
    (space, va, bytes): (u32, u64, u64),
) {
    let p = palette(ui);
    widgets::section(ui, "Memory");
    let at = ui.add(egui::Label::new(RichText::new(format!("{va:#x}")).font(mono())).sense(egui::Sense::click()));
    let own = [("address", format!("{va:#x}")), ("address in decimal", va.to_string())];
    copy_menu::for_selection(
        &at,
        doc,
        actions,
        &own,
        &Selection::Memory {
            space,
            va: GpuVa::new(va),
            bytes,
        },
    );
    let message = format!(
        "{} · AS {}",
        if bytes == 1 {
            "1 byte".to_owned()
        } else {
            format!("{} bytes", text::count(bytes))
        },
        doc.derived.spaces.get(space as usize).map_or(0, |s| s.number)
    );
    ui.label(RichText::new(message).color(p.quiet));
    ui.add_space(4.0);
    if let Some((name, at)) =
        derived_data::buffer_at(&doc.recording, space, GpuVa::new(va)).map(|(n, a)| (n.to_owned(), a))
        && widgets::key_link(ui, "buffer", &format!("{name} + {at:#x}")).clicked()
    {
        doc.select(Selection::Buffer(name));
    }
    pixel::memory_pixel(doc, inputs, ui, (space, va, bytes));
    if let Some((m, at)) = doc
        .derived
        .device
        .and_then(|d| d.map().memory_at(space, GpuVa::new(va)))
    {
        let place = widgets::key_link(ui, "named", &format!("{} + {at:#x}", m.name));
        let place = if m.doc.is_empty() {
            place
        } else {
            place.on_hover_text(&m.doc)
        };
        if place.clicked() {
            actions.show_memory_at_top(Some(space), m.address, m.bytes);
            actions.run_command("show-memory");
        }
    }
    mapping(doc, actions, ui, space, va);
    byte_values(doc, ui, space, va);
    memory_buttons(actions, ui, space, va);
    reference_list::ui(doc, actions, ui);
}

/// Draws the mapping, the page and the page-table entry of an address.
fn mapping(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, space: u32, va: u64) {
    if let Some(m) = doc
        .derived
        .spaces
        .get(space as usize)
        .and_then(|s| s.mapping_at(GpuVa::new(va)))
        .copied()
    {
        let message = format!(
            "{} · {}",
            page_runs::format_rights(m.rights),
            text::count_noun(m.pages, "page", "pages")
        );
        let mapping = widgets::key_link(ui, "mapping", &message);
        let range = format!("{:#x}..{:#x}", m.va, m.end());
        if widgets::add_copy_menu(&mapping, &[("range", range)]).clicked() {
            actions.push(PanelAction::Pages(PageTablesTarget {
                space: Some(space),
                frame: Some((m.va, m.pages)),
                at: Some(GpuVa::new(va)),
            }));
            actions.run_command("show-page-tables");
        }
    }
    let uses = xref_text::describe_page(&doc.recording, &doc.derived, space, GpuVa::new(va), doc.current_event());
    let shown = widgets::key_value(ui, "page holds", StyledText::body(&uses));
    widgets::add_copy_menu(&shown, &[("use", uses)]);
    if let Ok(leaf) = lookup::walk(&doc.recording, space, GpuVa::new(va), doc.current_event())
        .map_or(Err(()), |w| w.result.map_err(|_| ()))
        && let Some(pa) = leaf.target(GpuVa::new(va))
    {
        let at = widgets::key_value(ui, "physical", StyledText::mono(pa.to_string()));
        widgets::add_copy_menu(&at, &[("physical address", pa.to_string())]);
    }
    if let Some(level) = last_level(&doc.recording, space, GpuVa::new(va), doc.current_event())
        && let Some(s) = read_entry(&doc.recording, space, GpuVa::new(va), level, doc.current_event())
    {
        let message = format!(
            "L{level} [{}] {}",
            s.index,
            page_table_marks::describe_entry_kind(s.kind).0
        );
        let hover = actions.tooltip("select-entry", "the page-table entry that maps it, and its references");
        if widgets::key_link(ui, "entry", &message).on_hover_text(hover).clicked() {
            doc.select(Selection::Entry {
                space,
                va: GpuVa::new(va),
                level,
            });
        }
    }
}

/// Draws the bytes from an address on as elements of each type, with the user's edits.
fn byte_values(doc: &Document, ui: &mut Ui, space: u32, va: u64) {
    let p = palette(ui);
    let line = lookup::read(&doc.recording, space, GpuVa::new(va), doc.current_event(), 8);
    let mut now: Vec<Option<u8>> = line.iter().map(|b| b.ok()).collect();
    let edited = edited_bytes(doc, space, va, &mut now);
    widgets::section(ui, "Values, little-endian");
    if edited {
        widgets::key_value(ui, "content", StyledText::body("● edited by you").colour(p.edited));
        let was: Vec<String> = line
            .iter()
            .map(|b| b.map_or("··".into(), |b| format!("{b:02x}")))
            .collect();
        widgets::key_value(ui, "recorded", StyledText::mono(was.join(" ")));
    }
    let hex: Vec<String> = now
        .iter()
        .map(|b| b.map_or("··".into(), |b| format!("{b:02x}")))
        .collect();
    let mut rows = vec![("hex", hex.join(" "))];
    if let Some(Some(b)) = now.first() {
        let c = if (0x20..0x7f).contains(b) {
            format!("'{}'  ", *b as char)
        } else {
            String::new()
        };
        rows.push(("bits", format!("{c}{b:#010b}")));
    }
    for e in ElementType::ALL {
        let known: Option<Vec<u8>> = now.iter().take(e.bytes()).copied().collect();
        rows.push((
            e.name(),
            known.map_or_else(|| "not recorded".into(), |b| values::format_element(e, &b)),
        ));
    }
    for (name, shown) in rows {
        let mut part = StyledText::mono(&shown);
        if edited {
            part = part.colour(p.edited);
        }
        widgets::add_copy_menu(&widgets::key_value(ui, name, part), &[("value", shown)]);
    }
}

/// Draws the buttons that find references to a byte and walk the page tables.
fn memory_buttons(actions: &mut UiActions, ui: &mut Ui, space: u32, va: u64) {
    ui.add_space(8.0);
    ui.horizontal_wrapped(|ui| {
        if ui
            .button("Show references")
            .on_hover_text("a double click on a byte in Memory does the same")
            .clicked()
        {
            actions.push(PanelAction::FindReferences {
                space,
                va: GpuVa::new(va),
            });
            actions.run_command("show-memory");
        }
        if ui.button("Walk the page tables").clicked() {
            actions.push(PanelAction::Pages(PageTablesTarget {
                at: Some(GpuVa::new(va)),
                ..PageTablesTarget::default()
            }));
            actions.run_command("show-page-tables");
        }
    });
}

/// Overlays the user's edits on bytes of memory. Returns `true` if there were edits.
fn edited_bytes(doc: &Document, space: u32, va: u64, bytes: &mut [Option<u8>]) -> bool {
    let mut any = false;
    for (i, b) in bytes.iter_mut().enumerate() {
        let at = va.saturating_add(i as u64);
        for (name, edited) in doc.changes().inputs() {
            let Some(buffer) = doc.recording.buffer(name).filter(|b| b.address_space == space) else {
                continue;
            };
            let Some(offset) = at.checked_sub(buffer.va.get()).filter(|o| *o < buffer.bytes) else {
                continue;
            };
            let mut one = [b.unwrap_or(0)];
            edited.overlay(offset, &mut one);
            if b.unwrap_or(0) != one[0] {
                *b = Some(one[0]);
                any = true;
            }
        }
    }
    any
}

fn finding(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, index: u32) {
    let p = palette(ui);
    let Some(f) = doc.derived.findings.get(index as usize).cloned() else {
        return;
    };
    widgets::section(ui, "Finding");
    let (mark, word) = severity_label(f.severity);
    let colour = severity_colour(p, f.severity);
    ui.label(RichText::new(format!("{mark} {word}")).color(colour));
    ui.label(RichText::new(kind_name(f.kind)).font(mono()));
    ui.add_space(6.0);
    ui.add(egui::Label::new(text::group_digits(&f.message)).wrap());
    ui.add_space(6.0);
    match f.address {
        Some(va) => {
            if widgets::key_link(ui, "location", &f.place).clicked() {
                actions.show_memory(Some(0), va, 1);
                actions.run_command("show-page-tables");
            }
        }
        None => {
            ui.add(egui::Label::new(RichText::new(&f.place).font(small()).color(p.quiet)).wrap());
        }
    }
    if let Some(e) = f.event
        && widgets::key_link(ui, "at", &format!("event {}", text::count(e))).clicked()
    {
        doc.go(e);
    }
}

fn note(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, event: u64) {
    widgets::section(ui, "Note");
    let field = notebook::note_field(doc, ui, "Note text", event, 3);
    if actions.take_focus("note") {
        field.select_all();
    }
    ui.add_space(6.0);
    if widgets::key_link(ui, "at", &format!("event {}", text::count(event))).clicked() {
        doc.go(event);
    }
    if ui.button("Remove note").clicked() {
        actions.run_command("remove-note");
    }
}

/// Draws a fault of the last replay; if there is none, the event at which it was reported.
fn fault(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, index: u32) {
    let outcome = doc.replay.outcome.clone();
    match outcome.as_ref().and_then(|o| o.faults.get(index as usize)) {
        Some(f) => replay::fault(doc, actions, ui, f),
        None => event(doc, ui),
    }
}

fn divergence(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, index: u32) {
    let p = palette(ui);
    let Some(d) = doc
        .replay
        .outcome
        .as_ref()
        .and_then(|o| o.divergences.get(index as usize))
        .cloned()
    else {
        return;
    };
    widgets::section(ui, "Divergence");
    ui.label(RichText::new(format!("▲ {}", d.register)).font(mono()).color(p.error));
    ui.add_space(4.0);
    if widgets::key_link(ui, "at", &format!("event {}", text::count(d.event))).clicked() {
        doc.go(d.event);
    }
    let access = usize::try_from(d.event)
        .ok()
        .and_then(|at| doc.recording.events.access(at));
    let describe = |v: u64| access.map_or_else(|| doc.numbers.format_unsized(v), |a| doc.numbers.format(v, a.width));
    let (recorded, got) = (describe(d.expected), describe(d.got));
    widgets::key_value(ui, "recorded", StyledText::mono(recorded));
    widgets::key_value(ui, "got", StyledText::mono(got).colour(p.error));
    widgets::key_value(
        ui,
        "differing bits",
        StyledText::mono(format!("{:#x}", d.expected ^ d.got)),
    );
    widgets::key_value(ui, "class", StyledText::body(&d.class));
    if let Some(j) = d.job
        && widgets::key_link(ui, "after", &format!("job {j}")).clicked()
    {
        doc.go_job(j);
    }
    if let Some(r) = doc.derived.find_register_by_name(&d.register) {
        register::details(doc, actions, ui, r);
    }
}

/// Maximum number of edits that are listed one by one.
const EDITS: usize = 12;

/// Draws each edit with its switch, the latest first.
fn switches(doc: &mut Document, ui: &mut Ui) {
    let p = palette(ui);
    let listed: Vec<(u64, String, bool)> = {
        let edits = doc.changes().edits().take(EDITS + 1);
        edits.map(|(place, c, on)| (place, c.title(), on)).collect()
    };
    let mut switch = None;
    for (place, message, on) in listed.iter().take(EDITS) {
        let (mut now, colour) = (*on, if *on { p.text } else { p.quiet });
        ui.horizontal(|ui| {
            let rich_text = RichText::new(message).font(small()).color(colour);
            let rich_text = if *on { rich_text } else { rich_text.strikethrough() };
            let r = ui.add(egui::Checkbox::new(&mut now, rich_text));
            let name = format!("apply edit {place}");
            r.widget_info(|| egui::WidgetInfo::selected(egui::accesskit::Role::CheckBox, true, now, &name));
            r.on_hover_text("apply the edit, or exclude it and keep the later edits");
        });
        if now != *on {
            switch = Some((*place, now));
        }
    }
    if listed.len() > EDITS {
        ui.label(RichText::new("and earlier edits").font(small()).color(p.quiet));
    }
    if let Some((place, on)) = switch {
        doc.switch_edit(place, on);
    }
}

fn edits(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    if doc.changes().is_empty() && doc.changes().next().is_none() {
        return;
    }
    widgets::section(ui, "Edits");
    let inputs: Vec<(String, u64)> = doc
        .changes()
        .inputs()
        .iter()
        .map(|(n, b)| (n.clone(), b.len()))
        .collect();
    for (name, len) in inputs {
        let left = StyledText::body(format!("● {name}")).colour(p.edited);
        let row = widgets::list_row(
            ui,
            &format!("edited {name}"),
            false,
            0.0,
            left,
            StyledText::mono(text::bytes(len)),
        );
        if row.clicked() {
            doc.select(Selection::Buffer(name));
            actions.run_command("show-inputs");
        }
    }
    switches(doc, ui);
    if let Some(c) = doc.changes().last() {
        ui.add(
            egui::Label::new(
                RichText::new(format!("last: {}", c.title()))
                    .font(small())
                    .color(p.quiet),
            )
            .truncate(),
        );
    }
    ui.add_space(6.0);
    ui.horizontal_wrapped(|ui| {
        if ui
            .add_enabled(!doc.changes().is_empty(), egui::Button::new("Undo"))
            .clicked()
        {
            actions.run_command("undo");
        }
        if ui
            .add_enabled(doc.changes().next().is_some(), egui::Button::new("Redo"))
            .clicked()
        {
            actions.run_command("redo");
        }
        // The window makes no plan of a WebAssembly run.
        let has_plan = !is_wasm_run(&doc.recording);
        if has_plan && ui.button("Show plan").clicked() {
            actions.run_command("plan");
            actions.run_command("show-replay");
        }
    });
}
