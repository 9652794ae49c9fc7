//! Fuzz targets for what the Linux recorder reads: its persistent list of changes, and the kernel's descriptions of
//! devices, drivers, modules, types and code.

use linux_recorder::{FrameBuffer, Kernel, check, find_accesses, find_member_offset, parse_changes};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;

/// Fuzzes the list of changes as a later reader reads it.
pub fn record_changes(data: &[u8]) -> bool {
    match parse_changes(data) {
        Ok(all) => {
            for change in &all {
                assert!(!change.to_string().is_empty(), "a change without a description");
            }
            !all.is_empty()
        }
        Err((line, why)) => {
            assert!(line > 0 && !why.is_empty(), "line {line}: {why}");
            false
        }
    }
}

/// Files of a machine that an input can supply; content that starts with `>` is a link.
pub const FILES: [&str; 22] = [
    "/sys/kernel/tracing/current_tracer",
    "/sys/kernel/tracing/available_tracers",
    "/sys/kernel/tracing/kprobe_events",
    "/sys/bus/pci/devices/0000:00:03.0/vendor",
    "/sys/bus/pci/devices/0000:00:03.0/device",
    "/sys/bus/pci/devices/0000:00:03.0/class",
    "/sys/bus/pci/devices/0000:00:03.0/irq",
    "/sys/bus/pci/devices/0000:00:03.0/resource",
    "/sys/bus/pci/devices/0000:00:03.0/modalias",
    "/lib/modules/6/modules.alias",
    "/lib/modules/6/modules.dep",
    ">/sys/bus/amba/devices/9010000.pl031/of_node",
    "/proc/device-tree/#address-cells",
    "/proc/device-tree/#size-cells",
    "/proc/device-tree/soc/#address-cells",
    "/proc/device-tree/soc/#size-cells",
    "/proc/device-tree/soc/ranges",
    "/proc/device-tree/soc/pl031@9010000/reg",
    "/proc/device-tree/soc/pl031@9010000/reg-names",
    "/proc/device-tree/soc/pl031@9010000/compatible",
    "/proc/interrupts",
    "/proc/modules",
];

/// A machine made from an input: for each of [`FILES`] two bytes of length and the content, until the input ends.
struct InputMachine(BTreeMap<&'static str, Vec<u8>>);

impl InputMachine {
    fn parse(mut data: &[u8]) -> Self {
        let mut all = BTreeMap::new();
        for name in FILES {
            let Some((length, rest)) = data.split_first_chunk() else {
                break;
            };
            let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
            let (bytes, rest) = rest.split_at(length);
            if length > 0 {
                all.insert(name, bytes.to_vec());
            }
            data = rest;
        }
        Self(all)
    }
}

impl Kernel for InputMachine {
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        self.0.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn read_bytes_at(&self, path: &str, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let all = self.read_bytes(path)?;
        let rest = usize::try_from(at)
            .ok()
            .and_then(|at| all.get(at..))
            .unwrap_or_default();
        Ok(rest.get(..bytes).unwrap_or(rest).to_vec())
    }

    fn read_link(&self, path: &str) -> io::Result<String> {
        let to = self.0.get(format!(">{path}").as_str());
        to.map(|t| String::from_utf8_lossy(t).into_owned())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let below = format!("{path}/");
        let mut all: Vec<String> = FILES
            .iter()
            .filter_map(|f| f.trim_start_matches('>').strip_prefix(&below)?.split('/').next())
            .map(str::to_owned)
            .collect();
        all.dedup();
        Ok(all)
    }

    fn exists(&self, path: &str) -> bool {
        let below = format!("{path}/");
        FILES.iter().any(|f| f.trim_start_matches('>').starts_with(&below)) || self.0.contains_key(path)
    }

    fn release(&self) -> (String, String) {
        ("6".into(), "aarch64".into())
    }

    fn is_root(&self) -> bool {
        true
    }

    // The check is read-only: it never calls the methods below.
    fn write(&self, path: &str, _: &str) -> io::Result<()> {
        panic!("the check wrote to {path}")
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        panic!("the check created {path}")
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        panic!("the check removed {path}")
    }

    fn load(&self, module: &str, _: &mut dyn FnMut(u32)) -> io::Result<()> {
        panic!("the check loaded {module}")
    }

    fn unload(&self, module: &str) -> io::Result<()> {
        panic!("the check unloaded {module}")
    }

    fn open_trace(&self, path: &str) -> io::Result<File> {
        panic!("the check opened {path}")
    }

    fn end_process(&self, pid: u32, _: bool) -> io::Result<()> {
        panic!("the check ended {pid}")
    }

    fn frame_buffer(&self, path: &str) -> io::Result<FrameBuffer> {
        panic!("the check read {path}")
    }
}

/// Fuzzes the kernel's descriptions. The first byte selects what the rest is: the files of a machine, the kernel's
/// types, or a function's code. The devices of a machine are checked as `record --check` does.
pub fn record_machine(data: &[u8]) -> bool {
    let Some((kind, rest)) = data.split_first() else {
        return false;
    };
    match kind % 3 {
        0 => {
            let kernel = InputMachine::parse(rest);
            let targets = ["pci:0000:00:03.0", "pci:1002:5159", "platform:9010000.pl031"];
            let results = targets.map(|name| {
                let target = name.parse().unwrap_or_else(|e| panic!("{name}: {e}"));
                check(&kernel, &target, None, &[], &[]).is_ok()
            });
            results.contains(&true)
        }
        1 => find_member_offset(rest, "device", "kobj").is_some(),
        _ => match find_accesses(rest) {
            Ok(all) => {
                for a in &all {
                    assert!(a.at + 4 <= rest.len() as u64 && a.width <= 8, "{a:?}");
                }
                !all.is_empty()
            }
            Err(_) => false,
        },
    }
}
