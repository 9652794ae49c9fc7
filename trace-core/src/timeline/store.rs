//! The stored form of a timeline: derived data in a `.kine` file, five tables of 64-bit words.

use super::{
    Gap, InferredInterrupt, JobSpan, PYRAMID_SECTION, PYRAMID_VERSION, Phase, PhaseName, Poll, Pyramid, Timeline,
};
use crate::container::{self, ContainerError, Derived, KineFile, Sink, Writer};
use crate::progress::{Cancelled, Progress};
use crate::recording::{InterruptLine, Recording};
use crate::registers::RegisterMap;
use crate::{GpuVa, RegOffset};
use std::path::Path;

/// Name of the derived section with a [`Timeline`].
pub const SECTION: &str = "timeline";

/// Stands for a missing event or time.
const NONE: u64 = u64::MAX;

/// Rows of one table as words.
trait Row<const N: usize>: Sized {
    fn words(&self) -> [u64; N];
    fn from_words(words: [u64; N]) -> Option<Self>;
}

impl Row<6> for Poll {
    fn words(&self) -> [u64; 6] {
        [
            self.first,
            self.last,
            self.reads,
            u64::from(self.offset.get()),
            self.value_at_end,
            u64::from(self.group),
        ]
    }

    fn from_words([first, last, reads, offset, value_at_end, group]: [u64; 6]) -> Option<Self> {
        let offset = u32::try_from(offset).ok()?;
        (group < 2).then_some(Self {
            first,
            last,
            reads,
            offset: RegOffset::new(offset),
            value_at_end,
            group: group == 1,
        })
    }
}

impl Row<4> for InferredInterrupt {
    fn words(&self) -> [u64; 4] {
        [self.event, self.last, self.line as u64, self.status]
    }

    fn from_words([event, last, line, status]: [u64; 4]) -> Option<Self> {
        let line = InterruptLine::from_raw(u32::try_from(line).ok()?)?;
        Some(Self {
            event,
            last,
            line,
            status,
        })
    }
}

impl Row<8> for JobSpan {
    fn words(&self) -> [u64; 8] {
        [
            u64::from(self.index),
            u64::from(self.slot),
            self.submit_event,
            self.done_event.unwrap_or(NONE),
            self.head_va.get(),
            self.submit_ns,
            self.done_ns.unwrap_or(NONE),
            u64::from(self.failed),
        ]
    }

    fn from_words([index, slot, submit_event, done, head, submit_ns, done_ns, failed]: [u64; 8]) -> Option<Self> {
        Some(Self {
            index: u32::try_from(index).ok()?,
            slot: u8::try_from(slot).ok()?,
            submit_event,
            done_event: Some(done).filter(|d| *d != NONE),
            head_va: GpuVa::new(head),
            submit_ns,
            done_ns: Some(done_ns).filter(|d| done != NONE && *d != NONE),
            failed: failed == 1,
        })
    }
}

impl Row<2> for Gap {
    fn words(&self) -> [u64; 2] {
        [self.after_event, self.ns]
    }

    fn from_words([after_event, ns]: [u64; 2]) -> Option<Self> {
        Some(Self { after_event, ns })
    }
}

impl Row<3> for Phase {
    fn words(&self) -> [u64; 3] {
        [self.name as u64, self.first, self.last]
    }

    fn from_words([name, first, last]: [u64; 3]) -> Option<Self> {
        let all = [
            PhaseName::Boot,
            PhaseName::Setup,
            PhaseName::Compute,
            PhaseName::Teardown,
        ];
        let name = *all.get(usize::try_from(name).ok()?)?;
        Some(Self { name, first, last })
    }
}

fn put<const N: usize, R: Row<N>>(out: &mut Vec<u8>, rows: &[R]) {
    out.extend((rows.len() as u64).to_le_bytes());
    for row in rows {
        for word in row.words() {
            out.extend(word.to_le_bytes());
        }
    }
}

fn take<const N: usize, R: Row<N>>(words: &mut std::slice::Iter<'_, [u8; 8]>) -> Option<Vec<R>> {
    let count = usize::try_from(u64::from_le_bytes(*words.next()?)).ok()?;
    if count.checked_mul(N)? > words.len() {
        return None;
    }
    let mut rows = Vec::with_capacity(count);
    for _ in 0..count {
        let mut row = [0; N];
        for word in &mut row {
            *word = u64::from_le_bytes(*words.next()?);
        }
        rows.push(R::from_words(row)?);
    }
    Some(rows)
}

impl Timeline {
    /// Serialises the timeline.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = 5
            + self.polls.len() * 6
            + self.interrupts.len() * 4
            + self.jobs.len() * 8
            + self.gaps.len() * 2
            + self.phases.len() * 3;
        let mut out = Vec::with_capacity(words * 8);
        put(&mut out, &self.polls);
        put(&mut out, &self.interrupts);
        put(&mut out, &self.jobs);
        put(&mut out, &self.gaps);
        put(&mut out, &self.phases);
        out
    }

    /// Parses a timeline. Returns `None` if the bytes hold none, and it must be derived again.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut words = words.iter();
        let timeline = Self {
            polls: take(&mut words)?,
            interrupts: take(&mut words)?,
            jobs: take(&mut words)?,
            gaps: take(&mut words)?,
            phases: take(&mut words)?,
        };
        (words.len() == 0 && rest.is_empty()).then_some(timeline)
    }

    /// Returns the timeline stored in a file, if it has this version of the analysis and belongs to the file's last
    /// commit.
    ///
    /// # Errors
    ///
    /// When the section cannot be read.
    pub fn read_from(file: &KineFile) -> Result<Option<Self>, ContainerError> {
        Ok(StoredTimeline::read_section(file)?.and_then(|k| k.read()))
    }
}

/// A stored timeline that was not read yet.
#[derive(Clone, Debug)]
pub struct StoredTimeline(Derived);

impl StoredTimeline {
    /// Returns the stored timeline of a file, if it has this version of the analysis and belongs to the file's last
    /// commit.
    ///
    /// # Errors
    ///
    /// When the section cannot be read.
    pub fn read_section(file: &KineFile) -> Result<Option<Self>, ContainerError> {
        let derived = file.derived(SECTION)?;
        let holds = |d: &Derived| d.is_current && d.analysis_version == super::ANALYSIS_VERSION;
        Ok(derived.filter(holds).map(Self))
    }

    /// Returns the number of bytes to read.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Reads the timeline. Returns `None` if the bytes hold none, and it must be derived again.
    #[must_use]
    pub fn read(&self) -> Option<Timeline> {
        Timeline::from_bytes(self.0.bytes())
    }
}

/// Serialised sections of derived data.
struct DerivedSections {
    timeline: Option<Vec<u8>>,
    pyramid: Option<Vec<u8>>,
}

impl DerivedSections {
    fn new(recording: &Recording, progress: &Progress) -> Result<Self, Cancelled> {
        let of_jobs = RegisterMap::for_jobs_of(recording);
        let timeline = of_jobs.map(|map| super::derive(recording, map, progress)).transpose()?;
        let pyramid = Pyramid::build(recording, RegisterMap::built_in_for(recording), progress)?;
        Ok(Self {
            timeline: timeline.map(|t| t.to_bytes()),
            pyramid: (!recording.events.is_empty()).then(|| pyramid.to_bytes()),
        })
    }

    fn put<S: Sink>(&self, writer: &mut Writer<S>) -> Result<(), ContainerError> {
        if let Some(bytes) = &self.timeline {
            writer.derived(SECTION, super::ANALYSIS_VERSION, bytes)?;
        }
        match &self.pyramid {
            Some(bytes) => writer.derived(PYRAMID_SECTION, PYRAMID_VERSION, bytes),
            None => Ok(()),
        }
    }
}

/// Writes a recording to a new file with its derived data, as one commit. Progress counts bytes.
///
/// # Errors
///
/// Same as [`container::write`].
pub fn write(recording: &Recording, dest: &Path, progress: &Progress) -> Result<(), ContainerError> {
    // Deriving and writing both only read the recording, and writing mostly waits: they run in parallel.
    std::thread::scope(|scope| {
        let derived = scope.spawn(move || DerivedSections::new(recording, progress));
        container::write_with(recording, dest, progress, |writer| {
            let derived = derived
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            derived.put(writer)
        })
    })
}

/// Adds derived data to a recording's file as one more commit, so that it need not be derived when the file is opened.
///
/// # Errors
///
/// Same as [`Writer::append`] and [`Writer::commit`], or when cancelled.
pub fn append(recording: &Recording, file: &Path, progress: &Progress) -> Result<(), ContainerError> {
    let derived = DerivedSections::new(recording, progress)?;
    let mut writer = Writer::append(file)?;
    derived.put(&mut writer)?;
    writer.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RegOffset;

    #[test]
    fn timeline_round_trips_and_damage_gives_none() {
        let t = Timeline {
            polls: vec![Poll {
                first: 1,
                last: 2,
                reads: 2,
                offset: RegOffset::new(8),
                value_at_end: 7,
                group: true,
            }],
            interrupts: vec![InferredInterrupt {
                event: 3,
                last: 4,
                line: InterruptLine::Gpu,
                status: 5,
            }],
            jobs: vec![JobSpan {
                index: 0,
                slot: 1,
                submit_event: 5,
                done_event: None,
                head_va: GpuVa::new(64),
                submit_ns: 9,
                done_ns: None,
                failed: true,
            }],
            gaps: vec![Gap { after_event: 1, ns: 2 }],
            phases: vec![Phase {
                name: PhaseName::Teardown,
                first: 0,
                last: 9,
            }],
        };
        let bytes = t.to_bytes();
        assert_eq!(Timeline::from_bytes(&bytes), Some(t));
        for cut in 0..bytes.len() {
            assert_eq!(Timeline::from_bytes(&bytes[..cut]), None, "cut at {cut}");
        }
        let mut huge = bytes.clone();
        huge[7] = 0xff;
        assert_eq!(Timeline::from_bytes(&huge), None);
        assert_eq!(Timeline::from_bytes(&[bytes, vec![0; 8]].concat()), None);
    }
}
