//! Hardware that an agent owns, on emulated boards. Logs of stock drivers produce the recorded picture, and a device
//! without containment needs a confirmation. The devices of a killed agent are quiesced.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use kinescope_campaign::{CampaignFolder, RunQueue as _, RunVerdict};
use std::path::Path;
use tempfile::TempDir;
use trace_core::recording::{
    Access, EventsBuilder, Hardware, InterruptRow, PlatformDevice, PlatformWindow, Space, SpaceKind,
};
use trace_core::screen::Picture;
use trace_core::{PhysAddr, Recording, RegOffset};
use whole_program_tests::board::{Arch, Board, BoardSetup};
use whole_program_tests::broker::{BrokerWorker, NatsServer, find_nats_server};
use whole_program_tests::recordings;

/// Writes the picture of a driver's log to a plain file. Returns its path and the picture.
fn read_picture(folder: &Path, recordings: &Path, name: &str) -> (String, Picture) {
    let packed = recordings.join(format!("mmiotrace/{name}.ppm.gz"));
    let plain = std::process::Command::new("gzip")
        .arg("-dc")
        .arg(packed)
        .output()
        .unwrap();
    let path = folder.join(format!("{name}.ppm"));
    std::fs::write(&path, &plain.stdout).unwrap();
    (
        path.to_str().unwrap().to_owned(),
        Picture::from_ppm(&plain.stdout).unwrap(),
    )
}

/// Replays a log on a device of the board. Asserts that every pixel is as recorded, as read by the agent and by QEMU.
fn assert_draws_picture(board: &Board, number: usize, device: &str, log: &str, bios_reads: &[&str]) {
    let Some(recordings) = recordings() else { return };
    let folder = TempDir::new().unwrap();
    let (expected, picture) = read_picture(folder.path(), &recordings, log);
    let shown = folder.path().join("shown.ppm");
    let file = recordings.join(format!("mmiotrace/{log}.txt.gz"));
    let arguments = [
        "replay",
        file.to_str().unwrap(),
        "--on",
        device,
        "--expect-screen",
        &expected,
        "--screen",
        shown.to_str().unwrap(),
        "--json",
    ];
    board
        .kinescope(&arguments)
        .assert_refused("nothing contains the device");
    let ended = board.kinescope(&[&arguments[..], &["--without-containment"]].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let json = ended.json();
    assert_eq!(
        (json["outcome"].as_str(), json["screen"]["differing_pixels"].as_u64()),
        (Some("match"), Some(0))
    );
    let findings: Vec<&str> = json["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|f| f["kind"].as_str())
        .collect();
    let before: Vec<&str> = findings
        .into_iter()
        .filter(|k| *k == "state-before-recording")
        .collect();
    assert_eq!(before, bios_reads, "these reads depend on a BIOS");
    println!(
        "{log} on {device}: {} reads of {}, {:.2} s on the device's clock",
        json["reads_matched"],
        json["reads_compared"],
        json["device_ns"].as_f64().unwrap() / 1e9
    );
    let read = Picture::from_ppm(&std::fs::read(&shown).unwrap()).unwrap();
    assert!(read == picture, "the agent reads another picture");
    assert!(board.screendump(number) == picture, "QEMU shows another picture");
}

/// Returns the command register of a function in hexadecimal, low byte first.
fn command(board: &Board, address: &str) -> String {
    let bytes = format!("dd if=/sys/bus/pci/devices/{address}/config bs=1 skip=4 count=2 2>/dev/null | od -An -tx1");
    board.run_checked(&bytes).trim().to_owned()
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn x86_64_board_replays_displays_and_quiesces_on_agent_kill() {
    let Some(board) = BoardSetup::new(Arch::X86_64)
        .device("ati-vga,model=rv100")
        .device("ati-vga,model=rage128p")
        .device("edu")
        .boot()
    else {
        return;
    };
    board.pair();
    assert_draws_picture(&board, 0, "agent:box/pci:0000:00:03.0", "rv100-radeonfb", &[]);
    assert_draws_picture(&board, 1, "agent:box/pci:0000:00:04.0", "rage128p-aty128fb", &[]);
    // The test switches bus mastering on, as the agent does for a plan with DMA.
    let edu = "0000:00:05.0";
    let enable_dma = format!("printf '\\007\\001' | dd of=/sys/bus/pci/devices/{edu}/config bs=1 seek=4 2>/dev/null");
    board.run_checked(&enable_dma);
    assert_eq!(command(&board, edu), "07 01");
    board.run_checked("kill -9 $(pidof kinescope-agent | tr ' ' '\\n' | sort -n | head -n 1); sleep 0.3");
    let after = command(&board, edu);
    assert!(
        ["03 05", "02 05"].contains(&after.as_str()),
        "bus mastering or interrupt is still on: {after}"
    );
}

/// Returns a recording of a driver of the PL031 clock: its identity, an alarm after two seconds, and the interrupt.
fn clock_recording() -> Recording {
    let mut recording = Recording::default();
    recording.set_hardware(&Hardware::Platform(PlatformDevice {
        node: "/pl031@9010000".into(),
        compatible: vec!["arm,pl031".into(), "arm,primecell".into()],
        windows: vec![PlatformWindow {
            name: "reg0".into(),
            base: PhysAddr::new(0x901_0000),
            bytes: 0x1000,
        }],
        irqs: Vec::new(),
    }));
    recording.metadata.spaces.push(Space {
        name: "reg0".into(),
        kind: SpaceKind::Registers,
        bytes: 0x1000,
    });
    let mut events = EventsBuilder::new();
    let mut time = 0;
    let mut access = |events: &mut EventsBuilder, write, offset, value| {
        time += 1000;
        let access = Access {
            space: 0,
            write,
            offset,
            width: 4,
            value,
        };
        events.access(time, 0, access);
    };
    for (n, byte) in [0x31, 0x10, 0x14, 0x00, 0x0d, 0xf0, 0x05, 0xb1].into_iter().enumerate() {
        access(&mut events, false, RegOffset::new(0xfe0 + 4 * n as u32), byte);
    }
    access(&mut events, true, RegOffset::new(0x1c), 1);
    access(&mut events, true, RegOffset::new(0x08), 1000);
    access(&mut events, true, RegOffset::new(0x04), 1002);
    access(&mut events, true, RegOffset::new(0x10), 1);
    events.interrupt(20_000, InterruptRow { line: 0, status: 1 });
    access(&mut events, false, RegOffset::new(0x18), 1);
    access(&mut events, true, RegOffset::new(0x1c), 1);
    access(&mut events, false, RegOffset::new(0x18), 0);
    access(&mut events, true, RegOffset::new(0x10), 0);
    recording.events = events.finish();
    recording
}

/// Runs a campaign over a broker on a device without containment. Asserts that it runs only if both the campaign and the
/// worker accept that.
fn assert_worker_asks_for_containment(board: &Board, file: &Path, device: &str) {
    let Some(nats) = find_nats_server() else { return };
    let folder = file.parent().unwrap();
    let server = NatsServer::start(&nats, folder, &[]);
    let address = server.address();
    let keys = board.keys();
    let run = |name: &str, campaign_accepts: bool, worker_accepts: bool| {
        let description = folder.join(format!("{name}.toml"));
        let text = format!(
            "version = 1\nname = \"{name}\"\nrepeats = 3\ntargets = [\"{device}\"]\nwithout-containment = {campaign_accepts}\n\
             [[recordings]]\npath = \"clock.kine\"\n"
        );
        std::fs::write(&description, text).unwrap();
        let mut options = vec!["--queue", &address, "--on", device];
        options.extend(worker_accepts.then_some("--without-containment"));
        let _worker = BrokerWorker::start(folder, &keys, name, &options);
        let out = folder.join(format!("{name}.results"));
        let (description, out_text) = (description.to_str().unwrap(), out.to_str().unwrap());
        let arguments = ["campaign", "run", description, "-o", out_text, "--queue", &address];
        let ended = board.kinescope(&arguments);
        let mut results = Vec::new();
        let queue = CampaignFolder::open(&out).unwrap().open_queue().unwrap();
        queue
            .results(&mut |_, result| {
                results.push(result);
                true
            })
            .unwrap();
        assert_eq!(results.len(), 3, "{name}: {ended:?}");
        (ended.code, results)
    };
    for (name, campaign_accepts, worker_accepts) in [("neither", false, false), ("campaign", true, false)] {
        let (_, results) = run(name, campaign_accepts, worker_accepts);
        for result in results {
            assert_eq!(result.verdict, RunVerdict::Refused, "{name}: {result:?}");
            let why = result.failure.unwrap_or_default();
            assert!(why.contains("nothing contains the device"), "{name}: {why}");
        }
    }
    let (code, results) = run("both", true, true);
    assert_eq!(code, Some(0));
    for result in results {
        assert_eq!((result.verdict, result.attempt), (RunVerdict::Match, 1), "{result:?}");
        assert_eq!(result.on_target, device);
    }
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn arm64_board_replays_display_and_device_tree_rtc() {
    let Some(board) = BoardSetup::new(Arch::Arm64).device("ati-vga,model=rv100").boot() else {
        return;
    };
    board.pair();
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("clock.kine");
    std::fs::write(&file, trace_core::container::to_bytes(&clock_recording()).unwrap()).unwrap();
    let clock = "agent:box/platform:9010000.pl031";
    let arguments = ["replay", file.to_str().unwrap(), "--on", clock, "--json"];
    board
        .kinescope(&arguments)
        .assert_refused("nothing contains the device");
    let ended = board.kinescope(&[&arguments[..], &["--without-containment"]].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let json = ended.json();
    assert_eq!(
        (json["outcome"].as_str(), json["interrupts"].as_u64()),
        (Some("match"), Some(1))
    );
    assert_worker_asks_for_containment(&board, &file, clock);
    // The one read that depends on the BIOS of a PC is a finding.
    assert_draws_picture(
        &board,
        0,
        "agent:box/pci:0000:00:02.0",
        "rv100-radeonfb",
        &["state-before-recording"],
    );
}
