//! The assignment of stages to targets: labels, devices of agents, and targets that serve more than one label.

use crate::support::{SIMULATOR, TestFolder, run_on};
use device_mali::{Model, SoftwareMali};
use kinescope_pipeline::{NamedTarget, Pipeline, RunVerdict, assign};
use kinescope_session::targets::Targets;
use replay_engine::device::RegisterFactory;
use replay_engine::serve::{Options, Server};
use replay_engine::wire::KeyStore;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

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

/// Serves simulators as an agent to the client with the keys in a folder, which knows it as `farm`.
fn serve_farm(keys: &Path, models: &[Model]) {
    let agent = Arc::new(KeyStore::open(&keys.join("agent")).unwrap());
    let client = KeyStore::open(&keys.join("client")).unwrap();
    agent.pin("bench", client.key_pair().public(), "").unwrap();
    let factories = models.iter().map(|model| {
        let model = *model;
        let factory: RegisterFactory = Arc::new(move || Ok(Box::new(SoftwareMali::new(model))));
        factory.into()
    });
    let factories: Vec<_> = factories.collect();
    let server = Server::new(&factories, Some(Arc::clone(&agent)), Options::default()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    client.pin("farm", agent.key_pair().public(), &address).unwrap();
    std::thread::spawn(move || server.serve_tcp(&listener).unwrap());
}

/// Returns the target of each stage that replays, in the order of the pipeline file.
fn assigned(pipeline: &Pipeline, targets: &Targets, on: &str) -> Vec<String> {
    let named = NamedTarget::parse_list(on).unwrap();
    let assigned = assign(pipeline, targets, &named).unwrap().targets;
    let names = assigned.iter().flatten().map(|number| named[*number].name.clone());
    names.collect()
}

#[test]
fn device_of_an_agent_takes_its_share_of_the_stages() {
    let keys = tempfile::tempdir().unwrap();
    serve_farm(keys.path(), &[Model::G71]);
    let targets = Targets::new(Some(keys.path().join("client")));
    let pipeline = four().open();
    for on in [
        "software:mali-g71,agent:farm/mali-g71",
        "agent:farm/mali-g71,software:mali-g71",
    ] {
        let assigned = assigned(&pipeline, &targets, on);
        let here = assigned.iter().filter(|name| *name == SIMULATOR).count();
        assert_eq!((here, assigned.len()), (2, 4), "{on}: {assigned:?}");
    }
    let result = run_on(&pipeline, &targets, "software:mali-g71,agent:farm/mali-g71").unwrap();
    assert_eq!(
        (result.report.verdict, &result.report.failure),
        (RunVerdict::Match, &None)
    );
    let on_agent = |target: &Option<String>| target.as_deref() == Some("agent:farm/mali-g71");
    assert_eq!(result.report.stages.iter().filter(|s| on_agent(&s.target)).count(), 2);
}

#[test]
fn device_of_an_agent_that_does_not_fit_gets_no_stage() {
    let keys = tempfile::tempdir().unwrap();
    serve_farm(keys.path(), &[Model::G71, Model::G52]);
    let targets = Targets::new(Some(keys.path().join("client")));
    let pipeline = four().open();
    let on = "agent:farm/mali-g71,agent:farm/mali-g52";
    assert_eq!(
        assigned(&pipeline, &targets, on),
        vec!["agent:farm/mali-g71".to_owned(); 4]
    );
    let result = run_on(&pipeline, &targets, on).unwrap();
    assert_eq!(
        (result.report.verdict, &result.report.failure),
        (RunVerdict::Match, &None)
    );
}

#[test]
fn agent_out_of_reach_gets_stages_only_where_nothing_else_fits() {
    let keys = tempfile::tempdir().unwrap();
    let targets = Targets::new(Some(keys.path().join("client")));
    let pipeline = four().open();
    let on = "agent://127.0.0.1:1/mali-g71,software:mali-g71";
    assert_eq!(assigned(&pipeline, &targets, on), vec![SIMULATOR.to_owned(); 4]);
    let named = NamedTarget::parse_list(on).unwrap();
    let unused = assign(&pipeline, &targets, &named).unwrap().unused;
    let message = "agent://127.0.0.1:1/mali-g71 gets no stage, because its device is unknown: ";
    assert!(unused.len() == 1 && unused[0].starts_with(message), "{unused:?}");
    let on = "agent://127.0.0.1:1/mali-g71,qemu:edu";
    assert_eq!(
        assigned(&pipeline, &targets, on),
        vec!["agent://127.0.0.1:1/mali-g71".to_owned(); 4]
    );
    // The run says why the agent cannot be reached.
    let failure = run_on(&pipeline, &targets, on).unwrap().report.failure.unwrap();
    assert!(failure.contains("127.0.0.1:1"), "{failure}");
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
