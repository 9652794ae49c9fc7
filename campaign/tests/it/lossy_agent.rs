//! An agent with a simulator in this process, behind a relay that cuts its connections once.

use device_mali::{Model, SoftwareMali};
use replay_engine::device::RegisterFactory;
use replay_engine::serve::{Options, Server};
use replay_engine::wire::KeyStore;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// An agent that serves a simulated G71, and the relay in front of it.
pub struct LossyAgent {
    server: Server,
    relay: Relay,
}

impl LossyAgent {
    /// Starts an agent. The relay cuts all connections after it passed `cut_at` bytes on; later ones stay.
    pub fn start(folder: &Path, cut_at: u64) -> Self {
        let agent = Arc::new(KeyStore::open(&folder.join("agent")).unwrap());
        let client = KeyStore::open(&folder.join("keys")).unwrap();
        // As after pairing.
        agent.pin("tester", client.key_pair().public(), "").unwrap();
        client.pin("lossy", agent.key_pair().public(), "").unwrap();
        let simulator: RegisterFactory = Arc::new(|| Ok(Box::new(SoftwareMali::new(Model::G71))));
        let server = Server::new(&[simulator.into()], Some(agent), Options::default()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serving = server.clone();
        std::thread::spawn(move || serving.serve_tcp(&listener).unwrap());
        Self {
            server,
            relay: Relay::start(address, cut_at),
        }
    }

    /// Returns its device as a target.
    pub fn target(&self) -> String {
        format!("agent://{}/mali-g71", self.relay.address)
    }

    /// Returns the number of bytes that were passed on in both directions.
    pub fn bytes(&self) -> u64 {
        self.relay.state.bytes.load(Ordering::SeqCst)
    }
}

impl Drop for LossyAgent {
    fn drop(&mut self) {
        self.server.stop();
    }
}

struct RelayState {
    bytes: AtomicU64,
    cut_at: u64,
    sockets: Mutex<Vec<TcpStream>>,
}

struct Relay {
    address: SocketAddr,
    state: Arc<RelayState>,
}

impl Relay {
    fn start(agent: SocketAddr, cut_at: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(RelayState {
            bytes: AtomicU64::new(0),
            cut_at,
            sockets: Mutex::default(),
        });
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                let Ok(agent) = TcpStream::connect(agent) else { return };
                for (from, to) in [(&client, &agent), (&agent, &client)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let state = Arc::clone(&shared);
                    std::thread::spawn(move || state.pass(from, to));
                }
                shared.sockets.lock().unwrap().extend([client, agent]);
            }
        });
        Self { address, state }
    }
}

impl RelayState {
    /// Passes bytes on in one direction until the connection ends.
    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = [0; 1024];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            let before = self.bytes.fetch_add(count as u64, Ordering::SeqCst);
            if before < self.cut_at && before + count as u64 >= self.cut_at {
                for socket in self.sockets.lock().unwrap().drain(..) {
                    let _ = socket.shutdown(Shutdown::Both);
                }
            }
            if to.write_all(&buffer[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }
}
