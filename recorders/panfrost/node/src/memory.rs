//! The memory file of an open file of the node: sparse, with one range for each buffer object.

use crate::error::NodeError;
use rustix::fs::{FallocateFlags, MemfdFlags, SeekFrom};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use trace_core::PAGE_SIZE;

/// First offset of ranges, as in Linux's drivers.
const START: u64 = 1 << 32;
/// Size of the file, bytes. Only accessed pages take memory.
const BYTES: u64 = 1 << 52;
/// Size of one read, bytes.
const CHUNK: u64 = 256 << 10;
/// Size of released ranges at which the unmapped ones are freed, bytes.
const FREE_UNMAPPED_AT_BYTES: u64 = 64 << 20;

/// Unique identity of a file on this machine: device and inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inode {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub number: u64,
}

impl Inode {
    /// Returns the identity of an open descriptor of this process, or `None` if there is none.
    #[must_use]
    pub fn from_descriptor(fd: i32) -> Option<Self> {
        let known = std::fs::metadata(format!("/proc/self/fd/{fd}")).ok()?;
        Some(Self {
            device: known.dev(),
            number: known.ino(),
        })
    }
}

/// Creates an empty anonymous file in memory and returns it with its identity.
pub(crate) fn create_anonymous_file(name: &str) -> Result<(OwnedFd, Inode), NodeError> {
    let failed = |source: io::Error| NodeError::System {
        what: "a file in memory",
        source,
    };
    let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    let known = rustix::fs::fstat(&fd).map_err(|e| failed(e.into()))?;
    let inode = Inode {
        device: known.st_dev,
        number: known.st_ino,
    };
    Ok((fd, inode))
}

/// The memory of the buffer objects of one open file.
#[derive(Debug)]
pub(crate) struct Pool {
    file: File,
    inode: Inode,
    next: u64,
    /// Released ranges that can still be mapped.
    idle: Vec<Range<u64>>,
    idle_bytes: u64,
}

impl Pool {
    pub(crate) fn new() -> Result<Self, NodeError> {
        let (fd, inode) = create_anonymous_file("panfrost render node")?;
        let file = File::from(fd);
        file.set_len(BYTES).map_err(|source| NodeError::System {
            what: "a file in memory",
            source,
        })?;
        Ok(Self {
            file,
            inode,
            next: START,
            idle: Vec::new(),
            idle_bytes: 0,
        })
    }

    pub(crate) fn inode(&self) -> Inode {
        self.inode
    }

    /// Returns the number of the node's own descriptor of the file.
    pub(crate) fn own_descriptor(&self) -> i32 {
        self.file.as_raw_fd()
    }

    /// Opens a descriptor for the program, with a position and flags of its own.
    pub(crate) fn reopen(&self, close_on_exec: bool) -> io::Result<OwnedFd> {
        let mut options = File::options();
        options.read(true).write(true);
        // The standard library sets close-on-exec; the program decides whether it wants it.
        let file = options
            .custom_flags(0)
            .open(format!("/proc/self/fd/{}", self.file.as_raw_fd()))?;
        if !close_on_exec {
            rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
        }
        Ok(file.into())
    }

    /// Allocates a range for an object, of whole pages and zero.
    pub(crate) fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let at = self.next;
        // A page stays free between two ranges, so that a mapping that is too long does not reach another object's.
        self.next = at.checked_add(bytes)?.checked_add(PAGE_SIZE as u64)?;
        (self.next <= BYTES).then_some(at)
    }

    /// Releases a range. Its memory stays as long as the program has it mapped.
    pub(crate) fn release(&mut self, range: Range<u64>) {
        self.idle_bytes += range.end.saturating_sub(range.start);
        self.idle.push(range);
        if self.idle_bytes >= FREE_UNMAPPED_AT_BYTES {
            self.free_unmapped();
        }
    }

    /// Frees the memory of released ranges that are not mapped.
    fn free_unmapped(&mut self) {
        let Some(mapped) = list_mapped_ranges(self.inode) else {
            return;
        };
        let overlaps = |r: &Range<u64>| mapped.iter().any(|m| m.start < r.end && r.start < m.end);
        let (kept, gone): (Vec<_>, Vec<_>) = std::mem::take(&mut self.idle).into_iter().partition(overlaps);
        self.idle = kept;
        self.idle_bytes = 0;
        for r in gone {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            // Memory that cannot be freed is unusable for others, but does no other harm.
            let _ = rustix::fs::fallocate(&self.file, flags, r.start, r.end - r.start);
        }
    }

    /// Returns the parts of a range that have memory, page by page; elsewhere it is zero.
    pub(crate) fn list_resident(&self, range: Range<u64>) -> io::Result<Vec<Range<u64>>> {
        let mut out = Vec::new();
        let mut at = range.start;
        while at < range.end {
            at = match rustix::fs::seek(&self.file, SeekFrom::Data(at)) {
                Ok(at) if at < range.end => at,
                Ok(_) | Err(crate::Errno::NXIO) => break,
                Err(e) => return Err(e.into()),
            };
            let end = rustix::fs::seek(&self.file, SeekFrom::Hole(at))?.min(range.end);
            let mut from = at;
            while from < end {
                let to = (from + CHUNK).min(end);
                out.push(from..to);
                from = to;
            }
            at = end;
        }
        Ok(out)
    }

    /// Fills `out` from an offset in the file.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    /// Writes bytes at an offset in the file.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }
}

/// A mapping of this process, by its host addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub addresses: Range<u64>,
    pub inode: Inode,
    pub offset: u64,
}

fn parse_mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let hex = |t: &str| u64::from_str_radix(t, 16).ok();
    let (from, to) = words.next()?.split_once('-')?;
    let offset = hex(words.nth(1)?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = rustix::fs::makedev(hex(major)? as u32, hex(minor)? as u32);
    Some(Mapping {
        addresses: hex(from)?..hex(to)?,
        inode: Inode {
            device,
            number: words.next()?.parse().ok()?,
        },
        offset,
    })
}

/// Returns all mappings of this process, or `None` if the system does not list them.
fn list_mappings() -> Option<Vec<Mapping>> {
    let text = std::fs::read_to_string("/proc/self/maps").ok()?;
    Some(text.lines().filter_map(parse_mapping).collect())
}

/// Returns the mapping that contains a host address.
pub(crate) fn find_mapping(address: u64) -> Option<Mapping> {
    list_mappings()?.into_iter().find(|m| m.addresses.contains(&address))
}

/// Returns the ranges of a file that this process has mapped.
fn list_mapped_ranges(inode: Inode) -> Option<Vec<Range<u64>>> {
    let own = list_mappings()?.into_iter().filter(|m| m.inode == inode);
    Some(
        own.map(|m| m.offset..m.offset.saturating_add(m.addresses.end - m.addresses.start))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_memory_is_distinguished_from_untouched() {
        let mut p = Pool::new().unwrap();
        let at = p.allocate(1 << 20).unwrap();
        assert_eq!(p.list_resident(at..at + (1 << 20)).unwrap(), []);
        p.write(at + 5 * 4096 + 7, &[1]).unwrap();
        let resident = p.list_resident(at..at + (1 << 20)).unwrap();
        assert_eq!((resident.len(), resident[0].clone()), (1, at + 5 * 4096..at + 6 * 4096));
        assert_eq!(p.list_resident(at..at + 4096).unwrap(), []);
        let other = p.allocate(4096).unwrap();
        assert!(
            other > at + (1 << 20),
            "the allocator leaves a free page between objects"
        );
    }

    #[test]
    fn released_memory_is_no_longer_resident() {
        let mut p = Pool::new().unwrap();
        let at = p.allocate(FREE_UNMAPPED_AT_BYTES).unwrap();
        p.write(at, &[1; 4096]).unwrap();
        p.release(at..at + FREE_UNMAPPED_AT_BYTES);
        assert_eq!(p.list_resident(at..at + FREE_UNMAPPED_AT_BYTES).unwrap(), []);
        assert!(p.idle.is_empty());
    }

    #[test]
    fn file_descriptors_are_identified_by_inode() {
        let p = Pool::new().unwrap();
        let again = p.reopen(true).unwrap();
        assert_eq!(Inode::from_descriptor(again.as_raw_fd()), Some(p.inode()));
        let other = Pool::new().unwrap();
        assert_ne!(other.inode(), p.inode());
        assert_eq!(Inode::from_descriptor(-1), None);
        assert_eq!(rustix::io::fcntl_getfd(&again).unwrap(), rustix::io::FdFlags::CLOEXEC);
        let inherited = p.reopen(false).unwrap();
        assert_eq!(
            rustix::io::fcntl_getfd(&inherited).unwrap(),
            rustix::io::FdFlags::empty()
        );
    }

    #[test]
    fn proc_maps_lines_are_parsed() {
        let line = "7f0c1c000000-7f0c1c021000 rw-s 100002000 00:01 1035 /memfd:panfrost render node (deleted)";
        let m = parse_mapping(line).unwrap();
        assert_eq!(m.addresses, 0x7f0c_1c00_0000..0x7f0c_1c02_1000);
        assert_eq!((m.offset, m.inode.number), (0x1_0000_2000, 1035));
        assert_eq!(parse_mapping(""), None);
        assert!(find_mapping(m_address()).is_some());
    }

    fn m_address() -> u64 {
        std::ptr::from_ref(&CHUNK) as u64
    }
}
