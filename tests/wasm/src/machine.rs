//! A machine that runs one copy of a translated program: with the PTX interpreter, or on a device of the runner.

use crate::error::MachineError;
use crate::interpreted_copy::InterpretedCopy;
use crate::target::CopyTarget;
use wasm_ptx::{
    BufferOffset, CONTROL_WORDS, CopyState, ExportedItem, FunctionId, GlobalId, InstanceId, MemoryId, NO_FUNCTION,
    PAGE_BYTES, Program, Run, TrapKind, ValueType, Word,
};

/// Value of control words that nobody has set.
const GARBAGE: u32 = 0xa7a7_a7a7;

/// Choices of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Number of the copy in the interpreter: 0 to 63. The other copies of its warps are empty.
    pub copy: u32,
    /// Maximum number of nested calls.
    pub depth: u32,
    /// Fuel of the copy's life.
    pub fuel: u64,
    /// Fuel of one launch.
    pub slice: u32,
    /// Maximum number of operations of one launch in the interpreter.
    pub steps: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            copy: 37,
            depth: 800,
            fuel: 1 << 40,
            slice: 1 << 30,
            steps: 1 << 30,
        }
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The function returned these bits.
    Returned(Vec<u64>),
    /// The copy trapped.
    Trapped {
        /// Kind of the trap.
        kind: TrapKind,
        /// The function, or none during instantiation.
        function: Option<FunctionId>,
        /// Byte offset of the instruction in its module.
        offset: u32,
    },
    /// The copy called the host function with this number.
    Waiting(u32),
    /// The copy called the terminal host function with this number.
    Exited(u32),
}

/// A copy of a program.
#[derive(Debug)]
pub struct Machine<T = InterpretedCopy> {
    /// The program.
    pub program: Program,
    /// The device of the copy.
    pub target: T,
    settings: Settings,
    /// Maximum number of nested calls: that of the settings, or what the device allows.
    depth: u32,
    /// Number of launches so far.
    pub launches: u64,
}

impl Machine {
    /// Returns a machine in the interpreter whose copy is empty.
    ///
    /// # Errors
    ///
    /// Returns why the interpreter refuses the text.
    pub fn new(program: Program, settings: Settings) -> Result<Self, MachineError> {
        Self::with_target(InterpretedCopy::new(settings.copy, settings.steps), program, settings)
    }
}

impl<T: CopyTarget> Machine<T> {
    /// Returns a machine whose copy is empty.
    ///
    /// # Errors
    ///
    /// Returns why the device refuses the text.
    pub fn with_target(mut target: T, program: Program, settings: Settings) -> Result<Self, MachineError> {
        let depth = target.load(&program, settings.depth)?;
        Ok(Self {
            program,
            target,
            settings,
            depth,
            launches: 0,
        })
    }

    /// Takes a program that has the same instances and perhaps more, and keeps the state of the copy.
    ///
    /// # Errors
    ///
    /// Returns why the device refuses the text.
    pub fn extend(&mut self, program: Program) -> Result<(), MachineError> {
        self.depth = self.target.load(&program, self.settings.depth)?;
        self.program = program;
        Ok(())
    }

    fn word_at(&mut self, at: BufferOffset) -> Result<u32, MachineError> {
        let mut word = [0];
        self.target.read_words(at, &mut word)?;
        Ok(word[0])
    }

    fn word(&mut self, word: Word) -> Result<u32, MachineError> {
        self.word_at(self.program.layout.word(self.target.copy(), word))
    }

    /// Instantiates from an instance on, and runs start functions.
    ///
    /// # Errors
    ///
    /// Returns a defect of the translator.
    pub fn instantiate(&mut self, from: InstanceId) -> Result<Outcome, MachineError> {
        let step = self.program.first_steps.get(from.0 as usize).copied();
        let step = if from.0 == 0 {
            0
        } else {
            step.ok_or(MachineError::Area("no step of an instance"))?
        };
        self.start(CopyState::Fresh, NO_FUNCTION, step, &[])?;
        self.run(0)
    }

    /// Writes the control words and the arguments of a call.
    fn start(&mut self, state: CopyState, function: u32, step: u32, arguments: &[u64]) -> Result<(), MachineError> {
        let fuel = self.settings.fuel;
        // The kernel must not depend on the other words.
        let mut words = vec![GARBAGE; CONTROL_WORDS as usize];
        let mut set = |word: Word, value: u32| {
            if let Some(place) = words.get_mut(word as usize) {
                *place = value;
            }
        };
        set(Word::State, state as u32);
        set(Word::Function, function);
        set(Word::Step, step);
        set(Word::FuelLow, fuel as u32);
        set(Word::FuelHigh, (fuel >> 32) as u32);
        set(Word::DepthLimit, self.depth);
        // A call after a trap begins with an empty continuation stack.
        set(Word::ContinuationBytes, 0);
        words.extend(halves(arguments));
        let at = self.program.layout.word(self.target.copy(), Word::State);
        self.target.write_words(at, &words)
    }

    /// Calls an entry point by its number.
    ///
    /// # Errors
    ///
    /// Returns a defect of the translator.
    pub fn call(&mut self, entry: u32, arguments: &[u64]) -> Result<Outcome, MachineError> {
        let entry = self.program.entries.iter().find(|e| e.number == entry);
        let (number, results) = entry
            .map(|e| (e.number, e.signature.results.len()))
            .ok_or(MachineError::Area("no entry point has this number"))?;
        // An instance that trapped during its instantiation stays as it is.
        self.start(CopyState::Ready, number, u32::MAX, arguments)?;
        self.run(results)
    }

    /// Calls a function that an instance exports. Returns `None` if the instance has no such function.
    ///
    /// # Errors
    ///
    /// Returns a defect of the translator.
    pub fn call_export(
        &mut self,
        instance: InstanceId,
        name: &str,
        arguments: &[u64],
    ) -> Result<Option<Outcome>, MachineError> {
        let Some(ExportedItem::Function(function)) = self.program.export(instance, name) else {
            return Ok(None);
        };
        let entry = self.program.entries.iter().find(|e| e.function == function);
        let Some(number) = entry.map(|e| e.number) else {
            return Ok(None);
        };
        self.call(number, arguments).map(Some)
    }

    /// Returns the bits of an argument or result slot. A value of 32 bits is in the low half.
    ///
    /// # Errors
    ///
    /// Returns a defect if the slot is outside the area.
    pub fn slot(&mut self, slot: u32) -> Result<u64, MachineError> {
        let [low, _] = self.program.layout.argument(self.target.copy(), slot);
        let mut words = [0; 2];
        self.target.read_words(low, &mut words)?;
        Ok(join(words[0], words[1]))
    }

    /// Answers a host function, and goes on. `results` is the number of results of the function that the host called.
    ///
    /// # Errors
    ///
    /// Returns a defect of the translator.
    pub fn answer(&mut self, values: &[u64], results: usize) -> Result<Outcome, MachineError> {
        let copy = self.target.copy();
        if !values.is_empty() {
            let [low, _] = self.program.layout.argument(copy, 0);
            self.target.write_words(low, &halves(values).collect::<Vec<_>>())?;
        }
        let state = self.program.layout.word(copy, Word::State);
        self.target.write_words(state, &[CopyState::Suspended as u32])?;
        self.run(results)
    }

    /// Returns the fuel left for the copy's life.
    ///
    /// # Errors
    ///
    /// Returns a defect if the words are outside the area.
    pub fn fuel(&mut self) -> Result<u64, MachineError> {
        let low = u64::from(self.word(Word::FuelLow)?);
        Ok(u64::from(self.word(Word::FuelHigh)?) << 32 | low)
    }

    /// Launches the kernel until the copy stops for another reason than an empty slice.
    fn run(&mut self, results: usize) -> Result<Outcome, MachineError> {
        // The results stand behind the control words.
        let mut words = vec![0; CONTROL_WORDS as usize + 2 * results];
        let at = self.program.layout.word(self.target.copy(), Word::State);
        loop {
            self.launches += 1;
            self.target.launch(self.settings.slice)?;
            self.target.read_words(at, &mut words)?;
            let word = |word: Word| words.get(word as usize).copied().unwrap_or(GARBAGE);
            match CopyState::from_code(word(Word::State)) {
                Some(CopyState::Suspended) => {}
                Some(CopyState::Returned) => {
                    let slots = words.get(CONTROL_WORDS as usize..).unwrap_or_default();
                    let values = slots.as_chunks::<2>().0.iter().map(|[low, high]| join(*low, *high));
                    return Ok(Outcome::Returned(values.collect()));
                }
                Some(CopyState::Trapped) => {
                    let function = word(Word::TrapFunction);
                    let kind = TrapKind::from_code(word(Word::TrapKind));
                    return Ok(Outcome::Trapped {
                        kind: kind.ok_or(MachineError::Area("the trap kind is unknown"))?,
                        function: (function != NO_FUNCTION).then_some(FunctionId(function)),
                        offset: word(Word::TrapOffset),
                    });
                }
                Some(CopyState::Waiting) => return Ok(Outcome::Waiting(word(Word::HostFunction))),
                Some(CopyState::Exited) => return Ok(Outcome::Exited(word(Word::HostFunction))),
                _ => return Err(MachineError::Area("the state of the copy is none that ends a launch")),
            }
        }
    }

    /// Returns type and bits of a global.
    pub fn global(&mut self, global: GlobalId) -> Option<(ValueType, u64)> {
        let item = *self.program.globals.get(global.0 as usize)?;
        if let Some(value) = item.constant {
            return Some((item.ty, value));
        }
        let cell = self.program.layout.global(global)?;
        let copy = self.target.copy();
        let low = self.word_at(self.program.layout.cell(copy, cell.low)).ok()?;
        let high = match cell.high {
            Some(high) => self.word_at(self.program.layout.cell(copy, high)).ok()?,
            None => 0,
        };
        Some((item.ty, join(low, high)))
    }

    /// Returns the current size of a memory in pages.
    pub fn pages(&mut self, memory: MemoryId) -> Option<u32> {
        let word = self.program.layout.pages_word(self.target.copy(), memory)?;
        self.word_at(word).ok()
    }

    fn runs(&self, memory: MemoryId, address: u32, bytes: usize) -> Result<Vec<Run>, MachineError> {
        let outside = MachineError::Area("bytes are outside the memory");
        let bytes = u32::try_from(bytes).map_err(|_| MachineError::Area("more bytes than a memory has"))?;
        let region = self.program.layout.memory(memory).ok_or(outside)?;
        let runs = self
            .program
            .layout
            .memory_runs(self.target.copy(), region, address, bytes);
        Ok(runs.collect())
    }

    /// Writes bytes to a memory, inside its capacity.
    ///
    /// # Errors
    ///
    /// Returns a defect if the bytes are outside.
    pub fn fill_memory(&mut self, memory: MemoryId, address: u32, bytes: &[u8]) -> Result<(), MachineError> {
        let runs = self.runs(memory, address, bytes.len())?;
        self.target.write_runs(&runs, bytes)
    }

    /// Reads bytes of a memory, inside its capacity.
    ///
    /// # Errors
    ///
    /// Returns a defect if the bytes are outside.
    pub fn read_memory(&mut self, memory: MemoryId, address: u32, to: &mut [u8]) -> Result<(), MachineError> {
        let runs = self.runs(memory, address, to.len())?;
        self.target.read_runs(&runs, to)
    }

    /// Returns the contents of a memory.
    pub fn memory(&mut self, memory: MemoryId) -> Option<Vec<u8>> {
        let bytes = u64::from(self.pages(memory)?) * PAGE_BYTES;
        let mut contents = vec![0; usize::try_from(bytes).ok()?];
        self.read_memory(memory, 0, &mut contents).ok()?;
        Some(contents)
    }
}

fn join(low: u32, high: u32) -> u64 {
    (u64::from(high) << 32) | u64::from(low)
}

/// Returns the low and the high half of each value.
fn halves(values: &[u64]) -> impl Iterator<Item = u32> {
    values.iter().flat_map(|value| [*value as u32, (*value >> 32) as u32])
}
