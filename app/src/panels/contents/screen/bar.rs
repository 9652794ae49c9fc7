//! The bar above the picture: kind of picture, format and its source, unknown parts, zoom, files.

use super::view::{PictureKind, View};
use crate::panels::common::actions::UiActions;
use crate::theme::{field, icons, mono, palette, small, widgets};
use egui::accesskit::Role;
use egui::{RichText, Ui, WidgetInfo, vec2};
use kinescope_session::screen::{ManualFormat, Screen};
use kinescope_session::{Document, text};
use trace_core::screen::{ByteOrder, PixelFormat};

/// Draws the lines above the picture.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, screen: &Screen) {
    first(doc, view, actions, ui, screen);
    if view.manual.is_some() {
        manual_fields(view, ui, screen);
    }
    properties(doc, view, ui, screen);
}

fn choice(ui: &mut Ui, on: bool, word: &str, label: &str, hover: &str, enabled: bool) -> bool {
    let r = ui.add_enabled_ui(enabled, |ui| ui.selectable_label(on, word)).inner;
    r.widget_info(|| WidgetInfo::selected(Role::RadioButton, enabled, on, label));
    r.on_hover_text(hover).on_disabled_hover_text(hover).clicked()
}

/// Draws the first line: the choice of the picture, of its format, and the zoom.
fn first(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui, screen: &Screen) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        ui.spacing_mut().item_spacing.x = 4.0;
        picture_choice(view, ui, screen);
        ui.add_space(12.0);
        ui.label(RichText::new("form").color(p.quiet));
        format_choice(doc, view, ui, screen);
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            zoom_buttons(view, actions, ui);
        });
    });
}

/// Draws the choice between the picture of the stores, the recorded and the replayed one, and their difference.
fn picture_choice(view: &mut View, ui: &mut Ui, screen: &Screen) {
    let recorded = matches!(screen.expected, Some(Ok(_)));
    let replayed = view.replayed_picture().is_some();
    let no_picture = match &screen.expected {
        Some(Err(e)) => format!("the picture next to the recording cannot be read: {e}"),
        _ => "the recording has no picture of the screen at its end".to_owned(),
    };
    let no_replay = "no replay has made a picture of the screen yet";
    let hover = |there: bool, text: &str, why: &str| if there { text.to_owned() } else { why.to_owned() };
    for (what, word, there, message) in [
        (
            PictureKind::Stores,
            "stores",
            true,
            "the result of the stores up to the current event".to_owned(),
        ),
        (
            PictureKind::Recorded,
            "recorded",
            recorded,
            hover(
                recorded,
                "what the device showed at the end of the recording",
                &no_picture,
            ),
        ),
        (
            PictureKind::Replayed,
            "replayed",
            replayed,
            hover(replayed, "what the device showed after the replay", no_replay),
        ),
        (
            PictureKind::Difference,
            "difference",
            recorded,
            hover(
                recorded,
                "where the recorded picture differs from the replayed one, or from the stores",
                &no_picture,
            ),
        ),
    ] {
        if choice(
            ui,
            view.picture_kind == what,
            word,
            &format!("Show {word}"),
            &message,
            there,
        ) {
            view.picture_kind = what;
        }
    }
}

/// Draws the choice whether the format comes from registers or from the user.
fn format_choice(doc: &mut Document, view: &mut View, ui: &mut Ui, screen: &Screen) {
    let by_hand = view.manual.is_some();
    let message = match &screen.display {
        Some(d) => format!(
            "base, pitch, size and pixel format from the registers of the {} at the current event",
            d.name()
        ),
        None => "the display registers of this device are not known".to_owned(),
    };
    if choice(
        ui,
        !by_hand,
        "registers",
        "Form from registers",
        &message,
        screen.display.is_some(),
    ) {
        view.manual = None;
        view.wrong = None;
    }
    let text = "base, pitch, size and pixel format that you enter";
    if choice(ui, by_hand, "by hand", "Form by hand", text, true) && !by_hand {
        begin(doc, view, screen);
    }
    // Without registers, the format must be entered.
    if screen.display.is_none() && view.manual.is_none() {
        begin(doc, view, screen);
    }
}

/// Draws the button that saves the picture, and those of the zoom, from right to left.
fn zoom_buttons(view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    ui.add_space(8.0);
    let save = widgets::icon_button(ui, icons::DOWNLOAD_SIMPLE, "Save the picture");
    egui::Popup::menu(&save).show(|ui| {
        ui.set_min_width(240.0);
        actions.menu_item(ui, "export-screen");
        actions.menu_item(ui, "export-film");
    });
    if widgets::icon_button(ui, icons::PLUS, "Zoom picture in").clicked() {
        view.zoom(1, None);
    }
    if widgets::icon_button(ui, icons::MINUS, "Zoom picture out").clicked() {
        view.zoom(-1, None);
    }
    let fits = view.zoom.is_none();
    if choice(ui, fits, "fit", "Fit the picture", "the whole picture", true) {
        view.zoom = None;
        view.middle = None;
    }
    let rich_text = RichText::new(zoom_text(view.drawn_zoom)).font(mono()).color(p.quiet);
    ui.add_sized(vec2(44.0, 20.0), egui::Label::new(rich_text).halign(egui::Align::RIGHT));
}

fn zoom_text(zoom: f32) -> String {
    match zoom {
        z if z <= 0.0 => String::new(),
        z if z >= 1.0 => format!("{}×", text::format_short(f64::from(z))),
        z => format!("{:.0} %", z * 100.0),
    }
}

/// Puts the shown format into the fields.
fn begin(doc: &Document, view: &mut View, screen: &Screen) {
    let format = screen.propose_format(doc.current_event());
    view.manual = Some(ManualFormat::from_format(&format));
    view.manual_format = Some(format);
    view.wrong = None;
}

fn manual_fields(view: &mut View, ui: &mut Ui, screen: &Screen) {
    let p = palette(ui);
    let Some(mut h) = view.manual.clone() else { return };
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        ui.spacing_mut().item_spacing.x = 6.0;
        let fields = [
            ("width", &mut h.width, 48.0),
            ("height", &mut h.height, 48.0),
            ("pitch", &mut h.pitch, 56.0),
            ("base", &mut h.base, 84.0),
        ];
        for (name, value, width) in fields {
            ui.label(RichText::new(name).color(p.quiet));
            let id = egui::Id::unique(("screen-form", name));
            field::value(ui, id, &format!("Screen {name}"), value, None, |t| {
                egui::TextEdit::singleline(t).font(mono()).desired_width(width)
            });
        }
        let combo = egui::ComboBox::from_id_salt("screen-pixel")
            .selected_text(h.pixel.name())
            .width(84.0)
            .show_ui(ui, |ui| {
                for f in PixelFormat::ALL {
                    ui.selectable_value(&mut h.pixel, f, f.name());
                }
            });
        combo
            .response
            .widget_info(|| WidgetInfo::labeled(Role::ComboBox, true, "Form of a pixel"));
        let mut big = h.order == ByteOrder::Big;
        let r = ui.checkbox(&mut big, "big-endian");
        r.on_hover_text("the highest byte of a pixel lies first in memory");
        h.order = if big { ByteOrder::Big } else { ByteOrder::Little };
    });
    if view.manual.as_ref() != Some(&h) || view.manual_format.is_none() {
        match h.format(screen.framebuffer.bytes()) {
            Ok(f) => {
                view.manual_format = Some(f);
                view.wrong = None;
            }
            Err(e) => view.wrong = Some(e),
        }
        view.manual = Some(h);
    }
    if let Some(w) = &view.wrong {
        ui.horizontal(|ui| {
            ui.add_space(12.0);
            let rich_text = RichText::new(format!("▲ {w}")).color(p.error).font(small());
            ui.add(egui::Label::new(rich_text).truncate());
        });
    }
}

/// Draws what the picture is, and which parts are unknown.
fn properties(doc: &Document, view: &View, ui: &mut Ui, screen: &Screen) {
    let p = palette(ui);
    let mut parts: Vec<(String, bool)> = Vec::new();
    match (view.picture_kind, view.look()) {
        (PictureKind::Difference, _) => {
            let with = match view.compared_with() {
                PictureKind::Replayed => "recorded compared with replayed",
                _ => "recorded at the end compared with the stores so far",
            };
            parts.push((with.into(), false));
            match view.compared.as_ref().map(|c| &c.result) {
                Some(Ok(c)) => {
                    let of = text::count_noun(c.compared, "pixel", "pixels");
                    match (c.differing, c.bounds) {
                        (0, _) => parts.push((format!("all of {of} are the same"), false)),
                        (n, bounds) => {
                            let place =
                                bounds.map(|b| format!(", within {}, {} to {}, {}", b.left, b.top, b.right, b.bottom));
                            let message = format!("▲ {} of {of} differ, by {} at most", text::count(n), c.worst);
                            parts.push((message + &place.unwrap_or_default(), true));
                        }
                    }
                    let left = u64::from(c.width) * u64::from(c.height) - c.compared;
                    if left > 0 {
                        parts.push((format!("{} not known, not compared", text::count(left)), false));
                    }
                }
                Some(Err(e)) => parts.push((format!("▲ {e}"), true)),
                None => {}
            }
        }
        (PictureKind::Recorded, _) => parts.push(("what the device showed when the recording ended".into(), false)),
        (PictureKind::Replayed, _) => parts.push(("what the device showed after the replay".into(), false)),
        (PictureKind::Stores, Some(Ok(l))) => {
            parts.push((l.format.to_string(), false));
            if let Some(e) = l.since {
                parts.push((format!("so since event {}", text::count(e)), false));
            }
            let c = view.store_picture.as_ref().map(|m| m.counts).unwrap_or_default();
            if c.never > 0 {
                parts.push((format!("{} pixels never stored", text::count(c.never)), false));
            }
            if c.lost > 0 {
                parts.push((
                    format!("! {} pixels stored without their value", text::count(c.lost)),
                    true,
                ));
            }
            if l.grey && l.format.pixel == PixelFormat::Indexed8 {
                parts.push(("no palette is known: indices are drawn as greys".into(), false));
            }
            if l.cursor {
                parts.push(("! a cursor of the controller is not drawn".into(), true));
            }
        }
        (PictureKind::Stores, _) => {}
    }
    let engine = screen.engine_runs(doc.current_event());
    if engine > 0
        && matches!(view.picture_kind, PictureKind::Stores | PictureKind::Difference)
        && view.compared_with() == PictureKind::Stores
    {
        let n = text::count_noun(engine as u64, "command", "commands");
        parts.push((format!("! {n} to the drawing engine so far, not in the picture"), true));
    }
    let (rect, response) = ui.allocate_exact_size(vec2(ui.available_width(), 22.0), egui::Sense::hover());
    let whole: Vec<&str> = parts.iter().map(|(t, _)| t.as_str()).collect();
    let whole = whole.join(" · ");
    response.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("screen {whole}")));
    let mut job = egui::text::LayoutJob::default();
    for (i, (part, loud)) in parts.iter().enumerate() {
        let plain = |color| egui::TextFormat::simple(small(), color);
        if i > 0 {
            job.append(" · ", 0.0, plain(p.quiet));
        }
        let error = part.starts_with('▲');
        let ink = match (loud, error) {
            (true, true) => p.error,
            (true, false) => p.warning,
            _ => p.quiet,
        };
        job.append(part, 0.0, plain(ink));
    }
    let inner = rect.shrink2(vec2(12.0, 0.0));
    job.wrap = egui::text::TextWrapping::truncate_at_width(inner.width().max(0.0));
    let galley = ui.painter().layout_job(job);
    let at = egui::pos2(inner.left(), inner.center().y - galley.size().y / 2.0);
    ui.painter().galley(at, galley, p.quiet);
    response.on_hover_text(whole);
}
