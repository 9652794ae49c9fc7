//! The top bar: menu, name of the recording, search, target and replay.

use super::app::App;
use super::command::Menu;
use crate::panels::common::actions::{UiAction, UiActions};
use crate::theme::{body, icons, palette, small, strong, widgets};
use egui::accesskit::Role;
use egui::{Align, Align2, Layout, Rect, RichText, Sense, Stroke, Ui, WidgetInfo, pos2, vec2};
use kinescope_session::safety::Safety;
use kinescope_session::wasm_run::{is_wasm_run, replay_commands};
use kinescope_session::{Document, text};
use replay_engine::client::fitting::Fit;
use replay_engine::device::Containment;
use trace_core::families::find_family;
use trace_core::registers::recorded_name;

/// Draws the top bar.
pub(super) fn draw_top_bar(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let full = ui.max_rect();
    ui.painter().hline(
        full.left() - 12.0..=full.right() + 12.0,
        full.bottom() - 0.5,
        Stroke::new(1.0, p.line),
    );
    // The right part takes the width that it needed in the last frame. The search field takes the rest.
    let id = ui.scope_id().with("taken on the right");
    let kept: Option<f32> = ui.data(|d| d.get_temp(id));
    let taken = full.right() - kept.unwrap_or(320.0);
    let search = 290.0_f32
        .min(full.width() * 0.24)
        .min((taken - 8.0 - full.center().x) * 2.0)
        .max(120.0);
    let middle = full.center().x.min(taken - 8.0 - search / 2.0);
    ui.horizontal_centered(|ui| {
        draw_menu(app, ui);
        if let Some(doc) = &app.doc {
            ui.label(
                RichText::new(text::truncate_middle(&doc.title, 28))
                    .font(strong())
                    .size(13.0),
            )
            .on_hover_text(doc.path.display().to_string());
            draw_processes(doc, &mut app.actions, ui);
            let message = describe_recording(doc);
            let room = (middle - search / 2.0 - ui.cursor().left() - 8.0).max(0.0);
            let (rect, r) = ui.allocate_exact_size(vec2(room, 20.0), Sense::hover());
            r.widget_info(|| WidgetInfo::labeled(Role::Label, true, &message));
            widgets::paint_text(ui, rect, Align2::LEFT_CENTER, &message, body(), p.quiet);
        } else {
            ui.label(RichText::new("Kinescope").font(strong()).size(13.0));
        }
    });
    let at = Rect::from_center_size(pos2(middle, full.center().y - 0.5), vec2(search, 26.0));
    let r = ui.interact(at, ui.scope_id().with("search"), Sense::click());
    r.widget_info(|| WidgetInfo::labeled(Role::Button, true, "Command palette"));
    ui.painter().rect(
        at,
        4.0,
        if r.hovered() { p.hover } else { p.raised },
        Stroke::new(1.0, p.line),
        egui::StrokeKind::Inside,
    );
    let inner = at.shrink2(vec2(8.0, 0.0));
    let used = widgets::paint_text(
        ui,
        inner,
        Align2::RIGHT_CENTER,
        &app.keys.text("palette"),
        small(),
        p.quiet,
    );
    let words = Rect::from_min_max(inner.min, pos2(inner.right() - used - 6.0, inner.bottom()));
    widgets::paint_text(
        ui,
        words,
        Align2::LEFT_CENTER,
        &format!("{}  Command palette", icons::MAGNIFYING_GLASS),
        body(),
        p.quiet,
    );
    if r.clicked() {
        app.actions.run_command("palette");
    }
    let half = Rect::from_min_max(pos2(full.center().x, full.top()), full.max);
    let mut child = ui.new_child(
        egui::UiBuilder::new()
            .max_rect(half)
            .layout(Layout::right_to_left(Align::Center)),
    );
    draw_target(app, &mut child);
    let now = full.right() - child.min_rect().left().min(full.right());
    if kept != Some(now) {
        ui.data_mut(|d| d.insert_temp(id, now));
        ui.ctx().request_repaint();
    }
}

/// Describes the recording on one line: its device and its events, or the program, target and inputs of a run.
fn describe_recording(doc: &Document) -> String {
    let events = text::count_noun(doc.len(), "event", "events");
    if is_wasm_run(&doc.recording) {
        let Some(copies) = doc.derived.run_copies() else {
            return format!("WebAssembly run · {events}");
        };
        let run = copies.run();
        let inputs = text::count_noun(run.copies().len() as u64, "input", "inputs");
        let parts = [run.program_name(), &run.target().name, &inputs, &events];
        return parts
            .into_iter()
            .filter(|p| !p.is_empty())
            .collect::<Vec<_>>()
            .join(" · ");
    }
    let name = recorded_name(&doc.recording);
    let gpu = match name.as_str() {
        "" => match find_family(&doc.recording).title() {
            "" => "unknown GPU",
            title => title,
        },
        name => name,
    };
    let work = match &doc.derived.api_trace {
        Some(calls) => text::count_noun(calls.launches().len() as u64, "launch", "launches"),
        None => text::count_noun(doc.derived.jobs.len() as u64, "job", "jobs"),
    };
    format!("{gpu} · {events} · {work} · {}", doc.format_span())
}

/// Draws the process of the open recording, and a menu of the program's other processes.
fn draw_processes(doc: &Document, actions: &mut UiActions, ui: &mut Ui) {
    let Some((all, open)) = doc.processes.as_ref().and_then(|p| Some((p, p.current()?))) else {
        return;
    };
    let count = all.all().len();
    let name = format!("process {}", open.process);
    let button = ui.button(format!("{name} {}", icons::CARET_DOWN));
    button.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("{name}, one of {count}")));
    let button = button.on_hover_text(format!("one of {count} processes of the recorded program"));
    egui::Popup::menu(&button).width(420.0).show(|ui| {
        for (file, process, is_open) in all.all() {
            let launches = text::count_noun(process.launches, "launch", "launches");
            let end = if process.complete { "" } else { " · killed" };
            let line = format!(
                "{}  {}",
                process.process,
                text::truncate_middle(&process.command.join(" "), 44)
            );
            let work = RichText::new(format!("{launches}{end}")).color(palette(ui).quiet);
            let entry = egui::Button::selectable(is_open, line).shortcut_text(work);
            if ui.add(entry).clicked() && !is_open {
                actions.push(UiAction::Open(file));
            }
        }
    });
}

fn draw_target(app: &mut App, ui: &mut Ui) {
    let p = palette(ui);
    let Some(doc) = &mut app.doc else {
        if ui.button("Open file…").clicked() {
            app.actions.run_command("open");
        }
        return;
    };
    if doc.is_empty() {
        return;
    }
    let running = doc.replay.running.is_some();
    let words = format!("{} Replay", icons::PLAY);
    let obstacle = doc.replay.obstacle();
    let button = widgets::primary_button(ui, &words, "Replay", !running && obstacle.is_none());
    let button = match &obstacle {
        Some(why) => button.on_disabled_hover_text(why),
        None => button,
    };
    if button
        .on_hover_text(app.actions.tooltip("replay", "Run the replay"))
        .clicked()
    {
        app.actions.run_command("replay");
    }
    if is_wasm_run(&doc.recording) {
        draw_run_targets(doc, &mut app.actions, ui);
        return;
    }
    draw_badge(doc, ui);
    let name = doc.replay.target().to_owned();
    let unfit = doc.replay.fit(&name) == Fit::Unfit;
    let (mark, colour) = match (&doc.replay.unresponsive_target, doc.replay.is_hardware()) {
        _ if unfit => ("▲", p.error),
        _ if doc.replay.lacks(&name).is_some() => ("!", p.warning),
        (Some(s), _) if *s == name => ("●", p.error),
        (_, true) => ("●", p.warning),
        (_, false) => ("●", p.job),
    };
    let size = if mark == "●" { 9.0 } else { 11.0 };
    let dot = RichText::new(mark).size(size).color(colour);
    let shown = match (doc.replay.has_no_target(), doc.replay.lacks(&name)) {
        (true, _) => "no target fits".to_owned(),
        (false, Some(lacks)) if name.starts_with("cuda:") => format!("{name} · {lacks}"),
        _ => text::truncate_middle(&name, 24),
    };
    let label = RichText::new(format!("{shown} {}", icons::CARET_DOWN)).color(p.text);
    let button = ui.button((dot, label));
    button.widget_info(|| WidgetInfo::labeled(Role::Button, true, format!("Target {name}")));
    let button = match &obstacle {
        Some(why) => button.on_hover_text(why),
        None => button,
    };
    egui::Popup::menu(&button).width(330.0).show(|ui| {
        let mut last = None;
        for t in doc.replay.targets() {
            let fits = t.fit != Fit::Unfit;
            if last.is_some_and(|before| before != fits) {
                ui.separator();
                ui.label(RichText::new("other devices").font(small()).color(p.quiet));
            }
            last = Some(fits);
            let state = if t.free { String::new() } else { t.state.clone() };
            let messages: Vec<&str> = [t.device.as_str(), &state]
                .into_iter()
                .filter(|t| !t.is_empty())
                .collect();
            let ink = if fits && t.free { p.text } else { p.quiet };
            let button = egui::Button::selectable(t.name == name, RichText::new(&t.name).color(ink));
            let rich_text = RichText::new(messages.join(" · ")).color(p.quiet);
            if ui.add(button.shortcut_text(rich_text)).clicked() {
                doc.replay.choose(&t.name);
            }
        }
        ui.separator();
        for id in ["find-boards", "show-replay"] {
            app.actions.menu_item(ui, id);
        }
    });
}

/// Draws the target of a WebAssembly run, and a menu of the commands that replay it.
fn draw_run_targets(doc: &Document, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let target = doc
        .derived
        .run_copies()
        .map(|copies| copies.run().target().name.as_str());
    let shown = match target.unwrap_or_default() {
        "" => "targets".to_owned(),
        name => format!("ran on {}", text::truncate_middle(name, 24)),
    };
    let label = RichText::new(format!("{shown} {}", icons::CARET_DOWN)).color(p.text);
    let button = ui.button(label);
    button.widget_info(|| WidgetInfo::labeled(Role::Button, true, &shown));
    egui::Popup::menu(&button).width(360.0).show(|ui| {
        ui.label(
            RichText::new("copy the command that replays the run on")
                .font(small())
                .color(p.quiet),
        );
        for command in replay_commands(&doc.replay, &doc.path) {
            let about = match command.missing {
                Some(missing) => RichText::new(format!("! {missing}")).color(p.warning),
                None => RichText::new(command.description).color(p.quiet),
            };
            let entry = egui::Button::new(&command.target).shortcut_text(about);
            if ui.add(entry).on_hover_text(&command.command).clicked() {
                ui.ctx().copy_text(command.command);
            }
        }
        ui.separator();
        actions.menu_item(ui, "show-replay");
    });
}

/// Draws the safety of a replay: what contains the target, and whether the plan was proved.
fn draw_badge(doc: &Document, ui: &mut Ui) {
    let p = palette(ui);
    // Without a fitting target, nothing runs, and nothing while the recording grows.
    if doc.replay.has_no_target() || doc.is_growing() {
        return;
    }
    let by = |c: Containment| match c {
        Containment::Software => ("software", p.quiet),
        Containment::Iommu => ("IOMMU", p.quiet),
        Containment::PageTables => ("page tables", p.quiet),
        Containment::Driver => ("driver", p.quiet),
        Containment::None => ("! not contained", p.warning),
    };
    let is_silent = doc.replay.unresponsive_target.as_deref() == Some(doc.replay.target());
    let (words, colour) = match doc.safety() {
        // Proofs made with the target are valid again once it responds.
        _ if is_silent => ("! does not answer".to_owned(), p.error),
        Safety::Unqueried => ("! plan not made".to_owned(), p.warning),
        Safety::Contained(c) => (by(c).0.to_owned(), by(c).1),
        Safety::Proved(Containment::None) | Safety::Bounded(Containment::None, _) => {
            ("! not contained".to_owned(), p.warning)
        }
        // The driver contains what kernels do, whatever is known about the plan.
        Safety::Bounded(c @ Containment::Driver, _) => (by(c).0.to_owned(), by(c).1),
        Safety::Proved(_) => (format!("{} proved", icons::CHECK_CIRCLE), p.job),
        Safety::Bounded(..) => ("! not fully verified".to_owned(), p.warning),
        Safety::Refused => ("▲ refused".to_owned(), p.error),
    };
    let button = egui::Button::new(RichText::new(&words).color(colour))
        .fill(p.panel)
        .sense(Sense::hover());
    let r = ui.add(button);
    r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("Safety: {words}")));
    r.on_hover_text(doc.describe_safety());
}

fn draw_menu(app: &mut App, ui: &mut Ui) {
    let r = widgets::icon_button(ui, icons::LIST, "Menu");
    let mut run = None;
    egui::Popup::menu(&r).width(230.0).show(|ui| {
        for menu in Menu::ALL {
            ui.menu_button(menu.title(), |ui| {
                ui.set_min_width(250.0);
                let quiet = palette(ui).quiet;
                for c in app.commands.iter().filter(|c| c.menu == menu) {
                    let b = egui::Button::new(c.title).shortcut_text(RichText::new(app.keys.text(c.id)).color(quiet));
                    if ui.add_enabled((c.enabled)(app), b).clicked() {
                        run = Some(c.id);
                        ui.close();
                    }
                }
                if menu == Menu::File {
                    draw_recent(app, ui);
                }
            });
        }
    });
    if let Some(id) = run {
        app.actions.run_command(id);
    }
}

fn draw_recent(app: &mut App, ui: &mut Ui) {
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
            .button(text::truncate_middle(&name, 36))
            .on_hover_text(r.display().to_string())
            .clicked()
        {
            app.actions.push(UiAction::Open(r));
            ui.close();
        }
    }
}
