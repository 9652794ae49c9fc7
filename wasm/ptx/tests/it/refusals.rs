//! What the translator refuses: other features by name and byte offset, and numbers above limits.

use wasm_ptx::{
    MAX_CONSTANT_BYTES, MAX_NESTING, MAX_STACK_VALUES, ModuleRole, Options, ProgramBuilder, TranslateError,
};

fn translate(text: &str, role: ModuleRole, options: Options) -> Result<usize, TranslateError> {
    let bytes = wat::parse_str(text).unwrap();
    let mut builder = ProgramBuilder::new(options);
    builder.add_module("program", &bytes, role)?;
    Ok(builder.translate()?.text.len())
}

/// Modules of extensions that programs may not use, and a word of the message.
const EXTENSIONS: &[(&str, &str)] = &[
    ("(module (func (drop (v128.const i64x2 0 0))))", "SIMD"),
    ("(module (memory 1 1 shared))", "threads"),
    (
        "(module (memory 1) (func (drop (i32.atomic.load (i32.const 0)))))",
        "threads",
    ),
    ("(module (func $f (return_call $f)))", "tail calls"),
    ("(module (tag))", "exceptions"),
    ("(module (memory i64 1))", "memory64"),
    ("(module (memory 1) (memory 1))", "multiple memories"),
    ("(module (table 1 funcref) (table 1 funcref))", "multiple tables"),
    ("(module (func (param externref)))", "reference types"),
    (
        "(module (table 1 funcref) (func (drop (table.size 0))))",
        "reference types",
    ),
    (
        "(module (global i32 (i32.add (i32.const 1) (i32.const 2))))",
        "constant expression",
    ),
    ("(module (type (struct)))", "gc"),
];

#[test]
fn other_extensions_are_refused_by_name_and_position() {
    for (text, word) in EXTENSIONS {
        match translate(text, ModuleRole::User, Options::default()) {
            Err(TranslateError::Invalid {
                module,
                offset,
                message,
            }) => {
                assert!(
                    message.to_lowercase().contains(&word.to_lowercase()),
                    "{text}: {message}"
                );
                assert!(offset >= 8 && module == "program", "{text}: {offset}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn modules_of_the_host_may_have_several_memories() {
    let text = "(module (memory 1) (memory 1))";
    assert!(translate(text, ModuleRole::System, Options::default()).is_ok());
}

#[test]
fn values_of_references_are_refused_where_several_tables_are_accepted() {
    let options = Options {
        several_tables: true,
        ..Options::default()
    };
    assert!(
        translate(
            "(module (table 1 funcref) (table 1 funcref))",
            ModuleRole::User,
            options.clone()
        )
        .is_ok()
    );
    for text in [
        "(module (func (param externref)))",
        "(module (func (local funcref)))",
        "(module (table 1 externref))",
        "(module (global funcref (ref.null func)))",
        "(module (func (export \"f\") (drop (block (result funcref) (ref.null func)))))",
        "(module (table 1 funcref) (func (export \"f\") (drop (table.size 0))))",
    ] {
        let result = translate(text, ModuleRole::User, options.clone());
        assert!(
            matches!(result, Err(TranslateError::Unsupported { .. })),
            "{text}: {result:?}"
        );
    }
}

#[test]
fn damaged_bytes_are_refused() {
    for bytes in [&b""[..], b"\0asm", b"\0asm\x02\0\0\0", b"\0asm\x01\0\0\0\x0a\x05\x01"] {
        let mut builder = ProgramBuilder::new(Options::default());
        let result = builder.add_module("program", bytes, ModuleRole::User);
        assert!(
            matches!(result, Err(TranslateError::Invalid { .. })),
            "{bytes:?}: {result:?}"
        );
    }
}

#[test]
fn numbers_above_limits_are_refused() {
    let nested = format!(
        "(module (func (export \"f\") {}{}))",
        "block ".repeat(MAX_NESTING + 1),
        "end ".repeat(MAX_NESTING + 1)
    );
    let stack = format!(
        "(module (func (export \"f\") (param i32) {}{}))",
        "local.get 0 ".repeat(MAX_STACK_VALUES + 1),
        "drop ".repeat(MAX_STACK_VALUES + 1)
    );
    let table = "(module (table 2000000 funcref))".to_owned();
    let memory = "(module (memory 65536))".to_owned();
    let results = format!("(module (type (func (param {}))))", "i32 ".repeat(300));
    for text in [nested, stack, table, memory, results] {
        let result = translate(&text, ModuleRole::User, Options::default());
        assert!(
            matches!(result, Err(TranslateError::Limit { .. })),
            "{}: {result:?}",
            &text[..60]
        );
    }
    let options = Options {
        max_text_bytes: 1000,
        ..Options::default()
    };
    let text = "(module (func (export \"f\") (param i32) (result i32) (i32.div_u (i32.const 1) (local.get 0))))";
    let result = translate(text, ModuleRole::User, options);
    assert!(
        matches!(
            result,
            Err(TranslateError::Limit {
                what: "bytes of PTX text",
                ..
            })
        ),
        "{result:?}"
    );
    const { assert!(MAX_CONSTANT_BYTES <= 1 << 30) };
}
