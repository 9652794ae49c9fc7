//! The Screen panel: the picture that the recorded stores left in the framebuffer at the current event, the stores to
//! a pixel, and the comparison with what the device showed.

mod bar;
mod canvas;
mod pane;
mod pictures;
mod pixel;
pub mod view;

pub use view::{PictureKind, View};

use crate::panels::common::actions::UiActions;
use crate::theme::{icons, palette, widgets};
use egui::{Rect, Stroke, Ui, pos2};
use kinescope_files::scene::Selection;
use kinescope_session::Document;
use kinescope_session::screen::{Screen, ScreenError, has_framebuffer};
use std::sync::Arc;
use view::ScreenLoad;

/// Width of the pane of a pixel's stores, points.
const PANE: f32 = 316.0;

/// Draws the panel.
pub fn ui(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    if !has_framebuffer(&doc.recording) {
        let message = "This recording holds no framebuffer. The panel shows the screen of a driver that draws text \
                       or pictures with the CPU.";
        if widgets::empty_state(ui, icons::FILM_STRIP, message, Some("Show events")) {
            actions.run_command("show-events");
        }
        return;
    }
    let screen = match &view.load {
        ScreenLoad::Loaded(s) => Arc::clone(s),
        ScreenLoad::NotStarted => {
            read(doc, view, actions);
            return;
        }
        ScreenLoad::Loading(_) => {
            let message = "Reading the stores to the framebuffer …";
            widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, message, None);
            return;
        }
        ScreenLoad::Failed(why) => {
            let summary = format!("The screen is not shown: {why}.");
            if widgets::empty_state(ui, icons::FILM_STRIP, &summary, Some("Try again")) {
                view.load = ScreenLoad::NotStarted;
            }
            return;
        }
    };
    follow(doc, view);
    pictures::follow(doc, view, actions, &screen);
    bar::ui(doc, view, actions, ui, &screen);
    let full = ui.available_rect_before_wrap();
    let p = palette(ui);
    ui.painter().hline(full.x_range(), full.top(), Stroke::new(1.0, p.line));
    // Room for a pixel's history is reserved before one is chosen: the picture does not move under the pointer.
    let side = if full.width() > PANE * 1.8 && matches!(view.look(), Some(Ok(_))) {
        PANE
    } else {
        0.0
    };
    let left = Rect::from_min_max(
        pos2(full.left(), full.top() + 1.0),
        pos2(full.right() - side, full.bottom()),
    );
    let mut child = ui.new_child(egui::UiBuilder::new().max_rect(left));
    child.shrink_clip_rect(left);
    canvas::ui(doc, view, actions, &mut child, &screen);
    if side > 0.0 {
        let right = Rect::from_min_max(pos2(left.right(), left.top()), full.max);
        ui.painter()
            .vline(right.left(), right.y_range(), Stroke::new(1.0, p.line));
        let mut child = ui.new_child(egui::UiBuilder::new().max_rect(right));
        child.shrink_clip_rect(right);
        pane::ui(doc, view, actions, &mut child, &screen);
    }
    ui.advance_cursor_after_rect(full);
}

/// Starts to read stores and registers.
fn read(doc: &Document, view: &mut View, actions: &mut UiActions) {
    let recording = Arc::clone(&doc.recording);
    let progress = actions.start_work::<View>("reading the stores to the framebuffer", move |progress| {
        let found = Screen::read(&recording, progress);
        Box::new(move |_, view, _| {
            view.load = match found {
                Ok(s) => ScreenLoad::Loaded(Arc::new(s)),
                Err(e @ (ScreenError::None | ScreenError::Framebuffer(_) | ScreenError::Display(_))) => {
                    ScreenLoad::Failed(e.to_string())
                }
                Err(ScreenError::Cancelled(_)) => ScreenLoad::Failed("reading was stopped".into()),
            };
        })
    });
    view.load = ScreenLoad::Loading(progress);
}

/// Follows the selection: what is selected elsewhere, for instance by going back, becomes the chosen pixel.
fn follow(doc: &Document, view: &mut View) {
    if view.seen_jump == doc.jumps {
        return;
    }
    view.seen_jump = doc.jumps;
    if let Selection::Framebuffer { space, offset, .. } = *doc.selection()
        && let Some(pixel) = view.pixel_at(space, offset)
    {
        view.pixel = Some(pixel);
    }
}
