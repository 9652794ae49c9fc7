//! References from jobs: headers and shaders at the target, and pointers of descriptors into it.

use super::data::{XrefData, XrefJob};
use super::pointers::find_pointer;
use super::reference::{AccessKind, JobPart, Reference, ReferenceItem};
use crate::GpuVa;
use crate::families::{JobForm, job_form};
use crate::memory::GpuMemoryView;
use crate::progress::{Cancelled, Progress};
use crate::recording::{BufferRole, Recording};
use std::ops::Range;

/// Number of bytes of a job header.
const HEADER_BYTES: u64 = 32;
/// Outside of buffers, an item that starts up to this many bytes before the target may contain it.
const MAX_ITEM_BYTES: u64 = 256;

/// Adds the references from jobs to bytes of an address space.
pub(super) fn find_job_references(
    recording: &Recording,
    data: &impl XrefData,
    (space, range): (u32, Range<u64>),
    progress: &Progress,
    out: &mut Vec<Reference>,
) -> Result<(), Cancelled> {
    let buffers = recording.metadata.buffers.iter();
    let buffer = buffers
        .filter(|b| b.address_space == space && b.va.get() <= range.start && range.start - b.va.get() < b.bytes)
        .min_by_key(|b| b.bytes);
    let access = match buffer.map(|b| b.role) {
        Some(BufferRole::Output) => AccessKind::Write,
        Some(BufferRole::Shared) | None => AccessKind::ReadOrWrite,
        Some(_) => AccessKind::Read,
    };
    let target = match buffer {
        Some(b) => b.va.get()..b.va.get().saturating_add(b.bytes),
        None => {
            let from = range.start.saturating_sub(MAX_ITEM_BYTES - 1);
            from..from.saturating_add(MAX_ITEM_BYTES).max(range.end)
        }
    };
    let query = JobQuery {
        recording,
        form: job_form(recording),
        space,
        pointed: target.start..target.end.min(range.end),
        range,
        access,
    };
    for job in data.jobs() {
        query.find(job, out);
        progress.advance(1)?;
    }
    Ok(())
}

/// The parameters of a search for references from jobs.
struct JobQuery<'r> {
    recording: &'r Recording,
    form: JobForm,
    space: u32,
    range: Range<u64>,
    /// Pointers into this range refer to the target.
    pointed: Range<u64>,
    /// Kind of access of a job with such a pointer.
    access: AccessKind,
}

impl JobQuery<'_> {
    fn find(&self, job: &impl XrefJob, out: &mut Vec<Reference>) {
        if job.space().is_some_and(|s| s != self.space) {
            return;
        }
        let memory = GpuMemoryView::at(self.recording, self.space, job.submit());
        // Only descriptors have a header; how long other work is, the recording does not show.
        let (head, head_bytes): (fn(GpuVa) -> JobPart, u64) = match self.form {
            JobForm::DescriptorChains => (JobPart::Header, HEADER_BYTES),
            _ => (JobPart::Start, 1),
        };
        let page = GpuVa::new(self.range.start).page();
        let descriptors = job.descriptors();
        let chain = descriptors.len() as u32;
        for (position, d) in (0u32..).zip(descriptors) {
            let item = |part| ReferenceItem::Job {
                job: job.index(),
                position,
                chain,
                part,
            };
            let new = |part, access| Reference::new(item(part), access, Some(job.submit()));
            if d.va.get() < self.range.end && self.range.start < d.va.get().saturating_add(head_bytes) {
                out.push(new(head(d.va), AccessKind::Read));
            } else if d.va.page() == page {
                out.push(new(head(d.va), AccessKind::AddressOf).page_only());
            }
            match d.shader {
                Some(s) if self.range.contains(&s.get()) => out.push(new(JobPart::Shader(s), AccessKind::Execute)),
                Some(s) if s.page() == page => {
                    out.push(new(JobPart::Shader(s), AccessKind::AddressOf).page_only());
                }
                _ => {}
            }
            let pointer = memory.and_then(|m| find_pointer(&m, d.va, page, |p| self.pointed.contains(&p)));
            if let Some((word, through)) = pointer {
                let part = JobPart::Pointer {
                    word: word.at,
                    to: GpuVa::new(word.value),
                    through,
                };
                out.push(new(part, self.access));
            }
        }
    }
}
