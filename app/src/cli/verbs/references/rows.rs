//! The rows of `references`: targets and references, as text.

use super::{Row, TargetRow};
use crate::cli::format_hex;
use crate::cli::source::SourceRecording;
use kinescope_session::xref_text::{describe, item_label};
use trace_core::api_trace::{Argument, ReferenceKind};
use trace_core::filter::Jobs;
use trace_core::xref::{
    self, EntryReason, JobPart, LaunchReference, Reference, ReferenceItem, SubmittedPart, XrefData as _, XrefIndex,
    XrefTarget,
};
use trace_core::{GpuVa, RegOffset};

/// What the rows of the output need.
pub(super) struct RowContext<'a> {
    pub(super) opened: &'a SourceRecording,
    pub(super) index: &'a XrefIndex,
    pub(super) jobs: Jobs,
    pub(super) target: XrefTarget,
}

impl RowContext<'_> {
    fn register_name(&self, offset: u32) -> String {
        let register = self.opened.device.and_then(|d| d.map().at(RegOffset::new(offset)));
        register.map_or_else(|| format_hex(u64::from(offset)), |r| r.name.clone())
    }

    /// Returns the row of the target.
    pub(super) fn target_row(&self) -> TargetRow {
        let space_name = |space: u8| {
            let spaces = &self.opened.recording.metadata.spaces;
            spaces.get(usize::from(space)).map(|s| s.name.clone())
        };
        match self.target {
            XrefTarget::Register { register, bits } => TargetRow {
                kind: "register",
                register: Some(self.register_name(register.get())),
                offset: Some(register.to_string()),
                bits: bits.map(|(lo, hi)| [lo, hi]),
                ..TargetRow::default()
            },
            XrefTarget::Bytes { space, va, bytes } => TargetRow {
                kind: "memory",
                address_space: Some(space),
                va: Some(va.to_string()),
                bytes: Some(bytes),
                ..TargetRow::default()
            },
            XrefTarget::Physical { at, bytes } => TargetRow {
                kind: "physical",
                physical: Some(at.to_string()),
                bytes: Some(bytes),
                ..TargetRow::default()
            },
            XrefTarget::Entry { space, va, level } => TargetRow {
                kind: "page-table-entry",
                address_space: Some(space),
                va: Some(va.to_string()),
                level: Some(level),
                ..TargetRow::default()
            },
            XrefTarget::Event { event } => TargetRow {
                kind: "event",
                event: Some(event),
                ..TargetRow::default()
            },
            XrefTarget::Framebuffer { space, offset, bytes } => TargetRow {
                kind: "framebuffer",
                space: space_name(space),
                offset: Some(format_hex(offset)),
                bytes: Some(bytes),
                ..TargetRow::default()
            },
        }
    }

    /// Returns the row of a reference.
    pub(super) fn row(&self, r: &Reference) -> Row {
        let recording = &self.opened.recording;
        let job_of = |event: u64| {
            let access = usize::try_from(event).ok().and_then(|e| recording.events.access(e));
            // In a driver trace, the end of a job is unknown, and so is whether it runs at an event.
            let is_known = recording.driver_trace().is_none();
            is_known.then(|| self.jobs.job(event, access.as_ref())).flatten()
        };
        let mut row = Row {
            kind: r.item.name(),
            label: item_label(&r.item),
            access: r.access.name(),
            event: r.event,
            job: r.job().or_else(|| r.event.and_then(job_of)),
            launch: r.launch(),
            page_only: r.is_page_only,
            description: describe(recording, self.index, self.target, r),
            ..Row::default()
        };
        self.add_details(&r.item, &mut row);
        row
    }

    fn add_details(&self, item: &ReferenceItem, row: &mut Row) {
        let buffer = |index: u32| self.opened.recording.metadata.buffers.get(index as usize);
        let mut set_va = |space: Option<u32>, va: GpuVa| (row.address_space, row.va) = (space, Some(va.to_string()));
        match *item {
            ReferenceItem::RegisterAccess(a) => {
                row.register = Some(self.register_name(a.offset.get()));
                row.value = Some(format_hex(a.value));
            }
            ReferenceItem::AddressRegister { register, value, .. } => {
                row.register = Some(self.register_name(register.get()));
                row.value = Some(format_hex(value));
            }
            ReferenceItem::TableCommand { register, .. } => row.register = Some(self.register_name(register.get())),
            ReferenceItem::Buffer { buffer: index, offset } => {
                row.buffer = buffer(index).map(|b| b.name.clone());
                row.offset = Some(format_hex(offset));
            }
            ReferenceItem::WalkStep { space, va, step } => {
                set_va(Some(space), va);
                row.level = Some(step.level);
                row.value = Some(format_hex(step.raw));
            }
            ReferenceItem::Mapping { space, va } => set_va(Some(space), va),
            ReferenceItem::PageTable(t) => {
                set_va(Some(t.space), t.va);
                row.level = Some(t.level);
            }
            ReferenceItem::Job { position, part, .. } => {
                row.position = Some(position);
                self.add_job_part(part, row);
            }
            ReferenceItem::EntryWrite { raw } | ReferenceItem::EntryJob { raw, .. } => {
                row.value = raw.map(format_hex);
                if let ReferenceItem::EntryJob { reason, .. } = *item {
                    self.add_entry_reason(reason, row);
                }
            }
            ReferenceItem::FirstEntry(value) | ReferenceItem::EntryChange { after: value, .. } => {
                row.value = value.map(|v| format_hex(v.raw));
            }
            ReferenceItem::Pixel(a) => {
                row.offset = Some(format_hex(u64::from(a.offset.get())));
                row.value = Some(format_hex(a.value));
            }
            ReferenceItem::Launch { launch, how } => row.arguments = self.arguments(launch, how),
            ReferenceItem::DeviceBuffer { location, .. } => {
                let buffers = self.index.api_trace().map(|a| a.buffers());
                row.buffer = buffers.and_then(|b| Some(b.get(location.buffer)?.name.clone()));
                row.offset = Some(format_hex(location.offset));
            }
            ReferenceItem::Submitted { submission, word, part } => {
                row.submit = Some(submission);
                add_submitted_part(word, part, row);
            }
            ReferenceItem::CallSubmission { submission, word } | ReferenceItem::SubmissionCall { submission, word } => {
                row.submit = Some(submission);
                row.word = word;
            }
            ReferenceItem::DriverBuffer {
                action,
                object,
                handle,
                va,
                bytes,
                offset,
            } => {
                row.part = Some(action.name());
                row.buffer = Some(handle.map_or_else(|| format!("#{object}"), |h| format_hex(u64::from(h))));
                row.va = Some(va.to_string());
                row.bytes = Some(bytes);
                row.offset = Some(format_hex(offset));
            }
            ReferenceItem::SavedMemory { va, bytes, .. } => {
                row.va = Some(va.to_string());
                row.bytes = Some(bytes);
            }
            ReferenceItem::HostWrite { .. }
            | ReferenceItem::Snapshot(_)
            | ReferenceItem::Finding(_)
            | ReferenceItem::OtherJobs { .. }
            | ReferenceItem::Call(_) => {}
        }
    }

    fn add_job_part(&self, part: JobPart, row: &mut Row) {
        let (name, va) = match part {
            JobPart::Header(va) => ("header", va),
            JobPart::Start(va) => ("start", va),
            JobPart::Shader(va) => ("shader", va),
            JobPart::Pointer { word, to, through } => {
                row.word_va = Some(word.to_string());
                row.through_va = through.map(|p| p.to_string());
                ("pointer", to)
            }
        };
        (row.part, row.va) = (Some(name), Some(va.to_string()));
    }

    fn add_entry_reason(&self, reason: EntryReason, row: &mut Row) {
        let (name, va) = match reason {
            EntryReason::Header(va) => ("header", va),
            EntryReason::Shader(va) => ("shader", va),
            EntryReason::Pointer(va) => ("pointer", va),
            EntryReason::Buffer { pointer, buffer } => {
                let b = self.opened.recording.metadata.buffers.get(buffer as usize);
                row.buffer = b.map(|b| b.name.clone());
                ("pointer", pointer)
            }
        };
        (row.part, row.va) = (Some(name), Some(va.to_string()));
    }

    /// Returns the arguments of a launch that point into the buffer of the target.
    fn arguments(&self, launch: u32, how: LaunchReference) -> Option<Vec<String>> {
        let api_trace = self.index.api_trace()?;
        let XrefTarget::Bytes { va, .. } = self.target else {
            return None;
        };
        let event = api_trace.launches().get(launch as usize)?.event;
        let is_variable = matches!(
            how,
            LaunchReference::Possible(k) | LaunchReference::Unchanged(k) if k == ReferenceKind::Variable
        );
        let location = api_trace.buffers().locate(va, event).filter(|_| !is_variable)?;
        let all = xref::find_pointing_arguments(&self.opened.recording, api_trace, launch, location.buffer);
        Some(all.iter().map(Argument::label).collect())
    }
}

/// Adds the details of a part of a submission.
fn add_submitted_part(word: u32, part: SubmittedPart, row: &mut Row) {
    row.part = Some(part.name());
    row.va = Some(part.va().to_string());
    row.word = Some(word);
    match part {
        SubmittedPart::Commands { bytes, .. } => {
            row.word = None;
            row.bytes = Some(bytes);
        }
        SubmittedPart::CopySource { to, bytes, .. } => {
            row.other_va = Some(to.to_string());
            row.bytes = Some(bytes);
        }
        SubmittedPart::CopyDestination { from, bytes, .. } => {
            row.other_va = Some(from.to_string());
            row.bytes = Some(bytes);
        }
        SubmittedPart::Fill { bytes, .. } | SubmittedPart::Upload { bytes, .. } => row.bytes = Some(bytes),
        SubmittedPart::Release { payload, .. } | SubmittedPart::Acquire { payload, .. } => {
            row.value = Some(format_hex(payload));
        }
        SubmittedPart::ConstantBank { index, .. } => row.bank = Some(index),
        SubmittedPart::Parameter { offset, .. } => row.parameter_offset = Some(offset),
        SubmittedPart::Method { name, .. } => row.method = Some(name),
        SubmittedPart::Program(_) | SubmittedPart::Descriptor(_) => {}
    }
}
