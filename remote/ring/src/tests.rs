//! Tests of the rings; each side maps the same file by itself.

mod passing;
mod staging;

use crate::layout::ControlWord;
use crate::message_ring::move_ends;
use crate::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

const SMALL: RegionLayout = RegionLayout {
    request_bytes: MIN_RING_BYTES,
    answer_bytes: MIN_RING_BYTES,
    staging_bytes: 8192,
};
/// Maximum message of the small rings, bytes.
const SMALL_MESSAGE: usize = MIN_RING_BYTES as usize / 4;

struct FixedPeer(bool);

impl Peer for FixedPeer {
    fn is_alive(&self) -> bool {
        self.0
    }
}

const ALIVE: FixedPeer = FixedPeer(true);
const GONE: FixedPeer = FixedPeer(false);

/// Returns the client's and the worker's mapping of one file.
fn create_pair(layout: RegionLayout) -> (Arc<Region>, Arc<Region>) {
    let client = Region::create(layout).unwrap();
    let worker = Region::open(client.file().try_clone_to_owned().unwrap()).unwrap();
    assert_eq!(worker.layout(), layout);
    (Arc::new(client), Arc::new(worker))
}

/// Returns the writer and the reader of a small request ring.
fn create_ends() -> (MessageWriter, MessageReader) {
    let (client, worker) = create_pair(SMALL);
    (client.client_ends().unwrap().0, worker.worker_ends().unwrap().1)
}

/// Returns `length` bytes that differ between messages and within one.
fn message(number: usize, length: usize) -> Vec<u8> {
    (0..length).map(|i| (number * 31 + i * 7) as u8).collect()
}

fn padded(length: usize) -> usize {
    (4 + length).next_multiple_of(8)
}

#[test]
fn messages_of_many_sizes_make_the_round_trip() {
    let (client, worker) = create_pair(SMALL);
    let echo = thread::spawn(move || {
        let (mut answers, mut requests) = worker.worker_ends().unwrap();
        let mut bytes = Vec::new();
        while requests.read(&mut bytes, Wait::Forever, &ALIVE).unwrap() && !bytes.is_empty() {
            let (first, second) = bytes.split_at(bytes.len() / 3);
            answers.write(&[first, &[], second], &ALIVE).unwrap();
        }
    });
    let (mut requests, mut answers) = client.client_ends().unwrap();
    assert_eq!(requests.max_message_bytes() as usize, SMALL_MESSAGE);
    let mut bytes = Vec::new();
    for number in 0..4000 {
        let sent = message(number, 1 + number * 37 % SMALL_MESSAGE);
        requests.write(&[&sent], &ALIVE).unwrap();
        assert!(answers.read(&mut bytes, Wait::Forever, &ALIVE).unwrap());
        assert!(bytes == sent, "message {number}");
    }
    requests.write(&[], &ALIVE).unwrap();
    echo.join().unwrap();
}

#[test]
fn a_full_ring_waits_and_continues() {
    let (mut writer, mut reader) = create_ends();
    let writing = thread::spawn(move || {
        for number in 0..3000 {
            writer
                .write(&[&message(number, number % SMALL_MESSAGE)], &ALIVE)
                .unwrap();
        }
    });
    thread::sleep(Duration::from_millis(20));
    assert!(!writing.is_finished());
    let mut bytes = Vec::new();
    for number in 0..3000 {
        assert!(reader.read(&mut bytes, Wait::Forever, &ALIVE).unwrap());
        assert!(bytes == message(number, number % SMALL_MESSAGE), "message {number}");
    }
    writing.join().unwrap();
    assert!(!reader.read(&mut bytes, Wait::No, &GONE).unwrap());
}

#[test]
fn a_reader_parks_and_wakes() {
    let (client, worker) = create_pair(SMALL);
    let (mut writer, _) = client.client_ends().unwrap();
    let (_, mut reader) = worker.worker_ends().unwrap();
    let reading = thread::spawn(move || {
        let mut bytes = Vec::new();
        assert!(reader.read(&mut bytes, Wait::Forever, &ALIVE).unwrap());
        bytes
    });
    let parked = client.control_word(RingName::Request, ControlWord::ReaderParked);
    while parked.load(Ordering::SeqCst) == 0 {
        thread::yield_now();
    }
    thread::sleep(Duration::from_millis(150));
    assert!(!reading.is_finished());
    writer.write(&[b"launch"], &ALIVE).unwrap();
    assert_eq!(reading.join().unwrap(), b"launch");
}

#[test]
fn no_wake_up_is_lost() {
    let (client, worker) = create_pair(SMALL);
    let echo = thread::spawn(move || {
        let (mut answers, mut requests) = worker.worker_ends().unwrap();
        requests.set_spin(Duration::ZERO);
        let mut bytes = Vec::new();
        for _ in 0..50_000 {
            assert!(requests.read(&mut bytes, Wait::Forever, &ALIVE).unwrap());
            answers.write(&[&bytes], &ALIVE).unwrap();
        }
    });
    let (mut requests, mut answers) = client.client_ends().unwrap();
    answers.set_spin(Duration::ZERO);
    let mut bytes = Vec::new();
    let start = Instant::now();
    for number in 0..50_000u32 {
        requests.write(&[&number.to_le_bytes()], &ALIVE).unwrap();
        assert!(answers.read(&mut bytes, Wait::Forever, &ALIVE).unwrap());
        assert_eq!(bytes, number.to_le_bytes());
        // Each lost wake-up costs 100 ms. The limit leaves time to a machine that is busy.
        assert!(start.elapsed() < Duration::from_secs(30), "message {number}");
    }
    echo.join().unwrap();
}

#[test]
fn a_wait_ends_at_its_deadline() {
    let (_writer, mut reader) = create_ends();
    let mut bytes = b"kept".to_vec();
    for spin in [Duration::ZERO, Duration::from_secs(3600)] {
        reader.set_spin(spin);
        for wait in [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(130)] {
            let deadline = Instant::now() + wait;
            assert!(!reader.read(&mut bytes, Wait::Until(deadline), &ALIVE).unwrap());
            assert!(Instant::now() >= deadline);
        }
    }
    assert_eq!(bytes, b"kept");
}

#[test]
fn a_peer_that_ended_is_an_error_after_its_last_message() {
    let (mut writer, mut reader) = create_ends();
    writer.write(&[b"last"], &GONE).unwrap();
    let mut bytes = Vec::new();
    assert!(reader.read(&mut bytes, Wait::Forever, &GONE).unwrap());
    assert_eq!(bytes, b"last");
    let error = reader.read(&mut bytes, Wait::Forever, &GONE).unwrap_err();
    assert_eq!(
        error.to_string(),
        "request ring: the peer ended during a wait for a message; connect again"
    );
    for _ in 0..MIN_RING_BYTES as usize / padded(SMALL_MESSAGE) {
        writer.write(&[&[0; SMALL_MESSAGE]], &GONE).unwrap();
    }
    let error = writer.write(&[&[0; SMALL_MESSAGE]], &GONE).unwrap_err();
    assert!(matches!(error, RingError::PeerGone { awaited: "space", .. }), "{error}");
    // Nothing of the failed message is in the ring.
    writer.write(&[b"short"], &GONE).unwrap();
}

#[test]
fn a_message_that_is_too_long_is_not_written() {
    let (mut writer, mut reader) = create_ends();
    let long = [0; SMALL_MESSAGE];
    let error = writer.write(&[&long, &[1]], &ALIVE).unwrap_err();
    assert!(matches!(error, RingError::MessageTooLong { max: 1024, .. }), "{error}");
    assert!(!reader.read(&mut Vec::new(), Wait::No, &ALIVE).unwrap());
}

#[test]
fn ends_are_given_once() {
    let region = Arc::new(Region::create(SMALL).unwrap());
    let _client = region.client_ends().unwrap();
    let _worker = region.worker_ends().unwrap();
    assert!(matches!(
        region.client_ends(),
        Err(RingError::EndsTaken { side: "client" })
    ));
    assert!(matches!(
        region.worker_ends(),
        Err(RingError::EndsTaken { side: "worker" })
    ));
}

#[test]
fn invalid_positions_and_lengths_are_errors() {
    let ring = RingName::Request;
    for position in [4, 7, MIN_RING_BYTES + 8, u32::MAX, 1 << 31, 8u32.wrapping_neg()] {
        let (client, worker) = create_pair(SMALL);
        client
            .control_word(ring, ControlWord::Written)
            .store(position, Ordering::SeqCst);
        let (_, mut reader) = worker.worker_ends().unwrap();
        for wait in [Wait::No, Wait::Forever] {
            let error = reader.read(&mut Vec::new(), wait, &ALIVE).unwrap_err();
            assert!(
                matches!(error, RingError::Corrupt { value, .. } if value == position),
                "{error}"
            );
        }
    }
    for position in [4, 4096, u32::MAX, 8u32.wrapping_neg()] {
        let (client, worker) = create_pair(SMALL);
        let (mut writer, _) = client.client_ends().unwrap();
        worker
            .control_word(ring, ControlWord::Read)
            .store(position, Ordering::SeqCst);
        let results: Vec<_> = (0..4).map(|_| writer.write(&[&[0; SMALL_MESSAGE]], &ALIVE)).collect();
        assert!(matches!(results[3], Err(RingError::Corrupt { value, .. }) if value == position));
    }
    for length in [5, 12, 1025, 4096, u32::MAX - 8, u32::MAX] {
        let (client, worker) = create_pair(SMALL);
        client.copy_to_ring(ring, 0, &length.to_le_bytes()).unwrap();
        client
            .control_word(ring, ControlWord::Written)
            .store(8, Ordering::SeqCst);
        let (_, mut reader) = worker.worker_ends().unwrap();
        let error = reader.read(&mut Vec::new(), Wait::Forever, &ALIVE).unwrap_err();
        assert!(
            matches!(error, RingError::Corrupt { value, .. } if value == length),
            "{error}"
        );
    }
    // A position may not go back to messages that were already seen.
    let (client, worker) = create_pair(SMALL);
    let (mut writer, _) = client.client_ends().unwrap();
    let (_, mut reader) = worker.worker_ends().unwrap();
    writer.write(&[b"seen"], &ALIVE).unwrap();
    assert!(reader.read(&mut Vec::new(), Wait::No, &ALIVE).unwrap());
    client
        .control_word(ring, ControlWord::Written)
        .store(0, Ordering::SeqCst);
    assert!(reader.read(&mut Vec::new(), Wait::No, &ALIVE).is_err());
}

proptest! {
    #[test]
    fn a_ring_is_a_queue_at_every_position(
        start in any::<u32>(), near_end in any::<bool>(),
        lengths in prop::collection::vec((0..=SMALL_MESSAGE, 0..4usize), 1..80),
    ) {
        let (mut writer, mut reader) = create_ends();
        // Positions wrap around at 2³² too.
        let start = if near_end { u32::MAX - start % 20_000 } else { start };
        move_ends(&mut writer, &mut reader, start & !7);
        let (mut queue, mut used, mut bytes) = (VecDeque::new(), 0, Vec::new());
        for (number, (length, reads)) in lengths.into_iter().enumerate() {
            if used + padded(length) <= MIN_RING_BYTES as usize {
                let sent = message(number, length);
                writer.write(&[&sent[..length / 2], &sent[length / 2..]], &ALIVE).unwrap();
                used += padded(length);
                queue.push_back(sent);
            }
            for _ in 0..reads {
                let expected = queue.pop_front();
                prop_assert_eq!(reader.read(&mut bytes, Wait::No, &ALIVE).unwrap(), expected.is_some());
                if let Some(expected) = expected {
                    used -= padded(expected.len());
                    prop_assert!(bytes == expected);
                }
            }
        }
    }

    #[test]
    fn a_hostile_writer_causes_errors_only(
        bytes in prop::collection::vec(any::<u8>(), 0..4096), words in prop::collection::vec(0..1100u32, 0..200),
        positions in prop::collection::vec(prop_oneof![any::<u32>(), 0..5000u32, (0..600u32).prop_map(|n| n * 8)], 1..20),
    ) {
        let (client, worker) = create_pair(SMALL);
        let (_, mut reader) = worker.worker_ends().unwrap();
        client.copy_to_ring(RingName::Request, 0, &bytes).unwrap();
        // Short lengths at most places make long rows of valid messages.
        for (place, word) in (0..).step_by(8).zip(words) {
            client.copy_to_ring(RingName::Request, place, &word.to_le_bytes()).unwrap();
        }
        let mut into = Vec::new();
        for position in positions {
            client.control_word(RingName::Request, ControlWord::Written).store(position, Ordering::SeqCst);
            for _ in 0..8 {
                if reader.read(&mut into, Wait::No, &ALIVE).is_ok_and(|is_read| is_read) {
                    prop_assert!(into.len() <= SMALL_MESSAGE);
                }
            }
        }
    }
}
