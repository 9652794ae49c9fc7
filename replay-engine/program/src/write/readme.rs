//! Writer of the README next to the sources: what they do and what they need from the machine.

use super::{describe_buffer, sanitize_comment};
use crate::program::{Program, ProgramBuffer};
use std::fmt::Write as _;

pub(super) fn format_readme(p: &Program) -> String {
    let name = &p.name;
    let mut out = format!(
        "# {name}\n\n{}, as a program of its own: it replays on a {} what was recorded there, without the software that \
         was recorded. `rust/` is a crate without `std`, `c/` the same as a library of freestanding C99. Both do the \
         same, action by action.\n\n",
        sanitize_comment(&p.title),
        sanitize_comment(&p.device)
    );
    let _ = write!(
        out,
        "{} actions, {} reads compared, {} interrupts waited for.\n\n## Buffers\n\n",
        p.actions,
        p.reads.compared(),
        p.interrupts
    );
    if p.inputs.is_empty() && p.outputs.is_empty() {
        out.push_str("None: it takes nothing and gives nothing but what the device then shows.\n");
    } else {
        out.push_str("| | field | in the recording | bytes | holds |\n|---|---|---|---|---|\n");
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
        out.push_str("\nAn input that is not given is as it was recorded.\n");
    }
    let _ = write!(
        out,
        "\n## What it asks of the machine\n\n\
         - The device in its power-on state, its clocks and power on, and nobody else at it.\n"
    );
    if p.bytes > 0 {
        let _ = writeln!(
            out,
            "- {} KiB of memory in one piece that the device sees at physical address {:#x}: page tables and addresses \
             are made for it. Another address: export again with `--arena`. Where caches stand between program and \
             device, clean them when it stores and invalidate them when it loads.",
            p.bytes / 1024,
            p.base
        );
    }
    out.push_str(
        "- Reads and writes of the device's registers, space 0, with the width and in the order that is asked for.\n",
    );
    for (number, window, bytes) in p.mmio_regions.iter().filter(|(n, ..)| *n != 0) {
        let _ = writeln!(
            out,
            "- Space {number}: the window {} of {bytes} bytes.",
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
            "- Waits for interrupts: {lines}. A wait may look at the device's status by reading it in a loop; do not \
             clear it, the replay does."
        );
    }
    let _ = write!(
        out,
        "- A clock of nanoseconds, for limits.\n\n\
         ## Rust\n\n```toml\n[dependencies]\n{name} = {{ path = \"{name}/rust\" }}\n```\n\n\
         Implement `replay_core::Device` (the crate gives it on as `{name}::Device`) and `{name}::Memory` for your \
         device, and call `{name}::run(&mut device, &inputs, &mut outputs)`. It takes no heap and does not panic.\n\n\
         ## C\n\n`make -C c CC=aarch64-linux-gnu-gcc AR=aarch64-linux-gnu-ar` makes `lib{name}.a`, or add the two `.c` \
         files to your own build. Fill in a `struct kinescope_device` and call `{name}_run`. It needs nothing of the C \
         library (a compiler may ask for `memcpy` and `memset`) and keeps no state: two devices may be replayed at the \
         same time.\n\n\
         ## What it checks\n\n\
         Values that are read are compared with the recording, every wait has a limit, and one for an interrupt \
         or a status that does not come in its time ends the run. The plan was checked before \
         it was written: registers that may be written, addresses inside its own memory, limits. It does not check again \
         at run time that its data are whole.\n"
    );
    for u in &p.unproved {
        let _ = writeln!(out, "\nNot proved, bounded by time: {}.", sanitize_comment(u));
    }
    for u in &p.unchecked {
        let _ = writeln!(
            out,
            "\nKnown of the recording, and not looked at by this program: {}.",
            sanitize_comment(u)
        );
    }
    out
}
