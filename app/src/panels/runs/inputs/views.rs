//! Views of a buffer's values next to the table: picture, plot, histogram.

use super::shape::{self, Shape};
use super::summary::Summary;
use super::view::{View, ViewMode, edit_refusal};
use super::{picture, plots, tensor};
use crate::panels::common::actions::UiActions;
use egui::accesskit::Role;
use egui::{Ui, WidgetInfo};
use kinescope_files::contents::BufferContents;
use kinescope_session::Document;
use std::sync::Arc;
use trace_core::recording::ElementType;

/// Draws the chosen view and the control that chooses it.
pub fn ui(
    doc: &mut Document,
    view: &mut View,
    actions: &mut UiActions,
    ui: &mut Ui,
    contents: &BufferContents,
    element: ElementType,
    s: &Arc<Summary>,
) {
    let count = contents.buffer().bytes / element.bytes() as u64;
    let mut shapes = shape::candidates(count);
    let report_text = doc.derived.shapes.get(&contents.buffer().name);
    if let Some(report) = report_text.and_then(|sides| Shape::from_dimensions(sides))
        && element.bytes() == contents.buffer().element.bytes()
        && !shapes.contains(&report)
    {
        shapes.insert(0, report);
    }
    let show = view.show.unwrap_or(if shapes.is_empty() {
        ViewMode::Plot
    } else {
        ViewMode::Picture
    });
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 2.0;
        for (which, word) in [
            (ViewMode::Picture, "Picture"),
            (ViewMode::Plot, "Plot"),
            (ViewMode::Histogram, "Histogram"),
            (ViewMode::Tensor, "Tensor"),
        ] {
            let r = ui.selectable_label(show == which, word);
            r.widget_info(|| WidgetInfo::selected(Role::RadioButton, true, show == which, format!("Values as {word}")));
            if r.clicked() {
                view.show = Some(which);
            }
        }
    });
    match show {
        ViewMode::Picture => {
            if let Some(shape) = &s.key.shape {
                view.offer_brush(contents.buffer(), shape, s.levels().1);
            }
            let refusal = (!contents.is_editable()).then(|| edit_refusal(doc));
            picture::shape_bar(view, ui, s, count, &shapes, refusal);
            picture::picture(doc, view, ui, contents, element, s);
        }
        ViewMode::Plot => plots::plot(doc, view, ui, contents, element, s),
        ViewMode::Histogram => plots::histogram(ui, s),
        ViewMode::Tensor => tensor::ui(doc, view, actions, ui, contents, element),
    }
}
