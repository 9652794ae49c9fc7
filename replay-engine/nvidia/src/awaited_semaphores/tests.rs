//! Tests of semaphores that recorded work waits for.

use super::*;
use nvidia_channel::command::{SemaphoreSource, SurfaceLayout};
use nvidia_channel::memory::{NoMemory, UploadedMemory};

const DESCRIPTOR: u64 = 0x2_04c0_0800;
const VA: u64 = 0x2_0460_0fdc;

fn semaphore(operation: SemaphoreOperation, payload: u64) -> Command {
    Command::Semaphore(Semaphore {
        word: 0,
        source: SemaphoreSource::Host,
        operation,
        address: nvidia_channel::GpuVa(VA),
        payload,
        wide: false,
        timestamp: false,
    })
}

fn wait(payload: u64) -> Command {
    semaphore(SemaphoreOperation::AcquireCircularGreaterEqual, payload)
}

fn release(payload: u64) -> Command {
    semaphore(SemaphoreOperation::Release, payload)
}

#[test]
fn waits_for_recorded_releases_are_known() {
    let mut values = SemaphoreValues::default();
    values.follow(1, &[wait(0), release(2)]);
    values.follow(2, &[wait(2), release(3)]);
    values.follow(3, &[wait(2), wait(3)]);
    // Numbers go on after the largest one.
    values.follow(4, &[release(1), wait(0xffff_fff0)]);
    assert_eq!(values.unknown(), None);
}

/// A graph of CUDA counts in semaphores whose first values its program's CPU writes.
#[test]
fn values_that_no_work_releases_are_counted() {
    let mut values = SemaphoreValues::default();
    values.follow(7, &[wait(6)]);
    values.follow(8, &[wait(6), wait(5)]);
    values.follow(9, &[semaphore(SemaphoreOperation::Reduce(0), 1), wait(7)]);
    let unknown = values.unknown().unwrap();
    assert_eq!((unknown.event, unknown.value, unknown.count), (7, 6, 2));
    let message = "values that the program's CPU wrote to semaphores are not recorded: 2 waits, the first for 0x6 at \
                   0x204600fdc, may never end";
    assert_eq!(unknown.to_string(), message);
}

/// Returns the launch of a descriptor that adds one to the semaphore. It waits until it is scheduled if `is_held` is set.
fn counting_launch(is_held: bool) -> Command {
    let mut descriptor = [0u8; 384];
    let mut set = |low: usize, value: u64| {
        for bit in (0..64).filter(|bit| value >> bit & 1 != 0) {
            descriptor[(low + bit) / 8] |= 1 << ((low + bit) % 8);
        }
    };
    // A grid of blocks, version 4, one release of one word with an addition.
    set(23, 2);
    set(30, u64::from(is_held));
    set(320, 1 | 1 << 1 | 1 << 4);
    set(580, 4);
    set(640, VA & 0xffff_ffff);
    set(672, VA >> 32);
    set(704, 1);
    let mut uploads = UploadedMemory::default();
    uploads.write(nvidia_channel::GpuVa(DESCRIPTOR), &descriptor);
    let launch = Launch::read(0, 0xcbc0, nvidia_channel::GpuVa(DESCRIPTOR), &uploads, &NoMemory);
    Command::Launch(Box::new(launch.unwrap()))
}

fn upload(value: u32) -> Command {
    Command::Upload(Upload {
        word: 0,
        address: nvidia_channel::GpuVa(VA),
        bytes: value.to_le_bytes().to_vec(),
        line_bytes: 4,
        lines: 1,
        pitch: 0,
        layout: SurfaceLayout::Pitch,
        missing_bytes: 0,
        semaphore: None,
    })
}

#[test]
fn launches_count_from_the_uploaded_value() {
    let mut values = SemaphoreValues::default();
    values.follow(
        1,
        &[
            upload(5),
            counting_launch(false),
            wait(6),
            counting_launch(false),
            wait(7),
        ],
    );
    assert_eq!(values.unknown(), None);
    values.follow(2, &[wait(8)]);
    assert_eq!(values.unknown().map(|u| (u.event, u.value)), Some((2, 8)));
}

/// The kernel of a graph's last node is launched once by a command; kernels of CUDA's driver schedule it in each run.
#[test]
fn launches_that_kernels_schedule_count_without_a_command() {
    let mut values = SemaphoreValues::default();
    values.follow(1, &[counting_launch(true), upload(5)]);
    values.follow(2, &[wait(6)]);
    values.follow(3, &[upload(9)]);
    values.follow(4, &[wait(10)]);
    assert_eq!(values.unknown(), None);
}
