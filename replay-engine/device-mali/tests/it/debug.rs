//! Tests of thread tracing, clause by clause, and of the last writer of every byte, on recordings with known results.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing
)]

use crate::common;

use common::sample;
use device_mali::Model;
use device_mali::debug::{
    DebugError, MAX_STEPS, Thread, ThreadEnd, ThreadQuery, ThreadTrace, Writer, compile_plan, follow,
    model_for_recording, trace, trace_page,
};
use replay_engine::plan::{Compiled, Edits};
use trace_core::progress::Progress;
use trace_core::recording::Buffer;
use trace_core::{GpuVa, Recording};

struct DebugFixture {
    recording: Recording,
    compiled: Compiled,
    model: Model,
}

fn load_fixture(name: &str) -> DebugFixture {
    let recording = sample(name);
    let model = model_for_recording(&recording).expect("a model exists for the recording's GPU");
    let compiled = compile_plan(&recording, &Edits::default(), model, &Progress::new()).unwrap();
    DebugFixture {
        recording,
        compiled,
        model,
    }
}

fn thread_query(chain: u32, workgroup: u32, thread: u32) -> ThreadQuery {
    ThreadQuery {
        chain,
        position: 0,
        workgroup: [workgroup, 0, 0],
        thread: Thread::Number(thread),
        from: 0,
        max_steps: MAX_STEPS,
        mark: None,
    }
}

impl DebugFixture {
    fn follow(&self, query: ThreadQuery) -> Result<ThreadTrace, DebugError> {
        follow(&self.compiled, self.model, query, &Progress::new())
    }

    fn buffer(&self, name: &str) -> Buffer {
        self.recording.buffer(name).unwrap().clone()
    }

    /// Returns element `n` of a buffer before the first job.
    fn float(&self, name: &str, n: u64) -> f32 {
        let b = self.buffer(name);
        let job = self.compiled.plan.jobs()[0].submit_event;
        let space = &self.recording.metadata.address_spaces[0];
        let memory = trace_core::memory::GpuMemoryView::new(self.recording.memory.at(job), space);
        let bytes = memory.read_range(b.va + 4 * n, 4).bytes;
        f32::from_le_bytes(bytes.try_into().unwrap())
    }
}

#[test]
fn a_thread_of_vecadd_reads_two_numbers_and_writes_their_sum() {
    let fixture = load_fixture("vecadd.kine");
    let out = fixture.buffer("c");
    for (group, thread) in [(0, 0), (0, 5), (1, 3)] {
        let f = fixture.follow(thread_query(0, group, thread)).unwrap();
        assert_eq!(f.end, ThreadEnd::Ended);
        assert!(f.is_complete() && f.steps.len() == 3, "{:?}", f.steps);
        let n = u64::from(group * f.size[0] + thread);
        let all: Vec<_> = (0..f.steps.len()).flat_map(|s| f.accesses(s)).collect();
        let reads: Vec<f32> = all
            .iter()
            .filter(|a| !a.write)
            .map(|a| f32::from_bits(a.value as u32))
            .collect();
        let (a, b) = (fixture.float("a", n), fixture.float("b", n));
        assert_eq!(reads, [a, b], "{n}");
        let writes: Vec<_> = all.iter().filter(|a| a.write).collect();
        assert_eq!(writes.len(), 1);
        assert_eq!((writes[0].va, writes[0].bytes), (out.va + 4 * n, 4));
        assert_eq!(f32::from_bits(writes[0].value as u32), a + b);
        // The shader reads its index among all threads from register 60.
        assert_eq!(u64::from(f.registers(0)[60]), n);
        assert!(!f.uniforms.is_empty());
    }
}

#[test]
fn register_state_matches_the_changes_in_both_directions() {
    let fixture = load_fixture("matmul.kine");
    let f = fixture.follow(thread_query(0, 0, 9)).unwrap();
    assert!(f.is_complete() && f.steps.len() > 100, "{} steps", f.steps.len());
    let mut now = f.registers(0);
    for step in 0..f.steps.len() {
        assert_eq!(f.registers(step), now, "{step}");
        for c in f.changes(step) {
            assert_eq!(now[usize::from(c.register)], c.before, "{step} {c:?}");
            assert_ne!(c.before, c.after);
            now[usize::from(c.register)] = c.after;
        }
    }
    assert_eq!(f.registers(f.steps.len()), now);
    for step in (0..f.steps.len()).rev() {
        for c in f.changes(step) {
            now[usize::from(c.register)] = c.before;
        }
        assert_eq!(f.registers(step), now, "{step}");
    }
    // A second trace of the same thread is identical.
    assert_eq!(fixture.follow(thread_query(0, 0, 9)).unwrap(), f);
}

#[test]
fn partial_thread_trace_equals_the_full_trace() {
    let fixture = load_fixture("matmul.kine");
    let whole = fixture.follow(thread_query(0, 1, 2)).unwrap();
    let n = whole.steps.len();
    let (from, max) = (n as u64 / 2, 7);
    let part = fixture
        .follow(ThreadQuery {
            from,
            max_steps: max,
            ..thread_query(0, 1, 2)
        })
        .unwrap();
    assert_eq!(
        (part.executed, part.steps.len(), part.from),
        (whole.executed, max, from)
    );
    assert!(!part.is_complete());
    for step in 0..max {
        let other_step = step + from as usize;
        assert_eq!(part.steps[step].clause, whole.steps[other_step].clause);
        assert_eq!(part.changes(step), whole.changes(other_step));
        assert_eq!(part.accesses(step), whole.accesses(other_step));
        assert_eq!(part.registers(step), whole.registers(other_step));
    }
}

#[test]
fn traced_memory_is_the_state_before_the_job() {
    // The second job reads a value that the first one wrote.
    let fixture = load_fixture("twopass.kine");
    let (first, second) = (
        fixture.follow(thread_query(0, 0, 1)).unwrap(),
        fixture.follow(thread_query(1, 0, 1)).unwrap(),
    );
    assert_ne!(first.shader, second.shader);
    let accesses = |f: &ThreadTrace, write: bool| -> Vec<(u64, u128)> {
        (0..f.steps.len())
            .flat_map(|s| f.accesses(s).to_vec())
            .filter(|a| a.write == write)
            .map(|a| (a.va.get(), a.value))
            .collect()
    };
    let written = accesses(&first, true);
    let read = accesses(&second, false);
    assert!(written.iter().any(|w| read.contains(w)), "{written:x?} {read:x?}");
}

#[test]
fn missing_items_are_reported() {
    let fixture = load_fixture("vecadd.kine");
    let describe = |w: ThreadQuery| fixture.follow(w).unwrap_err().to_string();
    let e = describe(thread_query(0, 1 << 20, 0));
    assert!(e.contains("no workgroup [1048576, 0, 0]"), "{e}");
    let e = describe(thread_query(0, 0, 1 << 20));
    assert!(e.contains("there is no thread"), "{e}");
    let e = describe(thread_query(7, 0, 0));
    assert!(e.contains("did not reach job 7"), "{e}");
    let value = load_fixture("write-value.kine");
    let e = value.follow(thread_query(0, 0, 0)).unwrap_err().to_string();
    assert!(e.contains("jobs of type write-value run no shader"), "{e}");
}

#[test]
fn last_writer_is_found_inside_jobs() {
    let fixture = load_fixture("vecadd.kine");
    let traced = trace(&fixture.compiled, fixture.model, &Progress::new()).unwrap();
    let f = fixture.follow(thread_query(0, 0, 0)).unwrap();
    let (a, c) = (fixture.buffer("a"), fixture.buffer("c"));
    for n in [0u64, 5, 700, c.bytes / 4 - 1] {
        for byte in 0..4 {
            let w = traced.last_writer(0, c.va + 4 * n + byte).unwrap();
            let Writer::Shader(location, source) = w.writer else {
                panic!("{n}: {w:?}");
            };
            assert_eq!((location.chain, location.position, location.va), (0, 0, f.job));
            let size = u64::from(f.size[0]);
            assert_eq!(
                (u64::from(source.workgroup[0]), u64::from(source.thread)),
                (n / size, n % size)
            );
            assert_eq!(source.clause, f.steps[2].clause);
            let sum = fixture.float("a", n) + fixture.float("b", n);
            assert_eq!(w.byte, sum.to_le_bytes()[byte as usize]);
        }
    }
    // A byte that no job wrote has its recorded value. The end of a job writes the job's header.
    let w = traced.last_writer(0, a.va).unwrap();
    assert!(matches!(w.writer, Writer::Recording | Writer::Cpu { .. }), "{w:?}");
    let w = traced.last_writer(0, f.job).unwrap();
    assert!(matches!(w.writer, Writer::Status(p) if p.va == f.job), "{w:?}");
    assert!(matches!(
        traced.last_writer(0, GpuVa::new(0x10)),
        Err(DebugError::Unmapped(_))
    ));
    assert!(matches!(traced.last_writer(9, a.va), Err(DebugError::NoSpace(9))));
}

#[test]
fn last_writer_names_write_value_jobs() {
    let fixture = load_fixture("write-value.kine");
    let traced = trace(&fixture.compiled, fixture.model, &Progress::new()).unwrap();
    let mut found = 0;
    for b in &fixture.recording.metadata.buffers {
        for at in (0..b.bytes).step_by(4) {
            if let Ok(w) = traced.last_writer(b.address_space, b.va + at)
                && let Writer::WriteValue(location) = w.writer
            {
                assert!(location.chain < fixture.compiled.plan.jobs().len() as u32);
                found += 1;
            }
        }
    }
    assert!(found > 0, "no byte has a write-value job as its last writer");
}

/// A byte that the CPU wrote between submits must not count as a byte of the initial memory.
#[test]
fn unwritten_byte_has_its_initial_or_cpu_written_value() {
    let mut by_cpu = 0;
    for (name, ranges) in [
        (
            "changes.kine",
            [0x1_0002_0000..0x1_0002_2000, 0x55_0000_0000..0x55_0000_4000],
        ),
        ("digits.kine", [0xa00_0000..0xa02_c000, 0..0]),
    ] {
        let fixture = load_fixture(name);
        let traced = trace(&fixture.compiled, fixture.model, &Progress::new()).unwrap();
        let initial_byte = |pa: u64| {
            let pages = &fixture.compiled.plan.accesses().unwrap().pages;
            let n = pages.binary_search_by_key(&(pa / 4096), |p| p.frame).ok()?;
            Some(fixture.compiled.pages.get(&pages[n].digest)?[pa as usize % 4096])
        };
        for va in ranges.into_iter().flatten() {
            let w = traced.last_writer(0, GpuVa::new(va)).unwrap();
            match w.writer {
                Writer::Recording => assert_eq!(w.byte, initial_byte(w.pa.get()).unwrap_or(0), "{name} {va:#x}"),
                Writer::Cpu { .. } => by_cpu += 1,
                _ => {}
            }
        }
    }
    assert!(by_cpu > 4096, "the CPU is the last writer of only {by_cpu} bytes");
}

#[test]
fn tracing_changes_no_result_and_the_marked_write_is_found() {
    let fixture = load_fixture("histogram.kine");
    let traced = trace(&fixture.compiled, fixture.model, &Progress::new()).unwrap();
    let plain = common::play(&fixture.compiled);
    assert_eq!(traced.outcome.fingerprint, plain.fingerprint);
    // One clause of an atomic has the value before and the value after.
    let bins = fixture.recording.metadata.buffers.iter().find(|b| {
        let w = traced.last_writer(0, b.va);
        matches!(w.map(|w| w.writer), Ok(Writer::Shader(..)))
    });
    let at = bins.expect("the recording has a buffer that a shader wrote").va;
    let Writer::Shader(location, source) = traced.last_writer(0, at).unwrap().writer else {
        panic!("the last writer must be a shader");
    };
    let f = fixture
        .follow(ThreadQuery {
            chain: location.chain,
            position: location.position,
            workgroup: source.workgroup,
            thread: Thread::Number(source.thread),
            from: 0,
            max_steps: MAX_STEPS,
            mark: Some(at),
        })
        .unwrap();
    let step = usize::try_from(f.marked_step.expect("the trace marks the write")).unwrap();
    assert_eq!(f.steps[step].clause, source.clause);
    let [read, write] = f.accesses(step) else {
        panic!("{:?}", f.accesses(step));
    };
    assert!(!read.write && write.write && read.va == at);
    assert_eq!(write.value, read.value + 1);
}

/// The writers of a single page equal those of the full trace. Their number is at most the page size in bytes.
#[test]
fn page_writers_match_the_full_run() {
    let fixture = load_fixture("conv3x3.kine");
    let whole = trace(&fixture.compiled, fixture.model, &Progress::new()).unwrap();
    let buffers = fixture.recording.metadata.buffers.clone();
    let mut shaders = 0;
    for b in &buffers {
        let page = whole.physical_address(b.address_space, b.va).unwrap();
        let one = trace_page(&fixture.compiled, fixture.model, page, &Progress::new()).unwrap();
        assert!(one.writer_count() <= 4096, "{}", one.writer_count());
        let last = (b.bytes - 1).min(4095 - b.va.get() % 4096);
        for at in [0, 1, 5, last / 2, last] {
            let va = b.va + at;
            let (a, b) = (
                whole.last_writer(b.address_space, va).unwrap(),
                one.last_writer(b.address_space, va).unwrap(),
            );
            assert_eq!(a, b, "{va}");
            shaders += usize::from(matches!(a.writer, Writer::Shader(..)));
        }
    }
    assert!(shaders > 0);
}
