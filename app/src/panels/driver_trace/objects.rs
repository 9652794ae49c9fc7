//! The Objects panel: the objects of the kernel driver as a tree, with size, address, life time and who asked for them.

mod row;
pub mod view;

pub use view::View;

use crate::panels::common::actions::UiActions;
use crate::theme::columns::{Column, Table};
use crate::theme::{body, icons, mono, palette, widgets};
use egui::{Key, RichText, Ui};
use kinescope_session::driver_data::{DriverData, ObjectFilter, select_objects};
use kinescope_session::{Document, text};
use std::sync::Arc;
use trace_core::progress::Progress;

/// Name of the table in the workspace.
pub(super) const TABLE: &str = "objects";
/// Width of a name without its indentation, points.
const NAME_WIDTH: f32 = 150.0;
/// Maximum number of objects that are filtered at once; more are filtered in a background job.
const AT_ONCE: usize = 20_000;
/// Width of the bar that the filter field leaves to the others, points.
const OTHERS: f32 = 330.0;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let what = "the objects of the driver: buffers, channels, address spaces, with their life time";
    let Some(data) = super::find_driver_data(doc, actions, ui, what) else {
        return;
    };
    if data.tree.is_empty() {
        let message = "This driver trace holds no object that the program knows.";
        if widgets::empty_state(ui, icons::TREE_STRUCTURE, message, Some("Show events")) {
            actions.run_command("show-events");
        }
        return;
    }
    follow(doc, view, &data);
    update_rows(doc, view, actions, &data);
    bar(view, ui, &data);
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns(doc, &data));
    if view.rows.is_empty() && view.choosing.is_none() {
        table.finish(ui, actions.tables.state(TABLE));
        let message = match view.only_current && view.filter.trim().is_empty() {
            true => "No object exists at the current event.",
            false => "No object contains these words.",
        };
        if widgets::empty_state(ui, icons::TREE_STRUCTURE, message, Some("Show all objects")) {
            view.filter.clear();
            view.only_current = false;
        }
        return;
    }
    let rows = Arc::clone(&view.rows);
    if std::mem::take(&mut view.reveal)
        && let Some(row) = view.selected.and_then(|o| data.row_of(o))
        && let Ok(at) = rows.binary_search(&row)
    {
        view.list.reveal(at as u64);
    }
    let mut list = view.list;
    list.show(ui, "Objects", rows.len() as u64, |ui, n, rect| {
        if let Some(row) = rows.get(n as usize).and_then(|at| data.tree.get(*at as usize)) {
            row::ui(doc, view, actions, ui, &data, &table, (row, rect));
        }
    });
    view.list = list;
    table.finish(ui, actions.tables.state(TABLE));
}

fn columns(doc: &Document, data: &DriverData) -> [Column; 9] {
    let names = NAME_WIDTH + row::indent(data.max_depth);
    let has_arguments = doc.recording.driver_trace().is_some_and(|m| m.has_arguments);
    [
        Column::new("object", "object", names).stretch(0.3).max_width(320.0),
        Column::new("class", "class", 120.0)
            .stretch(0.4)
            .max_width(260.0)
            .hide_order(4)
            .hide_if_empty(!has_arguments),
        Column::new("size", "size", 98.0).number(),
        Column::new("amount", "amount", 62.0).number().hide_order(7),
        Column::new("place", "memory", 44.0).hide_order(6),
        Column::new("address", "GPU address", 118.0)
            .stretch(0.5)
            .max_width(230.0)
            .hide_order(3),
        Column::new("created", "allocated", 56.0).number().fit_count(doc.len()),
        Column::new("freed", "freed", 54.0)
            .number()
            .fit_count(doc.len())
            .hide_order(2),
        Column::new("caller", "asked for by", 110.0).stretch(1.0),
    ]
}

/// Selects the object of the event that the user went to.
fn follow(doc: &Document, view: &mut View, data: &DriverData) {
    if view.seen_jump == doc.jumps {
        return;
    }
    view.seen_jump = doc.jumps;
    if let Some(object) = data.object_at(doc.current_event()) {
        view.selected = Some(object);
        view.reveal = true;
    }
}

/// Chooses the rows again if the filter or the current event changed.
fn update_rows(doc: &Document, view: &mut View, actions: &mut UiActions, data: &Arc<DriverData>) {
    let filter = ObjectFilter {
        text: view.filter.trim().to_owned(),
        at: view.only_current.then(|| doc.current_event()),
    };
    let key = (Arc::as_ptr(data) as usize, filter.clone(), view.fold_changes);
    if view.rows_key.as_ref() == Some(&key) {
        return;
    }
    if let Some(before) = view.choosing.take() {
        before.cancel();
    }
    view.rows_key = Some(key.clone());
    if data.tree.len() <= AT_ONCE {
        let found = select_objects(data, &doc.recording, &filter, &view.folded, &Progress::new());
        view.rows = Arc::new(found.unwrap_or_default());
        return;
    }
    let (data, recording, folded) = (Arc::clone(data), Arc::clone(&doc.recording), view.folded.clone());
    view.choosing = Some(actions.start_work::<View>("filtering objects", move |progress| {
        let found = select_objects(&data, &recording, &filter, &folded, progress);
        Box::new(move |_, view, _| {
            if let Ok(rows) = found
                && view.rows_key.as_ref() == Some(&key)
            {
                view.choosing = None;
                view.rows = Arc::new(rows);
            }
        })
    }));
}

fn bar(view: &mut View, ui: &mut Ui, data: &DriverData) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        let hint = RichText::new("kind, class, size or caller").font(body()).color(p.quiet);
        let edit = egui::TextEdit::singleline(&mut view.filter)
            .id(egui::Id::unique("objects-filter"))
            .font(mono())
            .desired_width((ui.available_width() - OTHERS).clamp(90.0, 320.0))
            .hint_text(hint);
        let r = ui.add(edit).accessible_name("Filter objects");
        if r.has_focus() && ui.input(|i| i.key_pressed(Key::Escape)) {
            view.filter.clear();
        }
        if !view.filter.is_empty() && widgets::icon_button(ui, icons::X, "Show all objects").clicked() {
            view.filter.clear();
        }
        let current = egui::Checkbox::new(&mut view.only_current, "at the current event");
        ui.add(current)
            .on_hover_text("Show only the objects that exist after the current event.");
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(10.0);
            let (shown, all) = (view.rows.len() as u64, data.tree.len() as u64);
            let message = match view.choosing.is_some() {
                true => "filtering…".to_owned(),
                false if shown == all => text::count_noun(all, "object", "objects"),
                false => format!("{} of {}", text::count(shown), text::count(all)),
            };
            ui.add(egui::Label::new(RichText::new(message).color(p.quiet).font(mono())).truncate());
        });
    });
}
