//! One frame of the window: collects finished tasks, reads keys, draws everything and runs the requested actions.

use super::app::App;
use super::requests::LeaveAction;
use super::shortcut::key;
use super::tasks::{TaskCallback, TaskResult};
use super::{
    campaigns, contents, keys_sheet, memory_trace, naming, palette, path_prompt, pipelines, running, shell, trimming,
    tuning,
};
use crate::panels;
use crate::panels::common::actions::UiAction;
use crate::panels::views::PanelContext;
use crate::theme::field;
use egui::{Context, Key, Ui};
use kinescope_session::comparison::ComparisonSource;
use kinescope_session::text;
use trace_core::GpuVa;

impl App {
    /// Runs a command, or one of `filter=TEXT`, `go=N`, `job=N`, `memory=ADDRESS`, `with=OTHER`, `compare=SECTION`.
    ///
    /// # Errors
    /// When the command does not exist or cannot run now.
    pub fn script(&mut self, ctx: &Context, step: &str) -> anyhow::Result<()> {
        let done = match (step.split_once('='), self.panel_context()) {
            (Some(("filter", filter)), Some(context)) => {
                filter.clone_into(&mut context.views.events.filter);
                true
            }
            (Some(("compare", section)), Some(context)) => context.views.compare.select_section(section),
            (Some(("with", path)), Some(_)) => {
                self.compare(ctx, ComparisonSource::File(path.into()));
                true
            }
            (Some((what @ ("go" | "job" | "memory"), n)), Some(context)) => {
                let n = text::parse_number(n).ok_or_else(|| anyhow::anyhow!("{n:?} is not a number"))?;
                match what {
                    "go" => context.doc.go(n),
                    "job" => context.doc.go_job(u32::try_from(n)?),
                    _ => context.views.memory.show(context.doc, 0, GpuVa::new(n), 16),
                }
                true
            }
            _ => self.run(ctx, step),
        };
        anyhow::ensure!(done, "the command {step:?} does not exist or cannot run now");
        Ok(())
    }

    /// Draws a frame and runs the actions that it requested.
    pub fn ui(&mut self, ui: &mut Ui) {
        let ctx = ui.ctx().clone();
        for ended in self.tasks.take_finished() {
            match ended {
                TaskResult::Done(done) => done(self),
                TaskResult::Lost(what, why) => self.error(&what, &why),
            }
        }
        self.poll_program(&ctx);
        self.poll_following(&ctx);
        self.poll_journal_state(&ctx);
        self.note_window(&ctx);
        if ctx.input(|i| i.viewport().close_requested()) && self.check_leave(LeaveAction::Quit).is_none() {
            ctx.send_viewport_cmd(egui::ViewportCommand::CancelClose);
        }
        self.clear_finished_replay();
        self.take_dropped_files(&ctx);
        self.poll_user_maps(&ctx);
        handle_keys(self, &ctx);
        shell::draw(self, ui);
        self.make_picture(&ctx);
        palette::draw(self, ui);
        path_prompt::draw(self, &ctx);
        naming::draw(self, &ctx);
        trimming::sheet::draw(self, &ctx);
        running::sheet::draw(self, &ctx);
        running::output::draw(self, &ctx);
        for _ in 0..4 {
            let asked = self.actions.take_actions();
            if asked.is_empty() {
                break;
            }
            for action in asked {
                self.perform_action(&ctx, action);
            }
            ctx.request_repaint();
        }
        if !self.tasks.running().is_empty() {
            ctx.request_repaint_after(std::time::Duration::from_millis(100));
        }
        self.save_workspace(&ctx);
    }

    /// Sets the window title from the recording and stores the window position for the next start.
    fn note_window(&mut self, ctx: &Context) {
        let title = match &self.doc {
            Some(doc) => format!("{} - Kinescope", doc.title),
            None => "Kinescope".to_owned(),
        };
        if self.window_title != title {
            ctx.send_viewport_cmd(egui::ViewportCommand::Title(title.clone()));
            self.window_title = title;
        }
        let zoom = ctx.zoom_factor();
        let (inner, outer, maximized, minimized) = ctx.input(|i| {
            let v = i.viewport();
            (v.inner_rect, v.outer_rect, v.maximized, v.minimized)
        });
        let Some(inner) = inner.filter(|r| r.is_positive() && minimized != Some(true)) else {
            return;
        };
        let mut place = self.settings.window();
        place.maximized = maximized == Some(true);
        // A maximised window restores to the geometry that it had before.
        if !place.maximized {
            place.size = [inner.width(), inner.height()].map(|x| (x * zoom).round());
            place.at = outer.map(|r| [r.min.x, r.min.y].map(|x| (x * zoom).round()));
        }
        self.settings.window = Some(place);
    }

    /// Runs an action that a panel or another part of the window requested.
    fn perform_action(&mut self, ctx: &Context, action: UiAction) {
        match action {
            UiAction::Command(id) => {
                self.run(ctx, id);
            }
            UiAction::Open(path) => self.open(ctx, path),
            UiAction::Compare(with) => self.compare(ctx, with),
            UiAction::Work { title, progress, work } => self.tasks.spawn_with(ctx, title, progress, |progress| {
                let completion = work(progress);
                let callback: TaskCallback<Self> = Box::new(move |app| {
                    if let Some(PanelContext { doc, views, actions }) = app.panel_context() {
                        completion(doc, views, actions);
                    }
                });
                callback
            }),
            UiAction::Load { buffer, planes } => contents::load(self, ctx, buffer, planes),
            UiAction::Save(buffer, element) => contents::save(self, ctx, &buffer, element),
            UiAction::SaveOutput(output) => contents::save_output(self, ctx, &output),
            UiAction::Clear(buffer) => contents::clear(self, ctx, &buffer),
            UiAction::ChooseReplayFile(file) => self.choose_replay_file(ctx, file),
            UiAction::Tune { target, tune } => tuning::run(self, ctx, target, *tune),
            UiAction::TraceMemory { target, request } => memory_trace::run(self, ctx, &target, request),
            UiAction::MeasureLaunches(target) => memory_trace::measure(self, ctx, &target),
            UiAction::ChooseCampaign => campaigns::choose(self, ctx),
            UiAction::ChooseCampaignDescription => campaigns::choose_description(self, ctx),
            UiAction::ReadCampaign => campaigns::read_again(self, ctx),
            UiAction::RunCampaign(run) => campaigns::run(self, ctx, *run),
            UiAction::OpenAt(path, event) => campaigns::open_at(self, ctx, &path, event),
            UiAction::ChoosePipeline => pipelines::choose(self, ctx),
            UiAction::ChoosePipelineInput(name) => pipelines::choose_input(self, ctx, name),
            UiAction::RunPipeline(run) => pipelines::run(self, ctx, *run),
            UiAction::TuneCode => tuning::load_code(self, ctx),
            UiAction::SaveTuned { tuned, columns, format } => tuning::save(self, ctx, tuned, columns, format),
            UiAction::Panel(action) => {
                if let Some(mut context) = self.panel_context() {
                    panels::apply_action(&mut context, &action);
                }
            }
        }
    }
}

/// Returns whether the event presses Enter or Space with a modifier, which a button takes for a click.
fn is_button_shortcut(event: &egui::Event) -> bool {
    matches!(event, egui::Event::Key { key: Key::Enter | Key::Space, modifiers, .. }
        if modifiers.ctrl || modifiers.alt || modifiers.command)
}

/// Runs the commands whose shortcuts were pressed, in the order of the presses.
fn handle_keys(app: &mut App, ctx: &Context) {
    // The palette and the path prompt take every key.
    if app.palette.is_some() || app.path_prompt.is_some() {
        return;
    }
    if keys_sheet::capture_key(app, ctx) {
        return;
    }
    // Modal content takes the keys: a question blocks all shortcuts, a sheet blocks those without Ctrl or Alt except
    // the one that opened it.
    let asked = app.confirm.is_some() || app.question.is_some();
    let covered = app.help || app.about || app.keys_sheet.is_some() || app.program_sheet.is_some();
    let typing = ctx.text_edit_focused();
    let mut untouched = field::is_untouched(ctx);
    let (mut run, mut close, mut left) = (Vec::new(), false, false);
    let is_covered_by_sheet = app.name_sheet.is_some() || app.trim_sheet.is_some() || app.program_sheet.is_some();
    let tour = app.escape_leaves_tour() && !is_covered_by_sheet;
    ctx.input_mut(|i| {
        i.events.retain(|event| {
            if (asked || covered) && !close && key(Key::Escape).is_some_and(|s| s.matches_event(event)) {
                close = true;
                return false;
            }
            if !asked
                && !covered
                && !typing
                && !left
                && key(Key::Escape).is_some_and(|s| s.matches_event(event))
                && tour
            {
                left = true;
                return false;
            }
            // A shortcut that is still held must not press the button that the question focuses.
            if asked && is_button_shortcut(event) {
                return false;
            }
            let pressed = app.keys.find_pressed(event).and_then(|(at, s)| {
                let c = app.commands.get(at)?;
                let behind = !close && (asked || (covered && s.is_plain() && c.id != "help"));
                // In a text field, keys without Ctrl are letters, and undo applies to the text.
                let undoes = s.ctrl && matches!(s.key, Key::Z | Key::Y);
                let theirs = typing && (s.is_text_editing() || (undoes && !untouched));
                let answers = (c.enabled)(app) || app.refusal(c.id).is_some();
                (!behind && !theirs && answers).then_some(c)
            });
            untouched &= !field::is_text_edit(event);
            run.extend(pressed.map(|c| c.id));
            pressed.is_none()
        });
        // A command may focus a text field. The field must not receive the letter of the shortcut.
        if !typing && !run.is_empty() {
            i.events.retain(|event| !matches!(event, egui::Event::Text(_)));
        }
    });
    if close {
        app.close_sheet();
    }
    if left {
        app.end_tour();
    }
    for id in run {
        app.run_by_key(ctx, id);
    }
}
