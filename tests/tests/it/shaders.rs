//! Shaders of recordings on the command line.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use whole_program_tests::{ProgramOutput, recordings, root, run};

fn sample(name: &str) -> PathBuf {
    root().join("sample-traces").join(name)
}

fn shader(file: &Path, more: &[&str]) -> ProgramOutput {
    let base = ["shader".as_ref(), file.as_os_str()];
    run(base.into_iter().chain(more.iter().map(|m| m.as_ref())))
}

fn json(file: &Path, more: &[&str]) -> Value {
    let all: Vec<&str> = more.iter().copied().chain(["--json"]).collect();
    let ended = shader(file, &all);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    ended.json()
}

#[test]
fn shader_listing_prints_every_clause() {
    let ended = shader(&sample("vecadd.kine"), &[]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let message = "compute shader 0xf7ffc000: job 0; 3 clauses, 160 bytes, 26 operations\n\n\
                clause_0:  0xf7ffc000\n\
                ds(0) nbb load ncph next_load dwb(0)\n    \
                *LSHIFT_OR.i32 r0:t0, r60, #0, 0x00000002 /* 0.000000 */\n    \
                +NOP t1\n    \
                *NOP t0\n    \
                +IADD.s32 r1:t1, u0.w0, t0\n";
    assert!(ended.out.starts_with(message), "{}", ended.out);
    let end = "    +STORE.i32 t1, r0, t1, @r1\n\n1 shader, 26 operations, 0 of them unknown\n";
    assert!(ended.out.ends_with(end), "{}", ended.out);
}

#[test]
fn branch_targets_are_clauses_and_all_are_reachable() {
    let report = json(&sample("matmul.kine"), &[]);
    let shader = &report["shaders"][0];
    let clauses = shader["clauses"].as_array().unwrap();
    let addresses: BTreeSet<&str> = clauses.iter().map(|c| c["va"].as_str().unwrap()).collect();
    let targets: Vec<&str> = clauses
        .iter()
        .flat_map(|c| c["targets"].as_array().unwrap())
        .map(|t| t.as_str().unwrap())
        .collect();
    // The loop over the sum is entered or skipped, and left or repeated.
    assert!(targets.len() >= 2, "{shader}");
    for t in targets {
        assert!(addresses.contains(t), "{t}: {shader}");
    }
    assert!(clauses.iter().all(|c| c["reached"] == true && c["indirect"] == false));
    assert_eq!((&shader["whole"], &shader["end"]), (&true.into(), &"padding".into()));
}

#[test]
fn every_sample_shader_decodes_completely() {
    let mut shaders = 0;
    for entry in std::fs::read_dir(root().join("sample-traces")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "kine") {
            continue;
        }
        let report = json(&path, &[]);
        assert_eq!(report["unknown_operations"], 0, "{}", path.display());
        for s in report["shaders"].as_array().unwrap() {
            assert_eq!(s["whole"], true, "{}: {s}", path.display());
            shaders += 1;
        }
    }
    assert!(shaders > 12, "{shaders}");
}

#[test]
fn job_option_selects_one_job() {
    let file = sample("twopass.kine");
    let all = json(&file, &[]);
    let entry = |s: &Value| s["shader_va"].as_str().unwrap().to_owned();
    let shaders: Vec<String> = all["shaders"].as_array().unwrap().iter().map(entry).collect();
    let mut one_by_one = Vec::new();
    for job in ["0", "1"] {
        let report = json(&file, &["--job", job]);
        let selected = report["shaders"].as_array().unwrap();
        assert_eq!(selected.len(), 1, "{report}");
        assert_eq!(selected[0]["jobs"][0]["job"].to_string(), job);
        one_by_one.push(entry(&selected[0]));
    }
    assert_eq!(one_by_one, shaders);
    let ended = shader(&file, &["--job", "2"]);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.err.contains("job 2 does not exist (the recording has 2 jobs"),
        "{}",
        ended.err
    );
}

#[test]
fn the_table_of_shaders_has_a_row_for_each_operation_of_each_job() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("shaders.csv");
    let file = sample("twopass.kine");
    let ended = run([
        "export".as_ref(),
        file.as_os_str(),
        "--table".as_ref(),
        "shaders".as_ref(),
        "-o".as_ref(),
        to.as_os_str(),
    ]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let text = std::fs::read_to_string(to).unwrap();
    let head = "job,stage,shader_va,clause_va,tuple,unit,bits,known,reached,text";
    assert_eq!(text.lines().next(), Some(head));
    let operations = json(&file, &[])["operations"].as_u64().unwrap();
    assert_eq!(text.lines().count() as u64, 1 + operations);
    assert!(text.contains("+STORE.i32"), "{text}");
}

#[test]
fn recording_without_shaders_prints_a_message() {
    let ended = shader(&sample("write-value.kine"), &[]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "no job has a shader\n"));
}

#[test]
fn shaders_of_arms_compiler_list_unknown_encodings() {
    let Some(folder) = recordings() else { return };
    let report = json(&folder.join("gpureplay/mnist"), &[]);
    let shaders = report["shaders"].as_array().unwrap();
    assert_eq!(shaders.len(), 23);
    assert_eq!(
        (report["operations"].as_u64(), report["unknown_operations"].as_u64()),
        (Some(7218), Some(307))
    );
    let unknown = report["unknown"].as_array().unwrap();
    assert_eq!(unknown.len(), 97);
    let sum: u64 = unknown.iter().map(|u| u["count"].as_u64().unwrap()).sum();
    assert_eq!(sum, 307);
    for s in shaders {
        assert!(
            s["whole"] == true && s["unknown_operations"].as_u64().unwrap() > 0,
            "{s}"
        );
        let marked = s["clauses"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|c| c["tuples"].as_array().unwrap())
            .flat_map(|t| [&t["fma"], &t["add"]])
            .filter(|o| o["known"] == false)
            .inspect(|o| assert!(o["text"].as_str().unwrap().contains("unknown"), "{o}"))
            .count();
        assert_eq!(s["unknown_operations"], marked);
    }
}

#[test]
fn thread_trace_lists_every_clause() {
    let file = sample("vecadd.kine");
    let thread = ["--job", "0", "--thread", "3,0,0", "--workgroup", "1,0,0"];
    let report = json(&file, &thread);
    assert_eq!((&report["end"], &report["whole"]), (&"ended".into(), &true.into()));
    let steps = report["steps"].as_array().unwrap();
    assert_eq!(steps.len() as u64, report["executed"].as_u64().unwrap());
    let float = |a: &Value| {
        let hex = a["value"].as_str().unwrap().strip_prefix("0x").unwrap();
        f32::from_bits(u32::from_str_radix(hex, 16).unwrap())
    };
    let accesses = |key: &str| -> Vec<&Value> { steps.iter().flat_map(|s| s[key].as_array().unwrap()).collect() };
    let (reads, writes) = (accesses("reads"), accesses("writes"));
    assert_eq!((reads.len(), writes.len()), (2, 1));
    assert_eq!(float(reads[0]) + float(reads[1]), float(writes[0]));
    assert!(writes[0]["instruction"].as_str().unwrap().starts_with("+STORE.i32"));
    // The text has the same content. Without `--trace`, it omits steps that write nothing.
    let all: Vec<&str> = thread.iter().copied().chain(["--trace"]).collect();
    let (long, short) = (shader(&file, &all), shader(&file, &thread));
    assert_eq!((long.code, short.code), (Some(0), Some(0)));
    for line in ["step 0  clause_0:", "  reads 0x", "  writes 0x", "+STORE.i32"] {
        assert!(long.out.contains(line), "{line}: {}", long.out);
    }
    assert!(
        !short.out.contains("step 0") && short.out.contains("  writes 0x"),
        "{}",
        short.out
    );
    let ended = shader(&file, &["--job", "0", "--thread", "0,7,0"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("there is no thread [0, 7, 0]"), "{}", ended.err);
}

#[test]
fn last_writer_verb_names_the_operation() {
    let file = sample("vecadd.kine");
    let info = run(["info".as_ref(), file.as_os_str(), "--json".as_ref()]).json();
    let va = |name: &str| {
        let all = info["buffers"].as_array().unwrap();
        let buffer = all.iter().find(|b| b["name"] == name).unwrap();
        buffer["va"].as_str().unwrap().to_owned()
    };
    let who = |va: &str| {
        let ended = run([
            "who".as_ref(),
            file.as_os_str(),
            "--va".as_ref(),
            va.as_ref(),
            "--json".as_ref(),
        ]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.json()
    };
    let at = u64::from_str_radix(va("c").trim_start_matches("0x"), 16).unwrap() + 4 * 70 + 1;
    let report = who(&format!("{at:#x}"));
    assert_eq!((&report["writer"], &report["job"]), (&"shader".into(), &0.into()));
    let shader = &report["shader"];
    assert!(
        shader["instruction"].as_str().unwrap().starts_with("+STORE.i32"),
        "{report}"
    );
    assert_eq!(shader["write"]["va"], format!("{:#x}", at - 1));
    assert_eq!(shader["reads"].as_array().unwrap().len(), 2);
    // `byte` is the second byte of the number that the shader wrote.
    let written = u32::from_str_radix(shader["write"]["value"].as_str().unwrap().trim_start_matches("0x"), 16);
    assert_eq!(report["byte"], format!("{:#x}", written.unwrap() >> 8 & 0xff));
    let report = who(&va("a"));
    assert!(report["writer"] == "recording" || report["writer"] == "cpu", "{report}");
    let ended = run(["who".as_ref(), file.as_os_str(), "--va".as_ref(), "0x10".as_ref()]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("is not mapped"), "{}", ended.err);
}

/// With `--input`, threads read the edited input, and last writers are computed from it.
#[test]
fn thread_traces_and_last_writers_use_edited_inputs() {
    let file = sample("digits.kine");
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("image.raw");
    std::fs::write(&image, [0.75f32.to_le_bytes(); 64].concat()).unwrap();
    let input = format!("image={}", image.display());
    let info = run(["info".as_ref(), file.as_os_str(), "--json".as_ref()]).json();
    let va = |name: &str| {
        let all = info["buffers"].as_array().unwrap();
        all.iter().find(|b| b["name"] == name).unwrap()["va"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let thread = ["--job", "0", "--thread", "4,4"];
    let read = |more: &[&str]| -> Vec<String> {
        let all: Vec<&str> = thread.iter().chain(more).copied().collect();
        let report = json(&file, &all);
        let steps = report["steps"].as_array().unwrap().clone();
        let reads = steps.iter().flat_map(|s| s["reads"].as_array().unwrap().clone());
        let from = u64::from_str_radix(va("image").trim_start_matches("0x"), 16).unwrap();
        let inside = reads.filter(|r| {
            let at = u64::from_str_radix(r["va"].as_str().unwrap().trim_start_matches("0x"), 16).unwrap();
            (from..from + 256).contains(&at)
        });
        inside.map(|r| r["value"].as_str().unwrap().to_owned()).collect()
    };
    let edited = read(&["--input", &input]);
    assert!(
        !edited.is_empty() && edited.iter().all(|v| v == "0x3f400000"),
        "{edited:?}"
    );
    assert_ne!(edited, read(&[]));
    let who = |more: &[&str]| {
        let at = va("logits");
        let mut arguments = vec!["who", "--json", "--va", at.as_str(), file.to_str().unwrap()];
        arguments.extend(more);
        let ended = run(arguments);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.json()
    };
    let (recorded_report, edited_report) = (who(&[]), who(&["--input", &input]));
    assert_eq!(recorded_report["shader"]["thread"], edited_report["shader"]["thread"]);
    assert_ne!(
        recorded_report["shader"]["write"]["value"],
        edited_report["shader"]["write"]["value"]
    );
    // The code does not depend on inputs.
    let ended = shader(&file, &["--input", &input]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("give --thread"), "{}", ended.err);
    let ended = shader(&file, &["--job", "0", "--thread", "0", "--input", "imagine=x.npy"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("no buffer 'imagine'"), "{}", ended.err);
}
