//! Campaigns of every kind of work on simulators in this process: pipelines, WebAssembly, mutated inputs, bisections.

use crate::farm::{Farm, G71, sample};
use kinescope_campaign::{
    Attempt, CellChange, CellDifference, CellVerdict, Executor, MatrixError, RunDetails, RunMaterial, RunQueue as _,
    RunResult, RunSource as _, RunVerdict, Summary, compare, render_report, write_table,
};
use kinescope_session::targets::Targets;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;
use trace_core::progress::Progress;
use trace_core::recording::EventsBuilder;
use trace_core::registers::RegisterMap;

/// Runs a campaign to its end, and returns its summary and its results.
fn run(farm: &Farm, name: &str) -> (Summary, Vec<RunResult>) {
    let (folder, queue) = farm.open(name);
    farm.run(&folder, &queue, &Progress::new(), &|_| {});
    let results = Farm::results(&queue).into_iter().map(|(_, _, result)| result).collect();
    let summary = Summary::read(&queue).unwrap();
    write_table(&queue, &folder.path().join("results.csv")).unwrap();
    std::fs::write(
        folder.path().join("report.html"),
        render_report(name, &folder, &summary, None),
    )
    .unwrap();
    (summary, results)
}

/// Returns a column of the table of results.
fn column(farm: &Farm, name: &str, column: &str) -> Vec<String> {
    let text = std::fs::read_to_string(farm.folder.path().join(name).join("results.csv")).unwrap();
    let mut rows = split_csv(&text).into_iter();
    let at = rows.next().unwrap().iter().position(|c| *c == column).unwrap();
    rows.map(|row| row[at].clone()).collect()
}

/// Returns the cells of each row of comma-separated text, in which a cell may be quoted.
fn split_csv(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    for c in text.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut cell)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            c => cell.push(c),
        }
    }
    rows
}

fn repository() -> std::path::PathBuf {
    sample("..").canonicalize().unwrap()
}

#[test]
fn pipelines_run_on_each_target_and_name_the_stage_that_fails() {
    let kmeans = repository().join("sample-pipelines/kmeans");
    let text = format!(
        "targets = [{G71:?}]\nrepeats = 2\nkeep-outcomes = \"all\"\n[[pipelines]]\npath = {:?}\n[[pipelines]]\npath = \"broken.kpipe\"\n\
         repeats = 1\n",
        kmeans.join("kmeans.kpipe").display().to_string()
    );
    let farm = Farm::with_files(&[], &text, |folder| {
        let good = std::fs::read_to_string(kmeans.join("kmeans.kpipe")).unwrap();
        let here = good
            .replace(
                "\"kmeans.wat\"",
                &format!("{:?}", kmeans.join("kmeans.wat").display().to_string()),
            )
            .replace(
                "../../sample-traces/matmul.kine",
                &sample("matmul.kine").display().to_string(),
            )
            .replace("function = \"update\"", "function = \"update\"\nlimits = { fuel = 3 }");
        std::fs::write(folder.join("broken.kpipe"), here).unwrap();
    });
    let runs: Vec<_> = farm.matrix.runs().collect();
    assert_eq!(runs.len(), 3);
    let names = |at: usize| {
        let files = runs[at].work.files();
        let name = |f: &&std::path::PathBuf| f.file_name().unwrap().to_str().unwrap().to_owned();
        files.iter().map(|(path, _)| name(path)).collect::<Vec<_>>()
    };
    assert_eq!(names(0), ["kmeans.kpipe", "matmul.kine", "kmeans.wat"]);
    let (summary, results) = run(&farm, "out");
    let (good, bad): (Vec<_>, Vec<_>) = results.iter().partition(|r| r.verdict == RunVerdict::Match);
    assert_eq!((good.len(), bad.len()), (2, 1), "{results:?}");
    let Some(RunDetails::Pipeline(details)) = &good[0].details else {
        panic!()
    };
    assert_eq!(details.outputs.keys().collect::<Vec<_>>(), ["centres", "labels"]);
    assert_eq!(
        (good[0].fingerprint.as_str(), good[0].details.clone()),
        (good[1].fingerprint.as_str(), good[1].details.clone())
    );
    assert!(good[0].computed && good[0].run_ns > 0 && good[0].pushed_bytes > 0);
    let kept = farm.folder.path().join("out").join(good[0].outcome.as_ref().unwrap());
    assert!(trace_core::container::open(&kept).is_ok());
    let Some(RunDetails::Pipeline(details)) = &bad[0].details else {
        panic!()
    };
    assert_eq!(
        (bad[0].verdict, details.failed_stage.as_deref()),
        (RunVerdict::Failed, Some("update"))
    );
    assert!(bad[0].failure.as_ref().unwrap().contains("stage 'update'"), "{bad:?}");
    assert_eq!(summary.unequal_cells(), 0);
    assert!(column(&farm, "out", "failed_parts").contains(&"update".to_owned()));
}

#[test]
fn a_pipeline_whose_labelled_target_is_busy_does_not_start() {
    let text = format!(
        "targets = [{G71:?}]\n[[pipelines]]\npath = \"two.kpipe\"\nlabels = {{ second = \"software:mali-g52\" }}\n"
    );
    let farm = Farm::with_files(&["vecadd.kine", "vecadd-g52.kine"], &text, |folder| {
        let pipeline = "version = 1\n[inputs.x]\ntype = \"f32\"\nshape = [1024]\nfile = \"x.bin\"\n\
            [stages.once]\nrecording = \"vecadd.kine\"\ninputs = { a = \"inputs.x\", b = \"inputs.x\" }\noutputs = [\"c\"]\n\
            [stages.twice]\nrecording = \"vecadd-g52.kine\"\ninputs = { a = \"once.c\", b = \"inputs.x\" }\noutputs = [\"c\"]\n\
            target = \"second\"\n[outputs]\nsum = \"twice.c\"\n";
        std::fs::write(folder.join("two.kpipe"), pipeline).unwrap();
        std::fs::write(folder.join("x.bin"), [0; 4096]).unwrap();
    });
    let (folder, queue) = farm.open("out");
    let targets = Targets::new(None);
    let held = targets.open("software:mali-g52").unwrap();
    let mut leased = queue.take(G71, "w", Duration::from_secs(60)).unwrap().unwrap();
    let mut executor = Executor::new(G71, "w", targets, &folder.outcomes_path());
    let material = RunMaterial::of_campaign(&leased.run.work);
    let mut execute = || executor.execute(&mut leased, &material, None, &Progress::new());
    let attempt = execute();
    assert!(
        matches!(&attempt, Attempt::NotStarted(why) if why.contains("in use")),
        "{attempt:?}"
    );
    drop(held);
    let attempt = execute();
    assert!(
        matches!(&attempt, Attempt::Done(result) if result.verdict == RunVerdict::Match),
        "{attempt:?}"
    );
}

#[test]
fn pipelines_without_content_for_an_input_are_refused_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = "version = 1\n[inputs.x]\ntype = \"f32\"\nshape = [1]\n[outputs]\nx = \"inputs.x\"\n";
    std::fs::write(folder.path().join("a.kpipe"), text).unwrap();
    std::fs::write(
        folder.path().join("c.toml"),
        "version = 1\ntargets = [\"cuda:0\"]\n[[pipelines]]\npath = \"*.kpipe\"\n",
    )
    .unwrap();
    let campaign = kinescope_campaign::Campaign::read(&folder.path().join("c.toml")).unwrap();
    let failed = kinescope_campaign::Matrix::expand(&campaign, &Progress::new()).unwrap_err();
    assert!(matches!(failed, MatrixError::Entry { line: 3, .. }), "{failed}");
    std::fs::write(folder.path().join("a.kpipe"), "version = 1\n[stages.x]\nnothing = 1\n").unwrap();
    let failed = kinescope_campaign::Matrix::expand(&campaign, &Progress::new())
        .unwrap_err()
        .to_string();
    assert!(
        failed.contains("line 3:") && failed.contains("kinescope pipeline check"),
        "{failed}"
    );
}

/// A program that prints its input, and traps if it begins with `!`.
const ECHO: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (i32.store (i32.const 0) (i32.const 1024))
    (i32.store (i32.const 4) (i32.const 4096))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 8)))
    (if (i32.eq (i32.load8_u (i32.const 1024)) (i32.const 33)) (then unreachable))
    (i32.store (i32.const 4) (i32.load (i32.const 8)))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

#[test]
fn programs_run_in_batches_with_equal_results_on_each_target() {
    let text = "keep-outcomes = \"diverged\"\n[[wasm]]\npath = \"echo.wat\"\ntargets = [\"cpu\", \"interpreter\"]\ninputs = \"texts\"\nbatch = 2\n\
                expected = \"expected\"\n";
    let farm = Farm::with_files(&[], text, |folder| {
        std::fs::write(folder.join("echo.wat"), ECHO).unwrap();
        for name in ["texts", "expected"] {
            std::fs::create_dir(folder.join(name)).unwrap();
        }
        for (name, text, expected) in [
            ("a", "one", "one"),
            ("b", "two", "two"),
            ("c", "three", "4"),
            ("d", "four", "four"),
            ("e", "!", ""),
        ] {
            std::fs::write(folder.join("texts").join(name), text).unwrap();
            std::fs::write(folder.join(format!("expected/{name}.stdout")), expected).unwrap();
        }
    });
    assert_eq!((farm.matrix.work_count(), farm.matrix.len()), (3, 6));
    assert_eq!(farm.matrix.runs().next().unwrap().work.files().len(), 5);
    let (summary, results) = run(&farm, "out");
    let mut verdicts: Vec<RunVerdict> = results.iter().map(|r| r.verdict).collect();
    verdicts.sort();
    use RunVerdict::{Diverged, Failed, Match};
    assert_eq!(
        verdicts,
        [Match, Match, Diverged, Diverged, Failed, Failed],
        "{results:?}"
    );
    for result in &results {
        let Some(RunDetails::Wasm(details)) = &result.details else {
            panic!("{result:?}")
        };
        match result.verdict {
            Diverged => assert_eq!(details.different, ["c"]),
            Failed => assert!(details.failed["e"].contains("unreachable"), "{details:?}"),
            _ => assert_eq!((details.copies, result.computed), (2, true)),
        }
    }
    // Batches that do not match are kept as recordings of their runs.
    for result in &results {
        let kept = result
            .outcome
            .as_ref()
            .map(|path| farm.folder.path().join("out").join(path));
        assert_eq!(kept.is_some(), result.verdict != Match, "{result:?}");
        let is_run = |path| wasm_recording::is_wasm_run(&trace_core::container::open(path).unwrap());
        assert!(kept.as_deref().is_none_or(is_run));
    }
    // Both targets give the same results.
    assert_eq!(summary.unequal_targets(), []);
    let prints: BTreeSet<&str> = results.iter().map(|r| r.fingerprint.as_str()).collect();
    assert_eq!(prints.len(), 3);
    assert_eq!(
        column(&farm, "out", "failed_parts")
            .iter()
            .filter(|c| *c == "e")
            .count(),
        2
    );
}

#[test]
fn targets_of_programs_and_of_recordings_are_told_apart() {
    let check = |text: &str| {
        let text = format!("version = 1\ntargets = [\"cpu\", \"software:mali-g71\"]\n{text}");
        kinescope_campaign::Campaign::parse(&text, Path::new("/c"))
            .unwrap_err()
            .to_string()
    };
    let failed = check("[[wasm]]\npath = \"a\"\ninputs = \"b\"\n");
    assert!(
        failed.starts_with("line 3: software:mali-g71: WebAssembly programs run on cpu"),
        "{failed}"
    );
    let failed = check("[[recordings]]\npath = \"a\"\n");
    assert!(
        failed.starts_with("line 3: the target `cpu` only runs WebAssembly programs"),
        "{failed}"
    );
}

#[test]
fn seeds_mutate_inputs_in_the_same_way_each_time() {
    let text = format!(
        "targets = [{G71:?}]\nrepeats = 2\n[[fuzz]]\npath = \"vecadd.kine\"\ninputs = [\"a\"]\nseeds = \"0..5\"\nstep = 3\n"
    );
    let farm = Farm::new(&["vecadd.kine"], &text);
    assert_eq!((farm.matrix.work_count(), farm.matrix.len()), (2, 4));
    let (summary, results) = run(&farm, "out");
    for result in &results {
        assert_eq!(result.verdict, RunVerdict::Match, "{result:?}");
        assert!(result.computed && result.run_ns > 0);
    }
    assert!(summary.is_success());
    let seeds = |summary: &Summary| {
        let details = summary.cells.values().map(|cell| cell.details.clone().unwrap());
        details
            .flat_map(|d| match d {
                RunDetails::Fuzz(d) => d.digests,
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    let first = seeds(&summary);
    assert_eq!((first.len(), first.iter().collect::<BTreeSet<_>>().len()), (5, 5));
    let (again, _) = run(&farm, "again");
    assert_eq!(seeds(&again), first);
    // Times vary.
    let is_time = |c: &CellDifference| matches!(c.change, CellChange::Slower | CellChange::Faster);
    assert!(compare(&summary, &again).cells.iter().all(is_time));
    // Another outcome of a seed is a change, although both match.
    let mut other = again.clone();
    for cell in other.cells.values_mut() {
        if let Some(RunDetails::Fuzz(details)) = &mut cell.details
            && details.first_seed == 3
        {
            details.digests[1] = "0".repeat(16);
        }
    }
    let mut changed = compare(&summary, &other).cells;
    changed.retain(|c| !is_time(c));
    assert_eq!(changed.len(), 1);
    assert_eq!(changed[0].change.name(), "changed");
    assert_eq!(changed[0].text.as_deref(), Some("other outcomes of the seeds 4"));
    let failed = Farm::new(&["vecadd.kine"], &text.replace("\"a\"", "\"nothing\""));
    let (_, results) = run(&failed, "out");
    assert!(results.iter().all(|r| r.verdict == RunVerdict::Refused));
    assert!(
        results[0].failure.as_ref().unwrap().contains("no input `nothing`"),
        "{results:?}"
    );
}

/// Replaced inputs waive the comparison of outputs, so no seed diverged, and the result said that none differs.
#[test]
fn seeds_whose_outputs_differ_are_counted() {
    let text = format!(
        "targets = [{G71:?}]\n[[fuzz]]\npath = \"vecadd.kine\"\ninputs = [\"a\"]\nseeds = \"0..20\"\n[[fuzz]]\n\
         path = \"histogram.kine\"\ninputs = [\"src\"]\nseeds = \"0..20\"\n"
    );
    let farm = Farm::new(&["vecadd.kine", "histogram.kine"], &text);
    let (summary, _) = run(&farm, "out");
    assert_eq!(summary.cells.len(), 2);
    for (key, cell) in &summary.cells {
        assert_eq!(cell.verdict, CellVerdict::Match, "{cell:?}");
        let text = cell.details.as_ref().unwrap().describe();
        let count = text
            .strip_prefix("20 seeds; outputs of ")
            .and_then(|rest| rest.strip_suffix(" differ from the recording"))
            .unwrap_or_else(|| panic!("{}: {text}", key.recording));
        // Each seed changes values, and each value is added or counted.
        let count: u64 = count.parse().unwrap();
        assert!((10..=20).contains(&count), "{}: {text}", key.recording);
    }
    let page = std::fs::read_to_string(farm.folder.path().join("out/report.html")).unwrap();
    assert!(page.contains("20 seeds; outputs of "), "{page}");
}

/// Writes a copy of the digits whose replay diverges at job 2.
pub fn write_diverging(folder: &Path) {
    let mut recording = trace_core::container::open(&sample("digits.kine")).unwrap();
    let map = RegisterMap::for_recording(&recording).unwrap();
    let timeline = trace_core::timeline::derive(&recording, map, &Progress::new()).unwrap();
    let state = map.find_by_name("JOB_IRQ_JS_STATE").unwrap().offset;
    let done_at = timeline.jobs[2].done_event.unwrap() as usize;
    let is_state = |e: &usize| {
        recording
            .events
            .access(*e)
            .is_some_and(|a| !a.write && a.offset == state)
    };
    let read_at = (done_at..done_at + 8).find(is_state).unwrap();
    let mut events = EventsBuilder::new();
    for at in 0..recording.events.len() {
        let time = recording.events.time.get(at).unwrap();
        if let Some(mut access) = recording.events.access(at) {
            access.value ^= u64::from(at == read_at) << 3;
            events.access(time, 1, access);
        } else if let Some(interrupt) = recording.events.interrupt(at) {
            events.interrupt(time, interrupt);
        } else if let Some(write) = recording.events.host_write(at) {
            events.host_write(time, 1, write);
        } else {
            panic!("an event of another kind");
        }
    }
    recording.events = events.finish();
    trace_core::container::write(&recording, &folder.join("diverging.kine"), &Progress::new()).unwrap();
}

#[test]
fn bisections_name_the_first_bad_event_and_keep_the_shortest_part() {
    let text =
        format!("targets = [{G71:?}]\nkeep-outcomes = \"diverged\"\n[[bisect]]\npath = \"*.kine\"\njobs-only = true\n");
    let farm = Farm::with_files(&["vecadd.kine"], &text, write_diverging);
    let (summary, results) = run(&farm, "out");
    assert_eq!(summary.cells.len(), 2);
    let bad = results.iter().find(|r| r.verdict == RunVerdict::Diverged).unwrap();
    let divergence = bad.divergence.as_ref().unwrap();
    assert!(
        divergence.event > 0 && divergence.text.contains("JOB_IRQ_JS_STATE"),
        "{bad:?}"
    );
    let Some(RunDetails::Bisect(details)) = &bad.details else {
        panic!()
    };
    assert_eq!(details.jobs_kept.as_deref(), Some("0 to 2"), "{details:?}");
    let part = farm.folder.path().join("out").join(bad.outcome.as_ref().unwrap());
    assert!(trace_core::container::open(&part).unwrap().events.len() < 1000);
    let good = results.iter().find(|r| r.verdict == RunVerdict::Match).unwrap();
    assert!(good.outcome.is_none() && good.divergence.is_none(), "{good:?}");
    assert!(column(&farm, "out", "jobs_kept").contains(&"0 to 2".to_owned()));
}

#[test]
fn a_stopped_campaign_of_mixed_kinds_goes_on() {
    let text = format!(
        "targets = [{G71:?}]\n[[recordings]]\npath = \"vecadd.kine\"\nrepeats = 2\n[[fuzz]]\npath = \"vecadd.kine\"\ninputs = [\"a\"]\n\
         seeds = \"0..4\"\nstep = 2\n[[wasm]]\npath = \"echo.wat\"\ninputs = \"text*\"\ntargets = [\"cpu\"]\n[[bisect]]\n\
         path = \"vecadd.kine\"\n[[pipelines]]\npath = {:?}\n",
        repository()
            .join("sample-pipelines/kmeans/kmeans.kpipe")
            .display()
            .to_string()
    );
    let farm = Farm::with_files(&["vecadd.kine"], &text, |folder| {
        std::fs::write(folder.join("echo.wat"), ECHO).unwrap();
        std::fs::write(folder.join("text1"), "x").unwrap();
    });
    let kinds: Vec<_> = farm.matrix.kinds().into_iter().collect();
    assert_eq!(
        kinds,
        [
            ("bisect", (1, 1)),
            ("fuzz", (2, 2)),
            ("pipeline", (1, 1)),
            ("replay", (1, 2)),
            ("wasm", (1, 1))
        ]
    );
    let (folder, queue) = farm.open("out");
    let mut calls = 0;
    loop {
        let stop = Progress::new();
        let end = farm.run(&folder, &queue, &stop, &|_| stop.cancel());
        calls += 1;
        assert!(calls < 20);
        if !end.stopped {
            break;
        }
    }
    let counts = queue.counts().unwrap();
    assert_eq!((counts.done, counts.queued, counts.leased), (7, 0, 0));
    let summary = Summary::read(&queue).unwrap();
    assert!(
        summary.cells.values().all(|c| c.verdict == CellVerdict::Match),
        "{summary:?}"
    );
    let page = render_report("mixed", &folder, &summary, None);
    for heading in [
        "What replays where",
        "Pipelines",
        "WebAssembly programs",
        "Fuzzing",
        "Bisection",
    ] {
        assert!(page.contains(&format!("<h2>{heading}</h2>")), "{heading}");
    }
    assert!(calls > 1 && !page.contains("<h2>Tuning</h2>"));
}

#[test]
fn work_keeps_its_files_when_their_paths_change() {
    let text = format!(
        "targets = [{G71:?}]\n[[fuzz]]\npath = \"vecadd.kine\"\ninputs = [\"a\"]\nseeds = \"0..1\"\n[[wasm]]\npath = \"echo.wat\"\n\
         inputs = \"text*\"\ntargets = [\"cpu\"]\n[[pipelines]]\npath = {:?}\n",
        repository()
            .join("sample-pipelines/kmeans/kmeans.kpipe")
            .display()
            .to_string()
    );
    let farm = Farm::with_files(&["vecadd.kine"], &text, |folder| {
        std::fs::write(folder.join("echo.wat"), ECHO).unwrap();
        std::fs::write(folder.join("text1"), "x").unwrap();
    });
    for run in farm.matrix.runs() {
        let mut count = 0;
        let moved = run.work.clone().with_paths(&mut |path, digest| {
            count += 1;
            let extension = path.extension().unwrap_or_default().to_str().unwrap();
            Path::new("/cache").join(format!("{digest}.{extension}"))
        });
        assert_eq!(count, run.work.files().len());
        assert!(moved.files().iter().all(|(path, _)| path.starts_with("/cache")));
        // The id does not depend on paths.
        assert_eq!(kinescope_campaign::Run::new(moved, &run.target, run.repeat).id, run.id);
    }
}
