//! Published recordings replayed through an agent process, and the network cost of an edit.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout
)]

use crate::process;

use process::{Agent, paired};
use replay_engine::client::targets;
use replay_engine::compile::compile;
use replay_engine::plan::{CompileOptions, Edits};
use replay_engine::run::Verdict;
use std::collections::BTreeSet;
use std::path::PathBuf;
use trace_core::progress::Progress;
use trace_core::recording::{Digest, Recording};
use trace_import::{OpenOptions, Opened};

/// Maximum size on the wire of an edit without its changed pages and their digests, in bytes.
const MAX_EDIT_BYTES: u64 = 2048;
/// Size of a page's entry in the plan, in bytes: frame, digest and role.
const PAGE_ENTRY_BYTES: u64 = 44;

/// Returns a published recording. Returns `None` and prints a line if the files are missing.
fn recording(folder: &str) -> Option<Recording> {
    let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/recordings"),
        PathBuf::from,
    );
    let path = root.join("gpureplay").join(folder);
    if !path.exists() {
        println!("skipped: {} is not here", path.display());
        return None;
    }
    let opened = trace_import::open(&path, &OpenOptions::default(), &Progress::new());
    Some(opened.and_then(Opened::into_recording).unwrap())
}

fn check_replay(folder: &str, compared: u64) {
    let Some(recording) = recording(folder) else { return };
    let (keys, client) = paired();
    let agent = Agent::start(&keys.path().join("agent"), &["serve", "--listen", "127.0.0.1:0"]);
    let target = format!("agent://{}/mali-g71", agent.line("listening on "));
    let open = || targets::open(&target, &targets::Factories::new(), &client).unwrap();
    let mut lease = open();
    let info = lease.info().clone();
    let plan = |edits: &Edits| compile(&recording, edits, &info, &CompileOptions::default(), &Progress::new()).unwrap();
    let compiled = plan(&Edits::default());
    let first = lease.replay(&compiled, 1, &Progress::new(), false).unwrap();
    assert_eq!(first.verdict, Verdict::Match, "{:?}", first.failure);
    assert_eq!((first.reads.compared, first.reads.matched), (compared, compared));
    let all = lease.push_stats();
    assert!(all.pages > 0 && all.pages_known == 0);
    drop(lease);
    // An edited input costs its new pages and a small part of the plan, which names them.
    let input = recording.buffer("input").unwrap();
    let mut edits = Edits::default();
    edits
        .inputs
        .insert("input".into(), (0..input.bytes).map(|i| (i % 251) as u8).collect());
    let edited = plan(&edits);
    let before: BTreeSet<Digest> = compiled
        .plan
        .accesses()
        .unwrap()
        .pages
        .iter()
        .map(|p| p.digest)
        .collect();
    let changed: BTreeSet<Digest> = edited.plan.accesses().unwrap().pages.iter().map(|p| p.digest).collect();
    let changed: Vec<Digest> = changed.difference(&before).copied().collect();
    let pages = (input.va.get() + input.bytes).div_ceil(4096) - input.va.get() / 4096;
    assert!((1..=pages).contains(&(changed.len() as u64)), "{changed:?}");
    let mut lease = open();
    let second = lease.replay(&edited, 100, &Progress::new(), false).unwrap();
    assert_eq!(second.verdict, Verdict::Match, "{:?}", second.failure);
    assert_eq!(second.timing.runs_ns.len(), 100);
    let delta = lease.push_stats();
    assert_eq!(
        lease.sent_pages(),
        changed,
        "the client must send exactly the changed pages"
    );
    assert_eq!(delta.pages + delta.pages_known, edited.pages.len() as u64);
    assert!(
        delta.bytes < delta.pages * (4096 + PAGE_ENTRY_BYTES) + MAX_EDIT_BYTES,
        "{delta:?}"
    );
    // The agent already has every page of the recorded input.
    let back = lease.replay(&compiled, 1, &Progress::new(), false).unwrap();
    assert_eq!(back.fingerprint, first.fingerprint);
    assert!(
        lease.sent_pages().is_empty() && lease.push_stats().bytes < 512,
        "{:?}",
        lease.push_stats()
    );
    // An unchanged plan costs only the digests.
    let third = lease.replay(&edited, 1, &Progress::new(), false).unwrap();
    assert_eq!(third.fingerprint, second.fingerprint);
    assert!(
        lease.sent_pages().is_empty() && lease.push_stats().bytes < 512,
        "{:?}",
        lease.push_stats()
    );
    println!(
        "{folder}: first push {} bytes ({} pages), after an edit of {} input bytes {} bytes ({} pages), unchanged {} bytes",
        all.bytes,
        all.pages,
        input.bytes,
        delta.bytes,
        delta.pages,
        lease.push_stats().bytes
    );
}

#[test]
fn mnist_replays_through_an_agent() {
    check_replay("mnist", 2580);
}

#[test]
fn alexnet_replays_through_an_agent() {
    check_replay("alexnet", 7592);
}
