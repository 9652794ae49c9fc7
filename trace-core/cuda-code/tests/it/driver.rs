//! Compares parsed code with a driver's report of it, and the chosen fatbin entry with the driver's choice.
#![allow(clippy::panic, clippy::type_complexity, reason = "a test panics when it fails")]
#![allow(clippy::unwrap_used)]

use crate::common;

use std::collections::HashMap;

use cuda_code::cubin::Cubin;
use cuda_code::ptx::Ptx;
use cuda_code::{Arch, Capability, Form, Variant, choose, fatbin};

#[derive(Default)]
struct DriverReport {
    /// Name, numbers (max_threads, shared, const, local, regs), and offset and size of each parameter.
    kernels: Vec<(String, HashMap<String, u64>, Vec<(u64, u64)>)>,
    /// Name, size and bytes.
    variables: Vec<(String, u64, Option<Vec<u8>>)>,
}

/// Returns the contents of `driver.txt` by file.
fn reports() -> Vec<(String, DriverReport)> {
    let mut files: Vec<(String, DriverReport)> = Vec::new();
    for line in common::text("driver.txt").lines().filter(|l| !l.starts_with('#')) {
        let words: Vec<_> = line.split_whitespace().collect();
        match words[0] {
            "file" => files.push((words[1].into(), DriverReport::default())),
            "kernel" => {
                let split = words.iter().position(|w| *w == "params").unwrap();
                let numbers = words[2..split]
                    .chunks(2)
                    .map(|c| (c[0].into(), c[1].parse().unwrap()))
                    .collect();
                let parameter = |w: &&str| {
                    let (offset, size) = w.split_once('+').unwrap();
                    (offset.parse().unwrap(), size.parse().unwrap())
                };
                let parameters = words[split + 1..].iter().map(parameter).collect();
                files
                    .last_mut()
                    .unwrap()
                    .1
                    .kernels
                    .push((words[1].into(), numbers, parameters));
            }
            _ => {
                let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
                let bytes = words.get(3).map(|hex| hex.as_bytes().chunks(2).map(byte).collect());
                let variable = (words[1].into(), words[2].parse().unwrap(), bytes);
                files.last_mut().unwrap().1.variables.push(variable);
            }
        }
    }
    files
}

#[test]
fn cubin_properties_match_the_driver() {
    for (file, reported) in reports().into_iter().filter(|(file, _)| file.ends_with(".cubin")) {
        let bytes = common::bytes(&file);
        let cubin = Cubin::parse(&bytes).unwrap();
        assert_eq!(cubin.kernels().unwrap().len(), reported.kernels.len());
        for (name, numbers, parameters) in &reported.kernels {
            let kernel = cubin.kernel(name).unwrap().unwrap();
            assert!(cubin.contains_kernel(name));
            assert_eq!(u64::from(kernel.registers.unwrap()), numbers["regs"], "{file} {name}");
            assert_eq!(kernel.static_shared_bytes, numbers["shared"], "{file} {name}");
            assert_eq!(kernel.stack_bytes, numbers["local"], "{file} {name}");
            let threads = kernel
                .max_threads
                .map_or(1024, |t| u64::from(t.iter().product::<u32>()));
            assert_eq!(threads, numbers["max_threads"], "{file} {name}");
            let parsed: Vec<_> = kernel
                .parameters
                .iter()
                .map(|p| (p.offset.into(), p.bytes.into()))
                .collect();
            assert_eq!(&parsed, parameters, "{file} {name}");
        }
        let variables = cubin.variables().unwrap();
        assert_eq!(variables.len(), reported.variables.len(), "{file}");
        for (name, size, bytes) in &reported.variables {
            let variable = variables.iter().find(|v| v.name == name).unwrap();
            assert_eq!(variable.bytes, *size, "{file} {name}");
            assert!(!variable.relocated);
            assert_eq!(variable.managed, name == "shared_count");
            let zeros = vec![0; usize::try_from(*size).unwrap()];
            let initial = variable.initial.unwrap_or(&zeros);
            assert_eq!(initial, bytes.as_deref().unwrap_or(&zeros), "{file} {name}");
        }
    }
}

#[test]
fn ptx_entries_match_the_driver() {
    for (file, reported) in reports().into_iter().filter(|(file, _)| file.ends_with(".ptx")) {
        let bytes = common::bytes(&file);
        let ptx = Ptx::parse(&bytes).unwrap();
        assert_eq!(ptx.entries.len(), reported.kernels.len(), "{file}");
        for (name, numbers, parameters) in &reported.kernels {
            let entry = ptx.entry(name).unwrap();
            let parsed: Vec<_> = entry.parameters.iter().map(|p| (p.offset, p.bytes)).collect();
            assert_eq!(&parsed, parameters, "{file} {name}");
            let threads = entry.max_threads.map_or(1024, |t| u64::from(t.iter().product::<u32>()));
            assert_eq!(threads, numbers["max_threads"], "{file} {name}");
        }
        assert_eq!(ptx.variables.len(), reported.variables.len(), "{file}");
        for (name, size, _) in &reported.variables {
            let variable = ptx.variables.iter().find(|v| v.name == name).unwrap();
            assert_eq!(variable.bytes, Some(*size), "{file} {name}");
        }
    }
}

#[test]
fn chosen_fatbin_entry_matches_the_driver() {
    let device = Capability::new(9, 0);
    let mut cases = 0;
    for line in common::text("driver-choice.txt")
        .lines()
        .filter(|l| !l.starts_with('#'))
    {
        let (entries, expected) = line.split_once(" = ").unwrap();
        let expected = expected.parse::<usize>().ok().map(|n| n - 1);
        let pairs: Vec<_> = entries.split_whitespace().map(|e| e.split_once(':').unwrap()).collect();
        let forms = pairs.iter().map(|(form, arch)| {
            (
                if *form == "ptx" { Form::Ptx } else { Form::Machine },
                Arch::from_name(arch).unwrap(),
            )
        });
        assert_eq!(choose(forms.clone(), device), expected, "{line}");

        // A fatbin with these entries gives the same choice.
        let entries: Vec<_> = forms
            .map(|(form, arch)| {
                let variant = match arch.variant {
                    Variant::Plain => 0,
                    Variant::Family => 0x20_0000,
                    Variant::Exact => 0x10_0000,
                };
                (
                    if form == Form::Ptx { 1 } else { 2 },
                    arch.number,
                    0x11 | variant,
                    &b"code"[..],
                )
            })
            .collect();
        let image = common::fatbin(&entries);
        let image = fatbin::Fatbin::parse(&image).unwrap();
        let chosen = image.choose(device).unwrap().map(|e| e.at);
        assert_eq!(
            chosen,
            expected.map(|n| image.entries().nth(n).unwrap().unwrap().at),
            "{line}"
        );
        cases += 1;
    }
    assert_eq!(cases, 18);
}

#[test]
fn code_architectures_match_device_capabilities() {
    let runs = |name, form, major, minor| {
        Arch::from_name(name)
            .unwrap()
            .can_run_on(form, Capability::new(major, minor))
    };
    assert!(runs("sm_80", Form::Machine, 8, 6) && !runs("sm_86", Form::Machine, 8, 0));
    assert!(!runs("sm_80", Form::Machine, 9, 0) && runs("sm_80", Form::Ptx, 12, 1));
    assert!(runs("sm_100f", Form::Machine, 10, 3) && !runs("sm_100f", Form::Ptx, 12, 0));
    assert!(runs("compute_90a", Form::Ptx, 9, 0) && !runs("compute_90a", Form::Ptx, 10, 0));
    for none in ["", "sm_", "sm_a", "sm_90b", "sm_9 0", "compute_-1", "sm_99999999999"] {
        assert_eq!(Arch::from_name(none), None, "{none}");
    }
}
