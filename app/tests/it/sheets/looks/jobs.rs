//! Tests of what belongs to a job: the writes that prepare it, the buffers that it reaches, and its end.

use crate::common::Window;
use egui_kittest::kittest::Queryable as _;
use kinescope_files::scene::Selection;
use kinescope_session::job_buffers;

#[test]
fn writes_that_prepare_a_job_belong_to_it() {
    let mut w = Window::open();
    w.run("show-events");
    w.views().events.filter = "job = 1 and write".into();
    w.settle();
    let rows = w.views().events.rows.clone().expect("the filter has rows");
    let doc = w.doc();
    let names: Vec<String> = rows
        .iter()
        .filter_map(|e| doc.recording.events.access(e as usize))
        .map(|a| doc.derived.register_name(a.offset))
        .collect();
    for part in [
        "HEAD_NEXT_LO",
        "HEAD_NEXT_HI",
        "AFFINITY_NEXT_LO",
        "CONFIG_NEXT",
        "FLUSH_ID_NEXT",
        "COMMAND_NEXT",
    ] {
        assert_eq!(
            names.iter().filter(|n| n.contains(part)).count(),
            1,
            "{part} in {names:?}"
        );
    }
    let first = rows.get(0).unwrap();
    let job = doc.derived.job_prepared_at(&doc.recording, first).map(|j| j.index);
    assert_eq!(job, Some(1));
}

#[test]
fn inspector_shows_the_job_that_a_write_starts() {
    let mut w = Window::open();
    let j = w.doc().derived.jobs[0].clone();
    w.doc().go(j.submit);
    w.settle();
    let part = |w: &Window, l: &str| w.harness.query_all_by_label_contains(l).count();
    assert_eq!(part(&w, "starts job 0, "), 1);
    assert_eq!(part(&w, &format!("header {:#x}", j.head_va)), 1);
    assert!(w.has("on replay wait for interrupt, limit 5 s"));
    let done = j.done.unwrap();
    w.harness
        .query_all_by_label_contains("done after ")
        .next()
        .expect("the job has an end")
        .click();
    w.settle();
    assert_eq!(
        (w.doc().current_event(), w.doc().selection().clone()),
        (done, Selection::Job(0))
    );
}

#[test]
fn buffers_in_job_descriptors_are_listed_first() {
    let mut w = Window::open_sample("vecadd.kine");
    let doc = w.doc();
    let j = doc.derived.jobs[0].clone();
    assert!(
        j.chain.space.is_some(),
        "the slot's configuration names the address space"
    );
    let list = job_buffers::find_reachable_buffers(&doc.recording, &j);
    let names: Vec<String> = list
        .iter()
        .filter(|r| r.is_pointed_to)
        .map(|r| doc.recording.metadata.buffers[r.buffer as usize].name.clone())
        .collect();
    assert!(!names.is_empty() && list.iter().all(|r| r.rights & 1 != 0), "{list:?}");
    assert!(list.is_sorted_by_key(|r| !r.is_pointed_to));
    w.doc().go_job(0);
    w.settle();
    let label = format!("reach {}", names[0]);
    assert!(w.has(&label), "{label}");
}

#[test]
fn a_row_of_a_job_has_its_submit_slot_duration_end_and_kind() {
    let mut w = Window::open();
    w.run("show-jobs");
    for (job, cells) in [
        ("job 0", ["0", "96", "1", "40.25 µs", "97", "write-value"]),
        ("job 1", ["1", "108", "1", "40.25 µs", "109", "null, chain of 8"]),
        ("job 2", ["2", "120", "0", "40.25 µs", "121", "write-value, chain of 2"]),
    ] {
        assert_eq!(w.row_texts(job), cells);
    }
}

#[test]
fn the_end_of_a_job_is_a_link_in_the_list() {
    let mut w = Window::open();
    w.run("show-jobs");
    let done = w.doc().derived.jobs[1].done.unwrap();
    w.click(&format!("job 1 done at event {done}"));
    assert_eq!(
        (w.doc().current_event(), w.doc().selection().clone()),
        (done, Selection::Job(1))
    );
}
