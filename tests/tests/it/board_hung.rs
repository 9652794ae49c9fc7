//! Devices that hang on a board in a box: an interrupt that does not come, a register that does not change, an
//! agent that is killed in the middle of a run, a client that vanishes. Each run ends within its limit and leaves the
//! device quiesced, and the next client replays a valid plan on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;
use whole_program_tests::board::{Arch, Board, BoardSetup};
use whole_program_tests::{HANG_LIMIT, ProgramOutput, program, root};

/// The only device of the board: QEMU's teaching device, which masters the bus and raises interrupts.
struct Desk {
    board: Board,
    address: &'static str,
    folder: TempDir,
}

/// Bit 2 of the command register: the device masters the bus.
const MASTER: u16 = 1 << 2;
/// Bit 10: its interrupt is masked.
const MASKED: u16 = 1 << 10;

impl Desk {
    fn boot(arch: Arch) -> Option<Self> {
        let (edu, address) = match arch {
            Arch::X86_64 => ("edu", "0000:00:03.0"),
            // The board's memory lies above the 28 bits that the device addresses by default.
            Arch::Arm64 => ("edu,dma_mask=0xffffffffffff", "0000:00:02.0"),
        };
        let board = BoardSetup::new(arch).device(edu).boot()?;
        board.pair();
        let folder = TempDir::new().unwrap();
        Some(Self { board, address, folder })
    }

    fn device(&self) -> String {
        format!("agent:box/pci:{}", self.address)
    }

    /// The plan by hand of the samples, with other actions from event 4 on: until then the device answers.
    fn plan(&self, name: &str, actions: &str) -> PathBuf {
        let text = std::fs::read_to_string(root().join("sample-traces/edu.plan.txt")).unwrap();
        let keep = |line: &&str| !line.starts_with("expect ") && !line.starts_with("output ");
        let from_body = text.find("\nbody\n").unwrap();
        let head: Vec<&str> = text[..from_body].lines().filter(keep).collect();
        let body: Vec<&str> = text[from_body..].lines().take_while(|l| !l.starts_with("4 ")).collect();
        let budgets = "budgets actions 1000 pages 16384 time 120000000000 interrupt 60000000000 poll 60000000000";
        let text = format!("{}\n{budgets}{}\n{actions}\n", head.join("\n"), body.join("\n"));
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn arguments(&self, plan: &Path) -> Vec<String> {
        let plan = plan.display().to_string();
        let device = self.device();
        ["replay", &plan, "--on", &device, "--without-containment", "--json"]
            .map(str::to_owned)
            .to_vec()
    }

    fn replay(&self, plan: &Path) -> ProgramOutput {
        let arguments = self.arguments(plan);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.board.kinescope(&arguments)
    }

    /// A client in the middle of its run: the device masters the bus.
    fn in_its_run(&self, plan: &Path) -> Child {
        let client = Command::new(program("kinescope"))
            .args(self.arguments(plan))
            .env("KINESCOPE_KEYS", self.board.keys())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let by = Instant::now() + HANG_LIMIT;
        while self.command() & MASTER == 0 {
            assert!(Instant::now() < by, "the run does not begin");
        }
        client
    }

    /// The command register of the device.
    fn command(&self) -> u16 {
        let bytes = format!(
            "dd if=/sys/bus/pci/devices/{}/config bs=1 skip=4 count=2 2>/dev/null | od -An -tu2",
            self.address
        );
        self.board.run_checked(&bytes).trim().parse().unwrap()
    }

    /// The device is quiesced and raises no interrupt, and the next client replays a valid plan on it.
    fn is_free_and_quiet(&self, after: &str) {
        let command = self.command();
        assert_eq!(
            command & (MASTER | MASKED),
            MASKED,
            "after {after}: command {command:#06x}"
        );
        let good = self.replay(&root().join("sample-traces/edu.plan.txt"));
        assert_eq!(good.code, Some(0), "after {after}: {good:?}");
        assert_eq!(good.json()["outcome"], "match", "after {after}");
        let command = self.command();
        assert_eq!(command & (MASTER | MASKED), MASKED, "after a good plan after {after}");
    }
}

/// Endless waits: the request to the device, how the run must end, and in which time on its clock.
const HANGS: [(&str, &str, &str, u64); 3] = [
    (
        "an interrupt that never comes",
        // A factorial that raises none.
        "4 write 0 0x20 4 0x0\n5 write 0 0x8 4 5\n6 wait 0x1 2000000000",
        "no interrupt came on lines 0b1 within 2000000000 ns",
        2_000_000_000,
    ),
    (
        "an interrupt that never comes while the device masters memory",
        "4 write 0 0x80 8 arena+0x0\n5 write 0 0x88 8 0x40000\n6 write 0 0x90 8 2048\n7 write 0 0x98 8 0x1\n\
         8 wait 0x1 2000000000",
        "no interrupt came on lines 0b1 within 2000000000 ns",
        2_000_000_000,
    ),
    (
        "a register that never changes",
        "4 until 0 0x20 4 0x1 mask 0xffffffff reads 1 limit 1500000000",
        "the device does not finish its memory accesses",
        1_500_000_000,
    ),
];

fn ends_within_its_limit(arch: Arch) {
    let Some(desk) = Desk::boot(arch) else { return };
    for (what, actions, failure, limit_ns) in HANGS {
        let plan = desk.plan("hangs.plan.txt", actions);
        let started = Instant::now();
        let ended = desk.replay(&plan);
        let took = started.elapsed();
        assert_eq!(ended.code, Some(1), "{what}: {ended:?}");
        let parsed_json = ended.json();
        assert_eq!(parsed_json["outcome"], "failed", "{what}");
        assert!(
            parsed_json["failure"].as_str().unwrap().contains(failure),
            "{what}: {}",
            parsed_json["failure"]
        );
        let device_ns = parsed_json["device_ns"].as_u64().unwrap();
        println!(
            "{} on {}: {:.2} s on the device's clock, {:.2} s in all",
            what,
            arch.name(),
            device_ns as f64 / 1e9,
            took.as_secs_f64()
        );
        // The failure names the limit. A machine that shares its processor may look at its clock later.
        assert!(device_ns >= limit_ns, "{what}: {device_ns} ns");
        desk.is_free_and_quiet(what);
    }
}

/// A run that would go on for a minute, while the device masters the bus.
const LONG: &str = "4 write 0 0x20 4 0x0\n5 write 0 0x8 4 5\n6 wait 0x1 60000000000";

fn nobody_is_left_alone(arch: Arch) {
    let Some(desk) = Desk::boot(arch) else { return };
    let long = desk.plan("long.plan.txt", LONG);

    // The client vanishes: the agent hears of it and gives up for it.
    let mut client = desk.in_its_run(&long);
    client.kill().unwrap();
    client.wait().unwrap();
    let gone = Instant::now();
    let by = gone + HANG_LIMIT;
    while desk.command() & MASTER != 0 {
        assert!(Instant::now() < by, "a client vanished, and its run goes on");
    }
    println!(
        "{}: quiet {:.2} s after its client vanished",
        arch.name(),
        gone.elapsed().as_secs_f64()
    );
    desk.is_free_and_quiet("a client that vanished");

    // The agent is killed: what stands behind it quiets the device; the client hears of it.
    let client = desk.in_its_run(&long);
    let gone = Instant::now();
    desk.board
        .run_checked("kill -9 $(pidof kinescope-agent | tr ' ' '\\n' | sort -n | head -n 1)");
    let by = gone + HANG_LIMIT;
    while desk.command() & MASTER != 0 {
        assert!(
            Instant::now() < by,
            "an agent was killed, and its device masters the bus"
        );
    }
    println!(
        "{}: quiet {:.2} s after its agent was killed",
        arch.name(),
        gone.elapsed().as_secs_f64()
    );
    let ended = ProgramOutput::from(client.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let parsed_json = ended.json();
    assert_eq!(parsed_json["outcome"], "failed");
    assert!(
        parsed_json["failure"]
            .as_str()
            .unwrap()
            .contains("closed the connection"),
        "{}",
        parsed_json["failure"]
    );
    // The board's first program starts another one.
    desk.board.wait_for("is started again", HANG_LIMIT);
    desk.board.wait_for("pairing is open", HANG_LIMIT);
    desk.is_free_and_quiet("an agent that was killed");
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn hung_run_ends_at_its_limit_and_the_next_succeeds_on_x86_64() {
    ends_within_its_limit(Arch::X86_64);
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn hung_run_ends_at_its_limit_and_the_next_succeeds_on_arm64() {
    ends_within_its_limit(Arch::Arm64);
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn lost_client_and_killed_agent_free_an_x86_64_device() {
    nobody_is_left_alone(Arch::X86_64);
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn lost_client_and_killed_agent_free_an_arm64_device() {
    nobody_is_left_alone(Arch::Arm64);
}
