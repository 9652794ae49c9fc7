//! Device core dumps on the command line: what `info`, `events` and `check` tell of each driver's.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use std::path::{Path, PathBuf};
use whole_program_tests::{field_cases, root, run};

fn dump(name: &str) -> PathBuf {
    root().join("trace-core/import/tests/core_dumps").join(name)
}

/// Runs a verb on a dump, and asserts the exit code and parts of its output.
fn assert_shows(verb: &str, path: &Path, code: i32, expected: &[&str]) {
    let shown = run([verb.as_ref(), path.as_os_str()]);
    assert_eq!(shown.code, Some(code), "{verb} {}: {shown:?}", path.display());
    for part in expected {
        assert!(shown.out.contains(part), "{verb} {}: {part}: {shown:?}", path.display());
    }
}

#[test]
fn dump_of_msm_shows_its_registers_jobs_and_hang() {
    let path = dump("msm.txt");
    assert_shows(
        "info",
        &path,
        0,
        &["Adreno 630", "device core dump", "glxgears -info", "Linux 6.10.3"],
    );
    let expected = [
        "RBBM_STATUS",
        "CP_IB1_BASE",
        "fault-info: type=TRANSLATION",
        "CP_SQE_STAT",
    ];
    assert_shows("events", &path, 0, &expected);
    assert_shows(
        "check",
        &path,
        0,
        &["of glxgears: ring 0", "the address is in no buffer"],
    );
}

#[test]
fn dump_of_xe_shows_its_registers_jobs_and_hang() {
    let path = dump("xe.txt");
    assert_shows("info", &path, 0, &["Intel 8086:9a49", "vkcube [4242]"]);
    assert_shows(
        "events",
        &path,
        0,
        &["PIPE_CONTROL", "MI_BATCH_BUFFER_START: 0x300000", "0x2580"],
    );
    assert_shows("check", &path, 0, &["Timedout job"]);
}

#[test]
fn dump_of_amdgpu_shows_its_registers_jobs_and_hang() {
    let path = dump("amdgpu.txt");
    assert_shows("info", &path, 0, &["AMD 1002:7590", "vkcube PID: 4242"]);
    assert_shows(
        "events",
        &path,
        0,
        &["INDIRECT_BUFFER: 0x800000, 0x1, 0x4", "regGRBM_STATUS 0x00003028"],
    );
    assert_shows("check", &path, 0, &["a ring timed out", "a page fault of the GPU"]);
}

#[test]
fn dump_of_etnaviv_shows_its_registers_jobs_and_hang() {
    let path = dump("etnaviv.bin");
    assert_shows("info", &path, 0, &["Vivante GC2000"]);
    assert_shows(
        "events",
        &path,
        0,
        &["HI_CHIP_MODEL", "DRAW_PRIMITIVES", "LINK: 4 words at 0x80000000"],
    );
    assert_shows("check", &path, 0, &["the GPU hung in the command buffer at 0x80010000"]);
}

#[test]
fn dump_of_panthor_shows_its_instructions() {
    let path = dump("panthor.bin");
    assert_shows("info", &path, 0, &["Mali-G610"]);
    assert_shows("events", &path, 0, &["CALL: address d2, length r4", "ERROR_BARRIER"]);
    assert_shows("check", &path, 0, &["a fault in queue 3"]);
}

#[test]
fn error_state_of_i915_shows_its_registers_jobs_and_hang() {
    let path = dump("i915.txt");
    assert_shows("info", &path, 0, &["Intel 8086:1912", "glxgears [1234]"]);
    assert_shows("events", &path, 0, &["MI_BATCH_BUFFER_END", "0x2068"]);
    assert_shows("check", &path, 0, &["ecode 9:1:85dffffb"]);
}

#[test]
fn a_cut_dump_opens_and_is_an_error_of_check() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "msm.txt",
        "xe.txt",
        "i915.txt",
        "amdgpu.txt",
        "etnaviv.bin",
        "panthor.bin",
    ] {
        let whole = std::fs::read(dump(name)).unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, &whole[..whole.len() - 7]).unwrap();
        assert_shows("events", &path, 0, &[]);
        assert_shows("check", &path, 1, &["error: "]);
    }
}

#[test]
fn dump_from_the_field_opens() {
    let Some(path) = field_cases().map(|f| f.join("c09/msm.devcore")).filter(|p| p.is_file()) else {
        return;
    };
    assert_shows("info", &path, 0, &["Adreno 630"]);
    assert_shows("events", &path, 0, &["gmu+0x7e200", "ring 0 at 0x1000000"]);
    assert_shows("check", &path, 0, &["submitted fence 42, completed fence 41"]);
}
