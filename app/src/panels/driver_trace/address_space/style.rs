//! The colours of the places of memory, and the legend that names them.

use crate::theme::{Palette, palette, small};
use egui::{Color32, Rect, RichText, Sense, Ui, vec2};
use kinescope_session::driver_data::MemoryPlace;

/// Returns the colour of a place.
pub(super) fn place_ink(p: &Palette, place: MemoryPlace) -> Color32 {
    let [first, second, third, ..] = p.lines;
    match place {
        MemoryPlace::Video => first,
        MemoryPlace::Host => second,
        MemoryPlace::PushBuffer => third,
        MemoryPlace::Unknown => p.poll,
    }
}

/// Draws the colours with their names.
pub(super) fn legend(ui: &mut Ui) {
    let p = palette(ui);
    for place in MemoryPlace::ALL {
        let (rect, _) = ui.allocate_exact_size(vec2(10.0, 10.0), Sense::hover());
        draw_swatch(ui, rect, place);
        ui.label(RichText::new(place.name()).font(small()).color(p.quiet));
        ui.add_space(4.0);
    }
}

/// Draws the colour of a place.
pub(super) fn draw_swatch(ui: &Ui, rect: Rect, place: MemoryPlace) {
    let ink = place_ink(palette(ui), place);
    ui.painter().rect_filled(rect, 2.0, ink);
}
