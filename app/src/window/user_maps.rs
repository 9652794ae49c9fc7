//! The user's register maps: when a map file changes, appears or disappears, the recording is read again with the new
//! names.

use super::app::App;
use super::user_maps_watch::UserMapsWatch;
use egui::Context;
use kinescope_session::register_map_files;
use register_maps::UserMaps;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use trace_core::registers;

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
