//! Settings of a model: version of the driver, memory, failures.

use crate::status::RmStatus;
use nvidia_channel::rm::DriverBranch;
use thiserror::Error;

const VERSION: &str = "NVIDIA_MODEL_VERSION";
const MEMORY: &str = "NVIDIA_MODEL_MEMORY";
const FAIL: &str = "NVIDIA_MODEL_FAIL";
/// Version of the driver without a setting.
const DEFAULT_VERSION: &str = "580.159.04";
/// Bytes of video memory without a setting.
const DEFAULT_MEMORY: u64 = 80 << 30;

/// A setting that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the model of NVIDIA's driver does not know {name}={value}")]
pub struct SettingsError {
    /// Name of the variable.
    pub name: &'static str,
    /// Its value, or the part that is wrong.
    pub value: String,
}

/// Effect of a launch that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaunchFailure {
    Hang,
    MmuFault,
    Misaligned,
}

/// A request or launch that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailurePoint {
    Allocation { class: u32, status: RmStatus },
    Control { command: u32, status: RmStatus },
    Request { number: u32, status: RmStatus },
    Launch { effect: LaunchFailure },
}

/// A failure, and how often its point was reached.
#[derive(Debug, Clone)]
struct Failure {
    point: FailurePoint,
    /// Number of the only call that fails, from 1; `None` for each call.
    call: Option<u64>,
    so_far: u64,
}

/// All settings of a model.
#[derive(Debug, Clone)]
pub struct Settings {
    pub(crate) version: String,
    pub(crate) branch: DriverBranch,
    /// Bytes of video memory.
    pub(crate) memory: u64,
    failures: Vec<Failure>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            version: DEFAULT_VERSION.to_owned(),
            branch: DriverBranch::R580,
            memory: DEFAULT_MEMORY,
            failures: Vec::new(),
        }
    }
}

/// Parses a number: decimal, or hexadecimal after `0x`.
fn parse_number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

impl Settings {
    /// Returns the settings of this process's environment.
    ///
    /// # Errors
    /// If a variable has an unknown value.
    pub fn from_environment() -> Result<Self, SettingsError> {
        Self::parse(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn parse(get: impl Fn(&str) -> Option<String>) -> Result<Self, SettingsError> {
        let mut settings = Self::default();
        if let Some(version) = get(VERSION) {
            settings = settings.with_version(&version)?;
        }
        if let Some(text) = get(MEMORY) {
            let memory = parse_number(text.trim());
            settings.memory = memory.ok_or(SettingsError {
                name: MEMORY,
                value: text,
            })?;
        }
        match get(FAIL) {
            Some(text) => settings.with_failures(&text),
            None => Ok(settings),
        }
    }

    /// Returns the settings with another version of the driver, such as `595.45.04`. A version of an unknown branch has the
    /// arguments of branch 580, for programs that look at the version alone.
    ///
    /// # Errors
    /// If the text is not a version.
    pub fn with_version(mut self, version: &str) -> Result<Self, SettingsError> {
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !version.contains('.') || !version.split('.').all(is_number) {
            return Err(SettingsError {
                name: VERSION,
                value: version.to_owned(),
            });
        }
        self.branch = DriverBranch::from_version(version).unwrap_or(DriverBranch::R580);
        version.clone_into(&mut self.version);
        Ok(self)
    }

    /// Returns the settings with another size of video memory in bytes.
    #[must_use]
    pub fn with_memory(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Returns the settings with more failures, in the form of `NVIDIA_MODEL_FAIL`.
    ///
    /// # Errors
    /// If a failure has an unknown form.
    pub fn with_failures(mut self, text: &str) -> Result<Self, SettingsError> {
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let failure = Failure::parse(part).ok_or_else(|| SettingsError {
                name: FAIL,
                value: part.to_owned(),
            })?;
            self.failures.push(failure);
        }
        Ok(self)
    }

    /// Returns the last due failure of the points that match. Each of them counts the call.
    fn due<T>(&mut self, matches: impl Fn(FailurePoint) -> Option<T>) -> Option<T> {
        let mut due = None;
        for failure in &mut self.failures {
            let Some(value) = matches(failure.point) else {
                continue;
            };
            failure.so_far += 1;
            if failure.call.is_none_or(|call| call == failure.so_far) {
                due = Some(value);
            }
        }
        due
    }

    /// Fails an allocation of a class if that is set.
    pub(crate) fn check_allocation(&mut self, allocated: u32) -> Result<(), RmStatus> {
        let due = self.due(|point| match point {
            FailurePoint::Allocation { class, status } if class == allocated => Some(status),
            _ => None,
        });
        due.map_or(Ok(()), Err)
    }

    /// Fails a control command if that is set.
    pub(crate) fn check_control(&mut self, sent: u32) -> Result<(), RmStatus> {
        let due = self.due(|point| match point {
            FailurePoint::Control { command, status } if command == sent => Some(status),
            _ => None,
        });
        due.map_or(Ok(()), Err)
    }

    /// Fails an ioctl of RM if that is set.
    pub(crate) fn check_request(&mut self, sent: u32) -> Result<(), RmStatus> {
        let due = self.due(|point| match point {
            FailurePoint::Request { number, status } if number == sent => Some(status),
            _ => None,
        });
        due.map_or(Ok(()), Err)
    }

    /// Counts a launch, and returns how it fails.
    pub(crate) fn next_launch(&mut self) -> Option<LaunchFailure> {
        self.due(|point| match point {
            FailurePoint::Launch { effect } => Some(effect),
            _ => None,
        })
    }
}

impl Failure {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, ':');
        let (kind, subject, effect) = (parts.next()?, parts.next()?, parts.next()?);
        if kind == "launch" {
            let effect = match effect {
                "hang" => LaunchFailure::Hang,
                "mmu" => LaunchFailure::MmuFault,
                "misaligned" => LaunchFailure::Misaligned,
                _ => return None,
            };
            let call = match subject {
                "*" => None,
                number => Some(parse_number(number).filter(|n| *n > 0)?),
            };
            return Some(Self {
                point: FailurePoint::Launch { effect },
                call,
                so_far: 0,
            });
        }
        let (status, call) = match effect.split_once('@') {
            Some((status, call)) => (status, Some(parse_number(call).filter(|n| *n > 0)?)),
            None => (effect, None),
        };
        let number = u32::from_str_radix(subject.trim_start_matches("0x"), 16).ok()?;
        let status = RmStatus(
            u32::try_from(parse_number(status)?)
                .ok()
                .filter(|status| *status != 0)?,
        );
        let point = match kind {
            "alloc" => FailurePoint::Allocation { class: number, status },
            "control" => FailurePoint::Control {
                command: number,
                status,
            },
            "request" => FailurePoint::Request { number, status },
            _ => return None,
        };
        Some(Self { point, call, so_far: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed() {
        let mut settings = Settings::parse(|name| {
            let text = match name {
                VERSION => "570.211.01",
                MEMORY => "0x40000000",
                FAIL => "alloc:c86f:0x51@2, control:a06c0101:0x40,request:57:81,launch:2:hang",
                _ => return None,
            };
            Some(text.to_owned())
        })
        .unwrap();
        assert_eq!((settings.branch, settings.memory), (DriverBranch::R570, 1 << 30));
        let allocations: Vec<_> = (0..3).map(|_| settings.check_allocation(0xc86f).is_ok()).collect();
        assert_eq!(allocations, [true, false, true]);
        assert_eq!(settings.check_allocation(0xcbc0), Ok(()));
        assert_eq!(settings.check_control(0xa06c_0101), Err(RmStatus(0x40)));
        assert_eq!(settings.check_request(0x57), Err(RmStatus(0x51)));
        let launches: Vec<_> = (0..3).map(|_| settings.next_launch()).collect();
        assert_eq!(launches, [None, Some(LaunchFailure::Hang), None]);
    }

    #[test]
    fn unknown_settings_are_errors() {
        for text in [
            "alloc",
            "alloc:c86f",
            "alloc:c86f:0",
            "alloc:zz:1",
            "alloc:c86f:1@0",
            "launch:0:hang",
            "launch:1:sleep",
            "free:1:1",
        ] {
            let error = Settings::default().with_failures(text).unwrap_err();
            assert_eq!((error.name, error.value.as_str()), (FAIL, text));
        }
        let other = Settings::default().with_version("550.54.15").unwrap();
        assert_eq!(
            (other.version.as_str(), other.branch),
            ("550.54.15", DriverBranch::R580)
        );
        assert!(Settings::default().with_version("580").is_err());
    }
}
