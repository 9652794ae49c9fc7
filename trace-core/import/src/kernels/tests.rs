//! Tests with databases in the format of the tools' sources. `tests/hostile.rs` in the same folder has hostile ones,
//! and `tests/kernels.rs` of the crate those of an independent writer.

mod hostile;
mod llvm;

use super::recording::DATABASE;
use super::{mneme, record_replay};
use crate::{FilePosition, ImportError, OpenOptions, Opened};
use std::path::{Path, PathBuf};
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{CallEvent, CopyKind, CopyRow, ElementType, EventKind, OrderRow, Recording};
use trace_core::{GpuVa, PAGE_SIZE};

const BASE: u64 = 0x7f0a_4000_0000;

/// Little-endian numbers and bytes, one after the other.
#[derive(Clone, Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn n(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_le_bytes());
        self
    }

    fn b(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn name(self, name: &str) -> Self {
        self.n(name.len() as u64).b(name.as_bytes())
    }

    /// Appends Mneme's label of an allocation.
    fn label(self, element: u8, threshold: f64, kind: u8, norm: u8, tag: &str) -> Self {
        let with = self.b(&[element]).b(&threshold.to_le_bytes()).b(&[kind, norm]);
        with.name(tag)
    }

    fn plain(self) -> Self {
        self.label(0, 0.0, 0, 0, "")
    }
}

fn bytes() -> Bytes {
    Bytes::default()
}

/// A folder with files, of which the first is the database.
struct Folder {
    folder: tempfile::TempDir,
    database: PathBuf,
}

fn folder(files: &[(&str, &[u8])]) -> Folder {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let database = folder.path().join(files[0].0);
    Folder { folder, database }
}

impl Folder {
    fn open(&self) -> Result<Recording, ImportError> {
        crate::open(&self.database, &OpenOptions::default(), &Progress::new()).and_then(Opened::into_recording)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.folder.path().join(name), bytes).unwrap();
    }

    /// Returns position and message of its read error.
    fn fails(&self) -> (String, FilePosition, String) {
        match self.open() {
            Err(ImportError::Malformed { path, place, message }) => {
                (path.file_name().unwrap().to_str().unwrap().to_owned(), place, message)
            }
            other => panic!("{:?}", other.map(|r| r.metadata.findings)),
        }
    }
}

fn rr_json(kernels: &[(&str, &str, &str)]) -> String {
    let one = |(name, before, after): &(&str, &str, &str)| {
        format!(
            r#""{name}":{{"Block":{{"x":64,"y":2,"z":1}},"Grid":{{"x":3,"y":1,"z":1}},"InputData":"{before}","Name":"{name}","OutputData":"{after}","SharedMemory":256}}"#
        )
    };
    let kernels: Vec<String> = kernels.iter().map(one).collect();
    let kernels = kernels.join(",");
    format!(
        r#"{{"Kernels":{{{kernels}}},"Modules":["/gone/runmodule.bc"],"StartVAAddr":"7f0a40000000","TotalSize":1073741824}}"#
    )
}

fn rr_snapshot(counter: u32, blobs: &[(u64, &[u8])]) -> Vec<u8> {
    let mut out = bytes().n(2).n(8).n(4).n(BASE).b(&7u32.to_le_bytes());
    out = out.n(1).name("counter").n(4).b(&counter.to_le_bytes());
    for (at, content) in blobs {
        out = out.n(*at).n(content.len() as u64).b(content);
    }
    out.0
}

fn mneme_json(instances: &[(&str, &str, &str)]) -> String {
    let one = |(hash, before, after): &(&str, &str, &str)| {
        format!(
            r#""{hash}":{{"Args":[],"BlockDims":{{"x":32,"y":1,"z":1}},"Epilogue":"{after}","GridDims":{{"x":1,"y":2,"z":3}},"Occurrences":2,"Prologue":"{before}","SharedMem":0}}"#
        )
    };
    let all: Vec<String> = instances.iter().map(one).collect();
    let all = all.join(",");
    format!(
        r#"{{"ArgNames":["x"],"BinaryBlobs":[],"DemangledName":"k(float*)","KernelName":"_Z1kPf","Modules":["RecordedIR_5.bc"],"Specializations":[false],"StaticHash":5,"VASize":1073741824,"VAddr":"0x00007f0a40000000","instances":{{{all}}}}}"#
    )
}

/// Returns one variable, two allocations of which the second crosses pages, one argument.
fn mneme_whole(steps: u8, first: &[u8], second: &[u8]) -> Vec<u8> {
    let out = bytes().n(1).name("steps").n(2).n(0x1234).b(&[steps, 9]);
    let out = out.n(2).n(512).n(first.len() as u64).n(BASE).b(first).plain();
    let out = out.n(8192).n(second.len() as u64).n(BASE + 1024).b(second);
    out.label(9, 0.25, 1, 2, "weights").n(1).n(8).n(BASE).0
}

/// Returns the events of the recording as text.
fn describe_events(r: &Recording) -> Vec<String> {
    let metadata = r.api().unwrap();
    let one = |at| match r.events.call(at) {
        Some(call) => call.describe(Some(metadata)),
        None => {
            assert_eq!(r.events.kind(at), Some(EventKind::Mark));
            r.events.marks[r.events.payload.get(at).unwrap() as usize].clone()
        }
    };
    (0..r.events.len()).map(one).collect()
}

fn copies(r: &Recording) -> Vec<(CopyRow, Vec<u8>)> {
    let all = (0..r.events.len()).filter_map(|at| match r.events.call(at) {
        Some(CallEvent::Copy(c)) => Some((c, r.copy_content(&c).unwrap())),
        _ => None,
    });
    all.collect()
}

fn messages(r: &Recording, kind: FindingKind) -> Vec<String> {
    let found = r.metadata.findings.iter().filter(|f| f.kind == kind);
    found.map(|f| format!("{}, {}", f.place, f.message)).collect()
}

/// Checks that the recording is a valid file and reads back equal.
fn assert_round_trip(r: &Recording) {
    let bytes = trace_core::container::to_bytes(r).unwrap();
    let report = trace_core::container::verify_bytes(bytes.clone()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
    let reopened = trace_core::container::from_bytes(bytes).unwrap();
    assert_eq!(reopened.metadata, r.metadata);
    assert!(trace_core::diff::diff(r, &reopened).is_empty());
}

#[test]
fn record_replay_database_imports_as_an_api_trace() {
    let (old, new) = ([1u8; 8192], [2u8; 8192]);
    let other = [3u8; 4096];
    let json = rr_json(&[
        ("_Z3addPfi", "/gone/Before1.bin", "/gone/After1.bin"),
        ("other", "Before2.bin", "After2.bin"),
    ]);
    let f = folder(&[
        ("record_replay.json", json.as_bytes()),
        ("Before1.bin", &rr_snapshot(1, &[(BASE, &old), (BASE + 8192, &other)])),
        ("After1.bin", &rr_snapshot(2, &[(BASE, &new), (BASE + 8192, &other)])),
        ("Before2.bin", &rr_snapshot(2, &[(BASE, &new), (BASE + 16384, &other)])),
        ("After2.bin", &rr_snapshot(3, &[(BASE, &new), (BASE + 16384, &other)])),
    ]);
    assert!(record_replay::fits(&f.database) && !mneme::fits(&f.database));
    let r = f.open().unwrap();
    // The variable is after the allocation range of 1 GiB.
    let variable = BASE + (1 << 30);
    assert_eq!(
        describe_events(&r),
        [
            "_Z3addPfi".to_owned(),
            format!("allocated 8192 bytes at {BASE:#x}"),
            format!("allocated 4096 bytes at {:#x}", BASE + 8192),
            "snapshot before launch".into(),
            format!("8192 bytes device to host, {BASE:#x} → 0x0, no stream"),
            format!("4096 bytes device to host, {:#x} → 0x0, no stream", BASE + 8192),
            format!("4 bytes device to host, {variable:#x} → 0x0, no stream"),
            "host waits for all streams".into(),
            "_Z3addPfi, grid 3×1×1, block 64×2×1, 256 bytes of shared memory, default stream".into(),
            "host waits for all streams".into(),
            "snapshot after launch".into(),
            format!("8192 bytes device to host, {BASE:#x} → 0x0, no stream"),
            format!("4096 bytes device to host, {:#x} → 0x0, no stream", BASE + 8192),
            format!("4 bytes device to host, {variable:#x} → 0x0, no stream"),
            "other".into(),
            format!("freed 4096 bytes at {:#x}", BASE + 8192),
            format!("allocated 4096 bytes at {:#x}", BASE + 16384),
            "snapshot before launch".into(),
            format!("8192 bytes device to host, {BASE:#x} → 0x0, no stream"),
            format!("4096 bytes device to host, {:#x} → 0x0, no stream", BASE + 16384),
            format!("4 bytes device to host, {variable:#x} → 0x0, no stream"),
            "host waits for all streams".into(),
            "other, grid 3×1×1, block 64×2×1, 256 bytes of shared memory, default stream".into(),
            "host waits for all streams".into(),
            "snapshot after launch".into(),
            format!("8192 bytes device to host, {BASE:#x} → 0x0, no stream"),
            format!("4096 bytes device to host, {:#x} → 0x0, no stream", BASE + 16384),
            format!("4 bytes device to host, {variable:#x} → 0x0, no stream"),
        ]
    );
    let contents: Vec<Vec<u8>> = copies(&r).into_iter().map(|c| c.1).collect();
    let number = |n: u32| n.to_le_bytes().to_vec();
    assert_eq!(
        contents[..6],
        [
            old.to_vec(),
            other.to_vec(),
            number(1),
            new.to_vec(),
            other.to_vec(),
            number(2)
        ]
    );
    let launches: Vec<_> = r.events.launches.iter().collect();
    let arguments = r.events.call_arguments(launches[0].arguments_at, launches[0].arguments);
    assert_eq!(
        arguments.unwrap(),
        [&BASE.to_le_bytes()[..], &7u32.to_le_bytes()].concat()
    );
    let metadata = r.api().unwrap();
    assert_eq!(
        (metadata.api.name(), metadata.window.base, metadata.window.bytes),
        ("cuda", GpuVa::new(BASE), 1 << 30)
    );
    assert_eq!(metadata.functions.len(), 2);
    assert_eq!(metadata.functions[0].parameters, [[0, 8], [8, 4]]);
    let module = &metadata.modules[0];
    assert_eq!(
        (module.origin.as_str(), module.bytes, metadata.functions[1].module),
        ("runmodule.bc", 0, Some(0))
    );
    assert!(
        module
            .missing
            .contains("a driver cannot load the LLVM bitcode of runmodule.bc")
    );
    assert_eq!(
        (module.globals[0].name.as_str(), module.globals[0].at),
        ("counter", GpuVa::new(variable))
    );
    assert_eq!(
        messages(&r, FindingKind::NotRecorded),
        [format!("runmodule.bc, {}", module.missing)]
    );
    let assumed = messages(&r, FindingKind::Assumed).join("\n");
    for part in [
        "the order of the launches",
        "the addresses of variables",
        "a CUDA or a HIP device",
        "page tables",
    ] {
        assert!(assumed.contains(part), "{assumed}");
    }
    assert_eq!(
        (r.metadata.identity.source.as_str(), r.metadata.identity.tool.as_str()),
        ("record-replay", "RecordReplay")
    );
    // Memory by device address, before and after each launch.
    let at = |event, address: u64| r.memory.at(event).frame(address >> 12).map(|p| p[0]);
    let events: Vec<u64> = r.memory.snapshots.iter().map(|s| s.event).collect();
    assert_eq!(events, [8, 14, 22, 28]);
    assert_eq!(
        (at(8, BASE), at(14, BASE), at(28, BASE + 16384)),
        (Some(1), Some(2), Some(3))
    );
    assert_eq!(
        (at(8, variable), at(28, variable), at(8, BASE + 16384)),
        (Some(1), Some(3), None)
    );
    let buffer = r.buffer("memory0").unwrap();
    let view = trace_core::memory::GpuMemoryView::new(r.memory.last(), &r.metadata.address_spaces[0]);
    assert_eq!(view.read_buffer(buffer).bytes, new);
    assert_eq!(r.buffer("counter").unwrap().va, GpuVa::new(variable));
    assert_round_trip(&r);
}

#[test]
fn mneme_database_has_full_and_changed_memory() {
    let first: Vec<u8> = (0..300u32).map(|n| n as u8).collect();
    let second: Vec<u8> = (0..6000u32).map(|n| (n * 3) as u8).collect();
    let (mut first_after, mut second_after) = (first.clone(), second.clone());
    first_after[299] = 0xaa;
    // A range that crosses pages, and one at the end.
    second_after[3000..3100].fill(0x5a);
    second_after[5999] ^= 1;
    let diff = bytes()
        .b(mneme::DIFF)
        .n(1)
        .name("steps")
        .n(2)
        .n(0x1234)
        .n(1)
        .n(0)
        .n(1)
        .b(&[8]);
    let diff = diff.n(2).n(8192).n(6000).n(BASE + 1024).label(9, 0.25, 1, 2, "weights");
    let diff = diff
        .n(2)
        .n(5999)
        .n(1)
        .b(&second_after[5999..])
        .n(3000)
        .n(100)
        .b(&[0x5a; 100]);
    let diff = diff.n(512).n(300).n(BASE).plain().n(1).n(299).n(1).b(&[0xaa]);
    let json = mneme_json(&[("11", "p11", "e11"), ("22", "p22", "e22"), ("33", "p33", "")]);
    let f = folder(&[
        ("5.json", json.as_bytes()),
        ("p11", &mneme_whole(7, &first, &second)),
        ("e11", &diff.0),
        ("p22", &mneme_whole(8, &first_after, &second_after)),
        ("e22", &mneme_whole(9, &first, &second)),
        ("p33", &mneme_whole(9, &first, &second)),
    ]);
    assert!(mneme::fits(&f.database) && !record_replay::fits(&f.database));
    let r = f.open().unwrap();
    let contents: Vec<Vec<u8>> = copies(&r).into_iter().map(|c| c.1).collect();
    let before = [first.clone(), second.clone(), vec![7, 9]];
    let after = [first_after, second_after, vec![8, 9]];
    assert_eq!(contents[..3], before);
    assert_eq!(
        contents[3..6],
        after,
        "the changes are not applied to the memory before the launch"
    );
    assert_eq!(contents[6..9], after);
    assert_eq!(contents[9..12], [first.clone(), second, vec![9, 9]]);
    assert_eq!(
        (contents.len(), r.events.launches.len()),
        (15, 3),
        "the last launch has memory after it"
    );
    assert_eq!(
        describe_events(&r)[0],
        "k(float*), static hash 5, dynamic hash 11, 2 launches like it"
    );
    let rows = copies(&r);
    let of_snapshots =
        |c: &CopyRow| (CopyKind::from_raw(c.kind), c.stream) == (Some(CopyKind::DeviceToHost), OrderRow::NONE);
    assert!(rows.iter().all(|(c, _)| of_snapshots(c)));
    let snapshot_calls: Vec<_> = r.events.calls.iter().map(|c| (c.name, c.about)).collect();
    assert_eq!(snapshot_calls, [(0, 0), (1, 0), (0, 0), (1, 0), (0, 0)]);
    let second = r.events.calls.get(2).unwrap();
    let numbers = r.events.call_arguments(second.arguments_at, second.arguments).unwrap();
    assert_eq!(numbers, [2u64, 2].map(u64::to_le_bytes).concat());
    assert_eq!(
        (rows[2].0.from, rows[5].0.from),
        (0x1234, 0x1234),
        "the variable has another address"
    );
    let metadata = r.api().unwrap();
    assert_eq!(metadata.functions.len(), 1);
    assert_eq!(
        (
            metadata.functions[0].name.as_str(),
            metadata.functions[0].display_name()
        ),
        ("_Z1kPf", "k(float*)")
    );
    let weights = r.buffer("weights").unwrap();
    assert_eq!(
        (weights.element, weights.va, weights.bytes),
        (ElementType::F32, GpuVa::new(BASE + 1024), 6000)
    );
    assert_eq!(r.buffer("memory0").unwrap().element, ElementType::U8);
    let stored: serde_json::Value = serde_json::from_slice(&r.extras[DATABASE]).unwrap();
    assert_eq!(
        stored,
        serde_json::json!({
            "tool": "Mneme", "static_hash": "5", "argument_names": ["x"],
            "launches": [
                {"event": 8, "function": 0, "dynamic_hash": "11", "occurrences": 2},
                {"event": 20, "function": 0, "dynamic_hash": "22", "occurrences": 2},
                {"event": 32, "function": 0, "dynamic_hash": "33", "occurrences": 2},
            ],
            "buffers": [
                {"name": "weights", "element": "f32", "threshold": 0.25, "threshold_kind": "relative", "norm": "l2"},
            ],
        })
    );
    assert!(messages(&r, FindingKind::NotRecorded)[1].contains("its results are unknown"));
    // Two allocations share a page, which contains both.
    let page = r.memory.at(8).frame(BASE >> 12).unwrap();
    assert_eq!((page[299], page[300], page[1024], page[1025]), (299u32 as u8, 0, 0, 3));
    assert_eq!(r.memory.at(14).frame(BASE >> 12).unwrap()[299], 0xaa);
    assert_eq!(r.memory.at(14).frame((BASE >> 12) + 1).unwrap()[0], 0x5a);
    assert_round_trip(&r);
}

#[test]
fn available_module_replaces_bitcode() {
    let fixture = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda-code/tests/fixtures");
        std::fs::read(folder.join(name)).unwrap()
    };
    // The arguments of the kernel are a pointer, three floating-point numbers in 24 bytes, and a byte.
    let snapshot = bytes()
        .n(3)
        .n(8)
        .n(24)
        .n(1)
        .n(BASE)
        .b(&[1; 24])
        .b(&[2])
        .n(0)
        .n(BASE)
        .n(16)
        .b(&[5; 16])
        .0;
    let json = rr_json(&[("required", "b", "a")]);
    let f = folder(&[("d.json", json.as_bytes()), ("b", &snapshot), ("a", &snapshot)]);
    let bare = f.open().unwrap();
    assert!(
        messages(&bare, FindingKind::Assumed)
            .iter()
            .any(|m| m.contains("how arguments are aligned"))
    );

    for (name, content) in [
        ("runmodule.cubin", "required.sm_90.cubin"),
        ("runmodule.fatbin", "many.fatbin"),
        ("d.ptx", "required.ptx"),
    ] {
        let content = fixture(content);
        f.put(name, &content);
        let r = f.open().unwrap();
        let metadata = r.api().unwrap();
        let module = &metadata.modules[0];
        assert_eq!((module.origin.as_str(), module.missing.as_str()), (name, ""));
        assert_eq!(r.module_code(module).unwrap(), content);
        assert_eq!(module.digest, blake3::hash(&content).to_hex().to_string());
        assert!(messages(&r, FindingKind::NotRecorded).is_empty());
        if name != "runmodule.fatbin" {
            assert_eq!(metadata.functions[0].parameters, [[0, 8], [16, 24], [40, 1]], "{name}");
            let launch = r.events.launches.get(0).unwrap();
            let arguments = r.events.call_arguments(launch.arguments_at, launch.arguments).unwrap();
            assert_eq!(
                (arguments.len(), arguments[15], arguments[16], arguments[40]),
                (41, 0, 1, 2)
            );
        }
        assert_round_trip(&r);
        std::fs::remove_file(f.folder.path().join(name)).unwrap();
    }
    // An invalid module is not used, and reported.
    f.put("runmodule.ptx", b"BC\xc0\xde");
    let r = f.open().unwrap();
    assert!(messages(&r, FindingKind::NotUsed)[0].contains("not a cubin, a fatbin or PTX"));
    assert!(!r.api().unwrap().modules[0].missing.is_empty());
    let parts = crate::parts(&f.database);
    for name in ["a", "b", "runmodule.ptx", "runmodule.cubin", "d.fatbin"] {
        assert!(parts.contains(&f.folder.path().join(name)), "{name}");
    }
}

#[test]
fn missing_module_variables_are_omitted_from_a_replay() {
    let f = folder(&[
        ("d.json", rr_json(&[("k", "b", "a")]).as_bytes()),
        ("b", &rr_snapshot(1, &[(BASE, &[1; 4096])])),
        ("a", &rr_snapshot(2, &[(BASE, &[1; 4096])])),
        ("d.ptx", b".version 8.0\n.target sm_80\n.global .u32 other;\n.visible .entry k(.param .u64 p, .param .u32 n) { ret; }\n"),
    ]);
    let r = f.open().unwrap();
    assert!(messages(&r, FindingKind::NotUsed)[0].contains("does not have the variables counter"));
    assert_eq!(copies(&r).len(), 2);
    assert!(r.api().unwrap().modules[0].globals.is_empty());
    assert!(r.buffer("counter").is_some());
    f.put("d.ptx", b".version 8.0\n.target sm_80\n.global .u32 counter;\n.visible .entry k(.param .u64 p, .param .u32 n) { ret; }\n");
    let r = f.open().unwrap();
    assert_eq!(messages(&r, FindingKind::NotUsed), Vec::<String>::new());
    assert_eq!((copies(&r).len(), r.api().unwrap().modules[0].globals.len()), (4, 1));
}

#[test]
fn long_memory_is_split_into_several_copies() {
    // 64 MiB and 5000 bytes that start in the middle of a page.
    let at = BASE + 100;
    let mut content = vec![0u8; (64 << 20) + 5000];
    for (n, b) in content.iter_mut().enumerate().step_by(4099) {
        *b = n as u8 | 1;
    }
    let f = folder(&[
        ("d.json", rr_json(&[("k", "b", "a")]).as_bytes()),
        ("b", &rr_snapshot(1, &[(at, &content)])),
        ("a", &rr_snapshot(1, &[(at, &content)])),
    ]);
    let r = f.open().unwrap();
    let all = copies(&r);
    let rows: Vec<(u64, u64)> = all[..2].iter().map(|(c, _)| (c.from, c.bytes)).collect();
    let first = (64 << 20) - 100;
    assert_eq!(rows, [(at, first), (at + first, 5100)]);
    assert!([all[0].1.as_slice(), &all[1].1].concat() == content);
    assert!(r.memory.pages.len() < 40_000);
}

#[test]
fn missing_kernel_files_are_reported_and_others_imported() {
    let snapshot = rr_snapshot(1, &[(BASE, &[1; PAGE_SIZE])]);
    let json = rr_json(&[
        ("gone", "nowhere.bin", "a"),
        ("half", "b", "nowhere"),
        ("same", "b", "a"),
    ]);
    let f = folder(&[("d.json", json.as_bytes()), ("b", &snapshot), ("a", &snapshot)]);
    let r = f.open().unwrap();
    assert_eq!(r.events.launches.len(), 1);
    let lines = messages(&r, FindingKind::NotRecorded);
    assert!(
        lines[1].starts_with("nowhere.bin, the launch of gone was not imported"),
        "{lines:?}"
    );
    assert!(
        lines[2].starts_with("nowhere, the memory after the launch of half is missing"),
        "{lines:?}"
    );
    assert!(messages(&r, FindingKind::NotUsed)[0].contains("the launch of same was not imported"));
    std::fs::remove_file(f.folder.path().join("b")).unwrap();
    let (file, position, message) = f.fails();
    assert_eq!((file.as_str(), position), ("d.json", FilePosition::Whole));
    assert!(
        message.contains("no launch of the database can be read: nowhere.bin, the launch of gone was not imported"),
        "{message}"
    );
    // A folder or a device under the name of a snapshot is not read.
    std::fs::create_dir(f.folder.path().join("b")).unwrap();
    assert!(f.open().is_err());
    let f = folder(&[("d.json", rr_json(&[]).as_bytes())]);
    assert!(f.fails().2.contains("it has no launch"));
}
