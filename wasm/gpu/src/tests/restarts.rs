//! Rounds of copies that need more memory or nested calls, on a device that has little of both.

use super::{Results, inputs, parse};
use crate::device::{CompiledProgram, Device, DeviceAddress, DeviceError, QueueId, Rows};
use crate::scheduler::{RunObserver, RunStatistics, Scheduler};
use crate::{InterpreterDevice, TranslatedProgram, TranslationOptions, max_input_bytes, translate};
use std::time::Duration;
use wasm_ptx::LaunchBlock;
use wasm_run::{BackendError, Input, LaunchRecord, Limits, Program, ProgramRun, RunEnd, RunOptions, Trap, TrapKind};

/// Adds as many pages as the first byte of the input says, and makes half as many nested calls as the second one says.
const PROGRAM: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\40\00\00\00\02\00\00\00")
  (func $deep (param $n i32) (result i32)
    (if (result i32) (local.get $n)
      (then (i32.add (i32.const 1) (call $deep (i32.sub (local.get $n) (i32.const 1)))))
      (else (i32.const 0))))
  (func (export "_start")
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (drop (call $deep (i32.shl (i32.load8_u (i32.const 65)) (i32.const 1))))
    (drop (memory.grow (i32.load8_u (i32.const 64))))))"#;
/// Maximum number of pages of a copy.
const MAX_PAGES: u32 = 40;
/// Pages of the first reserve, and of the second one.
const RESERVES: [u32; 2] = [4, 16];

/// The interpreter with other limits.
struct LimitedDevice {
    inner: InterpreterDevice,
    free_bytes: u64,
    /// What [`Device::deepen`] returns.
    deeper: u32,
    deepened: u32,
}

impl LimitedDevice {
    fn new(free_bytes: u64, deeper: u32) -> Self {
        Self {
            inner: InterpreterDevice::new(),
            free_bytes,
            deeper,
            deepened: 0,
        }
    }
}

impl Device for LimitedDevice {
    fn load(&mut self, program: &wasm_ptx::Program, depth_limit: u32) -> Result<CompiledProgram, DeviceError> {
        self.inner.load(program, depth_limit)
    }

    fn deepen(&mut self, _depth_limit: u32) -> Result<u32, DeviceError> {
        self.deepened += 1;
        assert_eq!(self.deepened, 1, "the stack is enlarged again");
        Ok(self.deeper)
    }

    fn free_bytes(&mut self) -> Result<u64, DeviceError> {
        Ok(self.free_bytes)
    }

    fn max_copies(&self) -> u32 {
        self.inner.max_copies()
    }

    fn allocate(&mut self, bytes: u64) -> Result<DeviceAddress, DeviceError> {
        self.inner.allocate(bytes)
    }

    fn release(&mut self, at: DeviceAddress) -> Result<(), DeviceError> {
        self.inner.release(at)
    }

    fn write_rows(&mut self, queue: QueueId, rows: Rows, from: &[u8]) -> Result<(), DeviceError> {
        self.inner.write_rows(queue, rows, from)
    }

    fn read_rows(&mut self, queue: QueueId, rows: Rows, to: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read_rows(queue, rows, to)
    }

    fn launch(&mut self, queue: QueueId, at: DeviceAddress, block: &LaunchBlock) -> Result<(), DeviceError> {
        self.inner.launch(queue, at, block)
    }

    fn poll(&mut self, queue: QueueId) -> Result<Option<Duration>, DeviceError> {
        self.inner.poll(queue)
    }
}

impl RunObserver for Results {
    fn compiled(&self, _compiled: &CompiledProgram) {}

    fn started(&self, _copies: u32) {}

    fn alive(&self) {}

    fn launched(&self, _launch: LaunchRecord) {}
}

/// A run of [`PROGRAM`] for inputs of two bytes.
struct Run {
    program: Program,
    options: RunOptions,
    inputs: Vec<Input>,
    translated: TranslatedProgram,
}

impl Run {
    fn new(bytes: &[[u8; 2]], copies: Option<u32>, counters: bool) -> Self {
        let program = parse(PROGRAM);
        let options = RunOptions {
            copies,
            limits: Limits {
                memory_pages: MAX_PAGES,
                ..Limits::default()
            },
            ..RunOptions::default()
        };
        let inputs = inputs(bytes.iter().map(|b| b.to_vec()));
        let translation = TranslationOptions {
            counters,
            ..TranslationOptions::default()
        };
        let translated = translate(&program, &options, translation, max_input_bytes(&inputs)).unwrap();
        Self {
            program,
            options,
            inputs,
            translated,
        }
    }

    /// Returns the bytes of the area of a warp with a reserve of memory.
    fn area_bytes(&self, pages: u32) -> u64 {
        self.translated.program.layout.with_reserve(pages).area_bytes()
    }

    fn start(&self, device: &mut LimitedDevice) -> Result<(RunStatistics, Vec<Option<TrapKind>>), BackendError> {
        let scheduler = Scheduler {
            translated: &self.translated,
            program: &self.program,
            options: &self.options,
            inputs: &self.inputs,
            sort: false,
        };
        let results = Results::new(self.inputs.len());
        let statistics = scheduler.run(device, &results)?;
        let kind = |run: ProgramRun| match run.end {
            RunEnd::Trap(Trap { kind, .. }) => Some(kind),
            RunEnd::Exit(_) => None,
        };
        Ok((statistics, results.into_runs().into_iter().map(kind).collect()))
    }
}

#[test]
fn a_stack_that_cannot_grow_keeps_its_depth_and_ends_the_rounds() {
    // The first stack has room for 128 nested calls.
    let run = Run::new(&[[0, 20], [0, 100], [0, 50]], None, false);
    for deeper in [0, 60, 128] {
        let mut device = LimitedDevice::new(1 << 33, deeper);
        let (statistics, kinds) = run.start(&mut device).unwrap();
        assert_eq!(kinds, [None, Some(TrapKind::CallStackExhausted), None], "{deeper}");
        assert_eq!(statistics.lowered_call_depth, Some(128), "{deeper}");
        assert_eq!((statistics.restarts, device.deepened), (1, 1), "{deeper}");
    }
    let mut device = LimitedDevice::new(1 << 33, 1024);
    let (statistics, kinds) = run.start(&mut device).unwrap();
    assert_eq!((statistics.lowered_call_depth, kinds), (None, vec![None; 3]));
}

#[test]
fn copies_that_start_again_use_the_memory_that_there_is() {
    let run = Run::new(&[[10, 0]; 64], Some(64), false);
    let [first, second] = RESERVES.map(|pages| run.area_bytes(pages));
    // The first round has two warps, the second one has one warp and then the other.
    assert!(2 * first < second);
    let mut device = LimitedDevice::new(second + second / 2, 0);
    let (statistics, kinds) = run.start(&mut device).unwrap();
    assert_eq!((statistics.restarts, kinds), (64, vec![None; 64]));
    assert_eq!(statistics.area_bytes, second);
    let error = run.start(&mut LimitedDevice::new(second - 1, 0)).unwrap_err();
    assert!(error.to_string().starts_with("32 copies need "), "{error}");
    let error = run.start(&mut LimitedDevice::new(2 * first - 1, 0)).unwrap_err();
    assert!(error.to_string().starts_with("64 copies need "), "{error}");
}

#[test]
fn copies_with_counters_do_not_start_again_if_there_is_memory() {
    let bytes: Vec<[u8; 2]> = (0..12).map(|n| [n * 2, n * 10]).collect();
    let run = Run::new(&bytes, None, true);
    let (statistics, kinds) = run.start(&mut LimitedDevice::new(1 << 33, 1024)).unwrap();
    assert_eq!((statistics.restarts, kinds), (0, vec![None; 12]));
    // Each copy executes the block of the nested call `2 * n` times.
    let calls: u64 = bytes.iter().map(|[_, n]| 2 * u64::from(*n)).sum();
    let lanes: Vec<u64> = statistics.profile.unwrap().iter().map(|b| b.active_lanes).collect();
    assert!(lanes.contains(&calls) && lanes.contains(&12), "{lanes:?}");
    assert!(lanes.iter().all(|n| *n <= calls + 12), "{lanes:?}");
    // Without room for the maximum, copies get the first reserve. Those that need the maximum then fail the run.
    let free = run.area_bytes(MAX_PAGES) - 1;
    let error = run.start(&mut LimitedDevice::new(free, 1024)).unwrap_err();
    assert!(error.to_string().starts_with("4 copies need "), "{error}");
    let few = Run::new(&[[10, 0]; 12], None, true);
    let (statistics, kinds) = few.start(&mut LimitedDevice::new(free, 1024)).unwrap();
    assert_eq!((statistics.restarts, kinds), (12, vec![None; 12]));
}
