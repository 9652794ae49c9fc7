//! Tests that the model answers every access of the published recordings like the real G71.
//!
//! The test reads the files with its own short reader. So it checks the model against the source, not against the
//! importer or the plan compiler.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use device_mali::{Model, SoftwareMali};
use replay_core::{Device, WaitResult};
use replay_engine::device::{Arena, RegisterTarget, space};
use std::path::{Path, PathBuf};
use trace_core::{GpuVa, PhysAddr, mmu, recording::MmuFormat};

const LATEST_FLUSH: u32 = 0x38;
const JOB_IRQ_STATUS: u32 = 0x100c;
const GPU_IRQ_STATUS: u32 = 0x2c;
const AS0_STATUS: u32 = 0x2428;
const JS1_HEAD_NEXT_HI: u32 = 0x18c4;

struct Access {
    write: bool,
    offset: u32,
    value: u32,
}

fn folder(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings"),
        PathBuf::from,
    );
    let path = root.join("gpureplay").join(name);
    if !path.is_dir() {
        println!("skipped: no recording at {}", path.display());
        return None;
    }
    Some(path)
}

fn history(folder: &Path) -> Vec<Access> {
    let hex = |s: &str| u32::from_str_radix(s.trim_start_matches("0x"), 16).unwrap();
    let text = std::fs::read_to_string(folder.join("gr_io_history")).unwrap();
    let line = |l: &str| {
        let f: Vec<&str> = l.trim().split(',').collect();
        Access {
            write: f[1] == "W",
            offset: hex(f[2]),
            value: hex(f[3]),
        }
    };
    text.lines().map(line).collect()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// Loads tables and pages at their recorded addresses.
fn load(device: &mut SoftwareMali, folder: &Path) -> PhysAddr {
    let pgt = std::fs::read(folder.join("gr_pgt")).unwrap();
    let root = word(&pgt, 8);
    for block in pgt[32..pgt.len() - 8].chunks_exact(8 + 4096) {
        device
            .store_page(word(block, 0) >> 12, block[8..].try_into().unwrap())
            .unwrap();
    }
    let contents = std::fs::read(folder.join("gr_mem_contents")).unwrap();
    let mut at = 0;
    while at < contents.len() {
        let (pages, valid) = (word(&contents, at + 16), contents[at + 28]);
        at += 29;
        for _ in 0..if valid == 1 { pages } else { 0 } {
            let page = contents[at + 16..at + 16 + 4096].try_into().unwrap();
            device.store_page(word(&contents, at + 8) >> 12, page).unwrap();
            at += 16 + 4096;
        }
    }
    PhysAddr::new(root)
}

struct ReplayResult {
    compared: usize,
    matched: usize,
    interrupts: usize,
    mismatches: Vec<String>,
    device: SoftwareMali,
}

/// Replays a recording. Writes are as recorded. The replay waits before an interrupt's handler and repeats reads of a
/// busy status.
fn play(folder: &Path, gap_ns: u64, prepare: impl Fn(&mut SoftwareMali, PhysAddr)) -> ReplayResult {
    let arena = Arena {
        base: PhysAddr::ZERO,
        pages: 1 << 28,
    };
    let mut d = SoftwareMali::with_arena(Model::G71, arena);
    let root = load(&mut d, folder);
    let events = history(folder);
    let mut head_lo = 0;
    prepare(&mut d, root);
    let (mut compared, mut matched, mut interrupts) = (0, 0, 0);
    let mut mismatches = Vec::new();
    let mut flush = 0;
    for (n, a) in events.iter().enumerate() {
        d.pause(gap_ns).unwrap();
        let read = |d: &mut SoftwareMali| d.read(space::REGISTERS, u64::from(a.offset), 4).unwrap() as u32;
        if a.write {
            let value = if a.offset == 0x18f0 { flush } else { a.value };
            if a.offset == 0x18c0 {
                head_lo = a.value;
            }
            if a.offset == JS1_HEAD_NEXT_HI {
                // The memory dump is from after the run, so the test clears the completion status in the job's header.
                let va = GpuVa::new(u64::from(a.value) << 32 | u64::from(head_lo));
                if let Ok(leaf) = mmu::translate(MmuFormat::Aarch64_4k, root, va, d.memory()) {
                    d.write(space::ARENA, leaf.target(va).unwrap().get(), 8, 0).unwrap();
                }
            }
            d.write(space::REGISTERS, u64::from(a.offset), 4, u64::from(value))
                .unwrap();
            continue;
        }
        if a.offset == LATEST_FLUSH {
            flush = read(&mut d);
            continue;
        }
        if a.offset == AS0_STATUS {
            compared += 1;
            if a.value == 1 {
                // This read counts as matched, because the poll's last read expects zero and decides for the whole
                // poll.
                matched += 1;
                continue;
            }
            let mut tries = 0;
            while read(&mut d) != 0 && tries < 100 {
                d.pause(1000).unwrap();
                tries += 1;
            }
            matched += usize::from(tries < 100);
            continue;
        }
        let line = match a.offset {
            JOB_IRQ_STATUS => 1,
            GPU_IRQ_STATUS => 4,
            _ => 0,
        };
        if line != 0 {
            interrupts += 1;
            let got = d.wait_interrupt(line, 5_000_000_000).unwrap();
            if got == WaitResult::TimedOut {
                mismatches.push(format!("event {n}: no interrupt"));
            }
        }
        compared += 1;
        let got = read(&mut d);
        if got == a.value {
            matched += 1;
        } else {
            mismatches.push(format!(
                "event {n}: {:#06x} read {got:#x}, recorded {:#x}",
                a.offset, a.value
            ));
        }
    }
    ReplayResult {
        compared,
        matched,
        interrupts,
        mismatches,
        device: d,
    }
}

fn all_match(name: &str, compared: usize, interrupts: usize, jobs: usize) {
    let Some(folder) = folder(name) else { return };
    for gap_ns in [0, 150] {
        let mut p = play(&folder, gap_ns, |_, _| {});
        assert_eq!(p.mismatches, Vec::<String>::new());
        assert_eq!((p.compared, p.matched, p.interrupts), (compared, compared, interrupts));
        let reports = p.device.take_job_reports();
        assert_eq!(reports.len(), jobs);
        assert!(
            reports
                .iter()
                .all(|r| r.job_type == 4 && r.status == 1 && r.computed == Some(false))
        );
        let a = p.device.anomalies();
        assert_eq!(a, device_mali::Anomalies::default());
    }
}

#[test]
fn every_read_of_mnist_is_answered_as_recorded() {
    all_match("mnist", 2580, 26, 23);
}

#[test]
fn every_read_of_alexnet_is_answered_as_recorded() {
    all_match("alexnet", 7592, 63, 61);
}

#[test]
fn unmapped_header_page_of_mnist_faults_with_code_and_address() {
    let Some(folder) = folder("mnist") else { return };
    let first = history(&folder).iter().find(|a| a.offset == 0x18c0).unwrap().value;
    let va = GpuVa::new(0xffff_0000_0000 | u64::from(first));
    let mut p = play(&folder, 0, |d, root| {
        let walk = mmu::walk(MmuFormat::Aarch64_4k, root, va, d.memory());
        d.write(space::ARENA, walk.steps.last().unwrap().entry_at.get(), 8, mmu::INVALID)
            .unwrap();
    });
    // JOB_IRQ_STATUS of the job reports slot 1 as failed instead of done.
    assert_eq!(p.mismatches[0], "event 221: 0x100c read 0x20000, recorded 0x2");
    let report = p.device.take_job_reports()[0].clone();
    assert_eq!((report.va, report.status, report.computed), (va, 0xc3, None));
}
