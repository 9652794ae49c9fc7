//! Emulated boards for tests: boots one in QEMU, runs commands in it, pairs with its agent, reads its screens, and
//! always ends it.

use crate::monitor::{Monitor, connect};
use crate::{ProgramOutput, PromptingProgram, kinescope, program, root};
use serde_json::json;
use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trace_core::screen::Picture;

/// Maximum time for a board to boot, while other boards and builds run.
const BOOT_LIMIT: Duration = Duration::from_secs(120);
/// Default maximum time for a command.
const COMMAND_LIMIT: Duration = Duration::from_secs(120);

/// Architecture of a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arch {
    /// QEMU's `pc`.
    X86_64,
    /// QEMU's `virt` with a Cortex-A57.
    Arm64,
}

impl Arch {
    /// Returns its name in scripts and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns the QEMU program for it.
    fn qemu(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
            Self::Arm64 => "qemu-system-aarch64",
        }
    }
}

/// Setup of a board to boot.
#[derive(Debug)]
pub struct BoardSetup {
    arch: Arch,
    devices: Vec<String>,
    options: Vec<String>,
    kernel: String,
    memory: u32,
    hugepages: u32,
    agent: bool,
    drivers: bool,
    iommu: bool,
}

impl BoardSetup {
    /// Returns a board with 256 MB of memory, and with the agent. It has no devices and no drivers
    /// of graphics devices.
    #[must_use]
    pub fn new(arch: Arch) -> Self {
        Self {
            arch,
            devices: Vec::new(),
            options: Vec::new(),
            kernel: String::new(),
            memory: 256,
            hugepages: 4,
            agent: true,
            drivers: false,
            iommu: false,
        }
    }

    /// Adds a QEMU device, such as `ati-vga,model=rv100`. [`Board::function`] returns its address; its id for the
    /// monitor is `board0`, and so on.
    #[must_use]
    pub fn device(mut self, device: &str) -> Self {
        self.devices.push(format!("{device},id=board{}", self.devices.len()));
        self
    }

    /// Adds options of QEMU.
    #[must_use]
    pub fn options(mut self, options: &[&str]) -> Self {
        self.options.extend(options.iter().map(|&o| o.to_owned()));
        self
    }

    /// Adds to the kernel's command line.
    #[must_use]
    pub fn kernel(mut self, arguments: &str) -> Self {
        self.kernel.push(' ');
        self.kernel.push_str(arguments);
        self
    }

    /// Sets the memory of the board, in MB.
    #[must_use]
    pub fn memory(mut self, megabytes: u32) -> Self {
        self.memory = megabytes;
        self
    }

    /// Sets the number of 2 MiB pages that are reserved for DMA.
    #[must_use]
    pub fn hugepages(mut self, count: u32) -> Self {
        self.hugepages = count;
        self
    }

    /// Adds the stock drivers of graphics devices, for recording. No driver is loaded. Drivers and recording need 256
    /// MB of memory in all.
    #[must_use]
    pub fn with_drivers(mut self) -> Self {
        self.drivers = true;
        self.memory = self.memory.max(256);
        self
    }

    /// Adds an IOMMU for the devices. Virtio devices bypass it, unless they have `iommu_platform=on`.
    #[must_use]
    pub fn with_iommu(mut self) -> Self {
        self.iommu = true;
        // Each device has memory for DMA, beside the agent, which is a development build.
        self.memory = self.memory.max(320);
        self
    }

    /// Boots without the agent. The test starts the agent or another program.
    #[must_use]
    pub fn without_agent(mut self) -> Self {
        self.agent = false;
        self
    }

    /// Boots the board. Returns `None` if the board images are missing (`scripts/board/images.sh`), and prints a line
    /// about it.
    ///
    /// The board ends no later than the thread that calls this function.
    ///
    /// # Panics
    /// Panics if it does not boot in time.
    #[must_use]
    pub fn boot(self) -> Option<Board> {
        let name = self.arch.name();
        let images = std::env::var_os("KINESCOPE_BOARD_DIR")
            .map_or_else(|| root().join(".board"), PathBuf::from)
            .join(name);
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
        let drivers = if self.drivers { "-drivers" } else { "" };
        let initramfs = root().join(target).join(format!("board-{name}{drivers}.cpio"));
        for file in [images.join("kernel"), initramfs] {
            if !file.exists() {
                println!("skipped: no board in a box for {name} (scripts/board/images.sh {name} prepares it)");
                return None;
            }
        }
        if Command::new(self.arch.qemu()).arg("--version").output().is_err() {
            println!("skipped: no {}", self.arch.qemu());
            return None;
        }
        let board = Board::start(&self).unwrap_or_else(|e| panic!("the {name} board does not start: {e}"));
        Some(board.up(&self))
    }
}

/// A running board, ended on drop.
#[derive(Debug)]
pub struct Board {
    child: Child,
    console: Mutex<Receiver<String>>,
    input: Mutex<ChildStdin>,
    monitor: Mutex<Monitor>,
    commands: Mutex<Commands>,
    port: u16,
    first: u8,
    folder: TempDir,
    started: Instant,
    /// Seconds from the start of QEMU until the board's init program has finished its own work.
    pub boot_seconds: f64,
    /// Output of the board's init program about time and memory.
    pub up: String,
}

/// The port for commands.
#[derive(Debug)]
struct Commands {
    stream: UnixStream,
    answers: Receiver<(u32, i32)>,
    ended: HashMap<u32, i32>,
    next: u32,
}

/// A running command on the board.
#[derive(Debug)]
#[must_use]
pub struct RunningCommand(u32);

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    fn start(setup: &BoardSetup) -> Result<Self, String> {
        let folder = TempDir::new().map_err(|e| e.to_string())?;
        let share = folder.path().join("share");
        std::fs::create_dir(&share).map_err(|e| e.to_string())?;
        let socket = |name: &str| folder.path().join(name);
        // A killed test process drops nothing. In this case the kernel ends QEMU.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(root().join("scripts/board/qemu.sh"))
            .arg(setup.arch.name());
        for device in &setup.devices {
            command.args(["-device", device]);
        }
        command
            .args(["-serial", "stdio", "-qmp"])
            .arg(format!("unix:{},server=on,wait=off", socket("monitor").display()))
            .args(["-device", "virtio-serial-pci,romfile="])
            .arg("-chardev")
            .arg(format!(
                "socket,id=commands,path={},server=on,wait=off",
                socket("commands").display()
            ))
            .args(["-device", "virtserialport,chardev=commands"])
            .arg("-virtfs")
            .arg(format!(
                "local,path={},mount_tag=host,security_model=none",
                share.display()
            ))
            .args(&setup.options);
        let agent = if setup.agent { "" } else { " board.agent=no" };
        let started = Instant::now();
        let mut child = command
            .env("MEM", setup.memory.to_string())
            .env("HUGEPAGES", setup.hugepages.to_string())
            .env("DRIVERS", if setup.drivers { "yes" } else { "no" })
            .env("IOMMU", if setup.iommu { "yes" } else { "no" })
            .env("NET", "hostfwd=tcp:127.0.0.1:0-:7117")
            .env("APPEND", format!("board.share=1{agent}{}", setup.kernel))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| e.to_string())?;
        let (send, console) = channel();
        let out: Option<Box<dyn std::io::Read + Send>> = child.stdout.take().map(|o| Box::new(o) as _);
        let err: Option<Box<dyn std::io::Read + Send>> = child.stderr.take().map(|o| Box::new(o) as _);
        for stream in [out, err].into_iter().flatten() {
            let send = send.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                    let line = String::from_utf8_lossy(&line).trim_end().to_owned();
                    if send.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        let input = child.stdin.take().ok_or("no input")?;
        // From here on the child has an owner that ends it after any failure.
        let mut guard = Guard(Some(child));
        let describe = |e: String, console: &Receiver<String>| {
            let lines: Vec<String> = console.try_iter().collect();
            format!("{e} {}", lines.join(" / "))
        };
        let mut monitor = Monitor::connect(&socket("monitor")).map_err(|e| describe(e, &console))?;
        let stream = connect(&socket("commands")).map_err(|e| describe(e, &console))?;
        let reader = BufReader::new(stream.try_clone().map_err(|e| e.to_string())?);
        let (send, answers) = channel();
        std::thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                let mut words = line.split_whitespace().map(str::parse);
                if let (Some(Ok(number)), Some(Ok(status))) = (words.next(), words.next())
                    && send.send((number as u32, status)).is_err()
                {
                    break;
                }
            }
        });
        let network = monitor.execute_human("info usernet")?;
        let port = forwarded(&network).ok_or_else(|| format!("no forwarded port in: {network}"))?;
        Ok(Self {
            child: guard.0.take().ok_or("no child")?,
            console: Mutex::new(console),
            input: Mutex::new(input),
            monitor: Mutex::new(monitor),
            commands: Mutex::new(Commands {
                stream,
                answers,
                ended: HashMap::new(),
                next: 1,
            }),
            port,
            // The machine's own PCI functions come first, then the network device.
            first: match (setup.arch, setup.iommu) {
                (Arch::X86_64, false) => 3,
                _ => 2,
            },
            folder,
            started,
            boot_seconds: 0.0,
            up: String::new(),
        })
    }

    fn up(mut self, setup: &BoardSetup) -> Self {
        self.up = self.wait_for("board: up", BOOT_LIMIT);
        self.boot_seconds = self.started.elapsed().as_secs_f64();
        if setup.agent {
            self.wait_for("pairing is open", BOOT_LIMIT);
        }
        self
    }

    /// Waits for a console line that contains this text. Returns the line from the text on, because a prompt can
    /// precede the text.
    ///
    /// # Panics
    /// Panics if it does not appear within the limit, with the output so far.
    pub fn wait_for(&self, start: &str, limit: Duration) -> String {
        let by = Instant::now() + limit;
        let console = lock(&self.console);
        let mut seen = Vec::new();
        loop {
            match console.recv_timeout(by.saturating_duration_since(Instant::now())) {
                Ok(line) => match line.find(start) {
                    Some(at) => return line.get(at..).unwrap_or_default().to_owned(),
                    None => seen.push(line),
                },
                Err(RecvTimeoutError::Timeout) => panic!("no '{start}' within {limit:?}, but {seen:#?}"),
                Err(RecvTimeoutError::Disconnected) => panic!("the board ended before '{start}': {seen:#?}"),
            }
        }
    }

    /// Returns the PCI address of an added device by its number: `0000:00:03.0`.
    #[must_use]
    pub fn function(&self, number: u8) -> String {
        format!("0000:00:{:02x}.0", self.first + number)
    }

    /// Returns the agent's address on this machine.
    #[must_use]
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the folder that the board has at `/host`.
    #[must_use]
    pub fn share(&self) -> PathBuf {
        self.folder.path().join("share")
    }

    /// Starts a shell command on the board.
    ///
    /// # Panics
    /// Panics if the board accepts no commands.
    pub fn start_command(&self, text: &str) -> RunningCommand {
        assert!(!text.contains('\n'), "a command must be one line: {text}");
        let mut commands = lock(&self.commands);
        let number = commands.next;
        commands.next += 1;
        let line = format!("{number} {text}\n");
        let sent = commands.stream.write_all(line.as_bytes());
        sent.unwrap_or_else(|e| panic!("the board accepts no commands: {e}"));
        RunningCommand(number)
    }

    /// Waits for a command's end.
    ///
    /// # Panics
    /// Panics if it does not end within the limit.
    #[must_use]
    pub fn wait_for_command(&self, running: &RunningCommand, limit: Duration) -> ProgramOutput {
        let by = Instant::now() + limit;
        let mut commands = lock(&self.commands);
        let code = loop {
            if let Some(code) = commands.ended.remove(&running.0) {
                break code;
            }
            match commands
                .answers
                .recv_timeout(by.saturating_duration_since(Instant::now()))
            {
                Ok((number, code)) => {
                    commands.ended.insert(number, code);
                }
                Err(e) => panic!(
                    "command {} does not end within {limit:?}: {e}; {:?}",
                    running.0,
                    self.command_output(running, None)
                ),
            }
        };
        self.command_output(running, Some(code))
    }

    fn command_output(&self, running: &RunningCommand, code: Option<i32>) -> ProgramOutput {
        let text = |end: &str| {
            let file = self.share().join(format!("{}.{end}", running.0));
            String::from_utf8_lossy(&std::fs::read(file).unwrap_or_default()).into_owned()
        };
        ProgramOutput {
            code,
            out: text("out"),
            err: text("err"),
        }
    }

    /// Runs a shell command on the board.
    ///
    /// # Panics
    /// Panics if it does not end within two minutes.
    #[must_use]
    pub fn run(&self, text: &str) -> ProgramOutput {
        let running = self.start_command(text);
        self.wait_for_command(&running, COMMAND_LIMIT)
    }

    /// Runs a shell command on the board that must succeed. Returns its output.
    ///
    /// # Panics
    /// Panics if it fails.
    pub fn run_checked(&self, text: &str) -> String {
        let ended = self.run(text);
        assert_eq!(ended.code, Some(0), "{text}: {ended:?}");
        ended.out
    }

    /// Copies a file onto the board. Returns its path there.
    ///
    /// # Panics
    /// Panics if it cannot be copied.
    pub fn copy_file(&self, file: &Path) -> String {
        let name = file.file_name().unwrap_or_default();
        std::fs::copy(file, self.share().join(name)).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        format!("/host/{}", name.to_string_lossy())
    }

    /// Returns the file of the client's keys that are paired with this board.
    #[must_use]
    pub fn keys(&self) -> PathBuf {
        self.folder.path().join("client-keys")
    }

    /// Pairs under the name `box`: both ends confirm the same code.
    ///
    /// # Panics
    /// Panics if the pairing fails.
    pub fn pair(&self) {
        let client = PromptingProgram::start(
            Command::new(program("kinescope"))
                .args(["pair", &self.address(), "box"])
                .env("KINESCOPE_KEYS", self.keys()),
        );
        let shown = self.wait_for("pairing code: ", COMMAND_LIMIT);
        let confirmed = lock(&self.input).write_all(b"y\n");
        confirmed.unwrap_or_else(|e| panic!("the board's console: {e}"));
        let ended = client.answer("y");
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
        assert!(
            digits(&ended.err).starts_with(&digits(&shown)) && digits(&shown).len() == 9,
            "{shown} / {ended:?}"
        );
        self.wait_for("paired with", COMMAND_LIMIT);
    }

    /// Runs `kinescope` here as the paired client.
    pub fn kinescope(&self, arguments: &[&str]) -> ProgramOutput {
        kinescope(&self.keys(), arguments)
    }

    /// Returns the current screen of a board's device, by its number in the order in which the devices were added.
    ///
    /// # Panics
    /// Panics if it has no screen.
    #[must_use]
    pub fn screendump(&self, device: usize) -> Picture {
        let file = self.folder.path().join("screen.ppm");
        let arguments = json!({"filename": file, "device": format!("board{device}"), "head": 0});
        let shown = lock(&self.monitor).execute("screendump", &arguments);
        shown.unwrap_or_else(|e| panic!("{e}"));
        let bytes = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        Picture::from_ppm(&bytes).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
    }

    /// Reads the first `bytes` of a PCI function's memory BAR from QEMU, without a driver or the agent.
    ///
    /// # Panics
    /// Panics if the function has no such BAR, or if it is not decoded.
    #[must_use]
    pub fn device_memory(&self, function: &str, bar: usize, bytes: usize) -> Vec<u8> {
        let resource = self.run_checked(&format!("cat /sys/bus/pci/devices/{function}/resource"));
        let line = resource.lines().nth(bar).and_then(|l| l.split(' ').next());
        let at = line.filter(|l| l.trim_start_matches("0x").bytes().any(|b| b != b'0'));
        let at = at.unwrap_or_else(|| panic!("{function} has no BAR {bar}: {resource}"));
        let file = self.folder.path().join("memory.bin");
        let reply = self.monitor(&format!("pmemsave {at} {bytes} \"{}\"", file.display()));
        let read = std::fs::read(&file).unwrap_or_else(|e| panic!("{reply} {e}"));
        assert_eq!(read.len(), bytes, "{reply}");
        read
    }

    /// Sends a command to QEMU's human monitor.
    ///
    /// # Panics
    /// Panics if QEMU has ended.
    pub fn monitor(&self, line: &str) -> String {
        lock(&self.monitor)
            .execute_human(line)
            .unwrap_or_else(|e| panic!("{line}: {e}"))
    }

    /// Returns QEMU's peak memory so far in MB: the board's and its own.
    #[must_use]
    pub fn qemu_megabytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        line.and_then(|l| l.trim().split(' ').next()?.parse::<u64>().ok())
            .unwrap_or(0)
            >> 10
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        // The child may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends a child process on drop, unless another owner took it.
struct Guard(Option<Child>);

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // The child may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the host port from QEMU's table of its user-mode network.
fn forwarded(table: &str) -> Option<u16> {
    let line = table.lines().find(|l| l.contains("HOST_FORWARD"))?;
    line.split_whitespace()
        .skip_while(|w| *w != "127.0.0.1")
        .nth(1)?
        .parse()
        .ok()
}
