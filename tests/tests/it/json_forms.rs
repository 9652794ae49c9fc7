//! The JSON of every verb has exactly these keys of these types, because scripts rely on them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

mod forms;
#[path = "../../../trace-core/tests/it/calls/net.rs"]
mod net;
mod page;

use forms::Form;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
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

/// Asserts that an object has exactly the keys of a form, in any order. `here` lists the keys that may be absent and are
/// present here, and narrower types of others, as [`Form::keys`] does.
fn assert_form(value: &Value, form: &Form, here: &str) {
    let object = value.as_object().unwrap_or_else(|| panic!("not an object: {value}"));
    let of_form = form.keys.split_whitespace().filter(|k| !k.ends_with('~'));
    let all = of_form.chain(here.split_whitespace());
    // A type for this object comes after the one of the form.
    let expected: BTreeMap<&str, &str> = all.map(|k| k.split_once(':').unwrap()).collect();
    let names: BTreeSet<&str> = object.keys().map(String::as_str).collect();
    let expected_names: BTreeSet<&str> = expected.keys().copied().collect();
    assert_eq!(names, expected_names, "{value}");
    assert!(page::lists(form), "docs/json.md has no table of {}", form.name);
    for (name, kind) in expected {
        let v = &object[name];
        if let Some(kind) = kind.strip_suffix('?') {
            assert!(v.is_null() || has_type(v, kind), "{name}: {v} is not of type {kind}");
        } else {
            assert!(has_type(v, kind), "{name}: {v} is not of type {kind}");
        }
    }
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
fn assert_each(list: &Value, form: &Form, here: &str) {
    let list = list.as_array().unwrap_or_else(|| panic!("not a list: {list}"));
    assert!(!list.is_empty());
    for element in list {
        assert_form(element, form, here);
    }
}

#[test]
fn info() {
    let info = json(&["info", &sample("vecadd.kine")], 0);
    assert_form(&info, &forms::INFO, "");
    assert_each(&info["buffers"], &forms::INFO_BUFFER, "");
    assert_form(&info["gpu"], &forms::INFO_GPU, "");
}

#[test]
fn info_of_a_recording_with_capture_metadata() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("captured.kine");
    let mut r = trace_core::container::open(sample("vecadd.kine").as_ref()).unwrap();
    r.metadata.capture = Some(Capture {
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
    assert_form(&info["capture"], &forms::CAPTURE, "exit_code:n cut:s");
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
            "space:s offset:h register:s width:n value:h"
        } else {
            "register:s value:h"
        };
        assert_form(event, &forms::EVENT, &format!("{keys}{means}"));
    }
}

#[test]
fn stats() {
    assert_each(
        &json(&["stats", &sample("vecadd.kine")], 0),
        &forms::USAGE,
        "space:s offset:h",
    );
    let file = sample("vecadd.kine");
    let all = json(&["stats", &file, "--where", "write", "--histogram"], 0);
    assert_each(&all, &forms::USAGE, "space:s offset:h histogram:a");
    for row in all.as_array().unwrap() {
        assert_each(&row["histogram"], &forms::BIN, "");
    }
    let one = json(&["stats", &file, "--register", "JS1_COMMAND_NEXT"], 0);
    assert_form(&one, &forms::REGISTER_USE, "");
    assert_each(&one["values"], &forms::REGISTER_VALUE, "");
    assert_each(&one["followers"], &forms::FOLLOWER, "");
    let between = json(&["stats", &file, "--between", "submit", "irq.line = job"], 0);
    assert_form(&between, &forms::INTERVALS, "");
    assert_form(&between["ns"], &forms::INTERVAL_TIMES, "");
    assert_form(&between["ns"]["longest"], &forms::EVENT_PAIR, "");
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
    assert_form(&all, &forms::SCREEN, "pixel:o comparison:o");
    assert_form(&all["format"], &forms::SCREEN_FORMAT, "");
    assert_form(&all["pixel"], &forms::SCREEN_PIXEL, "");
    assert_each(&all["pixel"]["stores"], &forms::PIXEL_STORE, "");
    assert_form(&all["comparison"], &forms::SCREEN_COMPARISON, "");
    assert_form(&all["comparison"]["first"], &forms::FIRST_PIXEL, "");
    assert_form(&all["comparison"]["first"]["own"], &forms::PIXEL_STATE, "");
    assert_form(&all["comparison"]["bounds"], &forms::SCREEN_BOUNDS, "");
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
    assert_each(&jobs, &forms::SUBMIT, "done_event:n type:s duration_ns:n");
    let mut dispatches = 0;
    for job in jobs.as_array().unwrap() {
        assert_each(&job["chain"], &forms::CHAIN_JOB, "type:s");
        for link in job["chain"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|l| l["dispatch"].is_object())
        {
            assert_form(&link["dispatch"], &forms::DISPATCH, "");
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
    assert_form(&report, &forms::SHADERS, "");
    assert_each(&report["shaders"], &forms::SHADER, "");
    for shader in report["shaders"].as_array().unwrap() {
        assert_each(&shader["jobs"], &forms::SHADER_JOB, "type:s");
        assert_each(&shader["clauses"], &forms::CLAUSE, "");
        for clause in shader["clauses"].as_array().unwrap() {
            assert_each(&clause["tuples"], &forms::TUPLE, "");
            for tuple in clause["tuples"].as_array().unwrap() {
                assert_form(&tuple["fma"], &forms::OPERATION, "");
                assert_form(&tuple["add"], &forms::OPERATION, "");
            }
        }
    }
}

#[test]
fn shader_thread() {
    let file = sample("vecadd.kine");
    let report = json(&["shader", &file, "--job", "0", "--thread", "0"], 0);
    assert_form(&report, &forms::THREAD, "");
    assert_each(&report["steps"], &forms::THREAD_STEP, "");
    let all = |key: &str| -> Vec<Value> {
        let steps = report["steps"].as_array().unwrap().iter();
        steps.flat_map(|s| s[key].as_array().unwrap().clone()).collect()
    };
    assert_each(&Value::from(all("registers")), &forms::REGISTER_CHANGE, "");
    assert_each(&Value::from(all("reads")), &forms::ACCESS, "");
    assert_each(&Value::from(all("writes")), &forms::ACCESS, "");
}

#[test]
fn who() {
    let file = sample("vecadd.kine");
    let buffers = json(&["info", &file], 0)["buffers"].as_array().unwrap().clone();
    let c = buffers.iter().find(|b| b["name"] == "c").unwrap();
    let report = json(&["who", &file, "--va", c["va"].as_str().unwrap()], 0);
    assert_form(&report, &forms::LAST_WRITER, "");
    assert_form(&report["shader"], &forms::SHADER_WRITER, "write:o");
    assert_form(&report["shader"]["write"], &forms::ACCESS, "");
    assert_each(
        &report["shader"]["reads"],
        &forms::SHADER_READ,
        "va:h bytes:n value:h instruction:s",
    );
}

/// Asserts the form of each reference; `details` has the keys of a kind that may be absent.
fn assert_references(report: &Value, details: &[(&str, &str)]) {
    assert_form(report, &forms::REFERENCES, "");
    let list = report["references"].as_array().unwrap();
    assert!(!list.is_empty());
    for r in list {
        let kind = r["kind"].as_str().unwrap();
        let part = r["part"].as_str().unwrap_or_default();
        let name = format!("{kind} {part}");
        let found = details.iter().find(|(k, _)| *k == name.trim_end());
        let (_, keys) = found.unwrap_or_else(|| panic!("{r}"));
        // An indirect pointer has one more key.
        let more = if r["through_va"].is_null() { "" } else { " through_va:h" };
        assert_form(r, &forms::REFERENCE, &format!("{keys}{more}"));
    }
}

#[test]
fn references() {
    let file = sample("vecadd.kine");
    let job = "part:s position:n va:h";
    let details = [
        ("register", "register:s value:h"),
        ("buffer", "buffer:s offset:h"),
        ("cpu-write", ""),
        ("snapshot", ""),
        ("finding", ""),
        ("job header", job),
        ("job shader", job),
        ("job pointer", "part:s position:n va:h word_va:h"),
    ];
    let report = json(&["references", &file, "c", "--page"], 0);
    assert_form(
        &report["target"],
        &forms::REFERENCE_TARGET,
        "address_space:n va:h bytes:n",
    );
    let list = report["references"].as_array().unwrap();
    let (tables, others): (Vec<Value>, Vec<Value>) = list.iter().cloned().partition(|r| r["kind"] == "page-table");
    for r in &tables {
        // A step of the walk has its value.
        let value = if r["value"].is_null() { "" } else { " value:h" };
        let level = if r["level"].is_null() { "" } else { " level:n" };
        assert_form(r, &forms::REFERENCE, &format!("address_space:n va:h{level}{value}"));
    }
    assert!(tables.len() >= 4, "the walk of the address has four entries");
    let mut without_tables = report.clone();
    without_tables["references"] = others.into();
    assert_references(&without_tables, &details);
    let writes = json(&["references", &file, "c", "--writes"], 0);
    let job_writes = |r: &Value| r["kind"] == "job" && r["access"] == "write" && r["job"] == 0;
    assert!(writes["references"].as_array().unwrap().iter().any(job_writes));

    let register = json(&["references", &file, "JS1_CONFIG_NEXT.start_flush"], 0);
    assert_form(
        &register["target"],
        &forms::REFERENCE_TARGET,
        "register:s offset:h bits:a",
    );
    assert_references(&register, &details);
    let entry = json(&["references", &file, "c", "--level", "3"], 0);
    assert_form(
        &entry["target"],
        &forms::REFERENCE_TARGET,
        "address_space:n va:h level:n",
    );
    assert_form(&entry, &forms::REFERENCES, "");
    let physical = json(&["references", &file, "0x100014000", "--physical"], 0);
    assert_form(&physical["target"], &forms::REFERENCE_TARGET, "physical:h bytes:n");
    let mapped = |r: &Value| r["kind"] == "page-table" && r["va"].is_string();
    assert!(
        physical["references"].as_array().unwrap().iter().any(mapped),
        "{physical}"
    );
    let few = json(&["references", &file, "c", "--max-references", "1"], 0);
    assert_eq!(
        (few["references"].as_array().unwrap().len(), &few["complete"]),
        (1, &false.into())
    );
}

#[test]
fn references_of_api_traces() {
    let folder = tempfile::tempdir().unwrap();
    let (file, n) = write_api_trace(&folder);
    let details = [
        ("copy", ""),
        ("fill", ""),
        ("memory", ""),
        ("launch", "arguments:a"),
        ("buffer", "buffer:s offset:h"),
    ];
    let report = json(&["references", &file, &format!("{:#x}", n.image)], 0);
    assert_form(
        &report["target"],
        &forms::REFERENCE_TARGET,
        "address_space:n va:h bytes:n",
    );
    assert_references(&report, &details);
    let copied = |r: &Value| r["kind"] == "copy" && r["event"] == n.image_in && r["access"] == "write";
    assert!(report["references"].as_array().unwrap().iter().any(copied));
    let scores = json(&["references", &file, &format!("{:#x}", n.scores + 4)], 0);
    let changed = |r: &Value| r["kind"] == "launch" && r["event"] == n.around && r["access"] == "write";
    assert!(scores["references"].as_array().unwrap().iter().any(changed), "{scores}");
    assert_references(&scores, &details);
}

#[test]
fn map() {
    let file = sample("vecadd.kine");
    assert_each(&json(&["map", &file], 0), &forms::MAPPING, "");
    for (address, code) in [("0xf7ffb123", 0), ("0x1000", 1)] {
        let walks = json(&["map", &file, "--walk", address], code);
        assert_each(&walks, &forms::WALK, "");
        assert_each(&walks[0]["steps"], &forms::WALK_STEP, "");
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
    assert_form(&parsed_json, &forms::EXPORT_WAVES, "");
}

#[test]
fn export_of_a_channel_file_needs_no_driver() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("client.chan");
    let log = root().join("trace-core/import/tests/nvidia/h100-rm-client.klog.gz");
    let arguments = ["export", log.to_str().unwrap(), "-o", to.to_str().unwrap()];
    let exported = json(&arguments, 0);
    assert_form(&exported, &forms::EXPORT_CHANNEL, "");
    assert_form(&exported["channel"], &forms::CHANNEL_FOOTPRINT, "");
    assert_eq!(exported["bytes"], std::fs::metadata(&to).unwrap().len());
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
    assert_form(&import_report, &forms::MAP_IMPORT, "");
    for item in import_report["not_carried_over"].as_array().unwrap() {
        assert_form(item, &forms::MAP_LOSS, "");
    }
    assert_each(&json(&["maps", "list", &sample("vecadd.kine")], 0), &forms::MAP_ROW, "");
}

#[test]
fn memory() {
    let file = sample("vecadd.kine");
    let hex = json(&["memory", &file, "0xf7ffb000", "--bytes", "16"], 0);
    assert_form(&hex, &forms::MEMORY, "hex:s");
    assert_eq!(hex["hex"].as_str().unwrap().len(), 32);
    let numbers = json(&["memory", &file, "--buffer", "a", "--type", "f32"], 0);
    assert_form(&numbers, &forms::MEMORY, "elements:a");
    assert_eq!(numbers["elements"].as_array().unwrap().len(), 1024);
    let hole = json(&["memory", &file, "0x1000", "--bytes", "8"], 0);
    assert_each(&hole["holes"], &forms::HOLE, "");
    let first: String = hex["hex"].as_str().unwrap().chars().take(16).collect();
    let hits = json(&["memory", &file, "--search", &first], 0);
    assert!(
        hits.as_array().unwrap().iter().all(|h| has_type(h, "h")) && hits[0] == "0xf7ffb000",
        "{hits}"
    );
}

#[test]
fn check() {
    assert_each(&json(&["check", &sample("vecadd.kine")], 0), &forms::FINDING, "");
}

#[test]
fn diff() {
    let diff = json(&["diff", &sample("vecadd.kine"), &sample("saxpy.kine")], 1);
    assert_form(&diff, &forms::DIFF, "first_difference:o");
    assert_form(&diff["not_computed"], &forms::SIDES, "");
    assert_form(&diff["jobs"], &forms::SIDES, "");
    assert_form(&diff["events"], &forms::EVENT_DIFF, "");
    for sides in ["folded", "foreign", "not_played"] {
        assert_form(&diff["events"][sides], &forms::SIDES, "");
    }
    assert_form(&diff["host_writes"], &forms::HOST_WRITES, "");
    assert_form(&diff["descriptors"], &forms::DESCRIPTOR_DIFF, "");
    assert_each(&diff["descriptors"]["list"], &forms::DESCRIPTOR_DIFFERENCE, "");
    assert_each(&diff["descriptors"]["list"][0]["fields"], &forms::FIELD_PAIR, "");
    assert_form(&diff["mappings"], &forms::MAPPING_CHANGES, "");
    assert_form(&diff["memory"], &forms::MEMORY_DIFF, "");
    assert_each(&diff["memory"]["buffers"], &forms::BUFFER_DIFF, "");
    assert_each(&diff["mappings"]["list"], &forms::MAPPING_CHANGE, "");
    // One recording has two jobs, the other has one.
    let jobs_diff = json(&["diff", &sample("vecadd.kine"), &sample("chain2.kine")], 1);
    assert_each(&jobs_diff["events"]["list"], &forms::EVENT_DIFFERENCE, "a:h? b:h?");
    assert_form(&jobs_diff["first_difference"], &forms::FIRST_DIFFERENCE, "");
    assert_each(&jobs_diff["registers"], &forms::REGISTER_DIFFERENCE, "");
    assert_each(&jobs_diff["causes"], &forms::CAUSE, "");
    let steps = jobs_diff["causes"].as_array().unwrap().iter().map(|c| &c["steps"]);
    for step in steps.filter(|s| s.as_array().is_some_and(|s| !s.is_empty())) {
        assert_each(step, &forms::CAUSE_STEP, "");
    }
    let image = |name: &str| sample(name);
    assert_form(
        &json(&["diff", "--raw", &image("vecadd.kine"), &image("saxpy.kine")], 1),
        &forms::RAW_DIFF,
        "",
    );
    assert_each(&diff["memory"]["pages"], &forms::PAGE_DIFFERENCE, "");
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
    assert_form(&import, &forms::IMPORT, "");
    for finding in import["findings"].as_array().unwrap() {
        assert_form(finding, &forms::FINDING, "");
    }
    let verify = json(&["verify", to], 0);
    assert_form(&verify, &forms::VERIFY, "");
    // The changed byte is in a section that the last commit uses.
    let mut bytes = std::fs::read(&kine).unwrap();
    bytes[4096] ^= 1;
    std::fs::write(&kine, bytes).unwrap();
    let damaged = json(&["verify", to], 1);
    assert_each(&damaged["problems"], &forms::VERIFY_PROBLEM, "");
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
    assert_form(&cut, &forms::TRIM, "");
    assert_each(&cut["added"], &forms::ADDED_JOB, "");
    assert_eq!(cut["added"][0]["why"], "reads");
    assert_eq!(cut["jobs_kept"].as_array().unwrap().len(), 2);
}

#[test]
fn apply() {
    let folder = tempfile::tempdir().unwrap();
    let (input, to) = (folder.path().join("image.bin"), folder.path().join("one.kine"));
    let bytes = trace_core::container::open(Path::new(&sample("digits.kine")));
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
    assert_form(&applied, &forms::APPLY, "");
    assert_each(&applied["edits"], &forms::APPLIED_EDIT, "");
}

#[test]
fn bisect() {
    let report = json(
        &["bisect", &sample("twopass.kine"), "--test", "exit 0", "--jobs-only"],
        0,
    );
    assert_form(&report, &forms::BISECT, "");
    assert_each(&report["steps"], &forms::BISECT_STEP, "");
}

#[test]
fn notebook_and_link() {
    let folder = tempfile::tempdir().unwrap();
    let file = whole_program_tests::copy_with_notes(folder.path(), "digits.kine", &[(40, "second"), (5, "first")]);
    let notes = json(&["notebook", file.to_str().unwrap()], 0);
    assert_form(&notes, &forms::NOTEBOOK, "");
    assert_each(&notes["notes"], &forms::NOTE, "");
    assert_eq!(notes["notes"][0]["text"], "first");
    let link = json(&["link", file.to_str().unwrap(), "--at", "5"], 0);
    assert_form(&link, &forms::LINK, "");
}

#[test]
fn boards_and_agents() {
    let targets = json(&["boards"], 0);
    assert_each(&targets, &forms::TARGET, "");
    assert_form(&targets[0]["gpu"], &forms::TARGET_GPU, "");
    assert_eq!(json(&["agents"], 0), Value::Array(Vec::new()));
    assert_form(&json(&["agents", "--own-key"], 0), &forms::OWN_KEY, "");
}

#[test]
fn doctor() {
    let ended = run(["doctor", "--json"]);
    assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
    let report = ended.json();
    assert_form(&report, &forms::DOCTOR, "");
    assert_each(&report["areas"], &forms::DOCTOR_AREA, "");
    for area in report["areas"].as_array().unwrap() {
        assert_each(&area["checks"], &forms::DOCTOR_CHECK, "");
    }
}

#[test]
fn plan() {
    let plan = json(&["plan", &sample("vecadd.kine"), "--on", "software:mali-g71"], 0);
    assert_form(&plan, &forms::PLAN, "");
    assert_form(&plan["arena"], &forms::ARENA, "");
    assert_form(&plan["reads"], &forms::READ_CLASSES, "");
    assert_each(&plan["rewrite_list"], &forms::REWRITE, "");
    assert_form(&plan["budgets"], &forms::BUDGETS, "");
    assert_form(&plan["verified"], &forms::VERIFIED, "");
}

#[test]
fn replay() {
    let file = sample("vecadd.kine");
    let outcome = json(&["replay", &file, "--on", "software:mali-g71"], 0);
    assert_form(&outcome, &forms::REPLAY, "");
    assert_form(&outcome["reads"], &forms::READ_CLASSES, "");
    assert_each(&outcome["outputs"], &forms::REPLAY_OUTPUT, "");
    assert_each(&outcome["job_outcomes"], &forms::JOB_OUTCOME, "");
    assert_form(&outcome["timing"], &forms::TIMING, "");
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
    assert_form(&many["timing"], &forms::TIMING, "runs:o");
    assert_form(&many["timing"]["runs"], &forms::RUN_TIMES, "");

    let folder = tempfile::tempdir().unwrap();
    let other = copy_diverging(folder.path(), "vecadd.kine");
    let other = json(&["replay", other.to_str().unwrap(), "--on", "software:mali-g71"], 1);
    assert_form(&other, &forms::REPLAY, "");
    assert_each(&other["divergences"], &forms::DIVERGENCE, "");
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
    assert_each(&launches, &forms::LAUNCH, "");
    assert_each(&launches[3]["changed"], &forms::CHANGED_BUFFER, "");
    assert_eq!(
        launches[3]["changed"][0]["buffer"], "out0",
        "the recording has the memory around this launch"
    );
    let list = launches.as_array().unwrap();
    let events: Vec<u64> = list.iter().map(|l| l["event"].as_u64().unwrap()).collect();
    assert_eq!(events, n.launches);
    let arguments = &list[0]["arguments"];
    assert_each(arguments, &forms::ARGUMENT, "");
    assert_each(&arguments[0]["pointers"], &forms::POINTER, "");
    assert_eq!(
        (&arguments[0]["type"], &arguments[0]["value"]),
        (&"float const*".into(), &"in2".into())
    );
    let relu = json(&["launches", &file, "--kernel", "RELU"], 0);
    assert_eq!(relu.as_array().unwrap().len(), 2);

    let kernels = json(&["kernels", &file], 0);
    assert_each(&kernels, &forms::KERNEL, "");
    assert_each(&kernels[0]["parameters"], &forms::PARAMETER, "");
    let ptx = json(&["kernels", &file, "--ptx", "relu"], 0);
    assert_form(&ptx, &forms::KERNEL_PTX, "");
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
    assert_form(&who, &forms::DEVICE_LAST_WRITER, "");
    assert_form(&who["changed"], &forms::BYTE_CHANGE, "");
    assert_eq!(who["changed"]["event"], n.around);
    let doubt = json(&["who", &file, "out0+0x4", "--at", &n.around.to_string()], 0);
    assert_form(&doubt, &forms::DEVICE_LAST_WRITER, "");
    assert_each(&doubt["launches"], &forms::LAUNCH_WRITER, "");
    assert_eq!(doubt["launches"][0]["event"], n.launches[2]);
    let address = format!("{:#x}", n.image);
    let who = json(&["who", &file, &address], 0);
    assert_form(&who["writer"], &forms::CERTAIN_WRITER, "");
    assert_eq!(who["writer"]["kind"], "copy-from-host");

    let buffers = json(&["memory", &file], 0);
    assert_each(&buffers, &forms::DEVICE_BUFFER, "");
    let after = (n.around + 1).to_string();
    let read = json(
        &["memory", &file, "--buffer", "out0", "--type", "f32", "--event", &after],
        0,
    );
    assert_form(&read, &forms::MEMORY, "elements:a");
    assert_eq!(read["elements"].as_array().unwrap().len(), 10);
    let unknown = json(
        &["memory", &file, "alloc 0+0x10", "--bytes", "32", "--event", &after],
        0,
    );
    assert_form(&unknown, &forms::MEMORY, "hex:s");
    assert_each(&unknown["holes"], &forms::DEVICE_HOLE, "");
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
    assert_form(&json(&["completions", "zsh"], 0), &forms::COMPLETIONS, "");
    for arguments in [["man"].as_slice(), &["man", "--markdown"]] {
        let printed = json(arguments, 0);
        assert_form(&printed, &forms::MAN, "");
        assert_each(&printed["pages"], &forms::MAN_PAGE, "text:s");
    }
    let folder = tempfile::tempdir().unwrap();
    let written = json(&["man", folder.path().to_str().unwrap()], 0);
    assert_each(&written["pages"], &forms::MAN_PAGE, "path:s");
}

#[test]
fn objects_channels_and_push_buffers() {
    let log = root().join("trace-core/import/tests/nvidia/h100-cuda-vadd.klog.gz");
    let log = log.to_str().unwrap();
    let objects = json(&["objects", log], 0);
    let objects = objects.as_array().unwrap();
    let of_kind = |kind: &str| objects.iter().filter(|o| o["kind"] == kind).collect::<Vec<_>>();
    for o in objects {
        let here = if o["kind"] == "channel" {
            "push_buffer:o? indirect_buffer:o?"
        } else {
            ""
        };
        assert_form(o, &forms::DRIVER_OBJECT, here);
    }
    let channels = of_kind("channel");
    assert_eq!((channels.len(), of_kind("buffer").len() > 40), (20, true));
    assert_form(&channels[0]["indirect_buffer"], &forms::INDIRECT_BUFFER, "");
    let list = json(&["channels", log], 0);
    let list = list.as_array().unwrap();
    list.iter().for_each(|c| assert_form(c, &forms::CHANNEL, ""));
    let submits: u64 = list.iter().map(|c| c["submits"].as_u64().unwrap()).sum();
    let submissions = json(&["pushbuffer", log], 0);
    let submissions = submissions.as_array().unwrap();
    submissions.iter().for_each(|s| assert_form(s, &forms::SUBMISSION, ""));
    assert_eq!((submits, submissions.len()), (632, 632));
    // The program launches vadd once with 4 blocks of 256 threads, three pointers and a number.
    let vadd = submissions.iter().filter(|s| s["launches"] == 1).find_map(|s| {
        let number = s["submit"].to_string();
        let all = json(&["pushbuffer", log, "--submit", &number], 0);
        let all = all.as_array().unwrap().clone();
        all.iter()
            .any(|i| i["grid"] == serde_json::json!([4, 1, 1]) && i["block"] == serde_json::json!([256, 1, 1]))
            .then_some(all)
    });
    let vadd = vadd.expect("a launch of vadd");
    let (launches, methods): (Vec<_>, Vec<_>) = vadd.iter().partition(|i| i.get("grid").is_some());
    methods.iter().for_each(|m| assert_form(m, &forms::METHOD, ""));
    assert!(methods.iter().all(|m| m["name"].is_string()), "every method has a name");
    assert_form(launches[0], &forms::SUBMITTED_LAUNCH, "");
    let parameters = launches[0]["parameters"].as_array().unwrap();
    parameters
        .iter()
        .for_each(|p| assert_form(p, &forms::SUBMITTED_PARAMETER, ""));
    let offsets: Vec<u64> = parameters.iter().map(|p| p["offset"].as_u64().unwrap()).collect();
    assert_eq!(offsets, [0, 8, 16, 24]);
    assert!(
        parameters[..3].iter().all(|p| p["buffer"].is_string()),
        "{parameters:?}"
    );
    assert_eq!(
        (&parameters[3]["value"], &parameters[3]["buffer"]),
        (&Value::from("0x3e8"), &Value::Null)
    );
}

#[test]
fn figures_and_references_of_a_driver_trace() {
    let log = root().join("trace-core/import/tests/nvidia/h100-cuda-vadd.klog.gz");
    let log = log.to_str().unwrap();
    let info = json(&["info", log], 0);
    assert_form(&info, &forms::INFO, "driver_trace:o undecoded:n");
    let counts = &info["driver_trace"];
    assert_form(counts, &forms::DRIVER_COUNTS, "");
    assert_form(&counts["copies"], &forms::ITEM_COUNT, "");
    assert_eq!(
        (
            &counts["channels"],
            &counts["launches"],
            &counts["submissions"]["count"]
        ),
        (&Value::from(20), &Value::from(408), &Value::from(632))
    );
    // The second of the three arrays of vadd.
    let report = json(&["references", log, "0x7f2bd0802010"], 0);
    let copy = "va:h part:s submit:n word:n bytes:n other_va:h";
    assert_references(
        &report,
        &[
            ("object create", "va:h part:s bytes:n buffer:s offset:h"),
            ("object map", "va:h part:s bytes:n buffer:s offset:h"),
            ("object unmap", "va:h part:s bytes:n buffer:s offset:h"),
            ("object free", "va:h part:s bytes:n buffer:s offset:h"),
            ("launch parameter", "va:h part:s submit:n word:n parameter_offset:n"),
            ("copy source", copy),
            ("copy destination", copy),
            ("fill destination", "va:h part:s submit:n word:n bytes:n"),
            ("upload destination", "va:h part:s submit:n word:n bytes:n"),
        ],
    );
    let whole = json(&["references", log, "handle:0x5c000098", "--writes"], 0);
    assert_eq!(whole["target"]["bytes"], 2_097_152);
    assert_eq!(json(&["check", log], 0).as_array().unwrap().len(), 3);
}

#[test]
fn objects_of_a_kernel_log() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("dmesg.txt");
    let text = "[   10.000001] gopen: opening minor device 0\n\
                [   10.000002] gopen: creating a new GPU context.\n\
                [   10.000003] gdev_drv_chan_alloc: allocating a channel. push buffer addr: 0x20000, size: 0x8000. \
                indirect buffer addr: 0x28000\n\
                [   10.000004] __malloc_dma: allocating 1 memory regions with size 0x4000\n\
                [   10.000005] gdev_raw_mem_alloc_dma: allocating memory at host for DMA. size: 0x4000\n\
                [   10.000006] gdev_drv_bo_alloc: allocating a new buffer object. size: 0x4000\n";
    std::fs::write(&log, text).unwrap();
    let objects = json(&["objects", log.to_str().unwrap()], 0);
    let of_kind = |kind: &str| objects.as_array().unwrap().iter().find(|o| o["kind"] == kind).unwrap();
    let channel = of_kind("channel");
    assert_form(&channel["push_buffer"], &forms::PUSH_BUFFER, "");
    assert_eq!(channel["push_buffer"]["bytes"], 0x8000);
    assert_eq!(channel["indirect_buffer"]["address"], "0x28000");
    let buffer = of_kind("buffer");
    assert_eq!(
        (&buffer["caller"], &buffer["bytes"]),
        (&Value::from("__malloc_dma"), &Value::from(0x4000))
    );
    assert!(buffer["handle"].is_null() && buffer["address"].is_null() && buffer["alloc_event"].is_u64());
}

#[test]
fn pipeline() {
    let folder = tempfile::tempdir().unwrap();
    let file = root().join("sample-pipelines/kmeans/kmeans.kpipe");
    let file = file.to_str().unwrap();
    let checked = json(&["pipeline", "check", file], 0);
    assert_form(&checked, &forms::PIPELINE_CHECK, "");
    assert_each(&checked["inputs"], &forms::PIPELINE_INPUT, "");
    assert_each(&checked["stages"], &forms::PIPELINE_STAGE, "");
    assert_each(&checked["stages"][0]["takes"], &forms::PIPELINE_TENSOR, "from:s");
    assert_each(&checked["stages"][0]["gives"], &forms::PIPELINE_TENSOR, "");
    assert_each(&checked["loops"], &forms::PIPELINE_LOOP, "");
    assert_each(&checked["outputs"], &forms::PIPELINE_OUTPUT, "");
    let damaged = folder.path().join("p.kpipe");
    std::fs::write(&damaged, "version = 1\n[outputs]\nx = \"no.y\"\n").unwrap();
    let refused = json(&["pipeline", "check", damaged.to_str().unwrap()], 1);
    assert_form(&refused, &forms::PIPELINE_CHECK, "");
    assert_each(&refused["defects"], &forms::PIPELINE_DEFECT, "");
    let to = folder.path().join("out");
    let line = [
        "pipeline",
        "run",
        file,
        "--on",
        "software:mali-g71",
        "-o",
        to.to_str().unwrap(),
    ];
    let report = json(&line, 0);
    assert_form(&report, &forms::PIPELINE_RUN, "");
    assert_each(&report["stages"], &forms::PIPELINE_STAGE_RUN, "");
    assert_each(&report["loops"], &forms::PIPELINE_LOOP_RUN, "value:f");
    assert_each(&report["outputs"], &forms::PIPELINE_OUTPUT_FILE, "");
    let written = std::fs::read(to.join("report.json")).unwrap();
    assert_eq!(report, serde_json::from_slice::<Value>(&written).unwrap());
}

#[test]
fn wasm_run() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("odd.wat");
    let text = r#"(module
        (import "wasi_snapshot_preview1" "fd_filestat_get" (func $stat (param i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "_start")
            (drop (call $stat (i32.const 0) (i32.const 0)))
            (if (i32.and (i32.load (i32.const 32)) (i32.const 1)) (then unreachable))))"#;
    std::fs::write(&program, text).unwrap();
    let lines = folder.path().join("lines.jsonl");
    std::fs::write(&lines, "12\n1\n").unwrap();
    let (program, lines) = (program.to_str().unwrap(), lines.to_str().unwrap());
    let to = folder.path().join("out");
    let report = json(
        &["wasm", "run", program, "--inputs", lines, "-o", to.to_str().unwrap()],
        1,
    );
    assert_form(&report, &forms::WASM_REPORT, "");
    assert_form(&report["runs"][0], &forms::WASM_RUN, "exit:n");
    assert_form(&report["runs"][1], &forms::WASM_RUN, "trap:o");
    assert_form(&report["runs"][1]["trap"], &forms::WASM_TRAP, "function:s offset:h");
    let written = std::fs::read(to.join("report.json")).unwrap();
    assert_eq!(report, serde_json::from_slice::<Value>(&written).unwrap());
    let checked = json(&["wasm", "check", program, "--inputs", lines, "--on", "interpreter"], 0);
    assert_form(&checked, &forms::WASM_CHECK, "");
    let text = folder.path().join("odd.ptx");
    let translated = json(&["wasm", "translate", program, "-o", text.to_str().unwrap()], 0);
    assert_form(&translated, &forms::WASM_TRANSLATION, "");
    assert_form(&translated["memories"][0], &forms::WASM_MEMORY, "");
    let measured = json(&["wasm", "bench", program, "--inputs", lines, "--on", "cpu"], 0);
    assert_form(&measured[0], &forms::WASM_MEASUREMENT, "");
}

#[test]
fn campaigns() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::copy(sample("vecadd.kine"), at("vecadd.kine")).unwrap();
    let description = "version = 1\nname = \"n\"\ntarget-wait = 0\n[[recordings]]\npath = \"vecadd.kine\"\n\
                       targets = [\"software:mali-g71\", \"agent://127.0.0.1:1/mali\"]\n";
    std::fs::write(at("c.toml"), description).unwrap();
    let (file, first, second) = (at("c.toml"), at("first"), at("second"));
    let check = json(&["campaign", "check", &file], 0);
    assert_form(&check, &forms::CAMPAIGN_CHECK, "");
    assert_each(&check["kinds"], &forms::CAMPAIGN_KIND, "");
    for (matched, out) in [(1, &first), (0, &second)] {
        // The agent that is not there is a line on standard error.
        let ended = run(["campaign", "run", &file, "-o", out, "--json"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let report = ended.json();
        assert_form(&report, &forms::CAMPAIGN_RUN, "");
        assert_each(&report["given_up"], &forms::UNUSED_TARGET, "");
        assert_eq!(
            (report["matched"].as_u64(), report["queued"].as_u64()),
            (Some(matched), Some(1))
        );
        let other = copy_diverging(folder.path(), "vecadd.kine");
        std::fs::rename(other, at("vecadd.kine")).unwrap();
    }
    let status = json(&["campaign", "status", &first], 0);
    assert_form(&status, &forms::CAMPAIGN_STATUS, "");
    assert_each(&status["targets"], &forms::CAMPAIGN_TARGET, "");
    assert_each(&status["work"], &forms::CAMPAIGN_WORK, "");
    let page = json(
        &["campaign", "report", &second, "-o", &at("r.html"), "--since", &first],
        0,
    );
    assert_form(&page, &forms::CAMPAIGN_PAGE, "worse:n");
    let diff = json(&["campaign", "diff", &first, &second], 1);
    assert_form(&diff, &forms::CAMPAIGN_DIFF, "");
    assert_each(
        &diff["cells"],
        &forms::CAMPAIGN_CELL,
        "verdict_before:s verdict:s run_ns_before:n event:n text:s",
    );
    assert_eq!(diff["cells"][0]["change"], "broken");
}
