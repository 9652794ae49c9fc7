//! The live recorder with a small client of the render node instead of Mesa: results of the client, and the content of
//! the recording. The client checks its replies and the results of its jobs itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use trace_core::recording::{EventKind, FrameRole};
use trace_core::registers::RegisterMap;
use trace_core::{GpuVa, Recording, mmu, timeline};
use whole_program_tests::{ProgramOutput, program, root, run};

/// Runs a scene of the client under the recorder on a simulator. Writes the recording to a file.
fn record_on(target: &str, to: &Path, scene: &[&str]) -> ProgramOutput {
    let client = program("panfrost-client");
    let mut arguments = vec!["record", "--with", "panfrost", "--no-mesa", "--on", target, "-o"];
    let (to, client) = (to.to_str().unwrap(), client.to_str().unwrap());
    arguments.extend([to, "--", client]);
    arguments.extend(scene);
    run(arguments)
}

/// Records a scene on a Mali-G71. Returns the recording.
fn record(scene: &str, expected: i32) -> (Recording, ProgramOutput, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("live.kine");
    let ended = record_on("software:mali-g71", &file, &[scene]);
    assert_eq!(ended.code, Some(expected), "{ended:?}");
    assert_eq!(names(dir.path()), ["live.kine"], "{ended:?}");
    (trace_core::container::open(&file).unwrap(), ended, dir)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn jobs(r: &Recording) -> usize {
    let map = RegisterMap::for_gpu(r.metadata.identity.gpu_id).unwrap();
    timeline::derive(r, map, &Default::default()).unwrap().jobs.len()
}

/// Reads a 64-bit word of the first address space at the end of the recording.
fn word(r: &Recording, va: u64) -> u64 {
    let (space, view) = (&r.metadata.address_spaces[0], r.memory.last());
    let va = GpuVa::new(va);
    let at = mmu::translate(space.format, space.root, va, &view)
        .unwrap()
        .target(va)
        .unwrap();
    view.read_u64(at).unwrap()
}

#[test]
fn live_recorder_serves_and_records_a_program() {
    let (r, ended, dir) = record("work", 0);
    assert!(ended.out.contains("product 0x6000"), "{ended:?}");
    assert!(ended.err.contains("live.kine: 2 jobs"), "{ended:?}");
    let id = &r.metadata.identity;
    assert_eq!((id.gpu_id, id.gpu_name.as_str()), (0x60a0_0002, "Mali-G71"));
    assert_eq!((id.source.as_str(), id.board.as_str()), ("panfrost-live", "mali-g71"));
    assert!(id.tool.ends_with(": panfrost-client"), "{}", id.tool);
    assert!(id.when.ends_with('Z') && id.when.len() == 20, "{}", id.when);
    assert!(r.metadata.lost.is_empty());
    assert_eq!(jobs(&r), 2);

    // The recording has the names that the program gave, with their addresses and final content.
    let results = r.buffer("results").unwrap();
    assert_eq!(
        (results.role.name(), results.element.name(), results.bytes),
        ("output", "u64", 64)
    );
    let words = [0, 8, 16, 24].map(|at| word(&r, results.va.get() + at));
    assert_eq!(words, [0x1111, 7, 0x3333, 0xa5a5_a5a5_a5a5_a5a5]);
    let given = r.buffer("given").unwrap();
    assert_eq!(given.va.get(), results.va.get() + 4096);
    assert_eq!(r.metadata.buffer_shapes["results"], [8]);

    // The recording distinguishes writes of the program between submits from writes of jobs. The program writes one
    // word of a page that a job writes too, one word of another page, and the new chain.
    let written: Vec<_> = (0..r.events.len()).filter_map(|e| r.events.host_write(e)).collect();
    assert!(!written.is_empty());
    let role = |frame: u64| {
        r.memory
            .last()
            .runs()
            .iter()
            .find(|run| (run.first_frame..run.first_frame + u64::from(run.count)).contains(&frame))
            .map(|run| run.role)
    };
    let space = &r.metadata.address_spaces[0];
    let frame = |va| {
        let leaf = mmu::translate(space.format, space.root, va, &r.memory.last()).unwrap();
        leaf.target(va).unwrap().frame()
    };
    let written_ranges = |va: GpuVa| -> Vec<(u64, u32)> {
        let frame = frame(va);
        let page_writes = written.iter().filter(|w| w.frame() == frame);
        page_writes.map(|w| (w.at.get() % 4096, w.bytes)).collect()
    };
    assert_eq!(role(frame(results.va)), Some(FrameRole::Data));
    assert_eq!(
        written_ranges(results.va),
        [(8, 4)],
        "the upper half of the word is unchanged"
    );
    assert_eq!(written_ranges(given.va), [(0, 4)]);

    let checked = run(["check", dir.path().join("live.kine").to_str().unwrap()]);
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let read = Command::new("python3")
        .arg(root().join("tests/format_reader.py"))
        .arg(dir.path().join("live.kine"))
        .output()
        .unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
}

#[test]
fn objects_are_created_and_freed_between_submits() {
    let (r, _, _dir) = record("many", 0);
    assert_eq!(jobs(&r), 60);
}

#[test]
fn threads_share_one_gpu() {
    let (r, _, _dir) = record("threads", 0);
    assert_eq!(jobs(&r), 120);
    // Threads that share a descriptor have one space, and each thread with its own descriptor has one. The first space
    // has no object before a thread creates one.
    assert_eq!(r.metadata.address_spaces.len(), 3);
}

#[test]
fn forked_child_is_not_recorded_and_its_parent_is() {
    let (r, ended, _dir) = record("fork", 0);
    assert_eq!(jobs(&r), 3, "only jobs of the parent");
    assert!(
        ended
            .err
            .contains("is a child of the recorded process: its work is not recorded"),
        "{ended:?}"
    );
    assert_eq!(ended.err.matches("is a child").count(), 1, "{ended:?}");
}

#[test]
fn sync_objects_and_their_files_work() {
    let (r, _, _dir) = record("sync", 0);
    assert_eq!(jobs(&r), 2);
}

#[test]
fn render_node_is_found_and_no_gpu_work_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("live.kine");
    std::fs::write(&file, "before").unwrap();
    let ended = record_on("software:mali-g71", &file, &["paths"]);
    // The scene passes and prints nothing. Only the recording is missing.
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.err.contains("did no work on the GPU"), "{ended:?}");
    assert_eq!(std::fs::read(&file).unwrap(), b"before");
    assert_eq!(names(dir.path()), ["live.kine"]);
}

#[test]
fn the_recording_is_written_however_the_program_ends() {
    let (r, _, _dir) = record("leave", 7);
    assert_eq!(jobs(&r), 1);
    let (r, _, _dir) = record("signal", 143);
    assert_eq!(jobs(&r), 1);
}

#[test]
fn killed_or_crashed_program_keeps_recorded_events() {
    for (scene, code) in [("killed", 137), ("aborted", 134)] {
        let (r, ended, dir) = record(scene, code);
        assert_eq!(jobs(&r), 1);
        assert!(
            ended.err.contains("the recording ends early: the program ended before"),
            "{ended:?}"
        );
        assert_eq!(r.metadata.lost.len(), 1);
        let file = dir.path().join("live.kine");
        let file = file.to_str().unwrap();
        // The recording is undamaged, and it replays.
        assert_eq!(run(["verify", file]).code, Some(0));
        let replayed = run(["replay", file, "--on", "software:mali-g71"]);
        assert_eq!(replayed.code, Some(0), "{replayed:?}");
        let info = run(["info", file]);
        assert!(info.out.contains("Lost before event"), "{info:?}");
    }
}

#[test]
fn size_limit_ends_the_recording_and_the_program_continues() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("live.kine");
    let client = program("panfrost-client");
    let head = ["record", "--with", "panfrost", "--no-mesa", "--limit", "200K", "-o"];
    let rest = [file.to_str().unwrap(), "--", client.to_str().unwrap(), "many"];
    let ended = run(head.into_iter().chain(rest));
    assert_eq!(ended.code, Some(0), "all checks of the program pass: {ended:?}");
    assert!(ended.err.contains("it reached its limit of 204800 bytes"), "{ended:?}");
    let r = trace_core::container::open(&file).unwrap();
    assert!((2..60).contains(&jobs(&r)), "{}", jobs(&r));
    assert_eq!(r.metadata.lost.len(), 1);
    let replayed = run(["replay", file.to_str().unwrap(), "--on", "software:mali-g71"]);
    assert_eq!(replayed.code, Some(0), "{replayed:?}");

    for wrong in ["many", "5X", "-1", ""] {
        let limit = format!("--limit={wrong}");
        let arguments = [
            "record",
            "--with",
            "panfrost",
            "--no-mesa",
            &limit,
            "-o",
            "x.kine",
            "--",
            "true",
        ];
        let ended = run(arguments);
        assert!(
            ended.code == Some(2) && ended.err.contains("expected a number of bytes"),
            "{ended:?}"
        );
    }
}

/// The test mounts a disk of 400 KB in its own mount namespace. Some machines do not permit this.
#[test]
fn program_continues_on_a_full_disk_and_the_file_opens() {
    let dir = tempfile::tempdir().unwrap();
    let small = dir.path().join("small");
    std::fs::create_dir(&small).unwrap();
    let mount = format!("mount -t tmpfs -o size=400k none {}", small.display());
    let mounted = Command::new("unshare").args(["-rm", "sh", "-c", &mount]).output();
    if !mounted.is_ok_and(|o| o.status.success()) {
        println!("skipped: this machine does not permit mounts in a namespace");
        return;
    }
    let script = format!(
        "{mount} && cd {} && {} record --with panfrost --no-mesa -o live.kine -- {} many; code=$?; ls; cp *.kine ..; exit $code",
        small.display(),
        program("kinescope").display(),
        program("panfrost-client").display(),
    );
    let ended = Command::new("unshare")
        .args(["-rm", "sh", "-c", &script])
        .output()
        .unwrap();
    let message = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(
        ended.status.code(),
        Some(0),
        "all checks of the program pass: {message}"
    );
    assert!(message.contains("No space left on device"), "{message}");
    assert!(message.contains("the recording ends early"), "{message}");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "live.kine\n");
    let file = dir.path().join("live.kine");
    let r = trace_core::container::open(&file).unwrap();
    assert!((1..60).contains(&jobs(&r)), "{}", jobs(&r));
    let replayed = run(["replay", file.to_str().unwrap(), "--on", "software:mali-g71"]);
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
}

#[test]
fn two_file_descriptors_have_separate_objects() {
    let (r, _, _dir) = record("twice", 0);
    assert_eq!((jobs(&r), r.metadata.address_spaces.len()), (3, 2));
}

#[test]
fn labels_of_the_driver_name_buffers_that_have_no_other_name() {
    let (r, _, dir) = record("labels", 0);
    let names: Vec<(&str, u64)> = r.metadata.buffers.iter().map(|b| (b.name.as_str(), b.bytes)).collect();
    assert_eq!(
        names,
        [
            ("results", 16),
            ("Command stream", 4096),
            ("Texture", 4096),
            ("Texture 2", 4096)
        ]
    );
    assert_eq!(
        (
            word(&r, r.buffer("Texture").unwrap().va.get()),
            word(&r, r.buffer("Texture 2").unwrap().va.get())
        ),
        (1, 2)
    );
    let file = dir.path().join("live.kine");
    let parsed_json = run(["info", "--json", file.to_str().unwrap()]).json();
    assert_eq!(
        (&parsed_json["buffers"][0]["type"], &parsed_json["buffers"][0]["shape"]),
        (&"u64".into(), &serde_json::json!([2]))
    );
    assert_eq!(parsed_json["buffers"][2]["name"], "Texture");
}

#[test]
fn endless_shader_is_stopped_and_the_next_one_runs() {
    for (target, sample) in [("mali-g71", "vecadd.kine"), ("mali-g52", "vecadd-g52.kine")] {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("live.kine");
        let sample = root().join("sample-traces").join(sample);
        let ended = record_on(
            &format!("software:{target}"),
            &file,
            &["endless", sample.to_str().unwrap()],
        );
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(
            ended
                .err
                .contains("failed with status 0x4: the shader did not end within"),
            "{ended:?}"
        );
        let r = trace_core::container::open(&file).unwrap();
        let reports = r.chain_reports();
        let entries: Vec<_> = reports.iter().map(|c| (c.status, c.has_computed())).collect();
        assert_eq!(entries, [(4, false), (1, true)]);
        let checked = run(["check", file.to_str().unwrap()]);
        assert!(checked.out.contains("the shader did not end within"), "{checked:?}");
    }
}

#[test]
fn chains_that_fail_and_hang_leave_the_gpu_working() {
    let (r, ended, _dir) = record("fault", 0);
    assert_eq!(jobs(&r), 7);
    for message in [
        "failed: 0xdead0000",
        "failed: 0x40",
        "failed with status 0x4",
        "failed with status 0x58",
    ] {
        assert!(ended.err.contains(message), "{message}: {ended:?}");
    }
    assert!(r.metadata.lost.is_empty());
}

#[test]
fn invalid_client_requests_are_only_errors() {
    let (r, _, _dir) = record("hostile", 0);
    assert_eq!(jobs(&r), 0);
    record("memory", 0);
    let (r, _, _dir) = record("descriptors", 0);
    assert_eq!(jobs(&r), 5);
}

#[test]
fn sample_work_is_recorded_live_from_a_program() {
    for (target, sample) in [("mali-g71", "vecadd.kine"), ("mali-g52", "vecadd-g52.kine")] {
        let dir = tempfile::tempdir().unwrap();
        let (file, out) = (dir.path().join("live.kine"), dir.path().join("out"));
        std::fs::create_dir(&out).unwrap();
        let sample = root().join("sample-traces").join(sample);
        let scene = ["compute", sample.to_str().unwrap(), out.to_str().unwrap()];
        let ended = record_on(&format!("software:{target}"), &file, &scene);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let before = trace_core::container::open(&sample).unwrap();
        let r = trace_core::container::open(&file).unwrap();
        assert_eq!(jobs(&r), 1);
        let named_buffers = |r: &Recording| -> Vec<(String, GpuVa, u64)> {
            let all = r.metadata.buffers.iter().filter(|b| b.role.name() != "shader");
            all.map(|b| (b.name.clone(), b.va, b.bytes)).collect()
        };
        assert_eq!(named_buffers(&r), named_buffers(&before));
        assert_eq!(names(&out), ["c.bin"]);
        // The client itself checks that c is a + b. A replay of the recording gives the same c.
        let floats = |file: &Path| -> Vec<f32> {
            let bytes = std::fs::read(file).unwrap();
            bytes
                .chunks(4)
                .map(|c| f32::from_le_bytes(c.try_into().unwrap()))
                .collect()
        };
        let again = out.join("again.bin");
        let output = format!("c={}", again.display());
        let target = format!("software:{target}");
        let replayed = run(["replay", file.to_str().unwrap(), "--on", &target, "--output", &output]);
        assert_eq!(replayed.code, Some(0), "{replayed:?}");
        assert_eq!(floats(&again), floats(&out.join("c.bin")));
        let reports = r.chain_reports();
        assert_eq!((reports.len(), reports[0].computed), (1, Some(true)));
    }
}

#[test]
fn several_processes_of_a_program_record_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("live.kine");
    let client = program("panfrost-client");
    let script = format!("{0} many && {0} work", client.display());
    let arguments = ["record", "--with", "panfrost", "--no-mesa", "--json", "-o"];
    let ended = run(arguments
        .into_iter()
        .chain([file.to_str().unwrap(), "--", "sh", "-c", &script]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let report = ended.out.split_once('{').map(|(_, rest)| format!("{{{rest}")).unwrap();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["jobs"], 60);
    let also: Vec<PathBuf> = report["also"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p.as_str().unwrap().into())
        .collect();
    assert_eq!((also.len(), names(dir.path()).len()), (1, 2), "{report}");
    assert_eq!(jobs(&trace_core::container::open(&also[0]).unwrap()), 2);
}

#[test]
fn invalid_record_requests_are_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("live.kine");
    let file = file.to_str().unwrap();
    let with = |more: &[&str]| {
        let head = ["record", "--with", "panfrost", "-o", file];
        run(head.iter().chain(more).copied())
    };
    with(&["--on", "software:mali-t880", "--", "true"]).assert_refused("is not a simulator");
    with(&["--on", "agent:lab/mali", "--", "true"]).assert_refused("a program is recorded on one");
    with(&["--mesa", "/nowhere", "--", "true"]).assert_refused("no Mesa in this folder");
    with(&["--no-mesa", "--", "/no/such/program"]).assert_refused("/no/such/program: cannot be run");
    for (ended, message) in [
        (with(&["--no-mesa"]), "<PROGRAM>"),
        (
            run(["record", "--with", "panthor", "-o", file, "--", "true"]),
            "panfrost",
        ),
    ] {
        assert!(ended.code == Some(2) && ended.err.contains(message), "{ended:?}");
    }
    run([
        "record",
        "--with",
        "panfrost",
        "--no-mesa",
        "-o",
        "/nowhere/x.kine",
        "--",
        "true",
    ])
    .assert_refused("its folder does not exist");
    let failed = with(&["--no-mesa", "--", "sh", "-c", "exit 5"]);
    assert_eq!(failed.code, Some(5), "{failed:?}");
    assert!(failed.err.contains("not written"), "{failed:?}");
    assert!(names(dir.path()).is_empty());
}

#[test]
fn programs_that_use_no_gpu_do_not_notice_the_library() {
    let library = program("kinescope").with_file_name("libkinescope_panfrost.so");
    assert!(library.exists(), "{}: not built", library.display());
    // The script uses only what every Linux has: a container or chroot may lack /sys and a host name.
    let script = "ls /dev /proc/self/fd >/dev/null && cat /etc/passwd /proc/self/maps | wc -l && stat /etc >/dev/null";
    let alone = Command::new("sh").args(["-c", script]).output().unwrap();
    let with = Command::new("sh")
        .args(["-c", script])
        .env("LD_PRELOAD", &library)
        .output()
        .unwrap();
    assert!(alone.status.success() && with.status.success());
    assert_eq!(String::from_utf8_lossy(&with.stderr), "");
    // The script executes another program, starts a thread, and reads and writes files.
    let python = "import os,subprocess,threading,tempfile\n\
                  t=threading.Thread(target=lambda: open('/etc/passwd').read()); t.start(); t.join()\n\
                  assert subprocess.run(['true'], close_fds=True).returncode == 0\n\
                  f=tempfile.TemporaryFile(); f.write(b'x'); f.close()\n\
                  assert os.path.realpath('/dev/null') == '/dev/null' and 'null' in os.listdir('/dev')\n";
    let with = Command::new("python3")
        .args(["-c", python])
        .env("LD_PRELOAD", &library)
        .output()
        .unwrap();
    assert!(with.status.success(), "{}", String::from_utf8_lossy(&with.stderr));
}

#[test]
fn live_recording_has_only_accesses_and_host_writes() {
    let (r, _, _dir) = record("work", 0);
    let mut kinds: Vec<EventKind> = (0..r.events.len()).filter_map(|e| r.events.kind(e)).collect();
    kinds.sort_unstable_by_key(|k| *k as u8);
    kinds.dedup();
    assert_eq!(kinds, [EventKind::Read, EventKind::Write, EventKind::HostWrite]);
}
