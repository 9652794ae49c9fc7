//! Devices that hang on an emulated board: an interrupt or a register change that never comes, a killed agent, a lost
//! client. Each run ends within its limit and leaves the device quiesced. The next client replays a valid plan on it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;
use whole_program_tests::board::{Arch, Board, BoardSetup};
use whole_program_tests::{HANG_LIMIT, ProgramOutput, program, root};

/// A board whose only device is QEMU's teaching device `edu`, which masters the bus and raises interrupts.
struct EduBoard {
    board: Board,
    address: &'static str,
    folder: TempDir,
}

/// Bit 2 of the command register: the device can master the bus.
const BUS_MASTER: u16 = 1 << 2;
/// Bit 10 of the command register: the interrupt of the device is masked.
const INTERRUPT_DISABLE: u16 = 1 << 10;

impl EduBoard {
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

    /// Writes the hand-written sample plan with other actions from event 4 on. Returns the path. The device answers
    /// until event 4.
    fn plan(&self, name: &str, actions: &str) -> PathBuf {
        let text = std::fs::read_to_string(root().join("sample-traces/edu.plan.txt")).unwrap();
        let is_kept = |line: &&str| !line.starts_with("expect ") && !line.starts_with("output ");
        let body_at = text.find("\nbody\n").unwrap();
        let head: Vec<&str> = text[..body_at].lines().filter(is_kept).collect();
        let body: Vec<&str> = text[body_at..].lines().take_while(|l| !l.starts_with("4 ")).collect();
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

    /// Starts a client and returns it after its run has begun: the device masters the bus.
    fn start_run(&self, plan: &Path) -> Child {
        let client = Command::new(program("kinescope"))
            .args(self.arguments(plan))
            .env("KINESCOPE_KEYS", self.board.keys())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let by = Instant::now() + HANG_LIMIT;
        while self.command() & BUS_MASTER == 0 {
            assert!(Instant::now() < by, "the run does not begin");
        }
        client
    }

    /// Returns the command register of the device.
    fn command(&self) -> u16 {
        let bytes = format!(
            "dd if=/sys/bus/pci/devices/{}/config bs=1 skip=4 count=2 2>/dev/null | od -An -tu2",
            self.address
        );
        self.board.run_checked(&bytes).trim().parse().unwrap()
    }

    /// Waits until the device masters no memory and raises no interrupt: the agent writes its command register twice.
    fn wait_until_quiesced(&self, begun: Instant, failure: &str) {
        while self.command() & (BUS_MASTER | INTERRUPT_DISABLE) != INTERRUPT_DISABLE {
            assert!(begun.elapsed() < HANG_LIMIT, "{failure}");
        }
    }

    /// Asserts that the device is quiesced and raises no interrupt. The next client must replay a valid plan on it.
    fn assert_quiesced_and_free(&self, after: &str) {
        let command = self.command();
        assert_eq!(
            command & (BUS_MASTER | INTERRUPT_DISABLE),
            INTERRUPT_DISABLE,
            "after {after}: command {command:#06x}"
        );
        let good = self.replay(&root().join("sample-traces/edu.plan.txt"));
        assert_eq!(good.code, Some(0), "after {after}: {good:?}");
        assert_eq!(good.json()["outcome"], "match", "after {after}");
        let command = self.command();
        assert_eq!(
            command & (BUS_MASTER | INTERRUPT_DISABLE),
            INTERRUPT_DISABLE,
            "after a good plan after {after}"
        );
    }
}

/// Waits that never end: name, actions, expected failure, and limit on the device's clock in ns.
const HANGS: [(&str, &str, &str, u64); 3] = [
    (
        "an interrupt that never comes",
        // The factorial raises no interrupt.
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

fn assert_runs_end_at_limit(arch: Arch) {
    let Some(edu) = EduBoard::boot(arch) else { return };
    for (name, actions, failure, limit_ns) in HANGS {
        let plan = edu.plan("hangs.plan.txt", actions);
        let started = Instant::now();
        let ended = edu.replay(&plan);
        let elapsed = started.elapsed();
        assert_eq!(ended.code, Some(1), "{name}: {ended:?}");
        let parsed_json = ended.json();
        assert_eq!(parsed_json["outcome"], "failed", "{name}");
        assert!(
            parsed_json["failure"].as_str().unwrap().contains(failure),
            "{name}: {}",
            parsed_json["failure"]
        );
        let device_ns = parsed_json["device_ns"].as_u64().unwrap();
        println!(
            "{} on {}: {:.2} s on the device's clock, {:.2} s in all",
            name,
            arch.name(),
            device_ns as f64 / 1e9,
            elapsed.as_secs_f64()
        );
        // The failure names the limit. A machine that shares its processor may check the clock later.
        assert!(device_ns >= limit_ns, "{name}: {device_ns} ns");
        edu.assert_quiesced_and_free(name);
    }
}

/// Actions of a run that takes a minute while the device masters the bus.
const LONG: &str = "4 write 0 0x20 4 0x0\n5 write 0 0x8 4 5\n6 wait 0x1 60000000000";

fn assert_lost_peer_frees_device(arch: Arch) {
    let Some(edu) = EduBoard::boot(arch) else { return };
    let long = edu.plan("long.plan.txt", LONG);

    // The client is killed. The agent notices it and cancels the run.
    let mut client = edu.start_run(&long);
    client.kill().unwrap();
    client.wait().unwrap();
    let lost_at = Instant::now();
    edu.wait_until_quiesced(lost_at, "the run of a lost client continues");
    println!(
        "{}: quiesced {:.2} s after its client was lost",
        arch.name(),
        lost_at.elapsed().as_secs_f64()
    );
    edu.assert_quiesced_and_free("a lost client");

    // The agent is killed. Its guard process quiesces the device, and the client notices the loss.
    let client = edu.start_run(&long);
    let lost_at = Instant::now();
    edu.board
        .run_checked("kill -9 $(pidof kinescope-agent | tr ' ' '\\n' | sort -n | head -n 1)");
    edu.wait_until_quiesced(lost_at, "the device of a killed agent still masters the bus");
    println!(
        "{}: quiesced {:.2} s after its agent was killed",
        arch.name(),
        lost_at.elapsed().as_secs_f64()
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
    // The board's init program starts a new agent.
    edu.board.wait_for("is started again", HANG_LIMIT);
    edu.board.wait_for("pairing is open", HANG_LIMIT);
    edu.assert_quiesced_and_free("a killed agent");
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn hung_run_ends_at_its_limit_and_the_next_succeeds_on_x86_64() {
    assert_runs_end_at_limit(Arch::X86_64);
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn hung_run_ends_at_its_limit_and_the_next_succeeds_on_arm64() {
    assert_runs_end_at_limit(Arch::Arm64);
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn lost_client_and_killed_agent_free_an_x86_64_device() {
    assert_lost_peer_frees_device(Arch::X86_64);
}

#[test]
#[ignore = "make test-full: boots a board in QEMU"]
fn lost_client_and_killed_agent_free_an_arm64_device() {
    assert_lost_peer_frees_device(Arch::Arm64);
}
