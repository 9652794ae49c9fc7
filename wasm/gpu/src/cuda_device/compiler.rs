//! The driver's compiler: text to machine code, with its log.

use crate::cache::CachedCode;
use crate::device::DeviceError;
use cuda_code::cubin::Cubin;
use cuda_driver::{
    CuLinkState, CudaError, Driver, INPUT_PTX, JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES, JIT_INFO_LOG, JIT_INFO_LOG_BYTES,
    JIT_LOG_VERBOSE, JIT_MAX_REGISTERS, JIT_SPLIT_COMPILE,
};
use std::ffi::c_void;
use std::num::NonZero;
use std::thread;
use wasm_ptx::{ENTRY_NAME, MAX_REGISTERS};

/// Capacities of the logs in bytes. The log of information has some lines for each function.
const ERROR_LOG_BYTES: usize = 16 << 10;
const INFO_LOG_BYTES: usize = 4 << 20;
/// Frame that is assumed if neither the code nor the compiler tells one, in bytes.
const ASSUMED_FRAME_BYTES: u64 = 256;

/// A link of the driver, destroyed on drop.
struct Link {
    driver: Driver,
    state: CuLinkState,
}

impl Drop for Link {
    fn drop(&mut self) {
        // SAFETY: created by `compile`, and destroyed once.
        let _ = unsafe { self.driver.cuLinkDestroy(self.state) };
    }
}

/// Minimum size of a text that several threads compile, in bytes.
const MIN_SPLIT_BYTES: usize = 256 << 10;

/// Compiles a text for the device of the current context, on all cores if the driver can.
///
/// # Errors
/// When the driver refuses the text; the message has the compiler's log.
pub(super) fn compile(driver: Driver, text: &str) -> Result<CachedCode, DeviceError> {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    if cores > 1 && text.len() >= MIN_SPLIT_BYTES {
        // A driver that does not know the option refuses it.
        if let Ok(code) = compile_with(driver, text, cores) {
            return Ok(code);
        }
    }
    compile_with(driver, text, 1)
}

/// Compiles a text with a number of threads; with 1 the driver does not get the option.
fn compile_with(driver: Driver, text: &str, threads: usize) -> Result<CachedCode, DeviceError> {
    let mut errors = vec![0u8; ERROR_LOG_BYTES];
    let mut infos = vec![0u8; INFO_LOG_BYTES];
    let mut options = vec![
        JIT_ERROR_LOG,
        JIT_ERROR_LOG_BYTES,
        JIT_INFO_LOG,
        JIT_INFO_LOG_BYTES,
        JIT_LOG_VERBOSE,
        // Without it, a function can take more registers than the kernel that calls it, which the driver refuses.
        JIT_MAX_REGISTERS,
    ];
    let number = |n: usize| std::ptr::without_provenance_mut::<c_void>(n);
    let mut values = vec![
        errors.as_mut_ptr().cast(),
        number(ERROR_LOG_BYTES),
        infos.as_mut_ptr().cast(),
        number(INFO_LOG_BYTES),
        number(1),
        number(MAX_REGISTERS as usize),
    ];
    if threads > 1 {
        options.push(JIT_SPLIT_COMPILE);
        values.push(number(threads));
    }
    let mut source = Vec::with_capacity(text.len() + 1);
    source.extend_from_slice(text.as_bytes());
    source.push(0);
    let result = link(driver, &mut source, &mut options, &mut values);
    let code = result.map_err(|e| {
        let log = log_text(&errors);
        let log = log.trim();
        DeviceError::Compile(if log.is_empty() {
            e.to_string()
        } else {
            format!("{e}: {log}")
        })
    })?;
    // A compiler on several threads leaves frames out of its log.
    let of_code = Cubin::parse(&code).and_then(|cubin| cubin.largest_frame());
    let frame = of_code.ok().flatten().max(largest_frame(&log_text(&infos)));
    Ok(CachedCode {
        code,
        frame_bytes: frame.unwrap_or(ASSUMED_FRAME_BYTES),
    })
}

/// Links one text. The options and the logs that their values point to outlive the link.
fn link(
    driver: Driver,
    source: &mut [u8],
    options: &mut [i32],
    values: &mut [*mut c_void],
) -> Result<Vec<u8>, CudaError> {
    let mut state: CuLinkState = std::ptr::null_mut();
    let count = u32::try_from(options.len().min(values.len())).unwrap_or(0);
    // SAFETY: as many options as values; the logs have the lengths that the values say, and live until the link is
    // destroyed at the end of this function.
    unsafe { driver.cuLinkCreate_v2(count, options.as_mut_ptr(), values.as_mut_ptr(), &raw mut state)? };
    let link = Link { driver, state };
    let (mut image, mut bytes) = (std::ptr::null_mut::<c_void>(), 0usize);
    // SAFETY: the source has this length and ends in a zero; without options the null pointers are not read; the
    // output pointers are valid.
    unsafe {
        driver.cuLinkAddData_v2(
            link.state,
            INPUT_PTX,
            source.as_mut_ptr().cast(),
            source.len(),
            c"program".as_ptr(),
            0,
            std::ptr::null_mut(),
            std::ptr::null_mut(),
        )?;
        driver.cuLinkComplete(link.state, &raw mut image, &raw mut bytes)?;
    }
    if image.is_null() {
        return Ok(Vec::new());
    }
    // SAFETY: the image has this length, and belongs to the link, which lives until the end of this function.
    Ok(unsafe { std::slice::from_raw_parts(image.cast::<u8>(), bytes) }.to_vec())
}

/// Returns the text of a log up to its first zero byte.
fn log_text(log: &[u8]) -> String {
    let end = log.iter().position(|b| *b == 0).unwrap_or(log.len());
    String::from_utf8_lossy(log.get(..end).unwrap_or_default()).into_owned()
}

/// Returns the largest stack frame of a function in the compiler's log, or `None` if the log has none.
///
/// The kernel's own frame does not count: it is there once, and the driver reports it.
fn largest_frame(log: &str) -> Option<u64> {
    let mut is_kernel = false;
    let mut largest = None;
    for line in log.lines() {
        if let Some((_, name)) = line.split_once("Function properties for ") {
            is_kernel = name.trim_matches(|c: char| !c.is_alphanumeric() && c != '_') == ENTRY_NAME;
        } else if let Some((number, _)) = line.split_once(" bytes stack frame")
            && !is_kernel
        {
            largest = largest.max(number.trim().parse().ok());
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_frame_comes_from_the_log() {
        let log = "ptxas info    : Function properties for f1\n    16 bytes stack frame, 0 bytes spill stores\n\
                   ptxas info    : Function properties for f2\n    1208 bytes stack frame, 8 bytes spill stores\n\
                   ptxas info    : Function properties for kinescope_wasm_run\n    2000 bytes stack frame\n";
        assert_eq!(largest_frame(log), Some(1208));
        assert_eq!(largest_frame("no frame"), None);
        assert_eq!(log_text(b"text\0rest"), "text");
    }
}
