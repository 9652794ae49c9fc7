//! Recordings with several spaces: verbs show, search and compare every offset together with its space.

use serde_json::Value;
use std::path::Path;
use whole_program_tests::{ProgramOutput, root, run};

fn several_spaces_log() -> String {
    root().join("tests/excerpts/several-spaces.txt").display().to_string()
}

fn run_checked(arguments: &[&str]) -> ProgramOutput {
    let ended = run(arguments);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended
}

fn events(file: &str, filter: &str) -> Vec<u64> {
    let list = run_checked(&["events", file, "--where", filter, "--json"]).json();
    let number = |e: &Value| e["event"].as_u64().unwrap();
    list.as_array().unwrap().iter().map(number).collect()
}

/// Copies the log into `folder` with one text replaced. Returns the path of the copy.
fn copy_with_change(folder: &Path, from: &str, to: &str) -> String {
    let text = std::fs::read_to_string(several_spaces_log()).unwrap();
    assert!(text.contains(from), "{from}");
    let path = folder.join("changed.txt");
    std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    path.display().to_string()
}

#[test]
fn events_and_stats_show_the_space_of_every_address() {
    let out = run_checked(&["events", &several_spaces_log()]).out;
    for location in [
        "bar0+0x0",
        "bar0+0x10",
        "bar1+0x10",
        "bar1+0x12",
        "bar3+0x10",
        "bar3+0x29624",
    ] {
        assert!(out.contains(&format!("  {location} ")), "{location}: {out}");
    }
    for line in out.lines().filter(|l| l.contains(" read ") || l.contains(" write ")) {
        let location = line.split_whitespace().nth(4).unwrap();
        assert!(location.contains("+0x"), "a location without its space: {line}");
    }
    let out = run_checked(&["stats", &several_spaces_log(), "--histogram"]).out;
    assert_eq!(out.matches("0x10 ").count(), 4, "{out}");
    let bare = out.lines().find(|l| l.starts_with("0x"));
    assert_eq!(bare, None, "an offset without its space");
}

#[test]
fn displayed_location_is_a_valid_filter() {
    let file = several_spaces_log();
    let json = run_checked(&["events", &file, "--json"]).json();
    let locations: Vec<(u64, String)> = json
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["offset"].is_string() && !e["space"].as_str().unwrap().contains('@'))
        .map(|e| {
            let location = format!("{}+{}", e["space"].as_str().unwrap(), e["offset"].as_str().unwrap());
            (e["event"].as_u64().unwrap(), location)
        })
        .collect();
    assert!(locations.len() >= 8, "{locations:?}");
    for (event, location) in &locations {
        assert!(events(&file, location).contains(event), "{location}");
        let same = locations.iter().filter(|(_, p)| p == location).count();
        assert_eq!(events(&file, location).len(), same, "{location}");
    }
    assert_eq!(events(&file, "bar3+0x29624 and write").len(), 1);
    assert_eq!(events(&file, "bar3+0x29624 = 0x80").len(), 1);
    run(["events", &file, "--where", "bar7+0x10"]).assert_refused_with_location("no space is called `bar7`");
}

trait AssertLocation {
    fn assert_refused_with_location(&self, needle: &str);
}

impl AssertLocation for ProgramOutput {
    /// Asserts that a filter is refused with a message and a line that marks the wrong location.
    fn assert_refused_with_location(&self, needle: &str) {
        assert_eq!((self.code, self.out.as_str()), (Some(2), ""), "{self:?}");
        assert!(self.err.contains(needle) && self.err.contains('^'), "{self:?}");
    }
}

#[test]
fn register_option_searches_all_spaces() {
    let file = several_spaces_log();
    let one = run_checked(&["stats", &file, "--register", "0x29624"]);
    assert!(one.out.starts_with("no name, offset bar3+0x29624"), "{one:?}");
    assert!(one.out.contains("1 read, 1 write") && one.err.is_empty(), "{one:?}");
    let json = run_checked(&["stats", &file, "--register", "0x29624", "--json"]).json();
    assert_eq!((&json["space"], &json["writes"]), (&"bar3".into(), &1.into()));
    // If several spaces have the offset, a message names the others.
    let first = run_checked(&["stats", &file, "--register", "0x10"]);
    assert!(
        first.err.contains("bar3+0x10") && first.err.contains("accessed, too"),
        "{first:?}"
    );
    let exact = run_checked(&["stats", &file, "--register", "bar1+0x10", "--json"]).json();
    assert_eq!((&exact["space"], &exact["writes"]), (&"bar1".into(), &1.into()));
    let none = run_checked(&["stats", &file, "--register", "0x5000"]).out;
    assert!(none.contains("not accessed in any space (bar"), "{none}");
    run(["stats", &file, "--register", "bar9+0x10"]).assert_refused("no space is called 'bar9'");
}

#[test]
fn differences_name_the_space() {
    let folder = tempfile::tempdir().unwrap();
    // The same write goes to another BAR.
    let other = copy_with_change(
        folder.path(),
        "W 4 3.001020 2 0xd2000010 0x8",
        "W 4 3.001020 3 0x4000000010 0x8",
    );
    let ended = run(["diff", &several_spaces_log(), &other]);
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
    let json = run(["diff", &several_spaces_log(), &other, "--json"]).json();
    let list = json["events"]["list"].as_array().unwrap();
    let spaces: Vec<&str> = list.iter().filter_map(|e| e["space"].as_str()).collect();
    assert!(spaces.contains(&"bar1") && spaces.contains(&"bar3"), "{list:?}");
    // `--ignore` accepts a location as it is displayed.
    let other = copy_with_change(folder.path(), "0xd2000010 0x8", "0xd2000010 0x9");
    let diff = run(["diff", &several_spaces_log(), &other]);
    assert!(diff.out.contains("write bar1+0x10 0x8 becomes 0x9"), "{}", diff.out);
    for (location, code) in [("bar1+0x10", 0), ("bar3+0x10", 1), ("0x10", 1)] {
        let ignored = run([
            "diff",
            &several_spaces_log(),
            &other,
            "--ignore",
            &format!("register {location}"),
        ]);
        assert_eq!(ignored.code, Some(code), "{location}: {}", ignored.out);
    }
}

#[test]
fn config_space_has_names_of_pci_and_not_of_a_bar_map() {
    let file = root().join("tests/excerpts/configuration-space.log");
    let file = file.to_str().unwrap();
    let info = run_checked(&["info", file]).out;
    assert!(info.contains("1002:5159"), "the card has a register map: {info}");
    // The names are those of PCI.
    for event in run_checked(&["events", file, "--json"]).json().as_array().unwrap() {
        assert_eq!(event["space"], "config", "{event}");
        assert!(event["register"].as_str().unwrap().starts_with("PCI_"), "{event}");
    }
    let out = run_checked(&["events", file]).out;
    for name in ["PCI_VENDOR_ID", "PCI_COMMAND", "PCI_INTERRUPT_LINE"] {
        assert!(out.contains(name), "{out}");
    }
    let rows = run_checked(&["stats", file, "--json"]).json();
    // The accesses are wider than a register, and have the names of all that they cover.
    assert_eq!(rows[0]["name"], "PCI_VENDOR_ID to PCI_DEVICE_ID", "{rows}");
    let refused = run(["events", file, "--where", "MM_INDEX"]);
    assert!(
        refused.code == Some(2) && refused.err.contains("MM_INDEX"),
        "{refused:?}"
    );
    let matching = run_checked(&["events", file, "--where", "config+0x0", "--json"]).json();
    assert_eq!(matching.as_array().unwrap().len(), 1, "{matching}");
}

/// The log is the middle of a longer log and contains no mappings.
#[test]
fn unmapped_regions_become_spaces_named_by_address() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("middle.txt");
    let mut text = String::new();
    for n in 0..600u64 {
        // Addresses are spread over 16 MiB. Every 60th address is in a distant region.
        let address = match n % 60 {
            59 => 0x18_003c_0010 + n * 4,
            _ => 0xfa00_0000 + (n * 0x9_e370) % 0x100_0000 / 4 * 4,
        };
        text += &format!("W 4 500.{n:06} 3 {address:#x} {n:#x} 0x0 0\n");
    }
    std::fs::write(&log, text).unwrap();
    let file = log.to_str().unwrap();
    let json = run_checked(&["events", file, "--json"]).json();
    let all = json.as_array().unwrap();
    assert_eq!(all.len(), 600, "every event is imported");
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
        let expected = match n % 60 {
            59 => 0x18_003c_0010 + n * 4,
            _ => 0xfa00_0000 + (n * 0x9_e370) % 0x100_0000 / 4 * 4,
        };
        assert_eq!(
            number("space") + number("offset"),
            expected,
            "space and offset add up to the address: {e}"
        );
        assert_eq!(number("value"), n);
    }
    assert!(run_checked(&["events", file]).out.contains("  memory@0xfa000000+0x"));
    assert_eq!(
        events(file, "\"memory@0xfa000000+0x0\""),
        events(file, "memory@0xfa000000+0x0")
    );
}
