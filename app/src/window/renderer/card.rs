//! Graphics cards, and how wgpu (Vulkan and similar) uses them.

use eframe::NativeOptions;
use eframe::egui_wgpu::{WgpuConfiguration, WgpuSetup, WgpuSetupCreateNew};
use eframe::wgpu;

/// Returns the wgpu setup without its OpenGL backend, because eframe's OpenGL is the fallback.
fn setup() -> WgpuSetup {
    let mut setup = WgpuSetupCreateNew::without_display_handle();
    setup.instance_descriptor.backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    // wgpu's validation layers take a fraction of a second to load.
    setup.instance_descriptor.flags = wgpu::InstanceFlags::empty();
    WgpuSetup::CreateNew(setup)
}

/// Returns the window's configuration of wgpu.
pub(super) fn configuration() -> WgpuConfiguration {
    WgpuConfiguration {
        wgpu_setup: setup(),
        ..NativeOptions::default().wgpu_options
    }
}

/// Returns whether there may be a graphics card. If a system file shows it, no slow check is started.
pub(super) fn is_present() -> bool {
    if cfg!(target_os = "linux") {
        let nodes = std::fs::read_dir("/dev/dri").into_iter().flatten().flatten();
        let rendering = |n: &std::ffi::OsStr| n.to_string_lossy().starts_with("renderD");
        return nodes.map(|n| n.file_name()).any(|n| rendering(&n))
            || ["/dev/nvidia0", "/dev/dxg", "/dev/mali0"]
                .iter()
                .any(|p| std::path::Path::new(p).exists());
    }
    let instance = pollster::block_on(setup().new_instance());
    let found = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    found.iter().any(|a| a.get_info().device_type != wgpu::DeviceType::Cpu)
}
