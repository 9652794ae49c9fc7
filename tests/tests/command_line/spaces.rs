//! Several spaces: an offset is never shown, looked for or compared without the space that it is in.

use serde_json::Value;
use std::path::Path;
use whole_program_tests::{ProgramOutput, root, run};

fn several() -> String {
    root().join("tests/excerpts/several-spaces.txt").display().to_string()
}

fn said(arguments: &[&str]) -> ProgramOutput {
    let ended = run(arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended
}

fn events(file: &str, filter: &str) -> Vec<u64> {
    let list = said(&["events", file, "--where", filter, "--json"]).json();
    let number = |e: &Value| e["event"].as_u64().unwrap();
    list.as_array().unwrap().iter().map(number).collect()
}

/// A copy of the log with another text in place of one.
fn changed(folder: &Path, from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(several()).unwrap();
    assert!(text.contains(from), "{from}");
    let path = folder.join("changed.txt");
    std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    path.display().to_string()
}

#[test]
fn events_and_stats_show_the_space_of_every_address() {
    let out = said(&["events", &several()]).out;
    for place in [
        "bar0+0x0",
        "bar0+0x10",
        "bar1+0x10",
        "bar1+0x12",
        "bar3+0x10",
        "bar3+0x29624",
    ] {
        assert!(out.contains(&format!("  {place} ")), "{place}: {out}");
    }
    for line in out.lines().filter(|l| l.contains(" read ") || l.contains(" write ")) {
        let place = line.split_whitespace().nth(4).unwrap();
        assert!(place.contains("+0x"), "a place without its space: {line}");
    }
    let out = said(&["stats", &several(), "--histogram"]).out;
    assert_eq!(out.matches("0x10 ").count(), 4, "{out}");
    let bare = out.lines().find(|l| l.starts_with("0x"));
    assert_eq!(bare, None, "an offset without its space");
}

#[test]
fn displayed_location_is_a_valid_filter() {
    let file = several();
    let json = said(&["events", &file, "--json"]).json();
    let places: Vec<(u64, String)> = json
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["offset"].is_string() && !e["space"].as_str().unwrap().contains('@'))
        .map(|e| {
            let place = format!("{}+{}", e["space"].as_str().unwrap(), e["offset"].as_str().unwrap());
            (e["event"].as_u64().unwrap(), place)
        })
        .collect();
    assert!(places.len() >= 8, "{places:?}");
    for (event, place) in &places {
        assert!(events(&file, place).contains(event), "{place}");
        let same = places.iter().filter(|(_, p)| p == place).count();
        assert_eq!(events(&file, place).len(), same, "{place}");
    }
    assert_eq!(events(&file, "bar3+0x29624 and write").len(), 1);
    assert_eq!(events(&file, "bar3+0x29624 = 0x80").len(), 1);
    run(["events", &file, "--where", "bar7+0x10"]).assert_refused_with_place("no space is called `bar7`");
}

trait Place {
    fn assert_refused_with_place(&self, needle: &str);
}

impl Place for ProgramOutput {
    /// Refused with a message and the line that points at the place.
    fn assert_refused_with_place(&self, needle: &str) {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{self:?}");
        assert!(self.err.contains(needle) && self.err.contains('^'), "{self:?}");
    }
}

#[test]
fn register_option_searches_all_spaces() {
    let file = several();
    let one = said(&["stats", &file, "--register", "0x29624"]);
    assert!(one.out.starts_with("no name, offset bar3+0x29624"), "{one:?}");
    assert!(one.out.contains("1 read, 1 write") && one.err.is_empty(), "{one:?}");
    let json = said(&["stats", &file, "--register", "0x29624", "--json"]).json();
    assert_eq!((&json["space"], &json["writes"]), (&"bar3".into(), &1.into()));
    // Where several have it, the others are named.
    let first = said(&["stats", &file, "--register", "0x10"]);
    assert!(
        first.err.contains("bar3+0x10") && first.err.contains("accessed, too"),
        "{first:?}"
    );
    let meant = said(&["stats", &file, "--register", "bar1+0x10", "--json"]).json();
    assert_eq!((&meant["space"], &meant["writes"]), (&"bar1".into(), &1.into()));
    let none = said(&["stats", &file, "--register", "0x5000"]).out;
    assert!(none.contains("not accessed in any space (bar"), "{none}");
    run(["stats", &file, "--register", "bar9+0x10"]).assert_refused("no space is called 'bar9'");
}

#[test]
fn differences_name_the_space() {
    let folder = tempfile::tempdir().unwrap();
    // The same write to another window.
    let other = changed(
        folder.path(),
        "W 4 3.001020 2 0xd2000010 0x8",
        "W 4 3.001020 3 0x4000000010 0x8",
    );
    let ended = run(["diff", &several(), &other]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.out.contains("write bar1+0x10 0x8 only in the first"),
        "{}",
        ended.out
    );
    assert!(
        ended.out.contains("write bar3+0x10 0x8 only in the second"),
        "{}",
        ended.out
    );
    let json = run(["diff", &several(), &other, "--json"]).json();
    let list = json["events"]["list"].as_array().unwrap();
    let spaces: Vec<&str> = list.iter().filter_map(|e| e["space"].as_str()).collect();
    assert!(spaces.contains(&"bar1") && spaces.contains(&"bar3"), "{list:?}");
    // What is shown is what a rule takes.
    let other = changed(folder.path(), "0xd2000010 0x8", "0xd2000010 0x9");
    let changed = run(["diff", &several(), &other]);
    assert!(
        changed.out.contains("write bar1+0x10 0x8 becomes 0x9"),
        "{}",
        changed.out
    );
    for (place, code) in [("bar1+0x10", 0), ("bar3+0x10", 1), ("0x10", 1)] {
        let ignored = run(["diff", &several(), &other, "--ignore", &format!("register {place}")]);
        assert_eq!(ignored.code, Some(code), "{place}: {}", ignored.out);
    }
}

#[test]
fn bar_maps_name_no_config_space_registers() {
    let file = root().join("tests/excerpts/configuration-space.log");
    let file = file.to_str().unwrap();
    let info = said(&["info", file]).out;
    assert!(info.contains("1002:5159"), "its card has a map: {info}");
    for event in said(&["events", file, "--json"]).json().as_array().unwrap() {
        assert_eq!(
            (&event["register"], &event["space"]),
            (&Value::Null, &"config".into()),
            "{event}"
        );
    }
    let out = said(&["events", file]).out;
    for place in ["config+0x0", "config+0x4", "config+0x3c"] {
        assert!(out.contains(place), "{out}");
    }
    let rows = said(&["stats", file, "--json"]).json();
    assert!(rows.as_array().unwrap().iter().all(|r| r["name"].is_null()), "{rows}");
    let refused = run(["events", file, "--where", "MM_INDEX"]);
    assert!(
        refused.code == Some(2) && refused.err.contains("MM_INDEX"),
        "{refused:?}"
    );
    let found = said(&["events", file, "--where", "config+0x0", "--json"]).json();
    assert_eq!(found.as_array().unwrap().len(), 1, "{found}");
}

/// The middle of a log of a card, where nothing says what was mapped.
#[test]
fn unmapped_regions_become_spaces_named_by_address() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("middle.txt");
    let mut text = String::new();
    for n in 0..600u64 {
        // All over 16 MiB, and now and then another window far away.
        let address = match n % 60 {
            59 => 0x18_003c_0010 + n * 4,
            _ => 0xfa00_0000 + (n * 0x9_e370) % 0x100_0000 / 4 * 4,
        };
        text += &format!("W 4 500.{n:06} 3 {address:#x} {n:#x} 0x0 0\n");
    }
    std::fs::write(&log, text).unwrap();
    let file = log.to_str().unwrap();
    let json = said(&["events", file, "--json"]).json();
    let all = json.as_array().unwrap();
    assert_eq!(all.len(), 600, "none is left out");
    let mut spaces: Vec<&str> = all.iter().map(|e| e["space"].as_str().unwrap()).collect();
    spaces.sort_unstable();
    spaces.dedup();
    assert_eq!(spaces, ["memory@0x18003c0000", "memory@0xfa000000"]);
    for (n, e) in (0u64..).zip(all) {
        let number = |key: &str| {
            let text = e[key].as_str().unwrap();
            let digits = text.rsplit("0x").next().unwrap();
            u64::from_str_radix(digits, 16).unwrap()
        };
        let wanted = match n % 60 {
            59 => 0x18_003c_0010 + n * 4,
            _ => 0xfa00_0000 + (n * 0x9_e370) % 0x100_0000 / 4 * 4,
        };
        assert_eq!(
            number("space") + number("offset"),
            wanted,
            "an address is found again: {e}"
        );
        assert_eq!(number("value"), n);
    }
    assert!(said(&["events", file]).out.contains("  memory@0xfa000000+0x"));
    assert_eq!(
        events(file, "\"memory@0xfa000000+0x0\""),
        events(file, "memory@0xfa000000+0x0")
    );
}
