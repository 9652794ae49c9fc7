//! Translation of recorded events to actions, with every difference listed.

mod access_rewrites;

use super::other_model::ModelChange;
use super::prepass::{WrittenRegisters, find_acknowledged, find_polls, find_roots};
use super::table_formats::TableFormats;
use super::unwritten::UnwrittenRegisters;
use crate::device::{Arena, space};
use crate::plan::relocate::{Change, Edit, RelocatedMemory};
use crate::plan::{
    BodyBuilder, CompileError, CompileOptions, Pace, PlanJob, PlanSpace, ReadClasses, Rewrite, RewriteKind,
};
use replay_core::{Action, ReadClass, width_mask};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use trace_core::families::mali_jm::{AS_UPDATE, COMMAND_START, CONFIG_AS, read_chain};
use trace_core::mmu::root_from_register;
use trace_core::progress::Progress;
use trace_core::recording::{Access, EventKind, InterruptLine};
use trace_core::registers::{Half, ReadRule, Register, RegisterMap, Role};
use trace_core::timeline::GAP_NS;
use trace_core::{GpuVa, Recording, RegOffset};

/// The slot for the flush id.
const FLUSH_SLOT: u8 = 0;
/// Number of events between two progress reports.
const REPORT_EVERY: usize = 4096;

/// The additions to a plan from translated events.
pub(super) struct TranslatedEvents {
    pub rewrites: Vec<Rewrite>,
    pub body: BodyBuilder,
    pub jobs: Vec<PlanJob>,
    pub reads: ReadClasses,
    pub interrupts: u64,
}

/// The translation of a recording to actions.
pub(super) struct Translation<'a, 'm> {
    recording: &'a Recording,
    map: &'a RegisterMap,
    memory: &'a mut RelocatedMemory<'m>,
    edits: &'a mut [Edit],
    spaces: &'a [PlanSpace],
    arena: Arena,
    options: &'a CompileOptions,
    /// Polls by their last event, with the number of reads that they replace.
    polls: BTreeMap<usize, u32>,
    /// The 64-bit value that a write of half a root register belongs to, by event.
    roots: HashMap<usize, u64>,
    written: WrittenRegisters,
    untouched: UnwrittenRegisters,
    /// The plan's translation that was last assigned to each hardware address space.
    in_use: HashMap<u8, usize>,
    fed: bool,
    open_jobs: HashMap<u8, usize>,
    /// The translation for another model, if the target is one.
    models: Option<ModelChange>,
    /// Allocated ranges by address space, for another model.
    ranges: Vec<Vec<Range<GpuVa>>>,
    formats: TableFormats,
    /// Halves of root registers as the plan last wrote them.
    planned_roots: HashMap<RegOffset, u64>,
    out: TranslatedEvents,
}

impl<'a, 'm> Translation<'a, 'm> {
    pub fn new(
        recording: &'a Recording,
        map: &'a RegisterMap,
        memory: &'a mut RelocatedMemory<'m>,
        edits: &'a mut [Edit],
        spaces: &'a [PlanSpace],
        arena: Arena,
        options: &'a CompileOptions,
    ) -> Self {
        Self {
            recording,
            map,
            memory,
            edits,
            spaces,
            arena,
            options,
            polls: find_polls(recording, map),
            roots: find_roots(recording, map),
            written: WrittenRegisters::default(),
            untouched: UnwrittenRegisters::default(),
            in_use: HashMap::new(),
            fed: false,
            open_jobs: HashMap::new(),
            models: None,
            ranges: Vec::new(),
            formats: TableFormats::default(),
            planned_roots: HashMap::new(),
            out: TranslatedEvents {
                rewrites: Vec::new(),
                body: BodyBuilder::new(),
                jobs: Vec::new(),
                reads: ReadClasses::default(),
                interrupts: 0,
            },
        }
    }

    /// Returns the translation for another model, and for other formats of page tables.
    pub fn with_changes(mut self, models: Option<ModelChange>, formats: TableFormats) -> Self {
        if models.is_some() {
            self.ranges = access_rewrites::find_allocated_ranges(self.recording);
        }
        (self.models, self.formats) = (models, formats);
        self
    }

    pub fn finish(self) -> TranslatedEvents {
        self.out
    }

    pub fn run(&mut self, progress: &Progress) -> Result<(), CompileError> {
        let mut before: Option<u64> = None;
        let mut done = 0;
        for at in 0..self.recording.events.len() {
            if at % REPORT_EVERY == 0 {
                progress.advance(if at == 0 { 0 } else { REPORT_EVERY as u64 })?;
            }
            let time = self.recording.events.time.get(at).unwrap_or(0);
            let idle = before.map_or(0, |b| time.saturating_sub(b));
            before = Some(time);
            if idle > GAP_NS {
                self.gap(at, idle)?;
            }
            match self.recording.events.kind(at) {
                Some(EventKind::Read | EventKind::Write) => {
                    let access = self
                        .recording
                        .events
                        .access(at)
                        .ok_or(CompileError::EventKind { event: at as u64 })?;
                    self.access(at, access)?;
                }
                // The reads of interrupt handlers show the interrupts; marks are for people. An access without a value
                // cannot be replayed, which a finding of the recording reports.
                Some(EventKind::Interrupt | EventKind::Mark | EventKind::Undecoded | EventKind::DmaMap) => {}
                // Consecutive host writes are processed together.
                Some(EventKind::HostWrite) if at < done => {}
                Some(EventKind::HostWrite) => done = self.host_writes(at)?,
                // Calls have a body of their own, and no registers.
                Some(_) | None => return Err(CompileError::EventKind { event: at as u64 }),
            }
        }
        match self.recording.events.len().checked_sub(1) {
            Some(last) => self.follow_edits(last),
            None => Ok(()),
        }
    }

    /// Processes the consecutive host writes from an event on. Returns the event after them.
    fn host_writes(&mut self, first: usize) -> Result<usize, CompileError> {
        let mut rows = Vec::new();
        let mut behind = first;
        while let Some(row) = self.recording.events.host_write(behind) {
            rows.push(row);
            behind += 1;
        }
        if behind == first {
            return Err(CompileError::HostWrite { event: first as u64 });
        }
        let changes = self.memory.host_writes(first as u64, &rows)?;
        if let Some(models) = &mut self.models {
            models.memory_changed();
        }
        self.changes(first, changes)?;
        Ok(behind)
    }

    fn changes(&mut self, at: usize, changes: Vec<Change>) -> Result<(), CompileError> {
        let event = at as u32;
        let base = self.arena.base.get();
        for change in changes {
            self.push(match change {
                Change::Put { at, width, value } => Action::Put {
                    event,
                    offset: at.get().saturating_sub(base),
                    width,
                    value,
                },
                Change::Copy { at, bytes, image } => Action::Copy {
                    event,
                    offset: at.get().saturating_sub(base),
                    bytes,
                    image,
                },
            })?;
        }
        Ok(())
    }

    /// Updates edits with the CPU writes up to here.
    fn follow_edits(&mut self, at: usize) -> Result<(), CompileError> {
        let changes = self.memory.follow(at as u64, self.edits)?;
        self.changes(at, changes)
    }

    fn rewrite(&mut self, kind: RewriteKind, at: usize, detail: String) {
        self.out.rewrites.push(Rewrite {
            kind,
            event: Some(at as u64),
            detail,
        });
    }

    fn push(&mut self, action: Action) -> Result<(), CompileError> {
        Ok(self.out.body.push(&action)?)
    }

    fn gap(&mut self, at: usize, ns: u64) -> Result<(), CompileError> {
        match self.options.pace {
            Pace::Fast => {
                self.rewrite(RewriteKind::Gap, at, format!("{ns} ns without an event are skipped"));
                Ok(())
            }
            Pace::Recorded => self.push(Action::Pause { event: at as u32, ns }),
        }
    }

    fn access(&mut self, at: usize, a: Access) -> Result<(), CompileError> {
        let event = at as u64;
        if a.space != 0 {
            return Err(CompileError::OtherSpace { event, space: a.space });
        }
        let window = self.map.window_bytes();
        let fits = u64::from(a.offset.get()) + u64::from(a.width) <= window;
        if a.width != 4 || !a.offset.is_aligned(4) || !fits {
            return Err(CompileError::BadAccess {
                event,
                offset: a.offset,
                width: a.width,
                window,
            });
        }
        match self.map.at(a.offset) {
            Some(r) => {
                let a = self.rewrite_access(at, r, a)?;
                if a.write {
                    self.write(at, r, a)
                } else {
                    self.read(at, r, a)
                }
            }
            None if self
                .options
                .allow_unknown
                .iter()
                .any(|allowed| allowed.contains(&a.offset)) =>
            {
                if a.write {
                    self.plain_write(at, a.offset, a.width, a.value)
                } else {
                    self.out.reads.equal += 1;
                    self.plain_read(at, a, ReadClass::Equal)
                }
            }
            None => Err(CompileError::UnknownRegister {
                event,
                offset: a.offset,
            }),
        }
    }

    fn plain_write(&mut self, at: usize, offset: RegOffset, width: u8, value: u64) -> Result<(), CompileError> {
        self.push(Action::Write {
            event: at as u32,
            space: space::REGISTERS,
            offset: u64::from(offset.get()),
            width,
            value,
        })
    }

    fn plain_read(&mut self, at: usize, a: Access, class: ReadClass) -> Result<(), CompileError> {
        self.push(Action::Read {
            event: at as u32,
            space: space::REGISTERS,
            offset: u64::from(a.offset.get()),
            width: a.width,
            class,
            expected: a.value,
        })
    }

    fn read(&mut self, at: usize, r: &Register, a: Access) -> Result<(), CompileError> {
        if let Some(Role::IrqStatus(line)) = r.replay.role
            && let Some(status) = Some(a.value)
                .filter(|v| *v != 0)
                .or_else(|| find_acknowledged(self.recording, self.map, at, line))
        {
            self.interrupt(at, r, line, status)?;
        }
        let before = self.untouched.reason(r).is_some();
        let reads = &mut self.out.reads;
        match r.replay.read {
            ReadRule::Equal => {
                reads.equal += 1;
                let all = width_mask(a.width);
                let class = if before {
                    ReadClass::Before(all)
                } else {
                    ReadClass::Equal
                };
                self.plain_read(at, a, class)
            }
            ReadRule::Masked(mask) => {
                let all = width_mask(a.width);
                let (mask, class) = (mask & all, ReadClass::Masked(mask & all));
                if before && mask == all {
                    reads.equal += 1;
                } else {
                    reads.masked += 1;
                }
                self.plain_read(at, a, if before { ReadClass::Before(mask) } else { class })
            }
            ReadRule::Any => {
                reads.any += 1;
                self.plain_read(at, a, ReadClass::Any)
            }
            ReadRule::Feeds => {
                reads.feeds += 1;
                self.fed = true;
                self.plain_read(at, a, ReadClass::Feeds(FLUSH_SLOT))
            }
            ReadRule::Until => {
                reads.until += 1;
                // Of a poll only the last read is kept, for all of them.
                let Some(reads) = self.polls.get(&at).copied() else {
                    return Ok(());
                };
                let detail = format!("{reads} reads of {} become a wait for {:#x}", r.name, a.value);
                self.rewrite(RewriteKind::ReadToWait, at, detail);
                self.push(Action::Until {
                    event: at as u32,
                    reads,
                    space: space::REGISTERS,
                    offset: u64::from(a.offset.get()),
                    width: a.width,
                    mask: width_mask(a.width),
                    expected: a.value,
                    limit_ns: self.options.budgets.poll_ns,
                })
            }
        }
    }

    fn interrupt(&mut self, at: usize, r: &Register, line: InterruptLine, status: u64) -> Result<(), CompileError> {
        if line == InterruptLine::Job {
            for (slot, job) in &self.open_jobs {
                let bits = status >> slot & 0x1_0001;
                if let Some(j) = self
                    .out
                    .jobs
                    .get_mut(*job)
                    .filter(|j| bits != 0 && j.done_event.is_none())
                {
                    j.done_event = Some(at as u64);
                }
            }
        }
        let detail = format!(
            "a wait for the {} interrupt before its handler reads {}",
            line.name(),
            r.name
        );
        self.rewrite(RewriteKind::WaitAdded, at, detail);
        self.out.interrupts += 1;
        self.push(Action::WaitInterrupt {
            event: at as u32,
            lines: 1 << line as u32,
            limit_ns: self.options.budgets.interrupt_ns,
        })
    }

    fn write(&mut self, at: usize, r: &Register, a: Access) -> Result<(), CompileError> {
        let event = at as u64;
        let root = matches!(r.replay.role, Some(Role::Root));
        if !r.replay.write || !root && !r.replay.allows(a.value) {
            return Err(CompileError::NotReplayable {
                event,
                register: r.name.clone(),
                value: a.value,
                reason: if r.replay.write {
                    "the map does not list this value".into()
                } else {
                    r.replay.reason.clone()
                },
            });
        }
        self.untouched.write(r, a.value);
        self.written.values.insert(a.offset, a.value);
        match r.replay.role {
            Some(Role::Root) => self.root(at, r, a),
            Some(Role::FlushId) if self.fed => {
                let detail = format!("{} takes the latest live flush id instead of {:#x}", r.name, a.value);
                self.rewrite(RewriteKind::FlushId, at, detail);
                self.push(Action::WriteSlot {
                    event: at as u32,
                    space: space::REGISTERS,
                    offset: u64::from(a.offset.get()),
                    width: a.width,
                    slot: FLUSH_SLOT,
                })
            }
            Some(Role::JobCommand) if a.value == COMMAND_START => {
                self.submit(at, r)?;
                self.plain_write(at, a.offset, a.width, a.value)
            }
            Some(Role::AsCommand) if a.value == AS_UPDATE => {
                self.write_configuration(at, r)?;
                self.plain_write(at, a.offset, a.width, a.value)
            }
            _ => self.plain_write(at, a.offset, a.width, a.value),
        }
    }

    fn root(&mut self, at: usize, r: &Register, a: Access) -> Result<(), CompileError> {
        let whole = self.roots.get(&at).copied().unwrap_or_else(|| self.written.pair(r));
        if self.clear_unmapped_root(at, r, a)? {
            return Ok(());
        }
        if whole == 0 {
            self.planned_roots.insert(a.offset, 0);
            return self.plain_write(at, a.offset, a.width, a.value);
        }
        let recorded = &self.recording.metadata.address_spaces;
        let number = r.index.unwrap_or(0);
        let same = |i: &usize| {
            recorded
                .get(*i)
                .is_some_and(|s| root_from_register(s.format, whole) == root_from_register(s.format, s.root.get()))
        };
        // Two address spaces may share tables; then the one with the same number counts.
        let found = (0..recorded.len())
            .filter(same)
            .min_by_key(|i| recorded.get(*i).is_none_or(|s| s.number != number))
            .and_then(|i| Some((i, *self.spaces.get(i)?)));
        let Some((index, target)) = found else {
            return Err(CompileError::UnknownRoot {
                event: at as u64,
                register: r.name.clone(),
                value: whole,
            });
        };
        self.in_use.insert(number, index);
        let value = match r.pair {
            Some(Half::High { .. }) => target.root_register >> 32,
            _ => target.root_register & 0xffff_ffff,
        };
        let detail = format!(
            "{} becomes {value:#x} instead of {:#x}: the agent's tables",
            r.name, a.value
        );
        self.rewrite(RewriteKind::Root, at, detail);
        self.planned_roots.insert(a.offset, value);
        self.plain_write(at, a.offset, a.width, value)
    }

    fn submit(&mut self, at: usize, r: &Register) -> Result<(), CompileError> {
        self.follow_edits(at)?;
        self.memory.note_submit();
        let slot = r.index.unwrap_or(0);
        let of_slot = |role: Role| {
            self.map
                .registers_with_role(role)
                .find(|x| x.index == r.index && x.block == r.block)
        };
        let head = of_slot(Role::JobHead).map_or(0, |h| self.written.pair(h));
        let config = of_slot(Role::JobConfig).map_or(0, |c| self.written.get(c.offset));
        let head_va = GpuVa::new(head);
        self.open_jobs.insert(slot, self.out.jobs.len());
        self.out.jobs.push(PlanJob {
            submit_event: at as u64,
            done_event: None,
            head_va,
            slot,
        });
        let in_use = self
            .in_use
            .get(&((config & CONFIG_AS) as u8))
            .and_then(|i| Some((*i, self.spaces.get(*i)?)));
        // The verifier refuses a submit without translation.
        let Some((index, target)) = in_use else { return Ok(()) };
        let jobs = read_chain(&self.memory.gpu(target), head_va).jobs;
        self.check_for_model(at, slot, config, index, &jobs)?;
        let gpu = self.memory.gpu(target);
        let headers: Vec<_> = jobs.iter().filter_map(|j| gpu.physical(j.va)).collect();
        if headers.is_empty() {
            return Ok(());
        }
        let detail = match headers.len() {
            1 => format!("the status word of the header at {head_va} is cleared"),
            n => format!("the status words of {n} headers from {head_va} on are cleared"),
        };
        self.rewrite(RewriteKind::JobStatus, at, detail);
        for pa in headers {
            let offset = pa.get().saturating_sub(self.arena.base.get());
            self.push(Action::Write {
                event: at as u32,
                space: space::ARENA,
                offset,
                width: 8,
                value: 0,
            })?;
        }
        Ok(())
    }
}
