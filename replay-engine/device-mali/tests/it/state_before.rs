//! Tests of reads of state from before the recording. If the register map marks the register, a difference is a
//! finding. After a write or a reset, or without the mark, it is a divergence.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use crate::common;

use common::{target, with_actions};
use device_mali::{Model, SoftwareMali};
use replay_core::{Action, ReadClass};
use replay_engine::compile::compile_with;
use replay_engine::plan::{CompileOptions, Compiled, Edits, Plan, text};
use replay_engine::run::{Outcome, Verdict, run_with};
use replay_engine::verify::{Reason, verify, verify_with};
use std::path::Path;
use trace_core::finding::{FindingKind, Severity};
use trace_core::progress::Progress;
use trace_core::recording::{Access, EventsBuilder};
use trace_core::registers::{ReadRule, RegisterMap};
use trace_core::{Recording, RegOffset};

const SHADER_CONFIG: u32 = 0xf04;
const TILER_CONFIG: u32 = 0xf08;
const GPU_COMMAND: u32 = 0x30;
const SOFT_RESET: u64 = 1;
const WHY: &str = "firmware sets it up";

/// Returns the register map of Mali GPUs with text inserted after the name of one register.
fn map_with(register: &str, more: &str) -> Result<RegisterMap, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../assets/registers/mali-jm");
    let name = format!("name = \"{register}\"\n");
    let mut found = 0;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let plain = std::fs::read_to_string(&path).unwrap();
        found += plain.matches(&name).count();
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        files.push((file, plain.replace(&name, &format!("{name}{more}\n"))));
    }
    assert_eq!(found, 1, "the map must contain {register} once");
    let files: Vec<(&str, &str)> = files.iter().map(|(f, t)| (f.as_str(), t.as_str())).collect();
    RegisterMap::parse(&files).map_err(|e| e.to_string())
}

fn marked_map() -> RegisterMap {
    map_with("SHADER_CONFIG", &format!("before = \"{WHY}\"")).unwrap()
}

fn recording(accesses: &[(bool, u32, u64)]) -> Recording {
    let mut b = EventsBuilder::new();
    for (i, (write, offset, value)) in accesses.iter().enumerate() {
        let access = Access {
            space: 0,
            write: *write,
            offset: RegOffset::new(*offset),
            width: 4,
            value: *value,
        };
        b.access(i as u64, 0, access);
    }
    Recording {
        events: b.finish(),
        ..Recording::default()
    }
}

fn plan(r: &Recording, map: &RegisterMap) -> Compiled {
    let options = CompileOptions::default();
    compile_with(r, &Edits::default(), &target(), map, &options, &Progress::new()).unwrap()
}

fn play(accesses: &[(bool, u32, u64)], map: &RegisterMap) -> (Compiled, Outcome) {
    let c = plan(&recording(accesses), map);
    verify_with(&c.plan, &c.pages, &target(), map).unwrap();
    let o = run_with(
        &c.plan,
        &c.pages,
        &mut SoftwareMali::new(Model::G71),
        Some(map),
        &Progress::new(),
    );
    (c, o)
}

fn diverged(o: &Outcome) -> Vec<u64> {
    o.divergences.iter().map(|d| d.event).collect()
}

#[test]
fn differing_read_before_any_write_is_a_finding() {
    let (c, o) = play(&[(false, SHADER_CONFIG, 5), (false, SHADER_CONFIG, 0)], &marked_map());
    assert_eq!((o.verdict, o.divergence_count), (Verdict::Match, 0), "{:?}", o.failure);
    assert_eq!(
        (o.accesses().unwrap().classes.equal, o.reads.compared, o.reads.matched),
        (2, 1, 1),
        "the read counts once in its class and is not compared"
    );
    assert_eq!(o.accesses().unwrap().classes, c.plan.accesses().unwrap().reads);
    let [f] = o.findings() else {
        panic!("{:?}", o.findings())
    };
    assert_eq!(
        (f.kind, f.severity, f.event),
        (FindingKind::StateBeforeRecording, Severity::Note, Some(0))
    );
    assert_eq!(f.place, "event 0, SHADER_CONFIG");
    assert!(
        f.message.contains("0x0 here and 0x5") && f.message.ends_with(WHY),
        "{f:?}"
    );
}

#[test]
fn matching_read_of_state_before_is_compared() {
    let (_, o) = play(&[(false, SHADER_CONFIG, 0)], &marked_map());
    assert_eq!((o.verdict, o.reads.compared, o.reads.matched), (Verdict::Match, 1, 1));
    assert!(o.findings().is_empty());
}

#[test]
fn write_or_reset_ends_the_state_before() {
    let (_, o) = play(
        &[
            (false, TILER_CONFIG, 7),
            (false, SHADER_CONFIG, 5),
            (true, SHADER_CONFIG, 3),
            (false, SHADER_CONFIG, 5),
        ],
        &marked_map(),
    );
    assert_eq!(
        (o.verdict, diverged(&o), o.findings().len()),
        (Verdict::Diverged, vec![0, 3], 1)
    );
    assert_eq!(
        (o.accesses().unwrap().classes.equal, o.reads.compared, o.reads.matched),
        (3, 2, 0)
    );
    let (_, o) = play(
        &[
            (false, SHADER_CONFIG, 5),
            (true, GPU_COMMAND, SOFT_RESET),
            (false, SHADER_CONFIG, 5),
        ],
        &marked_map(),
    );
    assert_eq!((diverged(&o), o.findings().len()), (vec![2], 1));
}

#[test]
fn only_masked_bits_of_a_register_are_compared() {
    let map = map_with(
        "SHADER_CONFIG",
        &format!("read = \"masked\"\nmask = 0xf0\nbefore = \"{WHY}\""),
    )
    .unwrap();
    assert_eq!(
        map.find_by_name("SHADER_CONFIG").unwrap().replay.read,
        ReadRule::Masked(0xf0)
    );
    let (_, o) = play(&[(false, SHADER_CONFIG, 5), (false, SHADER_CONFIG, 0x15)], &map);
    let events: Vec<_> = o.findings().iter().map(|f| f.event).collect();
    assert_eq!((o.verdict, events), (Verdict::Match, vec![Some(1)]));
    assert_eq!(
        (o.accesses().unwrap().classes.masked, o.reads.compared, o.reads.matched),
        (2, 1, 1)
    );
}

#[test]
fn read_class_round_trips_through_plan_bytes_and_text() {
    let c = plan(&recording(&[(false, SHADER_CONFIG, 5)]), &marked_map());
    assert_eq!(Plan::from_bytes(&c.plan.to_bytes().unwrap()).unwrap(), c.plan);
    let printed = text::print(&c.plan);
    assert!(printed.contains("0 before 0 0xf04 4 0x5 mask 0xffffffff"), "{printed}");
    assert_eq!(text::parse(&printed).unwrap(), c.plan);
}

#[test]
fn read_class_before_requires_a_marked_register() {
    let not_before = |r| matches!(r, Reason::NotBefore { register } if register == "SHADER_CONFIG");
    let c = plan(&recording(&[(false, SHADER_CONFIG, 5)]), &marked_map());
    let refused = verify(&c.plan, &c.pages, &target()).unwrap_err();
    assert_eq!((refused.rule, not_before(refused.reason)), (1, true));
    // A marked register is not accepted either after it is written.
    let c = plan(
        &recording(&[(true, SHADER_CONFIG, 5), (false, SHADER_CONFIG, 5)]),
        &marked_map(),
    );
    let c = with_actions(c, |list| {
        if let Some(Action::Read { class, .. }) = list.last_mut() {
            *class = ReadClass::Before(0xffff_ffff);
        }
    });
    let refused = verify_with(&c.plan, &c.pages, &target(), &marked_map()).unwrap_err();
    assert_eq!((refused.rule, not_before(refused.reason)), (1, true));
}

#[test]
fn a_mark_needs_a_reason_and_a_compared_register() {
    assert!(
        map_with("SHADER_CONFIG", "before = \" \"")
            .unwrap_err()
            .contains("SHADER_CONFIG")
    );
    for read in ["until", "feeds"] {
        let more = format!("read = \"{read}\"\nbefore = \"{WHY}\"");
        assert!(map_with("SHADER_CONFIG", &more).unwrap_err().contains("before"));
    }
}

/// The shipped map marks no register, because the published recordings replay fully without a mark.
#[test]
fn no_register_of_the_shipped_map_is_marked_before() {
    let map = RegisterMap::by_name("mali-jm").unwrap();
    assert!(map.registers().all(|r| r.replay.before.is_none()));
}
