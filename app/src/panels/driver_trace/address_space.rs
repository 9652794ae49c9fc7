//! The Address space panel: which GPU addresses belong to which buffer, over all events and after the current one.

mod chart;
mod list;
mod style;
pub mod view;

pub use view::View;

use crate::panels::common::actions::UiActions;
use crate::theme::{icons, mono, palette, small, widgets};
use egui::{Rect, RichText, Stroke, Ui, UiBuilder, pos2};
use kinescope_session::driver_data::{DriverData, ObjectText};
use kinescope_session::{Document, text};
use std::sync::Arc;

/// Width below which the list goes under the chart, points.
const NARROW: f32 = 760.0;
/// Number of ranges that are searched at once for those at the current event; more are searched in a background job.
const AT_ONCE: usize = 200_000;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let Some(data) = super::find_driver_data(doc, actions, ui, "GPU addresses of buffers over time") else {
        return;
    };
    view.take_wanted(&data, doc.current_event());
    if data.addresses.ranges.is_empty() {
        let count = text::count_noun(data.addresses.without_address, "buffer", "buffers");
        let message =
            format!("This driver trace states no GPU address. Objects lists its {count}, with size and life time.");
        if widgets::empty_state(ui, icons::SQUARES_FOUR, &message, Some("Show objects")) {
            actions.run_command("show-objects");
        }
        return;
    }
    find_now(doc, view, actions, &data);
    bar(doc, view, ui, &data);
    let p = palette(ui);
    let full = ui.available_rect_before_wrap();
    ui.painter().hline(full.x_range(), full.top(), Stroke::new(1.0, p.line));
    let (left, right) = match full.width() < NARROW {
        true => {
            let y = full.top() + (full.height() * 0.55).round();
            ui.painter().hline(full.x_range(), y, Stroke::new(1.0, p.line));
            full.split_top_bottom_at_y(y)
        }
        false => {
            let x = full.right() - (full.width() * 0.46).clamp(330.0, 620.0);
            ui.painter().vline(x, full.y_range(), Stroke::new(1.0, p.line));
            full.split_left_right_at_x(x)
        }
    };
    let reveal = view.reveal;
    part(ui, "chart", left, |ui| chart::ui(doc, view, ui, &data));
    // Both parts bring the range into view.
    view.reveal = reveal;
    let right = Rect::from_min_max(pos2(right.left() + 1.0, right.top()), right.max);
    let before = view.selected;
    part(ui, "ranges", right, |ui| list::ui(doc, view, actions, ui, &data));
    view.reveal = before != view.selected;
    ui.advance_cursor_after_rect(full);
}

fn part(ui: &mut Ui, name: &str, rect: Rect, draw: impl FnOnce(&mut Ui)) {
    let mut child = ui.new_child(UiBuilder::new().id_salt(name).max_rect(rect));
    child.shrink_clip_rect(rect);
    draw(&mut child);
}

/// Finds the ranges after the current event, if it changed.
fn find_now(doc: &Document, view: &mut View, actions: &mut UiActions, data: &Arc<DriverData>) {
    let event = doc.current_event();
    let key = (Arc::as_ptr(data) as usize, event);
    if view.now_key == Some(key) {
        return;
    }
    view.now_key = Some(key);
    if data.addresses.ranges.len() <= AT_ONCE {
        view.now = Arc::new(data.addresses.ranges_after(event));
        return;
    }
    let data = Arc::clone(data);
    actions.start_work::<View>("finding mapped addresses", move |_| {
        let now = data.addresses.ranges_after(event);
        Box::new(move |_, view, _| {
            if view.now_key == Some(key) {
                view.now = Arc::new(now);
            }
        })
    });
}

fn bar(doc: &Document, view: &mut View, ui: &mut Ui, data: &DriverData) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        ui.set_height(28.0);
        ui.add_space(8.0);
        style::legend(ui);
        if (view.events.is_some() || view.scale.is_some())
            && ui
                .button(RichText::new("Show all").font(small()))
                .on_hover_text("Show all events and all addresses. A double click on the chart does the same.")
                .clicked()
        {
            (view.events, view.scale, view.top) = (None, None, 0.0);
        }
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.add_space(10.0);
            let now = list::describe_now(view, data);
            let message = match view.without_address {
                Some(object) => {
                    let t = ObjectText::new(&doc.recording, &data.trace, object as usize);
                    let name = t.map_or_else(|| "the object".to_owned(), |t| t.name());
                    format!("! {name} has no GPU address in this recording")
                }
                None => format!("after event {}: {now}", text::count(doc.current_event())),
            };
            let without = data.addresses.without_address;
            let ink = if view.without_address.is_some() {
                p.warning
            } else {
                p.quiet
            };
            let label = egui::Label::new(RichText::new(message).color(ink).font(mono())).truncate();
            ui.add(label);
            if without > 0 {
                let count = text::count_noun(without, "buffer", "buffers");
                let message = RichText::new(format!("{count} without address"))
                    .color(p.quiet)
                    .font(small());
                ui.add(egui::Label::new(message).truncate())
                    .on_hover_text("The source does not state where they are. Objects lists them.");
            }
        });
    });
}
