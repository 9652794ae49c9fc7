//! Tests of memory that the CPU changes after the first submit: its recording and its replay.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::sample_table::{CHANGES_DATA, CHANGES_LATE, record_changes};
use driver_mali::{ChainBuilder, Driver, DriverError, JobSpec, Recorder, SpaceId};
use replay_core::{Action, Actions};
use replay_engine::device::RegisterTarget;
use replay_engine::plan::{self, CompileOptions, Compiled, Edits, Plan};
use replay_engine::run::{self, Outcome, Verdict};
use replay_engine::verify;
use trace_core::diff;
use trace_core::families::mali_jm::WriteKind;
use trace_core::mmu::{self, Rights};
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, ElementType, EventKind, FrameRole, HostWriteRow, MemoryView, MmuFormat};
use trace_core::{GpuVa, Recording, RegOffset, container};

const FORMATS: [MmuFormat; 2] = [MmuFormat::Aarch64_4k, MmuFormat::MaliLpae];

fn open_device() -> Box<dyn RegisterTarget> {
    device_mali::factory("mali-g71").unwrap()
}

/// Returns a job that writes eight bytes.
fn put(to: GpuVa, value: u64) -> JobSpec {
    JobSpec::WriteValue {
        to,
        kind: WriteKind::Immediate { bytes: 8 },
        value,
    }
}

/// Writes a chain, runs it and waits until it is done.
fn submit(d: &mut Driver<'_>, space: SpaceId, at: GpuVa, jobs: &[JobSpec]) {
    let chain = jobs.iter().fold(ChainBuilder::new(), |c, j| c.job(*j));
    d.write(space, at, &chain.build(at)).unwrap();
    d.run_chain(space, 1, at).unwrap();
}

fn bytes_at(r: &Recording, view: &MemoryView<'_>, space: usize, va: GpuVa, len: u64) -> Option<Vec<u8>> {
    let space = &r.metadata.address_spaces[space];
    (0..len)
        .map(|at| {
            let va = va + at;
            let pa = mmu::translate(space.format, space.root, va, view).ok()?.target(va)?;
            Some(view.frame(pa.frame())?[pa.in_page()])
        })
        .collect()
}

fn words(r: &Recording, event: u64, va: GpuVa, count: u64) -> Option<Vec<u64>> {
    let bytes = bytes_at(r, &r.memory.at(event), 0, va, count * 8)?;
    Some(
        bytes
            .chunks(8)
            .map(|c| u64::from_le_bytes(c.try_into().unwrap()))
            .collect(),
    )
}

/// Returns the host writes of a recording: event and row.
fn host_writes(r: &Recording) -> Vec<(u64, HostWriteRow)> {
    let events = &r.events;
    (0..events.len())
        .filter_map(|e| Some((e as u64, events.host_write(e)?)))
        .collect()
}

/// Returns the bytes that a host write contains.
fn host_write_bytes(r: &Recording, w: &HostWriteRow) -> Vec<u8> {
    let page = r.memory.pages.page(trace_core::recording::PageId(w.page)).unwrap();
    page[w.piece().unwrap()].to_vec()
}

#[test]
fn host_writes_are_distinguished_from_job_writes() {
    for format in FORMATS {
        let mut b = open_device();
        let mut d = Driver::boot(&mut *b, Recorder::new("changes")).unwrap();
        let space = d.new_space(format).unwrap();
        let data = d.alloc(space, 0x3000, Rights::RW).unwrap();
        let chains = d.alloc(space, 0x1000, Rights::RW).unwrap();
        d.name_buffer("data", BufferRole::Output, space, data, 0x3000, ElementType::U64);
        d.write(space, data, &[1; 16]).unwrap();
        submit(&mut d, space, chains, &[put(data + 32, 7)]);
        let mut got = [0; 8];
        d.read(space, data + 32, &mut got).unwrap();
        assert_eq!(u64::from_le_bytes(got), 7);
        // Two writes overlap, one crosses a page end, and one update contains a job's result.
        d.write(space, data + 64, &[3; 8]).unwrap();
        d.write(space, data + 68, &[4; 8]).unwrap();
        d.write(space, data + 0xffc, &[5; 8]).unwrap();
        assert_eq!(d.update(space, data, &[1; 16]).unwrap(), 0);
        let mut now = [0; 0x100];
        d.read(space, data, &mut now).unwrap();
        now[100] = 9;
        assert_eq!(d.update(space, data, &now).unwrap(), 4);
        let second = chains + 0x400;
        submit(&mut d, space, second, &[put(data + 40, 8)]);
        let r = d.finish().unwrap();

        let writes = host_writes(&r);
        let page = GpuVa::new(data.get()).page();
        let entries: Vec<(u64, u32)> = writes.iter().map(|(_, w)| (w.at.get() & 0xfff, w.bytes)).collect();
        // The second chain's first write is in the same sequence of host writes.
        assert_eq!(entries[..4], [(64, 12), (100, 4), (0xffc, 4), (0, 4)], "{page:#x}");
        assert_eq!(entries[4].0, 0x400);
        assert_eq!(entries.len(), 5);
        assert_eq!(
            host_write_bytes(&r, &writes[0].1),
            [[3; 4].as_slice(), &[4; 8]].concat()
        );
        assert!(
            writes.windows(2).all(|w| w[1].0 == w[0].0 + 1),
            "the host writes are consecutive events"
        );
        // Memory after the host writes contains the first job's result but not yet the second job's.
        let (first, after_writes) = (writes[0].0, writes[4].0 + 1);
        assert_eq!(words(&r, first, data, 9).unwrap()[8], 0);
        let after = words(&r, after_writes, data, 9).unwrap();
        assert_eq!((after[4], after[5], after[8]), (7, 0, 0x0404_0404_0303_0303));
        let last = words(&r, u64::MAX, data, 9).unwrap();
        assert_eq!((last[4], last[5]), (7, 8));
        // The snapshots are the start, the change and the end. A change stores only its own pages.
        let runs: Vec<usize> = r.memory.snapshots.iter().map(|s| s.runs.len()).collect();
        assert_eq!(runs.len(), 3);
        assert!(runs[1] <= 3, "{runs:?}");
        assert_eq!(r.memory.snapshots[1].parent, Some(0));
        // The container keeps the same host writes and has no findings.
        let bytes = container::to_bytes(&r).unwrap();
        assert_eq!(container::verify_bytes(bytes.clone()).unwrap().findings, vec![]);
        let again = container::from_bytes(bytes).unwrap();
        assert_eq!(host_writes(&again), writes);
    }
}

#[test]
fn mappings_change_between_submits_and_the_mmu_is_notified() {
    for format in FORMATS {
        let mut b = open_device();
        let mut d = Driver::boot(&mut *b, Recorder::new("mappings")).unwrap();
        let space = d.new_space(format).unwrap();
        let chains = d.alloc(space, 0x1000, Rights::RW).unwrap();
        let first = d.alloc(space, 0x1000, Rights::RW).unwrap();
        submit(&mut d, space, chains, &[put(first, 1)]);
        // The far address needs new tables.
        let far = GpuVa::new(0x7f_0000_0000);
        d.map(space, far, 0x2000, Rights::RW).unwrap();
        d.write(space, far, &[2; 8]).unwrap();
        submit(&mut d, space, chains, &[put(far + 8, 3)]);
        d.unmap(space, first, 0x1000).unwrap();
        assert!(matches!(
            d.write(space, first, &[0]),
            Err(DriverError::NotMapped { .. })
        ));
        let again = d.unmap(space, first, 0x1000);
        assert!(matches!(again, Err(DriverError::BadRange { .. })), "{again:?}");
        // The job faults because the mapping is removed.
        let chain = ChainBuilder::new().job(put(first, 4)).build(chains);
        d.write(space, chains, &chain).unwrap();
        let submitted = d.submit_chain(space, 1, chains).unwrap();
        assert_eq!(d.wait(submitted).unwrap().fault_address, Some(first));
        // The frame is reused without its old contents.
        let second = d.alloc(space, 0x1000, Rights::RW).unwrap();
        let mut word = [1; 8];
        d.read(space, second, &mut word).unwrap();
        assert_eq!(word, [0; 8]);
        submit(&mut d, space, chains, &[put(second + 8, 5)]);
        let r = d.finish().unwrap();

        assert_eq!(words(&r, u64::MAX, far, 2), Some(vec![0x0202_0202_0202_0202, 3]));
        assert_eq!(words(&r, u64::MAX, second, 2), Some(vec![0, 5]));
        assert_eq!(words(&r, u64::MAX, first, 1), None);
        assert_eq!(words(&r, 0, first, 1), Some(vec![0]));
        assert_eq!(words(&r, 0, far, 1), None);
        // Page tables have their own host writes, in the frames that the snapshots mark as tables.
        let role = |frame: u64| {
            let runs = r.memory.last().runs();
            runs.iter().find(|run| run.page(frame).is_some()).map(|run| run.role)
        };
        let tables = host_writes(&r)
            .iter()
            .filter(|(_, w)| role(w.frame()) == Some(FrameRole::Table))
            .count();
        assert!(tables >= 4, "{tables}");
        // A lock, a flush of the tables and a poll follow every change of tables.
        let commands: Vec<u64> = (0..r.events.len())
            .filter_map(|e| r.events.access(e))
            .filter(|a| a.write && a.offset == RegOffset::new(0x2418))
            .map(|a| a.value)
            .collect();
        assert_eq!(commands, [1, 2, 4, 2, 4, 2, 4, 2, 5, 1]);
        assert!((0..r.events.len()).any(|e| r.events.kind(e) == Some(EventKind::HostWrite)));
    }
}

#[test]
fn shared_memory_is_freed_after_its_last_mapping() {
    let mut b = open_device();
    let mut d = Driver::boot(&mut *b, Recorder::new("sharing")).unwrap();
    let one = d.new_space(MmuFormat::MaliLpae).unwrap();
    let chain_one = d.alloc(one, 0x1000, Rights::RW).unwrap();
    submit(&mut d, one, chain_one, &[JobSpec::Null]);
    // The second address space is created after the first submit.
    let two = d.new_space(MmuFormat::MaliLpae).unwrap();
    let data = d.alloc(one, 0x1000, Rights::RW).unwrap();
    d.share(one, two, data, 0x1000).unwrap();
    let chain_two = d.alloc(two, 0x1000, Rights::RW).unwrap();
    submit(&mut d, two, chain_two, &[put(data, 6)]);
    d.unmap(one, data, 0x1000).unwrap();
    let other = d.alloc(one, 0x1000, Rights::RW).unwrap();
    d.write(one, other, &[9; 8]).unwrap();
    let mut word = [0; 8];
    d.read(two, data, &mut word).unwrap();
    assert_eq!(u64::from_le_bytes(word), 6);
    let r = d.finish().unwrap();
    assert_eq!(r.metadata.address_spaces.len(), 2);
}

#[test]
fn recorded_change_size_depends_on_the_change_only() {
    let mut b = open_device();
    let mut d = Driver::boot(&mut *b, Recorder::new("cost")).unwrap();
    let space = d.new_space(MmuFormat::MaliLpae).unwrap();
    let chains = d.alloc(space, 0x1000, Rights::RW).unwrap();
    let large = d.alloc(space, 1 << 24, Rights::RW).unwrap();
    // Every second page has content, so that the frames do not merge into one run.
    for page in (0..4096u64).step_by(2) {
        d.write(space, large + page * 4096, &page.to_le_bytes()).unwrap();
    }
    submit(&mut d, space, chains, &[JobSpec::Null]);
    for n in 0..200u64 {
        d.write(space, large + n * 8 * 4096, &[n as u8; 8]).unwrap();
        d.run_chain(space, 1, chains).unwrap();
    }
    let r = d.finish().unwrap();
    let changes = &r.memory.snapshots[1..r.memory.snapshots.len() - 1];
    assert_eq!(changes.len(), 200);
    let runs: usize = changes.iter().map(|s| s.runs.len()).sum();
    assert!(runs <= 200 * 8, "{runs}");
    assert_eq!(host_writes(&r).len(), 200);
}

/// Compiles a plan, checks all its forms and runs it. Also returns the outcome's recording.
fn replay(r: &Recording, edits: &Edits) -> (Compiled, Outcome, Recording) {
    let mut device = open_device();
    let target = device.info();
    let c = replay_engine::compile::compile(r, edits, &target, &CompileOptions::default(), &Progress::new()).unwrap();
    let text = plan::text::print(&c.plan);
    assert_eq!(plan::text::parse(&text).unwrap(), c.plan);
    assert_eq!(Plan::from_bytes(&c.plan.to_bytes().unwrap()).unwrap(), c.plan);
    let verified = verify::verify(&c.plan, &c.pages, &target).unwrap();
    assert_eq!(verified.report().jobs as usize, c.plan.jobs().len());
    let o = run::run(&c.plan, &c.pages, &mut *device, &Progress::new());
    assert_eq!(
        (o.verdict, &o.failure, &o.divergences),
        (Verdict::Match, &None, &vec![])
    );
    let recording = container::from_bytes(o.recording.clone()).unwrap();
    assert_eq!(container::verify_bytes(o.recording.clone()).unwrap().findings, vec![]);
    (c, o, recording)
}

fn output_words(o: &Outcome, name: &str) -> Vec<u64> {
    let out = o.outputs.iter().find(|b| b.name == name).unwrap();
    out.data
        .chunks(8)
        .map(|c| u64::from_le_bytes(c.try_into().unwrap()))
        .collect()
}

#[test]
fn host_writes_replay_between_the_same_submits() {
    for format in FORMATS {
        let r = record_changes(&mut *open_device(), format).unwrap();
        let (c, o, outcome) = replay(&r, &Edits::default());
        assert_eq!(output_words(&o, "data")[..4], CHANGES_DATA);
        let word = |i: u64| (i % 256) * 0x0101_0101_0101_0101;
        let page: Vec<u64> = (0..512).map(word).collect();
        assert_eq!(output_words(&o, "data")[512..], page);
        let late = output_words(&o, "late");
        assert_eq!(late[..3], CHANGES_LATE);
        assert_eq!(late[0x2400 / 8 - 1..][..2], [0x0505_0505_0505_0505, 0]);
        // Events, mappings and final memory are equal. Only physical addresses differ.
        let d = diff::diff(&r, &outcome);
        assert!(d.is_empty(), "{d:?}");
        // Reused memory and later writes are changes. Memory that no earlier chain accessed is part of the start.
        let puts = |c: &Compiled| {
            Actions::new(&c.plan.accesses().unwrap().body)
                .filter(|a| matches!(a, Ok(Action::Put { .. } | Action::Copy { .. })))
                .count()
        };
        assert!(puts(&c) > 0);
        let entries = host_writes(&outcome);
        assert!(!entries.is_empty());
        // The outcome has the same bytes for a change as the recording.
        let all = |r: &Recording| -> Vec<u8> {
            host_writes(r)
                .iter()
                .flat_map(|(_, w)| host_write_bytes(r, w))
                .collect()
        };
        let last = |r: &Recording| {
            let (_, w) = host_writes(r)
                .into_iter()
                .rev()
                .find(|(_, w)| w.bytes == 0x300)
                .unwrap();
            host_write_bytes(r, &w)
        };
        assert_eq!(last(&outcome), vec![6; 0x300]);
        assert!(all(&outcome).len() <= all(&r).len());
    }
}
