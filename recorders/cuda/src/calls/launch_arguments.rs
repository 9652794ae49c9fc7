//! What a launch passes: its number of threads, and its arguments as one buffer.

use crate::code::FunctionInfo;
use crate::trace::Trace;
use cuda_driver::{EXTRA_BUFFER, EXTRA_END, EXTRA_SIZE};
use libc::c_void;
use trace_core::recording::LaunchRow;

/// Properties of a launch other than its function and its arguments.
#[derive(Clone, Copy, Default)]
pub(crate) struct LaunchShape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub shared: u32,
    pub flags: u32,
}

/// [`LaunchRow::COOPERATIVE`], for the table of hooks.
pub(crate) const COOPERATIVE: u32 = LaunchRow::COOPERATIVE;

impl LaunchShape {
    pub fn new(grid: [u32; 3], block: [u32; 3], shared: u32, flags: u32) -> Self {
        Self {
            grid,
            block,
            cluster: [0; 3],
            shared,
            flags,
        }
    }
}

/// Returns the arguments of a launch as one buffer in the layout of the function's parameters, or `None` if they are
/// unknown.
///
/// # Safety
/// The pointers are those of a launch: as many parameters as the function has, each of the size that it states.
pub(crate) unsafe fn read_arguments(
    known: &FunctionInfo,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Option<Vec<u8>> {
    let layout = known.layout.as_deref().map(Vec::as_slice);
    if !parameters.is_null() {
        let layout = layout?;
        let mut buffer = vec![0u8; known.bytes as usize];
        for (n, [at, bytes]) in layout.iter().enumerate() {
            // SAFETY: the caller guarantees as many pointers as parameters.
            let from = unsafe { *parameters.add(n) }.cast::<u8>();
            let to = buffer.get_mut(*at as usize..)?.get_mut(..*bytes as usize)?;
            if from.is_null() {
                return None;
            }
            // SAFETY: the caller guarantees the parameter's size, and the destination has the same size.
            unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        }
        return Some(buffer);
    }
    if extra.is_null() {
        return layout.is_none_or(<[_]>::is_empty).then(Vec::new);
    }
    let (mut buffer, mut size) = (std::ptr::null::<u8>(), 0usize);
    let mut n = 0;
    loop {
        // SAFETY: the list ends in a zero, which ends the loop.
        let key = unsafe { *extra.add(n) } as usize;
        match key {
            EXTRA_END => break,
            // SAFETY: a value follows each key.
            EXTRA_BUFFER => buffer = unsafe { *extra.add(n + 1) }.cast(),
            // SAFETY: the value is the address of the size.
            EXTRA_SIZE => size = unsafe { *(*extra.add(n + 1)).cast::<usize>() },
            _ => return None,
        }
        n += 2;
    }
    if buffer.is_null() || size > 1 << 20 {
        return (size == 0).then(Vec::new);
    }
    // SAFETY: the program states that the buffer has this many bytes, and the driver reads them as well.
    Some(unsafe { std::slice::from_raw_parts(buffer, size) }.to_vec())
}

/// Notes that the arguments of a launch are unknown.
pub(crate) fn note_missing_arguments(trace: &Trace) {
    trace.note_not_recorded(
        "arguments",
        "a launch's arguments could not be read: the driver does not report the function's parameters",
    );
}
