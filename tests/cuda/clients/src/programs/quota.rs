//! Device memory up to a limit: each kind of allocation succeeds within it, and fails beyond.

use crate::gpu::{ClientResult, Gpu};
use crate::program_context::{DEFAULT, ProgramContext};
use crate::result::check;
use cuda_driver::{
    ALLOCATION_PINNED, AllocationProperties, CuDevicePtr, CudaError, LOCATION_DEVICE, MemLocation, OUT_OF_MEMORY,
};
use std::ffi::c_void;

/// Default limit, MiB.
const LIMIT_MIB: u32 = 8;
/// Flag of `cuMemHostAlloc`: kernels use the memory.
const DEVICE_MAP: u32 = 2;
/// `CU_MEM_ATTACH_GLOBAL`.
const ATTACH_GLOBAL: u32 = 1;
/// `CU_LIMIT_MALLOC_HEAP_SIZE`.
const HEAP: u32 = 2;
/// Width and height of rows, bytes and lines: each row is a pitch of its own.
const ROW: usize = 512;

/// Memory of one kind, with what frees it.
type Allocate = fn(Gpu, usize) -> Result<Allocation, CudaError>;

/// An allocation, by its kind.
enum Allocation {
    Plain(CuDevicePtr),
    InStream(CuDevicePtr),
    Host(*mut c_void),
    Physical { handle: u64, at: CuDevicePtr, bytes: usize },
    Array(*mut c_void),
    Heap,
}

/// `CUDA_ARRAY_DESCRIPTOR`, of bytes.
#[repr(C)]
struct ArrayDescription {
    width: usize,
    height: usize,
    format: u32,
    channels: u32,
}

fn text(e: CudaError) -> String {
    e.to_string()
}

// SAFETY of all calls here: pointers are to local variables of the right type.
fn plain(gpu: Gpu, bytes: usize) -> Result<Allocation, CudaError> {
    let mut at = 0;
    // SAFETY: see above.
    unsafe { gpu.d.cuMemAlloc_v2(&raw mut at, bytes)? };
    Ok(Allocation::Plain(at))
}

fn pitched(gpu: Gpu, bytes: usize) -> Result<Allocation, CudaError> {
    let (mut at, mut pitch) = (0, 0);
    // SAFETY: see above.
    unsafe {
        gpu.d
            .cuMemAllocPitch_v2(&raw mut at, &raw mut pitch, ROW - 100, bytes.div_ceil(ROW), 4)?;
    }
    Ok(Allocation::Plain(at))
}

fn in_stream(gpu: Gpu, bytes: usize) -> Result<Allocation, CudaError> {
    let mut at = 0;
    // SAFETY: see above.
    unsafe { gpu.d.cuMemAllocAsync(&raw mut at, bytes, DEFAULT)? };
    Ok(Allocation::InStream(at))
}

fn managed(gpu: Gpu, bytes: usize) -> Result<Allocation, CudaError> {
    let mut at = 0;
    // SAFETY: see above.
    unsafe { gpu.d.cuMemAllocManaged(&raw mut at, bytes, ATTACH_GLOBAL)? };
    Ok(Allocation::Plain(at))
}

fn host(gpu: Gpu, bytes: usize) -> Result<Allocation, CudaError> {
    let mut at = std::ptr::null_mut();
    // SAFETY: see above.
    unsafe { gpu.d.cuMemHostAlloc(&raw mut at, bytes, DEVICE_MAP)? };
    Ok(Allocation::Host(at))
}

fn physical(gpu: Gpu, bytes: usize) -> Result<Allocation, CudaError> {
    const GRANULE: usize = 2 << 20;
    let bytes = bytes.next_multiple_of(GRANULE);
    let properties = AllocationProperties {
        kind: ALLOCATION_PINNED,
        handle_types: 0,
        location: MemLocation {
            kind: LOCATION_DEVICE,
            id: 0,
        },
        win32: std::ptr::null_mut(),
        flags: [0; 8],
    };
    let (mut at, mut handle) = (0, 0);
    // SAFETY: see above.
    unsafe {
        gpu.d.cuMemCreate(&raw mut handle, bytes, &raw const properties, 0)?;
        gpu.d.cuMemAddressReserve(&raw mut at, bytes, GRANULE, 0, 0)?;
        gpu.d.cuMemMap(at, bytes, 0, handle, 0)?;
    }
    Ok(Allocation::Physical { handle, at, bytes })
}

fn array(gpu: Gpu, bytes: usize) -> Result<Allocation, CudaError> {
    let description = ArrayDescription {
        width: ROW,
        height: bytes.div_ceil(ROW),
        format: 1,
        channels: 1,
    };
    let mut array = std::ptr::null_mut();
    // SAFETY: see above.
    unsafe {
        gpu.d
            .cuArrayCreate_v2(&raw mut array, (&raw const description).cast::<c_void>())?;
    }
    Ok(Allocation::Array(array))
}

fn heap(gpu: Gpu, bytes: usize) -> Result<Allocation, CudaError> {
    // SAFETY: the call has no pointers.
    unsafe { gpu.d.cuCtxSetLimit(HEAP, bytes)? };
    Ok(Allocation::Heap)
}

impl Allocation {
    fn free(self, gpu: Gpu) -> Result<(), CudaError> {
        // SAFETY: the memory is this program's, and nothing uses it.
        unsafe {
            match self {
                Self::Plain(at) => gpu.d.cuMemFree_v2(at),
                Self::InStream(at) => gpu.d.cuMemFreeAsync(at, DEFAULT),
                Self::Host(at) => gpu.d.cuMemFreeHost(at),
                Self::Physical { handle, at, bytes } => {
                    // The memory lives as long as it is mapped.
                    gpu.d.cuMemRelease(handle)?;
                    assert_full(gpu);
                    gpu.d.cuMemUnmap(at, bytes)
                }
                Self::Array(array) => gpu.d.cuArrayDestroy(array),
                Self::Heap => gpu.d.cuCtxSetLimit(HEAP, 0),
            }
        }
    }
}

fn assert_full(gpu: Gpu) {
    assert!(plain(gpu, 1).is_err(), "mapped memory without a handle is not counted");
}

fn free_bytes(gpu: Gpu) -> ClientResult<usize> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the pointers are valid for the answers.
    unsafe { gpu.d.cuMemGetInfo_v2(&raw mut free, &raw mut total) }.map_err(text)?;
    Ok(free)
}

/// Uses all memory of a limit, of each kind: its size is the limit in MiB.
pub fn quota(w: &mut ProgramContext<'_>) -> ClientResult {
    let gpu = w.gpu;
    let limit = (w.size(LIMIT_MIB) as usize) << 20;
    let mut total = 0;
    // SAFETY: the pointer is valid for the answer.
    unsafe { gpu.d.cuDeviceTotalMem_v2(&raw mut total, 0) }.map_err(text)?;
    check("memory of the device", &[total as u64], &[limit as u64])?;
    let kinds: [(&str, Allocate); 8] = [
        ("memory", plain),
        ("rows", pitched),
        ("memory in a stream", in_stream),
        ("managed memory", managed),
        ("mapped memory", host),
        ("physical memory", physical),
        ("an array", array),
        ("a heap", heap),
    ];
    for (name, allocate) in kinds {
        check(name, &[free_bytes(gpu)? as u64], &[limit as u64])?;
        let whole = allocate(gpu, limit).map_err(|e| format!("{name} within the limit: {e}"))?;
        check(name, &[free_bytes(gpu)? as u64], &[0])?;
        for (other, more) in kinds {
            // The heap itself can be made larger only by what is free.
            let bytes = if other == "a heap" { limit + 1 } else { 1 };
            match more(gpu, bytes).map_err(|e| e.result()) {
                Err(Some(OUT_OF_MEMORY)) => {}
                Err(e) => return Err(format!("{other} beyond the limit after {name}: {e:?}")),
                Ok(_) => return Err(format!("{other} beyond the limit after {name} is there")),
            }
        }
        whole.free(gpu).map_err(text)?;
        // One byte more than all.
        match allocate(gpu, limit + 1).map_err(|e| e.result()) {
            Err(Some(OUT_OF_MEMORY)) => {}
            _ => return Err(format!("{name}: one byte beyond the limit is there")),
        }
    }
    // Memory of a context ends with it.
    plain(gpu, limit).map_err(text)?;
    // SAFETY: nothing of the context is used any more.
    unsafe { gpu.d.cuDevicePrimaryCtxReset_v2(0) }.map_err(text)?;
    gpu.enter()?;
    let again = plain(gpu, limit).map_err(text)?;
    again.free(gpu).map_err(text)?;
    w.result.give(&[limit as u32]);
    Ok(())
}
