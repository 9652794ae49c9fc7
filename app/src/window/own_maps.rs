//! Register maps of the person's own: when a file of theirs changes, comes or goes, the recording is read again, so that
//! its registers have their new names.

use super::app::App;
use egui::Context;
use register_maps::OwnMaps;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use trace_core::registers;

/// Time between two looks at the files.
const LOOK: Duration = Duration::from_millis(700);

/// The files of the maps of the open recording, looked at by a thread of their own until this is dropped.
pub(super) struct OwnMapsWatch {
    /// The source of the map beside the recording, which is in use for recordings of its device.
    beside: Option<String>,
    wanted: Arc<AtomicBool>,
    changed: Arc<AtomicBool>,
}

impl OwnMapsWatch {
    /// Begins to look. A machine that has no thread to spare does not look.
    fn new(own: OwnMaps, ctx: &Context) -> Self {
        let beside = own
            .found
            .iter()
            .find(|f| f.beside)
            .map(|f| f.path.display().to_string());
        let mut files = own.watched;
        let (wanted, changed) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(false)));
        let (still, tell, ctx) = (Arc::clone(&wanted), Arc::clone(&changed), ctx.clone());
        let looking = std::thread::Builder::new().name("register maps".into());
        let begun = looking.spawn(move || {
            while still.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
                if still.load(Ordering::Relaxed) && files.changed() {
                    tell.store(true, Ordering::Relaxed);
                    ctx.request_repaint();
                    return;
                }
            }
        });
        if let Err(e) = begun {
            tracing::warn!("register maps that change are not read again: {e}");
        }
        Self {
            beside,
            wanted,
            changed,
        }
    }
}

impl Drop for OwnMapsWatch {
    fn drop(&mut self) {
        self.wanted.store(false, Ordering::Relaxed);
    }
}

impl App {
    /// Looks at the maps of a recording that was opened from now on.
    pub(super) fn watch_own_maps(&mut self, own: OwnMaps, ctx: &Context) {
        self.own_maps = Some(OwnMapsWatch::new(own, ctx));
    }

    /// The map beside the open recording names no other recording of the same device, one that is opened next.
    pub(super) fn leave_own_map(&mut self) {
        if let Some(source) = self.own_maps.as_mut().and_then(|w| w.beside.take()) {
            registers::choose(&source, None);
        }
    }

    /// Reads the recording again when a register map of the person's changed.
    pub(super) fn look_at_own_maps(&mut self, ctx: &Context) {
        let changed = |w: &OwnMapsWatch| w.changed.load(Ordering::Relaxed);
        if !self.own_maps.as_ref().is_some_and(changed) {
            return;
        }
        if let Some(w) = &self.own_maps {
            w.changed.store(false, Ordering::Relaxed);
        }
        if let Some(path) = self.doc.as_ref().map(|d| d.path.clone()) {
            self.info("a register map of yours changed: the recording is read again".to_owned());
            self.open(ctx, path);
        }
    }
}
