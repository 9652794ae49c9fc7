//! Fake kernel for tests: a file tree in memory that handles binding, probes, instances, modules and tracers like the
//! kernel. It logs all changes, and fails on request.

use crate::fbdev::FrameBuffer;
use crate::kernel::Kernel;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Eq)]
enum FakeFile {
    Folder,
    File(Vec<u8>),
    Link(String),
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<String, FakeFile>,
    /// Actions so far, in order.
    done: Vec<String>,
    /// Number of changes that succeed before a change fails; `None` if no change fails.
    fail_in: Option<usize>,
    /// Drivers that refuse every device.
    refusing: Vec<String>,
    /// Driver of each module.
    brings: BTreeMap<String, String>,
    /// Traces: the path of a file on the real disk by its path in the fake kernel.
    traces: BTreeMap<String, PathBuf>,
}

/// A kernel in memory.
#[derive(Default)]
pub(crate) struct FakeKernel {
    state: Mutex<State>,
    arm: bool,
    folder: Option<tempfile::TempDir>,
}

const TRACING: &str = "/sys/kernel/tracing";
const HEAD: &str = "VERSION 20070824\nPCIDEV 0018 10025159 b fd000008 c001 febf0000 0 0 0 0 1000000 100 4000 0 0 0 0\n";
const AUXILIARY_HEAD: &str = "# tracer: nop\n";

impl State {
    fn put(&mut self, path: &str, node: FakeFile) {
        let mut at = String::new();
        for part in path
            .trim_start_matches('/')
            .rsplit_once('/')
            .map_or("", |(parent, _)| parent)
            .split('/')
        {
            at = format!("{at}/{part}");
            self.nodes.entry(at.clone()).or_insert(FakeFile::Folder);
        }
        self.nodes.insert(path.to_owned(), node);
    }

    fn text(&self, path: &str) -> Option<String> {
        match self.nodes.get(path)? {
            FakeFile::File(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
            _ => None,
        }
    }

    fn remove(&mut self, path: &str) {
        let below = format!("{path}/");
        self.nodes.retain(|p, _| p != path && !p.starts_with(&below));
    }

    /// Counts a change, and returns an error if this change must fail.
    fn change(&mut self, description: String) -> io::Result<()> {
        self.done.push(description);
        match &mut self.fail_in {
            Some(0) => {
                self.fail_in = None;
                Err(Errno::IO.into())
            }
            Some(n) => {
                *n -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn trace(&self, path: &str, line: &str) {
        if let Some(file) = self.traces.get(path) {
            let mut file = OpenOptions::new().append(true).open(file).unwrap();
            file.write_all(line.as_bytes()).unwrap();
        }
    }

    /// Empties a trace except for its header, like a restart.
    fn restart(&self, path: &str) {
        if let Some(file) = self.traces.get(path) {
            let head = if path.contains("instances") {
                AUXILIARY_HEAD
            } else {
                HEAD
            };
            std::fs::write(file, head).unwrap();
        }
    }

    fn mmiotrace(&self) -> bool {
        self.text(&format!("{TRACING}/current_tracer"))
            .is_some_and(|t| t.trim() == "mmiotrace")
    }

    fn bind(&mut self, bus: &str, driver: &str, device: &str) -> io::Result<()> {
        let link = format!("{bus}/devices/{device}/driver");
        if self.nodes.contains_key(&link) || self.refusing.iter().any(|d| d == driver) {
            return Err(Errno::NODEV.into());
        }
        self.put(&link, FakeFile::Link(format!("../../../bus/pci/drivers/{driver}")));
        if self.mmiotrace() {
            let lines = "R 4 2.000001 1 0xfebf0148 0x0 0x0 0\nW 4 2.000002 1 0xfebf0050 0x1 0x0 0\n";
            self.trace(&format!("{TRACING}/trace_pipe"), lines);
        }
        let instance = format!("{TRACING}/instances/kinescope");
        let on = |name: &str| self.text(&format!("{instance}/events/{name}/enable")).as_deref() == Some("1");
        let head = "modprobe-9 [000] ..... 2.000001:";
        let mut lines = String::new();
        if on("kinescope/access0") {
            lines += &format!("{head} access0: (igb_rd32+0x0/0x60 [igb]) of=0xffff8a7a827e0ed8 off=0x18\n");
            lines += &format!("{head} access0_ret: (igb_x+0xa2/0xef0 [igb] <- igb_rd32) val=0x5\n");
        }
        if on("irq/irq_handler_entry") {
            lines += &format!("{head} request_irq: (request_threaded_irq+0x0/0x1) irq=11 handler=0xffff\n");
            lines += &format!("{head} irq_handler_entry: irq=11 name=x\n");
        }
        self.trace(&format!("{instance}/trace_pipe"), &lines);
        Ok(())
    }

    fn write(&mut self, path: &str, text: &str) -> io::Result<()> {
        let value = text.trim();
        if let Some((bus, rest)) = path.split_once("/drivers/") {
            let (driver, file) = rest.split_once('/').unwrap();
            return match file {
                "bind" => self.bind(bus, driver, value),
                "unbind" => {
                    let link = format!("{bus}/devices/{value}/driver");
                    let bound =
                        matches!(self.nodes.get(&link), Some(FakeFile::Link(l)) if l.ends_with(&format!("/{driver}")));
                    if !bound {
                        return Err(Errno::NODEV.into());
                    }
                    self.remove(&link);
                    Ok(())
                }
                _ => Err(Errno::ACCESS.into()),
            };
        }
        if path.ends_with("kprobe_events") {
            let mut events = self.text(path).ok_or(Errno::NOENT)?;
            if let Some(name) = value.strip_prefix("-:") {
                if self.nodes.contains_key(&format!("{TRACING}/instances/kinescope")) {
                    return Err(Errno::BUSY.into());
                }
                events = events
                    .lines()
                    .filter(|l| l.split([':', ' ']).nth(1) != Some(name))
                    .flat_map(|l| [l, "\n"])
                    .collect();
                self.remove(&format!("{TRACING}/events/{name}"));
            } else {
                let name = value.split([':', ' ']).nth(1).ok_or(Errno::INVAL)?;
                events += &format!("{value}\n");
                self.put(
                    &format!("{TRACING}/events/{name}/enable"),
                    FakeFile::File(b"0".to_vec()),
                );
            }
            self.nodes.insert(path.to_owned(), FakeFile::File(events.into_bytes()));
            return Ok(());
        }
        if let Some(folder) = path.strip_suffix("/trace_marker") {
            let line = match folder {
                TRACING => format!("MARK 3.000000 {value}\n"),
                _ => format!("sh-9 [000] ..... 3.000000: tracing_mark_write: {value}\n"),
            };
            self.trace(&format!("{folder}/trace_pipe"), &line);
            return Ok(());
        }
        if path.ends_with("current_tracer") && value != "nop" {
            self.restart(&format!("{TRACING}/trace_pipe"));
        }
        match self.nodes.get_mut(path) {
            Some(FakeFile::File(bytes)) => {
                *bytes = if path.ends_with("driver_override") && value.is_empty() {
                    b"(null)".to_vec()
                } else {
                    value.as_bytes().to_vec()
                };
                Ok(())
            }
            _ => Err(Errno::NOENT.into()),
        }
    }
}

impl FakeKernel {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn put(&mut self, path: &str, text: &str) {
        self.put_bytes(path, text.as_bytes().to_vec());
    }

    pub(crate) fn put_bytes(&mut self, path: &str, bytes: Vec<u8>) {
        self.state().put(path, FakeFile::File(bytes));
    }

    pub(crate) fn put_link(&mut self, path: &str, to: &str) {
        self.state().put(path, FakeFile::Link(to.into()));
    }

    /// Returns the actions since the last call.
    pub(crate) fn take_actions(&self) -> Vec<String> {
        std::mem::take(&mut self.state().done)
    }

    /// Returns the visible state, without folders.
    pub(crate) fn list_visible(&self) -> BTreeMap<String, String> {
        let state = self.state();
        let shown = |(path, node): (&String, &FakeFile)| match node {
            // Empty folders can remain and do not count.
            FakeFile::Folder => None,
            FakeFile::File(bytes) => Some((path.clone(), String::from_utf8_lossy(bytes).trim().to_owned())),
            FakeFile::Link(to) => Some((path.clone(), format!("-> {to}"))),
        };
        state.nodes.iter().filter_map(shown).collect()
    }

    /// Makes the change after `n` more changes fail.
    pub(crate) fn fail_in(&self, n: usize) {
        self.state().fail_in = Some(n);
    }

    /// Returns whether the requested failure has happened.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().fail_in.is_none()
    }

    pub(crate) fn refuse(&self, driver: &str) {
        self.state().refusing.push(driver.into());
    }

    fn tracing(&mut self, tracers: &str) {
        let folder = tempfile::tempdir().unwrap();
        let mut state = self.state();
        for (name, text) in [
            ("available_tracers", tracers),
            ("current_tracer", "nop"),
            ("buffer_size_kb", "7 (expanded: 1408)"),
            ("tracing_on", "1"),
            ("trace_clock", "[local] global counter"),
            ("kprobe_events", ""),
            ("kprobe_profile", ""),
            ("events/enable", "0"),
            ("per_cpu/cpu0/stats", "entries: 0\noverrun: 0\ndropped events: 0\n"),
            ("instances/other/trace", ""),
            ("events/irq/irq_handler_entry/enable", "0"),
            ("events/irq/irq_handler_exit/enable", "0"),
        ] {
            state.put(&format!("{TRACING}/{name}"), FakeFile::File(text.as_bytes().to_vec()));
        }
        for (name, at) in [
            ("log", TRACING.to_owned()),
            ("aux", format!("{TRACING}/instances/kinescope")),
        ] {
            let path = folder.path().join(name);
            state.traces.insert(format!("{at}/trace_pipe"), path);
            state.restart(&format!("{at}/trace_pipe"));
        }
        drop(state);
        self.folder = Some(folder);
        self.put("/proc/sys/kernel/random/boot_id", "one\n");
        self.put("/proc/modules", "virtio_pci 1 0 - Live 0x0\nigb 1 0 - Live 0x0\n");
        self.put("/proc/meminfo", "MemTotal: 1 kB\nMemAvailable:     400000 kB\n");
    }

    /// Returns a PC with an RV100 without a driver, and two network interfaces of igb.
    pub(crate) fn pc() -> Self {
        let mut fake = Self::default();
        fake.tracing("blk mmiotrace nop");
        for (address, vendor, device, class) in [
            ("0000:00:03.0", "1002", "5159", "0x030000"),
            ("0000:00:04.0", "8086", "10c9", "0x020000"),
            ("0000:00:05.0", "8086", "10c9", "0x020000"),
        ] {
            let folder = format!("/sys/bus/pci/devices/{address}");
            for (name, text) in [
                ("vendor", format!("0x{vendor}\n")),
                ("device", format!("0x{device}\n")),
                ("class", format!("{class}\n")),
                ("revision", "0x00\n".into()),
                ("irq", "11\n".into()),
                ("driver_override", "(null)\n".into()),
                ("modalias", format!("pci:v0000{vendor}d0000{device}sv0sd0bc03sc00i00\n")),
                (
                    "resource",
                    "0x00000000fd000000 0x00000000fdffffff 0x0000000000042208\n\
                     0x000000000000c000 0x000000000000c0ff 0x0000000000040101\n\
                     0x00000000febf0000 0x00000000febf3fff 0x0000000000040200\n\
                     0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
                        .into(),
                ),
            ] {
                fake.put(&format!("{folder}/{name}"), &text);
            }
        }
        fake.put("/sys/bus/pci/drivers_autoprobe", "1");
        for driver in ["igb", "other"] {
            fake.put(&format!("/sys/bus/pci/drivers/{driver}/bind"), "");
            fake.put(&format!("/sys/bus/pci/drivers/{driver}/unbind"), "");
        }
        fake.put_link("/sys/bus/pci/drivers/igb/module", "../../../../module/igb");
        fake.put_link(
            "/sys/bus/pci/devices/0000:00:04.0/driver",
            "../../../bus/pci/drivers/igb",
        );
        fake.put("/sys/class/dmi/id/sys_vendor", "QEMU\n");
        fake.put("/sys/class/dmi/id/product_name", "Standard PC\n");
        let modules = "/lib/modules/6.1.0-56-amd64";
        fake.put(
            &format!("{modules}/modules.alias"),
            "# Aliases\nalias pci:v00001002d00005159sv*sd*bc*sc*i* radeonfb\nalias pci:v00001002d00005159sv*sd*bc*sc*i* \
             radeon\nalias pci:v00008086d000010C9sv*sd*bc*sc*i* igb\n",
        );
        fake.put(
            &format!("{modules}/modules.dep"),
            "kernel/drivers/video/fbdev/core/fb_ddc.ko:\n\
             kernel/drivers/video/fbdev/aty/radeonfb.ko: kernel/drivers/video/fbdev/core/fb_ddc.ko\n",
        );
        fake.state().brings.insert("radeonfb".into(), "radeonfb".into());
        fake
    }

    /// Returns an arm64 board with a clock on its AMBA bus.
    pub(crate) fn board() -> Self {
        let mut fake = Self {
            arm: true,
            ..Self::default()
        };
        fake.tracing("nop");
        let be = |words: &[u32]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<u8>>();
        let tree = "/proc/device-tree";
        fake.put_bytes(&format!("{tree}/#address-cells"), be(&[2]));
        fake.put_bytes(&format!("{tree}/#size-cells"), be(&[2]));
        fake.put_bytes(&format!("{tree}/pl031@9010000/reg"), be(&[0, 0x901_0000, 0, 0x1000]));
        fake.put_bytes(
            &format!("{tree}/pl031@9010000/compatible"),
            b"arm,pl031\0arm,primecell\0".to_vec(),
        );
        fake.put_link(
            "/sys/bus/amba/devices/9010000.pl031/of_node",
            "../../../../firmware/devicetree/base/pl031@9010000",
        );
        fake.put(
            "/proc/interrupts",
            "           CPU0\n 48:          0     GIC-0  34 Level     rtc-pl031, 9010000.pl031\n",
        );
        fake
    }
}

impl Kernel for FakeKernel {
    fn read_bytes(&self, path: &str) -> io::Result<Vec<u8>> {
        match self.state().nodes.get(path) {
            Some(FakeFile::File(bytes)) => Ok(bytes.clone()),
            // These files are from the real processes of the test.
            None if path.starts_with("/proc/") && (path.ends_with("/stat") || path.ends_with("/environ")) => {
                std::fs::read(path)
            }
            _ => Err(Errno::NOENT.into()),
        }
    }

    fn read_bytes_at(&self, path: &str, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let all = self.read_bytes(path)?;
        let rest = all.get(usize::try_from(at).unwrap()..).unwrap_or_default();
        Ok(rest.get(..bytes).unwrap_or(rest).to_vec())
    }

    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let mut state = self.state();
        state.change(format!("{} > {path}", text.trim()))?;
        state.write(path, text)
    }

    fn make_folder(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        state.change(format!("mkdir {path}"))?;
        if state.nodes.contains_key(path) {
            return Err(Errno::EXIST.into());
        }
        state.restart(&format!("{path}/trace_pipe"));
        for name in [
            "buffer_size_kb",
            "trace_clock",
            "events/irq/irq_handler_entry/filter",
            "events/irq/irq_handler_exit/filter",
        ] {
            state.put(&format!("{path}/{name}"), FakeFile::File(Vec::new()));
        }
        let events: Vec<String> = state
            .nodes
            .keys()
            .filter_map(|k| Some(k.strip_prefix(&format!("{TRACING}/events/"))?.to_owned()))
            .filter(|k| k.ends_with("/enable"))
            .collect();
        for event in events {
            state.put(&format!("{path}/events/{event}"), FakeFile::File(b"0".to_vec()));
            let filter = event.replace("/enable", "/filter");
            state.put(&format!("{path}/events/{filter}"), FakeFile::File(Vec::new()));
        }
        Ok(())
    }

    fn remove_folder(&self, path: &str) -> io::Result<()> {
        let mut state = self.state();
        state.change(format!("rmdir {path}"))?;
        state.remove(path);
        Ok(())
    }

    fn read_link(&self, path: &str) -> io::Result<String> {
        match self.state().nodes.get(path) {
            Some(FakeFile::Link(to)) => Ok(to.clone()),
            _ => Err(Errno::INVAL.into()),
        }
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        if path == "/proc" {
            let mut all = crate::kernel::Machine::default().list(path)?;
            let state = self.state();
            let added = state.nodes.keys().filter_map(|k| k.strip_prefix("/proc/"));
            all.extend(added.filter(|n| !n.contains('/')).map(str::to_owned));
            return Ok(all);
        }
        let below = format!("{path}/");
        let state = self.state();
        let all = state.nodes.keys().filter_map(|k| k.strip_prefix(&below));
        Ok(all.filter(|n| !n.contains('/')).map(str::to_owned).collect())
    }

    fn exists(&self, path: &str) -> bool {
        self.state().nodes.contains_key(path)
    }

    fn load(&self, module: &str, _: &mut dyn FnMut(u32)) -> io::Result<()> {
        let mut state = self.state();
        state.change(format!("modprobe {module}"))?;
        let Some(driver) = state.brings.get(module).cloned() else {
            return Err(io::Error::other(format!("module {module} not found")));
        };
        let mut loaded = state.text("/proc/modules").unwrap_or_default();
        loaded += &format!("fb_ddc 1 1 {module}, Live 0x0\n{module} 1 0 - Live 0x0\n");
        state.put("/proc/modules", FakeFile::File(loaded.into_bytes()));
        for name in ["bind", "unbind"] {
            state.put(
                &format!("/sys/bus/pci/drivers/{driver}/{name}"),
                FakeFile::File(Vec::new()),
            );
        }
        state.put(&format!("/sys/module/{module}/drivers/pci:{driver}"), FakeFile::Folder);
        if state.text("/sys/bus/pci/drivers_autoprobe").as_deref() == Some("1") {
            state.bind("/sys/bus/pci", &driver, "0000:00:03.0")?;
        }
        Ok(())
    }

    fn unload(&self, module: &str) -> io::Result<()> {
        let mut state = self.state();
        state.change(format!("rmmod {module}"))?;
        let driver = state.brings.get(module).cloned().unwrap_or_default();
        let used = state.nodes.iter().any(|(p, n)| {
            p.ends_with("/driver") && matches!(n, FakeFile::Link(l) if l.ends_with(&format!("/drivers/{driver}")))
        });
        if used && !driver.is_empty() {
            return Err(Errno::AGAIN.into());
        }
        let loaded = state.text("/proc/modules").unwrap_or_default();
        let remaining: String = loaded
            .lines()
            .filter(|l| l.split(' ').next() != Some(module))
            .flat_map(|l| [l, "\n"])
            .collect();
        state.put("/proc/modules", FakeFile::File(remaining.into_bytes()));
        state.remove(&format!("/sys/module/{module}"));
        if !driver.is_empty() {
            state.remove(&format!("/sys/bus/pci/drivers/{driver}"));
        }
        Ok(())
    }

    fn open_trace(&self, path: &str) -> io::Result<File> {
        let mut state = self.state();
        state.change(format!("open {path}"))?;
        if let Some(file) = state.traces.get(path) {
            return File::open(file);
        }
        let text = state.text(path).ok_or(Errno::NOENT)?;
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(text.as_bytes())?;
        File::open(Path::new(file.path()))
    }

    fn end_process(&self, pid: u32, kill: bool) -> io::Result<()> {
        crate::kernel::Machine::default().end_process(pid, kill)
    }

    fn frame_buffer(&self, path: &str) -> io::Result<FrameBuffer> {
        self.read_bytes(path)?;
        Ok(FrameBuffer {
            width: 2,
            height: 1,
            left: 0,
            top: 0,
            bits: 32,
            channels: [(16, 8), (8, 8), (0, 8)],
            palette: None,
        })
    }

    fn is_root(&self) -> bool {
        true
    }

    fn release(&self) -> (String, String) {
        let architecture = if self.arm { "aarch64" } else { "x86_64" };
        (
            format!("6.1.0-56-{}", if self.arm { "arm64" } else { "amd64" }),
            architecture.into(),
        )
    }

    /// Waits for a short time only, because other processes still need some time.
    fn pause(&self, time: Duration) {
        std::thread::sleep(time.min(Duration::from_millis(1)));
    }
}
