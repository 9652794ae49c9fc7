//! Targets of an unknown kind: the window queries the target first, then asks the user, once.

use super::common::Window;
use device_mali::{Model, SoftwareMali};
use egui_kittest::kittest::Queryable as _;
use kinescope_session::safety::Safety;
use kinescope_session::targets::Targets;
use replay_core::{Device, DeviceError, WaitResult};
use replay_engine::device::{
    Containment, DeviceInfo, JobReport, RegisterFactory, RegisterTarget, ReplayDeviceError, Target,
};
use replay_engine::run::Verdict;
use replay_engine::serve::{Options, Server};
use replay_engine::wire::KeyStore;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use trace_core::PhysAddr;
use trace_core::recording::Page;

/// A simulator that reports a given containment, and counts writes.
struct FixedDevice {
    mali: SoftwareMali,
    containment: Containment,
    writes: Arc<AtomicU64>,
}

impl Device for FixedDevice {
    fn read(&mut self, space: u8, offset: u64, width: u8) -> Result<u64, DeviceError> {
        self.mali.read(space, offset, width)
    }

    fn write(&mut self, space: u8, offset: u64, width: u8, value: u64) -> Result<(), DeviceError> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.mali.write(space, offset, width, value)
    }

    fn wait_interrupt(&mut self, lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
        self.mali.wait_interrupt(lines, limit_ns)
    }

    fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
        self.mali.pause(ns)
    }

    fn now_ns(&mut self) -> u64 {
        self.mali.now_ns()
    }
}

impl Target for FixedDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: "board".into(),
            containment: self.containment,
            ..self.mali.info()
        }
    }

    fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        self.mali.reset()
    }
}

impl RegisterTarget for FixedDevice {
    fn store_page(&mut self, frame: u64, page: &Page) -> Result<(), ReplayDeviceError> {
        self.mali.store_page(frame, page)
    }

    fn store_bytes(&mut self, at: PhysAddr, bytes: &[u8]) -> Result<(), ReplayDeviceError> {
        self.mali.store_bytes(at, bytes)
    }

    fn load_page(&mut self, frame: u64, page: &mut Page) -> Result<(), ReplayDeviceError> {
        self.mali.load_page(frame, page)
    }

    fn content_frames(&mut self) -> Option<Vec<u64>> {
        self.mali.content_frames()
    }

    fn take_job_reports(&mut self) -> Vec<JobReport> {
        self.mali.take_job_reports()
    }
}

/// An agent with one device, paired with the window as `box`.
struct Agent {
    folder: tempfile::TempDir,
    keys: Arc<KeyStore>,
    server: Server,
    writes: Arc<AtomicU64>,
}

impl Agent {
    fn start(containment: Containment) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keys = Arc::new(KeyStore::open(&folder.path().join("agent")).unwrap());
        let writes = Arc::default();
        let server = start_server(containment, &keys, &writes);
        let agent = Self {
            folder,
            keys,
            server,
            writes,
        };
        agent.listen();
        agent
    }

    /// Listens on a free port, and registers it as `box` in the keys of the window.
    fn listen(&self) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = KeyStore::open(&self.folder.path().join("client")).unwrap();
        self.keys.pin("window", client.key_pair().public(), "").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        client.pin("box", self.keys.key_pair().public(), &address).unwrap();
        let server = self.server.clone();
        std::thread::spawn(move || server.serve_tcp(&listener).unwrap());
    }

    /// Restarts the machine of the target with another containment of the device.
    fn restart(&mut self, containment: Containment) {
        self.server.stop();
        self.server = start_server(containment, &self.keys, &self.writes);
        self.listen();
    }

    /// Opens a window that was started with this target.
    fn window(&self) -> Window {
        let mut w = Window::open();
        w.app()
            .set_targets(Targets::new(Some(self.folder.path().join("client"))));
        w.doc().replay.choose("agent:box/board");
        w.settle();
        w
    }

    fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.server.stop();
    }
}

fn start_server(containment: Containment, keys: &Arc<KeyStore>, writes: &Arc<AtomicU64>) -> Server {
    let writes = Arc::clone(writes);
    let factory: RegisterFactory = Arc::new(move || {
        Ok(Box::new(FixedDevice {
            mali: SoftwareMali::new(Model::G71),
            containment,
            writes: Arc::clone(&writes),
        }) as Box<dyn RegisterTarget>)
    });
    Server::new(&[factory.into()], Some(Arc::clone(keys)), Options::default()).unwrap()
}

#[test]
fn initial_target_shows_containment_before_one_question() {
    let agent = Agent::start(Containment::None);
    let mut w = agent.window();
    assert_eq!(w.doc().safety(), Safety::Unqueried);
    assert!(w.has("Safety: ! plan not made"));
    assert!(w.doc().describe_safety().contains("A replay queries the target first"));
    w.run("replay");
    assert_eq!(w.doc().replay.error, None);
    assert_eq!(w.app().confirm, Some("replay"));
    assert!(w.has_part("without containment") && w.has("Safety: ! not contained"));
    assert_eq!(agent.writes(), 0, "no register was written");
    w.click("Touch the hardware");
    let outcome = w
        .doc()
        .replay
        .outcome
        .clone()
        .expect("the replay runs without a second question");
    assert_eq!(outcome.verdict, Verdict::Match);
    assert!(w.app().confirm.is_none() && agent.writes() > 0);
}

#[test]
fn declined_replay_writes_nothing_and_next_one_confirms_again() {
    let agent = Agent::start(Containment::None);
    let mut w = agent.window();
    w.run("replay");
    w.type_text("\x1b");
    assert!(w.app().confirm.is_none() && w.doc().replay.error.is_none());
    w.run("replay");
    assert!(w.has_part("without containment"));
    w.click("Cancel");
    assert_eq!(agent.writes(), 0);
}

#[test]
fn question_works_by_keyboard_and_defaults_to_cancel() {
    let agent = Agent::start(Containment::None);
    let mut w = agent.window();
    w.app().settings.hints_read = 9;
    let replay = w.app().command("replay").unwrap().shortcut.unwrap();
    w.press(replay);
    assert!(w.harness.get_by_label("Cancel").is_focused());
    w.type_text("\n");
    assert!(w.app().confirm.is_none() && agent.writes() == 0);
    w.press(replay);
    assert!(w.harness.get_by_label("Cancel").is_focused());
    w.type_text("\t");
    assert!(w.harness.get_by_label("Touch the hardware").is_focused());
    w.type_text("\n");
    assert_eq!(w.doc().replay.outcome.clone().unwrap().verdict, Verdict::Match);
}

#[test]
fn contained_hardware_has_its_own_confirmation_text() {
    let agent = Agent::start(Containment::Iommu);
    let mut w = agent.window();
    w.run("replay");
    assert!(w.has("Safety: IOMMU") && w.has_part("Replay on real hardware?"));
    assert!(!w.has_part("without containment"));
    w.click("Touch the hardware");
    assert_eq!(w.doc().replay.outcome.clone().unwrap().verdict, Verdict::Match);
}

#[test]
fn software_target_replays_without_confirmation() {
    let agent = Agent::start(Containment::Software);
    let mut w = agent.window();
    w.run("replay");
    w.settle();
    assert!(w.app().confirm.is_none());
    assert_eq!(w.doc().replay.outcome.clone().unwrap().verdict, Verdict::Match);
    assert!(w.has_part("verified"));
}

#[test]
fn changed_containment_is_confirmed_again() {
    for first in [Containment::Software, Containment::Iommu] {
        let mut agent = Agent::start(first);
        let mut w = agent.window();
        w.run("plan");
        assert!(w.doc().replay.info().is_some_and(|i| i.containment == first));
        agent.restart(Containment::None);
        w.run("replay");
        if first == Containment::Iommu {
            w.click("Touch the hardware");
        }
        assert_eq!(agent.writes(), 0, "{first:?}");
        assert_eq!(w.doc().replay.error, None);
        assert_eq!(w.app().confirm, Some("replay"));
        assert!(w.has_part("without containment") && w.doc().replay.error.is_none());
        w.click("Touch the hardware");
        assert_eq!(w.doc().replay.outcome.clone().unwrap().verdict, Verdict::Match);
    }
}

#[test]
fn unknown_agent_target_shows_an_error_without_a_question() {
    let agent = Agent::start(Containment::None);
    let mut w = agent.window();
    for (target, why) in [("agent:nobody/board", "nobody"), ("agent:box/other", "other")] {
        w.doc().replay.choose(target);
        w.run("replay");
        assert!(w.app().confirm.is_none());
        let error = w
            .doc()
            .replay
            .error
            .clone()
            .expect("the error shows why the replay did not run");
        assert!(error.text.contains(why), "{}", error.text);
        assert!(w.harness.query_all_by_label_contains("▲").next().is_some());
    }
}
