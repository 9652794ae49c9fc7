//! The welcome page of a window without a recording.

use super::app::App;
use crate::panels::common::actions::UiAction;
use crate::theme::{icons, palette, strong, widgets};
use egui::{RichText, Ui};
use kinescope_session::{sample, text};

/// Draws the welcome page.
pub(super) fn draw_welcome(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    if let Some(r) = app.tasks.running().first() {
        widgets::empty_state(ui, icons::HOURGLASS_SIMPLE_MEDIUM, &r.title, None);
        return;
    }
    ui.add_space((ui.available_height() * 0.22).max(24.0));
    ui.vertical_centered(|ui| {
        ui.label(RichText::new(icons::FILM_STRIP).size(36.0).color(p.quiet));
        ui.add_space(8.0);
        ui.label(RichText::new("Open a recording of GPU work").font(strong()).size(16.0));
        ui.add_space(4.0);
        ui.label(
            RichText::new(
                "Recordings, logs and dumps, also packed or in archives, and folders of GPUReplay or of job chains. You \
                 can also drop them on this window.",
            )
            .color(p.quiet),
        );
        ui.add_space(16.0);
        ui.horizontal(|ui| {
            // Width of the three buttons in the bundled fonts.
            let wide = 316.0;
            ui.add_space(((ui.available_width() - wide) / 2.0).max(0.0));
            if widgets::primary_button(ui, "Open file…", "Open file", true).clicked() {
                app.actions.run_command("open");
            }
            if ui.button("Open folder…").clicked() {
                app.actions.run_command("open-folder");
            }
            if ui
                .add_enabled(sample::path().is_some(), egui::Button::new("Open the sample"))
                .clicked()
            {
                app.actions.run_command("open-sample");
            }
        });
        if app.offers_tour() {
            draw_tour_offer(app, ui);
        }
        if !app.settings.recent.is_empty() {
            ui.add_space(24.0);
            ui.label(RichText::new("Recent").font(strong()).color(p.quiet));
            ui.add_space(4.0);
            for r in app.settings.recent.clone().into_iter().take(8) {
                let name = r
                    .file_name()
                    .map(|n| n.to_string_lossy().into_owned())
                    .unwrap_or_default();
                if widgets::link(
                    ui,
                    &format!("Open {name}"),
                    &text::truncate_middle(&r.display().to_string(), 80),
                )
                .clicked()
                {
                    app.actions.push(UiAction::Open(r));
                }
            }
        }
    });
}

/// Offers the tour to a user who starts the program for the first time.
fn draw_tour_offer(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    ui.add_space(28.0);
    ui.label(RichText::new("Here for the first time?").font(strong()).color(p.text));
    ui.add_space(4.0);
    ui.label(RichText::new("The tour shows what there is on the sample, in eight short steps.").color(p.quiet));
    ui.add_space(8.0);
    ui.horizontal(|ui| {
        // Width of the two buttons in the bundled fonts.
        let wide = 186.0;
        ui.add_space(((ui.available_width() - wide) / 2.0).max(0.0));
        if ui.button("Take the tour").clicked() {
            app.actions.run_command("tour");
        }
        if ui
            .button("Not now")
            .on_hover_text("the tour is in the menu Help")
            .clicked()
        {
            app.dismiss_tour();
        }
    });
}
