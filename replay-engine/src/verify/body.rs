//! Rules 1 to 5 along the body: registers, roots where they take effect, chains at their submit, limits, counts.

use super::{Reason, Refusal, Verified, refuse};
use crate::device::space;
use crate::plan::{AS_UPDATE, CONFIG_AS, JOB_START, Plan, PlanMemory, RESETS, ReadClasses, RewriteKind, Untouched};
use replay_core::{Action, Actions, ReadClass, width_mask};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use trace_core::GpuVa;
use trace_core::jobs::{ChainEnd, chain};
use trace_core::recording::MmuFormat;
use trace_core::registers::{Half, Register, RegisterMap, Role};

/// The mode in the translation-configuration register.
const MODE: u64 = 0xf;
const MODE_LEGACY: u64 = 0;
const MODE_UNMAPPED: u64 = 1;
const MODE_AARCH64_4K: u64 = 6;
/// Interrupt lines of a device: job, mmu, gpu.
const LINES: u32 = 0b111;

/// What an address space was last told to use.
#[derive(Clone, Copy)]
enum InUse {
    Unmapped,
    Space(usize),
}

struct Walker<'a> {
    plan: &'a Plan,
    map: &'a RegisterMap,
    memory: PlanMemory<'a>,
    tables: &'a BTreeSet<u64>,
    written: HashMap<u32, u64>,
    untouched: Untouched,
    in_use: BTreeMap<u8, InUse>,
    place: String,
    rewrites: BTreeMap<RewriteKind, u64>,
    reads: ReadClasses,
    interrupts: u64,
    pauses_ns: u64,
    jobs: u64,
    unproved: u64,
    cleared: bool,
}

/// Checks the body from its first action to its last.
pub fn check<'a>(
    plan: &'a Plan,
    map: &'a RegisterMap,
    memory: PlanMemory<'a>,
    tables: &'a BTreeSet<u64>,
    verified: &mut Verified,
) -> Result<(), Refusal> {
    let mut w = Walker {
        plan,
        map,
        memory,
        tables,
        written: HashMap::new(),
        untouched: Untouched::default(),
        in_use: BTreeMap::new(),
        place: String::new(),
        rewrites: BTreeMap::new(),
        reads: ReadClasses::default(),
        interrupts: 0,
        pauses_ns: 0,
        jobs: 0,
        unproved: 0,
        cleared: false,
    };
    let mut count = 0u64;
    for action in Actions::new(&plan.body) {
        let action = match action {
            Ok(a) => a,
            Err(e) => return refuse(1, format!("action {count}"), Reason::Body { message: e.to_string() }),
        };
        w.place = format!("action {count}, event {}", action.event());
        w.action(&action)?;
        count += 1;
        if count > plan.budgets.actions {
            return w.refuse(4, budget("actions of the body", count, plan.budgets.actions));
        }
    }
    w.counts(count)?;
    verified.jobs = w.jobs;
    if w.unproved > 0 {
        verified.unproved.push(format!(
            "{} of {} job chains lie in memory that an earlier job can write; they were walked as they stand, and \
             time bounds them",
            w.unproved, w.jobs
        ));
    }
    if !plan.allowed.is_empty() {
        let list: Vec<String> = plan.allowed.iter().map(|(s, e)| format!("{s:#x}..{e:#x}")).collect();
        verified.unproved.push(format!(
            "registers that the map does not know were allowed: {}",
            list.join(", ")
        ));
    }
    Ok(())
}

fn budget(what: &str, needed: u64, budget: u64) -> Reason {
    Reason::Budget {
        what: what.to_owned(),
        needed,
        budget,
    }
}

impl<'a> Walker<'a> {
    fn refuse<T>(&self, rule: u8, reason: Reason) -> Result<T, Refusal> {
        refuse(rule, self.place.clone(), reason)
    }

    fn count(&mut self, kind: RewriteKind) {
        *self.rewrites.entry(kind).or_default() += 1;
    }

    fn action(&mut self, action: &Action) -> Result<(), Refusal> {
        match *action {
            Action::Write {
                space: space::ARENA,
                offset,
                width,
                value,
                ..
            } => self.arena_write(offset, width, value),
            Action::Write {
                space,
                offset,
                width,
                value,
                ..
            } => {
                if let Some(r) = self.register(space, offset, width)? {
                    self.register_write(r, value)?;
                }
                self.cleared = false;
                Ok(())
            }
            Action::WriteSlot {
                space, offset, width, ..
            } => {
                let name = match self.register(space, offset, width)? {
                    Some(r) if r.replay.role == Some(Role::FlushId) && r.replay.write => {
                        self.untouched.write(r, 0);
                        self.count(RewriteKind::FlushId);
                        return Ok(());
                    }
                    Some(r) => r.name.clone(),
                    None => format!("{offset:#x}"),
                };
                self.refuse(1, Reason::LiveValue { register: name })
            }
            Action::Read {
                space,
                offset,
                width,
                class,
                ..
            } => {
                let r = self.register(space, offset, width)?;
                match class {
                    ReadClass::Before(mask) => {
                        if r.and_then(|r| self.untouched.reason(r)).is_none() {
                            let register = r.map_or_else(|| format!("{offset:#x}"), |r| r.name.clone());
                            return self.refuse(1, Reason::NotBefore { register });
                        }
                        let of = if mask == width_mask(width) {
                            &mut self.reads.equal
                        } else {
                            &mut self.reads.masked
                        };
                        *of += 1;
                    }
                    ReadClass::Equal => self.reads.equal += 1,
                    ReadClass::Masked(_) => self.reads.masked += 1,
                    ReadClass::Any => self.reads.any += 1,
                    ReadClass::Feeds(_) => self.reads.feeds += 1,
                }
                Ok(())
            }
            Action::Until {
                space,
                offset,
                width,
                reads,
                limit_ns,
                ..
            } => {
                self.register(space, offset, width)?;
                self.reads.until = self.reads.until.saturating_add(u64::from(reads));
                self.count(RewriteKind::ReadToWait);
                self.limit(limit_ns, self.plan.budgets.poll_ns)
            }
            Action::WaitInterrupt { lines, limit_ns, .. } => {
                self.interrupts += 1;
                self.count(RewriteKind::WaitAdded);
                if lines == 0 || lines & !LINES != 0 {
                    return self.refuse(4, Reason::WaitLines { lines });
                }
                self.limit(limit_ns, self.plan.budgets.interrupt_ns)
            }
            Action::Pause { ns, .. } => {
                self.pauses_ns = self.pauses_ns.saturating_add(ns);
                if self.pauses_ns > self.plan.budgets.time_ns {
                    return self.refuse(
                        4,
                        budget("nanoseconds of pauses", self.pauses_ns, self.plan.budgets.time_ns),
                    );
                }
                Ok(())
            }
        }
    }

    fn limit(&self, limit_ns: u64, budget_ns: u64) -> Result<(), Refusal> {
        if limit_ns == 0 || limit_ns > budget_ns {
            return self.refuse(4, Reason::WaitLimit { limit_ns, budget_ns });
        }
        Ok(())
    }

    /// The register of an access, or `None` for one that a person allowed.
    fn register(&self, space: u8, offset: u64, width: u8) -> Result<Option<&'a Register>, Refusal> {
        if space != space::REGISTERS {
            return self.refuse(1, Reason::UnknownSpace { space });
        }
        let window = self.map.window_bytes();
        if offset.checked_add(u64::from(width)).is_none_or(|end| end > window) {
            return self.refuse(1, Reason::OutsideWindow { offset, window });
        }
        if width != 4 || !offset.is_multiple_of(4) {
            return self.refuse(1, Reason::WidthOrAlignment { offset, width });
        }
        let at = u32::try_from(offset).unwrap_or(u32::MAX);
        match self.map.at(at) {
            Some(r) => Ok(Some(r)),
            None if self
                .plan
                .allowed
                .iter()
                .any(|(start, end)| (*start..*end).contains(&at)) =>
            {
                Ok(None)
            }
            None => self.refuse(1, Reason::UnknownRegister { offset }),
        }
    }

    fn value(&self, offset: u32) -> u64 {
        self.written.get(&offset).copied().unwrap_or(0)
    }

    fn pair(&self, r: &Register) -> u64 {
        match r.pair {
            Some(Half::Low { high_offset }) => self.value(r.offset) | self.value(high_offset) << 32,
            Some(Half::High { low_offset }) => self.value(low_offset) | self.value(r.offset) << 32,
            None => self.value(r.offset),
        }
    }

    /// The low half, or the only part, of the register with a role in the block that `r` belongs to.
    fn beside(&self, r: &Register, role: Role) -> Option<&'a Register> {
        self.map
            .registers()
            .find(|x| x.replay.role == Some(role) && x.index == r.index && x.block == r.block)
    }

    fn register_write(&mut self, r: &'a Register, value: u64) -> Result<(), Refusal> {
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
        self.untouched.write(r, value);
        self.written.insert(r.offset, value);
        match role {
            Some(Role::Root) => self.root_half(r, value),
            Some(Role::TransCfg) if !matches!(r.pair, Some(Half::High { .. })) => self.mode(r, value),
            Some(Role::AsCommand) if value == AS_UPDATE => self.update(r),
            Some(Role::JobCommand) if value == JOB_START => self.submit(r),
            Some(Role::GpuCommand) if RESETS.contains(&value) => {
                self.in_use.clear();
                self.written.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn root_half(&self, r: &Register, value: u64) -> Result<(), Refusal> {
        let high = matches!(r.pair, Some(Half::High { .. }));
        let half = |root: u64| if high { root >> 32 } else { root & 0xffff_ffff };
        if value == 0 || self.plan.spaces.iter().any(|s| half(s.root_register) == value) {
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

    /// A mode that no format of the plan's tables has is refused as soon as it is written.
    fn mode(&self, r: &Register, value: u64) -> Result<(), Refusal> {
        let mode = value & MODE;
        let of = |s: &crate::plan::PlanSpace| mode_of(s.format) == mode;
        if mode == MODE_UNMAPPED || self.plan.spaces.iter().any(of) {
            return Ok(());
        }
        self.refuse(
            2,
            Reason::TranslationMode {
                register: r.name.clone(),
                mode,
            },
        )
    }

    /// Root and mode take effect together.
    fn update(&mut self, command: &Register) -> Result<(), Refusal> {
        let number = command.index.unwrap_or(0);
        let root = self.beside(command, Role::Root).map_or(0, |r| self.pair(r));
        let cfg = self.beside(command, Role::TransCfg);
        let mode = cfg.map_or(MODE_LEGACY, |c| self.value(c.offset) & MODE);
        // In the LPAE format a root of 0 says by its low bits that nothing is translated.
        let lpae = self.plan.spaces.iter().any(|s| s.format == MmuFormat::MaliLpae);
        let in_use = if root == 0 && (mode == MODE_UNMAPPED || mode == MODE_LEGACY && lpae) {
            InUse::Unmapped
        } else {
            let Some((index, space)) = self
                .plan
                .spaces
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
                InUse::Unmapped
            } else if mode == mode_of(space.format) {
                InUse::Space(index)
            } else {
                let register = cfg.map_or_else(|| format!("AS{number}"), |c| c.name.clone());
                return self.refuse(2, Reason::TranslationMode { register, mode });
            }
        };
        self.in_use.insert(number, in_use);
        Ok(())
    }

    fn submit(&mut self, command: &'a Register) -> Result<(), Refusal> {
        let config = self
            .beside(command, Role::JobConfig)
            .map_or(0, |c| self.value(c.offset));
        let head = self.beside(command, Role::JobHead).map_or(0, |h| self.pair(h));
        let number = (config & CONFIG_AS) as u8;
        let space = match self.in_use.get(&number) {
            Some(InUse::Space(index)) => self.plan.spaces.get(*index),
            _ => None,
        };
        let Some(space) = space else {
            return self.refuse(3, Reason::JobWithoutSpace { number });
        };
        let gpu = self.memory.gpu(space);
        let walked = chain(&gpu, GpuVa(head));
        match walked.end {
            ChainEnd::End => {}
            ChainEnd::Loop(va) => return self.refuse(3, Reason::ChainLoops { head, va: va.0 }),
            ChainEnd::Unreadable(va) => return self.refuse(3, Reason::ChainUnmapped { head, va: va.0 }),
            // The hardware stops at a header that is none; there is nothing to follow behind it.
            ChainEnd::Undecoded(_) => {}
            ChainEnd::Limit => return self.refuse(3, Reason::ChainTooLong { head }),
        }
        if self.jobs > 0 && walked.jobs.iter().any(|j| gpu.writable(j.va)) {
            self.unproved += 1;
        }
        self.jobs += 1;
        Ok(())
    }

    fn arena_write(&mut self, offset: u64, width: u8, value: u64) -> Result<(), Refusal> {
        let aligned = offset.is_multiple_of(u64::from(width.max(1)));
        let Some(at) = self.plan.arena.base.checked_add(offset).filter(|_| aligned) else {
            return self.refuse(3, Reason::WriteOutside { offset, width });
        };
        if self.tables.contains(&at.frame()) {
            return self.refuse(3, Reason::WriteIntoTable { offset });
        }
        if !self.memory.write(at, width, value) {
            return self.refuse(3, Reason::WriteOutside { offset, width });
        }
        if !self.cleared {
            self.count(RewriteKind::JobStatus);
            self.cleared = true;
        }
        Ok(())
    }

    /// Rule 5: what the body does besides the recording is what the rewrites name.
    fn counts(&self, actions: u64) -> Result<(), Refusal> {
        let named = |kind| self.plan.rewrites.iter().filter(|r| r.kind == kind).count() as u64;
        let found = |kind| self.rewrites.get(&kind).copied().unwrap_or(0);
        let reads = (&self.plan.reads, &self.reads);
        let jobs = self.plan.jobs.len() as u64;
        let pairs = [
            ("actions", self.plan.actions, actions),
            ("interrupts", self.plan.interrupts, self.interrupts),
            ("jobs", jobs, self.jobs),
            ("equal reads", reads.0.equal, reads.1.equal),
            ("masked reads", reads.0.masked, reads.1.masked),
            ("polled reads", reads.0.until, reads.1.until),
            ("feeding reads", reads.0.feeds, reads.1.feeds),
            ("uncompared reads", reads.0.any, reads.1.any),
            (
                "flush-id rewrites",
                named(RewriteKind::FlushId),
                found(RewriteKind::FlushId),
            ),
            (
                "job-status rewrites",
                named(RewriteKind::JobStatus),
                found(RewriteKind::JobStatus),
            ),
            (
                "read-to-wait rewrites",
                named(RewriteKind::ReadToWait),
                found(RewriteKind::ReadToWait),
            ),
            (
                "wait-added rewrites",
                named(RewriteKind::WaitAdded),
                found(RewriteKind::WaitAdded),
            ),
        ];
        for (what, said, found) in pairs {
            if said != found {
                return refuse(
                    5,
                    "rewrites",
                    Reason::Unnamed {
                        what: what.to_owned(),
                        said,
                        found,
                    },
                );
            }
        }
        Ok(())
    }
}

fn mode_of(format: MmuFormat) -> u64 {
    match format {
        MmuFormat::Aarch64_4k => MODE_AARCH64_4K,
        MmuFormat::MaliLpae => MODE_LEGACY,
    }
}
