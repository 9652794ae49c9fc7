//! The choice of plots: the registers that the recording accesses, and their fields.

use super::line_names;
use super::view::View;
use crate::theme::widgets::{paint_middle, paint_text};
use crate::theme::{focus, icons, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, Button, RichText, Ui, WidgetInfo, vec2};
use kinescope_files::changes::PlotLine;
use kinescope_session::{Document, MAX_PLOTS, lookup, text};

/// Size of the list that the button opens, points.
const LIST: [f32; 2] = [380.0, 300.0];

/// Draws the button that adds a line, and the list that it opens.
pub(super) fn button(doc: &mut Document, view: &mut View, ui: &mut Ui) {
    let r = ui.add(Button::new(format!("{} Add", icons::PLUS)));
    r.widget_info(|| WidgetInfo::labeled(Role::Button, true, "Add to the plot"));
    let r = r.on_hover_text("Plot another register or field");
    let menu = egui::Popup::menu(&r).close_behavior(egui::PopupCloseBehavior::CloseOnClickOutside);
    let opened = !view.choosing;
    let open = menu.show(|ui| {
        ui.set_min_size(LIST.into());
        ui.set_max_size(LIST.into());
        offer(doc, view, opened, ui);
    });
    view.choosing = open.is_some();
}

/// Draws the same list in place of an empty plot.
pub(super) fn inline(doc: &mut Document, view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    ui.add_space(8.0);
    let message = "Choose a register to plot its values over events or time. To find a field, enter its name or \
         REGISTER.field.";
    ui.add(egui::Label::new(RichText::new(message).color(p.quiet)).wrap());
    if let Some(register) = doc.current_register() {
        let line = PlotLine { register, field: None };
        if ui
            .button(format!("Plot {}", line_names::line_name(doc, &line)))
            .clicked()
        {
            doc.plot(&line);
        }
    }
    offer(doc, view, false, ui);
}

/// Returns registers and fields whose names contain a text; fields only if the text is not empty.
fn find_lines(doc: &Document, search: &str) -> Vec<PlotLine> {
    let search = search.trim().to_lowercase();
    let mut out = Vec::new();
    for (offset, fact) in &doc.derived.registers {
        let register = PlotLine {
            register: *offset,
            field: None,
        };
        let name = fact.name.to_lowercase();
        if name.contains(&search) {
            out.push(register);
        }
        let def = Some(*offset).filter(|_| !search.is_empty());
        let Some(def) = def.and_then(|o| lookup::find_register(&doc.recording, o)) else {
            continue;
        };
        let fields = def.layout.fields.iter().map(|f| &f.name);
        let fits = fields.filter(|f| format!("{name}.{}", f.to_lowercase()).contains(&search));
        out.extend(fits.map(|f| PlotLine {
            register: *offset,
            field: Some(f.clone()),
        }));
    }
    out
}

/// Draws the search field and the matches; a click on a match plots it or removes it.
fn offer(doc: &mut Document, view: &mut View, focus: bool, ui: &mut Ui) {
    let p = palette(ui);
    let hint = RichText::new("register, or register.field").color(p.quiet);
    let field = egui::TextEdit::singleline(&mut view.find)
        .desired_width(260.0)
        .hint_text(hint);
    let r = ui.add(field).accessible_name("Find what to plot");
    if focus {
        r.request_focus();
    }
    let list = find_lines(doc, &view.find);
    if list.is_empty() {
        let message = format!("No accessed register or field matches {}.", view.find.trim());
        ui.label(RichText::new(message).color(p.quiet));
        return;
    }
    if doc.changes().plots().len() >= usize::from(MAX_PLOTS) {
        let message = format!("The plot has room for {MAX_PLOTS} lines. Remove one first.");
        ui.label(RichText::new(message).font(small()).color(p.warning));
    }
    let enter = r.lost_focus() && ui.input(|i| i.key_pressed(egui::Key::Enter));
    let mut toggled = list.first().filter(|_| enter && !view.find.trim().is_empty()).cloned();
    let mut rows = view.offered;
    rows.show(ui, "Registers and fields", list.len() as u64, |ui, row, rect| {
        let Some(line) = usize::try_from(row).ok().and_then(|n| list.get(n)) else {
            return;
        };
        let name = line_names::line_name(doc, line);
        let on = doc.is_plotted(line);
        let r = focus::row_response(ui, rect, ui.scope_id().with(("offer", &name)));
        r.widget_info(|| WidgetInfo::selected(Role::Row, true, on, format!("Plot {name}")));
        if on {
            crate::theme::widgets::select(ui, rect);
        } else if r.hovered() || r.has_focus() {
            ui.painter().rect_filled(rect, 0.0, p.raised);
        }
        let inner = rect.shrink2(vec2(6.0, 0.0));
        let accesses = doc
            .derived
            .registers
            .get(&line.register)
            .map_or(0, |f| f.accesses.len());
        let n = match &line.field {
            None => text::count(accesses as u64),
            Some(_) => "field".to_owned(),
        };
        let used = paint_text(ui, inner, Align2::RIGHT_CENTER, &n, mono(), p.quiet);
        let indent = if line.field.is_some() { 12.0 } else { 0.0 };
        let rest = inner
            .with_min_x(inner.left() + indent)
            .with_max_x(inner.right() - used - 8.0);
        paint_middle(ui, rest, Align2::LEFT_CENTER, &name, mono(), p.text);
        if r.clicked() {
            toggled = Some(line.clone());
        }
    });
    view.offered = rows;
    if let Some(line) = toggled {
        doc.plot(&line);
    }
}
