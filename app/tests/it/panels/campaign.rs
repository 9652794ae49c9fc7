//! Tests of the Campaign panel: a description runs, its cells show their verdicts and runs, and a divergence opens. The
//! cells of a campaign that another process runs are followed.

use crate::common::{Window, assert_themes_differ_only_in_colours, samples};
use kinescope::theme::ThemeChoice;
use kinescope_campaign::{
    CampaignFolder, CampaignReader, FirstDivergence, FolderQueue, Run, RunQueue as _, RunResult, RunSource as _,
    RunVerdict, WorkItem,
};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Writes a campaign with a recording that matches, one that diverges, and seeds.
fn write_campaign(folder: &Path) -> std::path::PathBuf {
    std::fs::copy(samples().join("vecadd.kine"), folder.join("vecadd.kine")).unwrap();
    whole_program_tests::copy_diverging(folder, "vecadd.kine");
    let text = "version = 1\nname = \"panel\"\ntargets = [\"software:mali-g71\", \"software:mali-g52\"]\nkeep-outcomes = \"diverged\"\n\
                [[recordings]]\npath = \"*.kine\"\nrepeats = 2\n[[fuzz]]\npath = \"vecadd.kine\"\ninputs = [\"a\"]\nseeds = \"0..4\"\n\
                targets = [\"software:mali-g71\"]\n";
    let path = folder.join("panel.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// Opens a description in the panel.
fn open(description: &Path) -> Window {
    let mut w = Window::open_sample("vecadd.kine");
    assert!(w.run("show-campaign"));
    w.will_choose(description);
    w.click("Open description…");
    w
}

#[test]
fn run_fills_the_matrix_and_a_cell_opens_its_divergence() {
    let folder = tempfile::tempdir().unwrap();
    let mut w = open(&write_campaign(folder.path()));
    assert!(w.has("9 runs on 2 targets"));
    w.click("Run the campaign");
    let end = w.views().campaign.end().unwrap().to_owned();
    assert!(
        end.contains("3 match") && end.contains("2 diverged") && end.contains("4 refused"),
        "{end}"
    );
    let shown = w.views().campaign.shown().unwrap();
    assert_eq!((shown.cells().count(), shown.status.counts.done), (5, 9));
    let diverging = shown.cells().find(|c| c.cell.divergence.is_some()).unwrap();
    let (key, event) = (diverging.key.clone(), diverging.cell.divergence.as_ref().unwrap().event);
    w.views().campaign.selected = Some(key.clone());
    w.settle();
    assert!(w.has(&format!("{} on software:mali-g71", key.recording)));
    assert!(w.has_part("run 0") && w.has_part("run 1"));
    w.click(&format!("event {}", kinescope_session::text::count(event)));
    assert_eq!(w.doc().path.file_name().unwrap().to_str(), Some(key.recording.as_str()));
    assert_eq!(w.doc().current_event(), event);
    let results = folder.path().join("panel.campaign");
    assert!(results.join("results.parquet").exists());
    // The same folder opens again, and a run goes on where it was.
    assert!(w.run("show-campaign"));
    w.will_choose(&results);
    w.click("Open campaign…");
    assert!(w.has("9 of 9 runs done") && w.has("complete"));
}

/// Both were refused as files that are no recording.
#[test]
fn folders_and_descriptions_open_like_recordings() {
    let folder = tempfile::tempdir().unwrap();
    let description = write_campaign(folder.path());
    let mut w = Window::empty();
    w.open_like_a_recording(&description);
    assert!(w.has("9 runs on 2 targets"));
    assert_eq!(w.doc().path.extension().unwrap(), "kine");
    w.click("Run the campaign");
    // A window with a recording keeps it.
    let mut w = Window::open_sample("digits.kine");
    w.open_like_a_recording(&folder.path().join("panel.campaign"));
    assert!(w.has("9 of 9 runs done") && w.has("complete"));
    assert_eq!(w.doc().path.file_name().unwrap(), "sample.kine");
    let mut w = Window::empty();
    w.open_like_a_recording(&folder.path().join("panel.campaign"));
    assert!(w.has("9 of 9 runs done"));
    assert_eq!(w.doc().path.extension().unwrap(), "kine");
    // A file that is no description says why.
    std::fs::write(folder.path().join("bad.toml"), "version = 1\nrepeats = 0\n").unwrap();
    let mut w = Window::empty();
    w.open_like_a_recording(&folder.path().join("bad.toml"));
    let error = w.app().last_error().unwrap().to_owned();
    assert!(error.contains("bad.toml: line"), "{error}");
}

/// Fills the queue of a campaign with runs of two kinds on two targets. All but `left` of each target have results, which
/// are the same in every call.
fn fill(queue: &FolderQueue, left: usize) {
    let file = |name: &str| serde_json::json!({ "path": format!("/traces/{name}"), "name": name, "digest": name });
    let works: [WorkItem; 3] = [
        serde_json::json!({ "kind": "replay", "recording": file("digits.kine") }),
        serde_json::json!({ "kind": "replay", "recording": file("vecadd.kine") }),
        serde_json::json!({ "kind": "fuzz", "recording": file("digits.kine"), "inputs": ["image"], "first_seed": 0,
            "seeds": 100, "mutations": ["bits"] }),
    ]
    .map(|work| serde_json::from_value(work).unwrap());
    let targets = ["agent:lab/mali-g52", "software:mali-g71"];
    let runs = |target| {
        works
            .iter()
            .flat_map(move |work| (0..4).map(move |n| Run::new(work.clone(), target, n)))
    };
    queue.add(&mut targets.into_iter().flat_map(runs)).unwrap();
    for target in targets {
        for number in 0..12 - left {
            let leased = queue.take(target, "lab/1", Duration::from_secs(60)).unwrap().unwrap();
            let (is_bad, number) = (target == targets[0] && number % 5 == 1, number as u64);
            let result = RunResult {
                verdict: if is_bad {
                    RunVerdict::Diverged
                } else {
                    RunVerdict::Match
                },
                computed: true,
                divergence: is_bad.then(|| FirstDivergence {
                    event: 118,
                    text: "JOB_IRQ_STATUS: expected 0x2, got 0x20000 (equal)".to_owned(),
                }),
                gpu: "Mali-G71".to_owned(),
                run_ns: 1_250_000 + number * 10_000,
                ..RunResult::unstarted(&leased, target, "lab/1")
            };
            queue.finish(&leased, &result).unwrap();
        }
    }
}

/// Shows a campaign with the selected cell that diverged.
fn show(theme: ThemeChoice, mut reader: CampaignReader) -> Window {
    let snapshot = reader.read().unwrap();
    let selected = snapshot
        .cells()
        .find(|c| c.cell.divergence.is_some())
        .map(|c| c.key.clone());
    assert!(selected.is_some());
    let mut w = Window::open_with(theme, 1.0);
    w.app().settings.hints_read = 9;
    w.run("show-campaign");
    w.views().campaign.open(Ok((Arc::new(Mutex::new(reader)), snapshot)));
    w.views().campaign.selected = selected;
    w.settle();
    w
}

/// Opens a campaign whose results are the same in every call, with the selected cell that diverged.
fn results(theme: ThemeChoice) -> Window {
    let folder = tempfile::tempdir().unwrap();
    let campaign = CampaignFolder::create(folder.path(), "nightly").unwrap();
    fill(&campaign.open_queue().unwrap(), 0);
    show(theme, CampaignReader::new(campaign))
}

/// Compares a picture of a campaign that is complete.
#[test]
fn campaign_dark() {
    results(ThemeChoice::Dark).harness.snapshot("campaign_dark");
}

#[test]
fn campaign_in_every_theme() {
    assert_themes_differ_only_in_colours(results);
}

#[test]
fn campaign_of_another_process_shows_its_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let campaign = CampaignFolder::create(folder.path(), "elsewhere").unwrap();
    let queue = campaign.open_queue().unwrap();
    fill(&queue, 5);
    let leased = queue.take("software:mali-g71", "w", Duration::from_secs(60)).unwrap();
    campaign.write_queue_status(&queue, true).unwrap();
    let mut w = Window::open_sample("vecadd.kine");
    assert!(w.run("show-campaign"));
    w.will_choose(folder.path());
    w.click("Open campaign…");
    assert!(w.views().campaign.is_live());
    assert!(w.has_part("another process runs it") && w.has("14 of 24 runs done"));
    for line in [
        "Replays on agent:lab/mali-g52: 7 of 8 done, 2 diverged, 5 match, 0 running, 1 queued",
        "Replays on software:mali-g71: 7 of 8 done, 7 match, 1 running, 0 queued",
        "Mutated inputs on software:mali-g71: 0 of 4 done, 0 running, 4 queued",
    ] {
        assert!(w.has(line), "{line}");
    }
    // Its cells show when the other process ends: this one writes no log.
    drop((leased, queue));
    std::thread::sleep(Duration::from_millis(1100));
    w.settle();
    w.settle();
    assert!(!w.views().campaign.is_live());
    assert!(w.has_part("digits.kine on software:mali-g71: ✓ match 4"));
}

/// Opens a campaign that another process runs, with some results. They are the same in every call.
fn followed(theme: ThemeChoice) -> Window {
    let folder = tempfile::tempdir().unwrap();
    let campaign = CampaignFolder::create(folder.path(), "nightly").unwrap();
    let queue = campaign.open_running_queue().unwrap();
    fill(&queue, 5);
    let leased = queue.take("software:mali-g71", "w", Duration::from_secs(60)).unwrap();
    campaign.write_queue_status(&queue, true).unwrap();
    let mut reader = CampaignReader::new(campaign);
    assert!(leased.is_some() && reader.read().unwrap().is_elsewhere);
    show(theme, reader)
}

/// Compares a picture of a campaign that another process runs.
#[test]
fn campaign_followed_dark() {
    followed(ThemeChoice::Dark).harness.snapshot("campaign_followed_dark");
}

#[test]
fn campaign_followed_in_every_theme() {
    assert_themes_differ_only_in_colours(followed);
}

/// Starts the program that runs a campaign.
fn run_elsewhere(description: &Path, results: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_kinescope"))
        .args(["campaign", "run"])
        .arg(description)
        .arg("-o")
        .arg(results)
        .env("KINESCOPE_KEYS", results.with_extension("keys"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Returns the number of results that the cells show.
fn shown_runs(w: &mut Window) -> u64 {
    let shown = w.views().campaign.shown();
    shown.map_or(0, |shown| shown.cells().map(|cell| cell.cell.runs).sum())
}

#[test]
fn cells_are_followed_while_other_processes_run_the_campaign() {
    const REPEATS: u64 = 300;
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(samples().join("vecadd.kine"), folder.path().join("vecadd.kine")).unwrap();
    let description = folder.path().join("c.toml");
    let text = format!(
        "version = 1\nname = \"followed\"\ntargets = [\"software:mali-g71\"]\nrepeats = {REPEATS}\n\
         [[recordings]]\npath = \"vecadd.kine\"\n"
    );
    std::fs::write(&description, text).unwrap();
    let results = folder.path().join("out");
    let mut first = run_elsewhere(&description, &results);
    let begun = Instant::now();
    let mut w = Window::open_sample("vecadd.kine");
    assert!(w.run("show-campaign"));
    while !results.join("results.log").exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the campaign did not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    w.will_choose(&results);
    w.click("Open campaign…");
    // The numbers that the cells had in each reading.
    let at_first = shown_runs(&mut w);
    let mut counts = vec![at_first];
    let mut follow = |w: &mut Window, is_over: &mut dyn FnMut(&mut Window) -> bool| {
        while !is_over(w) {
            assert!(begun.elapsed() < Duration::from_secs(240), "{counts:?}");
            std::thread::sleep(Duration::from_millis(100));
            w.settle();
            let now = shown_runs(w);
            let before = counts.last().copied().unwrap_or(0);
            assert!(
                now >= before,
                "the cells of an earlier reading were dropped: {counts:?}, {now}"
            );
            if now > before {
                counts.push(now);
            }
        }
        counts.len()
    };
    let readings = follow(&mut w, &mut |w| {
        shown_runs(w) > at_first && w.views().campaign.is_live()
    });
    assert!(readings >= 2);
    first.kill().unwrap();
    first.wait().unwrap();
    follow(&mut w, &mut |w| !w.views().campaign.is_live());
    assert!(w.has("stopped"));
    let left = shown_runs(&mut w);
    assert!((at_first + 1..REPEATS).contains(&left), "{left}");
    // Another process goes on. The window notices, and keeps what it has.
    let mut second = run_elsewhere(&description, &results);
    let before = follow(&mut w, &mut |w| w.views().campaign.is_live());
    let after = follow(&mut w, &mut |w| {
        shown_runs(w) == REPEATS && !w.views().campaign.is_live()
    });
    assert!(after > before, "the cells did not change while the second process ran");
    assert!(second.wait().unwrap().success());
    assert!(w.has("complete"));
    assert!(!results.join("results.log").exists());
}

#[test]
fn mistakes_and_hardware_keep_a_campaign_from_running() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("c.toml");
    std::fs::write(&path, "version = 1\nrepeats = 0\n").unwrap();
    let mut w = open(&path);
    assert!(w.has_part("c.toml: line"));
    std::fs::copy(samples().join("vecadd.kine"), folder.path().join("vecadd.kine")).unwrap();
    std::fs::write(
        &path,
        "version = 1\ntargets = [\"agent:lab/mali\"]\n[[recordings]]\npath = \"vecadd.kine\"\n",
    )
    .unwrap();
    w.will_choose(&path);
    w.click("Open description…");
    w.click("Run the campaign");
    assert!(w.views().campaign.running().is_none() && w.views().campaign.end().is_none());
    w.click("Run on hardware");
    assert!(w.views().campaign.accepts_hardware);
    w.will_choose(folder.path());
    w.click("Open campaign…");
    assert!(w.has_part("no campaign is here"));
}
