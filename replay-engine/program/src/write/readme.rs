//! Writer of the README next to the sources: what they do and what they need from the machine.

use super::files::{describe_buffer, sanitize_comment};
use crate::program::{Program, ProgramBuffer};
use std::fmt::Write as _;

pub(super) fn format_readme(p: &Program) -> String {
    let name = &p.name;
    let mut out = format!(
        "# {name}\n\n{}, as a program of its own: it replays the recording on a {} without the recorded software. \
         `rust/` is a crate without `std`. `c/` is a library of freestanding C99. Both run the same actions.\n\n",
        sanitize_comment(&p.title),
        sanitize_comment(&p.device)
    );
    let _ = write!(
        out,
        "{} actions, {} compared reads, {} waits for interrupts.\n\n## Buffers\n\n",
        p.actions,
        p.reads.compared(),
        p.interrupts
    );
    if p.inputs.is_empty() && p.outputs.is_empty() {
        out.push_str("None. Only the device shows the result.\n");
    } else {
        out.push_str("| | field | in the recording | bytes | content |\n|---|---|---|---|---|\n");
        let mut rows = |what: &str, list: &[ProgramBuffer]| {
            for b in list {
                let _ = writeln!(
                    out,
                    "| {what} | `{}` | {} | {} | {} |",
                    b.id,
                    sanitize_comment(&b.name).replace('|', " "),
                    b.bytes,
                    describe_buffer(b.bytes, b.element)
                );
            }
        };
        rows("input", &p.inputs);
        rows("output", &p.outputs);
        out.push_str("\nAn input that you do not give has its recorded content.\n");
    }
    let _ = write!(
        out,
        "\n## Requirements of the machine\n\n\
         - The device in its power-on state, with clocks and power on, and no other user.\n"
    );
    if p.bytes > 0 {
        let _ = writeln!(
            out,
            "- {} KiB of contiguous memory that the device sees at physical address {:#x}: page tables and addresses \
             depend on it. For another address, export again with `--arena`. If there are caches between program and \
             device, clean them when the program stores and invalidate them when it loads.",
            p.bytes / 1024,
            p.base
        );
    }
    out.push_str("- Reads and writes of the device's registers, space 0, in the requested width and order.\n");
    for (number, window, bytes) in p.mmio_regions.iter().filter(|(n, ..)| *n != 0) {
        let _ = writeln!(
            out,
            "- Space {number}: the MMIO region {} of {bytes} bytes.",
            sanitize_comment(window)
        );
    }
    if p.interrupts > 0 {
        let lines = if p.mmio_regions.is_empty() {
            "line 0 is the job interrupt, 1 the MMU's, 2 the GPU's"
        } else {
            "line 0 is the device's first interrupt"
        };
        let _ = writeln!(
            out,
            "- Waits for interrupts: {lines}. A wait may poll the device's status, but must not clear it: the replay \
             does that."
        );
    }
    let _ = write!(
        out,
        "- A clock in nanoseconds, for time limits.\n\n\
         ## Rust\n\n```toml\n[dependencies]\n{name} = {{ path = \"{name}/rust\" }}\n```\n\n\
         Implement `replay_core::Device` (the crate exports it as `{name}::Device`) and `{name}::Memory` for your \
         device, and call `{name}::run(&mut device, &inputs, &mut outputs)`. It does not allocate and does not \
         panic.\n\n\
         ## C\n\n`make -C c CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar` makes `lib{name}.a`, or add the two `.c` \
         files to your own build. Fill in a `struct kinescope_device` and call `{name}_run`. It needs no C library \
         (a compiler may require `memcpy` and `memset`) and has no state: it can replay on two devices at the same \
         time.\n\n\
         ## Checks\n\n\
         The program compares read values with the recording. Every wait has a time limit; an interrupt or a status \
         that does not arrive in time ends the run. The plan was verified at export: written registers, \
         addresses in its own memory, limits. At run time the program does not verify its own data again.\n"
    );
    for u in &p.unproved {
        let _ = writeln!(out, "\nNot proved, bounded by time: {}.", sanitize_comment(u));
    }
    for u in &p.unchecked {
        let _ = writeln!(
            out,
            "\nKnown from the recording, but not checked by this program: {}.",
            sanitize_comment(u)
        );
    }
    out
}
