//! The map files of the open recording, and the thread that checks whether they change.

use egui::Context;
use register_maps::{UserMap, UserMaps};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Interval between two checks of the files.
const POLL_INTERVAL: Duration = Duration::from_millis(700);

/// The map files of the open recording, checked by a separate thread until this is dropped.
pub(super) struct UserMapsWatch {
    /// Source of the map next to the recording, which applies to recordings of its device.
    pub(super) beside: Option<String>,
    found: Vec<UserMap>,
    wanted: Arc<AtomicBool>,
    pub(super) changed: Arc<AtomicBool>,
}

impl UserMapsWatch {
    /// Starts the checks. If no thread can be started, there are no checks.
    pub(super) fn new(own: UserMaps, ctx: &Context) -> Self {
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
