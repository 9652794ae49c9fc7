//! Translation of a bus device's recording to actions: its recorded accesses, window by window, with reads classified
//! by the register map.
//!
//! Such a device has no page tables for a plan to prove. It gets no memory to access, unless the map types every
//! address register and the recording has the memory that it was given.

use super::dma::{Dma, DmaPages};
use super::verify::OTHER_WINDOW;
use super::virtio_features::FeatureSelect;
use crate::device::{DeviceInfo, Window, space};
use crate::plan::{
    AccessPlan, BodyBuilder, BusError, CompareMode, CompileError, CompileOptions, Compiled, Edits, Effect, Expectation,
    MmioPlan, Origin, Pace, PageImages, Plan, PlanBody, PlanBuffer, ReadClasses, RegisterAccess, Rewrite, RewriteKind,
    UnwrittenRegisters, find_buffer, plan_title,
};
use replay_core::{Action, ReadClass, width_mask};
use std::collections::BTreeMap;
use trace_core::check::undecoded_accesses;
use trace_core::progress::Progress;
use trace_core::recording::{Access, Buffer, EventKind, Hardware, RecordedRange, SpaceKind};
use trace_core::registers::RegisterMap;
use trace_core::timeline::GAP_NS;
use trace_core::{BusAddr, GpuVa, PhysAddr, Recording};

/// Number of events between two progress reports.
const REPORT_EVERY: usize = 4096;

struct Translation<'a> {
    recording: &'a Recording,
    target: &'a DeviceInfo,
    map: &'a RegisterMap,
    options: &'a CompileOptions,
    /// The device's window for each space of the recording.
    windows: Vec<Option<&'a Window>>,
    untouched: UnwrittenRegisters,
    actions: Vec<Action>,
    front: FeatureSelect<'a>,
    /// Memory that the device accesses by DMA.
    dma: Option<Dma<'a>>,
    reads: ReadClasses,
    interrupts: u64,
    rewrites: Vec<Rewrite>,
    /// Accesses that are left out: the first event and the number, by description.
    left_out: BTreeMap<String, (u64, u64)>,
}

pub(super) fn compile(
    recording: &Recording,
    edits: &Edits,
    target: &DeviceInfo,
    map: &RegisterMap,
    options: &CompileOptions,
    progress: &Progress,
) -> Result<Compiled, CompileError> {
    let hardware = same_device(recording, target)?;
    if !edits.inputs.is_empty() || !edits.patches.is_empty() {
        return Err(CompileError::NoMemoryToEdit {
            device: target.name.clone(),
        });
    }
    if let Some(block) = recording.find_damage(progress)? {
        return Err(CompileError::Damaged { block: Box::new(block) });
    }
    progress.set_total(recording.events.len() as u64);
    let mut t = Translation {
        recording,
        target,
        map,
        options,
        windows: windows(recording, target),
        untouched: UnwrittenRegisters::default(),
        actions: Vec::new(),
        front: FeatureSelect::new(map, target),
        dma: Dma::new(recording, map, target.arena, options.budgets.poll_ns)?,
        reads: ReadClasses::default(),
        interrupts: 0,
        rewrites: Vec::new(),
        left_out: BTreeMap::new(),
    };
    t.run(progress)?;
    for (what, (first, count)) in std::mem::take(&mut t.left_out) {
        t.rewrites.push(Rewrite {
            kind: RewriteKind::LeftOut,
            event: Some(first),
            detail: format!("{count} {what}"),
        });
    }
    for f in undecoded_accesses(recording, progress)? {
        t.rewrites.push(Rewrite {
            kind: RewriteKind::LeftOut,
            event: f.event,
            detail: format!("{}: {}", f.place, f.message),
        });
    }
    let expectations = t.expectations()?;
    let outputs = t.outputs()?;
    let buffers = t.buffers();
    let ranges = t.ranges();
    let masters = t.dma.is_some();
    let placed = t.moved()?;
    t.rewrites.sort_by_key(|r| (r.event.is_some(), r.event, r.kind));
    let mut body = BodyBuilder::new();
    t.actions.iter().try_for_each(|a| body.push(a))?;
    let (body, actions) = body.finish();
    let accesses = AccessPlan {
        gpu_id: recording.metadata.identity.gpu_id,
        register_map: map.name().to_owned(),
        arena: target.arena,
        pages: placed.pages,
        used_pages: placed.used_pages,
        reads: t.reads,
        interrupts: t.interrupts,
        body,
        allowed: options.allow_unknown.iter().map(|r| (r.start, r.end)).collect(),
        buffers,
        expectations,
        origin: Some(Origin {
            // They are addresses of the recorded machine.
            regions: Vec::new(),
            ranges,
            ..Origin::from_recording(recording)
        }),
    };
    let body = PlanBody::Mmio(MmioPlan {
        accesses,
        hardware,
        windows: target.windows.clone(),
        masters,
    });
    Ok(Compiled {
        plan: Plan {
            title: plan_title(&recording.metadata.identity),
            outputs,
            rewrites: t.rewrites,
            actions,
            budgets: options.budgets,
            images: placed.images,
            ..Plan::new(body)
        },
        pages: placed.by_digest,
    })
}

/// Returns the target's device, if the recording was made of it.
fn same_device(recording: &Recording, target: &DeviceInfo) -> Result<Hardware, CompileError> {
    let device = target.hardware.as_ref();
    let recorded = recording.hardware();
    match (recorded, device) {
        (Some(a), Some(b)) if a.is_same_device(b) => Ok(b.clone()),
        _ => Err(CompileError::OtherHardware {
            recorded: recorded.filter(|h| h.is_named()).map_or_else(
                || "an unknown device (import the log with `--device VENDOR:DEVICE`)".to_owned(),
                |h| h.id(),
            ),
            device: format!(
                "{}, {}",
                target.name,
                device.map_or_else(|| target.gpu_name.clone(), |h| h.id())
            ),
        }),
    }
}

/// Returns the device's window for each of the recording's spaces, by name.
fn windows<'a>(recording: &Recording, target: &'a DeviceInfo) -> Vec<Option<&'a Window>> {
    let of = |name: &str| target.windows.iter().find(|w| w.name == name);
    recording.metadata.spaces.iter().map(|s| of(&s.name)).collect()
}

impl<'a> Translation<'a> {
    fn run(&mut self, progress: &Progress) -> Result<(), CompileError> {
        let mut before: Option<u64> = None;
        let events = &self.recording.events;
        let mut at = 0;
        while at < events.len() {
            if at % REPORT_EVERY == 0 {
                progress.advance(if at == 0 { 0 } else { REPORT_EVERY as u64 })?;
            }
            let time = events.time.get(at).unwrap_or(0);
            let idle = before.map_or(0, |b| time.saturating_sub(b));
            before = Some(time);
            if idle > GAP_NS {
                self.gap(at, idle)?;
            }
            at = match events.kind(at) {
                Some(EventKind::Read | EventKind::Write) => {
                    let access = events.access(at).ok_or(CompileError::EventKind { event: at as u64 })?;
                    self.access(at, access)?
                }
                Some(EventKind::Interrupt) => self.interrupt(at)?,
                // Accesses without a value are reported together, and marks of the driver's memory are for people.
                Some(EventKind::Mark | EventKind::Undecoded | EventKind::DmaMap) => at + 1,
                Some(EventKind::HostWrite) if self.dma.is_some() => match &mut self.dma {
                    Some(dma) => dma.host_writes(at)?,
                    None => at + 1,
                },
                // A submit or a driver call has no registers.
                Some(_) | None => {
                    return Err(CompileError::EventKind { event: at as u64 });
                }
            };
        }
        Ok(())
    }

    fn push(&mut self, action: Action) -> Result<(), CompileError> {
        let Some(dma) = &mut self.dma else {
            self.actions.push(action);
            return Ok(());
        };
        match action {
            Action::Write {
                event,
                space: space::REGISTERS,
                offset,
                width,
                value,
            } => dma
                .write(event, offset, width, value)
                .map_err(|BusError(why)| CompileError::BusMastering {
                    event: event.into(),
                    why,
                }),
            other => {
                dma.mover.push_action(other, |_| None);
                Ok(())
            }
        }
    }

    fn gap(&mut self, at: usize, ns: u64) -> Result<(), CompileError> {
        match self.options.pace {
            Pace::Fast => {
                self.rewrites.push(Rewrite {
                    kind: RewriteKind::Gap,
                    event: Some(at as u64),
                    detail: format!("{ns} ns without an event are skipped"),
                });
                Ok(())
            }
            Pace::Recorded => self.push(Action::Pause { event: at as u32, ns }),
        }
    }

    fn leave_out(&mut self, at: usize, count: u64, what: String) {
        self.left_out.entry(what).or_insert((at as u64, 0)).1 += count;
    }

    /// Translates an access. Returns the event after it.
    fn access(&mut self, at: usize, a: Access) -> Result<usize, CompileError> {
        let event = at as u64;
        let recorded = self.recording.metadata.spaces.get(usize::from(a.space));
        let Some(window) = self.windows.get(usize::from(a.space)).copied().flatten() else {
            let (name, kind) = recorded.map_or(("", None), |s| (s.name.as_str(), Some(s.kind)));
            return match kind {
                // They belong to the machine, not to the device: a driver only reads there.
                Some(SpaceKind::Memory) if !a.write => {
                    self.leave_out(
                        at,
                        1,
                        format!("reads of {name}, which is the machine's memory and not the device's"),
                    );
                    Ok(at + 1)
                }
                Some(SpaceKind::Config) => {
                    let what = "accesses to configuration space, which the agent sets up itself";
                    self.leave_out(at, 1, what.to_owned());
                    Ok(at + 1)
                }
                _ => Err(CompileError::NoWindow {
                    event,
                    space: name.to_owned(),
                    device: self.target.name.clone(),
                }),
            };
        };
        let fits = u64::from(a.offset.get()) + u64::from(a.width) <= window.bytes;
        let sound = matches!(a.width, 1 | 2 | 4 | 8) && a.offset.is_aligned(u32::from(a.width));
        if !fits || !sound {
            return Err(CompileError::BadAccess {
                event,
                offset: a.offset,
                width: a.width,
                window: window.bytes,
            });
        }
        if window.number != space::REGISTERS {
            if a.write && window.kind != SpaceKind::Framebuffer {
                return Err(CompileError::NotReplayable {
                    event,
                    register: format!("{}+{:#x}", window.name, a.offset),
                    value: a.value,
                    reason: OTHER_WINDOW.to_owned(),
                });
            }
            return self.plain(at, window.number, a, CompareMode::Bits(width_mask(a.width)), false);
        }
        let touch = RegisterAccess::new(self.map, a.offset, a.width);
        if let Some(offset) = touch.unknown()
            && !self.allows(a)
        {
            return Err(CompileError::UnknownRegister { event, offset });
        }
        if a.write {
            if let Some((register, reason)) = touch.refusal(a.value, self.dma.is_some()) {
                return Err(CompileError::NotReplayable {
                    event,
                    register,
                    value: a.value,
                    reason,
                });
            }
            self.untouched.write(&touch);
            let mut a = a;
            if let Some((value, detail)) = self.front.write(a.offset, a.value) {
                a.value = value;
                self.rewrites.push(Rewrite {
                    kind: RewriteKind::Feature,
                    event: Some(event),
                    detail,
                });
            }
            return self.plain(at, window.number, a, CompareMode::Bits(0), false);
        }
        let before = self.untouched.reason(&touch).is_some();
        self.plain(at, window.number, a, touch.demand(), before)
    }

    fn allows(&self, a: Access) -> bool {
        let (from, to) = (a.offset, a.offset.saturating_add(u32::from(a.width)));
        let allowed = &self.options.allow_unknown;
        allowed.iter().any(|r| r.start <= from && to <= r.end)
    }

    fn plain(
        &mut self,
        at: usize,
        number: u8,
        a: Access,
        demand: CompareMode,
        before: bool,
    ) -> Result<usize, CompileError> {
        let (event, offset) = (at as u32, u64::from(a.offset.get()));
        if a.write {
            self.push(Action::Write {
                event,
                space: number,
                offset,
                width: a.width,
                value: a.value,
            })?;
            return Ok(at + 1);
        }
        let all = width_mask(a.width);
        let mask = match demand {
            CompareMode::Until => return self.poll(at, number, a),
            CompareMode::Bits(mask) => mask & all,
        };
        let (class, counted) = match mask {
            0 => (ReadClass::Any, &mut self.reads.any),
            m if m == all => (
                if before { ReadClass::Before(m) } else { ReadClass::Equal },
                &mut self.reads.equal,
            ),
            m => (
                if before {
                    ReadClass::Before(m)
                } else {
                    ReadClass::Masked(m)
                },
                &mut self.reads.masked,
            ),
        };
        *counted += 1;
        self.push(Action::Read {
            event,
            space: number,
            offset,
            width: a.width,
            class,
            expected: a.value,
        })?;
        Ok(at + 1)
    }

    /// Turns consecutive reads of one polled register into one wait for the last value.
    fn poll(&mut self, first: usize, number: u8, a: Access) -> Result<usize, CompileError> {
        let (mut behind, mut last) = (first, a);
        while let Some(next) = self.recording.events.access(behind)
            && (next.space, next.write, next.offset, next.width) == (a.space, false, a.offset, a.width)
        {
            last = next;
            behind += 1;
        }
        let reads = u32::try_from(behind - first).unwrap_or(u32::MAX);
        let event = (behind - 1) as u32;
        self.reads.until += u64::from(reads);
        self.rewrites.push(Rewrite {
            kind: RewriteKind::ReadToWait,
            event: Some(u64::from(event)),
            detail: format!(
                "{reads} reads of {} become a wait for {:#x}",
                RegisterAccess::new(self.map, a.offset, a.width).name(),
                last.value
            ),
        });
        self.push(Action::Until {
            event,
            reads,
            space: number,
            offset: u64::from(a.offset.get()),
            width: a.width,
            mask: width_mask(a.width),
            expected: last.value,
            limit_ns: self.options.budgets.poll_ns,
        })?;
        Ok(behind)
    }

    fn interrupt(&mut self, at: usize) -> Result<usize, CompileError> {
        let row = self.recording.events.interrupt(at);
        let line = row.map(|r| r.line).filter(|l| *l < u32::BITS);
        let line = line.ok_or(CompileError::EventKind { event: at as u64 })?;
        self.interrupts += 1;
        self.rewrites.push(Rewrite {
            kind: RewriteKind::WaitAdded,
            event: Some(at as u64),
            detail: format!("a wait for interrupt line {line}, where the recording has the interrupt"),
        });
        self.push(Action::WaitInterrupt {
            event: at as u32,
            lines: 1 << line,
            limit_ns: self.options.budgets.interrupt_ns,
        })?;
        Ok(at + 1)
    }

    /// Waits for pending device work, and takes over its memory and the actions.
    fn moved(&mut self) -> Result<DmaPages, CompileError> {
        let Some(mut dma) = self.dma.take() else {
            return Ok(DmaPages {
                pages: Vec::new(),
                used_pages: 0,
                images: Vec::new(),
                by_digest: PageImages::new(),
            });
        };
        let last = dma.mover.actions.last().map_or(0, Action::event);
        dma.mover
            .finish(last)
            .map_err(|BusError(why)| CompileError::BusMastering {
                event: last.into(),
                why,
            })?;
        self.actions = std::mem::take(&mut dma.mover.actions);
        let moved = std::mem::take(&mut dma.mover.moved);
        self.rewrites.extend(moved.waits());
        let address = |event, detail| Rewrite {
            kind: RewriteKind::Address,
            event,
            detail,
        };
        for (range, to) in &dma.runs {
            let at = self.target.arena.base.get().saturating_add(*to);
            let detail = format!("memory {:#x} to {:#x} lies at {at:#x}", range.start, range.end);
            self.rewrites.push(address(None, detail));
        }
        let detail = format!(
            "{} addresses in registers and {} in memory are the agent's",
            moved.registers, moved.words
        );
        self.rewrites.push(address(None, detail));
        Ok(dma.place())
    }

    /// Returns the buffer at its arena address, or `None` if the device does not have all of it in one piece.
    fn moved_buffer(&self, dma: &Dma<'_>, b: &Buffer) -> Option<PlanBuffer> {
        let behind_first = b.bytes.saturating_sub(1);
        let from = dma.mover.offset(BusAddr::new(b.va.get()))?;
        let to = dma.mover.offset(BusAddr::new(b.va.checked_add(behind_first)?.get()))?;
        (to.checked_sub(from) == Some(behind_first)).then(|| PlanBuffer {
            name: b.name.clone(),
            va: GpuVa::new(self.target.arena.base.get().saturating_add(from)),
            bytes: b.bytes,
            element: b.element,
            space: 0,
        })
    }

    /// Returns the recorded address of each piece of the arena, in the original recording. A recording of a replay has
    /// this data itself.
    fn ranges(&self) -> Vec<RecordedRange> {
        let Some(dma) = &self.dma else { return Vec::new() };
        let known = self.recording.recorded_ranges();
        let mut out = Vec::new();
        for (range, to) in &dma.runs {
            let range = PhysAddr::new(range.start.get())..PhysAddr::new(range.end.get());
            let mut at = range.start;
            let mut push = |until: PhysAddr, recorded_at: PhysAddr, at: &mut PhysAddr| {
                if until > *at {
                    out.push(RecordedRange {
                        at: PhysAddr::new(to.saturating_add(*at - range.start)),
                        bytes: until - *at,
                        recorded_at,
                    });
                    *at = until;
                }
            };
            for k in known.iter().filter(|k| k.at < range.end) {
                let end = k.at.saturating_add(k.bytes).min(range.end);
                let here = at;
                push(k.at, here, &mut at);
                let recorded = k.recorded_at.saturating_add(at.offset_from(k.at).unwrap_or_default());
                push(end, recorded, &mut at);
            }
            let here = at;
            push(range.end, here, &mut at);
        }
        out
    }

    /// Returns all buffers of the device's memory.
    fn buffers(&self) -> Vec<PlanBuffer> {
        let Some(dma) = &self.dma else { return Vec::new() };
        let all = self.recording.metadata.buffers.iter();
        all.filter_map(|b| self.moved_buffer(dma, b)).collect()
    }

    /// Returns the buffers of the device's memory that are copied out.
    fn outputs(&mut self) -> Result<Vec<PlanBuffer>, CompileError> {
        let Some(dma) = &self.dma else {
            return Ok(Vec::new());
        };
        let mut outputs = Vec::new();
        for name in &self.options.outputs {
            let b = find_buffer(self.recording, name)?;
            let missing = CompileError::NotMapped {
                what: format!("output `{name}`"),
                va: b.va,
            };
            outputs.push(self.moved_buffer(dma, b).ok_or(missing)?);
            self.rewrites.push(Rewrite {
                kind: RewriteKind::Output,
                event: None,
                detail: format!("`{name}` at {}: {} bytes are copied out at the end", b.va, b.bytes),
            });
        }
        Ok(outputs)
    }

    fn expectations(&self) -> Result<Vec<Expectation>, CompileError> {
        let mut all = Vec::new();
        let kept = match &self.options.expect_screen {
            Some(_) => None,
            None => self.recording.expected_screen()?,
        };
        match (&self.options.expect_screen, kept) {
            (Some(picture), _) => all.push(Expectation {
                effect: Effect::screen(picture),
                source: self.options.screen_source.clone(),
            }),
            (None, Some(picture)) => all.push(Expectation {
                effect: Effect::screen(&picture),
                source: "the recording's final picture".to_owned(),
            }),
            (None, None) => {}
        }
        if self.interrupts > 0 {
            all.push(Expectation {
                effect: Effect::Interrupts { count: self.interrupts },
                source: "the recording's interrupts".to_owned(),
            });
        }
        Ok(all)
    }
}
