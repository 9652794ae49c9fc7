//! Tests that every register access of the published logs has a name.

use crate::RegOffset;
use crate::recording::{Hardware, PciFunction};
use crate::registers::{ReadRule, RegisterMap};
use crate::test_recordings::recordings;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Returns the lines of a gzipped log.
fn lines(file: &std::path::Path) -> String {
    let out = Command::new("gzip").arg("-dc").arg(file).output().unwrap();
    assert!(out.status.success(), "{}", file.display());
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn hex(word: &str) -> u64 {
    u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap()
}

/// Returns the register map of the device of a log, and the bus address and size of its register window.
fn device(log: &str) -> (&'static RegisterMap, u64, u64) {
    let functions = log.lines().filter(|l| l.starts_with("PCIDEV "));
    let mut found = functions.filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let id = hex(words[2]);
        let function = PciFunction {
            vendor: (id >> 16) as u16,
            device: id as u16,
            ..PciFunction::default()
        };
        let map = RegisterMap::for_hardware(&Hardware::Pci(function))?;
        let bar: usize = map.space().strip_prefix("bar")?.parse().ok()?;
        Some((map, hex(words[4 + bar]) & !0xf, hex(words[11 + bar])))
    });
    found.next().expect("no register map knows the device")
}

#[test]
fn every_register_access_of_the_samples_has_a_name() {
    let Some(folder) = recordings("mmiotrace") else { return };
    for (file, map_name, accesses) in [
        ("bochs_display-bochs", "bochs-display", 293),
        ("rage128p-aty128fb", "rage128", 202),
        ("rage128p-aty128fb-memcpy", "rage128", 202),
        ("rv100-radeonfb", "rv100", 14_427),
        ("rv100-radeon-kms-oops", "rv100", 11_824),
        ("virtio_gpu-virtio_gpu", "virtio-gpu", 85),
    ] {
        let log = lines(&folder.join(format!("{file}.txt.gz")));
        let (map, base, bytes) = device(&log);
        assert_eq!(map.name(), map_name, "{file}");
        let mut refused = BTreeSet::new();
        let mut unnamed: BTreeMap<(u64, u8), usize> = BTreeMap::new();
        let (mut count, mut not_compared) = (0, 0);
        for line in log.lines().filter(|l| l.starts_with("R ") || l.starts_with("W ")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (width, at): (u8, u64) = (words[1].parse().unwrap(), hex(words[4]));
            let Some(offset) = at.checked_sub(base).filter(|o| *o < bytes) else {
                continue;
            };
            count += 1;
            let offset = u32::try_from(offset).unwrap();
            if !map.has_registers_for(RegOffset::new(offset), width) {
                *unnamed.entry((offset.into(), width)).or_default() += 1;
                continue;
            }
            let message = map.describe(RegOffset::new(offset), width, hex(words[5])).unwrap();
            assert!(!message.is_empty(), "{line}");
            let register = map.find_accessed(RegOffset::new(offset), width).unwrap();
            if line.starts_with('W') {
                assert!(register.access.is_writable(), "{line} writes {}", register.name);
                if !register.replay.allows(hex(words[5])) {
                    refused.insert(register.name.as_str());
                }
            } else if register.replay.read == ReadRule::Any {
                not_compared += 1;
            }
        }
        assert!(unnamed.is_empty(), "{file}: {unnamed:x?}");
        assert_eq!((count, not_compared), (accesses, 0), "{file}");
        // The map gives the reason for registers that a replay must not write: indirect access.
        let expected: &[&str] = if file == "rv100-radeon-kms-oops" {
            &["MM_DATA"]
        } else {
            &[]
        };
        assert!(refused.iter().eq(expected), "{file}: {refused:?}");
    }
}
