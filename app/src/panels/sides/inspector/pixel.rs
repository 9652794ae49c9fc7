//! A pixel in the inspector: its picture and position, from the selected bytes.

use super::reference_list;
use crate::panels::common::actions::UiActions;
use crate::panels::contents::screen;
use crate::panels::runs::inputs;
use crate::theme::widgets::{self, StyledText};
use crate::theme::{mono, palette};
use egui::{RichText, Ui};
use kinescope_files::scene::Selection;
use kinescope_session::{Document, text};
use trace_core::GpuVa;
use trace_core::screen::StoreState;

/// Draws lines for bytes of a buffer that is shown as a picture; nothing if it is not.
pub fn memory_pixel(doc: &mut Document, inputs: &inputs::View, ui: &mut Ui, (space, va, bytes): (u32, u64, u64)) {
    let Some(pixel) = inputs.pixel_of(doc, space, GpuVa::new(va)) else {
        return;
    };
    let [x, y] = pixel.at;
    let channel = match pixel.channel {
        Some(c) if bytes < pixel.bytes || pixel.others.is_some() => format!(" · {c}"),
        _ => String::new(),
    };
    widgets::key_value(ui, "pixel", StyledText::mono(format!("{x}, {y}{channel}")));
    widgets::key_value(
        ui,
        "picture",
        StyledText::body(format!("{} · {}", pixel.buffer, pixel.shape)),
    );
    // The colour planes are separate: the selection holds one of them.
    for (name, at) in pixel.others.into_iter().flatten() {
        if widgets::key_link(ui, name, &format!("{at:#x}")).clicked() {
            let bytes = pixel.bytes;
            doc.select(Selection::Memory {
                space,
                va: GpuVa::new(at),
                bytes,
            });
        }
    }
}

/// Draws the section for bytes of a framebuffer.
pub fn framebuffer_pixel(
    doc: &mut Document,
    actions: &mut UiActions,
    screen: &screen::View,
    ui: &mut Ui,
    (space, offset, bytes): (u8, u64, u64),
) {
    let p = palette(ui);
    let pixel = screen.pixel_at(space, offset);
    widgets::section(ui, if pixel.is_some() { "Pixel" } else { "Framebuffer" });
    let name = doc
        .recording
        .metadata
        .spaces
        .get(usize::from(space))
        .map(|s| s.name.clone());
    let name = name.unwrap_or_else(|| "framebuffer".into());
    let title = match pixel {
        Some([x, y]) => format!("{x}, {y} of the screen"),
        None => format!("{name} + {offset:#x}"),
    };
    ui.label(RichText::new(title).font(mono()));
    ui.add_space(4.0);
    let place = format!("{name} + {offset:#x}");
    let shown = widgets::key_value(ui, "bytes", StyledText::mono(&place));
    widgets::add_copy_menu(&shown, &[("offset", format!("{offset:#x}")), ("location", place)]);
    widgets::key_value(ui, "size", StyledText::mono(text::bytes(bytes)));
    if let Some([x, y]) = pixel {
        if let Some(Ok(look)) = screen.look() {
            let f = look.format;
            let message = format!("{}×{} {}", f.width, f.height, f.pixel.name());
            widgets::key_value(ui, "picture", StyledText::body(message));
        }
        let drawn = screen.drawn();
        let known = drawn.and_then(|d| d.known_at(x, y));
        let styled_text = match (drawn.and_then(|d| d.pixel(x, y)), known) {
            (Some([r, g, b]), _) => StyledText::mono(format!("#{r:02x}{g:02x}{b:02x}")),
            (None, Some(StoreState::Lost)) => StyledText::body("stored without its value").colour(p.warning),
            _ => StyledText::body("never stored so far").colour(p.quiet),
        };
        widgets::key_value(ui, "colour", styled_text);
    }
    reference_list::ui(doc, actions, ui);
    ui.add_space(4.0);
    if ui.button("Show the screen").clicked() {
        actions.run_command("show-screen");
    }
}
