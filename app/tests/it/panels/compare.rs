//! Tests of the Compare panel: the differences as a list and on one timeline, stepping through them, and messages when
//! nothing can be compared.

use crate::common::{Window, sample, samples, write_diverging_sample};
use egui_kittest::kittest::Queryable as _;
use kinescope::panels::compare::Section;
use kinescope_files::scene::Selection;
use kinescope_session::comparison::ComparisonSource;
use std::path::Path;
use std::sync::Arc;
use trace_core::GpuVa;
use trace_core::diff::{ChangeKind, DiffSide, MemoryComparison, byte_differs};
use trace_core::progress::Progress;
use trace_core::recording::{Access, BufferRole, EventsBuilder, Recording, Space, SpaceKind};
use trace_core::registers::RegisterMap;

fn compare_with(w: &mut Window, path: &Path) {
    let ctx = w.harness.ctx.clone();
    w.app().compare(&ctx, ComparisonSource::File(path.to_owned()));
    w.settle();
}

/// Compares the sample with a copy in which two reads changed. Returns the events of these reads.
fn compare_with_changes() -> (Window, Vec<u64>) {
    let mut w = Window::open();
    let (path, events) = write_diverging_sample(w.folder.path(), 2);
    compare_with(&mut w, &path);
    (w, events)
}

#[test]
fn two_recordings_share_an_axis_and_step_through_differences() {
    let (mut w, events) = compare_with_changes();
    assert!(w.is_panel_active("compare"));
    let c = w.doc().comparison.done.clone().expect("the comparison is done");
    for label in [
        "Aligned timeline",
        "Minimap of the comparison",
        "Differences: Events",
        "Next difference",
        "Previous difference",
        "Close comparison",
    ] {
        assert!(w.has(label), "{label}");
    }
    assert!(w.has_part("The recordings differ: A sample.kine, B diverging.kine"));
    let changed: Vec<u64> = (0..c.steps.rows())
        .filter_map(|r| c.steps.at(c.steps.row(r)?.step))
        .filter(|s| s.change == ChangeKind::Changed)
        .filter_map(|s| s.a)
        .collect();
    assert_eq!(changed, events);
    // Every event is at the step that lists it, on both sides.
    for e in [0, events[0], events[1], w.doc().len() - 1] {
        let step = c.steps.at(c.steps.step_of(DiffSide::A, e)).unwrap();
        assert!(step.a.is_none_or(|a| a >= e), "{e}: {step:?}");
        if let Some(b) = step.b {
            assert_eq!(
                c.steps.step_of(DiffSide::B, b),
                c.steps.step_of(DiffSide::A, step.a.unwrap())
            );
        }
    }
    w.doc().go(0);
    w.harness.key_press(egui::Key::F3);
    w.settle();
    let first = c.steps.at(c.steps.row(0).unwrap().step).unwrap();
    assert_eq!(
        (w.doc().current_event(), w.doc().other_event()),
        (first.at_a, Some(first.at_b))
    );
    for _ in 1..c.steps.rows() {
        w.run("next-difference");
    }
    let n = c.steps.rows();
    assert!(w.has(&format!("difference {n} of {n}")));
    w.run("next-difference");
    assert!(w.has(&format!("difference 1 of {n}, continued at the first difference")));
    w.run("previous-difference");
    assert!(w.has(&format!("difference {n} of {n}, continued at the last difference")));
}

#[test]
fn click_and_arrows_select_differences_and_show_fields() {
    let (mut w, events) = compare_with_changes();
    let row = w.harness.query_all_by_label_contains("difference 0 ").next();
    row.expect("the first difference is listed").click();
    w.settle();
    assert_eq!(w.doc().current_event(), events[0]);
    assert!(w.has_part("field value: A 0x"));
    w.harness.key_press(egui::Key::ArrowDown);
    w.settle();
    assert_eq!(w.doc().current_event(), events[1]);
    w.harness.key_press(egui::Key::ArrowUp);
    w.settle();
    assert_eq!(w.doc().current_event(), events[0]);
}

#[test]
fn every_section_opens_and_reports_when_nothing_differs() {
    let (mut w, _) = compare_with_changes();
    for section in Section::ALL {
        w.click(&format!("Differences: {}", section.name()));
        assert_eq!(w.views().compare.section, section);
    }
    // A click on a row goes to its first event.
    w.click("Differences: Registers");
    let at = w.doc().comparison.done.clone().unwrap().diff.registers[0]
        .first
        .0
        .unwrap();
    w.doc().go(0);
    w.harness
        .query_all_by_label_contains("difference 0 ")
        .next()
        .unwrap()
        .click();
    w.settle();
    assert_eq!(w.doc().current_event(), at);
}

/// Compares the sample with the outcome of a replay that had another input.
fn compare_edited_replay() -> Window {
    let mut w = Window::open_sample("vecadd.kine");
    assert!(w.doc().edit("a", 5, vec![0x5a, 0xa5]));
    w.run("replay");
    w.run("compare-outcome");
    w.settle();
    w
}

#[test]
fn comparison_panel_opens_at_its_cause() {
    let mut w = compare_edited_replay();
    assert_eq!(
        w.views().compare.section,
        Section::Buffers,
        "Buffers lists the differing input"
    );
    let message = "Input a differs (1 of 1,024), so output c differs after job 0; events, descriptors and page tables are the same.";
    assert!(w.has(message), "{:?}", w.doc().comparison.done.clone().unwrap().summary);
    // A section that the user chooses stays open. Equal recordings have no message per section.
    w.click("Differences: Descriptors");
    assert!(w.has("Jobs have the same descriptors on both sides."));
    let mut w = Window::open_sample("digits.kine");
    w.run("replay");
    w.run("compare-outcome");
    w.settle();
    assert!(w.has_part("The recordings are equal") && !w.has_part("No difference"));
    assert_eq!(
        w.doc()
            .comparison
            .done
            .clone()
            .unwrap()
            .diff
            .descriptors
            .count_differing(),
        0
    );
}

#[test]
fn verdict_and_comparison_report_uncomputed_jobs() {
    let mut w = Window::open_sample("triangle.kine");
    w.run("replay");
    let o = w.doc().replay.outcome.clone().unwrap();
    let n = o.jobs().len();
    assert!(w.has_part(&format!("Registers match, {n} of {n} jobs not computed")));
    assert!(!w.has_part("Matched"));
    w.run("compare-outcome");
    w.settle();
    assert!(w.has_part("The compared parts are equal") && !w.has_part("The recordings are equal"));
    let message = format!("! Outputs not compared: not computed ({n} of {n} jobs of the second).");
    assert!(
        w.has(&message),
        "{:?}",
        w.doc().comparison.done.clone().unwrap().summary
    );
}

#[test]
fn memory_is_compared_and_the_next_difference_is_reached() {
    let mut w = compare_edited_replay();
    let end = w.doc().len();
    w.doc().go(end);
    w.settle();
    w.click("Differences: Memory");
    assert!(w.has("Memory of both recordings"));
    let c = w.doc().comparison.done.clone().expect("the comparison is done");
    let at = (w.doc().current_event(), w.doc().other_event().unwrap());
    let recording = Arc::clone(&w.doc().recording);
    let both = MemoryComparison::new((&recording, at.0), (&c.other.recording, at.1), 0, &c.diff.mappings).unwrap();
    let begin = w.views().compare.byte.expect("the panel shows the first difference");
    let next = both
        .find_next_difference(begin, true, &Progress::new())
        .unwrap()
        .expect("another byte differs");
    w.click("Next bytes that differ");
    w.settle();
    assert_eq!(w.views().compare.byte, Some(next));
    let line = next.get() & !0xf;
    let row = both.read(GpuVa::new(line), 16);
    let n = row.iter().filter(|b| byte_differs(b)).count();
    let shown = format!("memory {line:#x}: {n} bytes differ");
    let half = format!("memory {:#x}: ", next.get() & !7);
    assert!(n > 0 && (w.has(&shown) || w.has_part(&half)), "{shown}");
    // The key continues from there, and the command for the previous byte goes back.
    w.harness.key_press(egui::Key::F3);
    w.settle();
    let following = both.find_next_difference(next, true, &Progress::new()).unwrap();
    assert_eq!(w.views().compare.byte, following.or(Some(next)));
    w.run("previous-byte");
    w.settle();
    let before = both
        .find_next_difference(following.unwrap_or(next), false, &Progress::new())
        .unwrap();
    assert_eq!(w.views().compare.byte, before.or(Some(next)));
    // After the last difference, the panel shows a message and does not move.
    w.enter("Address in both", "0xfffffffff000");
    w.run("next-byte");
    w.settle();
    assert_eq!(w.views().compare.byte, Some(GpuVa::new(0xffff_ffff_f000)));
    assert!(w.has_part("no difference after 0xfffffffff000"));
    w.enter("Address in both", "no such buffer");
    assert!(w.has_part("no such buffer"));
}

#[test]
fn memory_row_links_to_both_sides_and_timeline_marks_it() {
    let mut w = compare_edited_replay();
    w.click("Differences: Buffers, pages");
    let row = w.harness.query_all_by_label_contains("difference 0 ").next();
    row.expect("a differing buffer is listed").click();
    w.settle();
    assert_eq!(
        w.views().compare.section,
        Section::Buffers,
        "a click shows details in the same section"
    );
    w.harness.get_by_label("Bytes side by side").click_accesskit();
    w.settle();
    assert_eq!(w.views().compare.section, Section::Memory);
    let c = w.doc().comparison.done.clone().unwrap();
    let first = c.diff.buffers.iter().find(|b| b.differs()).and_then(|b| b.a).unwrap();
    assert_eq!(w.views().compare.byte, Some(first.0));
    let (mut w, events) = compare_with_changes();
    assert!(w.has("Lane A ≠ B"));
    for e in 0..w.doc().len() {
        assert_eq!(w.doc().differs_within(e, e + 1), events.contains(&e), "{e}");
    }
    w.run("end-compare");
    assert!(!w.has("Lane A ≠ B"));
}

#[test]
fn walks_of_a_differing_mapping_are_shown_together() {
    let mut w = Window::open_sample("saxpy.kine");
    compare_with(&mut w, &samples().join("vecadd.kine"));
    let c = w.doc().comparison.done.clone().expect("the comparison is done");
    let m = c.diff.mappings.list.first().copied().expect("a mapping differs");
    w.click("Differences: Mappings");
    assert!(w.has_part(&format!("walks of A {:#x}", m.va.get())));
    assert!(w.has_part("level 3: A ") || w.has_part("level 2: A "));
    assert!(w.has_part("entry: A 0x"));
}

#[test]
fn descriptor_differences_are_listed_by_field_with_links() {
    let mut w = Window::open_sample("saxpy.kine");
    compare_with(&mut w, &samples().join("vecadd.kine"));
    let c = w.doc().comparison.done.clone().expect("the comparison is done");
    let d = c.diff.descriptors.list.first().cloned().expect("a descriptor differs");
    let (name, a, b) = d.fields.first().cloned().expect("a field differs");
    // No event and no register differs, so the panel opens at Buffers: the shader differs from the start. It stays
    // there until the user chooses another section.
    assert_eq!(w.views().compare.section, Section::Buffers);
    w.click("Differences: Events");
    assert!(w.has("No event differs.") && w.views().compare.section == Section::Events);
    w.click("Differences: Descriptors");
    // A long row is clipped, but the selected difference shows its full text.
    assert!(w.has_part(&format!("{} {:#x}", d.layout, d.a.unwrap().get())), "{d:?}");
    w.doc().go(0);
    w.harness
        .query_all_by_label_contains("difference 0 ")
        .next()
        .unwrap()
        .click();
    w.settle();
    assert_eq!(
        w.doc().current_event(),
        d.events.0,
        "the event that submits the job is current"
    );
    assert!(
        w.has_part(&format!("field {name}: A {a}, B {b}")),
        "every field is listed below"
    );
    w.harness.get_by_label("Bytes side by side").click_accesskit();
    w.settle();
    assert_eq!(w.views().compare.section, Section::Memory);
    assert_eq!(w.views().compare.byte, d.a.map(|va| va.get()).map(GpuVa::new));
}

#[test]
fn a_recording_is_equal_to_itself() {
    let mut w = Window::open();
    compare_with(&mut w, &sample());
    assert!(w.has_part("The recordings are equal") && w.has("No event differs."));
    assert!(!w.has("Next difference"));
}

#[test]
fn unreadable_second_file_keeps_the_previous_comparison() {
    let (mut w, _) = compare_with_changes();
    let bad = w.folder.path().join("bad.kine");
    std::fs::write(&bad, b"not a recording").unwrap();
    compare_with(&mut w, &bad);
    let (title, _) = w.app().notice.clone().expect("a notice is shown");
    assert_eq!(title, "bad.kine was not compared");
    assert!(
        w.has_part("The recordings differ"),
        "the previous comparison is still shown"
    );
    w.run("end-compare");
    assert!(w.has("Compare with file…") && w.doc().comparison.done.is_none());
}

#[test]
fn recordings_of_different_devices_are_compared_with_a_warning() {
    let mut w = Window::open_sample("vecadd.kine");
    compare_with(&mut w, &samples().join("vecadd-g52.kine"));
    let c = w.doc().comparison.done.clone().expect("the comparison is done");
    assert!(
        !c.warnings.is_empty() && w.has_part("different devices"),
        "{:?}",
        c.warnings
    );
}

#[test]
fn newer_comparison_cancels_the_running_one() {
    let mut w = Window::open();
    let ctx = w.harness.ctx.clone();
    let (path, _) = write_diverging_sample(w.folder.path(), 1);
    w.app().compare(&ctx, ComparisonSource::File(path));
    let (_, first) = w.doc().comparison.running.clone().expect("the comparison is running");
    w.app().compare(&ctx, ComparisonSource::File(sample()));
    assert!(first.check().is_err(), "the first comparison is cancelled");
    w.settle();
    assert!(w.has_part("The recordings are equal"));
}

#[test]
fn only_a_diverging_replay_opens_the_comparison() {
    let mut w = Window::open();
    w.run("replay");
    assert!(w.is_panel_active("replay") && w.doc().comparison.done.is_none());
    let (path, events) = write_diverging_sample(w.folder.path(), 2);
    let ctx = w.harness.ctx.clone();
    w.app().open(&ctx, path);
    w.settle();
    w.run("replay");
    assert!(w.is_panel_active("compare"));
    let c = w
        .doc()
        .comparison
        .done
        .clone()
        .expect("the outcome is compared with its recording");
    assert!(matches!(c.other.source, ComparisonSource::Outcome(_)));
    assert_eq!(
        (w.doc().current_event(), w.doc().selection().clone()),
        (events[0], Selection::Divergence(0))
    );
    let step = w.doc().step().and_then(|s| c.steps.at(s)).unwrap();
    assert_eq!((step.change, step.a), (ChangeKind::Changed, Some(events[0])));
}

#[test]
fn sums_of_the_axis_are_the_same_at_every_width() {
    let (mut w, _) = compare_with_changes();
    let c = w.doc().comparison.done.clone().unwrap();
    let n = c.steps.len();
    let count = |cells: Vec<kinescope_session::comparison::Cell>| {
        cells.iter().fold((0u64, 0u64), |(all, differ), x| {
            let sum: u32 = x.sums.by_change.iter().sum();
            (all + u64::from(sum), differ + u64::from(x.sums.differ()))
        })
    };
    let whole = (0.0, n as f64);
    let each = count(c.steps.cells(whole, n as usize));
    assert_eq!(each.0, n);
    for pixels in [1, 2, 3, 7, 16, 50, 100, 333] {
        assert_eq!(count(c.steps.cells(whole, pixels)), each, "{pixels} pixels");
    }
}

/// Returns a recording that sets a register to `value` and reads it back after other accesses.
fn set_and_read(value: u64) -> Recording {
    let map = RegisterMap::for_gpu(0x6000_0011).unwrap();
    let offset_of = |name: &str| map.find_by_name(name).unwrap().offset;
    let mut b = EventsBuilder::new();
    let mut put = |write, name: &str, value| {
        let access = Access {
            space: 0,
            write,
            offset: offset_of(name),
            width: 4,
            value,
        };
        b.access(0, 1, access);
    };
    put(false, "GPU_ID", 0x6000_0011);
    put(true, "JS1_CONFIG_NEXT", value);
    for _ in 0..20 {
        put(false, "GPU_ID", 0x6000_0011);
    }
    put(false, "JS1_CONFIG_NEXT", value);
    let mut r = Recording {
        events: b.finish(),
        ..Recording::default()
    };
    r.metadata.identity.gpu_id = 0x6000_0011;
    r.metadata.spaces.push(Space {
        name: "gpu".into(),
        kind: SpaceKind::Registers,
        bytes: 0x4000,
    });
    r
}

/// Compares two recordings of [`set_and_read`] with different values.
fn compare_set_values() -> Window {
    let mut w = Window::from_recording(set_and_read(1));
    let path = w.folder.path().join("other.kine");
    trace_core::container::write(&set_and_read(3), &path, &Progress::new()).unwrap();
    compare_with(&mut w, &path);
    assert_eq!(w.doc().comparison.done.as_ref().unwrap().diff.events.changed, 2);
    w
}

#[test]
fn cause_of_a_difference_is_shown_and_linked() {
    let mut w = compare_set_values();
    let last = w.doc().len() - 1;
    w.doc().go(last);
    w.settle();
    assert!(w.has("Why") && w.has("Rules to ignore this difference"));
    assert!(w.has_part("cause: was set by W JS1_CONFIG_NEXT"));
    let row = w
        .harness
        .query_all_by_label_contains("was set by W JS1_CONFIG_NEXT")
        .next();
    row.unwrap().click_accesskit();
    w.settle();
    assert_eq!(w.doc().current_event(), 1);
    assert!(
        w.has_part("the recordings diverge here"),
        "no difference precedes the write"
    );
    // The command does the same from the list of registers.
    w.doc().go(0);
    w.views().compare.select_section("Registers");
    w.settle();
    assert!(!w.has("Why"), "no row is selected");
    w.click("difference 0 2 accesses JS1_CONFIG_NEXT");
    assert!(w.has("Why"));
    assert!(w.has_part("field "), "the differing fields are shown");
    w.run("go-cause");
    assert_eq!(w.doc().current_event(), 1);
}

#[test]
fn ignored_difference_adds_an_editable_rule() {
    let mut w = compare_set_values();
    w.doc().go(1);
    w.settle();
    w.harness
        .get_by_label("Rule: ignore register JS1_CONFIG_NEXT")
        .click_accesskit();
    w.settle();
    assert!(w.has_part("The recordings are equal"));
    assert!(w.doc().comparison.done.as_ref().unwrap().diff.is_empty());
    w.run("compare-rules");
    assert!(w.has_part("1 rule in force"));
    // An invalid rule reports its position, and the comparison keeps the previous rules.
    w.views().compare.rules.text = "ignore mappings\nignore regster X\n".into();
    w.settle();
    assert!(w.has_part("compare again to apply them"));
    w.click("Compare with these rules");
    assert!(w.has_part("line 2, column 8: 'regster' cannot be ignored"));
    assert_eq!(w.doc().comparison.done.as_ref().unwrap().rules.list.len(), 1);
    // The keyboard alone can edit and apply rules.
    w.views().compare.rules.text = String::new();
    w.settle();
    w.harness.get_by_label("Comparison rules").focus();
    w.settle();
    w.harness.get_by_label("Comparison rules").type_text("ignore mappings");
    w.settle();
    w.harness.key_press_modifiers(egui::Modifiers::SHIFT, egui::Key::Enter);
    w.settle();
    let c = w.doc().comparison.done.clone().unwrap();
    assert_eq!(
        (c.rules.to_string().as_str(), c.diff.events.changed),
        ("ignore mappings\n", 2)
    );
    assert_eq!(
        w.views().compare.rules.text,
        "ignore mappings",
        "no line break was added"
    );
    assert_eq!(w.views().compare.section, Section::Rules, "the panel stays at Rules");
}

#[test]
fn differing_elements_are_grouped_by_decade_and_tolerated() {
    let mut w = compare_edited_replay();
    w.click("Differences: Buffers, pages");
    let c = w.doc().comparison.done.clone().unwrap();
    let role = |name: &str| {
        c.other
            .recording
            .metadata
            .buffers
            .iter()
            .find(|b| b.name == name)
            .unwrap()
            .role
    };
    let differing: Vec<_> = c.diff.buffers.iter().filter(|b| b.differs()).collect();
    let at = differing.iter().position(|b| role(&b.name) == BufferRole::Output);
    let at = at.expect("a computed output differs");
    let first = differing[at];
    w.views().compare.selected = Some(at as u64);
    w.settle();
    let elements = first.elements.as_ref().unwrap();
    let errors = elements.errors.as_ref().unwrap();
    assert!(errors.max_absolute > 0.0);
    for label in ["elements", "differ", "first", "largest", "mean", "relative", "ulp"] {
        assert!(w.has(label), "{label}");
    }
    for d in &errors.histogram {
        assert!(w.has(&format!("error 1e{} to 1e{}: {}", d.exponent, d.exponent + 1, d.pairs)));
    }
    assert!(w.has_part("cause: "), "the cause is at least the job that wrote it");
    let rule = format!("Rule: tolerance buffer {} absolute", first.name);
    let found = w.harness.query_all_by_label_contains(&rule).next();
    found.expect("a tolerance is proposed").click_accesskit();
    w.settle();
    let c = w.doc().comparison.done.clone().unwrap();
    let same = c.diff.buffers.iter().find(|b| b.name == first.name).unwrap();
    assert!(!same.differs() && same.elements.as_ref().unwrap().within > 0);
}
