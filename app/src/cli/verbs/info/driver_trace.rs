//! The figures of `info` about a driver trace.

use super::row;
use crate::cli::out::format_count;
use crate::cli::source::SourceRecording;
use crate::cli::{Failure, progress_line};
use serde::Serialize;
use trace_core::driver_trace::{DriverSummary, SizedCount};
use trace_core::families::read_driver_work;

/// Counts of a driver trace. The engine has pairs of counts and sizes.
#[derive(Serialize)]
pub(super) struct DriverCounts {
    /// Version of the driver, as it states it; empty if the recording does not say.
    driver_version: String,
    /// Number of requests to the driver.
    requests: u64,
    /// Number of its clients, and of all its objects.
    clients: u64,
    objects: u64,
    /// Buffers by their memory: of the GPU, of the host, unknown.
    video_buffers: ItemCount,
    host_buffers: ItemCount,
    other_buffers: ItemCount,
    /// Maximum number of bytes that are mapped to GPU addresses at a time; `null` if no mappings are recorded.
    max_mapped_bytes: Option<u64>,
    /// Number of channels, and of doorbells.
    channels: u64,
    doorbells: u64,
    /// Ring entries, with the bytes of their commands.
    submissions: ItemCount,
    /// Number of compute launches.
    launches: u64,
    /// Copies, fills, and uploads of words of push buffers, with the bytes that they write.
    copies: ItemCount,
    fills: ItemCount,
    uploads: ItemCount,
    /// What the recording lacks, in words.
    missing: Vec<String>,
    /// What the importer assumed, in words.
    assumed: Vec<String>,
}

/// Number of items and their bytes.
#[derive(Serialize)]
pub(super) struct ItemCount {
    /// Number of items.
    count: u64,
    /// Number of bytes of those whose size is known.
    bytes: u64,
}

/// Counts what a driver trace holds; `None` for other recordings.
pub(super) fn count(opened: &SourceRecording) -> Result<Option<DriverCounts>, Failure> {
    let recording = &opened.recording;
    let Some(metadata) = recording.driver_trace() else {
        return Ok(None);
    };
    let work = progress_line::run_with_progress("decoding push buffers", |progress, _| {
        read_driver_work(recording, progress).map_err(|e| Failure::file(&opened.file, e))
    })?;
    let s = DriverSummary::new(recording, &work.unwrap_or_default());
    Ok(Some(DriverCounts {
        driver_version: metadata.driver_version.clone(),
        requests: s.requests,
        clients: s.clients,
        objects: s.objects,
        video_buffers: sized(s.video_buffers),
        host_buffers: sized(s.host_buffers),
        other_buffers: sized(s.other_buffers),
        max_mapped_bytes: s.max_mapped_bytes,
        channels: s.channels,
        doorbells: s.doorbells,
        submissions: sized(s.submissions),
        launches: s.launches,
        copies: sized(s.copies),
        fills: sized(s.fills),
        uploads: sized(s.uploads),
        missing: s.missing,
        assumed: s.assumed,
    }))
}

fn sized(count: SizedCount) -> ItemCount {
    ItemCount {
        count: count.count,
        bytes: count.bytes,
    }
}

/// Returns the rows of text.
pub(super) fn rows(d: &DriverCounts) -> Vec<Vec<String>> {
    let describe = |items: &ItemCount, noun: &str| {
        let count = format_count(items.count, noun);
        format!("{count}, {}", format_count(items.bytes, "byte"))
    };
    let version = match d.driver_version.as_str() {
        "" => "unknown".to_owned(),
        version => version.to_owned(),
    };
    let mut rows = vec![
        row("Version", version),
        row("Requests", d.requests.to_string()),
        row(
            "Objects",
            format!("{} of {}", d.objects, format_count(d.clients, "client")),
        ),
    ];
    let places = [
        ("video memory", &d.video_buffers),
        ("host memory", &d.host_buffers),
        ("unknown memory", &d.other_buffers),
    ];
    let buffers: Vec<String> = places
        .into_iter()
        .filter(|(_, b)| b.count > 0)
        .map(|(place, b)| format!("{} in {place}", describe(b, "buffer")))
        .collect();
    rows.push(row(
        "Buffers",
        if buffers.is_empty() {
            "none".to_owned()
        } else {
            buffers.join("; ")
        },
    ));
    if let Some(bytes) = d.max_mapped_bytes {
        rows.push(row(
            "Mapped",
            format!("at most {} at a time", format_count(bytes, "byte")),
        ));
    }
    rows.extend([
        row(
            "Channels",
            format!("{}, {}", d.channels, format_count(d.doorbells, "doorbell")),
        ),
        row(
            "Submissions",
            format!("{}, {}", d.submissions.count, format_count(d.submissions.bytes, "byte")),
        ),
        row("Launches", d.launches.to_string()),
        row(
            "Copies",
            format!("{}, {}", d.copies.count, format_count(d.copies.bytes, "byte")),
        ),
        row(
            "Fills",
            format!("{}, {}", d.fills.count, format_count(d.fills.bytes, "byte")),
        ),
        row(
            "Uploads",
            format!("{}, {}", d.uploads.count, format_count(d.uploads.bytes, "byte")),
        ),
    ]);
    if !d.missing.is_empty() {
        rows.push(row("Not recorded", d.missing.join(", ")));
    }
    rows.extend(d.assumed.iter().map(|text| row("Assumed", text.clone())));
    rows
}
