//! The damaged blocks of a recording's file that were found so far.

use super::section_kind::SectionKind;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of damaged blocks that are listed; the others are counted.
pub const MAX_DAMAGED_BLOCKS: usize = 1000;

/// A block of a section that does not match its digest. None of its bytes are used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedBlock {
    /// Kind of the section.
    pub kind: SectionKind,
    /// Name of a named section.
    pub name: Option<String>,
    /// Number of the block in its section, from 0 on, or `None` if the section has one digest for all its bytes.
    pub block: Option<u64>,
    /// Unusable bytes of the file.
    pub bytes: Range<u64>,
    /// Unusable rows of the column, or elements of a list; empty for other sections.
    pub rows: Range<u64>,
    /// The reason, if it is not the block's own digest.
    pub reason: Option<String>,
}

impl DamagedBlock {
    /// Returns whether the block is part of the recording itself, not of derived data.
    #[must_use]
    pub fn is_content(&self) -> bool {
        self.kind != SectionKind::Derived
    }
}

impl fmt::Display for DamagedBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "section {}", self.kind.name())?;
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        if let Some(block) = self.block {
            write!(f, ", block {block}")?;
        }
        write!(f, " (bytes {:#x} to {:#x})", self.bytes.start, self.bytes.end)?;
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => f.write_str(" does not agree with its digest"),
        }
    }
}

#[derive(Default)]
struct Log {
    /// Whether a block of the recording's content is damaged.
    content: AtomicBool,
    /// Number of damaged blocks, listed or not.
    count: AtomicU64,
    blocks: Mutex<Vec<DamagedBlock>>,
}

/// The damaged blocks of a file found so far. Clones share one list, which only grows.
///
/// A block is verified against its digest at first use: unused blocks are in no list. [`find_damage`] verifies
/// everything.
///
/// [`find_damage`]: super::Recording::find_damage
#[derive(Clone, Default)]
pub struct Damage(Arc<Log>);

impl fmt::Debug for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Damage({} blocks)", self.count())
    }
}

impl Damage {
    /// Returns whether a block of the recording's content is damaged. Costs one load.
    #[must_use]
    pub fn has_damage(&self) -> bool {
        self.0.content.load(Ordering::Relaxed)
    }

    /// Returns the number of damaged blocks, those of derived data included.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.count.load(Ordering::Relaxed)
    }

    /// Returns the damaged blocks by file position: the first [`MAX_DAMAGED_BLOCKS`] that were found.
    #[must_use]
    pub fn blocks(&self) -> Vec<DamagedBlock> {
        let mut all = self.0.blocks.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.sort_by_key(|b| b.bytes.start);
        all
    }

    /// Returns the first damaged block of the recording's content by file position.
    #[must_use]
    pub fn first(&self) -> Option<DamagedBlock> {
        self.blocks().into_iter().find(DamagedBlock::is_content)
    }

    pub(crate) fn add(&self, block: DamagedBlock) {
        let content = block.is_content();
        let mut all = self.0.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        // Two threads may find the same block.
        if all.contains(&block) {
            return;
        }
        if all.len() < MAX_DAMAGED_BLOCKS {
            all.push(block);
        }
        self.0.count.fetch_add(1, Ordering::Relaxed);
        if content {
            self.0.content.store(true, Ordering::Relaxed);
        }
    }
}
