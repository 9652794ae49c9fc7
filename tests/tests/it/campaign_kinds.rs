//! Campaigns of other work than replays, with the real program: tunings and mutated inputs on the CUDA stand-in, and
//! mixed kinds whose process is killed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test panics when it fails"
)]

use kinescope_campaign::{CampaignFolder, RunDetails, RunQueue as _, RunResult, RunVerdict};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use whole_program_tests::cuda::{CudaStandIn, run_to_end};
use whole_program_tests::farm::FarmAgent;
use whole_program_tests::{ProgramOutput, kinescope, program, root};

/// Runs `kinescope` with the stand-in as its driver.
fn on_stand_in(cuda: &CudaStandIn, arguments: &[&str]) -> ProgramOutput {
    let mut command = Command::new(program("kinescope"));
    command.args(arguments).env("KINESCOPE_KEYS", cuda.file("keys"));
    run_to_end(cuda.set_environment(&mut command))
}

/// Returns the results of a campaign with their kinds.
fn results(folder: &Path) -> Vec<(&'static str, RunResult)> {
    let queue = CampaignFolder::open(folder).unwrap().open_queue().unwrap();
    let mut all = Vec::new();
    queue
        .results(&mut |run, result| {
            all.push((run.work.kind(), result));
            true
        })
        .unwrap();
    all
}

#[test]
fn tunings_and_failing_seeds_on_cuda_are_reported_and_repeated() {
    let cuda = CudaStandIn::default();
    for name in ["stride", "faulty"] {
        let recorded = cuda.record(name, &[], &[name], &[]);
        assert_eq!(recorded.ended.code, Some(0), "{:?}", recorded.ended);
        std::fs::copy(&recorded.path, cuda.file(&format!("{name}-copy.kine"))).unwrap();
    }
    let text = r#"version = 1
name = "cuda"
targets = ["cuda:0"]
keep-outcomes = "diverged"
[[tuning]]
path = "stride-copy.kine"
block = "64..=256"
grid = "4,8"
repeat = 2
[[tuning]]
path = "faulty-copy.kine"
launch = "nothing"
[[fuzz]]
path = "faulty-copy.kine"
inputs = ["in0"]
seeds = "0..40"
step = 40
mutations = ["special"]
time-limit = 5
repeats = 2
"#;
    let description = cuda.file("c.toml");
    std::fs::write(&description, text).unwrap();
    let (description, out) = (description.to_str().unwrap(), cuda.file("out"));
    let check = on_stand_in(&cuda, &["campaign", "check", description]);
    assert!(
        check
            .out
            .starts_with("cuda: 1 range of seeds, 2 tunings, 1 target, 4 runs"),
        "{check:?}"
    );
    let ended = on_stand_in(&cuda, &["campaign", "run", description, "-o", out.to_str().unwrap()]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let results = results(&out);
    let of = |kind: &str| {
        results
            .iter()
            .filter(|(k, _)| *k == kind)
            .map(|(_, r)| r.clone())
            .collect::<Vec<_>>()
    };
    let tunings = of("tuning");
    let tuned = tunings
        .iter()
        .find(|r| r.verdict == RunVerdict::Match)
        .unwrap_or_else(|| panic!("{tunings:?}"));
    let Some(RunDetails::Tuning(details)) = &tuned.details else {
        panic!("{tuned:?}")
    };
    assert_eq!(
        (details.points, details.wrong, details.rejected),
        (6, 0, 0),
        "{details:?}"
    );
    assert!(details.best_point.as_ref().unwrap().contains("block") && details.speed_up().is_some());
    let refused = tunings.iter().find(|r| r.verdict == RunVerdict::Refused).unwrap();
    assert!(refused.failure.as_ref().unwrap().contains("'nothing'"), "{refused:?}");

    let seeds = of("fuzz");
    assert_eq!((seeds.len(), seeds[0].verdict), (2, RunVerdict::Failed), "{seeds:?}");
    // The same seeds fail in each repeat.
    assert_eq!(seeds[0].fingerprint, seeds[1].fingerprint);
    let Some(RunDetails::Fuzz(details)) = &seeds[0].details else {
        panic!()
    };
    assert_eq!(details.digests.len(), 40);
    assert!(details.failed_count > 0 && details.failed_count < 40, "{details:?}");
    let failed = &details.failed[0];
    // Mutated orders make the kernel write to an illegal or a misaligned address, or never end.
    assert!(
        failed.reason.contains("CUDA_ERROR_") || failed.reason.contains("longer than"),
        "{failed:?}"
    );
    let file = out.join(&failed.files["in0"]);
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 16);
    let recording = cuda.file("faulty-copy.kine");
    let input = format!("in0={}", file.display());
    let again = on_stand_in(
        &cuda,
        &[
            "replay",
            recording.to_str().unwrap(),
            "--on",
            "cuda:0",
            "--input",
            &input,
            "--time-limit",
            "5",
            "--json",
        ],
    );
    assert_eq!(
        (again.code, &again.json()["outcome"]),
        (Some(1), &"failed".into()),
        "{again:?}"
    );

    let page = cuda.file("report.html");
    let report = on_stand_in(
        &cuda,
        &[
            "campaign",
            "report",
            out.to_str().unwrap(),
            "-o",
            page.to_str().unwrap(),
        ],
    );
    assert_eq!(report.code, Some(0), "{report:?}");
    let page = std::fs::read_to_string(page).unwrap();
    for part in [
        "<h2>Tuning</h2>",
        "<h2>Fuzzing</h2>",
        &format!("seed {}", failed.seed),
        "--input in0=outcomes/",
    ] {
        assert!(page.contains(part), "{part}");
    }
}

/// Writes a campaign with work of four kinds.
fn write_mixed(folder: &Path) {
    let samples = root().join("sample-traces");
    std::fs::copy(samples.join("vecadd.kine"), folder.join("vecadd.kine")).unwrap();
    let words = root().join("tests/wasm/programs/wordcount.wasm");
    std::fs::create_dir(folder.join("texts")).unwrap();
    for n in 0..6 {
        std::fs::write(folder.join(format!("texts/{n}")), "one two two".repeat(n + 1)).unwrap();
    }
    let kmeans = root().join("sample-pipelines/kmeans/kmeans.kpipe");
    let text = format!(
        "version = 1\nname = \"mixed\"\ntargets = [\"software:mali-g71\"]\n[[recordings]]\npath = \"vecadd.kine\"\nrepeats = 20\n\
         [[fuzz]]\npath = \"vecadd.kine\"\ninputs = [\"a\", \"b\"]\nseeds = \"0..60\"\nstep = 10\n[[pipelines]]\npath = {:?}\n\
         repeats = 3\n[[wasm]]\npath = {:?}\ntargets = [\"cpu\"]\ninputs = \"texts\"\nbatch = 2\nrepeats = 2\n",
        kmeans.display().to_string(),
        words.display().to_string()
    );
    std::fs::write(folder.join("c.toml"), text).unwrap();
}

#[test]
fn mixed_kinds_go_on_after_their_process_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    write_mixed(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut kills = 0;
    for pause in [150, 400, 300] {
        let mut child = Command::new(program("kinescope"))
            .args(["campaign", "run", &at("c.toml"), "-o", &at("out")])
            .env("KINESCOPE_KEYS", at("keys"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(pause) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(10));
        }
        kills += u32::from(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let run = |arguments: &[&str]| kinescope(Path::new(&at("keys")), arguments);
    let ended = run(&["campaign", "run", &at("c.toml"), "-o", &at("out"), "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = ended.json();
    assert_eq!(
        (report["done"].as_u64(), report["matched"].as_u64()),
        (Some(35), Some(35)),
        "{report}"
    );
    assert_eq!(report["unequal"], 0);
    let results = results(Path::new(&at("out")));
    let count = |kind: &str| results.iter().filter(|(k, _)| *k == kind).count();
    assert_eq!(
        (count("replay"), count("fuzz"), count("pipeline"), count("wasm")),
        (20, 6, 3, 6)
    );
    assert!(kills > 0);
    // The same description in another folder gives the same results.
    let ended = run(&["campaign", "run", &at("c.toml"), "-o", &at("second")]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let diff = run(&["campaign", "diff", &at("out"), &at("second")]);
    assert_eq!(diff.code, Some(0), "{diff:?}");
    let status = run(&["campaign", "status", &at("out")]);
    assert!(status.out.contains("mixed: complete; 35 of 35 runs done"), "{status:?}");
}

#[test]
fn agents_run_every_kind_with_the_results_of_this_machine() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    let _agent = FarmAgent::start_with_all(folder.path(), &keys, "farm");
    write_mixed(folder.path());
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let text = std::fs::read_to_string(at("c.toml")).unwrap();
    let text = text
        .replace(
            "targets = [\"software:mali-g71\"]",
            "targets = [\"software:mali-g71\", \"agent:farm/mali-g71\"]",
        )
        .replace(
            "targets = [\"cpu\"]",
            "targets = [\"cpu\", \"agent:farm/cpu\", \"agent:farm/interpreter\"]",
        )
        .replace("repeats = 20", "repeats = 2");
    let bisect = "[[bisect]]\npath = \"vecadd.kine\"\n";
    std::fs::write(at("c.toml"), text + bisect).unwrap();
    let ended = kinescope(&keys, ["campaign", "run", &at("c.toml"), "-o", &at("out"), "--json"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = ended.json();
    assert_eq!(
        (&report["matched"], &report["runs"]),
        (&42.into(), &42.into()),
        "{report}"
    );
    assert_eq!(
        (&report["unequal"], &report["unequal_targets"]),
        (&0.into(), &0.into()),
        "{report}"
    );
}

/// The page left out the target of an agent that was down, and `diff` said that its cells were gone.
#[test]
fn a_campaign_whose_agent_is_down_is_reported_as_unfinished() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys");
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::copy(root().join("sample-traces/vecadd.kine"), at("vecadd.kine")).unwrap();
    let text = "version = 1\nname = \"night\"\nrepeats = 2\ntarget-wait = 0\n\
                targets = [\"software:mali-g71\", \"agent:farm/mali-g71\"]\n[[recordings]]\npath = \"vecadd.kine\"\n";
    std::fs::write(at("c.toml"), text).unwrap();
    let run = |arguments: &[&str]| kinescope(&keys, arguments);
    let agent = FarmAgent::start(folder.path(), &keys, "farm", "software:mali-g71");
    let ended = run(&["campaign", "run", &at("c.toml"), "-o", &at("monday")]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    drop(agent);
    let ended = run(&["campaign", "run", &at("c.toml"), "-o", &at("tuesday")]);
    assert_eq!(ended.code, Some(1), "{ended:?}");

    let unfinished = format!("{} is not finished: 2 of 4 runs without a result", at("tuesday"));
    let report = run(&["campaign", "report", &at("tuesday"), "-o", &at("page.html")]);
    assert!(report.code == Some(0) && report.out.contains(&unfinished), "{report:?}");
    let page = std::fs::read_to_string(at("page.html")).unwrap();
    for part in ["<b>2</b><span>waiting</span>", "(2 on agent:farm/mali-g71)"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let diff = run(&["campaign", "diff", &at("monday"), &at("tuesday")]);
    let line = "waiting  vecadd.kine on agent:farm/mali-g71: waiting (2 runs), before match";
    assert!(
        diff.code == Some(1) && diff.out.contains(line) && diff.out.contains(&unfinished),
        "{diff:?}"
    );
    assert!(!diff.out.contains("gone"), "{diff:?}");
    let ended = run(&["campaign", "diff", &at("monday"), &at("tuesday"), "--json"]).json();
    assert_eq!(
        (&ended["waiting_before"], &ended["waiting"]),
        (&0.into(), &2.into()),
        "{ended}"
    );
}

#[test]
fn hostile_descriptions_of_other_kinds_are_refused_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::create_dir(folder.path().join("many")).unwrap();
    for (name, text) in [
        ("a.kpipe", "version = 1\n[stages.x]\n"),
        ("x.jsonl", "1\n"),
        ("p.wat", "(module)"),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    for (entry, why) in [
        (
            "[[fuzz]]\npath = \"p.wat\"\ninputs = [\"a\"]\nseeds = \"0..18446744073709551615\"",
            "line 6: `0..18446744073709551615` are more than",
        ),
        ("[[pipelines]]\npath = \"a.kpipe\"", "line 3: "),
        ("[[pipelines]]\npath = \"none.kpipe\"", "line 3: no pipeline matches"),
        (
            "[[wasm]]\npath = \"p.wat\"\ntargets = [\"cpu\"]\ninputs = \"x.jsonl\"",
            "one input; write each line to a file",
        ),
        (
            "[[wasm]]\npath = \"p.wat\"\ntargets = [\"cpu\"]\ninputs = \"many\"",
            "the folder has no file",
        ),
        (
            "[[wasm]]\npath = \"p.wat\"\ntargets = [\"cpu\"]\ninputs = \"[\"",
            "line 3: `[`",
        ),
        ("[[tuning]]\npath = \"p.wat\"\nmodules = [\"none.ptx\"]", "none.ptx"),
        ("[[bisect]]\npath = \"p.wat\"\nmax-candidates = -1", "line 5:"),
    ] {
        std::fs::write(
            at("c.toml"),
            format!("version = 1\ntargets = [\"software:mali-g71\"]\n{entry}\n"),
        )
        .unwrap();
        kinescope(folder.path(), ["campaign", "check", &at("c.toml")]).assert_refused(why);
    }
}
