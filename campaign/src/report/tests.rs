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

/// A page of a campaign whose agent was down looked like that of a finished one without this target.
#[test]
fn runs_that_wait_show_on_the_page_with_their_targets() {
    let folder = tempfile::tempdir().unwrap();
    let campaign = CampaignFolder::create(folder.path(), "n").unwrap();
    let queue = campaign.open_queue().unwrap();
    add_runs(&queue, "a.kine", "software:mali-g71", &[1000, 0, 0]);
    add_runs(&queue, "a.kine", "agent:farm/mali-g71", &[0, 0]);
    let summary = Summary::read(&queue).unwrap().with_waiting(&queue).unwrap();
    let page = render_report("n", &campaign, &summary, None);
    for part in [
        "<b>4</b><span>waiting</span>",
        "not finished: 4 of 5 runs are without a result (2 on agent:farm/mali-g71, 2 on software:mali-g71)",
        "<th>agent:farm/mali-g71</th><th>software:mali-g71</th>",
        "<span class=\"dim\">waiting</span><br><span class=\"dim\">2 runs</span>",
        "2 runs wait</span>",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(table_row(&page, "agent:farm/mali-g71")[1..4], ["0", "–", "–"]);
    // A finished campaign has no such words.
    let finished = folder.path().join("finished");
    let campaign = CampaignFolder::create(&finished, "n").unwrap();
    let queue = campaign.open_queue().unwrap();
    add_runs(&queue, "a.kine", "software:mali-g71", &[1000]);
    let done = Summary::read(&queue).unwrap().with_waiting(&queue).unwrap();
    assert!(!render_report("n", &campaign, &done, None).contains("wait"));
    // The unfinished one is compared with it.
    let difference = compare(&done, &summary);
    let page = render_report("n", &campaign, &summary, Some(("monday", &difference)));
    assert!(page.contains("match (2 runs wait)"), "{page}");
    let difference = compare(&summary, &done);
    let page = render_report("n", &campaign, &done, Some(("monday", &difference)));
    assert!(
        page.contains("The earlier campaign is not finished: 4 runs have no result."),
        "{page}"
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
