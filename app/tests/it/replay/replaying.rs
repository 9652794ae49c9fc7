//! Tests how the Replay panel shows its plan and its outcome, and how a user confirms a pairing.

use crate::common::{Window, sample, write_diverging_sample};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use kinescope::panels::common::actions::Pairing;
use kinescope::theme::ThemeChoice;
use kinescope_files::scene::Selection;
use std::sync::mpsc::{Receiver, channel};

/// Opens a window in which a user compares a pairing code. The receiver gets the user's answer.
fn pairing(size: [f32; 2], scale: f32) -> (Window, Receiver<bool>) {
    let mut w = Window::open_file_sized(&sample(), ThemeChoice::Dark, size, scale);
    w.app().settings.hints_read = 9;
    w.run("show-replay");
    let (answer, answers) = channel();
    let code = "335 908 512".to_owned();
    *w.app().actions.pairing.lock().unwrap() = Some(Pairing {
        code,
        answer: Some(answer),
    });
    w.settle();
    // The code must be visible for a short time before the user can confirm it.
    w.settle();
    (w, answers)
}

#[test]
fn pairing_buttons_fit_every_window_size() {
    for (size, scale) in [([1280.0, 800.0], 1.0), ([1280.0, 800.0], 1.5), ([853.0, 533.0], 1.5)] {
        let (mut w, answers) = pairing(size, scale);
        // The code is above the other items of its column, and the plan is next to it.
        let column = [
            "Pairing",
            "Does the agent show this code?",
            "335 908 512",
            "Codes are the same",
            "They differ",
            "target software:mali-g71",
        ];
        let plan = w.harness.get_by_label_contains("A plan lists every write").rect();
        let column = column.map(|l| w.harness.query_all_by_label(l).next().unwrap().rect());
        for pair in column.windows(2) {
            assert!(pair[0].bottom() <= pair[1].top() + 0.5, "{pair:?} in {size:?}");
        }
        assert!(column.iter().all(|r| r.right() <= plan.left()), "{column:?} {plan:?}");
        assert_eq!(w.row_texts("335 908 512"), ["335 908 512"], "the code is not clipped");
        let rects = ["Codes are the same", "They differ"].map(|l| w.harness.get_by_label(l).rect());
        assert!((rects[0].width() - rects[1].width()).abs() < 1.0, "{rects:?}");
        for r in rects {
            assert!(r.width() > 120.0 && r.bottom() < size[1] - 26.0, "{r:?} in {size:?}");
        }
        w.click("They differ");
        assert_eq!(answers.try_recv(), Ok(false));
        assert!(!w.has("They differ"));
    }
}

#[test]
fn confirmed_code_is_shown_until_the_agent_confirms() {
    let (mut w, answers) = pairing([1280.0, 800.0], 1.0);
    w.click("Codes are the same");
    assert_eq!(answers.try_recv(), Ok(true));
    assert!(w.has("335 908 512") && w.has_part("confirm the code on the agent"));
    assert!(!w.has("Codes are the same") && !w.has("They differ"));
}

#[test]
fn plan_panel_shows_footprint_and_links_rewrites_to_events() {
    let mut w = Window::open();
    w.edit();
    w.run("show-replay");
    w.click("Make plan");
    let (plan, _) = w.doc().replay.plan.clone().unwrap();
    let footprint = w.doc().replay.footprint.clone();
    let all: u64 = footprint.writes.iter().map(|b| b.1).sum();
    assert_eq!(all, plan.plan.writes().values().sum::<u64>());
    assert!(all > 0 && footprint.writes.windows(2).all(|w| w[0].1 >= w[1].1));
    let (from, to) = footprint.memory.unwrap();
    assert_eq!(to - from, plan.plan.accesses().unwrap().used_pages * 4096);
    let part = |w: &Window, l: &str| w.harness.query_all_by_label_contains(l).count();
    assert_eq!(part(&w, &format!("{from}..{to}")), 1);
    let (block, n) = &footprint.writes[0];
    let label = format!("{n} {}", block.to_lowercase().replace('_', " "));
    assert!(!w.has(&label));
    w.click(&format!("Unfold writes to {} blocks", footprint.writes.len()));
    assert!(w.has(&label), "{label}");
    w.click(&format!("Unfold writes to {} blocks", footprint.writes.len()));
    // The user's edits are above the rewrites of the program.
    let y = |w: &Window, l: &str| w.harness.get_by_label(l).rect().top();
    let (mine, root) = ("Unfold input ← your edit", "Unfold table root → the target's");
    assert!(y(&w, mine) < y(&w, root));
    w.click("Unfold flush id ← read at run time");
    let kind = replay_engine::plan::RewriteKind::FlushId;
    let event = plan
        .plan
        .rewrites
        .iter()
        .find_map(|r| r.event.filter(|_| r.kind == kind));
    let event = event.expect("a rewrite names an event");
    w.click(&format!("rewrite at event {event}"));
    assert_eq!(w.doc().current_event(), event);
}

#[test]
fn a_replay_that_diverges_selects_the_first_divergence() {
    let folder = tempfile::tempdir().unwrap();
    let (path, events) = write_diverging_sample(folder.path(), 3);
    let mut w = Window::open_file(&path, ThemeChoice::Dark, 1.0);
    w.run("replay");
    assert_eq!(w.doc().current_event(), events[0]);
    assert_eq!(*w.doc().selection(), Selection::Divergence(0));
    assert!(
        w.is_panel_active("compare"),
        "the outcome is compared with its recording"
    );
    w.run("show-replay");
    let report = w
        .harness
        .query_all_by_label_contains("Diverged on software:mali-g71 in ");
    assert_eq!(report.count(), 1, "one line shows verdict, target and time");
}

#[test]
fn a_replay_that_faults_selects_the_fault() {
    let mut w = Window::open();
    super::faulty(&mut w);
    w.run("replay");
    assert_eq!(*w.doc().selection(), Selection::Fault(0));
    let event = w.doc().replay.outcome.clone().unwrap().faults[0].event;
    assert_eq!(w.doc().current_event(), event);
}

#[test]
fn before_a_replay_target_plan_and_outcome_stand_side_by_side() {
    let mut w = Window::open();
    w.app().settings.hints_read = 9;
    w.run("show-replay");
    let rect = |label: &str| w.harness.get_by_label(label).rect();
    let column = [
        "target software:mali-g71",
        "Mali-G71 · in this program",
        "target software:mali-g72",
        "Mali-G72 · another model · in this program",
        "4 more that do not fit",
        "Find targets",
        "Another target",
        "Target address",
        "Use",
        "Pace",
        "fast",
        "as recorded",
        "recorded idle time is skipped",
    ];
    let column = column.map(rect);
    for pair in column.windows(2) {
        assert!(pair[0].bottom() <= pair[1].top() + 0.5, "{pair:?}");
    }
    for label in ["Use", "Pair…"] {
        assert!(
            w.harness.get_by_label(label).accesskit_node().is_disabled(),
            "{label} is disabled without an address"
        );
    }
    assert!(w.has_part("A plan lists every write") && w.has_part("Nothing was replayed yet."));
    let (plan, outcome) = (rect("Make plan"), rect("Replay now"));
    assert!(column.iter().all(|r| r.right() <= plan.left()), "{column:?} {plan:?}");
    assert!(plan.right() <= outcome.left() && plan.left() < outcome.left());
    // The buttons that start a replay are at the bottom of the plan.
    let (run, ten) = (rect("Run replay"), rect("10 times"));
    assert!(
        run.right() <= ten.left() && ten.right() <= outcome.left(),
        "{run:?} {ten:?}"
    );
    assert!(run.top() > plan.bottom() && run.bottom() < 800.0 - 26.0, "{run:?}");
}
