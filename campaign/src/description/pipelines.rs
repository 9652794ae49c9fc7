//! The table `[[pipelines]]`: pipelines that run in the same way, and the files that they name.

use super::checker::Checker;
use super::raw_entry::{CommonKeys, DescriptionError, EntryDefaults, EntryOptions, Expand, RawEntry, table_keys};
use crate::campaign_files::CampaignFiles;
use crate::matrix_error::MatrixError;
use crate::work::{InputFile, PipelineWork, WorkItem};
use kinescope_pipeline::{Document, InputSource, MAX_FILE_BYTES, StageWork, parse};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Pipelines that run in the same way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelinesEntry {
    /// Files with new contents of inputs, by name.
    pub inputs: BTreeMap<String, PathBuf>,
    /// Targets of stages with a label, by the label.
    pub labels: BTreeMap<String, String>,
}

table_keys!(RawPipelines {
    #[serde(default)]
    inputs: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    labels: BTreeMap<String, Spanned<String>>,
});

impl RawEntry for RawPipelines {
    type Entry = PipelinesEntry;

    fn common(&self) -> CommonKeys<'_> {
        self.common_keys()
    }

    fn check(&self, checker: &Checker<'_>, _defaults: &EntryDefaults) -> Result<PipelinesEntry, DescriptionError> {
        let names: Vec<Spanned<String>> = self.labels.values().cloned().collect();
        checker.targets(&names)?;
        for name in &names {
            checker
                .device_target(name.get_ref())
                .map_err(|e| checker.error(name, e))?;
        }
        let labels = self.labels.iter();
        Ok(PipelinesEntry {
            inputs: checker.inputs(&self.inputs)?,
            labels: labels
                .map(|(label, target)| (label.clone(), target.get_ref().clone()))
                .collect(),
        })
    }
}

impl Expand for PipelinesEntry {
    fn expand(&self, entry: &EntryOptions<'_>, files: &mut CampaignFiles<'_>) -> Result<Vec<WorkItem>, MatrixError> {
        let inputs = files.inputs(&self.inputs)?;
        let mut all = Vec::new();
        for path in files.find(entry.line, entry.path, "pipeline")? {
            let pipeline = files.recording(&path)?;
            let document = read_document(&path).map_err(|reason| entry.error(reason))?;
            let folder = path.parent().unwrap_or(Path::new(""));
            let mut named: BTreeMap<String, InputFile> = BTreeMap::new();
            for file in self
                .list_files(&document)
                .map_err(|reason| entry.error(format!("{}: {reason}", path.display())))?
            {
                // A path is a key of the queue, which holds text.
                let name = file.to_str().map(str::to_owned).ok_or_else(|| {
                    entry.error(format!("{}: the path {} is no UTF-8", path.display(), file.display()))
                })?;
                named.insert(name, files.input(&folder.join(file))?);
            }
            all.push(WorkItem::Pipeline(PipelineWork {
                pipeline,
                files: named,
                inputs: inputs.clone(),
                labels: self.labels.clone(),
                time_limit_s: entry.time_limit_s,
                without_containment: entry.without_containment,
                keep_outcomes: files.keep_outcomes(),
            }));
        }
        Ok(all)
    }
}

impl PipelinesEntry {
    /// Lists the files that a pipeline names and a run reads, as it names them.
    fn list_files<'a>(&self, document: &'a Document) -> Result<BTreeSet<&'a Path>, String> {
        let stages = document.stages.iter().map(|stage| match &stage.work {
            StageWork::Replay(replay) => replay.recording.as_path(),
            StageWork::Module(module) => module.module.as_path(),
        });
        let mut all: BTreeSet<&Path> = stages.collect();
        for input in &document.inputs {
            match &input.source {
                _ if self.inputs.contains_key(&input.name) => {}
                InputSource::File(path) => {
                    all.insert(path);
                }
                InputSource::Values(_) => {}
                InputSource::Given => {
                    let name = &input.name;
                    return Err(format!(
                        "the file has no content for the input `{name}`; add `inputs = {{ {name} = \"FILE\" }}`"
                    ));
                }
            }
        }
        Ok(all)
    }
}

/// Reads a pipeline file. Its recordings are not opened.
fn read_document(path: &Path) -> Result<Document, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("{}: more than {MAX_FILE_BYTES} bytes", path.display()));
    }
    parse(&text).map_err(|defects| {
        let first = defects.all().first().map_or_else(String::new, ToString::to_string);
        format!("{}, {first} (`kinescope pipeline check` lists all)", path.display())
    })
}
