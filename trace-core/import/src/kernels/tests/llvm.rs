//! Kernels as LLVM's offload library records them, in the current form and the earlier one.

use super::{Folder, folder};
use crate::ImportError;
use std::path::Path;
use trace_core::GpuVa;
use trace_core::api_trace::ApiTrace;
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{CallEvent, CodeKind, LaunchRow, Recording};

const BASE: u64 = 0x7f00_0000_0000;

fn floats(scale: f32) -> Vec<u8> {
    (0..32).flat_map(|n| (n as f32 * scale).to_le_bytes()).collect()
}

fn description(extra: &str) -> String {
    format!(
        r#"{{"ArgOffsets":[0,0,0],"ArgPtrs":[0,{BASE},-1],"DeviceId":0,"LoopTripCount":32,"Name":"scale_l7","NumArgs":3,{extra}}}"#
    )
}

fn current() -> String {
    description(&format!(
        r#""NumTeams":4,"NumThreads":64,"SharedMemorySize":16,"TeamsLimits":[0,0],"ThreadsLimits":[1,1024],"VAllocAddr":{BASE},"VAllocSize":65536"#
    ))
}

fn globals() -> Vec<u8> {
    let mut out = 2u32.to_le_bytes().to_vec();
    for (name, content) in [(&b"a\0"[..], &[1, 2, 3, 4][..]), (b"limit\0", &[9; 8])] {
        out.extend((name.len() as u32).to_le_bytes());
        out.extend((content.len() as u64).to_le_bytes());
        out.extend(name);
        out.extend(content);
    }
    out
}

fn import(folder: &Folder) -> Result<Recording, ImportError> {
    super::super::llvm_offload::import(&folder.database, &Progress::new())
}

fn launch(recording: &Recording) -> LaunchRow {
    let mut all = (0..recording.events.len()).filter_map(|i| match recording.events.call(i) {
        Some(CallEvent::Launch(row)) => Some(row),
        _ => None,
    });
    let row = all.next().unwrap();
    assert!(all.next().is_none());
    row
}

#[test]
fn a_kernel_is_a_launch_with_the_memory_before_and_after_it() {
    let (before, after, globals) = (floats(1.0), floats(2.0), globals());
    let folder = folder(&[
        ("123_456.json", current().as_bytes()),
        ("123_456.record_input", &before),
        ("123_456.record_output", &after),
        ("123_456.globals", &globals),
        ("123_456.image", b"\x7fELF of another target"),
    ]);
    assert!(super::super::llvm_offload::fits(&folder.database));
    let mut parts = super::super::llvm_offload::parts(&folder.database);
    parts.retain(|p| p.is_file());
    assert_eq!(parts.len(), 4);
    let recording = import(&folder).unwrap();
    let row = launch(&recording);
    assert_eq!((row.grid, row.block, row.shared), ([4, 1, 1], [64, 1, 1], 16));
    let first = row.arguments_at as usize;
    let bytes = (first..first + row.arguments as usize).map(|i| recording.events.call_bytes.get(i).unwrap());
    let arguments: Vec<u8> = bytes.collect();
    let words: Vec<u64> = arguments
        .chunks(8)
        .map(|c| u64::from_le_bytes(c.try_into().unwrap()))
        .collect();
    assert_eq!(words, [0, BASE, u64::MAX]);
    let trace = ApiTrace::from_recording(&recording, &Progress::new()).unwrap().unwrap();
    let end = recording.events.len() as u64;
    let range = GpuVa::new(BASE)..GpuVa::new(BASE + 128);
    assert_eq!(trace.read(&recording, range.clone(), end).bytes, after);
    let metadata = trace.metadata();
    assert_eq!((metadata.window.base, metadata.window.bytes), (GpuVa::new(BASE), 65536));
    assert_eq!(metadata.functions[0].name, "scale_l7");
    let module = &metadata.modules[0];
    assert_eq!((module.kind, module.bytes), (CodeKind::Unknown, 22));
    let mut names: Vec<&str> = module.globals.iter().map(|g| g.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "limit"]);
}

#[test]
fn the_earlier_form_has_other_names_and_no_teams() {
    let earlier = description(&format!(
        r#""NumTeamsClause":0,"ThreadLimitClause":0,"DeviceMemorySize":128,"BumpAllocVAStart":{BASE}"#
    ));
    let (before, after) = (floats(1.0), floats(2.0));
    let mut globals = b"count\0".to_vec();
    globals.extend(4u32.to_le_bytes());
    globals.extend([5, 0, 0, 0]);
    let folder = folder(&[
        ("scale_l7.json", earlier.as_bytes()),
        ("scale_l7.memory", &before),
        ("scale_l7.original.output", &after),
        ("scale_l7.globals", &globals),
    ]);
    let recording = import(&folder).unwrap();
    assert_eq!(launch(&recording).grid, [1; 3]);
    let mut findings = recording.metadata.findings.iter();
    assert!(findings.any(|f| f.kind == FindingKind::Assumed && f.message.contains("number of teams")));
    // Without the memory after it, the results are unknown.
    std::fs::remove_file(folder.folder.path().join("scale_l7.original.output")).unwrap();
    let recording = import(&folder).unwrap();
    let mut findings = recording.metadata.findings.iter();
    assert!(findings.any(|f| f.message.contains("results are unknown")));
}

#[test]
fn missing_and_damaged_files_are_named() {
    let globals = globals();
    let folder = folder(&[
        ("123_456.json", current().as_bytes()),
        ("123_456.record_input", &floats(1.0)),
        ("123_456.globals", &globals[..globals.len() - 1]),
    ]);
    let error = import(&folder).unwrap_err().to_string();
    assert!(error.contains("123_456.globals, byte "), "{error}");
    std::fs::remove_file(folder.folder.path().join("123_456.globals")).unwrap();
    assert!(import(&folder).is_ok());
    std::fs::remove_file(folder.folder.path().join("123_456.record_input")).unwrap();
    let error = import(&folder).unwrap_err().to_string();
    assert!(error.contains("its memory before the launch is missing"), "{error}");
    let other = super::folder(&[("x.json", br#"{"VAllocAddr": 1, "ArgPtrs": []}"#)]);
    let close = super::super::llvm_offload::describe_close(Path::new(&other.database));
    assert!(close.is_some_and(|c| c.contains("\"Name\" is missing")));
    let far = super::folder(&[("x.json", br#"{"Name": "x"}"#)]);
    assert_eq!(super::super::llvm_offload::describe_close(&far.database), None);
}
