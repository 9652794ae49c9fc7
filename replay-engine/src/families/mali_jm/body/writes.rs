//! Writes along the body: registers, roots and modes where they take effect, chains at their submit, cleared words.

use super::Walker;
use crate::families::mali_jm::activity::ActiveTranslation;
use crate::families::mali_jm::table_formats::BESIDE_MODE;
use crate::plan::{PlanGpuMemory, PlanPages, RewriteKind};
use crate::rules::{HEADER, MAX_CHANGED, Reason, Refusal, Work, budget_exceeded};
use std::collections::{BTreeSet, HashMap, HashSet};
use trace_core::families::mali_jm::{
    AS_UPDATE, COMMAND_START, CONFIG_AS, HEADER_BYTES, JobHeader, MAX_JOBS, MODE, MODE_AARCH64_4K, MODE_LEGACY,
    MODE_UNMAPPED, RESETS,
};
use trace_core::memory::GpuMemory;
use trace_core::recording::MmuFormat;
use trace_core::registers::{Half, Register, Role};
use trace_core::{GpuVa, PhysAddr, RegOffset};

/// Number of bytes that are cleared in a header before its chain is submitted: status and first incomplete task.
const STATUS_BYTES: u8 = 8;
/// Alignment of a job header, bytes: the hardware ignores the low bits of the address, or faults on them.
const HEADER_ALIGN: u64 = 64;

impl<'a> Walker<'a> {
    fn value(&self, offset: RegOffset) -> u64 {
        self.written.get(&offset).copied().unwrap_or(0)
    }

    fn pair(&self, r: &Register) -> u64 {
        pair_in(&self.written, r)
    }

    /// Returns the low half, or the only part, of the register with a role in the block of `r`.
    fn beside(&self, r: &Register, role: Role) -> Option<&'a Register> {
        self.roles.get(&(role, r.index)).copied()
    }

    pub(super) fn register_write(&mut self, event: u32, r: &'a Register, value: u64) -> Result<(), Refusal> {
        let role = r.replay.role;
        let not = |why: &str| Reason::NotReplayable {
            register: r.name.clone(),
            value,
            why: why.to_owned(),
        };
        if !r.replay.write {
            return self.refuse(1, not(&r.replay.reason));
        }
        if role != Some(Role::Root) && !r.replay.allows(value) {
            let mode = matches!((role, r.pair), (Some(Role::TransCfg), None | Some(Half::Low { .. })));
            if mode {
                return self.refuse(
                    2,
                    Reason::TranslationMode {
                        register: r.name.clone(),
                        mode: value & MODE,
                    },
                );
            }
            return self.refuse(1, not("the map does not list this value"));
        }
        let submits = role == Some(Role::JobCommand) && value == COMMAND_START;
        if !submits {
            self.nothing_cleared()?;
        }
        let resets = role == Some(Role::GpuCommand) && RESETS.contains(&value);
        self.doing.write(r, value, resets).or_else(|e| {
            let rule = if matches!(e, Reason::SpaceBusy { .. }) { 2 } else { 3 };
            self.refuse(rule, e)
        })?;
        self.untouched.write(r, value);
        self.written.insert(r.offset, value);
        match role {
            Some(Role::Root) => self.root_half(r, value),
            Some(Role::TransCfg) => self.mode(r, value),
            Some(Role::AsCommand) if value == AS_UPDATE => self.update(r),
            Some(Role::JobCommand) if submits => self.submit(event, r),
            _ if resets => {
                self.doing.reset();
                self.written.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn root_half(&mut self, r: &'a Register, value: u64) -> Result<(), Refusal> {
        self.roots.insert(r.offset, value);
        self.waiting_roots.entry(r.index).or_insert((r, 0)).1 += 1;
        let high = matches!(r.pair, Some(Half::High { .. }));
        let half = |root: u64| if high { root >> 32 } else { root & 0xffff_ffff };
        if value == 0 || self.plan.spaces().iter().any(|s| half(s.root_register) == value) {
            return Ok(());
        }
        self.refuse(
            2,
            Reason::ForeignRoot {
                register: r.name.clone(),
                value,
            },
        )
    }

    /// Counts the root rewrites of an address space, or of all: the halves are rewritten if the resulting root is not
    /// 0.
    pub(super) fn settle_roots(&mut self, index: Option<Option<u8>>) {
        let waiting = std::mem::take(&mut self.waiting_roots);
        for (of, (r, writes)) in waiting {
            if index.is_some_and(|i| i != of) {
                self.waiting_roots.insert(of, (r, writes));
            } else if pair_in(&self.roots, r) != 0 {
                *self.rewrites.entry(RewriteKind::Root).or_default() += writes;
            }
        }
    }

    /// Refuses a configuration as soon as it is written. Its mode must fit a format of the plan's tables, and its other
    /// bits must be known to be harmless. Other bits could change the meaning of the tables: the number of translated
    /// address bits, the start of the walk, the effective permissions.
    fn mode(&self, r: &Register, value: u64) -> Result<(), Refusal> {
        let register = r.name.clone();
        let config = |known| Reason::TranslationConfig {
            register: r.name.clone(),
            value,
            known,
        };
        if matches!(r.pair, Some(Half::High { .. })) {
            return if value == 0 { Ok(()) } else { self.refuse(2, config(0)) };
        }
        let mode = value & MODE;
        let of = |s: &crate::plan::PlanSpace| mode_of(s.format) == mode;
        if mode != MODE_UNMAPPED && !self.plan.spaces().iter().any(of) {
            return self.refuse(2, Reason::TranslationMode { register, mode });
        }
        let known = if mode == MODE_LEGACY { 0 } else { BESIDE_MODE };
        match value & !MODE {
            0 => Ok(()),
            beside if beside == known => Ok(()),
            _ => self.refuse(2, config(known)),
        }
    }

    /// Processes an update: root and mode take effect together.
    fn update(&mut self, command: &Register) -> Result<(), Refusal> {
        let number = command.index.unwrap_or(0);
        self.settle_roots(Some(command.index));
        let root = self.beside(command, Role::Root).map_or(0, |r| self.pair(r));
        let cfg = self.beside(command, Role::TransCfg);
        let mode = cfg.map_or(MODE_LEGACY, |c| self.value(c.offset) & MODE);
        // In the LPAE format, the low bits of a root of 0 disable translation.
        let lpae = self.plan.spaces().iter().any(|s| s.format == MmuFormat::MaliLpae);
        let in_use = if root == 0 && (mode == MODE_UNMAPPED || mode == MODE_LEGACY && lpae) {
            ActiveTranslation::Unmapped
        } else {
            let Some((index, space)) = self
                .plan
                .spaces()
                .iter()
                .enumerate()
                .find(|(_, s)| s.root_register == root)
            else {
                if root == 0 {
                    return self.refuse(2, Reason::NoTables { number });
                }
                return self.refuse(
                    2,
                    Reason::ForeignRoot {
                        register: format!("AS{number} root"),
                        value: root,
                    },
                );
            };
            if mode == MODE_UNMAPPED {
                ActiveTranslation::Unmapped
            } else if mode == mode_of(space.format) {
                ActiveTranslation::Space(index)
            } else {
                let register = cfg.map_or_else(|| format!("AS{number}"), |c| c.name.clone());
                return self.refuse(2, Reason::TranslationMode { register, mode });
            }
        };
        self.doing.update(number, in_use).or_else(|e| self.refuse(2, e))
    }

    fn submit(&mut self, event: u32, command: &'a Register) -> Result<(), Refusal> {
        let config = self
            .beside(command, Role::JobConfig)
            .map_or(0, |c| self.value(c.offset));
        let head = self.beside(command, Role::JobHead).map_or(0, |h| self.pair(h));
        let (number, slot) = ((config & CONFIG_AS) as u8, command.index.unwrap_or(0));
        let space = match self.doing.in_use(number) {
            Some(ActiveTranslation::Space(index)) => self.plan.spaces().get(index),
            _ => None,
        };
        let Some(space) = space else {
            return self.refuse(3, Reason::JobWithoutSpace { number });
        };
        let gpu = self.memory.gpu(space);
        let followed = follow_chain(&gpu, GpuVa::new(head), self.work).or_else(|e| self.refuse(3, e))?;
        let base = self.plan.accesses.arena.base.get();
        let headers: BTreeSet<u64> = followed
            .headers
            .iter()
            .map(|pa| pa.get().saturating_sub(base))
            .collect();
        if let Some(offset) = self.cleared.iter().find(|at| !headers.contains(at)) {
            return self.refuse(
                3,
                Reason::NotAStatus {
                    offset: *offset,
                    head: GpuVa::new(head),
                },
            );
        }
        if !self.cleared.is_empty() {
            self.cleared.clear();
            self.count(RewriteKind::JobStatus);
        }
        self.same_job(event, head, slot)?;
        let writable = |pa: &PhysAddr| self.reach.writable.contains(pa.frame());
        // A first chain of one job is fetched before anything writes.
        if (self.jobs > 0 || followed.headers.len() > 1) && followed.headers.iter().any(writable) {
            self.unproved += 1;
        }
        let frames = followed.headers.iter().map(|pa| pa.frame()).collect();
        self.chains.insert(slot, frames);
        self.undecoded += followed.undecoded;
        self.jobs += 1;
        self.doing.submit(slot, number);
        Ok(())
    }

    /// Rule 5: checks that the job is the one that the plan lists here.
    fn same_job(&self, event: u32, head: u64, slot: u8) -> Result<(), Refusal> {
        let describe =
            |(event, head, slot): (u64, u64, u8)| format!("submit at event {event}, head {head:#x}, slot {slot}");
        let index = self.jobs;
        let listed = usize::try_from(index).ok().and_then(|i| self.plan.jobs().get(i));
        let found = (u64::from(event), head, slot);
        let said = listed.map(|j| (j.submit_event, j.head_va.get(), j.slot));
        if said != Some(found) {
            let said = said.map_or_else(|| "no such job".to_owned(), describe);
            let found = describe(found);
            return self.refuse(5, Reason::OtherJob { index, said, found });
        }
        if let Some(done) = listed.and_then(|j| j.done_event).filter(|d| *d <= u64::from(event)) {
            let (said, found) = (format!("done at event {done}"), describe(found));
            return self.refuse(5, Reason::OtherJob { index, said, found });
        }
        Ok(())
    }

    pub(super) fn arena_write(&mut self, offset: u64, width: u8, value: u64) -> Result<(), Refusal> {
        let aligned = offset.is_multiple_of(u64::from(width.max(1)));
        let Some(at) = self.plan.accesses.arena.base.checked_add(offset).filter(|_| aligned) else {
            return self.refuse(3, Reason::WriteOutside { offset, width });
        };
        if self.reach.is_table(at.frame()) {
            return self.refuse(3, Reason::WriteIntoTable { offset });
        }
        if !self.memory.write(at, width, value) {
            return self.refuse(3, Reason::WriteOutside { offset, width });
        }
        if (width, value) != (STATUS_BYTES, 0) {
            return self.refuse(3, Reason::ArenaValue { offset, width, value });
        }
        let changed = self.memory.changed_frames() as u64;
        if changed > MAX_CHANGED {
            return self.refuse(
                4,
                budget_exceeded("frames that are changed in part", changed, MAX_CHANGED),
            );
        }
        if self.cleared.len() >= MAX_JOBS {
            return self.refuse(
                4,
                budget_exceeded(
                    "status words cleared for one chain",
                    MAX_JOBS as u64 + 1,
                    MAX_JOBS as u64,
                ),
            );
        }
        self.cleared.push(offset);
        Ok(())
    }
}

/// Returns the 64-bit value of the pair that `r` is a half of.
fn pair_in(values: &HashMap<RegOffset, u64>, r: &Register) -> u64 {
    let value = |offset: RegOffset| values.get(&offset).copied().unwrap_or(0);
    match r.pair {
        Some(Half::Low { high_offset }) => value(r.offset) | value(high_offset) << 32,
        Some(Half::High { low_offset }) => value(low_offset) | value(r.offset) << 32,
        None => value(r.offset),
    }
}

fn mode_of(format: MmuFormat) -> u64 {
    match format {
        MmuFormat::Aarch64_4k => MODE_AARCH64_4K,
        MmuFormat::MaliLpae => MODE_LEGACY,
        // No GPU that replays has such tables, so no mode is theirs.
        MmuFormat::Described(_) => u64::MAX,
    }
}

/// A mapped chain with an end.
struct ChainHeaders {
    /// Addresses of its headers, in chain order. No header crosses a page, because its size is half its alignment.
    headers: Vec<PhysAddr>,
    /// Number of headers that no driver would write. The hardware's behavior for them is unknown, so they are read as
    /// if they were valid.
    undecoded: u64,
}

/// Follows the chain from `head` through the current memory, header by header as the hardware fetches them (rule 3).
///
/// # Errors
/// If a header is misaligned or not mapped, or the chain loops or is too long.
fn follow_chain<M: PlanPages>(
    gpu: &PlanGpuMemory<'_, M>,
    head: GpuVa,
    work: &Work<'_>,
) -> Result<ChainHeaders, Reason> {
    let mut seen = HashSet::new();
    let mut followed = ChainHeaders {
        headers: Vec::new(),
        undecoded: 0,
    };
    let mut at = head;
    loop {
        work.spend(HEADER)?;
        if !seen.insert(at) {
            return Err(Reason::ChainLoops { head, va: at });
        }
        if followed.headers.len() >= MAX_JOBS {
            return Err(Reason::ChainTooLong { head });
        }
        if !at.get().is_multiple_of(HEADER_ALIGN) {
            return Err(Reason::ChainMisaligned { head, va: at });
        }
        let mut bytes = [0; HEADER_BYTES];
        let Some(pa) = gpu.physical(at).filter(|_| gpu.read(at, &mut bytes)) else {
            return Err(Reason::ChainUnmapped { head, va: at });
        };
        followed.headers.push(pa);
        followed.undecoded += u64::from(JobHeader::decode(&bytes).is_err());
        match JobHeader::read(&bytes).next {
            GpuVa::ZERO => return Ok(followed),
            next => at = next,
        }
    }
}
