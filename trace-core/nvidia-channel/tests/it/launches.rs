//! Compares the decoded push buffers of seven launches that CUDA's driver made on an H100 with an independent decoding
//! of the same words.

use nvidia_channel::command::{Command, SemaphoreOperation, SemaphoreSource};
use nvidia_channel::gpfifo::GpfifoEntry;
use nvidia_channel::header::{Advance, Header};
use nvidia_channel::launch::Launch;
use nvidia_channel::memory::NoMemory;
use nvidia_channel::push_buffer::{Method, PushBuffer};
use nvidia_channel::qmd::{Qmd, QmdKind, QmdVersion};
use nvidia_channel::{Bindings, CommandReader, GpuVa};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The compute class of an H100.
const COMPUTE: u16 = 0xcbc0;

pub fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// A launch: its name, words, descriptor, and the independent decoding.
pub struct Sample {
    pub name: String,
    pub words: Vec<u8>,
    pub descriptor: Vec<u8>,
    pub expected: Value,
}

pub fn samples() -> Vec<Sample> {
    let text = std::fs::read_to_string(data().join("h100-launches.json")).unwrap();
    let launches: Vec<Value> = serde_json::from_str(&text).unwrap();
    assert_eq!(launches.len(), 7);
    let sample = |expected: Value| {
        let name = expected["mark"].as_str().unwrap().split(' ').nth(1).unwrap().to_owned();
        let file = |end: &str| std::fs::read(data().join(format!("h100-launch-{name}.{end}"))).unwrap();
        Sample {
            words: file("pb"),
            descriptor: file("qmd"),
            name,
            expected,
        }
    };
    launches.into_iter().map(sample).collect()
}

pub fn hex(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
}

fn methods(sample: &Sample) -> Vec<Method> {
    let mut bindings = Bindings::new(0xc86f).with(1, COMPUTE).with(4, 0xc8b5);
    let methods = PushBuffer::new(&sample.words).methods(&mut bindings);
    methods
        .collect::<Result<_, _>>()
        .unwrap_or_else(|e| panic!("{}: {e}", sample.name))
}

fn commands(sample: &Sample) -> Vec<Command> {
    let mut reader = CommandReader::new();
    let mut commands: Vec<Command> = methods(sample)
        .iter()
        .filter_map(|m| reader.read(m, &NoMemory))
        .collect();
    commands.extend(reader.finish());
    commands
}

pub fn launches(sample: &Sample) -> Vec<Launch> {
    let commands = commands(sample).into_iter();
    let launches = commands.filter_map(|c| match c {
        Command::Launch(launch) => Some(*launch),
        Command::UnreadableLaunch(error) => panic!("{}: {error}", sample.name),
        _ => None,
    });
    launches.collect()
}

/// Returns `N,N,N` after a word of a mark; missing parts are 1.
pub fn numbers_after(mark: &str, word: &str) -> [u32; 3] {
    let mut words = mark.split(' ').skip_while(|w| *w != word);
    let mut parts = words.nth(1).unwrap().split(',').map(|n| n.parse().unwrap());
    std::array::from_fn(|_| parts.next().unwrap_or(1))
}

#[test]
fn entry_names_the_push_buffer() {
    for sample in samples() {
        let GpfifoEntry::Segment(segment) = GpfifoEntry::decode(hex(&sample.expected["gpfifo_entry"])) else {
            panic!("{}: a control entry", sample.name);
        };
        assert_eq!(segment.address.0, hex(&sample.expected["pb_va"]));
        assert_eq!(u64::from(segment.words), sample.expected["dwords"].as_u64().unwrap());
        assert_eq!(segment.words as usize * 4, sample.words.len(), "{}", sample.name);
    }
}

#[test]
fn headers_and_names_equal_the_independent_decoding() {
    for sample in samples() {
        let runs: Vec<_> = PushBuffer::new(&sample.words).runs().map(Result::unwrap).collect();
        let expected = sample.expected["methods"].as_array().unwrap();
        assert_eq!(runs.len(), expected.len(), "{}", sample.name);
        let methods = methods(&sample);
        for (run, expected) in runs.iter().zip(expected) {
            let Header::Methods {
                advance,
                subchannel,
                method,
                count,
                ..
            } = run.header
            else {
                panic!("{}: {run:?}", sample.name);
            };
            let form = match expected[0].as_str().unwrap() {
                "inc" => Advance::Each,
                "non" => Advance::Never,
                other => panic!("{other}"),
            };
            assert_eq!(advance, form);
            assert_eq!(u64::from(subchannel), expected[1].as_u64().unwrap());
            assert_eq!(u64::from(method), hex(&expected[2]));
            assert_eq!(u64::from(count), expected[4].as_u64().unwrap());
            let of_run = methods
                .iter()
                .filter(|m| (run.word + 1..=run.word + usize::from(count)).contains(&m.word));
            let of_run: Vec<&Method> = of_run.collect();
            assert_eq!(of_run.len(), usize::from(count));
            let name = format!("COMPUTE.{}", of_run[0].named().unwrap());
            assert_eq!(name, expected[3].as_str().unwrap(), "{}", sample.name);
            for (method, value) in of_run.iter().zip(expected.as_array().unwrap().iter().skip(5)) {
                assert_eq!(u64::from(method.value), hex(value));
            }
            assert!(of_run.iter().all(|m| m.named().is_some() && m.class == Some(COMPUTE)));
        }
    }
}

#[test]
fn uploads_equal_the_independent_decoding() {
    for sample in samples() {
        let commands = commands(&sample);
        let uploads: BTreeMap<u64, &[u8]> = commands
            .iter()
            .filter_map(|c| match c {
                Command::Upload(u) => Some((u.address.0, &u.bytes[..])),
                _ => None,
            })
            .collect();
        assert_eq!(uploads.len(), 5, "{}", sample.name);
        for expected in sample.expected["uploads"].as_array().unwrap() {
            let bytes = uploads[&hex(&expected["va"])];
            assert_eq!(bytes.len() as u64, expected["bytes"].as_u64().unwrap());
            let text: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(text, expected["head"].as_str().unwrap());
        }
        let bank = uploads[&hex(&sample.expected["cbuf0"]["va"])];
        let words: BTreeMap<u64, u64> = (0u64..)
            .zip(bank.chunks(4))
            .map(|(n, c)| (4 * n, u64::from(u32::from_le_bytes(c.try_into().unwrap()))))
            .filter(|(_, value)| *value != 0)
            .collect();
        let expected = sample.expected["cbuf0"]["nonzero"].as_object().unwrap();
        let expected = expected
            .iter()
            .map(|(at, value)| (hex(&Value::from(at.as_str())), hex(value)));
        assert_eq!(words, expected.collect(), "{}", sample.name);
    }
}

/// Returns whether the independent decoding has this element only because it assumes eight elements of every array.
/// The extra elements are bits of the fields that follow.
fn is_beyond_the_array(field: &str) -> bool {
    let Some((name, element)) = field.trim_end_matches(')').split_once('(') else {
        return false;
    };
    let count = match name {
        name if name.starts_with("RELEASE_") => 3,
        name if name.starts_with("DEPENDENT_QMD_") => 2,
        _ => 8,
    };
    element.parse::<u32>().unwrap() >= count
}

#[test]
fn descriptor_fields_equal_the_independent_decoding() {
    for sample in samples() {
        let launches = launches(&sample);
        let expected = sample.expected["qmds"].as_array().unwrap();
        assert_eq!(launches.len(), expected.len(), "{}", sample.name);
        assert_eq!(launches[1].descriptor, sample.descriptor);
        for (launch, expected) in launches.iter().zip(expected) {
            assert_eq!(launch.descriptor_address.0, hex(&expected["va"]));
            let qmd = Qmd::parse(&launch.descriptor, None).unwrap();
            let fields = qmd.fields().filter(|f| f.value != 0);
            let fields: BTreeMap<String, u64> = fields
                .map(|f| match f.element {
                    Some(element) => (format!("{}({element})", f.name), f.value),
                    None => (f.name.to_owned(), f.value),
                })
                .collect();
            let expected = expected["fields"].as_object().unwrap().iter();
            let expected = expected.filter(|(name, _)| !is_beyond_the_array(name));
            let expected: BTreeMap<String, u64> = expected.map(|(name, v)| (name.clone(), hex(v))).collect();
            assert_eq!(fields, expected, "{} at {}", sample.name, launch.descriptor_address);
        }
    }
}

#[test]
fn launches_have_the_parts_that_the_program_asked_for() {
    for sample in samples() {
        let mark = sample.expected["mark"].as_str().unwrap();
        let [null, grid] = &launches(&sample)[..] else {
            panic!("{mark}: not two launches");
        };
        assert_eq!((null.kind, grid.kind), (QmdKind::NullGrid, QmdKind::Grid), "{mark}");
        assert_eq!(grid.version, QmdVersion { major: 4, minor: 0 });
        assert_eq!(grid.grid, numbers_after(mark, "grid"), "{mark}");
        assert_eq!(grid.block, numbers_after(mark, "block"), "{mark}");
        let fields = &sample.expected["qmds"][1]["fields"];
        assert_eq!(u64::from(grid.registers), hex(&fields["REGISTER_COUNT"]));
        assert_eq!(grid.shared_bytes, hex(&fields["SHARED_MEMORY_SIZE"]));
        assert_eq!(grid.local_bytes, hex(&fields["SHADER_LOCAL_MEMORY_HIGH_SIZE"]));
        // The parameters are the upload that begins at offset 0x210 of bank 0.
        let bank = hex(&sample.expected["cbuf0"]["va"]);
        let uploads = sample.expected["uploads"].as_array().unwrap();
        let parameters = uploads.iter().find(|u| hex(&u["va"]) == bank + 0x210).unwrap();
        let text: String = grid
            .parameters
            .as_ref()
            .unwrap()
            .iter()
            .map(|b| format!("{b:02x}"))
            .collect();
        assert_eq!(text, parameters["head"].as_str().unwrap(), "{mark}");
        // Bank 0 holds the program's address and the descriptor's.
        assert_eq!(grid.bank_0.u64(0x118), Some(grid.program_address.0));
        assert_eq!(grid.bank_0.u64(0x38), Some(grid.descriptor_address.0));
        assert_eq!(grid.constant_banks[0].address.0, bank);
        let banks: BTreeSet<u32> = grid.constant_banks.iter().map(|b| b.index).collect();
        assert!(banks.is_superset(&BTreeSet::from([0, 1, 5, 7])), "{banks:?}");
    }
}

#[test]
fn launch_releases_its_semaphore_and_starts_the_next() {
    let sample = &samples()[0];
    let [null, grid] = &launches(sample)[..] else {
        panic!("not two launches");
    };
    let [release] = grid.releases[..] else {
        panic!("{:?}", grid.releases);
    };
    assert_eq!(
        (release.address, release.payload, release.words),
        (GpuVa(0x2_0463_7f34), 6, 1)
    );
    let actions = |launch: &Launch| -> Vec<_> { launch.dependents.iter().map(|d| (d.address, d.action)).collect() };
    assert_eq!(
        actions(grid),
        [(null.descriptor_address, Some("QMD_DECREMENT_DEPENDENCE"))]
    );
    assert_eq!(actions(null), [(GpuVa(0x2_04e0_d000), Some("QMD_SCHEDULE"))]);
}

#[test]
fn submission_ends_with_a_running_number() {
    let numbers: Vec<u64> = samples()
        .iter()
        .map(|sample| {
            let commands = commands(sample);
            let Some(Command::Semaphore(semaphore)) = commands.last() else {
                panic!("{}: no semaphore at the end", sample.name);
            };
            assert_eq!(semaphore.source, SemaphoreSource::Report);
            assert_eq!(
                (semaphore.operation, semaphore.timestamp),
                (SemaphoreOperation::Release, true)
            );
            assert_eq!(semaphore.address, GpuVa(0x2_0460_fff0));
            semaphore.payload
        })
        .collect();
    assert!(numbers.is_sorted(), "{numbers:x?}");
    assert_eq!(numbers[0], 0x70);
}
