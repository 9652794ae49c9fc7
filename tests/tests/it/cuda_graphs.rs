//! CUDA graphs, recorded launch by launch and replayed on the stand-in for the driver. Covers changed nodes, node
//! attributes, copies through the host, and ranges that end in a graph.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::json;
use trace_core::recording::{CALL_OF_GRAPH, CallEvent, LaunchRow};
use whole_program_tests::cuda::{CudaStandIn, RecordedProgram};

/// Returns the launches that graphs made.
fn graph_launches(recorded: &RecordedProgram) -> Vec<LaunchRow> {
    let r = recorded.open();
    let calls = (0..r.events.len()).filter_map(|at| r.events.call(at));
    let launches = calls.filter_map(|call| match call {
        CallEvent::Launch(l) if l.flags & CALL_OF_GRAPH != 0 => Some(l),
        _ => None,
    });
    launches.collect()
}

#[test]
fn node_changes_of_an_instantiated_graph_are_recorded() {
    for way in ["driver", "dlsym", "library"] {
        let cuda = CudaStandIn::default();
        let recorded = cuda.record_checked("nodes", &[], &["nodes", "--via", way]);
        assert_eq!(recorded.findings(), [""; 0], "{way}");
        cuda.replay_checked(&recorded, &json!({}), &[]);
        cuda.replay_checked(&recorded, &json!({"graph": true, "repeat": 2}), &[]);
    }
}

#[test]
fn nodes_keep_their_clusters_and_cooperative_launches() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("clusters", &[], &["nodes", "--cluster"]);
    let clusters: Vec<[u32; 3]> = graph_launches(&recorded).iter().map(|l| l.cluster).collect();
    // One of three kernels has clusters, and keeps them when its parameters change. The last graph has no clusters.
    assert_eq!(clusters.len(), 33);
    assert_eq!(clusters.iter().filter(|c| **c == [2, 1, 1]).count(), 10, "{clusters:?}");
    cuda.replay_checked(&recorded, &json!({}), &[]);
    let recorded = cuda.record_checked("cooperative", &[], &["cooperative", "--graph"]);
    let all = graph_launches(&recorded);
    assert!(
        matches!(all.as_slice(), [one] if one.flags & LaunchRow::COOPERATIVE != 0),
        "{all:?}"
    );
    cuda.replay_checked(&recorded, &json!({}), &[]);
    cuda.replay_checked(&recorded, &json!({"graph": true}), &[]);
}

#[test]
fn graph_copies_to_and_from_the_host_are_recorded() {
    for slow in ["0", "2000"] {
        let cuda = CudaStandIn::default();
        let recorded = cuda.record("feedback", &[], &["feedback"], &[("STAND_IN_SLOW", slow)]);
        assert_eq!(recorded.ended.code, Some(0), "{:?}", recorded.ended);
        assert_eq!(recorded.findings(), [""; 0]);
        let (answer, bytes) = cuda.replay(&recorded.path, &json!({}), &[]);
        let outputs = answer["played"]["outputs"].as_array().unwrap();
        assert!(outputs.iter().all(|o| o["differs_at"].is_null()), "{answer}");
        assert!(bytes.ends_with(&recorded.out[recorded.out.len() / 2..]), "{answer}");
    }
}

#[test]
fn range_ending_inside_a_graph_ends_after_it() {
    let cuda = CudaStandIn::default();
    let (alone, results) = cuda.run_unrecorded(&["graph"]);
    assert_eq!(alone.code, Some(0), "{alone:?}");
    // Each launch of the graph makes three kernel launches.
    let recorded = cuda.record("range", &["--range", "first:4"], &["graph"], &[]);
    assert_eq!(
        (recorded.ended.code, &recorded.out),
        (Some(0), &results),
        "{:?}",
        recorded.ended
    );
    assert_eq!(graph_launches(&recorded).len(), 6);
    let (answer, _) = cuda.replay(&recorded.path, &json!({"memory": true}), &[("STAND_IN_POISON", "0xa5")]);
    let outputs = answer["played"]["outputs"]
        .as_array()
        .unwrap_or_else(|| panic!("{answer}"));
    assert!(outputs.iter().all(|o| o["differs_at"].is_null()), "{answer}");
    assert!(
        outputs.iter().any(|o| o["name"].as_str().unwrap().starts_with("after")),
        "{answer}"
    );
}
