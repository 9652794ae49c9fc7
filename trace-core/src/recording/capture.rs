//! How a recorder made a recording: the machine, the method, the command, and the end.

use serde::{Deserialize, Serialize};

/// How a recorder on the recorded machine made a recording. Unknown values are absent or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capture {
    /// The recording method: `mmiotrace`, `rwmmio`, `kprobes`.
    pub method: String,
    /// Kernel release, `6.1.0-56-amd64`.
    pub kernel: String,
    /// Architecture of the machine, `x86_64`.
    pub architecture: String,
    /// The bound driver.
    pub driver: String,
    /// The command and its arguments; empty if the driver was bound and nothing was run.
    pub command: Vec<String>,
    /// Exit code of the command, in shell convention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<u8>,
    /// Why the recording ends before its command, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cut: Option<String>,
    /// Number of events that the kernel lost in all buffers, with or without a position in the log.
    pub lost: u64,
    /// What could not be observed on this machine, one line each.
    pub unobserved: Vec<String>,
}

/// Formats seconds since 1970 as date and time of day in UTC, as in RFC 3339: `2026-01-31T23:59:59Z`.
#[must_use]
pub fn rfc3339(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years that start in March, so that the leap day is their last day: 400 of them have 146,097 days.
    let shifted = days + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    let (h, m, s) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capture_metadata_round_trips() {
        let capture = Capture {
            method: "mmiotrace".into(),
            command: vec!["sh".into(), "-c".into(), "true".into()],
            exit_code: Some(0),
            ..Capture::default()
        };
        let json = serde_json::to_vec(&capture).unwrap();
        assert_eq!(serde_json::from_slice::<Capture>(&json).unwrap(), capture);
        assert!(serde_json::from_slice::<Capture>(b"[]x").is_err());
    }

    #[test]
    fn times_are_formatted_as_rfc3339() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(1_709_164_800 + 86_400), "2024-03-01T00:00:00Z");
        assert_eq!(rfc3339(4_102_444_799), "2099-12-31T23:59:59Z");
    }
}
