//! The stored form of a pyramid: derived data in a `.kine` file. Its columns are lent from the file, so opening costs
//! the same for every size. `docs/format.md` specifies the bytes.

use super::axis::{Axis, BLOCK};
use super::pyramid::{GROUP, Pyramid};
use crate::container::{ContainerError, Derived, KineFile};
use crate::recording::{Column, Recording};
use crate::registers::RegisterMap;
use bytemuck::Pod;

/// Name of the derived section with a [`Pyramid`].
pub const PYRAMID_SECTION: &str = "pyramid";
/// Changes when the same events give another [`Pyramid`], or other bytes.
pub const PYRAMID_VERSION: u32 = 1;

/// Maximum size of a pyramid that is verified against its digests when it is opened, bytes: a few milliseconds.
const CHECKED_AT_ONCE: usize = 8 << 20;
/// Number of bytes before the names of the lanes.
const HEAD_BYTES: usize = 24;
/// Size of a lane's name, bytes.
pub(super) const NAME_BYTES: usize = 32;

fn put<T: Pod>(out: &mut Vec<u8>, column: &Column<T>) {
    for part in column.slices(0..column.len()) {
        out.extend_from_slice(bytemuck::cast_slice(part));
    }
    out.resize(out.len().next_multiple_of(8), 0);
}

/// A reader of consecutive columns.
struct Reader<'a> {
    derived: &'a Derived,
    at: usize,
}

impl Reader<'_> {
    fn bytes(&mut self, len: usize) -> Option<&[u8]> {
        let end = self.at.checked_add(len)?;
        let bytes = self.derived.part(self.at..end)?;
        self.at = end;
        Some(bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(4)?.try_into().ok()?))
    }

    fn column<T: Pod>(&mut self, rows: usize) -> Option<Column<T>> {
        let column = self.derived.column(self.at, rows)?;
        let bytes = rows.checked_mul(size_of::<T>())?.checked_next_multiple_of(8)?;
        self.at = self.at.checked_add(bytes).filter(|at| *at <= self.derived.len())?;
        Some(column)
    }
}

impl Pyramid {
    /// Serialises the pyramid.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend((BLOCK as u32).to_le_bytes());
        out.extend((GROUP as u32).to_le_bytes());
        out.extend(self.axis().len().to_le_bytes());
        out.extend((self.lanes().len() as u32).to_le_bytes());
        out.extend([0; 4]);
        for name in self.lanes() {
            let mut bytes = [0; NAME_BYTES];
            let len = name.len().min(NAME_BYTES);
            if let (Some(to), Some(from)) = (bytes.get_mut(..len), name.as_bytes().get(..len)) {
                to.copy_from_slice(from);
            }
            out.extend(bytes);
        }
        put(&mut out, &self.axis().latest);
        put(&mut out, &self.axis().cut);
        put(&mut out, &self.coarse);
        put(&mut out, &self.fine);
        out
    }

    fn from_derived(derived: &Derived, recording: &Recording, map: Option<&RegisterMap>) -> Option<Self> {
        // Damaged counts are derived again. Larger pyramids are verified as they are used: the first frame does not
        // wait for them.
        if derived.len() <= CHECKED_AT_ONCE && derived.part(0..derived.len()).is_none() {
            return None;
        }
        let mut r = Reader { derived, at: 0 };
        let same = r.u32()? == BLOCK as u32 && r.u32()? == GROUP as u32;
        let events = u64::from_le_bytes(r.bytes(8)?.try_into().ok()?);
        let lanes = usize::try_from(r.u32()?).ok()?;
        r.bytes(HEAD_BYTES - 20)?;
        if !same || events != recording.events.len() as u64 || lanes >= usize::from(u8::MAX) {
            return None;
        }
        let mut names = Vec::with_capacity(lanes);
        for _ in 0..lanes {
            let name = r.bytes(NAME_BYTES)?;
            let len = name.iter().position(|b| *b == 0).unwrap_or(NAME_BYTES);
            names.push(std::str::from_utf8(name.get(..len)?).ok()?.to_owned());
        }
        // Earlier versions of the program had no lanes for calls, and named channels by their handles.
        if super::lanes::is_outdated(recording, &names) {
            return None;
        }
        let blocks = recording.events.len().div_ceil(BLOCK) + 1;
        let latest = r.column(blocks)?;
        let cut = r.column(blocks)?;
        let width = lanes.checked_mul(2)?;
        let coarse = r.column(blocks.div_ceil(GROUP).checked_mul(width)?)?;
        let fine = r.column(blocks.checked_mul(width)?)?;
        if r.at != derived.len() {
            return None;
        }
        let axis = Axis::from_blocks(recording.events.time.clone(), latest, cut)?;
        Self::assemble(recording, map, names, (fine, coarse), axis)
    }

    /// Returns the pyramid stored in a file, if it has this version and belongs to the file's last commit.
    ///
    /// # Errors
    ///
    /// When the section cannot be read.
    pub fn stored(
        file: &KineFile,
        recording: &Recording,
        map: Option<&RegisterMap>,
    ) -> Result<Option<Self>, ContainerError> {
        let derived = file.derived(PYRAMID_SECTION)?;
        Ok(derived
            .filter(|d| d.is_current && d.analysis_version == PYRAMID_VERSION)
            .and_then(|d| Self::from_derived(&d, recording, map)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::pyramid::tests::{map, recording};
    use super::*;
    use crate::container::{self, MemorySink, Writer};
    use crate::progress::Progress;
    use crate::timeline::AxisKind;

    fn file(recording: &Recording, bytes: &[u8]) -> KineFile {
        let mut w = Writer::begin(MemorySink::default()).unwrap();
        w.put(recording).unwrap();
        w.derived(PYRAMID_SECTION, PYRAMID_VERSION, bytes).unwrap();
        w.commit().unwrap();
        KineFile::from_bytes(w.into_sink().bytes).unwrap()
    }

    #[test]
    fn pyramid_round_trips_and_damage_never_panics() {
        let r = recording(1500);
        let p = Pyramid::build(&r, Some(map()), &Progress::new()).unwrap();
        let bytes = p.to_bytes();
        let stored = |bytes: &[u8]| Pyramid::stored(&file(&r, bytes), &r, Some(map())).unwrap();
        let back = stored(&bytes).unwrap();
        assert_eq!(back.lanes(), p.lanes());
        for kind in AxisKind::ALL {
            let all = (0.0, p.axis().end(kind));
            assert_eq!(back.axis().end(kind), p.axis().end(kind));
            assert_eq!(
                back.pixels(&r.events, kind, all, 333),
                p.pixels(&r.events, kind, all, 333)
            );
        }
        for cut in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
            assert!(stored(&bytes[..cut]).is_none(), "cut at {cut}");
        }
        assert!(stored(&[bytes.clone(), vec![0; 8]].concat()).is_none());
        for at in (0..bytes.len()).step_by(13) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            if let Some(p) = stored(&damaged) {
                for kind in AxisKind::ALL {
                    let view = p.pixels(&r.events, kind, (0.0, p.axis().end(kind)), 50);
                    assert_eq!(view.len(), 50);
                }
                for lane in 0..p.lanes().len() {
                    let near = p.nearest(&r.events, lane, 700);
                    assert!(near.is_none_or(|e| e < 1500));
                }
            }
        }
    }

    #[test]
    fn pyramid_of_other_events_is_ignored() {
        let (r, other) = (recording(300), recording(301));
        let p = Pyramid::build(&r, Some(map()), &Progress::new()).unwrap();
        let f = file(&other, &p.to_bytes());
        assert!(Pyramid::stored(&f, &other, Some(map())).unwrap().is_none());
        // The section exists, but has another version.
        let mut w = Writer::begin(MemorySink::default()).unwrap();
        w.put(&r).unwrap();
        w.derived(PYRAMID_SECTION, PYRAMID_VERSION + 1, &p.to_bytes()).unwrap();
        w.commit().unwrap();
        let f = KineFile::from_bytes(w.into_sink().bytes).unwrap();
        assert!(Pyramid::stored(&f, &r, Some(map())).unwrap().is_none());
    }

    #[test]
    fn written_recording_stores_derived_data() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.kine");
        let r = recording(900);
        crate::timeline::write(&r, &path, &Progress::new()).unwrap();
        let f = KineFile::open(&path).unwrap();
        let back = f.recording().unwrap();
        let map = RegisterMap::built_in_for(&r);
        assert!(Pyramid::stored(&f, &back, map).unwrap().is_some());
        assert!(crate::timeline::Timeline::read_from(&f).unwrap().is_some());
        assert_eq!(container::verify(&path).unwrap().findings, []);
    }
}
