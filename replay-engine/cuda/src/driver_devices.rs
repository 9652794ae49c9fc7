//! The CUDA devices of this machine, as device files and the driver show them.

use super::context::device_name;
use super::error::CudaReplayError;

/// Returns whether this machine probably has a CUDA driver. Initializing the driver is slow, so this is checked first.
#[must_use]
pub fn is_likely() -> bool {
    let named = std::env::var_os(cuda_driver::LIBRARY_VARIABLE).is_some_and(|v| !v.is_empty());
    named || std::path::Path::new("/dev/nvidiactl").exists()
}

/// Returns whether device files show that this machine has a CUDA device of this number. Then a replay need not query
/// the driver first.
#[must_use]
pub fn has_device_files(number: u32) -> bool {
    if let Some(library) = std::env::var_os(cuda_driver::LIBRARY_VARIABLE).filter(|v| !v.is_empty()) {
        return std::path::Path::new(&library).exists();
    }
    let is_device = |name: &str| {
        let digits = name.strip_prefix("nvidia").filter(|rest| !rest.is_empty());
        digits.is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_digit()))
    };
    // In a container the numbers of the files may differ from those of the driver.
    let devices = || {
        let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
        entries
            .filter(|e| e.file_name().to_str().is_some_and(is_device))
            .count()
    };
    is_likely() && devices() > number as usize
}

/// Returns the number and the name of each device that the driver has.
///
/// # Errors
/// If there is no driver, or it cannot be initialized.
#[allow(unsafe_code, reason = "calls of the driver; why each is sound stands at it")]
pub fn devices() -> Result<Vec<(u32, String)>, CudaReplayError> {
    let driver = cuda_driver::Driver::load()?;
    let mut count = 0;
    // SAFETY: initializes the driver; the output pointers are valid.
    unsafe {
        driver.cuInit(0)?;
        driver.cuDeviceGetCount(&raw mut count)?;
    }
    (0..count)
        .map(|n| {
            let mut device = 0;
            // SAFETY: as above.
            unsafe { driver.cuDeviceGet(&raw mut device, n)? };
            Ok((u32::try_from(n).unwrap_or(0), device_name(&driver, device)))
        })
        .collect()
}

/// Returns the version of CUDA that the driver library supports, as 1000 times the major number plus 10 times the minor
/// one. Loads the library, and initializes neither the driver nor a device.
///
/// # Errors
/// If the library cannot be loaded, or does not return its version.
#[allow(unsafe_code, reason = "a call of the driver; why it is sound stands at it")]
pub fn query_driver_version() -> Result<i32, CudaReplayError> {
    let driver = cuda_driver::Driver::load()?;
    let mut version = 0;
    // SAFETY: the output pointer is valid, and the function needs no initialized driver.
    unsafe { driver.cuDriverGetVersion(&raw mut version)? };
    Ok(version)
}
