//! Tests of the Campaign panel: a description runs, its cells show their verdicts and runs, and a divergence opens.

use crate::common::{Window, samples};
use kinescope_campaign::CampaignFolder;
use std::path::Path;

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
    assert_eq!((shown.summary.cells.len(), shown.status.counts.done), (5, 9));
    let diverging = shown
        .summary
        .cells
        .iter()
        .find(|(_, c)| c.divergence.is_some())
        .unwrap();
    let (key, event) = (diverging.0.clone(), diverging.1.divergence.as_ref().unwrap().event);
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

#[test]
fn campaign_of_another_process_shows_its_status() {
    let folder = tempfile::tempdir().unwrap();
    let campaign = CampaignFolder::create(folder.path(), "elsewhere").unwrap();
    let queue = campaign.open_queue().unwrap();
    campaign.write_queue_status(&queue, true).unwrap();
    let mut w = Window::open_sample("vecadd.kine");
    assert!(w.run("show-campaign"));
    w.will_choose(folder.path());
    w.click("Open campaign…");
    assert!(w.views().campaign.is_live());
    assert!(w.has_part("another process runs it"));
    drop(queue);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    w.settle();
    w.settle();
    assert!(!w.views().campaign.is_live());
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
