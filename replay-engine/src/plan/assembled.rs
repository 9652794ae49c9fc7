//! Relocation of an existing plan for a device with other memory; and a plan with its page images as one file.

use super::bus::{BusError, DeviceMemory, DmaRelocator, MemoryChange, is_within};
use super::{
    AccessPlan, BodyBuilder, CompileError, PageImages, PageSource, Plan, PlanError, PlanMemory, Rewrite, RewriteKind,
};
use crate::device::{DeviceInfo, space};
use replay_core::{Action, Actions};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, IoSlice, Write};
use std::path::Path;
use trace_core::recording::{Page, zero_digest};
use trace_core::registers::RegisterMap;
use trace_core::{BusAddr, GpuVa, PAGE_SIZE};

/// Magic bytes of a plan file with page images.
pub const PLAN_FILE_MAGIC: [u8; 8] = *b"KINEPLNP";

const PAGE: u64 = PAGE_SIZE as u64;

/// The memory of the original plan.
struct MemoryExtent<'w, 'a> {
    memory: &'w PlanMemory<'a>,
    start: BusAddr,
    end: BusAddr,
}

impl DeviceMemory for MemoryExtent<'_, '_> {
    fn page(&self, frame: u64) -> Option<&Page> {
        self.memory.page(frame)
    }

    fn holds(&self, at: BusAddr, bytes: u64) -> bool {
        is_within(&(self.start..self.end), at, bytes)
    }
}

/// Encodes a plan with its page images as a file: magic, length of the plan, the plan, the images. Missing images are
/// left out.
///
/// # Errors
/// If the plan is too long for a record.
pub fn encode_plan_file(plan: &Plan, pages: &dyn PageSource) -> Result<Vec<u8>, PlanError> {
    let bytes = plan.to_bytes()?;
    let mut out = Vec::with_capacity(16 + bytes.len() + plan.images.len() * PAGE_SIZE);
    // Writing to a vector cannot fail.
    let _ = put_whole(&bytes, plan, pages, &mut out);
    Ok(out)
}

/// Writes a plan like [`encode_plan_file`], to a new file.
///
/// # Errors
/// Same as there, and if the file cannot be written.
pub fn write_plan_file(plan: &Plan, pages: &dyn PageSource, to: &Path) -> Result<(), PlanFileError> {
    let bytes = plan.to_bytes()?;
    let mut out = BufWriter::with_capacity(1 << 20, File::create(to)?);
    put_whole(&bytes, plan, pages, &mut out)?;
    Ok(out.flush()?)
}

fn put_whole(bytes: &[u8], plan: &Plan, pages: &dyn PageSource, out: &mut impl Write) -> std::io::Result<()> {
    out.write_all(&PLAN_FILE_MAGIC)?;
    out.write_all(&(bytes.len() as u64).to_le_bytes())?;
    out.write_all(bytes)?;
    let digests = plan.digests();
    let images: Vec<&Page> = digests.iter().filter_map(|d| pages.page(d)).collect();
    images
        .chunks(IMAGES_PER_WRITE)
        .try_for_each(|some| write_images(some, out))
}

/// Number of images that are written at once: a MiB, so that a buffered file takes them without a copy.
const IMAGES_PER_WRITE: usize = (1 << 20) / PAGE_SIZE;

fn write_images(images: &[&Page], out: &mut impl Write) -> std::io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = images.iter().map(|page| IoSlice::new(*page)).collect();
    let mut rest = slices.as_mut_slice();
    while !rest.is_empty() {
        match out.write_vectored(rest) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// The reason why a plan file was not written.
#[derive(Debug, thiserror::Error)]
pub enum PlanFileError {
    /// The plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The file.
    #[error(transparent)]
    File(#[from] std::io::Error),
}

/// A plan with the addresses of the recording's memory in it.
#[derive(Clone, Debug)]
pub struct PlacedPlan {
    /// The plan.
    pub compiled: Compiled,
    /// Data frames: arena frame and recorded frame. Empty for a plan of a device's windows.
    pub frames: HashMap<u64, u64>,
}

/// A plan with its page images.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// The plan.
    pub plan: Plan,
    /// Page images by digest, without the page of zeros.
    pub pages: PageImages,
}

impl Compiled {
    /// Returns the plan for a device whose memory has another address. The addresses in registers and in memory that
    /// are typed as addresses are relocated, like those of a recording.
    ///
    /// # Errors
    /// If the device grants too little memory, or an address is not known.
    pub fn moved_to(&self, target: &DeviceInfo) -> Result<Self, CompileError> {
        let mut new = self.clone();
        let (Some(mmio), Some(plan)) = (self.plan.mmio(), new.plan.mmio_mut()) else {
            return Ok(new);
        };
        if mmio.accesses.arena == target.arena {
            return Ok(new);
        }
        let (old, to) = (mmio.accesses.arena, target.arena);
        if mmio.accesses.used_pages > to.pages {
            return Err(CompileError::ArenaTooSmall { pages: to.pages });
        }
        let shift = |at: u64| at.wrapping_sub(old.base.get()).wrapping_add(to.base.get());
        plan.accesses.arena = to;
        for p in &mut plan.accesses.pages {
            p.frame = p.frame.wrapping_sub(old.base.frame()).wrapping_add(to.base.frame());
        }
        for b in &mut plan.accesses.buffers {
            b.va = GpuVa::new(shift(b.va.get()));
        }
        for o in &mut new.plan.outputs {
            o.va = GpuVa::new(shift(o.va.get()));
        }
        if mmio.masters {
            self.move_body(&mmio.accesses, &mut new.plan, target)?;
        }
        Ok(new)
    }

    fn move_body(&self, old: &AccessPlan, new: &mut Plan, target: &DeviceInfo) -> Result<(), CompileError> {
        let map = RegisterMap::by_name(&old.register_map).ok_or_else(|| CompileError::UnknownMap {
            name: old.register_map.clone(),
        })?;
        let refused = |event: u32| {
            move |BusError(why): BusError| CompileError::BusMastering {
                event: event.into(),
                why,
            }
        };
        let (start, bytes) = (old.arena.bus_base(), old.used_pages.saturating_mul(PAGE));
        let end = start.saturating_add(bytes);
        let limit = self.plan.budgets.poll_ns;
        let mut mover =
            DmaRelocator::new(map, [(start..end, 0)], target.arena.bus_base(), limit).map_err(refused(0))?;
        let missing = |frame| CompileError::PageMissing { frame };
        let mut memory = PlanMemory::from_plan(old, &self.pages).map_err(|m| missing(m.frame))?;
        let images = self
            .plan
            .change_images(&self.pages)
            .map_err(|(n, _)| missing(n as u64))?;
        for action in Actions::new(&old.body) {
            let action = action.map_err(|e| CompileError::Undecodable { message: e.to_string() })?;
            let event = action.event();
            let (offset, bytes) = match action {
                Action::Put { offset, width, .. } => (offset, u64::from(width)),
                Action::Copy { offset, bytes, .. } => (offset, u64::from(bytes)),
                _ => (0, 0),
            };
            if bytes > 0 && !memory.apply(&action, &images) {
                let frame = start.saturating_add(offset).page();
                return Err(missing(frame));
            }
            let ground = MemoryExtent {
                memory: &memory,
                start,
                end,
            };
            match action {
                Action::Write {
                    space: space::REGISTERS,
                    offset,
                    width,
                    value,
                    ..
                } => mover.write(event, offset, width, value, &ground),
                Action::Put { .. } | Action::Copy { .. } => {
                    let piece = MemoryChange {
                        at: start.saturating_add(offset),
                        bytes,
                        action,
                    };
                    mover.change(event, vec![piece], &ground)
                }
                other => {
                    mover.push_action(other, |offset| start.checked_add(offset));
                    Ok(())
                }
            }
            .map_err(refused(event))?;
        }
        let last = mover.actions.last().map_or(0, Action::event);
        mover.finish(last).map_err(refused(last))?;
        let mut body = BodyBuilder::new();
        mover.actions.iter().try_for_each(|a| body.push(a))?;
        let (body, actions) = body.finish();
        new.body.set_bytes(body);
        new.actions = actions;
        new.rewrites.extend(mover.moved.waits());
        new.rewrites.push(Rewrite {
            kind: RewriteKind::Address,
            event: None,
            detail: format!(
                "memory {start:#x} to {end:#x} lies at {:#x}: {} addresses in registers and {} in memory are the agent's",
                target.arena.base.get(), mover.moved.registers, mover.moved.words
            ),
        });
        Ok(())
    }

    /// Encodes the plan with its page images as a file: magic, length of the plan, the plan, the images.
    ///
    /// # Errors
    /// If the plan is too long for a record.
    pub fn to_bytes(&self) -> Result<Vec<u8>, PlanError> {
        encode_plan_file(&self.plan, &self.pages)
    }

    /// Decodes such a file. A file without images may be a bare plan.
    ///
    /// # Errors
    /// If the bytes are not a plan, have another version, or are truncated.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PlanError> {
        let Some(rest) = bytes.strip_prefix(&PLAN_FILE_MAGIC) else {
            let plan = Plan::from_bytes(bytes)?;
            return Ok(Self {
                plan,
                pages: PageImages::new(),
            });
        };
        let cut = PlanError::Cut { bytes: bytes.len() };
        let Some((length, rest)) = rest.split_first_chunk::<8>() else {
            return Err(cut);
        };
        let length = usize::try_from(u64::from_le_bytes(*length)).ok();
        let Some((plan, images)) = length.and_then(|n| rest.split_at_checked(n)) else {
            return Err(cut);
        };
        let plan = Plan::from_bytes(plan)?;
        let (images, odd) = images.as_chunks::<PAGE_SIZE>();
        if !odd.is_empty() {
            return Err(cut);
        }
        let pages = images.iter().map(|p| (*blake3::hash(p).as_bytes(), (*p).into()));
        Ok(Self {
            plan,
            pages: pages.filter(|(d, _)| *d != zero_digest()).collect(),
        })
    }
}
