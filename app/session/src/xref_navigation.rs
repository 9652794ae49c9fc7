//! Navigation between the references of the selection: every event that read or wrote it.

use crate::xref_trail::AccessFilter;
use crate::{Document, api_trace, text, xref_text};
use kinescope_files::scene::Selection;
use trace_core::recording::{Buffer, Recording};
use trace_core::registers::RegisterAccess;
use trace_core::xref::{self, Reference, ReferenceItem, XrefTarget};
use trace_core::{GpuVa, RegOffset};

/// Maximum number of accesses that a search for a read skips, so that a frame stays short.
const MAX_SKIPPED_ACCESSES: usize = 1 << 16;
/// Maximum number of selected bytes that are searched together. Of a larger selection, the first byte is searched.
const MAX_BYTES: u64 = 4096;

/// Returns the selection that shows a reference of a target.
#[must_use]
pub fn reference_selection(recording: &Recording, target: XrefTarget, reference: &Reference) -> Selection {
    let memory = |space: u32, va: GpuVa, bytes: u64| Selection::Memory { space, va, bytes };
    match reference.item {
        ReferenceItem::RegisterAccess(a) => Selection::Register(a.offset),
        ReferenceItem::AddressRegister { accessed: r, .. } | ReferenceItem::TableCommand { register: r, .. } => {
            Selection::Register(r)
        }
        ReferenceItem::Buffer { buffer, .. } => {
            let b = recording.metadata.buffers.get(buffer as usize);
            b.map_or(Selection::Event, |b| Selection::Buffer(b.name.clone()))
        }
        ReferenceItem::WalkStep { space, va, .. } => memory(space, va.align_down(4096), 4096),
        ReferenceItem::Mapping { space, va } => memory(space, va, 1),
        ReferenceItem::PageTable(t) => memory(t.space, t.va, 4096),
        ReferenceItem::Job { job, .. } | ReferenceItem::EntryJob { job, .. } => Selection::Job(job),
        ReferenceItem::Finding(index) => Selection::Finding(index),
        ReferenceItem::HostWrite { .. }
        | ReferenceItem::Call(_)
        | ReferenceItem::Launch { .. }
        | ReferenceItem::DeviceBuffer { .. }
        | ReferenceItem::Submitted { .. }
        | ReferenceItem::CallSubmission { .. }
        | ReferenceItem::SubmissionCall { .. }
        | ReferenceItem::DriverBuffer { .. }
        | ReferenceItem::SavedMemory { .. } => Selection::Event,
        ReferenceItem::Snapshot(_)
        | ReferenceItem::EntryWrite { .. }
        | ReferenceItem::FirstEntry(_)
        | ReferenceItem::EntryChange { .. }
        | ReferenceItem::OtherJobs { .. }
        | ReferenceItem::Pixel(_) => match target {
            XrefTarget::Bytes { space, va, bytes } => memory(space, va, bytes),
            XrefTarget::Entry { space, va, level } => Selection::Entry { space, va, level },
            XrefTarget::Framebuffer { space, offset, bytes } => Selection::Framebuffer { space, offset, bytes },
            XrefTarget::Register { register, .. } => Selection::Register(register),
            XrefTarget::Physical { .. } | XrefTarget::Event { .. } => Selection::Event,
        },
    }
}

impl Document {
    /// Returns the target: the selected bytes or page table entry, the current register, or the current event if it is a call
    /// with submissions or a submission of a call.
    #[must_use]
    pub fn xref_target(&self) -> Option<XrefTarget> {
        match *self.selection() {
            Selection::Memory { space, va, bytes } => {
                // For more bytes than can be searched together, the first byte is the target.
                // In an API trace too: launches are known to change single bytes.
                let is_first_only = bytes > MAX_BYTES || self.recording.api().is_some();
                let bytes = if is_first_only { 1 } else { bytes.max(1) };
                Some(XrefTarget::Bytes { space, va, bytes })
            }
            Selection::Buffer(ref name) => {
                let b = self.buffers.get(name)?;
                Some(XrefTarget::Bytes {
                    space: b.address_space,
                    va: b.va,
                    bytes: 1,
                })
            }
            Selection::Entry { space, va, level } => Some(XrefTarget::Entry { space, va, level }),
            Selection::Framebuffer { space, offset, bytes } => Some(XrefTarget::Framebuffer { space, offset, bytes }),
            _ => match self.current_register() {
                Some(register) => Some(XrefTarget::Register { register, bits: None }),
                None => self.joined_event().map(|event| XrefTarget::Event { event }),
            },
        }
    }

    /// Returns the current event if it is a call with submissions, or a submission of a call.
    fn joined_event(&self) -> Option<u64> {
        let event = self.current_event();
        (self.call_of_event().is_some() || self.submission_of_event().is_some()).then_some(event)
    }

    /// Returns the event of the call that made the submission of the current event: a launch of a graph, if only one is in
    /// the submission.
    #[must_use]
    pub fn call_of_event(&self) -> Option<u64> {
        let data = self.derived.driver.as_ref()?;
        let submission = data.submission_of(self.current_event())?;
        let call = data.call_of(submission)?;
        match data.kernels.launches_of(submission.index)[..] {
            [(_, launch)] => Some(launch),
            _ => Some(call),
        }
    }

    /// Returns the number of the submission that the call at the current event made: the one that starts its launch, or else
    /// the first one.
    #[must_use]
    pub fn submission_number_of_event(&self) -> Option<u32> {
        let (data, event) = (self.derived.driver.as_ref()?, self.current_event());
        let launched = data.kernels.find_launch(event).map(|(number, _)| number);
        launched.or_else(|| data.submissions_of(event).next().map(|s| s.index))
    }

    /// Returns the event of the submission of [`Self::submission_number_of_event`].
    #[must_use]
    pub fn submission_of_event(&self) -> Option<u64> {
        let number = self.submission_number_of_event()?;
        let all = self.derived.driver.as_ref()?.trace.submissions();
        all.get(number as usize).map(|s| s.event)
    }

    /// Returns the display name of the target: a register, a location in a buffer, or an address.
    #[must_use]
    pub fn xref_target_name(&self) -> Option<String> {
        let to = |from: u64, bytes: u64| match bytes {
            1 => format!("{from:#x}"),
            n => format!("{from:#x}..{:#x}", from.saturating_add(n)),
        };
        Some(match self.xref_target()? {
            XrefTarget::Register { register, .. } => self.derived.register_name(register),
            XrefTarget::Bytes { va, .. } if self.derived.api_trace.is_some() => {
                api_trace::format_address(&self.derived, va, self.current_event()).unwrap_or_else(|| va.to_string())
            }
            XrefTarget::Bytes { space, va, bytes } => {
                let holds =
                    |b: &&Buffer| b.address_space == space && va.offset_from(b.va).is_some_and(|by| by < b.bytes);
                let buffers = self.recording.metadata.buffers.iter().filter(holds);
                match buffers.min_by_key(|b| b.bytes) {
                    Some(b) if va == b.va && bytes == 1 => b.name.clone(),
                    Some(b) => format!("{} + {}", b.name, to(va - b.va, bytes)),
                    None => to(va.get(), bytes),
                }
            }
            XrefTarget::Physical { at, bytes } => to(at.get(), bytes),
            XrefTarget::Event { event } => self.name_joined_event(event),
            XrefTarget::Entry { va, level, .. } => format!("L{level} {va}"),
            XrefTarget::Framebuffer { space, offset, bytes } => {
                let name = self.recording.metadata.spaces.get(usize::from(space)).map(|s| &*s.name);
                format!("{} + {}", name.unwrap_or("framebuffer"), to(offset, bytes))
            }
        })
    }

    /// Names a call or a submission: `submission 12`, `scale`, `cuGraphLaunch`.
    fn name_joined_event(&self, event: u64) -> String {
        let submission = self.derived.driver.as_ref().and_then(|d| d.submission_of(event));
        match (submission, &self.derived.api_trace) {
            (Some(s), _) => format!("submission {}", s.index),
            (None, Some(a)) => api_trace::name_call(a, &self.recording, event),
            (None, None) => format!("event {}", text::count(event)),
        }
    }

    /// Describes a reference of a target.
    #[must_use]
    pub fn describe_reference(&self, target: XrefTarget, reference: &Reference) -> String {
        xref_text::describe(&self.recording, &*self.derived, target, reference)
    }

    /// Returns the next or previous reference, relative to the current event. A poll counts once.
    #[must_use]
    pub fn next_xref(&self, forward: bool, filter: AccessFilter) -> Option<u64> {
        match self.xref_target()? {
            XrefTarget::Register { register, .. } => self.along_register(register.get(), forward, filter),
            followed => {
                let list = Some(self.xrefs.event_xrefs()).filter(|_| self.xrefs.is_for(followed))?;
                let is_match = |t: &&Reference| match filter {
                    AccessFilter::All => true,
                    AccessFilter::Writes => t.access.may_write(),
                    AccessFilter::Reads => t.access.may_read(),
                };
                let now = self.current_event();
                let (before, behind) = (
                    list.partition_point(|t| t.event < Some(now)),
                    list.partition_point(|t| t.event <= Some(now)),
                );
                let found = if forward {
                    list.get(behind..).unwrap_or_default().iter().find(is_match)
                } else {
                    list.get(..before).unwrap_or_default().iter().rev().find(is_match)
                };
                found.and_then(|t| t.event)
            }
        }
    }

    fn along_register(&self, register: u32, forward: bool, filter: AccessFilter) -> Option<u64> {
        let accesses = &self.derived.registers.get(&RegOffset::new(register))?.accesses;
        let poll = self.derived.poll_at(self.current_event());
        let (first, last) = poll.map_or((self.current_event(), self.current_event()), |p| (p.first, p.last));
        let read = |a: &RegisterAccess| !a.write;
        if forward {
            return match filter {
                AccessFilter::Writes => accesses.writes().get(accesses.writes().count_until(last)),
                AccessFilter::All => accesses.all().get(accesses.all().count_until(last)),
                AccessFilter::Reads => {
                    let mut behind = accesses
                        .iter_from(accesses.all().count_until(last))
                        .take(MAX_SKIPPED_ACCESSES);
                    behind.find(read).map(|a| a.event)
                }
            };
        }
        let to = match filter {
            AccessFilter::Writes => accesses.writes().neighbors(first)[0],
            AccessFilter::All => accesses.all().neighbors(first)[0],
            AccessFilter::Reads => {
                let n = accesses.all().count_before(first);
                let before = accesses
                    .iter_from(n.saturating_sub(MAX_SKIPPED_ACCESSES))
                    .take(n.min(MAX_SKIPPED_ACCESSES));
                before.filter(read).last().map(|a| a.event)
            }
        }?;
        // The first read of a poll represents all of them.
        let begin = accesses.all().first().unwrap_or(0);
        Some(self.derived.poll_at(to).map_or(to, |p| p.first.max(begin)))
    }

    /// Moves to an event and keeps the selection, unless the selection is an event.
    pub fn go_keeping_target(&mut self, event: u64) {
        let selection = match self.selection() {
            s @ (Selection::Memory { .. }
            | Selection::Buffer(_)
            | Selection::Entry { .. }
            | Selection::Framebuffer { .. }
            | Selection::Register(_)) => s.clone(),
            _ => Selection::Event,
        };
        self.go_with(event, selection);
    }

    /// Returns the page table entry to select next: the last one on the walk of the selection, or the parent of the
    /// selected entry. After the root entry it is the last one again.
    #[must_use]
    pub fn next_entry(&self) -> Option<Selection> {
        let last = |space, va| xref::last_level(&self.recording, space, GpuVa::new(va), self.current_event());
        let (space, va, level) = match self.selection() {
            Selection::Entry { space, va, level } => {
                (*space, *va, level.checked_sub(1).or_else(|| last(*space, va.get()))?)
            }
            Selection::Memory { space, va, .. } => (*space, *va, last(*space, va.get())?),
            Selection::Buffer(name) => {
                let b = self.buffers.get(name)?;
                (b.address_space, b.va, last(b.address_space, b.va.get())?)
            }
            Selection::Job(j) => {
                let j = self.derived.jobs.get(*j as usize)?;
                let space = j.chain.space?;
                (space, j.head_va, last(space, j.head_va.get())?)
            }
            _ => return None,
        };
        Some(Selection::Entry { space, va, level })
    }

    /// Moves to the next or previous reference and keeps the target selected. Returns `false` if there is none.
    pub fn go_to_xref(&mut self, forward: bool, filter: AccessFilter) -> bool {
        let (Some(to), Some(followed)) = (self.next_xref(forward, filter), self.xref_target()) else {
            return false;
        };
        let selection = match followed {
            XrefTarget::Register { register, .. } => Selection::Register(register),
            _ => self.selection().clone(),
        };
        self.go_with(to, selection);
        true
    }
}
