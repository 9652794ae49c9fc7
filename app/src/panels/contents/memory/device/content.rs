//! The events that the content of device memory comes from, and its description.

use super::view::Side;
use kinescope_session::{Document, api_trace, text};
use trace_core::api_trace::{ApiTrace, ContentState};

/// Returns the event before which memory is shown: the current event, or the event after it.
pub(super) fn event_of_side(doc: &Document, side: Side) -> u64 {
    match side {
        Side::Before | Side::Both => doc.current_event(),
        Side::After => doc.current_event().saturating_add(1),
    }
}

/// Returns the event that caused a state, as a link target.
pub(super) fn event_of(state: ContentState) -> Option<u64> {
    match state {
        ContentState::Known(_, e) => Some(e),
        ContentState::Unknown(_, e) => Some(e).filter(|e| *e > 0),
    }
}

/// Describes a state, with the kernel's name if a launch caused it.
pub(super) fn describe_state(api_trace: &ApiTrace, state: ContentState) -> String {
    let message = text::group_digits(&api_trace::describe_state(api_trace, state));
    let launch = event_of(state).and_then(|e| api_trace.launch_at(e));
    match (state, launch.and_then(|n| api_trace.launches().get(n as usize))) {
        (ContentState::Unknown(..), Some(l)) => format!(
            "{message}, {}",
            api_trace::short_function_name(api_trace.function_name(l.function))
        ),
        _ => message,
    }
}
