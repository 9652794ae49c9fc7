//! All mappings of the selected page: lines between their locations, and a list of links.

use crate::theme::widgets::{self, paint_text};
use crate::theme::{ROW, mono, palette, small};
use egui::accesskit::Role;
use egui::epaint::CubicBezierShape;
use egui::{Align2, Color32, Painter, Pos2, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::address_map::AddressMap;
use kinescope_session::{Document, text};
use trace_core::GpuVa;
use trace_core::addresses::{MapRun, ReverseMapping};

/// Returns what all mappings of one page should agree in.
fn manner(r: &MapRun) -> (u8, u8) {
    (r.attributes, r.shared)
}

/// Draws a line between two locations, bent so that lines to different locations do not overlap.
pub fn arc(painter: &Painter, from: Pos2, to: Pos2, ink: Color32, ground: Color32) {
    let by = to - from;
    let bend = vec2(by.y, -by.x) * 0.22;
    let points = [from, from + by * 0.25 + bend, from + by * 0.75 + bend, to];
    for (wide, ink) in [(4.0, ground), (1.5, ink)] {
        let line = CubicBezierShape::from_points_stroke(points, false, Color32::TRANSPARENT, Stroke::new(wide, ink));
        painter.add(line);
        painter.circle(to, 2.0 + wide, Color32::TRANSPARENT, Stroke::new(1.5, ink));
    }
}

/// Returns the other addresses of the page in the shown address space.
#[must_use]
pub fn find_aliases(map: &AddressMap, space: u32, va: GpuVa) -> Vec<ReverseMapping> {
    let page = va.align_down(4096);
    let (list, _) = map.places_of(va);
    list.into_iter()
        .filter(|p| p.space != space || p.run.va != page)
        .collect()
}

/// Draws the list; returns the location that the user goes to.
pub fn list(doc: &Document, ui: &mut Ui, map: &AddressMap, space: u32, va: GpuVa) -> Option<(u32, GpuVa)> {
    let p = palette(ui);
    let (places, all) = map.places_of(va);
    if places.len() < 2 {
        return None;
    }
    let own = places
        .iter()
        .find(|q| q.space == space && q.run.va == va.align_down(4096));
    let title = format!(
        "mapped at {}{} addresses",
        text::count(places.len() as u64),
        if all { "" } else { " or more" }
    );
    ui.label(RichText::new(title).font(small()).color(p.quiet));
    let mut go = None;
    let height = (places.len() as f32 * ROW).min(6.0 * ROW);
    egui::ScrollArea::vertical()
        .id_salt("places")
        .max_height(height)
        .auto_shrink([false, true])
        .show_rows(ui, ROW, places.len(), |ui, rows| {
            ui.spacing_mut().item_spacing.y = 0.0;
            for q in places.get(rows).unwrap_or_default() {
                let here = q.space == space && q.run.va == va.align_down(4096);
                let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::click());
                let at = format!("{:#x}", q.run.va);
                r.widget_info(|| WidgetInfo::selected(Role::Row, true, here, format!("address {} {at}", q.space)));
                if here {
                    widgets::select(ui, rect);
                } else if r.hovered() {
                    ui.painter().rect_filled(rect, 0.0, p.raised);
                }
                let cell = |a: f32, b: f32| {
                    Rect::from_min_max(
                        pos2(rect.left() + a, rect.top()),
                        pos2((rect.left() + b).min(rect.right()), rect.bottom()),
                    )
                };
                let number = doc
                    .recording
                    .metadata
                    .address_spaces
                    .get(q.space as usize)
                    .map_or(0, |s| s.number);
                let left = Align2::LEFT_CENTER;
                let ink = if here { p.text } else { p.read };
                paint_text(ui, cell(6.0, 46.0), left, &format!("AS {number}"), mono(), p.quiet);
                paint_text(ui, cell(48.0, 164.0), left, &at, mono(), ink);
                paint_text(ui, cell(168.0, 198.0), left, &q.run.rights.to_string(), mono(), p.text);
                // Shown, with a sign, only if mappings differ in it.
                let differs = own.is_some_and(|o| manner(&o.run) != manner(&q.run));
                let message = format!("attributes {:#04x}, shared {}", q.run.attributes, q.run.shared);
                if differs {
                    paint_text(
                        ui,
                        cell(202.0, 400.0),
                        left,
                        &format!("! {message}"),
                        small(),
                        p.warning,
                    );
                }
                let hover = format!("{at} of address space {number}: {}, {message}", q.run.rights);
                let r = widgets::add_copy_menu(&r, &[("address", at)]).on_hover_text(hover);
                if r.clicked() && !here {
                    go = Some((q.space, q.run.va));
                }
            }
        });
    ui.add_space(6.0);
    go
}
