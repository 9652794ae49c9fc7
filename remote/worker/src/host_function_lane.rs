//! The way to the program's host functions: the driver reaches one, the client runs it, and the stream goes on.

use crate::call_error::{CallError, CallResult};
use crate::lock;
use cuda_driver::{CuStream, OUT_OF_MEMORY};
use remote_calls::message::{HostFunctionCall, HostFunctionDone, MAX_HOST_FUNCTION};
use remote_calls::{Decoder, Encoder};
use remote_ring::{MessageReader, MessageWriter, Peer, RingError, Wait};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex, OnceLock, PoisonError};

/// Bits of a host function's number in the driver's argument. The number of its session is above them.
pub const ID_BITS: u32 = MAX_HOST_FUNCTION.count_ones();

/// Calls that the client has not finished.
#[derive(Default)]
struct Calls {
    next: u64,
    unfinished: HashMap<u64, ()>,
    /// The client is gone: nothing finishes any more.
    is_over: bool,
}

/// The way to the client's host functions.
pub struct HostFunctionLane {
    writer: Mutex<MessageWriter>,
    reader: Mutex<Option<MessageReader>>,
    peer: Arc<dyn Peer + Send + Sync>,
    calls: Mutex<Calls>,
    change: Condvar,
    /// Number of the lane in this process, once it is in use.
    number: OnceLock<u16>,
}

/// Lanes in use by their numbers. The driver's argument names one, so that it is never an address.
static LANES: LazyLock<Mutex<HashMap<u16, Arc<HostFunctionLane>>>> = LazyLock::new(Mutex::default);
static NEXT_LANE: AtomicU16 = AtomicU16::new(1);

impl HostFunctionLane {
    /// Creates a lane.
    pub fn new(writer: MessageWriter, reader: MessageReader, peer: Arc<dyn Peer + Send + Sync>) -> Self {
        Self {
            writer: Mutex::new(writer),
            reader: Mutex::new(Some(reader)),
            peer,
            calls: Mutex::default(),
            change: Condvar::new(),
            number: OnceLock::new(),
        }
    }

    /// Returns the lane's number. At the first call, a thread starts that takes what the client has finished.
    pub fn start(self: &Arc<Self>) -> CallResult<u16> {
        let mut reader = lock(&self.reader);
        if let Some(number) = self.number.get() {
            return Ok(*number);
        }
        let failed = || CallError::Result(OUT_OF_MEMORY);
        let own = reader.take().ok_or_else(failed)?;
        let lane = Arc::clone(self);
        let thread = std::thread::Builder::new().name("kinescope-host-functions".into());
        thread.spawn(move || lane.take_finished(own)).map_err(|_| failed())?;
        let number = NEXT_LANE.fetch_add(1, Ordering::Relaxed);
        lock(&LANES).insert(number, Arc::clone(self));
        Ok(*self.number.get_or_init(|| number))
    }

    fn take_finished(&self, mut reader: MessageReader) {
        let mut message = Vec::new();
        loop {
            let done = match reader.read(&mut message, Wait::Forever, &*self.peer) {
                Ok(_) => HostFunctionDone::read(&mut Decoder::new(&message)).ok(),
                Err(RingError::PeerGone { .. }) => None,
                Err(_) => None,
            };
            let mut calls = lock(&self.calls);
            match done {
                Some(done) => {
                    calls.unfinished.remove(&done.ticket);
                }
                // The session is over too: its own ring has the same peer.
                None => calls.is_over = true,
            }
            let is_over = calls.is_over;
            drop(calls);
            self.change.notify_all();
            if is_over {
                return;
            }
        }
    }

    /// Has the client run a function, and waits until it has.
    fn call(&self, id: u64, status: u32) {
        let ticket = {
            let mut calls = lock(&self.calls);
            let ticket = calls.next;
            calls.next += 1;
            calls.unfinished.insert(ticket, ());
            ticket
        };
        let mut message = Encoder::default();
        HostFunctionCall { id, ticket, status }.write(&mut message);
        let sent = lock(&self.writer).write(&[message.as_bytes()], &*self.peer);
        let mut calls = lock(&self.calls);
        if sent.is_err() {
            calls.is_over = true;
        }
        while !calls.is_over && calls.unfinished.contains_key(&ticket) {
            calls = self.change.wait(calls).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Runs a host function of a program. The driver calls it.
pub extern "C" fn run_function(data: *mut c_void) {
    run(data, 0);
}

/// Runs a callback of a program. The driver calls it.
pub extern "C" fn run_callback(_stream: CuStream, status: u32, data: *mut c_void) {
    run(data, status);
}

fn run(data: *mut c_void, status: u32) {
    let number = data.addr() as u64;
    let lane = u16::try_from(number >> ID_BITS)
        .ok()
        .and_then(|lane| lock(&LANES).get(&lane).cloned());
    if let Some(lane) = lane {
        lane.call(number & MAX_HOST_FUNCTION, status);
    }
}
