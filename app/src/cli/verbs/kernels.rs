//! `kernels`: lists the functions of an API trace, their launch parameters, and their PTX.

use crate::cli::source::Source;
use crate::cli::{Exit, Failure, Out, Verb, api_trace};
use clap::{Args, FromArgMatches as _};
use serde::Serialize;
use trace_core::api_trace::{ApiTrace, CodeImage, KernelCode, Parameter};
use trace_core::recording::{CodeKind, Recording};

pub const VERB: Verb = Verb {
    name: "kernels",
    about: "List the kernels of an API trace, or print the PTX of one",
    args: Arguments::augment_args,
    run: |matches, out| run(&Arguments::from_arg_matches(matches)?, out),
};

#[derive(Args)]
struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Print the PTX that contains this kernel: its name, or a unique part of it; exit 1 if there is none
    #[arg(long, value_name = "NAME")]
    ptx: Option<String>,
}

/// A function of an API trace: its code, its resources and its launches together.
#[derive(Serialize)]
struct Row<'a> {
    /// Index, name in the source, and name by the compiler.
    function: u32,
    kernel: String,
    name: String,
    /// The module, and its size in the recording; 0 if the recording does not hold it.
    module: Option<u32>,
    module_bytes: u64,
    /// `ptx`, `cubin`, `fatbin` or `unknown`.
    code: &'static str,
    /// Architecture.
    arch: String,
    /// Whether the module holds its PTX.
    ptx: bool,
    /// Number of launches, and the first one.
    launches: usize,
    first_event: Option<u64>,
    /// Resources; `null` if unknown.
    registers: Option<u32>,
    shared: Option<u64>,
    local: Option<u64>,
    constant: Option<u64>,
    max_threads: Option<u32>,
    /// Parameters of a launch.
    parameters: &'a [Parameter],
    /// Content of a container.
    held: Vec<CodeImage>,
    /// What cannot be read, else `null`.
    problem: Option<String>,
}

/// The PTX that contains a kernel, with the line of its entry. The engine has code by module.
#[derive(Serialize)]
struct PtxReport<'a> {
    /// Line of its entry in the text, counted from 1.
    entry_line: Option<usize>,
    /// Name of the kernel.
    kernel: &'a str,
    /// What cannot be read, else `null`.
    problem: Option<&'a str>,
    /// The text; `null` if there is none.
    ptx: Option<&'a str>,
}

fn run(arguments: &Arguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = arguments.source.open()?;
    let api_trace = api_trace::load(&opened)?;
    if let Some(name) = &arguments.ptx {
        return ptx(&opened.recording, &api_trace, name, arguments, out);
    }
    let all = 0..api_trace.metadata().functions.len() as u32;
    let rows = all.map(|f| row(&api_trace, &api_trace.kernel(&opened.recording, f)));
    if out.is_json() {
        out.array(rows)?;
        return Ok(Exit::Good);
    }
    let mut table = vec![
        [
            "Launches",
            "Kernel",
            "Code",
            "Arch",
            "Registers",
            "Shared",
            "Local",
            "Threads",
            "Module",
        ]
        .map(str::to_owned)
        .to_vec(),
    ];
    let mut problems = Vec::new();
    for r in rows {
        let describe = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        table.push(vec![
            r.launches.to_string(),
            r.kernel.clone(),
            if r.ptx && r.code != "ptx" {
                format!("{}, ptx", r.code)
            } else {
                r.code.to_owned()
            },
            if r.arch.is_empty() { "-".to_owned() } else { r.arch },
            describe(r.registers.map(u64::from)),
            describe(r.shared),
            describe(r.local),
            describe(r.max_threads.map(u64::from)),
            describe(r.module.map(u64::from)),
        ]);
        problems.extend(r.problem.map(|why| format!("{}: {why}", r.kernel)));
    }
    out.table(&table)?;
    for p in problems {
        out.line(p)?;
    }
    Ok(Exit::Good)
}

/// Prints the PTX of a kernel.
fn ptx(
    recording: &Recording,
    api_trace: &ApiTrace,
    name: &str,
    arguments: &Arguments,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let fail = |why: String| Failure::file(&arguments.source.file, why);
    let Some(f) = api_trace.find_function(name) else {
        return Err(fail(format!(
            "no kernel, or more than one, is named '{name}' (`kinescope kernels` lists them)"
        )));
    };
    let code = api_trace.kernel(recording, f);
    if out.is_json() {
        out.value(&PtxReport {
            entry_line: code.ptx.as_ref().map(|_| code.entry_line + 1),
            kernel: api_trace.function_name(f),
            problem: code.problem.as_deref(),
            ptx: code.ptx.as_deref(),
        })?;
        return Ok(Exit::differs_if(code.ptx.is_none()));
    }
    match &code.ptx {
        Some(text) => {
            out.line(text)?;
            Ok(Exit::Good)
        }
        None => {
            let why = match &code.problem {
                Some(why) => why.clone(),
                None => format!("its module holds machine code for {} and no PTX", code.arch),
            };
            out.line(format_args!("{}: {why}", api_trace.function_name(f)))?;
            Ok(Exit::differs_if(true))
        }
    }
}

fn code_kind_name(kind: CodeKind) -> &'static str {
    match kind {
        CodeKind::Ptx => "ptx",
        CodeKind::Cubin => "cubin",
        CodeKind::Fatbin => "fatbin",
        CodeKind::Unknown => "unknown",
    }
}

fn row<'a>(api_trace: &'a ApiTrace, code: &KernelCode) -> Row<'a> {
    let f = api_trace.metadata().functions.get(code.function as usize);
    let launches = api_trace.launches_of(code.function);
    let first = launches.first().and_then(|n| api_trace.launches().get(*n as usize));
    let r = &code.resources;
    Row {
        function: code.function,
        kernel: api_trace.function_name(code.function).to_owned(),
        name: f.map_or_else(String::new, |f| f.name.clone()),
        module: f.and_then(|f| f.module),
        module_bytes: f
            .and_then(|f| api_trace.metadata().modules.get(f.module? as usize))
            .map_or(0, |m| m.bytes),
        code: code_kind_name(code.kind),
        arch: code.arch.clone(),
        ptx: code.ptx.is_some(),
        launches: launches.len(),
        first_event: first.map(|l| l.event),
        registers: r.registers,
        shared: r.shared,
        local: r.local,
        constant: r.constant,
        max_threads: r.max_threads,
        parameters: api_trace.parameters(code.function),
        held: code.images.clone(),
        problem: code.problem.clone(),
    }
}
