//! NVML library, loaded at run time, which reports temperature, clocks, power and clock throttling of a device.
//!
//! This is one of the modules that contain `unsafe`: the signatures of a library's functions are taken from its vendor.
#![allow(unsafe_code)]

use crate::types::Uuid;
use libloading::Library;
use std::ffi::{CString, c_char, c_int, c_uint, c_ulonglong, c_void};

/// File name of the library, which the driver installs.
const NAME: &str = "libnvidia-ml.so.1";
/// `NVML_TEMPERATURE_GPU`.
const TEMPERATURE_GPU: c_uint = 0;
/// `NVML_CLOCK_SM`.
const CLOCK_SM: c_uint = 1;
/// `NVML_CLOCK_MEM`.
const CLOCK_MEMORY: c_uint = 2;

type Device = *mut c_void;
type Initialise = unsafe extern "C" fn() -> c_int;
type ByUuid = unsafe extern "C" fn(*const c_char, *mut Device) -> c_int;
type Sensor = unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int;
type Power = unsafe extern "C" fn(Device, *mut c_uint) -> c_int;
type Reasons = unsafe extern "C" fn(Device, *mut c_ulonglong) -> c_int;

/// Reasons for clock throttling, by the library's bits. Idle is not listed as a reason.
const THROTTLE_REASONS: [(u64, &str); 8] = [
    (0x002, "clocks set for applications"),
    (0x004, "power limit"),
    (0x008, "slowdown by the hardware"),
    (0x010, "synchronized with other devices"),
    (0x020, "temperature, by the driver"),
    (0x040, "temperature, by the hardware"),
    (0x080, "external power brake"),
    (0x100, "clocks set for the display"),
];

/// State of a device. Values that the device does not report are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvmlState {
    /// Temperature in degrees Celsius.
    pub celsius: Option<u32>,
    /// Clock of the multiprocessors in MHz.
    pub clock_mhz: Option<u32>,
    /// Clock of the memory in MHz.
    pub memory_mhz: Option<u32>,
    /// Power draw in watts.
    pub watts: Option<u32>,
    /// Reasons for clock throttling, as text.
    pub throttle_reasons: Vec<&'static str>,
}

/// Loaded and initialised NVML library. It is never unloaded, because it has its own threads.
#[derive(Clone, Copy, Debug)]
pub struct Nvml {
    by_uuid: ByUuid,
    temperature: Option<Sensor>,
    clock: Option<Sensor>,
    power: Option<Power>,
    reasons: Option<Reasons>,
}

/// Handle of a device in NVML.
#[derive(Clone, Copy, Debug)]
pub struct NvmlDevice {
    nvml: Nvml,
    device: Device,
}

impl Nvml {
    /// Loads and initialises the library.
    ///
    /// # Errors
    /// Returns the reason as text when the library cannot be loaded or initialised.
    pub fn load() -> Result<Self, String> {
        // SAFETY: loading the driver's own library runs its initialisers, as every tool that shows devices does.
        let library = unsafe { Library::new(NAME) }.map_err(|e| format!("NVML cannot be loaded ({e})"))?;
        let missing = |name: &str| format!("NVML has no {name}: a newer driver is needed");
        // SAFETY: functions of these names have these signatures in every version of the library.
        let (initialise, nvml) = unsafe {
            let initialise =
                find_symbol::<Initialise>(&library, "nvmlInit_v2").ok_or_else(|| missing("nvmlInit_v2"))?;
            let reasons = find_symbol::<Reasons>(&library, "nvmlDeviceGetCurrentClocksEventReasons")
                .or_else(|| find_symbol(&library, "nvmlDeviceGetCurrentClocksThrottleReasons"));
            let nvml = Self {
                by_uuid: find_symbol(&library, "nvmlDeviceGetHandleByUUID")
                    .ok_or_else(|| missing("nvmlDeviceGetHandleByUUID"))?,
                temperature: find_symbol(&library, "nvmlDeviceGetTemperature"),
                clock: find_symbol(&library, "nvmlDeviceGetClockInfo"),
                power: find_symbol(&library, "nvmlDeviceGetPowerUsage"),
                reasons,
            };
            (initialise, nvml)
        };
        std::mem::forget(library);
        // SAFETY: the function has no arguments.
        match unsafe { initialise() } {
            0 => Ok(nvml),
            code => Err(format!("NVML does not start (it answers {code})")),
        }
    }

    /// Finds the device with this UUID. The driver and NVML may number devices differently.
    ///
    /// # Errors
    /// Returns the reason as text when NVML does not know the device.
    pub fn device(&self, uuid: &Uuid) -> Result<NvmlDevice, String> {
        let name = CString::new(uuid_name(uuid)).map_err(|e| e.to_string())?;
        let mut device: Device = std::ptr::null_mut();
        // SAFETY: a NUL-terminated string, and a location for the result.
        match unsafe { (self.by_uuid)(name.as_ptr(), &raw mut device) } {
            0 => Ok(NvmlDevice { nvml: *self, device }),
            code => Err(format!("NVML does not know the device (it answers {code})")),
        }
    }
}

/// Looks up a function of a library.
///
/// # Safety
/// `T` is a pointer to a function of the signature that the library's function has.
unsafe fn find_symbol<T: Copy>(library: &Library, name: &str) -> Option<T> {
    // SAFETY: the caller guarantees the signature.
    unsafe { library.get::<T>(name.as_bytes()) }.ok().map(|s| *s)
}

/// Formats a UUID the way NVML writes it.
fn uuid_name(uuid: &Uuid) -> String {
    let mut text = "GPU".to_owned();
    for (n, byte) in uuid.bytes.iter().enumerate() {
        if matches!(n, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

impl NvmlDevice {
    /// Returns the current state of the device.
    #[must_use]
    pub fn state(&self) -> NvmlState {
        let mut bits: c_ulonglong = 0;
        let mut milliwatts: c_uint = 0;
        // SAFETY: a device handle from the library, and locations for the results.
        let (reasons, power) = unsafe {
            (
                self.nvml.reasons.map(|f| f(self.device, &raw mut bits)),
                self.nvml.power.map(|f| f(self.device, &raw mut milliwatts)),
            )
        };
        let bits = if reasons == Some(0) { bits } else { 0 };
        NvmlState {
            celsius: self.read_sensor(self.nvml.temperature, TEMPERATURE_GPU),
            clock_mhz: self.read_sensor(self.nvml.clock, CLOCK_SM),
            memory_mhz: self.read_sensor(self.nvml.clock, CLOCK_MEMORY),
            watts: (power == Some(0)).then_some(milliwatts / 1000),
            throttle_reasons: find_throttle_reasons(bits),
        }
    }

    fn read_sensor(&self, sensor: Option<Sensor>, which: c_uint) -> Option<u32> {
        let mut value = 0;
        // SAFETY: a device handle from the library, and a location for the result.
        let answer = unsafe { sensor?(self.device, which, &raw mut value) };
        (answer == 0).then_some(value)
    }
}

fn find_throttle_reasons(bits: u64) -> Vec<&'static str> {
    let set = THROTTLE_REASONS.iter().filter(|(bit, _)| bits & bit != 0);
    set.map(|(_, words)| *words).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_and_throttle_reasons_match_nvml() {
        let uuid = Uuid {
            bytes: std::array::from_fn(|n| n as u8 * 17),
        };
        assert_eq!(uuid_name(&uuid), "GPU-00112233-4455-6677-8899-aabbccddeeff");
        assert_eq!(find_throttle_reasons(0x1), [""; 0], "an idle device is not throttled");
        assert_eq!(
            find_throttle_reasons(0x25),
            ["power limit", "temperature, by the driver"]
        );
    }
}
