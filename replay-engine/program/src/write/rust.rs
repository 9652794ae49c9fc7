//! Writer of the Rust crate: the executor's own sources, the runner, and a module with the program's tables.

use super::{File, describe_buffer, sanitize_comment};
use crate::program::{Program, ProgramBuffer};
use std::fmt::Write as _;

/// Sources of the executor that runs in every replay.
const EXECUTOR: &[(&str, &str)] = &[
    ("src/lib.rs", include_str!("../../../core/src/lib.rs")),
    ("src/action.rs", include_str!("../../../core/src/action.rs")),
    ("src/device.rs", include_str!("../../../core/src/device.rs")),
    ("src/encoding.rs", include_str!("../../../core/src/encoding.rs")),
    (
        "src/encoding/common.rs",
        include_str!("../../../core/src/encoding/common.rs"),
    ),
    (
        "src/encoding/decode.rs",
        include_str!("../../../core/src/encoding/decode.rs"),
    ),
    (
        "src/encoding/encode.rs",
        include_str!("../../../core/src/encoding/encode.rs"),
    ),
    ("src/execute.rs", include_str!("../../../core/src/execute.rs")),
    (
        "src/execute/report.rs",
        include_str!("../../../core/src/execute/report.rs"),
    ),
];

const RUNNER: &str = include_str!("../../templates/rust/lib.rs");

fn manifest(name: &str, rest: &str) -> String {
    let (license, version) = (env!("CARGO_PKG_LICENSE"), env!("CARGO_PKG_VERSION"));
    let rust = env!("CARGO_PKG_RUST_VERSION");
    format!(
        "[package]\nname = \"{name}\"\nversion = \"{version}\"\nedition = \"2024\"\nrust-version = \"{rust}\"\n\
         license = \"{license}\"\npublish = false\n{rest}"
    )
}

pub(super) fn files(program: &Program) -> Vec<File> {
    let depends = "\n[dependencies]\nreplay-core = { path = \"replay-core\" }\n\n[workspace]\n";
    let mut files = vec![
        File::new("rust/Cargo.toml", manifest(&program.name, depends)),
        File::new(
            "rust/src/lib.rs",
            RUNNER.replace("@TITLE@", &sanitize_comment(&program.title)),
        ),
        File::new("rust/src/plan.rs", tables(program)),
        File::new("rust/src/body.bin", program.body.to_vec()),
        File::new("rust/src/memory.bin", super::c::memory(program)),
        File::new("rust/src/images.bin", super::c::images(program)),
        File::new("rust/replay-core/Cargo.toml", manifest("replay-core", "")),
    ];
    files.extend(
        EXECUTOR
            .iter()
            .map(|(path, text)| File::new(format!("rust/replay-core/{path}"), *text)),
    );
    files
}

fn tables(p: &Program) -> String {
    let mut out = String::from(
        "//! What this program puts into memory, does and reads back. Made by Kinescope; not for editing.\n\n",
    );
    let mut add = |text: std::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = out.write_fmt(text);
    };
    add(format_args!("use crate::{{ImagePiece, Piece}};\n\n"));
    add(format_args!(
        "/// Physical address at which the device sees the program's memory.\npub const BASE: u64 = {:#x};\n",
        p.base
    ));
    add(format_args!(
        "/// Bytes of that memory.\npub const BYTES: u64 = {:#x};\n",
        p.bytes
    ));
    add(format_args!(
        "/// Actions of a run, and the most that one takes.\npub const ACTIONS: u64 = {};\n",
        p.actions
    ));
    add(format_args!(
        "/// Most nanoseconds of a run.\npub(crate) const TIME_NS: u64 = {};\n\n",
        p.budgets.time_ns
    ));
    for (name, file) in [("BODY", "body"), ("MEMORY", "memory"), ("IMAGES", "images")] {
        add(format_args!(
            "pub(crate) static {name}: &[u8] = include_bytes!(\"{file}.bin\");\n"
        ));
    }
    add(format_args!(
        "\n/// Offset and bytes of what lies in `MEMORY` one behind the other.\npub(crate) static RUNS: &[(u64, usize)] = &[\n"
    ));
    for (offset, bytes) in &p.memory {
        add(format_args!("    ({offset:#x}, {}),\n", bytes.len()));
    }
    add(format_args!("];\n"));
    for (name, pieces) in [("INPUT_PIECES", &p.input_pieces), ("OUTPUT_PIECES", &p.output_pieces)] {
        add(format_args!("\npub(crate) static {name}: &[Piece] = &[\n"));
        for q in pieces {
            add(format_args!(
                "    Piece {{ buffer: {}, at: {}, bytes: {}, offset: {:#x} }},\n",
                q.buffer, q.at, q.bytes, q.offset
            ));
        }
        add(format_args!("];\n"));
    }
    add(format_args!("\npub(crate) static IMAGE_PIECES: &[ImagePiece] = &[\n"));
    for q in &p.image_pieces {
        add(format_args!(
            "    ImagePiece {{ image: {}, place: {}, buffer: {}, at: {}, bytes: {} }},\n",
            q.image, q.place, q.buffer, q.at, q.bytes
        ));
    }
    add(format_args!(
        "];\n\n/// The input without which an image is left alone.\npub(crate) static OWNERS: &[Option<usize>] = &[\n"
    ));
    for owner in &p.owners {
        add(format_args!("    {owner:?},\n"));
    }
    add(format_args!("];\n\n"));
    add(format_args!(
        "{}",
        buffers(
            "Inputs",
            "&'a [u8; ",
            &p.inputs,
            "What a run is given; `None`: as it was recorded."
        )
    ));
    add(format_args!(
        "\n{}",
        buffers(
            "Outputs",
            "&'a mut [u8; ",
            &p.outputs,
            "Where a run's results go; `None`: not wanted."
        )
    ));
    out
}

/// Formats a struct with a field for each buffer, and its fields by number.
fn buffers(name: &str, reference: &str, list: &[ProgramBuffer], what: &str) -> String {
    let mut out = format!("/// {what}\n#[derive(Debug, Default)]\npub struct {name}<'a> {{\n");
    for b in list {
        let _ = writeln!(
            out,
            "    /// `{}`: {}.\n    pub {}: Option<{reference}{}]>,",
            sanitize_comment(&b.name),
            describe_buffer(b.bytes, b.element),
            b.id,
            b.bytes
        );
    }
    let mutable = name == "Outputs";
    let (receiver, given, as_slice) = if mutable {
        ("&mut self", "&mut [u8]", "as_deref_mut().map(|b| &mut b[..])")
    } else {
        ("&self", "&[u8]", "map(|b| &b[..])")
    };
    if list.is_empty() {
        out.push_str("    /// There are none.\n    pub none: core::marker::PhantomData<&'a ()>,\n");
    }
    let _ = write!(
        out,
        "}}\n\nimpl {name}<'_> {{\n    pub(crate) fn get({receiver}, number: usize) -> Option<{given}> {{\n        match number {{\n"
    );
    for (n, b) in list.iter().enumerate() {
        let _ = writeln!(out, "            {n} => self.{}.{as_slice},", b.id);
    }
    out.push_str("            _ => None,\n        }\n    }\n}\n");
    out
}
