//! Sync objects and sync files. Work is complete when its submit returns: a fence exists and is signaled, or does not
//! exist yet.

use crate::Errno;
use crate::error::NodeError;
use crate::memory::{self, Inode};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of tracked sync files and exported sync objects.
const MAX_SYNC_FILES: usize = 1 << 16;
/// Maximum number of sync objects of one file.
const MAX_OBJECTS: usize = 1 << 16;

/// A sync object: whether it has a signaled fence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Syncobj(Arc<AtomicBool>);

impl Syncobj {
    pub(crate) fn signal(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub(crate) fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    pub(crate) fn is_signaled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The sync objects of one open file, by handle.
#[derive(Debug, Default)]
pub(crate) struct Syncobjs(BTreeMap<u32, Syncobj>);

impl Syncobjs {
    /// Adds a sync object with the lowest free handle.
    pub(crate) fn add(&mut self, object: Syncobj) -> Result<u32, Errno> {
        let handle = free_handle(&self.0).filter(|_| self.0.len() < MAX_OBJECTS);
        let handle = handle.ok_or(Errno::NOMEM)?;
        self.0.insert(handle, object);
        Ok(handle)
    }

    pub(crate) fn get(&self, handle: u32) -> Option<&Syncobj> {
        self.0.get(&handle)
    }

    pub(crate) fn remove(&mut self, handle: u32) -> Result<(), Errno> {
        self.0.remove(&handle).map(drop).ok_or(Errno::INVAL)
    }
}

/// Returns the lowest free handle, from 1 on.
pub(crate) fn free_handle<T>(taken: &BTreeMap<u32, T>) -> Option<u32> {
    let mut free = 1u32;
    for handle in taken.keys() {
        if *handle != free {
            break;
        }
        free = free.checked_add(1)?;
    }
    Some(free)
}

/// Files that programs got for fences and sync objects.
#[derive(Debug, Default)]
pub(crate) struct SyncFiles {
    fences: BTreeSet<Inode>,
    objects: BTreeMap<Inode, Syncobj>,
}

impl SyncFiles {
    /// Creates a file that is ready for reading, like that of a signaled fence.
    pub(crate) fn create_fence(&mut self) -> Result<OwnedFd, NodeError> {
        let (fd, inode) = memory::create_anonymous_file("sync file")?;
        if self.fences.len() >= MAX_SYNC_FILES {
            self.fences.pop_first();
        }
        self.fences.insert(inode);
        Ok(fd)
    }

    pub(crate) fn is_fence(&self, inode: Inode) -> bool {
        self.fences.contains(&inode)
    }

    /// Exports a sync object as a file.
    pub(crate) fn export(&mut self, object: Syncobj) -> Result<OwnedFd, NodeError> {
        let (fd, inode) = memory::create_anonymous_file("sync object")?;
        if self.objects.len() >= MAX_SYNC_FILES {
            self.objects.pop_first();
        }
        self.objects.insert(inode, object);
        Ok(fd)
    }

    pub(crate) fn import(&self, inode: Inode) -> Option<Syncobj> {
        self.objects.get(&inode).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_the_lowest_that_are_free() {
        let mut s = Syncobjs::default();
        let all: Vec<u32> = (0..3).map(|_| s.add(Syncobj::default()).unwrap()).collect();
        assert_eq!(all, [1, 2, 3]);
        s.remove(2).unwrap();
        assert_eq!(s.remove(2), Err(Errno::INVAL));
        assert_eq!(s.add(Syncobj::default()), Ok(2));
        assert_eq!(s.add(Syncobj::default()), Ok(4));
    }
}
