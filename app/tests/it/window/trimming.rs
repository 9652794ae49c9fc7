//! Tests of the sheet that trims or bisects the open recording: the files that it writes, and its messages.

use crate::common::{Window, samples, write_diverging_sample};
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use kinescope::theme::ThemeChoice;
use std::path::{Path, PathBuf};
use trace_core::Recording;
use trace_core::container;

/// Opens a sample, and chooses the file to write.
fn open(name: &str) -> (Window, PathBuf) {
    let w = Window::open_file(&samples().join(name), ThemeChoice::Dark, 1.0);
    let file = w.folder.path().join("part.kine");
    w.will_choose(&file);
    (w, file)
}

fn written(w: &mut Window, file: &Path) -> Recording {
    container::open(file).unwrap_or_else(|e| panic!("{e}: {:?}", w.app().last_error()))
}

/// Sets a field of the sheet.
fn set(w: &mut Window, change: impl FnOnce(&mut kinescope::window::TrimSheet)) {
    change(w.app().trim_sheet.as_mut().expect("the sheet is open"));
    w.settle();
}

#[test]
fn jobs_are_trimmed_with_what_they_need() {
    let (mut w, file) = open("twopass.kine");
    let jobs = w.doc().derived.jobs.len();
    assert!(jobs > 1, "{jobs} jobs");
    w.run("trim");
    set(&mut w, |s| s.jobs = format!("0..={jobs}"));
    assert!(w.has_part(&format!("▲ job {jobs} does not exist")));
    assert!(w.harness.get_by_label("Trim…").accesskit_node().is_disabled());
    set(&mut w, |s| s.jobs = "0..1".to_owned());
    assert!(w.has("! 0..1 ends with job 0"));
    w.click("Trim…");
    assert!(w.app().trim_sheet.is_none());
    let part = written(&mut w, &file);
    assert!(part.events.len() < w.doc().recording.events.len());
    let (message, path) = w.app().saved.clone().expect("the window names the file");
    assert!(
        message.starts_with(&format!("Saved part.kine: 1 of {jobs} jobs, ")),
        "{message}"
    );
    assert_eq!(path, file);
    assert!(w.run("trim"), "the sheet opens again");
}

#[test]
fn needed_output_can_be_left_out() {
    let (mut w, file) = open("twopass.kine");
    let last = w.doc().derived.jobs.len() - 1;
    let events = |w: &mut Window, policy: &str| {
        w.run("trim");
        set(w, |s| s.jobs = last.to_string());
        w.click("Replacement of needed output");
        w.click(policy);
        w.click("Trim…");
        written(w, &file).events.len()
    };
    let whole = events(&mut w, "keep the jobs that write it");
    let alone = events(&mut w, "leave it out");
    assert!(alone < whole, "{alone} of {whole} events");
    w.run("trim");
    w.click("only what the kept jobs access");
    assert!(w.app().trim_sheet.as_ref().unwrap().touched);
    w.click("Trim…");
    written(&mut w, &file);
}

#[test]
fn events_are_trimmed_and_escape_closes_the_sheet() {
    let (mut w, file) = open("vecadd.kine");
    w.run("trim");
    w.click("events");
    w.enter("Events to keep", "x");
    assert!(w.has_part("is not a range") && w.app().trim_sheet.is_some());
    set(&mut w, |s| s.events = "0..=9".to_owned());
    w.click("Trim…");
    assert_eq!(written(&mut w, &file).events.len(), 10);
    w.run("trim");
    w.harness.key_press(egui::Key::Escape);
    w.settle();
    assert!(w.app().trim_sheet.is_none());
}

#[test]
fn bisection_writes_the_shortest_part_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write_diverging_sample(folder.path(), 1);
    let mut w = Window::open_file(&path, ThemeChoice::Dark, 1.0);
    let file = w.folder.path().join("shortest.kine");
    w.will_choose(&file);
    w.run("bisect");
    assert!(w.has("software:mali-g71") && w.has("maximum number of candidates"));
    w.click("keep all events around the jobs");
    assert!(w.app().trim_sheet.as_ref().unwrap().jobs_only);
    w.click("Bisect…");
    let part = written(&mut w, &file);
    assert!(part.events.len() < w.doc().recording.events.len());
    let (message, _) = w.app().saved.clone().unwrap();
    assert!(
        message.starts_with("Saved shortest.kine: ") && message.ends_with(" events"),
        "{message}"
    );
    w.run("bisect");
    set(&mut w, |s| s.candidates = 1);
    w.click("Bisect…");
    let (message, _) = w.app().saved.clone().unwrap();
    assert!(
        message.ends_with(", the shortest part of the tested candidates"),
        "{message}"
    );
}

#[test]
fn recording_that_replays_well_has_nothing_to_bisect() {
    let (mut w, file) = open("vecadd.kine");
    w.run("bisect");
    w.click("Bisect…");
    let error = w.app().last_error().unwrap_or_default().to_owned();
    assert!(error.contains("The whole recording shows no failure"), "{error}");
    assert!(!file.exists());
}
