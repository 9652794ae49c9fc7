//! Tests of doorbells: what the handler does without system calls, at unmapped memory, and after changes of mappings.

use super::*;
use crate::system::{read_thread_id, unmap};
use crate::tables::GpuMapping;
use std::sync::atomic::{AtomicU8, Ordering};

/// Returns 390 words as those of a launch: constants and a descriptor as data of uploads, and methods between them.
fn launch_words() -> Vec<u32> {
    let header = |form: u32, method: u32, count: u32| form << 29 | count << 16 | 1 << 13 | method >> 2;
    let mut words = Vec::new();
    for data in [135, 96, 96] {
        words.extend([header(1, 0x188, 2), 1, 0x1000, header(1, 0x180, 2), 4 * data, 1]);
        words.extend([header(1, 0x1b0, 1), 0x41, header(3, 0x1b4, data)]);
        words.extend((0..data).map(|n| n * 3));
    }
    while words.len() < 390 {
        words.extend([header(1, 0x1698, 1), 0x1011]);
    }
    words
}

/// Prints the time of a doorbell. It is a figure, not a limit: machines of tests are shared.
#[test]
fn cost_of_a_doorbell() {
    const COUNT: u32 = 16_000;
    /// More than a first cache, less than a second one.
    const EVICTED_BYTES: usize = 512 << 10;
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = create_recorder(&settings(folder.path(), "580.159.04")).unwrap();
    let ring = Ring::new(&mut recorder);
    let page = doorbell_page(&mut recorder);
    start_with(recorder);
    let bytes = fields(&launch_words());
    if let Some(mut guard) = crate::process::lock() {
        // As requests to the driver do before launches.
        guard.run(|recorder, _| {
            (0..32).for_each(|_| recorder.log.prepare());
            Ok(())
        });
    }
    // The caches of a program hold other data when it launches.
    let mut other = vec![1_u8; EVICTED_BYTES];
    let mut measure = |is_recorded: bool, is_cold: bool, count: u32| {
        let mut sum = std::time::Duration::ZERO;
        for n in 0..count {
            if is_cold {
                other.iter_mut().step_by(64).for_each(|b| *b = b.wrapping_add(1));
            }
            ring.submit_bytes(n % ENTRIES, &bytes);
            let begun = std::time::Instant::now();
            if is_recorded {
                page.ring_doorbell();
            }
            sum += begun.elapsed();
        }
        sum / count
    };
    measure(true, false, ENTRIES);
    let alone = measure(false, false, COUNT / ENTRIES * ENTRIES);
    let warm = measure(true, false, COUNT / ENTRIES * ENTRIES);
    let cold = measure(true, true, 2000);
    eprintln!("a doorbell of a launch costs {alone:?} alone, {warm:?} recorded, {cold:?} recorded with cold caches");
    assert!(is_recording());
    assert!(warm < std::time::Duration::from_millis(1));
}

/// The kernel's form of an action.
#[repr(C)]
struct KernelAction {
    handler: usize,
    flags: u64,
    /// Address of the code that returns from a handler.
    restorer: u64,
    mask: u64,
}

/// Whether the kernel passes system calls of this thread to a signal, which ends the process in the recorder's handler.
static REFUSES_CALLS: AtomicU8 = AtomicU8::new(0);

/// Lets the kernel refuse all system calls of this thread but the return from handlers, while [`REFUSES_CALLS`] is 1.
/// Returns `false` if it cannot.
fn prepare_refusal() -> bool {
    const SET_DISPATCH: i32 = 59;
    let mut action = KernelAction {
        handler: 0,
        flags: 0,
        restorer: 0,
        mask: 0,
    };
    let none = std::ptr::null::<KernelAction>();
    // SAFETY: the structure has the kernel's form, and the selector is never removed.
    unsafe {
        libc::syscall(libc::SYS_rt_sigaction, libc::SIGSEGV, none, &raw mut action, 8);
        libc::prctl(SET_DISPATCH, 1_u64, action.restorer, 16_u64, REFUSES_CALLS.as_ptr()) == 0
    }
}

#[test]
fn a_doorbell_makes_no_system_call() {
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let clock = std::fs::read_to_string(clock).unwrap_or_default();
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), "580.159.04");
    let mut recorder = create_recorder(&settings).unwrap();
    let ring = Ring::new(&mut recorder);
    let page = doorbell_page(&mut recorder);
    log_set_up(&mut recorder, &page);
    start_with(recorder);
    let bytes = fields(&launch_words());
    // The first doorbell of a thread asks for its id.
    ring.submit_bytes(0, &bytes);
    page.ring_doorbell();
    if !["tsc", "kvm-clock"].contains(&clock.trim()) || !prepare_refusal() {
        eprintln!("this kernel cannot refuse system calls, or reads its clock with one: not tested");
        return;
    }
    for n in 1..ENTRIES {
        ring.submit_bytes(n, &bytes);
        REFUSES_CALLS.store(1, Ordering::Relaxed);
        page.ring_doorbell();
        REFUSES_CALLS.store(0, Ordering::Relaxed);
    }
    assert!(is_recording());
    crate::lifetime::finish();
    assert_eq!(import(&settings.log).events.ring_entries.len(), ENTRIES as usize);
}

#[test]
fn a_doorbell_of_unmapped_commands_is_logged_without_them() {
    crate::signal_stack::enlarge();
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), "580.159.04");
    let mut recorder = create_recorder(&settings).unwrap();
    let ring = Ring::new(&mut recorder);
    let page = doorbell_page(&mut recorder);
    log_set_up(&mut recorder, &page);
    start_with(recorder);
    // The pages of the commands are gone, though the tables have them.
    let gone = HostAddr::new(ring.address(0x8000));
    // SAFETY: the pages belong to this test, and nothing else refers to them.
    unsafe { unmap(gone, 0x1000) };
    let entry = gone.get() & 0xff_ffff_ffff | 4 << 42;
    ring.write(0, &entry.to_le_bytes());
    ring.write(USERD_OFFSET + 0x8c, &1_u32.to_le_bytes());
    page.ring_doorbell();
    // The handler goes on with the next doorbell, also on another thread.
    ring.submit(1, &[0x2001_0040, 7]);
    let ring_on_thread = move || {
        crate::signal_stack::enlarge();
        page.ring_doorbell();
    };
    std::thread::spawn(ring_on_thread).join().unwrap();
    assert!(is_recording());
    crate::lifetime::finish();
    let r = import(&settings.log);
    assert_eq!(r.events.ring_entries.len(), 2);
    let mut messages = r.metadata.findings.iter().map(|f| f.message.as_str());
    assert!(messages.any(|m| m.contains("commands that the recorder could not read")));
    let writes = kinds(&r).iter().filter(|k| **k == EventKind::Write).count();
    assert_eq!(writes, 2);
    let last = r.events.len() - 2;
    assert_eq!(stored(&r, last), fields(&[0x2001_0040, 7]));
}

#[test]
fn rings_are_found_again_after_changes_of_mappings() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, ring, log) = recorder_with_ring(folder.path(), "580.159.04");
    ring.submit(0, &[0x2001_0040, 0]);
    log_all(&mut recorder, 1, ScanReason::Doorbell).unwrap();
    // The program maps the object elsewhere, and unmaps the first mapping. The GPU still sees it at the old address.
    let other = Ring(map_memory(MEMORY_BYTES).unwrap());
    let tables = &mut recorder.tables;
    let mapping = GpuMapping {
        bytes: MEMORY_BYTES,
        object: MEMORY,
        offset: 0,
    };
    tables.add_gpu_mapping(GpuVa(ring.0.get()), mapping);
    tables.remove_host_range(ring.0, MEMORY_BYTES);
    tables.add_host_mapping(HostMapping {
        start: other.0,
        bytes: MEMORY_BYTES,
        object: MEMORY,
        offset: 0,
        memory: MappedMemory::Host,
    });
    let words = [0x2001_0040, 1];
    other.write(COMMANDS_OFFSET, &fields(&words));
    let entry = ring.address(COMMANDS_OFFSET) & 0xff_ffff_ffff | 2 << 42;
    other.write(8, &entry.to_le_bytes());
    other.write(USERD_OFFSET + 0x8c, &2_u32.to_le_bytes());
    log_all(&mut recorder, 1, ScanReason::Doorbell).unwrap();
    let r = import(&log);
    let entries: Vec<usize> = kinds(&r)
        .iter()
        .enumerate()
        .filter_map(|(e, k)| (*k == EventKind::RingEntry).then_some(e))
        .collect();
    assert_eq!(entries.len(), 2);
    assert_eq!(stored(&r, entries[1]), fields(&words));
}

#[test]
fn a_thread_has_its_own_id() {
    let ids = || (crate::identity::thread_id(), read_thread_id());
    for (id, expected) in [ids(), std::thread::spawn(ids).join().unwrap(), ids()] {
        assert_eq!(id, expected);
    }
}

#[test]
fn a_copy_of_the_process_is_not_recorded() {
    crate::identity::mark_process();
    assert!(crate::identity::has_recorded_memory() && crate::identity::is_recorded_process());
    // SAFETY: a fork without the functions that the C library calls at forks. The child only ends.
    let status = unsafe {
        let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0);
        if child == 0 {
            let is_recorded = crate::identity::has_recorded_memory();
            libc::syscall(libc::SYS_exit_group, i32::from(is_recorded));
        }
        let mut status = 0;
        assert_eq!(i64::from(libc::waitpid(child as i32, &raw mut status, 0)), child);
        status
    };
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
}
