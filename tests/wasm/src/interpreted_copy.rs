//! A copy in the PTX interpreter, over memory that faults at each access of another copy's cells.

use crate::error::MachineError;
use crate::space::{AREAS, CONSTANTS, COUNTERS, CopySpace, LAUNCH};
use crate::target::CopyTarget;
use ptx_interpreter::{LaunchShape, Limits};
use wasm_ptx::{BLOCK_THREADS, BufferOffset, ENTRY_NAME, LaunchBlock, Program, Run, WORD_STRIDE};

/// The interpreter as the device of one copy.
#[derive(Debug)]
pub struct InterpretedCopy {
    copy: u32,
    /// Maximum number of operations of a launch.
    steps: u64,
    loaded: Option<(ptx_interpreter::Program, CopySpace)>,
    /// Size of the area of a warp in bytes.
    area_bytes: u64,
    /// Counters of blocks, if they count.
    pub counters: Option<Vec<u8>>,
}

const NOT_LOADED: MachineError = MachineError::Area("no program is loaded");
const OUTSIDE: MachineError = MachineError::Area("a word or byte is outside the copy");

impl InterpretedCopy {
    /// Returns a target without a program.
    #[must_use]
    pub fn new(copy: u32, steps: u64) -> Self {
        Self {
            copy,
            steps,
            loaded: None,
            area_bytes: 0,
            counters: None,
        }
    }

    fn space(&mut self) -> Result<&mut CopySpace, MachineError> {
        self.loaded.as_mut().map(|(_, space)| space).ok_or(NOT_LOADED)
    }
}

/// Returns the position of each of the words from `at` on.
fn word_positions(at: BufferOffset) -> impl Iterator<Item = BufferOffset> {
    (0u64..).map(move |index| BufferOffset(at.0 + index * WORD_STRIDE))
}

impl CopyTarget for InterpretedCopy {
    fn copy(&self) -> u32 {
        self.copy
    }

    fn load(&mut self, program: &Program, depth: u32) -> Result<u32, MachineError> {
        let code = ptx_interpreter::Program::parse(&program.text)?;
        let space = match self.loaded.take() {
            None => CopySpace::new(&program.layout, self.copy, &program.constants),
            Some((_, mut space)) => {
                space.extend(&program.layout, self.copy, &program.constants);
                space
            }
        };
        self.loaded = Some((code, space));
        self.area_bytes = program.layout.area_bytes();
        Ok(depth)
    }

    fn read_words(&mut self, at: BufferOffset, words: &mut [u32]) -> Result<(), MachineError> {
        let space = self.space()?;
        for (word, at) in words.iter_mut().zip(word_positions(at)) {
            *word = space.word(at).ok_or(OUTSIDE)?;
        }
        Ok(())
    }

    fn write_words(&mut self, at: BufferOffset, words: &[u32]) -> Result<(), MachineError> {
        let space = self.space()?;
        for (word, at) in words.iter().zip(word_positions(at)) {
            space.set_word(at, *word).ok_or(OUTSIDE)?;
        }
        Ok(())
    }

    fn read_runs(&mut self, runs: &[Run], mut to: &mut [u8]) -> Result<(), MachineError> {
        let space = self.space()?;
        for run in runs {
            let bytes = space.bytes(run.start, run.bytes).ok_or(OUTSIDE)?;
            let (part, rest) = to.split_at_mut_checked(bytes.len()).ok_or(OUTSIDE)?;
            part.copy_from_slice(bytes);
            to = rest;
        }
        Ok(())
    }

    fn write_runs(&mut self, runs: &[Run], from: &[u8]) -> Result<(), MachineError> {
        let space = self.space()?;
        let positions = runs.iter().flat_map(|run| (run.start.0..).take(run.bytes as usize));
        for (byte, at) in from.iter().zip(positions) {
            space.set_byte(BufferOffset(at), *byte).ok_or(OUTSIDE)?;
        }
        Ok(())
    }

    fn launch(&mut self, slice: u32) -> Result<(), MachineError> {
        let block = LaunchBlock {
            areas: AREAS,
            constants: CONSTANTS,
            counters: if self.counters.is_some() { COUNTERS } else { 0 },
            copies: self.copy + 1,
            slice,
            area_bytes: self.area_bytes,
        };
        let shape = LaunchShape {
            blocks: block.grid_blocks(),
            threads: BLOCK_THREADS,
        };
        let limits = Limits {
            steps: self.steps,
            ..Limits::default()
        };
        let (code, space) = self.loaded.as_mut().ok_or(NOT_LOADED)?;
        space.launch = block.encode();
        let mut run = code.prepare(ENTRY_NAME, &[LAUNCH], shape, limits)?;
        if let Some(counters) = &mut self.counters {
            std::mem::swap(counters, &mut space.counters);
        }
        // Only the thread of the copy: the others would read cells that the space does not have.
        let result = run.thread(self.copy / BLOCK_THREADS, self.copy % BLOCK_THREADS, space);
        if let Some(counters) = &mut self.counters {
            std::mem::swap(counters, &mut space.counters);
        }
        result?;
        Ok(())
    }
}
