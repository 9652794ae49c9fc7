//! Renders pictures of the window off-screen, after commands: `picture RECORDING OUT.png WxH SCALE THEME STEP…`.

use kinescope::commands::COMMANDS;
use kinescope::theme::ThemeChoice;
use kinescope::window::{AfterOpen, Shot, Studio};
use trace_core::progress::Progress;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [path, out, size, scale, theme, steps @ ..] = args.as_slice() else {
        anyhow::bail!("picture RECORDING OUT.png WxH SCALE dark|light STEP…");
    };
    let (w, h) = size
        .split_once('x')
        .ok_or_else(|| anyhow::anyhow!("{size:?} is not WxH"))?;
    let theme = if theme == "light" {
        ThemeChoice::Light
    } else {
        ThemeChoice::Dark
    };
    let shot = Shot {
        size: [w.parse()?, h.parse()?],
        scale: scale.parse()?,
        theme,
        commands: COMMANDS,
    };
    let mut studio = Studio::new(&shot, Progress::new())?;
    studio.open(path.as_ref(), AfterOpen::default())?;
    for step in steps {
        studio.step(step)?;
    }
    Ok(kinescope_files::output::write(out.as_ref(), &studio.png()?)?)
}
