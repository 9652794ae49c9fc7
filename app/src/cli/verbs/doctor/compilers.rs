//! Compilers of exported programs. Everything else works without them.

use super::machine::Machine;
use super::report::{Area, Check, describe_install};

/// Programs that build and run an exported program on this machine, with their Debian packages.
const NATIVE: [(&str, &str); 2] = [("gcc", "gcc libc6-dev"), ("make", "make")];
/// Programs that build and run an exported program for arm64, with their Debian packages.
const ARM64: [(&str, &str); 2] = [
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"),
    ("qemu-aarch64", "qemu-user"),
];

/// Checks the compilers.
pub fn check(machine: &Machine) -> Area {
    let is_arm64 = machine.architecture == "aarch64";
    let find = |name: &str| {
        let path = machine.find_program(name)?;
        Some(Check::ok(name, path.display().to_string()))
    };
    let native = NATIVE.map(|(name, package)| {
        find(name).unwrap_or_else(|| {
            Check::missing(name, "not found in PATH; optional: only exported programs need it")
                .with_mend(describe_install(package))
        })
    });
    let arm64 = ARM64.into_iter().filter(|_| !is_arm64).map(|(name, package)| {
        find(name).unwrap_or_else(|| {
            Check::note(
                name,
                "not found in PATH; optional: only exported programs for arm64 need it",
            )
            .with_mend(describe_install(package))
        })
    });
    let checks = native.into_iter().chain(arm64).collect();
    Area::new("compilers", "building what `export --to program` writes", checks)
}

#[cfg(test)]
mod tests {
    use super::super::machine::fake::FakeMachine;
    use super::super::report::State;
    use super::*;

    #[test]
    fn absent_compilers_are_named_with_their_packages() {
        let area = check(&FakeMachine::empty().machine);
        assert!(!area.ready);
        let states: Vec<State> = area.checks.iter().map(|c| c.state).collect();
        assert_eq!(states, [State::Missing, State::Missing, State::Note, State::Note]);
        assert!(area.checks[2].mend.as_ref().unwrap().contains("gcc-aarch64-linux-gnu"));
    }

    #[test]
    fn a_compiler_of_this_machine_is_enough() {
        let mut fake = FakeMachine::empty();
        fake.set_env("PATH", "/bin");
        fake.write("/bin/gcc", "", 0o755);
        fake.write("/bin/make", "", 0o755);
        assert!(check(&fake.machine).ready);
        fake.machine.architecture = "aarch64";
        assert_eq!(check(&fake.machine).checks.len(), 2);
    }
}
