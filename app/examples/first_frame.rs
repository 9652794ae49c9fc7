//! Prints how long the window takes to show a recording: to the first frame that shows it, to everything found out,
//! and for a frame after that while the view moves. Frames are laid out and cut into triangles, not sent to a GPU.
//! `first_frame RECORDING`.

#![allow(clippy::print_stdout, reason = "a program that measures talks")]

use egui::{Context, Rect, pos2, vec2};
use kinescope::commands::COMMANDS;
use kinescope::theme::ThemeChoice;
use kinescope::window::{App, PickResult, Setup};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn frame(ctx: &Context, app: &mut App, time: f64) -> Duration {
    let since = Instant::now();
    let input = egui::RawInput {
        screen_rect: Some(Rect::from_min_size(pos2(0.0, 0.0), vec2(1280.0, 800.0))),
        time: Some(time),
        focused: true,
        ..Default::default()
    };
    let mut out = ctx.run_ui(input, |ui| app.ui(ui));
    // Nothing is sent to a GPU.
    out.textures_delta.clear();
    let triangles = ctx.tessellate(out.shapes, 1.0);
    std::hint::black_box(triangles);
    since.elapsed()
}

fn main() -> anyhow::Result<()> {
    let path = std::env::args()
        .nth(1)
        .ok_or_else(|| anyhow::anyhow!("first_frame RECORDING"))?;
    let ctx = Context::default();
    let setup = Setup {
        settings: None,
        theme: Some(ThemeChoice::Dark),
        target: None,
        chooser: Arc::new(|_| PickResult::Cancelled),
        commands: COMMANDS,
    };
    let mut app = App::new(&ctx, setup);
    let mut time = 0.0;
    let mut next = |app: &mut App| {
        time += 0.016;
        frame(&ctx, app, time)
    };
    // Fonts are laid out once, before anything is opened.
    next(&mut app);
    let since = Instant::now();
    app.open(&ctx, path.into());
    while app.doc.is_none() {
        next(&mut app);
        if let Some(e) = app.last_error() {
            anyhow::bail!("{e}");
        }
    }
    next(&mut app);
    let first = since.elapsed();
    let mut longest = Duration::ZERO;
    while !app.tasks.running().is_empty() {
        longest = longest.max(next(&mut app));
        std::thread::sleep(Duration::from_millis(2));
    }
    let all = since.elapsed();
    let doc = app.doc.as_ref().ok_or_else(|| anyhow::anyhow!("nothing is open"))?;
    println!(
        "{} events, {} jobs, {} polls",
        doc.len(),
        doc.derived.jobs.len(),
        doc.derived.polls.len()
    );
    println!("first frame that shows the recording  {first:8.1?}");
    println!("everything found out                  {all:8.1?}, the longest frame meanwhile {longest:.1?}");
    let median = |mut all: Vec<Duration>| {
        all.sort();
        all.get(all.len() / 2).copied().unwrap_or_default()
    };
    let still = median((0..31).map(|_| next(&mut app)).collect());
    let mut moving = Vec::new();
    for i in 0..31 {
        if let Some(context) = app.panel_context() {
            let about = context.doc.len() as f64 * 0.4 + f64::from(i);
            context.views.timeline.zoom(context.doc, 1.3, Some(about), 0.0);
            context.views.timeline.finish_animation();
        }
        moving.push(next(&mut app));
    }
    println!("a frame that shows the same           {still:8.1?}");
    println!("a frame that zooms                    {:8.1?}", median(moving));
    Ok(())
}
