//! Comparison of the code of functions that both recordings launched: the modules, and if they differ, the functions.

use super::call_side::CallSide;
use crate::progress::{Cancelled, Progress};
use crate::recording::{CallFunction, CallModule, CodeKind};
use cuda_code::cubin::Cubin;
use cuda_code::{Capability, Form, Image};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of functions listed.
const MAX_FUNCTIONS: usize = 1000;

/// A function whose modules differ between the two sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeDifference {
    /// Name for display.
    pub function: String,
    /// The first matching launches: the event of the first recording, and of the second.
    pub events: (u64, u64),
    /// Number of matching launches.
    pub launches: u64,
    /// Digests of the modules, in hexadecimal; empty if a side has none.
    pub digests: (String, String),
    /// Sizes of the modules, bytes.
    pub bytes: (u64, u64),
    /// Whether the function's own code differs; `None` if that is not known.
    pub own: Option<bool>,
}

impl CodeDifference {
    /// Returns whether this is a difference: a module may differ only outside this function.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.own != Some(false)
    }

    pub(super) fn swapped(mut self) -> Self {
        self.events = (self.events.1, self.events.0);
        self.digests = (self.digests.1, self.digests.0);
        self.bytes = (self.bytes.1, self.bytes.0);
        self
    }
}

/// The functions of matching launches.
#[derive(Debug, Default)]
pub(super) struct LaunchedCode {
    /// By the indices of the function: the first launches, and the number of launches.
    pairs: BTreeMap<(u32, u32), ((u64, u64), u64)>,
}

impl LaunchedCode {
    /// Adds a pair of matching launches.
    pub fn take(&mut self, functions: (u32, u32), events: (u64, u64)) {
        self.pairs.entry(functions).or_insert((events, 0)).1 += 1;
    }

    /// Returns the functions whose modules differ, in the order of their first launches.
    pub fn compare(
        self,
        a: &CallSide<'_>,
        b: &CallSide<'_>,
        progress: &Progress,
    ) -> Result<Vec<CodeDifference>, Cancelled> {
        let mut out = Vec::new();
        for ((x, y), (events, launches)) in self.pairs {
            let (Some((f, m)), Some((g, n))) = (module(a, x), module(b, y)) else {
                continue;
            };
            // A module that is not stored has no digest, so nothing is known of it.
            if m.digest == n.digest || m.digest.is_empty() || n.digest.is_empty() || out.len() >= MAX_FUNCTIONS {
                continue;
            }
            progress.check()?;
            let own = (|| Some(function_code(a, f, m)? != function_code(b, g, n)?))();
            out.push(CodeDifference {
                function: a.calls().function_name(x).to_owned(),
                events,
                launches,
                digests: (m.digest.clone(), n.digest.clone()),
                bytes: (m.bytes, n.bytes),
                own,
            });
        }
        out.sort_by_key(|c| c.events);
        Ok(out)
    }
}

fn module<'r>(of: &CallSide<'r>, function: u32) -> Option<(&'r CallFunction, &'r CallModule)> {
    let metadata = of.calls().metadata();
    let f = metadata.functions.get(function as usize)?;
    Some((f, metadata.modules.get(f.module? as usize)?))
}

/// Returns the code of one function, as instructions or text; `None` if it cannot be separated from the rest of the
/// module.
fn function_code(of: &CallSide<'_>, function: &CallFunction, module: &CallModule) -> Option<Vec<u8>> {
    let code = of.recording.module_code(module)?;
    let [major, minor] = of.calls().metadata().device.capability;
    let found = Image::detect(&code)
        .find_kernel(&function.name, Capability::new(major, minor))
        .ok()?;
    // The text of a function does not contain the functions that it calls; only the whole module does.
    if found.form != Form::Machine || module.kind == CodeKind::Ptx {
        return None;
    }
    let cubin = Cubin::parse(&found.code).ok()?;
    let kernel = cubin.kernel(&function.name).ok()??;
    let from = usize::try_from(kernel.code_at).ok()?;
    let to = from.checked_add(usize::try_from(kernel.code_bytes).ok()?)?;
    Some(found.code.get(from..to)?.to_vec())
}
