//! The Inputs panel: the buffers of a recording, their content, and the user's edits.

mod grid;
mod list;
mod listing;
mod picture;
pub mod pixel;
mod plots;
pub mod shape;
pub mod slice;
pub mod summary;
mod tensor;
pub mod view;
mod views;

pub use grid::parse_field;
pub use list::shows_outputs;
pub use view::{Brush, View, ViewMode};

use crate::panels::common::actions::{UiAction, UiActions};
use crate::panels::common::copy_menu;
use crate::theme::widgets;
use crate::theme::{icons, palette, small};
use egui::accesskit::Role;
use egui::{Rect, RichText, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_files::changes::Change;
use kinescope_files::contents::{BufferContents, CHUNK};
use kinescope_files::scene::Selection;
use kinescope_session::derived_data::Stage;
use kinescope_session::wasm_run::{is_wasm_run, replay_commands};
use kinescope_session::{Document, text};
use shape::Layout;
use std::sync::Arc;
use summary::{Key, Summary};
use trace_core::progress::Progress;
use trace_core::recording::{Buffer, BufferRole, ElementType};
use view::edit_refusal;
use wasm_recording::CopyStream;

/// Starts to edit an element of the current buffer, as a click on it does.
pub fn edit_element(doc: &mut Document, view: &mut View, index: u64) {
    let Some(buffer) = view.current_buffer(doc) else { return };
    view.change_to(&buffer.name);
    let element = doc.element(&buffer);
    if let Some(contents) = doc.contents(&buffer.name) {
        grid::start_editing(doc, view, &contents, element, index);
    }
}

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    view.follow(doc);
    let Some(buffer) = view.current_buffer(doc) else {
        if !doc.derived.has_stage(Stage::Buffers) && doc.derivation.is_some() {
            widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, "Listing inputs and outputs …", None);
            return;
        }
        let message = if doc.recording.api().is_some() {
            "This API trace holds no copies between host and device, so there is nothing to edit. Memory shows its \
             buffers."
        } else {
            "This recording names no buffers, so there is nothing to edit. Memory shows what the GPU can reach."
        };
        if widgets::empty_state(ui, icons::PENCIL_SIMPLE, message, Some("Show memory")) {
            actions.run_command("show-memory");
        }
        return;
    };
    view.change_to(&buffer.name);
    let full = ui.available_rect_before_wrap();
    let list = (full.width() * 0.28).clamp(150.0, 220.0);
    let left = Rect::from_min_max(full.min, pos2(full.left() + list, full.bottom()));
    let right = Rect::from_min_max(pos2(left.right(), full.top()), full.max);
    ui.painter()
        .vline(right.left(), right.y_range(), Stroke::new(1.0, p.line));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left.shrink2(vec2(12.0, 0.0))));
    egui::ScrollArea::vertical()
        .id_salt("buffers")
        .auto_shrink(false)
        .show(&mut child, |ui| list::ui(doc, view, ui, &buffer));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right.shrink2(vec2(12.0, 6.0))));
    child.shrink_clip_rect(right);
    content(doc, view, actions, &mut child, &buffer);
    ui.advance_cursor_after_rect(full);
}

/// Returns the summary of a buffer: computed at once if that is quick, else off the interface thread. The older one is
/// shown until the new one is there.
fn summary(
    doc: &Document,
    view: &mut View,
    actions: &mut UiActions,
    contents: &BufferContents,
    element: ElementType,
) -> Option<Arc<Summary>> {
    let buffer = contents.buffer();
    let key = Key {
        name: buffer.name.clone(),
        element,
        stamp: doc.changes().stamp(&buffer.name),
        shape: view.shape_of(doc, buffer, element),
    };
    let held = view
        .summary
        .clone()
        .filter(|s| s.key.name == key.name && s.key.element == element);
    if held.as_ref().is_some_and(|s| s.key == key) {
        return held;
    }
    if buffer.bytes <= CHUNK {
        let made = summary::compute(key, contents, &Progress::new()).ok().map(Arc::new);
        view.summary.clone_from(&made);
        return made;
    }
    let under_way = view.working.as_ref().is_some_and(|(k, _)| *k == key);
    if !under_way && view.stopped.as_ref() != Some(&key) {
        if let Some((_, old)) = view.working.take() {
            old.cancel();
        }
        let contents = contents.clone();
        let wanted = key.clone();
        let progress = actions.start_work::<View>(format!("reading the values of {}", key.name), move |progress| {
            let made = summary::compute(wanted.clone(), &contents, progress);
            Box::new(move |_, view, _| {
                if view.working.as_ref().is_none_or(|(k, _)| *k != wanted) {
                    return;
                }
                view.working = None;
                match made {
                    Ok(s) => view.summary = Some(Arc::new(s)),
                    Err(_) => view.stopped = Some(wanted),
                }
            })
        });
        view.working = Some((key, progress));
    }
    held
}

fn content(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, buffer: &Buffer) {
    let Some(contents) = doc.contents(&buffer.name) else {
        widgets::empty_state(
            ui,
            icons::WARNING,
            "This buffer's address space is not in the recording.",
            None,
        );
        return;
    };
    let element = doc.element(buffer);
    let s = summary(doc, view, actions, &contents, element);
    ui.spacing_mut().item_spacing.y = 2.0;
    head(doc, actions, ui, &contents);
    tools(doc, view, actions, ui, &contents, element);
    show_run_hint(doc, ui, buffer);
    show_description(view, ui, &contents, element, s.as_deref());
    grid::editor(doc, view, ui, &contents, element);
    let full = ui.available_rect_before_wrap();
    let wide = (full.width() * 0.5).max(full.width().min(220.0));
    let left = Rect::from_min_size(full.min, vec2(wide, full.height()));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
    child.shrink_clip_rect(left);
    match &s {
        Some(s) => views::ui(doc, view, actions, &mut child, &contents, element, s),
        None if view.stopped.is_some() => {
            let what = "Reading of the values was stopped. The table still shows all of them.";
            if widgets::empty_state(&mut child, icons::CHART_BAR, what, Some("Read again")) {
                view.stopped = None;
            }
        }
        None => {
            let what = format!("Reading {} …", text::bytes(buffer.bytes));
            widgets::empty_state(&mut child, icons::HOURGLASS_SIMPLE_MEDIUM, &what, None);
        }
    }
    let right = Rect::from_min_max(pos2(left.right() + 12.0, full.top()), full.max);
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right));
    grid::table(doc, view, &mut child, &contents, element);
}

fn head(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, contents: &BufferContents) {
    let p = palette(ui);
    let b = contents.buffer();
    let edited = contents.edited().is_some();
    ui.horizontal(|ui| {
        ui.set_height(24.0);
        let ink = if edited { p.edited } else { p.text };
        let name = RichText::new(&b.name)
            .font(crate::theme::strong())
            .size(13.0)
            .color(ink);
        ui.label(name);
        let carrier = doc.buffers.origin(&b.name).copied();
        let what = match carrier {
            Some(c) if is_wasm_run(&doc.recording) => stream_name(c.row.stream),
            Some(c) => c.kind.name(),
            None => b.role.name(),
        };
        ui.label(RichText::new(what).color(p.quiet));
        if let Some(c) = carrier {
            let words = format!("event {}", text::count(c.event));
            let r = widgets::link(ui, "event of the copy", &words);
            if r.on_hover_text("goes to the copy").clicked() {
                doc.go_with(c.event, Selection::Buffer(b.name.clone()));
            }
            if c.times > 1 {
                let words = RichText::new(format!("{} copies", text::count(c.times))).color(p.quiet);
                ui.label(words)
                    .on_hover_text("the first copy is shown; a replay uses its edited values for all of them");
            }
        }
        if is_wasm_run(&doc.recording) {
            // The streams of a program have no addresses.
            ui.label(RichText::new(text::bytes(b.bytes)).color(p.quiet));
            show_edited(ui, edited);
            return;
        }
        let at = widgets::link(ui, "address of the buffer", &format!("{:#x}", b.va.get()));
        let own = [("address", format!("{:#x}", b.va.get())), ("name", b.name.clone())];
        copy_menu::for_selection(&at, doc, actions, &own, &Selection::Buffer(b.name.clone()));
        if at.clicked() {
            actions.show_memory(Some(b.address_space), b.va, b.bytes.min(16));
            actions.run_command("show-memory");
        }
        ui.label(RichText::new(text::bytes(b.bytes)).color(p.quiet));
        show_edited(ui, edited);
    });
}

/// Returns the name of a stream of a WebAssembly program.
fn stream_name(stream: u32) -> &'static str {
    let known = CopyStream::ALL.into_iter().find(|s| *s as u32 == stream);
    known.map_or("stream", CopyStream::name)
}

fn show_edited(ui: &mut Ui, edited: bool) {
    if edited {
        ui.label(RichText::new("● edited").color(palette(ui).edited));
    }
}

/// Says how a WebAssembly program runs on the edited input: the window does not replay it.
fn show_run_hint(doc: &Document, ui: &mut Ui, buffer: &Buffer) {
    if !is_wasm_run(&doc.recording) || buffer.role != BufferRole::Input {
        return;
    }
    let p = palette(ui);
    let commands = replay_commands(&doc.replay, &doc.path);
    let Some(first) = commands.first() else { return };
    let command = format!("{} --input {}=FILE", first.command, buffer.name);
    ui.horizontal(|ui| {
        ui.set_height(22.0);
        let copy = widgets::icon_button(ui, icons::COPY, "Copy the replay command");
        if copy.on_hover_text(&command).clicked() {
            ui.ctx().copy_text(command.clone());
        }
        let message = "Save edited bytes to a file, and run the program on it with kinescope replay --input.";
        let words = RichText::new(message).font(small()).color(p.quiet);
        ui.add(egui::Label::new(words).truncate()).on_hover_text(&command);
    });
}

fn tools(
    doc: &mut Document,
    view: &mut View,
    actions: &mut UiActions,
    ui: &mut Ui,
    contents: &BufferContents,
    element: ElementType,
) {
    let b = contents.buffer();
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        let may = contents.is_editable();
        let what = "a raw, NPY, PNG or CSV file; floating-point values of a picture go from 0 to 1";
        let load = ui.add_enabled(may, egui::Button::new("Load…"));
        if load
            .on_hover_text(what)
            .on_disabled_hover_text(edit_refusal(doc))
            .clicked()
        {
            let mut buffer = b.clone();
            buffer.element = element;
            let shape = view.shape_of(doc, &buffer, element);
            let planes = shape.is_some_and(|s| s.layout == Layout::Planes);
            actions.push(UiAction::Load { buffer, planes });
        }
        if ui.button("Save…").on_hover_text("as raw bytes or NPY").clicked() {
            actions.push(UiAction::Save(b.name.clone(), element));
        }
        let r = ui.add_enabled(contents.edited().is_some(), egui::Button::new("Revert"));
        if r.on_hover_text("discard the edits of this buffer; undo restores them")
            .clicked()
        {
            actions.run_command("revert-input");
        }
        let clear = ui.add_enabled(may, egui::Button::new("Clear"));
        if clear
            .on_hover_text("set every byte to zero")
            .on_disabled_hover_text(edit_refusal(doc))
            .clicked()
        {
            actions.push(UiAction::Clear(b.name.clone()));
        }
        let mut next = element;
        let combo = egui::ComboBox::from_id_salt("element")
            .selected_text(element.name())
            .width(48.0)
            .height(340.0)
            .show_ui(ui, |ui| {
                for e in ElementType::ALL {
                    ui.selectable_value(&mut next, e, e.name());
                }
            });
        combo
            .response
            .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Element type"));
        if next != element {
            let name = |e: ElementType| (e != b.element).then(|| e.name().to_owned());
            doc.change(Change::Element {
                buffer: b.name.clone(),
                old: name(element),
                new: name(next),
            });
            view.editing = None;
            view.seen = None;
        }
        if ui.checkbox(&mut view.hex, "hex").changed() {
            view.editing = None;
        }
    });
}

fn show_description(view: &View, ui: &mut Ui, contents: &BufferContents, element: ElementType, s: Option<&Summary>) {
    let p = palette(ui);
    let n = contents.buffer().bytes / element.bytes() as u64;
    ui.horizontal(|ui| {
        ui.set_height(18.0);
        let mut parts = vec![(format!("{} values", text::count(n)), p.quiet)];
        if let Some(s) = s {
            let range = s.now.range().map_or_else(
                || "none of them finite".into(),
                |(a, b)| format!("{} … {}", text::format_short(a), text::format_short(b)),
            );
            parts.push((range, p.quiet));
            if s.odd > 0 {
                parts.push((format!("! {} not finite", text::count(s.odd)), p.warning));
            }
            if let Some(e) = contents.edited() {
                let pages = match e.pages() {
                    1 => "1 page differs".to_owned(),
                    k => format!("{} pages differ", text::count(k as u64)),
                };
                parts.push((
                    format!("● {} of them edited, {pages}", text::count(s.changed)),
                    p.edited,
                ));
            } else if s.unknown > 0 {
                let unknown = text::bytes(s.unknown);
                parts.push((format!("! {unknown} not recorded, counted as zero"), p.warning));
            }
        } else if view.working.is_some() {
            parts.push(("reading them …".into(), p.quiet));
        }
        for (t, ink) in parts {
            ui.add(egui::Label::new(RichText::new(t).font(small()).color(ink)).truncate());
        }
    });
}
