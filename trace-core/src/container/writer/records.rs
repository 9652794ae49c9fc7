//! Pushing of data other than columns: metadata records, attached bytes, derived data.

use super::{Content, Encoding, Entry, Sink, Writer, content_digest, sections};
use crate::container::error::ContainerError;
use crate::container::layout::{MAX_EXTRAS, NAMED_BYTES, VERSION_WITHOUT_BLOCKS};
use crate::container::metadata_records::{self, MetadataTag, encode_metadata};
use crate::container::sections::NamedHeader;
use crate::encode::{self, MAX_RECORD};
use crate::recording::{Metadata, SectionKind, Snapshot};
use serde::Serialize;

/// Approximate maximum size of one list record, bytes; longer lists go into several.
const LIST_BYTES: usize = 8 << 20;

impl<S: Sink> Writer<S> {
    fn record<T: Serialize>(&mut self, kind: SectionKind, value: &T, rows: u64) -> Result<(), ContainerError> {
        let bytes =
            encode::to_bytes(value).map_err(|e| ContainerError::Refused(format!("the {} record: {e}", kind.name())))?;
        self.record_bytes(kind, &bytes, rows)
    }

    fn record_bytes(&mut self, kind: SectionKind, bytes: &[u8], rows: u64) -> Result<(), ContainerError> {
        let replaces = !sections::has_continued_rows(kind);
        let digest = self.digest_of(&[bytes]);
        let same = |e: &Entry| e.kind == kind as u32 && e.digest == digest;
        if replaces && self.entries.iter().any(same) {
            return Ok(());
        }
        let mut open = self.open()?;
        self.feed(&mut open, bytes)?;
        let entry = self.entry(kind, Encoding::Record, rows);
        self.close(open, entry)
    }

    /// Sets the metadata of the recording; replaces that of earlier commits.
    ///
    /// # Errors
    /// If it is longer than a record may be, or the sink cannot be written. In a file of version 1 also if it has
    /// records of unknown tags.
    pub fn metadata(&mut self, metadata: &Metadata) -> Result<(), ContainerError> {
        self.facts(metadata)?;
        self.metadata_records(metadata)
    }

    /// Sets the part of the metadata that the section `facts` holds: identity, spaces, buffers, regions, lost events,
    /// findings, page counts. The other metadata stays that of earlier commits.
    ///
    /// # Errors
    /// If it is longer than a record may be, or the sink cannot be written.
    pub fn facts(&mut self, metadata: &Metadata) -> Result<(), ContainerError> {
        self.record(SectionKind::Facts, metadata, 1)
    }

    /// Sets the metadata besides [`Writer::facts`]. Files of version 1 have it in extras.
    pub(in crate::container) fn metadata_records(&mut self, metadata: &Metadata) -> Result<(), ContainerError> {
        if self.version == VERSION_WITHOUT_BLOCKS {
            if let Some(unknown) = metadata.unknown_records.first() {
                let what = format!(
                    "a file of version 1 cannot hold the metadata record with tag {}",
                    unknown.tag
                );
                return Err(ContainerError::Refused(what));
            }
            for (tag, body) in metadata_records::bodies(metadata)? {
                self.named_extra(tag.name(), &body)?;
            }
            return Ok(());
        }
        let bytes = encode_metadata(metadata)?;
        // Earlier metadata, in either form, must not stay in effect.
        let has_earlier = self.entries.iter().any(|e| {
            let in_extra = || {
                e.name
                    .as_deref()
                    .is_some_and(|name| MetadataTag::from_name(name).is_some())
            };
            e.kind == SectionKind::Metadata as u32 || e.kind == SectionKind::Extra as u32 && in_extra()
        });
        if bytes.is_empty() && !has_earlier {
            return Ok(());
        }
        self.record_bytes(SectionKind::Metadata, &bytes, 1)
    }

    /// Adds snapshots after those pushed before. Parents are indices into all of them.
    ///
    /// # Errors
    /// If they break a rule of [`Snapshot`], one is longer than a record may be, or the sink cannot be written.
    pub fn snapshots(&mut self, snapshots: &[Snapshot]) -> Result<(), ContainerError> {
        for s in snapshots {
            self.snapshots.add(s).map_err(ContainerError::Refused)?;
        }
        for part in split(snapshots, |s| 32 + s.runs.len() * 21) {
            self.record(SectionKind::Snapshots, &part, part.len() as u64)?;
        }
        Ok(())
    }

    /// Adds texts of marks after those pushed before.
    ///
    /// # Errors
    /// If one is longer than a record may be, or the sink cannot be written.
    pub fn marks(&mut self, marks: &[String]) -> Result<(), ContainerError> {
        for part in split(marks, |m| 8 + m.len()) {
            self.record(SectionKind::Marks, &part, part.len() as u64)?;
        }
        Ok(())
    }

    /// Attaches bytes under a name; replaces bytes attached under it before.
    ///
    /// # Errors
    /// If the name is longer than 208 bytes or that of a [`MetadataTag`], or the sink cannot be written. Also if the
    /// bytes exceed a record, or 256 MiB together with those under other names.
    pub fn extra(&mut self, name: &str, bytes: &[u8]) -> Result<(), ContainerError> {
        if self.version != VERSION_WITHOUT_BLOCKS && MetadataTag::from_name(name).is_some() {
            let what = format!("the name {name:?} is reserved for metadata; set the field of the metadata");
            return Err(ContainerError::Refused(what));
        }
        self.named_extra(name, bytes)
    }

    fn named_extra(&mut self, name: &str, bytes: &[u8]) -> Result<(), ContainerError> {
        let others = self
            .entries
            .iter()
            .filter(|e| e.kind == SectionKind::Extra as u32 && e.name.as_deref() != Some(name))
            .fold(0u64, |sum, e| {
                sum.saturating_add(e.bytes.saturating_sub(NAMED_BYTES as u64))
            });
        if bytes.len() > MAX_RECORD || others.saturating_add(bytes.len() as u64) > MAX_EXTRAS {
            let what = format!(
                "{} bytes under the name {name:?} are too many; the maximum is {MAX_RECORD} for one name and \
                 {MAX_EXTRAS} in all",
                bytes.len()
            );
            return Err(ContainerError::Refused(what));
        }
        let head = NamedHeader {
            name: name.to_owned(),
            analysis_version: 0,
            made_from: [0; 32],
        };
        self.named(SectionKind::Extra, &head, bytes)
    }

    /// Stores data computed from everything pushed so far, under a name; replaces data stored under it before. Push
    /// it last: pages or events pushed later make it stale.
    ///
    /// # Errors
    /// If the name is longer than 208 bytes, or the sink cannot be written.
    pub fn derived(&mut self, name: &str, analysis_version: u32, bytes: &[u8]) -> Result<(), ContainerError> {
        let made_from = content_digest(self.version, self.entries.iter());
        let head = NamedHeader {
            name: name.to_owned(),
            analysis_version,
            made_from,
        };
        self.named(SectionKind::Derived, &head, bytes)
    }

    fn named(&mut self, kind: SectionKind, head: &NamedHeader, bytes: &[u8]) -> Result<(), ContainerError> {
        let first = head
            .encode()
            .ok_or_else(|| ContainerError::Refused(format!("the name {:?} is too long for a section", head.name)))?;
        if kind == SectionKind::Derived && self.can_pack(first.len() + bytes.len()) {
            return self.packed_named(head, &first, bytes);
        }
        let digest = self.digest_of(&[&first, bytes]);
        if self.entries.iter().any(|e| e.kind == kind as u32 && e.digest == digest) {
            return Ok(());
        }
        let mut open = self.open()?;
        self.feed(&mut open, &first)?;
        self.feed(&mut open, bytes)?;
        let mut entry = self.entry(kind, Encoding::Record, 1);
        entry.name = Some(head.name.clone());
        self.close(open, entry)
    }
}

impl<S: Sink> Writer<S> {
    /// Stores derived data in packed blocks, unless the file has the same.
    fn packed_named(&mut self, head: &NamedHeader, first: &[u8], bytes: &[u8]) -> Result<(), ContainerError> {
        let content = [first, bytes].concat();
        let (mut pieces, mut hasher) = (Vec::new(), blake3::Hasher::new());
        self.pack(&content, Content::Mixed, |packed| {
            hasher.update(&packed.table);
            pieces.push(packed);
        })?;
        let digest = *hasher.finalize().as_bytes();
        if self.entries.iter().any(|e| e.is_packed() && e.digest == digest) {
            return Ok(());
        }
        let mut entry = self.entry(SectionKind::Derived, Encoding::PackedRecord, 1);
        entry.name = Some(head.name.clone());
        self.close_packed(&pieces, content.len(), entry)
    }
}

/// Splits a list into parts of about [`LIST_BYTES`] bytes.
fn split<'a, T>(list: &'a [T], bytes: impl Fn(&T) -> usize + 'a) -> impl Iterator<Item = &'a [T]> {
    let mut rest = list;
    std::iter::from_fn(move || {
        let mut size = 0usize;
        let mut n = 0;
        for item in rest {
            size = size.saturating_add(bytes(item));
            if n > 0 && size > LIST_BYTES {
                break;
            }
            n += 1;
        }
        let (part, left) = rest.split_at_checked(n)?;
        rest = left;
        (n > 0).then_some(part)
    })
}
