//! Databases of RecordReplay and Mneme through the command line, like any recording.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests fail in these ways")]

use std::path::{Path, PathBuf};
use whole_program_tests::{Ended, root, run};

fn database(name: &str) -> PathBuf {
    root().join("trace-core/tests/kernels").join(name)
}

fn of(verb: &str, file: &Path, more: &[&str]) -> Ended {
    let mut arguments = vec![verb.to_owned(), file.to_str().unwrap().to_owned()];
    arguments.extend(more.iter().map(|a| (*a).to_owned()));
    run(arguments)
}

#[test]
fn a_database_is_looked_at_exported_and_compared_like_any_recording() {
    let folder = tempfile::tempdir().unwrap();
    for (file, launches, source) in [
        ("record-replay/record_replay.json", 1, "record-replay"),
        ("mneme/17293822569102704642.json", 2, "mneme"),
    ] {
        let path = database(file);
        let info = of("info", &path, &["--json"]);
        assert_eq!(info.code, Some(0), "{info:?}");
        assert!(info.out.contains(source), "{info:?}");
        let events = of("events", &path, &["--where", "launch", "--json"]);
        assert_eq!(events.code, Some(0), "{events:?}");
        assert_eq!(events.json().as_array().unwrap().len(), launches, "{events:?}");
        let csv = folder.path().join("events.csv");
        let exported = of("export", &path, &["-o", csv.to_str().unwrap()]);
        assert_eq!(exported.code, Some(0), "{exported:?}");
        let text = std::fs::read_to_string(&csv).unwrap();
        assert_eq!(
            text.lines().filter(|l| l.contains(",launch,")).count(),
            launches,
            "{text}"
        );
        let check = of("check", &path, &["--json"]);
        assert_eq!(check.code, Some(0), "{check:?}");
        assert!(
            check.out.contains("not-recorded") && check.out.contains("LLVM bitcode"),
            "{check:?}"
        );

        let kine = folder.path().join(format!("{source}.kine"));
        let imported = of("import", &path, &["-o", kine.to_str().unwrap()]);
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
fn a_database_that_cannot_be_read_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record_replay.json");
    std::fs::copy(database("record-replay/record_replay.json"), &path).unwrap();
    of("info", &path, &[]).assert_refused("Before1234.bin");
    std::fs::write(folder.path().join("Before1234.bin"), [1, 0, 0, 0, 0, 0, 0, 0, 8]).unwrap();
    of("info", &path, &[]).assert_refused("Before1234.bin, byte 0x0: the number of arguments is 1");
}
