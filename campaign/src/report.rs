//! The report of a campaign as one HTML page: what replays where, how fast, what broke, with links to the events.

use crate::campaign_folder::CampaignFolder;
use crate::cell::{Cell, CellVerdict, find_median};
use crate::comparison::{CampaignDifference, CellDifference};
use crate::run_result::RunVerdict;
use crate::summary::{CellKey, Summary};
use crate::work::RunDetails;
use kinescope_files::link::Link;
use kinescope_files::scene::{Scene, Selection};
use kinescope_session::{html, text};
use maud::{Markup, html};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Maximum number of rows of a list. The table of results has all.
const MAX_ROWS: usize = 2000;
/// Maximum number of failed seeds of a cell.
const MAX_SEEDS: usize = 16;
/// Maximum number of targets with waiting runs that a sentence names. The matrix has all.
const MAX_TARGETS: usize = 16;

/// The rows of a matrix in the order of the cells: for each recording with its options, the cells by target.
type MatrixRows<'a> = Vec<((&'a str, &'a str), BTreeMap<&'a str, MatrixEntry<'a>>)>;

/// A cell of the matrix.
struct MatrixEntry<'a> {
    /// Its results; `None` if no run has one yet.
    cell: Option<&'a Cell>,
    /// Number of its runs without a result.
    waiting: u64,
}

/// Renders the report of a campaign. `since` is an earlier campaign: its name, and the difference to it.
#[must_use]
pub fn render_report(
    name: &str,
    folder: &CampaignFolder,
    summary: &Summary,
    since: Option<(&str, &CampaignDifference)>,
) -> String {
    let mut kinds: BTreeMap<usize, (&str, MatrixRows<'_>)> = BTreeMap::new();
    let keys = summary.keys();
    for &key in &keys {
        let entry = MatrixEntry {
            cell: summary.cells.get(key),
            waiting: summary.waiting_of(key),
        };
        let (_, rows) = kinds
            .entry(order(key.kind))
            .or_insert_with(|| (key.kind, MatrixRows::new()));
        let name = (key.recording.as_str(), key.options.as_str());
        match rows.last_mut().filter(|(before, _)| *before == name) {
            Some((_, row)) => {
                row.insert(&key.target, entry);
            }
            None => rows.push((name, BTreeMap::from([(key.target.as_str(), entry)]))),
        }
    }
    let targets: BTreeSet<&str> = keys.iter().map(|key| key.target.as_str()).collect();
    let waiting = summary.waiting_total();
    let body = html! {
        h1 { "Campaign " (name) }
        p class="files" { (describe_span(summary)) }
        div class="cards" {
            (card(&text::count(summary.total()), "runs"))
            @for verdict in [RunVerdict::Match, RunVerdict::Diverged, RunVerdict::Failed, RunVerdict::Refused] {
                (card(&text::count(summary.results_with(verdict)), verdict.name()))
            }
            @if waiting > 0 { (card(&text::count(waiting), "waiting")) }
            (card(&text::count(summary.repeated), "repeated: an earlier attempt may have executed too"))
        }
        @if waiting > 0 {
            p {
                "This campaign is not finished: " (describe_waiting(summary)) ". "
                code { "kinescope campaign run" } " with the same folder goes on with it."
            }
        }
        @if let Some((before, difference)) = since { (changes(before, difference, summary)) }
        @for (kind, rows) in kinds.values() {
            h2 { (heading(kind)) }
            (matrix(kind, rows))
        }
        (unequal(summary))
        (failures(folder, summary))
        h2 { "How fast" }
        (speeds(summary, &targets))
    };
    html::page(&format!("Campaign {name}"), &body)
}

/// The kinds of work in the order of the page, each with its heading and the name of its files.
const KINDS: [(&str, &str, &str); 6] = [
    ("replay", "What replays where", "recording"),
    ("pipeline", "Pipelines", "pipeline"),
    ("tuning", "Tuning", "recording"),
    ("wasm", "WebAssembly programs", "program"),
    ("fuzz", "Fuzzing", "recording"),
    ("bisect", "Bisection", "recording"),
];

/// Returns the number of a kind in the order of the page.
fn order(kind: &str) -> usize {
    KINDS.iter().position(|(name, ..)| *name == kind).unwrap_or(KINDS.len())
}

fn heading(kind: &str) -> &str {
    KINDS.get(order(kind)).map_or(kind, |(_, heading, _)| heading)
}

/// Lists the work whose results differ although they must be the same.
fn unequal(summary: &Summary) -> Markup {
    let repeats: Vec<(&CellKey, &String)> = summary
        .cells
        .iter()
        .filter_map(|(key, cell)| Some((key, cell.unequal.as_ref()?)))
        .collect();
    let targets = summary.unequal_targets();
    let count = repeats.len() + targets.len();
    html! {
        @if count > 0 {
            h2 { "Different results of the same work" }
            table {
                tr { th { "recording" } th { "target" } th { "compared with" } th { "difference" } }
                @for (key, text) in repeats.iter().take(MAX_ROWS) {
                    tr { td { (key.recording) } td { (key.target) } td { "another repeat" } td { (text) } }
                }
                @for one in targets.iter().take(MAX_ROWS) {
                    tr { td { (one.key.recording) } td { (one.other) } td { (one.key.target) } td { (one.text) } }
                }
            }
            (left_out(count))
        }
    }
}

fn card(value: &str, what: &str) -> Markup {
    html! { div class="card" { b { (value) } span { (what) } } }
}

fn describe_span(summary: &Summary) -> String {
    match summary.span_ms {
        Some((first, last)) => format!(
            "{}, in {}; {} cells",
            text::date(first / 1000),
            text::duration(last.saturating_sub(first).saturating_mul(1_000_000)),
            text::count(summary.cells.len() as u64)
        ),
        None => "no results yet".to_owned(),
    }
}

/// Returns how many runs have no result, and on which targets.
fn describe_waiting(summary: &Summary) -> String {
    let mut targets: BTreeMap<&str, u64> = BTreeMap::new();
    for (key, waiting) in &summary.waiting {
        *targets.entry(&key.target).or_default() += waiting;
    }
    let (waiting, count) = (summary.waiting_total(), targets.len());
    let named = targets.iter().take(MAX_TARGETS);
    let mut names: Vec<String> = named
        .map(|(target, n)| format!("{} on {target}", text::count(*n)))
        .collect();
    if count > MAX_TARGETS {
        names.push(text::count_noun(
            (count - MAX_TARGETS) as u64,
            "more target",
            "more targets",
        ));
    }
    format!(
        "{} of {} without a result ({})",
        text::count(waiting),
        text::count_noun(waiting + summary.total(), "run is", "runs are"),
        names.join(", ")
    )
}

/// Returns the class of a verdict in the page's style.
fn class(verdict: CellVerdict) -> &'static str {
    match verdict {
        CellVerdict::Match => "same",
        CellVerdict::Diverged => "changed",
        CellVerdict::Failed | CellVerdict::Refused => "gone",
    }
}

/// Returns the link that opens a recording at an event.
fn event_link(path: &Path, event: u64) -> String {
    let link = Link {
        file: path.to_owned(),
        events: None,
        scene: Some(Scene {
            event,
            selection: Selection::default(),
            panels: Vec::new(),
        }),
    };
    link.to_string()
}

fn matrix(kind: &str, rows: &MatrixRows<'_>) -> Markup {
    let targets: BTreeSet<&str> = rows.iter().flat_map(|(_, cells)| cells.keys().copied()).collect();
    let file = KINDS.get(order(kind)).map_or("recording", |(_, _, file)| file);
    html! {
        div style="overflow-x: auto" {
            table {
                tr {
                    th { (file) }
                    @for target in &targets { th { (target) } }
                }
                @for ((recording, options), cells) in rows.iter().take(MAX_ROWS) {
                    tr {
                        td {
                            (recording)
                            @if !options.is_empty() { br; span class="dim" { (options) } }
                        }
                        @for target in &targets {
                            td { @match cells.get(target) {
                                Some(entry) => (matrix_entry(entry)),
                                None => span class="dim" { "–" },
                            } }
                        }
                    }
                }
            }
        }
        (left_out(rows.len()))
    }
}

fn left_out(rows: usize) -> Markup {
    html! {
        @if rows > MAX_ROWS {
            p class="dim" { (text::count((rows - MAX_ROWS) as u64)) " more rows are in the table of results." }
        }
    }
}

fn matrix_entry(entry: &MatrixEntry<'_>) -> Markup {
    html! {
        @match entry.cell {
            None => {
                span class="dim" { "waiting" }
                br; span class="dim" { (text::count_noun(entry.waiting, "run", "runs")) }
            }
            Some(cell) => {
                (matrix_cell(cell))
                @if entry.waiting > 0 {
                    br; span class="dim" { (text::count_noun(entry.waiting, "run waits", "runs wait")) }
                }
            }
        }
    }
}

fn matrix_cell(cell: &Cell) -> Markup {
    let label = match cell.runs {
        1 => cell.verdict.name().to_owned(),
        n => format!("{} {} of {n}", cell.verdict.name(), n_with_verdict(cell)),
    };
    html! {
        @match &cell.divergence {
            Some(d) if cell.verdict != CellVerdict::Match => {
                a class=(class(cell.verdict)) href=(event_link(&cell.path, d.event)) title=(d.text) { (label) }
            }
            _ => span class=(class(cell.verdict)) title=[cell.failure.as_deref()] { (label) },
        }
        @if let Some(details) = cell.details.as_ref().map(RunDetails::describe).filter(|d| !d.is_empty()) {
            br; span class="dim" { (details) }
        }
        @if let Some(ns) = cell.median_ns() { br; span class="dim" { (text::duration(ns)) } }
        @if cell.fingerprints > 1 { br; span class="changed" { (cell.fingerprints) " different results" } }
        @if cell.repeated > 0 { br; span class="dim" { (cell.repeated) " repeated" } }
        @if cell.superseded > 0 { br; span class="dim" { (cell.superseded) " of earlier files" } }
    }
}

/// Returns the number of repeats that the label of a cell counts: matches of a match, others of the rest.
fn n_with_verdict(cell: &Cell) -> u64 {
    match cell.verdict {
        CellVerdict::Match => cell.matches,
        _ => cell.runs.saturating_sub(cell.matches),
    }
}

/// Lists the cells that do not match.
fn failures(folder: &CampaignFolder, summary: &Summary) -> Markup {
    let failing: Vec<(&CellKey, &Cell)> = summary
        .cells
        .iter()
        .filter(|(_, cell)| cell.verdict != CellVerdict::Match)
        .collect();
    html! {
        @if !failing.is_empty() {
            h2 { "What does not match" }
            table {
                tr { th { "recording" } th { "target" } th { "verdict" } th { "first divergence" } th { "outcome" } }
                @for (key, cell) in failing.iter().take(MAX_ROWS) {
                    tr {
                        td {
                            (key.recording)
                            @if !key.options.is_empty() { br; span class="dim" { (key.options) } }
                        }
                        td { (key.target) @if !cell.gpu.is_empty() { br; span class="dim" { (cell.gpu) } } }
                        td { span class=(class(cell.verdict)) { (cell.verdict.name()) } }
                        td {
                            @if let Some(d) = &cell.divergence {
                                a href=(event_link(&cell.path, d.event)) { "event " (text::count(d.event)) } " "
                                (d.text)
                            }
                            @if let Some(failure) = &cell.failure {
                                @if cell.divergence.is_some() { br; }
                                (failure)
                            }
                            (failed_seeds(cell))
                        }
                        td { @if let Some(outcome) = &cell.outcome { (outcome_link(folder, cell, outcome)) } }
                    }
                }
            }
            (left_out(failing.len()))
        }
    }
}

/// Lists failed seeds with the files that repeat them.
fn failed_seeds(cell: &Cell) -> Markup {
    let seeds = match &cell.details {
        Some(RunDetails::Fuzz(details)) => details.failed.as_slice(),
        _ => &[],
    };
    html! {
        @for seed in seeds.iter().take(MAX_SEEDS) {
            br; "seed " (seed.seed) ": " (seed.reason)
            @for (name, file) in &seed.files { br; code { "--input " (name) "=" (file.display()) } }
        }
    }
}

fn outcome_link(folder: &CampaignFolder, cell: &Cell, outcome: &Path) -> Markup {
    let path = folder.path().join(outcome);
    let path = std::path::absolute(&path).unwrap_or(path);
    let event = cell.divergence.as_ref().map_or(0, |d| d.event);
    html! { a href=(event_link(&path, event)) { "open" } }
}

/// Lists what changed since an earlier campaign.
fn changes(before: &str, difference: &CampaignDifference, summary: &Summary) -> Markup {
    html! {
        h2 { "What changed since " (before) }
        @if difference.waiting_before > 0 {
            p { "The earlier campaign is not finished: "
                (text::count_noun(difference.waiting_before, "run has", "runs have")) " no result." }
        }
        @if difference.cells.is_empty() {
            p { "Nothing: " (text::count(difference.same)) " cells are the same." }
        } @else {
            table {
                tr { th { "change" } th { "recording" } th { "target" } th { "before" } th { "now" } th { "where" } }
                @for cell in difference.cells.iter().take(MAX_ROWS) { (change_row(cell, summary)) }
            }
            (left_out(difference.cells.len()))
            p class="dim" { (text::count(difference.same)) " other cells are the same." }
        }
    }
}

fn change_row(change: &CellDifference, summary: &Summary) -> Markup {
    let key = CellKey {
        kind: change.kind,
        recording: change.recording.clone(),
        options: change.options.clone(),
        target: change.target.clone(),
    };
    let cell = summary.cells.get(&key);
    let side = |state: Option<String>, ns: Option<u64>| {
        html! {
            (state.as_deref().unwrap_or("–"))
            @if let Some(ns) = ns { br; span class="dim" { (text::duration(ns)) } }
        }
    };
    html! {
        tr {
            td { span class=(if change.change.is_worse() { "gone" } else { "more" }) { (change.change.name()) } }
            td {
                (change.recording)
                @if change.kind != "replay" { br; span class="dim" { (change.kind) } }
                @if !change.options.is_empty() { br; span class="dim" { (change.options) } }
                @if change.recording_changed { br; span class="changed" { "the recording has other bytes" } }
            }
            td { (change.target) }
            td { (side(change.describe_before(), change.run_ns_before)) }
            td { (side(change.describe_after(), change.run_ns)) }
            td {
                @if let (Some(cell), Some(event)) = (cell, change.event) {
                    a href=(event_link(&cell.path, event)) { "event " (text::count(event)) } " "
                }
                @if let Some(what) = &change.text { (what) }
            }
        }
    }
}

/// Lists the times of each target: the median of the medians of its cells, and its longest run.
fn speeds(summary: &Summary, targets: &BTreeSet<&str>) -> Markup {
    html! {
        table {
            tr { th { "target" } th { "GPU" } th class="n" { "cells" } th class="n" { "median" } th class="n" { "longest run" } }
            @for target in targets {
                @let cells: Vec<&Cell> = summary.cells.iter().filter(|(k, _)| k.target == *target).map(|(_, c)| c).collect();
                @let median = find_median(&sorted_medians(&cells));
                @let gpu = cells.iter().map(|c| c.gpu.as_str()).find(|g| !g.is_empty()).unwrap_or("–");
                tr {
                    td { (target) }
                    td { (gpu) }
                    td class="n" { (text::count(cells.len() as u64)) }
                    td class="n" { (format_time(median)) }
                    td class="n" { (format_time(summary.longest_ns.get(*target).copied())) }
                }
            }
        }
    }
}

fn sorted_medians(cells: &[&Cell]) -> Vec<u64> {
    let mut medians: Vec<u64> = cells.iter().filter_map(|c| c.median_ns()).collect();
    medians.sort_unstable();
    medians
}

fn format_time(ns: Option<u64>) -> String {
    ns.map_or_else(|| "–".to_owned(), text::duration)
}

#[cfg(test)]
mod tests;
