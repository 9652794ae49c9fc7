//! Tests of the page of a campaign, and of what it calculates from a queue.

use super::*;
use crate::comparison::compare;
use crate::folder_queue::FolderQueue;
use crate::queue::{RunQueue as _, RunSource as _};
use crate::run::Run;
use crate::run_result::{FirstDivergence, RunResult};
use crate::work::WorkItem;
use std::time::Duration;

/// Returns a run of a replay.
fn run(name: &str, target: &str, repeat: u32) -> Run {
    let work = format!(r#"{{"kind":"replay","recording":{{"path":"/{name}","name":"{name}","digest":"{name}"}}}}"#);
    let work: WorkItem = serde_json::from_str(&work).unwrap();
    Run::new(work, target, repeat)
}

/// Adds runs with these times, which all match, to a queue. A time of 0 leaves the run in the queue.
fn add_runs(queue: &FolderQueue, name: &str, target: &str, times_ns: &[u64]) {
    let runs: Vec<Run> = (0u32..).zip(times_ns).map(|(n, _)| run(name, target, n)).collect();
    queue.add(&mut runs.into_iter()).unwrap();
    for run_ns in times_ns.iter().copied().filter(|ns| *ns > 0) {
        let leased = queue.take(target, "w", Duration::from_secs(60)).unwrap().unwrap();
        let result = RunResult {
            run_ns,
            verdict: RunVerdict::Match,
            ..RunResult::unstarted(&leased, target, "w")
        };
        queue.finish(&leased, &result).unwrap();
    }
}

/// Returns the other cells of the last row of a table whose first cell is a text.
fn table_row<'p>(page: &'p str, first: &str) -> Vec<&'p str> {
    let head = format!("<tr><td>{first}</td>");
    let row = page.rsplit_once(&head).unwrap_or_else(|| panic!("{first}: {page}")).1;
    let row = row.split_once("</tr>").unwrap().0;
    row.split("</td>")
        .map(|cell| cell.rsplit_once('>').map_or(cell, |(_, text)| text))
        .collect()
}

#[test]
fn the_longest_time_is_that_of_a_run_and_not_of_a_median() {
    const MS: u64 = 1_000_000;
    let folder = tempfile::tempdir().unwrap();
    let campaign = CampaignFolder::create(folder.path(), "n").unwrap();
    let queue = campaign.open_queue().unwrap();
    add_runs(&queue, "a.kine", "t", &[10 * MS, 121 * MS, 11 * MS]);
    add_runs(&queue, "b.kine", "t", &[2 * MS, 4 * MS]);
    let page = render_report("n", &campaign, &Summary::read(&queue).unwrap(), None);
    // The medians of the cells are 11 ms and 3 ms.
    assert_eq!(
        table_row(&page, "t")[1..4],
        ["2", &text::duration(7 * MS), &text::duration(121 * MS)]
    );
}

#[test]
fn page_links_to_events_and_escapes_texts() {
    let folder = tempfile::tempdir().unwrap();
    let campaign = CampaignFolder::create(folder.path(), "n").unwrap();
    let key = CellKey {
        kind: "replay",
        recording: "a <b>.kine".into(),
        options: String::new(),
        target: "software:mali-g71".into(),
    };
    let cell = Cell {
        runs: 2,
        matches: 1,
        repeated: 1,
        verdict: CellVerdict::Diverged,
        fingerprints: 2,
        divergence: Some(FirstDivergence {
            event: 1200,
            text: "JS0_STATUS: <script>".into(),
        }),
        failure: None,
        run_ns: vec![2_000_000, 3_000_000],
        gpu: "Mali-G71".into(),
        path: "/t/a b.kine".into(),
        digest: String::new(),
        outcome: Some("outcomes/x.kine".into()),
        details: None,
        unequal: None,
        superseded: 0,
    };
    let summary = Summary {
        cells: BTreeMap::from([(key, cell)]),
        verdicts: BTreeMap::from([(RunVerdict::Match, 1), (RunVerdict::Diverged, 1)]),
        repeated: 1,
        span_ms: Some((1_700_000_000_000, 1_700_000_002_000)),
        ..Summary::default()
    };
    let difference = compare(&Summary::default(), &summary);
    let page = render_report("n", &campaign, &summary, Some(("last", &difference)));
    for part in [
        "kinescope:///t/a%20b.kine?event=1200",
        "a &lt;b&gt;.kine",
        "outcomes/x.kine?event=1200",
        "What changed since last",
        "diverged 1 of 2",
        "2 different results",
        "failing",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("<script"));
}
