//! The order memory, system module, program, as a linker without circles needs it: it gives the same results.

use super::run;
use wasm_run::RunEnd;
use wasm_system::{PROGRAM_MODULE, SYSTEM_MEMORY, SharedProgram, SystemInputs, SystemLayout, find_export};
use wasmi::{Config, Engine, Instance, Linker, Module, Store};

/// Copies its input to its output, with the first byte of its data before it. Traps at the byte `!`.
const PROGRAM: &str = r#"(module
    (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
    (import "kinescope" "respond" (func $respond (param i32 i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "\10\00\00\00\40\00\00\00")
    (data (i32.const 15) ">")
    (func (export "_start")
        (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
        (call $respond (i32.const 15) (i32.add (i32.load (i32.const 8)) (i32.const 1)))
        (if (i32.eq (i32.load8_u (i32.const 16)) (i32.const 33)) (then unreachable))))"#;

/// Runs the program in this order, and returns its standard output, or `None` if it traps.
fn run_in_order(text: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let inputs = SystemInputs {
        standard_input: bytes,
        output_limit: 1000,
        ..SystemInputs::default()
    };
    let layout = SystemLayout::new(&inputs, 100, 1000, 1000, 10).unwrap();
    let shared = SharedProgram::divide(&wat::parse_str(text).unwrap()).unwrap();
    let mut config = Config::default();
    config.wasm_multi_memory(true);
    let engine = Engine::new(&config);
    let mut store = Store::new(&engine, ());
    let mut linker: Linker<()> = Linker::new(&engine);
    let add = |linker: &Linker<()>, store: &mut Store<()>, binary: &[u8]| -> Instance {
        let module = Module::new(&engine, binary).unwrap();
        linker.instantiate_and_start(store, &module).unwrap()
    };
    let memory = add(&linker, &mut store, &shared.memory);
    linker.instance(&mut store, PROGRAM_MODULE, memory).unwrap();
    linker.func_wrap("kinescope_host", "drain", |_: i32| {}).unwrap();
    linker.func_wrap("kinescope_host", "next", || 0_i32).unwrap();
    linker.func_wrap("kinescope_host", "exit", |_: i32, _: i32| {}).unwrap();
    let system = add(&linker, &mut store, &wasm_system::assemble(layout.pages()).unwrap());
    let own = system.get_memory(&store, SYSTEM_MEMORY).unwrap();
    own.write(&mut store, 0, &layout.encode(&inputs).unwrap()).unwrap();
    for (module, name) in [("wasi_snapshot_preview1", "fd_read"), ("kinescope", "respond")] {
        let served = system.get_func(&store, find_export(module, name).unwrap()).unwrap();
        linker.define(module, name, served).unwrap();
    }
    let program = add(&linker, &mut store, &shared.program);
    let start = program.get_typed_func::<(), ()>(&store, "_start").unwrap();
    start.call(&mut store, ()).ok()?;
    Some(layout.read_results(own.data(&store)).unwrap().standard_output)
}

#[test]
fn both_orders_give_the_same_results() {
    for bytes in [&b"hello"[..], b"", b"\0\xff"] {
        let circle = run(PROGRAM, bytes);
        assert_eq!(circle.end, RunEnd::Exit(0));
        assert_eq!(run_in_order(PROGRAM, bytes), Some(circle.standard_output));
    }
    assert_eq!(run_in_order(PROGRAM, b"!"), None);
    assert_ne!(run(PROGRAM, b"!").end, RunEnd::Exit(0));
}
