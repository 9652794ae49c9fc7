//! Tests of API trace plans: compiling, verifying, pushing to a device in this process, and outcomes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "tests fail in these ways"
)]

use replay_cuda::{
    ApiOptions, ComparisonRules, CudaReplayDevice, CudaSupport, CudaTargets, PlanRecording, Script, Step,
    WorkerProcesses, compare_outputs, compile, verify,
};
use replay_engine::client::targets::Factories;
use replay_engine::client::{ClientError, Lease};
use replay_engine::device::{Containment, DeviceInfo, DeviceInterface, Target as _};
use replay_engine::plan::{CompileError, Compiled, Edits, Plan, PlanBody, RegisterPlan};
use replay_engine::run::Verdict;
use replay_engine::target::{ApiSupport as _, TargetRequest};
use replay_engine::tune::TuneRequest;
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};
use trace_core::GpuVa;
use trace_core::progress::Progress;
use trace_core::recording::{
    AllocationKind, AllocationRow, Api, ApiTraceMetadata, CallFunction, CallModule, CallRow, CallStream, CallWindow,
    CodeKind, CopyKind, CopyRow, EventsBuilder, LaunchRow, MemoryBuilder, OrderKind, OrderRow, Recording, TraceKind,
};

const BASE: u64 = 0x1539_4000_0000;

/// Returns a program: memory, a copy in of 6000 bytes, a launch, a copy out of 5000 bytes, and a failed call.
fn recording() -> Recording {
    let mut memory = MemoryBuilder::new();
    let mut events = EventsBuilder::new();
    let mut content = |events: &mut EventsBuilder, phase: usize, bytes: &[u8]| {
        let mut padded = vec![0; phase];
        padded.extend_from_slice(bytes);
        padded.resize(padded.len().next_multiple_of(4096), 0);
        let ids: Vec<u32> = padded
            .chunks_exact(4096)
            .map(|p| memory.add_page(p.try_into().unwrap()).0)
            .collect();
        (events.call_pages(&ids), ids)
    };
    let (_, code) = content(&mut EventsBuilder::new(), 0, b".version 7.0\n// twice the input");
    events.allocation(
        1,
        7,
        AllocationRow {
            at: GpuVa::new(BASE),
            bytes: 64 << 10,
            kind: AllocationKind::Take as u32,
            stream: OrderRow::NONE,
            ..Default::default()
        },
    );
    let (pages_at, _) = content(&mut events, 256, &input(1));
    events.copy(
        2,
        7,
        CopyRow {
            to: BASE + 256,
            bytes: 6000,
            rows: 1,
            kind: CopyKind::HostToDevice as u32,
            pages_at,
            ..Default::default()
        },
    );
    let mut failed = CallRow {
        result: 700,
        ..Default::default()
    };
    failed.arguments_at = events.call_bytes(&[1, 2]);
    failed.arguments = 2;
    events.call(3, 7, failed);
    let arguments_at = events.call_bytes(&BASE.to_le_bytes());
    events.launch(
        4,
        8,
        LaunchRow {
            arguments_at,
            arguments: 8,
            grid: [4, 1, 1],
            block: [64, 1, 1],
            ..Default::default()
        },
    );
    events.order(
        5,
        8,
        OrderRow {
            kind: OrderKind::ContextDone as u32,
            stream: OrderRow::NONE,
            event: OrderRow::NONE,
            ..Default::default()
        },
    );
    let (pages_at, _) = content(&mut events, 0, &[9; 5000]);
    events.copy(
        6,
        7,
        CopyRow {
            from: BASE + 8192,
            bytes: 5000,
            rows: 1,
            kind: CopyKind::DeviceToHost as u32,
            pages_at,
            ..Default::default()
        },
    );
    let metadata = ApiTraceMetadata {
        api: Api::Cuda,
        names: vec!["cuStreamQuery".into()],
        window: CallWindow {
            base: GpuVa::new(BASE),
            bytes: 1 << 40,
        },
        modules: vec![CallModule {
            kind: CodeKind::Ptx,
            bytes: 31,
            pages: vec![[code[0], 1]],
            ..Default::default()
        }],
        functions: vec![CallFunction {
            name: "twice".into(),
            module: Some(0),
            ..Default::default()
        }],
        streams: vec![CallStream::default()],
        ..Default::default()
    };
    let mut r = Recording {
        events: events.finish(),
        memory: memory.finish(),
        ..Default::default()
    };
    r.metadata.kind = TraceKind::Api(metadata);
    r
}

/// Waits until `done` returns true. Fails if the test hangs.
fn until(condition: &str, mut done: impl FnMut() -> bool) {
    let by = Instant::now() + Duration::from_secs(120);
    while !done() {
        assert!(Instant::now() < by, "timed out waiting for {condition}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn input(seed: u8) -> Vec<u8> {
    (0..6000u32).map(|n| (n as u8).wrapping_mul(seed)).collect()
}

fn missing_worker() -> Command {
    Command::new("/nowhere/player")
}

fn device() -> DeviceInfo {
    CudaReplayDevice::new(0, "A device", Arc::new(WorkerProcesses::new(missing_worker))).info()
}

fn compile_edits(edits: &Edits) -> Compiled {
    compile(&recording(), edits, &device(), &ApiOptions::default(), &Progress::new()).unwrap()
}

#[test]
fn call_plan_has_inputs_and_code_but_no_readbacks() {
    let compiled = compile_edits(&Edits::default());
    let plan = &compiled.plan;
    assert_eq!(plan.actions, 5, "all calls except the failed one");
    assert_eq!(plan.outputs.len(), 1);
    assert_eq!((plan.outputs[0].name.as_str(), plan.outputs[0].bytes), ("out0", 5000));
    // The images are two pages of the input and one of code. Readbacks are not among them.
    assert_eq!(plan.images.len(), 3);
    assert!(compiled.pages.values().all(|p| p[100] != 9));
    let verified = verify(plan, &device()).unwrap();
    assert_eq!(verified.report().jobs, 1);
    let plan_recording = PlanRecording::new(plan.planned_calls().unwrap(), &compiled.pages).unwrap();
    let script = plan_recording.script().unwrap();
    let events: Vec<u64> = script.steps.iter().map(|(e, _)| *e).collect();
    assert_eq!(events, [1, 3, 4, 5], "steps have the events of the recording");
    assert_eq!(
        plan_recording.recording.copy_content(&script.inputs[0].row).unwrap(),
        input(1)
    );
    let Step::Launch(row, arguments) = &script.steps[1].1 else {
        panic!()
    };
    assert_eq!((row.grid, arguments.as_slice()), ([4, 1, 1], &BASE.to_le_bytes()[..]));
    assert_eq!(
        plan_recording
            .recording
            .module_code(&script.metadata.modules[0])
            .unwrap(),
        b".version 7.0\n// twice the input"
    );
    // The plan is read back from its bytes.
    let whole = Compiled::from_bytes(&compiled.to_bytes().unwrap()).unwrap();
    assert_eq!(whole.plan, compiled.plan);
    assert_eq!(whole.pages, compiled.pages);
    // The worker process reads the plan from the same bytes.
    let parsed = PlanRecording::from_plan_bytes(compiled.to_bytes().unwrap()).unwrap();
    assert_eq!(parsed.events, plan_recording.events);
    let again = parsed.script().unwrap();
    assert_eq!(parsed.recording.copy_content(&again.inputs[0].row).unwrap(), input(1));
    assert_eq!(
        parsed.recording.module_code(&again.metadata.modules[0]).unwrap(),
        b".version 7.0\n// twice the input"
    );
    let cut = compiled.to_bytes().unwrap();
    assert!(PlanRecording::from_plan_bytes(cut[..cut.len() - 1].to_vec()).is_err());
    assert!(PlanRecording::from_plan_bytes(cut[..20].to_vec()).is_err());
}

#[test]
fn user_input_replaces_the_recorded_input() {
    let edits = Edits {
        inputs: BTreeMap::from([("in0".to_owned(), input(3))]),
        ..Edits::default()
    };
    let compiled = compile_edits(&edits);
    let plan_recording = PlanRecording::new(compiled.plan.planned_calls().unwrap(), &compiled.pages).unwrap();
    let script = plan_recording.script().unwrap();
    assert_eq!(
        plan_recording.recording.copy_content(&script.inputs[0].row).unwrap(),
        input(3)
    );
    assert!(
        compiled
            .plan
            .rewrites
            .iter()
            .any(|r| r.detail.starts_with("in0: 6000 bytes"))
    );
    let wrong = |name: &str, bytes| {
        let edits = Edits {
            inputs: BTreeMap::from([(name.to_owned(), vec![0; bytes])]),
            ..Edits::default()
        };
        let result = compile(
            &recording(),
            &edits,
            &device(),
            &ApiOptions::default(),
            &Progress::new(),
        );
        result.unwrap_err().to_string()
    };
    assert_eq!(wrong("in0", 5), "input in0: it has 5 bytes, the buffer has 6000");
    assert_eq!(
        wrong("in7", 5),
        "there is no input 'in7' in the recording (there are in0)"
    );
}

#[test]
fn call_and_register_recordings_need_their_own_targets() {
    let registers = DeviceInfo {
        name: "mali".into(),
        containment: Containment::Software,
        interface: DeviceInterface::Registers,
        ..device()
    };
    let made_for = |info: &DeviceInfo, r: &Recording| {
        compile(r, &Edits::default(), info, &ApiOptions::default(), &Progress::new())
    };
    let e = made_for(&registers, &recording()).unwrap_err();
    assert!(matches!(e, CompileError::TakesNoCalls { .. }), "{e}");
    let e = made_for(&device(), &Recording::default()).unwrap_err();
    assert!(e.to_string().contains("not an API trace of CUDA"), "{e}");
    let compiled = compile_edits(&Edits::default());
    let e = verify(&compiled.plan, &registers).unwrap_err();
    assert!(e.to_string().contains("runs register accesses"), "{e}");
    let e = verify(&Plan::new(PlanBody::Registers(RegisterPlan::default())), &device()).unwrap_err();
    assert!(e.to_string().contains("runs driver calls"), "{e}");
}

#[test]
fn invalid_api_trace_plans_are_refused() {
    let whole = compile_edits(&Edits::default());
    let refused = |change: &dyn Fn(&mut Plan), words: &str| {
        let mut plan = whole.plan.clone();
        change(&mut plan);
        let e = verify(&plan, &device()).unwrap_err().to_string();
        assert!(e.contains(words), "{e} ({words})");
    };
    refused(&|p| p.budgets.pages = 1, "pages");
    refused(&|p| p.actions = 4, "the envelope says 4");
    refused(&|p| p.outputs[0].bytes = 1, "the plan declares 1 bytes");
    refused(&|p| p.outputs[0].name = "out9".into(), "no such output");
    refused(&|p| p.images.truncate(2), "image");
    refused(
        &|p| {
            let first = p.images[0];
            p.images[1] = first;
        },
        "named twice",
    );
    refused(
        &|p| {
            let calls = p.api_mut().unwrap();
            let cut = calls.body.len() - 3;
            calls.body = calls.body[..cut].to_vec().into();
        },
        "bytes are expected",
    );
    refused(
        &|p| p.api_mut().unwrap().metadata.modules[0].pages = vec![[3, 9]],
        "not among the plan's images",
    );
    refused(
        &|p| p.api_mut().unwrap().metadata.api = Api::Unknown("hip".into()),
        "'hip'",
    );
    let tuning = TargetRequest::Tune(Box::new(TuneRequest {
        event: 1,
        ..TuneRequest::default()
    }));
    let plan = whole.plan.planned_calls().unwrap();
    let e = CudaSupport.check_request(plan, &tuning).unwrap_err().to_string();
    assert!(e.contains("event 1 is not a launch"), "{e}");
}

/// Opens a device whose worker process is a shell script. The script has the request as `$request` and sends the reply.
fn open_target(script: &str) -> Lease {
    let script = format!(
        "request=$(cat); folder=$(printf %s \"$request\" | sed 's/.*\"outputs\":\"\\([^\"]*\\)\".*/\\1/'); {script}"
    );
    let worker = move || {
        let mut c = Command::new("sh");
        c.args(["-c", &script]);
        c
    };
    Factories::new()
        .with_cuda(Arc::new(CudaTargets::external(Arc::new(WorkerProcesses::new(worker)))))
        .open_cuda(0)
        .unwrap()
}

fn compiled(device: &DeviceInfo) -> Compiled {
    compile(
        &recording(),
        &Edits::default(),
        device,
        &ApiOptions::default(),
        &Progress::new(),
    )
    .unwrap()
}

fn replay_recording(lease: &mut Lease) -> replay_engine::run::Outcome {
    let compiled = compiled(lease.info());
    let mut outcome = lease.replay(&compiled, 2, &Progress::new(), false).unwrap();
    compare_outputs(&mut outcome, &recording(), &ComparisonRules::default());
    outcome
}

const ANSWER: &str = r#"{"played":{"device":"A device","launches":1,"outputs":[{"event":5,"name":"out0","bytes":5000,"blake3":"","held":false,"differs_at":null,"differing":0,"largest":null}],"ready_ns":5,"runs_ns":[7,8],"restored":[3],"mapped":2097152,"left_out":[]}}"#;

#[test]
fn readbacks_are_compared_and_stored_in_the_outcome() {
    let same = format!("head -c 5000 /dev/zero | tr '\\0' '\\011' >$folder/0.bin; echo '{ANSWER}'");
    let outcome = replay_recording(&mut open_target(&same));
    assert_eq!(outcome.failure, None);
    assert_eq!((outcome.verdict, outcome.computed), (Verdict::Match, true));
    assert_eq!((outcome.reads.compared, outcome.reads.matched), (1, 1));
    assert_eq!(outcome.timing.runs_ns, [7, 8]);
    assert_eq!(outcome.api().unwrap().restored, [3]);
    let back = {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("o.kine");
        std::fs::write(&path, &outcome.recording).unwrap();
        assert_eq!(trace_core::container::verify(&path).unwrap().findings, vec![]);
        trace_core::container::open(&path).unwrap()
    };
    assert_eq!(back.metadata.identity.source, "outcome");
    let script = Script::new(&back).unwrap();
    assert_eq!(back.copy_content(&script.outputs[0].row).unwrap(), [9; 5000]);
    assert_eq!(back.copy_content(&script.inputs[0].row).unwrap(), input(1));

    let other = format!("head -c 5000 /dev/zero >$folder/0.bin; echo '{ANSWER}'");
    let outcome = replay_recording(&mut open_target(&other));
    assert_eq!(outcome.verdict, Verdict::Diverged);
    let seen = &outcome.api().unwrap().outputs[0];
    assert_eq!((seen.differs_at, seen.differing, seen.event), (Some(0), 5000, 5));
    assert_eq!(outcome.divergences[0].register, "out0 at byte 0");
}

#[test]
fn device_stop_or_worker_death_gives_a_failed_outcome() {
    let outcome = replay_recording(&mut open_target(
        r#"echo '{"stopped":{"event":3,"why":"cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)"}}'"#,
    ));
    assert_eq!(outcome.verdict, Verdict::Failed);
    assert_eq!(
        outcome.failure.as_deref(),
        Some("launch of twice, event 3: cuCtxSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)")
    );
    let back = trace_core::container::open(
        {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.keep().join("o.kine");
            std::fs::write(&path, &outcome.recording).unwrap();
            path
        }
        .as_path(),
    )
    .unwrap();
    assert_eq!(back.events.len(), 3, "the outcome has the events before the stop");
    let outcome = replay_recording(&mut open_target("kill -9 $$"));
    assert_eq!(outcome.verdict, Verdict::Failed);
    assert!(outcome.failure.as_ref().unwrap().contains("signal: 9"), "{outcome:?}");
    let outcome = replay_recording(&mut open_target(r#"echo '{"failed":"there is no CUDA driver here"}'"#));
    assert_eq!(outcome.failure.as_deref(), Some("there is no CUDA driver here"));
    // The device is available for the next replay.
    let mut lease = open_target("exit 0");
    assert_eq!(replay_recording(&mut lease).verdict, Verdict::Failed);
    assert_eq!(replay_recording(&mut lease).verdict, Verdict::Failed);
}

#[test]
fn endless_launch_is_named_and_its_worker_killed() {
    // Without waits the script hangs. With waits it reports the launch that it is about to start.
    let mut lease = open_target(r#"case $request in *'"step":true'*) echo '{"at":3}';; esac; exec sleep 600"#);
    let mut compiled = compile(
        &recording(),
        &Edits::default(),
        lease.info(),
        &ApiOptions::default(),
        &Progress::new(),
    )
    .unwrap();
    compiled.plan.budgets.time_ns = 1_000_000_000;
    let outcome = lease.replay(&compiled, 1, &Progress::new(), false).unwrap();
    let stopped = outcome.api().unwrap().stopped.clone().unwrap();
    assert_eq!((stopped.event, stopped.function.as_deref()), (Some(3), Some("twice")));
    assert!(stopped.why.contains("longer than 1 s"), "{}", stopped.why);
}

#[test]
fn cancelled_replay_ends_its_worker() {
    let folder = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let mut lease = open_target(&format!("echo $$ >{}; exec sleep 3600", started.display()));
    let compiled = compile(
        &recording(),
        &Edits::default(),
        lease.info(),
        &ApiOptions::default(),
        &Progress::new(),
    )
    .unwrap();
    let progress = Progress::new();
    let other = progress.clone();
    let cancel = std::thread::spawn(move || {
        let mut process = String::new();
        until("the process to start", || {
            process = std::fs::read_to_string(&started).unwrap_or_default();
            process.ends_with('\n')
        });
        other.cancel();
        process.trim_end().to_owned()
    });
    let e = lease.replay(&compiled, 1, &progress, false).unwrap_err();
    assert!(matches!(e, ClientError::Cancelled), "{e}");
    let process = cancel.join().unwrap();
    // An ended process has no command line, even before its parent has waited for it.
    until("the process to end", || {
        std::fs::read(format!("/proc/{process}/cmdline")).map_or(true, |line| line.is_empty())
    });
}

/// Returns targets whose worker process logs each start with its device, and then runs `answer`.
fn targets_with_log(notes: &std::path::Path, answer: &str) -> Factories {
    let script = format!(
        "echo \"${{KINESCOPE_CUDA_AHEAD:-none}}\" >>{}; request=$(cat); test -n \"$request\" || exit 0; \
         folder=$(printf %s \"$request\" | sed 's/.*\"outputs\":\"\\([^\"]*\\)\".*/\\1/'); \
         head -c 5000 /dev/zero | tr '\\0' '\\011' >$folder/0.bin; {answer}",
        notes.display()
    );
    let command = move || {
        let mut c = Command::new("sh");
        c.args(["-c", &script]);
        c
    };
    Factories::new().with_cuda(Arc::new(CudaTargets::external(Arc::new(WorkerProcesses::new(command)))))
}

#[test]
fn prestarted_worker_runs_the_replay() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let targets = targets_with_log(&notes, &format!("echo '{ANSWER}'"));
    targets.prestart_worker("software:mali-g71");
    targets.prestart_worker("agent:lab/cuda0");
    targets.prestart_worker("cuda:0");
    targets.prestart_worker("cuda:0");
    let mut lease = targets.open_cuda(0).unwrap();
    assert_eq!(replay_recording(&mut lease).verdict, Verdict::Match);
    assert_eq!(
        std::fs::read_to_string(&notes).unwrap(),
        "0,120\n",
        "exactly one process was prestarted"
    );
    // The next replay starts a new worker. A worker that was prestarted for another device is not used.
    assert_eq!(replay_recording(&mut lease).verdict, Verdict::Match);
    targets.prestart_worker("cuda:1");
    assert_eq!(replay_recording(&mut lease).verdict, Verdict::Match);
    let all = std::fs::read_to_string(&notes).unwrap();
    assert_eq!(all.lines().filter(|l| *l == "none").count(), 2, "{all}");
}

#[test]
fn worker_without_the_recorded_addresses_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    let taken = r#"{"addresses-taken":"the addresses are not free"}"#;
    let answer = format!(
        "if [ $(wc -l <{}) -lt 3 ]; then echo '{taken}'; else echo '{ANSWER}'; fi",
        notes.display()
    );
    let mut lease = targets_with_log(&notes, &answer).open_cuda(0).unwrap();
    assert_eq!(replay_recording(&mut lease).verdict, Verdict::Match);
    let count = || std::fs::read_to_string(&notes).unwrap().lines().count();
    assert_eq!(count(), 3, "the third process has them free");

    let mut lease = targets_with_log(&notes, &format!("echo '{taken}'"))
        .open_cuda(0)
        .unwrap();
    let before = count();
    let failure = replay_recording(&mut lease).failure.unwrap();
    assert!(failure.contains("the addresses are not free"), "{failure}");
    assert_eq!(count() - before, 4, "the number of processes is limited");
}

#[test]
fn reply_is_used_at_once_and_the_next_replay_awaits_the_exit() {
    let folder = tempfile::tempdir().unwrap();
    let (notes, end) = (folder.path().join("notes"), folder.path().join("end"));
    let targets = targets_with_log(
        &notes,
        &format!("echo '{ANSWER}'; sleep 1; echo ended >>{}", end.display()),
    );
    let mut lease = targets.open_cuda(0).unwrap();
    assert_eq!(replay_recording(&mut lease).verdict, Verdict::Match);
    assert!(!end.exists(), "the worker must still be running");
    assert_eq!(replay_recording(&mut lease).verdict, Verdict::Match);
    assert_eq!(
        std::fs::read_to_string(&end).unwrap(),
        "ended\n",
        "only the first worker has ended"
    );
}

#[test]
fn unrecorded_lease_returns_outputs_without_a_recording() {
    let mut lease = open_target(&format!("head -c 5000 /dev/zero >$folder/0.bin; echo '{ANSWER}'"));
    lease.leave_unrecorded();
    let outcome = replay_recording(&mut lease);
    assert_eq!((outcome.verdict, outcome.recording.len()), (Verdict::Diverged, 0));
    assert_eq!(outcome.outputs[0].data, [0; 5000]);
}
