//! Export of tables of a recording to files for other programs.

use super::doc;
use crate::window::{App, Pick, layout};
use egui::Context;
use kinescope_files::output::{self, OutputError};
use kinescope_session::text;
use std::path::Path;
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::recording::Recording;
use trace_core::registers::RegisterMap;
use trace_core::timeline;
use trace_query::{ExportSummary, Format, Table};

/// The reason why nothing was exported, as text.
struct ExportError(String);

impl From<OutputError> for ExportError {
    fn from(e: OutputError) -> Self {
        Self(e.to_string())
    }
}

/// Returns the table of the panel in front, or the events.
fn panel_table(app: &App) -> Table {
    let of = |panel: &str| match panel {
        "jobs" => Some(Table::Jobs),
        "register" => Some(Table::Registers),
        "memory" => Some(Table::Pages),
        "page-tables" => Some(Table::Mappings),
        "shader" => Some(Table::Shaders),
        "inputs" => Some(Table::Buffers),
        _ => None,
    };
    layout::active_panels(&app.dock)
        .into_iter()
        .find_map(of)
        .unwrap_or(Table::Events)
}

fn save_picture(app: &mut App, ctx: &Context, panel: &'static str) {
    let Some(d) = doc(app) else { return };
    let title = d.title.strip_suffix(".kine").unwrap_or(&d.title);
    let name = format!("{title}-{panel}.png");
    app.pick(ctx, Pick::Save(name), move |app, ctx, path| {
        app.request_picture(ctx, panel, path)
    });
}

/// Asks for a path and writes a picture of the panel in front in its current state. The file name selects the format.
pub fn picture_of_panel(app: &mut App, ctx: &Context) {
    if let Some(panel) = super::view::find_floatable_panel(app) {
        save_picture(app, ctx, panel);
    }
}

/// Asks for a path and writes a picture of the timeline, like [`picture_of_panel`].
pub fn picture_of_timeline(app: &mut App, ctx: &Context) {
    save_picture(app, ctx, "timeline");
}

/// Asks for a path and writes the table of the panel in front. The file name selects the format.
pub fn table_of_panel(app: &mut App, ctx: &Context) {
    let table = panel_table(app);
    let Some(d) = doc(app) else { return };
    let recording = Arc::clone(&d.recording);
    let title = d.title.strip_suffix(".kine").unwrap_or(&d.title);
    let name = format!("{title}-{}.parquet", table.name());
    app.pick(ctx, Pick::Save(name), move |app, ctx, path| {
        let title = format!("exporting {} to {}", table.name(), path.display());
        app.tasks.spawn(ctx, title, move |progress| {
            let done = export(table, &recording, &path, progress);
            Box::new(move |app| match done {
                Ok(exported) => {
                    for problem in &exported.problems {
                        app.info(format!("{problem}; the table lacks the rows of that part"));
                    }
                    let rows = text::count_noun(exported.rows, "row", "rows");
                    app.info(format!("exported {}: {}, {rows}", path.display(), table.name()));
                }
                Err(ExportError(why)) => app.error("the table was not exported", &why),
            })
        });
    });
}

fn export(table: Table, recording: &Recording, path: &Path, progress: &Progress) -> Result<ExportSummary, ExportError> {
    let describe = |e: &dyn std::error::Error| ExportError(e.to_string());
    let format = Format::from_path(path).ok_or_else(|| {
        let name = path.display();
        ExportError(format!(
            "{name}: the name does not say the format (expected .parquet, .arrow or .csv)"
        ))
    })?;
    let timeline = match (table, RegisterMap::for_jobs_of(recording)) {
        (Table::Jobs | Table::Shaders, Some(map)) => {
            timeline::derive(recording, map, progress).map_err(|e| describe(&e))?
        }
        _ => timeline::Timeline::default(),
    };
    let mut exported = ExportSummary::default();
    output::write_with(path, |file| {
        exported =
            trace_query::export(table, recording, &timeline, format, file, progress).map_err(|e| describe(&e))?;
        // The parts of the recording that the table uses were checked against their digests by now.
        match recording.damage.first() {
            Some(block) => Err(ExportError(format!("the recording is damaged: {block}"))),
            None => Ok(()),
        }
    })
    .map(|()| exported)
}
