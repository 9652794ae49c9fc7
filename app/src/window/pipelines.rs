//! Requests of the Pipeline panel: a file to open, and runs in the background.

use super::app::App;
use super::pick::Pick;
use crate::log::{self, Level};
use egui::Context;
use kinescope_pipeline::{
    OutputFolder, Pipeline, PipelineRun, RunError, RunReport, RunRequest, RunVerdict, StageWork, run as run_pipeline,
};
use kinescope_session::running_work::RunningWork;
use kinescope_session::targets::Targets;
use kinescope_session::text;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use trace_core::progress::Progress;

/// The panel that shows pipelines.
const PANEL: &str = "pipeline";

/// Asks for a pipeline file and opens it.
pub(super) fn choose(app: &mut App, ctx: &Context) {
    app.pick(ctx, Pick::Pipeline, open);
}

/// Opens and checks a pipeline file in the background.
fn open(app: &mut App, ctx: &Context, path: PathBuf) {
    app.tasks
        .spawn(ctx, format!("checking {}", path.display()), move |progress| {
            let opened = Pipeline::open(&path, progress).map(Arc::new);
            let cancelled = progress.check().is_err();
            Box::new(move |app| {
                if !cancelled {
                    app.views.pipeline.show(opened.map_err(|e| e.to_string()));
                }
            })
        });
}

/// Whether a path names a pipeline file.
pub(super) fn is_pipeline(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "kpipe")
}

/// Opens a pipeline file that the user opened like a recording. A window without a recording opens the first one of the
/// pipeline.
pub(super) fn open_with_recording(app: &mut App, ctx: &Context, path: PathBuf) {
    let title = path.display().to_string();
    let again = ctx.clone();
    app.tasks.spawn(ctx, format!("checking {title}"), move |progress| {
        let opened = Pipeline::open(&path, progress).map(Arc::new);
        let cancelled = progress.check().is_err();
        Box::new(move |app| {
            if cancelled {
                return;
            }
            let pipeline = match opened {
                Ok(pipeline) => pipeline,
                Err(e) => {
                    app.error(&format!("{title} was not opened"), &e.to_string());
                    return;
                }
            };
            let recording = first_recording(&pipeline);
            app.views.pipeline.show(Ok(pipeline));
            app.show_panel_of_file(&again, PANEL, &title, recording);
        })
    });
}

/// Returns the recording of the first stage that has one.
fn first_recording(pipeline: &Pipeline) -> Option<PathBuf> {
    let folder = pipeline.path.parent()?;
    let stages = pipeline
        .graph
        .order
        .iter()
        .filter_map(|n| pipeline.document.stages.get(*n));
    let mut recordings = stages.filter_map(|stage| match &stage.work {
        StageWork::Replay(replay) => Some(folder.join(&replay.recording)),
        StageWork::Module(_) => None,
    });
    recordings.next()
}

/// Asks for a file for an input of the pipeline.
pub(super) fn choose_input(app: &mut App, ctx: &Context, name: String) {
    app.pick(ctx, Pick::Buffer, move |app, _, path| {
        app.views.pipeline.inputs.insert(name, path);
    });
}

/// Runs a pipeline in the background. The panel shows its stages meanwhile.
pub(super) fn run(app: &mut App, ctx: &Context, request: PipelineRun) {
    if app.views.pipeline.running().is_some() {
        return;
    }
    let alive = RunningWork::new_token();
    let (targets, held, again) = (app.targets.clone(), Arc::clone(&alive), ctx.clone());
    let (own, title) = (request.clone(), format!("running {}", request.pipeline.path.display()));
    let progress = app.tasks.spawn(ctx, title, move |progress| {
        let ended = run_in_folder(&targets, &own, &again, progress);
        Box::new(move |app: &mut App| {
            drop(held);
            let (message, is_good) = match ended {
                Ok(report) => describe(&report),
                Err(why) => (why, false),
            };
            if !is_good {
                log::push(Level::Info, format!("pipeline: {message}"));
            }
            app.views.pipeline.finish(message, is_good);
        })
    });
    app.views
        .pipeline
        .begin(request, RunningWork::new("pipeline", progress, &alive));
}

/// Runs a pipeline, and writes its results.
fn run_in_folder(
    targets: &Targets,
    own: &PipelineRun,
    ctx: &Context,
    progress: &Progress,
) -> Result<RunReport, String> {
    let mut request = RunRequest::new(targets, own.on.clone());
    request.inputs.clone_from(&own.inputs);
    let inputs: Vec<PathBuf> = own.inputs.values().cloned().collect();
    kinescope_pipeline::assign(&own.pipeline, targets, &own.on).map_err(|e| e.to_string())?;
    let mut folder = OutputFolder::create(&own.folder, &own.pipeline, &inputs).map_err(|e| e.to_string())?;
    let mut observe = |event| {
        own.live.lock().unwrap_or_else(PoisonError::into_inner).apply(event);
        ctx.request_repaint();
    };
    let ended = run_pipeline(&own.pipeline, &request, &mut folder, &mut observe, progress);
    let format = |report: &RunReport| serde_json::to_vec_pretty(report).unwrap_or_default();
    let result = ended.map_err(|e| {
        let reason = match e {
            RunError::Cancelled => "stopped".to_owned(),
            e => e.to_string(),
        };
        match folder.write_early_end(format) {
            Ok(()) => reason,
            Err(e) => format!("{reason}; the report is not written: {e}"),
        }
    })?;
    folder.write(&own.pipeline, &result, format).map_err(|e| e.to_string())
}

/// Describes the end of a run in one line, and returns whether it is good.
fn describe(report: &RunReport) -> (String, bool) {
    let time = text::duration(report.wall_ns);
    match &report.failure {
        Some(failure) => (format!("{}: {failure}", report.verdict.name()), false),
        None => {
            let stages = text::count_noun(report.stages.len() as u64, "stage", "stages");
            let message = format!("{}: {stages} in {time}", report.verdict.name());
            (message, report.verdict == RunVerdict::Match)
        }
    }
}
