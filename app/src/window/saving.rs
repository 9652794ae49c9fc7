//! Copies of the open recording as a file, with its edits or as recorded.

use super::app::App;
use super::pick::Pick;
use crate::log::{self, Level};
use egui::Context;
use kinescope_files::output;
use kinescope_session::plans::apply;
use kinescope_session::replay::task::build_edits;
use kinescope_session::text;
use std::path::Path;
use std::sync::Arc;
use trace_core::progress::Progress;
use trace_core::{Recording, timeline};

impl App {
    /// Asks for a path and saves the open recording there. With `edited`, its inputs contain the user's edits.
    pub fn save_copy(&mut self, ctx: &Context, edited: bool) {
        let Some(doc) = &self.doc else { return };
        let recording = Arc::clone(&doc.recording);
        let edits = if edited { doc.edited_buffers() } else { Vec::new() };
        let source = doc.title.clone();
        let offered = name(&source, edited);
        self.pick(ctx, Pick::Save(offered), move |app, ctx, path| {
            let file = path
                .file_name()
                .unwrap_or(path.as_os_str())
                .to_string_lossy()
                .into_owned();
            let title = format!("saving {}", path.display());
            app.tasks.spawn(ctx, title, move |progress| {
                let count = edits.len() as u64;
                let done = if edits.is_empty() {
                    write(&recording, &path, progress)
                } else {
                    apply(&recording, &build_edits(&edits), &source, progress)
                        .map_err(|e| e.to_string())
                        .and_then(|edited| write(&edited, &path, progress))
                };
                Box::new(move |app| match done {
                    Ok(()) => {
                        let message = match count {
                            0 => format!("Saved {file}, as recorded"),
                            n => format!("Saved {file}, with {}", text::count_noun(n, "edit", "edits")),
                        };
                        log::push(Level::Info, format!("{message}: {}", path.display()));
                        app.saved = Some((message, path));
                    }
                    Err(e) => app.error("the recording was not saved", &e),
                })
            });
        });
    }
}

/// Returns the suggested file name, which is never that of the recording itself.
fn name(title: &str, edited: bool) -> String {
    match (title.strip_suffix(".kine"), edited) {
        (Some(stem), true) => format!("{stem}-edited.kine"),
        (Some(stem), false) => format!("{stem}-copy.kine"),
        (None, true) => format!("{title}-edited.kine"),
        // An imported recording has no `.kine` file yet.
        (None, false) => format!("{title}.kine"),
    }
}

fn write(recording: &Recording, path: &Path, progress: &Progress) -> Result<(), String> {
    let at = output::check_writable_whole(path).map_err(|e| e.to_string())?;
    timeline::write(recording, &at, progress).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggested_name_is_never_the_recordings_name() {
        assert_eq!(name("digits.kine", true), "digits-edited.kine");
        assert_eq!(name("digits.kine", false), "digits-copy.kine");
        assert_eq!(name("log.txt.gz", false), "log.txt.gz.kine");
        assert_eq!(name("folder", true), "folder-edited.kine");
    }
}
