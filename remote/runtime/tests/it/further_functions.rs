//! Functions about graphs, captures, pools, attributes and hints.

use crate::device_code::address;
use crate::runtime_library::RuntimeLibrary;
use cuda_driver::{FillNode, MemLocation};
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// `cudaMemcpyDeviceToHost`.
const TO_HOST: u32 = 2;

fn fill(to: u64, value: u32) -> FillNode {
    FillNode {
        to,
        pitch: 0,
        value,
        element: 4,
        width: 16,
        height: 1,
    }
}

fn read(library: &RuntimeLibrary, from: u64) -> u32 {
    let mut word = 0_u32;
    assert_eq!(library.cudaMemcpy(address(&raw mut word), from, 4, TO_HOST), 0);
    word
}

/// Launches an executable graph of a graph, which ends then.
fn run(library: &RuntimeLibrary, graph: *mut c_void) {
    let mut exec = null_mut();
    assert_eq!(library.cudaGraphInstantiate(&raw mut exec, graph, 0), 0);
    assert_eq!(library.cudaGraphUpload(exec, null_mut()), 0);
    assert_eq!(library.cudaGraphLaunch(exec, null_mut()), 0);
    assert_eq!(library.cudaDeviceSynchronize(), 0);
    assert_eq!(library.cudaGraphExecDestroy(exec), 0);
}

#[test]
fn graphs_are_cloned_and_changed() {
    for library in RuntimeLibrary::both() {
        let (mut graph, mut clone, mut device) = (null_mut(), null_mut(), 0);
        let [mut first, mut second, mut child] = [null_mut(); 3];
        assert_eq!(library.cudaMalloc(&raw mut device, 64), 0);
        assert_eq!(library.cudaGraphCreate(&raw mut graph, 0), 0);
        let form = fill(device, 5);
        let added = library.cudaGraphAddMemsetNode(&raw mut first, graph, null(), 0, &raw const form);
        assert_eq!(added, 0);
        let form = fill(device, 7);
        let added = library.cudaGraphAddMemsetNode(&raw mut second, graph, &raw const first, 1, &raw const form);
        assert_eq!(added, 0);
        let (mut roots, mut count, mut kind) = ([null_mut(); 2], 2, 9);
        assert_eq!(
            library.cudaGraphGetRootNodes(graph, roots.as_mut_ptr(), &raw mut count),
            0
        );
        assert_eq!((roots, count), ([first, null_mut()], 1));
        assert_eq!(library.cudaGraphNodeGetType(second, &raw mut kind), 0);
        assert_eq!(kind, 2, "a fill");
        assert_eq!(library.cudaGraphClone(&raw mut clone, graph), 0);
        assert_eq!(library.cudaGraphDestroyNode(second), 0);
        assert_eq!(library.cudaGraphNodeGetType(second, &raw mut kind), 400);
        run(&library, graph);
        assert_eq!(read(&library, device), 5);
        run(&library, clone);
        assert_eq!(read(&library, device), 7);

        // The clone as a child, whose graph is another copy; and a node of an executable graph.
        let added = library.cudaGraphAddChildGraphNode(&raw mut child, graph, &raw const first, 1, clone);
        assert_eq!(added, 0);
        let (mut inner, mut exec) = (null_mut(), null_mut());
        assert_eq!(library.cudaGraphChildGraphNodeGetGraph(child, &raw mut inner), 0);
        assert!(inner != clone && !inner.is_null());
        assert_eq!(library.cudaGraphInstantiate(&raw mut exec, graph, 0), 0);
        assert_eq!(library.cudaGraphNodeSetEnabled(exec, first, 0), 0);
        let form = fill(device, 9);
        assert_eq!(
            library.cudaGraphExecMemsetNodeSetParams(exec, first, &raw const form),
            0
        );
        assert_eq!(library.cudaGraphLaunch(exec, null_mut()), 0);
        assert_eq!(read(&library, device), 7);
        let mut report = [9_u64; 3];
        let updated = library.cudaGraphExecUpdate(exec, clone, report.as_mut_ptr().cast());
        assert_eq!((updated, report[0] as u32), (910, 2), "another topology");
        assert_eq!(library.cudaGraphExecDestroy(exec), 0);
        for graph in [graph, clone] {
            assert_eq!(library.cudaGraphDestroy(graph), 0);
        }
        assert_eq!(library.cudaFree(device), 0);
    }
}

#[test]
fn captures_are_described() {
    for library in RuntimeLibrary::both() {
        let (mut stream, mut device, mut captured) = (null_mut(), 0, null_mut());
        assert_eq!(library.cudaMalloc(&raw mut device, 64), 0);
        assert_eq!(library.cudaStreamCreate(&raw mut stream), 0);
        assert_eq!(library.cudaStreamBeginCapture(stream, 0), 0);
        assert_eq!(library.cudaMemsetAsync(device, 1, 64, stream), 0);
        let (mut status, mut id, mut graph, mut count) = (9, 0, null_mut(), 9);
        let (mut nodes, mut edges): (*const *mut c_void, *const c_void) = (null(), null());
        let (status_at, id_at, graph_at) = (&raw mut status, &raw mut id, &raw mut graph);
        let (nodes_at, edges_at, count_at) = (&raw mut nodes, &raw mut edges, &raw mut count);
        let asked = match library.version {
            12 => library.cudaStreamGetCaptureInfo_v2(stream, status_at, id_at, graph_at, nodes_at, count_at),
            _ => library.cudaStreamGetCaptureInfo(stream, status_at, id_at, graph_at, nodes_at, edges_at, count_at),
        };
        assert_eq!((asked, status, count), (0, 1, 1));
        assert!(id != 0 && !nodes.is_null());
        assert_eq!(library.cudaStreamEndCapture(stream, &raw mut captured), 0);
        assert_eq!(captured, graph);
        assert_eq!(library.cudaGraphDestroy(graph), 0);
        assert_eq!(library.cudaStreamDestroy(stream), 0);
        assert_eq!(library.cudaFree(device), 0);
    }
}

#[test]
fn pools_have_attributes() {
    for library in RuntimeLibrary::both() {
        let (mut pool, mut current, mut default) = (null_mut(), null_mut(), null_mut());
        // Pinned memory of the first device: kind, kinds of handles, kind and number of the location.
        let mut properties = [0_u32; 22];
        (properties[0], properties[2]) = (1, 1);
        assert_eq!(library.cudaMemPoolCreate(&raw mut pool, properties.as_ptr().cast()), 0);
        assert_eq!(library.cudaDeviceSetMemPool(0, pool), 0);
        assert_eq!(library.cudaDeviceGetMemPool(&raw mut current, 0), 0);
        assert_eq!(current, pool);
        assert_eq!(library.cudaDeviceGetDefaultMemPool(&raw mut default, 0), 0);
        assert_ne!(default, pool);
        let (mut threshold, mut stored) = (1_u64 << 30, 0_u64);
        let set = library.cudaMemPoolSetAttribute(pool, 4, (&raw mut threshold).cast());
        assert_eq!(set, 0);
        let got = library.cudaMemPoolGetAttribute(pool, 4, (&raw mut stored).cast());
        assert_eq!((got, stored), (0, threshold));
        assert_eq!(library.cudaMemPoolTrimTo(pool, 0), 0);
        assert_eq!(library.cudaMemPoolDestroy(pool), 0);
        assert_eq!(library.cudaMemPoolDestroy(default), 1);
    }
}

#[test]
fn hints_attributes_and_functions_of_the_driver_are_checked() {
    for library in RuntimeLibrary::both() {
        let (mut managed, mut stream, mut other) = (0, null_mut(), null_mut());
        assert_eq!(library.cudaMallocManaged(&raw mut managed, 4096, 1), 0);
        assert_eq!(library.cudaStreamCreate(&raw mut stream), 0);
        assert_eq!(library.cudaStreamCreate(&raw mut other), 0);
        let device = MemLocation { kind: 1, id: 0 };
        let (advised, prefetched, beyond) = match library.version {
            12 => (
                library.cudaMemAdvise_v2(managed, 4096, 3, device),
                library.cudaMemPrefetchAsync_v2(managed, 4096, device, 0, stream),
                library.cudaMemPrefetchAsync_v2(managed, 8192, device, 0, stream),
            ),
            _ => (
                library.cudaMemAdvise(managed, 4096, 3, device),
                library.cudaMemPrefetchAsync(managed, 4096, device, 0, stream),
                library.cudaMemPrefetchAsync(managed, 8192, device, 0, stream),
            ),
        };
        assert_eq!((advised, prefetched, beyond), (0, 0, 1));
        let (policy, mut copied) = ([4_u64, 0, 0, 0, 0, 0, 0, 0], [0_u64; 8]);
        assert_eq!(library.cudaStreamSetAttribute(stream, 3, policy.as_ptr().cast()), 0);
        assert_eq!(library.cudaStreamCopyAttributes(other, stream), 0);
        assert_eq!(library.cudaStreamGetAttribute(other, 3, copied.as_mut_ptr().cast()), 0);
        assert_eq!(copied, policy);
        assert_eq!(library.cudaCtxResetPersistingL2Cache(), 0);

        let (mut function, mut status) = (null_mut(), 9);
        let found = library.cudaGetDriverEntryPoint(c"cuMemAlloc".as_ptr(), &raw mut function, 0, &raw mut status);
        assert_eq!((found, status), (0, 0));
        assert!(!function.is_null());
        let missing = library.cudaGetDriverEntryPoint(c"cuNothing".as_ptr(), &raw mut function, 0, &raw mut status);
        assert_eq!((missing, status), (0, 1));
        assert!(function.is_null());
        // No memory is shared with other processes.
        let mut handle = [0_u64; 8];
        assert_eq!(library.cudaIpcGetMemHandle(handle.as_mut_ptr().cast(), managed), 801);
        for stream in [stream, other] {
            assert_eq!(library.cudaStreamDestroy(stream), 0);
        }
        assert_eq!(library.cudaFree(managed), 0);
    }
}
