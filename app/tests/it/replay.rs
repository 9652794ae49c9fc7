//! Tests of replays in the window: targets in this process and in a real agent, pairing, errors and their links.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::common;
use trace_core::{GpuVa, RegOffset};
mod options;
mod replaying;

use common::{HANG_LIMIT, Window, assert_themes_differ_only_in_colours, sample, write_diverging_sample};
use egui_kittest::kittest::Queryable as _;
use kinescope::theme::ThemeChoice;
use kinescope::window::layout;
use kinescope_files::scene::Selection;
use kinescope_session::replay::{DEFAULT_SIMULATOR, ReplayErrorKind};
use kinescope_session::safety::Safety;
use kinescope_session::targets::Targets;
use replay_engine::device::Containment;
use replay_engine::run::Verdict;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Steps frames until a condition holds.
fn until(w: &mut Window, condition: &str, mut holds: impl FnMut(&mut Window) -> bool) {
    let since = Instant::now();
    while !holds(w) {
        w.harness.step();
        std::thread::sleep(Duration::from_millis(2));
        assert!(since.elapsed() < HANG_LIMIT, "timed out: {condition}");
    }
}

/// Steps frames until the target runs the plan.
fn until_it_runs(w: &mut Window) {
    until(w, "the target runs the plan", |w| {
        *w.doc().replay.phase.lock().unwrap() == "running"
    });
}

#[test]
fn divergences_are_listed_and_link_to_events() {
    let folder = tempfile::tempdir().unwrap();
    let (path, events) = write_diverging_sample(folder.path(), 3);
    let mut w = Window::open_file(&path, ThemeChoice::Dark, 1.0);
    assert!(!w.run("next-divergence"), "nothing was replayed, so nothing diverged");
    w.run("show-replay");
    w.click("Run replay");
    let o = w.doc().replay.outcome.clone().expect("the replay has an outcome");
    assert_eq!((o.verdict, o.divergence_count), (Verdict::Diverged, 3));
    // A diverging replay opens the comparison, so the test returns to Replay.
    w.run("show-replay");
    assert!(w.has_part("Diverged") && w.has_part("3 divergences"));
    w.click(&format!("divergence at event {}", events[1]));
    assert_eq!(
        (w.doc().current_event(), w.doc().selection().clone()),
        (events[1], Selection::Divergence(1))
    );
    assert!(w.has_part("recorded 0x"), "both values are explained");
    // The command steps through the divergences and starts again after the last one.
    for next in [2, 0, 1] {
        w.run("next-divergence");
        assert_eq!(w.doc().current_event(), events[next]);
        assert_eq!(*w.doc().selection(), Selection::Divergence(next as u32));
    }
}

/// Edits the buffer with the first job's chain, so that the job writes its value to an unmapped address. Returns that
/// address.
fn faulty(w: &mut Window) -> u64 {
    let head = w.doc().derived.jobs[0].head_va;
    let chains = w
        .doc()
        .recording
        .metadata
        .buffers
        .iter()
        .find(|b| (b.va.get()..b.va.get() + b.bytes).contains(&head.get()))
        .cloned()
        .expect("a buffer holds the chain");
    let nowhere = 0x7f_0000_0000_u64;
    assert!(
        w.doc()
            .edit(&chains.name, head - chains.va + 32, nowhere.to_le_bytes().to_vec())
    );
    nowhere
}

#[test]
fn a_fault_is_reported_with_registers_walk_and_the_nearest_buffer() {
    let mut w = Window::open();
    let nowhere = faulty(&mut w);
    w.run("show-replay");
    w.click("Run replay");
    let o = w.doc().replay.outcome.clone().expect("the replay has an outcome");
    assert_eq!(o.verdict, Verdict::Failed, "{:?}", o.failure);
    assert!(w.has_part("Failed") && w.has("▲ Fault in job 0"));
    let report = &o.faults[0];
    assert_eq!(report.address.map(|a| a.get()), Some(nowhere));
    for r in &report.registers {
        assert!(w.has_part(&format!("{} {:#x}", r.name, r.value)), "{} is shown", r.name);
    }
    assert!(w.has_part("does not translate") && w.has_part("nearest"));
    w.click(&format!("address {nowhere:#x}"));
    assert!(w.is_panel_active("page-tables"));
    assert!(matches!(w.doc().selection(), Selection::Memory { va, .. } if *va == GpuVa::new(nowhere)));
    // The window stays usable: after undo the replay matches.
    w.run("undo");
    w.run("replay");
    assert_eq!(w.doc().replay.outcome.clone().unwrap().verdict, Verdict::Match);
}

#[test]
fn jobs_without_an_executed_shader_are_marked() {
    let mut w = Window::open_sample("vecadd.kine");
    w.run("replay");
    let o = w.doc().replay.outcome.clone().expect("the replay has an outcome");
    let skipped = o.jobs().iter().filter(|j| j.computed == Some(false)).count();
    assert_eq!(o.computed, skipped == 0);
    assert_eq!(
        w.has_part("not computed: "),
        skipped > 0,
        "the outcome reports whether a job was not computed"
    );
    let rows = w.harness.query_all_by_label_contains("replayed job").count();
    let reported = w.harness.query_all_by_label_contains("! not computed").count();
    assert!(
        rows >= 1 && reported >= skipped.min(rows),
        "each job that was not computed is marked: {reported} of {rows}"
    );
}

#[test]
fn recording_selects_its_gpu_model_and_is_refused_on_others() {
    let mut w = Window::open_sample("vecadd-g52.kine");
    assert_eq!(w.doc().replay.target(), "software:mali-g52");
    w.run("replay");
    assert_eq!(w.doc().replay.outcome.clone().unwrap().verdict, Verdict::Match);
    w.run("show-replay");
    w.click("2 more that do not fit");
    for target in ["software:mali-g71", "software:mali-g52", "software:mali-g51"] {
        assert!(
            w.harness.query_by_label(&format!("target {target}")).is_some(),
            "{target}"
        );
    }
    w.click("target software:mali-g71");
    assert!(!w.run("replay"), "replay is disabled before any attempt");
    for part in ["Mali-G52", "Mali-G71", "does not fit"] {
        assert!(w.has_part(part), "{part}");
    }
    w.click("Use software:mali-g52");
    assert_eq!(w.doc().replay.target(), "software:mali-g52");
    assert!(w.run("replay"));
}

#[test]
fn unknown_register_can_be_allowed_from_its_error() {
    let sample = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../sample-traces/vecadd.kine");
    let mut recording = trace_core::container::open(&sample).unwrap();
    let mut events = trace_core::recording::EventsBuilder::new();
    for at in 0..recording.events.len() {
        let time = recording.events.time.get(at).unwrap();
        if at == 0 {
            let unknown = trace_core::recording::Access {
                space: 0,
                write: false,
                offset: RegOffset::new(0x3ff8),
                width: 4,
                value: 0,
            };
            events.access(time, 0, unknown);
        }
        match (recording.events.access(at), recording.events.interrupt(at)) {
            (Some(access), _) => events.access(time, 0, access),
            (None, Some(interrupt)) => events.interrupt(time, interrupt),
            (None, None) => {}
        }
    }
    recording.events = events.finish();
    let mut w = Window::from_recording(recording);
    w.run("show-replay");
    w.run("replay");
    let error = w.doc().replay.error.clone().expect("the plan is refused");
    assert!(error.text.contains("0x3ff8"), "{}", error.text);
    w.click("Allow 0x3ff8..0x3ffc and plan again");
    assert_eq!(w.doc().replay.error, None);
    assert!(w.has_part("registers 0x3ff8..0x3ffc are in no register map; you allowed them"));
    w.run("replay");
    let o = w.doc().replay.outcome.clone().expect("the replay has an outcome");
    assert_eq!(o.verdict, Verdict::Match);
    assert!(o.findings().iter().any(|f| f.place == "registers 0x3ff8..0x3ffc"));
}

#[test]
fn a_second_replay_sends_only_what_changed() {
    let mut w = Window::open();
    w.run("replay");
    let first = w.doc().replay.outcome.clone().unwrap().pushed_bytes;
    w.edit();
    w.run("replay");
    let o = w.doc().replay.outcome.clone().expect("the replay has an outcome");
    assert!(o.pushed_bytes < first, "{} after {first}", o.pushed_bytes);
    w.run("replay");
    let same = w.doc().replay.outcome.clone().unwrap().pushed_bytes;
    assert!(same < 1024, "{same} bytes for the same plan again");
}

#[test]
fn status_bar_shows_known_containment() {
    let mut w = Window::open_sample("vecadd.kine");
    assert_eq!(w.doc().safety(), Safety::Contained(Containment::Software));
    assert!(w.has("Safety: software"));
    w.run("plan");
    assert_eq!(w.doc().safety(), Safety::Proved(Containment::Software));
    assert!(w.has_part("proved"));
    let message = w.doc().describe_safety();
    assert!(message.contains("verified after relocation"), "{message}");
    w.edit();
    assert_eq!(
        w.doc().safety(),
        Safety::Contained(Containment::Software),
        "the plan is outdated"
    );
    assert!(w.has("Safety: software"));
    w.doc().replay.choose("agent://127.0.0.1:9/mali-g71");
    w.settle();
    assert_eq!(w.doc().safety(), Safety::Unqueried);
    assert!(w.has("Safety: ! plan not made") && w.doc().replay.is_hardware());
}

#[test]
fn outcome_is_not_applied_to_another_recording() {
    let mut w = Window::busy();
    let ctx = w.harness.ctx.clone();
    w.app().replay(&ctx, 10_000, "replay");
    until_it_runs(&mut w);
    let other = w.folder.path().join("other.kine");
    std::fs::copy(sample(), &other).unwrap();
    w.app().open(&ctx, other.clone());
    w.settle();
    assert_eq!(w.doc().path, other);
    assert!(w.doc().replay.outcome.is_none() && w.doc().replay.error.is_none());
    // Opening the other recording stopped the run, so the target is free again.
    w.run("replay");
    assert_eq!(w.doc().replay.outcome.clone().unwrap().verdict, Verdict::Match);
}

#[test]
fn a_replay_is_stopped_in_the_middle() {
    let mut w = Window::busy();
    let ctx = w.harness.ctx.clone();
    w.app().replay(&ctx, 10_000, "replay");
    until_it_runs(&mut w);
    w.harness.step();
    w.click("Cancel replay");
    let error = w
        .doc()
        .replay
        .error
        .clone()
        .expect("the replay reports that it was stopped");
    assert_eq!(error.kind, ReplayErrorKind::Stopped);
    assert!(w.doc().replay.outcome.is_none() && w.doc().replay.running.is_none());
    assert!(w.has_part("Stopped."));
    w.click("Run replay");
    let outcome = w.doc().replay.outcome.clone().unwrap();
    assert_eq!(outcome.verdict, Verdict::Match);
    assert!(!w.has_part("Stopped."));

    // The previous outcome stays when a later run is stopped.
    w.app().replay(&ctx, 10_000, "replay");
    until_it_runs(&mut w);
    w.harness.step();
    w.click("Cancel replay");
    assert!(w.has_part("Stopped."));
    let now = w.doc().replay.outcome.clone().unwrap();
    assert!(Arc::ptr_eq(&now, &outcome));
}

/// A real agent in another process that allows one client to pair.
struct Agent {
    child: Child,
    lines: Receiver<String>,
    address: String,
    _keys: tempfile::TempDir,
}

impl Agent {
    fn start() -> Self {
        let keys = tempfile::tempdir().unwrap();
        let mut child = Command::new(whole_program_tests::program("kinescope-agent"))
            .arg("--keys")
            .arg(keys.path())
            .args(["serve", "--listen", "127.0.0.1:0", "--pair"])
            .args(["--device", "software:mali-g71"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (send, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let mut agent = Self {
            child,
            lines,
            address: String::new(),
            _keys: keys,
        };
        agent.address = agent.wait_for_line("listening on ").replace("listening on ", "");
        agent.wait_for_line("pairing is open");
        agent
    }

    fn wait_for_line(&self, start: &str) -> String {
        loop {
            let line = self
                .lines
                .recv_timeout(HANG_LIMIT)
                .expect("the agent prints the line in time");
            if line.starts_with(start) {
                return line;
            }
        }
    }

    fn kill(&mut self) {
        // The process is a child of this test.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Opens the busy sample in a window with its own folder of keys.
fn with_keys() -> Window {
    let mut w = Window::busy();
    let keys = w.folder.path().join("keys");
    w.app().set_targets(Targets::new(Some(keys)));
    w.run("show-replay");
    w
}

/// Types the agent's address, starts the pairing and waits for the code.
fn start_pairing(w: &mut Window, agent: &Agent) {
    w.doc().replay.target_field = agent.address.clone();
    w.harness.step();
    w.harness.get_by_label("Pair…").click();
    until(w, "the pairing code is shown", |w| w.has("Codes are the same"));
    let digits = |t: &str| t.chars().filter(char::is_ascii_digit).collect::<String>();
    let there = digits(&agent.wait_for_line("pairing code: "));
    let here = w.app().actions.pairing.lock().unwrap().as_ref().unwrap().code.clone();
    assert_eq!((digits(&here), there.len()), (there, 9), "both ends show the same code");
    // The user at the agent confirms, now that the code is visible.
    agent.child.stdin.as_ref().unwrap().write_all(b"y\n").unwrap();
    assert!(w.has(&here), "the window shows it");
    // A click that started before the question appeared does not answer it.
    w.harness.get_by_label("Codes are the same").click();
    w.harness.step();
    assert!(w.app().actions.pairing.lock().unwrap().is_some());
    (0..4).for_each(|_| w.harness.step());
}

#[test]
fn window_pairs_replays_on_an_agent_and_survives_its_end() {
    let mut agent = Agent::start();
    let mut w = with_keys();
    start_pairing(&mut w, &agent);
    w.click("Codes are the same");
    let target = "target agent:127.0.0.1/mali-g71";
    until(&mut w, "the target is listed", |w| w.has(target));
    w.settle();
    assert!(w.app().notice.is_none(), "{:?}", w.app().notice);

    w.click(target);
    assert_eq!(w.doc().replay.target(), "agent:127.0.0.1/mali-g71");
    assert!(!w.doc().replay.is_hardware(), "the agent reports a software device");
    w.click("Run replay");
    let o = w.doc().replay.outcome.clone().expect("the replay has an outcome");
    assert_eq!(o.verdict, Verdict::Match, "{:?}", o.failure);

    // The agent is killed during a run.
    let ctx = w.harness.ctx.clone();
    w.app().replay(&ctx, 10_000, "replay");
    until_it_runs(&mut w);
    agent.kill();
    w.settle();
    let error = w.doc().replay.error.clone().expect("the window shows an error");
    assert_eq!(error.kind, ReplayErrorKind::Target);
    assert!(
        error.text.contains("was lost while the plan was running"),
        "{}",
        error.text
    );
    assert!(w.has_part("was lost while the plan was running"));
    assert!(w.has_part("previous outcome: the last attempt did not run"));
    assert!(w.has_part("no answer"));
    assert!(w.doc().replay.running.is_none());

    // The next replay finds no agent.
    w.click("Run replay");
    let error = w.doc().replay.error.clone().unwrap();
    assert!(error.text.contains("no agent answers"), "{}", error.text);
    w.click("Find targets");
    assert!(w.has_part("target agent:127.0.0.1"), "the agent is still listed");

    // Another window also knows the agent, and queries it when the user requests it.
    let mut other = Window::open();
    other
        .app()
        .set_targets(Targets::new(Some(w.folder.path().join("keys"))));
    other.run("show-replay");
    assert!(other.has("agent 127.0.0.1") && !other.has_part("target agent:"));
    other.click("agent 127.0.0.1");
    assert!(other.has_part("target agent:127.0.0.1") && !other.has("agent 127.0.0.1"));
    w.click("Continue with the simulator");
    assert_eq!(w.doc().replay.target(), DEFAULT_SIMULATOR);
    w.click("Run replay");
    assert_eq!(w.doc().replay.outcome.clone().unwrap().verdict, Verdict::Match);
}

#[test]
fn rejected_pairing_code_saves_no_key() {
    let agent = Agent::start();
    let mut w = with_keys();
    start_pairing(&mut w, &agent);
    w.click("They differ");
    let (title, why) = w.app().notice.clone().expect("a notice is shown");
    assert!(title.contains("pairing") && why.contains("no key was saved"), "{why}");
    w.run("find-boards");
    assert!(!w.has_part("target agent:"));
}

#[test]
fn pairing_is_stopped_while_the_code_is_shown() {
    let agent = Agent::start();
    let mut w = with_keys();
    start_pairing(&mut w, &agent);
    w.run("cancel");
    assert!(w.app().tasks.running().is_empty() && !w.has("Codes are the same"));
    w.run("find-boards");
    assert!(!w.has_part("target agent:"));
}

/// Replaces the wall-clock times, which differ from run to run, so that the picture stays the same.
fn with_fixed_times(w: &mut Window) {
    let doc = w.doc();
    let mut o = (**doc.replay.outcome.as_ref().unwrap()).clone();
    o.timing.push_ns = 640_000;
    o.timing.runs_ns = vec![1_840_000; o.timing.runs_ns.len()];
    doc.replay.outcome = Some(Arc::new(o));
    w.app().settings.hints_read = 9;
    w.settle();
}

fn picture_matched(theme: ThemeChoice) -> Window {
    let mut w = Window::open_with(theme, 1.0);
    w.edit();
    w.run("replay");
    with_fixed_times(&mut w);
    w
}

fn picture_diverged(theme: ThemeChoice) -> Window {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write_diverging_sample(folder.path(), 3);
    let mut w = Window::open_file(&path, theme, 1.0);
    w.run("replay");
    w.run("next-divergence");
    // The picture shows the Replay panel.
    layout::close(&mut w.app().dock, "compare");
    w.run("show-replay");
    with_fixed_times(&mut w);
    w
}

fn picture_fault(theme: ThemeChoice) -> Window {
    let mut w = Window::open_with(theme, 1.0);
    faulty(&mut w);
    w.run("replay");
    with_fixed_times(&mut w);
    w
}

/// Replays a draw, which is not computed.
fn picture_not_computed(theme: ThemeChoice) -> Window {
    let mut w = Window::open_file(&common::samples().join("triangle.kine"), theme, 1.0);
    w.run("replay");
    with_fixed_times(&mut w);
    w
}

macro_rules! pictures {
    ($($name:ident $make:ident $theme:ident)*) => {
        $(#[test]
        fn $name() {
            $make(ThemeChoice::$theme).harness.snapshot(stringify!($name));
        })*
    };
}

pictures! {
    replay_matched_dark picture_matched Dark
    replay_matched_light picture_matched Light
    replay_diverged_dark picture_diverged Dark
    replay_fault_light picture_fault Light
    replay_not_computed_dark picture_not_computed Dark
}

#[test]
fn replay_diverged_in_every_theme() {
    assert_themes_differ_only_in_colours(picture_diverged);
}

#[test]
fn replay_fault_in_every_theme() {
    assert_themes_differ_only_in_colours(picture_fault);
}
