//! The Register panel: the current register bit by bit, and every access to it.

mod details;
mod guess;
mod values;
pub mod view;
mod wide_bits;

pub use details::details;
pub use view::{AccessFilter, View};

use crate::panels::common::actions::UiActions;
use crate::panels::common::copy_menu;
use crate::theme::columns::{Column, Table, Tables};
use crate::theme::{focus, icons, mono, palette, widgets};
use egui::accesskit::Role;
use egui::{Rect, RichText, Sense, Stroke, StrokeKind, Ui, WidgetInfo, vec2};
use kinescope_files::changes::PlotLine;
use kinescope_files::scene::Selection;
use kinescope_session::{Document, descriptions, lookup, text};
use std::sync::Arc;
use trace_core::RegOffset;
use trace_core::registers::{AccessList, Accesses, history};

/// Draws the panel: the bits with their fields, the values over time, the accesses. The inspector shows the other
/// details of the register.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let Some(register) = doc.current_register() else {
        return choose(doc, view, &mut actions.tables, ui);
    };
    let full = ui.available_rect_before_wrap().shrink2(vec2(12.0, 4.0));
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(full));
    child.shrink_clip_rect(full.expand2(vec2(12.0, 0.0)));
    child.spacing_mut().item_spacing.y = 4.0;
    head(doc, view, actions, &mut child, register);
    wide_bits::wide_bits(doc, &mut child, register);
    values::strip(doc, &mut child, register);
    if view.statistics {
        guess::ui(doc, view, actions, &mut child, register);
    } else {
        accesses(doc, view, actions, &mut child, register);
    }
    ui.advance_cursor_after_rect(full);
}

/// Width from which one row has room for all controls above the accesses, points.
const ONE_ROW: f32 = 640.0;

/// Draws the register's name, the buttons to other writes, and the choice of listed accesses.
fn head(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, register: RegOffset) {
    let narrow = ui.available_width() < ONE_ROW;
    ui.horizontal(|ui| {
        ui.set_height(26.0);
        let name = doc.derived.register_name(register);
        let r = ui.add(egui::Label::new(RichText::new(&name).font(mono())).sense(Sense::click()));
        let own = [("name", name), ("offset", format!("{register:#x}"))];
        copy_menu::for_selection(&r, doc, actions, &own, &Selection::Register(register));
        ui.add_space(4.0);
        details::steps(doc, actions, ui, register);
        plot_menu(doc, actions, ui, register);
        let help = actions.tooltip("name", "name the register and its fields");
        if ui.button("Name…").on_hover_text(help).clicked() {
            actions.run_command("name");
        }
        if !narrow {
            filter_buttons(view, ui);
        }
    });
    if narrow {
        ui.horizontal(|ui| {
            ui.set_height(26.0);
            filter_buttons(view, ui);
        });
    }
}

/// Draws the choice of listed accesses, from the right.
fn filter_buttons(view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
        let on = view.statistics;
        let r = ui.selectable_label(on, RichText::new("statistics").color(if on { p.text } else { p.quiet }));
        r.widget_info(|| WidgetInfo::selected(Role::Button, true, on, "Statistics of this register"));
        if r.on_hover_text("what its accesses suggest about the register")
            .clicked()
        {
            view.statistics = !on;
        }
        for which in AccessFilter::ALL.into_iter().rev() {
            let on = view.filter == which && !view.statistics;
            let r = ui.selectable_label(
                on,
                RichText::new(which.label()).color(if on { p.text } else { p.quiet }),
            );
            let label = format!("List {}", which.label());
            r.widget_info(|| WidgetInfo::selected(Role::Button, true, on, &label));
            if r.clicked() {
                view.filter = which;
                view.statistics = false;
                view.shown = None;
            }
        }
    });
}

/// Draws the button that plots the register or a field of it.
fn plot_menu(doc: &mut Document, actions: &mut UiActions, ui: &mut Ui, register: RegOffset) {
    let r = widgets::icon_button(ui, icons::CHART_BAR, "Plot this register or a field");
    egui::Popup::menu(&r).show(|ui| {
        let fields = lookup::find_register(&doc.recording, register).map(|d| d.layout.fields.as_ref());
        let fields = fields.unwrap_or_default().iter().map(|f| Some(f.name.clone()));
        egui::ScrollArea::vertical().max_height(360.0).show(ui, |ui| {
            for field in std::iter::once(None).chain(fields) {
                let line = PlotLine { register, field };
                let word = match &line.field {
                    None => format!("Plot {}", doc.derived.register_name(register)),
                    Some(f) => format!("Plot {}", f.replace('_', " ").to_lowercase()),
                };
                let on = doc.is_plotted(&line);
                let r = ui.selectable_label(on, &word);
                r.widget_info(|| WidgetInfo::selected(Role::Button, true, on, &word));
                if r.clicked() && doc.plot(&line) && !on {
                    actions.run_command("show-plots");
                }
            }
        });
    });
}

/// Number of accesses between two checks for cancellation.
const CHUNK: usize = 1 << 16;

/// Searches for the accesses that change a register's value, off the interface thread.
fn find_changes(doc: &Document, view: &mut View, actions: &mut UiActions, register: RegOffset) {
    if view.looking == Some(register) {
        return;
    }
    view.looking = Some(register);
    let (recording, derived) = (Arc::clone(&doc.recording), Arc::clone(&doc.derived));
    actions.start_work::<View>("looking for changes", move |progress| {
        let mut out = Accesses::default();
        let mut last = None;
        let mut stopped = false;
        if let Some(fact) = derived.registers.get(&register) {
            let accesses = &fact.accesses;
            progress.set_total(accesses.len() as u64);
            for (place, a) in accesses.iter().enumerate() {
                if place.is_multiple_of(CHUNK) && progress.advance(CHUNK as u64).is_err() {
                    stopped = true;
                    break;
                }
                let at = (place, a.event);
                let now = history::value_of(&recording, derived.device, register, accesses, at);
                if last != Some(now) {
                    out.push(a.event, a.write);
                }
                last = Some(now);
            }
        }
        out.shrink();
        Box::new(move |_, view, _| {
            if view.looking == Some(register) {
                view.looking = None;
                view.shown = None;
                // A stopped search shows all accesses instead of a new search.
                if stopped {
                    view.filter = AccessFilter::All;
                } else {
                    view.changes = Some((register, Arc::new(out)));
                }
            }
        })
    });
}

/// Name of the table of all registers in the workspace.
const REGISTERS: &str = "registers";

/// Returns the columns of the table of all registers.
fn register_columns(doc: &Document) -> [Column; 2] {
    [
        Column::new("register", "register", 120.0).stretch(1.0),
        Column::new("accesses", "accesses", 70.0).number().fit_count(doc.len()),
    ]
}

/// Draws the registers that the recording accesses, to choose from.
fn choose(doc: &mut Document, view: &mut View, tables: &mut Tables, ui: &mut Ui) {
    let p = palette(ui);
    if doc.derived.registers.is_empty() {
        if !doc.derived.has_stage(kinescope_session::derived_data::Stage::Registers) {
            let message = "Sorting accesses by register …";
            widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, message, None);
            return;
        }
        let message = if doc.recording.api().is_some() {
            "An API trace holds no register accesses. Launches and Events show what happened."
        } else {
            "This recording holds no register accesses. Events shows what it holds."
        };
        widgets::empty_state(ui, icons::CPU, message, None);
        return;
    }
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(ui.available_rect_before_wrap().shrink(12.0)));
    let ui = &mut child;
    ui.label(RichText::new("Choose a register, or select an event.").color(p.quiet));
    let field = egui::TextEdit::singleline(&mut view.find)
        .desired_width(220.0)
        .hint_text("name");
    ui.add(field).accessible_name("Find register");
    let search = view.find.to_uppercase();
    let derived = Arc::clone(&doc.derived);
    let list: Vec<_> = derived
        .registers
        .iter()
        .filter(|(_, r)| r.name.to_uppercase().contains(&search))
        .collect();
    let mut rows = view.all;
    let mut go = None;
    let table = Table::head(ui, tables.state(REGISTERS), REGISTERS, &register_columns(doc));
    rows.show(ui, "Registers", list.len() as u64, |ui, row, rect| {
        let Some((offset, r)) = list.get(row as usize) else {
            return;
        };
        let response = focus::row_response(ui, rect, ui.scope_id().with(("register", **offset)));
        response.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("register {}", r.name)));
        if response.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let accesses = text::count(r.accesses.len() as u64);
        table.text(ui, "register", rect, &r.name, mono(), p.text);
        table.text(ui, "accesses", rect, &accesses, mono(), p.quiet);
        if response.clicked() {
            go = r.accesses.all().first().map(|e| (e, **offset));
        }
    });
    table.finish(ui, tables.state(REGISTERS));
    view.all = rows;
    if let Some((event, offset)) = go {
        doc.go_with(event, Selection::Register(offset));
    }
}

/// Name of the table in the workspace.
const TABLE: &str = "accesses";

/// Returns the columns of the accesses to a register.
fn columns(doc: &Document) -> [Column; 4] {
    [
        Column::new("event", "event", 48.0).number().fit_count(doc.len()),
        Column::new("access", "access", 8.0),
        Column::new("value", "value", 80.0).stretch(0.1).max_width(150.0),
        Column::new("means", "means", 80.0).stretch(1.0).hide_order(1),
    ]
}

fn accesses(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, register: RegOffset) {
    let p = palette(ui);
    let derived = Arc::clone(&doc.derived);
    let Some(fact) = derived.registers.get(&register) else {
        return;
    };
    let changes = view.changes.clone().filter(|c| c.0 == register).map(|c| c.1);
    let events: AccessList<'_> = match (view.filter, &changes) {
        (AccessFilter::All, _) => fact.accesses.all(),
        (AccessFilter::Writes, _) => fact.accesses.writes(),
        (AccessFilter::Changes, Some(list)) => list.all(),
        (AccessFilter::Changes, None) => {
            find_changes(doc, view, actions, register);
            ui.label(RichText::new("looking for changes…").color(p.quiet));
            return;
        }
    };
    if events.is_empty() {
        ui.label(RichText::new("Nothing writes this register in this recording.").color(p.quiet));
        return;
    }
    let mut go = None;
    let n = events.count_until(doc.current_event()).saturating_sub(1) as u64;
    let mut rows = view.list;
    let shown = Some((register, doc.jumps));
    if view.shown != shown {
        view.shown = shown;
        rows.reveal(n);
    }
    let len = events.len() as u64;
    let table = Table::head(ui, actions.tables.state(TABLE), TABLE, &columns(doc));
    rows.show(ui, "Accesses", len, |ui, row, rect| {
        let Some(e) = events.get(row as usize) else {
            return;
        };
        let Some(a) = doc.recording.events.access(e as usize) else {
            return;
        };
        let r = focus::row_response(ui, rect, ui.scope_id().with(("access", e)));
        r.widget_info(|| WidgetInfo::labeled(Role::Row, true, format!("access at event {e}")));
        if e == doc.current_event() {
            ui.painter().rect_filled(rect, 0.0, p.selection);
        } else if r.hovered() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        table.text(ui, "event", rect, &text::count(e), mono(), p.quiet);
        let colour = if a.write { p.write } else { p.read };
        if let Some(cell) = table.cell("access", rect) {
            let m = Rect::from_center_size(cell.center(), vec2(8.0, 8.0));
            if a.write {
                ui.painter().rect_filled(m, 1.0, colour);
            } else {
                ui.painter()
                    .rect_stroke(m, 1.0, Stroke::new(1.2, colour), StrokeKind::Inside);
            }
        }
        table.text_middle(ui, "value", rect, &doc.numbers.format(a.value, a.width), p.text);
        table.text(
            ui,
            "means",
            rect,
            &descriptions::describe_event(doc, e),
            crate::theme::body(),
            p.quiet,
        );
        if r.clicked() {
            go = Some(e);
        }
        let value = text::hex(a.value, a.width);
        let forms = [
            ("event", e.to_string()),
            ("value", value.clone()),
            (
                "row",
                format!("{e}\t{}\t{value}", if a.write { "write" } else { "read" }),
            ),
        ];
        widgets::add_copy_menu(&r, &forms);
    });
    table.finish(ui, actions.tables.state(TABLE));
    view.list = rows;
    if let Some(e) = go {
        doc.go_with(e, Selection::Register(register));
        // The row is in view already.
        view.shown = Some((register, doc.jumps));
    }
}
