//! Runner for the job chains of a Mesa driver dump folder: it records this driver submitting the chains.
//!
//! All submits share one address space, as in the driver that made them. A buffer object is mapped from the first
//! submit that lists it and stays mapped until another object takes its addresses. The images of the folder are from
//! before each submit and contain no results (`trace_import::chains`). The first image of an object is written as
//! a whole. Of each later image only the words are written that differ from the image before, because the CPU changed
//! them. All other memory stays as the jobs left it, so that a later submit finds what an earlier one computed.
//!
//! The status words of a job header are an exception. The CPU writes them again with each header, mostly with the same
//! values, so the images do not show it. They are set to the image's values before the header is submitted again.

use crate::driver::Driver;
use crate::error::DriverError;
use crate::layout::SpaceId;
use crate::recorder::Recorder;
use replay_engine::device::{JobReport, RegisterTarget};
use replay_engine::run;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use trace_core::families::mali_jm;
use trace_core::finding::{Finding, FindingKind};
use trace_core::memory::GpuMemory;
use trace_core::mmu::Rights;
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, ElementType, MmuFormat};
use trace_core::registers::{self, RegisterMap};
use trace_core::{GpuVa, PAGE_SIZE, Recording};
use trace_import::chains::{self, Chains, NamedBuffer, Object, Submit};

/// Size of the status words of a job header, bytes: status, first incomplete task, fault address.
const STATUS_BYTES: usize = 16;
/// Slots for fragment jobs and for all other jobs.
const FRAGMENT_SLOT: u8 = 0;
const OTHER_SLOT: u8 = 1;

/// Recording of executed chains, with the result of each job.
#[derive(Debug)]
pub struct RecordedChains {
    /// The recording. Its findings list shaders that did not run, and parts of the folder that were not used.
    pub recording: Recording,
    /// Result of each job.
    pub jobs: Vec<JobReport>,
}

impl RecordedChains {
    /// Returns whether every job that runs a shader ran it to completion.
    #[must_use]
    pub fn has_computed(&self) -> bool {
        self.jobs.iter().all(|j| j.status == 1 && j.computed != Some(false))
    }
}

/// Returns whether a folder's chains are for a GPU with this id register. Revisions are not compared.
#[must_use]
pub fn is_for(chains: &Chains, gpu_id: u32) -> bool {
    RegisterMap::for_gpu(gpu_id).is_some_and(|m| m.is_same_product(chains.gpu_id, gpu_id))
}

/// Reads a folder and records its chains on a device.
///
/// # Errors
/// Returns the errors of [`chains::read`] and [`record`].
pub fn record_folder(path: &Path, device: &mut dyn RegisterTarget) -> Result<RecordedChains, DriverError> {
    record(&chains::read(path)?, device, &Progress::new())
}

/// Submits chains to a device, one after another. A chain that fails is recorded as failed, and the chains after it
/// run.
///
/// # Errors
/// When an image cannot be read, the device is another GPU or fails, or the work was cancelled.
pub fn record(
    chains: &Chains,
    device: &mut dyn RegisterTarget,
    progress: &Progress,
) -> Result<RecordedChains, DriverError> {
    let target = device.info();
    if !is_for(chains, target.gpu_id) {
        return Err(DriverError::OtherGpu {
            place: chains.path.display().to_string(),
            made_for: gpu_label(chains.gpu_id),
            device: gpu_label(target.gpu_id),
        });
    }
    device.watch(progress);
    let images: usize = chains.submits.iter().map(|s| s.objects.len()).sum();
    progress.set_total((images + chains.submits.len()) as u64);
    let mut driver = Driver::boot(device, Recorder::new(&title(chains)))?;
    let space = driver.new_space(MmuFormat::MaliLpae)?;
    let mut memory = ChainMemory::new(chains, space);
    let mut submitted = Vec::new();
    for submit in &chains.submits {
        memory.lay_out(submit, &mut driver, progress)?;
        memory.renew_headers(submit.head, &mut driver)?;
        let slot = if submit.fragment { FRAGMENT_SLOT } else { OTHER_SLOT };
        let chain = driver.submit_chain(space, slot, submit.head)?;
        submitted.push((submit.head, driver.recorder.last_event()));
        let ended = match driver.wait(chain) {
            // The chain does not end.
            Err(DriverError::NoInterrupt { .. }) => driver.stop(chain),
            other => other,
        };
        // A device that was cancelled leaves its work in any state.
        progress.advance(1)?;
        ended?;
    }
    let mut findings = chains.findings.clone();
    memory.name(&mut driver, &mut findings)?;
    let jobs = driver.device.take_job_reports();
    findings.extend(run::shaders_not_run(&jobs, &submitted));
    let mut recording = driver.finish()?;
    recording.metadata.findings.extend(findings);
    Ok(RecordedChains { recording, jobs })
}

/// Formats the name of a GPU from its id register.
fn gpu_label(id: u32) -> String {
    let name = registers::gpu_name(id).unwrap_or("GPU that this program does not know");
    format!("a {name} ({id:#010x})")
}

/// Returns the title of the recording.
fn title(chains: &Chains) -> String {
    let made = [chains.renderer.as_str(), chains.gl_version.as_str()];
    let made: Vec<&str> = made.into_iter().filter(|t| !t.is_empty()).collect();
    if made.is_empty() {
        chains.program.clone()
    } else {
        format!("{} by {}", chains.program, made.join(", "))
    }
}

/// Buffer object that has memory.
struct MappedObject {
    object: Object,
    /// Latest image of the object; empty if it is all zeros.
    image: Vec<u8>,
}

/// Memory according to the images, with the address space that it is mapped in.
struct ChainMemory<'c> {
    chains: &'c Chains,
    space: SpaceId,
    /// Objects that need memory: a submit uses them, or a named buffer lies in them.
    needed: BTreeSet<(u64, u64, u64)>,
    /// Mapped objects by first address. They do not overlap.
    mapped_objects: BTreeMap<u64, MappedObject>,
}

fn key(o: &Object) -> (u64, u64, u64) {
    (o.handle, o.va.get(), o.bytes)
}

impl<'c> ChainMemory<'c> {
    fn new(chains: &'c Chains, space: SpaceId) -> Self {
        let named = |o: &Object| {
            let within = |b: &NamedBuffer| b.va.get() < o.end() && o.va.get() < b.va.get().saturating_add(b.bytes);
            chains.buffers.iter().any(within)
        };
        let all = chains.submits.iter().flat_map(|s| &s.objects);
        Self {
            chains,
            space,
            needed: all.filter(|o| o.used || named(o)).map(key).collect(),
            mapped_objects: BTreeMap::new(),
        }
    }

    /// Brings memory to its state before a submit, as the CPU left it.
    fn lay_out(&mut self, submit: &Submit, driver: &mut Driver<'_>, progress: &Progress) -> Result<(), DriverError> {
        for object in &submit.objects {
            progress.advance(1)?;
            if !self.needed.contains(&key(object)) {
                continue;
            }
            let image = self.chains.image(submit, object)?;
            match self
                .mapped_objects
                .get_mut(&object.va.get())
                .filter(|l| l.object.is_same(object))
            {
                Some(known) => {
                    driver.write_changed(self.space, object.va, &known.image, &image)?;
                    known.image = image;
                }
                None => self.map(object, image, driver)?,
            }
        }
        Ok(())
    }

    fn map(&mut self, object: &Object, image: Vec<u8>, driver: &mut Driver<'_>) -> Result<(), DriverError> {
        let in_the_way = self
            .mapped_objects
            .range(..object.end())
            .filter(|(_, l)| l.object.end() > object.va.get());
        let gone: Vec<u64> = in_the_way.map(|(va, _)| *va).collect();
        for va in gone {
            if let Some(old) = self.mapped_objects.remove(&va) {
                driver.unmap(self.space, old.object.va, old.object.bytes)?;
            }
        }
        let rights = if object.executable { Rights::RX } else { Rights::RW };
        driver.map(self.space, object.va, object.bytes, rights)?;
        for (page, at) in image.chunks(PAGE_SIZE).zip((object.va.get()..).step_by(PAGE_SIZE)) {
            if page.iter().any(|b| *b != 0) {
                driver.write(self.space, GpuVa::new(at), page)?;
            }
        }
        let object = object.clone();
        self.mapped_objects
            .insert(object.va.get(), MappedObject { object, image });
        Ok(())
    }

    /// Sets the status words of a chain's headers to the CPU's values.
    fn renew_headers(&self, head: GpuVa, driver: &mut Driver<'_>) -> Result<(), DriverError> {
        if !driver.recorder.has_begun() {
            return Ok(());
        }
        let mut status = [0; STATUS_BYTES];
        for job in mali_jm::read_chain(self, head).jobs {
            if self.read(job.va, &mut status) {
                driver.update(self.space, job.va, &status)?;
            }
        }
        Ok(())
    }

    /// Names the buffers that the program names, and the shaders. A buffer without a role in the list is an output if
    /// jobs changed it.
    fn name(&self, driver: &mut Driver<'_>, findings: &mut Vec<Finding>) -> Result<(), DriverError> {
        let mut names: BTreeSet<String> = self.chains.buffers.iter().map(|b| b.name.clone()).collect();
        for b in &self.chains.buffers {
            let Some(changed) = self.has_changed(driver, b)? else {
                let message = format!("buffer {:?} is left out: it is not mapped at the end", b.name);
                findings.push(Finding::new(FindingKind::NotUsed, "spec.json", message));
                continue;
            };
            let found = if changed { BufferRole::Output } else { BufferRole::Input };
            driver.name_buffer(&b.name, b.role.unwrap_or(found), self.space, b.va, b.bytes, b.element);
        }
        let mapped = |(va, bytes): &&(GpuVa, u64)| self.covers(*va, *bytes);
        for (n, (va, bytes)) in self.chains.shaders.iter().filter(mapped).enumerate() {
            let mut name = format!("shader{n}");
            while !names.insert(name.clone()) {
                name.push('_');
            }
            driver.name_buffer(&name, BufferRole::Shader, self.space, *va, *bytes, ElementType::U64);
        }
        Ok(())
    }

    /// Returns whether the device's memory differs from what the CPU wrote, or `None` if part of it is not mapped.
    fn has_changed(&self, driver: &mut Driver<'_>, b: &NamedBuffer) -> Result<Option<bool>, DriverError> {
        if !self.covers(b.va, b.bytes) {
            return Ok(None);
        }
        let (mut now, mut gave) = ([0; PAGE_SIZE], [0; PAGE_SIZE]);
        let end = b.va.get().saturating_add(b.bytes);
        for at in (b.va.get()..end).step_by(PAGE_SIZE) {
            let len = usize::try_from(end - at).unwrap_or(PAGE_SIZE).min(PAGE_SIZE);
            let (Some(now), Some(gave)) = (now.get_mut(..len), gave.get_mut(..len)) else {
                continue;
            };
            driver.read(self.space, GpuVa::new(at), now)?;
            if !self.read(GpuVa::new(at), gave) || now != gave {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }

    /// Returns whether objects cover all of a range.
    fn covers(&self, va: GpuVa, bytes: u64) -> bool {
        let end = va.get().saturating_add(bytes);
        let mut at = va.get();
        while at < end {
            match self.object_at(at) {
                Some(l) => at = l.object.end(),
                None => return false,
            }
        }
        true
    }

    fn object_at(&self, va: u64) -> Option<&MappedObject> {
        let (_, found) = self.mapped_objects.range(..=va).next_back()?;
        Some(found).filter(|l| va < l.object.end())
    }
}

/// Memory as the CPU wrote it.
impl GpuMemory for ChainMemory<'_> {
    fn read(&self, va: GpuVa, out: &mut [u8]) -> bool {
        let mut at = va.get();
        let mut left = out;
        while !left.is_empty() {
            let Some(l) = self.object_at(at) else { return false };
            let start = (at - l.object.va.get()) as usize;
            let len = ((l.object.end() - at) as usize).min(left.len());
            let (now, rest) = left.split_at_mut(len);
            match l.image.get(start..start + len) {
                Some(bytes) => now.copy_from_slice(bytes),
                None => now.fill(0),
            }
            at += len as u64;
            left = rest;
        }
        true
    }
}
