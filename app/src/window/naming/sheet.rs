//! The drawing of the naming sheet.

use super::bits;
use crate::theme::{ROW, icons, mono, palette, small, widgets};
use crate::window::app::App;
use crate::window::name_form::{FieldForm, KINDS, NameSubject};
use crate::window::name_queue::NameSheet;
use egui::accesskit::Role;
use egui::{ComboBox, Context, Key, Modifiers, RichText, TextEdit, Ui, WidgetInfo, vec2};
use trace_core::registers::AccessRule;

/// Width of the sheet, points.
const WIDTH: f32 = 640.0;
/// Maximum height of the field list.
const FIELDS: f32 = 260.0;

enum SheetAction {
    Save,
    Close,
}

/// Draws the sheet if it is open.
pub(in crate::window) fn draw(app: &mut App, ctx: &Context) {
    let Some(mut open) = app.name_sheet.take() else { return };
    let layouts: Vec<String> = app
        .doc
        .as_ref()
        .and_then(|d| d.derived.device)
        .map_or_else(Vec::new, |d| d.map().layouts().map(|l| l.name.clone()).collect());
    let mut act = None;
    if ctx.input_mut(|i| i.consume_key(Modifiers::NONE, Key::Escape)) {
        act = Some(SheetAction::Close);
    }
    let title = match open.form.subject {
        NameSubject::Register(offset) => format!("Name the register at {offset:#x}"),
        NameSubject::Memory { address, .. } => format!("Name memory at {address:#x}"),
    };
    let width = WIDTH.min(ctx.content_rect().width() - 40.0);
    egui::Window::new(title)
        .id(egui::Id::unique("naming"))
        .collapsible(false)
        .resizable(false)
        .default_pos(egui::pos2((ctx.content_rect().width() - width) / 2.0, 70.0))
        .fixed_size(vec2(width, 0.0))
        .show(ctx, |ui| body(&mut open, &layouts, ui, &mut act));
    // The sheet closes with the document.
    let keep = app.doc.is_some() && !matches!(act, Some(SheetAction::Close));
    app.name_sheet = keep.then_some(open);
    if matches!(act, Some(SheetAction::Save)) {
        app.submit_name(ctx);
    }
}

fn label(ui: &mut Ui, text: &str) {
    let quiet = palette(ui).quiet;
    ui.add_sized(vec2(64.0, ROW), egui::Label::new(RichText::new(text).color(quiet)));
}

/// Draws a single-line text field and returns its response, which shows whether Enter ended the input.
fn line(ui: &mut Ui, name: &str, text: &mut String, width: f32, hint: &str) -> egui::Response {
    let edit = TextEdit::singleline(text).desired_width(width).hint_text(hint);
    ui.add(edit).accessible_name(name)
}

fn body(open: &mut NameSheet, layouts: &[String], ui: &mut Ui, act: &mut Option<SheetAction>) {
    let p = palette(ui);
    let mut enter = false;
    let mut ended = |ui: &Ui, r: &egui::Response| {
        enter |= r.lost_focus() && ui.input(|i| i.key_pressed(Key::Enter));
    };
    ui.horizontal(|ui| {
        label(ui, "Name");
        let edit = TextEdit::singleline(&mut open.form.name)
            .font(mono())
            .desired_width(260.0)
            .hint_text(match open.form.subject {
                NameSubject::Register(_) => "IRQ_STATUS",
                NameSubject::Memory { .. } => "command ring",
            });
        let r = ui.add(edit).accessible_name("Name");
        if !open.focused {
            r.request_focus();
            open.focused = true;
        }
        if r.changed() {
            open.error = None;
        }
        ended(ui, &r);
        match open.form.subject {
            NameSubject::Register(_) => register_line(open, ui),
            NameSubject::Memory { .. } => {
                ui.label(RichText::new("bytes").color(p.quiet));
                let r = line(ui, "Bytes", &mut open.form.bytes, 90.0, "");
                ended(ui, &r);
            }
        }
    });
    ui.horizontal(|ui| {
        label(ui, "Description");
        let r = line(ui, "Description", &mut open.form.doc, f32::INFINITY, "a sentence");
        ended(ui, &r);
    });
    match open.form.subject {
        NameSubject::Register(_) => {
            ui.add_space(6.0);
            bits::row(open, ui);
            fields(open, ui, &mut enter);
        }
        NameSubject::Memory { .. } => {
            ui.horizontal(|ui| {
                label(ui, "Layout");
                let shown = match open.form.layout.as_str() {
                    "" => "none",
                    l => l,
                };
                let combo = ComboBox::from_id_salt("layout").selected_text(shown).show_ui(ui, |ui| {
                    ui.selectable_value(&mut open.form.layout, String::new(), "none");
                    for l in layouts {
                        ui.selectable_value(&mut open.form.layout, l.clone(), l);
                    }
                });
                combo
                    .response
                    .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Layout"));
            });
        }
    }
    ui.add_space(6.0);
    target(open, ui);
    if let Some(wrong) = &open.error {
        ui.add_space(4.0);
        ui.add(egui::Label::new(RichText::new(format!("▲ {wrong}")).color(p.error)).wrap());
    }
    ui.add_space(8.0);
    ui.horizontal(|ui| {
        let save = widgets::primary_button(ui, "Save the name", "Save the name", !open.busy);
        let no = ui.button("Cancel");
        if save.clicked() || enter {
            *act = Some(SheetAction::Save);
        }
        if no.clicked() {
            *act = Some(SheetAction::Close);
        }
        if open.busy {
            ui.label(RichText::new("writing…").color(p.quiet));
        }
        ui.label(
            RichText::new("Ctrl Z reverts it. Other text in the file stays.")
                .font(small())
                .color(p.quiet),
        );
    });
}

/// Draws the width and access of a register.
fn register_line(open: &mut NameSheet, ui: &mut Ui) {
    let form = &mut open.form;
    let widths = [
        (1, false, "8 bits"),
        (2, false, "16 bits"),
        (4, false, "32 bits"),
        (8, false, "64 bits"),
        (4, true, "2 × 32 bits"),
    ];
    let now = widths
        .iter()
        .find(|(w, wide, _)| (*w, *wide) == (form.width, form.wide));
    let combo = ComboBox::from_id_salt("width")
        .width(84.0)
        .selected_text(now.map_or("", |w| w.2))
        .show_ui(ui, |ui| {
            for (width, wide, name) in widths {
                let on = (form.width, form.wide) == (width, wide);
                if ui.selectable_label(on, name).clicked() {
                    (form.width, form.wide) = (width, wide);
                }
            }
        });
    combo
        .response
        .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Width"));
    for (access, word) in [
        (AccessRule::ReadOnly, "read only"),
        (AccessRule::WriteOnly, "write only"),
        (AccessRule::ReadWrite, "both"),
    ] {
        let on = form.access == access;
        let r = ui.selectable_label(on, word);
        r.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, on, word));
        if r.clicked() {
            form.access = access;
        }
    }
}

fn fields(open: &mut NameSheet, ui: &mut Ui, enter: &mut bool) {
    let p = palette(ui);
    let mut gone = None;
    egui::ScrollArea::vertical().max_height(FIELDS).show(ui, |ui| {
        for (n, f) in open.form.fields.iter_mut().enumerate() {
            ui.push_id(n, |ui| {
                ui.horizontal(|ui| {
                    for (text, what) in [(&mut f.high, "Last bit"), (&mut f.low, "First bit")] {
                        let edit = TextEdit::singleline(text).font(mono()).desired_width(24.0);
                        let r = ui.add(edit).accessible_name(format!("{what} of field {n}"));
                        *enter |= r.lost_focus() && ui.input(|i| i.key_pressed(Key::Enter));
                    }
                    let name = TextEdit::singleline(&mut f.name).font(mono()).desired_width(130.0);
                    let r = ui
                        .add(name.hint_text("name"))
                        .accessible_name(format!("Name of field {n}"));
                    *enter |= r.lost_focus() && ui.input(|i| i.key_pressed(Key::Enter));
                    let shown = KINDS.get(f.kind).copied().unwrap_or("hex");
                    let combo = ComboBox::from_id_salt("kind")
                        .width(76.0)
                        .selected_text(shown)
                        .show_ui(ui, |ui| {
                            for (k, word) in KINDS.iter().enumerate() {
                                ui.selectable_value(&mut f.kind, k, *word);
                            }
                        });
                    let message = format!("Kind of field {n}");
                    combo
                        .response
                        .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, &message));
                    let hint = match f.kind {
                        2 => Some(("Values", "0 off, 1 on", 150.0)),
                        4 => Some(("Shift", "shift", 40.0)),
                        7 => Some(("First number", "first", 40.0)),
                        _ => None,
                    };
                    let mut rest = 276.0;
                    if let Some((what, hint, width)) = hint {
                        line(ui, &format!("{what} of field {n}"), &mut f.more, width, hint);
                        rest -= width + 12.0;
                    }
                    line(
                        ui,
                        &format!("Description of field {n}"),
                        &mut f.doc,
                        rest.max(60.0),
                        "description",
                    );
                    if widgets::icon_button(ui, icons::X, &format!("Remove field {n}")).clicked() {
                        gone = Some(n);
                    }
                });
            });
        }
    });
    if let Some(n) = gone {
        open.form.fields.remove(n);
    }
    ui.horizontal(|ui| {
        if ui.button("Add a field").clicked() {
            let bits = open.form.bits();
            let taken = |b: &u32| {
                let has = |f: &FieldForm| f.bits().is_some_and(|(lo, hi)| lo <= *b && b <= &hi);
                open.form.fields.iter().any(has)
            };
            let free = (0..bits).find(|b| !taken(b)).unwrap_or(0);
            open.form.fields.push(FieldForm::from_bits(free, free));
        }
        ui.label(
            RichText::new("or drag over its bits; bits without a field show as not named")
                .font(small())
                .color(p.quiet),
        );
    });
}

/// Draws the choice of the file that the name is written to.
fn target(open: &mut NameSheet, ui: &mut Ui) {
    ui.horizontal(|ui| {
        label(ui, "For");
        for (n, t) in open.targets.iter().enumerate() {
            let on = open.target == n;
            let r = ui.selectable_label(on, &t.description);
            let name = format!("For {}", t.description);
            r.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, on, &name));
            if r.on_hover_text(t.path.display().to_string()).clicked() {
                open.target = n;
            }
        }
    });
    if let Some(t) = open.targets.get(open.target) {
        let p = palette(ui);
        let path = RichText::new(t.path.display().to_string()).font(small()).color(p.quiet);
        ui.add(egui::Label::new(path).truncate());
    }
}
