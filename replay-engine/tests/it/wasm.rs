//! Runs of WebAssembly programs over real sockets: results, refusals, leases, cancellation, lost ends, hostile messages.
//! A runner of the tests' own stands for the programs.

use crate::support;

use replay_engine::client::{Client, ClientError, Stage, WasmInputRef};
use replay_engine::serve::Options;
use replay_engine::wasm::{
    PreparedWasm, WasmBudgets, WasmCall, WasmCopyLimits, WasmEnd, WasmInput, WasmObserver, WasmReport, WasmResult,
    WasmRun, WasmRunError, WasmRunner,
};
use replay_engine::wire::message::SessionReply;
use replay_engine::wire::wasm_message::{WasmInputHeader, WasmRefusal, WasmReply, WasmRequest, WasmResultHeader};
use replay_engine::wire::{Channel, Limits, Preamble, PreambleWord, Stream, Topic, WRITE_LIMIT};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use support::{Bench, HANG_LIMIT, Relay, quick, raw_agent, raw_client, soon, tcp, until};

/// A program of the test runner.
const PROGRAM: &[u8] = b"\0asm test program";

/// Reverses the requests of each input. An input `wait` lasts until the run is cancelled; `panic` panics; `large` has
/// an output of [`LARGE_BYTES`].
#[derive(Debug, Default)]
struct TestRunner {
    /// Number of runs that are at work.
    running: Arc<AtomicUsize>,
    /// Number of results that sessions have taken.
    taken: Arc<AtomicUsize>,
}

/// Size of the output of an input `large`.
const LARGE_BYTES: usize = 8 << 20;

struct TestProgram {
    running: Arc<AtomicUsize>,
    taken: Arc<AtomicUsize>,
}

impl WasmRunner for TestRunner {
    fn targets(&self) -> Vec<String> {
        vec!["cpu".to_owned()]
    }

    fn runs_on_device(&self, device: &str) -> bool {
        device == "board"
    }

    fn prepare(&self, run: &WasmRun, program: Vec<u8>) -> Result<Box<dyn PreparedWasm>, String> {
        assert!(run.function != "panic", "the validation panics");
        match program.starts_with(b"\0asm") {
            true => Ok(Box::new(TestProgram {
                running: Arc::clone(&self.running),
                taken: Arc::clone(&self.taken),
            })),
            false => Err("it begins with other bytes".to_owned()),
        }
    }
}

/// Counts a run while it is at work.
struct RunGuard<'a>(&'a AtomicUsize);

impl Drop for RunGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PreparedWasm for TestProgram {
    fn run(&self, inputs: Vec<WasmInput>, observer: &dyn WasmObserver) -> Result<WasmReport, WasmRunError> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _guard = RunGuard(&self.running);
        for (index, input) in (0..).zip(inputs) {
            assert!(input.requests[0] != b"panic", "the run panics");
            if input.requests[0] == b"wait" {
                until("a cancellation", || observer.is_cancelled());
                return Err(WasmRunError::Cancelled);
            }
            let mut result = result_of(index, &input.name, &input.requests);
            if input.requests[0] == b"large" {
                result.output = vec![0; LARGE_BYTES];
            }
            observer.take_result(result).map_err(WasmRunError::Failed)?;
            self.taken.fetch_add(1, Ordering::SeqCst);
        }
        Ok(WasmReport {
            copies: 3,
            compile_ns: 5,
            run_ns: 7,
            lowered_call_depth: Some(9),
        })
    }
}

fn result_of(index: u64, name: &str, requests: &[Vec<u8>]) -> WasmResult {
    WasmResult {
        index,
        end: WasmEnd::Exit(u32::try_from(requests.len()).unwrap()),
        output: requests.concat().into_iter().rev().collect(),
        error: name.as_bytes().to_vec(),
        calls: Vec::new(),
        lost_calls: index,
    }
}

/// Keeps results, and cancels on request.
#[derive(Default)]
struct Collector {
    results: Mutex<Vec<WasmResult>>,
    cancelled: AtomicBool,
    /// Cancel after this number of results.
    cancel_after: Option<usize>,
    /// Take no result.
    full: bool,
}

impl WasmObserver for Collector {
    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    fn take_result(&self, result: WasmResult) -> Result<(), String> {
        if self.full {
            return Err("no space".to_owned());
        }
        let mut results = self.results.lock().unwrap();
        results.push(result);
        if self.cancel_after.is_some_and(|n| results.len() >= n) {
            self.cancelled.store(true, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// A bench whose server runs programs.
struct WasmBench {
    bench: Bench,
    running: Arc<AtomicUsize>,
    taken: Arc<AtomicUsize>,
}

impl WasmBench {
    fn new(options: Options) -> Self {
        let bench = Bench::new(options);
        let runner = TestRunner::default();
        let (running, taken) = (Arc::clone(&runner.running), Arc::clone(&runner.taken));
        bench.server.serve_wasm(Arc::new(runner));
        Self { bench, running, taken }
    }

    fn run(&self, run: WasmRun, inputs: &[&[u8]]) -> Result<WasmReport, ClientError> {
        run_on(self.bench.client(), run, inputs, &Collector::default())
    }

    /// Waits until no run is at work and no client has a target.
    fn wait_until_free(&self) {
        until("the end of the run", || {
            self.running.load(Ordering::SeqCst) == 0 && !self.bench.server.is_busy()
        });
    }

    /// Checks that a client still gets its run.
    fn check_works(&self) {
        self.wait_until_free();
        assert_eq!(self.run(on("cpu"), &[b"again"]).unwrap().copies, 3);
    }
}

fn on(target: &str) -> WasmRun {
    WasmRun {
        target: target.to_owned(),
        function: "_start".to_owned(),
        limits: WasmCopyLimits {
            memory_pages: 16,
            output_bytes: 8 << 20,
            ..WasmCopyLimits::default()
        },
        ..WasmRun::default()
    }
}

fn input<'a>(name: &'a str, bytes: &'a [u8]) -> WasmInputRef<'a> {
    WasmInputRef {
        name,
        requests: vec![bytes],
    }
}

fn run_on(client: Client, run: WasmRun, inputs: &[&[u8]], collector: &Collector) -> Result<WasmReport, ClientError> {
    client.run_wasm(run, PROGRAM, inputs.iter().map(|bytes| input("name", bytes)), collector)
}

#[test]
fn each_input_has_its_result() {
    let bench = WasmBench::new(quick());
    // Inputs of all sizes, also of many messages and of none; many requests.
    let sizes = (0..3000).map(|n| n % 97).chain([0, (1 << 20) - 1, 3 << 20, 1 << 20]);
    let all: Vec<(String, Vec<Vec<u8>>)> = sizes
        .enumerate()
        .map(|(number, bytes)| {
            let content: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
            let mut requests = vec![content];
            requests.extend((0..number % 7).map(|n| vec![n as u8; n]));
            (format!("input {number}"), requests)
        })
        .collect();
    let inputs = all.iter().map(|(name, requests)| WasmInputRef {
        name,
        requests: requests.iter().map(Vec::as_slice).collect(),
    });
    for target in ["cpu", "board"] {
        let collector = Collector::default();
        let client = bench.bench.client();
        let report = client
            .run_wasm(on(target), PROGRAM, inputs.clone(), &collector)
            .unwrap();
        assert_eq!((report.copies, report.compile_ns, report.run_ns), (3, 5, 7));
        assert_eq!(report.lowered_call_depth, Some(9));
        let expected = (0..)
            .zip(&all)
            .map(|(index, (name, requests))| result_of(index, name, requests));
        assert!(expected.eq(collector.results.into_inner().unwrap()));
    }
    // No input is a run too.
    let report = bench
        .bench
        .client()
        .run_wasm(on("cpu"), PROGRAM, [], &Collector::default());
    assert_eq!(report.unwrap().copies, 3);
}

#[test]
fn refusals_say_what_to_change() {
    let budgets = WasmBudgets {
        program_bytes: 64,
        inputs: 2,
        input_bytes: 1000,
        memory_bytes: 64 << 20,
        ..WasmBudgets::default()
    };
    let bench = WasmBench::new(Options {
        wasm: budgets,
        ..quick()
    });
    let refused = |run: WasmRun, inputs: &[&[u8]]| bench.run(run, inputs).unwrap_err().to_string();
    let text = refused(on("cuda3"), &[b""]);
    assert!(
        text.contains("`cuda3` runs no WebAssembly programs; it runs them on board, cpu"),
        "{text}"
    );
    let text = refused(on("cpu"), &[b"", b"", b""]);
    assert!(
        text.contains("number of inputs: 3 inputs; this agent allows 2"),
        "{text}"
    );
    let text = refused(on("cpu"), &[&[0; 905]]);
    assert!(text.contains("1001 bytes; this agent allows 1000"), "{text}");
    assert!(bench.run(on("cpu"), &[&[0; 900]]).is_ok());
    let with = |change: fn(&mut WasmCopyLimits)| {
        let mut run = on("cpu");
        change(&mut run.limits);
        refused(run, &[b""])
    };
    for (text, option) in [
        (with(|l| l.output_bytes = 1 << 30), "--limit-output"),
        (with(|l| l.log_entries = 1 << 20), "--limit-calls"),
        (with(|l| l.memory_pages = 513), "--limit-memory"),
        (with(|l| l.time_ns = Some(u64::MAX)), "--limit-time"),
    ] {
        assert!(text.contains(option) && text.contains("this agent allows"), "{text}");
    }
    let mut many = on("cpu");
    many.arguments = vec![Vec::new(); 4000];
    many.environment = vec![(Vec::new(), Vec::new()); 97];
    let text = refused(many, &[b""]);
    let expected = "number of arguments and environment variables (--arg, --env): 4097 entries; this agent allows 4096";
    assert!(text.contains(expected), "{text}");
    let mut long = on("cpu");
    long.arguments = vec![vec![0; 1 << 19]];
    long.environment = vec![(vec![0; 1 << 18], vec![0; 1 << 18])];
    assert!(bench.run(long.clone(), &[b""]).is_ok());
    long.environment[0].1.push(0);
    let text = refused(long, &[b""]);
    let expected = "size of arguments and environment variables (--arg, --env): 1048577 bytes";
    assert!(text.contains(expected), "{text}");
    let client = bench.bench.client();
    let text = client
        .run_wasm(on("cpu"), &[0; 65], [], &Collector::default())
        .unwrap_err();
    assert!(
        text.to_string().contains("program: 65 bytes; this agent allows 64"),
        "{text}"
    );
    // What is no program, and a validation that panics, end nothing but the run.
    let client = bench.bench.client();
    let ptx = b".version 7.8\n.target sm_80\n.visible .entry main() { ret; }";
    let e = client.run_wasm(on("cpu"), ptx, [], &Collector::default()).unwrap_err();
    assert!(
        matches!(&e, ClientError::ProgramRefused(why) if why.contains("other bytes")),
        "{e}"
    );
    assert_eq!(e.stage(), Stage::SendProgram);
    let mut panics = on("cpu");
    panics.function = "panic".to_owned();
    let text = refused(panics, &[b""]);
    assert!(text.contains("it panicked: the validation panics"), "{text}");
    let text = refused(on("cpu"), &[b"panic"]);
    assert!(text.contains("it panicked: the run panics"), "{text}");
    bench.check_works();
    // A server that offers no programs.
    let bench = Bench::new(quick());
    let e = run_on(bench.client(), on("board"), &[b""], &Collector::default()).unwrap_err();
    assert!(e.to_string().contains("it runs no WebAssembly programs"), "{e}");
}

#[test]
fn a_target_has_one_user_at_a_time() {
    let bench = WasmBench::new(quick());
    let other = bench.bench.ends.another("laptop");
    for target in ["cpu", "board"] {
        let collector = Collector::default();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| run_on(bench.bench.client(), on(target), &[b"wait"], &collector));
            until("the first run", || bench.running.load(Ordering::SeqCst) == 1);
            let second = Client::connect(&tcp(bench.bench.address), &other, Some("board")).unwrap();
            let e = run_on(second, on(target), &[b""], &Collector::default()).unwrap_err();
            assert!(
                matches!(&e, ClientError::Busy { device, holder, .. } if device == target && holder == "bench"),
                "{e}"
            );
            if target == "board" {
                // A replay does not get the device either.
                let e = Client::connect(&tcp(bench.bench.address), &other, Some("board"))
                    .unwrap()
                    .lease("board")
                    .unwrap_err();
                assert!(matches!(&e, ClientError::Busy { .. }), "{e}");
            }
            collector.cancelled.store(true, Ordering::SeqCst);
            assert!(matches!(first.join().unwrap(), Err(ClientError::Cancelled)));
        });
        // The target is free as soon as the client knows of the end.
        assert!(bench.run(on(target), &[b"next"]).is_ok());
    }
    let lease = bench.bench.lease();
    assert!(matches!(bench.run(on("board"), &[b""]), Err(ClientError::Busy { .. })));
    assert!(bench.run(on("cpu"), &[b""]).is_ok());
    drop(lease);
    assert!(bench.run(on("board"), &[b""]).is_ok());
}

#[test]
fn a_target_that_is_given_back_is_waited_for() {
    let bench = WasmBench::new(quick());
    for target in ["cpu", "board"] {
        let collector = Collector::default();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| run_on(bench.bench.client(), on(target), &[b"wait"], &collector));
            until("the first run", || bench.running.load(Ordering::SeqCst) == 1);
            let next = scope.spawn(|| bench.run(on(target), &[b"next"]));
            std::thread::sleep(Duration::from_millis(100));
            collector.cancelled.store(true, Ordering::SeqCst);
            assert!(matches!(first.join().unwrap(), Err(ClientError::Cancelled)));
            assert!(next.join().unwrap().is_ok(), "{target}");
        });
    }
}

#[test]
fn large_results_do_not_wait_in_the_queue_of_a_session() {
    let bench = WasmBench::new(quick());
    let mut channel = open_session(&bench.bench);
    let inputs = 12;
    let start = WasmRequest::Start(Box::new(WasmRun {
        program_bytes: PROGRAM.len() as u64,
        inputs,
        input_bytes: 5 * inputs,
        ..on("cpu")
    }));
    channel.sender.send(Topic::Wasm, &start).unwrap();
    assert_eq!(receive(&mut channel), WasmReply::Accepted);
    channel.sender.send_bytes(Topic::Bulk, PROGRAM).unwrap();
    assert_eq!(receive(&mut channel), WasmReply::Ready);
    let header = WasmInputHeader {
        name: String::new(),
        lengths: vec![5],
    };
    let request = WasmRequest::Inputs((0..inputs).map(|_| header.clone()).collect());
    channel.sender.send(Topic::Wasm, &request).unwrap();
    let content = b"large".repeat(usize::try_from(inputs).unwrap());
    channel.sender.send_bytes(Topic::Bulk, &content).unwrap();
    until("the run", || bench.running.load(Ordering::SeqCst) == 1);
    std::thread::sleep(Duration::from_millis(700));
    // The buffers of the connection have one or two.
    let taken = bench.taken.load(Ordering::SeqCst);
    assert!(taken < 6, "{taken} results of {LARGE_BYTES} bytes");
    drop(channel);
    bench.check_works();
}

#[test]
fn a_cancelled_run_keeps_its_results() {
    let bench = WasmBench::new(quick());
    let collector = Collector {
        cancel_after: Some(2),
        ..Collector::default()
    };
    let ended = run_on(
        bench.bench.client(),
        on("cpu"),
        &[b"a", b"b", b"wait", b"c"],
        &collector,
    );
    assert!(matches!(ended, Err(ClientError::Cancelled)), "{ended:?}");
    assert_eq!(collector.results.lock().unwrap().len(), 2);
    bench.check_works();
    // Before the run, too.
    let collector = Collector::default();
    collector.cancelled.store(true, Ordering::SeqCst);
    let ended = run_on(bench.bench.client(), on("cpu"), &[b"a"], &collector);
    assert!(matches!(ended, Err(ClientError::Cancelled)), "{ended:?}");
    // A result that is not taken ends the run.
    let collector = Collector {
        full: true,
        ..Collector::default()
    };
    let ended = run_on(bench.bench.client(), on("cpu"), &[b"a", b"wait"], &collector);
    assert!(matches!(ended, Err(ClientError::Cancelled)), "{ended:?}");
    bench.check_works();
}

#[test]
fn the_end_of_a_connection_ends_the_run() {
    let bench = WasmBench::new(quick());
    let relay = Relay::to(bench.bench.address);
    let collector = Collector::default();
    let keys = &bench.bench.ends.client;
    let ended = std::thread::scope(|scope| {
        let client = Client::connect(&tcp(relay.address), keys, None).unwrap();
        let running = scope.spawn(|| run_on(client, on("cpu"), &[b"a", b"wait"], &collector));
        until("the first result", || !collector.results.lock().unwrap().is_empty());
        relay.cut();
        running.join().unwrap()
    });
    let e = ended.unwrap_err();
    assert!(
        matches!(
            &e,
            ClientError::Lost {
                stage: Stage::RunProgram,
                ..
            }
        ),
        "{e}"
    );
    let text = e.to_string();
    assert!(
        text.contains("lost while the program was running") && text.contains("run the program again"),
        "{text}"
    );
    bench.check_works();
}

#[test]
fn an_agent_that_stops_or_has_no_time_says_so() {
    let bench = WasmBench::new(Options {
        longest_run: Duration::from_millis(300),
        ..quick()
    });
    let e = bench.run(on("cpu"), &[b"wait"]).unwrap_err();
    assert!(e.to_string().contains("it ran longer than 0.3 s"), "{e}");
    let bench = WasmBench::new(quick());
    std::thread::scope(|scope| {
        let running = scope.spawn(|| bench.run(on("cpu"), &[b"wait"]));
        until("the run", || bench.running.load(Ordering::SeqCst) == 1);
        bench.bench.server.stop();
        let e = running.join().unwrap().unwrap_err();
        assert!(
            matches!(&e, ClientError::ProgramFailed(why) if why.contains("is being stopped")),
            "{e}"
        );
    });
}

#[test]
fn an_agent_without_programs_is_named_with_the_end_to_update() {
    let bench = Bench::new(quick());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let own = bench.ends.agent.key_pair().clone();
    let agent = std::thread::spawn(move || {
        let mut stream = Stream::Tcp(listener.accept().unwrap().0);
        stream.set_limits(HANG_LIMIT, WRITE_LIMIT).unwrap();
        let (_, theirs) = Preamble::receive(&mut stream, soon()).unwrap();
        let old = Preamble {
            highest: 5,
            program: "kinescope-agent 0.1".to_owned(),
            ..Preamble::new(PreambleWord::Go)
        };
        let ours = old.send(&mut stream).unwrap();
        let prologue: Vec<u8> = theirs.into_iter().chain(ours).collect();
        let mut channel = Channel::respond(stream, &own, &prologue, Limits::FromClient, soon()).unwrap();
        let welcome = SessionReply::Welcome {
            program: "kinescope-agent 0.1".to_owned(),
            you: "bench".to_owned(),
            devices: Vec::new(),
        };
        channel.sender.send(Topic::Session, &welcome).unwrap();
        // The client sends nothing more.
        assert!(channel.receiver.receive().is_err());
    });
    let client = Client::connect(&tcp(address), &bench.ends.client, None).unwrap();
    let e = run_on(client, on("cpu"), &[b""], &Collector::default()).unwrap_err();
    assert!(matches!(&e, ClientError::Version(_)), "{e}");
    assert!(e.to_string().contains("need version 6; update the agent"), "{e}");
    agent.join().unwrap();
}

/// Connects as a client, and returns the channel after the agent's welcome.
fn open_session(bench: &Bench) -> Channel {
    let keys = bench.ends.client.key_pair().clone();
    let mut channel = raw_client(bench.address, &keys, PreambleWord::Session);
    assert_eq!(channel.receiver.receive().unwrap().concern, Topic::Session);
    channel
}

fn receive(channel: &mut Channel) -> WasmReply {
    let frame = channel.receiver.receive().unwrap();
    assert_eq!(frame.concern, Topic::Wasm);
    frame.message().unwrap()
}

/// A message of a client that breaks the protocol.
enum Sent {
    Request(WasmRequest),
    Bulk(Vec<u8>),
}

#[test]
fn messages_out_of_order_end_the_connection_and_nothing_else() {
    let bench = WasmBench::new(Options {
        wasm: WasmBudgets {
            input_bytes: 4096,
            ..WasmBudgets::default()
        },
        ..quick()
    });
    let start = |program_bytes: u64, inputs: u64, input_bytes: u64| {
        Sent::Request(WasmRequest::Start(Box::new(WasmRun {
            program_bytes,
            inputs,
            input_bytes,
            ..on("cpu")
        })))
    };
    let program = || Sent::Bulk(PROGRAM.to_vec());
    let bytes = PROGRAM.len() as u64;
    let inputs = |lengths: &[&[u64]]| {
        let header = |lengths: &&[u64]| WasmInputHeader {
            name: "x".to_owned(),
            lengths: lengths.to_vec(),
        };
        Sent::Request(WasmRequest::Inputs(lengths.iter().map(header).collect()))
    };
    for (what, sent) in [
        ("inputs without a run", vec![inputs(&[&[1]])]),
        ("a longer program", vec![start(3, 1, 1), program()]),
        ("a second start", vec![start(bytes, 1, 1), start(bytes, 1, 1)]),
        ("an empty part", vec![start(bytes, 1, 1), Sent::Bulk(Vec::new())]),
        (
            "no inputs in a message",
            vec![start(bytes, 1, 1), program(), inputs(&[])],
        ),
        (
            "an input without requests",
            vec![start(bytes, 1, 0), program(), inputs(&[&[]])],
        ),
        (
            "more inputs",
            vec![start(bytes, 1, 2), program(), inputs(&[&[1], &[1]])],
        ),
        ("more bytes", vec![start(bytes, 1, 1), program(), inputs(&[&[2]])]),
        (
            "fewer bytes",
            vec![start(bytes, 1, 3), program(), inputs(&[&[2]]), Sent::Bulk(vec![0; 2])],
        ),
        (
            "a sum that overflows",
            vec![start(bytes, 1, 3), program(), inputs(&[&[u64::MAX, 2]])],
        ),
        (
            "a longer part",
            vec![start(bytes, 2, 4), program(), inputs(&[&[1]]), Sent::Bulk(vec![0; 2])],
        ),
        (
            "bytes without inputs",
            vec![start(bytes, 1, 1), program(), Sent::Bulk(vec![0])],
        ),
        (
            "many requests without bytes",
            vec![start(bytes, 1, 0), program(), inputs(&[&[0; 200]])],
        ),
    ] {
        let mut channel = open_session(&bench.bench);
        for message in &sent {
            let result = match message {
                Sent::Request(request) => channel.sender.send(Topic::Wasm, request),
                Sent::Bulk(bytes) => channel.sender.send_bytes(Topic::Bulk, bytes),
            };
            // The agent may have closed the connection already.
            if result.is_err() {
                break;
            }
        }
        let by = soon();
        while let Ok(frame) = channel.receiver.receive() {
            let reply: WasmReply = frame.message().unwrap();
            let is_before_run = matches!(reply, WasmReply::Accepted | WasmReply::Ready);
            assert!(is_before_run, "{what}: {reply:?}");
            assert!(Instant::now() < by, "{what} does not end the connection");
        }
    }
    bench.check_works();
}

/// Serves one client that runs a program with two inputs: accepts everything, then sends `replies`, each with bulk.
fn hostile_agent(bench: &Bench, replies: Vec<(WasmReply, Vec<u8>)>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let own = bench.ends.agent.key_pair().clone();
    std::thread::spawn(move || {
        let mut channel = raw_agent(listener.accept().unwrap().0, &own);
        let welcome = SessionReply::Welcome {
            program: String::new(),
            you: String::new(),
            devices: Vec::new(),
        };
        channel.sender.send(Topic::Session, &welcome).unwrap();
        let before = [WasmReply::Accepted, WasmReply::Ready].map(|reply| (reply, Vec::new()));
        for (reply, bulk) in before.into_iter().chain(replies) {
            // The start, the program, then the inputs.
            if matches!(reply, WasmReply::Accepted | WasmReply::Ready) && channel.receiver.receive().is_err() {
                return;
            }
            if channel.sender.send(Topic::Wasm, &reply).is_err() {
                return;
            }
            if !bulk.is_empty() && channel.sender.send_bytes(Topic::Bulk, &bulk).is_err() {
                return;
            }
        }
        // The loop ends when the client cancels, or closes the connection.
        while let Ok(frame) = channel.receiver.receive() {
            if frame.concern == Topic::Wasm && matches!(frame.message(), Ok(WasmRequest::Cancel)) {
                return;
            }
        }
    });
    address
}

#[test]
fn an_agent_that_breaks_the_protocol_causes_only_a_typed_error() {
    let bench = Bench::new(quick());
    let result = |index: u64, output_bytes: u64, error_bytes: u64| {
        WasmReply::Result(Box::new(WasmResultHeader {
            index,
            end: WasmEnd::Exit(0),
            output_bytes,
            error_bytes,
            calls: Vec::new(),
            lost_calls: 0,
        }))
    };
    let calls = |times: &[u64]| {
        let call = |time: &u64| WasmCall {
            function: 0,
            result: 0,
            arguments: [0; 2],
            time: *time,
            bytes: 0,
        };
        WasmReply::Result(Box::new(WasmResultHeader {
            index: 0,
            end: WasmEnd::Exit(0),
            output_bytes: 0,
            error_bytes: 0,
            calls: times.iter().map(call).collect(),
            lost_calls: 0,
        }))
    };
    let mut logged = on("cpu");
    (logged.limits.log_entries, logged.clock_step) = (2, 10);
    let none = Vec::new;
    for replies in [
        vec![(calls(&[1, 2, 3]), none())],
        vec![(calls(&[2, 1]), none())],
        vec![(WasmReply::Finished(WasmReport::default()), none())],
        vec![(result(2, 0, 0), none())],
        vec![(result(u64::MAX, 0, 0), none())],
        vec![(result(1, 0, 0), none()), (result(1, 0, 0), none())],
        vec![(result(0, u64::MAX, 0), none())],
        vec![(result(0, u64::MAX, 2), none())],
        vec![(result(0, 8 << 20, 2 << 20), none())],
        vec![(result(0, 3, 0), vec![0; 4])],
        vec![(result(0, 3, 1), none()), (result(1, 0, 0), none())],
        vec![(result(0, 0, 0), none()), (WasmReply::Accepted, none())],
    ] {
        let text = format!("{replies:?}");
        let address = hostile_agent(&bench, replies);
        let client = Client::connect(&tcp(address), &bench.ends.client, None).unwrap();
        let e = run_on(client, logged.clone(), &[b"a", b"b"], &Collector::default()).unwrap_err();
        assert!(
            matches!(
                &e,
                ClientError::Protocol {
                    stage: Stage::RunProgram,
                    ..
                }
            ),
            "{text}: {e}"
        );
    }
    // The clock of a copy may overflow.
    let replies = vec![
        (calls(&[u64::MAX, 9]), none()),
        (result(1, 0, 0), none()),
        (WasmReply::Finished(WasmReport::default()), none()),
    ];
    let client = Client::connect(&tcp(hostile_agent(&bench, replies)), &bench.ends.client, None).unwrap();
    assert!(run_on(client, logged, &[b"a", b"b"], &Collector::default()).is_ok());
}

#[test]
fn a_run_can_be_cancelled_in_the_middle_of_an_output() {
    let bench = Bench::new(quick());
    let header = WasmResultHeader {
        index: 0,
        end: WasmEnd::Exit(0),
        output_bytes: 3,
        error_bytes: 0,
        calls: Vec::new(),
        lost_calls: 0,
    };
    let replies = vec![(WasmReply::Result(Box::new(header)), vec![0; 2])];
    let client = Client::connect(&tcp(hostile_agent(&bench, replies)), &bench.ends.client, None).unwrap();
    let collector = Collector::default();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| run_on(client, on("cpu"), &[b"a"], &collector));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!run.is_finished());
        // The agent gets the cancellation, and closes the connection.
        collector.cancelled.store(true, Ordering::SeqCst);
        let e = run.join().unwrap().unwrap_err();
        assert!(matches!(&e, ClientError::Lost { .. }), "{e}");
    });
}

#[test]
fn a_client_may_send_several_programs_and_cancel_in_between() {
    let bench = WasmBench::new(quick());
    let mut channel = open_session(&bench.bench);
    let start = |target: &str, inputs: u64, input_bytes: u64| {
        WasmRequest::Start(Box::new(WasmRun {
            program_bytes: PROGRAM.len() as u64,
            inputs,
            input_bytes,
            ..on(target)
        }))
    };
    let send = |channel: &Channel, request: &WasmRequest| channel.sender.send(Topic::Wasm, request).unwrap();
    send(&channel, &start("nothing", 1, 1));
    let known = vec!["board".to_owned(), "cpu".to_owned()];
    assert_eq!(
        receive(&mut channel),
        WasmReply::Refused(WasmRefusal::NoTarget { known })
    );
    // A cancellation without a run has no answer.
    send(&channel, &WasmRequest::Cancel);
    send(&channel, &start("board", 1, 4));
    assert_eq!(receive(&mut channel), WasmReply::Accepted);
    channel.sender.send_bytes(Topic::Bulk, PROGRAM).unwrap();
    assert_eq!(receive(&mut channel), WasmReply::Ready);
    send(&channel, &WasmRequest::Cancel);
    assert_eq!(receive(&mut channel), WasmReply::Cancelled);
    assert!(!bench.bench.server.is_busy());
    // In the middle of a run.
    send(&channel, &start("board", 1, 4));
    assert_eq!(receive(&mut channel), WasmReply::Accepted);
    channel.sender.send_bytes(Topic::Bulk, PROGRAM).unwrap();
    assert_eq!(receive(&mut channel), WasmReply::Ready);
    let header = WasmInputHeader {
        name: "w".to_owned(),
        lengths: vec![4],
    };
    send(&channel, &WasmRequest::Inputs(vec![header]));
    channel.sender.send_bytes(Topic::Bulk, b"wait").unwrap();
    until("the run", || bench.running.load(Ordering::SeqCst) == 1);
    send(&channel, &WasmRequest::Cancel);
    assert_eq!(receive(&mut channel), WasmReply::Cancelled);
    bench.check_works();
}

#[test]
fn a_client_of_the_version_before_has_no_programs() {
    let bench = WasmBench::new(quick());
    let mut stream = Stream::Tcp(TcpStream::connect(bench.bench.address).unwrap());
    stream.set_limits(HANG_LIMIT, WRITE_LIMIT).unwrap();
    let old = Preamble {
        highest: 5,
        ..Preamble::new(PreambleWord::Session)
    };
    let ours = old.send(&mut stream).unwrap();
    let (theirs, bytes) = Preamble::receive(&mut stream, soon()).unwrap();
    assert_eq!(theirs.known_word(), Some(PreambleWord::Go));
    let prologue: Vec<u8> = ours.into_iter().chain(bytes).collect();
    let keys = bench.bench.ends.client.key_pair();
    let accept = |_| Ok::<(), replay_engine::wire::WireError>(());
    let mut channel = Channel::initiate(stream, keys, &prologue, Limits::FromAgent, soon(), accept).unwrap();
    assert_eq!(channel.receiver.receive().unwrap().concern, Topic::Session);
    channel.sender.send(Topic::Wasm, &WasmRequest::Cancel).unwrap();
    assert!(channel.receiver.receive().is_err());
    bench.check_works();
}
