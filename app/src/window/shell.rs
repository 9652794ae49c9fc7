//! What stands around the panels: top bar, outline, inspector, status bar, sheets, and the page without a recording.

use super::{App, layout};
use crate::commands::{self, COMMANDS, Menu};
use crate::panels;
use crate::theme::{self, body, icons, mono, palette, small, strong, text, widgets};
use egui::accesskit::Role;
use egui::{
    Align, Align2, Context, Frame, Layout, Margin, Panel, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2,
};

/// Draws everything.
pub fn draw(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let bar = Frame::new().fill(p.panel).inner_margin(Margin::symmetric(12, 0));
    Panel::top("top")
        .exact_size(40.0)
        .frame(bar)
        .show(ui, |ui| top(app, ui));
    let bar = Frame::new().fill(p.panel).inner_margin(Margin::symmetric(12, 0));
    Panel::bottom("status")
        .exact_size(26.0)
        .frame(bar)
        .show(ui, |ui| status(app, ui));
    notices(app, ui);
    if app.doc.is_none() {
        egui::CentralPanel::default()
            .frame(Frame::new().fill(p.background))
            .show(ui, |ui| welcome(app, ui));
    } else {
        sides(app, ui);
        egui::CentralPanel::default()
            .frame(Frame::new().fill(p.line))
            .show(ui, |ui| {
                if let Some(doc) = &mut app.doc {
                    let mut draw = layout::Draw {
                        doc,
                        asks: &mut app.asks,
                    };
                    app.dock.ui(&mut draw, ui);
                }
            });
        torn(app, ui);
    }
    let ctx = ui.ctx().clone();
    help(app, &ctx);
    about(app, &ctx);
    confirm(app, &ctx);
}

fn sides(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let side = || Frame::new().fill(p.panel).inner_margin(Margin::symmetric(12, 0));
    let Some(doc) = &mut app.doc else { return };
    if app.outline {
        Panel::left("outline")
            .default_size(200.0)
            .size_range(140.0..=420.0)
            .frame(side())
            .show(ui, |ui| {
                egui::ScrollArea::vertical()
                    .auto_shrink(false)
                    .show(ui, |ui| panels::outline::ui(doc, &mut app.asks, ui));
            });
    }
    if app.inspector {
        Panel::right("inspector")
            .default_size(290.0)
            .size_range(220.0..=560.0)
            .frame(side())
            .show(ui, |ui| {
                egui::ScrollArea::vertical()
                    .auto_shrink(false)
                    .show(ui, |ui| panels::inspector::ui(doc, &mut app.asks, ui));
            });
    }
}

fn torn(app: &mut App, ui: &Ui) {
    let ctx = ui.ctx().clone();
    let Some(doc) = &mut app.doc else { return };
    let mut back = None;
    for id in app.torn.clone() {
        let Some(panel) = panels::by_id(id) else { continue };
        let builder = egui::ViewportBuilder::default()
            .with_title(format!("{} · {}", panel.title, doc.title))
            .with_inner_size([720.0, 460.0]);
        ctx.show_viewport_immediate(egui::ViewportId::from_hash_of(("torn", id)), builder, |ui, class| {
            let p = palette(ui);
            let asks = &mut app.asks;
            if matches!(class, egui::ViewportClass::EmbeddedWindow) {
                ui.set_min_size(vec2(480.0, 300.0));
                (panel.ui)(doc, asks, ui);
            } else {
                egui::CentralPanel::default()
                    .frame(Frame::new().fill(p.panel))
                    .show(ui, |ui| (panel.ui)(doc, asks, ui));
            }
            if ui.ctx().input(|i| i.viewport().close_requested()) {
                back = Some(id);
            }
        });
    }
    if let Some(id) = back {
        app.torn.retain(|t| *t != id);
        layout::show(&mut app.dock, id);
    }
}

fn top(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let full = ui.max_rect();
    ui.painter().hline(
        full.left() - 12.0..=full.right() + 12.0,
        full.bottom() - 0.5,
        Stroke::new(1.0, p.line),
    );
    let search = 290.0_f32.min(full.width() * 0.24);
    ui.horizontal_centered(|ui| {
        menu(app, ui);
        if let Some(doc) = &app.doc {
            ui.label(RichText::new(text::middle(&doc.title, 28)).font(strong()).size(13.0))
                .on_hover_text(doc.path.display().to_string());
            let id = &doc.recording.facts.identity;
            let gpu = if id.gpu_name.is_empty() {
                "unknown GPU"
            } else {
                &id.gpu_name
            };
            let span = doc.ns(doc.len().saturating_sub(1));
            let told = format!(
                "{gpu} · {} events · {} jobs · {}",
                text::count(doc.len()),
                doc.facts.jobs.len(),
                text::duration(span)
            );
            let room = (full.center().x - search / 2.0 - ui.cursor().left() - 8.0).max(0.0);
            let (rect, r) = ui.allocate_exact_size(vec2(room, 20.0), Sense::hover());
            r.widget_info(|| WidgetInfo::labeled(Role::Label, true, &told));
            widgets::paint_text(ui, rect, Align2::LEFT_CENTER, &told, body(), p.quiet);
        } else {
            ui.label(RichText::new("Kinescope").font(strong()).size(13.0));
        }
    });
    let at = Rect::from_center_size(pos2(full.center().x, full.center().y - 0.5), vec2(search, 26.0));
    let r = ui.interact(at, ui.scope_id().with("search"), Sense::click());
    r.widget_info(|| WidgetInfo::labeled(Role::Button, true, "Go to, find, do"));
    ui.painter().rect(
        at,
        4.0,
        if r.hovered() { p.hover } else { p.raised },
        Stroke::new(1.0, p.line),
        egui::StrokeKind::Inside,
    );
    let inner = at.shrink2(vec2(8.0, 0.0));
    let used = widgets::paint_text(ui, inner, Align2::RIGHT_CENTER, "Ctrl P", small(), p.quiet);
    let words = Rect::from_min_max(inner.min, pos2(inner.right() - used - 6.0, inner.bottom()));
    widgets::paint_text(
        ui,
        words,
        Align2::LEFT_CENTER,
        &format!("{}  Go to, find, do", icons::MAGNIFYING_GLASS),
        body(),
        p.quiet,
    );
    if r.clicked() {
        app.asks.command("palette");
    }
    let right = Rect::from_min_max(pos2(at.right() + 8.0, full.top()), full.max);
    let mut child = ui.new_child(
        egui::UiBuilder::new()
            .max_rect(right)
            .layout(Layout::right_to_left(Align::Center)),
    );
    board(app, &mut child);
}

fn board(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let Some(doc) = &mut app.doc else {
        if ui.button("Open recording…").clicked() {
            app.asks.command("open");
        }
        return;
    };
    if doc.is_empty() {
        return;
    }
    let running = doc.replay.running.is_some();
    let words = format!("{} Replay", icons::PLAY);
    if widgets::primary_button(ui, &words, "Replay", !running)
        .on_hover_text("Ctrl Enter")
        .clicked()
    {
        app.asks.command("replay");
    }
    let told = if doc.replay.real() { "hardware" } else { "contained" };
    let colour = if doc.replay.real() { p.warning } else { p.quiet };
    let badge = egui::Button::new(RichText::new(told).color(colour))
        .fill(p.panel)
        .sense(Sense::hover());
    ui.add(badge).on_hover_text(match &doc.replay.device {
        Some(d) => panels::replay::contained(d.containment).to_owned(),
        None => "what keeps the board from foreign memory is told by the plan".to_owned(),
    });
    let name = doc.replay.board().to_owned();
    let dot = RichText::new("●")
        .size(9.0)
        .color(if doc.replay.real() { p.warning } else { p.job });
    let label = RichText::new(format!("{} {}", text::middle(&name, 24), icons::CARET_DOWN)).color(p.text);
    let button = ui.button((dot, label));
    button.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Board {name}")));
    egui::Popup::menu(&button).show(|ui| {
        let mut names = vec![crate::document::replay::SOFTWARE.to_owned()];
        names.extend(doc.replay.boards.iter().flatten().map(|b| b.name.clone()));
        names.push(name.clone());
        names.dedup();
        for n in names {
            if ui.selectable_label(n == name, &n).clicked() {
                doc.replay.choose(&n);
            }
        }
        ui.separator();
        for id in ["find-boards", "show-replay"] {
            app.asks.menu_item(ui, id);
        }
    });
}

fn menu(app: &mut App, ui: &mut Ui) {
    let r = widgets::icon_button(ui, icons::LIST, "Menu");
    let mut run = None;
    egui::Popup::menu(&r).width(230.0).show(|ui| {
        for menu in Menu::ALL {
            ui.menu_button(menu.title(), |ui| {
                ui.set_min_width(250.0);
                let quiet = palette(ui).quiet;
                for c in COMMANDS.iter().filter(|c| c.menu == menu) {
                    let keys = c.shortcut.map(|s| s.text()).unwrap_or_default();
                    let b = egui::Button::new(c.title).shortcut_text(RichText::new(keys).color(quiet));
                    if ui.add_enabled((c.enabled)(app), b).clicked() {
                        run = Some(c.id);
                        ui.close();
                    }
                }
                if menu == Menu::File {
                    recent(app, ui);
                }
            });
        }
    });
    if let Some(id) = run {
        app.asks.command(id);
    }
}

fn recent(app: &mut App, ui: &mut Ui) {
    if app.settings.recent.is_empty() {
        return;
    }
    ui.separator();
    for r in app.settings.recent.clone() {
        let name = r
            .file_name()
            .map(|n| n.to_string_lossy().into_owned())
            .unwrap_or_default();
        if ui
            .button(text::middle(&name, 36))
            .on_hover_text(r.display().to_string())
            .clicked()
        {
            app.asks.then(move |app, ctx| app.open(ctx, r));
            ui.close();
        }
    }
}

fn status(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let full = ui.max_rect();
    ui.painter().hline(
        full.left() - 12.0..=full.right() + 12.0,
        full.top() + 0.5,
        Stroke::new(1.0, p.line),
    );
    ui.horizontal_centered(|ui| {
        if let Some(doc) = &app.doc
            && !doc.is_empty()
        {
            let m = doc.moment();
            let thread = doc
                .recording
                .events
                .thread
                .get(usize::try_from(m).unwrap_or(0))
                .unwrap_or(0);
            let told = format!("event {} of {}", text::count(m), text::count(doc.len()));
            ui.label(RichText::new(told).font(mono()).color(p.quiet));
            ui.label(RichText::new(text::seconds(doc.ns(m))).font(mono()).color(p.quiet));
            if thread != 0 {
                ui.label(RichText::new(format!("thread {thread}")).color(p.quiet));
            }
            if !doc.changes().inputs().is_empty() {
                ui.label(RichText::new(format!("● {} edited", doc.changes().inputs().len())).color(p.edited));
            }
        }
        running(app, ui);
        ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
            for (keys, word, id) in [
                (&["?"][..], "all keys", "help"),
                (&[",", "."], "step", ""),
                (&["W A S D"], "move", ""),
            ] {
                let r = ui.add(egui::Label::new(RichText::new(word).color(p.quiet)).sense(Sense::click()));
                if !id.is_empty() && r.clicked() {
                    app.asks.command("help");
                }
                for k in keys {
                    widgets::key_cap(ui, k);
                }
            }
        });
    });
}

fn running(app: &App, ui: &mut Ui) {
    let p = palette(ui);
    let Some(r) = app
        .tasks
        .running()
        .iter()
        .find(|r| r.since.elapsed().as_millis() >= 100)
    else {
        return;
    };
    ui.add_space(24.0);
    ui.label(RichText::new(text::middle(&r.title, 44)).color(p.quiet));
    let (rect, response) = ui.allocate_exact_size(vec2(110.0, 6.0), Sense::hover());
    response.widget_info(|| WidgetInfo::labeled(Role::ProgressIndicator, true, &r.title));
    ui.painter().rect_filled(rect, 3.0, p.raised);
    if let Some(f) = r.progress.fraction() {
        let done = Rect::from_min_size(rect.min, vec2(rect.width() * f, rect.height()));
        ui.painter().rect_filled(done, 3.0, p.read);
        ui.label(RichText::new(format!("{:.0} %", f * 100.0)).font(mono()).color(p.quiet));
    }
    if widgets::icon_button(ui, icons::X, "Stop").clicked() {
        r.progress.cancel();
    }
}

fn strip(ui: &mut Ui, id: &str, add: impl FnOnce(&mut Ui)) {
    let p = palette(ui);
    let frame = Frame::new().fill(p.raised).inner_margin(Margin::symmetric(12, 5));
    Panel::top(egui::Id::unique(id)).frame(frame).show(ui, |ui| {
        ui.horizontal_wrapped(add);
    });
}

const HINTS: [&str; 3] = [
    "The wheel zooms the timeline about the pointer; drag across it to measure.",
    "Everything named is a link: click an event, an address, a job, and every panel follows.",
    "Ctrl P goes anywhere and does anything; ? shows every key.",
];

fn notices(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    if let Some((what, details)) = app.notice.clone() {
        strip(ui, "notice", |ui| {
            ui.label(RichText::new(format!("▲ {what}")).color(p.error));
            ui.label(RichText::new(text::middle(&details, 160)).color(p.text))
                .on_hover_text(&details);
            if ui.button("Dismiss").clicked() {
                app.notice = None;
            }
        });
    }
    let offered = app
        .doc
        .as_ref()
        .and_then(|d| d.offered.as_ref().map(|f| f.changes.len()));
    if let Some(n) = offered {
        strip(ui, "offered", |ui| {
            let told = format!("{n} changes were left by a run of the program that did not end in good order.");
            ui.label(RichText::new(told).color(p.edited));
            if ui.button("Take them up").clicked() {
                app.asks.command("restore-edits");
            }
            if ui.button("Forget them").clicked() {
                app.asks.command("forget-edits");
            }
        });
    }
    let hint = app
        .settings
        .folder()
        .and_then(|_| HINTS.get(app.settings.hints_read as usize));
    if let Some(h) = hint.filter(|_| app.doc.is_some()) {
        strip(ui, "hint", |ui| {
            ui.label(RichText::new(format!("{} {h}", icons::INFO)).color(p.quiet));
            if ui.button("Got it").clicked() {
                app.settings.hints_read += 1;
                app.settings.save();
            }
        });
    }
}

fn welcome(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    if let Some(r) = app.tasks.running().first() {
        widgets::empty(ui, icons::HOURGLASS_SIMPLE_MEDIUM, &r.title, None);
        return;
    }
    ui.add_space((ui.available_height() * 0.22).max(24.0));
    ui.vertical_centered(|ui| {
        ui.label(RichText::new(icons::FILM_STRIP).size(36.0).color(p.quiet));
        ui.add_space(8.0);
        ui.label(
            RichText::new("Open a recording of what a driver did to a GPU")
                .font(strong())
                .size(16.0),
        );
        ui.add_space(4.0);
        ui.label(
            RichText::new(
                "A .kine file, a folder of GPUReplay's, or a memory dump. Dragging it into this window works too.",
            )
            .color(p.quiet),
        );
        ui.add_space(16.0);
        ui.horizontal(|ui| {
            let wide = 360.0;
            ui.add_space(((ui.available_width() - wide) / 2.0).max(0.0));
            if widgets::primary_button(ui, "Open file…", "Open file", true).clicked() {
                app.asks.command("open");
            }
            if ui.button("Open folder…").clicked() {
                app.asks.command("open-folder");
            }
            if ui
                .add_enabled(commands::sample().is_some(), egui::Button::new("Open the sample"))
                .clicked()
            {
                app.asks.command("open-sample");
            }
        });
        if !app.settings.recent.is_empty() {
            ui.add_space(24.0);
            ui.label(RichText::new("Recent").font(strong()).color(p.quiet));
            ui.add_space(4.0);
            for r in app.settings.recent.clone().into_iter().take(8) {
                let name = r
                    .file_name()
                    .map(|n| n.to_string_lossy().into_owned())
                    .unwrap_or_default();
                if widgets::link(ui, &format!("Open {name}"), &text::middle(&r.display().to_string(), 80)).clicked() {
                    app.asks.then(move |app, ctx| app.open(ctx, r));
                }
            }
        }
    });
}

fn sheet(ctx: &Context, title: &str, open: &mut bool, width: f32, add: impl FnOnce(&mut Ui)) {
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
        .fixed_size(vec2(width, (screen.height() - 160.0).min(620.0)))
        .show(ctx, add);
    *open = keep;
}

fn help(app: &mut App, ctx: &Context) {
    let mut open = app.help;
    sheet(ctx, "Shortcuts", &mut open, 760.0, |ui| {
        let p = palette(ui);
        egui::ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
            ui.columns(3, |columns| {
                for (i, menu) in Menu::ALL.into_iter().enumerate() {
                    let Some(ui) = columns.get_mut(i % 3) else { continue };
                    ui.spacing_mut().item_spacing.y = 1.0;
                    widgets::section(ui, menu.title());
                    for c in COMMANDS.iter().filter(|c| c.menu == menu && c.shortcut.is_some()) {
                        let keys = c.shortcut.map(|s| s.text()).unwrap_or_default();
                        let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), theme::ROW), Sense::hover());
                        r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("{keys}: {}", c.title)));
                        let w = widgets::paint_text(ui, rect, Align2::RIGHT_CENTER, &keys, mono(), p.quiet);
                        let left = Rect::from_min_max(rect.min, pos2(rect.right() - w - 8.0, rect.bottom()));
                        widgets::paint_text(ui, left, Align2::LEFT_CENTER, c.title, body(), p.text);
                    }
                }
            });
            ui.add_space(8.0);
            ui.label(RichText::new("Wheel: zoom the timeline about the pointer. Shift and wheel: move. Drag: measure. Everything else is in the palette, Ctrl P.").font(small()).color(p.quiet));
        });
    });
    app.help = open;
}

fn about(app: &mut App, ctx: &Context) {
    let mut open = app.about;
    sheet(ctx, "About Kinescope", &mut open, 520.0, |ui| {
        let p = palette(ui);
        ui.label(
            RichText::new(format!("Kinescope {}", env!("CARGO_PKG_VERSION")))
                .font(strong())
                .size(14.0),
        );
        ui.label("Records what a driver did to a GPU, shows it, and plays it again.");
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

fn confirm(app: &mut App, ctx: &Context) {
    let (Some(command), Some(doc)) = (app.confirm, &app.doc) else {
        return;
    };
    let board = doc.replay.board().to_owned();
    let what = match &doc.replay.plan {
        Some((c, _)) => format!(
            "{} actions, {} jobs, {} pages of the agent's memory",
            text::count(c.plan.actions),
            c.plan.jobs.len(),
            text::count(c.plan.used_pages)
        ),
        None => "the plan is made and checked first; make it beforehand to read it".to_owned(),
    };
    let mut answer = None;
    let modal = egui::Modal::new(egui::Id::unique("confirm")).show(ctx, |ui| {
        ui.set_width(440.0);
        let p = palette(ui);
        ui.label(RichText::new("Replay on real hardware?").font(strong()).size(14.0));
        ui.add_space(6.0);
        ui.label(RichText::new(&board).font(mono()));
        ui.label(format!(
            "This writes to registers of that device and runs jobs on it: {what}."
        ));
        ui.label(RichText::new("The agent checks the plan again before anything is touched.").color(p.quiet));
        ui.add_space(10.0);
        ui.horizontal(|ui| {
            if widgets::primary_button(ui, "Replay on hardware", "Touch the hardware", true).clicked() {
                answer = Some(true);
            }
            if ui.button("Do not").clicked() {
                answer = Some(false);
            }
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
