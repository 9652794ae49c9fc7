//! Tests of a plan with a long check. The check ends at its limit, when the client cancels, and when the client
//! disconnects.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;

use replay_core::{Action, ReadClass};
use replay_engine::client::{Client, ClientError};
use replay_engine::device::DeviceInfo;
use replay_engine::plan::{Compiled, PlanJob, PlanSpace};
use replay_engine::run::Verdict;
use replay_engine::serve::Options;
use replay_engine::verify::{Reason, Work, verify_within};
use support::{Bench, Relay, images, plan, plan_of, tcp, until};
use trace_core::GpuVa;
use trace_core::families::mali_jm::JobHeader;
use trace_core::mmu::{Rights, encode_leaf, encode_table, root_register};
use trace_core::progress::Progress;
use trace_core::recording::{MmuFormat, Page};

const FORMAT: MmuFormat = MmuFormat::Aarch64_4k;
/// Number of pages of one last-level table.
const PAGES: u64 = 512;
const JOBS_PER_PAGE: u64 = 64;

/// Returns a chain that fills 2 MiB, from address 64 on.
fn chain() -> Vec<Page> {
    let last = PAGES * JOBS_PER_PAGE - 1;
    let header = |k: u64| {
        let bytes = [0; 32];
        let h = JobHeader {
            is_64bit: true,
            job_type: 1,
            next: GpuVa::new(if k == last { 0 } else { (k + 1) * 64 }),
            ..JobHeader::read(&bytes)
        };
        h.encode()
    };
    (0..PAGES)
        .map(|p| {
            let mut page = [0; 4096];
            for (k, to) in page.chunks_exact_mut(64).enumerate() {
                to[..32].copy_from_slice(&header(p * JOBS_PER_PAGE + k as u64));
            }
            page
        })
        .collect()
}

/// Returns a plan that submits the chain `submits` times, each after the end of the previous one.
fn long_plan(submits: u32, device: &DeviceInfo) -> Compiled {
    let base = device.arena.base;
    let at = |frame: u64| base + frame * 4096;
    let mut all: Vec<Page> = (0..3)
        .map(|level| {
            let mut page = [0; 4096];
            page[..8].copy_from_slice(&encode_table(FORMAT, at(level + 1)).to_le_bytes());
            page
        })
        .collect();
    let mut last = [0; 4096];
    for (n, entry) in (4..).zip(last.chunks_exact_mut(8)) {
        entry.copy_from_slice(&encode_leaf(FORMAT, at(n), Rights::RW, 0).to_le_bytes());
    }
    all.push(last);
    all.extend(chain());
    let root = root_register(FORMAT, base);
    let mut event = 0;
    let mut write = |offset: u64, value: u64| {
        event += 1;
        Action::Write {
            event,
            space: 0,
            offset,
            width: 4,
            value,
        }
    };
    let mut actions = vec![
        write(0x2430, 0x4200_0006),
        write(0x2434, 0),
        write(0x2400, root & 0xffff_ffff),
        write(0x2404, root >> 32),
        write(0x2418, 1),
        write(0x18c0, 64),
        write(0x18c4, 0),
        write(0x18d8, 0),
    ];
    let mut jobs = Vec::new();
    for _ in 0..submits {
        let start = write(0x18e0, 1);
        let event = start.event();
        jobs.push(PlanJob {
            submit_event: u64::from(event),
            done_event: None,
            head_va: GpuVa::new(64),
            slot: 1,
        });
        actions.extend([
            start,
            Action::WaitInterrupt {
                event,
                lines: 1,
                limit_ns: 1000,
            },
            Action::Read {
                event,
                space: 0,
                offset: 0x100c,
                width: 4,
                class: ReadClass::Equal,
                expected: 2,
            },
            write(0x1004, 2),
        ]);
    }
    let mut c = plan_of(actions, &all);
    c.plan.registers_mut().unwrap().jobs = jobs;
    c.plan.registers_mut().unwrap().spaces = vec![PlanSpace {
        number: 0,
        format: FORMAT,
        root: base,
        root_register: root,
    }];
    c
}

#[test]
fn plan_verification_has_a_work_limit() {
    let bench = Bench::new(Options::default());
    let device = &bench.server.devices()[0];
    let progress = Progress::new();
    let work = |limit| Work::new(limit, &progress);
    // The check accepts one submit. Only the declared counts of the plan are wrong.
    let c = long_plan(1, device);
    let all = work(u64::MAX);
    let e = verify_within(&c.plan, &c.pages, device, &all).unwrap_err();
    assert_eq!(e.rule, 5, "{e}");
    assert!(all.done() > PAGES * JOBS_PER_PAGE);
    // A limit of three times that work stops the check of a plan with endless submits.
    let c = long_plan(100_000, device);
    let limit = all.done() * 3;
    let e = verify_within(&c.plan, &c.pages, device, &work(limit)).unwrap_err();
    assert_eq!(e.rule, 4, "{e}");
    assert!(
        matches!(&e.reason, Reason::Budget { what, budget, .. } if what == "steps of the check" && *budget == limit),
        "{e}"
    );
}

/// Waits until this process has used another fifth of a second of CPU time. The process runs both ends, so one of them
/// checks the plan.
fn wait_for_check() {
    let worked = || {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        // The name is in parentheses. The state is the first field after it, and the times are the 12th and the 13th.
        let (_, rest) = stat.rsplit_once(')').unwrap();
        let times = rest.split_whitespace().skip(11).take(2);
        times.map(|t| t.parse::<u64>().unwrap()).sum::<u64>()
    };
    let target = worked() + 20;
    until("work on a check", || worked() >= target);
}

/// Waits until the client has sent the plan. The upload is the first fifth of the progress.
fn wait_for_upload(progress: &Progress) {
    until("the upload", || progress.fraction().unwrap_or(0.0) >= 0.2);
}

/// Number of submits whose check takes minutes, longer than any test waits.
const ENDLESS_SUBMITS: u32 = 100_000;

#[test]
fn lease_survives_cancel_during_plan_verification() {
    let bench = Bench::new(Options::default());
    let mut lease = bench.lease();
    let c = long_plan(ENDLESS_SUBMITS, lease.info());
    for bypass_check in [true, false] {
        let progress = Progress::new();
        let stop = progress.clone();
        let cancel = std::thread::spawn(move || {
            if bypass_check {
                wait_for_upload(&stop);
            }
            wait_for_check();
            stop.cancel();
        });
        let e = lease.replay(&c, 1, &progress, bypass_check).unwrap_err();
        assert!(matches!(e, ClientError::Cancelled), "{e}");
        cancel.join().unwrap();
        let outcome = lease.replay(&plan(20, &images(2)), 1, &Progress::new(), false).unwrap();
        assert_eq!(outcome.verdict, Verdict::Match);
    }
}

#[test]
fn client_disconnect_during_verification_frees_the_device() {
    let bench = Bench::new(Options::default());
    let relay = Relay::to(bench.address);
    let client = Client::connect(&tcp(relay.address), &bench.ends.client, Some("board")).unwrap();
    let mut lease = client.lease("board").unwrap();
    let c = long_plan(ENDLESS_SUBMITS, lease.info());
    let progress = Progress::new();
    let sent = progress.clone();
    let replay = std::thread::spawn(move || lease.replay(&c, 1, &progress, true).unwrap_err());
    wait_for_upload(&sent);
    wait_for_check();
    relay.cut();
    let e = replay.join().unwrap();
    assert!(matches!(e, ClientError::Lost { .. }), "{e}");
    until("the device to be free", || bench.server.states()[0].holder.is_none());
    let outcome = bench
        .lease()
        .replay(&plan(20, &images(2)), 1, &Progress::new(), false)
        .unwrap();
    assert_eq!(outcome.verdict, Verdict::Match);
}
