//! Controls that memory of address spaces and device memory have in common.

use super::view::View;
use crate::theme::{body, field, mono, palette};
use egui::accesskit::Role;
use egui::{RichText, Ui, WidgetInfo};
use trace_core::recording::ElementType;

/// Draws the field for an address or a name, and returns the location that `find` returns for the input. An error
/// stays in the view, and the keyboard in the field.
pub(super) fn go_to<T>(view: &mut View, ui: &mut Ui, find: impl FnOnce(&View, &str) -> Result<T, String>) -> Option<T> {
    let id = egui::Id::unique("memory-address");
    let hint = RichText::new("address or buffer").font(body()).color(palette(ui).quiet);
    let field = field::value(ui, id, "Go to address", &mut view.go_to, None, |text| {
        egui::TextEdit::singleline(text)
            .font(mono())
            .desired_width(140.0)
            .hint_text(hint)
    });
    if std::mem::take(&mut view.focus) {
        field.select_all();
    }
    if !field.enter {
        return None;
    }
    match find(view, &view.go_to) {
        Ok(found) => {
            view.wrong = None;
            Some(found)
        }
        Err(why) => {
            view.wrong = Some(why);
            field.select_all();
            None
        }
    }
}

/// Draws the choice of the display: hex and ASCII, or elements of a type.
pub(super) fn view_as(view: &mut View, ui: &mut Ui) {
    let chosen = match view.element {
        Some(e) => e.name(),
        None if view.without_ascii => "hex only",
        None => "hex",
    };
    let combo = egui::ComboBox::from_id_salt("memory-type")
        .selected_text(chosen)
        .width(48.0)
        .height(400.0)
        .show_ui(ui, |ui| {
            for (without, words) in [(false, "hex and ASCII"), (true, "hex only")] {
                let now = view.element.is_none() && view.without_ascii == without;
                if ui.selectable_label(now, words).clicked() {
                    (view.element, view.without_ascii) = (None, without);
                }
            }
            for e in ElementType::ALL {
                ui.selectable_value(&mut view.element, Some(e), e.name());
            }
        });
    combo
        .response
        .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "View as"));
}
