//! API traces: sorted launches and descriptions of calls.

use crate::derived_data::DerivedData;
use crate::{Document, text};
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::api_trace::{ApiTrace, BufferChange, ContentSource, ContentState};
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::{AllocationKind, Api, CallEvent, CopyKind, LaunchRow, Recording};

/// Message for a byte that differs from what its last known writer left, if no other writer is possible.
pub const UNRECORDED: &str = "the value changed since then: an unrecorded write changed it, or the launch writes a \
                              different value each time";
/// Maximum number of changed buffers of a launch that one line lists.
const MAX_LISTED_CHANGES: usize = 6;

/// The sort order of launches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LaunchSort {
    /// Order of the calls.
    #[default]
    Order,
    /// Function name.
    Kernel,
    /// Number of blocks.
    Grid,
    /// Threads per block.
    Block,
    /// Dynamic shared memory.
    Shared,
    /// Stream.
    Stream,
    /// Host time of the call.
    Duration,
}

/// Returns the launch at an event, or `None` if the event is not a launch.
#[must_use]
pub fn launch(recording: &Recording, event: u64) -> Option<LaunchRow> {
    match recording.events.call(usize::try_from(event).ok()?)? {
        CallEvent::Launch(row) => Some(row),
        _ => None,
    }
}

/// Returns a function name without return type and parameters: `at::native::relu<float>`.
#[must_use]
pub fn short_function_name(name: &str) -> &str {
    let (mut depth, mut end, mut begin) = (0i32, name.len(), 0);
    for (at, c) in name.char_indices() {
        match c {
            '<' | '{' => depth += 1,
            '>' | '}' => depth -= 1,
            '(' if depth == 0
                && at > begin
                && !name.get(at..).is_some_and(|r| r.starts_with("(anonymous"))
                && !name.get(..at).is_some_and(|r| r.ends_with("operator")) =>
            {
                end = at;
                break;
            }
            // The return type ends at the last space outside of brackets.
            ' ' if depth == 0
                && !name
                    .get(..at)
                    .is_some_and(|r| r.ends_with("operator") || r.ends_with("(anonymous")) =>
            {
                begin = at + 1;
            }
            _ => {}
        }
    }
    name.get(begin..end).filter(|s| !s.is_empty()).unwrap_or(name)
}

/// Formats three dimensions without trailing ones: `16`, `28×28`.
#[must_use]
pub fn format_dims(d: [u32; 3]) -> String {
    match d {
        [x, 1, 1] => text::count(u64::from(x)),
        [x, y, 1] => format!("{x}×{y}"),
        [x, y, z] => format!("{x}×{y}×{z}"),
    }
}

/// Returns the name of the memory that a launch at an event changed, or the address if it is in no buffer.
#[must_use]
pub fn format_change_location(api_trace: &ApiTrace, left: &BufferChange, event: u64) -> String {
    match left.buffer {
        Some(n) => api_trace.buffers().name_span(n, &left.span, event).to_owned(),
        None => format!("{:#x}", left.span.start),
    }
}

/// Describes on one line the changes of a launch, as a target observed them. Returns `None` if there is no such
/// observation.
#[must_use]
pub fn describe_launch_changes(api_trace: &ApiTrace, event: u64) -> Option<String> {
    let left = api_trace.launch_changes(event)?;
    if left.list.is_empty() {
        return Some(if left.complete { "nothing" } else { "nothing traced" }.to_owned());
    }
    let one = |l: &BufferChange| {
        format!(
            "{}: {}",
            format_change_location(api_trace, l, event),
            text::bytes(l.bytes)
        )
    };
    let messages: Vec<String> = left.list.iter().take(MAX_LISTED_CHANGES).map(one).collect();
    // An incomplete memory trace may have missed more.
    let more = if left.list.len() > MAX_LISTED_CHANGES || !left.complete {
        ", …"
    } else {
        ""
    };
    Some(format!("{}{more}", messages.join(", ")))
}

/// Describes the sources of launch changes in a sentence: traced targets, and the recorder if it took snapshots around
/// launches.
#[must_use]
pub fn describe_targets(api_trace: &ApiTrace) -> String {
    let asked = describe_traced_targets(api_trace);
    match (api_trace.has_launch_snapshots(), asked.is_empty()) {
        (true, true) => "the recorder".to_owned(),
        (true, false) => format!("the recorder and {asked}"),
        (false, _) => asked,
    }
}

fn describe_traced_targets(api_trace: &ApiTrace) -> String {
    let mut names: Vec<&str> = api_trace.memory_traces().iter().map(|w| w.target()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(" or ")
}

/// Describes the state of bytes, with the names of the targets that traced memory.
#[must_use]
pub fn describe_state(api_trace: &ApiTrace, state: ContentState) -> String {
    let message = state.describe();
    match state {
        ContentState::Known(ContentSource::TraceBefore | ContentSource::TraceAfter, _) => {
            message.replacen("a target", &describe_traced_targets(api_trace), 1)
        }
        _ => message,
    }
}

/// Returns for each function whether its name contains a text, ignoring case.
#[must_use]
pub fn match_launches(api_trace: &ApiTrace, search: &str) -> Vec<bool> {
    let search = search.trim().to_lowercase();
    let all = (0u32..).zip(&api_trace.metadata().functions);
    let has = |(n, f): (u32, &trace_core::recording::CallFunction)| {
        api_trace.function_name(n).to_lowercase().contains(&search) || f.name.to_lowercase().contains(&search)
    };
    all.map(has).collect()
}

/// Returns the launches whose function name contains a text, sorted; `None` for all launches in recorded order.
///
/// # Errors
/// [`Cancelled`].
pub fn select_launches(
    api_trace: &ApiTrace,
    recording: &Recording,
    search: &str,
    (sort, falling): (LaunchSort, bool),
    progress: &Progress,
) -> Result<Option<Vec<u32>>, Cancelled> {
    if search.trim().is_empty() && sort == LaunchSort::Order && !falling {
        return Ok(None);
    }
    let functions = match_launches(api_trace, search);
    let passes = |f: u32| functions.get(f as usize).copied().unwrap_or(search.trim().is_empty());
    let mut list = Vec::new();
    for (n, l) in (0u32..).zip(api_trace.launches()) {
        if n % 4096 == 0 {
            progress.check()?;
        }
        if passes(l.function) {
            list.push(n);
        }
    }
    let row = |n: &u32| {
        api_trace
            .launches()
            .get(*n as usize)
            .and_then(|l| launch(recording, l.event))
    };
    let product = |d: [u32; 3]| d.iter().fold(1u64, |n, x| n.saturating_mul(u64::from(*x)));
    let number = |n: &u32| match (sort, row(n)) {
        (LaunchSort::Grid, Some(l)) => product(l.grid),
        (LaunchSort::Block, Some(l)) => product(l.block),
        (LaunchSort::Shared, Some(l)) => u64::from(l.shared),
        (LaunchSort::Stream, Some(l)) => u64::from(l.stream),
        (LaunchSort::Duration, Some(l)) => u64::from(l.took),
        _ => 0,
    };
    match sort {
        LaunchSort::Order => {}
        LaunchSort::Kernel => {
            // Names are compared once per function, not once per launch.
            let mut names: Vec<(&str, u32)> = (0u32..)
                .zip(&api_trace.metadata().functions)
                .map(|(n, _)| (short_function_name(api_trace.function_name(n)), n))
                .collect();
            names.sort_unstable();
            let mut rank = vec![0u32; names.len()];
            for (place, (_, n)) in (0u32..).zip(&names) {
                if let Some(r) = rank.get_mut(*n as usize) {
                    *r = place;
                }
            }
            let of = |n: &u32| {
                api_trace
                    .launches()
                    .get(*n as usize)
                    .and_then(|l| rank.get(l.function as usize))
            };
            list.sort_by_key(|n| of(n).copied());
        }
        _ => list.sort_by_cached_key(number),
    }
    progress.check()?;
    if falling {
        list.reverse();
    }
    Ok(Some(list))
}

/// Names a call: `launch of scale`, `copy`, `cuGraphLaunch`; empty if the event is no call.
#[must_use]
pub fn name_call(api_trace: &ApiTrace, recording: &Recording, event: u64) -> String {
    let call = usize::try_from(event).ok().and_then(|at| recording.events.call(at));
    match call {
        Some(CallEvent::Launch(l)) => {
            let function = short_function_name(api_trace.function_name(l.function));
            format!("launch of {function}")
        }
        Some(CallEvent::Copy(_)) => "copy".to_owned(),
        Some(CallEvent::Fill(_)) => "fill".to_owned(),
        Some(CallEvent::Order(_)) => "order".to_owned(),
        Some(CallEvent::Allocation(_)) => "allocation".to_owned(),
        Some(call @ CallEvent::Call(_)) => call.describe(Some(api_trace.metadata())),
        None => String::new(),
    }
}

/// Describes a call, with buffers by name.
#[must_use]
pub fn describe_call(api_trace: &ApiTrace, recording: &Recording, event: u64) -> String {
    let Some(call) = usize::try_from(event).ok().and_then(|at| recording.events.call(at)) else {
        return String::new();
    };
    let name = |at: u64| api_trace.buffers().format_address(GpuVa::new(at), event);
    let many = |n: Option<u64>| n.map_or_else(|| "too many bytes".to_owned(), |n| text::count_noun(n, "byte", "bytes"));
    let stream = |s: u32| api_trace.stream_name(s);
    let message = match call {
        CallEvent::Launch(l) => {
            let f = short_function_name(api_trace.function_name(l.function));
            format!(
                "{f} · grid {} · block {} · {}",
                format_dims(l.grid),
                format_dims(l.block),
                stream(l.stream)
            )
        }
        CallEvent::Copy(c) if api_trace.metadata().api == Api::Wasm => {
            format!("{} of {}", many(c.total()), stream(c.stream))
        }
        CallEvent::Copy(c) => {
            let bytes = many(c.total());
            let way = match CopyKind::from_raw(c.kind) {
                Some(CopyKind::HostToDevice) => format!("host → {}", name(c.to)),
                Some(CopyKind::DeviceToHost) if is_snapshot(&call) => format!("{}, for a snapshot", name(c.from)),
                Some(CopyKind::DeviceToHost) => format!("{} → host", name(c.from)),
                Some(CopyKind::DeviceToDevice) => format!("{} → {}", name(c.from), name(c.to)),
                Some(CopyKind::Other) | None => "to or from an array".to_owned(),
            };
            match is_snapshot(&call) {
                true => format!("{bytes} of {way}"),
                false => format!("{bytes} · {way} · {}", stream(c.stream)),
            }
        }
        CallEvent::Fill(f) => {
            let bytes = many(f.row_bytes().and_then(|b| b.checked_mul(f.rows)));
            format!(
                "{bytes} · {} set to {:#x} · {}",
                name(f.to.get()),
                f.value,
                stream(f.stream)
            )
        }
        CallEvent::Allocation(a) => {
            let what = AllocationKind::from_raw(a.kind);
            let place = match what {
                // The memory does not exist before the event.
                Some(k) if k.takes_device() || k == AllocationKind::TakeHost => {
                    api_trace.buffers().format_address(a.at, event + 1)
                }
                _ => name(a.at.get()),
            };
            let word = match what {
                Some(AllocationKind::Map) => "mapped",
                Some(AllocationKind::Unmap) => "unmapped",
                Some(k) if k.takes_device() => "allocated",
                Some(AllocationKind::TakeHost) => "pinned on the host",
                Some(AllocationKind::GiveHost) => "unpinned on the host",
                _ => "freed",
            };
            format!("{place} · {} {word}", many(Some(a.bytes)))
        }
        CallEvent::Order(_) => return call.describe(Some(api_trace.metadata())),
        CallEvent::Call(_) => {
            let text = usize::try_from(event).ok().and_then(|at| recording.describe_call(at));
            return text.unwrap_or_default();
        }
    };
    match call.result() {
        0 => message,
        code => format!("{message} · ▲ failed with {code}"),
    }
}

fn is_snapshot(call: &CallEvent) -> bool {
    matches!(call, CallEvent::Copy(_)) && call.stream().is_none()
}

/// Formats a device address at an event: `in0 + 0x40`.
#[must_use]
pub fn format_address(derived: &DerivedData, va: GpuVa, event: u64) -> Option<String> {
    let api_trace = derived.api_trace.as_ref()?;
    let place = api_trace.buffers().locate_nearest(va, event)?;
    Some(api_trace.buffers().format_location(place, event))
}

impl Document {
    /// Returns the derived data of the recording's API trace, or `None` if it has none or it is not derived yet.
    #[must_use]
    pub fn api_trace(&self) -> Option<Arc<ApiTrace>> {
        self.derived.api_trace.clone()
    }

    /// Returns the launch at the current event, as an index into the list.
    #[must_use]
    pub fn current_launch(&self) -> Option<u32> {
        self.derived.api_trace.as_ref()?.launch_at(self.current_event())
    }

    /// Moves to the next launch after the current event, or to the previous one.
    pub fn go_launch(&mut self, forward: bool) {
        let Some(api_trace) = self.api_trace() else { return };
        let at = if forward {
            Some(api_trace.launches_before(self.current_event().saturating_add(1)))
        } else {
            api_trace.launches_before(self.current_event()).checked_sub(1)
        };
        if let Some(event) = at.and_then(|n| api_trace.launches().get(n)).map(|l| l.event) {
            self.go(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_name_omits_return_type_and_parameters() {
        for (full_name, short_name) in [
            ("conv2d(float const*, float*)", "conv2d"),
            ("void at::native::relu<float>(float*)", "at::native::relu<float>"),
            (
                "void k<std::pair<int, long>, (bool)1>(int)",
                "k<std::pair<int, long>, (bool)1>",
            ),
            ("(anonymous namespace)::f(int)", "(anonymous namespace)::f"),
            (
                "void (anonymous namespace)::f<int>(int)",
                "(anonymous namespace)::f<int>",
            ),
            (
                "void run::{lambda(int)#1}::operator()(int) const",
                "run::{lambda(int)#1}::operator()",
            ),
            ("_Zodd_name", "_Zodd_name"),
            ("", ""),
        ] {
            assert_eq!(short_function_name(full_name), short_name);
        }
    }

    #[test]
    fn dimensions_omit_trailing_ones() {
        assert_eq!(format_dims([16, 1, 1]), "16");
        assert_eq!(format_dims([28, 28, 1]), "28×28");
        assert_eq!(format_dims([1, 1, 4]), "1×1×4");
    }
}
