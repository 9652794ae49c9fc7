//! `gles-compute`: runs compute programs on the first GPU that EGL finds, and checks their results.
#![allow(clippy::print_stdout, reason = "a command line program prints its output")]

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use gles_programs::compare::compare;
use gles_programs::gpu::Gpu;
use gles_programs::measure::measure;
use gles_programs::programs::{self, BENCHMARKS, Entry, PROGRAMS};
use gles_programs::session::Session;
use gles_programs::{files, work::Work};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Parser)]
#[command(
    about = "Runs GLES 3.1 compute programs and checks their results against the CPU",
    version
)]
#[command(args_conflicts_with_subcommands = true)]
struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Programs to run; all if none is named.
    programs: Vec<String>,
    /// Lists the programs and runs none.
    #[arg(long)]
    list: bool,
    /// Folder for one folder per program: its shaders, its buffers before and after the run, and spec.json.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Number of times to run and check each program.
    #[arg(long, default_value_t = 1)]
    repeat: u32,
}

#[derive(Subcommand)]
enum Verb {
    /// Compares files with the expected contents of a program's buffers after a run. Needs no GPU.
    Check {
        /// The program.
        program: String,
        /// A buffer, and the file with its bytes.
        #[arg(required = true, value_name = "BUFFER=FILE")]
        files: Vec<String>,
    },
    /// Measures the time of a dispatch.
    Bench {
        /// Programs to measure; all if none is named.
        programs: Vec<String>,
        /// Lists the programs and measures none.
        #[arg(long)]
        list: bool,
        /// Seconds to measure each program, after a first dispatch that is checked and not measured.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Folder for one folder per program. Each program then runs once and is not measured.
        #[arg(long)]
        out: Option<PathBuf>,
    },
}

fn chosen(table: &'static [Entry], names: &[String]) -> anyhow::Result<Vec<&'static Entry>> {
    if names.is_empty() {
        return Ok(table.iter().collect());
    }
    let entry = |n: &String| programs::find(table, n).with_context(|| format!("there is no program {n}: see --list"));
    names.iter().map(entry).collect()
}

fn list(table: &[Entry]) {
    for e in table {
        println!("{:12} {}", e.name, e.description);
    }
}

/// Runs a program once, checks it, and writes its files. Returns a message, and whether all buffers are correct.
fn run(gpu: &Gpu, name: &str, work: &Work, out: Option<&Path>) -> anyhow::Result<(String, bool)> {
    let dir = out.map(|o| o.join(name));
    if let Some(d) = &dir {
        files::write_before(d, name, work, &gpu.names()).with_context(|| d.display().to_string())?;
    }
    let session = Session::new(gpu, work)?;
    session.run()?;
    session.finish()?;
    let results = session.results()?;
    if let Some(d) = &dir {
        files::write_after(d, &results).with_context(|| d.display().to_string())?;
    }
    let (mut right, mut worst) = (0, 0f64);
    for r in results {
        match r.verdict {
            Some(Err(e)) => return Ok((e.to_string(), false)),
            Some(Ok(off)) => {
                right += 1;
                worst = worst.max(off);
            }
            None => {}
        }
    }
    let off = if worst > 0.0 {
        format!(", at most {worst:.1e} off")
    } else {
        String::new()
    };
    Ok((format!("{right} buffers as expected{off}"), true))
}

fn run_all(gpu: &Gpu, table: &[&Entry], out: Option<&Path>, repeat: u32) -> anyhow::Result<bool> {
    let mut good = true;
    for e in table {
        let work = (e.make)();
        for _ in 0..repeat.max(1) {
            let (message, right) = run(gpu, e.name, &work, out).unwrap_or_else(|e| (format!("{e:#}"), false));
            println!("{} {:12} {message}", if right { "ok    " } else { "FAILED" }, e.name);
            good &= right;
        }
    }
    Ok(good)
}

fn check(program: &str, list: &[String]) -> anyhow::Result<bool> {
    let entry = programs::find(PROGRAMS, program).with_context(|| format!("there is no program {program}"))?;
    let work = (entry.make)();
    let mut good = true;
    for pair in list {
        let Some((name, file)) = pair.split_once('=') else {
            bail!("{pair}: expected BUFFER=FILE");
        };
        let buffer = work.buffers.iter().find(|b| b.name == name);
        let Some((b, (expected, tolerance))) = buffer.and_then(|b| Some((b, b.expected.as_ref()?))) else {
            bail!("{program} has no output {name}");
        };
        let got = std::fs::read(file).with_context(|| file.to_owned())?;
        match compare(b.element, &got, expected, *tolerance) {
            Ok(_) => println!("ok     {program} {name}"),
            Err(e) => {
                println!("FAILED {program} {name}: {e}");
                good = false;
            }
        }
    }
    Ok(good)
}

/// Prints the nanoseconds of a dispatch: the minimum over many rounds. Each round has enough dispatches for the clock.
fn bench(gpu: &Gpu, e: &Entry, seconds: f64) -> anyhow::Result<bool> {
    let work = (e.make)();
    let session = Session::new(gpu, &work)?;
    session.run()?;
    session.finish()?;
    for r in session.results()? {
        if let Some(Err(wrong)) = r.verdict {
            println!("FAILED {:12} {wrong}", e.name);
            return Ok(false);
        }
    }
    let m = measure(seconds, |count| {
        for _ in 0..count {
            session.run()?;
        }
        session.finish()
    })?;
    println!(
        "{:12} {:.0} ns per dispatch (minimum of {} rounds of {})",
        e.name, m.ns, m.rounds, m.count
    );
    Ok(true)
}

fn program() -> anyhow::Result<bool> {
    let args = Args::parse();
    match args.verb {
        Some(Verb::Check { program, files }) => check(&program, &files),
        Some(Verb::Bench {
            programs,
            list: shown,
            seconds,
            out,
        }) => {
            if shown {
                list(BENCHMARKS);
                return Ok(true);
            }
            let table = chosen(BENCHMARKS, &programs)?;
            let gpu = Gpu::open()?;
            println!("{}", gpu.names().0);
            if out.is_some() {
                return run_all(&gpu, &table, out.as_deref(), 1);
            }
            let mut good = true;
            for e in table {
                good &= bench(&gpu, e, seconds)?;
            }
            Ok(good)
        }
        None if args.list => {
            list(PROGRAMS);
            Ok(true)
        }
        None => {
            let table = chosen(PROGRAMS, &args.programs)?;
            let gpu = Gpu::open()?;
            let recorded = if gpu.is_recorded() { ", recorded" } else { "" };
            println!("{}{recorded}", gpu.names().0);
            run_all(&gpu, &table, args.out.as_deref(), args.repeat)
        }
    }
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
