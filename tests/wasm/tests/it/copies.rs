//! Many copies in one launch: each keeps to its own cells, and ends as if it were alone.

use ptx_interpreter::{GlobalAddress, LaunchShape, Limits, Region, Regions};
use wasm_ptx::{
    BLOCK_THREADS, BufferOffset, CellSize, CopyState, ENTRY_NAME, InstanceId, LaunchBlock, MemoryId, ModuleRole,
    Options, Program, ProgramBuilder, TrapKind, Word,
};
use wasm_tests::{Machine, Outcome, Settings};

const LAUNCH: u64 = 0x1000;
const CONSTANTS: u64 = 0x10_0000;
const AREAS: u64 = 0x1000_0000;
/// Copies of a launch: three blocks, the last with 7 threads in use.
const COPIES: u32 = 4 * BLOCK_THREADS + 7;
/// Copy that traps.
const BAD: u32 = 70;

const PROGRAM: &str = r#"(module
  (memory (export "memory") 1 2)
  (data (i32.const 61) "kinescope")
  (global $sum (export "sum") (mut i64) (i64.const 5))
  (func (export "run") (param $n i32) (result i64)
    (local $i i32) (local $at i32)
    (if (i32.eq (local.get $n) (i32.const 70)) (then unreachable))
    (loop $next
      (local.set $at (i32.add (i32.const 64) (i32.mul (local.get $i) (i32.const 7))))
      (i64.store (local.get $at) (i64.mul (i64.extend_i32_u (local.get $n)) (i64.const 0x0102030405060708)))
      (i32.store8 (i32.add (local.get $at) (i32.const 3)) (local.get $i))
      (i32.store16 (i32.add (local.get $at) (i32.const 9)) (local.get $n))
      (f64.store (i32.add (local.get $at) (i32.const 1001)) (f64.convert_i32_u (local.get $n)))
      (global.set $sum (i64.add (global.get $sum) (i64.load (i32.sub (local.get $at) (i32.const 2)))))
      (br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1)))
                             (i32.and (local.get $n) (i32.const 15)))))
    (memory.copy (i32.const 2003) (i32.const 61) (i32.add (local.get $n) (i32.const 40)))
    (memory.fill (i32.const 3001) (local.get $n) (i32.const 99))
    (drop (memory.grow (i32.and (local.get $n) (i32.const 1))))
    (i64.add (global.get $sum) (i64.load (i32.const 2009)))))"#;

fn translate(cell: CellSize) -> Program {
    let mut builder = ProgramBuilder::new(Options {
        cell,
        growth_pages: 1,
        ..Options::default()
    });
    let bytes = wat::parse_str(PROGRAM).unwrap();
    builder.add_module("program", &bytes, ModuleRole::User).unwrap();
    builder.translate().unwrap()
}

/// Memory of all copies of a launch.
struct Device {
    program: Program,
    memory: Regions,
}

impl Device {
    fn new(program: Program) -> Self {
        let mut memory = Regions::new();
        let mut add = |base, bytes, writable| {
            assert!(memory.add_region(Region {
                base: GlobalAddress(base),
                bytes,
                writable,
            }));
        };
        let launch = LaunchBlock {
            areas: AREAS,
            constants: CONSTANTS,
            counters: 0,
            copies: COPIES,
            slice: 1 << 20,
            area_bytes: program.layout.area_bytes(),
        };
        add(LAUNCH, launch.encode().to_vec(), false);
        add(CONSTANTS, program.constants.clone(), false);
        add(AREAS, vec![0xb7; program.layout.bytes_of_copies(COPIES) as usize], true);
        Self { program, memory }
    }

    fn bytes(&mut self, at: BufferOffset, count: usize) -> &mut [u8] {
        &mut self.memory.bytes_mut(GlobalAddress(AREAS)).unwrap()[at.0 as usize..][..count]
    }

    fn word(&mut self, at: BufferOffset) -> u32 {
        u32::from_le_bytes(self.bytes(at, 4).try_into().unwrap())
    }

    fn set_word(&mut self, copy: u32, word: Word, value: u32) {
        let at = self.program.layout.word(copy, word);
        self.bytes(at, 4).copy_from_slice(&value.to_le_bytes());
    }

    fn argument(&mut self, copy: u32, slot: u32) -> u64 {
        let [low, high] = self
            .program
            .layout
            .argument(copy, slot)
            .map(|at| u64::from(self.word(at)));
        high << 32 | low
    }

    fn contents(&mut self, copy: u32) -> Vec<u8> {
        let region = *self.program.layout.memory(MemoryId(0)).unwrap();
        let pages = self.program.layout.pages_word(copy, MemoryId(0)).unwrap();
        let size = self.word(pages) << 16;
        let runs: Vec<_> = self.program.layout.memory_runs(copy, &region, 0, size).collect();
        runs.into_iter()
            .flat_map(|run| self.bytes(run.start, run.bytes as usize).to_vec())
            .collect()
    }
}

fn check(cell: CellSize) {
    let program = translate(cell);
    let number = program.entry("run").unwrap().number;
    let mut device = Device::new(program.clone());
    for copy in 0..COPIES {
        for (word, value) in [
            (Word::State, CopyState::Fresh as u32),
            (Word::Step, 0),
            (Word::Function, number),
            (Word::FuelLow, 1 << 20),
            (Word::FuelHigh, 0),
            (Word::DepthLimit, 100),
            (Word::ContinuationBytes, 0),
        ] {
            device.set_word(copy, word, value);
        }
        let [low, _] = program.layout.argument(copy, 0);
        device.bytes(low, 4).copy_from_slice(&copy.to_le_bytes());
    }
    device.set_word(9, Word::State, CopyState::Empty as u32);
    let code = ptx_interpreter::Program::parse(&program.text).unwrap();
    let shape = LaunchShape {
        blocks: COPIES.div_ceil(BLOCK_THREADS),
        threads: BLOCK_THREADS,
    };
    code.run_entry(ENTRY_NAME, &[LAUNCH], shape, &mut device.memory, Limits::default())
        .unwrap();
    for copy in [0, 1, 9, 31, 32, 63, 64, BAD, 95, COPIES - 1] {
        let state = device.program.layout.word(copy, Word::State);
        let state = CopyState::from_code(device.word(state));
        if copy == 9 {
            assert_eq!(state, Some(CopyState::Empty));
            continue;
        }
        let settings = Settings {
            copy,
            ..Settings::default()
        };
        let mut alone = Machine::new(program.clone(), settings).unwrap();
        assert_eq!(alone.instantiate(InstanceId(0)).unwrap(), Outcome::Returned(Vec::new()));
        let outcome = alone.call(number, &[u64::from(copy)]).unwrap();
        match outcome {
            Outcome::Returned(results) => {
                assert_eq!(state, Some(CopyState::Returned), "copy {copy}");
                assert_eq!(device.argument(copy, 0), results[0], "copy {copy}");
            }
            Outcome::Trapped { kind, .. } => {
                assert_eq!((copy, kind), (BAD, TrapKind::Unreachable));
                assert_eq!(state, Some(CopyState::Trapped));
            }
            other => panic!("{other:?}"),
        }
        assert!(
            device.contents(copy) == alone.memory(MemoryId(0)).unwrap(),
            "memory of copy {copy}"
        );
    }
}

#[test]
fn copies_of_a_launch_do_not_disturb_each_other() {
    for cell in [CellSize::Four, CellSize::Eight, CellSize::Sixteen] {
        check(cell);
    }
}
