//! The GPU behind the node: the project's own driver on a simulator, and its work.

use crate::error::NodeError;
use driver_mali::{Driver, DriverError, JobEnd, Recorder, SpaceId};
use replay_engine::device::{JobReport, RegisterTarget};
use std::collections::VecDeque;
use trace_core::container::{ContainerError, FileSink, Writer};
use trace_core::families::mali_jm::JobType;
use trace_core::mmu::Rights;
use trace_core::recording::{ChainReport, Metadata, MmuFormat};
use trace_core::{GpuVa, Recording};

/// Slot of fragment work.
const FRAGMENT_SLOT: u8 = 0;
/// Slot of all other work.
const OTHER_SLOT: u8 = 1;

/// A booted GPU.
pub(crate) struct Gpu {
    driver: Driver<'static>,
    /// Address spaces that open files released, oldest first, with what is still mapped in them.
    free: VecDeque<(SpaceId, Vec<(GpuVa, u64)>)>,
    /// Threads for shaders. The process's shared threads do not exist in a child, and a wait for them never ends.
    threads: Option<(u32, rayon::ThreadPool)>,
}

/// The end of a chain.
#[derive(Clone, Debug)]
pub(crate) struct ChainResult {
    pub end: JobEnd,
    /// The chain's report in the recording.
    pub report: ChainReport,
}

/// Maximum number of different reasons that are listed per chain.
const MAX_REASONS: usize = 4;

/// Combines the device's reports about the jobs of a chain.
fn chain_report(submit_event: u64, end: &JobEnd, reports: &[JobReport]) -> ChainReport {
    let mut reasons: Vec<String> = Vec::new();
    for report in reports {
        let kind = JobType::from_raw(report.job_type).map_or("unknown", JobType::name);
        let reason = match (&report.reason, report.computed) {
            (Some(reason), _) => reason.to_string(),
            (None, Some(false)) => format!("the Mali simulator runs compute shaders, but no {kind} jobs"),
            (None, _) => continue,
        };
        if !reasons.contains(&reason) && reasons.len() < MAX_REASONS {
            reasons.push(reason);
        }
    }
    ChainReport {
        submit_event,
        status: end.status,
        computed: reports.iter().filter_map(|r| r.computed).reduce(|a, b| a && b),
        reason: (!reasons.is_empty()).then(|| reasons.join("; ")),
    }
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gpu").finish_non_exhaustive()
    }
}

impl Gpu {
    /// Resets a GPU and powers it on; everything is recorded from here on.
    pub(crate) fn boot(device: Box<dyn RegisterTarget>, title: &str) -> Result<Self, NodeError> {
        // There is one for the life of the process.
        let driver = Driver::boot(Box::leak(device), Recorder::new(title))?;
        Ok(Self {
            driver,
            free: VecDeque::new(),
            threads: None,
        })
    }

    /// Returns an empty address space: one that is free in the hardware, or else one that a file released.
    pub(crate) fn take_space(&mut self) -> Result<SpaceId, DriverError> {
        // The page tables have the layout of Linux's driver.
        let error = match self.driver.new_space(MmuFormat::MaliLpae) {
            Ok(space) => return Ok(space),
            Err(e) => e,
        };
        let (space, mapped) = self.free.pop_front().ok_or(error)?;
        for (va, bytes) in mapped {
            self.driver.unmap(space, va, bytes)?;
        }
        Ok(space)
    }

    /// Releases an address space. Its mappings stay until another file needs the space: a recording that ends with its
    /// program shows memory as the last job left it.
    pub(crate) fn release_space(&mut self, space: SpaceId, mapped: Vec<(GpuVa, u64)>) {
        self.free.push_back((space, mapped));
    }

    /// Returns whether an address space was released and not yet taken by another file.
    pub(crate) fn is_free(&self, space: SpaceId) -> bool {
        self.free.iter().any(|(s, _)| *s == space)
    }

    pub(crate) fn map(&mut self, space: SpaceId, va: GpuVa, bytes: u64, executable: bool) -> Result<(), DriverError> {
        let rights = Rights {
            read: true,
            write: true,
            execute: executable,
        };
        self.driver.map(space, va, bytes, rights)
    }

    pub(crate) fn unmap(&mut self, space: SpaceId, va: GpuVa, bytes: u64) -> Result<(), DriverError> {
        self.driver.unmap(space, va, bytes)
    }

    pub(crate) fn write(&mut self, space: SpaceId, va: GpuVa, bytes: &[u8]) -> Result<(), DriverError> {
        self.driver.write(space, va, bytes)
    }

    pub(crate) fn read_back(&mut self, space: SpaceId, va: GpuVa, out: &mut [u8]) -> Result<(), DriverError> {
        self.driver.read(space, va, out)
    }

    /// Runs a chain to its end.
    pub(crate) fn run(&mut self, space: SpaceId, head: GpuVa, fragment: bool) -> Result<ChainResult, DriverError> {
        let slot = if fragment { FRAGMENT_SLOT } else { OTHER_SLOT };
        let own = std::process::id();
        if self.threads.as_ref().is_none_or(|(process, _)| *process != own) {
            // A parent's threads do not exist in this process: there is nothing to end.
            std::mem::forget(self.threads.take());
            self.threads = rayon::ThreadPoolBuilder::new().build().ok().map(|pool| (own, pool));
        }
        let driver = &mut self.driver;
        let mut work = || -> Result<(u64, JobEnd), DriverError> {
            let submitted = driver.submit_chain(space, slot, head)?;
            let end = match driver.wait(submitted) {
                // It does not end: it is stopped, as Linux's driver does after half a second.
                Err(DriverError::NoInterrupt { .. }) => driver.stop(submitted),
                other => other,
            };
            Ok((submitted.event, end?))
        };
        let ended = match &self.threads {
            Some((_, pool)) => pool.install(work),
            None => work(),
        };
        let reports = self.driver.take_job_reports();
        let (submit_event, end) = ended?;
        Ok(ChainResult {
            end,
            report: chain_report(submit_event, &end, &reports),
        })
    }

    /// Returns the number of events so far.
    pub(crate) fn events(&self) -> u64 {
        self.driver.recorded_events()
    }

    /// Returns the approximate size of the recording so far, bytes.
    pub(crate) fn approximate_bytes(&self) -> u64 {
        self.driver.recorded_bytes()
    }

    /// Appends to a file what it does not hold yet.
    pub(crate) fn append_to(
        &self,
        writer: &mut Writer<FileSink>,
        describe: impl FnOnce(&mut Metadata),
    ) -> Result<(), ContainerError> {
        self.driver.append_to(writer, describe)
    }

    /// Ends the recording; the GPU continues.
    pub(crate) fn end_recording(&mut self) -> Result<(), DriverError> {
        self.driver.end_recording()
    }

    /// Powers the GPU off and returns the recording.
    pub(crate) fn finish(self) -> Result<Recording, DriverError> {
        std::mem::forget(self.threads);
        self.driver.finish()
    }
}
