//! Figures about a driver trace: objects, memory, submissions and their work.

use super::{DriverObject, DriverTrace, DriverWork, GpuWork};
use crate::finding::FindingKind;
use crate::recording::{NO_CONTENT, ObjectKind, ObjectRow, Recording, SaveReason};

/// Number of items, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizedCount {
    /// Number of items.
    pub count: u64,
    /// Number of bytes of those whose size is known.
    pub bytes: u64,
}

impl SizedCount {
    fn add(&mut self, bytes: u64) {
        self.count += 1;
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

/// Figures about a driver trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverSummary {
    /// Number of requests to the driver.
    pub requests: u64,
    /// Number of clients.
    pub clients: u64,
    /// Number of objects, with clients, channels and buffers.
    pub objects: u64,
    /// Buffers in the memory of the GPU.
    pub video_buffers: SizedCount,
    /// Buffers in the memory of the host.
    pub host_buffers: SizedCount,
    /// Buffers in unknown memory.
    pub other_buffers: SizedCount,
    /// Maximum number of bytes that are mapped at a time, if the recording holds mappings.
    pub max_mapped_bytes: Option<u64>,
    /// Number of channels.
    pub channels: u64,
    /// Number of doorbells.
    pub doorbells: u64,
    /// Submissions, with the bytes of their commands.
    pub submissions: SizedCount,
    /// Number of launches.
    pub launches: u64,
    /// Copies, with the bytes that they write.
    pub copies: SizedCount,
    /// Fills, with the bytes that they write.
    pub fills: SizedCount,
    /// Uploads of words of push buffers, with the bytes that they write.
    pub uploads: SizedCount,
    /// What the recording lacks, in words.
    pub missing: Vec<String>,
    /// What the importer assumed, in words.
    pub assumed: Vec<String>,
}

impl DriverSummary {
    /// Counts what a driver trace holds. Takes time proportional to the number of objects, mappings and work.
    #[must_use]
    pub fn new(recording: &Recording, work: &DriverWork) -> Self {
        let trace = work.trace();
        let count_of = |kind| trace.objects().iter().filter(|o| o.kind == Some(kind)).count() as u64;
        let assumed = recording.metadata.findings.iter();
        let mut out = Self {
            requests: recording.events.calls.len() as u64,
            clients: count_of(ObjectKind::Client),
            objects: trace.objects().len() as u64,
            max_mapped_bytes: find_max_mapped_bytes(trace),
            channels: trace.channels().len() as u64,
            doorbells: trace.channels().iter().map(|c| c.doorbells).sum(),
            assumed: assumed
                .filter(|f| f.kind == FindingKind::Assumed)
                .map(|f| f.message.clone())
                .collect(),
            ..Self::default()
        };
        let buffers = trace.objects().iter().filter(|o| o.kind == Some(ObjectKind::Buffer));
        buffers.for_each(|o| out.add_buffer(o));
        for (submission, decoded) in work.submissions() {
            out.submissions.add(submission.bytes);
            decoded.work.iter().for_each(|w| out.add_work(w));
        }
        out.missing = list_missing(recording, trace);
        out
    }

    fn add_buffer(&mut self, object: &DriverObject) {
        let count = match object.flags & (ObjectRow::VIDEO_MEMORY | ObjectRow::HOST_MEMORY) {
            ObjectRow::VIDEO_MEMORY => &mut self.video_buffers,
            ObjectRow::HOST_MEMORY => &mut self.host_buffers,
            _ => &mut self.other_buffers,
        };
        count.add(object.bytes.unwrap_or(0));
    }

    fn add_work(&mut self, work: &GpuWork) {
        match *work {
            GpuWork::Launch(_) | GpuWork::Unreadable { .. } => self.launches += 1,
            GpuWork::Copy {
                from: Some(_), bytes, ..
            } => self.copies.add(bytes),
            GpuWork::Copy { from: None, bytes, .. } => self.fills.add(bytes),
            GpuWork::Upload { bytes, .. } => self.uploads.add(bytes),
            GpuWork::Semaphore { .. } | GpuWork::Order { .. } => {}
        }
    }
}

/// Returns the maximum number of bytes that are mapped at a time.
fn find_max_mapped_bytes(trace: &DriverTrace) -> Option<u64> {
    // At an event, a mapping replaces others: those end first.
    let mut changes: Vec<(u64, bool, u64)> = Vec::new();
    for m in trace.mappings() {
        changes.push((m.map_event, true, m.bytes));
        changes.extend(m.unmap_event.map(|e| (e, false, m.bytes)));
    }
    changes.sort_unstable();
    let (mut now, mut max) = (0u64, 0u64);
    for (_, is_map, bytes) in &changes {
        now = match is_map {
            true => now.saturating_add(*bytes),
            false => now.saturating_sub(*bytes),
        };
        max = max.max(now);
    }
    (!changes.is_empty()).then_some(max)
}

/// Lists what a recording lacks of what a driver trace may hold.
fn list_missing(recording: &Recording, trace: &DriverTrace) -> Vec<String> {
    let events = &recording.events;
    let metadata = recording.driver_trace();
    let mut missing = Vec::new();
    let mut add = |is_missing: bool, what: &str| missing.extend(is_missing.then(|| what.to_owned()));
    add(
        metadata.is_some_and(|d| d.driver_version.is_empty()),
        "the version of the driver",
    );
    add(
        metadata.is_some_and(|d| !d.has_arguments) && !events.calls.is_empty(),
        "the arguments of requests",
    );
    let has_buffers = trace.objects().iter().any(|o| o.kind == Some(ObjectKind::Buffer));
    let has_addresses = trace.placed_buffers().next().is_some();
    add(has_buffers && !has_addresses, "the addresses of buffers");
    add(trace.submissions().is_empty(), "ring entries");
    let has_entries = !trace.submissions().is_empty();
    add(
        has_entries && trace.channels().iter().all(|c| c.doorbells == 0),
        "doorbells",
    );
    let empty = events
        .ring_entries
        .iter()
        .filter(|r| r.bytes != 0 && r.pages_at == NO_CONTENT);
    let empty = empty.count();
    add(empty > 0, &format!("the commands of {empty} ring entries"));
    let has_results = events
        .saved_memory
        .iter()
        .any(|s| s.reason == SaveReason::Result as u32);
    add(has_entries && !has_results, "memory after the work");
    add(recording.span_ns() == 0 && events.len() > 1, "times");
    missing
}
