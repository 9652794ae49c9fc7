//! Tests of the importers of RecordReplay and Mneme, on databases that an independent program wrote
//! (`kernels/make.py`). The importers must find the same data as that program.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test panics when it fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace_core::recording::{CallEvent, CopyKind, OrderRow, Recording};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels").join(name)
}

fn open(path: &Path) -> Recording {
    crate::open(path)
}

/// Returns the number and the checksum of bytes, in the form of `expected.json`.
fn checksum_json(bytes: &[u8]) -> serde_json::Value {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    serde_json::json!({ "bytes": bytes.len(), "crc32": crc.sum() })
}

/// Returns the launches with the memory before and after each, in the form of `expected.json`.
fn api_trace_json(r: &Recording) -> serde_json::Value {
    let metadata = r.api().unwrap();
    let names: BTreeMap<u64, &str> = metadata.modules[0]
        .globals
        .iter()
        .map(|g| (g.at.get(), &*g.name))
        .collect();
    let mut launches: Vec<serde_json::Value> = Vec::new();
    let mut state = serde_json::json!({ "memory": {}, "variables": {} });
    for at in 0..r.events.len() {
        match r.events.call(at) {
            Some(CallEvent::Call(_)) => state = serde_json::json!({ "memory": {}, "variables": {} }),
            Some(CallEvent::Copy(c)) => {
                let bytes = checksum_json(&r.copy_content(&c).unwrap());
                assert_eq!((c.kind, c.stream), (CopyKind::DeviceToHost as u32, OrderRow::NONE));
                let device = c.from;
                match names.get(&device) {
                    Some(name) => state["variables"][*name] = bytes,
                    None => state["memory"][format!("{device:#x}")] = bytes,
                }
                if let Some(last) = launches.last_mut().filter(|l| l["ended"] == false) {
                    last["after"] = state.clone();
                }
            }
            Some(CallEvent::Launch(l)) => {
                let function = &metadata.functions[l.function as usize];
                let buffer = r.events.call_arguments(l.arguments_at, l.arguments).unwrap();
                let argument_hex = |[at, size]: &[u32; 2]| hex(&buffer[*at as usize..(*at + *size) as usize]);
                let arguments: Vec<String> = function.parameters.iter().map(argument_hex).collect();
                launches.push(serde_json::json!({
                    "kernel": function.name, "grid": l.grid, "block": l.block, "arguments": arguments,
                    "before": state, "after": null, "ended": false,
                }));
            }
            None => launches.iter_mut().for_each(|l| l["ended"] = true.into()),
            _ => {}
        }
    }
    launches.iter_mut().for_each(|l| {
        l.as_object_mut().unwrap().remove("ended");
    });
    launches.into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn database(name: &str) -> PathBuf {
    let files = std::fs::read_dir(fixture(name)).unwrap().map(|e| e.unwrap().path());
    let mut databases: Vec<PathBuf> = files.filter(|p| p.extension().is_some_and(|e| e == "json")).collect();
    assert_eq!(databases.len(), 1);
    databases.remove(0)
}

#[test]
fn kernel_databases_match_an_independent_reader() {
    let expected: serde_json::Value =
        serde_json::from_slice(&std::fs::read(fixture("expected.json")).unwrap()).unwrap();
    for (name, launches) in [("record-replay", 1), ("mneme", 2)] {
        let imported = api_trace_json(&open(&database(name)));
        assert_eq!(imported, expected[name], "{name}");
        assert_eq!(imported.as_array().unwrap().len(), launches);
    }
}

#[test]
fn moved_database_with_adjacent_code_replays() {
    let moved = tempfile::tempdir().unwrap();
    let code = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda-code/tests/fixtures");
    for (name, module, fixture) in [
        ("record-replay", "runglobals.ptx", "globals.compute_80.ptx"),
        (
            "mneme",
            "RecordedIR_17293822569102704642.cubin",
            "vecadd.cuda12.sm_90a.cubin",
        ),
    ] {
        let from = database(name);
        for entry in std::fs::read_dir(from.parent().unwrap()).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, moved.path().join(path.file_name().unwrap())).unwrap();
        }
        std::fs::copy(code.join(fixture), moved.path().join(module)).unwrap();
        let r = open(&moved.path().join(from.file_name().unwrap()));
        let metadata = r.api().unwrap();
        assert_eq!(
            (metadata.modules.len(), metadata.modules[0].origin.as_str()),
            (1, module)
        );
        assert_eq!(metadata.modules[0].missing, "");
        assert_eq!(
            r.module_code(&metadata.modules[0]).unwrap(),
            std::fs::read(code.join(fixture)).unwrap()
        );
        let parameters = &metadata.functions[0].parameters;
        let expected: &[[u32; 2]] = match name {
            "mneme" => &[[0, 8], [8, 8], [16, 8], [24, 4]],
            _ => &[[0, 8]],
        };
        assert_eq!(parameters, expected);
        let variables: Vec<&str> = metadata.modules[0].globals.iter().map(|g| &*g.name).collect();
        // `vecadd` has no variables, so the import omits the variable of the database.
        let expected: &[&str] = match name {
            "mneme" => &[],
            _ => &["counter", "scratch", "table"],
        };
        assert_eq!(variables, expected);
        // The recording round-trips through a file, and its memory equals that of the import without code.
        let kine = moved.path().join("x.kine");
        crate::import_to_kine(&moved.path().join(from.file_name().unwrap()), &kine);
        let reopened = open(&kine);
        assert!(trace_core::diff::diff(&r, &reopened).is_empty());
        let without_code = open(&from);
        assert!(
            trace_core::diff::diff(&r, &without_code).pages.list.is_empty(),
            "memory differs from the import without code"
        );
    }
}

#[test]
fn databases_of_the_same_kernel_compare_by_buffer() {
    let moved = tempfile::tempdir().unwrap();
    let from = database("mneme");
    for entry in std::fs::read_dir(from.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, moved.path().join(path.file_name().unwrap())).unwrap();
    }
    // The test changes one element of the result of the last launch.
    let name = "DeviceState.epilogue.17293822569102704642.9001.mneme";
    let mut bytes = std::fs::read(moved.path().join(name)).unwrap();
    let at = bytes
        .windows(8)
        .position(|w| w == 0x1539_4000_0800u64.to_le_bytes())
        .unwrap();
    // The bytes follow an address, a label with a tag of three bytes, the number of ranges, and the first offset and
    // length.
    let first = at + 8 + 19 + 3 + 24;
    bytes[first] ^= 0x40;
    std::fs::write(moved.path().join(name), bytes).unwrap();
    let other = open(&moved.path().join(from.file_name().unwrap()));
    let diff = trace_core::diff::diff(&open(&from), &other);
    let differ: Vec<(&str, u64)> = diff
        .buffers
        .iter()
        .filter(|b| b.bytes_differ > 0)
        .map(|b| (&*b.name, b.bytes_differ))
        .collect();
    assert_eq!(differ, [("sum (2)", 1)]);
}

/// Copies the files of a database; those that `packs` chooses by their name are packed by gzip.
fn copy_database(from: &Path, to: &Path, packs: impl Fn(&str) -> bool) {
    for entry in std::fs::read_dir(from.parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let bytes = std::fs::read(&path).unwrap();
        if packs(&name) {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            std::io::Write::write_all(&mut encoder, &bytes).unwrap();
            std::fs::write(to.join(format!("{name}.gz")), encoder.finish().unwrap()).unwrap();
        } else {
            std::fs::write(to.join(name), bytes).unwrap();
        }
    }
}

#[test]
fn databases_whose_files_are_packed_one_by_one_open() {
    for name in ["mneme", "record-replay"] {
        let from = database(name);
        let plain = open(&from);
        let json = from.file_name().unwrap().to_string_lossy().into_owned();
        let choices: [(&str, bool, bool); 3] = [
            ("files", true, false),
            ("description", false, true),
            ("all", true, true),
        ];
        for (what, packs_files, packs_json) in choices {
            let folder = tempfile::tempdir().unwrap();
            copy_database(
                &from,
                folder.path(),
                |n| if n == json { packs_json } else { packs_files },
            );
            let ending = if packs_json { ".gz" } else { "" };
            let path = folder.path().join(format!("{json}{ending}"));
            let packed = open(&path);
            assert_eq!(api_trace_json(&packed), api_trace_json(&plain), "{name}: {what}");
            let missing = |r: &Recording| {
                r.metadata
                    .findings
                    .iter()
                    .filter(|f| f.message.contains("/tmp/"))
                    .count()
            };
            assert_eq!(missing(&packed), 0, "{name}: {what}: {:?}", packed.metadata.findings);
        }
    }
}
