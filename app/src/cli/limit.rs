//! `--limit`: the maximum unpacked size of a packed recording, for every verb that reads one.

use clap::{Arg, ArgMatches};
use std::sync::atomic::{AtomicU64, Ordering};
use trace_core::progress::MAX_UNPACKED_BYTES;

/// Name of the argument.
const LIMIT: &str = "limit";
/// Verbs without a recording argument, or without a packed one.
const VERBS_WITHOUT_LIMIT: [&str; 12] = [
    "agents",
    "completions",
    "doctor",
    "link",
    "man",
    "pair",
    "record",
    "regmaps",
    "run",
    "targets",
    "verify",
    "wasm",
];

/// Limit of this process; 0 if none was set.
static MAX_UNPACKED: AtomicU64 = AtomicU64::new(0);

/// Returns the argument, for verbs that read a recording.
pub fn argument(verb: &str) -> Option<Arg> {
    (!VERBS_WITHOUT_LIMIT.contains(&verb)).then(|| {
        Arg::new(LIMIT)
            .long("limit")
            .value_name("BYTES")
            .value_parser(bytes)
            .help("Maximum unpacked size of a packed recording in memory: 8GiB, 500MB [default: 4GiB]")
    })
}

/// Sets the limit from the command line.
pub fn set_from_arguments(matches: &ArgMatches) {
    if let Ok(Some(limit)) = matches.try_get_one::<u64>(LIMIT) {
        MAX_UNPACKED.store(*limit, Ordering::Relaxed);
    }
}

/// Returns the limit in bytes.
pub fn max_unpacked_bytes() -> u64 {
    match MAX_UNPACKED.load(Ordering::Relaxed) {
        0 => MAX_UNPACKED_BYTES,
        limit => limit,
    }
}

/// Parses a number of bytes, with a unit of 1024 (`8GiB`, `8G`) or 1000 (`8GB`), or without.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is not a number of bytes above 0 (expected 8GiB, 500MB or 1000000)");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
    let scale = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(scale).filter(|n| *n > 0).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_sizes_parse_with_common_units() {
        for (text, value) in [
            ("8GiB", 8 << 30),
            ("8g", 8 << 30),
            ("500MB", 500_000_000),
            ("12 KiB", 12 << 10),
            ("4096", 4096),
            ("1T", 1 << 40),
        ] {
            assert_eq!(bytes(text), Ok(value), "{text}");
        }
        for text in [
            "",
            "GiB",
            "0",
            "-1",
            "1.5GiB",
            "8XB",
            "99999999999999999999",
            "99999999TiB",
        ] {
            assert!(bytes(text).is_err(), "{text}");
        }
    }
}
