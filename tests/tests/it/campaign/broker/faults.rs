//! Faults of single parts: a broker that is not there or lost its disk, full disks, messages that workers refuse.

use super::{LIMIT, TestBroker, start_run, wait};
use crate::campaign::{check_results, random, write_campaign};
use kinescope_campaign::{CampaignFolder, RunQueue as _, RunVerdict};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use whole_program_tests::broker::{BrokerWorker, NatsServer};
use whole_program_tests::{kinescope, program, root};

/// Regression: a client that started at the moment at which the server was killed ended with exit code 2.
#[test]
fn a_broker_that_is_not_there_at_the_start_is_awaited() {
    let Some(TestBroker {
        folder,
        keys,
        mut server,
    }) = TestBroker::start()
    else {
        return;
    };
    let folder = folder.path();
    server.kill();
    write_campaign(folder, &["software:mali-g71".to_owned()], 3);
    let mut client = start_run(folder, &keys, &server, &[]);
    let address = server.address();
    let worker = BrokerWorker::start(
        folder,
        &keys,
        "worker",
        &["--queue", &address, "--on", "software:mali-g71"],
    );
    worker.wait_for_log("the broker is awaited for 5 s");
    server.restart();
    assert_eq!(wait(&mut client, folder), Some(0), "{}", worker.log());
    check_results(folder, 3);
}

/// The worker refused the runs of each later campaign with this recording.
#[test]
fn a_recording_that_was_damaged_at_a_worker_is_read_again() {
    let Some(TestBroker { folder, keys, server }) = TestBroker::start() else {
        return;
    };
    let folder = folder.path();
    let address = server.address();
    let options = ["--queue", &address, "--on", "software:mali-g71"];
    let mut worker = BrokerWorker::start(folder, &keys, "worker", &options);
    let run = |name: &str, worker: &BrokerWorker| {
        let campaign = folder.join(name);
        std::fs::create_dir(&campaign).unwrap();
        write_campaign(&campaign, &["software:mali-g71".to_owned()], 3);
        let mut client = start_run(&campaign, &keys, &server, &[]);
        assert_eq!(wait(&mut client, &campaign), Some(0), "{name}: {}", worker.log());
        check_results(&campaign, 3);
        find_file(&worker.cache(), "vecadd.kine").unwrap()
    };
    // Bytes change while the worker has the recording open, in the memory that it has of it.
    let cached = run("first", &worker);
    let middle = std::fs::metadata(&cached).unwrap().len() / 2;
    let file = std::fs::File::options().write(true).open(&cached).unwrap();
    file.write_all_at(&[0x5a; 64], middle).unwrap();
    let cached = run("second", &worker);
    // The file loses its end while no worker runs.
    worker.kill();
    std::fs::write(&cached, "damaged").unwrap();
    worker.restart();
    run("third", &worker);
    assert!(worker.log().contains("a cached file is damaged"), "{}", worker.log());
}

/// Returns the path of the file with a name in a folder and the folders in it.
fn find_file(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.find_map(|path| match path.is_dir() {
        true => find_file(&path, name),
        false => (path.file_name().unwrap() == name).then_some(path),
    })
}

#[test]
fn a_broker_that_is_killed_while_clients_start_is_awaited() {
    let Some(TestBroker {
        folder,
        keys,
        mut server,
    }) = TestBroker::start()
    else {
        return;
    };
    let folder = folder.path();
    let address = server.address();
    let options = ["--queue", &address, "--on", "software:mali-g71", "--lease", "1"];
    let _worker = BrokerWorker::start(folder, &keys, "worker", &options);
    let mut seed = u64::from(std::process::id());
    for n in 0..4 {
        let campaign = folder.join(n.to_string());
        std::fs::create_dir(&campaign).unwrap();
        write_campaign(&campaign, &["software:mali-g71".to_owned()], 3);
        let mut client = start_run(&campaign, &keys, &server, &[]);
        for _ in 0..2 {
            std::thread::sleep(Duration::from_millis(random(&mut seed, 250)));
            server.restart();
        }
        assert_eq!(wait(&mut client, &campaign), Some(0), "campaign {n}");
        check_results(&campaign, 3);
    }
}

#[test]
fn a_full_disk_at_a_worker_loses_no_run() {
    // 32 KiB: less than the recording, and enough for the log.
    const BLOCKS: u32 = 64;
    let Some(TestBroker { folder, keys, server }) = TestBroker::start() else {
        return;
    };
    let folder = folder.path();
    let address = server.address();
    let options = ["--queue", &address, "--on", "software:mali-g71"];
    let full = BrokerWorker::start_with_file_limit(folder, &keys, "full", &options, Some(BLOCKS));
    full.wait_for_log("ready");
    // Without another worker, the runs are reported with the reason.
    let (alone, shared) = (folder.join("alone"), folder.join("shared"));
    for campaign in [&alone, &shared] {
        std::fs::create_dir(campaign).unwrap();
        write_campaign(campaign, &["software:mali-g71".to_owned()], 3);
    }
    let mut client = start_run(&alone, &keys, &server, &[]);
    assert_eq!(wait(&mut client, &alone), Some(1));
    let queue = CampaignFolder::open(&alone.join("out")).unwrap().open_queue().unwrap();
    let mut failures = Vec::new();
    queue
        .results(&mut |_, result| {
            assert_eq!((result.verdict, result.attempt), (RunVerdict::Refused, 1));
            failures.extend(result.failure);
            true
        })
        .unwrap();
    assert_eq!(failures.len(), 3, "{failures:?}");
    assert!(failures.iter().all(|f| f.contains("File too large")), "{failures:?}");
    // Another worker takes them.
    let before = full.log().matches("a file cannot be stored here").count();
    assert!(before >= 9, "{}", full.log());
    let mut client = start_run(&shared, &keys, &server, &[]);
    while full.log().matches("a file cannot be stored here").count() == before {
        std::thread::sleep(Duration::from_millis(5));
    }
    let roomy = BrokerWorker::start(folder, &keys, "roomy", &options);
    assert_eq!(wait(&mut client, &shared), Some(0));
    let results = check_results(&shared, 3);
    assert!(
        results.iter().all(|r| r.worker == "roomy" && r.attempt == 1),
        "{}",
        roomy.log()
    );
}

/// Starts `kinescope-worker submit`, for which a write beyond the limit of a file's size is an error, not a signal.
fn start_submit(folder: &Path, server: &NatsServer) -> Child {
    let log = std::fs::File::create(folder.join("client.log")).unwrap();
    Command::new("sh")
        .args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"])
        .arg(program("kinescope-worker"))
        .arg("submit")
        .arg(folder.join("c.toml"))
        .arg("-o")
        .arg(folder.join("out"))
        .args(["--queue", &server.address()])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Waits until a text is in the client's log.
fn wait_for_client_log(folder: &Path, text: &str) {
    let begun = Instant::now();
    loop {
        let log = std::fs::read_to_string(folder.join("client.log")).unwrap_or_default();
        if log.contains(text) {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "no `{text}`: {log}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Regression: the client waited for ever for results that it could not store.
#[test]
fn a_client_whose_disk_is_full_ends_with_the_reason() {
    let Some(TestBroker { folder, keys, server }) = TestBroker::start() else {
        return;
    };
    let folder = folder.path();
    write_campaign(folder, &["software:mali-g71".to_owned()], 40);
    let mut client = start_submit(folder, &server);
    wait_for_client_log(folder, "queued runs=40");
    let limited = Command::new("prlimit")
        .args([format!("--pid={}", client.id()), "--fsize=1024".to_owned()])
        .status();
    if !limited.is_ok_and(|s| s.success()) {
        println!("skipped: no prlimit");
        client.kill().unwrap();
        client.wait().unwrap();
        return;
    }
    let address = server.address();
    let options = ["--queue", &address, "--on", "software:mali-g71"];
    let worker = BrokerWorker::start(folder, &keys, "worker", &options);
    assert_eq!(wait(&mut client, folder), Some(2), "{}", worker.log());
    let log = std::fs::read_to_string(folder.join("client.log")).unwrap();
    assert!(log.contains("File too large"), "{log}");
    // With room, the same command goes on.
    let mut client = start_run(folder, &keys, &server, &[]);
    assert_eq!(wait(&mut client, folder), Some(0));
    check_results(folder, 40);
}

/// Regression: the client queued the runs again without their recordings, and workers refused them for good.
#[test]
#[ignore = "make test-full: ten seconds, in which the client waits"]
fn a_server_that_lost_its_disk_gets_files_and_runs_again() {
    let Some(TestBroker {
        folder,
        keys,
        mut server,
    }) = TestBroker::start()
    else {
        return;
    };
    let folder = folder.path();
    write_campaign(folder, &["software:mali-g71".to_owned()], 20);
    let mut client = start_run(folder, &keys, &server, &[]);
    wait_for_client_log(folder, "queued runs=20");
    server.kill();
    std::fs::remove_dir_all(server.folder().join("jetstream")).unwrap();
    server.restart();
    let address = server.address();
    let options = ["--queue", &address, "--on", "software:mali-g71"];
    let worker = BrokerWorker::start(folder, &keys, "worker", &options);
    assert_eq!(wait(&mut client, folder), Some(0), "{}", worker.log());
    check_results(folder, 20);
}

/// Regression: a part of the runs was queued before the first one that is too long for a message.
#[test]
fn runs_that_are_too_long_for_a_message_are_refused_before_any_is_queued() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let texts = folder.join("texts");
    std::fs::create_dir(&texts).unwrap();
    // A run names its files, with about 590 bytes each: more than a message takes, and less than an entry of the queue.
    for n in 0..1400 {
        std::fs::write(texts.join(format!("{n:0240}")), "one two\n").unwrap();
    }
    let wordcount = root().join("tests/wasm/programs/wordcount.wasm");
    let text = format!(
        "version = 1\nname = \"long\"\n[[wasm]]\npath = {:?}\ntargets = [\"cpu\"]\ninputs = \"texts\"\nbatch = 1400\n",
        wordcount.display().to_string()
    );
    std::fs::write(folder.join("c.toml"), text).unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    // No broker is asked.
    let queue = ["--queue", "nats://127.0.0.1:1"];
    let ended = kinescope(
        folder,
        [&["campaign", "run", &at("c.toml"), "-o", &at("out")][..], &queue].concat(),
    );
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(
        ended
            .err
            .contains("wordcount.wasm cannot be sent to workers: the message has "),
        "{ended:?}"
    );
    assert!(!ended.err.contains("the broker is awaited"), "{ended:?}");
}

/// Regression: the client queued runs again for ever that workers refused.
#[test]
#[ignore = "make test-full: fifteen seconds, in which the client waits"]
fn a_client_gives_up_runs_that_workers_refuse_twice() {
    let Some(TestBroker { folder, server, .. }) = TestBroker::start() else {
        return;
    };
    let folder = folder.path();
    write_campaign(folder, &["software:mali-g71".to_owned()], 2);
    let mut client = start_submit(folder, &server);
    let campaign = || {
        CampaignFolder::open(&folder.join("out"))
            .unwrap()
            .stored_status()
            .unwrap()
            .id
    };
    for attempt in 1..=2 {
        wait_for_client_log(folder, ["queued runs=2", "they are queued again"][attempt - 1]);
        std::thread::sleep(Duration::from_millis(200));
        // A worker of another version takes the runs, and refuses them.
        server.publish("$JS.API.STREAM.PURGE.kinescope-runs", b"");
        let refused =
            format!(r#"{{"message":"refused","version":1,"worker":"old","sequence":{attempt},"reason":"version 9"}}"#);
        server.publish(&format!("kinescope.results.{}", campaign()), refused.as_bytes());
    }
    assert_eq!(wait(&mut client, folder), Some(2));
    let log = std::fs::read_to_string(folder.join("client.log")).unwrap();
    assert!(
        log.contains("workers refuse runs, also those that were queued again: version 9"),
        "{log}"
    );
}
