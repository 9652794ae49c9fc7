//! Databases of RecordReplay and Mneme on the command line. They behave like any recording.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test panics when it fails")]

use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::Command;
use whole_program_tests::cuda::{CudaStandIn, run_to_end};
use whole_program_tests::{ProgramOutput, program, root, run};

fn database(name: &str) -> PathBuf {
    root().join("trace-core/import/tests/kernels").join(name)
}

fn run_verb(verb: &str, file: &Path, more: &[&str]) -> ProgramOutput {
    let mut arguments = vec![verb.to_owned(), file.to_str().unwrap().to_owned()];
    arguments.extend(more.iter().map(|a| (*a).to_owned()));
    run(arguments)
}

#[test]
fn kernel_databases_support_info_export_and_diff() {
    let folder = tempfile::tempdir().unwrap();
    for (file, launches, source) in [
        ("record-replay/record_replay.json", 1, "record-replay"),
        ("mneme/17293822569102704642.json", 2, "mneme"),
    ] {
        let path = database(file);
        let info = run_verb("info", &path, &["--json"]);
        assert_eq!(info.code, Some(0), "{info:?}");
        assert!(info.out.contains(source), "{info:?}");
        let events = run_verb("events", &path, &["--where", "launch", "--json"]);
        assert_eq!(events.code, Some(0), "{events:?}");
        assert_eq!(events.json().as_array().unwrap().len(), launches, "{events:?}");
        let csv = folder.path().join("events.csv");
        let exported = run_verb("export", &path, &["-o", csv.to_str().unwrap()]);
        assert_eq!(exported.code, Some(0), "{exported:?}");
        let text = std::fs::read_to_string(&csv).unwrap();
        assert_eq!(
            text.lines().filter(|l| l.contains(",launch,")).count(),
            launches,
            "{text}"
        );
        let check = run_verb("check", &path, &["--json"]);
        assert_eq!(check.code, Some(0), "{check:?}");
        assert!(
            check.out.contains("not-recorded") && check.out.contains("LLVM bitcode"),
            "{check:?}"
        );

        let kine = folder.path().join(format!("{source}.kine"));
        let imported = run_verb("import", &path, &["-o", kine.to_str().unwrap()]);
        assert_eq!(imported.code, Some(0), "{imported:?}");
        let same = run(["diff".as_ref(), path.as_os_str(), kine.as_os_str()]);
        assert_eq!(same.code, Some(0), "{same:?}");
    }
    let other = run([
        "diff".as_ref(),
        database("record-replay/record_replay.json").as_os_str(),
        database("mneme/17293822569102704642.json").as_os_str(),
    ]);
    assert_eq!(other.code, Some(1), "{other:?}");
}

#[test]
fn unreadable_database_is_refused_with_file_and_offset() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record_replay.json");
    std::fs::copy(database("record-replay/record_replay.json"), &path).unwrap();
    run_verb("info", &path, &[]).assert_refused("Before1234.bin");
    std::fs::write(folder.path().join("Before1234.bin"), [1, 0, 0, 0, 0, 0, 0, 0, 8]).unwrap();
    run_verb("info", &path, &[]).assert_refused("Before1234.bin, byte 0x0: the number of arguments is 1");
}

/// First address of the memory in these databases, and the size of an array in bytes.
const BASE: u64 = 0x1539_4000_0000;
const ARRAY_BYTES: u64 = 2 << 20;
const COUNT: u64 = 3000;

/// Returns three arrays that are adjacent in memory: the output and the two inputs.
fn arrays(done: bool) -> [Vec<u8>; 3] {
    let to_bytes = |value: &dyn Fn(u64) -> f32| -> Vec<u8> {
        let mut all: Vec<u8> = (0..COUNT).flat_map(|n| value(n).to_le_bytes()).collect();
        all.resize(ARRAY_BYTES as usize, 0);
        all
    };
    let (a, b) = (|n: u64| n as f32 * 0.5, |n: u64| 100.0 - n as f32);
    let sum = move |n: u64| if done { a(n) + b(n) } else { 0.0 };
    [to_bytes(&sum), to_bytes(&a), to_bytes(&b)]
}

/// Returns the arguments of vector_add: addresses of the arrays, and number of elements.
fn arguments() -> Vec<[u8; 8]> {
    let addresses = (0..3).map(|n| BASE + n * ARRAY_BYTES);
    addresses.chain([COUNT]).map(u64::to_le_bytes).collect()
}

fn word(to: &mut Vec<u8>, value: u64) {
    to.extend(value.to_le_bytes());
}

fn record_replay(folder: &Path) -> PathBuf {
    for (name, done) in [("before.bin", false), ("after.bin", true)] {
        let mut file = Vec::new();
        let arguments = arguments();
        word(&mut file, arguments.len() as u64);
        arguments.iter().for_each(|_| word(&mut file, 8));
        file.extend(arguments.concat());
        // The file has no variables.
        word(&mut file, 0);
        for (n, bytes) in arrays(done).iter().enumerate() {
            word(&mut file, BASE + n as u64 * ARRAY_BYTES);
            word(&mut file, ARRAY_BYTES);
            file.extend(bytes);
        }
        std::fs::write(folder.join(name), file).unwrap();
    }
    let size = |x: u64| json!({"x": x, "y": 1, "z": 1});
    let parsed_json = json!({
        "StartVAAddr": format!("{BASE:x}"),
        "TotalSize": 1u64 << 30,
        "Modules": ["add.bc"],
        "Kernels": {"vector_add": {
            "Name": "vector_add", "Grid": size(24), "Block": size(128), "SharedMemory": 0,
            "InputData": "before.bin", "OutputData": "after.bin",
        }},
    });
    let path = folder.join("record_replay.json");
    std::fs::write(&path, parsed_json.to_string()).unwrap();
    path
}

fn mneme(folder: &Path) -> PathBuf {
    for (name, done) in [("prologue", false), ("epilogue", true)] {
        let mut file = Vec::new();
        // The file has no variables.
        word(&mut file, 0);
        word(&mut file, 3);
        for (n, bytes) in arrays(done).iter().enumerate() {
            word(&mut file, COUNT * 4);
            word(&mut file, ARRAY_BYTES);
            word(&mut file, BASE + n as u64 * ARRAY_BYTES);
            file.extend(bytes);
            // Type bytes, no threshold, absolute, no norm, no tag.
            file.push(0);
            file.extend(0f64.to_le_bytes());
            file.extend([0, 0]);
            word(&mut file, 0);
        }
        word(&mut file, 4);
        for argument in arguments() {
            word(&mut file, 8);
            file.extend(argument);
        }
        std::fs::write(folder.join(format!("DeviceState.{name}.5.7.mneme")), file).unwrap();
    }
    let size = |x: u64| json!({"x": x, "y": 1, "z": 1});
    let parsed_json = json!({
        "StaticHash": 5, "VAddr": format!("{BASE:#018x}"), "VASize": 1u64 << 32,
        "KernelName": "vector_add", "DemangledName": "vector_add",
        "Modules": ["add.bc"], "ArgNames": ["c", "a", "b", "n"], "Specializations": [false, false, false, false],
        "BinaryBlobs": [],
        "instances": {"7": {
            "Args": [], "GridDims": size(24), "BlockDims": size(128), "SharedMem": 0, "Occurrences": 1,
            "Prologue": "DeviceState.prologue.5.7.mneme", "Epilogue": "DeviceState.epilogue.5.7.mneme",
        }},
    });
    let path = folder.join("5.json");
    std::fs::write(&path, parsed_json.to_string()).unwrap();
    path
}

#[test]
fn database_with_adjacent_module_replays_and_tunes() {
    let cuda = CudaStandIn::default();
    let run_on_target = |verb: &str, path: &Path, more: &[&str]| {
        let mut command = Command::new(program("kinescope"));
        let _ = program("kinescope-agent");
        command
            .arg(verb)
            .arg(path)
            .args(["--on", "cuda:0", "--json"])
            .args(more)
            .env("KINESCOPE_KEYS", cuda.file("keys"));
        run_to_end(cuda.set_environment(&mut command))
    };
    for write_database in [record_replay, mneme] {
        let folder = tempfile::tempdir().unwrap();
        let path = write_database(folder.path());
        let without = run_on_target("replay", &path, &[]);
        assert_ne!(without.code, Some(0), "bitcode cannot be replayed: {without:?}");
        let code = root().join("tests/cuda/clients/ptx/vector_add.ptx");
        std::fs::copy(code, folder.path().join("add.ptx")).unwrap();
        let replayed = run_on_target("replay", &path, &[]);
        assert_eq!(replayed.code, Some(0), "{replayed:?}");
        let parsed_json = replayed.json();
        assert_eq!(parsed_json["outcome"], "match", "{parsed_json}");
        assert!(parsed_json["reads_compared"].as_u64().unwrap() > 0, "{parsed_json}");
        assert_eq!(parsed_json["reads_compared"], parsed_json["reads_matched"]);
        let tuned = run_on_target("tune", &path, &["--block", "64,128,256", "--repeat", "2"]);
        assert_eq!(tuned.code, Some(0), "{tuned:?}");
        let parsed_json = tuned.json();
        assert_eq!(parsed_json["points"].as_array().unwrap().len(), 3, "{parsed_json}");
        assert_eq!(
            parsed_json["reference"], "recorded",
            "the reference is the memory in the database"
        );
    }
}
