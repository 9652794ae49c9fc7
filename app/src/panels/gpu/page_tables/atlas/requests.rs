//! Requests for maps and entropies, computed off the interface thread when the view needs them.

use super::super::view::View;
use super::view::{Atlas, Colour};
use crate::panels::common::actions::UiActions;
use kinescope_session::Document;
use kinescope_session::address_map::{AddressMap, AddressMapKey, entropy};
use std::sync::Arc;
use trace_core::addresses::Entropies;

/// Requests the map of a key, unless it is known, pending or stopped.
pub fn request_map(doc: &Document, view: &mut Atlas, actions: &mut UiActions, key: AddressMapKey) {
    let under_way = view.making.as_ref().is_some_and(|(k, _)| *k == key);
    if under_way || view.map(key).is_some() || view.stopped == Some((key, false)) {
        return;
    }
    if let Some((_, progress)) = view.making.take() {
        progress.cancel();
    }
    let recording = Arc::clone(&doc.recording);
    let progress = actions.start_work::<View>("drawing the map of page tables", move |progress| {
        let made = AddressMap::new(&recording, key, progress).ok();
        Box::new(move |doc, view, _| {
            // Another recording may be open by now.
            if Arc::ptr_eq(&doc.recording, &recording) {
                view.atlas.take_map(key, made);
            }
        })
    });
    view.making = Some((key, progress));
}

/// Requests the entropy along a map, if the colours show it.
pub fn request_entropy(
    doc: &Document,
    view: &mut Atlas,
    actions: &mut UiActions,
    key: AddressMapKey,
    map: &Arc<AddressMap>,
) {
    let under_way = view.measuring.as_ref().is_some_and(|(k, _)| *k == key);
    let known = view.entropy(key).is_some() || view.stopped == Some((key, true));
    if view.colour != Colour::Entropy || under_way || known {
        return;
    }
    if let Some((_, progress)) = view.measuring.take() {
        progress.cancel();
    }
    let (recording, map, pages) = (Arc::clone(&doc.recording), Arc::clone(map), view.pages.clone());
    let progress = actions.start_work::<View>("measuring the entropy of pages", move |progress| {
        let made = || {
            let pages = match pages {
                Some(p) => p,
                None => Arc::new(Entropies::new(&recording.memory.pages, progress)?),
            };
            let found = entropy(&recording, &map, &pages, progress)?;
            Ok::<_, trace_core::progress::Cancelled>((pages, found))
        };
        let made = made().ok();
        Box::new(move |doc, view, _| {
            if Arc::ptr_eq(&doc.recording, &recording) {
                view.atlas.take_entropy(key, made);
            }
        })
    });
    view.measuring = Some((key, progress));
}
