//! The tour: at most eight steps on the sample, each with a card next to the panel that it explains. A step asks for a
//! command and advances when the command was run. The tour blocks nothing; all other commands work as usual.

mod steps;

use super::app::App;
use super::layout;
use super::tour_state::Tour;
use crate::theme::{icons, palette, small, strong, widgets};
use egui::accesskit::Role;
use egui::{
    Align2, Button, Context, Frame, Margin, Order, Rect, Response, RichText, Stroke, StrokeKind, Ui, WidgetInfo,
};
use egui::{pos2, vec2};
use kinescope_session::sample;
use steps::{STEPS, Step};

/// Width of a card, points.
const WIDTH: f32 = 336.0;
/// Distance of a card from its panel and from the window border, points.
const GAP: f32 = 8.0;
/// Height of a panel's tabs, which a card above the panel keeps visible.
const TABS: f32 = 30.0;
/// Assumed height of a card until it was drawn.
const GUESS: f32 = 168.0;

impl Tour {
    /// Returns the commands of the steps, in order.
    pub fn goals() -> impl ExactSizeIterator<Item = &'static str> {
        STEPS.iter().map(|s| s.goal)
    }

    fn current_step(&self) -> Option<&'static Step> {
        STEPS.get(self.at).filter(|_| self.waits.is_none())
    }
}

impl App {
    /// Starts the tour on the sample, and opens the sample if needed.
    pub fn begin_tour(&mut self, ctx: &Context) {
        let Some(path) = sample::path() else { return };
        self.dismiss_tour();
        self.tour = Some(Tour {
            waits: Some(path.clone()),
            ..Tour::default()
        });
        if !self.is_open_file(&path) {
            self.open(ctx, path);
        }
    }

    /// Ends the tour.
    pub fn end_tour(&mut self) {
        self.tour = None;
    }

    /// Stops offering the tour. It stays in the Help menu.
    pub(super) fn dismiss_tour(&mut self) {
        if !self.settings.tour_seen {
            self.settings.tour_seen = true;
            self.settings.save();
        }
    }

    /// Returns whether to offer the tour while no recording is open: only to a user who neither took it nor opened
    /// anything.
    #[must_use]
    pub fn offers_tour(&self) -> bool {
        let s = &self.settings;
        !s.tour_seen && s.recent.is_empty() && s.folder().is_some() && sample::path().is_some()
    }

    fn is_open_file(&self, path: &std::path::Path) -> bool {
        self.doc.as_ref().is_some_and(|d| d.path == path)
    }

    /// Handles a command that was run, since a step may wait for it.
    pub(super) fn note_tour_command(&mut self, id: &str) {
        if let Some(t) = &mut self.tour
            && t.current_step().is_some_and(|s| s.goal == id)
        {
            t.ran = true;
        }
    }

    /// Returns whether Escape ends the tour. It does not while Escape stops a replay.
    pub(super) fn escape_leaves_tour(&self) -> bool {
        let replays = self.doc.as_ref().is_some_and(|d| d.replay.running.is_some());
        self.tour.is_some() && !replays
    }

    fn go_to_step(&mut self, ctx: &Context, at: usize, did: Option<&'static str>) {
        let Some(step) = STEPS.get(at) else { return };
        layout::show(&mut self.dock, step.panel);
        (step.prepare)(self);
        let changes = self.doc.as_ref().map_or(0, |d| d.changes().len());
        self.tour = Some(Tour {
            waits: None,
            at,
            ran: false,
            changes,
            did,
            over: false,
        });
        ctx.request_repaint();
    }

    /// Advances when the sample is open, or when the action of a step is done.
    fn follow_tour(&mut self, ctx: &Context) {
        let Some(tour) = self.tour.clone() else { return };
        if let Some(path) = &tour.waits {
            let settled = self.tasks.running().is_empty() && self.question.is_none();
            if self
                .doc
                .as_ref()
                .is_some_and(|d| d.path == *path && d.derivation.is_none())
            {
                self.go_to_step(ctx, 0, None);
            } else if settled && !self.is_open_file(path) {
                // The sample did not open: the user kept the open recording, or it is unreadable, which was reported.
                self.tour = None;
            }
            return;
        }
        // Another recording was opened, or none is open.
        if !sample::path().is_some_and(|p| self.is_open_file(&p)) {
            self.tour = None;
            return;
        }
        let Some(step) = tour.current_step() else { return };
        if tour.over || !(step.done)(self, &tour) {
            return;
        }
        if tour.at + 1 < STEPS.len() {
            self.go_to_step(ctx, tour.at + 1, Some(step.did));
        } else if let Some(t) = &mut self.tour {
            t.over = true;
            t.did = Some(step.did);
        }
    }
}

/// Draws the outline of the panel that the step explains, above the panel and below everything else.
pub(super) fn draw_edge(app: &App, ui: &Ui) {
    let step = app.tour.as_ref().and_then(Tour::current_step);
    if let Some(rect) = step.and_then(|s| layout::panel_rect(&app.dock, s.panel)) {
        let stroke = Stroke::new(2.0, palette(ui).read);
        ui.painter().rect_stroke(rect, 0.0, stroke, StrokeKind::Inside);
    }
}

/// Returns the position of a card of this size: next to the panel if it fits, otherwise in its lower corner.
fn card_position(window: Rect, panel: Option<Rect>, size: egui::Vec2) -> egui::Pos2 {
    let corner = |r: Rect| r.right_bottom() - size - vec2(GAP, GAP) * 2.0;
    let Some(panel) = panel else { return corner(window) };
    let (right, below) = (panel.right() - size.x - GAP, panel.bottom() + GAP);
    let above = panel.top() - TABS - GAP - size.y;
    let tries = [
        pos2(right, above),
        pos2(right, below + TABS),
        pos2(panel.left() - GAP - size.x, panel.top() + GAP),
        pos2(panel.right() + GAP, panel.top() + GAP),
    ];
    let inside = |at: &egui::Pos2| window.contains_rect(Rect::from_min_size(*at, size));
    tries.into_iter().find(inside).unwrap_or_else(|| corner(panel))
}

/// Draws the card of the current step.
pub(super) fn draw(app: &mut App, ctx: &Context) {
    app.follow_tour(ctx);
    let Some(tour) = app.tour.clone() else { return };
    let Some(step) = tour.current_step() else { return };
    let id = egui::Id::unique("tour");
    let panel = layout::panel_rect(&app.dock, step.panel);
    let height = ctx.memory(|m| m.area_rect(id)).map_or(GUESS, |r| r.height());
    // The area between the top bar and the status bar.
    let window = ctx.content_rect();
    let window = Rect::from_min_max(window.min + vec2(0.0, 40.0), window.max - vec2(0.0, 26.0));
    let at = card_position(window, panel, vec2(WIDTH, height));
    egui::Area::new(id)
        .order(Order::Middle)
        .fixed_pos(at)
        .pivot(Align2::LEFT_TOP)
        .show(ctx, |ui| draw_card(app, ui, &tour, step));
}

fn set_accessible_name(r: &Response, name: &'static str) {
    r.widget_info(|| WidgetInfo::labeled(Role::Button, true, name));
}

fn draw_card(app: &mut App, ui: &mut Ui, tour: &Tour, step: &Step) {
    let p = palette(ui);
    let frame = Frame::new()
        .fill(p.raised)
        .stroke(Stroke::new(1.0, p.read))
        .corner_radius(4.0)
        .inner_margin(Margin::symmetric(12, 10));
    frame.show(ui, |ui| {
        ui.set_width(WIDTH - 26.0);
        ui.spacing_mut().item_spacing = vec2(8.0, 6.0);
        if let Some(did) = tour.did {
            ui.horizontal_top(|ui| {
                ui.label(RichText::new(icons::CHECK_CIRCLE).size(14.0).color(p.job));
                ui.add(egui::Label::new(RichText::new(did).color(p.job)).wrap());
            });
        }
        if tour.over {
            draw_tour_end(app, ui);
        } else {
            draw_step_text(app, ui, tour, step);
        }
        ui.add_space(2.0);
        ui.horizontal(|ui| {
            let last = tour.at + 1 == STEPS.len();
            let back = ui.add_enabled(tour.at > 0, Button::new("Back"));
            set_accessible_name(&back, "Back in the tour");
            let word = if last { "Finish" } else { "Next" };
            let next = widgets::primary_button(ui, word, "On in the tour", true);
            if back.clicked() {
                let ctx = ui.ctx().clone();
                app.go_to_step(&ctx, tour.at - 1, None);
            }
            if next.clicked() {
                let ctx = ui.ctx().clone();
                match last {
                    true => app.end_tour(),
                    false => app.go_to_step(&ctx, tour.at + 1, None),
                }
            }
            ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
                let leave = ui
                    .button("Leave")
                    .on_hover_text("Escape leaves too; the menu Help takes it again");
                set_accessible_name(&leave, "Leave the tour");
                if leave.clicked() {
                    app.end_tour();
                }
            });
        });
    });
}

fn draw_step_text(app: &App, ui: &mut Ui, tour: &Tour, step: &Step) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        let title = ui.label(RichText::new(step.title).font(strong()).size(14.0).color(p.text));
        let number = format!("{} of {}", tour.at + 1, STEPS.len());
        let name = format!("Tour, {number}: {}", step.title);
        title.widget_info(|| WidgetInfo::labeled(Role::Label, true, &name));
        ui.with_layout(egui::Layout::right_to_left(egui::Align::Center), |ui| {
            ui.label(RichText::new(number).font(small()).color(p.quiet));
        });
    });
    ui.add(egui::Label::new(RichText::new(step.words).color(p.text)).wrap());
    let keys = app.keys.text(step.goal);
    let title = app.command(step.goal).map_or_else(String::new, |c| c.full_title());
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing.x = 6.0;
        // Without a shortcut, the user finds the command by its name.
        let palette_keys = app.keys.text("palette");
        let (cap, instruction) = match (keys.is_empty(), palette_keys.is_empty()) {
            (false, _) => (keys, step.instruction.to_owned()),
            (true, false) => (palette_keys, format!("and “{title}” {}", step.instruction)),
            (true, true) => (String::new(), format!("“{title}”, in the menus, {}", step.instruction)),
        };
        if !cap.is_empty() {
            widgets::key_cap(ui, &cap);
        }
        let shown = ui.add(egui::Label::new(RichText::new(&instruction).color(p.text)).wrap());
        shown.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{cap} {instruction}")));
    });
}

fn draw_tour_end(app: &App, ui: &mut Ui) {
    let p = palette(ui);
    ui.label(
        RichText::new("That was the tour")
            .font(strong())
            .size(14.0)
            .color(p.text),
    );
    let message = match app.keys.text("help") {
        keys if keys.is_empty() => "All keys, in the menu Help, shows every key.".to_owned(),
        keys => format!("{keys} shows every key, and the menu Help takes the tour again."),
    };
    ui.add(egui::Label::new(RichText::new(message).color(p.text)).wrap());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tour_card_is_next_to_its_panel_inside_the_window() {
        let window = Rect::from_min_max(pos2(0.0, 40.0), pos2(1280.0, 774.0));
        let size = vec2(WIDTH, GUESS);
        let card = |panel| Rect::from_min_size(card_position(window, panel, size), size);
        let upper = Rect::from_min_max(pos2(200.0, 40.0), pos2(990.0, 380.0));
        let lower = Rect::from_min_max(pos2(200.0, 412.0), pos2(990.0, 774.0));
        for (panel, outside) in [
            (Some(upper), true),
            (Some(lower), true),
            (Some(window), false),
            (None, false),
        ] {
            let at = card(panel);
            assert!(window.contains_rect(at), "{panel:?}: {at:?}");
            assert!(
                !outside || panel.is_some_and(|r| !r.intersects(at)),
                "{panel:?}: {at:?}"
            );
        }
    }

    #[test]
    fn tour_has_at_most_eight_steps_that_name_panels() {
        assert!((1..=8).contains(&STEPS.len()));
        for s in STEPS {
            assert!(crate::panels::is_known(s.panel), "{}", s.panel);
        }
    }
}
