//! Test program: a client of NVIDIA's driver that a recorder watches, on the model of driver and GPU.
//!
//! `nvidia-client COUNT [MODE]` submits COUNT push buffers. The mode `cuda` calls NVIDIA's driver API before that; `killed`
//! and `fault` end the program by a signal. `nvidia-client vadd SEED FILE` adds numbers on the GPU and writes the sums;
//! `graph` does the same with a kernel that another kernel starts.
#![allow(unsafe_code, reason = "a client of a driver uses system calls and mapped memory")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test program ends with a message")]

#[allow(dead_code, reason = "tests of the client use more of it")]
mod work;

use nvidia_client::steps::Step;
use nvidia_client::{
    ChannelLayout, Client, Control, DriverBranch, Engine, File, Kernel, Mapping, Memory, Place, Player, SystemError,
};
use std::ffi::CStr;
use std::ptr::{NonNull, null_mut};
use std::time::Instant;
use work::{ARRAYS, CODE_BYTES, Work};

/// Addresses of the memory on the GPU's board, and in the machine.
const VIDEO: u64 = 0x2_0000_0000;
const SYSTEM: u64 = 0x2_1000_0000;
/// Page of the compute scheduler.
const SCHEDULER: u64 = 0x2_2000_0000;
/// Offset of the ring in the memory of the machine, and of push buffers.
const RING: usize = 0x1_0000;
const PUSH_BUFFERS: u64 = 0x10_0000;
/// Address of the result in the memory of the machine.
const RESULT: u64 = SYSTEM + 0x8_0000;
/// Bytes of the registers with the doorbell, and its offset.
const REGISTER_BYTES: usize = 0x1_0000;
const DOORBELL: usize = 0x90;
/// Maximum time of a submission, nanoseconds.
const LIMIT_NS: u64 = 60_000_000_000;

/// The kernel of this machine, through the C library.
struct System {
    start: Instant,
    /// The mapped registers: the first mapping of their size.
    registers: Option<NonNull<u8>>,
}

fn last_error() -> SystemError {
    SystemError(std::io::Error::last_os_error().raw_os_error().unwrap_or(0))
}

impl Kernel for System {
    fn open(&mut self, path: &CStr) -> Result<File, SystemError> {
        // SAFETY: the path ends in a zero.
        let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
        if fd < 0 { Err(last_error()) } else { Ok(File(fd)) }
    }

    fn close(&mut self, file: File) {
        // SAFETY: the client owns the descriptor.
        unsafe { libc::close(file.0) };
    }

    unsafe fn ioctl(&mut self, file: File, request: u32, argument: &mut [u8]) -> Result<(), SystemError> {
        // SAFETY: as the caller promises.
        let result = unsafe { libc::ioctl(file.0, request.into(), argument.as_mut_ptr()) };
        if result < 0 { Err(last_error()) } else { Ok(()) }
    }

    fn map(&mut self, file: File, bytes: usize) -> Result<Mapping, SystemError> {
        // As libcuda maps its doorbells.
        let rights = match bytes == REGISTER_BYTES {
            true => libc::PROT_WRITE,
            false => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: the kernel chooses the address.
        let at = unsafe { libc::mmap(null_mut(), bytes, rights, libc::MAP_SHARED, file.0, 0) };
        if at == libc::MAP_FAILED {
            return Err(last_error());
        }
        let start = NonNull::new(at.cast()).ok_or(SystemError(libc::EFAULT))?;
        if bytes == REGISTER_BYTES && self.registers.is_none() {
            self.registers = Some(start);
        }
        // SAFETY: the kernel mapped these bytes; `unmap` takes the value.
        Ok(unsafe { Mapping::from_raw(start, bytes) })
    }

    fn unmap(&mut self, mapping: Mapping) {
        // SAFETY: nothing refers to the memory any more.
        unsafe { libc::munmap(mapping.start().as_ptr().cast(), mapping.len()) };
    }

    fn now_ns(&mut self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
}

fn open_gpu() -> Client<System> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap();
    let branch = DriverBranch::from_version_file(&text).unwrap_or(DriverBranch::R580);
    let system = System {
        start: Instant::now(),
        registers: None,
    };
    Client::open(system, branch, 0).unwrap_or_else(|e| panic!("{e}"))
}

/// Calls NVIDIA's driver API: makes a context and allocates memory, twice.
fn call_cuda() {
    // SAFETY: the strings end in a zero.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    assert!(!library.is_null(), "libcuda.so.1 is not installed");
    let find = |name: &CStr| {
        // SAFETY: the handle is from the loader, and the name ends in a zero.
        let at = unsafe { libc::dlsym(library, name.as_ptr()) };
        assert!(!at.is_null(), "{name:?} is missing");
        at
    };
    // SAFETY: the driver's functions of these names have these types.
    unsafe {
        type Init = unsafe extern "C" fn(u32) -> i32;
        type Retain = unsafe extern "C" fn(*mut *mut libc::c_void, i32) -> i32;
        type SetCurrent = unsafe extern "C" fn(*mut libc::c_void) -> i32;
        type Allocate = unsafe extern "C" fn(*mut u64, usize) -> i32;
        let mut context = null_mut();
        assert_eq!(std::mem::transmute::<*mut libc::c_void, Init>(find(c"cuInit"))(0), 0);
        let retain = std::mem::transmute::<*mut libc::c_void, Retain>(find(c"cuDevicePrimaryCtxRetain"));
        assert_eq!(retain(&raw mut context, 0), 0);
        let set_current = std::mem::transmute::<*mut libc::c_void, SetCurrent>(find(c"cuCtxSetCurrent"));
        assert_eq!(set_current(context), 0);
        let allocate = std::mem::transmute::<*mut libc::c_void, Allocate>(find(c"cuMemAlloc_v2"));
        let mut memory = 0;
        assert_eq!(allocate(&raw mut memory, 4096), 0);
        assert_eq!(allocate(&raw mut memory, 4096), 0);
    }
}

/// Submits push buffers of two words, one at a time, then reads the doorbell and starts a child that rings it.
fn submit_many(count: u32) {
    let mut client = open_gpu();
    let memory = client.allocate_memory(Place::System, SYSTEM, CODE_BYTES, true);
    let mut memory = memory.unwrap_or_else(|e| panic!("{e}"));
    let notifier = client.allocate_memory(Place::System, SYSTEM + CODE_BYTES, 0x1000, true);
    let notifier = notifier.unwrap_or_else(|e| panic!("{e}"));
    let group = client.create_group().unwrap_or_else(|e| panic!("{e}"));
    let layout = ChannelLayout { ring: RING };
    let channel = client.create_channel(&group, &memory, layout, &notifier);
    let mut channel = channel.unwrap_or_else(|e| panic!("{e}"));
    client.create_engine(&channel, 0xc8b5).unwrap_or_else(|e| panic!("{e}"));
    client.prepare_channel(&mut channel).unwrap_or_else(|e| panic!("{e}"));
    client.schedule(&group).unwrap_or_else(|e| panic!("{e}"));
    for n in 0..count {
        let offset = PUSH_BUFFERS + u64::from(n) * 8;
        // The method waits until the engines are idle.
        let words: [u32; 2] = [1 << 29 | 1 << 16 | 0x78 >> 2, 0];
        let bytes = words.map(u32::to_le_bytes).concat();
        assert!(memory.mapping_mut().unwrap().write(offset as usize, &bytes));
        let submitted = client.submit(&mut channel, &mut memory, &[(SYSTEM + offset, 2)]);
        submitted.unwrap_or_else(|e| panic!("{e}"));
    }
    let start = Instant::now();
    while channel.get(&memory) != channel.put() {
        assert!(start.elapsed().as_secs() < 60, "the GPU does not fetch the entries");
        std::thread::yield_now();
    }
    let registers = client.kernel().registers.unwrap();
    // SAFETY: the registers are mapped, and the doorbell is in them.
    let doorbell = unsafe { registers.as_ptr().add(DOORBELL).cast::<u32>() };
    // SAFETY: the doorbell is mapped.
    let _ = unsafe { doorbell.read_volatile() };

    // A child works, unrecorded, and reaches the page.
    // SAFETY: the child makes only calls that are allowed after a fork. The register next to the doorbell has no effect.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            doorbell.add(1).write_volatile(1);
            libc::_exit(0);
        }
        let mut status = -1;
        libc::waitpid(child, &raw mut status, 0);
        assert_eq!(status, 0, "the child fails");
    }
    end_by_signal();
    client.free_group(group).unwrap_or_else(|e| panic!("{e}"));
    for memory in [memory, notifier] {
        client.free_memory(memory).unwrap_or_else(|e| panic!("{e}"));
    }
    client.close().unwrap_or_else(|e| panic!("{e}"));
}

/// Ends the program by a signal, in the modes that do.
fn end_by_signal() {
    // SAFETY: the signal ends the program, and so does the write to address 0.
    unsafe {
        match std::env::args().nth(2).as_deref() {
            Some("killed") => {
                libc::raise(libc::SIGKILL);
            }
            Some("fault") => null_mut::<u32>().write_volatile(1),
            _ => {}
        }
    }
}

/// Returns 1,000 numbers as bytes: multiples of a step.
fn numbers(step: f32) -> Vec<u8> {
    let values = (0..1000u16).map(|n| f32::from(n) * step);
    values.flat_map(f32::to_le_bytes).collect()
}

/// Adds numbers on the GPU, all by push buffers: kernels and one input by uploads, the other input and the result by copies.
/// Returns the sums.
fn add_numbers(seed: f32) -> Vec<u8> {
    let data = VIDEO + CODE_BYTES;
    let mut work = Work::new(VIDEO);
    let [a, b, sums] = ARRAYS.map(|offset| data + offset);
    let submissions = [
        work.set_up(),
        work.copy(SYSTEM, a, 4000),
        work.upload(b, &numbers(1.0)),
        work.add([a, b, sums], 1000),
        work.copy(sums, RESULT, 4000),
    ];
    submit_all(&submissions, &numbers(seed), &[])
}

/// Adds numbers like [`add_numbers`], in a kernel that another kernel starts by a message to the compute scheduler.
fn run_graph(seed: f32) -> Vec<u8> {
    let data = VIDEO + CODE_BYTES;
    let [set_up, inputs, waiting, sender] = work::graph(VIDEO, data, SCHEDULER, [&numbers(0.0), &numbers(1.0)]);
    let mut work = Work::new(VIDEO);
    let copy_in = work.copy(SYSTEM, data + ARRAYS[0], 4000);
    let copy_out = work.copy(data + ARRAYS[2], RESULT, 4000);
    let submissions = [set_up, inputs, copy_in, waiting, sender, copy_out];
    submit_all(&submissions, &numbers(seed), &[SCHEDULER])
}

/// Submits push buffers one after another on a GPU with `input` in the machine's memory, and with pages of the compute
/// scheduler. Returns the result.
fn submit_all(submissions: &[Vec<u32>], input: &[u8], scheduler_pages: &[u64]) -> Vec<u8> {
    let mut memories: Vec<Option<Memory>> = (0..8).map(|_| None).collect();
    let control = Control { va: 0x8_0000_0000 };
    let mut player = Player::new(open_gpu(), control, LIMIT_NS, &mut memories).unwrap_or_else(|e| panic!("{e}"));
    for (place, va) in [
        (Place::Video, VIDEO),
        (Place::Video, VIDEO + CODE_BYTES),
        (Place::System, SYSTEM),
    ] {
        player.map(place, va, CODE_BYTES).unwrap_or_else(|e| panic!("{e}"));
    }
    for va in scheduler_pages {
        let mapped = player.play(&Step::MapScheduler { va: *va }, |_| None);
        mapped.unwrap_or_else(|e| panic!("{e}"));
    }
    player.write(SYSTEM, input).unwrap_or_else(|e| panic!("{e}"));
    for (n, words) in (0u64..).zip(submissions) {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let va = SYSTEM + PUSH_BUFFERS + n * 0x1_0000;
        player.write(va, &bytes).unwrap_or_else(|e| panic!("{e}"));
        let submitted = player.submit(n, Engine::Compute, va, words.len() as u32);
        submitted.unwrap_or_else(|e| panic!("{e}: {:?}", player.fault()));
    }
    let mut read = vec![0; 4000];
    player.read(RESULT, &mut read).unwrap_or_else(|e| panic!("{e}"));
    player.close().unwrap_or_else(|e| panic!("{e}"));
    read
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(what @ ("vadd" | "graph")) => {
            let seed = arguments.get(1).map_or(2.0, |n| n.parse().unwrap());
            let sums = match what {
                "graph" => run_graph(seed),
                _ => add_numbers(seed),
            };
            if let Some(file) = arguments.get(2) {
                std::fs::write(file, sums).unwrap();
            }
        }
        count => {
            if arguments.get(1).is_some_and(|mode| mode == "cuda") {
                call_cuda();
            }
            submit_many(count.map_or(3, |n| n.parse().unwrap()));
        }
    }
}
