//! Sheets over the window: shortcuts, About, and the confirmation before hardware is used.

use super::app::App;
use super::command::Menu;
use crate::theme::{self, body, mono, palette, small, strong, widgets};
use egui::accesskit::Role;
use egui::{Align2, Context, Rect, RichText, Sense, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::text;

pub(super) fn show_sheet(ctx: &Context, title: &str, open: &mut bool, width: f32, add: impl FnOnce(&mut Ui)) {
    if !*open {
        return;
    }
    let screen = ctx.content_rect();
    let mut keep = true;
    egui::Window::new(title)
        .open(&mut keep)
        .collapsible(false)
        .resizable(false)
        .default_pos(pos2((screen.width() - width) / 2.0, 60.0))
        .fixed_size(vec2(width, (screen.height() - 136.0).min(680.0)))
        .show(ctx, add);
    *open = keep;
}

impl App {
    /// Closes the topmost sheet. A question is answered with no.
    pub(super) fn close_sheet(&mut self) {
        if self.question.take().is_none() && self.confirm.take().is_none() {
            self.help = false;
            self.about = false;
            self.keys_sheet = None;
            self.program_sheet = None;
        }
    }
}

/// Menus by column, so that the columns have similar lengths.
const COLUMNS: [&[Menu]; 3] = [
    &[Menu::File, Menu::Edit, Menu::Panels],
    &[Menu::View, Menu::Shader],
    &[Menu::Go, Menu::Replay, Menu::Help],
];

/// Keys of a focused panel. They are not commands, because they mean something else in other panels.
const IN_PANELS: &[(Menu, &str, &str)] = &[
    (Menu::Shader, "↑ ↓", "In the code: a clause up, down"),
    (Menu::Shader, "← →", "In the code: thread back, forward"),
    (Menu::Shader, "Enter", "In the code: along the branch"),
    (Menu::Shader, "Backspace", "In the code: back again"),
];

/// Draws the sheet of shortcuts.
pub(super) fn draw_help(app: &mut App, ctx: &Context) {
    let mut open = app.help;
    let mut change = false;
    show_sheet(ctx, "Shortcuts", &mut open, 820.0, |ui| {
        let p = palette(ui);
        let height = (ui.available_height() - 34.0).max(80.0);
        egui::ScrollArea::vertical()
            .auto_shrink(false)
            .max_height(height)
            .show(ui, |ui| {
                ui.spacing_mut().item_spacing.x = 32.0;
                ui.columns(3, |columns| {
                    let all = COLUMNS.iter().enumerate();
                    for (i, menu) in all.flat_map(|(i, menus)| menus.iter().map(move |m| (i, *m))) {
                        let Some(ui) = columns.get_mut(i) else { continue };
                        ui.spacing_mut().item_spacing.y = 1.0;
                        widgets::section(ui, menu.title());
                        let commands = app.commands.iter().filter(|c| c.menu == menu);
                        let commands = commands.map(|c| (app.keys.text(c.id), c.title));
                        let commands = commands.filter(|c| !c.0.is_empty());
                        let within = IN_PANELS.iter().filter(|k| k.0 == menu);
                        for (keys, title) in commands.chain(within.map(|k| (k.1.to_owned(), k.2))) {
                            let (rect, r) =
                                ui.allocate_exact_size(vec2(ui.available_width(), theme::ROW), Sense::hover());
                            r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{keys}: {title}")));
                            let w = widgets::paint_text(ui, rect, Align2::RIGHT_CENTER, &keys, mono(), p.quiet);
                            let left = Rect::from_min_max(rect.min, pos2(rect.right() - w - 8.0, rect.bottom()));
                            widgets::paint_text(ui, left, Align2::LEFT_CENTER, title, body(), p.text);
                        }
                    }
                });
                ui.add_space(8.0);
                let wheel = "Wheel: zoom the timeline about the pointer. Shift and wheel: move. Drag: measure. The \
                         command palette has the rest";
                let words = match app.keys.text("palette").as_str() {
                    "" => format!("{wheel}."),
                    keys => format!("{wheel}, {keys}."),
                };
                ui.label(RichText::new(words).font(small()).color(p.quiet));
            });
        change = ui.button("Change keys…").clicked();
    });
    app.help = open;
    if change {
        app.actions.run_command("keys");
    }
}

/// Draws the About sheet.
pub(super) fn draw_about(app: &mut App, ctx: &Context) {
    let mut open = app.about;
    show_sheet(ctx, "About Kinescope", &mut open, 520.0, |ui| {
        let p = palette(ui);
        ui.label(
            RichText::new(format!("Kinescope {}", env!("CARGO_PKG_VERSION")))
                .font(strong())
                .size(14.0),
        );
        ui.label("Inspect, edit and replay recordings of GPU work.");
        ui.add_space(6.0);
        ui.label(RichText::new("Licensed under MIT or Apache-2.0.").color(p.quiet));
        ui.add_space(6.0);
        for line in [
            "Inter © The Inter Project Authors, SIL Open Font License 1.1",
            "JetBrains Mono © The JetBrains Mono Project Authors, SIL Open Font License 1.1",
            "Phosphor Icons © Phosphor Icons, MIT",
        ] {
            ui.label(RichText::new(line).font(small()).color(p.quiet));
        }
    });
    app.about = open;
}

/// Draws the confirmation before hardware is used.
pub(super) fn draw_confirm(app: &mut App, ctx: &Context) {
    let (Some(command), Some(doc)) = (app.confirm, &app.doc) else {
        return;
    };
    let target = doc.replay.target().to_owned();
    let driven = doc.replay.is_driven();
    let what = match &doc.replay.plan {
        Some((c, _)) if c.plan.channel().is_some() => format!(
            "{}, {} of memory",
            text::count_noun(
                c.plan.channel().map_or(0, |channel| channel.submissions),
                "submission",
                "submissions"
            ),
            text::bytes(c.plan.budgets.pages.saturating_mul(4096))
        ),
        Some((c, _)) if driven => format!(
            "{}, {} of memory",
            text::count_noun(c.plan.actions, "call", "calls"),
            text::bytes(c.plan.budgets.pages.saturating_mul(4096))
        ),
        Some((c, _)) => format!(
            "{}, {}, {} of the agent's memory",
            text::count_noun(c.plan.actions, "action", "actions"),
            text::count_noun(c.plan.jobs().len() as u64, "job", "jobs"),
            text::count_noun(c.plan.accesses().map_or(0, |a| a.used_pages), "page", "pages")
        ),
        None => "the plan is made and verified first; \"Make plan\" shows it before the replay".to_owned(),
    };
    let summary = doc.replay.info().map(|i| i.description.clone());
    let uncontained = doc.replay.needs_containment_consent();
    let title = match (uncontained, driven) {
        (true, _) => "Replay on hardware without containment?",
        (_, true) => "Replay on this GPU?",
        _ => "Replay on real hardware?",
    };
    let mut answer = None;
    let modal = egui::Modal::new(egui::Id::unique("confirm")).show(ctx, |ui| {
        ui.set_width(440.0);
        let p = palette(ui);
        ui.label(RichText::new(title).font(strong()).size(14.0));
        ui.add_space(6.0);
        ui.label(RichText::new(&target).font(mono()));
        if let Some(message) = &summary {
            ui.label(RichText::new(message).font(small()).color(p.quiet));
        }
        ui.add_space(4.0);
        ui.label(format!("This writes to the device and starts its work: {what}."));
        if uncontained {
            let words = "! No IOMMU and no page tables restrict this device: with a wrong plan, it can read and \
                         overwrite any memory of its machine. Your confirmation is valid for this target until the \
                         recording is closed.";
            ui.label(RichText::new(words).color(p.warning));
        }
        let more = if driven {
            "A worker process replays the calls, and the driver protects the memory of other processes. Other users \
             of the GPU share its time. Your confirmation is valid for this target until the recording is closed."
        } else {
            "The agent verifies the plan again before it touches the device."
        };
        ui.label(RichText::new(more).color(p.quiet));
        ui.add_space(10.0);
        ui.horizontal(|ui| {
            let words = if driven { "Replay" } else { "Replay on hardware" };
            let yes = widgets::primary_button(ui, words, "Touch the hardware", true);
            let no = ui.button("Cancel");
            if yes.clicked() {
                answer = Some(true);
            }
            if no.clicked() {
                answer = Some(false);
            }
            widgets::focus_first(&[&no, &yes]);
        });
    });
    match answer {
        Some(true) => {
            app.run(ctx, command);
        }
        Some(false) => app.confirm = None,
        None if modal.should_close() => app.confirm = None,
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_menu_is_listed_in_the_key_help() {
        let placed: Vec<Menu> = COLUMNS.iter().flat_map(|c| c.iter().copied()).collect();
        assert_eq!(placed.len(), Menu::ALL.len());
        assert!(Menu::ALL.iter().all(|m| placed.contains(m)));
    }
}
