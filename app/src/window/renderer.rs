//! The selection of a renderer: OpenGL, and in programs with the feature `wgpu` also Vulkan and similar, which comes
//! first if there is a graphics card.

#[cfg(feature = "wgpu")]
mod card;

use eframe::{NativeOptions, Renderer};

/// Environment variable that forces a renderer: `wgpu` or `glow`.
pub const VARIABLE: &str = "KINESCOPE_RENDERER";

/// Advice when no window opens.
const INSTALL: &str = "on Debian and Ubuntu, install libgl1 libgl1-mesa-dri libegl1 libxcursor1 libxi6 \
                       libxkbcommon-x11-0";

/// Returns the renderers in the order of attempts. Without a card both render in software, and OpenGL starts faster.
///
/// # Errors
/// When `chosen` names a renderer that this program does not have.
fn order(chosen: Option<&str>, has_card: impl FnOnce() -> bool) -> anyhow::Result<Vec<Renderer>> {
    #[cfg(feature = "wgpu")]
    return Ok(match chosen {
        Some("wgpu") => vec![Renderer::Wgpu],
        Some("glow") => vec![Renderer::Glow],
        _ if has_card() => vec![Renderer::Wgpu, Renderer::Glow],
        _ => vec![Renderer::Glow, Renderer::Wgpu],
    });
    #[cfg(not(feature = "wgpu"))]
    {
        let _ = has_card;
        anyhow::ensure!(
            chosen != Some("wgpu"),
            "{VARIABLE}=wgpu: this program was built without wgpu; build it with \
             'cargo build --release --locked --features kinescope/wgpu', or unset {VARIABLE}"
        );
        Ok(vec![Renderer::Glow])
    }
}

/// Returns options for a window that `renderer` draws.
fn options(viewport: &egui::ViewportBuilder, renderer: Renderer) -> NativeOptions {
    NativeOptions {
        viewport: viewport.clone(),
        renderer,
        #[cfg(feature = "wgpu")]
        wgpu_options: card::configuration(),
        ..NativeOptions::default()
    }
}

/// Returns whether there may be a graphics card.
fn has_card() -> bool {
    #[cfg(feature = "wgpu")]
    return card::is_present();
    #[cfg(not(feature = "wgpu"))]
    false
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
    for renderer in order(chosen.as_deref(), has_card)? {
        let options = options(viewport, renderer);
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

    #[cfg(feature = "wgpu")]
    #[test]
    fn renderers_fall_back_to_each_other_unless_chosen() {
        assert_eq!(order(None, || true).unwrap(), [Renderer::Wgpu, Renderer::Glow]);
        assert_eq!(order(None, || false).unwrap(), [Renderer::Glow, Renderer::Wgpu]);
        assert_eq!(order(Some("wgpu"), || false).unwrap(), [Renderer::Wgpu]);
        assert_eq!(order(Some("glow"), || true).unwrap(), [Renderer::Glow]);
    }

    #[cfg(not(feature = "wgpu"))]
    #[test]
    fn build_without_wgpu_explains_the_feature_flag() {
        assert_eq!(order(None, || true).unwrap(), [Renderer::Glow]);
        assert_eq!(order(Some("glow"), || true).unwrap(), [Renderer::Glow]);
        let error = order(Some("wgpu"), || true).unwrap_err().to_string();
        assert!(error.contains("--features kinescope/wgpu"), "{error}");
    }
}
