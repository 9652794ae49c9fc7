//! The JSON of every verb has exactly these keys of these types, because scripts rely on them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

#[path = "../../../trace-core/tests/it/calls/net.rs"]
mod net;

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use trace_core::progress::Progress;
use trace_core::recording::Capture;
use whole_program_tests::{copy_diverging, root, run};

fn sample(name: &str) -> String {
    let path: PathBuf = root().join("sample-traces").join(name);
    path.to_str().unwrap().to_owned()
}

fn json(arguments: &[&str], code: i32) -> Value {
    let ended = run(arguments.iter().copied().chain(["--json"]));
    assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.err);
    assert!(ended.err.is_empty(), "{arguments:?}: {}", ended.err);
    ended.json()
}

/// Asserts that an object has exactly these keys, in any order: `name:type`. A `?` after the type also accepts null.
/// Types: `n` integer of 0 or more, `f` number, `b` true or false, `a` array, `o` object. String types: `h` lower-case
/// `0x…`, `d` 64 hex digits, `s` any string.
fn assert_form(value: &Value, keys: &str) {
    let object = value.as_object().unwrap_or_else(|| panic!("not an object: {value}"));
    let mut expected: Vec<(&str, &str)> = keys.split_whitespace().map(|k| k.split_once(':').unwrap()).collect();
    expected.sort_unstable();
    let mut names: Vec<&str> = object.keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected_names: Vec<&str> = expected.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, expected_names, "{value}");
    for (name, kind) in expected {
        assert!(documented_keys().contains(name), "no page of docs/ names {name}");
        let v = &object[name];
        if let Some(kind) = kind.strip_suffix('?') {
            assert!(v.is_null() || has_type(v, kind), "{name}: {v} is not of type {kind}");
        } else {
            assert!(has_type(v, kind), "{name}: {v} is not of type {kind}");
        }
    }
}

/// Returns the keys that the pages about JSON name in backquotes, without their path.
fn documented_keys() -> &'static BTreeSet<String> {
    static KEYS: OnceLock<BTreeSet<String>> = OnceLock::new();
    KEYS.get_or_init(|| {
        let pages = ["json.md", "shaders.md"].map(|p| std::fs::read_to_string(root().join("docs").join(p)).unwrap());
        let quoted = pages
            .iter()
            .flat_map(|p| p.lines().flat_map(|l| l.split('`').skip(1).step_by(2)));
        let key = |q: &str| {
            q.trim_end_matches("[]")
                .rsplit('.')
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        quoted.map(key).collect()
    })
}

fn has_type(v: &Value, kind: &str) -> bool {
    let digits = |t: &str| t.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match kind {
        "n" => v.is_u64(),
        "f" => v.is_number(),
        "h" => v
            .as_str()
            .and_then(|t| t.strip_prefix("0x"))
            .is_some_and(|t| !t.is_empty() && digits(t)),
        "d" => v.as_str().is_some_and(|t| t.len() == 64 && digits(t)),
        "s" => v.is_string(),
        "b" => v.is_boolean(),
        "a" => v.is_array(),
        "o" => v.is_object(),
        other => panic!("no type {other}"),
    }
}

/// Asserts that a list is not empty and that every element has this form.
fn assert_each(list: &Value, keys: &str) {
    let list = list.as_array().unwrap_or_else(|| panic!("not a list: {list}"));
    assert!(!list.is_empty());
    for element in list {
        assert_form(element, keys);
    }
}

const FINDING: &str = "kind:s severity:s place:s message:s";

#[test]
fn info() {
    let info = json(&["info", &sample("vecadd.kine")], 0);
    assert_form(
        &info,
        "events:n reads:n writes:n interrupts:n polls:n jobs:n pages:n zero_pages:n distinct_pages:n mapped_pages:n \
         address_spaces:n buffers:a span_ns:n lost_events:n gpu:o source:s recorded:o? driver:s board:s",
    );
    assert_each(&info["buffers"], "name:s role:s va:h bytes:n type:s shape:a?");
    assert_form(&info["gpu"], "id:h name:s");
}

#[test]
fn info_of_a_recording_with_capture_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("captured.kine");
    let mut r = trace_core::import::open(sample("vecadd.kine").as_ref(), &Progress::new()).unwrap();
    r.set_capture(&Capture {
        method: "mmiotrace".into(),
        kernel: "6.1.0-56-amd64".into(),
        architecture: "x86_64".into(),
        driver: "radeonfb".into(),
        command: ["sh", "-c", "echo hello > /dev/tty1"].map(str::to_owned).to_vec(),
        exit_code: Some(0),
        cut: Some("the log is full".into()),
        lost: 3,
        unobserved: vec!["port I/O".into()],
    });
    trace_core::container::write(&r, &path, &Progress::new()).unwrap();
    let path = path.to_str().unwrap();
    let info = json(&["info", path], 0);
    assert_form(
        &info["capture"],
        "method:s kernel:s architecture:s driver:s command:a exit_code:n cut:s lost:n unobserved:a",
    );
    assert_eq!(info["capture"]["command"][2], "echo hello > /dev/tty1");
    let text = run(["info", path]);
    for line in [
        "Captured by   mmiotrace",
        "Machine       Linux 6.1.0-56-amd64 on x86_64",
        "Bound driver  radeonfb",
        "Command       sh -c 'echo hello > /dev/tty1', which ended well",
        "Cut short     the log is full",
        "Kernel lost   3 events",
        "Not observed  port I/O",
    ] {
        assert!(text.out.lines().any(|l| l.trim_end() == line), "{line}: {}", text.out);
    }
}

#[test]
fn events() {
    let all = json(&["events", &sample("vecadd.kine")], 0);
    for event in all.as_array().unwrap() {
        let access = matches!(event["kind"].as_str(), Some("read" | "write"));
        assert!(access || event["kind"] == "interrupt", "{event}");
        let means = if event.get("means").is_some() { " means:s" } else { "" };
        let keys = if access {
            "event:n kind:s time_ns:n thread:n space:s offset:h register:s width:n value:h"
        } else {
            "event:n kind:s time_ns:n thread:n register:s value:h"
        };
        assert_form(event, &format!("{keys}{means}"));
    }
}

#[test]
fn stats() {
    const ROW: &str = "name:s? space:s offset:h accesses:n reads:n writes:n first_event:n last_event:n values:n \
                       rate_per_s:f? gap_ns:o?";
    assert_each(&json(&["stats", &sample("vecadd.kine")], 0), ROW);
    let file = sample("vecadd.kine");
    let all = json(&["stats", &file, "--where", "write", "--histogram"], 0);
    assert_each(&all, &format!("{ROW} histogram:a"));
    for row in all.as_array().unwrap() {
        assert_each(&row["histogram"], "from:h to:h count:n");
    }
    let one = json(&["stats", &file, "--register", "JS1_COMMAND_NEXT"], 0);
    assert_form(
        &one,
        "name:s? space:s offset:h width:n reads:n writes:n partial:n looks_like:a different_values:n beyond:n \
         values:a bits_changed:h bits_always_1:h bits_always_0:h read_back:n read_other:n cleared:n kept:n rises:n \
         falls:n polls:n polled_reads:n awaited_bits:h pollers:a followers:a",
    );
    assert_each(&one["values"], "value:h count:n means:s?");
    assert_each(
        &one["followers"],
        "name:s? offset:h write:b count:n median_accesses:n median_ns:f",
    );
    let between = json(&["stats", &file, "--between", "submit", "irq.line = job"], 0);
    assert_form(&between, "count:n repeated:n strays:n open_event:n? ns:o?");
    assert_form(&between["ns"], "min:f median:f mean:f p99:f max:f shortest:o longest:o");
    assert_form(&between["ns"]["longest"], "from_event:n to_event:n");
}

/// Returns the log of a driver that sets a mode of a Bochs display and stores four pixels. The third pixel is red.
fn small_log() -> String {
    let mut log = "VERSION 20070824\n\
                   PCIDEV 0018 12341111 0 fd000008 0 febf9000 0 0 0 febf0000 1000000 0 1000 0 0 0 8000 \n\
                   MAP 1.0 1 0xfebf9000 0xffffd08080075000 0x1000 0x0 0\n\
                   MAP 1.1 2 0xfd000000 0xffffd08081000000 0x1000000 0x0 0\n"
        .to_owned();
    for (register, value) in [(1, 64), (2, 64), (3, 32), (6, 64), (8, 0), (9, 0), (4, 0x41)] {
        log += &format!("W 2 1.2 1 {:#x} {value:#x} 0x0 0\n", 0xfebf_9500u32 + 2 * register);
    }
    for (pixel, value) in [(0, 0x11_1111), (1, 0x11_1111), (2, 0xff_0000), (3, 0x11_1111)] {
        log += &format!("W 4 1.3 2 {:#x} {value:#x} 0x0 0\n", 0xfd00_0000u32 + 4 * pixel);
    }
    log
}

#[test]
fn screen() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("little.txt");
    std::fs::write(&log, small_log()).unwrap();
    let ppm = folder.path().join("other.ppm");
    std::fs::write(&ppm, [b"P6 64 64 255\n".to_vec(), vec![0x11; 64 * 64 * 3]].concat()).unwrap();
    let (log, ppm) = (log.to_str().unwrap(), ppm.to_str().unwrap());
    let all = json(&["screen", log, "--pixel", "2,0", "--compare", ppm], 1);
    assert_form(
        &all,
        "event:n stores:n space:s format:o since_event:n? known_pixels:n never_stored_pixels:n lost_pixels:n \
         engine_runs:n cursor:b palette:b pixel:o comparison:o",
    );
    assert_form(
        &all["format"],
        "width:n height:n pitch:n base:h pixel_form:s big_endian:b by_hand:b",
    );
    assert_form(&all["pixel"], "x:n y:n offset:h color:s? known:s stores:a more:b");
    assert_each(
        &all["pixel"]["stores"],
        "event:n time_ns:n offset:h width:n value:h? color:s?",
    );
    assert_form(&all["comparison"], "compared:n differing:n worst:n bounds:o? first:o?");
    assert_form(&all["comparison"]["first"], "x:n y:n own:o other:o");
    assert_form(
        &all["comparison"]["first"]["own"],
        "color:s event:n? time_ns:n? value:h?",
    );
    assert_form(&all["comparison"]["bounds"], "left:n top:n right:n bottom:n");
    assert_eq!(all["pixel"]["color"], "#ff0000");
    assert_eq!(all["known_pixels"], 4);
    assert_eq!(
        (&all["comparison"]["compared"], &all["comparison"]["differing"]),
        (&4.into(), &1.into())
    );
}

#[test]
fn jobs() {
    let jobs = json(&["jobs", &sample("chain2.kine")], 0);
    assert_each(
        &jobs,
        "index:n submit_event:n done_event:n head_va:h type:s decoded:b dispatch:o? shader_va:h? duration_ns:n chain:a \
         recorded:o? chain_end:s",
    );
    let mut dispatches = 0;
    for job in jobs.as_array().unwrap() {
        assert_each(&job["chain"], "va:h type:s decoded:b dispatch:o? shader_va:h?");
        for link in job["chain"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|l| l["dispatch"].is_object())
        {
            assert_form(&link["dispatch"], "workgroups:a size:a");
            for key in ["workgroups", "size"] {
                let dimensions = link["dispatch"][key].as_array().unwrap();
                assert!(dimensions.len() == 3 && dimensions.iter().all(Value::is_u64), "{link}");
            }
            dispatches += 1;
        }
    }
    assert!(dispatches > 0);
}

#[test]
fn shader() {
    let report = json(&["shader", &sample("matmul.kine")], 0);
    assert_form(&report, "operations:n unknown_operations:n unknown:a shaders:a");
    assert_each(
        &report["shaders"],
        "shader_va:h address_space:n stage:s bytes:n operations:n unknown_operations:n whole:b end:s jobs:a clauses:a",
    );
    for shader in report["shaders"].as_array().unwrap() {
        assert_each(&shader["jobs"], "job:n position:n va:h type:s");
        assert_each(
            &shader["clauses"],
            "va:h label:s header:s bytes:n reached:b targets:a indirect:b tuples:a",
        );
        for clause in shader["clauses"].as_array().unwrap() {
            assert_each(&clause["tuples"], "fma:o add:o");
            for tuple in clause["tuples"].as_array().unwrap() {
                assert_form(&tuple["fma"], "text:s bits:h known:b");
                assert_form(&tuple["add"], "text:s bits:h known:b");
            }
        }
    }
}

const ACCESS: &str = "va:h bytes:n value:h instruction:s";

#[test]
fn shader_thread() {
    let file = sample("vecadd.kine");
    let report = json(&["shader", &file, "--job", "0", "--thread", "0"], 0);
    assert_form(
        &report,
        "job:n position:n job_va:h shader_va:h workgroup:a thread:a workgroups:a size:a uniforms:a executed:n whole:b \
         end:s stopped:s? registers_before:a registers_after:a steps:a",
    );
    assert_each(
        &report["steps"],
        "step:n clause_va:h label:s threads_together:n registers:a reads:a writes:a",
    );
    let all = |key: &str| -> Vec<Value> {
        let steps = report["steps"].as_array().unwrap().iter();
        steps.flat_map(|s| s[key].as_array().unwrap().clone()).collect()
    };
    assert_each(&Value::from(all("registers")), "register:s before:h after:h");
    assert_each(&Value::from(all("reads")), ACCESS);
    assert_each(&Value::from(all("writes")), ACCESS);
}

#[test]
fn who() {
    let file = sample("vecadd.kine");
    let buffers = json(&["info", &file], 0)["buffers"].as_array().unwrap().clone();
    let c = buffers.iter().find(|b| b["name"] == "c").unwrap();
    let report = json(&["who", &file, "--va", c["va"].as_str().unwrap()], 0);
    assert_form(
        &report,
        "va:h address_space:n byte:h writer:s event:n? job:n? position:n? job_va:h? shader:o?",
    );
    assert_form(
        &report["shader"],
        "shader_va:h workgroup:a thread:a clause_va:h label:s tuple:n instruction:s step:n write:o reads:a \
         reads_before:n",
    );
    assert_form(&report["shader"]["write"], ACCESS);
    assert_each(
        &report["shader"]["reads"],
        "step:n clause_va:h va:h bytes:n value:h instruction:s",
    );
}

#[test]
fn map() {
    let file = sample("vecadd.kine");
    assert_each(
        &json(&["map", &file], 0),
        "address_space:n format:s root:h va:h end:h pages:n rights:s attribute:n pa:h? executable_and_writable:b \
         mapped_twice_pages:n mapped_twice:a pages_without_content:n",
    );
    for (address, code) in [("0xf7ffb123", 0), ("0x1000", 1)] {
        let walks = json(&["map", &file, "--walk", address], code);
        assert_each(&walks, "address_space:n va:h steps:a pa:h? rights:s? fault:s?");
        assert_each(&walks[0]["steps"], "level:n index:n entry_at:h raw:h kind:s");
        assert_eq!(walks[0]["pa"].is_string(), code == 0);
    }
}

#[test]
fn export() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("a.vcd");
    let parsed_json = json(
        &[
            "export",
            &sample("vecadd.kine"),
            "--to",
            "vcd",
            "-o",
            to.to_str().unwrap(),
        ],
        0,
    );
    assert_form(
        &parsed_json,
        "path:s events:n signals:n left_out:n held_back:n jobs_left_out:n threads_joined:n",
    );
}

#[test]
fn maps() {
    let folder = tempfile::tempdir().unwrap();
    let file = root().join("trace-core/maps/tests/files/timer.svd");
    let to = folder.path().join("timer.map.toml");
    let import_report = json(
        &["maps", "import", file.to_str().unwrap(), "-o", to.to_str().unwrap()],
        0,
    );
    assert_form(
        &import_report,
        "name:s format:s written:s? window_at:h? registers:n fields:n layouts:n layout_fields:n enumerations:n \
         not_carried_over:a more_not_carried_over:n map:s?",
    );
    for item in import_report["not_carried_over"].as_array().unwrap() {
        assert_form(item, "file:s line:n column:n kind:s what:s");
    }
    let keys = "name:s registers:n? layouts:n? from:s path:s? error:s? names_this_recording:b";
    assert_each(&json(&["maps", "list", &sample("vecadd.kine")], 0), keys);
}

#[test]
fn memory() {
    let file = sample("vecadd.kine");
    let hex = json(&["memory", &file, "0xf7ffb000", "--bytes", "16"], 0);
    assert_form(&hex, "va:h bytes:n type:s hex:s holes:a");
    assert_eq!(hex["hex"].as_str().unwrap().len(), 32);
    let numbers = json(&["memory", &file, "--buffer", "a", "--type", "f32"], 0);
    assert_form(&numbers, "va:h bytes:n type:s elements:a holes:a");
    assert_eq!(numbers["elements"].as_array().unwrap().len(), 1024);
    let hole = json(&["memory", &file, "0x1000", "--bytes", "8"], 0);
    assert_each(&hole["holes"], "va:h bytes:n state:s");
    let first: String = hex["hex"].as_str().unwrap().chars().take(16).collect();
    let hits = json(&["memory", &file, "--search", &first], 0);
    assert!(
        hits.as_array().unwrap().iter().all(|h| has_type(h, "h")) && hits[0] == "0xf7ffb000",
        "{hits}"
    );
}

#[test]
fn check() {
    assert_each(&json(&["check", &sample("vecadd.kine")], 0), FINDING);
}

#[test]
fn diff() {
    let diff = json(&["diff", &sample("vecadd.kine"), &sample("saxpy.kine")], 1);
    assert_form(
        &diff,
        "same:b first_difference:o jobs:o events:o registers:a host_writes:o descriptors:o mappings:o memory:o causes:a \
         rules:a calls:o? summary:s not_compared:s not_computed:o",
    );
    assert_form(&diff["not_computed"], "a:n b:n");
    assert_form(&diff["jobs"], "a:n b:n");
    assert_form(
        &diff["events"],
        "equal:n changed:n inserted:n deleted:n moved:n relocated:n uncompared:n folded:o cut_short:a one_sided:a \
         foreign:o not_played:o list:a",
    );
    for sides in ["folded", "foreign", "not_played"] {
        assert_form(&diff["events"][sides], "a:n b:n");
    }
    assert_form(
        &diff["host_writes"],
        "same:n already:n changed:n only_a:n only_b:n uncompared:n unmapped:n by:s list:a",
    );
    assert_form(
        &diff["descriptors"],
        "same:n changed:n only_a:n only_b:n relocated:n unknown:n status:n status_fields:a list:a",
    );
    assert_each(
        &diff["descriptors"]["list"],
        "job:o a_event:n b_event:n in_chain:n layout:s a_address_space:n b_address_space:n a_va:h? b_va:h? bytes:n \
         fields:a",
    );
    assert_each(&diff["descriptors"]["list"][0]["fields"], "field:s a:s? b:s?");
    assert_form(&diff["mappings"], "same:n changed:n only_a:n only_b:n moved:n list:a");
    assert_form(
        &diff["memory"],
        "by:s pages_same:n pages_differ:n pages_only_a:n pages_only_b:n pages_ignored:n not_held:o bytes_differ:n pages:a \
         buffers:a",
    );
    assert_each(
        &diff["memory"]["buffers"],
        "name:s differs:b a_va:h? b_va:h? a_bytes:n? b_bytes:n? element:s? compared:n equal:n within:n differ:n \
         unknown_bytes:n bytes_differ:n first:o? errors:o? tolerance:o?",
    );
    assert_each(
        &diff["mappings"]["list"],
        "address_space:n va:h pages:n rights_a:s? rights_b:s? attribute_a:n? attribute_b:n? entry_a:h? entry_b:h? \
         moved_to:h?",
    );
    // One recording has two jobs, the other has one.
    let jobs_diff = json(&["diff", &sample("vecadd.kine"), &sample("chain2.kine")], 1);
    assert_each(
        &jobs_diff["events"]["list"],
        "job:o what:s a_event:n? b_event:n? events:n kind:s call:s? space:s? offset:h register:s? a:h? b:h?",
    );
    assert_form(&jobs_diff["first_difference"], "a_event:n? b_event:n? what:s");
    assert_each(
        &jobs_diff["registers"],
        "register:s offset:h count:n a_event:n? b_event:n? field:s a:s? b:s?",
    );
    assert_each(
        &jobs_diff["causes"],
        "a_event:n? b_event:n? address_space:n? va:h? buffer:s? what:s steps:a",
    );
    let steps = jobs_diff["causes"].as_array().unwrap().iter().map(|c| &c["steps"]);
    for step in steps.filter(|s| s.as_array().is_some_and(|s| !s.is_empty())) {
        assert_each(step, "link:s sure:b a_event:n? b_event:n? buffer:s? what:s");
    }
    let image = |name: &str| sample(name);
    assert_form(
        &json(&["diff", "--raw", &image("vecadd.kine"), &image("saxpy.kine")], 1),
        "same:b a_bytes:n b_bytes:n pages_differ:n bytes_differ:n ranges_in_all:n ranges:a element:s compared:n equal:n \
         within:n differ:n first:o? errors:o? tolerance:o? rules:a",
    );
    assert_each(
        &diff["memory"]["pages"],
        "address_space:n va:h in_a:b in_b:b first_byte:h?",
    );
}

#[test]
fn import_and_verify() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("gr_io_history"),
        "0,R,0x0,60a00002\n521,R,0x4,07130206\n520,R,0x8,0\n",
    )
    .unwrap();
    let kine = dir.path().join("f.kine");
    let (from, to) = (dir.path().to_str().unwrap(), kine.to_str().unwrap());
    let import = json(&["import", from, "-o", to], 0);
    assert_form(&import, "path:s bytes:n events:n pages:n distinct_pages:n findings:a");
    for finding in import["findings"].as_array().unwrap() {
        assert_form(finding, FINDING);
    }
    let verify = json(&["verify", to], 0);
    assert_form(
        &verify,
        "sound:b commits:n sections:n bytes:n bytes_behind:n problem_count:n problems:a",
    );
    // The changed byte is in a section that the last commit uses.
    let mut bytes = std::fs::read(&kine).unwrap();
    bytes[4096] ^= 1;
    std::fs::write(&kine, bytes).unwrap();
    let damaged = json(&["verify", to], 1);
    assert_each(&damaged["problems"], "byte:h message:s");
    assert_eq!(damaged["sound"], false);
}

#[test]
fn trim() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("part.kine");
    let cut = json(
        &[
            "trim",
            &sample("twopass.kine"),
            "--jobs",
            "1",
            "-o",
            to.to_str().unwrap(),
        ],
        0,
    );
    assert_form(
        &cut,
        "path:s bytes:n bytes_before:n? jobs:n jobs_kept:a added:a unknown:s? events:n events_before:n job_events_out:n \
         host_writes_out:n supplied:n pages:n pages_before:n extras_out:a",
    );
    assert_each(&cut["added"], "job:n why:s needed_by:n? bytes:n?");
    assert_eq!(cut["added"][0]["why"], "reads");
    assert_eq!(cut["jobs_kept"].as_array().unwrap().len(), 2);
}

#[test]
fn apply() {
    let folder = tempfile::tempdir().unwrap();
    let (input, to) = (folder.path().join("image.bin"), folder.path().join("one.kine"));
    let bytes = trace_core::import::open(Path::new(&sample("digits.kine")), &Progress::new());
    let bytes = bytes.unwrap().buffer("image").unwrap().bytes;
    std::fs::write(&input, vec![0; bytes as usize]).unwrap();
    let input_option = format!("image={}", input.display());
    let applied = json(
        &[
            "apply",
            &sample("digits.kine"),
            "--input",
            &input_option,
            "-o",
            to.to_str().unwrap(),
        ],
        0,
    );
    assert_form(&applied, "path:s bytes:n edits:a");
    assert_each(&applied["edits"], "buffer:s bytes:n source:s");
}

#[test]
fn bisect() {
    let report = json(
        &["bisect", &sample("twopass.kine"), "--test", "exit 0", "--jobs-only"],
        0,
    );
    assert_form(
        &report,
        "path:s? jobs:n jobs_kept:a events:n events_before:n tried:n shown:n not_shown:n cannot_tell:n ended:s? \
         duration_ns:n steps:a",
    );
    assert_each(&report["steps"], "jobs_kept:a events:n shows:s why:s?");
}

#[test]
fn notebook_and_link() {
    let folder = tempfile::tempdir().unwrap();
    let file = whole_program_tests::copy_with_notes(folder.path(), "digits.kine", &[(40, "second"), (5, "first")]);
    let notes = json(&["notebook", file.to_str().unwrap()], 0);
    assert_form(&notes, "notes:a path:s? pictures:n without_pictures:s?");
    assert_each(
        &notes["notes"],
        "event:n ns:n job:n? what:s text:s selected:s? panels:a link:s",
    );
    assert_eq!(notes["notes"][0]["text"], "first");
    let link = json(&["link", file.to_str().unwrap(), "--at", "5"], 0);
    assert_form(&link, "link:s");
}

#[test]
fn boards_and_agents() {
    let targets = json(&["boards"], 0);
    assert_each(
        &targets,
        "board:s description:s state:s reason:s? gpu:o? virtual_time:b? computes:b? containment:s?",
    );
    assert_form(&targets[0]["gpu"], "id:h name:s");
    assert_eq!(json(&["agents"], 0), Value::Array(Vec::new()));
    assert_form(&json(&["agents", "--own-key"], 0), "fingerprint:s key:d");
}

#[test]
fn doctor() {
    let ended = run(["doctor", "--json"]);
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    let report = ended.json();
    assert_form(&report, "basis:b areas_ready:n areas:a");
    assert_each(&report["areas"], "area:s purpose:s ready:b checks:a");
    for area in report["areas"].as_array().unwrap() {
        assert_each(&area["checks"], "check:s state:s found:s mend:s?");
    }
}

#[test]
fn plan() {
    let plan = json(&["plan", &sample("vecadd.kine"), "--on", "software:mali-g71"], 0);
    assert_form(
        &plan,
        "title:s board:s actions:n body_bytes:n pages:n used_pages:n arena:o reads:o interrupts:n jobs:n rewrites:o \
         rewrite_list:a outputs:a budgets:o verified:o allowed:a \
         masters_bus:b expectations:n",
    );
    assert_form(&plan["arena"], "base:h end:h");
    assert_form(&plan["reads"], "equal:n masked:n until:n feeds:n any:n");
    assert_each(&plan["rewrite_list"], "kind:s event:n? detail:s");
    assert_form(&plan["budgets"], "actions:n pages:n time_ns:n interrupt_ns:n poll_ns:n");
    assert_form(&plan["verified"], "leaves:n tables:n jobs:n unproved:a");
}

const REPLAY: &str = "outcome:s verdict:s computed:b actions:n reads:o reads_compared:n reads_matched:n jobs:n interrupts:n \
     rewrites:o divergences:a divergence_count:n findings:a outputs:a effects:a unchecked:a screen:o? timing:o \
     pushed_bytes:n board:s failure:s? faults:a job_outcomes:a device_ns:n fingerprint:d allowed:a mastered_bus:b";

#[test]
fn replay() {
    let file = sample("vecadd.kine");
    let outcome = json(&["replay", &file, "--on", "software:mali-g71"], 0);
    assert_form(&outcome, REPLAY);
    assert_form(&outcome["reads"], "equal:n masked:n until:n feeds:n any:n");
    assert_each(&outcome["outputs"], "name:s bytes:n blake3:d");
    assert_each(
        &outcome["job_outcomes"],
        "index:n submit_event:n head_va:h done:b status:h? computed:b? why_not:s? duration_ns:n",
    );
    assert_form(&outcome["timing"], "plan_ns:n push_ns:n run_ns:n");
    let kinds = outcome["rewrites"].as_object().unwrap();
    let known_kinds = [
        "root",
        "flush-id",
        "job-status",
        "gap",
        "read-to-wait",
        "wait-added",
        "input",
        "output",
        "address",
    ];
    assert!(
        kinds
            .iter()
            .all(|(k, n)| known_kinds.contains(&k.as_str()) && n.as_u64() > Some(0)),
        "{kinds:?}"
    );

    let many = json(&["replay", &file, "--on", "software:mali-g71", "--repeat", "3"], 0);
    assert_form(&many["timing"], "plan_ns:n push_ns:n run_ns:n runs:o");
    assert_form(
        &many["timing"]["runs"],
        "count:n min_ns:n p50_ns:n p90_ns:n p99_ns:n max_ns:n",
    );

    let folder = tempfile::tempdir().unwrap();
    let other = copy_diverging(folder.path(), "vecadd.kine");
    let other = json(&["replay", other.to_str().unwrap(), "--on", "software:mali-g71"], 1);
    assert_form(&other, REPLAY);
    assert_each(
        &other["divergences"],
        "event:n register:s expected:h got:h class:s job:n?",
    );
}

/// Writes an API trace to a file. Returns its path and its data.
fn write_api_trace(folder: &tempfile::TempDir) -> (String, net::Net) {
    let n = net::net(2);
    let path = folder.path().join("calls.kine");
    trace_core::container::write(&n.recording, &path, &Progress::new()).unwrap();
    (path.to_str().unwrap().to_owned(), n)
}

#[test]
fn calls() {
    let folder = tempfile::tempdir().unwrap();
    let (file, n) = write_api_trace(&folder);
    let launches = json(&["launches", &file], 0);
    assert_each(
        &launches,
        "launch:n event:n kernel:s function:n grid:a block:a cluster:a? shared:n stream:n stream_name:s cooperative:b \
         of_graph:b took_ns:n device_ns:n? result:n arguments:a changed:a?",
    );
    assert_each(&launches[3]["changed"], "buffer:s? va:h end_va:h bytes:n");
    assert_eq!(
        launches[3]["changed"][0]["buffer"], "out0",
        "the recording has the memory around this launch"
    );
    let list = launches.as_array().unwrap();
    let events: Vec<u64> = list.iter().map(|l| l["event"].as_u64().unwrap()).collect();
    assert_eq!(events, n.launches);
    let arguments = &list[0]["arguments"];
    assert_each(arguments, "name:s offset:n bytes:n type:s value:s pointers:a");
    assert_each(&arguments[0]["pointers"], "at:n va:h buffer:s buffer_offset:n");
    assert_eq!(
        (&arguments[0]["type"], &arguments[0]["value"]),
        (&"float const*".into(), &"in2".into())
    );
    let relu = json(&["launches", &file, "--kernel", "RELU"], 0);
    assert_eq!(relu.as_array().unwrap().len(), 2);

    let kernels = json(&["kernels", &file], 0);
    assert_each(
        &kernels,
        "function:n kernel:s name:s module:n? module_bytes:n code:s arch:s ptx:b launches:n first_event:n? registers:n? shared:n? \
         local:n? constant:n? max_threads:n? parameters:a held:a problem:s?",
    );
    assert_each(&kernels[0]["parameters"], "offset:n bytes:n type:s");
    let ptx = json(&["kernels", &file, "--ptx", "relu"], 0);
    assert_form(&ptx, "kernel:s entry_line:n? ptx:s? problem:s?");
    let line = ptx["entry_line"].as_u64().unwrap() as usize;
    assert!(
        ptx["ptx"]
            .as_str()
            .unwrap()
            .lines()
            .nth(line - 1)
            .unwrap()
            .contains("_Z4reluPfi")
    );
    let none = json(&["kernels", &file, "--ptx", "Gemm"], 1);
    assert!(none["ptx"].is_null() && none["problem"].as_str().unwrap().contains("its memory is gone"));

    let end = (n.scores_out).to_string();
    let who = json(&["who", &file, "out0+0x4", "--at", &end], 0);
    let keys = "va:h at_event:n buffer:s? buffer_offset:n? byte:h? known:b state:s writer:o? changed:o? \
                changed_unrecorded:b launches:a left_as_it_was:n readers:n other_launches:n taken_event:n?";
    assert_form(&who, keys);
    assert_form(&who["changed"], "launch:n event:n kernel:s from:h to:h");
    assert_eq!(who["changed"]["event"], n.around);
    let doubt = json(&["who", &file, "out0+0x4", "--at", &n.around.to_string()], 0);
    assert_form(&doubt, keys);
    assert_each(&doubt["launches"], "launch:n event:n kernel:s certain:b how:s");
    assert_eq!(doubt["launches"][0]["event"], n.launches[2]);
    let address = format!("{:#x}", n.image);
    let who = json(&["who", &file, &address], 0);
    assert_form(&who["writer"], "event:n kind:s from_va:h?");
    assert_eq!(who["writer"]["kind"], "copy-from-host");

    let buffers = json(&["memory", &file], 0);
    assert_each(
        &buffers,
        "name:s also:s? va:h bytes:n kind:s from_event:n to_event:n? live:b known_bytes:n",
    );
    let after = (n.around + 1).to_string();
    let read = json(
        &["memory", &file, "--buffer", "out0", "--type", "f32", "--event", &after],
        0,
    );
    assert_form(&read, "va:h bytes:n type:s elements:a holes:a");
    assert_eq!(read["elements"].as_array().unwrap().len(), 10);
    let unknown = json(
        &["memory", &file, "alloc 0+0x10", "--bytes", "32", "--event", &after],
        0,
    );
    assert_form(&unknown, "va:h bytes:n type:s hex:s holes:a");
    assert_each(&unknown["holes"], "va:h bytes:n state:s event:n?");
    assert!(
        unknown["holes"][0]["state"]
            .as_str()
            .unwrap()
            .contains("unknown since the launch")
    );
}

#[test]
fn call_verbs_print_readable_text() {
    let folder = tempfile::tempdir().unwrap();
    let (file, n) = write_api_trace(&folder);
    let text = |arguments: &[&str]| {
        let ended = run(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.err);
        ended.out
    };
    let launches = text(&["launches", &file]);
    assert!(
        launches.lines().nth(1).unwrap().contains("in2, in0, alloc 0, 784, 28"),
        "{launches}"
    );
    let memory = text(&["memory", &file, "alloc 0", "--event", &(n.around).to_string()]);
    assert!(
        memory.contains("16384 bytes unknown since the launch at event"),
        "{memory}"
    );
    let who = text(&["who", &file, "in0"]);
    assert!(who.contains("certain write at event"), "{who}");
    assert!(text(&["kernels", &file, "--ptx", "softmax"]).starts_with("//"));
    // A verb that does not apply to API traces reports that. So does a verb that applies only to them.
    for wrong in [
        ["launches", &sample("vecadd.kine")].as_slice(),
        &["who", &file, "nothing"],
        &["who", &sample("vecadd.kine"), "0x1000", "--at", "4"],
        &["memory", &sample("vecadd.kine")],
    ] {
        let ended = run(wrong);
        assert_eq!(ended.code, Some(2), "{wrong:?}");
        assert_eq!(ended.err.lines().count(), 1, "{}", ended.err);
    }
}

#[test]
fn completions_and_man() {
    assert_form(&json(&["completions", "zsh"], 0), "shell:s script:s");
    for arguments in [["man"].as_slice(), &["man", "--markdown"]] {
        let printed = json(arguments, 0);
        assert_form(&printed, "pages:a");
        assert_each(&printed["pages"], "name:s path:s? text:s");
    }
    let folder = tempfile::tempdir().unwrap();
    let written = json(&["man", folder.path().to_str().unwrap()], 0);
    assert_each(&written["pages"], "name:s path:s text:s?");
}
