//! Memory traces of the launches of a recording: the request, the run on a target, and the state of a document. A
//! request covers the launches whose writes are in doubt.

use crate::cuda_target::{DeviceQueryError, TargetQueryError, compile_query, query_target};
use crate::launch_times::DEFAULT_REPEATS;
use crate::running_work::{RunningSlot, RunningWork};
use crate::targets::Targets;
use replay_cuda::ApiOptions;
use replay_engine::client::Lease;
use replay_engine::memory_trace::{MemoryTraceReport, MemoryTraceRequest, USUAL_BYTES};
use replay_engine::plan::Edits;
use replay_engine::target::TracedMemory;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use trace_core::api_trace::{ApiTrace, LastWriter, MemoryTrace};
use trace_core::progress::Progress;
use trace_core::recording::Recording;
use trace_core::{GpuVa, PAGE_SIZE};

/// Nanoseconds per second.
pub const SECOND: u64 = 1_000_000_000;
/// Default time limit of a memory trace, nanoseconds.
const USUAL_TIME: u64 = 600 * SECOND;

/// The API calls of a recording with a memory trace that a target added.
#[derive(Clone, Debug)]
pub struct TracedCalls {
    /// The calls.
    pub api_trace: ApiTrace,
    /// Whether the target traced everything that was requested.
    pub is_complete: bool,
    /// Whether memory is missing because it exceeds the requested number of bytes.
    pub exceeds_size: bool,
    /// What is missing or differs from the request, and where; empty if nothing does.
    pub missing: Vec<String>,
}

/// A memory trace with its report and request.
#[derive(Clone, Debug)]
struct MemoryTraceResult {
    trace: Arc<MemoryTrace>,
    result: MemoryTraceReport,
    request: MemoryTraceRequest,
}

impl MemoryTraceResult {
    fn is_complete(&self) -> bool {
        let t = &self.result;
        t.stopped.is_none() && t.full.is_none() && t.late.is_none() && t.looked_until.is_none()
    }

    /// Describes each part that is missing or differs from the request.
    fn missing(&self) -> Vec<String> {
        let mut messages = Vec::new();
        if let Some(s) = &self.result.stopped {
            let place = match (&s.function, s.event) {
                (Some(f), Some(e)) => format!("in the launch of {f}, event {e}"),
                (None, Some(e)) => format!("at event {e}"),
                _ => "there".to_owned(),
            };
            messages.push(format!("the device stopped {place}: {}; the report ends there", s.why));
        }
        if let Some(event) = self.result.full {
            messages.push(format!(
                "pages before and after launches need more than {} bytes: launches from event {event} on were not \
                 traced",
                self.request.most
            ));
        }
        if let Some(event) = self.result.late {
            messages.push(format!(
                "the trace took longer than {} s: launches from event {event} on were not traced",
                self.request.time_ns / SECOND
            ));
        }
        if let Some(at) = self.result.looked_until {
            messages.push(format!(
                "memory holds more than {} bytes: the report ends at {at:#x}",
                self.request.most
            ));
        }
        for what in &self.result.left_out {
            messages.push(format!(
                "{what} did not run on the target: results that depend on them differ from the recording"
            ));
        }
        messages
    }
}

/// Returns the request that finds the writer and value of a byte before an event: its page, over the launches that are
/// in doubt. Returns `None` if there are none.
#[must_use]
pub fn request_for_byte(api_trace: &ApiTrace, who: &LastWriter, event: u64) -> Option<MemoryTraceRequest> {
    let buffer = api_trace.buffers().get(who.location?.buffer)?;
    let written = who.certain.map(|(e, _)| e).max(who.change.map(|c| c.event));
    let taken = buffer.from.saturating_add(u64::from(buffer.kind.is_allocated()));
    let from = written.map_or(taken, |e| e + 1);
    let doubt = api_trace.find_uncertain_events(who.address, from..event);
    let launches = |part: &Range<u64>| !api_trace.launches_in(part.clone()).is_empty();
    if !doubt.iter().any(launches) {
        return None;
    }
    let page = (who.address.align_down(PAGE_SIZE as u64), PAGE_SIZE as u64);
    Some(MemoryTraceRequest {
        // Launches that were traced before are traced again, so that one answer is complete.
        from,
        to: event,
        ranges: vec![page],
        look: vec![page],
        ..MemoryTraceRequest::default()
    })
}

/// Returns the request for the contents of memory before an event.
#[must_use]
pub fn request_for_memory(range: Range<GpuVa>, event: u64) -> MemoryTraceRequest {
    let piece = (range.start, range.end.offset_from(range.start).unwrap_or_default());
    MemoryTraceRequest {
        from: event,
        to: event,
        ranges: vec![piece],
        look: vec![piece],
        ..MemoryTraceRequest::default()
    }
}

/// Returns the request for the changes of every launch, in all memory.
#[must_use]
pub fn request_for_launches(recording: &Recording) -> MemoryTraceRequest {
    MemoryTraceRequest {
        from: 0,
        to: recording.events.len() as u64,
        ..MemoryTraceRequest::default()
    }
}

/// Opens a target, traces memory there, and adds the trace to the calls of the recording. The target replays the
/// recording with the recorded inputs. Calls `on_traced` when the target has answered.
///
/// This is slow: call it off the interface thread. The time grows with the number of launches.
///
/// # Errors
/// Returns an error if the request is not valid, the target cannot be opened or fails, the recording cannot be compiled
/// for it, or the user cancels.
pub fn trace_on_target(
    targets: &Targets,
    target: &str,
    (recording, api_trace): (&Recording, &ApiTrace),
    request: MemoryTraceRequest,
    progress: &Progress,
    on_traced: impl FnOnce(),
) -> Result<TracedCalls, TargetQueryError> {
    let failed = |e: DeviceQueryError| TargetQueryError::new(target, e);
    if let Some(why) = request.find_error() {
        return Err(failed(DeviceQueryError::Failed(why)));
    }
    // Other clients may use the target while the trace is added to the calls.
    let answer = query_target(targets, target, |lease| {
        trace_memory(lease, target, recording, request, progress)
    })?;
    on_traced();
    Ok(TracedCalls {
        is_complete: answer.is_complete(),
        exceeds_size: answer.result.full.is_some() || answer.result.looked_until.is_some(),
        missing: answer.missing(),
        api_trace: api_trace
            .with_memory_trace(answer.trace, progress)
            .map_err(|e| failed(e.into()))?,
    })
}

fn trace_memory(
    lease: &mut Lease,
    target: &str,
    recording: &Recording,
    mut request: MemoryTraceRequest,
    progress: &Progress,
) -> Result<MemoryTraceResult, DeviceQueryError> {
    if request.time_ns == 0 {
        request.time_ns = USUAL_TIME;
    }
    let (edits, options) = (Edits::default(), ApiOptions::default());
    let compiled = compile_query(lease, (recording, &edits), &options, request.time_ns, progress)?;
    let TracedMemory { report, trace } = lease.trace_memory(&compiled, &request, progress)?;
    let traced = MemoryTrace::from_bytes(&trace)?.with_target(target);
    if !traced.is_answer_to(&(request.from..request.to), &request.ranges, &request.look) {
        return Err(DeviceQueryError::UnexpectedAnswer);
    }
    Ok(MemoryTraceResult {
        trace: Arc::new(traced),
        result: report,
        request,
    })
}

/// Allowed time limits of a memory trace, seconds.
pub const TIME_LIMITS_S: RangeInclusive<u64> = 1..=3000;

/// The limits of memory traces and measurements that the user chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceLimits {
    /// Maximum size of a trace, bytes.
    pub max_bytes: u64,
    /// Maximum time of a trace or a measurement, seconds, in addition to the work before it.
    pub time_s: u64,
    /// Number of replays of a measurement.
    pub repeats: u32,
}

impl Default for TraceLimits {
    fn default() -> Self {
        Self {
            max_bytes: USUAL_BYTES,
            time_s: USUAL_TIME / SECOND,
            repeats: DEFAULT_REPEATS,
        }
    }
}

impl TraceLimits {
    /// Returns a request with these limits.
    #[must_use]
    pub fn limit(&self, request: MemoryTraceRequest) -> MemoryTraceRequest {
        MemoryTraceRequest {
            most: self.max_bytes,
            time_ns: self.time_s.saturating_mul(SECOND),
            ..request
        }
    }
}

/// The memory trace state of a document.
#[derive(Clone, Debug, Default)]
pub struct State {
    running: RunningSlot,
    /// Target of the last request.
    target: String,
    /// Why the answer or a part of it is missing.
    pub failure: Option<String>,
    /// Limits of the next requests.
    pub limits: TraceLimits,
}

impl State {
    /// Returns the running request.
    #[must_use]
    pub fn running(&self) -> Option<&RunningWork> {
        self.running.current()
    }

    /// Starts a request.
    pub fn begin(&mut self, work: RunningWork) {
        self.failure = None;
        self.target.clone_from(&work.target);
        self.running.begin(work);
    }

    /// Returns the failure of a target, if the last request was for it.
    #[must_use]
    pub fn failure_of(&self, target: &str) -> Option<&str> {
        self.failure.as_deref().filter(|_| self.target == target)
    }

    /// Ends the request, with the failure if there is one.
    pub fn end(&mut self, missed: Option<String>) {
        self.running.end();
        self.failure = missed;
    }
}
