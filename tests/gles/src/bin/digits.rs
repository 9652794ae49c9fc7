//! `digits`: reads handwritten digits with the network's compute shaders, on the first GPU that EGL finds.
#![allow(clippy::print_stdout, reason = "a command line program prints its output")]

use clap::Parser;
use gles_programs::compare::compare;
use gles_programs::digits::{self, HeldOutImage, TOLERANCE};
use gles_programs::files;
use gles_programs::gpu::Gpu;
use gles_programs::session::Session;
use gles_programs::work::{Element, floats};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    about = "Reads handwritten digits with a small network of GLES 3.1 compute shaders",
    version
)]
struct Args {
    /// Folder of the network: weights and held-out images.
    #[arg(long, default_value_os_t = digits::folder())]
    data: PathBuf,
    /// Image to read: NPY, 8 by 8 32-bit floats from 0 (paper) to 1 (ink). The default is a held-out image of a two.
    #[arg(long)]
    image: Option<PathBuf>,
    /// Reads every held-out image and compares with the reference network; exits with 1 if an image differs.
    #[arg(long, conflicts_with = "image")]
    held_out: bool,
    /// Folder for the shaders, the buffers before the run, and spec.json, which lists them.
    #[arg(long)]
    out: Option<PathBuf>,
}

fn scores(session: &Session<'_>) -> anyhow::Result<Vec<f32>> {
    session.run()?;
    session.finish()?;
    let bytes = session.read("logits")?;
    Ok(digits::numbers(&bytes))
}

fn all(session: &Session<'_>, held_out: &[HeldOutImage]) -> anyhow::Result<bool> {
    let (mut classes, mut close, mut right, mut worst) = (0, 0, 0, 0f64);
    for h in held_out {
        session.write("image", &floats(&h.image))?;
        let got = scores(session)?;
        classes += usize::from(digits::class(&got) == digits::class(&h.scores));
        right += usize::from(digits::class(&got) == usize::from(h.label));
        match compare(Element::F32, &floats(&got), &floats(&h.scores), TOLERANCE) {
            Ok(off) => {
                close += 1;
                worst = worst.max(off);
            }
            Err(e) => println!("FAILED {e}"),
        }
    }
    let n = held_out.len();
    println!(
        "{classes} of {n} images in the class of the reference network, {close} with its scores within 1e-4 (at most {worst:.1e} off), {right} read right"
    );
    Ok(classes == n && close == n)
}

fn program() -> anyhow::Result<bool> {
    let args = Args::parse();
    let held_out = digits::held_out(&args.data)?;
    let (image, expected) = match (&args.image, held_out.get(digits::RECORDED)) {
        (Some(path), _) => (digits::image(path)?, Vec::new()),
        (None, Some(h)) => (h.image.clone(), h.scores.clone()),
        (None, None) => anyhow::bail!("{}: no image was held out", args.data.display()),
    };
    let work = digits::network(&args.data, &image, &expected)?;
    let gpu = Gpu::open()?;
    println!("{}", gpu.names().0);
    if let Some(dir) = &args.out {
        files::write_before(dir, "digits", &work, &gpu.names())?;
    }
    let session = Session::new(&gpu, &work)?;
    if args.held_out {
        return all(&session, &held_out);
    }
    let got = scores(&session)?;
    for (digit, score) in got.iter().enumerate() {
        println!("{digit} {score:10.4}");
    }
    println!("reads {}", digits::class(&got));
    if !expected.is_empty()
        && let Err(e) = compare(Element::F32, &floats(&got), &floats(&expected), TOLERANCE)
    {
        println!("FAILED {e}");
        return Ok(false);
    }
    Ok(true)
}

fn main() -> ExitCode {
    match program() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(e) => {
            eprintln!("{e:#}");
            ExitCode::from(2)
        }
    }
}
