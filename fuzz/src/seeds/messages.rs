//! Seeds of a peer's messages: the smallest message of every kind, and the key store's file.

use super::seed::Add;
use crate::plans;
use replay_engine::lease_options::{LeaseOptions, Preemption};
use replay_engine::live::{LiveGrant, LiveLimits, LiveRecording, LiveRequest, LocalWorker};
use replay_engine::memory_trace::MemoryTraceRequest;
use replay_engine::run::{ArtifactsHeader, CheckpointRecord};
use replay_engine::target::TargetRequest;
use replay_engine::wasm::{WasmCall, WasmCopyLimits, WasmEnd, WasmLocation, WasmReport, WasmRun, WasmTranslation};
use replay_engine::wire::delta::{Outline, Step};
use replay_engine::wire::live_message::{LiveCommand, LiveRefusal, LiveReply};
use replay_engine::wire::message::{
    DeviceState, LeaseReply, LeaseRequest, PagesReply, PagesRequest, PairMessage, PlanPart, RunReply, RunRequest,
    SessionRefusal, SessionReply,
};
use replay_engine::wire::wasm_message::{WasmInputHeader, WasmRefusal, WasmReply, WasmRequest, WasmResultHeader};
use replay_engine::wire::{Preamble, PreambleWord, Topic, first_piece};
use serde::Serialize;

const KEYS: &str = r#"version = 1
private_key = "0101010101010101010101010101010101010101010101010101010101010101"
public_key = "a4e09292b651c278b9772c569f5fa9bb13d906b46ab68c9df9dc2b4409f8a209"

[[peer]]
name = "board-1"
public_key = "0202020202020202020202020202020202020202020202020202020202020202"
address = "127.0.0.1:7117"
paired_at = 1760000000

[[peer]]
name = "laptop"
public_key = "0303030303030303030303030303030303030303030303030303030303030303"
"#;

/// Returns a message after the number of its kind.
fn message<T: Serialize>(kind: u8, message: &T) -> Vec<u8> {
    [vec![kind], trace_core::encode::to_bytes(message).unwrap_or_default()].concat()
}

/// Returns the header of what a run sends.
fn artifacts_header() -> ArtifactsHeader {
    ArtifactsHeader {
        spaces: vec![(1, 0x88, 0x4e)],
        host_pages: vec![1],
        frames: vec![(0x10_0000, 1)],
        screen: None,
    }
}

/// Returns what an agent sends about a run: the length of the header, the header, the length of the events, the events,
/// page images.
fn material(header: &ArtifactsHeader, events: &[u8], images: &[u8]) -> Vec<u8> {
    let header = trace_core::encode::to_bytes(header).unwrap_or_default();
    let length = |bytes: &[u8]| (bytes.len() as u32).to_le_bytes().to_vec();
    [
        length(&header),
        header,
        length(events),
        events.to_vec(),
        images.to_vec(),
    ]
    .concat()
}

/// Adds the seeds about runs of WebAssembly programs.
fn add_wasm(add: Add<'_>) {
    let run = WasmRun {
        target: "cuda0".into(),
        program_bytes: 8,
        inputs: 2,
        input_bytes: 5,
        function: "_start".into(),
        arguments: vec![b"program".to_vec()],
        environment: vec![(b"NAME".to_vec(), b"value".to_vec())],
        limits: WasmCopyLimits {
            memory_pages: 256,
            time_ns: Some(60_000_000_000),
            ..WasmCopyLimits::default()
        },
        copies: Some(64),
        translation: WasmTranslation {
            cell: Some(8),
            strict: true,
        },
        ..WasmRun::default()
    };
    add("wire", "wasm-start", message(10, &WasmRequest::Start(Box::new(run))));
    let header = |lengths: &[u64]| WasmInputHeader {
        name: "000001".into(),
        lengths: lengths.to_vec(),
    };
    let inputs = WasmRequest::Inputs(vec![header(&[3]), header(&[0, 2])]);
    add("wire", "wasm-inputs", message(10, &inputs));
    add("wire", "wasm-cancel", message(10, &WasmRequest::Cancel));
    add("wire", "wasm-accepted", message(11, &WasmReply::Accepted));
    let location = WasmLocation {
        function: "main".into(),
        function_index: 3,
        offset: 0x40,
    };
    let call = WasmCall {
        function: 26,
        result: -8,
        arguments: [1, 0x1000],
        time: 1000,
        bytes: 3,
    };
    let result = WasmResultHeader {
        index: 1,
        end: WasmEnd::Trap {
            kind: 8,
            location: Some(location),
        },
        output_bytes: 3,
        error_bytes: 0,
        calls: vec![call],
        lost_calls: 0,
    };
    add("wire", "wasm-result", message(11, &WasmReply::Result(Box::new(result))));
    let known = vec!["cpu".into(), "cuda0".into()];
    let refused = WasmReply::Refused(WasmRefusal::NoTarget { known });
    add("wire", "wasm-refused", message(11, &refused));
    let finished = WasmReply::Finished(WasmReport::default());
    add("wire", "wasm-finished", message(11, &finished));
    let failed = WasmReply::Failed("the worker process ended".into());
    add("wire", "wasm-failed", message(11, &failed));
}

/// Adds the seeds about live programs.
fn add_live(add: Add<'_>) {
    let request = LiveRequest {
        devices: vec!["cuda0".into(), "cuda1".into()],
        program: "vector_add".into(),
        process: 4000,
        recording: Some(LiveRecording { limit_bytes: 1 << 30 }),
        is_local: true,
    };
    let start = LiveCommand::Start(Box::new(request));
    add("wire", "live-start", message(12, &start));
    add("wire", "live-join", message(12, &LiveCommand::Join { token: [7; 32] }));
    add("wire", "live-finish", message(12, &LiveCommand::Finish));
    add("wire", "live-describe", message(12, &LiveCommand::Describe));
    let grant = LiveGrant {
        token: [7; 32],
        max_lanes: 8,
        local: Some(LocalWorker {
            path: b"/run/worker.sock".to_vec(),
            token: [9; 32],
        }),
        limits: LiveLimits {
            host_bytes: Some(4 << 30),
            device_bytes: Some(8 << 30),
            time_ms: None,
        },
        preface: vec![1, 2, 3],
    };
    let started = LiveReply::Started(Box::new(grant));
    add("wire", "live-started", message(13, &started));
    add("wire", "live-joined", message(13, &LiveReply::Joined { lane: 1 }));
    let (device, holder) = ("cuda0".to_owned(), "alice".to_owned());
    let refused = LiveReply::Refused(LiveRefusal::Busy {
        device,
        holder,
        since_s: 5,
    });
    add("wire", "live-refused", message(13, &refused));
    let ended = LiveReply::Ended {
        error: Some("the worker process ended".into()),
        report: vec![4, 5],
        recordings: vec![("vector_add.kine".into(), 4096)],
    };
    add("wire", "live-ended", message(13, &ended));
    let offer = LiveReply::Offer {
        devices: vec!["cuda0".into()],
        limits: LiveLimits::default(),
    };
    add("wire", "live-offer", message(13, &offer));
}

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    add("key_store", "two-peers", KEYS.into());
    add("key_store", "board", b"agent:board-1/mali-g71".to_vec());
    let preamble = Preamble::new(PreambleWord::Session).to_bytes().to_vec();
    add("wire", "preamble", [vec![0], preamble].concat());
    let info = plans::device();
    let state = DeviceState {
        info: info.clone(),
        holder: Some("a".into()),
        out_of_order: None,
    };
    let welcome = SessionReply::Welcome {
        program: "p".into(),
        you: "y".into(),
        devices: vec![state],
    };
    add("wire", "welcome", message(1, &welcome));
    let refused = SessionReply::Refused(SessionRefusal::NotPaired {
        fingerprint: "f".into(),
    });
    add("wire", "not-paired", message(1, &refused));
    let share = SessionReply::Refused(SessionRefusal::Share { max: 16 });
    add("wire", "share", message(1, &share));
    add("wire", "busy", message(2, &PairMessage::Busy));
    add("wire", "pair", message(2, &PairMessage::Nonce([7; 32])));
    let confirm = PairMessage::Confirm {
        accepted: true,
        service_port: Some(7117),
    };
    add("wire", "confirm", message(2, &confirm));
    add("wire", "lease", message(3, &LeaseRequest::Take("mali-g71".into())));
    add("wire", "uncontained", message(3, &LeaseRequest::WithoutContainment));
    add("wire", "accepted", message(4, &LeaseReply::Accepted));
    let take_as = LeaseRequest::TakeAs {
        device: "mali-g71".into(),
        options: LeaseOptions {
            priority: 1,
            is_preemptible: true,
        },
    };
    add("wire", "take-as", message(3, &take_as));
    let yielding = LeaseReply::Yielding {
        holder: "alice".into(),
        since_s: 3,
    };
    add("wire", "yielding", message(4, &yielding));
    let by_preemption = LeaseReply::GrantedByPreemption {
        info: Box::new(info.clone()),
        preempted: Preemption {
            holder: "alice".into(),
            waited_ns: 5,
        },
    };
    add("wire", "by-preemption", message(4, &by_preemption));
    add("wire", "preempted-offer", message(6, &PagesReply::Preempted));
    add("wire", "preempted-run", message(8, &RunReply::Preempted));
    let refused = RunReply::Uncontained { device: "d".into() };
    add("wire", "uncontained-run", message(8, &refused));
    add("wire", "granted", message(4, &LeaseReply::Granted(Box::new(info))));
    let part = |bytes| PlanPart { bytes, digest: [1; 32] };
    let offer = PagesRequest::Offer {
        head: part(5000),
        body: part(100),
    };
    add("wire", "offer", message(5, &offer));
    let parts = PagesRequest::Parts {
        head: vec![Step::Keep { first: 0, count: 2 }, Step::New { bytes: 40 }],
        body: vec![Step::New { bytes: 100 }],
    };
    add("wire", "parts", message(5, &parts));
    let lack_parts = PagesReply::LackParts {
        head: Some(Outline {
            log2: 8,
            digests: vec![1, 2, 3],
        }),
        body: None,
    };
    add("wire", "lack-parts", message(6, &lack_parts));
    add("wire", "lack", message(6, &PagesReply::LackPages(vec![(0, 3)])));
    if let Some((verified, refusal, outcome)) = plans::outcomes() {
        add("wire", "ready", message(6, &PagesReply::Ready(verified)));
        add("wire", "refused", message(6, &PagesReply::Refused(refusal)));
        let checkpoint = CheckpointRecord {
            run: [7; 32],
            next_job: 3,
            images: vec![[1; 32], [2; 32]],
            frames: vec![(5, 2), (6, 0), (9, 1)],
            outcome: outcome.clone(),
        };
        add(
            "checkpoint",
            "three-frames",
            trace_core::encode::to_bytes(&checkpoint).unwrap_or_default(),
        );
        let stopped = RunReply::Stopped {
            event: 7,
            outcome: Box::new(outcome.clone()),
            left: Some(Box::new(artifacts_header())),
            bulk: vec![10, 4096, 0, 64],
        };
        add("wire", "stopped", message(8, &stopped));
        let done = RunReply::Replayed {
            outcome: Box::new(outcome),
            left: Some(Box::new(artifacts_header())),
            bulk: vec![10, 4096, 0, 64],
        };
        add("wire", "done", message(8, &done));
    }
    // The events are two writes, a read, an interrupt and a page that the CPU wrote. The second write continues at the
    // end of the first, and the read is in another space.
    let events = [
        &[0x09, 0, 4, 1, 2, 3, 4][..],
        &[0x29, 2, 5, 6, 7, 8],
        &[0x10, 2, 3, 0x80, 1, 0xff],
        &[0x02, 7, 3],
        &[0x03, 1, 0x80, 0x80, 0x40, 64],
    ]
    .concat();
    add(
        "outcome",
        "events",
        material(&artifacts_header(), &events, &[0x5a; 4096]),
    );
    add("outcome", "nothing", material(&ArtifactsHeader::default(), &[], &[]));
    let start = |request| message(7, &RunRequest::Start(request));
    add("wire", "start", start(TargetRequest::Replay { repeat: 2 }));
    let with_stops = TargetRequest::ReplayWithStops { stops: vec![5, 9, 700] };
    add("wire", "start-with-stops", start(with_stops));
    add("wire", "start-without-reset", start(TargetRequest::ReplayWithoutReset));
    add("wire", "start-tune", start(TargetRequest::Tune(Box::default())));
    add(
        "wire",
        "start-trace",
        start(TargetRequest::TraceMemory(MemoryTraceRequest::default())),
    );
    add("wire", "tuned", message(8, &RunReply::Tuned(Box::default())));
    let (report, bytes) = (Box::default(), 64);
    add("wire", "traced", message(8, &RunReply::TracedMemory { report, bytes }));
    add("wire", "progress", message(8, &RunReply::Progress(5)));
    add_wasm(add);
    add_live(add);
    let piece = first_piece(Topic::Run, b"\0\0\0\0\x05\0\0\0")
        .map(|(p, _)| p)
        .unwrap_or_default();
    let length = (piece.len() as u16).to_le_bytes();
    add("wire", "frame", [vec![9], length.to_vec(), piece].concat());
}
