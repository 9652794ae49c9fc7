//! A test device, plans for it, and protocol ends that a test controls.
#![allow(dead_code, missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use replay_core::{Action, Device, DeviceError, ReadClass, WaitResult};
use replay_engine::client::{Client, Endpoint, Lease};
use replay_engine::device::{
    Arena, Containment, DeviceInfo, DeviceInterface, JobReport, RegisterFactory, RegisterTarget, ReplayDeviceError,
    Target,
};
use replay_engine::plan::{AccessPlan, BodyBuilder, Compiled, Plan, PlanBody, PlanPage, ReadClasses, RegisterPlan};
use replay_engine::serve::{Options, Server};
use replay_engine::wire::{
    Channel, HANDSHAKE_LIMIT, KeyPair, KeyStore, Limits, Preamble, PreambleWord, Stream, WRITE_LIMIT,
};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use trace_core::PhysAddr;
use trace_core::recording::{FrameRole, Page};

pub const GPU_ID: u32 = 0x6000_0000;
pub const FRAMES: u64 = 4096;
const BASE: u64 = 0x1_0000_0000;

/// Time after which a test counts as hung.
pub const HANG_LIMIT: Duration = Duration::from_secs(120);

/// Behaviour of the test device at a read.
pub const SOUND: u8 = 0;
pub const SLOW: u8 = 1;
pub const PANICS: u8 = 2;
/// A read does not return while the device has this mood.
pub const HANGS: u8 = 3;
/// The device runs in real time and never interrupts.
pub const WAITS: u8 = 4;

/// Each reset of the device takes longer than a client waits for a held device.
pub const SLOW_RESET: u8 = 5;

/// The name of a device without containment.
pub const UNCONTAINED: &str = "uncontained";

/// A device whose registers read as the GPU id. It misbehaves as its mood requests.
pub struct TestDevice {
    name: &'static str,
    mood: Arc<AtomicU8>,
    waits: Arc<AtomicU64>,
    now: u64,
    pages: BTreeMap<u64, Box<Page>>,
}

/// Sets the behaviour of devices, and counts created devices and started waits.
#[derive(Clone, Default)]
pub struct Strings {
    pub mood: Arc<AtomicU8>,
    pub created: Arc<AtomicU64>,
    pub waits: Arc<AtomicU64>,
}

impl Strings {
    pub fn set(&self, mood: u8) {
        self.mood.store(mood, Ordering::SeqCst);
    }

    pub fn factory(&self, name: &'static str) -> RegisterFactory {
        let strings = self.clone();
        Arc::new(move || {
            strings.created.fetch_add(1, Ordering::SeqCst);
            let mood = Arc::clone(&strings.mood);
            Ok(Box::new(TestDevice {
                name,
                mood,
                waits: Arc::clone(&strings.waits),
                now: 0,
                pages: BTreeMap::new(),
            }) as Box<dyn RegisterTarget>)
        })
    }
}

impl Device for TestDevice {
    fn read(&mut self, space: u8, offset: u64, _width: u8) -> Result<u64, DeviceError> {
        if space != 0 || offset >= 0x4000 {
            return Err(DeviceError::OutOfRange);
        }
        self.now += 10;
        match self.mood.load(Ordering::SeqCst) {
            SLOW => std::thread::sleep(Duration::from_micros(500)),
            PANICS => panic!("the test board panics when it is read"),
            HANGS => {
                while self.mood.load(Ordering::SeqCst) == HANGS {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            _ => {}
        }
        Ok(u64::from(GPU_ID))
    }

    fn write(&mut self, _space: u8, _offset: u64, _width: u8, _value: u64) -> Result<(), DeviceError> {
        Ok(())
    }

    fn wait_interrupt(&mut self, _lines: u32, limit_ns: u64) -> Result<WaitResult, DeviceError> {
        self.waits.fetch_add(1, Ordering::SeqCst);
        if self.mood.load(Ordering::SeqCst) == WAITS {
            std::thread::sleep(Duration::from_nanos(limit_ns));
        }
        self.now += limit_ns;
        Ok(WaitResult::TimedOut)
    }

    fn pause(&mut self, ns: u64) -> Result<(), DeviceError> {
        self.now += ns;
        Ok(())
    }

    fn now_ns(&mut self) -> u64 {
        self.now
    }
}

impl Target for TestDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            name: self.name.to_owned(),
            description: "a board of the tests' own".to_owned(),
            gpu_id: GPU_ID,
            gpu_name: "Mali-G71".to_owned(),
            register_map: "mali-jm".to_owned(),
            containment: match self.name {
                UNCONTAINED => Containment::None,
                _ => Containment::Software,
            },
            hardware: None,
            windows: replay_engine::device::Window::registers(0x4000),
            arena: Arena {
                base: PhysAddr::new(BASE),
                pages: FRAMES,
            },
            interface: DeviceInterface::Registers,
            virtual_time: self.mood.load(Ordering::SeqCst) != WAITS,
            computes: false,
        }
    }

    fn reset(&mut self) -> Result<(), ReplayDeviceError> {
        if self.mood.load(Ordering::SeqCst) == SLOW_RESET {
            std::thread::sleep(Duration::from_millis(1200));
        }
        self.pages.clear();
        self.now = 0;
        Ok(())
    }
}

impl RegisterTarget for TestDevice {
    fn store_page(&mut self, frame: u64, page: &Page) -> Result<(), ReplayDeviceError> {
        if !(BASE >> 12..(BASE >> 12) + FRAMES).contains(&frame) {
            return Err(ReplayDeviceError::OutsideArena { frame });
        }
        self.pages.insert(frame, Box::new(*page));
        Ok(())
    }

    fn load_page(&mut self, frame: u64, page: &mut Page) -> Result<(), ReplayDeviceError> {
        *page = self.pages.get(&frame).map_or([0; 4096], |p| **p);
        Ok(())
    }

    fn take_job_reports(&mut self) -> Vec<JobReport> {
        Vec::new()
    }
}

/// Returns a plan that reads the GPU id `reads` times. The page images are in the first frames of the arena.
pub fn plan(reads: u32, images: &[Page]) -> Compiled {
    let actions = (0..reads).map(|event| Action::Read {
        event,
        space: 0,
        offset: 0,
        width: 4,
        class: ReadClass::Equal,
        expected: u64::from(GPU_ID),
    });
    plan_of(actions, images)
}

pub fn plan_of(actions: impl IntoIterator<Item = Action>, images: &[Page]) -> Compiled {
    let mut body = BodyBuilder::new();
    let mut reads = ReadClasses::default();
    for a in actions {
        reads.equal += u64::from(matches!(a, Action::Read { .. }));
        body.push(&a).unwrap();
    }
    let (body, actions) = body.finish();
    let digest = |p: &Page| *blake3::hash(p).as_bytes();
    let pages = images.iter().zip(BASE >> 12..);
    let accesses = AccessPlan {
        gpu_id: GPU_ID,
        register_map: "mali-jm".to_owned(),
        arena: Arena {
            base: PhysAddr::new(BASE),
            pages: FRAMES,
        },
        pages: pages
            .map(|(p, frame)| PlanPage {
                frame,
                digest: digest(p),
                role: FrameRole::Data,
            })
            .collect(),
        used_pages: images.len() as u64,
        reads,
        body,
        ..AccessPlan::default()
    };
    let plan = Plan {
        title: "a plan of the tests' own".to_owned(),
        actions,
        ..Plan::new(PlanBody::Registers(RegisterPlan {
            accesses,
            ..RegisterPlan::default()
        }))
    };
    Compiled {
        plan,
        pages: images.iter().map(|p| (digest(p), (*p).into())).collect(),
    }
}

/// Returns `n` different page images.
pub fn images(n: usize) -> Vec<Page> {
    (0..n)
        .map(|i| {
            let mut page = [0xa5; 4096];
            page[..8].copy_from_slice(&(i as u64 + 1).to_le_bytes());
            page
        })
        .collect()
}

/// Key stores of both ends, in a folder that is removed after the test.
pub struct Ends {
    pub folder: TempDir,
    pub agent: Arc<KeyStore>,
    pub client: Arc<KeyStore>,
}

impl Ends {
    pub fn strangers() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let agent = Arc::new(KeyStore::open(&folder.path().join("agent")).unwrap());
        let client = Arc::new(KeyStore::open(&folder.path().join("client")).unwrap());
        Self { folder, agent, client }
    }

    /// Creates key stores in which both ends trust each other, as after pairing.
    pub fn paired(address: &str) -> Self {
        let ends = Self::strangers();
        ends.agent.pin("bench", ends.client.key_pair().public(), "").unwrap();
        ends.client
            .pin("board", ends.agent.key_pair().public(), address)
            .unwrap();
        ends
    }

    /// Creates another client that the agent trusts under this name.
    pub fn another(&self, name: &str) -> KeyStore {
        let store = KeyStore::open(&self.folder.path().join(name)).unwrap();
        self.agent.pin(name, store.key_pair().public(), "").unwrap();
        store.pin("board", self.agent.key_pair().public(), "").unwrap();
        store
    }
}

pub fn quick() -> Options {
    Options {
        grace: Duration::from_millis(400),
        ..Options::default()
    }
}

/// Serves on a free port of the loopback address.
pub fn listen(server: &Server) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = server.clone();
    std::thread::spawn(move || server.serve_tcp(&listener).unwrap());
    address
}

pub fn tcp(address: SocketAddr) -> Endpoint {
    Endpoint::Tcp(address.to_string())
}

/// A server with one test device named `board`, and a client that the server trusts.
pub struct Bench {
    pub ends: Ends,
    pub server: Server,
    pub address: SocketAddr,
    pub strings: Strings,
}

impl Bench {
    pub fn new(options: Options) -> Self {
        let ends = Ends::paired("");
        let strings = Strings::default();
        let server = Server::new(
            &[strings.factory("board").into()],
            Some(Arc::clone(&ends.agent)),
            options,
        )
        .unwrap();
        let address = listen(&server);
        Self {
            ends,
            server,
            address,
            strings,
        }
    }

    pub fn client(&self) -> Client {
        Client::connect(&tcp(self.address), &self.ends.client, Some("board")).unwrap()
    }

    pub fn lease(&self) -> Lease {
        self.client().lease("board").unwrap()
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.server.stop();
    }
}

pub fn soon() -> Instant {
    Instant::now() + HANDSHAKE_LIMIT
}

/// Connects as a client with preamble and handshake. Accepts any key.
pub fn raw_client(address: SocketAddr, own: &KeyPair, word: PreambleWord) -> Channel {
    raw_client_with(address, own, &Preamble::new(word))
}

/// Connects as a client with this preamble, and with the handshake. Accepts any key.
pub fn raw_client_with(address: SocketAddr, own: &KeyPair, preamble: &Preamble) -> Channel {
    let mut stream = Stream::Tcp(TcpStream::connect(address).unwrap());
    stream.set_limits(HANDSHAKE_LIMIT, WRITE_LIMIT).unwrap();
    let ours = preamble.send(&mut stream).unwrap();
    let (theirs, bytes) = Preamble::receive(&mut stream, soon()).unwrap();
    assert_eq!(theirs.known_word(), Some(PreambleWord::Go));
    let prologue: Vec<u8> = ours.into_iter().chain(bytes).collect();
    Channel::initiate::<replay_engine::wire::WireError>(stream, own, &prologue, Limits::FromAgent, soon(), |_| Ok(()))
        .unwrap()
}

/// Answers preamble and handshake as an agent.
pub fn raw_agent(stream: TcpStream, own: &KeyPair) -> Channel {
    let mut stream = Stream::Tcp(stream);
    stream.set_limits(HANDSHAKE_LIMIT, WRITE_LIMIT).unwrap();
    let (_, theirs) = Preamble::receive(&mut stream, soon()).unwrap();
    let ours = Preamble::new(PreambleWord::Go).send(&mut stream).unwrap();
    let prologue: Vec<u8> = theirs.into_iter().chain(ours).collect();
    Channel::respond(stream, own, &prologue, Limits::FromClient, soon()).unwrap()
}

/// Waits until `done` returns true. Fails if the test hangs.
pub fn until(condition: &str, mut done: impl FnMut() -> bool) {
    let by = Instant::now() + HANG_LIMIT;
    while !done() {
        assert!(Instant::now() < by, "timed out waiting for {condition}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns whether an agent lets a client pair now.
pub fn is_pairing_open(address: SocketAddr) -> bool {
    let mut stream = Stream::Tcp(TcpStream::connect(address).unwrap());
    stream.set_limits(HANDSHAKE_LIMIT, WRITE_LIMIT).unwrap();
    Preamble::new(PreambleWord::Pair).send(&mut stream).unwrap();
    let (theirs, _) = Preamble::receive(&mut stream, soon()).unwrap();
    theirs.known_word() == Some(PreambleWord::Go)
}

/// Relays bytes between a client and an agent until it is cut.
pub struct Relay {
    pub address: SocketAddr,
    sockets: Arc<std::sync::Mutex<Vec<TcpStream>>>,
}

impl Relay {
    pub fn to(agent: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sockets = Arc::new(std::sync::Mutex::new(Vec::new()));
        let connections = Arc::clone(&sockets);
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let agent = TcpStream::connect(agent).unwrap();
                for (from, to) in [(&client, &agent), (&agent, &client)] {
                    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                }
                connections.lock().unwrap().extend([client, agent]);
            }
        });
        Self { address, sockets }
    }

    /// Closes every connection.
    pub fn cut(&self) {
        for s in self.sockets.lock().unwrap().drain(..) {
            let _ = s.shutdown(std::net::Shutdown::Both);
        }
    }
}
