//! The form of the Tune panel: the launch, the tried values, the search, the target, and the run button.

use super::view::View;
use crate::panels::common::actions::{UiAction, UiActions};
use crate::panels::common::memory_trace_buttons;
use crate::theme::widgets::{self, StyledText};
use crate::theme::{ROW, body, field as fields, mono, palette, small};
use egui::accesskit::Role;
use egui::{Align2, RichText, Sense, Ui, WidgetInfo, vec2};
use kinescope_session::cuda_target::is_cuda;
use kinescope_session::tuning::form::{FACTORS, Field, ParsedForm, SearchKind};
use kinescope_session::tuning::launches::Launches;
use kinescope_session::{Document, text};
use replay_engine::tune::{Cache, ReplacementKind, format_dimensions};
use std::sync::Arc;

/// Height of the strip with the button, points.
pub(super) const FOOT: f32 = 68.0;
/// Left edge of the fields, right of their names, points.
const NAME: f32 = 72.0;
/// Maximum time limit of one launch, milliseconds.
const MAX_LAUNCH_LIMIT_MS: u32 = 3_600_000;
/// Maximum time limit of a tuning, seconds.
const MAX_TIME_LIMIT_S: u32 = 1_000_000;
/// The target if none was chosen.
pub(super) const DEFAULT_TARGET: &str = "cuda:0";

/// Draws the fields.
pub(super) fn draw(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let Some(launches) = view.launches().cloned() else {
        return;
    };
    let Some(launch) = view.current_launch(doc.current_event()) else {
        return;
    };
    view.fill(&launch);
    launch_of(doc, view, &launches, ui);
    let asked = view.parse_form(&doc.recording, &launch);
    widgets::section(ui, "Try");
    field(view, &asked, Field::Block(0), ui);
    field(view, &asked, Field::Grid(0), ui);
    let has_more = [1, 2]
        .iter()
        .any(|d| !view.form.block[*d].is_empty() || !view.form.grid[*d].is_empty());
    let word = if view.more {
        "Fewer dimensions"
    } else {
        "More dimensions"
    };
    if view.more || has_more {
        for d in [1, 2] {
            field(view, &asked, Field::Block(d), ui);
            field(view, &asked, Field::Grid(d), ui);
        }
    }
    ui.horizontal(|ui| {
        ui.add_space(NAME);
        let r = ui.checkbox(&mut view.form.cover, RichText::new("grid follows block").font(small()));
        r.on_hover_text("if the grid has no values: the fewest blocks that hold all recorded threads");
    });
    if !has_more {
        ui.horizontal(|ui| {
            ui.add_space(NAME);
            if ui.link(RichText::new(word).font(small())).clicked() {
                view.more = !view.more;
            }
        });
    }
    for f in [Field::Registers, Field::Bounds, Field::Shared] {
        field(view, &asked, f, ui);
    }
    caches(view, ui);
    code(view, actions, ui);
    widgets::section(ui, "Outputs");
    field(view, &asked, Field::Tolerance, ui);
    widgets::section(ui, "Search");
    search(view, &asked, ui);
    widgets::section(ui, "Target");
    target_field(doc, view, ui);
}

/// Draws the launch, and the buttons to others.
fn launch_of(doc: &mut Document, view: &mut View, launches: &Arc<Launches>, ui: &mut Ui) {
    let Some(launch) = view.current_launch(doc.current_event()) else {
        return;
    };
    let p = palette(ui);
    widgets::section(ui, "Launch");
    let name = launches.function(&launch).to_owned();
    let (rect, r) = ui.allocate_exact_size(vec2(ui.available_width(), ROW), Sense::hover());
    r.widget_info(|| WidgetInfo::labeled(Role::Label, true, format!("launch of {name}")));
    if widgets::paint_middle(ui, rect, Align2::LEFT_CENTER, &name, mono(), p.job) {
        r.on_hover_text(&name);
    }
    let message = format!(
        "{} × {}",
        format_dimensions(launch.row.grid),
        format_dimensions(launch.row.block)
    );
    widgets::key_value(ui, "grid × block", StyledText::mono(message));
    if widgets::key_link(ui, "event", &text::count(launch.event)).clicked() {
        doc.go(launch.event);
    }
    ui.horizontal(|ui| {
        let at = launches.list.partition_point(|l| l.event < launch.event);
        let same = |l: &&kinescope_session::tuning::launches::Launch| l.row.function == launch.row.function;
        let before = launches.list.get(..at).unwrap_or_default();
        let behind = launches.list.get(at + 1..).unwrap_or_default();
        // Searched only on request: there may be many.
        for (word, label, back) in [
            ("◂", "Previous launch of the kernel", true),
            ("▸", "Next launch of the kernel", false),
        ] {
            let r = ui.button(word);
            r.widget_info(|| WidgetInfo::labeled(Role::Button, true, label));
            if r.on_hover_text(label).clicked() {
                let found = match back {
                    true => before.iter().rev().find(same),
                    false => behind.iter().find(same),
                };
                view.chosen = found.map(|l| l.event).or(view.chosen);
            }
        }
        let mut pinned = view.chosen.is_some();
        let r = ui.checkbox(&mut pinned, RichText::new("keep this launch").font(small()));
        let r = r.on_hover_text("otherwise the last launch up to the current event is tuned");
        if r.changed() {
            view.chosen = pinned.then_some(launch.event);
        }
    });
}

/// Draws a field with its name, and its error below.
fn field(view: &mut View, asked: &ParsedForm, field: Field, ui: &mut Ui) {
    let p = palette(ui);
    let wrong = asked
        .field_errors
        .iter()
        .find(|(f, _)| *f == field)
        .map(|(_, why)| why.as_str());
    ui.horizontal(|ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(NAME - 8.0, 22.0), Sense::hover());
        widgets::paint_text(ui, rect, Align2::LEFT_CENTER, field.name(), body(), p.quiet);
        let hint = match field {
            Field::Block(_) | Field::Shared => "as recorded",
            Field::Grid(_) if view.form.cover => "follows the block",
            Field::Grid(_) => "as recorded",
            Field::Registers | Field::Bounds => "as the code has them",
            Field::Tolerance => "bit for bit",
            Field::Points => "all",
        };
        let text = view.form.text(field);
        fields::checked_text(ui, field.name(), text, (hint, field.hint()), wrong.is_some());
    });
    fields::error_line(ui, wrong);
}

fn caches(view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(NAME - 8.0, 22.0), Sense::hover());
        widgets::paint_text(ui, rect, Align2::LEFT_CENTER, "cache", body(), p.quiet);
        ui.spacing_mut().item_spacing.x = 4.0;
        for (cache, wanted) in Cache::ALL.into_iter().zip(&mut view.form.cache) {
            let r = ui.selectable_label(*wanted, RichText::new(cache.name()).font(small()));
            let on = *wanted;
            r.widget_info(|| WidgetInfo::selected(Role::Button, true, on, format!("cache {}", cache.name())));
            let message = "how a multiprocessor divides its memory between cache and shared memory; with none \
                           chosen, the code's own division";
            if r.on_hover_text(message).clicked() {
                *wanted = !*wanted;
            }
        }
    });
}

/// Draws the fields for code that replaces the recorded code.
fn code(view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let mut gone = None;
    for (n, module) in view.form.modules.iter_mut().enumerate() {
        ui.horizontal(|ui| {
            let (rect, _) = ui.allocate_exact_size(vec2(NAME - 8.0, 22.0), Sense::hover());
            widgets::paint_text(ui, rect, Align2::LEFT_CENTER, "code", body(), p.quiet);
            let message = format!("{} · {}", module.name, module.kind.name());
            ui.add(egui::Label::new(RichText::new(message).font(small()).color(p.edited)).truncate());
            if widgets::icon_button(ui, crate::theme::icons::X, &format!("Remove {}", module.name)).clicked() {
                gone = Some(n);
            }
        });
        let summary = "the name of the function: mangled, or for CUDA C++ an expression like scale<float, 4>";
        code_field(
            ui,
            &module.name,
            ("function", "named as the recorded one", summary),
            &mut module.function,
        );
        if module.kind == ReplacementKind::Source {
            if module.options.is_empty() {
                module.options.push(String::new());
            }
            let summary = "options of the CUDA C++ compiler, separated by spaces, for example --use_fast_math";
            for text in module.options.iter_mut().take(1) {
                code_field(ui, &module.name, ("options", "none", summary), text);
            }
        }
    }
    if let Some(n) = gone {
        view.form.modules.remove(n);
    }
    ui.horizontal(|ui| {
        ui.add_space(NAME);
        let r = ui.link(RichText::new("Other code…").font(small()));
        if r.on_hover_text("PTX, a cubin or CUDA C++ instead of the recorded code")
            .clicked()
        {
            actions.push(UiAction::TuneCode);
        }
    });
}

/// Draws a field of code to try: its purpose, its meaning if it is empty, and its possible values.
fn code_field(ui: &mut Ui, code: &str, (what, empty, message): (&str, &str, &str), text: &mut String) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(NAME - 8.0, 22.0), Sense::hover());
        widgets::paint_text(ui, rect, Align2::RIGHT_CENTER, what, small(), p.quiet);
        fields::checked_text(ui, &format!("{what} of {code}"), text, (empty, message), false);
    });
}

fn search(view: &mut View, asked: &ParsedForm, ui: &mut Ui) {
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        for kind in SearchKind::ALL {
            let r = ui.selectable_label(view.form.kind == kind, RichText::new(kind.name()).font(body()));
            let on = view.form.kind == kind;
            r.widget_info(|| WidgetInfo::selected(Role::Button, true, on, format!("search {}", kind.name())));
            if r.on_hover_text(kind.describe()).clicked() {
                view.form.kind = kind;
            }
        }
    });
    if view.form.kind != SearchKind::Grid {
        field(view, asked, Field::Points, ui);
        sampling(view, ui);
    }
    let p = palette(ui);
    ui.horizontal(|ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(NAME - 8.0, 22.0), Sense::hover());
        widgets::paint_text(ui, rect, Align2::LEFT_CENTER, "repeats", body(), p.quiet);
        ui.add(egui::DragValue::new(&mut view.form.repeats).range(1..=10_000))
            .accessible_name("repeats")
            .on_hover_text("timed launches of each point; their median counts");
        ui.label(RichText::new("after warm-ups").font(small()).color(p.quiet));
        ui.add(egui::DragValue::new(&mut view.form.warm_ups).range(0..=1000))
            .accessible_name("warm-ups")
            .on_hover_text("untimed launches of each point before the timed ones");
    });
    limits(view, ui);
}

/// Draws the time limits of a launch and of the whole tuning.
fn limits(view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    let row = |ui: &mut Ui, name: &str, value: egui::DragValue<'_>, of: &str, label: &str, hover: &str| {
        ui.horizontal(|ui| {
            let (rect, _) = ui.allocate_exact_size(vec2(NAME - 8.0, 22.0), Sense::hover());
            widgets::paint_text(ui, rect, Align2::LEFT_CENTER, name, body(), p.quiet);
            ui.add(value).accessible_name(label).on_hover_text(hover);
            ui.label(RichText::new(of).font(small()).color(p.quiet));
        });
    };
    let launch = egui::DragValue::new(&mut view.form.launch_limit_ms).range(1..=MAX_LAUNCH_LIMIT_MS);
    let hover = "A point whose launch takes longer is dropped.";
    row(
        ui,
        "limits",
        launch.suffix(" ms"),
        "for a launch",
        "time limit of a launch",
        hover,
    );
    let total = egui::DragValue::new(&mut view.form.time_limit_s).range(1..=MAX_TIME_LIMIT_S);
    let hover = "The tuning stops then and keeps the points that it measured.";
    row(
        ui,
        "",
        total.suffix(" s"),
        "for the tuning",
        "time limit of the tuning",
        hover,
    );
}

/// Draws the numbers of a search that does not measure every point: the seed, and how many points halving keeps.
fn sampling(view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    ui.horizontal(|ui| {
        let (rect, _) = ui.allocate_exact_size(vec2(NAME - 8.0, 22.0), Sense::hover());
        widgets::paint_text(ui, rect, Align2::LEFT_CENTER, "seed", body(), p.quiet);
        ui.add(egui::DragValue::new(&mut view.form.seed))
            .accessible_name("seed")
            .on_hover_text("The same seed chooses the same points.");
        if view.form.kind == SearchKind::Halving {
            ui.label(RichText::new("keep 1 point in").font(small()).color(p.quiet));
            ui.add(egui::DragValue::new(&mut view.form.factor).range(FACTORS))
                .accessible_name("halving factor")
                .on_hover_text("Each round keeps the fastest of this many points.");
        }
    });
}

fn target_field(doc: &Document, view: &mut View, ui: &mut Ui) {
    let p = palette(ui);
    if view.target.is_empty() {
        let chosen = doc.replay.target();
        view.target = if is_cuda(chosen) { chosen } else { DEFAULT_TARGET }.to_owned();
    }
    ui.horizontal(|ui| {
        let known: Vec<&str> = doc
            .replay
            .known_targets
            .iter()
            .flatten()
            .map(|b| b.name.as_str())
            .filter(|n| is_cuda(n))
            .collect();
        let room = if known.is_empty() { 0.0 } else { 28.0 };
        ui.add(
            egui::TextEdit::singleline(&mut view.target)
                .font(mono())
                .desired_width(ui.available_width() - room),
        )
        .accessible_name("target")
        .on_hover_text("cuda:N for a device of this machine, agent:NAME/cudaN for one of a paired agent");
        if !known.is_empty() {
            ui.menu_button("▾", |ui| {
                for name in known {
                    if ui.button(RichText::new(name).font(mono())).clicked() {
                        name.clone_into(&mut view.target);
                        ui.close();
                    }
                }
            });
        }
    });
    if !is_cuda(view.target.trim()) {
        let words = "▲ this target has no CUDA device";
        ui.label(RichText::new(words).font(small()).color(p.error));
    }
}

/// Draws the button, and what it will do; during a run, its progress and a button to stop it.
pub(super) fn run(doc: &mut Document, view: &mut View, actions: &mut UiActions, ui: &mut Ui) {
    let p = palette(ui);
    let Some(launch) = view.current_launch(doc.current_event()) else {
        return;
    };
    if let Some(running) = doc.tuning.running() {
        let part = running.progress.fraction();
        let message = match part {
            Some(f) => format!("{:.0} % on {}", f * 100.0, running.target),
            None => format!("preparing on {}", running.target),
        };
        ui.add(
            egui::ProgressBar::new(part.unwrap_or(0.0))
                .desired_height(8.0)
                .fill(p.job),
        );
        ui.horizontal(|ui| {
            let stop = ui.button("Stop");
            if stop
                .on_hover_text("keeps the points that are measured so far")
                .clicked()
            {
                running.progress.cancel();
            }
            let passed = format!("{message} · {} s", running.since.elapsed().as_secs());
            ui.add(egui::Label::new(RichText::new(passed).font(small()).color(p.quiet)).truncate());
        });
        return;
    }
    let asked = view.parse_form(&doc.recording, &launch);
    let target = view.target.trim().to_owned();
    let lacks = doc
        .replay
        .lacks(&target)
        .map(|why| memory_trace_buttons::describe_missing_capability(&target, why));
    let can = asked.tune.is_some() && is_cuda(&target) && lacks.is_none();
    let name = format!("Tune on {target}");
    let hit = ui
        .horizontal(|ui| widgets::primary_button(ui, &name, "Run the tuning", can).clicked())
        .inner;
    if let Some(why) = &lacks {
        ui.add(egui::Label::new(RichText::new(format!("! {why}")).font(small()).color(p.warning)).wrap());
    }
    let launches = asked
        .points
        .saturating_mul(u64::from(view.form.repeats.max(1)) + u64::from(view.form.warm_ups));
    let (words, ink) = match &asked.error {
        Some(why) => (format!("▲ {why}"), p.error),
        None if !asked.field_errors.is_empty() => ("▲ a field is invalid".to_owned(), p.error),
        None => {
            let points = text::count_noun(asked.points, "point", "points");
            let max = match view.form.kind {
                SearchKind::Halving => "at most ",
                SearchKind::Grid | SearchKind::Random => "",
            };
            (format!("{points}, {max}{} launches", text::count(launches)), p.quiet)
        }
    };
    ui.add(egui::Label::new(RichText::new(&words).font(small()).color(ink)).truncate())
        .on_hover_text(&words);
    if let Some(tune) = asked.tune.clone().filter(|_| hit) {
        actions.push(UiAction::Tune {
            target,
            tune: Box::new(tune),
        });
    }
}
