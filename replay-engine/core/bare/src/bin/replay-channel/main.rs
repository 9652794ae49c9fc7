//! Replays a channel plan on an NVIDIA GPU, as an executable without C library, start files, heap or NVIDIA's libraries.
//!
//! `cargo build -p replay-bare --profile bare` makes it, for x86-64 Linux; `replay-channel PLAN > OUTPUTS` runs it.
//! `kinescope export --to channel` writes such a plan. Under any other profile it is an ordinary program that says so.
#![cfg_attr(bare, no_std)]
#![cfg_attr(bare, no_main)]

#[cfg(bare)]
mod kernel;

#[cfg(bare)]
replay_bare::entry!(program::run);

#[cfg(bare)]
mod program {
    use crate::kernel::LinuxKernel;
    use core::ffi::CStr;
    use core::fmt::{self, Write as _};
    use nvidia_client::steps::{ChannelFile, MAX_FILE_RANGES, PAGE_BYTES, Step, Steps};
    use nvidia_client::{Client, DriverBranch, Memory, PlayError, Player};
    use replay_bare::system;

    /// Number of bytes of an output that are read at once.
    const OUTPUT_BYTES: usize = 1 << 16;
    /// Maximum time of one submission, nanoseconds.
    const LIMIT_NS: u64 = 5_000_000_000;

    /// Text on the standard error.
    struct Errors;

    impl fmt::Write for Errors {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            system::write_error(text.as_bytes());
            Ok(())
        }
    }

    /// Replays the plan at the path, and writes its outputs to the standard output.
    pub fn run(path: Option<&CStr>) -> u8 {
        let Some(bytes) = path.and_then(system::map_file) else {
            let _ = writeln!(Errors, "usage: replay-channel PLAN > OUTPUTS");
            return 2;
        };
        let Some(file) = ChannelFile::parse(bytes) else {
            let _ = writeln!(Errors, "the file is not a channel plan");
            return 2;
        };
        let version = system::map_file(c"/proc/driver/nvidia/version")
            .or_else(|| system::input(Some(c"/proc/driver/nvidia/version")));
        let branch = version
            .and_then(|v| core::str::from_utf8(v).ok())
            .and_then(DriverBranch::from_version_file);
        let Some(branch) = branch else {
            let _ = writeln!(Errors, "the driver is missing, or its version is not 570, 580 or 595");
            return 3;
        };
        match replay(&file, branch) {
            Ok(()) => 0,
            Err(e) => {
                let _ = writeln!(Errors, "{e}");
                1
            }
        }
    }

    fn replay(file: &ChannelFile<'_>, branch: DriverBranch) -> Result<(), PlayError> {
        let mut memories: [Option<Memory>; MAX_FILE_RANGES] = [const { None }; MAX_FILE_RANGES];
        let start = system::now_ns();
        let client = Client::open(LinuxKernel, branch, 0)?;
        let mut player = Player::new(client, file.control, LIMIT_NS, &mut memories)?;
        let ready = system::now_ns();
        let mut submissions = 0u32;
        for step in Steps::new(file.steps) {
            match step {
                Ok(Step::Read { va, bytes, .. }) => write_output(&mut player, va, bytes)?,
                Ok(step) => {
                    submissions += u32::from(matches!(step, Step::Submit { .. }));
                    player.play(&step, |_| None::<&[u8; PAGE_BYTES]>)?;
                }
                Err(e) => {
                    let _ = writeln!(Errors, "{e}");
                    break;
                }
            }
        }
        let done = system::now_ns();
        let _ = writeln!(
            Errors,
            "channels after {} us, {submissions} submissions and outputs in {} us",
            (ready - start) / 1000,
            (done - ready) / 1000
        );
        player.close()
    }

    /// Writes memory of the GPU to the standard output.
    fn write_output(player: &mut Player<'_, LinuxKernel>, va: u64, length: u64) -> Result<(), PlayError> {
        let mut bytes = [0u8; OUTPUT_BYTES];
        let mut at = va;
        let mut left = length;
        while left > 0 {
            let now = left.min(OUTPUT_BYTES as u64);
            let part = bytes.get_mut(..now as usize).unwrap_or_default();
            player.read(at, part)?;
            system::write_output(part);
            at = at.wrapping_add(now);
            left -= now;
        }
        Ok(())
    }
}

#[cfg(not(bare))]
#[allow(clippy::print_stdout, reason = "a program that says how it is made")]
fn main() {
    println!("replay-channel is made by: cargo build -p replay-bare --profile bare (x86-64 Linux)");
}
