//! Tests with a kernel in memory: changes and their undo order, a failure at every step, and a killed recorder at every
//! step.

use super::*;
use crate::fake_kernel::FakeKernel;
use crate::plan::check;
use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixStream;
use tempfile::TempDir;
use trace_core::container;
use trace_core::recording::Hardware;

fn request(dir: &TempDir, device: &str, driver: Option<&str>, command: &[&str]) -> RecordRequest {
    RecordRequest {
        target: device.parse().unwrap(),
        driver: driver.map(str::to_owned),
        modules: Vec::new(),
        method: None,
        accessors: Vec::new(),
        functions: Vec::new(),
        command: command.iter().map(|c| (*c).to_owned()).collect(),
        output: dir.path().join("out.kine"),
        keep_log: false,
        limit: 1 << 30,
        buffer: None,
        settle: Duration::ZERO,
        force: false,
        run_folder: dir.path().join("run"),
        guard: None,
        tool: "test 1".into(),
    }
}

fn dir() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Returns the names of the files in a folder and in its run folder, except for the lock.
fn list_leftovers(dir: &TempDir) -> Vec<String> {
    let mut all = Vec::new();
    for folder in [dir.path().to_owned(), dir.path().join("run")] {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            all.push(entry.unwrap().file_name().to_string_lossy().into_owned());
        }
    }
    all.retain(|n| n != "run" && n != "record.lock");
    all.sort();
    all
}

/// Returns the state of the machine, except for the buffer size, which changes at the first use.
fn capture_state(kernel: &FakeKernel) -> std::collections::BTreeMap<String, String> {
    let mut all = kernel.list_visible();
    all.remove("/sys/kernel/tracing/buffer_size_kb");
    all
}

/// Asserts that the states of two machines are equal. The message lists the differences.
#[track_caller]
fn assert_same_state(
    now: &std::collections::BTreeMap<String, String>,
    before: &std::collections::BTreeMap<String, String>,
    context: &str,
) {
    let differences = |a: &std::collections::BTreeMap<String, String>,
                       b: &std::collections::BTreeMap<String, String>| {
        let all = a.iter().filter(|(k, v)| b.get(*k) != Some(v));
        all.map(|(k, v)| format!("{k}: {v}")).collect::<Vec<_>>()
    };
    assert_eq!(differences(now, before), differences(before, now), "{context}");
}

#[test]
fn unloaded_driver_is_recorded_and_changes_are_undone() {
    let (dir, kernel) = (dir(), FakeKernel::pc());
    let before = capture_state(&kernel);
    let request = request(&dir, "pci:1002:5159", Some("radeonfb"), &["sh", "-c", "exit 3"]);
    let summary = record(&kernel, &request, &StopRequest::default()).unwrap();
    assert_same_state(&capture_state(&kernel), &before, "");
    assert_eq!(
        (summary.capture.exit_code, summary.capture.cut.clone()),
        (Some(3), None)
    );
    assert_eq!(summary.notes, Vec::<String>::new());
    assert_eq!(list_leftovers(&dir), ["out.kine"]);
    let actions = kernel.take_actions();
    let tracing = "/sys/kernel/tracing";
    let at = |action: &str| {
        actions
            .iter()
            .position(|d| d == action)
            .unwrap_or_else(|| panic!("{action}: {actions:#?}"))
    };
    let order = [
        format!("100000 > {tracing}/buffer_size_kb"),
        format!("mkdir {tracing}/instances/kinescope"),
        format!("mmiotrace > {tracing}/current_tracer"),
        format!("open {tracing}/trace_pipe"),
        "0 > /sys/bus/pci/drivers_autoprobe".into(),
        "modprobe radeonfb".into(),
        "1 > /sys/bus/pci/drivers_autoprobe".into(),
        "0000:00:03.0 > /sys/bus/pci/drivers/radeonfb/bind".into(),
        "0000:00:03.0 > /sys/bus/pci/drivers/radeonfb/unbind".into(),
        "rmmod radeonfb".into(),
        "rmmod fb_ddc".into(),
        format!("nop > {tracing}/current_tracer"),
        format!("rmdir {tracing}/instances/kinescope"),
        format!("1408 > {tracing}/buffer_size_kb"),
        format!("-:kinescope/dma_alloc > {tracing}/kprobe_events"),
    ];
    assert!(order.iter().map(|o| at(o)).is_sorted(), "{actions:#?}");
    // The recording contains the accesses and the description of the machine.
    let r = container::open(&request.output).unwrap();
    let accesses: Vec<_> = r
        .events
        .accesses(0..r.events.len())
        .map(|(_, a)| (a.write, a.offset.get(), a.value))
        .collect();
    assert_eq!(accesses, [(false, 0x148, 0), (true, 0x50, 1)]);
    let identity = &r.metadata.identity;
    assert_eq!(
        (identity.driver.as_str(), identity.board.as_str()),
        ("radeonfb", "QEMU Standard PC")
    );
    assert_eq!(
        (identity.tool.as_str(), identity.source.as_str()),
        ("test 1 (mmiotrace 20070824)", "mmiotrace")
    );
    assert!(identity.when.ends_with('Z'));
    let Some(Hardware::Pci(f)) = r.hardware() else { panic!() };
    assert_eq!((f.class, f.bars.len()), (Some(0x03_0000), 3));
    let capture = r.metadata.capture.clone().unwrap();
    assert_eq!(capture, summary.capture);
    assert_eq!((capture.command.len(), capture.kernel.as_str()), (3, "6.1.0-56-amd64"));
    assert!(
        r.events.marks.iter().any(|m| m == "kinescope: run sh -c exit 3"),
        "{:?}",
        r.events.marks
    );
}

#[test]
fn final_display_content_becomes_the_expected_screen() {
    let (dir, mut kernel) = (dir(), FakeKernel::pc());
    kernel.put_link("/sys/class/graphics/fb0/device", "../../../0000:00:03.0");
    kernel.put("/sys/class/graphics/fb0/stride", "16\n");
    kernel.put_bytes("/dev/fb0", vec![3, 2, 1, 0, 6, 5, 4, 0, 9, 9, 9, 9, 9, 9, 9, 9]);
    let before = capture_state(&kernel);
    let mut request = request(&dir, "pci:1002:5159", Some("radeonfb"), &["true"]);
    request.keep_log = true;
    record(&kernel, &request, &StopRequest::default()).unwrap();
    assert_same_state(&capture_state(&kernel), &before, "");
    let actions = kernel.take_actions();
    let tracer = "nop > /sys/kernel/tracing/current_tracer";
    assert_eq!(actions.iter().filter(|d| *d == tracer).count(), 1, "{actions:#?}");
    let r = container::open(&request.output).unwrap();
    let shown = r.expected_screen().unwrap().unwrap();
    assert_eq!((shown.width(), shown.rgb()), (2, &[1, 2, 3, 4, 5, 6][..]));
    assert_eq!(list_leftovers(&dir), ["out.aux.txt", "out.kine", "out.ppm", "out.txt"]);
    // If a driver shows programs only a copy of the picture, the recording has no picture and a note about it.
    kernel.put("/sys/bus/pci/devices/0000:00:03.0/drm/card0", "");
    (request.keep_log, request.output) = (false, dir.path().join("other.kine"));
    let summary = record(&kernel, &request, &StopRequest::default()).unwrap();
    assert!(
        summary
            .capture
            .unobserved
            .iter()
            .any(|u| u == "the picture at the end: fb0 is only a copy of the picture that this driver shows"),
        "{summary:?}"
    );
    let r = container::open(&request.output).unwrap();
    assert_eq!(r.expected_screen(), Ok(None));
}

#[test]
fn bound_driver_is_rebound_and_its_accessors_are_recorded() {
    let (dir, kernel) = (dir(), FakeKernel::pc());
    let before = kernel.list_visible();
    let mut request = request(&dir, "pci:0000:00:04.0", None, &[]);
    (request.method, request.keep_log) = (Some(Method::Kprobes), true);
    let summary = record(&kernel, &request, &StopRequest::default()).unwrap();
    // Even the buffer size is unchanged, because the instance has its own buffer.
    assert_same_state(&kernel.list_visible(), &before, "");
    assert_eq!(
        (summary.capture.driver.as_str(), summary.capture.exit_code),
        ("igb", None)
    );
    assert_eq!(list_leftovers(&dir), ["out.kine", "out.resource.txt", "out.txt"]);
    assert_eq!(summary.log, Some(dir.path().join("out.txt")));
    let r = container::open(&request.output).unwrap();
    let accesses: Vec<_> = r
        .events
        .accesses(0..r.events.len())
        .map(|(_, a)| (a.write, a.offset.get(), a.value))
        .collect();
    assert_eq!(accesses, [(false, 0x18, 5)]);
    let Some(Hardware::Pci(f)) = r.hardware() else { panic!() };
    assert_eq!(
        (f.vendor, f.device, f.address.as_str()),
        (0x8086, 0x10c9, "0000:00:04.0")
    );
    // An existing log is reported before any change.
    kernel.take_actions();
    let why = record(&kernel, &request, &StopRequest::default())
        .unwrap_err()
        .to_string();
    assert!(why.contains("out.txt"), "{why}");
    assert_eq!(kernel.take_actions(), Vec::<String>::new());
}

/// After a failure of any step, the machine is restored, no files remain, and the next recording works.
#[test]
fn recorder_failure_at_any_step_restores_the_machine() {
    for (device, driver, with) in [
        ("pci:1002:5159", Some("radeonfb"), Method::Mmiotrace),
        ("pci:0000:00:04.0", None, Method::Kprobes),
    ] {
        let mut failed = 0;
        for step in 0.. {
            let (dir, kernel) = (dir(), FakeKernel::pc());
            let before = capture_state(&kernel);
            let mut request = request(&dir, device, driver, &["true"]);
            request.method = Some(with);
            kernel.fail_in(step);
            let result = record(&kernel, &request, &StopRequest::default());
            if !kernel.has_failed() {
                assert!(result.is_ok());
                assert!(step > 30, "{step} steps");
                break;
            }
            // The failed step can be an undo step, which the next recording repeats.
            if matches!(result, Err(RecordError::NotRestored(_))) {
                let again = record(&kernel, &request, &StopRequest::default());
                assert!(again.is_ok(), "{with}, step {step}: {result:?}, then {again:?}");
            } else if result.is_err() {
                failed += 1;
                assert_eq!(
                    list_leftovers(&dir),
                    Vec::<String>::new(),
                    "{with}, step {step}: {result:?}"
                );
            }
            assert_same_state(
                &capture_state(&kernel),
                &before,
                &format!("{with}, step {step}: {result:?}"),
            );
        }
        assert!(failed > 5, "{failed}");
    }
}

/// The next reader of a journal that ends at any step undoes its changes. A second undo does nothing.
#[test]
fn changes_of_a_recorder_killed_at_any_step_are_undone() {
    for step in 0..40 {
        let (dir, kernel) = (dir(), FakeKernel::pc());
        let before = capture_state(&kernel);
        let request = request(&dir, "pci:1002:5159", Some("radeonfb"), &[]);
        let plan = Plan::prepare(&kernel, &request, "/sys/kernel/tracing").unwrap();
        let lock = Lock::acquire(&request.run_folder).unwrap();
        let job = build_job(&kernel, &request, &plan).unwrap();
        std::fs::create_dir(&job.folder).unwrap();
        let mut journal = Journal::begin(&request.run_folder, job, &kernel).unwrap();
        kernel.fail_in(step);
        let mut session = Session {
            kernel: &kernel,
            request: &request,
            plan: &plan,
            journal: &mut journal,
            instructions: Vec::new(),
            probed_functions: Vec::new(),
            tracer: None,
        };
        // The recorder ends in the middle of this step, without its cleanup.
        let _ = session.run(&StopRequest::default());
        kernel.fail_in(usize::MAX);
        drop(journal);
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours.try_clone().unwrap());
        drop(ours);
        let result = guard::watch(theirs, &kernel, &request.run_folder);
        // The guard cannot report that it is ready to a recorder that has ended.
        let messages = result
            .or_else(|_| guard::recover(&kernel, &request.run_folder, "it was killed"))
            .unwrap();
        assert_same_state(&capture_state(&kernel), &before, &format!("step {step}: {messages:?}"));
        assert_eq!(
            guard::recover(&kernel, &request.run_folder, "").unwrap(),
            Vec::<String>::new()
        );
        drop(lock);
        let summary = record(&kernel, &request, &StopRequest::default()).unwrap();
        assert_eq!(summary.notes, Vec::<String>::new(), "step {step}");
    }
}

#[test]
fn trace_of_a_killed_recorder_becomes_a_marked_recording() {
    let (dir, kernel) = (dir(), FakeKernel::pc());
    let before = capture_state(&kernel);
    let request = request(&dir, "pci:1002:5159", Some("radeonfb"), &[]);
    let plan = Plan::prepare(&kernel, &request, "/sys/kernel/tracing").unwrap();
    let _lock = Lock::acquire(&request.run_folder).unwrap();
    let job = build_job(&kernel, &request, &plan).unwrap();
    std::fs::create_dir(&job.folder).unwrap();
    let mut journal = Journal::begin(&request.run_folder, job, &kernel).unwrap();
    let mut session = Session {
        kernel: &kernel,
        request: &request,
        plan: &plan,
        journal: &mut journal,
        instructions: Vec::new(),
        probed_functions: Vec::new(),
        tracer: None,
    };
    session.add_probes().unwrap();
    // The reader threads end with a killed recorder, so this test ends them.
    drop(session.start_trace().unwrap());
    session
        .bind_and_run(&StopRequest::default(), &mut Capture::default())
        .unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let started = find_start_time(&kernel, child.id()).unwrap();
    let change = Change::Process {
        pid: child.id(),
        started,
    };
    journal.apply(change, || Ok(())).unwrap();
    drop(journal);
    let (ours, theirs) = UnixStream::pair().unwrap();
    let messages = std::thread::scope(|s| {
        let guard = s.spawn(|| guard::watch(theirs, &kernel, &request.run_folder).unwrap());
        // The command is a child of this test. A zombie counts as ended, so the wait for it can begin at any time.
        let ended = s.spawn(move || child.wait().unwrap());
        let mut line = String::new();
        BufReader::new(&ours).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        // The socket of a killed recorder closes without a message.
        drop(ours);
        ended.join().unwrap();
        guard.join().unwrap()
    });
    assert!(messages[0].contains("the recorder was killed"), "{messages:?}");
    assert_same_state(&capture_state(&kernel), &before, "");
    assert_eq!(list_leftovers(&dir), ["out.kine"]);
    let r = container::open(&request.output).unwrap();
    assert_eq!(r.events.accesses(0..r.events.len()).count(), 2);
    assert_eq!(
        r.metadata.capture.clone().unwrap().cut.unwrap(),
        "the recorder was killed while the trace was on"
    );
    let lost = r.metadata.lost.last().unwrap();
    assert_eq!(
        (lost.count, lost.reason.as_str()),
        (None, "the recorder was killed while the trace was on")
    );
}

#[test]
fn recorder_journal_is_not_undone_after_a_reboot() {
    let (dir, mut kernel) = (dir(), FakeKernel::pc());
    let request = request(&dir, "pci:1002:5159", Some("radeonfb"), &[]);
    let plan = Plan::prepare(&kernel, &request, "/sys/kernel/tracing").unwrap();
    let _lock = Lock::acquire(&request.run_folder).unwrap();
    let job = build_job(&kernel, &request, &plan).unwrap();
    let mut journal = Journal::begin(&request.run_folder, job, &kernel).unwrap();
    let change = Change::Written {
        path: "/sys/kernel/tracing/tracing_on".into(),
        before: "0".into(),
    };
    journal.apply(change, || Ok(())).unwrap();
    drop(journal);
    kernel.put("/proc/sys/kernel/random/boot_id", "two\n");
    guard::recover(&kernel, &request.run_folder, "it was killed").unwrap();
    assert_eq!(kernel.take_actions(), Vec::<String>::new());
    assert_eq!(list_leftovers(&dir), Vec::<String>::new());
}

#[test]
fn record_errors_explain_the_remedy() {
    let why = |kernel: &FakeKernel, request: &RecordRequest| {
        let why = record(kernel, request, &StopRequest::default())
            .unwrap_err()
            .to_string();
        assert!(!why.contains('\n'), "{why}");
        why
    };
    let (dir, mut kernel) = (dir(), FakeKernel::pc());
    let before = capture_state(&kernel);
    let rv100 = |driver, command: &[&str]| request(&dir, "pci:1002:5159", driver, command);
    assert!(why(&FakeKernel::default(), &rv100(None, &[])).contains("mount -t tracefs"));
    let report = why(&kernel, &rv100(None, &[]));
    assert!(
        report.contains("several drivers match it: radeon, radeonfb; choose one with --driver NAME"),
        "{report}"
    );
    let report = why(&kernel, &rv100(Some("nouveau"), &[]));
    assert!(report.contains("there is no driver `nouveau`"), "{report}");
    let report = why(&kernel, &rv100(Some("radeonfb"), &["no-such-command"]));
    assert!(
        report.contains("no folder of PATH") && report.contains("nothing was changed"),
        "{report}"
    );
    kernel.refuse("radeonfb");
    let report = why(&kernel, &rv100(Some("radeonfb"), &[]));
    assert!(
        report.contains("the driver radeonfb did not bind to it") && report.contains("dmesg"),
        "{report}"
    );
    assert_same_state(&capture_state(&kernel), &before, "");
    let mut missing_folder = rv100(Some("radeonfb"), &[]);
    missing_folder.output = dir.path().join("no/such/out.kine");
    assert!(why(&kernel, &missing_folder).contains("no/such"));
    kernel.put("/sys/kernel/tracing/current_tracer", "function_graph\n");
    let report = why(&kernel, &rv100(Some("radeonfb"), &[]));
    assert!(
        report.contains("echo nop > /sys/kernel/tracing/current_tracer"),
        "{report}"
    );
    let lock = Lock::acquire(&dir.path().join("run")).unwrap();
    assert!(why(&kernel, &rv100(Some("radeonfb"), &[])).contains("another recording is running"));
    drop(lock);
    let (lines, abilities) = check(&kernel, &"pci:1002:5159".parse().unwrap(), Some("radeonfb"), &[], &[]).unwrap();
    assert!(
        lines[0].starts_with("0000:00:03.0 (1002:5159), on QEMU Standard PC"),
        "{lines:?}"
    );
    assert_eq!(abilities.iter().filter(|a| a.availability.is_ok()).count(), 1);
}

#[test]
fn invalid_recorder_journal_is_refused_with_its_line() {
    let parse_error = |text: &str| crate::journal::parse(text.as_bytes()).unwrap_err();
    let first = "{\"line\":\"recording\",\"version\":1,\"boot\":\"\",\"job\":{\"output\":\"\",\"folder\":\"\",\"keep_log\":false,\
                 \"hardware\":null,\"board\":\"\",\"tool\":\"\",\"when\":\"\",\"capture\":{},\"traces\":[]}}\n";
    assert_eq!(crate::journal::parse(first.as_bytes()).unwrap().changes, []);
    // The change of an incomplete line did not happen.
    assert!(crate::journal::parse(&[first.as_bytes(), b"{\"line\":\"chan"].concat()).is_ok());
    assert!(crate::journal::parse(b"").unwrap().changes.is_empty());
    assert_eq!(
        parse_error("{\"line\":\"undone\",\"number\":0}\n"),
        (1, "out of place".into())
    );
    assert_eq!(
        parse_error(&format!("{first}{{\"line\":\"undone\",\"number\":0}}\n")),
        (2, "there is no change 0".into())
    );
    assert_eq!(parse_error(&first.replace("version\":1", "version\":9")).0, 1);
    assert_eq!(parse_error(&format!("{first}x\n")).0, 2);
}
