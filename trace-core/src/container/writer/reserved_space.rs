//! Space reserved after the last commit, so that essential data can still be written when the disk is full.

use super::{KineFile, Source, Writer};
use crate::container::error::ContainerError;
use crate::container::sink::FileSink;
use crate::progress::Progress;
use std::os::unix::fs::FileExt as _;

/// The state from which a writer can continue, whatever happened since.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReservedSpace {
    /// Offset one past the last byte of the commit.
    end: u64,
    /// Number of bytes after it that the disk has allocated for the file.
    bytes: u64,
}

impl Writer<FileSink> {
    /// Reserves `bytes` bytes after the last commit; after [`Writer::roll_back`], the next writes use them. Call it
    /// after a commit, before anything else is pushed.
    ///
    /// # Errors
    /// If the disk has no space for it. Space that was reserved before stays reserved.
    pub fn reserve_space(&mut self, bytes: usize) -> Result<(), ContainerError> {
        let end = self.end;
        self.write(end, &vec![0; bytes])?;
        let bytes = bytes as u64;
        self.room = Some(ReservedSpace { end, bytes });
        Ok(())
    }

    /// Releases the reserved space at the end of the file.
    ///
    /// # Errors
    /// If the file cannot be truncated.
    pub fn release_space(&mut self) -> Result<(), ContainerError> {
        let end = self.end;
        self.room = None;
        self.guarded(|sink| sink.file().set_len(end))
    }

    /// Rolls back to the last commit with reserved space, whatever failed since. Later data is no longer in the file,
    /// and the next writes have space.
    ///
    /// # Errors
    /// If no space was reserved, or the file is not as expected.
    pub fn roll_back(&mut self) -> Result<(), ContainerError> {
        let Some(ReservedSpace { end, bytes }) = self.room else {
            return Err(ContainerError::Refused("no space is reserved in the file".to_owned()));
        };
        let io = |source| ContainerError::Io {
            place: self.place.clone(),
            source,
        };
        let file = self.sink.file().try_clone().map_err(io)?;
        // Nothing that was started since may look like a commit.
        file.set_len(end.saturating_add(bytes)).map_err(io)?;
        let length =
            usize::try_from(bytes).map_err(|_| ContainerError::Refused("too much space is reserved".to_owned()))?;
        file.write_all_at(&vec![0; length], end).map_err(io)?;
        let kine = KineFile::from_source(Source::from_file(file, self.place.clone())?, &Progress::new())?;
        let (_, snapshots) = kine.snapshots()?;
        self.listed = kine.entries.len();
        self.entries = kine.entries;
        self.rows = kine.rows;
        self.snapshots = snapshots;
        self.previous = kine.state.record.at;
        self.sequence = kine.state.record.sequence;
        self.tables = kine.state.tables;
        self.end = end;
        self.progress = Progress::new();
        self.poisoned = false;
        let packed = self.entries.iter().filter(|e| e.is_packed());
        self.packed_bytes = packed.fold(0u64, |sum, e| sum.saturating_add(e.bytes));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Metadata, SectionKind};

    #[test]
    fn writer_reverts_to_the_commit_before_its_reserved_space() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("room.kine");
        let push = |w: &mut Writer<FileSink>, rows: u64| {
            w.push(SectionKind::EventKind, &vec![9u8; rows as usize]).unwrap();
            w.push_constant(SectionKind::EventSpace, 0u8, rows).unwrap();
            w.push(SectionKind::EventTime, &vec![1u64; rows as usize]).unwrap();
            w.push(SectionKind::EventThread, &vec![1u32; rows as usize]).unwrap();
            w.push(SectionKind::EventPayload, &vec![0u32; rows as usize]).unwrap();
        };
        let mut w = Writer::create(&path).unwrap();
        assert!(w.roll_back().is_err(), "a writer without reserved space rolls back");
        push(&mut w, 3);
        w.commit().unwrap();
        w.reserve_space(64 << 10).unwrap();
        // `roll_back` reverts the second commit, which has no reserved space, and the uncommitted data.
        push(&mut w, 5);
        w.commit().unwrap();
        push(&mut w, 100_000);
        w.poisoned = true;
        w.roll_back().unwrap();
        assert_eq!(w.rows(SectionKind::EventKind), 3);
        push(&mut w, 2);
        w.metadata(&Metadata::default()).unwrap();
        let end = w.commit().unwrap().end;
        w.release_space().unwrap();
        drop(w);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), end);
        let w = Writer::append(&path).unwrap();
        assert_eq!(w.rows(SectionKind::EventKind), 5);
    }
}
