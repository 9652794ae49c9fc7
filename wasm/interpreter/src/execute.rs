//! Execution of a launch: block by block, thread by thread; frames of calls.

mod operations;

use crate::error::{Fault, FaultKind};
use crate::memory::{AddressSpace, GlobalAddress};
use crate::program::{Function, Program, ZERO};

/// Contents of registers at the entry of a function: no program may rely on them.
const GARBAGE: u64 = 0xa5a5_5a5a_c3c3_3c3d;
/// Alignment of local arrays, bytes. Address 0 is never that of an array.
const LOCAL_ALIGNMENT: usize = 16;

/// Numbers of blocks and threads. Both have one dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchShape {
    /// Number of blocks, from 1.
    pub blocks: u32,
    /// Number of threads of a block, 1 to 1024.
    pub threads: u32,
}

/// Limits of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of operations of all threads.
    pub steps: u64,
    /// Maximum number of nested calls of a thread.
    pub depth: usize,
    /// Maximum size of the registers of all nested calls of a thread, in slots of 8 bytes.
    pub slots: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: u64::MAX,
            depth: 1 << 16,
            // They grow with use: a script of the official test-suite nests frames of thousands of registers.
            slots: 1 << 25,
        }
    }
}

/// What a launch took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Number of operations of all threads.
    pub steps: u64,
    /// Deepest nesting of calls of a thread; 1 is the entry alone.
    pub depth: usize,
}

/// A call that is not finished.
struct Frame {
    /// First slot in the stack.
    base: usize,
    /// Number of slots.
    slots: usize,
    /// First byte of the local arrays.
    local: usize,
    /// Operation behind the call.
    resume: usize,
    /// Site of the call that made the next frame.
    site: usize,
}

/// State of the running thread.
struct Thread<'a> {
    program: &'a Program,
    stack: Vec<u64>,
    local: Vec<u8>,
    frames: Vec<Frame>,
    shape: LaunchShape,
    block: u32,
    thread: u32,
    limits: Limits,
    steps: u64,
    depth: usize,
}

/// Reason of a fault with the address of the access.
type Stop = (FaultKind, Option<GlobalAddress>);

fn write(frame: &mut [u64], slot: u32, value: u64) {
    if let Some(to) = frame.get_mut(slot as usize) {
        *to = value;
    }
}

impl Program {
    /// Runs all threads of a grid, block by block.
    ///
    /// `parameters` holds a value for each parameter of the entry. Writes before a fault stay in memory.
    ///
    /// # Errors
    ///
    /// Returns the first fault of a thread; also a wrong name, number of parameters or shape.
    pub fn run_entry(
        &self,
        name: &str,
        parameters: &[u64],
        shape: LaunchShape,
        memory: &mut dyn AddressSpace,
        limits: Limits,
    ) -> Result<Stats, Fault> {
        let mut run = self.prepare(name, parameters, shape, limits)?;
        for block in 0..shape.blocks {
            run.block(block, memory)?;
        }
        Ok(run.stats())
    }

    /// Checks a launch, and returns it ready to run blocks.
    ///
    /// # Errors
    ///
    /// Returns a wrong name, number of parameters or shape.
    pub fn prepare<'a>(
        &'a self,
        name: &str,
        parameters: &'a [u64],
        shape: LaunchShape,
        limits: Limits,
    ) -> Result<LaunchRun<'a>, Fault> {
        let refuse = |kind| Fault {
            block: 0,
            thread: 0,
            function: name.to_owned(),
            line: 0,
            address: None,
            kind,
        };
        let entry = self.functions.iter().find(|f| f.is_entry && f.name == name);
        let entry = entry.ok_or_else(|| refuse(FaultKind::NoEntry))?;
        if entry.signature.parameters.len() != parameters.len() {
            return Err(refuse(FaultKind::ParameterCount));
        }
        let max_threads = if entry.max_threads == 0 {
            1024
        } else {
            entry.max_threads
        };
        if shape.blocks == 0 || !(1..=max_threads).contains(&shape.threads) {
            return Err(refuse(FaultKind::Shape));
        }
        let state = Thread {
            program: self,
            stack: Vec::new(),
            local: Vec::new(),
            frames: Vec::new(),
            shape,
            block: 0,
            thread: 0,
            limits,
            steps: limits.steps,
            depth: 0,
        };
        Ok(LaunchRun {
            entry,
            parameters,
            state,
        })
    }
}

/// A checked launch. Several threads of the host can run blocks of the same launch, with a `LaunchRun` of their own.
pub struct LaunchRun<'a> {
    entry: &'a Function,
    parameters: &'a [u64],
    state: Thread<'a>,
}

impl LaunchRun<'_> {
    /// Runs the threads of a block.
    ///
    /// # Errors
    ///
    /// Returns the first fault of a thread.
    pub fn block(&mut self, block: u32, memory: &mut dyn AddressSpace) -> Result<(), Fault> {
        (0..self.state.shape.threads).try_for_each(|thread| self.thread(block, thread, memory))
    }

    /// Runs a thread.
    ///
    /// # Errors
    ///
    /// Returns its fault.
    pub fn thread(&mut self, block: u32, thread: u32, memory: &mut dyn AddressSpace) -> Result<(), Fault> {
        (self.state.block, self.state.thread) = (block, thread);
        self.state.run(self.entry, self.parameters, memory)
    }

    /// Returns what the launch took so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            steps: self.state.limits.steps - self.state.steps,
            depth: self.state.depth,
        }
    }
}

impl Thread<'_> {
    /// Adds a frame for a function, with registers that hold no zeros.
    fn push(&mut self, function: &Function) -> Result<(), FaultKind> {
        let (base, local) = self
            .frames
            .last()
            .map_or((0, 0), |f| (f.base + f.slots, self.local.len()));
        let (slots, end) = (function.slots as usize, base.saturating_add(function.slots as usize));
        if end > self.limits.slots || self.frames.len() >= self.limits.depth {
            return Err(FaultKind::StackOverflow);
        }
        if self.stack.len() < end {
            self.stack
                .resize(end.next_power_of_two().min(self.limits.slots), GARBAGE);
        }
        let frame = self.stack.get_mut(base..end).unwrap_or_default();
        frame.fill(GARBAGE);
        write(frame, ZERO, 0);
        let local = local.max(LOCAL_ALIGNMENT).next_multiple_of(LOCAL_ALIGNMENT);
        let bytes = local.saturating_add(function.local_bytes as usize);
        if bytes > self.limits.slots.saturating_mul(8) {
            return Err(FaultKind::StackOverflow);
        }
        self.local.resize(bytes, 0xa5);
        self.frames.push(Frame {
            base,
            slots,
            local,
            resume: 0,
            site: 0,
        });
        self.depth = self.depth.max(self.frames.len());
        Ok(())
    }

    /// Copies slots between two frames.
    fn copy(&mut self, slots: &[(u32, u32)], from_base: usize, to_base: usize) {
        for (from, to) in slots {
            let value = self.stack.get(from_base + *from as usize).copied().unwrap_or(0);
            if let Some(slot) = self.stack.get_mut(to_base + *to as usize) {
                *slot = value;
            }
        }
    }

    /// Begins a call, and returns the first operation of the callee.
    fn call(&mut self, function: &Function, site_index: usize, resume: usize) -> Result<usize, FaultKind> {
        let program = self.program;
        let caller = self.frames.last_mut().map_or(0, |frame| {
            (frame.resume, frame.site) = (resume, site_index);
            frame.base
        });
        self.push(function)?;
        let callee = self.frames.last().map_or(0, |f| f.base);
        if let Some(site) = program.sites.get(site_index) {
            self.copy(&site.arguments, caller, callee);
        }
        Ok(function.start.unwrap_or(0) as usize)
    }

    /// Ends a call, and returns the operation behind it, or `None` at the end of the entry.
    fn leave(&mut self) -> Option<usize> {
        let program = self.program;
        let callee = self.frames.pop()?;
        let (caller, site, resume) = self.frames.last().map(|f| (f.base, f.site, f.resume))?;
        self.local.truncate(callee.local);
        if let Some(site) = program.sites.get(site) {
            self.copy(&site.results, callee.base, caller);
        }
        Some(resume)
    }

    fn run(&mut self, entry: &Function, parameters: &[u64], memory: &mut dyn AddressSpace) -> Result<(), Fault> {
        self.frames.clear();
        self.local.clear();
        let mut at = entry.start.unwrap_or(0) as usize;
        let result = match self.push(entry) {
            Ok(()) => {
                let (_, slots, _) = entry.signature.first_slots();
                for (slot, value) in slots.iter().zip(parameters) {
                    write(&mut self.stack, *slot, *value);
                }
                self.execute(&mut at, memory)
            }
            Err(kind) => Err((kind, None)),
        };
        result.map_err(|(kind, address)| {
            let last = at.saturating_sub(1);
            Fault {
                block: self.block,
                thread: self.thread,
                function: self
                    .program
                    .function_at(last)
                    .map_or_else(String::new, |f| f.name.clone()),
                line: self.program.lines.get(last).copied().unwrap_or(0),
                address,
                kind,
            }
        })
    }
}
