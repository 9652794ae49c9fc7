//! Runs a job chain: walks its headers through the page tables, runs each job, reports it.

use crate::address_space::{Access, MmuFault, Translation};
use crate::anomalies::Anomalies;
use crate::compute::job::{self, Ended};
use crate::compute::last_writers::LastWriters;
use crate::compute::stop::{Budget, Stats, Stop};
use crate::compute::trace::Untraced;
use crate::debug::DebugError;
use crate::debug::flows::Touches;
use crate::debug::follow;
use crate::debug::watch::Watch;
use crate::debug::writers::Place;
use crate::fault::Fault;
use crate::memory::{ArenaMemory, MemoryError};
use crate::model::ModelData;
use crate::registers::exception;
use replay_engine::device::JobReport;
use std::collections::HashSet;
use trace_core::jobs::{CacheFlush, HEADER_BYTES, JobHeader, JobType, WriteKind};
use trace_core::progress::Progress;
use trace_core::{PAGE_SIZE, PhysAddr};

/// Most jobs of one chain. A longer one hangs, as one that loops does.
const MAX_JOBS: usize = 65_536;

/// Alignment of a job header, bytes.
const ALIGN: u64 = 64;
/// Bytes of the descriptor behind the header of a job with a shader, and of a fragment job.
const SHADER_PAYLOAD: usize = 160;
const FRAGMENT_PAYLOAD: usize = 32;

/// What the slot gives a chain to run with.
pub(crate) struct Context<'a> {
    pub memory: &'a mut ArenaMemory,
    pub anomalies: &'a mut Anomalies,
    pub translation: Translation,
    /// GPU address of the first job.
    pub head: u64,
    /// Job types that the slot takes, bit `n` for type `n`.
    pub types: u32,
    /// Cores that the driver allows.
    pub affinity: u64,
    /// Cores of those that are powered.
    pub cores: u64,
    /// Whether status words are written back into the headers.
    pub write_back: bool,
    pub cycles: u64,
    pub timestamp: u64,
    pub model: &'a ModelData,
    /// What each of its jobs may execute.
    pub budget: Budget,
    /// Who may cancel it.
    pub progress: Option<&'a Progress>,
    /// What is watched of it.
    pub watch: &'a mut Watch,
    /// The job under way, with the number of the chain.
    pub place: Place,
    /// Whether what is written is a job's end.
    pub ending: bool,
}

/// How a chain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Every job is done.
    Done,
    /// It never ends.
    Hang,
    /// A job failed; those after it did not run.
    Failed(Fault),
}

/// What a chain did.
#[derive(Debug)]
pub(crate) struct Run {
    pub reports: Vec<JobReport>,
    /// The job at which it ended.
    pub head: u64,
    /// The last job whose header was read.
    pub tail: u64,
    pub end: End,
    /// Flushes of the L2 that its cache-flush jobs asked for.
    pub flushes: u32,
    /// What its shaders did.
    pub stats: Stats,
}

/// How a job went wrong.
#[derive(Debug)]
struct Broken {
    end: End,
    reason: Option<Box<str>>,
}

impl From<Fault> for Broken {
    fn from(fault: Fault) -> Self {
        Self {
            end: End::Failed(fault),
            reason: None,
        }
    }
}

/// What a job that is done did of its shader.
#[derive(Debug, Default)]
struct Shaded {
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

/// What a stop of a shader, before or after its threads began, is to its job.
fn stopped(stop: Stop, budget: Budget, begun: bool) -> Broken {
    let (end, reason) = match stop {
        Stop::Fault(fault) => return fault.into(),
        Stop::Unimplemented { pc, name } => (
            End::Failed(Fault::Job(exception::INVALID_ENC)),
            Some(format!("stopped at {pc:#x}: {name}")),
        ),
        // To the driver it is a job that never ends.
        Stop::Budget if !begun => (
            End::Hang,
            Some(format!(
                "the shaders of the chain have more than the {} clauses that are read for one",
                budget.read
            )),
        ),
        Stop::Budget => (
            End::Hang,
            Some(format!(
                "the shader did not end within {} clauses of a wave of 32 threads, {} of all",
                budget.wave, budget.job
            )),
        ),
        Stop::Cancelled | Stop::Retry => (End::Hang, None),
    };
    Broken {
        end,
        reason: reason.map(String::into_boxed_str),
    }
}

/// Adds up what a job did; gives how it ended, whether its threads began, and what was told of its accesses.
fn taken<T>(ran: job::Ran<T>, stats: &mut Stats, anomalies: &mut Anomalies) -> (Ended, bool, T) {
    *stats += ran.stats;
    anomalies.outside_memory += ran.outside;
    anomalies.memory_refused += ran.refused;
    (ran.end, ran.begun, ran.trace)
}

impl Context<'_> {
    /// Physical address behind each page of a range, so that an access is made as a whole or not at all.
    fn pieces(&mut self, va: u64, bytes: usize, access: Access) -> Result<[(PhysAddr, usize); 2], Fault> {
        let too_wide = Fault::Mmu(MmuFault {
            code: exception::ADDRESS_SIZE,
            va,
            access,
            bus: false,
        });
        let first = (PAGE_SIZE - (va as usize & (PAGE_SIZE - 1))).min(bytes);
        let mut pieces = [(PhysAddr(0), 0); 2];
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
                        address: pa.0,
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
    fn read(&mut self, va: u64, out: &mut [u8]) -> Result<(), Fault> {
        let mut rest = out;
        for (pa, len) in self.pieces(va, rest.len(), Access::Read)? {
            let (now, later) = rest.split_at_mut(len);
            if len > 0 {
                let fault = Fault::Bus {
                    address: pa.0,
                    va,
                    access: Access::Read,
                };
                self.memory.read(pa, now).map_err(|_| fault)?;
                self.watch.read(pa.0, len);
            }
            rest = later;
        }
        Ok(())
    }

    /// Writes at most a page.
    fn write(&mut self, va: u64, bytes: &[u8]) -> Result<(), Fault> {
        let mut rest = bytes;
        for (pa, len) in self.pieces(va, rest.len(), Access::Write)? {
            let (now, later) = rest.split_at(len);
            if len > 0 {
                self.memory.write(pa, now).map_err(|e| {
                    if e == MemoryError::Full {
                        self.anomalies.memory_refused += 1;
                    }
                    Fault::Bus {
                        address: pa.0,
                        va,
                        access: Access::Write,
                    }
                })?;
                self.watch.wrote(self.place, self.ending, pa.0, len);
            }
            rest = later;
        }
        Ok(())
    }

    /// Does what a write-value job asks: an address, a type, an immediate.
    fn write_value(&mut self, job: u64) -> Result<(), Fault> {
        let mut payload = [0; 24];
        self.read(job.wrapping_add(HEADER_BYTES as u64), &mut payload)?;
        let (va, kind, immediate) = (long(&payload, 0), word(&payload, 2), long(&payload, 4));
        let kind = WriteKind::from_raw(kind);
        let value = match kind {
            WriteKind::CycleCounter => self.cycles,
            WriteKind::Timestamp => self.timestamp,
            WriteKind::Zero => 0,
            WriteKind::Immediate { .. } => immediate,
            WriteKind::Unknown(_) => return Err(Fault::Job(exception::DATA_INVALID)),
        };
        let bytes = kind.bytes();
        if !va.is_multiple_of(u64::from(bytes)) {
            return Err(Fault::Job(exception::ALIGN));
        }
        self.write(va, value.to_le_bytes().get(..usize::from(bytes)).unwrap_or(&[]))
    }

    /// Runs one job.
    fn job(&mut self, va: u64, header: &JobHeader, run: &mut Run) -> Result<Shaded, Broken> {
        let Some(kind) = header.kind() else {
            return Err(Fault::Job(exception::DATA_INVALID).into());
        };
        if self.types >> header.job_type & 1 == 0 {
            return Err(Fault::Job(exception::TYPE_MISMATCH).into());
        }
        let after = va.wrapping_add(HEADER_BYTES as u64);
        match kind {
            JobType::Null => return Ok(Shaded::default()),
            JobType::WriteValue => {
                self.write_value(va)?;
                return Ok(Shaded::default());
            }
            JobType::CacheFlush => {
                let mut payload = [0; 8];
                self.read(after, &mut payload)?;
                let flush = CacheFlush::unpack(word(&payload, 0), word(&payload, 1));
                // Caches are not modelled, so that memory is always clean; the flush itself is counted.
                run.flushes += u32::from(flush.clean_l2 || flush.invalidate_l2);
                return Ok(Shaded::default());
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
        // The rest of the descriptor is fetched even though no shader runs: it may be unmapped.
        let mut payload = [0; SHADER_PAYLOAD];
        let bytes = if kind == JobType::Fragment {
            FRAGMENT_PAYLOAD
        } else {
            SHADER_PAYLOAD
        };
        self.read(after, payload.get_mut(..bytes).unwrap_or(&mut []))?;
        Ok(Shaded {
            computed: Some(false),
            reason: None,
        })
    }

    /// Runs a compute job's shader.
    fn compute(&mut self, va: u64, stats: &mut Stats) -> Result<Shaded, Broken> {
        let terms = job::Terms {
            translation: self.translation,
            model: self.model,
            budget: Budget {
                read: self.budget.read.saturating_sub(stats.read),
                ..self.budget
            },
            progress: self.progress,
            clock: [self.timestamp, self.cycles],
        };
        let (end, begun) = match &mut *self.watch {
            Watch::Writers(writers) => {
                let ran = job::run::<LastWriters>(self.memory, va, terms);
                let (end, begun, trace) = taken(ran, stats, self.anomalies);
                writers.job(self.place, trace);
                (end, begun)
            }
            Watch::Flows(flows) => {
                let ran = job::run::<Touches>(self.memory, va, terms);
                let (end, begun, touches) = taken(ran, stats, self.anomalies);
                flows.job(&touches);
                (end, begun)
            }
            Watch::Thread(thread) if thread.is_at(self.place) => {
                thread.found = Some(follow::follow(self.memory, va, terms, self.place, &thread.wanted));
                // Nothing behind it is wanted.
                return Err(Broken {
                    end: End::Hang,
                    reason: None,
                });
            }
            Watch::Nothing | Watch::Thread(_) => {
                let (end, begun, Untraced) = taken(job::run(self.memory, va, terms), stats, self.anomalies);
                (end, begun)
            }
        };
        match end {
            Ended::Computed => Ok(Shaded {
                computed: Some(true),
                reason: None,
            }),
            Ended::NotRun(reason) => Ok(Shaded {
                computed: Some(false),
                reason: Some(reason),
            }),
            Ended::Stopped(stop) => Err(stopped(stop, self.budget, begun)),
        }
    }

    /// Writes a job's end into its header: status, first incomplete task, fault address.
    fn end_job(&mut self, va: u64, code: u8, address: u64) -> Result<(), Fault> {
        if !self.write_back {
            return Ok(());
        }
        let mut words = [0; 16];
        words[..4].copy_from_slice(&u32::from(code).to_le_bytes());
        words[8..].copy_from_slice(&address.to_le_bytes());
        self.ending = true;
        let written = self.write(va, &words);
        self.ending = false;
        written
    }

    /// Runs the chain.
    pub(crate) fn run(mut self) -> Run {
        let mut run = Run {
            reports: Vec::new(),
            head: self.head,
            tail: self.head,
            end: End::Done,
            flushes: 0,
            stats: Stats::default(),
        };
        let mut seen = HashSet::new();
        let mut done: HashSet<u16> = HashSet::new();
        let mut va = self.head;
        while va != 0 {
            run.head = va;
            run.tail = va;
            self.place.va = va;
            self.place.position = seen.len() as u32;
            if seen.len() >= MAX_JOBS || !seen.insert(va) {
                run.end = End::Hang;
                return run;
            }
            if self.progress.is_some_and(|p| p.check().is_err()) {
                run.end = End::Hang;
                return run;
            }
            let mut bytes = [0; HEADER_BYTES];
            let fetched = if va.is_multiple_of(ALIGN) {
                self.read(va, &mut bytes)
            } else {
                Err(Fault::Job(exception::CONFIG))
            };
            let header = JobHeader::read(&bytes);
            let result = fetched.map_err(Broken::from).and_then(|()| {
                // Jobs run in the order of the chain, so that what came before is done.
                let unmet = [header.dep1, header.dep2]
                    .iter()
                    .filter(|d| **d != 0 && !done.contains(*d))
                    .count();
                self.anomalies.unmet_dependencies += unmet as u64;
                let shaded = self.job(va, &header, &mut run)?;
                if let Watch::Thread(thread) = &mut *self.watch
                    && thread.is_at(self.place)
                {
                    let kind = header.kind().map_or("unknown", JobType::name);
                    thread.found = Some(Err(DebugError::no_shader(
                        self.place,
                        format!("the job is of type {kind}, and runs no shader here"),
                    )));
                }
                self.end_job(va, exception::DONE, 0)?;
                Ok(shaded)
            });
            let (status, shaded) = match result {
                Ok(shaded) => (exception::DONE, shaded),
                Err(Broken { end, reason }) => {
                    run.end = end;
                    let status = match end {
                        End::Failed(fault) => {
                            // The report of a job whose header cannot be written goes to the slot alone.
                            let _unwritable = self.end_job(va, fault.code(), fault.address());
                            fault.code()
                        }
                        End::Done | End::Hang => exception::ACTIVE,
                    };
                    (status, Shaded { computed: None, reason })
                }
            };
            run.reports.push(JobReport {
                va,
                job_type: header.job_type,
                status,
                computed: shaded.computed,
                reason: shaded.reason,
            });
            if run.end != End::Done {
                return run;
            }
            done.insert(header.index);
            va = header.next.0;
        }
        run
    }
}
