//! `pipeline check`: prints the stages of a pipeline with their types, and its defects.

use crate::cli::out::format_count;
use crate::cli::{Exit, Failure, Out, progress_line};
use clap::Args;
use kinescope_pipeline::{
    AtBound, CheckedWork, Defect, InputSource, Pipeline, PipelineError, Severity, StageWork, TensorType, output_names,
};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Args)]
pub struct CheckArguments {
    /// Pipeline to check, a .kpipe
    #[arg(value_name = "FILE.kpipe")]
    file: PathBuf,
}

/// The result of a check. Its lists are empty if the pipeline cannot run.
#[derive(Serialize)]
struct CheckReport {
    /// The pipeline file.
    pipeline: String,
    /// Its title, or empty.
    title: String,
    /// Whether it can run.
    sound: bool,
    /// Defects in the order of their lines; warnings included.
    defects: Vec<DefectRow>,
    /// Inputs.
    inputs: Vec<InputRow>,
    /// Stages in the order in which they can run.
    stages: Vec<StageRow>,
    /// Loops.
    loops: Vec<LoopRow>,
    /// Outputs.
    outputs: Vec<OutputRow>,
}

/// A defect of a pipeline.
#[derive(Serialize)]
struct DefectRow {
    /// Line of the file, from 1.
    line: u32,
    /// `error` or `warning`.
    severity: Severity,
    /// The defect in words, with both ends of a connection.
    message: String,
}

/// An input of a pipeline.
#[derive(Serialize)]
struct InputRow {
    /// Name of the input.
    name: String,
    /// Element type.
    #[serde(rename = "type")]
    element: &'static str,
    /// Length of each dimension, the slowest first.
    shape: Vec<u64>,
    /// `file`, `values`, or `given` if each run needs `--input`.
    source: &'static str,
}

/// A stage of a pipeline.
#[derive(Serialize)]
struct StageRow {
    /// Name of the stage.
    stage: String,
    /// `replay` or `module`.
    kind: &'static str,
    /// The recording or the module.
    file: String,
    /// Label of its target; `null` if it has none.
    target: Option<String>,
    /// Loop of the stage; `null` if it is in none.
    #[serde(rename = "loop")]
    of_loop: Option<String>,
    /// Length of the longest chain of stages before it.
    depth: u64,
    /// Tensors that it takes.
    takes: Vec<TensorRow>,
    /// Tensors that it gives.
    gives: Vec<TensorRow>,
}

/// A tensor that a stage takes or gives.
#[derive(Serialize)]
struct TensorRow {
    /// Its name in the stage.
    name: String,
    /// The value that it takes; `null` for a tensor that the stage gives.
    from: Option<String>,
    /// Element type.
    #[serde(rename = "type")]
    element: &'static str,
    /// Length of each dimension, the slowest first.
    shape: Vec<u64>,
}

/// A loop of a pipeline.
#[derive(Serialize)]
struct LoopRow {
    /// Name of the loop.
    #[serde(rename = "loop")]
    name: String,
    /// Names of its stages.
    stages: Vec<String>,
    /// Maximum number of rounds.
    rounds: u32,
    /// Condition that ends it.
    until: String,
    /// What happens if the last round does not meet it: `fail` or `continue`.
    at_bound: &'static str,
}

/// An output of a pipeline.
#[derive(Serialize)]
struct OutputRow {
    /// Name of the output.
    name: String,
    /// The value.
    from: String,
    /// Its file.
    file: String,
}

pub fn run(arguments: &CheckArguments, out: &mut Out) -> Result<Exit, Failure> {
    let opened = progress_line::run_with_progress("checking", |progress, _| {
        let opened = Pipeline::open(&arguments.file, progress);
        progress.check().map_err(|e| Failure::usage(e.to_string()))?;
        Ok(opened)
    })?;
    let report = match &opened {
        Ok(pipeline) => report(pipeline),
        Err(PipelineError::Defects { path, defects }) => CheckReport {
            pipeline: path.display().to_string(),
            title: String::new(),
            sound: false,
            defects: rows(defects.all()),
            inputs: Vec::new(),
            stages: Vec::new(),
            loops: Vec::new(),
            outputs: Vec::new(),
        },
        Err(e) => return Err(Failure::usage(e.to_string())),
    };
    match out.is_json() {
        true => out.value(&report)?,
        false => print(&report, out)?,
    }
    Ok(Exit::differs_if(!report.sound))
}

fn rows(defects: &[Defect]) -> Vec<DefectRow> {
    let row = |defect: &Defect| DefectRow {
        line: defect.line,
        severity: defect.severity(),
        message: defect.kind.to_string(),
    };
    defects.iter().map(row).collect()
}

fn tensor_row(name: &str, from: Option<String>, tensor: &TensorType) -> TensorRow {
    TensorRow {
        name: name.to_owned(),
        from,
        element: tensor.element().name(),
        shape: tensor.shape().to_vec(),
    }
}

fn report(pipeline: &Pipeline) -> CheckReport {
    let document = &pipeline.document;
    let inputs = document.inputs.iter().map(|input| InputRow {
        name: input.name.clone(),
        element: input.tensor.element().name(),
        shape: input.tensor.shape().to_vec(),
        source: match input.source {
            InputSource::File(_) => "file",
            InputSource::Values(_) => "values",
            InputSource::Given => "given",
        },
    });
    let stages = pipeline
        .graph
        .order
        .iter()
        .filter_map(|number| stage_row(pipeline, *number));
    let loops = document.loops.iter().map(|one| LoopRow {
        name: one.name.clone(),
        stages: one.stages.iter().map(|s| s.0.clone()).collect(),
        rounds: one.rounds,
        until: format!("{} {}", one.until.value, one.until.test),
        at_bound: match one.at_bound {
            AtBound::Fail => "fail",
            AtBound::Continue => "continue",
        },
    });
    let outputs = document.outputs.iter().map(|output| OutputRow {
        name: output.name.clone(),
        from: output.from.to_string(),
        file: output.file.clone(),
    });
    CheckReport {
        pipeline: pipeline.path.display().to_string(),
        title: document.title.clone(),
        sound: true,
        defects: rows(&pipeline.warnings),
        inputs: inputs.collect(),
        stages: stages.collect(),
        loops: loops.collect(),
        outputs: outputs.collect(),
    }
}

fn stage_row(pipeline: &Pipeline, number: usize) -> Option<StageRow> {
    let definition = pipeline.document.stages.get(number)?;
    let (stage, node) = (pipeline.stages.get(number)?, pipeline.graph.stages.get(number)?);
    let takes = definition.inputs.iter().zip(&stage.inputs);
    let gives = output_names(definition).into_iter().zip(&stage.outputs);
    let (file, target) = match &definition.work {
        StageWork::Replay(replay) => (&replay.recording, replay.target.clone()),
        StageWork::Module(module) => (&module.module, None),
    };
    Some(StageRow {
        stage: definition.name.clone(),
        kind: match stage.work {
            CheckedWork::Replay(_) => "replay",
            CheckedWork::Module(_) => "module",
        },
        file: file.display().to_string(),
        target,
        of_loop: node
            .of_loop
            .and_then(|l| pipeline.document.loops.get(l))
            .map(|l| l.name.clone()),
        depth: node.depth as u64,
        takes: takes
            .map(|(c, t)| tensor_row(&c.name, Some(c.from.to_string()), t))
            .collect(),
        gives: gives.map(|(name, t)| tensor_row(name, None, t)).collect(),
    })
}

fn print(report: &CheckReport, out: &mut Out) -> Result<(), Failure> {
    for defect in &report.defects {
        let severity = match defect.severity {
            Severity::Warning => "warning: ",
            Severity::Error => "",
        };
        let message = &defect.message;
        out.line(format_args!(
            "{}, line {}: {severity}{message}",
            report.pipeline, defect.line
        ))?;
    }
    if !report.sound {
        return Ok(());
    }
    if !report.title.is_empty() {
        out.line(&report.title)?;
    }
    let list = |tensors: &[TensorRow]| {
        let one = |t: &TensorRow| {
            let shape = t.shape.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
            let from = t.from.as_ref().map_or_else(String::new, |from| format!(" = {from}"));
            format!("{}{from} ({} {shape})", t.name, t.element)
        };
        match tensors.is_empty() {
            true => "-".to_owned(),
            false => tensors.iter().map(one).collect::<Vec<_>>().join(", "),
        }
    };
    let head = ["Stage", "Kind", "Depth", "Loop", "Target", "File", "Takes", "Gives"];
    let mut table = vec![head.map(str::to_owned).to_vec()];
    let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    table.extend(report.stages.iter().map(|s| {
        vec![
            s.stage.clone(),
            s.kind.to_owned(),
            s.depth.to_string(),
            or_none(&s.of_loop),
            or_none(&s.target),
            s.file.clone(),
            list(&s.takes),
            list(&s.gives),
        ]
    }));
    out.table(&table)?;
    for one in &report.loops {
        let rounds = format_count(u64::from(one.rounds), "round");
        out.line(format_args!("Loop {}: until {}, at most {rounds}", one.name, one.until))?;
    }
    for output in &report.outputs {
        out.line(format_args!(
            "Output {}: {} to {}",
            output.name, output.from, output.file
        ))?;
    }
    Ok(())
}
