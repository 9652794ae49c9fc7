//! Code and arguments of launches, recorded and replayed on the stand-in for the driver. A CUDA program can find its
//! functions in several ways.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use serde_json::json;
use whole_program_tests::cuda::CudaStandIn;

#[test]
fn functions_with_one_name_in_several_modules_are_distinguished() {
    for way in ["driver", "dlsym", "library", "per-thread"] {
        let cuda = CudaStandIn::default();
        let recorded = cuda.record_checked("owners", &[], &["owners", "--via", way]);
        assert_eq!(recorded.findings(), [""; 0], "{way}");
        cuda.replay_checked(&recorded, &json!({}), &[]);
    }
}

#[test]
fn library_and_listed_functions_are_recorded_with_code() {
    for arguments in [
        ["owners", "--via", "library", "--module"].as_slice(),
        &["owners", "--via", "library", "--listed"],
        &["owners", "--via", "library", "--module", "--listed"],
        &["owners", "--via", "driver", "--listed"],
    ] {
        let cuda = CudaStandIn::default();
        let recorded = cuda.record_checked("owners", &[], arguments);
        assert_eq!(recorded.findings(), [""; 0], "{arguments:?}");
        cuda.replay_checked(&recorded, &json!({}), &[]);
    }
}

#[test]
fn function_with_unknown_code_is_a_finding() {
    let cuda = CudaStandIn::default();
    let fail = [("STAND_IN_FAIL", "cuFuncGetModule:1+=801,cuKernelGetLibrary:1+=801")];
    let without_modules = cuda.record("listed", &[], &["owners", "--listed"], &fail);
    assert_eq!(without_modules.ended.code, Some(0), "{:?}", without_modules.ended);
    let messages = without_modules.findings();
    assert!(
        messages
            .iter()
            .any(|f| f.contains("does not report the module of weigh_globals")),
        "{messages:?}"
    );
    // If only the names of kernels are known, the recorder uses the name. The message says that the function may be
    // another one.
    let fail = [("STAND_IN_FAIL", "cuFuncGetModule:1+=801,cuKernelGetFunction:1+=801")];
    let by_name = cuda.record("named", &[], &["owners", "--via", "library"], &fail);
    let messages = by_name.findings();
    assert!(
        messages.iter().any(|f| f.contains("a function of several modules")),
        "{messages:?}"
    );
}

#[test]
fn argument_layout_falls_back_to_the_code() {
    let fail = [("STAND_IN_FAIL", "cuFuncGetParamInfo:1+=801,cuKernelGetParamInfo:1+=801")];
    for program in ["vector_add", "linked", "graph"] {
        for way in ["driver", "library"] {
            let cuda = CudaStandIn::default();
            let recorded = cuda.record("untold", &[], &[program, "--via", way], &fail);
            assert_eq!(recorded.ended.code, Some(0), "{:?}", recorded.ended);
            assert_eq!(recorded.findings(), [""; 0], "{program} {way}");
            cuda.replay_checked(&recorded, &json!({}), &[]);
        }
    }
}

#[test]
fn unreadable_arguments_are_a_finding() {
    // The first function has four parameters and is queried five times. The code of its module has been read by then.
    let cuda = CudaStandIn::default();
    let fail = [("STAND_IN_FAIL", "cuFuncGetParamInfo:6=801")];
    let recorded = cuda.record("untold", &[], &["graph"], &fail);
    assert_eq!(recorded.ended.code, Some(0), "{:?}", recorded.ended);
    let messages = recorded.findings();
    assert!(
        messages.iter().any(|f| f.contains("arguments could not be read")),
        "{messages:?}"
    );
}
