//! The last writer of every byte over a whole replay.

use crate::compute::last_writers::LastWriters;
use crate::compute::trace::{AccessSource, Trace as _};
use trace_core::{PAGE_SIZE, PhysAddr};

/// A job of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLocation {
    /// Number of the submit of its chain, from 0.
    pub chain: u32,
    /// Place in the chain, from 0.
    pub position: u32,
    /// GPU address of the job.
    pub va: u64,
}

/// Where in a shader a write was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaderLocation {
    /// The workgroup along x, y, z.
    pub workgroup: [u32; 3],
    /// The thread within it, counted along x, then y, then z.
    pub thread: u32,
    /// Address of the clause.
    pub clause: u64,
    /// Tuple of the clause.
    pub tuple: u8,
}

/// Who wrote a byte last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// Nobody in this run: it is as the recording's memory was at the start.
    Recording,
    /// The CPU, after this many chains had ended.
    Cpu {
        /// Chains.
        after: u32,
    },
    /// A shader.
    Shader(JobLocation, ShaderLocation),
    /// A job that writes a value.
    WriteValue(JobLocation),
    /// The hardware, when it wrote a job's end into its header.
    Status(JobLocation),
}

/// A byte with its last writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastWrite {
    /// The byte in the end.
    pub byte: u8,
    /// Where it lies in the device's memory.
    pub pa: PhysAddr,
    /// Who wrote it.
    pub writer: Writer,
}

/// Clause addresses that stand for writers which are no clause: a clause is at a multiple of 16.
const CPU: u64 = 1;
const VALUE: u64 = 2;
const STATUS: u64 = 3;

/// Bytes of writers over a whole replay that are remembered: beyond that, those of one page alone can be asked for.
const MAX_BYTES: u64 = 1 << 29;

/// Every byte's last writer.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    last: LastWriters,
    /// Only this frame's writers are remembered.
    only: Option<u64>,
    /// Jobs by number: writers from these numbers on are theirs.
    jobs: Vec<(u32, JobLocation)>,
    chains: u32,
}

impl Writers {
    /// Chains that ended.
    pub(crate) fn chains(&self) -> u32 {
        self.chains
    }

    /// A chain ended.
    pub(crate) fn chain_ended(&mut self) {
        self.chains = self.chains.saturating_add(1);
    }

    /// Remembers writers of one page alone.
    pub(crate) fn for_frame(frame: u64) -> Self {
        Self {
            only: Some(frame),
            ..Self::default()
        }
    }

    /// Whether there were more writers than are remembered, so that nothing is known.
    pub(crate) fn is_full(&self) -> bool {
        self.last.is_full()
    }

    /// Memory that they take, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        self.last.bytes()
    }

    /// Takes what a job's shader wrote.
    pub(crate) fn add_job(&mut self, place: JobLocation, written: LastWriters) {
        self.jobs.push((self.last.writer_count(), place));
        match self.only {
            Some(frame) => self.last.absorb(written.retain_frame(frame)),
            None if self.last.bytes().saturating_add(written.bytes()) > MAX_BYTES => self.last.discard(),
            None => self.last.absorb(written),
        }
    }

    fn record_write(&mut self, pa: u64, bytes: usize, pc: u64, fresh: bool) {
        if self.only.is_some_and(|frame| frame != pa / PAGE_SIZE as u64) {
            return;
        }
        let who = AccessSource {
            group: [self.chains, 0, 0],
            thread: 0,
            pc,
            tuple: 0,
        };
        // Pieces of a write never cross a page.
        self.last.put(pa, bytes, &who, fresh);
    }

    /// The CPU wrote.
    pub(crate) fn cpu_write(&mut self, pa: u64, bytes: usize) {
        self.record_write(pa, bytes, CPU, false);
    }

    /// A job wrote a value.
    pub(crate) fn job_value_write(&mut self, place: JobLocation, pa: u64, bytes: usize) {
        self.jobs.push((self.last.writer_count(), place));
        self.record_write(pa, bytes, VALUE, true);
    }

    /// The hardware wrote a job's end.
    pub(crate) fn job_status_write(&mut self, place: JobLocation, pa: u64, bytes: usize) {
        self.jobs.push((self.last.writer_count(), place));
        self.record_write(pa, bytes, STATUS, true);
    }

    /// Writers that are remembered.
    pub(crate) fn count(&self) -> u64 {
        u64::from(self.last.writer_count())
    }

    /// Who wrote the byte at this physical address last.
    pub(crate) fn last_writer(&self, pa: u64) -> Writer {
        let Some((number, who)) = self.last.find(pa) else {
            return Writer::Recording;
        };
        if who.pc == CPU {
            return Writer::Cpu { after: who.group[0] };
        }
        let n = self.jobs.partition_point(|(first, _)| *first <= number);
        let Some((_, place)) = n.checked_sub(1).and_then(|n| self.jobs.get(n)) else {
            return Writer::Recording;
        };
        match who.pc {
            VALUE => Writer::WriteValue(*place),
            STATUS => Writer::Status(*place),
            clause => Writer::Shader(
                *place,
                ShaderLocation {
                    workgroup: who.group,
                    thread: who.thread,
                    clause,
                    tuple: who.tuple,
                },
            ),
        }
    }
}
