//! Renders pictures of the window off-screen, after commands: `picture RECORDING OUT.png WxH SCALE THEME COMMAND…`.

use kinescope::window::{ThemeChoice, screenshot_after};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, out, size, scale, theme, commands @ ..] = args.as_slice() else {
        anyhow::bail!("picture RECORDING OUT.png WxH SCALE dark|light COMMAND…");
    };
    let (w, h) = size
        .split_once('x')
        .ok_or_else(|| anyhow::anyhow!("{size:?} is not WxH"))?;
    let theme = if theme == "light" {
        ThemeChoice::Light
    } else {
        ThemeChoice::Dark
    };
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    screenshot_after(
        path.as_ref(),
        out.as_ref(),
        [w.parse()?, h.parse()?],
        scale.parse()?,
        theme,
        &commands,
    )
}
