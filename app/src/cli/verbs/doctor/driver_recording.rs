//! Recording of Linux drivers: the kernel's tracers, which `kinescope-agent record` uses as root.

use super::devices::check_user;
use super::machine::{Machine, Presence};
use super::report::{Area, Check};
use rustix::fs::Access;

/// Folders where the kernel's tracing files can be mounted.
const TRACING: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Architectures whose accessors can be probed.
const PROBED_ARCHITECTURES: [&str; 3] = ["x86_64", "aarch64", "riscv64"];
/// Description of the kernel's types.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";
/// Memory of the kernel, which holds its code.
const KERNEL_CODE: &str = "/proc/kcore";

/// Checks the kernel's tracers.
pub fn check(machine: &Machine) -> Area {
    let (tracing, folder) = check_tracing(machine);
    let mut checks = vec![check_user(machine), tracing];
    checks.extend(folder.map(|folder| check_methods(machine, folder)));
    checks.push(match machine.exists(KERNEL_TYPES) {
        true => Check::ok("kernel types", KERNEL_TYPES),
        false => Check::note(
            "kernel types",
            format!("{KERNEL_TYPES} is absent; the recorder assumes where a device's name lies"),
        )
        .with_mend("use a kernel with CONFIG_DEBUG_INFO_BTF"),
    });
    if machine.architecture == "aarch64" {
        checks.push(match machine.exists(KERNEL_CODE) {
            true => Check::ok("kernel code", KERNEL_CODE),
            false => Check::note(
                "kernel code",
                format!("{KERNEL_CODE} is absent; loads and stores of drivers cannot be probed"),
            )
            .with_mend("use a kernel with CONFIG_PROC_KCORE"),
        });
    }
    if let Some(mode) = machine.lockdown() {
        let found = format!("{mode}; it refuses some tracers");
        checks.push(Check::note("kernel lockdown", found).with_mend("turn Secure Boot off"));
    }
    Area::new(
        "driver recording",
        "`kinescope-agent record` traces a Linux driver as root",
        checks,
    )
}

/// Checks the tracing files. Returns their folder if this user can read it.
fn check_tracing(machine: &Machine) -> (Check, Option<&'static str>) {
    let name = "tracing";
    let presence = |folder: &&str| machine.presence(format!("{folder}/current_tracer"), Access::READ_OK);
    if let Some(folder) = TRACING.into_iter().find(|f| presence(f) == Presence::Usable) {
        return (Check::ok(name, folder), Some(folder));
    }
    let check = if TRACING.into_iter().any(|f| presence(&f) == Presence::Denied) {
        Check::note(name, "only root may read the kernel's tracing files")
            .with_mend("run `sudo kinescope-agent record --check --device DEVICE`, which changes nothing")
    } else if machine.exists(TRACING[0]) {
        Check::missing(name, "the kernel's tracing files are not mounted")
            .with_mend("run `sudo mount -t tracefs tracefs /sys/kernel/tracing`")
    } else {
        Check::missing(name, "the kernel has no tracing files").with_mend("use a kernel with CONFIG_FTRACE")
    };
    (check, None)
}

/// Checks which methods of recording the kernel has.
fn check_methods(machine: &Machine, folder: &str) -> Check {
    let tracers = machine.read(format!("{folder}/available_tracers")).unwrap_or_default();
    let can_probe =
        PROBED_ARCHITECTURES.contains(&machine.architecture) && machine.exists(format!("{folder}/kprobe_events"));
    let methods = [
        ("mmiotrace", tracers.split_whitespace().any(|t| t == "mmiotrace")),
        ("rwmmio", machine.exists(format!("{folder}/events/rwmmio"))),
        ("kprobes", can_probe),
    ];
    let available: Vec<&str> = methods
        .iter()
        .filter(|(_, is_there)| *is_there)
        .map(|(m, _)| *m)
        .collect();
    match available.is_empty() {
        false => Check::ok("methods", available.join(", ")),
        true => Check::missing("methods", "the kernel has none of mmiotrace, rwmmio and kprobes")
            .with_mend("use a kernel with CONFIG_MMIOTRACE, CONFIG_TRACE_MMIO_ACCESS or CONFIG_KPROBE_EVENTS"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::fake::FakeMachine;
    use super::super::report::State;
    use super::*;

    fn row<'a>(area: &'a Area, name: &str) -> &'a Check {
        area.checks.iter().find(|c| c.check == name).unwrap()
    }

    #[test]
    fn tracing_files_are_absent_unmounted_or_for_root() {
        let fake = FakeMachine::empty();
        let tracing = |fake: &FakeMachine| row(&check(&fake.machine), "tracing").clone();
        assert!(tracing(&fake).mend.unwrap().contains("CONFIG_FTRACE"));
        fake.create_folder(TRACING[0]);
        let unmounted = tracing(&fake);
        assert_eq!(unmounted.state, State::Missing);
        assert!(unmounted.mend.unwrap().contains("mount -t tracefs"));
        fake.write("/sys/kernel/tracing/current_tracer", "nop\n", 0o640);
        let denied = tracing(&fake);
        assert_eq!(denied.state, State::Note);
        assert!(denied.mend.unwrap().contains("record --check"));
    }

    #[test]
    fn methods_are_those_of_the_kernel() {
        let mut fake = FakeMachine::empty();
        let folder = "/sys/kernel/debug/tracing";
        fake.write(&format!("{folder}/current_tracer"), "nop\n", 0o644);
        assert_eq!(row(&check(&fake.machine), "methods").state, State::Missing);
        fake.write(
            &format!("{folder}/available_tracers"),
            "mmiotrace function nop\n",
            0o644,
        );
        fake.write(&format!("{folder}/kprobe_events"), "", 0o644);
        let area = check(&fake.machine);
        assert_eq!(row(&area, "tracing").found, folder);
        assert_eq!(row(&area, "methods").found, "mmiotrace, kprobes");
        assert!(area.checks.iter().all(|c| c.check != "kernel code"));
        fake.machine.architecture = "aarch64";
        let area = check(&fake.machine);
        assert_eq!(row(&area, "kernel code").state, State::Note);
        assert_eq!(row(&area, "kernel types").state, State::Note);
    }
}
