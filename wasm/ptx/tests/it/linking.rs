//! Linking: imports find exports of earlier instances or host functions, and unreachable functions are dropped.

use wasm_ptx::{ExportedItem, InstanceId, ModuleRole, Options, ProgramBuilder, TranslateError, ValueType};

fn assemble(text: &str) -> Vec<u8> {
    wat::parse_str(text).unwrap()
}

const LIBRARY: &str = r#"(module
    (func (export "twice") (param i32) (result i32) (i32.mul (local.get 0) (i32.const 2)))
    (func $unused (export "unused") (call $deeper)) (func $deeper)
    (memory (export "memory") 1 4) (global (export "global") (mut i64) (i64.const 3)) (table (export "table") 3 funcref))"#;

#[test]
fn imports_that_nothing_resolves_are_refused_by_name() {
    for (text, unknown) in [
        (r#"(module (import "library" "none" (func)))"#, true),
        (r#"(module (import "other" "twice" (func)))"#, true),
        (r#"(module (import "library" "twice" (func)))"#, false),
        (r#"(module (import "library" "memory" (memory 2)))"#, false),
        (r#"(module (import "library" "memory" (memory 1 3)))"#, false),
        (r#"(module (import "library" "global" (global i64)))"#, false),
        (r#"(module (import "library" "table" (table 4 funcref)))"#, false),
        (r#"(module (import "library" "table" (memory 1)))"#, false),
    ] {
        let mut builder = ProgramBuilder::new(Options::default());
        let library = builder
            .add_module("library", &assemble(LIBRARY), ModuleRole::System)
            .unwrap();
        builder.alias(library, "library");
        match builder
            .add_module("program", &assemble(text), ModuleRole::User)
            .unwrap_err()
        {
            TranslateError::UnknownImport { module, .. } => assert!(unknown && module == "program", "{text}"),
            TranslateError::IncompatibleImport { module, .. } => assert!(!unknown && module == "program", "{text}"),
            other => panic!("{text}: {other}"),
        }
        // The program is unchanged.
        assert_eq!(
            builder
                .add_module("program", &assemble("(module)"), ModuleRole::User)
                .unwrap(),
            InstanceId(1)
        );
    }
}

#[test]
fn functions_that_nothing_calls_are_dropped() {
    let mut builder = ProgramBuilder::new(Options::default());
    let library = builder
        .add_module("library", &assemble(LIBRARY), ModuleRole::System)
        .unwrap();
    builder.alias(library, "library");
    builder
        .define_host_function("host", "log", &[ValueType::I32], &[])
        .unwrap();
    builder.define_host_function("host", "never", &[], &[]).unwrap();
    let text = r#"(module (import "library" "twice" (func $twice (param i32) (result i32)))
        (import "host" "log" (func $log (param i32)))
        (func $plain (export "plain") (param i32) (result i32) (call $twice (local.get 0)))
        (func (export "stops") (call $log (call $plain (i32.const 1)))) (func $dropped))"#;
    let program = builder
        .add_module("program", &assemble(text), ModuleRole::User)
        .unwrap();
    let translated = builder.translate().unwrap();
    let names: Vec<&str> = translated.entries.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["plain", "stops"]);
    let emitted: Vec<bool> = translated.functions.iter().map(|function| function.emitted).collect();
    // The library's three, the two host functions, the program's three.
    assert_eq!(emitted, [true, false, false, true, false, true, true, false]);
    let resumable: Vec<bool> = translated.functions.iter().map(|function| function.resumable).collect();
    assert_eq!(resumable, [false, false, false, true, false, false, true, false]);
    let Some(ExportedItem::Function(stops)) = translated.export(program, "stops") else {
        panic!("no function")
    };
    assert_eq!(translated.functions[stops.0 as usize].name, None);
    assert_eq!(translated.host_functions[0].name, "log");
    assert_eq!(
        translated.functions[translated.host_functions[0].function.0 as usize]
            .name
            .as_deref(),
        Some("host.log")
    );
    builder.set_entries(vec![(program, "plain".to_owned())]);
    assert!(builder.translate().unwrap().text.len() < translated.text.len());
    builder.set_entries(vec![(program, "none".to_owned())]);
    assert!(matches!(builder.translate(), Err(TranslateError::Missing { .. })));
}
