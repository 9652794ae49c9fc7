//! The assignment of stages to targets: labels, and targets that serve more than one label.

use crate::support::{TestFolder, run_on};
use kinescope_pipeline::{Pipeline, RunVerdict};
use kinescope_session::targets::Targets;

/// Returns a pipeline of additions that do not depend on each other, each with its further keys.
fn additions(stages: &[(&str, &str)]) -> TestFolder {
    let mut text = "version = 1\n".to_owned();
    for (name, keys) in stages {
        text += &format!("[stages.{name}]\nrecording = \"SAMPLES/vecadd.kine\"\noutputs = [\"c\"]\n{keys}\n");
    }
    text += "[outputs]\n";
    for (name, _) in stages {
        text += &format!("{name} = \"{name}.c\"\n");
    }
    TestFolder::new(&text, "")
}

/// Returns four additions without labels.
fn four() -> TestFolder {
    additions(&[("c1", ""), ("c2", ""), ("c3", ""), ("c4", "")])
}

#[test]
fn one_target_serves_a_label_and_the_other_stages() {
    let pipeline = additions(&[
        ("add", ""),
        ("again", "target = \"second\""),
        ("third", "target = \"last\""),
    ])
    .open();
    let targets = Targets::new(None);
    for on in [
        "second=software:mali-g71,last=software:mali-g71,software:mali-g71",
        "software:mali-g71,second=software:mali-g71,last=software:mali-g71",
        "second=software:mali-g71,last=software:mali-g71",
    ] {
        // The target has one lease, which a second one would find held.
        let result = run_on(&pipeline, &targets, on).unwrap();
        assert_eq!(
            (result.report.verdict, &result.report.failure),
            (RunVerdict::Match, &None),
            "{on}"
        );
    }
    for on in [
        "software:mali-g71,software:mali-g71,second=software:mali-g71",
        "second=software:mali-g71,second=software:mali-g71",
        "second=software:mali-g71,second=software:mali-g52",
    ] {
        let error = run_on(&pipeline, &targets, on).unwrap_err().to_string();
        assert!(error.contains("is given twice"), "{error}");
    }
}

#[test]
fn label_that_no_stage_has_is_refused_with_the_labels_of_the_pipeline() {
    let targets = Targets::new(None);
    let refused = |pipeline: &Pipeline| {
        let on = "secnd=software:mali-g71,software:mali-g71";
        run_on(pipeline, &targets, on).unwrap_err().to_string()
    };
    let pipeline = additions(&[("add", "target = \"second\""), ("again", "target = \"first\"")]).open();
    assert_eq!(
        refused(&pipeline),
        "no stage has the label 'secnd' of secnd=software:mali-g71 (labels of the pipeline: first, second)"
    );
    assert_eq!(
        refused(&four().open()),
        "no stage has the label 'secnd' of secnd=software:mali-g71 (the pipeline has no labels)"
    );
}
