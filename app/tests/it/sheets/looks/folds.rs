//! Tests that repeated findings and missing memory fold into one row, and which accesses Register lists.

use crate::common::{Window, samples};
use egui_kittest::kittest::Queryable as _;
use kinescope::panels::gpu::register::AccessFilter;
use kinescope::theme::ThemeChoice;
use kinescope_files::scene::Selection;
use kinescope_session::page_runs::PageContent;
use trace_core::finding::{Finding, FindingKind};
use trace_core::{GpuVa, RegOffset};

fn part(w: &Window, label: &str) -> usize {
    w.harness.query_all_by_label_contains(label).count()
}

#[test]
fn findings_of_pages_without_content_fold_into_one_row() {
    let mut w = Window::open();
    let mut derived = (*w.doc().derived).clone();
    for i in 0..5u64 {
        let message = format!(
            "{} pages are mapped here, but the recording does not hold their contents",
            16_385 + i
        );
        derived.findings.push(Finding::new(
            FindingKind::MappedWithoutContent,
            format!("{:#x}", i << 24),
            message,
        ));
    }
    let last = derived.findings.len() as u32 - 1;
    w.doc().derived = std::sync::Arc::new(derived);
    w.run("show-problems");
    assert_eq!(
        part(&w, "finding "),
        (last - 4) as usize,
        "only the other findings have rows"
    );
    w.click("Unfold mapped-without-content");
    assert_eq!(part(&w, "finding "), last as usize + 1);
    w.click("Unfold mapped-without-content");
    // Going to a folded finding shows its row.
    w.doc().go_finding(last);
    w.settle();
    assert!(w.has(&format!("finding {last} mapped-without-content")));
}

#[test]
fn missing_memory_is_one_row_with_a_link_past_it() {
    let mut w = Window::open_file(&samples().join("vecadd.kine"), ThemeChoice::Dark, 1.0);
    w.run("show-memory");
    let run = w.doc().derived.spaces[0].runs[0];
    // Before the first mapping nothing is mapped.
    w.show_memory(0, run.va - GpuVa::new(0x2000), 1);
    w.settle();
    let top = w.views().memory.top;
    let label = format!("next recorded bytes after {top:#x}");
    assert!(w.has(&label), "{label}");
    assert_eq!(part(&w, &label), 1, "the message is shown once");
    w.click(&label);
    let runs = w.doc().derived.spaces[0].runs.clone();
    let recorded_run = runs.iter().find(|r| r.content != PageContent::None).unwrap();
    assert_eq!(w.views().memory.top, recorded_run.va);
}

#[test]
fn a_register_lists_all_accesses_or_writes_or_changes() {
    let mut w = Window::open();
    let derived = w.doc().derived.clone();
    let rows = |w: &Window| part(w, "access at event ");
    let show = |w: &mut Window, offset: u32, event: u64| {
        w.doc().go_with(event, Selection::Register(RegOffset::new(offset)));
        w.run("show-register");
    };
    // The first register is only read.
    let read = derived
        .registers
        .iter()
        .find(|(_, f)| f.accesses.writes().is_empty() && f.accesses.len() > 2);
    let (offset, fact) = read.expect("a register is read several times and never written");
    show(&mut w, offset.get(), fact.accesses.all().first().unwrap());
    assert!(rows(&w) > 1);
    w.click("List writes");
    assert!(rows(&w) == 0 && part(&w, "Nothing writes this register") == 1);
    w.click("List changes");
    assert_eq!(w.views().registers.filter, AccessFilter::Changes);
    let value = |w: &mut Window, e: u64| w.doc().recording.events.access(e as usize).unwrap().value;
    let events: Vec<u64> = fact.accesses.all().iter().collect();
    for pair in events.windows(2).take(5) {
        let changed = value(&mut w, pair[0]) != value(&mut w, pair[1]);
        assert_eq!(w.has(&format!("access at event {}", pair[1])), changed, "{pair:?}");
    }
    // The second register is written several times.
    let written = derived.registers.iter().find(|(_, f)| f.accesses.writes().len() > 1);
    let (offset, fact) = written.expect("a register is written several times");
    w.click("List all");
    show(&mut w, offset.get(), fact.accesses.writes().first().unwrap());
    let all = rows(&w);
    w.click("List writes");
    assert_eq!(rows(&w), all.min(fact.accesses.writes().len()));
}
