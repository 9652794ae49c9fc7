//! Tests of the driver's rules that tests of the recorder and the replayer rely on.
//!
//! Each test has a context of its own, so that errors in one test do not affect another test.

use crate::Answer;
use crate::call::Call;
use crate::calls::allocation::*;
use crate::calls::captures::*;
use crate::calls::contexts::*;
use crate::calls::copies::*;
use crate::calls::devices::*;
use crate::calls::events::*;
use crate::calls::fills::*;
use crate::calls::functions::*;
use crate::calls::host_memory::*;
use crate::calls::launches::*;
use crate::calls::memory_queries::*;
use crate::calls::modules::*;
use crate::calls::streams::*;
use crate::calls::virtual_memory::*;
use crate::calls::{exported, procs};
use crate::codes::*;
use crate::device::*;
use crate::memory::GRANULE;
use cuda_driver::*;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;

mod translated;

const CALL: Call = Call { per_thread: false };

/// A context that is current on this thread.
struct TestContext(CuContext);

impl TestContext {
    fn new() -> Self {
        let mut context = null_mut();
        cuInit(&CALL, 0).unwrap();
        cuCtxCreate_v2(&CALL, &mut context, 0, 0).unwrap();
        Self(context)
    }
}

impl Drop for TestContext {
    fn drop(&mut self) {
        let _ = cuCtxDestroy_v2(&CALL, self.0);
    }
}

fn alloc(bytes: usize) -> u64 {
    let mut at = 0;
    cuMemAlloc_v2(&CALL, &mut at, bytes).unwrap();
    at
}

fn function(ptx: &str, name: &str) -> (CuModule, CuFunction) {
    let (text, name) = (CString::new(ptx).unwrap(), CString::new(name).unwrap());
    let (mut module, mut function) = (null_mut(), null_mut());
    cuModuleLoadData(&CALL, &mut module, text.as_ptr().cast()).unwrap();
    cuModuleGetFunction(&CALL, &mut function, module, name.as_ptr()).unwrap();
    (module, function)
}

const MIX: &str = include_str!("../../clients/ptx/graph.ptx");
const ORDERS: &str = include_str!("../../clients/ptx/faulty.ptx");
/// Order for `obey`: never end.
const HANG: u32 = 2;

fn launch(function: CuFunction, grid: u32, block: u32, stream: CuStream, arguments: &[u64]) -> Answer {
    // A four-byte word is the first half of an eight-byte word.
    let mut pointers: Vec<*mut c_void> = arguments.iter().map(|a| (&raw const *a).cast_mut().cast()).collect();
    cuLaunchKernel(
        &CALL,
        function,
        grid,
        1,
        1,
        block,
        1,
        1,
        0,
        stream,
        pointers.as_mut_ptr(),
        null_mut(),
    )
}

fn read(from: u64, n: usize) -> Answer<Vec<u32>> {
    let mut words = vec![0u32; n];
    cuMemcpyDtoH_v2(&CALL, words.as_mut_ptr().cast(), from, n * 4)?;
    Ok(words)
}

/// Returns whether this process can access an address directly. The operating system checks it, so nothing crashes.
fn is_accessible(at: u64) -> bool {
    let mut byte = 0u8;
    let local = libc::iovec {
        iov_base: (&raw mut byte).cast(),
        iov_len: 1,
    };
    let remote = libc::iovec {
        iov_base: at as *mut c_void,
        iov_len: 1,
    };
    // SAFETY: the operating system checks the remote address.
    let n = unsafe { libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0) };
    n == 1
}

#[test]
fn stand_in_driver_exports_listed_functions() {
    for name in [
        "cuInit",
        "cuMemAlloc_v2",
        "cuGraphLaunch",
        "cuGetExportTable",
        "cuGetErrorString",
    ] {
        assert!(exported(name).is_some(), "{name}");
    }
    let (_, other) = exported("cuMemcpyHtoDAsync_v2").unwrap();
    assert!(other.is_some());
    let mut table = std::ptr::dangling();
    assert_eq!(
        procs::cuGetExportTable(&CALL, &mut table, std::ptr::null()),
        Err(NOT_FOUND)
    );
    assert!(table.is_null());
}

#[test]
fn address_reservation_follows_hints_and_needs_mapped_memory() {
    let _context = TestContext::new();
    let (hint, long) = (0x1777_4000_0000, 1 << 40);
    let (mut at, mut other) = (0, 0);
    cuMemAddressReserve(&CALL, &mut at, long, 0, hint, 0).unwrap();
    assert_eq!(at, hint, "the driver follows a hint for a terabyte");
    cuMemAddressReserve(&CALL, &mut other, GRANULE as usize, 0, hint, 0).unwrap();
    assert_ne!(other, hint, "reserved addresses are not reserved again");
    let location = MemLocation {
        kind: LOCATION_DEVICE,
        id: 0,
    };
    let properties = AllocationProperties {
        kind: ALLOCATION_PINNED,
        handle_types: 0,
        location,
        win32: null_mut(),
        flags: [0; 8],
    };
    let granule = GRANULE as usize;
    let mut handle = 0;
    assert_eq!(
        cuMemCreate(&CALL, &mut handle, 4096, &properties, 0),
        Err(INVALID_VALUE)
    );
    cuMemCreate(&CALL, &mut handle, granule, &properties, 0).unwrap();
    let mapped = at + 5 * GRANULE;
    assert_eq!(
        cuMemMap(&CALL, at + long as u64, granule, 0, handle, 0),
        Err(INVALID_VALUE)
    );
    cuMemMap(&CALL, mapped, granule, 0, handle, 0).unwrap();
    assert_eq!(cuMemMap(&CALL, mapped, granule, 0, handle, 0), Err(INVALID_VALUE));
    // The device cannot access the memory before access is set. The host never can.
    assert_eq!(read(mapped, 1), Err(INVALID_VALUE));
    let access = AccessDescription {
        location,
        flags: ACCESS_READ_WRITE,
    };
    cuMemSetAccess(&CALL, mapped, granule, &access, 1).unwrap();
    cuMemsetD32_v2(&CALL, mapped, 7, 4).unwrap();
    assert_eq!(read(mapped, 4).unwrap(), [7; 4]);
    assert!(!is_accessible(mapped));
    assert_eq!(
        read(mapped + GRANULE - 4, 2),
        Err(INVALID_VALUE),
        "the next granule is not mapped"
    );
    assert_eq!(
        cuMemAddressFree(&CALL, at, long),
        Err(INVALID_VALUE),
        "the range contains a mapping"
    );
    cuMemUnmap(&CALL, mapped, granule).unwrap();
    assert_eq!(read(mapped, 1), Err(INVALID_VALUE));
    cuMemRelease(&CALL, handle).unwrap();
    assert_eq!(cuMemRelease(&CALL, handle), Err(INVALID_VALUE));
    cuMemAddressFree(&CALL, at, long).unwrap();
    cuMemAddressFree(&CALL, other, granule).unwrap();
}

#[test]
fn out_of_bounds_kernel_leaves_its_context_failed() {
    let failed = TestContext::new();
    let (_, mix) = function(MIX, "mix");
    let (from, to) = (alloc(40), alloc(40));
    let words: Vec<u32> = (0..10).collect();
    cuMemcpyHtoD_v2(&CALL, from, words.as_ptr().cast(), 40).unwrap();
    launch(mix, 1, 32, null_mut(), &[to, from, 10, 3]).unwrap();
    assert_eq!(read(to, 10).unwrap(), (0..10).map(|i| i * 4).collect::<Vec<_>>());
    assert!(!is_accessible(from));
    // This launch accesses one word more than the buffers have.
    launch(mix, 1, 32, null_mut(), &[to, from, 11, 3]).unwrap();
    assert_eq!(cuCtxSynchronize(&CALL), Err(ILLEGAL_ADDRESS));
    assert_eq!(cuMemAlloc_v2(&CALL, &mut 0, 4), Err(ILLEGAL_ADDRESS));
    assert_eq!(launch(mix, 1, 32, null_mut(), &[to, from, 10, 3]), Err(ILLEGAL_ADDRESS));
    // Another context has no error.
    let other = TestContext::new();
    let at = alloc(4);
    cuMemFree_v2(&CALL, at).unwrap();
    assert_eq!(cuMemFree_v2(&CALL, at), Err(INVALID_VALUE));
    drop(other);
    drop(failed);
}

#[test]
fn default_stream_waits_only_for_blocking_streams() {
    let _context = TestContext::new();
    let (_, obey) = function(ORDERS, "obey");
    let (_, slow) = function(ORDERS, "slow");
    let (mut non_blocking, mut blocking, mut free) = (null_mut(), null_mut(), null_mut());
    cuStreamCreate(&CALL, &mut non_blocking, STREAM_NON_BLOCKING).unwrap();
    cuStreamCreate(&CALL, &mut blocking, 0).unwrap();
    cuStreamCreate(&CALL, &mut free, STREAM_NON_BLOCKING).unwrap();
    let at = alloc(4);
    // Each kernel runs until its order changes, and then writes a number.
    let orders = [(); 3].map(|()| alloc(16));
    let out = [(); 3].map(|()| alloc(4));
    for (order, result) in orders.into_iter().zip(out) {
        cuMemsetD32_v2(&CALL, order, HANG, 1).unwrap();
        cuMemsetD32_v2(&CALL, result, 0, 1).unwrap();
    }
    cuCtxSynchronize(&CALL).unwrap();
    let hang = |n: usize, stream| launch(obey, 1, 1, stream, &[out[n], orders[n], 1]).unwrap();
    // The release takes 50 ms, so that a wait begins before it is done. A wait that begins later succeeds as well.
    let release = |n: usize| {
        launch(slow, 1, 1, free, &[50_000_000]).unwrap();
        cuMemsetD32Async(&CALL, orders[n], n as u32 + 5, 1, free).unwrap();
    };
    hang(0, non_blocking);
    cuMemsetD32_v2(&CALL, at, 1, 1).unwrap();
    assert_eq!(read(at, 1).unwrap(), [1]);
    assert_eq!(
        cuStreamQuery(&CALL, non_blocking),
        Err(NOT_READY),
        "the default stream does not wait for a non-blocking stream"
    );
    hang(1, blocking);
    assert_eq!(cuStreamQuery(&CALL, null_mut()), Err(NOT_READY));
    release(1);
    assert_eq!(
        read(out[1], 1).unwrap(),
        [6],
        "the default stream waits for the blocking stream"
    );
    // The blocking stream waits for the default stream.
    hang(2, null_mut());
    cuMemsetD32Async(&CALL, at, 2, 1, blocking).unwrap();
    assert_eq!(cuStreamQuery(&CALL, blocking), Err(NOT_READY));
    release(2);
    cuStreamSynchronize(&CALL, blocking).unwrap();
    assert_eq!(cuStreamQuery(&CALL, null_mut()), Ok(()));
    assert_eq!((read(out[2], 1).unwrap(), read(at, 1).unwrap()), (vec![7], vec![2]));
    assert_eq!(cuStreamQuery(&CALL, non_blocking), Err(NOT_READY));
    release(0);
    cuCtxSynchronize(&CALL).unwrap();
    assert_eq!(cuStreamQuery(&CALL, non_blocking), Ok(()));
    assert_eq!(read(out[0], 1).unwrap(), [5]);
}

#[test]
fn cuda_events_order_streams_and_measure_time() {
    let _context = TestContext::new();
    let (_, slow) = function(ORDERS, "slow");
    let (mut one, mut two, mut from, mut to, mut plain) = (null_mut(), null_mut(), null_mut(), null_mut(), null_mut());
    cuStreamCreate(&CALL, &mut one, STREAM_NON_BLOCKING).unwrap();
    cuStreamCreate(&CALL, &mut two, STREAM_NON_BLOCKING).unwrap();
    cuEventCreate(&CALL, &mut from, 0).unwrap();
    cuEventCreate(&CALL, &mut to, 0).unwrap();
    cuEventCreate(&CALL, &mut plain, EVENT_NO_TIMING).unwrap();
    assert_eq!(
        cuEventQuery(&CALL, to),
        Ok(()),
        "an event that was never recorded is complete"
    );
    cuEventRecord(&CALL, from, one).unwrap();
    launch(slow, 1, 1, one, &[50_000_000]).unwrap();
    cuEventRecord(&CALL, to, one).unwrap();
    let mut time = 0f32;
    assert_eq!(cuEventElapsedTime(&CALL, &mut time, from, to), Err(NOT_READY));
    cuStreamWaitEvent(&CALL, two, to, 0).unwrap();
    cuStreamSynchronize(&CALL, two).unwrap();
    assert_eq!(cuEventQuery(&CALL, to), Ok(()));
    cuEventElapsedTime(&CALL, &mut time, from, to).unwrap();
    assert!((45.0..5_000.0).contains(&time), "{time} ms");
    assert_eq!(cuEventElapsedTime(&CALL, &mut time, plain, to), Err(INVALID_HANDLE));
}

#[test]
fn unsupported_calls_end_the_stream_capture() {
    let _context = TestContext::new();
    let (mut stream, mut graph, mut status) = (null_mut(), null_mut(), 9);
    cuStreamCreate(&CALL, &mut stream, 0).unwrap();
    let at = alloc(16);
    let begin = || cuStreamBeginCapture_v2(&CALL, stream, 0).unwrap();
    let calls: [(&str, &dyn Fn() -> Answer, CuResult); 5] = [
        (
            "a wait for the stream",
            &|| cuStreamSynchronize(&CALL, stream),
            STREAM_CAPTURE_UNSUPPORTED,
        ),
        (
            "a wait for all",
            &|| cuCtxSynchronize(&CALL),
            STREAM_CAPTURE_UNSUPPORTED,
        ),
        (
            "memory",
            &|| cuMemAlloc_v2(&CALL, &mut 0, 4),
            STREAM_CAPTURE_UNSUPPORTED,
        ),
        (
            "pinned memory",
            &|| cuMemHostAlloc(&CALL, &mut null_mut(), 4, 0),
            STREAM_CAPTURE_UNSUPPORTED,
        ),
        (
            "the default stream",
            &|| cuMemsetD32_v2(&CALL, at, 1, 1),
            CAPTURE_IMPLICIT,
        ),
    ];
    for (case, call, code) in calls {
        begin();
        assert_eq!(call(), Err(code), "{case}");
        cuStreamIsCapturing(&CALL, stream, &mut status).unwrap();
        assert_eq!(status, 2, "{case}");
        assert_eq!(
            cuStreamEndCapture(&CALL, stream, &mut graph),
            Err(CAPTURE_INVALIDATED),
            "{case}"
        );
        assert!(graph.is_null());
    }
    // Queries are allowed, and captured work does not run.
    begin();
    cuMemsetD32Async(&CALL, at, 5, 4, stream).unwrap();
    let (mut free, mut all) = (0, 0);
    cuMemGetInfo_v2(&CALL, &mut free, &mut all).unwrap();
    cuStreamEndCapture(&CALL, stream, &mut graph).unwrap();
    assert!(!graph.is_null() && free < all);
    assert_eq!(read(at, 4).unwrap(), [0; 4]);
    assert_eq!(cuStreamEndCapture(&CALL, stream, &mut graph), Err(CAPTURE_UNMATCHED));
}

#[test]
fn capture_end_requires_forked_streams_to_rejoin() {
    let _context = TestContext::new();
    let (mut one, mut two, mut event, mut graph) = (null_mut(), null_mut(), null_mut(), null_mut());
    cuStreamCreate(&CALL, &mut one, STREAM_NON_BLOCKING).unwrap();
    cuStreamCreate(&CALL, &mut two, STREAM_NON_BLOCKING).unwrap();
    cuEventCreate(&CALL, &mut event, 0).unwrap();
    let at = alloc(16);
    cuStreamBeginCapture_v2(&CALL, one, 2).unwrap();
    cuMemsetD32Async(&CALL, at, 1, 1, one).unwrap();
    cuEventRecord(&CALL, event, one).unwrap();
    cuStreamWaitEvent(&CALL, two, event, 0).unwrap();
    cuMemsetD32Async(&CALL, at, 2, 1, two).unwrap();
    assert_eq!(cuEventSynchronize(&CALL, event), Err(CAPTURED_EVENT));
    assert_eq!(cuStreamEndCapture(&CALL, two, &mut graph), Err(CAPTURE_UNMATCHED));
    assert_eq!(cuStreamEndCapture(&CALL, one, &mut graph), Err(CAPTURE_UNJOINED));
    // The failed end of the capture released both streams.
    cuMemsetD32Async(&CALL, at, 3, 1, two).unwrap();
    cuStreamSynchronize(&CALL, two).unwrap();
    assert_eq!(read(at, 1).unwrap(), [3]);
}

#[test]
fn module_variables_have_their_ptx_initial_values() {
    let _context = TestContext::new();
    let (module, _) = function(include_str!("../../clients/ptx/globals.ptx"), "through");
    let variable = |name: &str| {
        let (mut at, mut bytes) = (0, 0);
        let name = CString::new(name).unwrap();
        cuModuleGetGlobal_v2(&CALL, &mut at, &mut bytes, module, name.as_ptr()).map(|()| (at, bytes))
    };
    let (weights, bytes) = variable("weights").unwrap();
    assert_eq!((bytes, read(weights, 4).unwrap()), (16, vec![3, 1, 4, 1]));
    assert_eq!(
        read(variable("bank").unwrap().0, 6).unwrap(),
        [100, 101, 102, 103, 0, 0]
    );
    let (home, target) = (
        read(variable("home").unwrap().0, 2).unwrap(),
        variable("target").unwrap().0,
    );
    assert_eq!(u64::from(home[0]) | u64::from(home[1]) << 32, target);
    assert_eq!(variable("through"), Err(NOT_FOUND), "a function is not a variable");
}

#[test]
fn registers_are_limited_by_an_option_and_errors_are_logged() {
    let _context = TestContext::new();
    let text = CString::new(include_str!("../../clients/ptx/stride.ptx")).unwrap();
    let bad = CString::new(".version 7.0\n.target sm_75\n.visible .entry broken(.param .what x)\n{ ret; }\n").unwrap();
    let mut log = [0u8; 128];
    let load = |image: &CString, registers: usize, log: &mut [u8]| {
        let mut options = [0, 5, 6];
        let mut values = [
            registers as *mut c_void,
            log.as_mut_ptr().cast(),
            log.len() as *mut c_void,
        ];
        let (mut module, at) = (null_mut(), image.as_ptr().cast());
        cuModuleLoadDataEx(&CALL, &mut module, at, 3, options.as_mut_ptr(), values.as_mut_ptr()).map(|()| module)
    };
    for (limit, expected, local) in [(64, 24, 0), (16, 16, 32)] {
        let module = load(&text, limit, &mut log).unwrap();
        let (mut function, mut value) = (null_mut(), 0);
        cuModuleGetFunction(&CALL, &mut function, module, c"stride".as_ptr()).unwrap();
        cuFuncGetAttribute(&CALL, &mut value, FUNCTION_REGISTERS, function).unwrap();
        assert_eq!(value, expected);
        cuFuncGetAttribute(&CALL, &mut value, FUNCTION_LOCAL, function).unwrap();
        assert_eq!(value, local, "values that do not fit into registers are spilled");
    }
    assert_eq!(load(&bad, 0, &mut log), Err(INVALID_PTX));
    assert!(log.starts_with(b"ptxas fatal"), "{}", String::from_utf8_lossy(&log));
}

#[test]
fn impossible_launches_are_refused() {
    let _context = TestContext::new();
    let (_, slow) = function(ORDERS, "slow");
    for (grid, block) in [(0, 1), (1, 0), (1, 1025)] {
        assert_eq!(
            launch(slow, grid, block, null_mut(), &[0]),
            Err(INVALID_VALUE),
            "{grid}, {block}"
        );
    }
    let mut blocks = 0;
    cuOccupancyMaxActiveBlocksPerMultiprocessor(&CALL, &mut blocks, slow, 128, 0).unwrap();
    assert_eq!(blocks, 16, "16 blocks of 128 threads fill a multiprocessor");
    let together = |blocks: u32| {
        let mut none = 0u64;
        let mut pointers = [(&raw mut none).cast::<c_void>()];
        let p = pointers.as_mut_ptr();
        cuLaunchCooperativeKernel(&CALL, slow, blocks, 1, 1, 128, 1, 1, 0, null_mut(), p)
    };
    let max = blocks as u32 * MULTIPROCESSORS;
    assert_eq!(together(max), Ok(()));
    assert_eq!(together(max + 1), Err(TOO_MANY_BLOCKS));
}

#[test]
fn host_memory_has_the_right_pointer_type() {
    let _context = TestContext::new();
    let mut at = null_mut();
    cuMemHostAlloc(&CALL, &mut at, 64, 0).unwrap();
    let kind = |at: u64| {
        let mut kind = 0u32;
        cuPointerGetAttribute(&CALL, (&raw mut kind).cast(), POINTER_MEMORY_TYPE, at).map(|()| kind)
    };
    let mut plain = vec![0u32; 16];
    let device = alloc(64);
    assert_eq!(kind(at as u64), Ok(MEMORY_HOST));
    assert_eq!(kind(device + 8), Ok(MEMORY_DEVICE));
    assert_eq!(kind(plain.as_ptr() as u64), Err(INVALID_VALUE));
    cuMemHostRegister_v2(&CALL, plain.as_mut_ptr().cast(), 64, 0).unwrap();
    assert_eq!(kind(plain.as_ptr() as u64), Ok(MEMORY_HOST));
    let again = cuMemHostRegister_v2(&CALL, plain.as_mut_ptr().cast(), 64, 0);
    assert_eq!(again, Err(ALREADY_REGISTERED));
    cuMemHostUnregister(&CALL, plain.as_mut_ptr().cast()).unwrap();
    assert_eq!(
        cuMemHostUnregister(&CALL, plain.as_mut_ptr().cast()),
        Err(NOT_REGISTERED)
    );
    cuMemFreeHost(&CALL, at).unwrap();
}
