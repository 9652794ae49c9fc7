//! Requests of the Tune panel: tuning in the background, trial of code, and saved tables.

use super::app::App;
use super::pick::Pick;
use crate::log::{self, Level};
use egui::Context;
use kinescope_session::replay::task::build_edits;
use kinescope_session::running_work::RunningWork;
use kinescope_session::text;
use kinescope_session::tuning::table::{self, Columns};
use kinescope_session::tuning::{code as codes, tune_on_target};
use replay_engine::tune::{TuneReport, TuneRequest};
use std::sync::Arc;
use trace_query::Format;

/// Tunes a launch of the open recording on a target.
pub(super) fn run(app: &mut App, ctx: &Context, target: String, tune: TuneRequest) {
    let Some(doc) = &app.doc else { return };
    let alive = RunningWork::new_token();
    let edited = doc.edited_buffers();
    let (known, of, to, held) = (
        app.targets.clone(),
        Arc::clone(&doc.recording),
        target.clone(),
        Arc::clone(&alive),
    );
    let progress = app.tasks.spawn(ctx, format!("tuning on {target}"), move |progress| {
        let edits = build_edits(&edited);
        let tuned = tune_on_target(&known, &to, (&of, &edits), &tune, progress).map_err(|e| e.to_string());
        Box::new(move |app: &mut App| {
            if let Err(why) = &tuned {
                log::push(Level::Info, format!("not tuned: {why}"));
            }
            if let Some(doc) = app.doc.as_mut().filter(|d| Arc::ptr_eq(&d.recording, &of)) {
                doc.tuning.end(&to, tuned);
            }
            drop(held);
        })
    });
    if let Some(doc) = &mut app.doc {
        doc.tuning.begin(RunningWork::new(&target, progress, &alive));
    }
}

/// Asks for a code file and requests a trial of the code.
pub(super) fn load_code(app: &mut App, ctx: &Context) {
    app.pick(ctx, Pick::Code, |app, ctx, path| {
        app.tasks.spawn(ctx, format!("reading {}", path.display()), move |_| {
            let read = codes::read(&path);
            Box::new(move |app| match read {
                Ok(code) => app.views.tune.form.modules.push(code),
                Err(e) => app.error("the code was not loaded", &e.to_string()),
            })
        });
    });
}

/// Asks for a path and saves the result of a tuning there.
pub(super) fn save(app: &mut App, ctx: &Context, tuned: Arc<TuneReport>, columns: Columns, format: Format) {
    let Some(doc) = &app.doc else { return };
    let title = doc.title.strip_suffix(".kine").unwrap_or(&doc.title);
    let ending = match format {
        Format::Parquet => "parquet",
        Format::Ipc => "arrow",
        Format::Csv => "csv",
    };
    let name = format!("{title}-tuned.{ending}");
    app.pick(ctx, Pick::Save(name), move |app, ctx, path| {
        app.tasks.spawn(ctx, format!("saving {}", path.display()), move |_| {
            let written = table::write_file(&tuned, columns, format, &path);
            Box::new(move |app| match written {
                Ok(rows) => app.info(format!(
                    "saved {}: {}",
                    path.display(),
                    text::count_noun(rows, "row", "rows")
                )),
                Err(e) => app.error("the table was not saved", &e.to_string()),
            })
        });
    });
}
