//! The selection of a renderer: wgpu (Vulkan and similar) if there is a graphics card, OpenGL if there is none or wgpu
//! fails, then the other one.

use eframe::egui_wgpu::{WgpuConfiguration, WgpuSetup, WgpuSetupCreateNew};
use eframe::{NativeOptions, Renderer, wgpu};

/// Environment variable that forces a renderer: `wgpu` or `glow`.
pub const VARIABLE: &str = "KINESCOPE_RENDERER";

/// Advice when no window opens.
const INSTALL: &str = "on Debian and Ubuntu, install libgl1 libgl1-mesa-dri mesa-vulkan-drivers libxcursor1 libxi6 \
                       libxkbcommon-x11-0";

/// Returns the wgpu setup without its OpenGL backend, because eframe's OpenGL is the fallback.
fn setup() -> WgpuSetupCreateNew {
    let mut setup = WgpuSetupCreateNew::without_display_handle();
    setup.instance_descriptor.backends = wgpu::Backends::VULKAN | wgpu::Backends::METAL | wgpu::Backends::DX12;
    // wgpu's validation layers take a fraction of a second to load.
    setup.instance_descriptor.flags = wgpu::InstanceFlags::empty();
    setup
}

/// Returns whether there may be a graphics card. If a system file shows it, no slow check is started.
fn has_card() -> bool {
    if cfg!(target_os = "linux") {
        let nodes = std::fs::read_dir("/dev/dri").into_iter().flatten().flatten();
        let rendering = |n: &std::ffi::OsStr| n.to_string_lossy().starts_with("renderD");
        return nodes.map(|n| n.file_name()).any(|n| rendering(&n))
            || ["/dev/nvidia0", "/dev/dxg", "/dev/mali0"]
                .iter()
                .any(|p| std::path::Path::new(p).exists());
    }
    let instance = pollster::block_on(WgpuSetup::CreateNew(setup()).new_instance());
    let found = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    found.iter().any(|a| a.get_info().device_type != wgpu::DeviceType::Cpu)
}

/// Returns the renderers in the order of attempts. Without a card both render in software, and OpenGL starts faster.
fn order(chosen: Option<&str>, has_card: impl FnOnce() -> bool) -> Vec<Renderer> {
    match chosen {
        Some("wgpu") => vec![Renderer::Wgpu],
        Some("glow") => vec![Renderer::Glow],
        _ if has_card() => vec![Renderer::Wgpu, Renderer::Glow],
        _ => vec![Renderer::Glow, Renderer::Wgpu],
    }
}

/// Opens a window with the first renderer that works. Returns when the window is closed.
///
/// # Errors
/// When no renderer works; the error has the message of each, and what to install.
pub(super) fn open(
    viewport: &egui::ViewportBuilder,
    mut app: impl FnMut(&egui::Context) -> Box<dyn eframe::App>,
) -> anyhow::Result<()> {
    let chosen = std::env::var(VARIABLE).ok();
    let mut why = Vec::new();
    for renderer in order(chosen.as_deref(), has_card) {
        let options = NativeOptions {
            viewport: viewport.clone(),
            renderer,
            wgpu_options: WgpuConfiguration {
                wgpu_setup: WgpuSetup::CreateNew(setup()),
                ..NativeOptions::default().wgpu_options
            },
            ..NativeOptions::default()
        };
        let mut opened = false;
        let make = |cc: &eframe::CreationContext<'_>| {
            opened = true;
            crate::log::push(crate::log::Level::Info, format!("drawing with {renderer:?}"));
            Ok(app(&cc.egui_ctx))
        };
        match eframe::run_native("Kinescope", options, Box::new(make)) {
            Ok(()) => return Ok(()),
            // Another window does not fix a later error.
            Err(e) if opened => anyhow::bail!("the window closed because of an error: {e}"),
            // Without a display, another renderer does not help either.
            Err(eframe::Error::WinitEventLoop(e)) => {
                let e = e.to_string();
                let why = e.rsplit(": ").next().unwrap_or(&e).trim_end_matches('.');
                anyhow::bail!(
                    "there is no display to open the window on ({why}); --screenshot OUT.png FILE renders into a file"
                );
            }
            Err(e) => {
                crate::log::push(
                    crate::log::Level::Warning,
                    format!("{renderer:?} does not work here: {e}"),
                );
                why.push(format!("{renderer:?}: {e}"));
            }
        }
    }
    anyhow::bail!("no window could be opened ({}); {INSTALL}", why.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_renderer_is_the_fallback_of_the_other_unless_one_is_chosen() {
        assert_eq!(order(None, || true), [Renderer::Wgpu, Renderer::Glow]);
        assert_eq!(order(None, || false), [Renderer::Glow, Renderer::Wgpu]);
        assert_eq!(order(Some("wgpu"), || false), [Renderer::Wgpu]);
        assert_eq!(order(Some("glow"), || true), [Renderer::Glow]);
    }
}
