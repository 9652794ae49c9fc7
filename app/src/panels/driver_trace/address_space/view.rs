//! State of the Address space panel: the visible part of the chart, and the selected range.

use crate::theme::rows::Rows;
use kinescope_session::driver_data::DriverData;
use std::sync::Arc;

/// Minimum number of events that the chart shows.
const MIN_EVENTS: f64 = 4.0;
/// Minimum and maximum height of a page's row, points.
pub(super) const SCALES: std::ops::RangeInclusive<f32> = 1.5..=60.0;
/// Maximum height of a page's row that the chart chooses itself, points.
const MAX_FITTED_SCALE: f32 = 20.0;

/// State of the panel.
#[derive(Clone, Default)]
pub struct View {
    /// The selected range, an index in the ranges of the chart.
    pub selected: Option<u32>,
    /// An object that was requested and has no address.
    pub(super) without_address: Option<u32>,
    /// An object that another panel requested.
    pub(super) wanted: Option<u32>,
    /// First and last visible event; `None` shows all.
    pub(super) events: Option<(f64, f64)>,
    /// Height of a page's row, points; `None` fits the chart into the panel.
    pub(super) scale: Option<f32>,
    /// Distance of the upper edge from the top of the chart, in rows of a page.
    pub(super) top: f64,
    /// The ranges after the current event, and the inputs of this list.
    pub(super) now: Arc<Vec<u32>>,
    pub(super) now_key: Option<(usize, u64)>,
    pub(super) list: Rows,
    /// Whether the chart and the list bring the selected range into view.
    pub(super) reveal: bool,
}

impl View {
    /// Lists the ranges again: the recording has grown.
    pub fn forget_results(&mut self) {
        self.now_key = None;
    }

    /// Requests the addresses of an object: the panel selects its range.
    pub fn show_object(&mut self, object: u32) {
        self.wanted = Some(object);
    }

    /// Selects the range of a requested object.
    pub(super) fn take_wanted(&mut self, data: &DriverData, event: u64) {
        let Some(object) = self.wanted.take() else { return };
        self.selected = data.addresses.range_of(object, event);
        self.without_address = self.selected.is_none().then_some(object);
        self.reveal = true;
    }

    /// Returns the first and last visible event of `count` events.
    pub(super) fn visible_events(&self, count: u64) -> (f64, f64) {
        self.events.unwrap_or((0.0, (count as f64).max(1.0)))
    }

    /// Zooms the events by a factor about one of them.
    pub(super) fn zoom(&mut self, count: u64, factor: f64, about: f64) {
        let (first, last) = self.visible_events(count);
        let all = (count as f64).max(MIN_EVENTS);
        let span = ((last - first) / factor).clamp(MIN_EVENTS, all);
        let part = ((about - first) / (last - first).max(1e-9)).clamp(0.0, 1.0);
        self.set_first(count, about - part * span, span);
    }

    /// Moves the visible events.
    pub(super) fn pan(&mut self, count: u64, by: f64) {
        let (first, last) = self.visible_events(count);
        self.set_first(count, first + by, last - first);
    }

    fn set_first(&mut self, count: u64, first: f64, span: f64) {
        let all = (count as f64).max(1.0);
        if span >= all {
            self.events = None;
            return;
        }
        let first = first.clamp(0.0, all - span);
        self.events = Some((first, first + span));
    }

    /// Returns the height of a page's row in a chart of this height, points.
    pub(super) fn scale_for(&self, rows: f64, height: f32) -> f32 {
        let fitted = (f64::from(height) / rows.max(1.0)) as f32;
        let fitted = fitted.clamp(*SCALES.start(), MAX_FITTED_SCALE);
        self.scale.unwrap_or(fitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zoom_keeps_the_event_under_the_pointer() {
        let mut view = View::default();
        view.zoom(1000, 2.0, 250.0);
        assert_eq!(view.events, Some((125.0, 625.0)));
        view.zoom(1000, 0.1, 250.0);
        assert_eq!(view.events, None, "the whole recording is in view");
        view.zoom(1000, 1e9, 999.0);
        let (first, last) = view.visible_events(1000);
        assert_eq!(last - first, MIN_EVENTS);
    }

    #[test]
    fn pan_stays_in_the_recording() {
        let mut view = View {
            events: Some((100.0, 200.0)),
            ..View::default()
        };
        view.pan(1000, -500.0);
        assert_eq!(view.events, Some((0.0, 100.0)));
        view.pan(1000, 5000.0);
        assert_eq!(view.events, Some((900.0, 1000.0)));
    }

    #[test]
    fn chart_fits_its_panel_until_the_user_zooms() {
        let mut view = View::default();
        assert_eq!(view.scale_for(40.0, 400.0), 10.0);
        assert_eq!(view.scale_for(2.0, 400.0), MAX_FITTED_SCALE);
        assert_eq!(view.scale_for(1e6, 400.0), *SCALES.start());
        view.scale = Some(30.0);
        assert_eq!(view.scale_for(40.0, 400.0), 30.0);
    }
}
