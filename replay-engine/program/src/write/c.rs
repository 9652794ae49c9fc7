//! Writer of the C library: the executor in C, a header for the program's buffers, and its tables.

use super::{File, describe_buffer, sanitize_comment};
use crate::input_layout::Piece;
use crate::program::{Program, ProgramBuffer};
use std::fmt::Write as _;
use trace_core::recording::ElementType;

const EXECUTOR: &str = include_str!("../../templates/c/kinescope_replay.c");
const INTERFACE: &str = include_str!("../../templates/c/kinescope_replay.h");
/// Number of bytes on a line of an array.
const LINE: usize = 24;

pub(super) fn files(program: &Program) -> Vec<File> {
    let name = &program.name;
    vec![
        File::new("c/kinescope_replay.h", INTERFACE),
        File::new("c/kinescope_replay.c", EXECUTOR),
        File::new(format!("c/{name}.h"), header(program)),
        File::new(format!("c/{name}.c"), source(program)),
        File::new("c/Makefile", makefile(name)),
    ]
}

/// Concatenates the runs that are written over zeroed memory.
pub(super) fn memory(p: &Program) -> Vec<u8> {
    p.memory.iter().flat_map(|(_, b)| b.iter().copied()).collect()
}

/// Concatenates the images.
pub(super) fn images(p: &Program) -> Vec<u8> {
    p.images.iter().flat_map(|i| i.iter().copied()).collect()
}

fn element(e: ElementType) -> &'static str {
    match e {
        ElementType::U8 => "uint8_t",
        ElementType::I8 => "int8_t",
        // C99 has no type for 16-bit floats, so their bits are used.
        ElementType::U16 | ElementType::F16 | ElementType::BF16 => "uint16_t",
        ElementType::I16 => "int16_t",
        ElementType::U32 => "uint32_t",
        ElementType::I32 => "int32_t",
        ElementType::U64 => "uint64_t",
        ElementType::I64 => "int64_t",
        ElementType::F32 => "float",
        ElementType::F64 => "double",
    }
}

fn header(p: &Program) -> String {
    let (name, upper) = (&p.name, p.name.to_uppercase());
    let mut out = format!(
        "/* {} as a program of its own. Made by Kinescope; README.md says what it asks of the machine. */\n\
         #ifndef {upper}_H\n#define {upper}_H\n\n#include \"kinescope_replay.h\"\n\n\
         #ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n\
         /* The memory that the program shares with the device: bytes, and the physical address at which the device sees \
         it. */\n#define {upper}_BYTES UINT64_C({:#x})\n#define {upper}_BASE UINT64_C({:#x})\n",
        sanitize_comment(&p.title),
        p.bytes,
        p.base
    );
    let structures = [
        (
            "inputs",
            "const ",
            &p.inputs,
            "What a run is given; NULL: as it was recorded.",
        ),
        ("outputs", "", &p.outputs, "Where a run's results go; NULL: not wanted."),
    ];
    for (kind, constant, list, what) in structures {
        let _ = write!(out, "\n/* {what} */\nstruct {name}_{kind} {{\n");
        for b in list {
            let _ = writeln!(
                out,
                "    {constant}{} *{}; /* \"{}\": {} bytes, {} */",
                element(b.element),
                b.id,
                sanitize_comment(&b.name),
                b.bytes,
                describe_buffer(b.bytes, b.element).replace('×', "of")
            );
        }
        if list.is_empty() {
            out.push_str("    char none;\n");
        }
        out.push_str("};\n");
    }
    let _ = write!(
        out,
        "\n/* Replays the recording on a device in its power-on state. Structures and `report` may be NULL. */\n\
         enum kinescope_status {name}_run(const struct kinescope_device *device, const struct {name}_inputs *inputs,\n    \
         const struct {name}_outputs *outputs, struct kinescope_report *report);\n\n\
         #ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
    );
    out
}

fn array(out: &mut String, name: &str, bytes: &[u8]) {
    let _ = writeln!(out, "static const uint8_t {name}[] = {{");
    for line in bytes.chunks(LINE) {
        for b in line {
            let _ = write!(out, "{b},");
        }
        out.push('\n');
    }
    // C has no empty arrays.
    out.push_str(if bytes.is_empty() { "0};\n" } else { "};\n" });
}

fn table(out: &mut String, kind: &str, name: &str, rows: impl Iterator<Item = String>) {
    let _ = writeln!(out, "static const struct {kind} {name}[] = {{");
    let mut any = false;
    for row in rows {
        let _ = writeln!(out, "    {{{row}}},");
        any = true;
    }
    out.push_str(if any { "};\n" } else { "    {0}};\n" });
}

fn source(p: &Program) -> String {
    let name = &p.name;
    let mut out = format!("/* The tables of {name}. Made by Kinescope; not for editing. */\n#include \"{name}.h\"\n\n");
    array(&mut out, "body", &p.body);
    array(&mut out, "memory", &memory(p));
    array(&mut out, "images", &images(p));
    let runs = p.memory.iter().map(|(o, b)| format!("UINT64_C({o:#x}), {}", b.len()));
    table(&mut out, "kinescope_run", "runs", runs);
    let piece = |q: &Piece| format!("{}, {}, {}, UINT64_C({:#x})", q.buffer, q.at, q.bytes, q.offset);
    table(
        &mut out,
        "kinescope_piece",
        "input_pieces",
        p.input_pieces.iter().map(piece),
    );
    table(
        &mut out,
        "kinescope_piece",
        "output_pieces",
        p.output_pieces.iter().map(piece),
    );
    let image = p
        .image_pieces
        .iter()
        .map(|q| format!("{}, {}, {}, {}, {}", q.image, q.place, q.buffer, q.at, q.bytes));
    table(&mut out, "kinescope_image_piece", "image_pieces", image);
    out.push_str("static const int32_t owners[] = {\n");
    for owner in &p.owners {
        let _ = writeln!(out, "    {},", owner.map_or(-1, i64::from));
    }
    out.push_str(if p.owners.is_empty() { "    -1};\n" } else { "};\n" });
    let _ = write!(
        out,
        "\nstatic const struct kinescope_program program = {{\n    \
         UINT64_C({:#x}), UINT64_C({}), UINT64_C({}), body, {}, memory, runs, {}, images, owners, {},\n    \
         input_pieces, {}, image_pieces, {}, output_pieces, {}}};\n",
        p.bytes,
        p.actions,
        p.budgets.time_ns,
        p.body.len(),
        p.memory.len(),
        p.images.len(),
        p.input_pieces.len(),
        p.image_pieces.len(),
        p.output_pieces.len()
    );
    let _ = write!(
        out,
        "\nenum kinescope_status {name}_run(const struct kinescope_device *device, const struct {name}_inputs *inputs,\n    \
         const struct {name}_outputs *outputs, struct kinescope_report *report) {{\n"
    );
    pointers(&mut out, "inputs", "const void *", &p.inputs);
    pointers(&mut out, "outputs", "void *", &p.outputs);
    out.push_str("    return kinescope_replay(&program, device, in_inputs, in_outputs, report);\n}\n");
    out
}

/// Writes an array of pointers, filled from a structure that may be NULL.
fn pointers(out: &mut String, name: &str, kind: &str, list: &[ProgramBuffer]) {
    let _ = writeln!(out, "    {kind}in_{name}[{}] = {{0}};", list.len().max(1));
    if list.is_empty() {
        let _ = writeln!(out, "    (void){name};");
        return;
    }
    let _ = writeln!(out, "    if ({name} != NULL) {{");
    for (n, b) in list.iter().enumerate() {
        let _ = writeln!(out, "        in_{name}[{n}] = {name}->{};", b.id);
    }
    out.push_str("    }\n");
}

fn makefile(name: &str) -> String {
    format!(
        "# make CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar: for arm64\n\
         CFLAGS ?= -O2 -std=c99 -ffreestanding -Wall -Wextra -pedantic\n\n\
         lib{name}.a: {name}.o kinescope_replay.o\n\t$(AR) rcs $@ $^\n\n\
         {name}.o kinescope_replay.o: {name}.h kinescope_replay.h\n\n\
         clean:\n\trm -f *.o lib{name}.a\n\n.PHONY: clean\n"
    )
}
