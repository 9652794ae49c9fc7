//! Modules of the host with two memories, host functions, fuel and counters.

use wasm_ptx::{
    CellSize, ExportedItem, InstanceId, MemoryId, ModuleRole, Options, Placement, Program, ProgramBuilder, Suspension,
    TrapKind, ValueType,
};
use wasm_tests::{Machine, Outcome, Settings};

const MEMORY: &str = r#"(module (memory (export "memory") 1 3))"#;
/// System calls: `write` collects bytes in the host's memory, `read` takes them from there.
const SYSTEM: &str = r#"(module
  (import "host" "drain" (func $drain (param i32)))
  (import "host" "next" (func $next (param i64) (result i64)))
  (import "host" "exit" (func $exit (param i32)))
  (import "program" "memory" (memory $program 0))
  (memory $own (export "memory") 2 2)
  (func (export "write") (param $from i32) (param $count i32) (result i32)
    (local $used i32)
    (if (i32.gt_u (i32.add (i32.load $own (i32.const 4)) (local.get $count)) (i32.const 100))
      (then (call $drain (i32.load $own (i32.const 4))) (i32.store $own (i32.const 4) (i32.const 0))))
    (local.set $used (i32.load $own (i32.const 4)))
    (memory.copy $own $program
      (i32.add (i32.const 1000) (local.get $used)) (local.get $from) (local.get $count))
    (i32.store $own (i32.const 4) (i32.add (local.get $used) (local.get $count)))
    (local.get $count))
  (func (export "read") (param $to i32) (param $count i32) (result i32)
    (memory.copy $program $own (local.get $to) (i32.const 65000) (local.get $count))
    (i32.load8_u $program (local.get $to)))
  (func (export "next") (param i64) (result i64)
    (i64.add (call $next (i64.mul (local.get 0) (i64.const 3))) (i64.load $own (i32.const 65003))))
  (func (export "exit") (param i32) (call $exit (local.get 0)) (unreachable)))"#;
const PROGRAM: &str = r#"(module
  (import "system" "write" (func $write (param i32 i32) (result i32)))
  (import "system" "read" (func $read (param i32 i32) (result i32)))
  (import "system" "next" (func $next (param i64) (result i64)))
  (import "system" "exit" (func $exit (param i32)))
  (import "program" "memory" (memory 0))
  (type $step (func (param i64) (result i64)))
  (table 2 2 funcref) (elem (i32.const 0) $next $twice)
  (data (i32.const 16) "thirty bytes of a line of text")
  (func $twice (param i64) (result i64) (i64.mul (local.get 0) (i64.const 2)))
  (func (export "lines") (param $n i32) (result i32) (local $sum i32)
    (loop $again
      (local.set $sum (i32.add (local.get $sum) (call $write (i32.const 16) (i32.const 30))))
      (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
    (local.get $sum))
  (func (export "input") (param i32) (result i32) (call $read (local.get 0) (i32.const 20)))
  (func $deep (export "deep") (param $n i32) (param $x i64) (result i64) (local $f f64)
    (local.set $f (f64.convert_i64_s (local.get $x)))
    (if (result i64) (local.get $n)
      (then
        (i64.add
          (i64.add (call $deep (i32.sub (local.get $n) (i32.const 1)) (i64.add (local.get $x) (i64.const 1)))
                   (call_indirect (type $step) (local.get $x) (i32.and (local.get $n) (i32.const 1))))
          (i64.trunc_f64_s (local.get $f))))
      (else (call $next (local.get $x)))))
  (func (export "skipped") (param $n i32) (param $x i64) (result i32)
    (i32.lt_s (local.get $n) (i32.const 5))
    (block
      (br_if 0 (i32.gt_s (local.get $n) (i32.const 2)))
      (drop (call $next (local.get $x))))
    (i32.eq (local.get $n) (i32.const 1))
    (if (i32.eqz (local.get $n)) (then (drop (call $next (local.get $x)))))
    (i32.shl (i32.const 1))
    (i32.or))
  (func (export "around") (param $n i32) (result i32)
    (i32.lt_s (local.get $n) (i32.const 5))
    (block
      (br_if 0 (i32.gt_s (local.get $n) (i32.const 2)))
      (loop (br_if 0 (i32.lt_s (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 3))))))
  (func (export "leave") (param i32) (call $exit (i32.add (local.get 0) (i32.const 1))))
  (func (export "spin") (loop (br 0)))
  (func (export "count") (param i32) (result i32) (local i32)
    (loop (local.set 1 (i32.add (local.get 1) (i32.const 2)))
      (br_if 0 (local.tee 0 (i32.sub (local.get 0) (i32.const 1)))))
    (local.get 1)))"#;

fn translate(options: Options) -> (Program, MemoryId) {
    let mut builder = ProgramBuilder::new(options);
    builder
        .define_host_function("host", "drain", &[ValueType::I32], &[])
        .unwrap();
    builder
        .define_host_function("host", "next", &[ValueType::I64], &[ValueType::I64])
        .unwrap();
    builder
        .define_terminal_function("host", "exit", &[ValueType::I32])
        .unwrap();
    let mut add = |name, text: &str, role| {
        let bytes = wat::parse_str(text).unwrap();
        let instance = builder.add_module(name, &bytes, role).unwrap();
        builder.alias(instance, name);
        instance
    };
    add("program", MEMORY, ModuleRole::System);
    let system = add("system", SYSTEM, ModuleRole::System);
    add("main", PROGRAM, ModuleRole::User);
    let Some(ExportedItem::Memory(own)) = builder.export(system, "memory") else {
        panic!("no memory")
    };
    builder.place_memory(own, Placement::Contiguous, None, None).unwrap();
    (builder.translate().unwrap(), own)
}

/// Returns a machine that is instantiated, with bytes in the memory of the system calls.
fn machine(options: Options, settings: Settings) -> (Machine, MemoryId) {
    let (program, own) = translate(options);
    let mut machine = Machine::new(program, settings).unwrap();
    machine.fill_memory(own, 0, &[0; 16]).unwrap();
    let input: Vec<u8> = (100..140).collect();
    machine.fill_memory(own, 65000, &input).unwrap();
    assert_eq!(
        machine.instantiate(InstanceId(0)).unwrap(),
        Outcome::Returned(Vec::new())
    );
    (machine, own)
}

fn call(machine: &mut Machine, name: &str, arguments: &[u64]) -> Outcome {
    machine.call_export(InstanceId(2), name, arguments).unwrap().unwrap()
}

/// Returns the options of all cases: cell sizes, and where copies suspend.
fn cases() -> impl Iterator<Item = (Options, Settings)> {
    let cells = [CellSize::Four, CellSize::Eight, CellSize::Sixteen];
    cells.into_iter().flat_map(|cell| {
        let options = Options {
            cell,
            ..Options::default()
        };
        let everywhere = Options {
            suspension: Suspension::Everywhere,
            ..options.clone()
        };
        let short = Settings {
            slice: 2,
            ..Settings::default()
        };
        [
            (options.clone(), Settings::default()),
            (options, short),
            (everywhere, short),
        ]
    })
}

#[test]
fn modules_of_the_host_copy_between_the_memories_of_a_copy() {
    for (options, settings) in cases() {
        let (mut machine, own) = machine(options, settings);
        // Three lines fit in the buffer; the fourth drains it.
        let mut outcome = call(&mut machine, "lines", &[8]);
        for _ in 0..2 {
            assert_eq!(outcome, Outcome::Waiting(0));
            assert_eq!(machine.slot(0).unwrap() as u32, 90);
            let memory = machine.memory(own).unwrap();
            assert_eq!(memory[1030..1060], *b"thirty bytes of a line of text");
            outcome = machine.answer(&[], 1).unwrap();
        }
        assert_eq!(outcome, Outcome::Returned(vec![240]));
        assert_eq!(call(&mut machine, "input", &[65501]), Outcome::Returned(vec![100]));
        let memory = machine.memory(MemoryId(0)).unwrap();
        assert_eq!(
            memory[65500..65522],
            [&[0][..], &(100..120).collect::<Vec<u8>>(), &[0]].concat()
        );
        let outcome = call(&mut machine, "input", &[65517]);
        assert!(matches!(
            outcome,
            Outcome::Trapped {
                kind: TrapKind::MemoryOutOfBounds,
                function: Some(_),
                ..
            }
        ));
    }
}

#[test]
fn host_functions_stop_in_nested_calls_and_go_on() {
    // What the host adds, and what the memory of the system calls adds: bytes 103 to 110.
    const ADDED: u64 = 1_000_000;
    const LOADED: u64 = u64::from_le_bytes([103, 104, 105, 106, 107, 108, 109, 110]);
    fn next(x: u64) -> u64 {
        (x * 3 + ADDED).wrapping_add(LOADED)
    }
    fn deep(n: u64, x: u64) -> u64 {
        match n {
            0 => next(x),
            _ => {
                let step = if n & 1 == 0 { next(x) } else { x * 2 };
                deep(n - 1, x + 1).wrapping_add(step).wrapping_add(x)
            }
        }
    }
    for (options, settings) in cases() {
        let (mut machine, _) = machine(options, settings);
        let mut outcome = call(&mut machine, "deep", &[9, 5]);
        let mut stops = 0;
        while outcome == Outcome::Waiting(1) {
            stops += 1;
            let argument = machine.slot(0).unwrap();
            outcome = machine.answer(&[argument + ADDED], 1).unwrap();
        }
        assert_eq!(outcome, Outcome::Returned(vec![deep(9, 5)]));
        assert_eq!(stops, 5);
        assert_eq!(call(&mut machine, "leave", &[41]), Outcome::Exited(2));
        assert_eq!(machine.slot(0).unwrap() as u32, 42);
    }
}

#[test]
fn comparisons_below_a_block_keep_their_value_on_paths_around_a_stop() {
    for (options, settings) in cases() {
        let (mut machine, _) = machine(options, settings);
        for (n, expected) in [(0, 1), (1, 3), (2, 1), (3, 1), (7, 0)] {
            let mut outcome = call(&mut machine, "skipped", &[n, 1]);
            while outcome == Outcome::Waiting(1) {
                outcome = machine.answer(&[0], 1).unwrap();
            }
            assert_eq!(outcome, Outcome::Returned(vec![expected]), "{n}");
        }
    }
}

#[test]
fn comparisons_below_a_block_keep_their_value_on_paths_around_a_loop() {
    for (options, settings) in cases() {
        let (mut machine, _) = machine(options, settings);
        for (n, expected) in [(0, 1), (2, 1), (3, 1), (4, 1), (7, 0)] {
            let outcome = call(&mut machine, "around", &[n]);
            assert_eq!(outcome, Outcome::Returned(vec![expected]), "{n}");
        }
    }
}

#[test]
fn a_small_continuation_stack_is_a_trap_of_the_copy() {
    let options = Options {
        continuation_bytes: 64,
        ..Options::default()
    };
    let (mut machine, _) = machine(options, Settings::default());
    let outcome = call(&mut machine, "deep", &[9, 5]);
    assert!(
        matches!(
            outcome,
            Outcome::Trapped {
                kind: TrapKind::StackExhausted,
                ..
            }
        ),
        "{outcome:?}"
    );
    assert_eq!(call(&mut machine, "count", &[3]), Outcome::Returned(vec![6]));
}

#[test]
fn a_copy_ends_when_its_fuel_is_used_up() {
    for suspension in [Suspension::ResumableFunctions, Suspension::Everywhere] {
        for slice in [100, 1 << 20] {
            let options = Options {
                suspension,
                ..Options::default()
            };
            let settings = Settings {
                fuel: 200_000,
                slice,
                ..Settings::default()
            };
            let (mut machine, _) = machine(options, settings);
            let outcome = call(&mut machine, "spin", &[]);
            assert!(
                matches!(
                    outcome,
                    Outcome::Trapped {
                        kind: TrapKind::TimeLimit,
                        ..
                    }
                ),
                "{outcome:?}"
            );
            assert_eq!(machine.fuel().unwrap(), 0);
            let before = machine.launches;
            assert_eq!(call(&mut machine, "count", &[1000]), Outcome::Returned(vec![2000]));
            let launches = machine.launches - before;
            match (suspension, slice) {
                (Suspension::Everywhere, 100) => assert_eq!(launches, 10),
                _ => assert_eq!(launches, 1),
            }
            assert_eq!(machine.fuel().unwrap(), 200_000 - 1000);
        }
    }
}

#[test]
fn counters_hold_executions_of_blocks() {
    let options = Options {
        counters: true,
        ..Options::default()
    };
    let (mut machine, _) = machine(options, Settings::default());
    machine.target.counters = Some(vec![0; machine.program.counter_bytes()]);
    assert_eq!(call(&mut machine, "count", &[1000]), Outcome::Returned(vec![2000]));
    let Some(ExportedItem::Function(count)) = machine.program.export(InstanceId(2), "count") else {
        panic!("no function")
    };
    let counters = machine.target.counters.clone().unwrap();
    let number = |index: usize| u64::from_le_bytes(counters[index * 8..][..8].try_into().unwrap());
    let blocks = machine.program.blocks.iter().enumerate();
    let counted: Vec<_> = blocks
        .filter(|(_, block)| block.function == count)
        .map(|(index, _)| (number(2 * index), number(2 * index + 1)))
        .collect();
    // The function's entry, the header of its loop, and the instructions after its branch: one lane each.
    assert_eq!(counted, [(1, 1), (1000, 1000), (1, 1)]);
}
