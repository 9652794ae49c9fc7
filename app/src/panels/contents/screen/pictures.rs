//! Computation of the picture from the stores at the current event, step by step if that is near, off the interface
//! thread if it takes long; and its comparison.

use super::pixel;
use super::view::{PictureComparison, PictureKind, StorePicture, View};
use crate::panels::common::actions::UiActions;
use kinescope_session::Document;
use kinescope_session::screen::{FormatSource, NotDrawable, Screen, ScreenSettings, read_replayed_picture};
use std::sync::Arc;
use trace_core::screen::{Picture, RenderedScreen, StoreState, compare_where};

/// Maximum number of events that are processed, and of pixels that are drawn, within a frame.
const EVENTS: u64 = 1 << 18;
const PIXELS: u64 = 1 << 21;

/// Updates the picture to the current event and the chosen format.
pub fn follow(doc: &Document, view: &mut View, actions: &mut UiActions, screen: &Arc<Screen>) {
    let (event, source) = (doc.current_event(), view.source());
    let done = view
        .store_picture
        .as_ref()
        .is_some_and(|m| (m.event, m.source) == (event, source));
    if !done {
        step(view, actions, screen, event, source);
    }
    pixel::find_stores(view, actions);
    take_replayed_picture(doc, view, actions);
    compare_pictures(view, screen);
}

fn step(view: &mut View, actions: &mut UiActions, screen: &Arc<Screen>, event: u64, source: FormatSource) {
    let look = screen.screen_settings(source, event).map(Arc::new);
    let far = view.state.distance(&screen.framebuffer, event.saturating_add(1)) > EVENTS;
    let large = look
        .as_ref()
        .is_ok_and(|l| u64::from(l.format.width) * u64::from(l.format.height) > PIXELS);
    if !far && !large {
        view.state.seek(&screen.framebuffer, event.saturating_add(1));
        let stores = view.state.stores();
        // The same stores in the same format give the same picture.
        let same = view
            .store_picture
            .as_ref()
            .filter(|m| m.stores == stores && is_same_look(&m.look, &look));
        let drawn = match (same.and_then(|m| m.drawn.clone()), &look) {
            (Some(d), _) => Some(d),
            (None, Ok(l)) => Some(Arc::new(RenderedScreen::new(&view.state, &l.format, &l.palette))),
            (None, Err(_)) => None,
        };
        take(view, event, source, stores, look, drawn);
        return;
    }
    // One at a time: later requests are drawn next.
    if view.drawing.is_some() {
        return;
    }
    let (mut state, screen) = (view.state.clone(), Arc::clone(screen));
    let progress = actions.start_work::<View>("drawing the screen", move |_| {
        state.seek(&screen.framebuffer, event.saturating_add(1));
        let drawn = look
            .as_ref()
            .ok()
            .map(|l| Arc::new(RenderedScreen::new(&state, &l.format, &l.palette)));
        Box::new(move |_, view, _| {
            view.drawing = None;
            view.state = state;
            let stores = view.state.stores();
            take(view, event, source, stores, look, drawn);
        })
    });
    view.drawing = Some((event, source, progress));
}

fn is_same_look(a: &Result<Arc<ScreenSettings>, NotDrawable>, b: &Result<Arc<ScreenSettings>, NotDrawable>) -> bool {
    match (a, b) {
        (Ok(a), Ok(b)) => (a.format, &a.palette) == (b.format, &b.palette),
        _ => false,
    }
}

fn take(
    view: &mut View,
    event: u64,
    source: FormatSource,
    stores: u64,
    look: Result<Arc<ScreenSettings>, NotDrawable>,
    drawn: Option<Arc<RenderedScreen>>,
) {
    let before = view.store_picture.as_ref();
    let same = match (before.and_then(|m| m.drawn.as_ref()), &drawn) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => before.is_some(),
        _ => false,
    };
    let number = before.map_or(1, |m| m.number + u64::from(!same));
    let counts = match (&drawn, before) {
        (Some(_), Some(m)) if same => m.counts,
        (Some(d), _) => d.counts(),
        _ => Default::default(),
    };
    view.store_picture = Some(StorePicture {
        source,
        event,
        stores,
        look,
        drawn,
        counts,
        number,
    });
}

/// Takes the picture after the last replay from its outcome.
fn take_replayed_picture(doc: &Document, view: &mut View, actions: &mut UiActions) {
    let Some(outcome) = &doc.replay.outcome else {
        view.replayed = None;
        return;
    };
    let key = Arc::as_ptr(outcome) as usize as u64;
    if view.replayed.as_ref().is_some_and(|(k, _)| *k == key) {
        return;
    }
    view.replayed = Some((key, None));
    let outcome = Arc::clone(outcome);
    actions.start_work::<View>("reading the picture of the replay", move |_| {
        let picture = read_replayed_picture(&outcome).ok().flatten();
        Box::new(move |_, view, _| {
            if let Some((k, p)) = &mut view.replayed
                && *k == key
            {
                *p = picture.map(Arc::new);
            }
        })
    });
}

impl View {
    /// Returns the picture after the last replay.
    #[must_use]
    pub fn replayed_picture(&self) -> Option<&Arc<Picture>> {
        self.replayed.as_ref()?.1.as_ref()
    }

    /// Returns which picture the recorded one is compared with: the replayed one if there is one.
    #[must_use]
    pub fn compared_with(&self) -> PictureKind {
        match self.replayed_picture() {
            Some(_) => PictureKind::Replayed,
            None => PictureKind::Stores,
        }
    }
}

/// Compares what the device showed at the end with the replayed picture, or with that of the stores.
fn compare_pictures(view: &mut View, screen: &Screen) {
    let Some(Ok(recorded)) = &screen.expected else {
        view.compared = None;
        return;
    };
    if view.picture_kind != PictureKind::Difference {
        return;
    }
    let with = view.compared_with();
    let number = match (with, &view.store_picture) {
        (PictureKind::Stores, Some(m)) => m.number,
        _ => view.replayed.as_ref().map_or(0, |r| r.0),
    };
    if view
        .compared
        .as_ref()
        .is_some_and(|c| (c.with, c.number) == (with, number))
    {
        return;
    }
    let nothing: &[StoreState] = &[];
    let result = match (with, view.drawn(), view.replayed_picture()) {
        (PictureKind::Replayed, _, Some(p)) => compare_where(p, recorded, nothing).map_err(|e| e.to_string()),
        (_, Some(d), _) => match d.to_picture([0; 3]) {
            Ok(p) => compare_where(&p, recorded, d.known()).map_err(|e| e.to_string()),
            Err(e) => Err(e.to_string()),
        },
        _ => Err("there is no picture from the stores at this event".into()),
    };
    view.compared = Some(PictureComparison {
        with,
        number,
        result: result.map(Arc::new),
    });
}
