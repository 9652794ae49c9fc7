//! The text of outcomes: faults, divergences, replays without anything to compare.

use super::*;
use replay_engine::run::{AccessOutcome, Divergence, FaultRegister, OutcomeBody, Verdict};
use trace_core::families::find_family;
use trace_core::{GpuVa, Recording};

fn failed() -> Outcome {
    let divergence = |event| Divergence {
        event,
        register: "JOB_IRQ_STATUS".into(),
        expected: 2,
        got: 0x2_0000,
        class: "equal".into(),
        job: Some(3),
    };
    let job = |index, status, done| JobOutcome {
        index,
        submit_event: u64::from(index) * 10,
        head_va: GpuVa::new(0x4000),
        done,
        status,
        computed: done.then_some(false),
        duration_ns: if done { 40_250 } else { 0 },
    };
    Outcome {
        failure: Some("event 31: a fault on the job interrupt in job 3".into()),
        actions: 40,
        divergences: (0..30).map(divergence).collect(),
        divergence_count: 1234,
        faults: vec![FaultReport {
            job: Some(3),
            event: 31,
            summary: String::new(),
            exception: "0xc3 translation fault at level 3".into(),
            address: Some(GpuVa::new(0x5040)),
            registers: vec![FaultRegister {
                name: "AS0_FAULTSTATUS".into(),
                value: 0x1_00c3,
                means: "read, translation fault".into(),
            }],
            walk: vec!["level 0, entry 0 at 0x100000000: 0x2, invalid".into()],
            nearest_buffer: Some(("input".into(), 64)),
        }],
        device_ns: 5_000_000,
        pushed_bytes: 1,
        ..Outcome::unfinished(
            "mali-g71".into(),
            OutcomeBody::Accesses(AccessOutcome {
                interrupts: 1,
                jobs: vec![job(2, Some(1), true), job(3, Some(0xc3), false), job(4, None, false)],
                ..AccessOutcome::default()
            }),
        )
    }
}

#[test]
fn replay_without_recorded_outputs_says_so() {
    let recording = Recording::default();
    let context = OutcomeContext {
        target: "nvidia:0",
        events: 1,
        map: None,
        family: find_family(&recording),
        model: None,
        jobs: false,
        screen: None,
    };
    let first_line = |outcome: &Outcome| {
        let text = Out::capture(|out| print(outcome, &context, "run 1.00 ms".into(), out).unwrap());
        text.lines().next().unwrap_or_default().to_owned()
    };
    let mut outcome = Outcome::unfinished("H100".into(), OutcomeBody::Api(ApiOutcome::default()));
    assert_eq!(first_line(&outcome), "failed: no output was compared");
    outcome.verdict = Verdict::Match;
    outcome.computed = true;
    assert_eq!(first_line(&outcome), "match: the recording holds no outputs to compare");
    outcome.outputs.push(OutputBuffer {
        name: "out0".into(),
        element: ElementType::U8,
        data: vec![1, 2],
        blake3: [0; 32],
    });
    assert_eq!(
        first_line(&outcome),
        "match: the recording holds no outputs to compare, 1 output read back"
    );
    outcome.reads.compared = 1;
    outcome.reads.matched = 1;
    assert_eq!(first_line(&outcome), "match: 1 of 1 compared outputs as recorded");
}

#[test]
fn fault_report_lists_registers_walk_buffer_and_jobs() {
    let mut recording = Recording::default();
    recording.metadata.identity.gpu_id = 0x6000_0000;
    let context = OutcomeContext {
        target: "agent:lab/mali-g71",
        events: 1,
        map: RegisterMap::by_name("mali-jm"),
        family: find_family(&recording),
        model: None,
        jobs: false,
        screen: None,
    };
    let text = Out::capture(|out| print(&failed(), &context, "run 1.00 ms".into(), out).unwrap());
    for line in [
        "failed: 0 of 0 compared reads as recorded",
        "  event 31: a fault on the job interrupt in job 3",
        "  and 1214 more (--json lists up to 1000)",
        "Fault or hang, job 3, seen at event 31",
        "  exception 0xc3 translation fault at level 3",
        "  at 0x5040, 64 bytes from buffer 'input'",
        "    AS0_FAULTSTATUS  0x100c3  read, translation fault",
        "    level 0, entry 0 at 0x100000000: 0x2, invalid",
        "Target    agent:lab/mali-g71",
        "Jobs      1 of 3 done",
        "Computed  no: 2 of 3 jobs did not end as done, the shaders of 1 job did not run, so their results are \
         not in the outputs",
        "Actions   40 for 1 event, 1 interrupt",
        "Device    5.00 ms on its own clock",
        "Uploaded  1 byte",
    ] {
        assert!(text.lines().any(|l| l == line), "no line '{line}' in:\n{text}");
    }
    assert!(
        text.contains("event 0: JOB_IRQ_STATUS read 0x20000 ("),
        "the divergence shows the meaning of both values:\n{text}"
    );
    let jobs: Vec<&str> = text.lines().skip_while(|l| !l.starts_with("Job ")).skip(1).collect();
    assert_eq!(jobs.len(), 2, "only the jobs that did not end well are listed:\n{text}");
    assert!(jobs[0].contains("0xc3") && jobs[1].contains("never"), "{jobs:?}");
    let all =
        Out::capture(|out| print(&failed(), &OutcomeContext { jobs: true, ..context }, String::new(), out).unwrap());
    assert!(
        all.lines().last().is_some_and(|l| l.starts_with('4')) && all.contains("40.2 us"),
        "{all}"
    );
}
