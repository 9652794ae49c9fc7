//! Runs a plan's body on an array of registers, as an executable without C library, start files or heap.
//!
//! `cargo build -p replay-bare --profile bare` makes it, for x86-64 Linux; `replay-bare BODY` or `replay-bare < BODY`
//! runs it. It shows how little a bare-metal or TEE replayer has to link. Under any other profile, or for another
//! machine, it is an ordinary program that says so.
#![cfg_attr(bare, no_std)]
#![cfg_attr(bare, no_main)]

#[cfg(bare)]
mod array;
#[cfg(bare)]
replay_bare::entry!(program::run);

#[cfg(bare)]
mod program {
    use crate::array::Array;
    use core::ffi::CStr;
    use replay_bare::system::{self, Line};
    use replay_core::{Actions, Budget, Counts, DeviceError, FailureKind, execute};

    /// Runs the plan that the arguments or the standard input give, and prints what came of it.
    pub fn run(path: Option<&CStr>) -> u8 {
        let Some(body) = system::input(path) else {
            Line::new()
                .text("the body cannot be read, or is longer than 4 MiB")
                .end();
            return 2;
        };
        let mut device = Array::new();
        match execute(&mut device, Actions::new(body), &Budget::default(), &mut ()) {
            Ok(counts) => {
                print("ran to its end", &counts, &device);
                u8::from(counts.divergences != 0)
            }
            Err(failure) => {
                print("stopped", &failure.counts, &device);
                Line::new()
                    .text("at event ")
                    .number(u64::from(failure.event))
                    .text(": ")
                    .text(why(&failure.kind))
                    .end();
                1
            }
        }
    }

    fn why(kind: &FailureKind) -> &'static str {
        match kind {
            FailureKind::Decode(_) => "the body cannot be decoded",
            FailureKind::Device {
                error: DeviceError::NoImages,
                ..
            } => "bytes of a page image, but this program has no page images",
            FailureKind::Device {
                error: DeviceError::NoEffects,
                ..
            } => "a check of an effect, which this program cannot do",
            FailureKind::Device { .. } => "an access outside the registers",
            FailureKind::DeviceWait(_) => "the device failed",
            FailureKind::InterruptTimedOut { .. } => "no interrupt came",
            FailureKind::ActionBudget => "too many actions",
            FailureKind::TimeBudget => "too much time",
            FailureKind::Stopped => "stopped",
        }
    }

    fn print(how: &str, counts: &Counts, device: &Array) {
        Line::new().text(how).end();
        let rows = [
            ("actions ", counts.actions),
            ("writes ", counts.writes),
            ("memory-writes ", device.memory_writes),
            ("reads-compared ", counts.compared()),
            ("reads-matched ", counts.matched),
            ("divergences ", counts.divergences),
            ("interrupts ", counts.interrupts),
            ("time-ns ", device.now_ns),
        ];
        for (name, value) in rows {
            Line::new().text(name).number(value).end();
        }
    }
}

#[cfg(not(bare))]
#[allow(clippy::print_stdout, reason = "a program that says how it is made")]
fn main() {
    println!("replay-bare is made by: cargo build -p replay-bare --profile bare (x86-64 Linux)");
}
