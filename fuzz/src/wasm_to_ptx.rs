//! Fuzz target for the translator of WebAssembly: any bytes are refused, or become a text that the interpreter accepts.

use ptx_interpreter::{ParseErrorKind, Program as Kernel};
use wasm_ptx::{CellSize, ENTRY_NAME, ModuleRole, Options, Program, ProgramBuilder, Suspension};

/// Maximum size of a text: the interpreter parses it again.
const MAX_TEXT_BYTES: usize = 2 << 20;

/// Translates any bytes as a module of the user, and as one of the host with each option.
pub fn wasm_to_ptx(data: &[u8]) -> bool {
    let user = Options {
        max_text_bytes: MAX_TEXT_BYTES,
        ..Options::default()
    };
    let host = Options {
        cell: CellSize::Sixteen,
        suspension: Suspension::Everywhere,
        counters: true,
        tables_in_area: true,
        several_tables: true,
        ..user.clone()
    };
    let first = translate(data, &user, ModuleRole::User);
    let second = translate(data, &host, ModuleRole::System);
    for program in [&first, &second].into_iter().flatten() {
        check(program);
    }
    first.is_some()
}

/// Translates a module; its missing functions become host functions.
fn translate(data: &[u8], options: &Options, role: ModuleRole) -> Option<Program> {
    let mut builder = ProgramBuilder::new(options.clone());
    for (module, name, signature) in builder.unresolved_functions("input", data, role).ok()? {
        builder
            .define_host_function(&module, &name, &signature.params, &signature.results)
            .ok()?;
    }
    let instance = builder.add_module("input", data, role).ok()?;
    builder.alias(instance, "input");
    if role == ModuleRole::System {
        // Exports of these modules are no entries unless the host names them.
        let exports = builder.exported_functions(instance);
        builder.set_entries(exports.into_iter().map(|name| (instance, name)).collect());
    }
    builder.translate().ok()
}

/// Checks what each translation promises.
fn check(program: &Program) {
    assert!(program.text.len() <= MAX_TEXT_BYTES, "the text exceeds its limit");
    let kernel = match Kernel::parse(&program.text) {
        Ok(kernel) => kernel,
        // The interpreter limits registers and parameters more than texts do.
        Err(error) if matches!(error.kind, ParseErrorKind::Limit(_)) => return,
        Err(error) => panic!("{error}"),
    };
    assert!(
        kernel.entries().iter().any(|entry| entry.name == ENTRY_NAME),
        "no entry"
    );
    let layout = &program.layout;
    assert!(
        layout.area_bytes().is_multiple_of(512) && layout.area_bytes() > 0,
        "{} bytes",
        layout.area_bytes()
    );
    for memory in layout.memories() {
        let end = memory.start.0 + memory.capacity() * 32;
        assert!(end <= layout.area_bytes(), "a memory ends at {end}");
    }
    for entry in &program.entries {
        assert!(
            entry.signature.params.len() <= layout.arguments() as usize,
            "{}",
            entry.name
        );
    }
}
