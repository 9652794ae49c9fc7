//! QEMU: the programs that emulate devices for `qemu:` targets, and machines for boards in a box.

use super::machine::Machine;
use super::report::{Area, Check, describe_install};
use replay_engine::device::qemu::{PACKAGE, PROGRAM};

/// First major version whose devices behave as in the recordings of the tests.
const MIN_VERSION: u32 = 10;
/// QEMU program for arm64 machines, and its Debian package.
const ARM64_PROGRAM: &str = "qemu-system-aarch64";
const ARM64_PACKAGE: &str = "qemu-system-arm";

/// Checks the QEMU programs. KVM is not among the checks, because nothing uses it.
pub fn check(machine: &Machine) -> Area {
    let x86 = check_program(machine, PROGRAM).unwrap_or_else(|| {
        Check::missing(PROGRAM, "not found in PATH; `qemu:` targets need it").with_mend(describe_install(PACKAGE))
    });
    let arm64 = check_program(machine, ARM64_PROGRAM).unwrap_or_else(|| {
        let found = "not found in PATH; only `make board ARCH=arm64` needs it";
        Check::note(ARM64_PROGRAM, found).with_mend(describe_install(ARM64_PACKAGE))
    });
    Area::new(
        "qemu",
        "`qemu:` targets and `make board`, without KVM",
        vec![x86, arm64],
    )
}

/// Checks the version of a QEMU program; `None` if it is not installed.
fn check_program(machine: &Machine, name: &str) -> Option<Check> {
    let path = machine.find_program(name)?;
    let version = (machine.probes.version)(&path).and_then(|text| parse_version(&text));
    Some(match version {
        None => Check::note(name, format!("{} does not print its version", path.display()))
            .with_mend("run it with `--version`, and install it again if it fails"),
        Some((version, major)) if major < MIN_VERSION => Check::note(
            name,
            format!("{version}; devices before {MIN_VERSION} answer some accesses differently from the recordings"),
        )
        .with_mend(format!(
            "install QEMU {MIN_VERSION} or later, such as Debian's from backports"
        )),
        Some((version, _)) => Check::ok(name, version),
    })
}

/// Parses `QEMU emulator version 10.0.2 (Debian …)`: the version, and its major number.
fn parse_version(text: &str) -> Option<(String, u32)> {
    let version = text.split("version ").nth(1)?.split_whitespace().next()?;
    let major = version.split('.').next()?.parse().ok()?;
    Some((version.to_owned(), major))
}

#[cfg(test)]
mod tests {
    use super::super::machine::fake::FakeMachine;
    use super::super::report::State;
    use super::*;

    #[test]
    fn versions_are_parsed() {
        let text = "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright (c) 2003-2025";
        assert_eq!(parse_version(text), Some(("10.0.2".to_owned(), 10)));
        assert_eq!(parse_version("something else"), None);
    }

    #[test]
    fn only_the_program_of_targets_is_required() {
        let mut fake = FakeMachine::empty();
        let states =
            |fake: &FakeMachine| -> Vec<State> { check(&fake.machine).checks.iter().map(|c| c.state).collect() };
        assert_eq!(states(&fake), [State::Missing, State::Note]);
        fake.set_env("PATH", "/usr/bin");
        fake.write("/usr/bin/qemu-system-x86_64", "QEMU emulator version 7.2.15\n", 0o755);
        assert_eq!(states(&fake), [State::Note, State::Note]);
        fake.write("/usr/bin/qemu-system-x86_64", "QEMU emulator version 10.1.0\n", 0o755);
        fake.write("/usr/bin/qemu-system-aarch64", "", 0o755);
        let area = check(&fake.machine);
        assert!(area.ready);
        assert_eq!(area.checks[0], Check::ok(PROGRAM, "10.1.0"));
        assert!(area.checks[1].found.contains("does not print its version"));
    }

    #[test]
    fn a_program_without_the_right_to_run_is_absent() {
        let mut fake = FakeMachine::empty();
        fake.set_env("PATH", "/usr/bin");
        fake.write("/usr/bin/qemu-system-x86_64", "QEMU emulator version 10.1.0\n", 0o600);
        assert_eq!(check_program(&fake.machine, PROGRAM), None);
    }
}
