//! Tests of leases, pushes and runs over real sockets, with a device that misbehaves on demand.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::support;

use replay_core::Action;
use replay_engine::client::{Client, ClientError, Endpoint, Lease, Phase, Stage, targets};
use replay_engine::plan::{Rewrite, RewriteKind};
use replay_engine::run::Verdict;
use replay_engine::serve::{Options, Server};
use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::{
    Bench, Ends, HANGS, PANICS, Relay, SLOW, SLOW_RESET, SOUND, Strings, WAITS, images, plan, plan_of, quick, tcp,
    until,
};
use trace_core::progress::Progress;

#[test]
fn replay_reports_its_phases_and_matches() {
    let bench = Bench::new(Options::default());
    let mut lease = bench.lease();
    let phases = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&phases);
    lease.on_phase(move |p| seen.lock().unwrap().push(p));
    let progress = Progress::new();
    let outcome = lease.replay(&plan(500, &images(3)), 3, &progress, false).unwrap();
    assert_eq!(outcome.verdict, Verdict::Match, "{:?}", outcome.failure);
    assert_eq!((outcome.reads.compared, outcome.reads.matched), (500, 500));
    assert_eq!(outcome.timing.runs_ns.len(), 3);
    assert_eq!(outcome.pushed_bytes, lease.push_stats().bytes);
    assert!(outcome.timing.push_ns > 0 && outcome.pushed_bytes > 3 * 4096);
    assert!(!outcome.recording.is_empty(), "the outcome contains a recording");
    assert_eq!(progress.fraction(), Some(1.0));
    let phases = phases.lock().unwrap().clone();
    assert_eq!(
        phases,
        [Phase::Checking, Phase::Uploading, Phase::Running, Phase::Downloading]
    );
}

#[test]
fn device_that_is_being_reset_is_awaited() {
    let bench = Bench::new(Options::default());
    let other = bench.ends.another("second");
    bench.strings.set(SLOW_RESET);
    let lease = bench.lease();
    drop(lease);
    let client = Client::connect(&tcp(bench.address), &other, None).unwrap();
    client.lease("board").unwrap();
}

#[test]
fn busy_error_names_the_lease_holder_and_time() {
    let bench = Bench::new(Options::default());
    let other = bench.ends.another("second");
    let connect = || Client::connect(&tcp(bench.address), &other, None).unwrap();
    let lease = bench.lease();
    let e = connect().lease("board").unwrap_err();
    assert!(
        matches!(&e, ClientError::Busy { holder, since_s: 0, .. } if holder == "bench"),
        "{e}"
    );
    assert_eq!(connect().states()[0].holder.as_deref(), Some("bench"));
    drop(lease);
    connect().lease("board").unwrap();
    let e = connect().lease("nothing").unwrap_err();
    assert!(
        matches!(&e, ClientError::NoDevice { known, .. } if known == "board"),
        "{e}"
    );
}

#[test]
fn a_second_push_sends_only_what_changed() {
    let bench = Bench::new(Options::default());
    let mut all = images(300);
    let mut lease = bench.lease();
    let push = |lease: &mut Lease, all: &[[u8; 4096]]| {
        let outcome = lease.replay(&plan(2000, all), 1, &Progress::new(), false).unwrap();
        assert_eq!(outcome.pushed_bytes, lease.push_stats().bytes);
        lease.push_stats()
    };
    let first = push(&mut lease, &all);
    assert_eq!((first.pages, first.pages_known), (300, 0));
    assert!(first.bytes > 300 * 4096);
    all[17][4000] = 1;
    let second = push(&mut lease, &all);
    assert_eq!((second.pages, second.pages_known), (1, 299));
    assert!(
        second.bytes < 4096 + 2048,
        "the push of one page has {} bytes",
        second.bytes
    );
    assert_eq!(
        lease.sent_pages(),
        [*blake3::hash(&all[17]).as_bytes()],
        "the client must send exactly the changed page"
    );
    let third = push(&mut lease, &all);
    assert_eq!((third.pages, third.pages_known), (0, 300));
    assert!(
        third.bytes < 512,
        "the push of an unchanged plan has {} bytes",
        third.bytes
    );
    assert!(lease.sent_pages().is_empty());
    // Zero images and repeated images are not sent at all.
    let repeats = [[0; 4096], all[0], all[0], [0; 4096]];
    assert_eq!(push(&mut lease, &repeats).pages, 0);
    drop(lease);
    // The agent reuses the pages for another lease of the same client, but not for another client.
    let mut again = bench.lease();
    again.replay(&plan(2000, &all), 1, &Progress::new(), false).unwrap();
    assert_eq!(again.push_stats().pages, 0);
    drop(again);
    let other = bench.ends.another("second");
    let mut lease = Client::connect(&tcp(bench.address), &other, None)
        .unwrap()
        .lease("board")
        .unwrap();
    lease.replay(&plan(2000, &all), 1, &Progress::new(), false).unwrap();
    assert_eq!(lease.push_stats().pages, 300);
}

#[test]
fn small_page_cache_only_sends_more_bytes() {
    let bench = Bench::new(Options {
        cache_bytes: 8 * 4096,
        ..Options::default()
    });
    let mut lease = bench.lease();
    for _ in 0..2 {
        let outcome = lease
            .replay(&plan(10, &images(100)), 1, &Progress::new(), false)
            .unwrap();
        assert_eq!(outcome.verdict, Verdict::Match);
        assert!(lease.push_stats().pages > 90);
    }
}

#[test]
fn client_and_agent_both_refuse_an_invalid_plan() {
    let bench = Bench::new(Options::default());
    let mut lease = bench.lease();
    let write = Action::Write {
        event: 4,
        space: 0,
        offset: 0x8000,
        width: 4,
        value: 1,
    };
    let bad = plan_of([write], &[]);
    let ClientError::PlanRefused(client_refusal) = lease.replay(&bad, 1, &Progress::new(), false).unwrap_err() else {
        panic!()
    };
    let e = lease.replay(&bad, 1, &Progress::new(), true).unwrap_err();
    assert_eq!(e.stage(), Stage::Upload);
    let ClientError::AgentRefusedPlan(agent_refusal) = e else {
        panic!("{e}")
    };
    assert_eq!(client_refusal, agent_refusal, "both ends use the same code");
    assert_eq!(agent_refusal.rule, 1, "{agent_refusal}");
    // One plan's arena is not the device's. The other plan has a frame outside its arena.
    let mut bad = plan(1, &images(2));
    bad.plan.accesses_mut().unwrap().arena.pages += 1;
    assert!(matches!(
        lease.replay(&bad, 1, &Progress::new(), true),
        Err(ClientError::AgentRefusedPlan(_))
    ));
    let mut bad = plan(1, &images(2));
    bad.plan.accesses_mut().unwrap().pages[1].frame = 5;
    let e = lease.replay(&bad, 1, &Progress::new(), true).unwrap_err();
    assert!(
        matches!(&e, ClientError::Refused(why) if why.contains("outside")),
        "{e}"
    );
    // The lease is still valid.
    assert_eq!(
        lease.replay(&plan(1, &[]), 1, &Progress::new(), false).unwrap().verdict,
        Verdict::Match
    );
}

#[test]
fn missing_or_corrupt_plan_page_is_refused() {
    let bench = Bench::new(Options::default());
    let mut lease = bench.lease();
    let mut lacks = plan(1, &images(300));
    let missing_page = lacks.plan.accesses().unwrap().pages[299].digest;
    lacks.pages.remove(&missing_page);
    let e = lease.replay(&lacks, 1, &Progress::new(), true).unwrap_err();
    assert!(matches!(e, ClientError::PageMissing { .. }), "{e}");
    let mut corrupt = plan(1, &images(300));
    let image = corrupt.pages.values_mut().next().unwrap();
    let mut changed = **image;
    changed[0] ^= 1;
    *image = changed.into();
    let e = lease.replay(&corrupt, 1, &Progress::new(), true).unwrap_err();
    assert!(matches!(&e, ClientError::Refused(why) if why.contains("digest")), "{e}");
    assert_eq!(
        lease
            .replay(&plan(1, &images(300)), 1, &Progress::new(), false)
            .unwrap()
            .verdict,
        Verdict::Match
    );
}

#[test]
fn cancelling_stops_a_run_and_the_lease_lives_on() {
    let bench = Bench::new(Options::default());
    let mut lease = bench.lease();
    bench.strings.set(SLOW);
    let progress = Progress::new();
    let stop = progress.clone();
    let watch = std::thread::spawn(move || {
        until("the run to progress", || stop.fraction().unwrap_or(0.0) > 0.22);
        stop.cancel();
    });
    let e = lease.replay(&plan(100_000, &[]), 1, &progress, false).unwrap_err();
    assert!(matches!(e, ClientError::Cancelled), "{e}");
    watch.join().unwrap();
    bench.strings.set(SOUND);
    let outcome = lease.replay(&plan(100, &[]), 1, &Progress::new(), false).unwrap();
    assert_eq!(outcome.verdict, Verdict::Match);
    // The replay is cancelled before the run, during the upload.
    let progress = Progress::new();
    progress.cancel();
    let e = lease.replay(&plan(100, &images(5)), 1, &progress, false).unwrap_err();
    assert!(matches!(e, ClientError::Cancelled), "{e}");
    assert_eq!(
        lease
            .replay(&plan(100, &images(5)), 1, &Progress::new(), false)
            .unwrap()
            .verdict,
        Verdict::Match
    );
    assert_eq!(
        bench.strings.created.load(Ordering::SeqCst),
        1,
        "the device must not be recreated"
    );
}

#[test]
fn real_time_wait_can_be_cancelled() {
    let bench = Bench::new(Options {
        grace: Duration::from_secs(4),
        ..Options::default()
    });
    let mut lease = bench.lease();
    bench.strings.set(WAITS);
    let wait = Action::WaitInterrupt {
        event: 0,
        lines: 1,
        limit_ns: 5_000_000_000,
    };
    let mut c = plan_of([wait], &[]);
    c.plan.accesses_mut().unwrap().interrupts = 1;
    c.plan.rewrites.push(Rewrite {
        kind: RewriteKind::WaitAdded,
        event: Some(0),
        detail: String::new(),
    });
    let progress = Progress::new();
    let stop = progress.clone();
    let waits = Arc::clone(&bench.strings.waits);
    let cancel = std::thread::spawn(move || {
        until("the device to wait", || waits.load(Ordering::SeqCst) > 0);
        stop.cancel();
    });
    let e = lease.replay(&c, 1, &progress, false).unwrap_err();
    assert!(matches!(e, ClientError::Cancelled), "{e}");
    cancel.join().unwrap();
    // The wait ends within the grace period, which is shorter than the wait. So the device is still the same.
    assert_eq!(bench.strings.created.load(Ordering::SeqCst), 1);
    bench.strings.set(SOUND);
    let outcome = lease.replay(&plan(100, &[]), 1, &Progress::new(), false).unwrap();
    assert_eq!(outcome.verdict, Verdict::Match);
}

#[test]
fn panicking_device_is_recreated_and_the_server_survives() {
    let bench = Bench::new(Options::default());
    let mut lease = bench.lease();
    bench.strings.set(PANICS);
    let e = lease.replay(&plan(10, &[]), 1, &Progress::new(), false).unwrap_err();
    assert!(
        matches!(&e, ClientError::Device(why) if why.contains("the test board panics")),
        "{e}"
    );
    bench.strings.set(SOUND);
    assert_eq!(
        lease
            .replay(&plan(10, &[]), 1, &Progress::new(), false)
            .unwrap()
            .verdict,
        Verdict::Match
    );
    assert_eq!(bench.strings.created.load(Ordering::SeqCst), 2);
}

#[test]
fn hanging_device_is_abandoned_after_the_run_limit() {
    let bench = Bench::new(Options {
        longest_run: Duration::from_millis(200),
        ..quick()
    });
    let mut lease = bench.lease();
    bench.strings.set(HANGS);
    let e = lease.replay(&plan(10, &[]), 1, &Progress::new(), false).unwrap_err();
    assert!(
        matches!(&e, ClientError::Device(why) if why.contains("longer than")),
        "{e}"
    );
    // Only now does the read return.
    bench.strings.set(SOUND);
    assert_eq!(
        lease
            .replay(&plan(10, &[]), 1, &Progress::new(), false)
            .unwrap()
            .verdict,
        Verdict::Match
    );
}

#[test]
fn client_disconnect_during_a_run_frees_the_device() {
    let bench = Bench::new(quick());
    for mood in [SLOW, HANGS] {
        bench.strings.set(mood);
        let relay = Relay::to(bench.address);
        let client = Client::connect(&tcp(relay.address), &bench.ends.client, Some("board")).unwrap();
        let mut lease = client.lease("board").unwrap();
        let progress = Progress::new();
        let watch = progress.clone();
        let run = std::thread::spawn(move || lease.replay(&plan(100_000, &[]), 1, &progress, false));
        // The upload is the first fifth of the progress. A hanging device makes no further progress.
        let begun = if mood == SLOW { 0.2001 } else { 0.2 };
        until("the run to begin", || watch.fraction().unwrap_or(0.0) >= begun);
        assert_eq!(bench.server.states()[0].holder.as_deref(), Some("bench"));
        relay.cut();
        let e = run.join().unwrap().unwrap_err();
        match &e {
            ClientError::Lost { stage: Stage::Run, .. } => {}
            // At a fifth of the progress, the last reply to the upload may still be in transit.
            ClientError::Lost {
                stage: Stage::Upload, ..
            } if mood == HANGS => {}
            e => panic!("{e}"),
        }
        assert!(e.to_string().contains("kinescope-agent"), "{e}");
        until("the device to be free", || bench.server.states()[0].holder.is_none());
    }
    bench.strings.set(SOUND);
    assert_eq!(
        bench
            .lease()
            .replay(&plan(1, &[]), 1, &Progress::new(), false)
            .unwrap()
            .verdict,
        Verdict::Match
    );
}

#[test]
fn all_transports_to_a_target_use_the_same_protocol() {
    let strings = Strings::default();
    let here = targets::Factories::new().with_simulator("test", strings.factory("board"));
    let ends = Ends::paired("");
    let server = Server::new(
        &[strings.factory("board").into()],
        Some(Arc::clone(&ends.agent)),
        Options::default(),
    )
    .unwrap();
    let path = ends.folder.path().join("agent.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let serving = server.clone();
    std::thread::spawn(move || serving.serve_unix(&listener).unwrap());
    let address = support::listen(&server);
    ends.client
        .pin("board", ends.agent.key_pair().public(), &address.to_string())
        .unwrap();
    let names = [
        "software:test".to_owned(),
        format!("agent://{address}/board"),
        format!("agent://{}/board", path.display()),
        "agent:board/board".to_owned(),
    ];
    let mut prints = Vec::new();
    for name in &names {
        let mut lease = targets::open(name, &here, &ends.client).unwrap();
        let outcome = lease
            .replay(&plan(100, &images(9)), 1, &Progress::new(), false)
            .unwrap();
        prints.push((outcome.fingerprint, lease.push_stats().bytes > 0, outcome.verdict));
    }
    assert!(prints.iter().all(|p| *p == prints[0]), "{prints:?}");
    let list = || {
        let paired = targets::list_paired(&ends.client).unwrap();
        targets::list_local(&here).into_iter().chain(paired).collect::<Vec<_>>()
    };
    // The agent notices the end of the last lease slightly later.
    until("the device to be free", || {
        let entries = list();
        entries
            .iter()
            .all(|b| !matches!(b.reach, targets::Availability::Busy(_)))
    });
    let entries = list();
    let entries: Vec<_> = entries.iter().map(|b| (b.name.as_str(), &b.reach)).collect();
    assert_eq!(
        entries,
        [
            ("software:test", &targets::Availability::Here),
            ("agent:board/board", &targets::Availability::Free)
        ]
    );
    ends.client
        .pin("board", ends.agent.key_pair().public(), "127.0.0.1:1")
        .unwrap();
    let entries = list();
    assert!(matches!(&entries[1].reach, targets::Availability::Away(why) if why.contains("127.0.0.1:1")));
    assert!(matches!(
        targets::open("software:x", &here, &ends.client),
        Err(ClientError::NoTarget { .. })
    ));
    assert!(matches!(
        targets::open("agent:x/d", &here, &ends.client),
        Err(ClientError::UnknownAgent { .. })
    ));
    let again = here.open("software:test").unwrap();
    let e = here.open("software:test").unwrap_err();
    assert!(matches!(e, ClientError::Busy { .. }), "{e}");
    drop(again);
    assert!(Client::connect(&Endpoint::Unix(path), &ends.client, Some("board")).is_ok());
}
