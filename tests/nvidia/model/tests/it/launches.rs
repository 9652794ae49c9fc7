//! Launches: recorded ones at their addresses, and own ones by address and inline.

use crate::bring_up::{InProcess, model};
use crate::client::{COMPUTE, Client, Driver, get64, high_low, methods, put32, put64};
use nvidia_channel::command::Command;
use nvidia_channel::memory::NoMemory;
use nvidia_channel::push_buffer::PushBuffer;
use nvidia_channel::{Bindings, CommandReader};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection};
use std::path::PathBuf;

/// Returns the code of a kernel.
pub fn kernel_code(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("kernels/kernels.cubin");
    let cubin = std::fs::read(path).unwrap();
    let cubin = ElfFile64::<object::LittleEndian>::parse(&cubin[..]).unwrap();
    let section = cubin.section_by_name(&format!(".text.{name}")).unwrap();
    section.data().unwrap().to_vec()
}

/// Writes code to the device. Returns its address.
pub fn load_code<D: Driver>(client: &Client<D>, va: u64, code: &[u8]) -> u64 {
    client.write_at(va, code);
    va
}

/// A launch that a client makes itself.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Address of constant bank 0; the descriptor is 0x1000 further.
    pub base: u64,
    pub program: u64,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub parameters: Vec<u8>,
    pub version: u32,
    pub kind: u32,
    pub shared: u32,
    /// Address and payload of the semaphore that the end releases.
    pub release: Option<(u64, u32)>,
}

impl Launch {
    pub fn new(base: u64) -> Self {
        Self {
            base,
            program: 0,
            grid: [1, 1, 1],
            block: [1, 1, 1],
            parameters: Vec::new(),
            version: 4,
            kind: 2,
            shared: 0x400,
            release: None,
        }
    }

    pub fn descriptor(&self) -> [u8; 384] {
        let mut qmd = [0; 384];
        set(&mut qmd, 25, 23, self.kind.into());
        set(&mut qmd, 583, 580, self.version.into());
        set(&mut qmd, 568, 568, 1);
        set(&mut qmd, 569, 569, 1);
        for (grid, (high, low)) in self.grid.iter().zip([(1055, 1024), (1071, 1056), (1103, 1088)]) {
            set(&mut qmd, high, low, u64::from(*grid));
        }
        for (block, low) in self.block.iter().zip([1152, 1168, 1184]) {
            set(&mut qmd, low + 15, low, u64::from(*block));
        }
        set(&mut qmd, 601, 584, self.shared.into());
        set(&mut qmd, 1208, 1200, 16);
        set(&mut qmd, 1215, 1211, 1);
        set(&mut qmd, 1247, 1216, self.program & 0xffff_ffff);
        set(&mut qmd, 1272, 1248, self.program >> 32);
        // Constant bank 0 is valid.
        set(&mut qmd, 416, 416, 1);
        set(&mut qmd, 1567, 1536, self.base >> 6 & 0xffff_ffff);
        set(&mut qmd, 1586, 1568, self.base >> 38);
        set(&mut qmd, 1599, 1587, 0x400 >> 4);
        if let Some((address, payload)) = self.release {
            set(&mut qmd, 320, 320, 1);
            set(&mut qmd, 322, 321, 1);
            set(&mut qmd, 671, 640, address & 0xffff_ffff);
            set(&mut qmd, 696, 672, address >> 32);
            set(&mut qmd, 735, 704, payload.into());
        }
        qmd
    }

    /// Writes bank and descriptor, and returns the words that launch it.
    pub fn write<D: Driver>(&self, client: &Client<D>) -> Vec<u32> {
        self.write_bank(client);
        client.write_at(self.base + 0x1000, &self.descriptor());
        self.send()
    }

    fn write_bank<D: Driver>(&self, client: &Client<D>) {
        let mut bank = vec![0; 0x400];
        for (n, size) in self.block.iter().chain(&self.grid).enumerate() {
            put32(&mut bank, 4 * n, *size);
        }
        bank[0x210..0x210 + self.parameters.len()].copy_from_slice(&self.parameters);
        client.write_at(self.base, &bank);
    }

    /// Returns the words that launch the written descriptor.
    fn send(&self) -> Vec<u32> {
        let descriptor = ((self.base + 0x1000) >> 8) as u32;
        [methods(COMPUTE, 0x2b4, &[descriptor]), methods(COMPUTE, 0x2c0, &[9])].concat()
    }
}

/// Sets bits of a descriptor.
fn set(bytes: &mut [u8], high: usize, low: usize, value: u64) {
    for bit in low..=high {
        let one = (value >> (bit - low) & 1) as u8;
        bytes[bit / 8] = bytes[bit / 8] & !(1 << (bit % 8)) | one << (bit % 8);
    }
}

/// A recorded launch, whose addresses the client has mapped.
struct Recorded {
    words: Vec<u32>,
    launch: nvidia_channel::launch::Launch,
    report: u64,
}

/// Reads a recorded launch, and gives memory to each of its addresses.
fn open_recorded<D: Driver>(client: &Client<D>, name: &str) -> Recorded {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../trace-core/nvidia-channel/tests/data");
    let bytes = std::fs::read(folder.join(format!("h100-launch-{name}.pb"))).unwrap();
    let mut bindings = Bindings::new(0xc86f).with(1, 0xcbc0);
    let mut reader = CommandReader::new();
    let (mut grid, mut report) = (None, 0);
    for method in PushBuffer::new(&bytes).methods(&mut bindings) {
        match reader.read(&method.unwrap(), &NoMemory) {
            Some(Command::Upload(upload)) => client.cover(upload.address.0, upload.bytes.len() as u64),
            Some(Command::Launch(launch)) => grid = Some(*launch),
            Some(Command::Semaphore(semaphore)) => {
                report = semaphore.address.0;
                client.cover(report, 16);
            }
            _ => {}
        }
    }
    let launch = grid.unwrap();
    client.cover(launch.program_address.0, 0x4000);
    client.write_at(launch.program_address.0, &kernel_code(name));
    for bank in &launch.constant_banks {
        client.cover(bank.address.0, bank.bytes);
    }
    for release in &launch.releases {
        client.cover(release.address.0, 16);
    }
    let words = bytes.chunks_exact(4).map(|w| u32::from_le_bytes(w.try_into().unwrap()));
    Recorded {
        words: words.collect(),
        launch,
        report,
    }
}

impl Recorded {
    fn pointer<D: Driver>(&self, client: &Client<D>, parameter: usize) -> u64 {
        let va = get64(self.launch.parameters.as_ref().unwrap(), parameter);
        client.cover(va, 0x2000);
        va
    }

    fn count(&self, parameter: usize) -> u32 {
        crate::client::get32(self.launch.parameters.as_ref().unwrap(), parameter)
    }
}

fn floats(values: impl Iterator<Item = f32>) -> Vec<u32> {
    values.map(f32::to_bits).collect()
}

/// Runs a recorded launch after `prepare`, and checks its semaphores.
fn run_recorded(
    name: &str,
    prepare: impl Fn(&Client<InProcess<'_>>, &Recorded),
    check: impl Fn(&Client<InProcess<'_>>, &Recorded),
) {
    let model = model();
    let client = Client::bring_up(InProcess(&model)).unwrap();
    let channel = client.channel(&[0xcbc0, 0xc8b5]).unwrap();
    client.schedule().unwrap();
    let recorded = open_recorded(&client, name);
    let local = client.buffer(0x20_0000, 0x13_0000_0000, false).unwrap();
    let set_up = [client.bind_words(), methods(COMPUTE, 0x790, &high_low(local.va))].concat();
    prepare(&client, &recorded);
    assert!(client.run(&channel, &set_up));
    assert!(
        client.run(&channel, &recorded.words),
        "{name}: {:?} {:?}",
        client.notifier_code(),
        recorded.launch
    );
    check(&client, &recorded);
    for release in &recorded.launch.releases {
        assert_eq!(
            u64::from(client.read_words(release.address.0, 1)[0]),
            release.payload,
            "{name}"
        );
    }
    let report = client.read_words(recorded.report, 1)[0];
    assert_ne!(report, 0, "{name}: the report semaphore is released");
    client.close();
}

#[test]
fn recorded_vadd_adds() {
    run_recorded(
        "vadd",
        |client, r| {
            client.write_words(r.pointer(client, 0), &floats((0..1000u16).map(f32::from)));
            client.write_words(
                r.pointer(client, 8),
                &floats((0..1000u16).map(|n| f32::from(2 * n + 1))),
            );
            client.write_words(r.pointer(client, 16), &[0xeeee_eeee; 1001]);
        },
        |client, r| {
            assert_eq!(r.count(24), 1000);
            let sums = client.read_words(r.pointer(client, 16), 1001);
            assert_eq!(sums[..1000], floats((0..1000u16).map(|n| f32::from(3 * n + 1))));
            assert_eq!(sums[1000], 0xeeee_eeee);
        },
    );
}

#[test]
fn recorded_sums_are_right() {
    for (name, blocks) in [("blocksum", 4usize), ("dynsum", 1)] {
        run_recorded(
            name,
            |client, r| client.write_words(r.pointer(client, 0), &floats((0..1000u16).map(f32::from))),
            |client, r| {
                let n = r.count(16) as usize;
                let part = if blocks == 1 { n } else { 256 };
                let sums = (0..blocks).map(|b| (b * part..n.min((b + 1) * part)).map(|i| i as f32).sum());
                assert_eq!(client.read_words(r.pointer(client, 8), blocks), floats(sums), "{name}");
            },
        );
    }
}

#[test]
fn recorded_localmem_uses_local_memory() {
    run_recorded(
        "localmem",
        |client, r| client.write_words(r.pointer(client, 0), &[5, 7, 1, 2]),
        |client, r| {
            let threads = r.launch.grid[0] * r.launch.block[0];
            let results = client.read_words(r.pointer(client, 8), threads as usize);
            let idx = [5, 7, 1, 2u32];
            for t in 0..threads {
                let mut v = [0u32; 64];
                for i in 0..64u32 {
                    v[((i * 5) & 63) as usize] = i * 7 + t % r.launch.block[0];
                }
                let sum = (0..r.count(16)).fold(0u32, |sum, i| {
                    sum.wrapping_mul(31)
                        .wrapping_add(v[((i + idx[(t & 3) as usize]) & 63) as usize])
                });
                assert_eq!(results[t as usize], sum, "{t}");
            }
        },
    );
}

#[test]
fn recorded_ids_number_the_blocks() {
    run_recorded(
        "ids",
        |client, r| _ = r.pointer(client, 0),
        |client, r| {
            let [gx, gy, gz] = r.launch.grid;
            let [bx, by, bz] = r.launch.block;
            let out = client.read_words(r.pointer(client, 0), (gx * gy * gz * 8) as usize);
            for (n, block) in (0u32..).zip(out.chunks_exact(8)) {
                let position = [n % gx, n / gx % gy, n / gx / gy];
                assert_eq!(block[..2], [bx | by << 10 | bz << 20, gx | gy << 10 | gz << 20]);
                assert_eq!((&block[2..5], block[7]), (&position[..], 0x600d_beef));
            }
        },
    );
}

#[test]
fn recorded_consts_reads_its_banks() {
    let variable = 0x15_0000_0000;
    run_recorded(
        "consts",
        |client, r| {
            r.pointer(client, 0);
            let bank = |n: u32| r.launch.constant_banks.iter().find(|b| b.index == n).unwrap().address.0;
            client.write_words(bank(3), &[11, 22, 33, 44, 55, 66, 77, 88]);
            client.cover(variable, 4);
            client.write_words(bank(4), &[variable as u32, (variable >> 32) as u32]);
            client.write_words(variable, &[1234]);
        },
        |client, r| {
            let threads = r.launch.block[0];
            let out = client.read_words(r.pointer(client, 0), threads as usize);
            for (n, value) in (0u32..).zip(out) {
                assert_eq!(value, 11 * (n % 8 + 1) + 1);
            }
            assert_eq!(client.read_words(variable, 1), [1234 + r.launch.grid[0] * threads]);
        },
    );
}

#[test]
fn recorded_bigparam_unpacks_its_parameters() {
    run_recorded(
        "bigparam",
        |client, r| _ = r.pointer(client, 0),
        |client, r| {
            let bytes = r.launch.parameters.clone().unwrap();
            let out = client.read_words(r.pointer(client, 0), 7);
            let d = f64::from_bits(get64(&bytes, 24)) as u32;
            let expected = [
                r.count(8),
                r.count(12),
                r.count(16),
                u32::from(u16::from_le_bytes([bytes[20], bytes[21]])),
                u32::from(bytes[22]),
                d,
                0x600d_beef,
            ];
            assert_eq!(out, expected);
        },
    );
}

const DATA: u64 = 0x11_0000_0000;

/// A launch of `vadd` over `n` numbers at `DATA + 0x100000`.
fn vadd(n: u32) -> Launch {
    let mut parameters = vec![0; 28];
    for (offset, va) in [(0, 0x10_0000), (8, 0x11_0000), (16, 0x12_0000)] {
        put64(&mut parameters, offset, DATA + va);
    }
    put32(&mut parameters, 24, n);
    Launch {
        program: DATA + 0x8000,
        grid: [4, 1, 1],
        block: [256, 1, 1],
        parameters,
        release: Some((DATA + 0x3000, 0x77)),
        ..Launch::new(DATA)
    }
}

fn with_client(test: impl Fn(&Client<InProcess<'_>>, &crate::client::Channel)) {
    let model = model();
    let client = Client::bring_up(InProcess(&model)).unwrap();
    let channel = client.channel(&[0xcbc0, 0xc8b5]).unwrap();
    client.schedule().unwrap();
    client.buffer(0x20_0000, DATA, false).unwrap();
    load_code(&client, DATA + 0x8000, &kernel_code("vadd"));
    client.write_words(DATA + 0x10_0000, &floats((0..1000u16).map(f32::from)));
    client.write_words(DATA + 0x11_0000, &floats((0..1000u16).map(f32::from)));
    assert!(client.run(&channel, &client.bind_words()));
    test(&client, &channel);
    assert_eq!(client.notifier_code(), None);
    client.close();
}

fn doubles(client: &Client<InProcess<'_>>) -> bool {
    client.read_words(DATA + 0x12_0000, 1000) == floats((0..1000u16).map(|n| f32::from(2 * n)))
}

#[test]
fn descriptor_by_address_runs_and_releases() {
    with_client(|client, channel| {
        assert!(client.run(channel, &vadd(1000).write(client)));
        assert!(doubles(client));
        assert_eq!(client.read_words(DATA + 0x3000, 2), [0x77, 0]);
    });
}

#[test]
fn inline_descriptor_runs_and_is_written() {
    with_client(|client, channel| {
        let launch = vadd(1000);
        launch.write_bank(client);
        let descriptor = launch.descriptor();
        let words: Vec<u32> = descriptor.chunks_exact(4).map(|w| crate::client::get32(w, 0)).collect();
        let address = DATA + 0x1000;
        let mut push = methods(
            COMPUTE,
            0x318,
            &[1 << 30 | (address >> 40) as u32, (address >> 8) as u32],
        );
        push.extend(methods(COMPUTE, 0x320, &words));
        assert!(client.run(channel, &push));
        assert!(doubles(client));
        assert_eq!(client.read_at(address, 384), descriptor);
    });
}

#[test]
fn cluster_grid_runs() {
    with_client(|client, channel| {
        let launch = Launch { kind: 3, ..vadd(1000) };
        assert!(client.run(channel, &launch.write(client)));
        assert!(doubles(client));
    });
}

#[test]
fn other_versions_and_types_are_ignored() {
    with_client(|client, channel| {
        for (version, kind) in [(3, 2), (4, 0), (4, 1)] {
            let launch = Launch {
                version,
                kind,
                release: None,
                ..vadd(1000)
            };
            assert!(client.run(channel, &launch.write(client)), "{version} {kind}");
            assert_eq!(client.read_words(DATA + 0x12_0000, 2), [0, 0], "{version} {kind}");
        }
    });
}

#[test]
fn rewritten_bank_is_read_again() {
    with_client(|client, channel| {
        assert!(client.run(channel, &vadd(1).write(client)));
        assert_eq!(client.read_words(DATA + 0x12_0000 + 4, 1), [0]);
        assert!(client.run(channel, &vadd(1000).write(client)));
        assert!(doubles(client));
    });
}

#[test]
fn waiting_descriptor_runs_when_its_counter_is_zero() {
    with_client(|client, channel| {
        // The second grid waits for the first one, which decrements its counter.
        let second = Launch {
            base: DATA + 0x4000,
            ..vadd(1000)
        };
        second.write_bank(client);
        let mut waiting = second.descriptor();
        set(&mut waiting, 15, 0, 1);
        client.write_at(second.base + 0x1000, &waiting);
        assert!(client.run(channel, &second.send()));
        assert!(!doubles(client));
        let first = vadd(1);
        first.write_bank(client);
        let mut descriptor = first.descriptor();
        set(&mut descriptor, 368, 368, 1);
        set(&mut descriptor, 371, 369, 4);
        set(&mut descriptor, 479, 448, (second.base + 0x1000) >> 8);
        client.write_at(first.base + 0x1000, &descriptor);
        assert!(client.run(channel, &first.send()));
        assert!(doubles(client));
    });
}

#[test]
fn null_grid_releases_and_schedules() {
    with_client(|client, channel| {
        let grid = Launch {
            base: DATA + 0x4000,
            ..vadd(1000)
        };
        grid.write(client);
        let null = Launch {
            kind: 1,
            release: Some((DATA + 0x3100, 5)),
            ..Launch::new(DATA)
        };
        let mut descriptor = null.descriptor();
        set(&mut descriptor, 368, 368, 1);
        set(&mut descriptor, 371, 369, 1);
        set(&mut descriptor, 479, 448, (grid.base + 0x1000) >> 8);
        client.write_at(null.base + 0x1000, &descriptor);
        assert!(client.run(channel, &null.send()));
        assert_eq!(client.read_words(DATA + 0x3100, 1), [5]);
        assert!(doubles(client));
    });
}
