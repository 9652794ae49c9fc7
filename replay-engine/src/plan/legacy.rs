//! Records of plans of versions 5 and 6, which had the fields of all kinds in one list, as plans of today.

use super::{
    AccessPlan, ApiTracePlan, Body, Budgets, Expectation, MmioPlan, Origin, PLAN_VERSION, Plan, PlanBody, PlanBuffer,
    PlanError, PlanJob, PlanPage, PlanSpace, ReadClasses, RegisterPlan, Rewrite,
};
use crate::device::{Arena, Window};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use trace_core::RegOffset;
use trace_core::recording::{ApiTraceMetadata, Digest, Hardware};

/// The oldest version that is read.
pub(super) const MIN_VERSION: u32 = 5;
/// The newest version with this record.
const MAX_VERSION: u32 = 6;

/// The record of version 5. Version 6 adds `origin`.
#[derive(Deserialize)]
#[cfg_attr(test, derive(serde::Serialize))]
struct LegacyPlan {
    _version: u32,
    title: String,
    gpu_id: u32,
    register_map: String,
    arena: Arena,
    pages: Vec<PlanPage>,
    used_pages: u64,
    spaces: Vec<PlanSpace>,
    outputs: Vec<PlanBuffer>,
    jobs: Vec<PlanJob>,
    rewrites: Vec<Rewrite>,
    reads: ReadClasses,
    interrupts: u64,
    actions: u64,
    budgets: Budgets,
    body: Body,
    allowed: Vec<(RegOffset, RegOffset)>,
    buffers: Vec<PlanBuffer>,
    images: Vec<Digest>,
    /// JSON.
    hardware: Option<String>,
    windows: Vec<Window>,
    expectations: Vec<Expectation>,
    masters: bool,
    /// JSON.
    calls: Option<String>,
}

/// The JSON of `calls`.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LegacyCalls {
    facts: ApiTraceMetadata,
    graph: bool,
    no_restore: bool,
    step: bool,
    times: bool,
    guard: Option<Vec<u64>>,
    tune: Option<IgnoredAny>,
    watch: Option<IgnoredAny>,
}

/// Returns whether records of this version are read here.
pub(super) fn is_legacy(version: u32) -> bool {
    (MIN_VERSION..=MAX_VERSION).contains(&version)
}

/// Reads the record of a plan of such a version.
///
/// # Errors
/// If the record is damaged, mixes kinds of plans, or asks for something else than a replay.
pub(super) fn read(version: u32, record: &[u8]) -> Result<Plan, PlanError> {
    if version == MIN_VERSION {
        return convert(trace_core::encode::from_long_bytes(record)?, None);
    }
    let (plan, origin): (LegacyPlan, Option<String>) = trace_core::encode::from_long_bytes(record)?;
    convert(plan, origin)
}

fn legacy<T>(why: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError::Legacy { why: why.into() })
}

fn parse<T: DeserializeOwned>(what: &str, json: Option<String>) -> Result<Option<T>, PlanError> {
    let Some(json) = json else { return Ok(None) };
    serde_json::from_str(&json)
        .map(Some)
        .or_else(|e| legacy(format!("{what}: {e}")))
}

fn convert(old: LegacyPlan, origin: Option<String>) -> Result<Plan, PlanError> {
    let hardware: Option<Hardware> = parse("the device", old.hardware)?;
    let calls: Option<LegacyCalls> = parse("the calls", old.calls)?;
    let origin: Option<Origin> = parse("the origin", origin)?;
    let is_mmio = hardware.is_some() || !old.windows.is_empty() || old.masters;
    let has_jobs = !old.spaces.is_empty() || !old.jobs.is_empty();
    let body = if let Some(calls) = calls {
        let has_accesses = old.arena.pages > 0 || !old.pages.is_empty() || !old.allowed.is_empty();
        if is_mmio || has_jobs || has_accesses || !old.expectations.is_empty() {
            return legacy("a plan of calls cannot have register data");
        }
        if calls.tune.is_some() || calls.watch.is_some() {
            return legacy("it asks for a tuning or a memory trace, which is a request of its own");
        }
        PlanBody::Api(ApiTracePlan {
            metadata: calls.facts,
            body: old.body,
            graph: calls.graph,
            no_restore: calls.no_restore,
            step: calls.step,
            times: calls.times,
            guard: calls.guard,
        })
    } else {
        let accesses = AccessPlan {
            gpu_id: old.gpu_id,
            register_map: old.register_map,
            arena: old.arena,
            pages: old.pages,
            used_pages: old.used_pages,
            reads: old.reads,
            interrupts: old.interrupts,
            body: old.body,
            allowed: old.allowed,
            buffers: old.buffers,
            expectations: old.expectations,
            origin,
        };
        match hardware {
            Some(_) if has_jobs => return legacy("a plan of a bus device has no translations and no jobs"),
            Some(hardware) => PlanBody::Mmio(MmioPlan {
                accesses,
                hardware,
                windows: old.windows,
                masters: old.masters,
            }),
            None if is_mmio => return legacy("a plan of MMIO regions does not name its device"),
            None => PlanBody::Registers(RegisterPlan {
                accesses,
                spaces: old.spaces,
                jobs: old.jobs,
            }),
        }
    };
    Ok(Plan {
        version: PLAN_VERSION,
        title: old.title,
        outputs: old.outputs,
        rewrites: old.rewrites,
        actions: old.actions,
        budgets: old.budgets,
        images: old.images,
        body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Compiled;
    use crate::plan::text::{self, NoFiles};
    use std::collections::BTreeMap;
    use trace_core::recording::{Api, BufferRole, PciFunction, SpaceKind};
    use trace_core::{PhysAddr, RegOffset};

    fn empty() -> LegacyPlan {
        LegacyPlan {
            _version: MIN_VERSION,
            title: "an old plan".into(),
            gpu_id: 0,
            register_map: String::new(),
            arena: Arena {
                base: PhysAddr::ZERO,
                pages: 0,
            },
            pages: Vec::new(),
            used_pages: 0,
            spaces: Vec::new(),
            outputs: Vec::new(),
            jobs: Vec::new(),
            rewrites: Vec::new(),
            reads: ReadClasses::default(),
            interrupts: 0,
            actions: 0,
            budgets: Budgets::default(),
            body: Body::default(),
            allowed: Vec::new(),
            buffers: Vec::new(),
            images: Vec::new(),
            hardware: None,
            windows: Vec::new(),
            expectations: Vec::new(),
            masters: false,
            calls: None,
        }
    }

    fn job() -> PlanJob {
        PlanJob {
            submit_event: 7,
            done_event: None,
            head_va: trace_core::GpuVa::new(0x1000),
            slot: 1,
        }
    }

    fn of_registers() -> LegacyPlan {
        LegacyPlan {
            gpu_id: 0x6000_0000,
            register_map: "mali-jm".into(),
            used_pages: 3,
            jobs: vec![job()],
            interrupts: 1,
            actions: 2,
            body: vec![1, 2, 3].into(),
            allowed: vec![(RegOffset::new(4), RegOffset::new(8))],
            ..empty()
        }
    }

    fn device() -> Hardware {
        Hardware::Pci(PciFunction {
            address: "0000:00:04.0".into(),
            vendor: 0x1af4,
            device: 0x1005,
            ..PciFunction::default()
        })
    }

    fn of_windows() -> LegacyPlan {
        LegacyPlan {
            hardware: Some(serde_json::to_string(&device()).unwrap()),
            windows: vec![Window {
                number: 1,
                name: "bar1".into(),
                kind: SpaceKind::Registers,
                bytes: 4096,
            }],
            masters: true,
            ..empty()
        }
    }

    fn of_calls(json: &str) -> LegacyPlan {
        LegacyPlan {
            body: vec![9; 4].into(),
            calls: Some(json.into()),
            ..empty()
        }
    }

    /// Returns the plan of a record of version 5, read as a record of today is.
    fn read_five(old: &LegacyPlan) -> Result<Plan, PlanError> {
        Plan::from_record(&trace_core::encode::to_long_bytes(old).unwrap())
    }

    fn why(old: &LegacyPlan) -> String {
        read_five(old).unwrap_err().to_string()
    }

    #[test]
    fn version_5_becomes_a_plan_of_registers() {
        let plan = read_five(&of_registers()).unwrap();
        assert_eq!(
            (plan.version, plan.title.as_str(), plan.actions),
            (PLAN_VERSION, "an old plan", 2)
        );
        let registers = plan.registers().unwrap();
        assert_eq!(registers.jobs, [job()]);
        let accesses = &registers.accesses;
        assert_eq!(
            (accesses.gpu_id, accesses.register_map.as_str()),
            (0x6000_0000, "mali-jm")
        );
        assert_eq!((accesses.used_pages, accesses.interrupts), (3, 1));
        assert_eq!(
            (&accesses.body[..], &accesses.allowed[..]),
            (&[1, 2, 3][..], &[(RegOffset::new(4), RegOffset::new(8))][..])
        );
        assert_eq!(accesses.origin, None);
        // A converted plan is written in today's form.
        assert_eq!(Plan::from_bytes(&plan.to_bytes().unwrap()).unwrap(), plan);
    }

    #[test]
    fn version_6_adds_the_origin() {
        let origin = Origin {
            roles: BTreeMap::from([("in0".to_owned(), BufferRole::Input)]),
            shapes: BTreeMap::from([("in0".to_owned(), vec![2, 3])]),
            ..Origin::default()
        };
        let old = LegacyPlan {
            _version: 6,
            ..of_registers()
        };
        let record = |origin: Option<String>| trace_core::encode::to_long_bytes(&(&old, origin)).unwrap();
        let json = serde_json::to_string(&origin).unwrap();
        let read = |record: &[u8]| Plan::from_record(record).map(|plan| plan.accesses().unwrap().origin.clone());
        assert_eq!(read(&record(Some(json))).unwrap(), Some(origin));
        assert_eq!(read(&record(None)).unwrap(), None);
        let e = read(&record(Some("{".into()))).unwrap_err().to_string();
        assert!(e.contains("the origin"), "{e}");
        let mut cut = record(None);
        cut.pop();
        assert!(matches!(Plan::from_record(&cut), Err(PlanError::Record(_))));
    }

    #[test]
    fn windows_make_a_plan_of_mmio_regions() {
        let plan = read_five(&of_windows()).unwrap();
        let mmio = plan.mmio().unwrap();
        assert_eq!((&mmio.hardware, mmio.masters), (&device(), true));
        assert_eq!(mmio.windows[0].name, "bar1");
    }

    #[test]
    fn calls_make_a_plan_of_an_api_trace() {
        let json = r#"{"facts":{"api":"cuda"},"graph":true,"step":true,"guard":[3]}"#;
        let plan = read_five(&of_calls(json)).unwrap();
        let calls = plan.api().unwrap();
        assert_eq!(calls.metadata.api, Api::Cuda);
        assert_eq!(
            (calls.graph, calls.no_restore, calls.step, calls.times),
            (true, false, true, false)
        );
        assert_eq!((calls.guard.as_deref(), &calls.body[..]), (Some(&[3][..]), &[9; 4][..]));
    }

    #[test]
    fn mixed_kinds_are_refused() {
        let register_data = "cannot have register data";
        let mixed = |change: &dyn Fn(&mut LegacyPlan)| {
            let mut old = of_calls("{}");
            change(&mut old);
            why(&old)
        };
        assert!(mixed(&|p| p.masters = true).contains(register_data));
        assert!(mixed(&|p| p.jobs = vec![job()]).contains(register_data));
        assert!(mixed(&|p| p.windows = of_windows().windows).contains(register_data));
        assert!(mixed(&|p| p.allowed = vec![(RegOffset::new(4), RegOffset::new(8))]).contains(register_data));
        let with_jobs = LegacyPlan {
            jobs: vec![job()],
            ..of_windows()
        };
        assert!(why(&with_jobs).contains("no jobs"));
        let nameless = LegacyPlan {
            hardware: None,
            ..of_windows()
        };
        assert!(why(&nameless).contains("does not name its device"));
    }

    #[test]
    fn requests_and_damage_are_refused() {
        for json in [r#"{"tune":{"event":1}}"#, r#"{"watch":{}}"#] {
            assert!(why(&of_calls(json)).contains("a request of its own"));
        }
        assert!(why(&of_calls("{")).contains("the calls"));
        let old = LegacyPlan {
            hardware: Some("{}".into()),
            ..of_windows()
        };
        assert!(why(&old).contains("the device"));
        let other = LegacyPlan { _version: 4, ..empty() };
        assert!(matches!(read_five(&other), Err(PlanError::Version { found: 4 })));
    }

    /// Files that a program wrote when version 6 was the newest.
    #[test]
    fn frozen_files_of_version_6_open() {
        let registers = include_bytes!("../../tests/frozen/registers-6.plan");
        let plan = Plan::from_bytes(registers).unwrap();
        assert_eq!((plan.title.as_str(), plan.actions, plan.images.len()), ("seed", 13, 1));
        let registers = plan.registers().unwrap();
        assert_eq!((registers.spaces.len(), registers.jobs[0].submit_event), (1, 4));
        assert_eq!(registers.accesses.used_pages, 2);
        let windows = include_bytes!("../../tests/frozen/windows-6.plan");
        let compiled = Compiled::from_bytes(windows).unwrap();
        let text = include_str!("../../../sample-traces/edu.plan.txt");
        assert_eq!(compiled.plan, text::assemble(text, &NoFiles).unwrap().plan);
    }
}
