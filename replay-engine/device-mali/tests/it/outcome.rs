//! Tests that an outcome is a recording: it replays bit for bit like the original and does not differ from it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use crate::common;

use common::sample;
use device_mali::{Model, SoftwareMali};
use replay_engine::compile::compile;
use replay_engine::device::{Target, Window};
use replay_engine::plan::{CompileOptions, Compiled, Edits, PLAN_MAGIC, Plan};
use replay_engine::run::{Outcome, Verdict, run};
use replay_engine::verify::verify;
use trace_core::check::check;
use trace_core::diff::diff;
use trace_core::progress::Progress;
use trace_core::{Recording, container};

/// Returns a simulator of the recording's GPU model.
fn open_device(r: &Recording) -> SoftwareMali {
    let id = r.metadata.identity.gpu_id;
    SoftwareMali::new(Model::ALL.into_iter().find(|m| m.data().gpu_id == id).unwrap())
}

fn compiled(r: &Recording, edits: &Edits) -> Compiled {
    let c = compile(
        r,
        edits,
        &open_device(r).info(),
        &CompileOptions::default(),
        &Progress::new(),
    )
    .unwrap();
    verify(&c.plan, &c.pages, &open_device(r).info()).unwrap();
    c
}

/// Replays a recording and returns the outcome, both as a value and as a recording.
fn replay(r: &Recording, edits: &Edits) -> (Outcome, Recording) {
    let c = compiled(r, edits);
    let o = run(&c.plan, &c.pages, &mut open_device(r), &Progress::new());
    assert_eq!((o.verdict, &o.failure), (Verdict::Match, &None));
    let recording = container::from_bytes(o.recording.clone()).unwrap();
    (o, recording)
}

fn samples() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sample-traces");
    let names = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<String> = names.map(|n| n.into_string().unwrap()).collect();
    names.retain(|n| n.ends_with(".kine"));
    names.sort();
    assert!(names.len() >= 17, "{names:?}");
    names
}

/// Asserts that a comparison finds no difference between two recordings, including the descriptors at their submits.
fn assert_same(name: &str, a: &Recording, b: &Recording) {
    let d = diff(a, b);
    assert!(d.is_empty(), "{name}: {d:#?}");
    assert_eq!(d.descriptors.count_differing(), 0, "{name}: {:#?}", d.descriptors);
    assert_eq!(d.descriptors.unknown, 0, "{name}");
    assert!(diff(b, a).is_empty(), "{name}");
    assert_eq!(
        a.metadata.buffers, b.metadata.buffers,
        "{name}: names, roles, addresses and types"
    );
    assert_eq!(a.metadata.buffer_shapes, b.metadata.buffer_shapes, "{name}");
    assert_eq!(a.metadata.regions, b.metadata.regions, "{name}");
    let list_spaces = |r: &Recording| {
        let spaces = r.metadata.address_spaces.iter();
        spaces
            .map(|s| (s.number, s.format, s.memattr, s.transcfg))
            .collect::<Vec<_>>()
    };
    assert_eq!(list_spaces(a), list_spaces(b), "{name}");
}

#[test]
fn sample_outcomes_replay_like_the_samples() {
    for name in samples() {
        let original = sample(&name);
        let (first, outcome) = replay(&original, &Edits::default());
        let (second, again) = replay(&outcome, &Edits::default());
        let (third, _) = replay(&again, &Edits::default());
        let draws = ["tri3.kine", "triangle.kine"].contains(&name.as_str());
        assert_eq!(first.outputs.is_empty(), draws, "{name}: draws name no buffers");
        assert_eq!(first.outputs, second.outputs, "{name}");
        assert_eq!(second.outputs, third.outputs, "{name}");
        assert_eq!(first.reads, second.reads, "{name}");
        assert_eq!(first.jobs().len(), second.jobs().len(), "{name}");
        assert_same(&name, &original, &outcome);
        assert_same(&name, &outcome, &again);
        assert_same(&name, &original, &again);
        // The outcome has only the errors of the original.
        let errors = |r: &Recording| {
            let all = check(r);
            all.into_iter()
                .filter(|f| f.severity == trace_core::finding::Severity::Error)
                .map(|f| f.kind)
                .collect::<Vec<_>>()
        };
        assert_eq!(errors(&original), errors(&outcome), "{name}");
        let reports = outcome.chain_reports();
        assert_eq!(reports.len(), first.jobs().len(), "{name}: each job has a report");
        assert!(
            reports
                .iter()
                .zip(first.jobs())
                .all(|(r, j)| r.has_computed() == j.has_computed()),
            "{name}"
        );
    }
}

/// A user's input changes the outcome and the original in the same way.
#[test]
fn edited_outcome_replays_like_the_edited_original() {
    let original = sample("digits.kine");
    let (_, outcome) = replay(&original, &Edits::default());
    let mut edits = Edits::default();
    let image = (0..64u32).flat_map(|n| (n as f32 / 64.0).to_le_bytes()).collect();
    edits.inputs.insert("image".into(), image);
    let (of_original, edited) = replay(&original, &edits);
    let (of_outcome, _) = replay(&outcome, &edits);
    let (of_edited, _) = replay(&edited, &Edits::default());
    assert_ne!(of_original.outputs, replay(&original, &Edits::default()).0.outputs);
    assert_eq!(of_original.outputs, of_outcome.outputs);
    assert_eq!(
        of_original.outputs, of_edited.outputs,
        "the outcome of an edit contains the edit"
    );
}

/// The outcome of a run that stops half-way contains its events and replays up to that point.
#[test]
fn outcome_of_a_failed_run_replays_up_to_the_failure() {
    let original = sample("changes.kine");
    let mut c = compiled(&original, &Edits::default());
    // The second job's chain is missing: its head is unmapped memory.
    let submit = c.plan.jobs()[1].submit_event;
    let actions: Vec<_> = replay_core::Actions::new(&c.plan.accesses().unwrap().body)
        .map(Result::unwrap)
        .collect();
    let mut body = replay_engine::plan::BodyBuilder::new();
    for a in actions.iter().filter(|a| u64::from(a.event()) < submit) {
        body.push(a).unwrap();
    }
    (c.plan.accesses_mut().unwrap().body, c.plan.actions) = body.finish();
    c.plan.registers_mut().unwrap().jobs.truncate(1);
    let o = run(&c.plan, &c.pages, &mut open_device(&original), &Progress::new());
    assert_eq!(o.verdict, Verdict::Match, "{:?}", o.failure);
    let partial = container::from_bytes(o.recording).unwrap();
    assert_eq!(partial.chain_reports().len(), 1);
    let (again, _) = replay(&partial, &Edits::default());
    assert_eq!(again.outputs, o.outputs);
}

/// Encodes a plan as version 5, which has the fields of all kinds of plans in one list.
fn encode_version_5(plan: &Plan) -> Vec<u8> {
    let registers = plan.registers().unwrap();
    let a = &registers.accesses;
    let memory = (&a.arena, &a.pages, a.used_pages, &registers.spaces);
    let run = (&plan.outputs, &registers.jobs, &plan.rewrites, a.reads, a.interrupts);
    let body = (
        plan.actions,
        plan.budgets,
        &a.body,
        &a.allowed,
        &a.buffers,
        &plan.images,
    );
    // The plan has no device, no windows, no bus mastering and no calls.
    let others = (
        None::<String>,
        Vec::<Window>::new(),
        &a.expectations,
        false,
        None::<String>,
    );
    let fields = (5u32, &plan.title, a.gpu_id, &a.register_map, memory, run, body, others);
    let mut bytes = PLAN_MAGIC.to_vec();
    bytes.extend_from_slice(&5u32.to_le_bytes());
    bytes.extend(trace_core::encode::to_long_bytes(&fields).unwrap());
    bytes
}

/// A plan of version 5 replays. That version has no buffer roles: a name marks an input, and each copied buffer is an
/// output.
#[test]
fn older_plan_version_replays() {
    let original = sample("vecadd.kine");
    let c = compiled(&original, &Edits::default());
    let mut plan = c.plan.clone();
    plan.accesses_mut().unwrap().origin = None;
    let parsed = Plan::from_bytes(&encode_version_5(&plan)).unwrap();
    assert_eq!(parsed, plan);
    let o = run(&parsed, &c.pages, &mut open_device(&original), &Progress::new());
    let outcome = container::from_bytes(o.recording).unwrap();
    assert_eq!(replay(&outcome, &Edits::default()).0.outputs, o.outputs);
    for version in [4u32, 8] {
        let mut other = plan.to_bytes().unwrap();
        other[8..12].copy_from_slice(&version.to_le_bytes());
        let why = Plan::from_bytes(&other).unwrap_err().to_string();
        assert!(
            why.contains(&format!("version {version}; this program reads versions 5 to 7")),
            "{why}"
        );
    }
    let back = replay_engine::plan::text::parse(&replay_engine::plan::text::print(&c.plan)).unwrap();
    assert_eq!(back, c.plan, "the plan text keeps the whole plan");
}
