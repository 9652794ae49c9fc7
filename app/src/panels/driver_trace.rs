//! Panels that show what a driver asked its kernel driver for: objects, their addresses, and push buffers.

pub mod address_space;
mod links;
pub mod objects;
pub mod push_buffer;

use crate::panels::common::actions::UiActions;
use crate::theme::{icons, widgets};
use egui::Ui;
use kinescope_session::Document;
use kinescope_session::derived_data::Stage;
use kinescope_session::driver_data::DriverData;
use std::sync::Arc;

/// Returns the derived data of a driver trace. Without it draws why the panel is empty: `what` says what it would show.
fn find_driver_data(doc: &Document, actions: &mut UiActions, ui: &mut Ui, what: &str) -> Option<Arc<DriverData>> {
    if let Some(data) = &doc.derived.driver {
        return Some(Arc::clone(data));
    }
    if doc.recording.driver_trace().is_some() && !doc.derived.has_stage(Stage::Driver) && doc.derivation.is_some() {
        let message = "Following objects of the kernel driver…";
        widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, message, None);
        return None;
    }
    let message = format!(
        "This recording is not a driver trace: it holds no requests to a kernel driver. For a kernel log of Gdev or \
         nouveau, or a log of a CUDA program's requests, this panel shows {what}."
    );
    if widgets::empty_state(ui, icons::CPU, &message, Some("Show events")) {
        actions.run_command("show-events");
    }
    None
}
