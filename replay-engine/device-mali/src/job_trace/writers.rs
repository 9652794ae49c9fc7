//! Last writer of every byte over a whole replay.

use crate::compute::last_writers::LastWriters;
use crate::compute::trace::{AccessSource, Trace as _};
use trace_core::{GpuVa, PhysAddr};

/// Job of the replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobLocation {
    /// Number of the submit of its chain, from 0.
    pub chain: u32,
    /// Position in the chain, from 0.
    pub position: u32,
    /// GPU address of the job.
    pub va: GpuVa,
}

/// Location of a write in a shader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShaderLocation {
    /// Workgroup along x, y, z.
    pub workgroup: [u32; 3],
    /// Thread in the workgroup, counted along x, then y, then z.
    pub thread: u32,
    /// Address of the clause.
    pub clause: GpuVa,
    /// Tuple of the clause.
    pub tuple: u8,
}

/// Last writer of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// No writer in this run: the byte has its initial value from the recording.
    Recording,
    /// The CPU, after this many chains ended.
    Cpu {
        /// Number of chains.
        after: u32,
    },
    /// A shader.
    Shader(JobLocation, ShaderLocation),
    /// A write-value job.
    WriteValue(JobLocation),
    /// The hardware, which wrote a job's status into its header.
    Status(JobLocation),
}

/// Byte with its last writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastWrite {
    /// Value of the byte at the end.
    pub byte: u8,
    /// Physical address in the device's memory.
    pub pa: PhysAddr,
    /// The last writer.
    pub writer: Writer,
}

/// Clause addresses that stand for writers other than clauses. A real clause address is a multiple of 16.
const CPU: GpuVa = GpuVa::new(1);
const VALUE: GpuVa = GpuVa::new(2);
const STATUS: GpuVa = GpuVa::new(3);

/// Maximum memory for the writers of a whole replay, bytes. Above this, only the writers of a single page can be
/// queried.
const MAX_BYTES: u64 = 1 << 29;

/// Last writer of every byte.
#[derive(Debug, Default)]
pub(crate) struct Writers {
    last: LastWriters,
    /// Frame whose writers are recorded, if the trace is restricted to one frame.
    only: Option<u64>,
    /// Jobs by number: writers from these numbers on belong to them.
    jobs: Vec<(u32, JobLocation)>,
    chains: u32,
}

impl Writers {
    /// Returns the number of chains that ended.
    pub(crate) fn chains(&self) -> u32 {
        self.chains
    }

    /// Records the end of a chain.
    pub(crate) fn chain_ended(&mut self) {
        self.chains = self.chains.saturating_add(1);
    }

    /// Creates a trace of the writers of one page.
    pub(crate) fn for_frame(frame: u64) -> Self {
        Self {
            only: Some(frame),
            ..Self::default()
        }
    }

    /// Returns whether there were too many writers, so that nothing is known.
    pub(crate) fn is_full(&self) -> bool {
        self.last.is_full()
    }

    /// Returns the approximate memory usage, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.last.bytes()
    }

    /// Adds the writes of a job's shader.
    pub(crate) fn add_job(&mut self, place: JobLocation, written: LastWriters) {
        self.jobs.push((self.last.writer_count(), place));
        match self.only {
            Some(frame) => self.last.absorb(written.retain_frame(frame)),
            None if self.last.bytes().saturating_add(written.bytes()) > MAX_BYTES => self.last.discard(),
            None => self.last.absorb(written),
        }
    }

    fn record_write(&mut self, pa: PhysAddr, bytes: usize, pc: GpuVa, fresh: bool) {
        if self.only.is_some_and(|frame| frame != pa.frame()) {
            return;
        }
        let who = AccessSource {
            group: [self.chains, 0, 0],
            thread: 0,
            pc,
            tuple: 0,
        };
        // The pieces of a write never cross a page.
        self.last.put(pa, bytes, &who, fresh);
    }

    /// Records a CPU write.
    pub(crate) fn cpu_write(&mut self, pa: PhysAddr, bytes: usize) {
        self.record_write(pa, bytes, CPU, false);
    }

    /// Records that a job wrote a value.
    pub(crate) fn job_value_write(&mut self, place: JobLocation, pa: PhysAddr, bytes: usize) {
        self.jobs.push((self.last.writer_count(), place));
        self.record_write(pa, bytes, VALUE, true);
    }

    /// Records that the hardware wrote a job's status.
    pub(crate) fn job_status_write(&mut self, place: JobLocation, pa: PhysAddr, bytes: usize) {
        self.jobs.push((self.last.writer_count(), place));
        self.record_write(pa, bytes, STATUS, true);
    }

    /// Returns the number of recorded writers.
    pub(crate) fn count(&self) -> u64 {
        u64::from(self.last.writer_count())
    }

    /// Returns the last writer of the byte at this physical address.
    pub(crate) fn last_writer(&self, pa: PhysAddr) -> Writer {
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
