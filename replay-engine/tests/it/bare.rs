//! Tests that the bare executable is small, contains no panic and runs real plans.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use replay_engine::compile::compile;
use replay_engine::device::{Arena, Containment, DeviceInfo, DeviceInterface};
use replay_engine::plan::{CompileOptions, Edits, Plan};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use trace_core::PhysAddr;
use trace_core::progress::Progress;
use trace_import::{OpenOptions, Opened};

/// Maximum number of bytes of text and data.
const MAX_BYTES: u64 = 24 << 10;
const PT_LOAD: u32 = 1;
const SHT_SYMTAB: u32 = 2;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Builds the executable as a user would, in a separate target folder.
fn build(name: &str, more: &[&str]) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done = Command::new(cargo)
        .current_dir(root())
        .args([
            "build",
            "--quiet",
            "--offline",
            "-p",
            "replay-bare",
            "--profile",
            "bare",
            "--target-dir",
        ])
        .arg(&target)
        .args(more)
        .env_remove("RUSTFLAGS")
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    target.join("bare/replay-bare")
}

fn u16_at(b: &[u8], at: u64) -> u64 {
    u64::from(u16::from_le_bytes(b[at as usize..][..2].try_into().unwrap()))
}
fn u32_at(b: &[u8], at: u64) -> u32 {
    u32::from_le_bytes(b[at as usize..][..4].try_into().unwrap())
}
fn u64_at(b: &[u8], at: u64) -> u64 {
    u64::from_le_bytes(b[at as usize..][..8].try_into().unwrap())
}

/// Returns the number of bytes that the loader reads from the file: text and data.
fn count_loaded_bytes(elf: &[u8]) -> u64 {
    let (start, size, count) = (u64_at(elf, 32), u16_at(elf, 54), u16_at(elf, 56));
    let headers = (0..count).map(|i| start + i * size);
    headers
        .filter(|h| u32_at(elf, *h) == PT_LOAD)
        .map(|h| u64_at(elf, h + 32))
        .sum()
}

fn symbols(elf: &[u8]) -> Vec<String> {
    let (start, size, count) = (u64_at(elf, 40), u16_at(elf, 58), u16_at(elf, 60));
    let mut out = Vec::new();
    for section in (0..count)
        .map(|i| start + i * size)
        .filter(|s| u32_at(elf, s + 4) == SHT_SYMTAB)
    {
        let names = start + u64::from(u32_at(elf, section + 40)) * size;
        let names = &elf[u64_at(elf, names + 24) as usize..];
        let (first, bytes) = (u64_at(elf, section + 24), u64_at(elf, section + 32));
        for symbol in (0..bytes / 24).map(|i| first + i * 24) {
            let name = &names[u32_at(elf, symbol) as usize..];
            let end = name.iter().position(|b| *b == 0).unwrap();
            out.push(String::from_utf8_lossy(&name[..end]).into_owned());
        }
    }
    out
}

fn target() -> DeviceInfo {
    DeviceInfo {
        name: "array".to_owned(),
        description: "an array of registers".to_owned(),
        gpu_id: 0,
        gpu_name: String::new(),
        register_map: "mali-jm".to_owned(),
        containment: Containment::Software,
        hardware: None,
        windows: replay_engine::device::Window::registers(0x4000),
        arena: Arena {
            base: PhysAddr::new(0x1_0000_0000),
            pages: 1 << 20,
        },
        interface: DeviceInterface::Registers,
        virtual_time: true,
        computes: false,
    }
}

fn plan(path: &Path) -> Plan {
    let opened = trace_import::open(path, &OpenOptions::default(), &Progress::new());
    let recording = opened.and_then(Opened::into_recording).unwrap();
    compile(
        &recording,
        &Edits::default(),
        &target(),
        &CompileOptions::default(),
        &Progress::new(),
    )
    .unwrap()
    .plan
}

/// Runs a body with the executable and returns its exit code, first line and counts.
fn run(program: &Path, body: &[u8]) -> (Option<i32>, String, BTreeMap<String, u64>) {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(body).unwrap();
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let rows = text
        .lines()
        .filter_map(|l| l.split_once(' '))
        .filter_map(|(n, v)| Some((n.to_owned(), v.parse().ok()?)));
    (
        out.status.code(),
        text.lines().next().unwrap_or("").to_owned(),
        rows.collect(),
    )
}

#[test]
#[ignore = "make test-full: builds the bare executable"]
fn the_bare_executable_is_small_has_no_panic_and_runs_real_plans() {
    let program = build("bare", &[]);
    let bytes = count_loaded_bytes(&std::fs::read(&program).unwrap());
    println!("text and data: {bytes} bytes");
    assert!(bytes <= MAX_BYTES, "{bytes} bytes of text and data");
    let with_symbols = build("bare-symbols", &["--config", "profile.bare.strip=false"]);
    let names = symbols(&std::fs::read(with_symbols).unwrap());
    assert!(names.iter().any(|n| n == "_start") && names.len() > 5, "{names:?}");
    for bad in ["panic", "unwind", "unwrap_failed", "slice_index_fail", "fmt"] {
        let found: Vec<&String> = names.iter().filter(|n| n.contains(bad)).collect();
        assert!(found.is_empty(), "{found:?}");
    }

    let mut plans = vec![plan(&root().join("sample-traces/write-value.kine"))];
    let recordings =
        std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(|| root().join("../shared/recordings"), PathBuf::from);
    let mnist = recordings.join("gpureplay/mnist");
    if mnist.is_dir() {
        plans.push(plan(&mnist));
    } else {
        println!("skipped: no recording at {}", mnist.display());
    }
    for plan in plans {
        let (code, first, n) = run(&program, &plan.accesses().unwrap().body);
        println!("{first} {n:?}");
        assert_eq!(first, "ran to its end");
        assert_eq!(
            (n["actions"], n["interrupts"]),
            (plan.actions, plan.accesses().unwrap().interrupts)
        );
        assert_eq!(n["reads-compared"], plan.accesses().unwrap().reads.compared());
        // An array of registers is not a GPU. Most reads differ, and the exit status reports that.
        assert!(n["divergences"] > 0 && n["reads-matched"] < n["reads-compared"]);
        assert_eq!(code, Some(1));
        assert_eq!(n["memory-writes"] > 0, !plan.jobs().is_empty());
        // The run of a truncated body stops there with an error.
        let (code, first, cut) = run(
            &program,
            &plan.accesses().unwrap().body[..plan.accesses().unwrap().body.len() - 1],
        );
        assert_eq!(
            (code, first.as_str(), cut["actions"]),
            (Some(1), "stopped", plan.actions - 1)
        );
    }
}
