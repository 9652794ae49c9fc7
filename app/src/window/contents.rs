//! Import, export and zero fill of whole buffer contents. On the interface thread, only collecting the changed pages
//! takes time that depends on the buffer size.

use super::app::App;
use super::pick::Pick;
use egui::Context;
use kinescope_files::changes::Change;
use kinescope_files::{buffers, values};
use std::sync::Arc;
use trace_core::recording::{Buffer, ElementType};

/// Asks for a file and loads it into the buffer, as a picture plane by plane if `planes` is set.
pub(super) fn load(app: &mut App, ctx: &Context, buffer: Buffer, planes: bool) {
    app.pick(ctx, Pick::Buffer, move |app, ctx, path| {
        let (name, again) = (buffer.name.clone(), ctx.clone());
        let title = format!("loading {}", path.display());
        app.tasks.spawn(ctx, title, move |_| {
            let loaded = values::load(&path, &buffer, planes);
            Box::new(move |app| match loaded {
                Ok(bytes) => {
                    let file = path.file_name().map(|n| n.to_string_lossy().into_owned());
                    let title = format!("load {} into {name}", file.unwrap_or_default());
                    replace(app, &again, &name, title, bytes.into());
                }
                Err(e) => app.error("the file was not loaded", &e),
            })
        });
    });
}

/// Sets every byte of the buffer to zero.
pub(super) fn clear(app: &mut App, ctx: &Context, buffer: &str) {
    let Some(contents) = app.doc.as_ref().and_then(|d| d.contents(buffer)) else {
        return;
    };
    let (name, bytes, again) = (buffer.to_owned(), contents.buffer().bytes, ctx.clone());
    app.tasks.spawn(ctx, format!("clearing {name}"), move |_| {
        let zero: Arc<[u8]> = vec![0; usize::try_from(bytes).unwrap_or(0)].into();
        Box::new(move |app| {
            let title = format!("clear {name}");
            replace(app, &again, &name, title, zero);
        })
    });
}

/// Replaces the content of a buffer and stores only the difference. A background task computes the difference.
fn replace(app: &mut App, ctx: &Context, name: &str, title: String, new: Arc<[u8]>) {
    let Some(doc) = &app.doc else { return };
    let Some(contents) = doc.contents(name) else { return };
    let (name, stamp) = (name.to_owned(), doc.changes().stamp(name));
    let (path, again) = (doc.path.clone(), ctx.clone());
    app.tasks.spawn(ctx, format!("comparing with {name}"), move |progress| {
        let found = contents.differences(&new, progress);
        Box::new(move |app| {
            let Some(doc) = app.doc.as_mut().filter(|d| d.path == path) else {
                return;
            };
            let Ok(pieces) = found else {
                app.info(format!("{title} was stopped"));
                return;
            };
            if doc.changes().stamp(&name) != stamp {
                // The buffer was edited meanwhile: the difference must be computed again.
                replace(app, &again, &name, title, new);
            } else if pieces.is_empty() {
                app.info(format!("{title} changed nothing"));
            } else {
                let buffer = name.clone();
                let message = title.clone();
                if doc.change(Change::Bytes { buffer, title, pieces }) {
                    app.info(message);
                } else {
                    app.error("the buffer was not changed", &format!("{message}: it does not fit"));
                }
            }
        })
    });
}

/// Asks for a path and saves the buffer there with the user's edits.
pub(super) fn save(app: &mut App, ctx: &Context, buffer: &str, element: ElementType) {
    let contents = app.doc.as_ref().and_then(|d| d.contents(buffer));
    if let Some(contents) = contents {
        save_bytes(app, ctx, buffer, element, move || contents.read_all());
    }
}

/// Asks for a path and saves an output of the last replay there.
pub(super) fn save_output(app: &mut App, ctx: &Context, output: &str) {
    let outcome = app.doc.as_ref().and_then(|d| d.replay.outcome.clone());
    let found = outcome.and_then(|o| o.outputs.iter().find(|o| o.name == output).cloned());
    if let Some(found) = found {
        save_bytes(app, ctx, output, found.element, move || found.data);
    }
}

fn save_bytes(
    app: &mut App,
    ctx: &Context,
    buffer: &str,
    element: ElementType,
    read: impl FnOnce() -> Vec<u8> + Send + 'static,
) {
    let shape = app.doc.as_ref().and_then(|d| d.derived.shapes.get(buffer));
    let shape = shape.cloned().unwrap_or_default();
    let name = buffer.to_owned();
    app.pick(ctx, Pick::Save(format!("{name}.npy")), move |app, ctx, path| {
        app.tasks.spawn(ctx, format!("saving {}", path.display()), move |_| {
            let done = buffers::write_file(&path, element, &shape, &read()).map_err(|e| e.to_string());
            Box::new(move |app| match done {
                Ok(()) => app.info(format!("{name} saved as {}", path.display())),
                Err(e) => app.error("the buffer was not saved", &e),
            })
        });
    });
}
