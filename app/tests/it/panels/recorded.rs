//! Tests of recorded data besides events: outcomes of jobs and shapes of buffers.

use crate::common::{Window, samples};
use kinescope::panels::runs::inputs::shape::{Layout, Shape};
use kinescope_files::scene::Selection;
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::recording::{ChainReport, ElementType};
use trace_import::{OpenOptions, Opened};

fn recording() -> Recording {
    trace_core::container::open(&samples().join("vecadd.kine")).unwrap()
}

#[test]
fn job_shows_why_its_shader_did_not_run() {
    let mut r = recording();
    let mut w = Window::from_recording(r.clone());
    w.settle();
    let submit = w.doc().derived.jobs[0].submit;
    r.register_trace_mut().unwrap().chain_reports = vec![ChainReport {
        submit_event: submit,
        status: 1,
        computed: Some(false),
        reason: Some("nothing is drawn here".into()),
    }];
    let mut w = Window::from_recording(r);
    w.settle();
    assert_eq!(w.doc().derived.jobs[0].report.as_ref().unwrap().computed, Some(false));
    w.run("show-jobs");
    w.doc().go_job(0);
    w.settle();
    assert!(w.has_part("! not computed"));
    assert!(w.has_part("nothing is drawn here"));
}

#[test]
fn picture_uses_the_recorded_shape() {
    let mut r = recording();
    let shape = |w: &mut Window| {
        w.run("show-inputs");
        w.doc().select(Selection::Buffer("a".into()));
        w.settle();
        let view = w.views().inputs.clone();
        let buffer = w.doc().recording.buffer("a").unwrap().clone();
        view.shape_of(w.doc(), &buffer, ElementType::F32).unwrap()
    };
    let square = shape(&mut Window::from_recording(r.clone()));
    assert_eq!((square.width, square.height), (32, 32));
    r.metadata.buffer_shapes = [("a".into(), vec![16, 64]), ("b".into(), vec![3])].into();
    let mut w = Window::from_recording(r);
    let report = shape(&mut w);
    let expected = Shape {
        width: 64,
        height: 16,
        tiles: 1,
        layout: Layout::Tiles,
    };
    assert_eq!(report, expected);
    assert_eq!(w.doc().derived.shapes.len(), 1, "a shape that does not fit is ignored");
}

#[test]
fn inspector_describes_an_undecoded_access() {
    let log = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../trace-core/import/tests/mmio/undecoded.txt"
    );
    let opened = trace_import::open(log.as_ref(), &OpenOptions::default(), &Progress::new());
    let r = opened.and_then(Opened::into_recording).unwrap();
    let mut w = Window::from_recording(r);
    w.doc().go(5);
    w.settle();
    assert!(w.has_part("bar0+0x0 · undecoded access of 4 bytes by the instruction f3 a5 f6 …"));
    let describe =
        |f: &trace_core::finding::Finding| f.message.starts_with("28 accesses were recorded without the value");
    assert!(w.doc().derived.findings.iter().any(describe));
}
