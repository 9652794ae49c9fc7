//! Tests of the recorder as a whole: logs that the importer reads, and real faults at a page of a file.
#![allow(
    unsafe_code,
    reason = "the tests access pages as a driver does, and count allocations"
)]

use crate::address::HostAddr;
use crate::channel::Channel;
use crate::files;
use crate::lifetime::start_with;
use crate::log::{LogError, LogFile, Part};
use crate::process::is_recording;
use crate::recorder::{Recorder, create_recorder};
use crate::records::{self, DeviceName, IoctlHead, MapCall, ScanReason, kind};
use crate::requests::follow;
use crate::settings::Settings;
use crate::submissions::log_all;
use crate::system::{map_file, map_memory, protect};
use crate::tables::{HostMapping, Object};
use crate::trap_pages::{self, TrapPage};
use crate::visible_memory::{MappedMemory, MemoryLookup, ObjectKey};
use nvidia_channel::GpuVa;
use nvidia_channel::rm::{DeviceFile, DriverBranch};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::CString;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use trace_core::finding::FindingKind;
use trace_core::progress::Progress;
use trace_core::recording::{EventKind, PageId, Recording};

mod doorbells;
mod launches;

/// The allocator of the tests. It counts the allocations of each thread.
struct CountingAllocator;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|n| n.set(n.get() + 1));
        // SAFETY: the caller keeps the rules of the allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the rules of the allocator.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const CLIENT: u32 = 0xc1d0_0001;
const DEVICE: u32 = 2;
const CHANNEL: ObjectKey = key(4);
/// The object of ring, control page and push buffers.
const MEMORY: ObjectKey = key(5);
/// The object of the page of doorbells.
const DOORBELLS: ObjectKey = key(6);
const TOKEN: u32 = 0x1_0007;
const ENTRIES: u32 = 8;
const USERD_OFFSET: u64 = 0x2000;
const COMMANDS_OFFSET: u64 = 0x4000;
const SOURCE_OFFSET: u64 = 0x6000;
const MEMORY_BYTES: u64 = 0x1_0000;
const PAGE_BYTES: u64 = 0x1_0000;

const fn key(handle: u32) -> ObjectKey {
    ObjectKey { client: CLIENT, handle }
}

fn fields(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

fn name(text: &str) -> DeviceName {
    files::device_name(text.as_bytes()).unwrap()
}

fn settings(folder: &Path, version: &str) -> Settings {
    Settings {
        log: folder.join("a.klog"),
        limit: u64::MAX,
        driver_version: version.to_owned(),
    }
}

/// Makes a recorder that logs to a folder, and the memory of its channel.
fn recorder_with_ring(folder: &Path, version: &str) -> (Recorder, Ring, PathBuf) {
    let settings = settings(folder, version);
    crate::signals::install_fault_handler();
    let mut recorder = create_recorder(&settings).unwrap();
    log_open(&mut recorder);
    let ring = Ring::new(&mut recorder);
    (recorder, ring, settings.log)
}

/// Logs that the program opened the driver's control file.
fn log_open(recorder: &mut Recorder) {
    let open = records::open(3, 2, 0, b"/dev/nvidiactl");
    recorder.append(kind::OPEN, 1, &[Part::Bytes(&open)]).unwrap();
}

fn import(path: &Path) -> Recording {
    trace_import::nvidia_log::import(path, &Progress::new()).unwrap()
}

fn kinds(r: &Recording) -> Vec<EventKind> {
    (0..r.events.len()).map(|e| r.events.kind(e).unwrap()).collect()
}

/// Returns the bytes that an event stores.
fn stored(r: &Recording, event: usize) -> Vec<u8> {
    let content = r.events.stored_content(event).unwrap();
    let mut bytes = Vec::new();
    for row in content.rows().unwrap() {
        let id = r.events.call_pages.get(row as usize).unwrap();
        bytes.extend_from_slice(&r.memory.pages.page(PageId(id)).unwrap()[..]);
    }
    let from = content.va.in_page();
    bytes[from..from + content.bytes as usize].to_vec()
}

/// Memory that program and GPU see at the same address, with the ring of a channel.
struct Ring(HostAddr);

impl Ring {
    fn new(recorder: &mut Recorder) -> Self {
        let start = map_memory(MEMORY_BYTES).unwrap();
        let tables = &mut recorder.tables;
        tables.add_object(
            key(DEVICE),
            Object {
                parent: CLIENT,
                class: 0x80,
            },
        );
        tables.add_host_mapping(HostMapping {
            start,
            bytes: MEMORY_BYTES,
            object: MEMORY,
            offset: 0,
            memory: MappedMemory::Host,
        });
        let ring = (GpuVa(start.get()), ENTRIES);
        let mut channel = Channel::new(CHANNEL, DEVICE, ring, (MEMORY, USERD_OFFSET));
        channel.token = Some(TOKEN);
        channel.base = start.get() >> 40 << 40;
        tables.channels.push(channel);
        Self(start)
    }

    fn address(&self, offset: u64) -> u64 {
        self.0.get() + offset
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        assert!(offset + bytes.len() as u64 <= MEMORY_BYTES);
        // SAFETY: the range is in the mapping of this test, which nothing else uses.
        unsafe {
            let at = self.0.pointer().add(offset as usize);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), at, bytes.len());
        }
    }

    /// Writes commands and an entry for them, and moves the index after the last entry.
    fn submit(&self, index: u32, words: &[u32]) {
        self.submit_bytes(index, &fields(words));
    }

    /// Does the same for the bytes of commands, without allocation.
    fn submit_bytes(&self, index: u32, bytes: &[u8]) {
        let offset = COMMANDS_OFFSET + u64::from(index) * 0x200;
        self.write(offset, bytes);
        let va = self.address(offset) & 0xff_ffff_ffff;
        let entry = va | (bytes.len() as u64 / 4) << 42 | 1 << 41;
        self.write(u64::from(index) * 8, &entry.to_le_bytes());
        self.write(USERD_OFFSET + 0x8c, &((index + 1) % ENTRIES).to_le_bytes());
    }

    /// Returns the commands of a copy from an offset of the memory.
    fn copy_commands(&self, offset: u64, bytes: u32) -> Vec<u32> {
        let from = self.address(offset);
        let header = |method: u32, count: u32| 1 << 29 | count << 16 | 4 << 13 | method >> 2;
        vec![
            header(0x400, 2),
            (from >> 32) as u32,
            from as u32,
            header(0x418, 1),
            bytes,
            header(0x300, 1),
            0x182,
        ]
    }
}

impl TrapPage {
    /// Stores the token of the channel, with the instruction of libcuda.
    fn ring_doorbell(&self) {
        let doorbell = self.start.get() + 0x90;
        // SAFETY: the store faults, and the handler performs it on the alias.
        unsafe { std::arch::asm!("mov dword ptr [rax], ecx", in("rax") doorbell, in("ecx") TOKEN) };
    }
}

/// A page of doorbells in a file: the page of the program, and the alias.
fn doorbell_page(recorder: &mut Recorder) -> TrapPage {
    let file = tempfile::tempfile().unwrap();
    file.set_len(PAGE_BYTES).unwrap();
    let map = || map_file(file.as_raw_fd(), 0, PAGE_BYTES).unwrap();
    let page = TrapPage {
        start: map(),
        bytes: PAGE_BYTES,
        alias: map(),
        rights: libc::PROT_READ | libc::PROT_WRITE,
        client: CLIENT,
        device: DEVICE,
    };
    let tables = &mut recorder.tables;
    tables.add_object(
        DOORBELLS,
        Object {
            parent: DEVICE,
            class: 0xc661,
        },
    );
    assert!(trap_pages::add(page));
    protect(page.start, page.bytes, libc::PROT_NONE).unwrap();
    page
}

/// Logs the requests and the mapping that announce the page of doorbells and the channel.
fn log_set_up(recorder: &mut Recorder, page: &TrapPage) {
    let request = |recorder: &mut Recorder, request: u64, argument: &[u8]| {
        let head = IoctlHead {
            fd: 3,
            bytes: argument.len() as u32,
            request,
            name: name("/dev/nvidiactl"),
            ..IoctlHead::default()
        }
        .encode();
        let parts = [&head[..], argument, argument].map(Part::Bytes);
        recorder.append(kind::IOCTL, 1, &parts).unwrap();
    };
    log_open(recorder);
    let allocation = |parent, handle, class| fields(&[CLIENT, parent, handle, class, 0, 0, 0, 0, 0, 0, 0, 0]);
    request(recorder, 0xc030_462b, &allocation(CLIENT, DEVICE, 0x80));
    request(recorder, 0xc030_462b, &allocation(DEVICE, DOORBELLS.handle, 0xc661));
    let map = MapCall {
        bytes: page.bytes,
        address: page.start,
        fd: 4,
        handle: DOORBELLS.handle,
        name: name("/dev/nvidia0"),
        ..MapCall::default()
    };
    recorder.append(kind::MAP, 1, &[Part::Bytes(&map.encode())]).unwrap();
}

#[test]
fn doorbells_are_logged_before_the_device_sees_them() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), "580.159.04");
    let mut recorder = create_recorder(&settings).unwrap();
    let ring = Ring::new(&mut recorder);
    let page = doorbell_page(&mut recorder);
    log_set_up(&mut recorder, &page);
    start_with(recorder);
    let doorbell = page.start.checked_add(0x90).unwrap().pointer().cast::<u32>();

    ring.write(SOURCE_OFFSET, b"source of the copy");
    ring.submit(0, &ring.copy_commands(SOURCE_OFFSET, 18));
    let before = ALLOCATIONS.with(Cell::get);
    // SAFETY: the store faults, and the handler performs it on the alias. It is the instruction of libcuda.
    unsafe { std::arch::asm!("mov dword ptr [rax], ecx", in("rax") doorbell, in("ecx") TOKEN) };
    assert_eq!(ALLOCATIONS.with(Cell::get), before, "the handler allocates");
    let alias = page.alias.checked_add(0x90).unwrap().pointer().cast::<u32>();
    // SAFETY: the alias is mapped.
    assert_eq!(unsafe { alias.read_volatile() }, TOKEN);

    ring.submit(1, &[0x2001_0040, 7]);
    let loaded: u64;
    // SAFETY: a load with a displacement and a SIB byte, and a store of a constant; both go to the alias.
    unsafe {
        std::arch::asm!(
            "mov r10d, dword ptr [rax + rcx*2 + 0x80]",
            "mov dword ptr [rax + 0x90], 0x10007",
            in("rax") page.start.get(), in("rcx") 8_u64, out("r10") loaded,
        );
    }
    assert_eq!(loaded, u64::from(TOKEN));

    // An instruction that is not known: the recording ends, the page is accessible, and the store happens.
    // SAFETY: the page belongs to this test.
    unsafe { std::arch::asm!("xchg dword ptr [rax], ecx", in("rax") doorbell, inout("ecx") 9 => _) };
    assert!(!is_recording());
    // SAFETY: both mappings are accessible now.
    assert_eq!(unsafe { (doorbell.read_volatile(), alias.read_volatile()) }, (9, 9));

    let r = import(&settings.log);
    let driver = r.driver_trace().unwrap();
    assert_eq!(driver.driver_version, "580.159.04");
    assert!(driver.clock_start.is_some());
    use EventKind as K;
    let rest: Vec<_> = kinds(&r).into_iter().skip_while(|k| *k != K::SavedMemory).collect();
    let first = [K::SavedMemory, K::RingEntry, K::Write, K::Read];
    assert_eq!(
        rest,
        [&first[..], &[K::RingEntry, K::Write, K::Undecoded, K::Mark]].concat()
    );
    let at = kinds(&r).iter().position(|k| *k == K::SavedMemory).unwrap();
    assert_eq!(stored(&r, at), b"source of the copy");
    assert_eq!(stored(&r, at + 1), fields(&ring.copy_commands(SOURCE_OFFSET, 18)));
    let write = r.events.access(at + 2).unwrap();
    assert_eq!((write.offset.get(), write.value), (0x90, u64::from(TOKEN)));
    assert_eq!(stored(&r, at + 4), fields(&[0x2001_0040, 7]));
    assert_eq!(r.metadata.lost.len(), 1);
}

#[test]
fn faults_of_the_program_reach_its_handler() {
    static FAULTS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    unsafe extern "C" fn handler(_: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel's structures are valid while the handler runs.
        unsafe {
            FAULTS.store((*info).si_addr() as u64, std::sync::atomic::Ordering::Relaxed);
            // Skip `mov [rax], ecx`.
            (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] += 2;
        }
    }
    // SAFETY: the structure is complete, and the handler returns after the instruction.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGSEGV, &raw const action, std::ptr::null_mut());
    }
    crate::signals::install_fault_handler();
    // SAFETY: the handler skips the store.
    unsafe { std::arch::asm!("mov dword ptr [rax], ecx", in("rax") 0x10, in("ecx") 1) };
    assert_eq!(FAULTS.load(std::sync::atomic::Ordering::Relaxed), 0x10);
    // The guarded copy fails without the program's handler.
    assert_eq!(crate::guarded_copy::read_u64(HostAddr::new(0x20)), None);
    assert_eq!(FAULTS.load(std::sync::atomic::Ordering::Relaxed), 0x10);
}

#[test]
fn guarded_copies_have_all_bytes() {
    crate::signals::install_fault_handler();
    let source: Vec<u8> = (0..300_u32).map(|n| n as u8).collect();
    for (from, bytes) in [(0, 300), (1, 299), (3, 90), (5, 64), (16, 63), (2, 1), (7, 0)] {
        let mut copy = vec![0; bytes];
        let at = HostAddr::new(source.as_ptr() as u64 + from as u64);
        assert!(crate::guarded_copy::read_memory(at, &mut copy));
        assert_eq!(copy, source[from..from + bytes]);
    }
}

#[test]
fn a_ring_that_wraps_is_logged_once() {
    let folder = tempfile::tempdir().unwrap();
    let (mut recorder, ring, log) = recorder_with_ring(folder.path(), "595.45.04");
    for index in 0..6 {
        ring.submit(index, &[0x2001_0040, index]);
    }
    log_all(&mut recorder, 1, ScanReason::Mark).unwrap();
    for index in [6, 7, 0, 1] {
        ring.submit(index, &[0x2001_0040, index]);
    }
    log_all(&mut recorder, 1, ScanReason::Exit).unwrap();
    log_all(&mut recorder, 1, ScanReason::Exit).unwrap();
    recorder.log.trim();
    assert_eq!(std::fs::metadata(&log).unwrap().len(), recorder.log.bytes());
    let r = import(&log);
    let entries: Vec<u32> = r.events.ring_entries.iter().map(|e| e.index).collect();
    assert_eq!(entries, [0, 1, 2, 3, 4, 5, 6, 7, 0, 1]);
}

#[test]
fn content_that_cannot_be_read_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let settings = settings(folder.path(), "580.159.04");
    crate::signals::install_fault_handler();
    let mut recorder = create_recorder(&settings).unwrap();
    let ring = Ring::new(&mut recorder);
    // The pages of a source are gone, though the tables have them.
    protect(HostAddr::new(ring.address(0x8000)), 0x1000, libc::PROT_NONE).unwrap();
    ring.submit(0, &ring.copy_commands(0x8000, 16));
    // The commands of the next entry are in memory that no table has.
    ring.write(8, &(0x1000_u64 | 4 << 42).to_le_bytes());
    ring.write(USERD_OFFSET + 0x8c, &2_u32.to_le_bytes());
    log_all(&mut recorder, 1, ScanReason::Mark).unwrap();
    let r = import(&settings.log);
    assert_eq!(r.events.ring_entries.len(), 2);
    assert_eq!(r.events.saved_memory.len(), 0);
    let found = r
        .metadata
        .findings
        .iter()
        .filter(|f| f.kind == FindingKind::NotRecorded);
    let texts: Vec<&str> = found.map(|f| f.message.as_str()).collect();
    assert!(texts.iter().any(|t| t.contains("copies read memory")), "{texts:?}");
    assert!(
        texts
            .iter()
            .any(|t| t.contains("commands that the recorder could not read")),
        "{texts:?}"
    );
}

#[test]
fn logs_of_other_branches_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for version in ["535.104.05", ""] {
        let error = create_recorder(&settings(folder.path(), version)).unwrap_err();
        assert!(error.contains("version"), "{error}");
    }
    assert!(!folder.path().join("a.klog").exists());
    // A second process of the program has a log of its own.
    let first = create_recorder(&settings(folder.path(), "570.211.01")).unwrap();
    let second = create_recorder(&settings(folder.path(), "570.211.01")).unwrap();
    let other = format!("a-{}.klog", std::process::id());
    assert!(folder.path().join("a.klog").exists() && folder.path().join(other).exists());
    drop((first, second));
}

fn log_at(path: &Path, limit: u64) -> LogFile {
    let name = CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
    LogFile::create(&name, limit).unwrap()
}

#[test]
fn a_log_grows_over_its_windows() {
    crate::signals::install_fault_handler();
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("a.klog");
    let mut log = log_at(&path, u64::MAX);
    let open = records::open(3, 2, 0, b"/dev/nvidiactl");
    log.append(kind::OPEN, 0, 1, &[Part::Bytes(&open)]).unwrap();
    let content = vec![0x55; 5 << 20];
    for _ in 0..10 {
        log.append(kind::MARK, 1, 1, &[Part::Bytes(&content)]).unwrap();
    }
    assert_eq!(
        log.append(kind::MARK, 1, 1, &[Part::Bytes(&vec![1; 17 << 20])]),
        Err(LogError::TooLarge)
    );
    let unreadable = Part::Memory(HostAddr::new(0x10), 100);
    let parts = [Part::Bytes(&content), unreadable];
    assert_eq!(log.append(kind::MARK, 1, 1, &parts), Err(LogError::Unreadable));
    // The log of a killed program: the failed record and the rest of the file are not part of it.
    let r = import(&path);
    assert_eq!(r.events.marks.len(), 10);
    assert!(
        r.metadata
            .findings
            .iter()
            .all(|f| f.kind != FindingKind::TruncatedSection)
    );
}

#[test]
fn a_log_ends_at_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = log_at(&folder.path().join("a.klog"), 100);
    log.append(kind::MARK, 1, 1, &[Part::Bytes(&[1; 50])]).unwrap();
    assert_eq!(
        log.append(kind::MARK, 1, 1, &[Part::Bytes(&[1; 50])]),
        Err(LogError::Limit)
    );
}

#[test]
fn a_log_never_grows_into_another_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut log = log_at(&folder.path().join("a.klog"), u64::MAX);
    let other = tempfile::tempfile().unwrap();
    // SAFETY: the program closes the recorder's descriptor, and gets its number for a file of its own.
    unsafe { libc::dup2(other.as_raw_fd(), log.descriptor()) };
    let content = vec![1; 15 << 20];
    let results: Vec<_> = (0..3)
        .map(|_| log.append(kind::MARK, 1, 1, &[Part::Bytes(&content)]))
        .collect();
    assert_eq!(results[2], Err(LogError::Full));
    log.trim();
    assert_eq!(other.metadata().unwrap().len(), 0);
}

#[test]
fn requests_in_the_log_are_those_of_the_tables() {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder = create_recorder(&settings(folder.path(), "570.211.01")).unwrap();
    // A mapping in the form of branch 570: 56 bytes.
    let argument = fields(&[CLIENT, DEVICE, 9, 5, 0, 0, 0x1000, 0, 0, 0, 0x7000, 0, 0, 0]);
    follow(
        &mut recorder.tables,
        DriverBranch::R570,
        DeviceFile::Rm,
        0xc038_4657,
        &argument,
        &[],
    );
    let memory = map_memory(0x1000).unwrap();
    recorder.tables.add_user_memory(MEMORY, memory, 0x1000);
    let visible = recorder.tables.find_visible(GpuVa(0x7010)).unwrap();
    assert_eq!(visible.at.get(), memory.get() + 0x10);
}
