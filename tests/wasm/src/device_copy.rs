//! A copy on a device of the runner: a GPU, or the runner's interpreter. Copies of several programs share the device.

use crate::error::MachineError;
use crate::target::CopyTarget;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use wasm_gpu::{Device, DeviceAddress, DeviceError, QueueId, Rows};
use wasm_ptx::{BufferOffset, CellSize, LANES, LAUNCH_BYTES, LaunchBlock, Program, Run, WORD_STRIDE, Word};

/// Lane of the copy in the only warp.
const LANE: u32 = 21;
/// The only queue that is used.
const QUEUE: QueueId = QueueId(0);
/// Bytes of a row of control words: one of each lane.
const ROW_BYTES: usize = LANES as usize * 4;
/// Bytes that are copied at once when an area moves.
const MOVED_BYTES: u64 = 32 << 20;
/// Minimum size of an allocation in bytes: smaller ones could not be used again by larger programs.
const MIN_ALLOCATION: u64 = 1 << 16;

/// What a device did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Programs that were loaded. One that another one replaced counts each time.
    pub loads: u64,
    /// Loads that compiled: the others found the code in the cache.
    pub compilations: u64,
    /// Time of all loads.
    pub load_time: Duration,
    /// Launches.
    pub launches: u64,
}

/// A device with its free memory.
#[derive(Debug)]
struct DeviceState<D> {
    device: D,
    /// Number of the copy whose program is loaded.
    loaded: Option<u64>,
    copies: u64,
    /// Free allocations by size.
    free: BTreeMap<u64, Vec<DeviceAddress>>,
    launch_block: DeviceAddress,
    counts: DeviceCounts,
}

/// A device that copies of several programs use in turns.
#[derive(Debug)]
pub struct SharedDevice<D>(Rc<RefCell<DeviceState<D>>>);

/// Memory of a device.
#[derive(Clone, Copy, Debug)]
struct Allocation {
    start: DeviceAddress,
    bytes: u64,
}

/// The program of a copy, and its memory.
#[derive(Debug)]
struct LoadedProgram {
    program: Program,
    depth: u32,
    areas: Allocation,
    constants: Allocation,
}

/// A copy on a device.
#[derive(Debug)]
pub struct DeviceCopy<D: Device> {
    shared: Rc<RefCell<DeviceState<D>>>,
    number: u64,
    loaded: Option<LoadedProgram>,
}

impl<D: Device> SharedDevice<D> {
    /// Takes a device.
    ///
    /// # Errors
    ///
    /// Returns an error if the device has no memory.
    pub fn new(mut device: D) -> Result<Self, DeviceError> {
        let launch_block = device.allocate(LAUNCH_BYTES as u64)?;
        Ok(Self(Rc::new(RefCell::new(DeviceState {
            device,
            loaded: None,
            copies: 0,
            free: BTreeMap::new(),
            launch_block,
            counts: DeviceCounts::default(),
        }))))
    }

    /// Returns a copy without a program.
    #[must_use]
    pub fn new_copy(&self) -> DeviceCopy<D> {
        let mut state = self.0.borrow_mut();
        state.copies += 1;
        DeviceCopy {
            shared: Rc::clone(&self.0),
            number: state.copies,
            loaded: None,
        }
    }

    /// Returns what the device did so far.
    #[must_use]
    pub fn counts(&self) -> DeviceCounts {
        self.0.borrow().counts
    }
}

impl<D: Device> DeviceState<D> {
    fn allocate(&mut self, bytes: u64) -> Result<Allocation, DeviceError> {
        // Powers of two: a later program can use the memory again.
        let too_large = || DeviceError::Memory(format!("{bytes} bytes"));
        let bytes = bytes
            .max(MIN_ALLOCATION)
            .checked_next_power_of_two()
            .ok_or_else(too_large)?;
        let found = self.free.get_mut(&bytes).and_then(Vec::pop);
        let start = match found {
            Some(start) => start,
            None => self.device.allocate(bytes)?,
        };
        Ok(Allocation { start, bytes })
    }

    fn release(&mut self, allocation: Allocation) {
        self.free.entry(allocation.bytes).or_default().push(allocation.start);
    }

    /// Copies the first bytes of an area to another place.
    fn move_area(&mut self, from: Allocation, to: Allocation, bytes: u64) -> Result<(), DeviceError> {
        let mut buffer = Vec::new();
        let mut at = 0;
        while at < bytes {
            let part = MOVED_BYTES.min(bytes - at);
            buffer.resize(usize::try_from(part).unwrap_or_default(), 0);
            self.device
                .read_rows(QUEUE, one_row(from.start.offset(at)?, part), &mut buffer)?;
            self.device.write(QUEUE, to.start.offset(at)?, &buffer)?;
            at += part;
        }
        Ok(())
    }

    /// Loads the program of a copy, unless it is there.
    fn make_current(&mut self, number: u64, program: &Program, depth: u32) -> Result<Option<u32>, DeviceError> {
        if self.loaded == Some(number) {
            return Ok(None);
        }
        self.loaded = None;
        let compiled = self.device.load(program, depth)?;
        self.loaded = Some(number);
        self.counts.loads += 1;
        self.counts.compilations += u64::from(!compiled.cached);
        self.counts.load_time += compiled.time;
        Ok(Some(compiled.depth_limit))
    }

    fn launch(&mut self, block: &LaunchBlock) -> Result<(), DeviceError> {
        self.counts.launches += 1;
        self.device.launch(QUEUE, self.launch_block, block)?;
        while self.device.poll(QUEUE)?.is_none() {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

fn one_row(start: DeviceAddress, bytes: u64) -> Rows {
    Rows {
        start,
        pitch: bytes,
        width: bytes,
        count: 1,
    }
}

/// Combines runs of the same length at equal distances. Returns the rows, with offsets in the areas as addresses.
fn combine(runs: &[Run]) -> Vec<Rows> {
    let mut all: Vec<Rows> = Vec::new();
    for run in runs {
        if let Some(rows) = all.last_mut()
            && rows.width == run.bytes
            && let Some(distance) = run.start.0.checked_sub(rows.start.0)
            && distance >= run.bytes
            && (rows.count == 1 || distance == rows.pitch * rows.count)
        {
            if rows.count == 1 {
                rows.pitch = distance;
            }
            rows.count += 1;
            continue;
        }
        all.push(one_row(DeviceAddress(run.start.0), run.bytes));
    }
    all
}

impl<D: Device> DeviceCopy<D> {
    fn areas(&self) -> Result<Allocation, MachineError> {
        let loaded = self.loaded.as_ref();
        loaded
            .map(|l| l.areas)
            .ok_or(MachineError::Area("no program is loaded"))
    }

    /// Returns the rows of words of the copy.
    fn word_rows(&self, at: BufferOffset, count: usize) -> Result<Rows, MachineError> {
        Ok(Rows {
            start: self.areas()?.start.offset(at.0)?,
            pitch: WORD_STRIDE,
            width: 4,
            count: count as u64,
        })
    }

    /// Calls `transfer` with each of the rows of runs, and the range of their bytes.
    fn transfer(
        &mut self,
        runs: &[Run],
        mut transfer: impl FnMut(&mut D, Rows, std::ops::Range<usize>) -> Result<(), DeviceError>,
    ) -> Result<(), MachineError> {
        let areas = self.areas()?;
        let mut state = self.shared.borrow_mut();
        let mut at = 0;
        for rows in combine(runs) {
            let rows = Rows {
                start: areas.start.offset(rows.start.0)?,
                ..rows
            };
            let bytes = rows.bytes()?;
            transfer(&mut state.device, rows, at..at + bytes)?;
            at += bytes;
        }
        Ok(())
    }
}

const WRONG_LENGTH: fn() -> DeviceError = || DeviceError::Range("the runs have another number of bytes".to_owned());

impl<D: Device> CopyTarget for DeviceCopy<D> {
    fn copy(&self) -> u32 {
        LANE
    }

    fn load(&mut self, program: &Program, depth: u32) -> Result<u32, MachineError> {
        let mut state = self.shared.borrow_mut();
        let area_bytes = program.layout.area_bytes();
        let areas = match self.loaded.take() {
            None => {
                let areas = state.allocate(area_bytes)?;
                // The other lanes of the warp have no copy.
                let word = areas.start.offset(Word::State.offset().0)?;
                state.device.write(QUEUE, word, &[0; ROW_BYTES])?;
                areas
            }
            Some(old) => {
                state.release(old.constants);
                if old.areas.bytes >= area_bytes {
                    old.areas
                } else {
                    let areas = state.allocate(area_bytes)?;
                    state.move_area(old.areas, areas, old.program.layout.area_bytes())?;
                    state.release(old.areas);
                    areas
                }
            }
        };
        let constants = state.allocate(program.constants.len() as u64)?;
        state.device.write(QUEUE, constants.start, &program.constants)?;
        if state.loaded == Some(self.number) {
            state.loaded = None;
        }
        let depth = state.make_current(self.number, program, depth)?.unwrap_or(depth);
        self.loaded = Some(LoadedProgram {
            program: program.clone(),
            depth,
            areas,
            constants,
        });
        Ok(depth)
    }

    fn read_words(&mut self, at: BufferOffset, words: &mut [u32]) -> Result<(), MachineError> {
        let mut bytes = vec![0; words.len() * 4];
        let rows = self.word_rows(at, words.len())?;
        self.shared.borrow_mut().device.read_rows(QUEUE, rows, &mut bytes)?;
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Ok(())
    }

    fn write_words(&mut self, at: BufferOffset, words: &[u32]) -> Result<(), MachineError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let rows = self.word_rows(at, words.len())?;
        self.shared.borrow_mut().device.write_rows(QUEUE, rows, &bytes)?;
        Ok(())
    }

    fn read_runs(&mut self, runs: &[Run], to: &mut [u8]) -> Result<(), MachineError> {
        self.transfer(runs, |device, rows, range| {
            let to = to.get_mut(range).ok_or_else(WRONG_LENGTH)?;
            device.read_rows(QUEUE, rows, to)
        })
    }

    fn write_runs(&mut self, runs: &[Run], from: &[u8]) -> Result<(), MachineError> {
        self.transfer(runs, |device, rows, range| {
            let from = from.get(range).ok_or_else(WRONG_LENGTH)?;
            device.write_rows(QUEUE, rows, from)
        })
    }

    fn launch(&mut self, slice: u32) -> Result<(), MachineError> {
        let loaded = self.loaded.as_ref();
        let loaded = loaded.ok_or(MachineError::Area("no program is loaded"))?;
        let mut state = self.shared.borrow_mut();
        let depth = state.make_current(self.number, &loaded.program, loaded.depth)?;
        if depth.is_some_and(|depth| depth < loaded.depth) {
            return Err(MachineError::Area("the stack has less room than at the first load"));
        }
        state.launch(&LaunchBlock {
            areas: loaded.areas.start.0,
            constants: loaded.constants.start.0,
            counters: 0,
            copies: LANE + 1,
            slice,
            area_bytes: loaded.program.layout.area_bytes(),
        })?;
        Ok(())
    }
}

impl<D: Device> Drop for DeviceCopy<D> {
    fn drop(&mut self) {
        if let Some(loaded) = self.loaded.take() {
            let mut state = self.shared.borrow_mut();
            state.release(loaded.areas);
            state.release(loaded.constants);
        }
    }
}

/// Returns the cell size with a number of bytes.
#[must_use]
pub fn cell_of_bytes(bytes: u32) -> Option<CellSize> {
    let sizes = [CellSize::Four, CellSize::Eight, CellSize::Sixteen];
    sizes.into_iter().find(|cell| cell.bytes() == bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, bytes: u64) -> Run {
        Run {
            start: BufferOffset(start),
            bytes,
        }
    }

    #[test]
    fn runs_at_equal_distances_are_one_transfer() {
        let runs = [
            run(3, 1),
            run(128, 4),
            run(256, 4),
            run(384, 4),
            run(640, 4),
            run(768, 2),
        ];
        let rows = combine(&runs);
        let shape: Vec<_> = rows.iter().map(|r| (r.start.0, r.pitch, r.width, r.count)).collect();
        assert_eq!(shape, [(3, 1, 1, 1), (128, 128, 4, 3), (640, 4, 4, 1), (768, 2, 2, 1)]);
    }
}
