//! Register maps of the person's own: when a file of theirs changes, comes or goes, the recording is read again, so that
//! its registers have their new names.

use super::app::App;
use crate::document::maps;
use egui::Context;
use register_maps::{Found, OwnMaps};
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
    found: Vec<Found>,
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
        let found = own.found;
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
            found,
            wanted,
            changed,
        }
    }
}

impl OwnMapsWatch {
    /// All maps that were found.
    pub(super) fn found(&self) -> &[Found] {
        &self.found
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
        self.info("a register map of yours changed: names are read again".to_owned());
        self.read_names(ctx);
    }

    /// Reads the person's maps again, apart from the interface thread, and gives the open recording their names. What
    /// was done and where the person is stays.
    pub(super) fn read_names(&mut self, ctx: &Context) {
        let Some(doc) = &self.doc else { return };
        let (path, recording, again) = (doc.path.clone(), Arc::clone(&doc.recording), ctx.clone());
        self.tasks.spawn(ctx, "reading register maps", move |_| {
            let own = maps::put_to_use_again(&path);
            // Laid over each other here, so that the window finds them made.
            let _ = registers::RecordedRegisters::new(&recording);
            Box::new(move |app| {
                let mut doc = app.doc.as_mut().filter(|d| Arc::ptr_eq(&d.recording, &recording));
                let Some(renamed) = doc.as_mut().map(|d| d.rename()) else {
                    return;
                };
                let idle = doc.is_some_and(|d| d.finding_out.is_none());
                for error in own.errors() {
                    app.error("a register map of yours is not used", error);
                }
                app.watch_own_maps(own, &again);
                match renamed {
                    true if idle => app.find_out(&again),
                    true => {}
                    // The registers are in another space now.
                    false => app.open(&again, path),
                }
            })
        });
    }
}
