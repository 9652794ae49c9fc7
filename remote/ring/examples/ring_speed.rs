//! Prints how long writing a message and a round trip between two threads take. Run it with `--release`.
#![allow(clippy::print_stdout, reason = "the figures are the result of the example")]

use remote_ring::{MessageReader, MessageWriter, Peer, Region, RegionLayout, RingError, Wait};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Length of a message, bytes: about that of a kernel launch.
const MESSAGE_BYTES: usize = 200;
/// Messages of one measurement of writing: they fit into the ring of 1 MiB, so that the writer never waits.
const BATCH: u32 = 4000;
const BATCHES: usize = 101;
const ROUND_TRIPS: u32 = 20_000;

struct ThisProcess;

impl Peer for ThisProcess {
    fn is_alive(&self) -> bool {
        true
    }
}

type Ends = (MessageWriter, MessageReader);

/// Returns the ends of a client and of a worker, each with its own mapping.
fn create_ends() -> Result<(Ends, Ends), RingError> {
    let client = Region::create(RegionLayout::default())?;
    let file = client.file().try_clone_to_owned().map_err(|source| RingError::System {
        action: "duplicating the region's file",
        source,
    })?;
    let worker = Arc::new(Region::open(file)?);
    Ok((Arc::new(client).client_ends()?, worker.worker_ends()?))
}

/// Starts a thread that answers each batch of `batch` messages with the last one, until an empty message.
fn spawn_worker(
    (mut answers, mut requests): Ends,
    batch: u32,
    spin: Duration,
) -> thread::JoinHandle<Result<(), RingError>> {
    thread::spawn(move || {
        requests.set_spin(spin);
        let mut bytes = Vec::new();
        loop {
            for _ in 0..batch {
                requests.read(&mut bytes, Wait::Forever, &ThisProcess)?;
                if bytes.is_empty() {
                    return Ok(());
                }
            }
            answers.write(&[&bytes], &ThisProcess)?;
        }
    })
}

fn main() -> Result<(), RingError> {
    let message = [7; MESSAGE_BYTES];
    let mut bytes = Vec::new();

    let ((mut requests, mut answers), worker) = create_ends()?;
    answers.set_spin(Duration::from_millis(10));
    let worker = spawn_worker(worker, BATCH, Duration::from_millis(10));
    let mut times = Vec::new();
    for _ in 0..BATCHES {
        let start = Instant::now();
        for _ in 0..BATCH {
            // As a call is written: a head, and arguments.
            requests.write(&[&message[..24], &message[24..]], &ThisProcess)?;
        }
        times.push(start.elapsed() / BATCH);
        answers.read(&mut bytes, Wait::Forever, &ThisProcess)?;
    }
    times.sort_unstable();
    println!(
        "write of {MESSAGE_BYTES} bytes, reader spins: median {:?}, min {:?}",
        times[BATCHES / 2],
        times[0]
    );
    requests.write(&[], &ThisProcess)?;
    let _ = worker.join();

    for micros in [100, 20, 0] {
        let spin = Duration::from_micros(micros);
        let ((mut requests, mut answers), worker) = create_ends()?;
        answers.set_spin(spin);
        let worker = spawn_worker(worker, 1, spin);
        let mut times = Vec::new();
        for _ in 0..ROUND_TRIPS {
            let start = Instant::now();
            requests.write(&[&message], &ThisProcess)?;
            answers.read(&mut bytes, Wait::Forever, &ThisProcess)?;
            times.push(start.elapsed());
        }
        times.sort_unstable();
        let (median, high) = (times[times.len() / 2], times[times.len() * 99 / 100]);
        println!("round trip of {MESSAGE_BYTES} bytes, spin {micros} µs: median {median:?}, 99 % {high:?}");
        requests.write(&[], &ThisProcess)?;
        let _ = worker.join();
    }
    Ok(())
}
