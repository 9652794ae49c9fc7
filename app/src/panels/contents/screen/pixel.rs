//! The chosen pixel of the screen, and the search for the stores to it.

use super::view::{PixelStores, View};
use crate::panels::common::actions::UiActions;
use kinescope_files::scene::Selection;
use kinescope_session::Document;
use std::sync::Arc;

/// Maximum number of stores to a pixel that are listed.
const MAX_LISTED_STORES: usize = 1_000_000;

/// Chooses a pixel, searches the stores to it, and selects its bytes everywhere; `None` clears the choice.
pub(super) fn choose(doc: &mut Document, view: &mut View, actions: &mut UiActions, pixel: Option<[u32; 2]>) {
    view.pixel = pixel;
    find_stores(view, actions);
    let space = view.screen().map(|s| s.framebuffer.space());
    match (view.pixel_bytes(), space) {
        (Some(b), Some(space)) => doc.select(Selection::Framebuffer {
            space,
            offset: b.start,
            bytes: b.end - b.start,
        }),
        _ if matches!(doc.selection(), Selection::Framebuffer { .. }) => doc.select(Selection::Event),
        _ => {}
    }
    view.seen_jump = doc.jumps;
}

/// Searches the stores to the chosen pixel, unless they are known.
pub(super) fn find_stores(view: &mut View, actions: &mut UiActions) {
    let bytes = view.pixel_bytes();
    if view.stores.as_ref().map(|s| &s.bytes) == bytes.as_ref() {
        return;
    }
    if let Some(s) = view.stores.take() {
        s.progress.cancel();
    }
    let (Some(bytes), Some(screen)) = (bytes, view.screen().cloned()) else {
        return;
    };
    let range = bytes.clone();
    let progress = actions.start_work::<View>("finding stores to a pixel", move |progress| {
        let found = screen.framebuffer.stores_to(range.clone(), MAX_LISTED_STORES, progress);
        Box::new(move |_, view, _| {
            if let (Ok(found), Some(s)) = (found, view.stores.as_mut().filter(|s| s.bytes == range)) {
                s.found = Some(Arc::new(found));
                view.seen_event = u64::MAX;
            }
        })
    });
    view.stores = Some(PixelStores {
        bytes,
        found: None,
        progress,
    });
}
