//! The references of the selection: every event that read or wrote it, and navigation between them.

use super::derived_data::DerivedData;
use super::history::Selection;
use super::xref::{AccessKind, MAX_XREFS, Xref};
use super::{Document, page_table_entries, xref};
use crate::theme::text;
use std::sync::Arc;
use trace_core::filter::Query;
use trace_core::progress::{Cancelled, Progress};
use trace_core::recording::Recording;
use trace_core::registers::RegisterAccess;

/// Maximum number of accesses that a search for a read skips, so that a frame stays short.
const FAR: usize = 1 << 16;
/// Maximum size of an access, bytes.
const MAX_ACCESS_BYTES: u64 = 8;

/// The target whose references are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XrefTarget {
    /// The accesses to a register, by offset.
    Register(u32),
    /// The references of bytes of GPU memory.
    Bytes {
        /// Index of the address space.
        space: u32,
        /// The first byte.
        va: u64,
        /// Number of bytes, at least 1.
        bytes: u64,
    },
    /// The writers of a page table entry, and jobs whose walk may have read it.
    Entry {
        /// Index of the address space.
        space: u32,
        /// An address that it translates.
        va: u64,
        /// Its level, 0 (top) to 3.
        level: u8,
    },
    /// Stores to and loads from bytes of a framebuffer.
    Framebuffer {
        /// Number of the space.
        space: u8,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
}

impl XrefTarget {
    /// Finds the references of the target. For a register the list is empty, because its accesses are already known.
    /// Takes time proportional to the size of the recording.
    ///
    /// # Errors
    /// [`Cancelled`] if the operation was cancelled.
    pub fn find_xrefs(
        self,
        recording: &Recording,
        derived: &DerivedData,
        event: u64,
        progress: &Progress,
    ) -> Result<Vec<Xref>, Cancelled> {
        match self {
            Self::Register(_) => Ok(Vec::new()),
            Self::Bytes { space, va, bytes } => {
                xref::find_xrefs(recording, derived, (space, va, bytes), event, progress)
            }
            Self::Entry { space, va, level } => {
                page_table_entries::find_xrefs(recording, derived, (space, va, level), progress)
            }
            Self::Framebuffer { space, offset, bytes } => {
                find_framebuffer_xrefs(recording, (space, offset, bytes), progress)
            }
        }
    }
}

/// A filter for the references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessFilter {
    /// All references.
    All,
    /// References after which the value may differ.
    Writes,
    /// References that may depend on the value.
    Reads,
}

/// The references of the target, unless the target is a register.
#[derive(Default)]
pub struct XrefTrail {
    /// The target, whose references are in `list`; `list` is `None` until they are known.
    of: Option<XrefTarget>,
    list: Option<Arc<Vec<Xref>>>,
    asked: Option<Progress>,
}

impl XrefTrail {
    /// Returns the references of the target, without those of only its page.
    fn own(&self) -> &[Xref] {
        let all = self.list.as_deref().map_or(&[][..], Vec::as_slice);
        let own = all.partition_point(|t| !t.page);
        all.get(..own).unwrap_or_default()
    }

    /// Returns the references of only its page: those with events first, in order.
    #[must_use]
    pub fn page_xrefs(&self) -> &[Xref] {
        let all = self.list.as_deref().map_or(&[][..], Vec::as_slice);
        all.get(self.own().len()..).unwrap_or_default()
    }

    /// Returns the references with events, in event order.
    #[must_use]
    pub fn event_xrefs(&self) -> &[Xref] {
        let all = self.own();
        // References without events come after those with events.
        let happened = all.partition_point(|t| t.event.is_some());
        all.get(..happened).unwrap_or_default()
    }

    /// Returns the references without events.
    #[must_use]
    pub fn static_xrefs(&self) -> &[Xref] {
        self.own().get(self.event_xrefs().len()..).unwrap_or_default()
    }

    /// Whether the search is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.list.is_some()
    }

    /// Whether a search is running.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.of.is_some() && self.list.is_none() && self.asked.is_some()
    }

    /// Stores that a search for a target is running, and cancels the previous one.
    pub fn set_pending(&mut self, followed: XrefTarget, progress: Progress) {
        self.clear();
        self.of = Some(followed);
        self.asked = Some(progress);
    }

    /// Stores the result of a search.
    pub fn set_result(&mut self, followed: XrefTarget, found: Result<Vec<Xref>, Cancelled>) {
        if self.of == Some(followed) {
            self.asked = None;
            if let Ok(list) = found {
                self.list = Some(Arc::new(list));
            }
        }
    }

    /// Clears the target and cancels its search.
    pub fn clear(&mut self) {
        if let Some(p) = self.asked.take() {
            p.cancel();
        }
        self.of = None;
        self.list = None;
    }

    /// Whether the references are those of this target.
    #[must_use]
    pub fn is_for(&self, followed: XrefTarget) -> bool {
        self.of == Some(followed)
    }
}

impl Document {
    /// Returns the target: the selected bytes or page table entry, or the current register.
    #[must_use]
    pub fn xref_target(&self) -> Option<XrefTarget> {
        match *self.selection() {
            Selection::Memory { space, va, bytes } => {
                // For more bytes than can be searched together, the first byte is the target.
                let bytes = if bytes > xref::MAX_BYTES { 1 } else { bytes.max(1) };
                Some(XrefTarget::Bytes { space, va, bytes })
            }
            Selection::Buffer(ref name) => {
                let b = self.buffers.get(name)?;
                Some(XrefTarget::Bytes {
                    space: b.address_space,
                    va: b.va.0,
                    bytes: 1,
                })
            }
            Selection::Entry { space, va, level } => Some(XrefTarget::Entry { space, va, level }),
            Selection::Framebuffer { space, offset, bytes } => Some(XrefTarget::Framebuffer { space, offset, bytes }),
            _ => self.current_register().map(XrefTarget::Register),
        }
    }

    /// Returns the display name of the target: a register, a location in a buffer, or an address.
    #[must_use]
    pub fn xref_target_name(&self) -> Option<String> {
        let to = |from: u64, bytes: u64| match bytes {
            1 => format!("{from:#x}"),
            n => format!("{from:#x}..{:#x}", from.saturating_add(n)),
        };
        Some(match self.xref_target()? {
            XrefTarget::Register(r) => self.derived.register_name(r),
            XrefTarget::Bytes { va, .. } if self.derived.api_trace.is_some() => {
                super::api_trace::format_address(&self.derived, va, self.current_event())
                    .unwrap_or_else(|| format!("{va:#x}"))
            }
            XrefTarget::Bytes { space, va, bytes } => {
                let holds = |b: &&trace_core::recording::Buffer| {
                    b.address_space == space && va.checked_sub(b.va.0).is_some_and(|by| by < b.bytes)
                };
                let buffers = self.recording.metadata.buffers.iter().filter(holds);
                match buffers.min_by_key(|b| b.bytes) {
                    Some(b) if va == b.va.0 && bytes == 1 => b.name.clone(),
                    Some(b) => format!("{} + {}", b.name, to(va - b.va.0, bytes)),
                    None => to(va, bytes),
                }
            }
            XrefTarget::Entry { va, level, .. } => format!("L{level} {va:#x}"),
            XrefTarget::Framebuffer { space, offset, bytes } => {
                let name = self.recording.metadata.spaces.get(usize::from(space)).map(|s| &*s.name);
                format!("{} + {}", name.unwrap_or("framebuffer"), to(offset, bytes))
            }
        })
    }

    /// Returns the next or previous reference, relative to the current event. A poll counts once.
    #[must_use]
    pub fn next_xref(&self, forward: bool, deeds: AccessFilter) -> Option<u64> {
        match self.xref_target()? {
            XrefTarget::Register(r) => self.along_register(r, forward, deeds),
            followed => {
                let list = Some(self.xrefs.event_xrefs()).filter(|_| self.xrefs.is_for(followed))?;
                let is_match = |t: &&Xref| match deeds {
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

    fn along_register(&self, register: u32, forward: bool, deeds: AccessFilter) -> Option<u64> {
        let accesses = &self.derived.registers.get(&register)?.accesses;
        let poll = self.derived.poll_at(self.current_event());
        let (first, last) = poll.map_or((self.current_event(), self.current_event()), |p| (p.first, p.last));
        let read = |a: &RegisterAccess| !a.write;
        if forward {
            return match deeds {
                AccessFilter::Writes => accesses.writes().get(accesses.writes().count_until(last)),
                AccessFilter::All => accesses.all().get(accesses.all().count_until(last)),
                AccessFilter::Reads => {
                    let mut behind = accesses.iter_from(accesses.all().count_until(last)).take(FAR);
                    behind.find(read).map(|a| a.event)
                }
            };
        }
        let to = match deeds {
            AccessFilter::Writes => accesses.writes().neighbors(first)[0],
            AccessFilter::All => accesses.all().neighbors(first)[0],
            AccessFilter::Reads => {
                let n = accesses.all().count_before(first);
                let before = accesses.iter_from(n.saturating_sub(FAR)).take(n.min(FAR));
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
        let last = |space, va| page_table_entries::last_level(&self.recording, space, va, self.current_event());
        let (space, va, level) = match self.selection() {
            Selection::Entry { space, va, level } => (*space, *va, level.checked_sub(1).or_else(|| last(*space, *va))?),
            Selection::Memory { space, va, .. } => (*space, *va, last(*space, *va)?),
            Selection::Buffer(name) => {
                let b = self.buffers.get(name)?;
                (b.address_space, b.va.0, last(b.address_space, b.va.0)?)
            }
            Selection::Job(j) => {
                let j = self.derived.jobs.get(*j as usize)?;
                let space = j.chain.space?;
                (space, j.head_va, last(space, j.head_va)?)
            }
            _ => return None,
        };
        Some(Selection::Entry { space, va, level })
    }

    /// Moves to the next or previous reference and keeps the target selected. Returns `false` if there is none.
    pub fn go_to_xref(&mut self, forward: bool, deeds: AccessFilter) -> bool {
        let (Some(to), Some(followed)) = (self.next_xref(forward, deeds), self.xref_target()) else {
            return false;
        };
        let selection = match followed {
            XrefTarget::Register(r) => Selection::Register(r),
            _ => self.selection().clone(),
        };
        self.go_with(to, selection);
        true
    }
}

/// Finds the accesses that load or store bytes of a space, in event order, up to a limit. Takes time proportional to
/// the number of events.
///
/// # Errors
/// [`Cancelled`] if the operation was cancelled.
fn find_framebuffer_xrefs(
    recording: &Recording,
    (space, offset, bytes): (u8, u64, u64),
    progress: &Progress,
) -> Result<Vec<Xref>, Cancelled> {
    let mut out = Vec::new();
    let Some(name) = recording.metadata.spaces.get(usize::from(space)).map(|s| &s.name) else {
        return Ok(out);
    };
    let end = offset.saturating_add(bytes.max(1));
    let from = offset.saturating_sub(MAX_ACCESS_BYTES - 1);
    let quoted = name.replace('\'', "\\'");
    let text = format!("space = '{quoted}' and offset >= {from:#x} and offset < {end:#x}");
    let query = Query::parse(&text).and_then(|q| q.compile(recording, None));
    let Ok(filter) = query else { return Ok(out) };
    for event in filter.select(&recording.events, progress)?.iter() {
        let access = usize::try_from(event).ok().and_then(|e| recording.events.access(e));
        let Some(a) = access.filter(|a| u64::from(a.offset) + u64::from(a.width) > offset) else {
            continue;
        };
        let (word, deed) = if a.write {
            ("stores", AccessKind::Write)
        } else {
            ("loads", AccessKind::Read)
        };
        let count = text::count_noun(u64::from(a.width), "byte", "bytes");
        out.push(Xref {
            page: false,
            kind: if a.write { "store" } else { "load" },
            description: format!("{word} {:#x}, {count} at {:#x}", a.value, a.offset),
            event: Some(event),
            access: deed,
            go: Selection::Framebuffer { space, offset, bytes },
        });
        if out.len() >= MAX_XREFS {
            break;
        }
    }
    Ok(out)
}
