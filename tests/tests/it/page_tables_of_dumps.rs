//! Dumps with page tables in an embedded format and in one of a file: import, list, walk, compare, check.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics when it fails"
)]

use std::fs;
use std::path::{Path, PathBuf};
use whole_program_tests::{ProgramOutput, root, run};

/// Imports a dump and returns the recording's path.
fn import(folder: &Path, name: &str, bytes: &[u8], arguments: &str) -> PathBuf {
    let (dump, kine) = (folder.join(format!("{name}.bin")), folder.join(format!("{name}.kine")));
    fs::write(&dump, bytes).unwrap();
    let fixed = ["import", "--raw", dump.to_str().unwrap(), "-o", kine.to_str().unwrap()];
    let ended = run(fixed.into_iter().chain(arguments.split(' ')));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    kine
}

fn run_on(verb: &str, kine: &Path, more: &[&str]) -> ProgramOutput {
    run([verb, kine.to_str().unwrap()].into_iter().chain(more.iter().copied()))
}

fn put(bytes: &mut [u8], at: usize, value: u64, size: usize) {
    bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
}

/// Returns a dump of a card: tables of version 2 from 0x1000 on; a page of 64 KiB, one of 4 KiB, one in system memory.
fn nvidia_dump(small_page: u64) -> Vec<u8> {
    let mut bytes = vec![0u8; 0x4_0000];
    for table in 1usize..4 {
        put(&mut bytes, table * 0x1000, 2 | (table as u64 + 1) << 8, 8);
    }
    put(&mut bytes, 0x4000, 2 | 0x51 << 4, 8);
    put(&mut bytes, 0x4008, 2 | 6 << 8, 8);
    put(&mut bytes, 0x5100 + 8, 1 | 0x30 << 8 | 6 << 56, 8);
    put(&mut bytes, 0x6000, small_page, 8);
    put(&mut bytes, 0x6008, 1 | 2 << 1 | 0x1_2345 << 8, 8);
    bytes
}

#[test]
fn nvidia_dump_is_listed_walked_compared_and_checked() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = "--base 0x0 --root 0x1000 --format nvidia-v2";
    let a = import(dir.path(), "a", &nvidia_dump(1 | 0x20 << 8), arguments);
    let b = import(dir.path(), "b", &nvidia_dump(1 | 0x20 << 8 | 1 << 6), arguments);
    let listed = run_on("pagetables", &a, &["--json"]).json();
    let rows: Vec<_> = listed.as_array().unwrap().iter().collect();
    assert_eq!(rows.len(), 3, "{listed}");
    assert_eq!(
        (&rows[0]["format"], &rows[0]["va"]),
        (&"nvidia-v2".into(), &"0x0".into())
    );
    assert_eq!(
        (&rows[1]["memory"], &rows[1]["pa"]),
        (&"system".into(), &"0x12345000".into())
    );
    assert_eq!((&rows[2]["va"], &rows[2]["pages"]), (&"0x10000".into(), &16.into()));
    assert_eq!(
        rows.iter()
            .map(|r| r["pages_without_content"].as_u64().unwrap())
            .sum::<u64>(),
        0
    );
    let walked = run_on("pagetables", &a, &["--walk", "0x10123"]);
    assert_eq!(walked.code, Some(0), "{walked:?}");
    assert!(walked.out.contains("translates to 0x30123, rw-"), "{}", walked.out);
    let elsewhere = run_on("pagetables", &a, &["--walk", "0x1008"]);
    assert!(
        elsewhere
            .out
            .contains("translates to 0x12345008 of system memory, which the recording does not hold"),
        "{}",
        elsewhere.out
    );
    let compared = run(["diff", a.to_str().unwrap(), b.to_str().unwrap(), "--json"]).json();
    assert_eq!(compared["mappings"]["changed"], 1, "{}", compared["mappings"]);
    assert_eq!(run_on("check", &a, &[]).code, Some(0));
    // A dump of the machine's memory has none of the tables.
    let c = import(
        dir.path(),
        "c",
        &nvidia_dump(1),
        &format!("{arguments} --memory system"),
    );
    let text = run_on("pagetables", &c, &[]).out;
    assert!(
        text.contains("is in video memory, which the recording does not hold"),
        "{text}"
    );
}

#[test]
fn dump_in_the_format_of_a_file_is_listed_and_walked() {
    let dir = tempfile::tempdir().unwrap();
    let document = fs::read_to_string(root().join("docs/page-table-formats.md")).unwrap();
    let (_, rest) = document.split_once("```toml\n").unwrap();
    let file = dir.path().join("own.toml");
    fs::write(&file, rest.split_once("```").unwrap().0).unwrap();
    let mut bytes = vec![0u8; 0x4000];
    put(&mut bytes, 4, 0x1000 | 1, 4);
    put(&mut bytes, 0x1000 + 2 * 4, 0x2000 | 3, 4);
    let arguments = format!("--base 0x0 --root 0x0 --format {}", file.display());
    let kine = import(dir.path(), "own", &bytes, &arguments);
    fs::remove_file(&file).unwrap();
    let walked = run_on("pagetables", &kine, &["--walk", "0x402004"]);
    assert!(walked.out.contains("translates to 0x2004, rw-"), "{walked:?}");
    let listed = run_on("pagetables", &kine, &["--json"]).json();
    assert_eq!(
        (&listed[0]["format"], &listed[0]["va"]),
        (&"two-levels".into(), &"0x402000".into())
    );
}

#[test]
fn unknown_formats_and_wrong_files_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (dump, file) = (dir.path().join("d.bin"), dir.path().join("wrong.toml"));
    fs::write(&dump, [0; 4096]).unwrap();
    fs::write(&file, "name = \"x\"\ntitle = 3\n").unwrap();
    let with = |format: &str, more: &[&str]| {
        let fixed = [
            "import",
            "--raw",
            dump.to_str().unwrap(),
            "--base",
            "0",
            "--root",
            "0",
            "-o",
            "x.kine",
            "--format",
        ];
        run(fixed.into_iter().chain([format]).chain(more.iter().copied()))
    };
    let unknown = with("pascal", &[]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.err.contains("'pascal' is neither a file nor a format") && unknown.err.contains("nvidia-v2"));
    let wrong = with(file.to_str().unwrap(), &[]);
    assert!(
        wrong.err.contains("wrong.toml") && wrong.err.contains("line 2"),
        "{}",
        wrong.err
    );
    let memory = with("v3d", &["--memory", "video"]);
    assert!(memory.err.contains("name no memory"), "{}", memory.err);
    let printed = run(["pagetables", "--print-format", "v3d"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(printed.out.contains("name = \"v3d\""), "{}", printed.out);
}
