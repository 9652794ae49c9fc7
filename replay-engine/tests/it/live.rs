//! Live programs over real sockets: frames, lanes, recordings, refusals, shares, lost ends, hostile messages.
//! A runner of the tests' own stands for the workers.

use crate::support;

use replay_engine::client::{Client, ClientError, LiveConnection, LiveLane, Stage};
use replay_engine::live::{
    LiveBudgets, LiveEnd, LiveFile, LiveLimits, LiveRecording, LiveRequest, LiveRunner, LiveSender, LiveSession,
    LiveStart, LocalWorker, MAX_PREFACE_BYTES, MAX_REPORT_BYTES,
};
use replay_engine::serve::{Options, Server};
use replay_engine::wire::live_message::{LiveCommand, LiveReply};
use replay_engine::wire::message::{LeaseRequest, SessionReply};
use replay_engine::wire::{
    BULK, Channel, FrameError, KeyStore, Limits, MARGIN, MAX_CALLS_BYTES, Preamble, PreambleWord, SILENCE, Stream,
    Topic, WRITE_LIMIT, WireError,
};
use std::collections::BTreeMap;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use support::{Bench, Ends, HANG_LIMIT, Relay, Strings, listen, quick, raw_agent, raw_client, soon, tcp, until};
use tempfile::TempDir;

/// Maximum time until a lost program has given its shares back.
const RETURN_LIMIT: Duration = Duration::from_secs(1);

/// Time that a receiver of frames waits: longer than an end may be silent, and than a write may take elsewhere.
const LONG_WAIT: Duration = Duration::from_secs(SILENCE.as_secs() + 4);

/// Starts a [`TestWorker`] for each program. The name of the program selects what goes wrong.
#[derive(Debug)]
struct TestRunner {
    folder: TempDir,
    workers: Arc<Mutex<Vec<Arc<TestWorker>>>>,
}

/// Sends each frame back after the number of its lane. A frame `block` waits for the end of the worker, `die` reports
/// the worker's end, `reject` is not taken.
struct TestWorker {
    start: LiveStart,
    lanes: Mutex<BTreeMap<u32, LiveSender>>,
    has_ended: Mutex<bool>,
    ended: Condvar,
    ends: AtomicUsize,
    blocked: AtomicUsize,
    removed_lanes: AtomicUsize,
    recording: PathBuf,
}

impl std::fmt::Debug for TestWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TestWorker({:?})", self.start)
    }
}

impl TestWorker {
    fn program(&self) -> &str {
        &self.start.request.program
    }

    fn wait_for_end(&self) {
        let guard = self.has_ended.lock().unwrap();
        let (guard, _) = self
            .ended
            .wait_timeout_while(guard, HANG_LIMIT, |ended| !*ended)
            .unwrap();
        assert!(*guard, "the worker was not ended");
    }
}

impl LiveRunner for TestRunner {
    fn serves(&self, device: &str) -> bool {
        device != "other"
    }

    fn start(&self, start: LiveStart, sender: LiveSender) -> Result<Arc<dyn LiveSession>, String> {
        match start.request.program.as_str() {
            "no-worker" => return Err("there is no memory for it".to_owned()),
            "panic" => panic!("the start panics"),
            "early" => sender.send(b"early 1").unwrap(),
            "dead" => sender.report_end("the worker died at once"),
            _ => {}
        }
        let recording = self.folder.path().join(format!("{}.kine", start.request.process));
        if let Some(LiveRecording { limit_bytes }) = start.request.recording {
            let content: Vec<u8> = (0..limit_bytes).map(|i| (i % 251) as u8).collect();
            std::fs::write(&recording, content).unwrap();
        }
        let is_early = start.request.program == "early";
        let worker = Arc::new(TestWorker {
            start,
            lanes: Mutex::new(BTreeMap::from([(0, sender)])),
            has_ended: Mutex::new(false),
            ended: Condvar::new(),
            ends: AtomicUsize::new(0),
            blocked: AtomicUsize::new(0),
            removed_lanes: AtomicUsize::new(0),
            recording,
        });
        if is_early {
            // Another thread of the runner, with no order between its frame and the return.
            let sender = worker.lanes.lock().unwrap()[&0].clone();
            std::thread::spawn(move || sender.send(b"early 2").unwrap());
        }
        self.workers.lock().unwrap().push(Arc::clone(&worker));
        Ok(worker)
    }
}

impl LiveSession for TestWorker {
    fn preface(&self) -> (Option<LocalWorker>, Vec<u8>) {
        let local = self.start.request.is_local.then(|| LocalWorker {
            path: b"/run/worker.sock".to_vec(),
            token: [9; 32],
        });
        let preface = match self.program() {
            "long-preface" => vec![0; MAX_PREFACE_BYTES + 1],
            _ => vec![1; MAX_PREFACE_BYTES],
        };
        (local, preface)
    }

    fn take_frame(&self, lane: u32, frame: &[u8]) -> Result<(), String> {
        let sender = self.lanes.lock().unwrap()[&lane].clone();
        match frame {
            b"block" => {
                self.blocked.fetch_add(1, Ordering::SeqCst);
                self.wait_for_end();
                return Err("the worker has ended".to_owned());
            }
            b"die" => {
                sender.report_end("the worker was killed by signal 9");
                sender.report_end("a second report");
                return Ok(());
            }
            b"slow" => {
                self.blocked.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(LONG_WAIT);
            }
            b"reject" => return Err("it is no call".to_owned()),
            b"panic" => panic!("a frame panics"),
            _ => {}
        }
        match frame.len() < MAX_CALLS_BYTES {
            true => sender.send_parts(&[&[lane as u8], frame]),
            false => sender.send(frame),
        }
        .map_err(|e| e.to_string())
    }

    fn add_lane(&self, lane: u32, sender: LiveSender) -> Result<(), String> {
        if self.program() == "one-lane" && lane > 1 {
            return Err("it has one queue".to_owned());
        }
        sender.send(b"hello").unwrap();
        assert!(self.lanes.lock().unwrap().insert(lane, sender).is_none());
        Ok(())
    }

    fn remove_lane(&self, lane: u32) {
        self.removed_lanes.fetch_add(1, Ordering::SeqCst);
        self.lanes.lock().unwrap().remove(&lane);
    }

    fn finish(&self) -> LiveEnd {
        let file = |name: &str| LiveFile {
            name: name.to_owned(),
            path: self.recording.clone(),
        };
        match self.program() {
            "endless" => {
                self.wait_for_end();
                return LiveEnd::default();
            }
            "finish-panics" => panic!("the end panics"),
            "long-report" => {
                return LiveEnd {
                    report: vec![0; MAX_REPORT_BYTES + 1],
                    ..LiveEnd::default()
                };
            }
            "bad-name" => {
                return LiveEnd {
                    recordings: vec![file("../up.kine"), file("good.kine")],
                    ..LiveEnd::default()
                };
            }
            _ => {}
        }
        let recordings = self.start.request.recording.is_some();
        LiveEnd {
            error: None,
            report: b"12 calls".to_vec(),
            recordings: recordings.then(|| file("program.kine")).into_iter().collect(),
        }
    }

    fn end(&self) {
        self.ends.fetch_add(1, Ordering::SeqCst);
        *self.has_ended.lock().unwrap() = true;
        self.ended.notify_all();
    }

    fn describe(&self) -> String {
        format!("{}, 12 MiB", self.program())
    }
}

/// A server with the devices `board`, `second` and `other`. Live programs run on the first two.
struct LiveBench {
    bench: Bench,
    workers: Arc<Mutex<Vec<Arc<TestWorker>>>>,
}

impl LiveBench {
    fn new(options: Options) -> Self {
        let ends = Ends::paired("");
        let strings = Strings::default();
        let factories = ["board", "second", "other"].map(|name| strings.factory(name).into());
        let server = Server::new(&factories, Some(Arc::clone(&ends.agent)), options).unwrap();
        let workers = Arc::default();
        server.serve_live(Arc::new(TestRunner {
            folder: tempfile::tempdir().unwrap(),
            workers: Arc::clone(&workers),
        }));
        let address = listen(&server);
        let bench = Bench {
            ends,
            server,
            address,
            strings,
        };
        Self { bench, workers }
    }

    fn with_budgets(live: LiveBudgets) -> Self {
        Self::new(Options { live, ..quick() })
    }

    fn connect(&self, keys: &KeyStore) -> Client {
        Client::connect(&tcp(self.bench.address), keys, None).unwrap()
    }

    fn start(&self, request: LiveRequest) -> Result<Program, ClientError> {
        Program::start(self.bench.client(), request)
    }

    fn refusal(&self, request: LiveRequest) -> ClientError {
        self.start(request).map(drop).unwrap_err()
    }

    /// Returns the worker that started last.
    fn worker(&self) -> Arc<TestWorker> {
        Arc::clone(self.workers.lock().unwrap().last().unwrap())
    }

    fn holder(&self, device: &str) -> Option<String> {
        let states = self.bench.server.states();
        states.into_iter().find(|s| s.info.name == device).unwrap().holder
    }

    /// Checks that a program ends within [`RETURN_LIMIT`]: its worker is killed and its shares are back.
    fn check_ends(&self, worker: &TestWorker) {
        let begin = Instant::now();
        until("the end of the worker", || worker.ends.load(Ordering::SeqCst) > 0);
        until("the shares", || self.holder("board").is_none());
        until("the end of the program", || !self.bench.server.is_busy());
        assert!(begin.elapsed() < RETURN_LIMIT, "{:?}", begin.elapsed());
    }

    /// Checks that a client still gets a program and a lease.
    fn check_works(&self) {
        until("the end of all programs", || !self.bench.server.is_busy());
        let program = self.start(request("again")).unwrap();
        program.connection.sender().send(b"x").unwrap();
        assert_eq!(program.frame(), b"\0x");
        assert_eq!(program.connection.finish(None).unwrap().error, None);
        drop(self.bench.lease());
    }
}

fn request(program: &str) -> LiveRequest {
    LiveRequest {
        devices: vec!["board".to_owned()],
        program: program.to_owned(),
        process: 7,
        ..LiveRequest::default()
    }
}

/// A program on the client's side.
struct Program {
    connection: LiveConnection,
    frames: Receiver<Vec<u8>>,
    end: Receiver<Option<String>>,
}

impl Program {
    fn start(client: Client, request: LiveRequest) -> Result<Self, ClientError> {
        let connection = client.start_live(request)?;
        let (to_frames, frames) = channel();
        let (to_end, end) = channel();
        connection.start(
            move |frame| {
                let is_bad = frame.ends_with(b"client rejects");
                to_frames.send(frame.to_vec()).map_err(|e| e.to_string())?;
                if is_bad {
                    Err("no such result".to_owned())
                } else {
                    Ok(())
                }
            },
            move |end| to_end.send(end).unwrap_or_default(),
        );
        Ok(Self {
            connection,
            frames,
            end,
        })
    }

    fn frame(&self) -> Vec<u8> {
        self.frames.recv_timeout(HANG_LIMIT).unwrap()
    }

    fn end(&self) -> Option<String> {
        self.end.recv_timeout(HANG_LIMIT).unwrap()
    }
}

/// Starts a lane, and returns its frames and its end.
fn start_lane(lane: &LiveLane) -> (Receiver<Vec<u8>>, Receiver<Option<String>>) {
    let (to_frames, frames) = channel();
    let (to_end, end) = channel();
    lane.start(
        move |frame| to_frames.send(frame.to_vec()).map_err(|e| e.to_string()),
        move |end| to_end.send(end).unwrap_or_default(),
    );
    (frames, end)
}

#[test]
fn live_frames_go_both_ways() {
    let bench = LiveBench::new(quick());
    let local = LiveRequest {
        is_local: true,
        ..request("echo")
    };
    let program = bench.start(local).unwrap();
    let grant = program.connection.grant();
    assert_eq!(grant.max_lanes, LiveBudgets::default().lanes);
    assert_eq!(grant.preface, vec![1; MAX_PREFACE_BYTES]);
    assert_eq!(grant.local.as_ref().unwrap().path, b"/run/worker.sock");
    let worker = bench.worker();
    assert_eq!(worker.start.client, "bench");
    assert_eq!(worker.start.key, bench.bench.ends.client.key_pair().public());
    assert_eq!(worker.start.request.process, 7);
    let sender = program.connection.sender();
    for bytes in [0, 1, 100, 65_513, 65_514, 65_515, 131_033, 1 << 20, MAX_CALLS_BYTES - 1] {
        let frame: Vec<u8> = (0..bytes).map(|i| (i % 253) as u8).collect();
        let (first, second) = frame.split_at(bytes / 3);
        sender.send_parts(&[first, &[], second]).unwrap();
        let mut memory = [vec![0; MARGIN], frame.clone()].concat();
        sender.send_in_place(&mut memory).unwrap();
        for _ in 0..2 {
            let answer = program.frame();
            assert!(answer[0] == 0 && answer[1..] == frame, "{bytes} bytes");
        }
    }
    // Frames of many sizes behind one another: what is read ahead of a frame ends anywhere in it.
    let sizes = || (0..400usize).map(|n| n * n * 7919 % 200_000);
    for (n, bytes) in sizes().enumerate() {
        sender.send(&vec![n as u8; bytes]).unwrap();
    }
    for (n, bytes) in sizes().enumerate() {
        let answer = program.frame();
        assert!(answer.len() == 1 + bytes, "frame {n}: {} bytes", answer.len());
        assert!(answer[1..].iter().all(|byte| *byte == n as u8), "frame {n}");
    }
    let largest = vec![5; MAX_CALLS_BYTES];
    sender.send(&largest).unwrap();
    assert_eq!(program.frame(), largest);
    let too_long = sender.send(&vec![5; MAX_CALLS_BYTES + 1]).unwrap_err();
    assert!(
        matches!(too_long, WireError::Frame(FrameError::TooLong { .. })),
        "{too_long}"
    );
    // Many small frames keep their order.
    for n in 0..5000u32 {
        sender.send(&n.to_le_bytes()).unwrap();
    }
    for n in 0..5000u32 {
        assert_eq!(program.frame()[1..], n.to_le_bytes());
    }
    let outcome = program.connection.finish(None).unwrap();
    assert_eq!((outcome.error, outcome.report), (None, b"12 calls".to_vec()));
    assert!(outcome.recordings.is_empty());
    assert_eq!(program.end.recv_timeout(HANG_LIMIT).ok(), None, "the end was asked for");
    bench.check_ends(&worker);
    // Frames of a worker that is faster than the start arrive after it, in order.
    let program = bench.start(request("early")).unwrap();
    assert_eq!(
        (program.frame(), program.frame()),
        (b"early 1".to_vec(), b"early 2".to_vec())
    );
    // A client that takes no frames can end its program.
    let unread = bench.bench.client().start_live(request("early")).unwrap();
    assert_eq!(unread.finish(None).unwrap().report, b"12 calls");
}

#[test]
fn live_lanes_join_with_the_token_of_their_client() {
    let bench = LiveBench::with_budgets(LiveBudgets {
        lanes: 2,
        ..LiveBudgets::default()
    });
    let other = bench.bench.ends.another("laptop");
    let program = bench.start(request("lanes")).unwrap();
    let worker = bench.worker();
    let token = program.connection.grant().token;
    let join = || bench.bench.client().join_live(token);
    let (first, second) = (join().unwrap(), join().unwrap());
    assert_eq!((first.number(), second.number()), (1, 2));
    let ((frames, first_end), (second_frames, second_end)) = (start_lane(&first), start_lane(&second));
    assert_eq!(frames.recv_timeout(HANG_LIMIT).unwrap(), b"hello");
    assert_eq!(second_frames.recv_timeout(HANG_LIMIT).unwrap(), b"hello");
    second.sender().send(b"b").unwrap();
    first.sender().send(b"a").unwrap();
    assert_eq!(second_frames.recv_timeout(HANG_LIMIT).unwrap(), b"\x02b");
    assert_eq!(frames.recv_timeout(HANG_LIMIT).unwrap(), b"\x01a");
    let text = join().unwrap_err().to_string();
    assert!(text.contains("2 further connections"), "{text}");
    // Neither another token nor another client.
    let mut wrong = token;
    wrong[31] ^= 1;
    for e in [
        bench.bench.client().join_live(wrong).unwrap_err(),
        bench.connect(&other).join_live(token).unwrap_err(),
    ] {
        let text = e.to_string();
        assert!(text.contains("has ended, or belongs to another client"), "{text}");
    }
    // A lane that ends makes room for the next one. The program goes on.
    drop(first);
    assert!(first_end.recv_timeout(HANG_LIMIT).is_ok());
    until("the end of the lane", || {
        worker.removed_lanes.load(Ordering::SeqCst) == 1
    });
    let third = join().unwrap();
    assert_eq!(third.number(), 3);
    let (_, third_end) = start_lane(&third);
    program.connection.sender().send(b"c").unwrap();
    assert_eq!(program.frame(), b"\0c");
    // The lanes end with the program.
    program.connection.finish(None).unwrap();
    for end in [second_end, third_end] {
        assert!(end.recv_timeout(HANG_LIMIT).unwrap().is_some());
    }
    let text = join().unwrap_err().to_string();
    assert!(text.contains("has ended"), "{text}");
    // A worker can refuse a lane, and a lane can end the program.
    let program = bench.start(request("one-lane")).unwrap();
    let token = program.connection.grant().token;
    let join = || bench.bench.client().join_live(token);
    let lane = join().unwrap();
    let e = join().unwrap_err();
    assert!(
        matches!(&e, ClientError::WorkerFailed(why) if why.contains("one queue")),
        "{e}"
    );
    lane.sender().send(b"reject").unwrap();
    assert_eq!(program.end().as_deref(), Some("it is no call"));
    bench.check_works();
}

#[test]
fn live_recordings_are_stored() {
    let bench = LiveBench::new(quick());
    let folder = tempfile::tempdir().unwrap();
    let recorded = |program: &str, limit_bytes: u64| LiveRequest {
        recording: Some(LiveRecording { limit_bytes }),
        ..request(program)
    };
    for bytes in [0, 1, BULK as u64, 5 * BULK as u64 + 3] {
        let program = bench.start(recorded("recorded", bytes)).unwrap();
        let outcome = program.connection.finish(Some(folder.path())).unwrap();
        let path = folder.path().join("program.kine");
        assert_eq!((outcome.error, outcome.recordings), (None, vec![path.clone()]));
        let expected: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        assert_eq!(std::fs::read(&path).unwrap(), expected);
        std::fs::remove_file(path).unwrap();
    }
    // Without a folder, nothing is stored.
    let program = bench.start(recorded("recorded", 100)).unwrap();
    assert!(program.connection.finish(None).unwrap().recordings.is_empty());
    // An existing file is not replaced.
    let path = folder.path().join("program.kine");
    std::fs::write(&path, "mine").unwrap();
    let program = bench.start(recorded("recorded", 100)).unwrap();
    let e = program.connection.finish(Some(folder.path())).unwrap_err();
    assert!(matches!(&e, ClientError::NotStored { .. }), "{e}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    assert_eq!(e.stage(), Stage::FetchRecordings);
    // What an agent cannot send, it says. The rest arrives.
    for (name, part) in [
        ("bad-name", "clients do not accept: ../up.kine"),
        ("long-report", "report has 1048577 bytes"),
        ("finish-panics", "it panicked: the end panics"),
    ] {
        let program = bench.start(recorded(name, 3)).unwrap();
        let outcome = program.connection.finish(Some(folder.path())).unwrap();
        let error = outcome.error.unwrap();
        assert!(error.contains(part), "{error}");
        let stored = (name == "bad-name").then(|| folder.path().join("good.kine"));
        assert_eq!(outcome.recordings, Vec::from_iter(stored));
    }
    bench.check_works();
}

#[test]
fn live_refusals_say_what_to_do() {
    let bench = LiveBench::with_budgets(LiveBudgets {
        sessions: 3,
        sessions_per_client: 2,
        ..LiveBudgets::default()
    });
    let with = |devices: &[&str], program: &str| LiveRequest {
        devices: devices.iter().map(|d| (*d).to_owned()).collect(),
        program: program.to_owned(),
        ..LiveRequest::default()
    };
    let nine: Vec<String> = (0..9).map(|n| format!("cuda{n}")).collect();
    let nine: Vec<&str> = nine.iter().map(String::as_str).collect();
    for (request, part) in [
        (with(&[], "a"), "0 devices; a program has 1 to 8"),
        (with(&nine, "a"), "9 devices; a program has 1 to 8"),
        (with(&["board", "board"], "a"), "a device is named twice"),
        (with(&["board"], &"x".repeat(257)), "name has 257 bytes"),
        (
            with(&["board", "cuda3"], "a"),
            "`cuda3` runs no live programs; the agent runs them on board, second",
        ),
        (with(&["other"], "a"), "`other` runs no live programs"),
        (with(&["board"], "no-worker"), "worker: there is no memory for it"),
        (with(&["board"], "panic"), "it panicked: the start panics"),
        (with(&["board"], "long-preface"), "262144 are allowed"),
    ] {
        let text = bench.refusal(request).to_string();
        assert!(text.contains(part), "{text}");
        until("the shares", || !bench.bench.server.is_busy());
    }
    // The number of programs, in total and of a client.
    let mut programs = vec![bench.start(request("a")).unwrap(), bench.start(request("b")).unwrap()];
    let text = bench.refusal(request("c")).to_string();
    assert!(text.contains("this client already runs 2 live programs"), "{text}");
    let others = ["laptop", "desktop"].map(|name| bench.bench.ends.another(name));
    programs.push(Program::start(bench.connect(&others[0]), request("d")).unwrap());
    let e = Program::start(bench.connect(&others[1]), request("e")).map(drop);
    let text = e.unwrap_err().to_string();
    assert!(text.contains("already runs 3 live programs"), "{text}");
    drop(programs.remove(0));
    until("a place", || {
        Program::start(bench.connect(&others[1]), request("e")).is_ok()
    });
    drop(programs);
    bench.check_works();
    // A server that offers no live programs.
    let bench = Bench::new(quick());
    let e = bench.client().start_live(request("a")).unwrap_err();
    assert!(e.to_string().contains("`kinescope-agent serve --live`"), "{e}");
    let e = bench.client().join_live([1; 32]).unwrap_err();
    assert!(e.to_string().contains("`kinescope-agent serve --live`"), "{e}");
}

#[test]
fn live_devices_are_shared_or_leased() {
    let bench = LiveBench::new(quick());
    let other = bench.bench.ends.another("laptop");
    let first = bench.start(request("vector_add")).unwrap();
    let both = LiveRequest {
        devices: vec!["second".to_owned(), "board".to_owned()],
        ..request("train.py\x1b[31m")
    };
    let second = Program::start(bench.connect(&other), both.clone()).unwrap();
    let holders = "live: bench (vector_add, 12 MiB), laptop (train.py [31m, 12 MiB)";
    assert_eq!(bench.holder("board").as_deref(), Some(holders));
    assert_eq!(
        bench.holder("second").as_deref(),
        Some("live: laptop (train.py [31m, 12 MiB)")
    );
    assert_eq!(bench.holder("other"), None);
    assert!(bench.bench.server.is_busy());
    // A new client sees them, and gets no lease.
    let client = bench.bench.client();
    assert_eq!(client.states()[0].holder.as_deref(), Some(holders));
    let e = client.lease("board").unwrap_err();
    assert!(
        matches!(&e, ClientError::Busy { holder, .. } if holder == holders),
        "{e}"
    );
    // Both still work.
    for program in [&first, &second] {
        program.connection.sender().send(b"x").unwrap();
        assert_eq!(program.frame(), b"\0x");
    }
    // The device is free with the last program.
    first.connection.finish(None).unwrap();
    until("the first share", || bench.holder("board") == bench.holder("second"));
    let e = bench.bench.client().lease("board").unwrap_err();
    assert!(matches!(&e, ClientError::Busy { .. }), "{e}");
    // The lease waits for a device that is given back.
    second.connection.finish(None).unwrap();
    let lease = bench.bench.lease();
    // A program gets none of its devices while a replay has one.
    let e = Program::start(bench.connect(&other), both.clone())
        .map(drop)
        .unwrap_err();
    assert!(
        matches!(&e, ClientError::Busy { device, holder, .. } if device == "board" && holder == "bench"),
        "{e}"
    );
    assert_eq!(bench.holder("second"), None);
    drop(lease);
    drop(Program::start(bench.connect(&other), both).unwrap());
    bench.check_works();
}

#[test]
fn live_program_ends_with_its_worker() {
    let bench = LiveBench::new(quick());
    for (frame, reason) in [
        (b"die".as_slice(), "the worker was killed by signal 9"),
        (b"reject", "it is no call"),
        (b"panic", "it panicked: a frame panics"),
    ] {
        let program = bench.start(request("mortal")).unwrap();
        program.connection.sender().send(b"first").unwrap();
        program.connection.sender().send(frame).unwrap();
        // Frames before the end arrive before it.
        assert_eq!(program.end().as_deref(), Some(reason));
        assert_eq!(program.frame(), b"\0first");
        bench.check_ends(&bench.worker());
        let e = program.connection.finish(None).unwrap_err();
        assert!(matches!(&e, ClientError::ProgramFailed(why) if why == reason), "{e}");
    }
    let program = bench.start(request("dead")).unwrap();
    assert_eq!(program.end().as_deref(), Some("the worker died at once"));
    // The client's own handler can end the program, too.
    let program = bench.start(request("mortal")).unwrap();
    program.connection.sender().send(b"client rejects").unwrap();
    assert_eq!(program.end().as_deref(), Some("no such result"));
    bench.check_ends(&bench.worker());
    bench.check_works();
}

#[test]
fn live_program_ends_with_its_client() {
    let bench = LiveBench::new(quick());
    // A connection that is cut, at rest, in a frame that waits, and in the end.
    for (program, frame) in [("rest", None), ("waits", Some(b"block")), ("endless", None)] {
        let relay = Relay::to(bench.bench.address);
        let client = Client::connect(&tcp(relay.address), &bench.bench.ends.client, None).unwrap();
        let connection = client.start_live(request(program)).unwrap();
        let lane = bench.bench.client().join_live(connection.grant().token).unwrap();
        let (_frames, lane_end) = start_lane(&lane);
        let worker = bench.worker();
        let sender = connection.sender();
        if let Some(frame) = frame {
            sender.send(frame).unwrap();
            // What follows stays in the connection.
            sender.send(&[1; 1000]).unwrap();
            until("the frame", || worker.blocked.load(Ordering::SeqCst) == 1);
        }
        let finish = (program == "endless").then(|| std::thread::spawn(move || connection.finish(None)));
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(worker.ends.load(Ordering::SeqCst), 0);
        relay.cut();
        bench.check_ends(&worker);
        assert!(lane_end.recv_timeout(HANG_LIMIT).unwrap().is_some());
        if let Some(finish) = finish {
            let e = finish.join().unwrap().unwrap_err();
            assert!(matches!(&e, ClientError::Lost { .. }), "{e}");
            assert!(e.to_string().contains("run the program again"), "{e}");
        }
    }
    // A client that drops its connection.
    let program = bench.start(request("dropped")).unwrap();
    let worker = bench.worker();
    drop(program);
    bench.check_ends(&worker);
    bench.check_works();
}

#[test]
fn live_program_of_a_forgotten_client_ends() {
    let bench = LiveBench::new(quick());
    let program = bench.start(request("forgotten")).unwrap();
    let worker = bench.worker();
    program.connection.sender().send(b"block").unwrap();
    until("the frame", || worker.blocked.load(Ordering::SeqCst) == 1);
    let other = bench.bench.ends.another("laptop");
    let stays = Program::start(bench.connect(&other), request("stays")).unwrap();
    bench.bench.ends.agent.forget("bench").unwrap();
    let begin = Instant::now();
    until("the end of the worker", || worker.ends.load(Ordering::SeqCst) > 0);
    until("the share", || {
        bench.holder("board").as_deref() == Some("live: laptop (stays, 12 MiB)")
    });
    assert!(begin.elapsed() < RETURN_LIMIT, "{:?}", begin.elapsed());
    let end = program.end().unwrap();
    assert!(end.contains("forgotten this client's key"), "{end}");
    stays.connection.sender().send(b"x").unwrap();
    assert_eq!(stays.frame(), b"\0x");
}

#[test]
fn live_program_ends_with_its_agent_or_its_time() {
    let bench = LiveBench::with_budgets(LiveBudgets {
        longest: Some(Duration::from_millis(300)),
        ..LiveBudgets::default()
    });
    let program = bench.start(request("long")).unwrap();
    let why = "the agent ended the program: it ran longer than 0.3 s, which is the agent's limit (--live-time)";
    assert_eq!(program.end().as_deref(), Some(why));
    bench.check_ends(&bench.worker());
    let bench = LiveBench::new(quick());
    let program = bench.start(request("stopped")).unwrap();
    bench.bench.server.stop();
    assert_eq!(program.end().as_deref(), Some("the agent is being stopped"));
    bench.check_ends(&bench.worker());
}

/// A long kernel fills the way to the worker, and a slow reader that to the client. Neither ends the program.
#[test]
fn live_frames_wait_longer_than_silence_may_last() {
    const FRAMES: usize = 64;
    let frame = vec![7; MAX_CALLS_BYTES / 2];
    // The worker takes no frame.
    let bench = LiveBench::new(quick());
    let program = bench.start(request("kernel")).unwrap();
    // The client takes no frame.
    let other = LiveBench::new(quick());
    let slow = other.bench.client().start_live(request("reader")).unwrap();
    let (to, ended) = channel();
    let (frames, taken) = channel();
    let mut is_first = true;
    slow.start(
        move |frame| {
            if std::mem::take(&mut is_first) {
                std::thread::sleep(LONG_WAIT);
            }
            frames.send(frame.len()).map_err(|e| e.to_string())
        },
        move |why| to.send(why).unwrap(),
    );
    let echoed = {
        let (sender, frame) = (slow.sender(), frame.clone());
        std::thread::spawn(move || (0..FRAMES).for_each(|_| sender.send(&frame).unwrap()))
    };
    let sender = program.connection.sender();
    sender.send(b"slow").unwrap();
    until("the frame", || bench.worker().blocked.load(Ordering::SeqCst) == 1);
    let begin = Instant::now();
    let sent = {
        let (sender, frame) = (sender, frame.clone());
        std::thread::spawn(move || (0..FRAMES).for_each(|_| sender.send(&frame).unwrap()))
    };
    assert_eq!(program.frame(), b"\0slow");
    for _ in 0..FRAMES {
        assert_eq!(program.frame().len(), frame.len() + 1);
        assert_eq!(taken.recv_timeout(LONG_WAIT + HANG_LIMIT).unwrap(), frame.len() + 1);
    }
    assert!(begin.elapsed() > SILENCE, "{:?}", begin.elapsed());
    sent.join().unwrap();
    echoed.join().unwrap();
    assert!(ended.try_recv().is_err());
    slow.finish(None).unwrap();
    program.connection.finish(None).unwrap();
}

/// What an agent offers, and the limits that a program gets.
#[test]
fn live_limits_are_described_and_granted() {
    let bench = LiveBench::with_budgets(LiveBudgets {
        longest: Some(Duration::from_millis(2500)),
        host_bytes: Some(1 << 30),
        device_bytes: Some(5 << 20),
        ..LiveBudgets::default()
    });
    let limits = LiveLimits {
        host_bytes: Some(1 << 30),
        device_bytes: Some(5 << 20),
        time_ms: Some(2500),
    };
    let client = bench.bench.client();
    let offer = client.describe_live(HANG_LIMIT).unwrap().unwrap();
    assert_eq!(
        (offer.devices, offer.limits),
        (vec!["board".to_owned(), "second".to_owned()], limits)
    );
    // The connection is free for a program afterwards.
    let connection = client.start_live(request("limited")).unwrap();
    assert_eq!(connection.grant().limits, limits);
    assert_eq!(bench.worker().start.limits, limits);
    let bench = Bench::new(quick());
    assert_eq!(bench.client().describe_live(HANG_LIMIT).unwrap(), None);
}

fn open_session(bench: &LiveBench) -> Channel {
    let keys = bench.bench.ends.client.key_pair().clone();
    let mut channel = raw_client(bench.bench.address, &keys, PreambleWord::Session);
    let by = Instant::now() + HANG_LIMIT;
    assert_eq!(channel.receiver.receive_by(by).unwrap().concern, Topic::Session);
    channel.receiver.set_silence(HANG_LIMIT).unwrap();
    channel
}

fn receive(channel: &mut Channel) -> Result<LiveReply, WireError> {
    loop {
        let frame = channel.receiver.receive()?;
        if frame.concern != Topic::Heartbeat {
            assert_eq!(frame.concern, Topic::Live);
            return Ok(frame.message()?);
        }
    }
}

#[test]
fn live_messages_out_of_order_end_the_connection() {
    let bench = LiveBench::new(quick());
    let start = || LiveCommand::Start(Box::new(request("hostile")));
    let calls = |channel: &Channel| channel.sender.send_bytes(Topic::Calls, b"x").unwrap();
    let send = |channel: &Channel, command: &LiveCommand| channel.sender.send(Topic::Live, command).unwrap();
    // Calls, or the end, before the start.
    let mut channel = open_session(&bench);
    calls(&channel);
    assert!(receive(&mut channel).is_err());
    let mut channel = open_session(&bench);
    send(&channel, &LiveCommand::Finish);
    assert!(receive(&mut channel).is_err());
    // A program on a connection with a lease, and a lease or a second program on that of a program.
    let mut channel = open_session(&bench);
    let take = LeaseRequest::Take("board".into());
    channel.sender.send(Topic::Lease, &take).unwrap();
    assert_eq!(channel.receiver.receive().unwrap().concern, Topic::Lease);
    send(&channel, &start());
    assert!(receive(&mut channel).is_err());
    for second in ["lease", "start", "two ends"] {
        let mut channel = open_session(&bench);
        send(&channel, &start());
        assert!(matches!(receive(&mut channel), Ok(LiveReply::Started(_))));
        match second {
            "lease" => channel.sender.send(Topic::Lease, &take).unwrap(),
            "start" => send(&channel, &start()),
            _ => {
                // It is a race: the first end may be over before the second arrives.
                send(&channel, &LiveCommand::Finish);
                let _ = channel.sender.send(Topic::Live, &LiveCommand::Finish);
            }
        }
        while receive(&mut channel).is_ok() {}
        until("the end", || !bench.bench.server.is_busy());
    }
    // A refused request leaves the connection open.
    let mut channel = open_session(&bench);
    send(&channel, &LiveCommand::Start(Box::new(request("no-worker"))));
    assert!(matches!(receive(&mut channel), Ok(LiveReply::Refused(_))));
    send(&channel, &LiveCommand::Join { token: [0; 32] });
    assert!(matches!(receive(&mut channel), Ok(LiveReply::Refused(_))));
    send(&channel, &start());
    assert!(matches!(receive(&mut channel), Ok(LiveReply::Started(_))));
    send(&channel, &LiveCommand::Finish);
    assert!(matches!(
        receive(&mut channel),
        Ok(LiveReply::Ended { error: None, .. })
    ));
    drop(channel);
    // A lane takes nothing but calls.
    let program = bench.start(request("lane")).unwrap();
    let mut lane = open_session(&bench);
    let token = program.connection.grant().token;
    send(&lane, &LiveCommand::Join { token });
    assert!(matches!(receive(&mut lane), Ok(LiveReply::Joined { lane: 1 })));
    assert_eq!(lane.receiver.receive().unwrap().concern, Topic::Calls);
    send(&lane, &LiveCommand::Finish);
    assert!(lane.receiver.receive().is_err());
    program.connection.sender().send(b"x").unwrap();
    assert_eq!(program.frame(), b"\0x");
    drop(program);
    bench.check_works();
}

#[test]
fn live_programs_need_protocol_version_7() {
    // A client of version 6.
    let bench = LiveBench::new(quick());
    for concern in [Topic::Live, Topic::Calls] {
        let mut stream = Stream::Tcp(TcpStream::connect(bench.bench.address).unwrap());
        stream.set_limits(HANG_LIMIT, WRITE_LIMIT).unwrap();
        let old = Preamble {
            highest: 6,
            ..Preamble::new(PreambleWord::Session)
        };
        let ours = old.send(&mut stream).unwrap();
        let (_, bytes) = Preamble::receive(&mut stream, soon()).unwrap();
        let prologue: Vec<u8> = ours.into_iter().chain(bytes).collect();
        let keys = bench.bench.ends.client.key_pair();
        let accept = |_| Ok::<(), WireError>(());
        let mut channel = Channel::initiate(stream, keys, &prologue, Limits::FromAgent, soon(), accept).unwrap();
        assert_eq!(channel.receiver.receive().unwrap().concern, Topic::Session);
        let start = LiveCommand::Start(Box::new(request("old")));
        channel.sender.send(concern, &start).unwrap();
        assert!(channel.receiver.receive().is_err());
    }
    assert!(bench.workers.lock().unwrap().is_empty());
    bench.check_works();
    // An agent of version 6.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let own = bench.bench.ends.agent.key_pair().clone();
    let agent = std::thread::spawn(move || {
        for _ in 0..2 {
            let mut stream = Stream::Tcp(listener.accept().unwrap().0);
            stream.set_limits(HANG_LIMIT, WRITE_LIMIT).unwrap();
            let (_, theirs) = Preamble::receive(&mut stream, soon()).unwrap();
            let old = Preamble {
                highest: 6,
                ..Preamble::new(PreambleWord::Go)
            };
            let ours = old.send(&mut stream).unwrap();
            let prologue: Vec<u8> = theirs.into_iter().chain(ours).collect();
            let mut channel = Channel::respond(stream, &own, &prologue, Limits::FromClient, soon()).unwrap();
            channel.sender.send(Topic::Session, &welcome()).unwrap();
            // The client sends nothing more.
            assert!(channel.receiver.receive().is_err());
        }
    });
    let connect = || Client::connect(&tcp(address), &bench.bench.ends.client, None).unwrap();
    for e in [
        connect().start_live(request("new")).unwrap_err(),
        connect().join_live([0; 32]).unwrap_err(),
    ] {
        assert!(matches!(&e, ClientError::Version(_)), "{e}");
        assert!(e.to_string().contains("need version 7; update the agent"), "{e}");
    }
    agent.join().unwrap();
}

fn welcome() -> SessionReply {
    SessionReply::Welcome {
        program: "kinescope-agent 0.1".to_owned(),
        you: "bench".to_owned(),
        devices: Vec::new(),
    }
}

/// Serves one client: starts its program, and answers the end with `reply` and the bulk.
fn hostile_agent(bench: &LiveBench, reply: LiveReply, bulk: Vec<Vec<u8>>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let own = bench.bench.ends.agent.key_pair().clone();
    std::thread::spawn(move || {
        let mut channel = raw_agent(listener.accept().unwrap().0, &own);
        channel.sender.send(Topic::Session, &welcome()).unwrap();
        channel.receiver.receive().unwrap();
        let started = LiveReply::Started(Box::default());
        channel.sender.send(Topic::Live, &started).unwrap();
        channel.receiver.receive().unwrap();
        channel.sender.send(Topic::Live, &reply).unwrap();
        for part in bulk {
            if channel.sender.send_bytes(Topic::Bulk, &part).is_err() {
                return;
            }
        }
        let _ = channel.receiver.receive();
    });
    address
}

#[test]
fn live_recordings_of_a_hostile_agent_are_refused() {
    let bench = LiveBench::new(quick());
    let folder = tempfile::tempdir().unwrap();
    let ended = |recordings: &[(&str, u64)]| LiveReply::Ended {
        error: None,
        report: Vec::new(),
        recordings: recordings
            .iter()
            .map(|(name, bytes)| ((*name).to_owned(), *bytes))
            .collect(),
    };
    let finish = |reply: LiveReply, bulk: Vec<Vec<u8>>| {
        let address = hostile_agent(&bench, reply, bulk);
        let client = Client::connect(&tcp(address), &bench.bench.ends.client, None).unwrap();
        let connection = client.start_live(request("a")).unwrap();
        connection.start(|_| Ok(()), |_| {});
        connection.finish(Some(folder.path()))
    };
    let many = vec![("a", 0); 65];
    for (reply, bulk) in [
        (ended(&[("../a", 1)]), vec![vec![1]]),
        (ended(&[("/tmp/a", 1)]), vec![vec![1]]),
        (ended(&[("..", 1)]), vec![vec![1]]),
        (ended(&[(".bashrc", 1)]), vec![vec![1]]),
        (ended(&[("", 1)]), vec![vec![1]]),
        (ended(&[("a", u64::MAX), ("b", 1)]), vec![]),
        (ended(&[("a", (64 << 30) + 1)]), vec![]),
        (ended(&many), vec![]),
        (ended(&[("a", 3)]), vec![vec![1, 2], vec![3, 4]]),
        (ended(&[("a", 3)]), vec![vec![1, 2], vec![]]),
        (LiveReply::Joined { lane: 1 }, vec![]),
    ] {
        let text = format!("{reply:?}");
        let e = finish(reply, bulk).unwrap_err();
        assert!(matches!(&e, ClientError::Protocol { .. }), "{text}: {e}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{text}");
    }
    // A second recording of the same name.
    let e = finish(ended(&[("a", 1), ("a", 1)]), vec![vec![1], vec![2]]).unwrap_err();
    assert!(matches!(&e, ClientError::NotStored { .. }), "{e}");
    assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), [1]);
}
