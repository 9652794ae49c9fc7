//! The structure of the window: bars, sides, dock and separate windows.

use super::app::App;
use super::follow_bar::{draw_follow_bar, draw_waiting};
use super::notices::{draw_drop_hint, draw_notices};
use super::questions::draw_question;
use super::sheets::{draw_about, draw_confirm, draw_help};
use super::status::draw_status_bar;
use super::top::draw_top_bar;
use super::welcome::draw_welcome;
use super::{keys_sheet, layout, tour};
use crate::panels;
use crate::panels::sides::{inspector, outline};
use crate::panels::views::PanelContext;
use crate::theme::{focus, palette};
use egui::{Frame, Margin, Panel, Rangef, Ui, vec2};

/// Draws everything.
pub fn draw(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let bar = Frame::new().fill(p.panel).inner_margin(Margin::symmetric(12, 0));
    Panel::top("top")
        .exact_size(40.0)
        .frame(bar)
        .show(ui, |ui| draw_top_bar(app, ui));
    let bar = Frame::new().fill(p.panel).inner_margin(Margin::symmetric(12, 0));
    Panel::bottom("status")
        .exact_size(26.0)
        .frame(bar)
        .show(ui, |ui| draw_status_bar(app, ui));
    draw_follow_bar(app, ui);
    draw_notices(app, ui);
    if app.doc.is_none() {
        egui::CentralPanel::default()
            .frame(Frame::new().fill(p.background))
            .show(ui, |ui| match app.following {
                Some(_) => draw_waiting(app, ui),
                None => draw_welcome(app, ui),
            });
    } else {
        draw_sides(app, ui);
        egui::CentralPanel::default()
            .frame(Frame::new().fill(p.line))
            .show(ui, |ui| {
                if let Some(doc) = &mut app.doc {
                    let (views, actions) = (&mut app.views, &mut app.actions);
                    let context = PanelContext { doc, views, actions };
                    let (height, wanted) = (ui.available_height(), context.views.timeline.tallest());
                    layout::fit_timeline(&mut app.dock, height, wanted, &mut app.fitted_share);
                    app.dock.ui(&mut layout::TileBehavior::new(context), ui);
                    layout::repair_tree(&mut app.dock, ui.ctx());
                }
                tour::draw_edge(app, ui);
            });
        draw_floating_panels(app, ui);
    }
    let ctx = ui.ctx().clone();
    tour::draw(app, &ctx);
    draw_help(app, &ctx);
    draw_about(app, &ctx);
    keys_sheet::draw(app, &ctx);
    draw_confirm(app, &ctx);
    draw_question(app, &ctx);
    draw_drop_hint(app, &ctx);
}

/// Minimum window width at which a table fits between both sides. Below it the inspector folds until the user opens it.
const MIN_BOTH_SIDES_WIDTH: f32 = 1000.0;
/// Minimum width of a table between the sides.
const MIN_TABLE_WIDTH: f32 = 440.0;

/// Folds the inspector when the window becomes narrow, and unfolds it when the window becomes wide again.
fn fold_inspector(app: &mut App, narrow: bool) {
    if app.sides.narrow == narrow {
        return;
    }
    app.sides.narrow = narrow;
    if narrow {
        app.sides.folded = std::mem::take(&mut app.inspector);
    } else {
        app.inspector |= std::mem::take(&mut app.sides.folded);
        app.sides.set = true;
    }
}

fn draw_sides(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let width = ui.max_rect().width();
    fold_inspector(app, width < MIN_BOTH_SIDES_WIDTH);
    let side = || Frame::new().fill(p.panel).inner_margin(Margin::symmetric(12, 0));
    let Some(doc) = &mut app.doc else { return };
    let set = std::mem::take(&mut app.sides.set);
    let sized = |panel: Panel, width: f32, range: Rangef| {
        let width = range.clamp(width);
        if set {
            panel.exact_size(width)
        } else {
            panel.default_size(width).size_range(range)
        }
    };
    app.actions.inspector = app.inspector;
    if app.outline {
        let shown = sized(Panel::left("outline"), app.sides.outline, Rangef::new(140.0, 420.0))
            .frame(side())
            .show(ui, |ui| {
                focus::pane(ui, "outline", "Outline");
                egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                    focus::list(ui, "outline", |ui| outline::ui(doc, &mut app.actions, ui));
                });
            });
        app.sides.outline = shown.response.rect.width();
    }
    let outline = if app.outline { app.sides.outline } else { 0.0 };
    if app.inspector {
        let shown = sized(
            Panel::right("inspector"),
            app.sides.inspector,
            Rangef::new(220.0, (width - outline - MIN_TABLE_WIDTH).clamp(220.0, 560.0)),
        )
        .frame(side())
        .show(ui, |ui| {
            focus::pane(ui, "inspector", "Inspector");
            egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                let views = inspector::OtherViews {
                    side: app.views.memory.device.side,
                    inputs: &app.views.inputs,
                    screen: &app.views.screen,
                };
                inspector::ui(doc, &mut app.actions, views, ui);
            });
        });
        if !app.sides.narrow {
            app.sides.inspector = shown.response.rect.width();
        }
    }
}

fn draw_floating_panels(app: &mut App, ui: &Ui) {
    let ctx = ui.ctx().clone();
    let Some(doc) = &mut app.doc else { return };
    let mut back = None;
    for t in &mut app.floating {
        let Some(panel) = panels::by_id(t.panel) else { continue };
        // Uses the start geometry, not the current one: a window that follows its own position would work against the
        // user.
        let mut builder = egui::ViewportBuilder::default()
            .with_title(format!("{} · {}", panel.title, doc.title))
            .with_inner_size(t.start.size);
        if let Some(at) = t.start.at {
            builder = builder.with_position(at);
        }
        let (views, actions) = (&mut app.views, &mut app.actions);
        let mut context = PanelContext { doc, views, actions };
        let id = egui::ViewportId::from_hash_of(("torn", t.panel));
        ctx.show_viewport_immediate(id, builder, |ui, class| {
            let p = palette(ui);
            if matches!(class, egui::ViewportClass::EmbeddedWindow) {
                ui.set_min_size(vec2(480.0, 300.0));
                panel.draw(&mut context, ui);
            } else {
                egui::CentralPanel::default()
                    .frame(Frame::new().fill(p.panel))
                    .show(ui, |ui| panel.draw(&mut context, ui));
                ui.ctx().input(|i| {
                    let v = i.viewport();
                    t.now.at = v.outer_rect.map(|r| [r.min.x, r.min.y]).or(t.now.at);
                    t.now.size = v.inner_rect.map_or(t.now.size, |r| [r.width(), r.height()]);
                });
            }
            if ui.ctx().input(|i| i.viewport().close_requested()) {
                back = Some(t.panel);
            }
        });
    }
    if let Some(id) = back {
        app.floating.retain(|t| t.panel != id);
        layout::show(&mut app.dock, id);
    }
}
