//! Tests of modules: the interface, and what happens at each limit.

use super::*;
use trace_core::recording::ElementType;

/// The interface without the function: memory, and an allocator that never frees.
const ALLOCATOR: &str = r#"
  (memory (export "memory") 1)
  (global $next (mut i32) (i32.const 1024))
  (func (export "allocate") (param $bytes i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $next))
    (global.set $next (i32.add (local.get $at) (i32.and (i32.add (local.get $bytes) (i32.const 15)) (i32.const -16))))
    (local.get $at))
"#;

fn limits() -> ModuleLimits {
    ModuleLimits {
        fuel: 10_000_000,
        memory: 1 << 20,
        time: Duration::from_secs(30),
    }
}

fn compile_with(body: &str, limits: ModuleLimits) -> Result<ModuleProgram, ModuleDefect> {
    let text = format!("(module {ALLOCATOR} {body})");
    let output = TensorType::new(ElementType::U32, vec![4]).unwrap();
    ModuleProgram::new(text.as_bytes(), "run", 1, vec![output], limits)
}

fn compile(body: &str) -> ModuleProgram {
    compile_with(body, limits()).unwrap()
}

fn run(body: &str) -> Result<ModuleRun, ModuleError> {
    compile(body).run(&[Arc::new(vec![1, 2, 3, 4])], &Progress::new())
}

/// A function `run` with this code.
fn function(code: &str) -> String {
    format!(
        "(func (export \"run\") (param $in i32) (param $in_bytes i32) (param $out i32) (param $out_bytes i32) {code})"
    )
}

#[test]
fn module_gets_inputs_and_gives_outputs() {
    let body = function(
        "(i32.store (local.get $out) (i32.load (local.get $in)))
         (i32.store offset=4 (local.get $out) (local.get $in_bytes))
         (i32.store offset=8 (local.get $out) (local.get $out_bytes))",
    );
    let first = run(&body).unwrap();
    let words: Vec<u8> = [0x0403_0201u32, 4, 16, 0]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    assert_eq!(*first.outputs[0], words);
    assert!(first.fuel > 0 && first.fuel < 1000, "{}", first.fuel);
    assert_eq!(run(&body).unwrap(), first, "a run repeats bit for bit");
}

#[test]
fn endless_module_ends_by_fuel_time_or_cancellation() {
    let body = function("(loop $again (br $again))");
    assert_eq!(run(&body), Err(ModuleError::Fuel(10_000_000)));
    let unlimited = ModuleLimits {
        fuel: 1 << 50,
        time: Duration::from_millis(50),
        ..limits()
    };
    let program = compile_with(&body, unlimited).unwrap();
    let input = [Arc::new(vec![0; 4])];
    assert_eq!(
        program.run(&input, &Progress::new()),
        Err(ModuleError::Time(Duration::from_millis(50)))
    );
    let unlimited = ModuleLimits {
        time: Duration::from_secs(600),
        ..unlimited
    };
    let program = compile_with(&body, unlimited).unwrap();
    let progress = Progress::new();
    let observer = progress.clone();
    let canceller = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        observer.cancel();
    });
    assert_eq!(program.run(&input, &progress), Err(ModuleError::Cancelled));
    canceller.join().unwrap();
}

#[test]
fn traps_and_reported_errors_have_types() {
    let trap = |code: &str| match run(&function(code)).unwrap_err() {
        ModuleError::Trap { function, trap } => {
            assert_eq!(function, "run");
            trap
        }
        other => panic!("{other}"),
    };
    assert!(trap("(unreachable)").contains("unreachable"));
    assert!(trap("(i32.store (i32.const -4) (i32.const 1))").contains("outside its memory"));
    assert!(trap("(drop (i32.div_u (i32.const 1) (i32.const 0)))").contains("division by zero"));
    let deep = format!("(func $deep (call $deep)) {}", function("(call $deep)"));
    match run(&deep).unwrap_err() {
        ModuleError::Trap { trap, .. } => assert!(trap.contains("nested too deeply"), "{trap}"),
        other => panic!("{other}"),
    }
    let reports = function("(result i32) (i32.const 7)");
    assert_eq!(
        run(&reports),
        Err(ModuleError::Reported {
            function: "run".to_owned(),
            code: 7
        })
    );
    assert!(run(&function("(result i32) (i32.const 0)")).is_ok());
}

#[test]
fn memory_has_a_limit() {
    let grow = function("(drop (memory.grow (i32.const 1000)))");
    assert_eq!(run(&grow), Err(ModuleError::Memory { limit: 1 << 20 }));
    assert!(run(&function("(drop (memory.grow (i32.const 2)))")).is_ok());
    let small = ModuleLimits {
        memory: 1 << 15,
        ..limits()
    };
    assert_eq!(
        compile_with(&function(""), small).unwrap_err(),
        ModuleDefect::Memory {
            bytes: 1 << 16,
            limit: 1 << 15
        }
    );
}

#[test]
fn address_of_the_allocator_is_checked() {
    let text = format!(
        "(module (memory (export \"memory\") 1) (func (export \"allocate\") (param i32) (result i32) (i32.const -8)) {})",
        function("")
    );
    let output = TensorType::new(ElementType::U32, vec![4]).unwrap();
    let program = ModuleProgram::new(text.as_bytes(), "run", 1, vec![output], limits()).unwrap();
    let error = program.run(&[Arc::new(vec![0; 4])], &Progress::new()).unwrap_err();
    assert!(
        matches!(
            error,
            ModuleError::Allocation {
                address: 0xffff_fff8,
                bytes: 4,
                memory_bytes: 0x1_0000
            }
        ),
        "{error}"
    );
}

#[test]
fn interface_is_checked_before_a_run() {
    let defect = |text: &str| ModuleProgram::new(text.as_bytes(), "run", 1, Vec::new(), limits()).unwrap_err();
    assert!(matches!(defect("(module"), ModuleDefect::Invalid(_)));
    assert!(matches!(defect("\0asm\x01\0\0\0\x7f"), ModuleDefect::Invalid(_)));
    assert_eq!(
        defect("(module (import \"env\" \"now\" (func)))").to_string(),
        "it imports 'env.now' (a module of a stage imports nothing)"
    );
    assert_eq!(
        defect("(module)").to_string(),
        "it exports no memory 'memory' (expected (memory (export \"memory\") ...))"
    );
    assert!(
        defect("(module (memory (export \"memory\") 1))")
            .to_string()
            .contains("no function 'allocate'")
    );
    let one = |body: &str| defect(&format!("(module {ALLOCATOR} {body})"));
    assert_eq!(
        one("").to_string(),
        "it exports no function 'run' (expected (i32, i32) -> () or (i32, i32) -> (i32))"
    );
    assert_eq!(
        one("(func (export \"run\") (param i64))").to_string(),
        "its function 'run' is (i64) -> () (expected (i32, i32) -> () or (i32, i32) -> (i32))"
    );
    assert!(matches!(
        one("(func $f) (start $f) (func (export \"run\") (param i32 i32))"),
        ModuleDefect::Invalid(_)
    ));
    assert!(matches!(
        ModuleProgram::new(&vec![0; MAX_MODULE_BYTES as usize + 1], "run", 1, Vec::new(), limits()),
        Err(ModuleDefect::Size { .. })
    ));
}
