//! The spaces of the files that a program maps, for both forms of mmt logs. A space is a file, and offsets are file
//! offsets: a file that is mapped twice is one space.

use std::collections::BTreeMap;
use trace_core::recording::{Space, SpaceKind};

/// Maximum number of spaces of a recording: an event names its space in a byte.
const MAX_SPACES: usize = 255;
/// Maximum number of mapped ranges and open files that are kept at a time.
const MAX_KEPT: usize = 1 << 16;

/// The target of accesses to a space.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SpaceKey {
    /// A file, by its path.
    File(String),
    /// A range mapped from a file that the log does not name.
    Unnamed,
    /// A range whose mapping is not in the log, by its number.
    Range(u32),
    /// Memory of the program.
    Memory,
}

/// A mapped range.
#[derive(Clone, Debug)]
struct Range {
    of: SpaceKey,
    /// Offset in the file of its first byte.
    offset: u64,
    start: u64,
    bytes: u64,
    /// Upper half of the offset and number of the space of the previous access.
    last: Option<(u64, u8)>,
}

/// Known files, ranges and spaces so far.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    /// Path by descriptor.
    files: BTreeMap<u32, String>,
    ranges: BTreeMap<u32, Range>,
    /// Numbers of the ranges by their first address.
    by_start: BTreeMap<u64, u32>,
    /// Number of each space by its target and the upper half of the offset.
    numbers: BTreeMap<(SpaceKey, u64), u8>,
    pub(crate) all: Vec<Space>,
    /// Number of ranges and files that were dropped because there are too many.
    pub(crate) not_kept: u64,
    /// Whether an access went to a range that is not in the log.
    pub(crate) unknown_range: bool,
    /// Whether a range belongs to a file that the log does not name.
    pub(crate) unnamed: bool,
}

/// The space and offset of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceOffset {
    pub(crate) space: u8,
    pub(crate) offset: u32,
}

impl Spaces {
    /// Records that a file was opened.
    pub(crate) fn open(&mut self, fd: u32, path: &str) {
        if self.files.len() >= MAX_KEPT && !self.files.contains_key(&fd) {
            self.not_kept += 1;
            return;
        }
        self.files.insert(fd, path.to_owned());
    }

    /// Records that a descriptor was copied.
    pub(crate) fn duplicate(&mut self, fd: u32, other: u32) {
        if let Some(path) = self.files.get(&fd).cloned() {
            self.open(other, &path);
        }
    }

    /// Returns the path of a descriptor.
    pub(crate) fn path(&self, fd: u32) -> Option<&str> {
        self.files.get(&fd).map(String::as_str)
    }

    /// Records that a range was mapped from an offset of a file.
    pub(crate) fn map(&mut self, id: u32, fd: Option<u32>, offset: u64, start: u64, bytes: u64) {
        if self.ranges.len() >= MAX_KEPT && !self.ranges.contains_key(&id) {
            self.not_kept += 1;
            return;
        }
        let path = fd.and_then(|fd| self.files.get(&fd)).cloned();
        self.unnamed |= path.is_none();
        let of = path.map_or(SpaceKey::Unnamed, SpaceKey::File);
        let range = Range {
            of,
            offset,
            start,
            bytes,
            last: None,
        };
        self.unmap(id);
        self.ranges.insert(id, range);
        self.by_start.insert(start, id);
    }

    /// Records that a range was moved.
    pub(crate) fn remap(&mut self, id: u32, start: u64, bytes: u64) {
        if let Some(range) = self.ranges.get(&id) {
            let range = Range {
                start,
                bytes,
                last: None,
                ..range.clone()
            };
            self.unmap(id);
            self.ranges.insert(id, range);
            self.by_start.insert(start, id);
        }
    }

    /// Records that a range was unmapped.
    pub(crate) fn unmap(&mut self, id: u32) {
        if let Some(range) = self.ranges.remove(&id)
            && self.by_start.get(&range.start) == Some(&id)
        {
            self.by_start.remove(&range.start);
        }
    }

    /// Returns the location of an access by range number, or `None` if there are too many spaces.
    pub(crate) fn in_range(&mut self, id: u32, offset: u64) -> Option<SpaceOffset> {
        let Some(range) = self.ranges.get(&id) else {
            self.unknown_range = true;
            return self.place(SpaceKey::Range(id), offset, 0);
        };
        let at = range.offset.saturating_add(offset);
        if let Some((_, space)) = range.last.filter(|(upper, _)| *upper == at >> 32) {
            return Some(SpaceOffset {
                space,
                offset: at as u32,
            });
        }
        let (of, end) = (range.of.clone(), range.offset.saturating_add(range.bytes));
        let found = self.place(of, at, end)?;
        if let Some(range) = self.ranges.get_mut(&id) {
            range.last = Some((at >> 32, found.space));
        }
        Some(found)
    }

    /// Returns the location of an access by address.
    pub(crate) fn at_address(&mut self, address: u64) -> Option<SpaceOffset> {
        let before = self.by_start.range(..=address).next_back().map(|(_, id)| *id);
        let range = before.and_then(|id| Some((id, self.ranges.get(&id)?)));
        let inside = range.and_then(|(id, r)| Some((id, address.checked_sub(r.start).filter(|o| *o < r.bytes)?)));
        match inside {
            Some((id, offset)) => self.in_range(id, offset),
            None => self.place(SpaceKey::Memory, address, 0),
        }
    }

    /// Extends the space of a location by `bytes` bytes.
    pub(crate) fn extend(&mut self, at: SpaceOffset, bytes: u64) {
        if let Some(space) = self.all.get_mut(usize::from(at.space)) {
            space.bytes = space.bytes.max((u64::from(at.offset) + bytes).min(1 << 32));
        }
    }

    /// Returns the space and offset of a location; the space is extended to `end`.
    fn place(&mut self, of: SpaceKey, at: u64, end: u64) -> Option<SpaceOffset> {
        let upper = at >> 32;
        let number = match self.numbers.get(&(of.clone(), upper)) {
            Some(number) => *number,
            None => {
                let number = u8::try_from(self.all.len())
                    .ok()
                    .filter(|_| self.all.len() < MAX_SPACES)?;
                let kind = match of {
                    SpaceKey::Memory => SpaceKind::Memory,
                    _ => SpaceKind::Registers,
                };
                let mut name = name(&of, upper);
                while self.all.iter().any(|s| s.name == name) {
                    name.push('\'');
                }
                self.all.push(Space { name, kind, bytes: 0 });
                self.numbers.insert((of, upper), number);
                number
            }
        };
        let space = self.all.get_mut(usize::from(number))?;
        let last = match end.checked_sub(upper << 32) {
            Some(bytes) => bytes.min(1 << 32),
            None => 0,
        };
        let offset = at as u32;
        space.bytes = space.bytes.max(last);
        Some(SpaceOffset { space: number, offset })
    }
}

/// Returns the name of a space: the path as it was opened, and the offset of its start.
fn name(of: &SpaceKey, upper: u64) -> String {
    let name = match of {
        SpaceKey::File(path) if path.is_empty() => "file".to_owned(),
        SpaceKey::File(path) => path.clone(),
        SpaceKey::Unnamed => "mapped".to_owned(),
        SpaceKey::Range(id) => format!("range {id}"),
        SpaceKey::Memory => "memory".to_owned(),
    };
    match upper {
        0 => name,
        _ => format!("{name}+{:#x}", upper << 32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_one_file_share_a_space() {
        let mut s = Spaces::default();
        s.open(4, "/dev/nvidia0");
        s.duplicate(4, 9);
        s.map(1, Some(4), 0xf600_0000, 0x1000, 0x1000);
        s.map(2, Some(9), 0xf600_0000, 0x9000, 0x2000);
        let first = s.in_range(1, 0x10).unwrap();
        assert_eq!((first, s.in_range(2, 0x10).unwrap()), (first, first));
        assert_eq!((s.all[0].name.as_str(), s.all[0].bytes), ("/dev/nvidia0", 0xf600_2000));
        // The upper half of its offset is a space of its own, and so is another file.
        s.map(3, Some(4), 0x38_0000_0000, 0x2_0000, 0x1000);
        assert_eq!(s.in_range(3, 4), Some(SpaceOffset { space: 1, offset: 4 }));
        assert_eq!(s.all[1].name, "/dev/nvidia0+0x3800000000");
        s.map(4, Some(77), 0, 0x3_0000, 0x1000);
        assert!(s.unnamed);
        assert_eq!(s.in_range(4, 0).unwrap().space, 2);
        assert!(!s.unknown_range);
        s.unmap(1);
        assert_eq!(s.in_range(1, 0x10), Some(SpaceOffset { space: 3, offset: 0x10 }));
        assert!(s.unknown_range && s.all[3].name == "range 1");
    }

    #[test]
    fn unmapped_addresses_belong_to_memory() {
        let mut s = Spaces::default();
        s.open(4, "bar");
        s.map(1, Some(4), 0x100, 0x7000_0000_0000, 0x1000);
        assert_eq!(s.at_address(0x7000_0000_0008).unwrap().offset, 0x108);
        let memory = s.at_address(0x7000_0000_1000).unwrap();
        assert_eq!((memory.offset, s.all[1].kind), (0x1000, SpaceKind::Memory));
        assert_eq!(s.all[1].name, "memory+0x700000000000");
        s.remap(1, 0x5000, 0x1000);
        assert_eq!(
            s.at_address(0x5004).unwrap(),
            SpaceOffset {
                space: 0,
                offset: 0x104
            }
        );
        assert!(s.at_address(u64::MAX).is_some());
    }

    #[test]
    fn number_of_spaces_is_limited() {
        let mut s = Spaces::default();
        let found = (0..1000).filter(|n| s.in_range(*n, 0).is_some()).count();
        assert_eq!((found, s.all.len()), (MAX_SPACES, MAX_SPACES));
    }
}
