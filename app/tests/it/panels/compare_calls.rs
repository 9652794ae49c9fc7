//! Tests of two API traces in the Compare panel: each differing call has a row that links to its event and bytes.

use crate::common::net::{Net, net};
use crate::common::{Window, assert_themes_differ_only_in_colours};
use egui_kittest::kittest::Queryable as _;
use kinescope::panels::compare::Section;
use kinescope::theme::ThemeChoice;
use kinescope_session::comparison::ComparisonSource;
use trace_core::container;
use trace_core::recording::{CallEvent, LaunchRow, MemoryBuilder, PageId, Recording, TraceKind};

/// Returns the net and a changed copy: another image, other scores, and a launch with another grid and other code.
fn net_and_changed_copy() -> (Net, Recording) {
    let n = net(1);
    let mut r = n.recording.clone();
    let copy = |event: u64| match r.events.call(event as usize) {
        Some(CallEvent::Copy(row)) => r.events.call_pages.get(row.pages_at as usize).unwrap(),
        other => panic!("{other:?}"),
    };
    let (image, scores) = (copy(n.image_in), copy(n.scores_out));
    let phase = (n.scores % 4096) as usize;
    let mut pages = MemoryBuilder::new();
    for id in 1..=r.memory.pages.len() as u32 {
        let mut page = *r.memory.pages.page(PageId(id)).unwrap();
        if id == image {
            page[2000..2100].fill(0);
        }
        if id == scores {
            page[phase..phase + 4].copy_from_slice(&0.75f32.to_le_bytes());
        }
        assert_eq!(pages.add_page(&page).0, id);
    }
    r.memory = pages.finish();
    let mut launches: Vec<LaunchRow> = r.events.launches.iter().collect();
    launches[1].grid = [16, 1, 1];
    r.events.launches = launches.into();
    let mut metadata = r.api().unwrap().clone();
    metadata.modules[0].digest = "11".repeat(32);
    r.metadata.kind = TraceKind::Api(metadata);
    (n, r)
}

fn compared(theme: ThemeChoice) -> (Window, Net) {
    let (n, other) = net_and_changed_copy();
    let mut w = Window::from_recording_themed(n.recording.clone(), theme);
    let path = w.folder.path().join("other.kine");
    std::fs::write(&path, container::to_bytes(&other).unwrap()).unwrap();
    let ctx = w.harness.ctx.clone();
    w.app().compare(&ctx, ComparisonSource::File(path));
    w.settle();
    w.run("show-compare");
    w.settle();
    (w, n)
}

#[test]
fn differing_calls_link_to_events_and_bytes() {
    let (mut w, n) = compared(ThemeChoice::Dark);
    assert_eq!(
        w.views().compare.section,
        Section::Calls,
        "the first section with differences is open"
    );
    assert!(w.has("Differences: Calls") && w.has("Differences: Events") && w.has("Differences: Rules"));
    assert!(!w.has("Differences: Registers") && !w.has("Differences: Mappings"));
    let c = w.doc().comparison.done.clone().unwrap();
    let at = |event: u64| c.diff.calls.list.iter().position(|d| d.events.0 == event).unwrap();
    // The window is tall enough to show every row.
    w.harness.set_size(egui::vec2(1280.0, 1000.0));
    w.settle();
    let click = |w: &mut Window, row: usize, word: &str| {
        let begin = format!("difference {row} {word} ");
        let row = w.harness.query_all_by_label_contains(&begin).next();
        row.expect("the difference has a row").click();
        w.settle();
    };
    click(&mut w, at(n.image_in), "copy");
    assert_eq!(w.doc().current_event(), n.image_in);
    assert!(w.has_part("bytes at 0x") && w.has("Show in Memory") && w.has_part("Rule: ignore buffer in2"));
    w.click("Show in Memory");
    w.run("show-compare");
    w.settle();
    // A differing launch shows its differing fields.
    click(&mut w, at(n.launches[1]), "launch");
    assert!(w.has("field grid: A 32×1×1, B 16×1×1"));
    click(&mut w, c.diff.calls.list.len(), "code");
    assert!(w.has_part("field module: A 00"));
    w.click("Differences: Events");
    assert_eq!(c.steps.rows(), c.diff.events.changed);
    w.doc().go(0);
    w.harness.key_press(egui::Key::F3);
    w.settle();
    assert_eq!(w.doc().current_event(), n.image_in);
    assert!(w.has_part("bytes at 0x"));
}

/// Returns a comparison with the differing scores selected in the list of calls.
fn differing_scores(theme: ThemeChoice) -> Window {
    let (mut w, n) = compared(theme);
    w.fix_targets();
    let c = w.doc().comparison.done.clone().unwrap();
    let row = c
        .diff
        .calls
        .list
        .iter()
        .position(|d| d.events.0 == n.scores_out)
        .unwrap();
    w.harness
        .query_all_by_label_contains(&format!("difference {row} copy "))
        .next()
        .unwrap()
        .click();
    w.settle();
    w
}

#[test]
fn compared_calls_dark() {
    differing_scores(ThemeChoice::Dark)
        .harness
        .snapshot("compared_calls_dark");
}

#[test]
fn compared_calls_in_every_theme() {
    assert_themes_differ_only_in_colours(differing_scores);
}
