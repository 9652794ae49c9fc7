//! The sample pipelines: their results are those of the recorded whole, or of an independent computation.

use crate::support::{SIMULATOR, floats, integers, open, root, run_on, sample};
use device_mali::debug::DependencyPolicy;
use kinescope_pipeline::{InputSource, RunVerdict};
use kinescope_session::replay::request::ReplayRequest;
use kinescope_session::targets::Targets;
use kinescope_session::trim_recording::{TrimOptions, trim_to_job_ranges};
use replay_engine::plan::Edits;
use std::path::PathBuf;
use trace_core::progress::Progress;

/// Replays the whole network with an image, and returns its scores.
fn replay_whole(targets: &Targets, image: &[u8]) -> Vec<u8> {
    let recording = trace_core::container::open(&sample("digits.kine")).unwrap();
    let mut edits = Edits::default();
    edits.inputs.insert("image".to_owned(), image.to_vec());
    let request = ReplayRequest {
        target: SIMULATOR.to_owned(),
        edits,
        outputs: vec!["logits".to_owned()],
        ..ReplayRequest::default()
    };
    let mut lease = targets.open(SIMULATOR).unwrap();
    let device = lease.info().clone();
    let mut prepared = request.compile(&recording, targets, &device, &Progress::new()).unwrap();
    let outcome = request.run(&mut prepared, &mut lease, &Progress::new()).unwrap();
    assert!(outcome.computed);
    outcome
        .outputs
        .iter()
        .find(|o| o.name == "logits")
        .unwrap()
        .data
        .clone()
}

#[test]
fn layers_of_the_digit_network_give_the_scores_of_the_whole() {
    let targets = Targets::new(None);
    let mut pipeline = open(&root().join("sample-pipelines/digits/digits.kpipe"));
    assert_eq!(pipeline.warnings, []);
    let images = std::fs::read(sample("digits/held-out/images.npy")).unwrap();
    // Ink from 0 to 16 in bytes, after the header.
    let images = images.get(128..).unwrap();
    for number in [0, 17, 359] {
        let ink = images.chunks_exact(64).nth(number).unwrap();
        let image: Vec<u8> = ink
            .iter()
            .flat_map(|ink| (f32::from(*ink) / 16.0).to_le_bytes())
            .collect();
        pipeline.document.inputs[0].source = InputSource::Values(image.clone());
        let result = run_on(&pipeline, &targets, SIMULATOR).unwrap();
        let report = &result.report;
        assert_eq!((report.verdict, &report.failure), (RunVerdict::Match, &None));
        assert_eq!(report.stages.len(), 6);
        let whole = replay_whole(&targets, &image);
        assert_eq!(*result.outputs[0], whole, "image {number}: bit for bit");
        let scores = floats(&whole);
        let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f64 = scores.iter().map(|s| f64::from(s - max).exp()).sum();
        for (probability, score) in floats(&result.outputs[1]).iter().zip(&scores) {
            let expected = f64::from(score - max).exp() / sum;
            assert!(
                (f64::from(*probability) - expected).abs() <= 1e-6 * expected,
                "{probability} {expected}"
            );
        }
        let best = scores.iter().position(|s| *s == max).unwrap();
        assert_eq!(integers(&result.outputs[2]), [i32::try_from(best).unwrap()]);
        // Stages of one lease share pages. Their recordings read a register whose value a reset changes, so a reset stays.
        let replays: Vec<_> = report.stages.iter().filter(|s| s.kind == "replay").collect();
        assert_eq!(replays[0].reset, None);
        assert!(replays[1..].iter().all(|s| s.reset == Some(true)
            && s.reset_reason.as_deref()
                == Some("event 20 reads COHERENCY_FEATURES before the plan's own reset is complete")));
        assert!(replays[1..].iter().all(|s| s.saved_bytes > 0), "{replays:?}");
        assert_eq!(report.resets, 3);
    }
}

#[test]
fn input_that_the_recording_overwrites_is_an_error() {
    // The whole network writes the features itself, after the CPU's bytes of the start.
    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("pool.kine");
    let recording = trace_core::container::open(&sample("digits.kine")).unwrap();
    let options = TrimOptions {
        needs: DependencyPolicy::Bytes,
        ..TrimOptions::default()
    };
    let trimmed = trim_to_job_ranges(
        (&recording, "digits.kine".to_owned()),
        &[1..=1],
        &options,
        &Progress::new(),
        || {},
    );
    let bytes = trace_core::container::to_bytes(&trimmed.unwrap().0.trimmed.recording).unwrap();
    std::fs::write(&part, bytes).unwrap();
    let text = std::fs::read_to_string(root().join("sample-pipelines/digits/digits.kpipe")).unwrap();
    let stage = text
        .split("[stages.pool]")
        .nth(1)
        .unwrap()
        .split("[stages.conv2]")
        .next()
        .unwrap();
    let stage = stage
        .replace("pool.kine.gz", "pool.kine")
        .replace("conv1.features", "inputs.features");
    let text = format!(
        "version = 1\n[inputs.features]\ntype = \"f32\"\nshape = [512]\n[stages.pool]{stage}[outputs]\no = \"pool.pooled\"\n"
    );
    let path = folder.path().join("p.kpipe");
    std::fs::write(&path, text).unwrap();
    let mut pipeline = open(&path);
    pipeline.document.inputs[0].source = InputSource::Values(1f32.to_le_bytes().repeat(512));
    let result = run_on(&pipeline, &Targets::new(None), SIMULATOR).unwrap();
    assert_eq!(result.report.verdict, RunVerdict::Failed);
    let failure = result.report.failure.unwrap();
    assert!(
        failure.starts_with("stage 'pool': input 'features' reaches no job: before the first one, at event"),
        "{failure}"
    );
}

/// k-means on 32 points of 2 coordinates, in the order of the module's additions.
fn cluster(points: &[f32], start: &[f32]) -> (Vec<i32>, Vec<f32>, u32) {
    let mut centres = start.to_vec();
    let mut labels = vec![-1; 32];
    for round in 1..=30 {
        let nearest = |i: usize| {
            let distance = |c: &usize| {
                let [dx, dy] = [0, 1].map(|axis| f64::from(points[2 * i + axis] - centres[2 * c + axis]));
                dx * dx + dy * dy
            };
            let best = (0..4).min_by(|a, b| distance(a).total_cmp(&distance(b)));
            i32::try_from(best.unwrap()).unwrap()
        };
        let new: Vec<i32> = (0..32).map(nearest).collect();
        let is_same = new == labels;
        labels = new;
        for cluster in 0..4usize {
            for axis in 0..2 {
                let of_cluster = (0..32).filter(|i| labels[*i] == i32::try_from(cluster).unwrap());
                let (mut sum, mut count) = (0f32, 0f32);
                for i in of_cluster {
                    sum += points[2 * i + axis];
                    count += 1.0;
                }
                if count > 0.0 {
                    centres[2 * cluster + axis] = sum / count;
                }
            }
        }
        if is_same {
            return (labels, centres, round);
        }
    }
    panic!("no end");
}

#[test]
fn k_means_converges_to_the_clusters_of_another_implementation() {
    let pipeline = open(&root().join("sample-pipelines/kmeans/kmeans.kpipe"));
    let result = run_on(&pipeline, &Targets::new(None), SIMULATOR).unwrap();
    assert_eq!(
        (result.report.verdict, &result.report.failure),
        (RunVerdict::Match, &None)
    );
    let values = |input: usize| match &pipeline.document.inputs[input].source {
        InputSource::Values(bytes) => floats(bytes),
        other => panic!("{other:?}"),
    };
    let (labels, centres, rounds) = cluster(&values(0), &values(1));
    assert!(rounds > 3, "the sample needs several rounds, it has {rounds}");
    let one = &result.report.loops[0];
    assert_eq!((one.rounds, one.ended_by, one.value), (rounds, "condition", 0.0));
    assert_eq!(integers(&result.outputs[0]), labels);
    let matrix = floats(&result.outputs[1]);
    for cluster in 0..4 {
        for axis in 0..2 {
            let (got, expected) = (matrix[32 * axis + cluster], centres[2 * cluster + axis]);
            assert_eq!(got.to_bits(), expected.to_bits(), "centre {cluster}, axis {axis}");
        }
    }
    let replays = result.report.stages.iter().filter(|s| s.stage == "products");
    assert_eq!(
        replays.filter_map(|s| s.round).collect::<Vec<_>>(),
        (1..=rounds).collect::<Vec<_>>()
    );
}

/// Returns the folder of published recordings, or `None` with a line about it.
fn published() -> Option<PathBuf> {
    let folder =
        std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(|| root().join("../shared/recordings"), Into::into);
    let alexnet = folder.join("gpureplay/alexnet");
    if alexnet.join("gr_io_history").exists() {
        return Some(alexnet);
    }
    println!("skipped: no recordings in {}", folder.display());
    None
}

#[test]
fn sixty_jobs_of_alexnet_run_in_three_parts() {
    let Some(source) = published() else { return };
    let opened = kinescope_session::source::open(&source, &Progress::new(), || {}).unwrap();
    let whole = opened.opened.recording;
    let folder = tempfile::tempdir().unwrap();
    let options = TrimOptions {
        needs: DependencyPolicy::Nothing,
        ..TrimOptions::default()
    };
    for part in 0..3u64 {
        let range = 20 * part..=20 * part + 19;
        let cut = trim_to_job_ranges(
            (&whole, "alexnet".to_owned()),
            &[range],
            &options,
            &Progress::new(),
            || {},
        );
        let bytes = trace_core::container::to_bytes(&cut.unwrap().0.trimmed.recording).unwrap();
        std::fs::write(folder.path().join(format!("part{part}.kine")), bytes).unwrap();
    }
    let text = r#"version = 1
[inputs.image]
type = "f32"
shape = [154587]
[stages.first]
recording = "part0.kine"
inputs = { input = "inputs.image" }
outputs = ["sync8"]
[stages.second]
recording = "part1.kine"
inputs = { sync8 = "first.sync8" }
outputs = ["sync10"]
[stages.third]
recording = "part2.kine"
inputs = { sync10 = "second.sync10" }
outputs = ["output"]
[outputs]
scores = "third.output"
"#;
    let path = folder.path().join("p.kpipe");
    std::fs::write(&path, text).unwrap();
    let mut pipeline = open(&path);
    pipeline.document.inputs[0].source = InputSource::Values(0.5f32.to_le_bytes().repeat(154_587));
    let result = run_on(&pipeline, &Targets::new(None), SIMULATOR).unwrap();
    let report = &result.report;
    assert_eq!((report.verdict, &report.failure), (RunVerdict::Match, &None));
    assert_eq!(result.outputs[0].len(), 4032);
    // The published dumps hold no weights, and the simulator does not model their shaders.
    assert!(
        report
            .stages
            .iter()
            .all(|s| s.computed == Some(false) && s.message.contains("20 of 20 jobs not computed"))
    );
    // The parts share most of their pages.
    for stage in &report.stages[1..] {
        assert!(stage.saved_bytes > stage.uploaded_bytes, "{stage:?}");
    }
}
