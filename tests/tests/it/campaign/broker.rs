//! Campaigns over several workers and a real nats-server.

mod farm;
mod faults;

use super::{check_results, write_campaign, write_description};
use kinescope_campaign::{CampaignFolder, unix_ms};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use whole_program_tests::broker::{BrokerWorker, NatsServer, find_nats_server};
use whole_program_tests::{kinescope, program, root};

/// Time after which a campaign of a test counts as hung.
const LIMIT: Duration = Duration::from_secs(500);

/// A server with a folder of the test. The server ends first.
struct TestBroker {
    folder: tempfile::TempDir,
    /// Folder of the client's keys.
    keys: PathBuf,
    server: NatsServer,
}

impl TestBroker {
    /// Starts a server. Returns `None` if there is no nats-server, and prints a line.
    fn start() -> Option<Self> {
        let nats = find_nats_server()?;
        let folder = tempfile::tempdir().unwrap();
        Some(Self {
            keys: folder.path().join("keys"),
            server: NatsServer::start(&nats, folder.path(), &[]),
            folder,
        })
    }
}

/// Starts `campaign run` with a broker.
fn start_run(folder: &Path, keys: &Path, server: &NatsServer, options: &[&str]) -> Child {
    let log = std::fs::File::options()
        .create(true)
        .append(true)
        .open(folder.join("client.log"))
        .unwrap();
    Command::new(program("kinescope"))
        .args(["campaign", "run"])
        .arg(folder.join("c.toml"))
        .arg("-o")
        .arg(folder.join("out"))
        .args(["--queue", &server.address()])
        .args(options)
        .env("KINESCOPE_KEYS", keys)
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log)
        .spawn()
        .unwrap()
}

/// Waits until a process ends, and returns its exit code.
fn wait(child: &mut Child, folder: &Path) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if begun.elapsed() > LIMIT {
            child.kill().unwrap();
            let log = std::fs::read_to_string(folder.join("client.log")).unwrap();
            panic!("the campaign does not end: {log}");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn two_workers_share_runs_and_one_is_killed() {
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
    let mut first = BrokerWorker::start(folder, &keys, "first", &options);
    let second = BrokerWorker::start(
        folder,
        &keys,
        "second",
        &[&options[..], &["--label", "rack=2"]].concat(),
    );
    let targets = ["software:mali-g71", "label:gpu=mali-g71,rack=2"].map(str::to_owned);
    write_campaign(folder, &targets, 60);
    let mut client = start_run(folder, &keys, &server, &[]);
    // At most 16 reports are on their way, so the broker has one of this worker.
    first.wait_for_log_lines("run ends", 18);
    second.wait_for_log("run ends");
    first.kill();
    assert_eq!(wait(&mut client, folder), Some(0));
    let results = check_results(folder, 120);
    let workers: BTreeSet<&str> = results.iter().map(|r| r.worker.as_str()).collect();
    assert_eq!(workers, BTreeSet::from(["first", "second"]));
    assert!(results.iter().all(|r| r.on_target == "software:mali-g71"));
    // The folder is as after a run on this machine.
    let out = folder.join("out").display().to_string();
    let status = kinescope(&keys, ["campaign", "status", &out]);
    assert!(status.out.contains("complete; 120 of 120 runs done"), "{status:?}");
    let page = folder.join("r.html").display().to_string();
    assert_eq!(
        kinescope(&keys, ["campaign", "report", &out, "-o", &page]).code,
        Some(0)
    );
    assert!(folder.join("out/results.parquet").is_file());
    // The same command has nothing to do, and needs no broker for that.
    server.kill();
    let mut again = start_run(folder, &keys, &server, &[]);
    assert_eq!(wait(&mut again, folder), Some(0));
}

/// The worker refused the name of the target that descriptions of programs take.
#[test]
fn programs_run_on_the_machine_of_a_worker() {
    let Some(TestBroker { folder, keys, server }) = TestBroker::start() else {
        return;
    };
    let folder = folder.path();
    let address = server.address();
    let options = ["--queue", &address, "--on", "cpu", "--on", "interpreter"];
    let _worker = BrokerWorker::start(folder, &keys, "worker", &options);
    std::fs::create_dir(folder.join("texts")).unwrap();
    std::fs::write(folder.join("texts/a"), "to be or not to be").unwrap();
    let words = root().join("tests/wasm/programs/wordcount.wasm");
    let table = format!("[[wasm]]\npath = {words:?}\ninputs = \"texts\"\n");
    write_description(folder, &["cpu".to_owned(), "interpreter".to_owned()], 2, &table);
    let mut client = start_run(folder, &keys, &server, &[]);
    assert_eq!(wait(&mut client, folder), Some(0));
    assert_eq!(check_results(folder, 4).len(), 4);
}

/// The worker asked for labels that a target without a device never gets: again and again, and for ever unavailable.
#[test]
fn an_idle_worker_of_this_machine_waits_for_runs() {
    let Some(nats) = find_nats_server() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = NatsServer::start(&nats, folder.path(), &["-m", "-1"]);
    let keys = folder.path().join("keys");
    let address = server.address();
    let options = ["--queue", &address, "--on", "cpu", "--metrics", "127.0.0.1:0"];
    let worker = BrokerWorker::start(folder.path(), &keys, "worker", &options);
    // It has looked for a run when it says that its target can be used.
    let begun = Instant::now();
    while !read_metrics(&worker).contains("target_available{target=\"cpu\"} 1") {
        assert!(begun.elapsed() < LIMIT, "{}", read_metrics(&worker));
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = server.received_messages();
    std::thread::sleep(Duration::from_secs(1));
    // A report in five seconds, and requests that wait; before, two thousand.
    let sent = server.received_messages() - before;
    assert!(sent < 40, "{sent} messages in a second");
}

/// The worker looked for the file of an input beside its copy of the pipeline file.
#[test]
fn pipelines_whose_inputs_are_files_run_at_a_worker() {
    let Some(TestBroker { folder, keys, server }) = TestBroker::start() else {
        return;
    };
    let folder = folder.path();
    let options = ["--queue", &server.address(), "--on", "software:mali-g71"];
    let _worker = BrokerWorker::start(folder, &keys, "worker", &options);
    let digits = root().join("sample-pipelines/digits/digits.kpipe");
    let table = format!("[[pipelines]]\npath = {digits:?}\n");
    write_description(folder, &["software:mali-g71".to_owned()], 2, &table);
    let mut client = start_run(folder, &keys, &server, &[]);
    let code = wait(&mut client, folder);
    let log = std::fs::read_to_string(folder.join("client.log")).unwrap();
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(check_results(folder, 2).len(), 2);
}

#[test]
fn a_worker_that_was_killed_takes_its_runs_back_at_once() {
    /// Seconds. Nobody else has the target, so without the worker's list its runs would wait that long.
    const LEASE: u64 = 20;
    let Some(TestBroker { folder, keys, server }) = TestBroker::start() else {
        return;
    };
    let folder = folder.path();
    let address = server.address();
    let lease = LEASE.to_string();
    let options = ["--queue", &address, "--on", "software:mali-g71", "--lease", &lease];
    let mut worker = BrokerWorker::start(folder, &keys, "worker", &options);
    write_campaign(folder, &["software:mali-g71".to_owned()], 60);
    let mut client = start_run(folder, &keys, &server, &[]);
    // Runs are received ahead after the first one.
    worker.wait_for_log_lines("run ends", 4);
    worker.restart();
    let killed = unix_ms();
    assert_eq!(wait(&mut client, folder), Some(0));
    let log = worker.log();
    let listed = log.split("runs of an earlier process return").nth(1).unwrap();
    let listed = listed.split("\"runs\":").nth(1).unwrap();
    let listed: usize = listed.split(['}', ',']).next().unwrap().parse().unwrap();
    assert!(listed > 0, "{log}");
    let results = check_results(folder, 60);
    // A run that was on its way to the worker at that moment is not in the list.
    let late = results.iter().filter(|r| r.started_ms >= killed + LEASE * 1000 / 2);
    assert!(late.count() < listed, "{results:?}");
    // The run that was executed is repeated, and says so; those that were only received are not.
    for result in results.iter().filter(|r| r.is_repeated()) {
        assert_eq!(result.earlier_attempts, ["worker ended without a result"], "{result:?}");
    }
}

/// Returns the metrics of a worker.
fn read_metrics(worker: &BrokerWorker) -> String {
    use std::io::{Read as _, Write as _};
    worker.wait_for_log("metrics at http://");
    let log = worker.log();
    let address = log
        .split("metrics at http://")
        .nth(1)
        .unwrap()
        .split('/')
        .next()
        .unwrap();
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn hostile_messages_are_refused_and_outcomes_are_kept() {
    let Some(TestBroker { folder, keys, server }) = TestBroker::start() else {
        return;
    };
    let folder = folder.path();
    let address = server.address();
    let options = [
        "--queue",
        &address,
        "--on",
        "software:mali-g71",
        "--metrics",
        "127.0.0.1:0",
    ];
    let worker = BrokerWorker::start(folder, &keys, "worker", &options);
    worker.wait_for_log("ready");
    let target = "software:mali-g71".to_owned();
    write_campaign(folder, std::slice::from_ref(&target), 3);
    let text = std::fs::read_to_string(folder.join("c.toml")).unwrap();
    std::fs::write(folder.join("c.toml"), text.replace("[[", "keep-outcomes = \"all\"\n[[")).unwrap();
    let mut client = start_run(folder, &keys, &server, &[]);
    assert_eq!(wait(&mut client, folder), Some(0));
    for result in check_results(folder, 3) {
        let path = folder.join("out").join(result.outcome.unwrap());
        let verified = kinescope(&keys, ["verify", path.to_str().unwrap()]);
        assert_eq!(verified.code, Some(0), "{verified:?}");
    }
    // Messages of anybody that may write to the broker.
    let word: String = blake3::hash(target.as_bytes()).to_hex().chars().take(32).collect();
    let campaign = CampaignFolder::open(&folder.join("out"))
        .unwrap()
        .stored_status()
        .unwrap()
        .id;
    let subject = format!("kinescope.runs.{word}.{campaign}");
    server.publish(&subject, b"{");
    server.publish(&subject, &vec![b' '; 600 << 10]);
    server.publish(&format!("kinescope.results.{campaign}"), b"[]");
    let begun = Instant::now();
    let metrics = loop {
        let metrics = read_metrics(&worker);
        if metrics.contains("kinescope_worker_refused_messages_total 2") {
            break metrics;
        }
        assert!(begun.elapsed() < LIMIT, "{metrics}");
        std::thread::sleep(Duration::from_millis(50));
    };
    let count = "kinescope_worker_runs_total{target=\"software:mali-g71\",gpu=\"Mali-G71\",verdict=\"match\"} 3";
    assert!(
        metrics.contains(count) && metrics.contains("kinescope_worker_connected 1"),
        "{metrics}"
    );
    // The client reports them, and goes on.
    let text = std::fs::read_to_string(folder.join("c.toml")).unwrap();
    std::fs::write(folder.join("c.toml"), text.replace("repeats = 3", "repeats = 4")).unwrap();
    let mut client = start_run(folder, &keys, &server, &[]);
    assert_eq!(wait(&mut client, folder), Some(0));
    check_results(folder, 4);
    let log = std::fs::read_to_string(folder.join("client.log")).unwrap();
    assert!(log.contains("worker refused message"), "{log}");
    assert!(log.contains("a worker's message is refused"), "{log}");
}

/// Creates certificates of a broker and of a client with openssl. Returns `false` if it is not installed.
fn create_certificates(folder: &Path) -> bool {
    let script = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=test-ca \
        -keyout ca.key -out ca.pem -addext basicConstraints=critical,CA:TRUE &&
        for n in server client; do
            openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=$n -keyout $n.key -out $n.csr &&
            printf 'subjectAltName=IP:127.0.0.1,DNS:localhost\\nextendedKeyUsage=serverAuth,clientAuth\\n' > ext &&
            openssl x509 -req -in $n.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out $n.pem || exit 1
        done";
    let made = Command::new("sh")
        .args(["-c", script])
        .current_dir(folder)
        .output()
        .unwrap();
    if !made.status.success() {
        println!("skipped: no certificates from openssl");
    }
    made.status.success()
}

#[test]
fn connections_are_encrypted_and_users_are_checked() {
    let Some(nats) = find_nats_server() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let keys = folder.join("keys");
    if !create_certificates(folder) {
        return;
    }
    let at = |name: &str| folder.join(name).display().to_string();
    let tls = [
        "--tlsverify",
        "--tlscert",
        &at("server.pem"),
        "--tlskey",
        &at("server.key"),
        "--tlscacert",
        &at("ca.pem"),
    ];
    let server = NatsServer::start(
        &nats,
        folder,
        &[&tls[..], &["--user", "farm", "--pass", "secret"]].concat(),
    );
    std::fs::write(at("login"), "farm\nsecret\n").unwrap();
    std::fs::write(at("wrong"), "farm\nguess\n").unwrap();
    let certificates = [
        "--tls-ca",
        &at("ca.pem"),
        "--tls-cert",
        &at("client.pem"),
        "--tls-key",
        &at("client.key"),
    ];
    let login = ["--login", &at("login")];
    let address = server.address();
    let on = ["--queue", &address, "--on", "software:mali-g71"];
    let worker = BrokerWorker::start(folder, &keys, "worker", &[&on[..], &certificates, &login].concat());
    worker.wait_for_log("ready");
    write_campaign(folder, &["software:mali-g71".to_owned()], 2);
    let mut client = start_run(folder, &keys, &server, &[&certificates[..], &login].concat());
    assert_eq!(wait(&mut client, folder), Some(0));
    check_results(folder, 2);
    // A complete campaign needs no broker.
    let text = std::fs::read_to_string(at("c.toml")).unwrap();
    std::fs::write(at("c.toml"), text.replace("repeats = 2", "repeats = 3")).unwrap();
    for options in [
        vec![],
        [&certificates[..], &["--login", &at("wrong")]].concat(),
        login.to_vec(),
    ] {
        let mut client = start_run(folder, &keys, &server, &options);
        assert_eq!(wait(&mut client, folder), Some(2), "{options:?}");
    }
}

#[test]
fn a_campaign_without_workers_ends_and_goes_on_later() {
    let Some(TestBroker { folder, keys, server }) = TestBroker::start() else {
        return;
    };
    let folder = folder.path();
    write_campaign(folder, &["software:mali-g71".to_owned()], 3);
    let text = std::fs::read_to_string(folder.join("c.toml")).unwrap();
    std::fs::write(
        folder.join("c.toml"),
        text.replace("target-wait = 120", "target-wait = 1"),
    )
    .unwrap();
    let mut client = start_run(folder, &keys, &server, &[]);
    assert_eq!(wait(&mut client, folder), Some(1));
    let log = std::fs::read_to_string(folder.join("client.log")).unwrap();
    assert!(
        log.contains("software:mali-g71 is not used: no worker can use it now"),
        "{log}"
    );
    assert!(log.contains("3 runs wait; the same command goes on"), "{log}");
    let address = server.address();
    let options = ["--queue", &address, "--on", "software:mali-g71"];
    let worker = BrokerWorker::start(folder, &keys, "worker", &options);
    // The runs wait at the broker, also without the client.
    worker.wait_for_log("run ends");
    let mut client = start_run(folder, &keys, &server, &[]);
    assert_eq!(wait(&mut client, folder), Some(0));
    let results = check_results(folder, 3);
    assert!(results.iter().all(|r| r.attempt == 1), "{results:?}");
}

#[test]
fn a_missing_worker_program_or_broker_is_said_so() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_campaign(folder, &["label:gpu=mali-g71".to_owned()], 1);
    let at = |name: &str| folder.join(name).display().to_string();
    let run = |options: &[&str]| {
        let first = ["campaign", "run", &at("c.toml"), "-o", &at("out")];
        kinescope(folder, [&first[..], options].concat())
    };
    run(&[]).assert_refused("`label:gpu=mali-g71` selects targets of workers; add --queue");
    run(&["--queue", "nats://user:secret@127.0.0.1"]).assert_refused("does not belong on the command line");
    let refused = run(&["--queue", "nats://127.0.0.1:1"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused
            .err
            .contains("nats://127.0.0.1:1: no connection to the broker: "),
        "{refused:?}"
    );
    // A copy of the program in a folder without the other one.
    std::fs::copy(program("kinescope"), folder.join("kinescope")).unwrap();
    let alone = Command::new(folder.join("kinescope"))
        .args([
            "campaign",
            "run",
            &at("c.toml"),
            "-o",
            &at("out"),
            "--queue",
            "nats://127.0.0.1:1",
        ])
        .env("PATH", folder)
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&alone.stderr);
    assert_eq!(alone.status.code(), Some(2), "{message}");
    assert!(message.contains("kinescope-worker is not installed"), "{message}");
}

#[test]
fn a_broker_without_storage_is_said_so() {
    let Some(nats) = find_nats_server() else { return };
    let folder = tempfile::tempdir().unwrap();
    write_campaign(folder.path(), &["label:gpu=mali-g71".to_owned()], 1);
    let server = NatsServer::start(&nats, folder.path(), &["-js=false"]);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let address = server.address();
    let client = kinescope(
        folder.path(),
        ["campaign", "run", &at("c.toml"), "-o", &at("out"), "--queue", &address],
    );
    let worker = Command::new(program("kinescope-worker"))
        .args(["--queue", &address, "--on", "cpu", "--cache", &at("cache")])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    for (code, message) in [
        (client.code, client.err),
        (
            worker.status.code(),
            String::from_utf8_lossy(&worker.stderr).into_owned(),
        ),
    ] {
        assert_eq!(code, Some(2), "{message}");
        assert!(message.contains("the server has no JetStream"), "{message}");
    }
}
