//! Runner of job chains: it reads job headers through the page tables, runs each job and reports it.

use crate::address_space::{Access, MmuFault, Translation};
use crate::anomalies::Anomalies;
use crate::budget::Budget;
use crate::compute::last_writers::LastWriters;
use crate::compute::stop::{Stats, Stop};
use crate::compute::trace::NoTrace;
use crate::compute_job::{self, ComputeEnd};
use crate::fault::Fault;
use crate::job_trace::JobTrace;
use crate::job_trace::flows::JobAccesses;
use crate::job_trace::follow;
use crate::job_trace::query::DebugError;
use crate::job_trace::writers::JobLocation;
use crate::memory::{ArenaMemory, MemoryError};
use crate::model::ModelData;
use crate::registers::exception;
use replay_engine::device::JobReport;
use std::collections::HashSet;
use trace_core::families::mali_jm::{CacheFlush, HEADER_BYTES, JobHeader, JobType, WriteKind};
use trace_core::progress::Progress;
use trace_core::{GpuVa, PAGE_SIZE, PhysAddr};

/// Maximum number of jobs of one chain. A longer chain hangs, as a looping chain does.
const MAX_JOBS: usize = 65_536;

/// Alignment of a job header, bytes.
const ALIGN: u64 = 64;
/// Size of the descriptor after the header of a job with a shader or of a fragment job, bytes.
const SHADER_PAYLOAD: usize = 160;
const FRAGMENT_PAYLOAD: usize = 32;

/// Context in which a slot runs a chain.
pub(crate) struct ChainContext<'a> {
    pub memory: &'a mut ArenaMemory,
    pub anomalies: &'a mut Anomalies,
    pub translation: Translation,
    /// GPU address of the first job.
    pub head: GpuVa,
    /// Job types that the slot supports, bit `n` for type `n`.
    pub types: u32,
    /// Cores that the driver permits.
    pub affinity: u64,
    /// Permitted cores that are powered.
    pub cores: u64,
    /// Whether status words are written back into the headers.
    pub write_back: bool,
    pub cycles: u64,
    pub timestamp: u64,
    pub model: &'a ModelData,
    /// Execution budget of each job.
    pub budget: Budget,
    /// Progress through which the chain can be cancelled.
    pub progress: Option<&'a Progress>,
    /// What is traced of the chain.
    pub job_trace: &'a mut JobTrace,
    /// The running job, with the number of the chain.
    pub location: JobLocation,
    /// Whether the current write is the status of a finished job.
    pub writes_status: bool,
}

/// Result of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChainResult {
    /// Every job is done.
    Done,
    /// The chain never ends.
    Hang,
    /// A job failed; those after it did not run.
    Failed(Fault),
}

/// Summary of what a chain did.
#[derive(Debug)]
pub(crate) struct ChainRun {
    pub reports: Vec<JobReport>,
    /// The job at which the chain ended.
    pub head: GpuVa,
    /// The last job whose header was read.
    pub tail: GpuVa,
    pub end: ChainResult,
    /// Number of L2 flushes that the cache-flush jobs requested.
    pub flushes: u32,
    /// Statistics of the shaders.
    pub stats: Stats,
}

/// Failure of a job.
#[derive(Debug)]
struct JobFailure {
    end: ChainResult,
    reason: Option<Box<str>>,
}

impl From<Fault> for JobFailure {
    fn from(fault: Fault) -> Self {
        Self {
            end: ChainResult::Failed(fault),
            reason: None,
        }
    }
}

/// Shader statistics of a completed job.
#[derive(Debug, Default)]
struct ShaderResult {
    computed: Option<bool>,
    reason: Option<Box<str>>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at * 4..at * 4 + 4)
        .and_then(|b| b.try_into().ok())
        .map_or(0, u32::from_le_bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at)) | u64::from(word(bytes, at + 1)) << 32
}

/// Converts a stop of a shader, before or after its threads started, into a failure of its job.
fn job_failure(stop: Stop, budget: Budget, begun: bool) -> JobFailure {
    let (end, reason) = match stop {
        Stop::Fault(fault) => return fault.into(),
        Stop::Unimplemented { pc, name } => (
            ChainResult::Failed(Fault::Job(exception::INVALID_ENC)),
            Some(format!("stopped at {pc}: {name}")),
        ),
        // The driver sees a job that never ends.
        Stop::Budget if !begun => (
            ChainResult::Hang,
            Some(format!(
                "the shaders of the chain have more than {} clauses, which is the maximum for one chain",
                budget.read
            )),
        ),
        Stop::Budget => (
            ChainResult::Hang,
            Some(format!(
                "the shader did not end within {} clauses of a wave of 32 threads, or {} clauses of all",
                budget.wave, budget.job
            )),
        ),
        Stop::Cancelled | Stop::Retry => (ChainResult::Hang, None),
    };
    JobFailure {
        end,
        reason: reason.map(String::into_boxed_str),
    }
}

/// Adds the statistics of a job. Returns how the job ended, whether its threads started, and the trace of its accesses.
fn add_compute_run<T>(
    ran: compute_job::ComputeRun<T>,
    stats: &mut Stats,
    anomalies: &mut Anomalies,
) -> (ComputeEnd, bool, T) {
    *stats += ran.stats;
    anomalies.outside_memory += ran.outside;
    anomalies.memory_refused += ran.refused;
    (ran.end, ran.begun, ran.trace)
}

impl ChainContext<'_> {
    /// Translates each page of a range, so that an access is made completely or not at all.
    fn split_pages(&mut self, va: GpuVa, bytes: usize, access: Access) -> Result<[(PhysAddr, usize); 2], Fault> {
        let too_wide = Fault::Mmu(MmuFault {
            code: exception::ADDRESS_SIZE,
            va,
            access,
            bus: false,
        });
        let first = (PAGE_SIZE - va.in_page()).min(bytes);
        let mut pieces = [(PhysAddr::ZERO, 0); 2];
        for (piece, (skip, len)) in pieces.iter_mut().zip([(0, first), (first, bytes - first)]) {
            if len > 0 {
                let at = va.checked_add(skip as u64).ok_or(too_wide)?;
                let pa = self
                    .translation
                    .translate(at, access, self.memory)
                    .map_err(Fault::Mmu)?;
                if !self.memory.has_frame(pa.frame()) {
                    self.anomalies.outside_memory += 1;
                    return Err(Fault::Bus {
                        address: pa,
                        va: at,
                        access,
                    });
                }
                *piece = (pa, len);
            }
        }
        Ok(pieces)
    }

    /// Reads at most a page.
    fn read(&mut self, va: GpuVa, out: &mut [u8]) -> Result<(), Fault> {
        let mut rest = out;
        for (pa, len) in self.split_pages(va, rest.len(), Access::Read)? {
            let (now, later) = rest.split_at_mut(len);
            if len > 0 {
                let fault = Fault::Bus {
                    address: pa,
                    va,
                    access: Access::Read,
                };
                self.memory.read(pa, now).map_err(|_| fault)?;
                self.job_trace.read(pa, len);
            }
            rest = later;
        }
        Ok(())
    }

    /// Writes at most a page.
    fn write(&mut self, va: GpuVa, bytes: &[u8]) -> Result<(), Fault> {
        let mut rest = bytes;
        for (pa, len) in self.split_pages(va, rest.len(), Access::Write)? {
            let (now, later) = rest.split_at(len);
            if len > 0 {
                self.memory.write(pa, now).map_err(|e| {
                    if e == MemoryError::Full {
                        self.anomalies.memory_refused += 1;
                    }
                    Fault::Bus {
                        address: pa,
                        va,
                        access: Access::Write,
                    }
                })?;
                self.job_trace.job_write(self.location, self.writes_status, pa, len);
            }
            rest = later;
        }
        Ok(())
    }

    /// Executes a write-value job: an address, a type, an immediate.
    fn write_value(&mut self, job: GpuVa) -> Result<(), Fault> {
        let mut payload = [0; 24];
        self.read(job.wrapping_add(HEADER_BYTES as u64), &mut payload)?;
        let (va, kind, immediate) = (GpuVa::new(long(&payload, 0)), word(&payload, 2), long(&payload, 4));
        let kind = WriteKind::from_raw(kind);
        let value = match kind {
            WriteKind::CycleCounter => self.cycles,
            WriteKind::Timestamp => self.timestamp,
            WriteKind::Zero => 0,
            WriteKind::Immediate { .. } => immediate,
            WriteKind::Unknown(_) => return Err(Fault::Job(exception::DATA_INVALID)),
        };
        let bytes = kind.bytes();
        if !va.is_aligned(u64::from(bytes)) {
            return Err(Fault::Job(exception::ALIGN));
        }
        self.write(va, value.to_le_bytes().get(..usize::from(bytes)).unwrap_or(&[]))
    }

    /// Runs one job.
    fn job(&mut self, va: GpuVa, header: &JobHeader, run: &mut ChainRun) -> Result<ShaderResult, JobFailure> {
        let Some(kind) = header.kind() else {
            return Err(Fault::Job(exception::DATA_INVALID).into());
        };
        if self.types >> header.job_type & 1 == 0 {
            return Err(Fault::Job(exception::TYPE_MISMATCH).into());
        }
        let after = va.wrapping_add(HEADER_BYTES as u64);
        match kind {
            JobType::Null => return Ok(ShaderResult::default()),
            JobType::WriteValue => {
                self.write_value(va)?;
                return Ok(ShaderResult::default());
            }
            JobType::CacheFlush => {
                let mut payload = [0; 8];
                self.read(after, &mut payload)?;
                let flush = CacheFlush::unpack(word(&payload, 0), word(&payload, 1));
                // The model has no caches, so memory is always clean. Only the number of flushes is counted.
                run.flushes += u32::from(flush.clean_l2 || flush.invalidate_l2);
                return Ok(ShaderResult::default());
            }
            _ => {}
        }
        if self.affinity == 0 {
            return Err(Fault::Job(exception::AFFINITY).into());
        }
        if self.cores == 0 {
            return Err(Fault::Job(exception::POWER).into());
        }
        if kind == JobType::Compute {
            return self.compute(va, &mut run.stats);
        }
        // The rest of the descriptor is read even though no shader runs, because it may be unmapped.
        let mut payload = [0; SHADER_PAYLOAD];
        let bytes = if kind == JobType::Fragment {
            FRAGMENT_PAYLOAD
        } else {
            SHADER_PAYLOAD
        };
        self.read(after, payload.get_mut(..bytes).unwrap_or(&mut []))?;
        Ok(ShaderResult {
            computed: Some(false),
            reason: None,
        })
    }

    /// Runs a compute job's shader.
    fn compute(&mut self, va: GpuVa, stats: &mut Stats) -> Result<ShaderResult, JobFailure> {
        let terms = compute_job::ComputeParams {
            translation: self.translation,
            model: self.model,
            budget: Budget {
                read: self.budget.read.saturating_sub(stats.read),
                ..self.budget
            },
            progress: self.progress,
            clock: [self.timestamp, self.cycles],
        };
        let (end, begun) = match &mut *self.job_trace {
            JobTrace::Writers(writers) => {
                let ran = compute_job::run::<LastWriters>(self.memory, va, terms);
                let (end, begun, trace) = add_compute_run(ran, stats, self.anomalies);
                writers.add_job(self.location, trace);
                (end, begun)
            }
            JobTrace::Flows(flows) => {
                let ran = compute_job::run::<JobAccesses>(self.memory, va, terms);
                let (end, begun, touches) = add_compute_run(ran, stats, self.anomalies);
                flows.add_job(&touches);
                (end, begun)
            }
            JobTrace::Thread(thread) if thread.is_target(self.location) => {
                thread.result = Some(follow::follow(self.memory, va, terms, self.location, &thread.query));
                // The jobs after this one are not needed.
                return Err(JobFailure {
                    end: ChainResult::Hang,
                    reason: None,
                });
            }
            JobTrace::Off | JobTrace::Thread(_) => {
                let (end, begun, NoTrace) =
                    add_compute_run(compute_job::run(self.memory, va, terms), stats, self.anomalies);
                (end, begun)
            }
        };
        match end {
            ComputeEnd::Computed => Ok(ShaderResult {
                computed: Some(true),
                reason: None,
            }),
            ComputeEnd::NotRun(reason) => Ok(ShaderResult {
                computed: Some(false),
                reason: Some(reason),
            }),
            ComputeEnd::Stopped(stop) => Err(job_failure(stop, self.budget, begun)),
        }
    }

    /// Writes the result of a job into its header: status, first incomplete task, fault address.
    fn end_job(&mut self, va: GpuVa, code: u8, address: GpuVa) -> Result<(), Fault> {
        if !self.write_back {
            return Ok(());
        }
        let mut words = [0; 16];
        words[..4].copy_from_slice(&u32::from(code).to_le_bytes());
        words[8..].copy_from_slice(&address.get().to_le_bytes());
        self.writes_status = true;
        let written = self.write(va, &words);
        self.writes_status = false;
        written
    }

    /// Runs the chain.
    pub(crate) fn run(mut self) -> ChainRun {
        let mut run = ChainRun {
            reports: Vec::new(),
            head: self.head,
            tail: self.head,
            end: ChainResult::Done,
            flushes: 0,
            stats: Stats::default(),
        };
        let mut seen = HashSet::new();
        let mut done: HashSet<u16> = HashSet::new();
        let mut va = self.head;
        while va != GpuVa::ZERO {
            run.head = va;
            run.tail = va;
            self.location.va = va;
            self.location.position = seen.len() as u32;
            if seen.len() >= MAX_JOBS || !seen.insert(va) {
                run.end = ChainResult::Hang;
                return run;
            }
            if self.progress.is_some_and(|p| p.check().is_err()) {
                run.end = ChainResult::Hang;
                return run;
            }
            let mut bytes = [0; HEADER_BYTES];
            let fetched = if va.is_aligned(ALIGN) {
                self.read(va, &mut bytes)
            } else {
                Err(Fault::Job(exception::CONFIG))
            };
            let header = JobHeader::read(&bytes);
            let result = fetched.map_err(JobFailure::from).and_then(|()| {
                // Jobs run in the order of the chain, so all earlier jobs are done.
                let unmet = [header.dep1, header.dep2]
                    .iter()
                    .filter(|d| **d != 0 && !done.contains(*d))
                    .count();
                self.anomalies.unmet_dependencies += unmet as u64;
                let shaded = self.job(va, &header, &mut run)?;
                if let JobTrace::Thread(thread) = &mut *self.job_trace
                    && thread.is_target(self.location)
                {
                    let kind = header.kind().map_or("unknown", JobType::name);
                    thread.result = Some(Err(DebugError::no_shader(
                        self.location,
                        format!("jobs of type {kind} run no shader in the simulator"),
                    )));
                }
                self.end_job(va, exception::DONE, GpuVa::ZERO)?;
                Ok(shaded)
            });
            let (status, shaded) = match result {
                Ok(shaded) => (exception::DONE, shaded),
                Err(JobFailure { end, reason }) => {
                    run.end = end;
                    let status = match end {
                        ChainResult::Failed(fault) => {
                            // If the header cannot be written, only the slot reports the job.
                            let _unwritable = self.end_job(va, fault.code(), fault.address());
                            fault.code()
                        }
                        ChainResult::Done | ChainResult::Hang => exception::ACTIVE,
                    };
                    (status, ShaderResult { computed: None, reason })
                }
            };
            run.reports.push(JobReport {
                va,
                job_type: header.job_type,
                status,
                computed: shaded.computed,
                reason: shaded.reason,
            });
            if run.end != ChainResult::Done {
                return run;
            }
            done.insert(header.index);
            va = header.next;
        }
        run
    }
}
