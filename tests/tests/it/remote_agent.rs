//! CUDA programs whose device is on an agent: the same results as without one, over TCP and with shared memory; refusals,
//! shares, recordings, and ends of every process in the middle.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use crate::remote_cuda::PROGRAMS;
use remote_calls::Encoder;
use remote_relay::record::{Area, Content, ProgramMemory, Record};
use replay_engine::client::{Client, Endpoint};
use replay_engine::live::LiveRequest;
use replay_engine::wire::KeyStore;
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use trace_core::Recording;
use trace_core::container::{KineFile, TransferBytes};
use whole_program_tests::cuda::{CudaStandIn, open, run_to_end};
use whole_program_tests::cuda_agent::Agent;
use whole_program_tests::{ProgramOutput, program};

/// An agent that runs live programs on the stand-in driver, and a client of it.
struct Lab {
    cuda: CudaStandIn,
    agent: Agent,
}

impl Lab {
    fn start() -> Self {
        Self::start_with(&["--live"])
    }

    fn start_with(options: &[&str]) -> Self {
        let cuda = CudaStandIn::default();
        let agent = Agent::start_with(&cuda, options);
        Self { cuda, agent }
    }

    /// Returns the device over TCP, and with shared memory.
    fn targets(&self) -> [String; 2] {
        [
            format!("agent://{}/cuda0", self.agent.address),
            format!("agent://{}/cuda0", self.agent.socket.display()),
        ]
    }

    /// Returns the command that runs a client program on a target.
    fn command(&self, on: &str, options: &[&str], arguments: &[&str]) -> Command {
        let _ = program("libkinescope_remote_cuda.so");
        let mut command = Command::new(program("kinescope"));
        command.args(["run", "--on", on]).args(options).arg("--");
        command.arg(program("cuda-client")).args(arguments);
        command.env("KINESCOPE_KEYS", self.cuda.file("keys"));
        command.env("RUST_BACKTRACE", "0");
        // The client has neither a driver nor the stand-in.
        command
            .env_remove("LD_LIBRARY_PATH")
            .env_remove("KINESCOPE_CUDA_LIBRARY");
        command
    }

    fn run(&self, on: &str, options: &[&str], arguments: &[&str]) -> ProgramOutput {
        run_to_end(&mut self.command(on, options, arguments))
    }

    /// Asserts that the programs do the same on a target as without one.
    fn check_same(&self, on: &str, options: &[&str]) {
        for arguments in PROGRAMS {
            self.cuda
                .assert_same_run(arguments, &mut self.command(on, options, arguments));
        }
    }

    fn workers(&self) -> Vec<u32> {
        self.cuda.list_processes("serve-program")
    }

    /// Waits until no worker runs and nobody holds a share.
    fn wait_until_free(&self) {
        wait_until("end of the workers", || self.workers().is_empty());
        wait_until("free device", || self.holder() == Value::Null);
    }

    /// Returns who holds the device, as `kinescope targets` shows it, or null.
    fn holder(&self) -> Value {
        self.target()["reason"].clone()
    }

    /// Returns the device as `kinescope targets` shows it.
    fn target(&self) -> Value {
        let mut command = Command::new(program("kinescope"));
        command
            .args(["targets", "--json"])
            .env("KINESCOPE_KEYS", self.cuda.file("keys"));
        let ended = run_to_end(&mut command);
        let answer: Value = serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"));
        let all = answer.as_array().unwrap();
        let device = all.iter().find(|target| target["board"] == "agent:lab/cuda0");
        device.unwrap_or_else(|| panic!("{answer}")).clone()
    }

    /// Starts a program that hangs in a kernel.
    fn start_hanging(&self, on: &str) -> Child {
        let before = self.workers().len();
        let mut command = self.command(on, &[], &["faulty", "--hang"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("worker", || self.workers().len() > before);
        // Another program may hang too.
        let ticks = self.cuda.ticks();
        self.cuda.wait_for_ticks(ticks + 2);
        child
    }
}

fn kill(id: u32) {
    let killed = Command::new("sh").args(["-c", &format!("kill -9 {id}")]).status();
    assert!(killed.unwrap().success());
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(30), "there was no: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// The worker of a program that shares memory with it printed to the agent's output.
#[test]
fn what_kernels_print_is_in_the_output_of_the_program() {
    let cuda = CudaStandIn::default();
    let agent = Agent::start_with_settings(&cuda, &[("STAND_IN_PRINT", "printed by a kernel\n")], &["--live"]);
    let lab = Lab { cuda, agent };
    for on in lab.targets() {
        let ended = lab.run(&on, &[], &["streams"]);
        let count = ended.out.lines().filter(|l| *l == "printed by a kernel").count();
        assert!(ended.code == Some(0) && count >= 2, "{on}: {ended:?}");
    }
}

#[test]
fn programs_give_the_same_results_on_an_agent() {
    let lab = Lab::start();
    let [over_tcp, _] = lab.targets();
    lab.check_same(&over_tcp, &[]);
    lab.wait_until_free();
}

#[test]
fn programs_give_the_same_results_on_an_agent_when_each_call_waits() {
    let lab = Lab::start();
    let [over_tcp, _] = lab.targets();
    lab.check_same(&over_tcp, &["--wait-each"]);
}

#[test]
fn programs_give_the_same_results_with_memory_that_they_share_with_an_agent() {
    let lab = Lab::start();
    let [_, shared] = lab.targets();
    lab.check_same(&shared, &[]);
    lab.wait_until_free();
}

#[test]
fn agent_refuses_before_the_program_runs() {
    let lab = Lab::start();
    let closed = Lab::start_with(&[]);
    for (lab, device, message) in [
        (
            &lab,
            "cuda9",
            "`cuda9` runs no live programs; the agent runs them on cuda0",
        ),
        (&lab, "cuda0,cuda0", "a device is named twice"),
        (&closed, "cuda0", "kinescope-agent serve --live"),
    ] {
        let on = format!("agent://{}/{device}", lab.agent.address);
        let mut command = lab.command(&on, &[], &["vector_add"]);
        let ended = run_to_end(&mut command);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains(message) && ended.out.is_empty(), "{ended:?}");
    }
    let ended = lab.run("agent:elsewhere/cuda0", &[], &["vector_add"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("elsewhere"), "{ended:?}");
}

#[test]
fn programs_share_the_device_and_keep_replays_away() {
    let lab = Lab::start();
    let recorded = lab.cuda.record("recorded", &[], &["vector_add"], &[]);
    let [over_tcp, shared] = lab.targets();
    let mut first = lab.start_hanging(&over_tcp);
    let mut second = lab.start_hanging(&shared);
    assert_eq!(lab.workers().len(), 2);
    let holder = lab.holder().to_string();
    assert_eq!(holder.matches("cuda-client").count(), 2, "{holder}");
    // A third program computes meanwhile.
    let ended = lab.run(&over_tcp, &[], &["vector_add"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let replay = |options: &[&str]| {
        let mut command = Command::new(program("kinescope"));
        command
            .arg("replay")
            .arg(&recorded.path)
            .args(["--on", "agent:lab/cuda0"])
            .args(options);
        command.env("KINESCOPE_KEYS", lab.cuda.file("keys"));
        run_to_end(&mut command)
    };
    let refused = replay(&[]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.err.contains("live: "), "{refused:?}");
    for child in [&mut first, &mut second] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    lab.wait_until_free();
    let replayed = replay(&[]);
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
}

#[test]
fn killed_programs_and_clients_leave_no_worker_and_no_share() {
    let lab = Lab::start();
    for on in lab.targets() {
        for victim in ["kinescope", "cuda-client"] {
            let mut runner = lab.start_hanging(&on);
            assert_eq!(lab.workers().len(), 1, "{on}");
            match victim {
                "kinescope" => {
                    let children = lab.children(runner.id());
                    kill(runner.id());
                    // The program would wait for its kernel: its device is gone now.
                    for child in children {
                        wait_until("end of the program", || !Path::new(&format!("/proc/{child}")).exists());
                    }
                }
                _ => lab.children(runner.id()).into_iter().for_each(kill),
            }
            let _ = runner.wait();
            lab.wait_until_free();
        }
    }
}

impl Lab {
    /// Returns the child processes of a process.
    fn children(&self, parent: u32) -> Vec<u32> {
        let path = format!("/proc/{parent}/task/{parent}/children");
        let children = std::fs::read_to_string(path).unwrap_or_default();
        children.split_whitespace().filter_map(|id| id.parse().ok()).collect()
    }
}

#[test]
fn programs_without_worker_or_agent_get_an_error() {
    for target in [0, 1] {
        for victim in ["worker", "agent"] {
            let mut lab = Lab::start();
            let on = lab.targets()[target].clone();
            let runner = lab.start_hanging(&on);
            let reason = match victim {
                "worker" => {
                    lab.workers().into_iter().for_each(kill);
                    "worker process"
                }
                _ => {
                    kill(lab.agent.child.id());
                    lab.agent.child.wait().unwrap();
                    "the connection to the agent was lost"
                }
            };
            let ended = ProgramOutput::from(runner.wait_with_output().unwrap());
            assert_eq!(ended.code, Some(1), "{on} {victim}: {ended:?}");
            for text in ["CUDA_ERROR_DEVICE_UNAVAILABLE (46)", reason] {
                assert!(ended.err.contains(text), "{on} {victim}: {ended:?}");
            }
            wait_until("end of the workers", || lab.workers().is_empty());
        }
    }
}

#[test]
fn stopped_agent_ends_its_programs() {
    let mut lab = Lab::start();
    let [over_tcp, _] = lab.targets();
    let runner = lab.start_hanging(&over_tcp);
    let id = lab.agent.child.id();
    assert!(
        Command::new("sh")
            .args(["-c", &format!("kill {id}")])
            .status()
            .unwrap()
            .success()
    );
    let ended = ProgramOutput::from(runner.wait_with_output().unwrap());
    assert!(ended.err.contains("the agent is being stopped"), "{ended:?}");
    assert!(lab.agent.child.wait().unwrap().success());
    wait_until("end of the workers", || lab.workers().is_empty());
}

#[test]
fn recorded_runs_on_an_agent_replay_with_the_same_outputs() {
    let lab = Lab::start();
    for on in lab.targets() {
        let to = lab.cuda.file("run.kine");
        let _ = std::fs::remove_file(&to);
        let ended = lab.run(&on, &["--record", to.to_str().unwrap()], &["net"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.err.contains("12 launches"), "{ended:?}");
        assert_eq!(open(&to).events.launches.len(), 12);
        lab.cuda.assert_replays(&to);
    }
    lab.wait_until_free();
}

/// The recording arrives while it grows: the end of the agent leaves what arrived before.
#[test]
fn recording_grows_with_the_program_and_outlives_the_agent() {
    for target in [0, 1] {
        let mut lab = Lab::start();
        let on = &lab.targets()[target];
        let to = lab.cuda.file("run.kine");
        let options = ["--record", to.to_str().unwrap()];
        let mut command = lab.command(on, &options, &["steps", "4000000000"]);
        let runner = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let folder = lab.cuda.file(&format!(".kinescope-record-{}", runner.id()));
        let growing = folder.join("run-1.unfinished.kine");
        let commits = || KineFile::open(&growing).map_or(0, |file| file.commit());
        wait_until("first commit", || commits() > 0);
        let first = commits();
        wait_until("later commit", || commits() > first);
        // Only a relay has bytes on the wire.
        let transfer = || TransferBytes::read_next_to(&growing);
        if target == 0 {
            wait_until("bytes on the wire", || transfer().is_some());
            let before = transfer().unwrap();
            assert!(before.sent > 0 && before.received > 0, "{before:?}");
            wait_until("more bytes on the wire", || {
                transfer().is_some_and(|now| now.sent > before.sent)
            });
        } else {
            assert_eq!(transfer(), None);
        }
        let launches = |recording: &Recording| recording.events.launches.len();
        let seen = launches(&KineFile::open(&growing).unwrap().recording().unwrap());
        kill(lab.agent.child.id());
        lab.agent.child.wait().unwrap();
        wait_until("end of the workers", || lab.workers().is_empty());
        let ended = ProgramOutput::from(runner.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let kept = open(&to);
        assert!(launches(&kept) >= seen, "{} and {seen} launches", launches(&kept));
    }
}

#[test]
fn agent_records_every_program_by_policy() {
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::start_with(&["--live", "--live-record", folder.path().to_str().unwrap()]);
    for on in lab.targets() {
        assert_eq!(lab.run(&on, &[], &["vector_add"]).code, Some(0));
    }
    let recordings: Vec<_> = std::fs::read_dir(folder.path()).unwrap().flatten().collect();
    assert_eq!(recordings.len(), 2, "{recordings:?}");
    for recording in recordings {
        let name = recording.file_name().to_string_lossy().into_owned();
        assert!(name.contains("cuda-client"), "{name}");
        assert_eq!(open(&recording.path()).events.launches.len(), 1);
    }
}

/// A worker sees neither the network nor the IPC objects of its agent, and its program computes as before.
#[test]
fn workers_are_in_namespaces_of_their_own() {
    let lab = Lab::start();
    let namespace = |process: u32, kind: &str| std::fs::read_link(format!("/proc/{process}/ns/{kind}")).unwrap();
    for on in lab.targets() {
        let mut runner = lab.start_hanging(&on);
        let workers = lab.workers();
        let agent = lab.agent.child.id();
        let refused = "no network and IPC namespaces";
        if lab.agent.log().contains(refused) {
            println!("skipped: the system refuses namespaces");
            assert_eq!(lab.agent.log().matches(refused).count(), 1, "{}", lab.agent.log());
            assert_eq!(namespace(workers[0], "net"), namespace(agent, "net"));
        } else {
            for kind in ["net", "ipc"] {
                assert_ne!(namespace(workers[0], kind), namespace(agent, kind), "{on} {kind}");
            }
            for kind in ["mnt", "pid"] {
                assert_eq!(namespace(workers[0], kind), namespace(agent, kind), "{on} {kind}");
            }
            let interfaces = std::fs::read_to_string(format!("/proc/{}/net/dev", workers[0])).unwrap();
            let names: Vec<&str> = interfaces.lines().skip(2).filter_map(|l| l.split(':').next()).collect();
            assert!(names.iter().all(|name| name.trim() == "lo"), "{interfaces}");
        }
        runner.kill().unwrap();
        runner.wait().unwrap();
        lab.wait_until_free();
        assert_eq!(lab.run(&on, &[], &["shared"]).code, Some(0), "{on}");
    }
}

/// Each kind of memory within the limit, and one byte beyond: the program checks both.
#[test]
fn device_memory_of_a_program_ends_at_the_limit() {
    let lab = Lab::start_with(&["--live", "--live-device-memory", "8", "--live-memory", "64"]);
    for on in lab.targets() {
        let ended = lab.run(&on, &[], &["quota", "8"]);
        assert_eq!(ended.code, Some(0), "{on}: {ended:?}");
        // Without the limit, the device has more.
        let ended = lab.run(&on, &[], &["quota", "9"]);
        assert_eq!(ended.code, Some(1), "{on}: {ended:?}");
        assert!(ended.err.contains("memory of the device"), "{on}: {ended:?}");
    }
    let target = lab.target();
    assert_eq!(target["live"]["device_bytes"], 8 << 20, "{target}");
    assert_eq!(target["live"]["host_bytes"], 64 << 20, "{target}");
    assert_eq!(target["live"]["seconds"], Value::Null, "{target}");
    lab.wait_until_free();
}

#[test]
fn program_that_holds_its_share_too_long_is_ended() {
    let lab = Lab::start_with(&["--live", "--live-time", "2"]);
    assert_eq!(lab.target()["live"]["seconds"], 2);
    let reason = "it ran longer than 2 s, which is the agent's limit (--live-time)";
    for on in lab.targets() {
        let runner = lab.start_hanging(&on);
        let ended = ProgramOutput::from(runner.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(1), "{on}: {ended:?}");
        // The program's library says it, and the verb.
        let program = format!("the connection to the CUDA device is lost: the agent ended the program: {reason}");
        assert!(ended.err.contains(&program), "{on}: {ended:?}");
        let verb = ended.err.lines().any(|line| {
            line.starts_with("kinescope: ") && !line.contains("connection to the CUDA device") && line.contains(reason)
        });
        assert!(verb, "{on}: {ended:?}");
        lab.wait_until_free();
    }
    assert_eq!(lab.agent.log().matches(reason).count(), 2, "{}", lab.agent.log());
    // A program that is quick enough is not ended.
    let [over_tcp, _] = lab.targets();
    assert_eq!(lab.run(&over_tcp, &[], &["vector_add"]).code, Some(0));
}

fn report(ended: &ProgramOutput) -> Value {
    let json = ended
        .out
        .lines()
        .skip_while(|line| !line.starts_with('{'))
        .collect::<String>();
    serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

#[test]
fn second_start_sends_neither_code_nor_constant_data() {
    let lab = Lab::start();
    let [over_tcp, _] = lab.targets();
    let sent = || {
        let ended = lab.run(&over_tcp, &["--json"], &["constants", "33554432"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        report(&ended)["processes"][0]["wire_bytes_sent"].as_u64().unwrap()
    };
    let (first, second) = (sent(), sent());
    assert!(first > 32 << 20, "{first}");
    assert!(second < 1 << 20, "{second} after {first}");
}

/// What no relay sends: each ends its session with a reason, and nothing else.
#[test]
fn agent_ends_sessions_that_send_invalid_frames() {
    let lab = Lab::start();
    let keys = KeyStore::open(&lab.cuda.file("keys")).unwrap();
    let begin = ProgramMemory {
        window_address: 0x2a00_0000_0000,
        window_bytes: 1 << 30,
        request_bytes: 1 << 20,
        answer_bytes: 1 << 20,
        staging_bytes: 64 << 20,
    };
    let data = |area, offset, content| Record::Data { area, offset, content };
    let plain = Content::Plain(&[1; 64]);
    let unknown = Content::Known {
        digest: [3; 32],
        bytes: 64,
    };
    let large = ProgramMemory {
        staging_bytes: 1 << 30,
        ..begin
    };
    let odd = ProgramMemory {
        window_bytes: 5,
        ..begin
    };
    let begun = Record::Begin(begin);
    let cases: &[(&[Record<'_>], &str)] = &[
        (
            &[Record::Message(&[0; 20])],
            "a record before the description of the memory",
        ),
        (&[begun.clone(), begun.clone()], "a second description of the memory"),
        (&[Record::Begin(large)], "the size of the staging area is 1073741824"),
        (&[Record::Begin(odd)], "whole pages"),
        (&[begun.clone(), data(Area::Window, u64::MAX - 8, plain)], "host memory"),
        (
            &[begun.clone(), data(Area::Staging, (64 << 20) - 8, plain)],
            "staging area",
        ),
        (
            &[begun.clone(), data(Area::Window, 0, unknown)],
            "contents that are not here",
        ),
        (
            &[
                begun.clone(),
                Record::Exposed {
                    offset: 4096,
                    bytes: &[1; 8],
                },
            ],
            "mapped memory that was not allocated",
        ),
        (&[begun.clone(), Record::Message(&[0xff; 24])], "the call 65535"),
        (&[begun.clone(), Record::Message(&[1, 0])], "the message ends"),
        (&[begun.clone(), Record::Output(&[1])], "is not allowed now"),
        (&[begun, Record::Fence(vec![1; 9])], "at most 8"),
    ];
    for (records, expected) in cases {
        let mut frame = Encoder::default();
        for record in *records {
            record.write(&mut frame);
        }
        let client = Client::connect(&Endpoint::Tcp(lab.agent.address.clone()), &keys, None).unwrap();
        let request = LiveRequest {
            devices: vec!["cuda0".to_owned()],
            program: "hostile".to_owned(),
            ..LiveRequest::default()
        };
        let connection = client.start_live(request).unwrap();
        let (to, reason) = std::sync::mpsc::channel();
        connection.start(|_| Ok(()), move |why| to.send(why).unwrap());
        connection.sender().send(frame.as_bytes()).unwrap();
        let why = reason.recv_timeout(Duration::from_secs(30)).unwrap().unwrap();
        assert!(why.contains(expected), "{why}, expected {expected}");
    }
    lab.wait_until_free();
    let [over_tcp, _] = lab.targets();
    assert_eq!(lab.run(&over_tcp, &[], &["vector_add"]).code, Some(0));
}

/// A proxy that delays both directions of each connection, and counts how often the direction changes.
struct DelayProxy {
    address: String,
    turns: Arc<AtomicU64>,
    bytes: Arc<AtomicU64>,
}

impl DelayProxy {
    fn start(to: &str, delay: Duration) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self {
            address: listener.local_addr().unwrap().to_string(),
            turns: Arc::default(),
            bytes: Arc::default(),
        };
        let (to, turns, bytes) = (to.to_owned(), Arc::clone(&proxy.turns), Arc::clone(&proxy.bytes));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let agent = TcpStream::connect(&to).unwrap();
                let is_client = Arc::new(AtomicBool::new(false));
                for (from, to, here) in [
                    (client.try_clone().unwrap(), agent.try_clone().unwrap(), true),
                    (agent, client, false),
                ] {
                    let (turns, bytes, is_client) = (Arc::clone(&turns), Arc::clone(&bytes), Arc::clone(&is_client));
                    thread::spawn(move || pass(from, to, delay, here, &is_client, &turns, &bytes));
                }
            }
        });
        proxy
    }
}

/// Passes bytes on with a delay, as a long cable does.
fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    delay: Duration,
    here: bool,
    is_client: &AtomicBool,
    turns: &AtomicU64,
    bytes: &AtomicU64,
) {
    let (sender, receiver) = std::sync::mpsc::channel::<(Instant, Vec<u8>)>();
    let writer = thread::spawn(move || {
        for (arrived, part) in receiver {
            thread::sleep((arrived + delay).saturating_duration_since(Instant::now()));
            if to.write_all(&part).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        // Heartbeats are short, and not the program's.
        if count > 64 && is_client.swap(here, Ordering::Relaxed) != here {
            turns.fetch_add(1, Ordering::Relaxed);
        }
        bytes.fetch_add(count as u64, Ordering::Relaxed);
        let part = buffer.get(..count).unwrap().to_vec();
        if sender.send((Instant::now(), part)).is_err() {
            break;
        }
    }
    drop(sender);
    let _ = writer.join();
}

/// Round trips do not grow with the number of launches: the loop waits once, whatever the distance.
#[test]
fn loop_of_launches_on_a_distant_agent_waits_once() {
    let lab = Lab::start();
    let proxy = DelayProxy::start(&lab.agent.address, Duration::from_millis(5));
    let turns = |steps: &str| {
        let before = proxy.turns.load(Ordering::Relaxed);
        let on = format!("agent://{}/cuda0", proxy.address);
        let ended = lab.run(&on, &["--json"], &["steps", steps]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let waits = report(&ended)["processes"][0]["waits"].as_u64().unwrap();
        (proxy.turns.load(Ordering::Relaxed) - before, waits)
    };
    let ((few_turns, few_waits), (many_turns, many_waits)) = (turns("10"), turns("100"));
    assert_eq!(few_waits, many_waits);
    // The end of the loop may or may not meet a frame that is under way.
    assert!(
        many_turns <= few_turns + 4,
        "{few_turns} and {many_turns} changes of direction"
    );
    assert!(proxy.bytes.load(Ordering::Relaxed) > 0);
}
