//! CUDA calls other than copies and launches, recorded on the stand-in for the driver. Supported calls are replayed,
//! and unsupported calls are findings.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::json;
use whole_program_tests::cuda::CudaStandIn;

/// Records a program that must succeed, asserts its only finding or that it has none, and replays it.
fn check_finding(arguments: &[&str], finding: Option<&str>) {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("besides", &[], arguments);
    let messages = recorded.findings();
    match finding {
        Some(needle) => assert!(
            matches!(messages.as_slice(), [one] if one.contains(needle)),
            "{arguments:?}: {messages:?}"
        ),
        None => assert_eq!(messages, [""; 0], "{arguments:?}"),
    }
    cuda.replay_checked(&recorded, &json!({}), &[]);
}

#[test]
fn host_functions_in_streams_give_one_finding() {
    check_finding(&["streams", "--host-function"], Some("host functions"));
    check_finding(&["besides", "--callback"], Some("host functions"));
}

#[test]
fn relevant_launch_attributes_are_a_finding() {
    check_finding(&["besides"], None);
    check_finding(&["besides", "--attributes"], Some("attribute 6"));
}

#[test]
fn code_of_a_deleted_module_file_is_recorded() {
    check_finding(&["besides", "--file"], None);
}

#[test]
fn code_of_a_launch_before_any_allocation_is_recorded() {
    check_finding(&["besides", "--first"], None);
}

#[test]
fn batched_copies_are_recorded_as_copies() {
    for way in ["driver", "dlsym", "per-thread"] {
        check_finding(&["besides", "--batch", "--via", way], None);
    }
}

#[test]
fn pinned_memory_that_kernels_reach_is_in_the_recording() {
    check_finding(&["besides", "--pinned"], None);
}

#[test]
fn program_limits_are_set_for_its_replay() {
    let cuda = CudaStandIn::default();
    let recorded = cuda.record_checked("limits", &[], &["besides", "--limits"]);
    assert_eq!(recorded.findings(), [""; 0]);
    // The recording has the maximum value of each limit.
    let limits = recorded.open().api().unwrap().limits.clone();
    assert_eq!(limits, [[0, 4096], [2, 32 << 20]]);
    cuda.replay_checked(&recorded, &json!({}), &[]);
    let (answer, _) = cuda.replay(&recorded.path, &json!({}), &[("STAND_IN_FAIL", "cuCtxSetLimit:2=2")]);
    assert!(answer.to_string().contains("cuCtxSetLimit"), "{answer}");
    // A replay sets no limit if the program sets none.
    let plain = cuda.record_checked("plain", &[], &["besides"]);
    cuda.replay_checked(&plain, &json!({}), &[("STAND_IN_FAIL", "cuCtxSetLimit:1=2")]);
}
