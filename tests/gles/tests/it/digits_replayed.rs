//! Replays of the network's committed recording on the simulated Mali with other images.
//!
//! All 360 held-out images must have the class and the scores of the reference network.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

use device_mali::{Model, SoftwareMali};
use gles_programs::compare::compare;
use gles_programs::digits::{self, HELD_OUT, TOLERANCE};
use gles_programs::work::{Element, floats};
use replay_engine::compile::compile;
use replay_engine::device::Target as _;
use replay_engine::plan::{CompileOptions, Edits};
use replay_engine::run::{Outcome, Verdict, run};
use replay_engine::verify::verify;
use trace_core::Recording;
use trace_core::progress::Progress;
use trace_core::recording::{BufferRole, ElementType};

fn recording() -> Recording {
    let path = digits::folder().join("../digits.kine");
    trace_core::container::open(&path).unwrap()
}

/// Replays the recording with another image, by the plan that an agent would get.
fn replay(recording: &Recording, image: Option<&[f32]>) -> (Vec<f32>, Outcome) {
    let mut device = SoftwareMali::new(Model::G71);
    let mut edits = Edits::default();
    if let Some(image) = image {
        edits.inputs.insert("image".into(), floats(image));
    }
    let options = CompileOptions {
        outputs: vec!["logits".into()],
        ..CompileOptions::default()
    };
    let c = compile(recording, &edits, &device.info(), &options, &Progress::new()).unwrap();
    verify(&c.plan, &c.pages, &device.info()).unwrap();
    let o = run(&c.plan, &c.pages, &mut device, &Progress::new());
    let logits = o.outputs.iter().find(|b| b.name == "logits").unwrap();
    (digits::numbers(&logits.data), o)
}

#[test]
fn the_recording_names_its_image_its_scores_and_its_weights() {
    let r = recording();
    let image = r.buffer("image").unwrap();
    assert_eq!(
        (image.role, image.element, image.bytes),
        (BufferRole::Input, ElementType::F32, 8 * 8 * 4)
    );
    let logits = r.buffer("logits").unwrap();
    assert_eq!(
        (logits.role, logits.element, logits.bytes),
        (BufferRole::Output, ElementType::F32, 10 * 4)
    );
    for name in [
        "conv1.weight",
        "conv1.bias",
        "conv2.weight",
        "conv2.bias",
        "dense.weight",
        "dense.bias",
    ] {
        assert_eq!(r.buffer(name).unwrap().role, BufferRole::Weights, "{name}");
    }
}

#[test]
fn digits_replay_matches_and_runs_every_shader() {
    let (scores, o) = replay(&recording(), None);
    assert_eq!(o.verdict, Verdict::Match, "{:?}", o.failure);
    assert!(o.computed && !o.jobs().is_empty());
    let recorded = digits::held_out(&digits::folder())
        .unwrap()
        .swap_remove(digits::RECORDED);
    compare(Element::F32, &floats(&scores), &floats(&recorded.scores), TOLERANCE).unwrap();
}

#[test]
fn held_out_images_match_reference_class_and_scores() {
    let r = recording();
    let all = digits::held_out(&digits::folder()).unwrap();
    assert_eq!(all.len(), HELD_OUT);
    let (mut worst, mut right) = (0f64, 0);
    for (n, h) in all.iter().enumerate() {
        let (scores, o) = replay(&r, Some(&h.image));
        assert!(o.computed, "image {n}: {:?}", o.failure);
        assert_eq!(digits::class(&scores), digits::class(&h.scores), "image {n}");
        let off = compare(Element::F32, &floats(&scores), &floats(&h.scores), TOLERANCE);
        worst = worst.max(off.unwrap_or_else(|e| panic!("image {n}: {e}")));
        right += usize::from(digits::class(&scores) == usize::from(h.label));
    }
    println!("{HELD_OUT} images, scores at most {worst:.1e} off the reference's, {right} correct");
}
