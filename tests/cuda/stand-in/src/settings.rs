//! Settings of a test from environment variables: failures, dirty or little memory, slow work, a count of kernels.

use crate::codes::{DEVICE_UNAVAILABLE, ILLEGAL_ADDRESS, OUT_OF_MEMORY};
use cuda_driver::CuResult;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// List of failures, `cuMemCreate:3,cuLaunchKernel:2=719,kernel:5,device:40=999`: see `README.md`.
const FAIL: &str = "STAND_IN_FAIL";
/// Size of the device's memory, bytes.
const MEMORY: &str = "STAND_IN_MEMORY";
/// Value of each byte of fresh memory; zero by default.
const POISON: &str = "STAND_IN_POISON";
/// `no`: the driver ignores address hints. `long`: like a real driver, it ignores hints for less than 32 MiB.
const HINTS: &str = "STAND_IN_HINTS";
/// Microseconds that each piece of work of a stream waits before it starts.
const SLOW: &str = "STAND_IN_SLOW";
/// `1`: kernels take a time that decreases with the number of their threads, so that a tuner has a result to find.
const PACE: &str = "STAND_IN_PACE";
/// File to which each kernel appends a byte at its start. A kernel that never ends also appends a byte at each poll.
const TICKS: &str = "STAND_IN_TICKS";
/// Text that each kernel prints at its start, as kernels with `printf` do.
const PRINT: &str = "STAND_IN_PRINT";

/// Name for each kernel run in the list of failures.
const KERNEL: &str = "kernel";
/// Name for all calls since a call number in the list of failures.
const DEVICE: &str = "device";

macro_rules! name_functions {
    ($($name:ident [$($other:ident)?] $args:tt;)*) => {
        /// Names of the driver's functions.
        const FUNCTIONS: &[&str] = &[$(stringify!($name)),*];
    };
}

cuda_driver::functions!(name_functions);

/// The address hints that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hints {
    All,
    Long,
    None,
}

/// A requested failure.
#[derive(Debug)]
struct Failure {
    function: String,
    call: u64,
    /// Whether every later call fails as well.
    and_later: bool,
    code: CuResult,
    so_far: AtomicU64,
}

/// All settings.
#[derive(Debug)]
pub struct Settings {
    failures: Vec<Failure>,
    pub memory: u64,
    pub poison: Option<u8>,
    pub hints: Hints,
    pub slow: Duration,
    pub pace: bool,
    ticks: Option<File>,
    print: Option<String>,
}

/// Returns the settings of this process.
pub fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| Settings::parse(|name| std::env::var(name).ok().filter(|v| !v.is_empty())))
}

/// Parses a number: decimal, or hexadecimal after `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Ends the process: a test with a misspelled setting must not pass by chance.
fn reject(name: &str, value: &str) -> ! {
    eprintln!("the stand-in for the CUDA driver does not know {name}={value}");
    std::process::exit(86)
}

impl Settings {
    fn parse(get: impl Fn(&str) -> Option<String>) -> Self {
        let numbered = |name: &str| get(name).map(|text| number(text.trim()).unwrap_or_else(|| reject(name, &text)));
        let hints = match get(HINTS).as_deref() {
            None | Some("all") => Hints::All,
            Some("long") => Hints::Long,
            Some("no") => Hints::None,
            Some(other) => reject(HINTS, other),
        };
        let text = get(FAIL).unwrap_or_default();
        let parts = text.split(',').map(str::trim).filter(|p| !p.is_empty());
        Self {
            failures: parts
                .map(|p| Failure::parse(p).unwrap_or_else(|| reject(FAIL, p)))
                .collect(),
            memory: numbered(MEMORY).unwrap_or(1 << 30),
            poison: numbered(POISON).map(|n| n as u8),
            hints,
            slow: Duration::from_micros(numbered(SLOW).unwrap_or(0)),
            pace: numbered(PACE).is_some_and(|n| n != 0),
            ticks: get(TICKS).map(|path| {
                let file = OpenOptions::new().create(true).append(true).open(&path);
                file.unwrap_or_else(|_| reject(TICKS, &path))
            }),
            print: get(PRINT),
        }
    }

    /// Prints what the test wants each kernel to print.
    pub fn print_text(&self) {
        if let Some(text) = &self.print {
            let mut to = std::io::stdout().lock();
            // The reader may be gone.
            let _ = to.write_all(text.as_bytes()).and_then(|()| to.flush());
        }
    }

    /// Reports to the test that a kernel runs.
    pub fn tick(&self) {
        if let Some(mut file) = self.ticks.as_ref() {
            // The folder is missing if the test has ended.
            let _ = file.write_all(b".");
        }
    }

    fn due(&self, function: &str) -> Option<CuResult> {
        let all = self.failures.iter().filter(|f| f.function == function);
        let due = all.filter(|f| {
            let call = f.so_far.fetch_add(1, Ordering::Relaxed) + 1;
            call == f.call || f.and_later && call > f.call
        });
        // `last` visits every failure, so that each counts the call.
        due.map(|f| f.code).last()
    }

    /// Returns the error that this call of a function must return instead of its work.
    pub fn due_call(&self, function: &str) -> Option<CuResult> {
        if self.failures.is_empty() {
            return None;
        }
        self.due(function).or_else(|| self.lost_device_error())
    }

    /// Returns the error that the next kernel must end with.
    pub fn due_kernel(&self) -> Option<CuResult> {
        self.due(KERNEL)
    }

    /// Returns the error of a lost device, which stays lost.
    fn lost_device_error(&self) -> Option<CuResult> {
        let device = self.failures.iter().find(|f| f.function == DEVICE)?;
        (device.so_far.fetch_add(1, Ordering::Relaxed) + 1 >= device.call).then_some(device.code)
    }
}

impl Failure {
    fn parse(text: &str) -> Option<Self> {
        let (function, rest) = text.split_once(':')?;
        let (call, code) = match rest.split_once('=') {
            Some((call, code)) => (call, Some(code.parse().ok()?)),
            None => (rest, None),
        };
        let (call, and_later) = match call.strip_suffix('+') {
            Some(call) => (call, true),
            None => (call, false),
        };
        let otherwise = match function {
            KERNEL => ILLEGAL_ADDRESS,
            DEVICE => DEVICE_UNAVAILABLE,
            _ => OUT_OF_MEMORY,
        };
        let exists = matches!(function, KERNEL | DEVICE) || FUNCTIONS.contains(&function);
        let call = call.parse().ok().filter(|n| *n > 0)?;
        exists.then(|| Self {
            function: function.to_owned(),
            call,
            and_later,
            code: code.unwrap_or(otherwise),
            so_far: AtomicU64::new(0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stand_in_settings_are_parsed() {
        let s = Settings::parse(|name| {
            let text = match name {
                FAIL => "cuMemCreate:3, cuMemUnmap:2+=801, cuLaunchKernel:1=719,kernel:2,device:9=999",
                MEMORY => "0x200000",
                POISON => "165",
                SLOW => "250",
                HINTS => "long",
                _ => return None,
            };
            Some(text.to_owned())
        });
        assert_eq!(
            (s.memory, s.poison, s.hints, s.pace),
            (2 << 20, Some(165), Hints::Long, false)
        );
        assert_eq!(s.slow, Duration::from_micros(250));
        let due_codes = |name: &str, times: usize| (0..times).map(|_| s.due(name)).collect::<Vec<_>>();
        assert_eq!(due_codes("cuMemCreate", 4), [None, None, Some(2), None]);
        assert_eq!(due_codes("cuMemUnmap", 3), [None, Some(801), Some(801)]);
        assert_eq!(due_codes("cuLaunchKernel", 2), [Some(719), None]);
        assert_eq!(
            (s.due_kernel(), s.due_kernel(), s.due_kernel()),
            (None, Some(700), None)
        );
        let failed: Vec<_> = (0..11).map(|_| s.due_call("cuMemFree_v2").is_some()).collect();
        assert_eq!(
            failed.iter().position(|g| *g),
            Some(8),
            "the ninth call is the first that fails"
        );
        assert!(failed[8..].iter().all(|g| *g));
        for text in [
            "cuMemCreate",
            "cuMemCreate:0",
            "cuMemCreate:x",
            "cuNothing:1",
            "kernel:1=x",
        ] {
            assert!(Failure::parse(text).is_none(), "{text}");
        }
    }
}
