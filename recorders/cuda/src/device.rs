//! The device that the program uses, as it is recorded.

use crate::driver::driver;
use crate::trace::Trace;
use cuda_driver::{
    CuContext, CuDevice, DEVICE_CAPABILITY_MAJOR, DEVICE_CAPABILITY_MINOR, DEVICE_MULTIPROCESSORS, Uuid,
};
use std::sync::atomic::Ordering;
use trace_core::recording::CallDevice;

impl Trace {
    /// Records the device that the program uses, once there is a context.
    pub fn record_device(&self) {
        if self.has_device.load(Ordering::Relaxed) {
            return;
        }
        let d = driver();
        let mut device: CuDevice = 0;
        let mut context: CuContext = std::ptr::null_mut();
        // SAFETY: the queries have valid pointers for the answers.
        let there = unsafe {
            d.cuCtxGetCurrent(&raw mut context).is_ok()
                && !context.is_null()
                && d.cuCtxGetDevice(&raw mut device).is_ok()
        };
        if !there || self.has_device.swap(true, Ordering::Relaxed) {
            return;
        }
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: as above.
            let asked = unsafe { d.cuDeviceGetAttribute(&raw mut value, which, device) };
            asked.map_or(0, |()| u32::try_from(value).unwrap_or(0))
        };
        let mut name = [0u8; 256];
        let (mut memory, mut uuid, mut version) = (0, Uuid::default(), 0);
        // SAFETY: as above; the name's buffer has the stated length. Values without an answer stay as they are.
        unsafe {
            let _ = d.cuDeviceGetName(name.as_mut_ptr().cast(), 255, device);
            let _ = d.cuDeviceTotalMem_v2(&raw mut memory, device);
            let _ = d.cuDeviceGetUuid_v2(&raw mut uuid, device);
            let _ = d.cuDriverGetVersion(&raw mut version);
        }
        let end = name.iter().position(|b| *b == 0).unwrap_or(0);
        let name = String::from_utf8_lossy(name.get(..end).unwrap_or_default()).into_owned();
        let call_device = CallDevice {
            capability: [attribute(DEVICE_CAPABILITY_MAJOR), attribute(DEVICE_CAPABILITY_MINOR)],
            multiprocessors: attribute(DEVICE_MULTIPROCESSORS),
            memory: memory as u64,
            uuid: uuid.bytes.iter().map(|b| format!("{b:02x}")).collect(),
            name: name.clone(),
        };
        let kernel = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
        let kernel = kernel.lines().next().and_then(|l| {
            l.split_whitespace()
                .find(|w| w.contains('.') && w.starts_with(|c: char| c.is_ascii_digit()))
        });
        let mut tables = self.session.tables();
        tables.metadata.device = call_device;
        tables.metadata.version = u32::try_from(version).unwrap_or(0);
        tables.identity.gpu_name = name;
        let cuda = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
        tables.identity.driver = match kernel {
            Some(k) => format!("NVIDIA {k}, {cuda}"),
            None => cuda,
        };
        tables.mark_changed();
    }
}
