//! Imported register maps: a command imports them, then they are the source of register names in the program's output.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics when it fails"
)]

use serde_json::Value;
use std::path::{Path, PathBuf};
use whole_program_tests::{ProgramOutput, root, run};

/// A vendor description with two registers of a peripheral, at the addresses of a Mali job slot and of the GPU id.
const SVD: &str = "<device><name>MY</name><peripherals><peripheral><name>JOBS</name><baseAddress>0</baseAddress>\
<registers><register><name>MY_START</name><addressOffset>0x18e0</addressOffset><size>32</size><fields><field>\
<name>GO</name><bitRange>[0:0]</bitRange></field></fields></register><register><name>MY_ID</name>\
<addressOffset>0</addressOffset><size>32</size><access>read-only</access></register></registers></peripheral>\
</peripherals></device>";

/// A folder with a recording and the vendor description.
struct MapFolder(tempfile::TempDir);

impl MapFolder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(root().join("sample-traces/vecadd.kine"), folder.path().join("rec.kine")).unwrap();
        std::fs::write(folder.path().join("my.svd"), SVD).unwrap();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a command with names of files in the folder replaced by their paths.
    fn run(&self, arguments: &[&str]) -> ProgramOutput {
        let resolve = |a: &&str| match self.path(a) {
            path if path.exists() || a.ends_with(".toml") => path.into_os_string(),
            _ => Path::new(a).as_os_str().to_owned(),
        };
        run(arguments.iter().map(resolve))
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let mut all = arguments.to_vec();
        all.push("--json");
        let ended = self.run(&all);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
        ended.json()
    }

    fn import(&self, more: &[&str]) -> ProgramOutput {
        let mut all = vec!["maps", "import", "my.svd", "--next-to", "rec.kine"];
        all.extend(more);
        self.run(&all)
    }
}

#[test]
fn adjacent_map_names_registers_and_does_not_affect_replay() {
    let folder = MapFolder::new();
    let ended = folder.import(&[]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.contains("everything was converted"), "{}", ended.out);
    let events = folder.json(&["events", "rec.kine", "--where", "MY_START"]);
    let events = events.as_array().unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(
        (&events[0]["register"], &events[0]["means"]),
        (&"MY_START".into(), &"GO".into())
    );
    let jobs = folder.json(&["jobs", "rec.kine"]);
    assert_eq!(
        jobs.as_array().unwrap().len(),
        1,
        "the embedded map still gives the jobs"
    );
    let replayed = folder.json(&["replay", "rec.kine", "--on", "software:mali-g71"]);
    assert_eq!(replayed["outcome"], "match");
    let maps = folder.json(&["maps", "list", "rec.kine"]);
    let first = &maps.as_array().unwrap()[0];
    assert_eq!(
        (&first["from"], &first["names_this_recording"]),
        (&"beside the recording".into(), &true.into())
    );
}

#[test]
fn map_import_overwrites_only_with_force() {
    let folder = MapFolder::new();
    assert_eq!(folder.import(&[]).code, Some(0));
    std::fs::write(folder.path("rec.map.toml"), "by hand").unwrap();
    let ended = folder.import(&[]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("--force overwrites it"), "{}", ended.err);
    assert_eq!(std::fs::read_to_string(folder.path("rec.map.toml")).unwrap(), "by hand");
    assert_eq!(folder.import(&["--force"]).code, Some(0));
}

#[test]
fn damaged_map_is_reported_by_line_and_the_recording_opens() {
    let folder = MapFolder::new();
    std::fs::write(folder.path("rec.map.toml"), "[map]\nname = \n").unwrap();
    let ended = folder.run(&["events", "rec.kine", "--range", "95..96"]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.out.contains("JS1_COMMAND_NEXT"), "{}", ended.out);
    assert!(ended.err.contains("rec.map.toml: line 2"), "{}", ended.err);
    let maps = folder.json(&["maps", "list", "rec.kine"]);
    assert!(
        maps[0]["error"].as_str().is_some_and(|e| e.contains("line 2")),
        "{maps}"
    );
}

#[test]
fn invalid_register_descriptions_are_refused_with_a_location() {
    let folder = MapFolder::new();
    for (text, needle) in [
        ("no xml", "my.svd:1:1"),
        ("<other/>", "my.svd"),
        ("<device><peripherals></device>", "my.svd:1:"),
    ] {
        std::fs::write(folder.path("my.svd"), text).unwrap();
        let ended = folder.import(&[]);
        assert_eq!(ended.code, Some(2), "{text}");
        assert!(
            ended.err.contains(needle) && !folder.path("rec.map.toml").exists(),
            "{text}: {}",
            ended.err
        );
    }
}

#[test]
fn map_goes_to_stdout_and_losses_go_to_stderr() {
    let folder = MapFolder::new();
    let lossy = SVD.replace("<registers>", "<registers><registr/>");
    std::fs::write(folder.path("my.svd"), lossy).unwrap();
    let ended = folder.run(&["maps", "import", "my.svd", "-o", "-"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.out.starts_with("# Imported from"), "{}", ended.out);
    assert!(
        ended.err.contains("<registr> in <registers> is unknown"),
        "{}",
        ended.err
    );
    let json = folder.json(&["maps", "import", "my.svd", "-o", "-"]);
    assert_eq!(json["map"].as_str(), Some(ended.out.as_str()));
    assert_eq!(json["not_carried_over"].as_array().unwrap().len(), 1);
    let json = folder.json(&["maps", "import", "my.svd", "--next-to", "rec.kine"]);
    assert!(json["map"].is_null());
}

#[test]
fn map_import_refuses_empty_names_and_writes_atomically() {
    let folder = MapFolder::new();
    for name in [".", "..", "-", ""] {
        let name = format!("--name={name}");
        let ended = folder.run(&["maps", "import", "my.svd", &name, "-o", "x.toml"]);
        assert_eq!(ended.code, Some(2), "{name}");
        assert!(ended.err.contains("neither letters nor digits"), "{}", ended.err);
    }
    // An import replaces the map with a new file: an earlier hard link keeps the old content.
    assert_eq!(folder.import(&[]).code, Some(0));
    let (map, link) = (folder.path("rec.map.toml"), folder.path("before.toml"));
    std::fs::hard_link(&map, &link).unwrap();
    let before = std::fs::read(&link).unwrap();
    assert_eq!(folder.import(&["--force", "--name", "other"]).code, Some(0));
    assert_eq!(std::fs::read(&link).unwrap(), before);
    assert_ne!(std::fs::read(&map).unwrap(), before);
}
