//! NVIDIA GPUs: the kernel module and its branch, device nodes, targets `nvidia:N`, and the CUDA driver library. No
//! device is initialized.

use super::machine::{Machine, Presence};
use super::report::{Area, Check, State};
use crate::cli::child_program::library_folders;
use crate::cli::out::format_count;
use nvidia_client::{DriverBranch, find_module_version};
use rustix::fs::Access;

/// File with the version of the kernel module.
const MODULE_VERSION: &str = "/proc/driver/nvidia/version";
/// Folder with one folder for each GPU of the kernel module.
const GPUS: &str = "/proc/driver/nvidia/gpus";
/// Nodes that CUDA opens besides those of the GPUs, and how to create them.
const CONTROL_NODES: [(&str, &str); 2] = [
    ("/dev/nvidiactl", "run `sudo nvidia-modprobe`"),
    ("/dev/nvidia-uvm", "run `sudo nvidia-modprobe -u -c 0`"),
];
/// First branch whose driver reports the parameters of kernels (CUDA 12.4).
const MIN_BRANCH: u32 = 550;
/// Branch that the tests run on.
const TESTED_BRANCH: u32 = 580;
/// Libraries that record a program: name, what `record --with` calls them, and their package.
const RECORDERS: [(&str, &str, &str); 2] = [
    ("libkinescope_cuda.so", "cuda", "kinescope-cuda"),
    ("libkinescope_nvidia.so", "nvidia", "kinescope-nvidia"),
];

/// Version of the kernel module.
#[derive(Debug, PartialEq, Eq)]
struct KernelModule {
    version: String,
    branch: u32,
    is_open: bool,
}

/// Checks what CUDA needs.
pub fn check(machine: &Machine) -> Area {
    let module = check_module(machine);
    let has_module = module.state != State::Missing;
    let mut checks = vec![module, check_gpus(machine)];
    if has_module {
        checks.extend(CONTROL_NODES.map(|(path, mend)| check_node(machine, path, mend)));
    }
    checks.push(check_channel_targets(machine));
    checks.push(check_library(machine));
    checks.extend(RECORDERS.map(|recorder| check_recorder(machine, recorder)));
    Area::new(
        "nvidia",
        "targets `cuda:N` and `nvidia:N`, `record --with cuda`, `record --with nvidia` and `tune`",
        checks,
    )
}

/// Parses the version of the kernel module.
fn parse_module(text: &str) -> Option<KernelModule> {
    let line = text.lines().find(|l| l.starts_with("NVRM version:"))?;
    let version = find_module_version(text)?;
    Some(KernelModule {
        version: version.to_owned(),
        branch: version.split('.').next()?.parse().ok()?,
        is_open: line.contains("Open Kernel Module"),
    })
}

/// Checks the kernel module and its branch.
fn check_module(machine: &Machine) -> Check {
    let name = "kernel module";
    let Some(text) = machine.read(MODULE_VERSION) else {
        return Check::missing(name, format!("not loaded: {MODULE_VERSION} is absent"))
            .with_mend("install NVIDIA's driver; in a container, pass the GPU on with `--gpus all`");
    };
    let Some(module) = parse_module(&text) else {
        return Check::note(name, format!("{MODULE_VERSION} names no version"));
    };
    let kind = if module.is_open { "open" } else { "proprietary" };
    let found = format!("{}, {kind} module, branch {}", module.version, module.branch);
    match module.branch {
        ..MIN_BRANCH => Check::note(
            name,
            format!("{found}; before {MIN_BRANCH}, the recorder takes parameters of kernels from their code"),
        )
        .with_mend(format!("install branch {MIN_BRANCH} or later")),
        TESTED_BRANCH => Check::ok(name, found),
        _ => Check::ok(
            name,
            format!("{found}; Kinescope is tested with branch {TESTED_BRANCH}"),
        ),
    }
}

/// Checks the nodes of GPUs.
fn check_gpus(machine: &Machine) -> Check {
    let name = "GPUs";
    let nodes = list_gpu_nodes(machine);
    let known = machine.list(GPUS).len();
    let Some(first) = nodes.first() else {
        return match known {
            0 => Check::missing(name, "none: /dev/nvidia0 is absent")
                .with_mend("install an NVIDIA GPU and its driver, or use the GPU of a paired agent"),
            n => Check::missing(
                name,
                format!(
                    "the kernel module has {}, and /dev/nvidia0 is absent",
                    format_count(n as u64, "GPU")
                ),
            )
            .with_mend("run `sudo nvidia-modprobe -c 0`; in a container, pass the GPU on with `--gpus all`"),
        };
    };
    let denied = nodes.iter().find(|node| {
        let access = Access::READ_OK | Access::WRITE_OK;
        machine.presence(format!("/dev/{node}"), access) != Presence::Usable
    });
    if let Some(node) = denied {
        let path = format!("/dev/{node}");
        return Check::missing(name, format!("no access to {path}")).with_mend(machine.describe_access_fix(&path));
    }
    let number = format_count(nodes.len() as u64, "GPU");
    let others = match known > nodes.len() {
        true => format!(" of {known}"),
        false => String::new(),
    };
    let model = machine.list(GPUS).iter().find_map(|gpu| {
        let text = machine.read(format!("{GPUS}/{gpu}/information"))?;
        let model = text.lines().find_map(|l| l.strip_prefix("Model:"))?;
        Some(format!(", {}", model.trim()))
    });
    Check::ok(
        name,
        format!("{number}{others}: /dev/{first}{}", model.unwrap_or_default()),
    )
}

/// Checks what the targets `nvidia:N` need: a known branch of the kernel module, and the nodes that a client opens. They
/// need neither the CUDA driver library nor `/dev/nvidia-uvm`.
fn check_channel_targets(machine: &Machine) -> Check {
    let name = "targets `nvidia:N`";
    let Some(text) = machine.read(MODULE_VERSION) else {
        return Check::note(name, "no kernel module").with_mend("use the GPU of a paired agent (`agent:NAME/nvidia0`)");
    };
    let version = find_module_version(&text).unwrap_or("without a version");
    let Some(branch) = DriverBranch::from_version(version) else {
        let known = DriverBranch::ALL.map(|b| b.number().to_string()).join(", ");
        return Check::note(name, format!("kernel module {version} is not supported")).with_mend(format!(
            "install one of the branches {known}; `cuda:N` works with others"
        ));
    };
    let access = Access::READ_OK | Access::WRITE_OK;
    let gpus: Vec<String> = list_gpu_nodes(machine);
    let control = std::iter::once(CONTROL_NODES[0].0.to_owned());
    let mut nodes = control.chain(gpus.iter().map(|node| format!("/dev/{node}")));
    if let Some(node) = nodes.find(|node| machine.presence(node, access) != Presence::Usable) {
        return Check::note(name, format!("no access to {node}"));
    }
    if gpus.is_empty() {
        return Check::note(name, "no GPU");
    }
    let state = match u32::from(branch.number()) == TESTED_BRANCH {
        true => "",
        false => "; sizes of requests are from its headers, and no machine has run it",
    };
    let numbers: Vec<String> = (0..gpus.len()).map(|n| format!("nvidia:{n}")).collect();
    Check::ok(
        name,
        format!("{}, branch {}{state}", numbers.join(", "), branch.number()),
    )
}

/// Returns the nodes of GPUs in `/dev`, by name.
fn list_gpu_nodes(machine: &Machine) -> Vec<String> {
    let is_gpu = |name: &String| {
        let number = name.strip_prefix("nvidia").unwrap_or_default();
        !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    };
    machine.list("/dev").into_iter().filter(is_gpu).collect()
}

/// Checks a node that every CUDA program opens.
fn check_node(machine: &Machine, path: &str, mend: &str) -> Check {
    match machine.presence(path, Access::READ_OK | Access::WRITE_OK) {
        Presence::Usable => Check::ok(path, "usable"),
        Presence::Denied => Check::missing(path, "no access").with_mend(machine.describe_access_fix(path)),
        Presence::Absent => Check::missing(path, "absent").with_mend(mend),
    }
}

/// Checks the CUDA driver library, and whether it belongs to the kernel module.
fn check_library(machine: &Machine) -> Check {
    let name = "libcuda.so.1";
    let version = match (machine.probes.cuda)() {
        Ok(version) => version,
        Err(e) => {
            return Check::missing(name, e).with_mend(
                "install the library of NVIDIA's driver (libcuda1 on Debian), of the same version as the kernel module",
            );
        }
    };
    let found = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
    let module = machine.read(MODULE_VERSION).and_then(|t| parse_module(&t));
    let library = machine
        .find_library(name)
        .and_then(|path| path.canonicalize().ok())
        .and_then(|path| Some(path.file_name()?.to_str()?.strip_prefix("libcuda.so.")?.to_owned()));
    match (module, library) {
        (Some(module), Some(library)) if library.contains('.') && library != module.version => Check::note(
            name,
            format!("{found}, version {library}; the kernel module is {}", module.version),
        )
        .with_mend("restart the machine after an update of the driver, so that both have one version"),
        _ => Check::ok(name, found),
    }
}

/// Checks a library that `record` puts into a program. It lies where that verb searches.
fn check_recorder(machine: &Machine, (library, driver, package): (&'static str, &str, &str)) -> Check {
    let folder = machine.folders.program.clone().unwrap_or_default();
    let places = library_folders(&folder).into_iter().map(|f| f.join(library));
    match places.into_iter().find(|p| p.is_file()) {
        Some(path) => Check::ok(library, path.display().to_string()),
        None => Check::note(
            library,
            format!("not next to this program; `record --with {driver}` needs it"),
        )
        .with_mend(format!(
            "run `cargo build -p {package}`, or install the package of Kinescope"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::machine::fake::FakeMachine;
    use super::*;

    const OPEN: &str = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (dvs)\n\
                        GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n";
    const PROPRIETARY: &str =
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024";

    fn row<'a>(area: &'a Area, name: &str) -> &'a Check {
        area.checks.iter().find(|c| c.check == name).unwrap()
    }

    #[test]
    fn both_kinds_of_kernel_modules_are_parsed() {
        let open = KernelModule {
            version: "580.159.04".to_owned(),
            branch: 580,
            is_open: true,
        };
        assert_eq!(parse_module(OPEN), Some(open));
        let proprietary = parse_module(PROPRIETARY).unwrap();
        assert_eq!((proprietary.branch, proprietary.is_open), (535, false));
        assert_eq!(parse_module("NVRM version: none"), None);
    }

    #[test]
    fn a_machine_without_a_gpu_says_what_is_absent() {
        let area = check(&FakeMachine::empty().machine);
        assert!(!area.ready);
        for name in ["kernel module", "GPUs", "libcuda.so.1"] {
            assert_eq!(row(&area, name).state, State::Missing, "{name}");
        }
        assert!(area.checks.iter().all(|c| c.check != "/dev/nvidiactl"));
    }

    #[test]
    fn a_whole_driver_is_ready() {
        let mut fake = FakeMachine::empty();
        fake.machine.probes.cuda = || Ok(13_000);
        fake.write(MODULE_VERSION, OPEN, 0o444);
        for node in ["nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps"] {
            fake.write(&format!("/dev/{node}"), "", 0o666);
        }
        fake.write(
            &format!("{GPUS}/0000:01:00.0/information"),
            "Model: \t NVIDIA H100\nIRQ: 7\n",
            0o444,
        );
        let area = check(&fake.machine);
        assert!(area.ready, "{area:?}");
        assert_eq!(row(&area, "kernel module").found, "580.159.04, open module, branch 580");
        assert_eq!(row(&area, "GPUs").found, "2 GPUs: /dev/nvidia0, NVIDIA H100");
        assert_eq!(row(&area, "libcuda.so.1").found, "CUDA 13.0");
        let targets = row(&area, "targets `nvidia:N`");
        assert_eq!(targets.state, State::Ok);
        assert_eq!(targets.found, "nvidia:0, nvidia:1, branch 580");
        for (library, ..) in RECORDERS {
            assert_eq!(row(&area, library).state, State::Note);
        }
    }

    #[test]
    fn channel_targets_need_a_known_branch_and_nodes_alone() {
        let found = |fake: &FakeMachine| check_channel_targets(&fake.machine).found;
        let fake = FakeMachine::empty();
        assert_eq!(found(&fake), "no kernel module");
        fake.write(MODULE_VERSION, PROPRIETARY, 0o444);
        let unsupported = check_channel_targets(&fake.machine);
        assert_eq!(unsupported.state, State::Note);
        assert_eq!(unsupported.found, "kernel module 535.183.01 is not supported");
        assert!(unsupported.mend.unwrap().contains("570, 580, 595"));
        fake.write(MODULE_VERSION, OPEN.replace("580.159.04", "595.45.04"), 0o444);
        assert_eq!(found(&fake), "no access to /dev/nvidiactl");
        fake.write("/dev/nvidiactl", "", 0o666);
        assert_eq!(found(&fake), "no GPU");
        fake.write("/dev/nvidia0", "", 0o600);
        assert_eq!(found(&fake), "no access to /dev/nvidia0");
        fake.write("/dev/nvidia0", "", 0o666);
        let usable = check_channel_targets(&fake.machine);
        assert_eq!(usable.state, State::Ok);
        assert!(
            usable.found.starts_with("nvidia:0, branch 595; sizes"),
            "{}",
            usable.found
        );
    }

    #[test]
    fn an_older_branch_and_an_older_library_are_notes() {
        let mut fake = FakeMachine::empty();
        fake.machine.probes.cuda = || Ok(12_040);
        fake.write(MODULE_VERSION, PROPRIETARY, 0o444);
        fake.write("/usr/lib/x86_64-linux-gnu/libcuda.so.550.1.2", "", 0o644);
        fake.link("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "libcuda.so.550.1.2");
        let area = check(&fake.machine);
        let module = row(&area, "kernel module");
        assert_eq!(module.state, State::Note);
        assert!(
            module.found.contains("proprietary module, branch 535"),
            "{}",
            module.found
        );
        let library = row(&area, "libcuda.so.1");
        assert_eq!(library.state, State::Note);
        assert!(
            library.found.starts_with("CUDA 12.4, version 550.1.2"),
            "{}",
            library.found
        );
    }

    #[test]
    fn a_node_without_access_or_driver_is_missing() {
        let fake = FakeMachine::empty();
        fake.write(MODULE_VERSION, OPEN, 0o444);
        fake.create_folder(&format!("{GPUS}/0000:01:00.0"));
        assert!(check_gpus(&fake.machine).found.contains("has 1 GPU"));
        fake.write("/dev/nvidia0", "", 0o600);
        assert_eq!(check_gpus(&fake.machine).found, "no access to /dev/nvidia0");
        let area = check(&fake.machine);
        assert!(row(&area, "/dev/nvidia-uvm").mend.as_ref().unwrap().contains("-u -c 0"));
    }
}
