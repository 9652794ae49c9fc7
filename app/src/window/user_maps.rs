//! The user's register maps: when a map file changes, appears or disappears, the recording is read again with the new
//! names.

use super::app::App;
use crate::document::register_map_files;
use egui::Context;
use register_maps::{UserMap, UserMaps};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trace_core::registers;

/// Interval between two checks of the files.
const POLL_INTERVAL: Duration = Duration::from_millis(700);

/// The map files of the open recording, checked by a separate thread until this is dropped.
pub(super) struct UserMapsWatch {
    /// Source of the map next to the recording, which applies to recordings of its device.
    beside: Option<String>,
    found: Vec<UserMap>,
    wanted: Arc<AtomicBool>,
    changed: Arc<AtomicBool>,
}

impl UserMapsWatch {
    /// Starts the checks. If no thread can be started, there are no checks.
    fn new(own: UserMaps, ctx: &Context) -> Self {
        let beside = own.maps.iter().find(|f| f.beside).map(|f| f.path.display().to_string());
        let found = own.maps;
        let mut files = own.files;
        let (wanted, changed) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let (still, is_reported, ctx) = (Arc::clone(&wanted), Arc::clone(&changed), ctx.clone());
        let looking = std::thread::Builder::new().name("register maps".into());
        let begun = looking.spawn(move || {
            while still.load(Ordering::Relaxed) {
                std::thread::sleep(POLL_INTERVAL);
                if still.load(Ordering::Relaxed) && files.has_changed() {
                    is_reported.store(true, Ordering::Relaxed);
                    ctx.request_repaint();
                    return;
                }
            }
        });
        if let Err(e) = begun {
            tracing::warn!("changed register maps will not be reloaded: {e}");
        }
        Self {
            beside,
            found,
            wanted,
            changed,
        }
    }
}

impl UserMapsWatch {
    /// Returns all maps that were found.
    pub(super) fn maps(&self) -> &[UserMap] {
        &self.found
    }
}

impl Drop for UserMapsWatch {
    fn drop(&mut self) {
        self.wanted.store(false, Ordering::Relaxed);
    }
}

impl App {
    /// Starts to check the maps of a newly opened recording.
    pub(super) fn watch_user_maps(&mut self, own: UserMaps, ctx: &Context) {
        self.user_maps = Some(UserMapsWatch::new(own, ctx));
    }

    /// Releases the map next to the open recording. It must not name the next recording of the same device.
    pub(super) fn release_user_map(&mut self) {
        if let Some(source) = self.user_maps.as_mut().and_then(|w| w.beside.take()) {
            registers::choose(&source, None);
        }
    }

    /// Reads the recording again if a register map of the user changed.
    pub(super) fn poll_user_maps(&mut self, ctx: &Context) {
        let changed = |w: &UserMapsWatch| w.changed.load(Ordering::Relaxed);
        if !self.user_maps.as_ref().is_some_and(changed) {
            return;
        }
        if let Some(w) = &self.user_maps {
            w.changed.store(false, Ordering::Relaxed);
        }
        self.info("a user register map changed; names are reloaded".to_owned());
        self.read_names(ctx);
    }

    /// Reads the user's maps again in the background and applies their names to the open recording. Keeps edits and the
    /// current position.
    pub(super) fn read_names(&mut self, ctx: &Context) {
        let Some(doc) = &self.doc else { return };
        let (path, recording, again) = (doc.path.clone(), Arc::clone(&doc.recording), ctx.clone());
        self.tasks.spawn(ctx, "reading register maps", move |_| {
            let own = register_map_files::reload_maps(&path);
            // Merges the maps here, so that the window finds them ready.
            let _ = registers::RecordedRegisters::new(&recording);
            Box::new(move |app| {
                let mut doc = app.doc.as_mut().filter(|d| Arc::ptr_eq(&d.recording, &recording));
                let Some(renamed) = doc.as_mut().map(|d| d.rename()) else {
                    return;
                };
                let idle = doc.is_some_and(|d| d.derivation.is_none());
                for error in own.errors() {
                    app.error("a user register map was not loaded", error);
                }
                app.watch_user_maps(own, &again);
                match renamed {
                    true if idle => app.derive_next_stage(&again),
                    true => {}
                    // The registers are in another space now.
                    false => app.open(&again, path),
                }
            })
        });
    }
}
