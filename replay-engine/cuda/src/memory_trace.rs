//! Memory trace while launches run: changed pages are found on the device and read back, with their contents before and
//! after each launch.

use super::contents::Contents;
use super::error::CudaReplayError;
use super::pages::{SavedMemory, join_pages};
use super::script::{Script, Step};
use super::stage::{Stage, StageOptions};
use replay_engine::memory_trace::MemoryTraceRequest;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use trace_core::api_trace::{MemorySample, MemoryTrace};
use trace_core::progress::Progress;
use trace_core::{GpuVa, PAGE_SIZE};

const PAGE: u64 = PAGE_SIZE as u64;
/// Size of an observation in an answer without its contents, bytes.
const SAMPLE_BYTES: u64 = 28;
/// Maximum number of observations in an answer: the size of a record, with some reserve
/// (`trace_core::encode::MAX_RECORD`).
const MAX_SAMPLES: usize = (trace_core::encode::MAX_RECORD - (1 << 20)) / SAMPLE_BYTES as usize;

/// The result of a memory trace run.
#[derive(Debug, Default)]
pub struct MemoryTraceRun {
    /// The memory trace.
    pub watched: MemoryTrace,
    /// Number of traced launches.
    pub launches: u64,
    /// The launch before which the trace ended, because its changes did not fit any more.
    pub full: Option<u64>,
    /// The launch before which the trace ended, because its time was over.
    pub late: Option<u64>,
    /// The address after which the traced ranges did not fit.
    pub looked_until: Option<u64>,
    /// The error of the device or the driver that stopped it.
    pub stopped: Option<CudaReplayError>,
    /// The device's name.
    pub device: String,
    /// Time until the first traced launch.
    pub ready: Duration,
    /// Time of the traced launches.
    pub took: Duration,
}

/// Replays a recording up to the first requested event, then launch by launch, in this process. `report` is called
/// before each traced launch.
///
/// # Errors
/// If an earlier step cannot be replayed, memory cannot be read, or the request is cancelled. A launch that stops the
/// device is not an error: the result holds the trace up to it and the reason.
pub fn trace_memory(
    contents: &(impl Contents + ?Sized),
    script: &Script,
    options: &StageOptions,
    request: &MemoryTraceRequest,
    progress: &Progress,
    report: &mut dyn FnMut(u64),
) -> Result<MemoryTraceRun, CudaReplayError> {
    let begun = Instant::now();
    let mut stage = Stage::new(contents, script, options)?;
    let before = script.steps.partition_point(|(e, _)| *e < request.from);
    let all = script.steps.partition_point(|(e, _)| *e < request.to);
    progress.set_total(all as u64 + 1);
    stage.play_until(request.from, progress)?;
    let cancelled = |_| CudaReplayError::Cancelled;
    progress.advance(before as u64 + 1).map_err(cancelled)?;
    let ranges = TracedRanges::new(&stage, &request.ranges);
    let mut seeing = MemoryTracer::new(request.most);
    let mut looked_until = None;
    if !request.look.is_empty() {
        let look = TracedRanges::new(&stage, &request.look);
        looked_until = seeing.look(&stage, &look, request.from)?;
    }
    // Both have their own share.
    seeing.max = seeing.taken().saturating_add(request.most);
    let mut kept = stage.save_ranges(&ranges.device)?;
    let mut seen = MemoryTraceRun {
        device: stage.device_name(),
        ready: begun.elapsed(),
        looked_until,
        ..MemoryTraceRun::default()
    };
    let watching = Instant::now();
    // Whether memory may differ from the saved copy.
    let mut stale = false;
    let mut to = request.to;
    while let Some((event, step)) = stage.next().filter(|(e, _)| *e < request.to) {
        if step.is_launch() {
            if seeing.is_full() {
                (seen.full, to) = (Some(*event), *event);
                break;
            }
            if request.time_ns > 0 && watching.elapsed() > Duration::from_nanos(request.time_ns) {
                (seen.late, to) = (Some(*event), *event);
                break;
            }
            if std::mem::take(&mut stale) {
                kept.update(stage.tools())?;
            }
            report(*event);
        }
        match stage.play_one(progress) {
            Ok(()) => {}
            Err(e @ CudaReplayError::Stopped { .. }) => {
                (seen.stopped, to) = (Some(e), *event);
                break;
            }
            Err(e) => return Err(e),
        }
        match step {
            Step::Launch(..) => {
                if !seeing.launch(&stage, &mut kept, &ranges, *event)? {
                    (seen.full, to) = (Some(*event), *event);
                    break;
                }
                seen.launches += 1;
            }
            Step::Input(_) | Step::Copy(_) | Step::Fill(_) => stale = true,
            Step::Output(_) | Step::Order(_) => {}
        }
        progress.advance(1).map_err(cancelled)?;
    }
    seen.took = watching.elapsed();
    if seen.stopped.is_some() {
        // A failed device releases nothing and would block forever. The process exit releases it.
        std::mem::forget(kept);
        std::mem::forget(stage);
    }
    seen.watched = MemoryTrace::new(
        "",
        request.from..to,
        request.ranges.is_empty(),
        ranges.recorded,
        seeing.samples,
        seeing.content,
    )
    .map_err(|e| CudaReplayError::Damaged {
        event: request.from,
        what: e.to_string(),
    })?;
    Ok(seen)
}

/// Ranges of memory, at device and at recorded addresses.
struct TracedRanges {
    /// First byte and length in bytes on the device, ascending.
    device: Vec<(u64, u64)>,
    /// The same ranges at recorded addresses, ascending.
    recorded: Vec<std::ops::Range<GpuVa>>,
}

impl TracedRanges {
    /// Returns the mapped parts of the requested ranges, as whole pages on the device. With no requested ranges,
    /// returns all memory.
    fn new(stage: &Stage<'_>, asked: &[(GpuVa, u64)]) -> Self {
        // First byte on the device, first byte in the recording, and length in bytes.
        let mut all: Vec<(u64, u64, u64)> = Vec::new();
        for (is, bytes) in stage.ranges() {
            let was = stage.recorded_address(GpuVa::new(is));
            if asked.is_empty() {
                all.push((is, was.get(), bytes));
                continue;
            }
            for (at, length) in asked {
                let (first, end) = (was.max(*at), was.saturating_add(bytes).min(at.saturating_add(*length)));
                if first >= end {
                    continue;
                }
                let by = (first - was) / PAGE * PAGE;
                let to = (end - was).next_multiple_of(PAGE).min(bytes);
                all.push((is + by, (was + by).get(), to - by));
            }
        }
        // Pages named by two ranges are merged. If a variable was recorded inside other memory, it is separate memory
        // here: that part is not traced.
        all.sort_unstable_by_key(|r| r.1);
        let mut apart: Vec<(u64, u64, u64)> = Vec::new();
        for (is, was, bytes) in all {
            let end = was.saturating_add(bytes);
            match apart.last_mut() {
                Some(l) if was < l.1.saturating_add(l.2) => {
                    let last = l.1.saturating_add(l.2);
                    if is.wrapping_sub(l.0) == was - l.1 {
                        l.2 = last.max(end) - l.1;
                        continue;
                    }
                    let (first_is, first) = (l.0, l.1);
                    l.2 = was - first;
                    if last > end {
                        apart.push((first_is.wrapping_add(end - first), end, last - end));
                    }
                }
                _ => apart.push((is, was, bytes)),
            }
        }
        apart.retain(|r| r.2 > 0);
        let recorded = apart
            .iter()
            .map(|(_, was, bytes)| GpuVa::new(*was)..GpuVa::new(was.saturating_add(*bytes)))
            .collect();
        let mut device: Vec<(u64, u64)> = apart.iter().map(|(is, _, bytes)| (*is, *bytes)).collect();
        device.sort_unstable();
        Self { device, recorded }
    }
}

/// The observations so far.
struct MemoryTracer {
    samples: Vec<MemorySample>,
    content: Vec<u8>,
    max: u64,
    /// Positions of contents that were already stored, by digest.
    known: HashMap<[u8; 32], u64>,
    /// The last event at which each page was observed.
    last: HashMap<u64, u64>,
}

impl MemoryTracer {
    fn new(max: u64) -> Self {
        Self {
            samples: Vec::new(),
            content: Vec::new(),
            max,
            known: HashMap::new(),
            last: HashMap::new(),
        }
    }

    /// Returns the size of the answer so far, bytes.
    fn taken(&self) -> u64 {
        (self.content.len() as u64).saturating_add((self.samples.len() as u64).saturating_mul(SAMPLE_BYTES))
    }

    fn is_full(&self) -> bool {
        self.taken() >= self.max || self.samples.len() >= MAX_SAMPLES
    }

    fn see(&mut self, at: u64, next_event: u64, bytes: &[u8]) {
        if self.last.insert(at, next_event) == Some(next_event) {
            return;
        }
        let digest = *blake3::hash(bytes).as_bytes();
        let content = *self.known.entry(digest).or_insert_with(|| {
            let at = self.content.len() as u64;
            self.content.extend_from_slice(bytes);
            at
        });
        self.samples.push(MemorySample {
            at: GpuVa::new(at),
            next_event,
            bytes: u32::try_from(bytes.len()).unwrap_or(0),
            content,
        });
    }

    /// Records the contents of ranges, as far as there is room. Returns the address after which there was none.
    fn look(
        &mut self,
        stage: &Stage<'_>,
        ranges: &TracedRanges,
        next_event: u64,
    ) -> Result<Option<u64>, CudaReplayError> {
        let mut buffer = Vec::new();
        for (first, bytes) in &ranges.device {
            let pages: Vec<u64> = (0..bytes.div_ceil(PAGE)).map(|n| first + n * PAGE).collect();
            for (at, bytes) in join_pages(&pages, &ranges.device) {
                buffer.resize(usize::try_from(bytes).unwrap_or(0), 0);
                stage.read(GpuVa::new(at), &mut buffer)?;
                let recorded = stage.recorded_address(GpuVa::new(at));
                for (n, place) in (0..).zip(buffer.chunks(PAGE_SIZE)) {
                    if self.is_full() {
                        return Ok(Some((recorded + n * PAGE).get()));
                    }
                    self.see((recorded + n * PAGE).get(), next_event, place);
                }
            }
        }
        Ok(None)
    }

    /// Records the changes of a launch, with contents before and after it. Returns `false` if there is no room; then
    /// nothing of the launch is recorded.
    fn launch(
        &mut self,
        stage: &Stage<'_>,
        kept: &mut SavedMemory,
        ranges: &TracedRanges,
        event: u64,
    ) -> Result<bool, CudaReplayError> {
        let pages = stage.find_differing_pages(kept)?;
        if pages.is_empty() {
            return Ok(true);
        }
        let mark = self.samples.len();
        let (mut was, mut is) = (Vec::new(), Vec::new());
        for (at, bytes) in join_pages(&pages, &ranges.device) {
            if self.is_full() {
                self.samples.truncate(mark);
                return Ok(false);
            }
            let length = usize::try_from(bytes).unwrap_or(0);
            was.resize(length, 0);
            is.resize(length, 0);
            if !stage.read_saved(kept, GpuVa::new(at), &mut was)? {
                return Err(CudaReplayError::Damaged {
                    event,
                    what: format!("{bytes} bytes at {at:#x} were not stored"),
                });
            }
            stage.read(GpuVa::new(at), &mut is)?;
            let recorded = stage.recorded_address(GpuVa::new(at));
            let both = was.chunks(PAGE_SIZE).zip(is.chunks(PAGE_SIZE));
            for (n, (before, behind)) in (0..).zip(both) {
                self.see((recorded + n * PAGE).get(), event, before);
                self.see((recorded + n * PAGE).get(), event + 1, behind);
            }
        }
        kept.update(stage.tools())?;
        Ok(true)
    }
}
