//! Tests of job chains and faults on the booted device, register by register as a driver sees them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bifrost::pack::{Slots, clause};
use bifrost::{Header, Instruction, Registers, Unit};
use device_mali::{Budget, Model, SoftwareMali};
use replay_core::{Device, DeviceError, WaitResult};
use replay_engine::device::{Arena, JobReport, RegisterTarget, space};
use trace_core::families::mali_jm::{CacheFlush, JobHeader, JobType, WriteKind, WriteValue};
use trace_core::mmu::{self, Rights};
use trace_core::progress::Progress;
use trace_core::recording::{MmuFormat, ZERO_PAGE};
use trace_core::{GpuVa, PhysAddr};

const BASE: u64 = 0x8000_0000;
const JOB_STATUS: u64 = 0x100c;
const JS1: u64 = 0x1880;
const AS0: u64 = 0x2400;
/// Addresses of the mapped pages: chains, data, read-only data, and a page that points outside the arena.
const CHAIN: u64 = 0x10_0000;
const DATA: u64 = 0x10_1000;
const READ_ONLY: u64 = 0x10_2000;
const OUTSIDE: u64 = 0x10_3000;
const NOT_MAPPED: u64 = 0x10_4000;
/// Address of the code page.
const CODE: u64 = 0x10_5000;

fn frame(n: u64) -> PhysAddr {
    PhysAddr::new(BASE + n * 4096)
}

struct Bench(SoftwareMali);

impl Bench {
    /// Creates a powered device with its first address space configured.
    fn new() -> Self {
        let arena = Arena {
            base: PhysAddr::new(BASE),
            pages: 64,
        };
        let mut b = Self(SoftwareMali::with_arena(Model::G71, arena));
        let f = MmuFormat::Aarch64_4k;
        let mut table = [ZERO_PAGE; 4];
        let mut set = |t: usize, index: u16, value: u64| {
            table[t][usize::from(index) * 8..][..8].copy_from_slice(&value.to_le_bytes());
        };
        for level in 0..3u8 {
            set(
                usize::from(level),
                mmu::index_at(level, GpuVa::new(CHAIN)),
                mmu::encode_table(f, frame(u64::from(level) + 1)),
            );
        }
        for (va, pa, rights) in [
            (CHAIN, frame(8), Rights::RW),
            (DATA, frame(9), Rights::RW),
            (READ_ONLY, frame(10), Rights::RO),
            (CODE, frame(11), Rights::RX),
            (OUTSIDE, PhysAddr::new(0x1000), Rights::RW),
        ] {
            set(3, mmu::index_at(3, GpuVa::new(va)), mmu::encode_leaf(f, pa, rights, 0));
        }
        for (n, t) in (0..).zip(&table) {
            b.0.store_page(frame(n).frame(), t).unwrap();
        }
        for (offset, value) in [
            (0x28, 0x30581),
            (0x1008, u64::from(u32::MAX)),
            (0x2008, u64::from(u32::MAX)),
            (0x180, 0xff),
            (AS0 + 0x30, 0x4200_0006),
            (AS0, BASE),
            (AS0 + 4, 0),
            (AS0 + 0x18, 1),
        ] {
            b.write(offset, value);
        }
        assert_eq!(b.0.wait_interrupt(4, 1_000_000), Ok(WaitResult::Raised { lines: 4 }));
        b.write(0x24, u64::from(u32::MAX));
        b
    }

    fn read(&mut self, offset: u64) -> u64 {
        self.0.read(space::REGISTERS, offset, 4).unwrap()
    }

    fn write(&mut self, offset: u64, value: u64) {
        self.0.write(space::REGISTERS, offset, 4, value).unwrap();
    }

    /// Writes bytes to a page that is mapped at [`CHAIN`] or [`DATA`].
    fn put(&mut self, va: u64, bytes: &[u8]) {
        for (n, b) in (0..).zip(bytes) {
            self.0
                .write(space::ARENA, va - CHAIN + 8 * 4096 + n, 1, u64::from(*b))
                .unwrap();
        }
    }

    fn get(&mut self, va: u64) -> u64 {
        self.0.read(space::ARENA, va - CHAIN + 8 * 4096, 8).unwrap()
    }

    fn job(&mut self, n: u64, kind: u8, next: u64, payload: &[u8]) -> u64 {
        let h = JobHeader {
            is_64bit: true,
            job_type: kind,
            index: n as u16 + 1,
            next: GpuVa::new(next),
            ..header()
        };
        let va = CHAIN + n * 64;
        self.put(va, &h.encode());
        self.put(va + 32, payload);
        va
    }

    fn value_job(&mut self, n: u64, to: u64, kind: WriteKind, next: u64) -> u64 {
        let payload = WriteValue {
            address: GpuVa::new(to),
            kind,
            value: 0x1122_3344_5566_7788,
        }
        .encode();
        self.job(n, JobType::WriteValue as u8, next, &payload)
    }

    fn start(&mut self, slot: u64, head: u64, config: u64) {
        let js = 0x1800 + 0x80 * slot;
        for (offset, value) in [
            (0x40, head),
            (0x44, 0),
            (0x50, 0xff),
            (0x54, 0),
            (0x58, config),
            (0x60, 1),
        ] {
            self.write(js + offset, value);
        }
    }

    /// Runs a chain on slot 1. Returns the job interrupt's status, or 0 if no interrupt came.
    fn run(&mut self, head: u64) -> u64 {
        self.start(1, head, 0);
        match self.0.wait_interrupt(1, 1_000_000_000) {
            Ok(WaitResult::Raised { .. }) => {
                let status = self.read(JOB_STATUS);
                self.write(0x1004, status);
                status
            }
            other => {
                assert_eq!(other, Ok(WaitResult::TimedOut));
                0
            }
        }
    }

    fn only_report(&mut self) -> JobReport {
        let r = self.0.take_job_reports();
        assert_eq!(r.len(), 1, "{r:?}");
        r[0].clone()
    }
}

fn header() -> JobHeader {
    JobHeader::read(&[0; 32])
}

#[test]
fn a_chain_of_null_write_value_and_cache_flush_jobs_is_done() {
    let mut b = Bench::new();
    b.put(DATA, &[0xff; 32]);
    let (low, high) = CacheFlush {
        clean_l2: true,
        ..CacheFlush::default()
    }
    .pack();
    let flush: Vec<u8> = [low, high].into_iter().flat_map(u32::to_le_bytes).collect();
    b.job(0, 1, CHAIN + 64, &[]);
    b.value_job(1, DATA, WriteKind::Immediate { bytes: 2 }, CHAIN + 128);
    b.value_job(2, DATA + 8, WriteKind::Zero, CHAIN + 192);
    b.job(3, 3, 0, &flush);
    let before = b.read(0x38);
    assert_eq!(b.run(CHAIN), 2);
    assert_eq!((b.get(DATA), b.get(DATA + 8)), (0xffff_ffff_ffff_7788, 0));
    assert_eq!(b.read(0x38), before + 1);
    assert_eq!(
        (b.read(JS1 + 0x24), b.read(JS1), b.read(JS1 + 8)),
        (1, CHAIN + 192, CHAIN + 192)
    );
    let status: Vec<u64> = (0..4).map(|n| b.get(CHAIN + n * 64) & 0xff).collect();
    assert_eq!(status, [1; 4]);
    let kinds: Vec<(u8, u8, Option<bool>)> =
        b.0.take_job_reports()
            .iter()
            .map(|r| (r.job_type, r.status, r.computed))
            .collect();
    assert_eq!(kinds, [(1, 1, None), (2, 1, None), (2, 1, None), (3, 1, None)]);
}

#[test]
fn jobs_complete_only_while_a_client_waits() {
    let mut b = Bench::new();
    b.value_job(0, DATA, WriteKind::Immediate { bytes: 8 }, 0);
    b.start(1, CHAIN, 0);
    for _ in 0..1000 {
        assert_eq!(b.read(0x1000), 0);
    }
    assert_eq!((b.get(DATA), b.read(JS1 + 0x24)), (0, 8));
    b.0.pause(1).unwrap();
    assert_eq!(b.read(0x1000), 2);
}

#[test]
fn shader_job_completes_with_a_not_computed_report() {
    let mut b = Bench::new();
    for kind in [5, 7] {
        b.job(0, kind, 0, &[]);
        assert_eq!(b.run(CHAIN), 2);
        assert_eq!(
            b.only_report(),
            JobReport {
                va: GpuVa::new(CHAIN),
                job_type: kind,
                status: 1,
                computed: Some(false),
                reason: None,
            }
        );
    }
    b.job(0, 9, 0, &[]);
    b.start(0, CHAIN, 0);
    b.0.wait_interrupt(1, 1_000_000).unwrap();
    assert_eq!(b.read(JOB_STATUS), 1);
    assert_eq!(b.only_report().computed, Some(false));
}

/// Writes a compute job whose draw descriptor names a renderer state on the data page.
fn compute(b: &mut Bench, shader: u64) -> u64 {
    let mut payload = [0u8; 96 + 64];
    payload[32 + 14 * 4..][..8].copy_from_slice(&DATA.to_le_bytes());
    b.put(DATA, &shader.to_le_bytes());
    b.job(0, 4, 0, &payload)
}

#[test]
fn invalid_descriptors_or_code_fault_the_compute_job() {
    let mut b = Bench::new();
    b.job(0, 4, 0, &[0; 160]);
    assert_eq!(
        (b.run(CHAIN), b.read(JS1 + 0x24)),
        (0x2_0000, 0xc3),
        "no renderer state"
    );
    let job = compute(&mut b, 0);
    assert_eq!((b.run(job), b.read(JS1 + 0x24)), (0x2_0000, 0x50), "no shader");
    let job = compute(&mut b, NOT_MAPPED);
    assert_eq!((b.run(job), b.read(JS1 + 0x24)), (0x2_0000, 0xc3));
    assert_eq!(
        (b.read(AS0 + 0x1c), b.read(AS0 + 0x20)),
        (0x1c3, NOT_MAPPED),
        "the fault is a fetch"
    );
    let job = compute(&mut b, READ_ONLY);
    assert_eq!(
        (b.run(job), b.read(JS1 + 0x24)),
        (0x2_0000, 0xcb),
        "no right to execute"
    );
    let report = b.0.take_job_reports().pop().unwrap();
    assert_eq!((report.computed, report.reason), (None, None));
}

#[test]
fn unsupported_shader_completes_with_a_reason() {
    let mut b = Bench::new();
    for (code, why) in [
        (
            [0u8; 16],
            "the shader has unsupported instructions, first in the clause at 0x105000: word 0",
        ),
        // No clause begins with this tag.
        (
            [1; 16],
            "the shader has unsupported instructions, first in the clause at 0x105000: word 0 of the clause at \
             0x105000 has the tag 0x01",
        ),
    ] {
        b.0.store_page(frame(11).frame(), &page_of(&code)).unwrap();
        let job = compute(&mut b, CODE);
        assert_eq!((b.run(job), b.read(JS1 + 0x24)), (2, 1));
        let report = b.only_report();
        assert_eq!(report.computed, Some(false));
        let reason = report.reason.unwrap();
        assert!(reason.starts_with(why), "{reason}");
    }
}

/// Returns a page of one-word clauses. Each has an unknown operation and none is the last.
fn unknown_page() -> Vec<u8> {
    let fma = (0..1 << 23)
        .find(|b| Instruction::decode(Unit::Fma, *b).is_none())
        .unwrap();
    let slots = Slots {
        registers: Registers::idle(),
        fma,
        add: 0x3d964,
    };
    let one = clause(Header { bits: 3 << 11 }, &[slots], &[]).unwrap().concat();
    assert_eq!(one.len(), 16);
    one.repeat(256)
}

#[test]
fn unsupported_shader_at_the_end_of_memory_is_not_a_fault() {
    let mut b = Bench::new();
    b.0.store_page(frame(11).frame(), &page_of(&unknown_page())).unwrap();
    let job = compute(&mut b, CODE);
    assert_eq!((b.run(job), b.read(JS1 + 0x24)), (2, 1));
    let report = b.only_report();
    assert_eq!(report.computed, Some(false));
    let reason = report.reason.unwrap();
    assert!(reason.contains("(256 times)"), "{reason}");
}

#[test]
fn chain_hangs_when_the_code_read_budget_is_spent() {
    let mut b = Bench::new();
    b.0 = b.0.with_budget(Budget {
        wave: 1,
        job: 1,
        read: 1000,
    });
    b.0.store_page(frame(11).frame(), &page_of(&unknown_page())).unwrap();
    compute(&mut b, CODE);
    let mut payload = [0u8; 96 + 64];
    payload[32 + 14 * 4..][..8].copy_from_slice(&DATA.to_le_bytes());
    for n in 0..6 {
        b.job(n * 3, 4, CHAIN + (n + 1) * 192, &payload);
    }
    assert_eq!(b.run(CHAIN), 0);
    assert_eq!((b.read(JS1 + 0x24), b.read(JS1)), (8, CHAIN + 3 * 192));
    let entries: Vec<_> =
        b.0.take_job_reports()
            .into_iter()
            .map(|r| (r.status, r.computed, r.reason.unwrap()))
            .collect();
    let why = "the shaders of the chain have more than 1000 clauses, which is the maximum for one chain";
    assert_eq!(entries.len(), 4);
    assert!(
        entries[..3].iter().all(|t| (t.0, t.1) == (1, Some(false))),
        "{entries:?}"
    );
    assert_eq!(entries[3], (8, None, why.into()));
}

#[test]
fn cancelled_chain_starts_no_further_job() {
    let mut b = Bench::new();
    b.value_job(0, DATA, WriteKind::Immediate { bytes: 8 }, CHAIN + 64);
    b.job(1, 1, 0, &[]);
    let progress = Progress::new();
    b.0.watch(&progress);
    progress.cancel();
    assert_eq!(b.run(CHAIN), 0);
    assert_eq!((b.read(JS1 + 0x24), b.get(DATA)), (8, 0));
    assert!(b.0.take_job_reports().is_empty());
}

fn page_of(bytes: &[u8]) -> trace_core::recording::Page {
    let mut page = ZERO_PAGE;
    page[..bytes.len()].copy_from_slice(bytes);
    page
}

#[test]
fn translation_faults_name_code_address_and_access() {
    for (to, code, access) in [(NOT_MAPPED + 8, 0xc3, 3), (READ_ONLY + 8, 0xcb, 3), (1 << 40, 0xc0, 3)] {
        let mut b = Bench::new();
        b.value_job(0, to, WriteKind::Zero, 0);
        assert_eq!(b.run(CHAIN), 0x2_0000);
        assert_eq!(b.read(JS1 + 0x24), code);
        assert_eq!(b.0.raised_lines(), 2, "the MMU raises its line");
        assert_eq!(b.read(0x200c), 1);
        assert_eq!(b.read(AS0 + 0x1c), code | access << 8);
        assert_eq!(b.read(AS0 + 0x20) | b.read(AS0 + 0x24) << 32, to);
        // The header has the same status.
        assert_eq!((b.get(CHAIN) & 0xff, b.get(CHAIN + 8)), (code, to));
        assert_eq!(b.only_report().status, code as u8);
        b.write(0x2004, 1);
        assert_eq!(b.0.raised_lines(), 0);
    }
    let mut b = Bench::new();
    assert_eq!(b.run(NOT_MAPPED), 0x2_0000);
    assert_eq!((b.read(AS0 + 0x1c), b.read(AS0 + 0x20)), (0x2c3, NOT_MAPPED));
}

#[test]
fn page_outside_device_memory_is_a_bus_fault() {
    let mut b = Bench::new();
    b.value_job(0, OUTSIDE + 16, WriteKind::Zero, 0);
    assert_eq!(b.run(CHAIN), 0x2_0000);
    assert_eq!(b.read(JS1 + 0x24), 0x48);
    assert_eq!(
        (b.read(0x2c), b.read(0x3c), b.read(0x40), b.read(0x44)),
        (1, 0x380, 0x1010, 0)
    );
    assert_eq!(b.0.anomalies().outside_memory, 1);
    assert!(
        b.0.memory()
            .backed_frames()
            .iter()
            .all(|f| (BASE >> 12..(BASE >> 12) + 64).contains(f))
    );
    // The MMU reports a table outside memory.
    b.write(AS0, 0x4000_0000);
    b.write(AS0 + 0x18, 1);
    assert_eq!(b.run(CHAIN), 0x2_0000);
    assert_eq!((b.read(0x200c), b.read(JS1 + 0x24)), (1 << 16, 0xd0));
}

#[test]
fn wrong_jobs_fail_with_their_codes() {
    let mut b = Bench::new();
    for (kind, code) in [(0, 0x58), (11, 0x58), (127, 0x58), (9, 0x52)] {
        b.job(0, kind, 0, &[]);
        assert_eq!((b.run(CHAIN), b.read(JS1 + 0x24)), (0x2_0000, code), "type {kind}");
    }
    b.value_job(0, DATA, WriteKind::Unknown(9), 0);
    assert_eq!((b.run(CHAIN), b.read(JS1 + 0x24)), (0x2_0000, 0x58));
    b.value_job(0, DATA + 4, WriteKind::Zero, 0);
    assert_eq!((b.run(CHAIN), b.read(JS1 + 0x24)), (0x2_0000, 0x56));
    assert_eq!((b.run(CHAIN + 32), b.read(JS1 + 0x24)), (0x2_0000, 0x40));
    b.start(1, CHAIN, 9);
    b.0.wait_interrupt(1, 1_000_000).unwrap();
    assert_eq!(b.read(JS1 + 0x24), 0x40, "address space 9 does not exist");
}

#[test]
fn job_after_a_failed_job_does_not_run() {
    let mut b = Bench::new();
    b.value_job(0, DATA, WriteKind::Zero, CHAIN + 64);
    b.value_job(1, NOT_MAPPED, WriteKind::Zero, CHAIN + 128);
    b.value_job(2, DATA + 8, WriteKind::Immediate { bytes: 8 }, 0);
    assert_eq!(b.run(CHAIN), 0x2_0000);
    assert_eq!((b.get(DATA + 8), b.read(JS1)), (0, CHAIN + 64));
    assert_eq!(b.0.take_job_reports().len(), 2);
}

#[test]
fn a_chain_that_loops_hangs_until_it_is_stopped() {
    let mut b = Bench::new();
    b.job(0, 1, CHAIN + 64, &[]);
    b.job(1, 1, CHAIN, &[]);
    assert_eq!(b.run(CHAIN), 0);
    assert_eq!(b.read(JS1 + 0x24), 8);
    b.write(JS1 + 0x20, 3);
    assert_eq!(b.0.wait_interrupt(1, 1_000_000), Ok(WaitResult::Raised { lines: 1 }));
    assert_eq!((b.read(JOB_STATUS), b.read(JS1 + 0x24)), (0x2_0000, 4));
}

#[test]
fn soft_stop_ends_the_chain_and_the_next_one_starts() {
    let mut b = Bench::new();
    b.value_job(0, DATA, WriteKind::Immediate { bytes: 8 }, 0);
    b.value_job(1, DATA + 8, WriteKind::Immediate { bytes: 8 }, 0);
    b.start(1, CHAIN, 0);
    b.start(1, CHAIN + 64, 0);
    assert_eq!((b.read(JS1), b.read(JS1 + 0x60)), (CHAIN, 1));
    b.write(0x1004, 0);
    assert_eq!(b.read(0x1010), 1 << 1 | 1 << 17, "one chain runs and one waits");
    b.write(JS1 + 0x20, 2);
    b.0.wait_interrupt(1, 1_000_000).unwrap();
    assert_eq!((b.read(JOB_STATUS), b.get(DATA)), (0x2_0000, 0));
    b.write(0x1004, 0x2_0000);
    b.0.wait_interrupt(1, 1_000_000).unwrap();
    assert_eq!((b.read(JOB_STATUS), b.get(DATA + 8)), (2, 0x1122_3344_5566_7788));
}

#[test]
fn without_power_or_cores_a_job_fails() {
    let mut b = Bench::new();
    b.job(0, 4, 0, &[]);
    b.write(0x1c0, 0xff);
    b.0.wait_interrupt(4, 1_000_000).unwrap();
    assert_eq!((b.run(CHAIN), b.read(JS1 + 0x24)), (0x2_0000, 0x41));
    b.start(1, CHAIN, 0);
    b.write(JS1 + 0x50, 0);
    b.write(JS1 + 0x60, 1);
    b.0.wait_interrupt(1, 1_000_000).unwrap();
    b.write(0x1004, 0x2_0000);
    b.0.wait_interrupt(1, 1_000_000).unwrap();
    assert_eq!(b.read(JS1 + 0x24), 0x44);
}

#[test]
fn job_status_writeback_can_be_disabled() {
    let mut b = Bench::new();
    b.job(0, 1, 0, &[]);
    b.start(1, CHAIN, 1 << 15);
    b.0.wait_interrupt(1, 1_000_000).unwrap();
    assert_eq!((b.read(JOB_STATUS), b.get(CHAIN)), (2, 0));
}

#[test]
fn reset_restores_the_initial_state() {
    for command in [1, 2] {
        let mut b = Bench::new();
        b.job(0, 1, 0, &[]);
        b.start(1, CHAIN, 0);
        b.write(0x30, command);
        b.write(0x28, 0x100);
        assert_eq!(
            (b.read(0x2c), b.read(0x164), b.read(0x160), b.read(0x1008), b.read(AS0)),
            (0, 0, 0, 0, 0)
        );
        assert_eq!(b.0.wait_interrupt(7, 1_000_000), Ok(WaitResult::Raised { lines: 4 }));
        assert_eq!((b.read(0x2c), b.read(0x1000), b.read(JS1 + 0x24)), (0x100, 0, 0));
        assert!(b.0.take_job_reports().is_empty(), "a reset drops the job");
    }
}

#[test]
fn odd_accesses_are_refused_or_counted() {
    let mut b = Bench::new();
    let d = &mut b.0;
    assert_eq!(d.read(space::REGISTERS, 0x4000, 4), Err(DeviceError::OutOfRange));
    assert_eq!(d.read(space::REGISTERS, u64::MAX, 4), Err(DeviceError::OutOfRange));
    assert_eq!(d.read(space::REGISTERS, 0, 8), Err(DeviceError::OutOfRange));
    assert_eq!(d.write(space::REGISTERS, 2, 4, 0), Err(DeviceError::Misaligned));
    assert_eq!(d.read(space::ARENA, 64 * 4096, 1), Err(DeviceError::OutOfRange));
    assert_eq!(d.read(space::ARENA, 1, 3), Err(DeviceError::OutOfRange));
    assert_eq!(d.read(7, 0, 4), Err(DeviceError::NoSpace));
    assert_eq!(d.anomalies(), device_mali::Anomalies::default());
    b.write(0, 5);
    b.write(0x3ffc, 5);
    b.write(0x30, 77);
    assert_eq!(
        (b.read(0), b.read(0x3ffc), b.read(0x30), b.read(0x1a00)),
        (0x60a0_0002, 0, 0, 0)
    );
    let a = b.0.anomalies();
    assert_eq!((a.read_only_writes, a.hole_writes, a.bad_commands), (1, 1, 1));
    assert_eq!((a.hole_reads, a.write_only_reads), (2, 1));
}
