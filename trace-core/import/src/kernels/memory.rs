//! Memory by device address: named buffers, snapshots before and after launches, page tables for them.

use super::database::{Blob, Label, State};
use super::recording::{BufferDetails, RecordingBuilder, pieces};
use crate::generated_tables::{self, EVERY_RIGHT, PagePlacement};
use std::collections::BTreeMap;
use trace_core::finding::FindingKind;
use trace_core::recording::{Buffer, BufferRole, ElementType, FrameRole, GENERATED_TABLES, MmuFormat, Page, PageId};
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr};

impl RecordingBuilder<'_> {
    /// Names an allocation, once.
    pub(super) fn buffer(&mut self, at: GpuVa, blob: &Blob) {
        let bytes = blob.content.bytes;
        // A replay numbers copies of memory by the first use of a location; a buffer has the number of its first copy.
        let mut number = None;
        for (done, length) in pieces(&blob.content) {
            let count = self.copies.len();
            let n = *self.copies.entry((at + done, length)).or_insert(count);
            number.get_or_insert(n);
        }
        let Some(n) = number.filter(|_| self.placed.insert((at, bytes))) else {
            return;
        };
        let tag = blob.label.as_ref().map(|l| l.tag.trim()).filter(|t| !t.is_empty());
        let name = self.free_name(tag.map_or_else(|| format!("memory{n}"), str::to_owned));
        if let Some(l) = &blob.label {
            self.labels.push(describe_buffer(&name, l));
        }
        let fits = |e: &ElementType| bytes.is_multiple_of(e.bytes() as u64);
        let element = blob.label.as_ref().map(|l| l.element).filter(fits);
        self.buffers.push(Buffer {
            name,
            role: BufferRole::Shared,
            address_space: 0,
            va: at,
            bytes,
            element: element.unwrap_or(ElementType::U8),
        });
    }

    pub(super) fn free_name(&mut self, wanted: String) -> String {
        let mut name = wanted.clone();
        while self.names.contains_key(&name) {
            let n = self.names.entry(wanted.clone()).or_insert(2);
            name = format!("{wanted} ({n})");
            *n += 1;
        }
        self.names.insert(name.clone(), 2);
        name
    }

    /// Records memory as it is before the next event.
    pub(super) fn remember(&mut self, state: &State) {
        let mut changed = BTreeMap::new();
        // Pages that allocations share are assembled first and stored once.
        let mut shared: BTreeMap<u64, Box<Page>> = BTreeMap::new();
        let variables = state.variables.values().map(|v| (v.at.unwrap_or_default(), &v.content));
        for (at, content) in state.blobs.iter().map(|(at, b)| (*at, &b.content)).chain(variables) {
            for (n, id) in content.pages.iter().enumerate() {
                let frame = at.page() + n as u64;
                let part = content.part(n);
                if self.changes.is_empty() {
                    self.pages += 1;
                    self.zero_pages += u64::from(*id == PageId::ZERO);
                }
                if part.len() == PAGE_SIZE {
                    if self.frames.insert(frame, *id) != Some(*id) {
                        changed.insert(frame, *id);
                    }
                    continue;
                }
                let image = shared.entry(frame).or_insert_with(|| {
                    let known = self.frames.get(&frame).and_then(|id| self.store.image(*id));
                    Box::new(known.copied().unwrap_or([0; PAGE_SIZE]))
                });
                let own = self.store.image(*id).and_then(|own| own.get(part.clone()));
                if let (Some(to), Some(own)) = (image.get_mut(part), own) {
                    to.copy_from_slice(own);
                }
            }
        }
        for (frame, image) in shared {
            let id = self.store.add_page(&image);
            if self.frames.insert(frame, id) != Some(id) {
                changed.insert(frame, id);
            }
        }
        self.changes.push((self.events.len() as u64, changed));
    }

    /// Builds page tables for the known memory, and the snapshots. Returns the root.
    pub(super) fn tables(&mut self) -> PhysAddr {
        let placed = |frame: &u64| {
            let placed = PagePlacement {
                frame: *frame,
                rights: EVERY_RIGHT,
            };
            (*frame, placed)
        };
        let mapped: BTreeMap<u64, PagePlacement> = self.frames.keys().map(placed).collect();
        let made = generated_tables::generate(MmuFormat::Aarch64_4k, None, &mapped);
        let message = format!(
            "a database holds no page tables and no access rights: {} tables were made from its addresses, with all \
             rights",
            made.tables.len()
        );
        self.note(FindingKind::Assumed, GENERATED_TABLES, message);
        if made.left_out > 0 {
            let message = format!(
                "{} pages are missing in the page tables: there are too many",
                made.left_out
            );
            self.note(FindingKind::NotUsed, GENERATED_TABLES, message);
        }
        let tables = made.tables.iter();
        let tables: Vec<_> = tables
            .map(|(f, t)| (*f, self.store.add_page(t), FrameRole::Table))
            .collect();
        for (n, (event, changed)) in std::mem::take(&mut self.changes).into_iter().enumerate() {
            let data = changed.into_iter().map(|(f, id)| (f, id, FrameRole::Data));
            if n == 0 {
                self.store.add_snapshot(event, data.chain(tables.iter().copied()));
            } else {
                self.store.add_changes(event, data);
            }
        }
        made.root
    }

    /// Names variables, after allocations.
    pub(super) fn name_variables(&mut self) {
        let variables = self.variables.clone();
        for (name, (at, bytes)) in variables {
            if bytes > 0 && self.placed.insert((at, bytes)) {
                let name = self.free_name(name);
                self.buffers.push(Buffer {
                    name,
                    role: BufferRole::Shared,
                    address_space: 0,
                    va: at,
                    bytes,
                    element: ElementType::U8,
                });
            }
        }
    }
}

/// Formats the description of a buffer from its label.
fn describe_buffer(name: &str, label: &Label) -> BufferDetails {
    BufferDetails {
        name: name.to_owned(),
        element: label.element.name(),
        threshold: label.threshold,
        threshold_kind: label.threshold_kind,
        norm: label.norm,
    }
}
