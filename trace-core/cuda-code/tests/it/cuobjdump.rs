//! Compares parsed cubins and fatbins with the output of NVIDIA's `cuobjdump`.
#![allow(clippy::panic, clippy::type_complexity, reason = "a test panics when it fails")]
#![allow(clippy::unwrap_used)]

use crate::common;

use std::collections::HashMap;

use cuda_code::cubin::{Cubin, Kernel, VariableMemory};
use cuda_code::fatbin::{Compression, Fatbin, Flags, Kind};

/// Returns the numbers of a line such as `REG:29 STACK:0 CONSTANT[0]:540`.
fn numbers(line: &str) -> HashMap<&str, u64> {
    line.split_whitespace()
        .filter_map(|w| w.rsplit_once(':'))
        .map(|(k, v)| (k, v.parse().unwrap()))
        .collect()
}

/// Parses a number such as `0x1f` or `31`.
fn number(text: &str) -> u64 {
    text.strip_prefix("0x")
        .map_or_else(|| text.parse().unwrap(), |hex| u64::from_str_radix(hex, 16).unwrap())
}

/// Returns all numbers after `Value:`.
fn value(line: &str) -> Vec<u64> {
    line.split_whitespace()
        .filter(|w| w.starts_with(|c: char| c.is_ascii_digit()))
        .map(number)
        .collect()
}

#[test]
fn resource_usage() {
    for file in common::all(".cubin") {
        let bytes = common::bytes(&file);
        let cubin = Cubin::parse(&bytes).unwrap();
        let kernels: HashMap<_, _> = cubin.kernels().unwrap().into_iter().map(|k| (k.name, k)).collect();
        let text = common::text(&format!("{file}.usage"));
        let mut lines = text.lines();
        let mut seen = 0;
        while let Some(line) = lines.next() {
            if line.trim() == "Common:" {
                let usage = numbers(lines.next().unwrap());
                let variables = cubin.variables().unwrap();
                let sizes = |place| variables.iter().filter(move |v| v.place == place);
                let end = |place| sizes(place).map(|v| v.offset + v.bytes).max().unwrap_or(0);
                assert_eq!(
                    usage["GLOBAL"],
                    end(VariableMemory::Global) + end(VariableMemory::GlobalInit),
                    "{file}"
                );
                for bank in cubin.constant_banks().unwrap() {
                    assert_eq!(usage[&*format!("CONSTANT[{}]", bank.number)], bank.bytes, "{file}");
                }
            } else if let Some(name) = line.trim().strip_prefix("Function ") {
                let kernel = &kernels[name.trim_end_matches(':')];
                let usage = numbers(lines.next().unwrap());
                assert_eq!(u64::from(kernel.registers.unwrap()), usage["REG"], "{file} {name}");
                assert_eq!(kernel.stack_bytes, usage["STACK"], "{file} {name}");
                assert_eq!(kernel.frame_bytes, usage["STACK"], "{file} {name}");
                assert_eq!(
                    kernel.static_shared_bytes + kernel.reserved_shared_bytes,
                    usage["SHARED"],
                    "{file} {name}"
                );
                assert_eq!(kernel.local_bytes, usage["LOCAL"], "{file} {name}");
                assert_eq!(kernel.banks.len(), 1);
                assert_eq!(kernel.banks[0].bytes, usage["CONSTANT[0]"], "{file} {name}");
                seen += 1;
            }
        }
        assert_eq!(seen, kernels.len(), "{file}");
    }
}

/// Checks one attribute of a kernel against the printed value.
fn attribute(kernel: &Kernel<'_>, attribute: &str, line: &str, label: &str) {
    let values = value(line);
    let three = |t: [u32; 3]| t.map(u64::from).to_vec();
    match attribute {
        "EIATTR_KPARAM_INFO" | "EIATTR_KPARAM_INFO_V2" => {
            let [_, ordinal, offset, size] = values[..] else {
                panic!("{label}: {line}")
            };
            let parameter = kernel.parameters[ordinal as usize];
            let parsed = (
                u64::from(parameter.ordinal),
                u64::from(parameter.offset),
                u64::from(parameter.bytes),
            );
            assert_eq!(parsed, (ordinal, offset, size), "{label}");
        }
        "EIATTR_CBANK_PARAM_SIZE" => assert_eq!(u64::from(kernel.parameter_bytes), values[0], "{label}"),
        "EIATTR_PARAM_CBANK" => assert_eq!(u64::from(kernel.parameter_base), values[1] & 0xffff, "{label}"),
        "EIATTR_MAXREG_COUNT" => assert_eq!(u64::from(kernel.register_limit.unwrap()), values[0], "{label}"),
        "EIATTR_MAX_THREADS" => assert_eq!(three(kernel.max_threads.unwrap()), values, "{label}"),
        "EIATTR_REQNTID" => assert_eq!(three(kernel.required_threads.unwrap()), values, "{label}"),
        "EIATTR_NUM_BARRIERS" => assert_eq!(u64::from(kernel.barriers), values[0], "{label}"),
        other => panic!("{label}: {other}"),
    }
}

#[test]
fn cubin_kernel_attributes_and_variable_symbols_are_read() {
    for file in common::all(".cubin") {
        let bytes = common::bytes(&file);
        let cubin = Cubin::parse(&bytes).unwrap();
        let kernels: HashMap<_, _> = cubin.kernels().unwrap().into_iter().map(|k| (k.name, k)).collect();
        let variables: HashMap<_, _> = cubin.variables().unwrap().into_iter().map(|v| (v.name, v)).collect();
        let text = common::text(&format!("{file}.elf"));
        let (mut kernel, mut last, mut counts) = (None, "", HashMap::<_, [usize; 2]>::new());
        let mut objects = 0;
        for line in text.lines().map(str::trim) {
            let words: Vec<_> = line.split_whitespace().collect();
            if let Some(name) = line.strip_prefix(".nv.info.").or(line.strip_prefix(".text.")) {
                kernel = kernels.get(name);
            } else if line.starts_with("64-bit") {
                let sm = line.split("sm=").nth(1).unwrap().split(',').next().unwrap();
                assert_eq!(cubin.arch().to_string(), format!("sm_{sm}"), "{file}");
                let abi = line.split("ABI=").nth(1).unwrap().split(',').next().unwrap();
                assert_eq!(cubin.abi_version().to_string(), abi, "{file}");
            } else if let Some(name) = line.strip_prefix("Attribute: ") {
                last = name;
            } else if line.starts_with("Value:") && !last.is_empty() {
                let kernel = kernel.unwrap();
                attribute(kernel, last, line, &format!("{file} {}", kernel.name));
                let counts = counts.entry(kernel.name).or_default();
                counts[0] += usize::from(last.starts_with("EIATTR_KPARAM"));
                counts[1] += usize::from(last == "EIATTR_NUM_BARRIERS");
                last = "";
            } else if line.starts_with("bar =") {
                let kernel = kernel.unwrap();
                assert_eq!(u64::from(kernel.barriers), number(words[2]), "{file} {}", kernel.name);
                counts.entry(kernel.name).or_default()[1] += 1;
            } else if let [_, offset, size, "OBJECT", .., name] = words[..] {
                if name.starts_with(".nv.") || name.starts_with("__nv_") {
                    continue;
                }
                let variable = variables[name];
                assert_eq!(
                    (variable.offset, variable.bytes),
                    (number(offset), number(size)),
                    "{file} {name}"
                );
                objects += 1;
            }
        }
        assert_eq!(objects, variables.len(), "{file}");
        for kernel in kernels.values() {
            // `cuobjdump` prints all parameters and barriers, so the parser must not find others.
            let counts = counts[kernel.name];
            assert_eq!(kernel.parameters.len(), counts[0], "{file} {}", kernel.name);
            assert!(kernel.barriers == 0 || counts[1] != 0, "{file} {}", kernel.name);
        }
    }
}

#[test]
fn fatbin_entries_are_listed() {
    for file in common::all(".fatbin") {
        let bytes = common::bytes(&file);
        let image = Fatbin::parse(&bytes).unwrap();
        let entries: Vec<_> = image.entries().map(Result::unwrap).collect();
        let text = common::text(&format!("{file}.list"));
        let printed: Vec<_> = text.split("Fatbin ").filter(|part| !part.is_empty()).collect();
        assert_eq!(printed.len(), entries.len(), "{file}");
        for (part, entry) in printed.iter().zip(&entries) {
            let kind = match entry.kind {
                Kind::Ptx => "ptx code:",
                Kind::Elf => "elf code:",
                Kind::Nvvm => "nvvm code:",
                Kind::Other(_) => "?",
            };
            assert!(part.starts_with(kind), "{file}: {part}");
            let field = |name: &str| {
                part.lines()
                    .find_map(|l| l.split_once(" = ").filter(|(k, _)| *k == name).map(|(_, v)| v.trim()))
            };
            assert_eq!(field("arch"), Some(&*entry.arch.to_string()), "{file}");
            let (major, minor) = entry.code_version;
            assert_eq!(field("code version"), Some(&*format!("[{major},{minor}]")), "{file}");
            assert_eq!(field("host") == Some("linux"), entry.flags.has(Flags::LINUX), "{file}");
            assert_eq!(
                field("compile_size") == Some("64bit"),
                entry.flags.has(Flags::BITS_64),
                "{file}"
            );
            assert_eq!(
                part.contains("\ncompressed"),
                entry.compression() != Compression::None,
                "{file}"
            );
            assert_eq!(field("identifier").map(str::as_bytes), entry.name, "{file}");
            if !entry.flags.has(Flags::COMPAT) {
                let options = field("ptxasOptions").or(field("nvvmOptions"));
                let parsed = entry.options.map(|o| std::str::from_utf8(o).unwrap().trim());
                assert_eq!(options.filter(|o| !o.is_empty()), parsed, "{file}");
            }
        }
    }
}
