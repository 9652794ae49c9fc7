//! Tests of the Adreno maps: the map of each chip, and register names against the output of Mesa's own decoder.

use crate::recordings;
use flate2::read::GzDecoder;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use trace_core::progress::Progress;
use trace_core::recording::{EventKind, Recording};
use trace_core::registers::{RecordedRegisters, RegisterMap};
use trace_core::{RegOffset, check, finding, timeline};
use trace_import::rd;

/// Samples: name, generation, writes, written registers, and writes of registers that have no name in Mesa either.
const SAMPLES: [(&str, u32, usize, usize, usize); 7] = [
    ("compute-a540", 5, 138, 101, 14),
    (
        "dEQP-GLES2.functional.texture.specification.basic_teximage2d.rgba16f_2d",
        2,
        1971,
        72,
        0,
    ),
    (
        "dEQP-VK.draw.indirect_draw.indexed.indirect_draw_count.triangle_list",
        6,
        414,
        301,
        0,
    ),
    ("es2gears-a320", 3, 361_664, 181, 0),
    ("fd-clouds", 6, 2793, 327, 3),
    ("glxgears-a420", 4, 154_707, 236, 0),
    ("shadow", 6, 16_210, 361, 0),
];

/// Generation, registers and blocks, counted in the files with a TOML reader. Each half of a pair counts.
const REGISTERS: [(u32, usize, usize); 6] = [
    (2, 389, 20),
    (3, 580, 18),
    (4, 1_063, 15),
    (5, 1_584, 19),
    (6, 1_725, 15),
    (7, 1_781, 15),
];

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../sample-traces/freedreno")
        .join(name)
}

fn import(path: &Path) -> Recording {
    rd::import(path, &Progress::new()).unwrap()
}

/// Returns the numbers of writes, of written registers, and of writes to registers without a name.
fn named(recording: &Recording) -> (usize, usize, usize) {
    let device = RecordedRegisters::new(recording).unwrap();
    let (mut writes, mut unnamed) = (0, 0);
    let mut registers = BTreeSet::new();
    for (_, access) in recording.events.accesses(0..recording.events.len()) {
        writes += 1;
        registers.insert(access.offset);
        unnamed += usize::from(device.name_of(&access).is_none());
    }
    (writes, registers.len(), unnamed)
}

#[test]
fn adreno_maps_have_the_register_counts_of_their_files() {
    for (generation, registers, blocks) in REGISTERS {
        let map = RegisterMap::by_name(&format!("adreno-a{generation}xx")).unwrap();
        let names: BTreeSet<&str> = map.registers().map(|r| r.block.as_str()).collect();
        assert_eq!(
            (map.registers().count(), names.len()),
            (registers, blocks),
            "{generation}"
        );
        assert!(names.contains("RB") && names.contains("CP"), "{names:?}");
        assert!(
            map.registers()
                .all(|r| !r.replay.write && !r.replay.reason.is_empty() || !r.access.is_writable())
        );
    }
}

#[test]
fn adreno_ids_select_their_generation_map_and_mali_ids_none() {
    for (id, map) in [
        (0x0200_01ff, Some("adreno-a2xx")),
        (0x0303_00ff, Some("adreno-a3xx")),
        (0x0402_00ff, Some("adreno-a4xx")),
        (0x0504_00ff, Some("adreno-a5xx")),
        (0x0603_0001, Some("adreno-a6xx")),
        (0x0609_0000, Some("adreno-a6xx")),
        (0x0700_0200, Some("adreno-a6xx")),
        (0x0703_0001, Some("adreno-a7xx")),
        (0x4305_0a01, Some("adreno-a7xx")),
        (0x4305_0c01, Some("adreno-a7xx")),
        (0x4405_0000, None),
        // Malis of the Midgard line: T760, T720, T860, T620, T604.
        (0x0750_0000, None),
        (0x0720_0000, None),
        (0x0860_0000, None),
        (0x0620_0000, None),
        (0x6956_0000, None),
        (0x6000_0011, Some("mali-jm")),
        (0x7402_0000, Some("mali-jm")),
    ] {
        assert_eq!(RegisterMap::for_gpu(id).map(RegisterMap::name), map, "{id:#x}");
    }
    let map = RegisterMap::by_name("adreno-a7xx").unwrap();
    assert!(map.is_same_product(0x4305_0a01, 0x4305_0a02) && !map.is_same_product(0x4305_0a01, 0x4305_1401));
}

/// Converts a name of Mesa's decoder (`RB_MRT[0x1].CONTROL`) to the form of the map (`RB_MRT1_CONTROL`), without the
/// map's separators between digits.
fn plain(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    while let Some((before, after)) = rest.split_once('[') {
        let (number, after) = after.split_once(']').unwrap();
        let number = u32::from_str_radix(number.trim_start_matches("0x"), 16).unwrap();
        out.push_str(&format!("{before}{number}"));
        rest = after.strip_prefix('.').map_or(after, |after| {
            out.push('_');
            after
        });
    }
    out.push_str(rest);
    out.replace('_', "")
}

#[test]
fn instruction_names_match_mesas_decoder() {
    for (name, generation, ..) in SAMPLES {
        let log = sample(&format!("{name}.log.gz"));
        if !log.exists() {
            continue;
        }
        let mut text = Vec::new();
        GzDecoder::new(std::fs::File::open(log).unwrap())
            .read_to_end(&mut text)
            .unwrap();
        let map = RegisterMap::by_name(&format!("adreno-a{generation}xx")).unwrap();
        let mut compared = BTreeSet::new();
        for line in String::from_utf8_lossy(&text).lines() {
            let Some((printed, number)) = line
                .trim_start()
                .strip_prefix("write ")
                .and_then(|w| w.split_once(" ("))
            else {
                continue;
            };
            let number = u32::from_str_radix(number.trim_end_matches(')'), 16).unwrap();
            let name_in_map = map.at(RegOffset::new(number * 4)).map(|r| r.name.clone());
            // Mesa prints a plain number if it has no name.
            if printed.starts_with("0x") {
                assert_eq!(name_in_map, None, "{name}: {printed}");
                continue;
            }
            let name_in_map = name_in_map.unwrap_or_else(|| panic!("{name}: {printed} has no name"));
            let half = |r: &str| r.strip_suffix("_LO").map(str::to_owned);
            let same = plain(&name_in_map) == plain(printed)
                || half(&name_in_map).is_some_and(|o| plain(&o) == plain(printed));
            assert!(same, "{name}: {name_in_map} is printed as {printed}");
            compared.insert(number);
        }
        let expected = match generation {
            2 => 8,
            3 => 96,
            4 => 123,
            5 => 53,
            _ if name == "fd-clouds" => 198,
            _ => 185,
        };
        assert_eq!(compared.len(), expected, "{name}");
    }
}

#[test]
fn samples_have_named_registers_and_a_job_a_submit() {
    for (name, generation, writes, registers, unnamed) in SAMPLES {
        let recording = import(&sample(&format!("{name}.rd.gz")));
        let map = RegisterMap::for_recording(&recording).unwrap();
        assert_eq!(map.name(), format!("adreno-a{generation}xx"), "{name}");
        assert_eq!(named(&recording), (writes, registers, unnamed), "{name}");
        let jobs = timeline::derive(&recording, map, &Progress::new()).unwrap().jobs;
        assert_eq!(jobs.len(), recording.events.submits.len(), "{name}");
        // Each write belongs to the latest submitted job.
        let mut job = None;
        for event in 0..recording.events.len() {
            match recording.events.kind(event) {
                Some(EventKind::Submit) => job = Some(job.map_or(0, |j: usize| j + 1)),
                Some(EventKind::Write) => {
                    let span = &jobs[job.unwrap()];
                    let event = event as u64;
                    assert!(
                        (span.submit_event..=span.done_event.unwrap()).contains(&event),
                        "{name}: {event}"
                    );
                }
                _ => {}
            }
        }
        assert!(jobs.iter().all(|j| j.done_ns.is_none() && !j.failed), "{name}");
        // No command stream counts as a chain of descriptors.
        let findings = check::check(&recording);
        let finding = findings
            .iter()
            .find(|f| f.kind == finding::FindingKind::UndecodedJobHead);
        assert!(finding.is_none(), "{name}: {finding:?}");
    }
}

#[test]
fn newer_adreno_chips_select_a_map_or_suggest_an_import() {
    let Some(folder) = recordings("../cases/c15") else {
        return;
    };
    for (name, gpu, map) in [
        ("a690", "Adreno 690", Some("adreno-a6xx")),
        ("a702", "Adreno 702", Some("adreno-a6xx")),
        ("a740", "Adreno 740", Some("adreno-a7xx")),
        ("a750", "Adreno 750", Some("adreno-a7xx")),
        ("x1-85", "Adreno X1-85", Some("adreno-a7xx")),
        ("a830", "Adreno 830", None),
        ("a840-fuse-wildcard", "Adreno 840", None),
    ] {
        let recording = import(&folder.join(format!("{name}.rd.gz")));
        assert_eq!(recording.metadata.identity.gpu_name, gpu);
        let found = RegisterMap::for_recording(&recording);
        assert_eq!(found.map(RegisterMap::name), map, "{name}");
        // Its commands are those of the seventh generation in all files.
        match map {
            Some("adreno-a7xx") => assert_eq!(named(&recording), (13, 13, 0), "{name}"),
            _ => assert_eq!(
                recording.events.accesses(0..recording.events.len()).count(),
                13,
                "{name}"
            ),
        }
        let of_jobs = RegisterMap::for_jobs_of(&recording).unwrap();
        assert_eq!(
            timeline::derive(&recording, of_jobs, &Progress::new())
                .unwrap()
                .jobs
                .len(),
            1
        );
        let findings = check::check(&recording);
        let how = findings.iter().find(|f| f.message.contains("kinescope regmaps import"));
        assert_eq!(how.is_none(), map.is_some(), "{name}: {findings:?}");
        if let Some(how) = how {
            let command = "kinescope regmaps import a6xx.xml --variant A8XX --block A6XX --next-to";
            assert!(
                how.message.contains(command) && how.message.contains(gpu),
                "{}",
                how.message
            );
        }
    }
}

/// A part with one submit has the writes of its own commands only.
#[test]
fn trimmed_recording_has_only_writes_of_its_submits() {
    use trace_core::trim::{Part, TrimRequest, trim};
    let recording = import(&sample("fd-clouds.rd.gz"));
    let request = TrimRequest::new(Part::Jobs([0].into()), "fd-clouds.rd.gz");
    let part = trim(&recording, &request, &Progress::new()).unwrap().recording;
    // As many as the reference decode of the first submit has.
    assert_eq!((part.events.submits.len(), named(&part).0), (1, 931));
}
