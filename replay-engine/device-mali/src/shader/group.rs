//! Workgroup executor: its waves run in turn, each until it ends or waits at a barrier.

use super::block::{Block, ShaderInputs};
use super::lanes::{CONSTANTS, LANES, RegisterFile, Vector, run};
use super::message::{MessageEffects, MessageSender};
use super::program::{ShaderContext, Successor};
use super::translate::{LANE_ID, Translator, WARP_ID};
use super::warp;
use super::wave::{Group, Wave, expand_mask};
use crate::compute::descriptors::PreloadValue;
use crate::compute::dispatch::WorkgroupRunner;
use crate::compute::stop::{Meter, Stop};
use crate::compute::trace::{ClauseExecution, Trace};
use crate::compute::view::View;
use fearless_simd::Level;
use trace_core::GpuVa;

/// Executor of the workgroups of one job, one after another.
pub(crate) struct Shader<'j> {
    running: &'j ShaderContext<'j>,
    file: RegisterFile,
    level: Level,
    /// Threads by wave.
    threads: Vec<WaveThreads>,
}

/// Thread properties of a wave, which are the same in every workgroup.
#[derive(Clone, Copy)]
struct WaveThreads {
    /// Positions in the workgroup, by axis.
    places: [Vector; 3],
    /// Lane numbers in the warps.
    lane: Vector,
    /// Warp numbers.
    warp: Vector,
}

impl<'j> Shader<'j> {
    pub(crate) fn new(running: &'j ShaderContext<'j>) -> Self {
        let mut file = RegisterFile::new();
        for (place, word) in (CONSTANTS..).zip(&running.program.constants) {
            *file.at_mut(place) = [*word; LANES];
        }
        Self {
            running,
            file,
            level: Level::new(),
            threads: Vec::new(),
        }
    }

    fn wave(&self, first: u32, threads: u32, meter: &Meter<'_>) -> Wave {
        let count = (threads - first).min(LANES as u32);
        let lanes = if count == LANES as u32 {
            u32::MAX
        } else {
            (1 << count) - 1
        };
        Wave {
            saved: None,
            begun: false,
            first,
            ready: vec![Group {
                at: self.running.program.entry,
                lanes,
            }],
            waiting: Vec::new(),
            fuel: meter.fuel(),
        }
    }

    /// Returns the threads of the wave whose first thread is this one.
    fn threads(&mut self, first: u32) -> &WaveThreads {
        let number = first as usize / LANES;
        let [sx, sy, sz] = self.running.job.dispatch.size.map(|s| s.max(1));
        let warp = self.running.warp.max(1);
        for n in self.threads.len()..=number {
            let thread = |i: usize| (n * LANES + i) as u32;
            self.threads.push(WaveThreads {
                places: [
                    std::array::from_fn(|i| thread(i) % sx),
                    std::array::from_fn(|i| thread(i) / sx % sy),
                    std::array::from_fn(|i| thread(i) / sx / sy % sz),
                ],
                lane: std::array::from_fn(|i| thread(i) % warp),
                warp: std::array::from_fn(|i| thread(i) / warp),
            });
        }
        // The entry was inserted just now, unless it existed before.
        &self.threads[number]
    }

    /// Sets the initial registers of a wave.
    fn preload(&mut self, group: [u32; 3], wave: &Wave) {
        let places = self.threads(wave.first).places;
        self.file.clear();
        let running = self.running;
        for (register, what) in &running.job.preload {
            let along = |axis: usize| places.get(axis).copied().unwrap_or([0; LANES]);
            let number = |axis: usize| group.get(axis).copied().unwrap_or(0);
            *self.file.at_mut(u16::from(*register) % 64) = match what {
                PreloadValue::Pc => [running.job.shader.get() as u32; LANES],
                PreloadValue::LocalXy => std::array::from_fn(|i| places[0][i] & 0xffff | places[1][i] << 16),
                PreloadValue::LocalZ => along(2),
                PreloadValue::Group(axis) => [number(*axis); LANES],
                PreloadValue::Global(axis) => {
                    let size = running.job.dispatch.size.get(*axis).copied().unwrap_or(1).max(1);
                    let from = number(*axis).wrapping_mul(size);
                    along(*axis).map(|at| from.wrapping_add(at))
                }
            };
        }
    }

    fn write_lane_ids(&mut self, wave: &Wave) {
        let WaveThreads { lane, warp, .. } = *self.threads(wave.first);
        *self.file.at_mut(LANE_ID) = lane;
        *self.file.at_mut(WARP_ID) = warp;
    }

    /// Runs a wave until all its lanes ended or wait.
    fn run_wave<T: Trace>(
        &mut self,
        group: [u32; 3],
        wave: &mut Wave,
        view: &mut View<'_, T>,
        meter: &mut Meter<'_>,
    ) -> Result<(), Stop> {
        let (program, level) = (self.running.program, self.level);
        let mut lanes = 0;
        let mut mask = [0; LANES];
        let mut next = wave.next();
        while let Some(now) = next {
            let Some(node) = program.nodes.get(now.at as usize) else {
                break;
            };
            meter.clause(&mut wave.fuel)?;
            if now.lanes != lanes {
                lanes = now.lanes;
                mask = expand_mask(lanes);
            }
            meter.lane_ops += u64::from(node.block.operations * lanes.count_ones());
            if T::CLAUSES {
                let registers = self.file.registers();
                let (address, first) = (node.block.address, wave.first);
                view.trace().begin_clause(&ClauseExecution {
                    address,
                    first,
                    lanes,
                    registers,
                });
            }
            let mut sent = MessageEffects::default();
            for s in &node.block.segments {
                let file = &mut self.file;
                run(level, file, &s.steps, &mask);
                if let Some(m) = &s.message {
                    let mut messages = MessageSender {
                        running: self.running,
                        file: &mut self.file,
                        view,
                        group,
                        first: wave.first,
                        lanes,
                        clause: node.block.address,
                        tuple: s.tuple,
                    };
                    messages.send(m, &mut sent)?;
                }
            }
            if T::CLAUSES {
                let registers = self.file.registers();
                let (address, first) = (node.block.address, wave.first);
                view.trace().end_clause(&ClauseExecution {
                    address,
                    first,
                    lanes,
                    registers,
                });
            }
            let (taken, stay) = (sent.branched & lanes, lanes & !sent.branched);
            if wave.ready.is_empty() && !sent.barrier && (taken == 0 || stay == 0) {
                // All lanes take the same path, and there are no others.
                next = match if taken == 0 { node.fallthrough } else { node.branch } {
                    Successor::To(at) => Some(Group { at, lanes }),
                    Successor::End => None,
                };
                continue;
            }
            let groups = if sent.barrier {
                &mut wave.waiting
            } else {
                &mut wave.ready
            };
            for (way, lanes) in [(node.fallthrough, stay), (node.branch, taken)] {
                if let Successor::To(at) = way {
                    Wave::add(groups, at, lanes);
                }
            }
            next = wave.next();
        }
        Ok(())
    }
}

/// Translates one clause into executable form, with the words of its constants.
pub(crate) fn translate_clause(code: &[u8], push: &[u64]) -> Result<(Block, Vec<u32>), String> {
    let given = ShaderInputs {
        push: push.to_vec(),
        shared_base: GpuVa::ZERO,
    };
    let mut translator = Translator::new(&given);
    let clause = bifrost::Clause::from_code(code, 0).map_err(|e| e.to_string())?;
    let block = translator.clause(&clause).map_err(|all| {
        let messages: Vec<String> = all.into_iter().map(|u| u.operation).collect();
        messages.join(", ")
    })?;
    Ok((block, translator.pool.words().to_vec()))
}

/// Runs one clause of arithmetic on the registers of up to 32 lanes.
pub(crate) fn run_single_clause(code: &[u8], registers: &mut [[u32; 64]], push: &[u64]) -> Result<(), String> {
    let (block, constants) = translate_clause(code, push)?;
    let mut file = RegisterFile::new();
    for (place, word) in (CONSTANTS..).zip(&constants) {
        *file.at_mut(place) = [*word; LANES];
    }
    for (lane, registers) in registers.iter().enumerate().take(LANES) {
        for (to, word) in file.registers().iter_mut().zip(registers) {
            to[lane % LANES] = *word;
        }
    }
    *file.at_mut(LANE_ID) = std::array::from_fn(|i| i as u32 % 4);
    let lanes = (1u64 << registers.len().min(LANES)).wrapping_sub(1) as u32;
    for s in &block.segments {
        run(Level::new(), &mut file, &s.steps, &[u32::MAX; LANES]);
        if let Some(message) = &s.message
            && !warp::exchange(&mut file, message, lanes)
        {
            return Err("it sends a message".to_owned());
        }
    }
    for (lane, registers) in registers.iter_mut().enumerate().take(LANES) {
        for (word, from) in registers.iter_mut().zip(file.registers().iter()) {
            *word = from[lane % LANES];
        }
    }
    Ok(())
}

impl<T: Trace> WorkgroupRunner<T> for Shader<'_> {
    fn run(&mut self, group: [u32; 3], view: &mut View<'_, T>, meter: &mut Meter<'_>) -> Result<(), Stop> {
        let threads = self.running.job.threads();
        let mut waves = Vec::new();
        let mut first = 0;
        while first < threads {
            waves.push(self.wave(first, threads, meter));
            first += LANES as u32;
        }
        let alone = waves.len() == 1;
        loop {
            for wave in &mut waves {
                if wave.ready.is_empty() {
                    continue;
                }
                self.write_lane_ids(wave);
                match &wave.saved {
                    Some(registers) => self.file.registers().copy_from_slice(&registers[..]),
                    None if !wave.begun => self.preload(group, wave),
                    // The only wave leaves its registers in the file.
                    None => {}
                }
                wave.begun = true;
                self.run_wave(group, wave, view, meter)?;
                if !alone && !wave.waiting.is_empty() {
                    let saved = wave.saved.get_or_insert_with(|| Box::new([[0; LANES]; 64]));
                    saved.copy_from_slice(self.file.registers());
                }
            }
            // Every wave ended or waits: the waiting waves continue together.
            if waves.iter().all(|w| w.waiting.is_empty()) {
                return Ok(());
            }
            waves.iter_mut().for_each(Wave::release);
        }
    }
}
