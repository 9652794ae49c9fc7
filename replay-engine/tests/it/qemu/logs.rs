//! Parser for logs of real drivers. A test replays the logs access by access on a device.

use replay_core::Device as _;
use replay_engine::device::qemu::QemuReplayDevice;
use replay_engine::device::{RegisterTarget, Target};
use std::path::{Path, PathBuf};
use std::process::Command;

/// An access to the device.
struct Access {
    write: bool,
    width: u8,
    window: usize,
    offset: u64,
    value: u64,
}

/// An MMIO region of the device in the log.
struct Bar {
    name: &'static str,
    base: u64,
    bytes: u64,
}

pub struct Log {
    file: PathBuf,
    /// Vendor and device ids.
    pub function: (u16, u16),
    bars: Vec<Bar>,
    accesses: Vec<Access>,
}

#[derive(Debug, PartialEq)]
pub struct ReadMismatch {
    pub window: &'static str,
    pub offset: u64,
    expected: u64,
    got: u64,
}

pub struct LogResult {
    pub reads: u64,
    pub writes: u64,
    pub mismatches: Vec<ReadMismatch>,
}

fn read_gzip(file: &Path) -> Vec<u8> {
    let out = Command::new("gzip").arg("-dc").arg(file).output().unwrap();
    assert!(out.status.success(), "{}", file.display());
    out.stdout
}

impl Log {
    /// Opens the log with this name. Returns `None` and prints the reason if the recordings are missing.
    pub fn open(stem: &str) -> Option<Self> {
        let root = std::env::var_os("KINESCOPE_RECORDINGS").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/recordings"),
            PathBuf::from,
        );
        let file = root.join("mmiotrace").join(format!("{stem}.txt.gz"));
        if !file.exists() {
            println!("skipped: {} is missing", file.display());
            return None;
        }
        Some(Self::read(file))
    }

    fn read(file: PathBuf) -> Self {
        let text = String::from_utf8_lossy(&read_gzip(&file)).into_owned();
        let hex = |word: &str| u64::from_str_radix(word.trim_start_matches("0x"), 16).unwrap();
        // The display is the last device on the bus, in slot 3.
        let device: Vec<&str> = text
            .lines()
            .map(|l| l.split(' ').collect::<Vec<_>>())
            .rfind(|w| w[0] == "PCIDEV" && w[1] == "0018")
            .unwrap();
        let id = hex(device[2]);
        const NAMES: [&str; 6] = ["bar0", "bar1", "bar2", "bar3", "bar4", "bar5"];
        let bars: Vec<Bar> = NAMES
            .into_iter()
            .enumerate()
            .map(|(n, name)| (name, hex(device[4 + n]), hex(device[11 + n])))
            .filter(|(_, base, bytes)| *bytes != 0 && base & 1 == 0)
            .map(|(name, base, bytes)| Bar {
                name,
                base: base & !0xf,
                bytes,
            })
            .collect();
        let access = |line: &str| {
            let w: Vec<&str> = line.split(' ').collect();
            if !matches!(w[0], "R" | "W") {
                return None;
            }
            let at = hex(w[4]);
            let window = bars.iter().position(|b| (b.base..b.base + b.bytes).contains(&at))?;
            Some(Access {
                write: w[0] == "W",
                width: w[1].parse().unwrap(),
                window,
                offset: at - bars[window].base,
                value: hex(w[5]),
            })
        };
        let accesses = text.lines().filter_map(access).collect();
        Self {
            function: ((id >> 16) as u16, id as u16),
            bars,
            accesses,
            file,
        }
    }

    /// Returns the picture that the device showed at the end.
    pub fn picture(&self) -> Vec<u8> {
        let name = self.file.to_str().unwrap().replace(".txt.gz", ".ppm.gz");
        read_gzip(Path::new(&name))
    }

    /// Replays all accesses of the log.
    pub fn play(&self, device: &mut QemuReplayDevice) -> LogResult {
        let windows = device.info().windows;
        let number = |b: &Bar| windows.iter().find(|w| w.name == b.name).unwrap().number;
        let numbers: Vec<u8> = self.bars.iter().map(number).collect();
        let mut result = LogResult {
            reads: 0,
            writes: 0,
            mismatches: Vec::new(),
        };
        for a in &self.accesses {
            let space = numbers[a.window];
            if a.write {
                result.writes += 1;
                let written = device.write(space, a.offset, a.width, a.value);
                written.unwrap_or_else(|e| panic!("{e:?}: {:?}", device.trouble()));
                continue;
            }
            result.reads += 1;
            let got = device.read(space, a.offset, a.width).unwrap();
            if got != a.value {
                result.mismatches.push(ReadMismatch {
                    window: self.bars[a.window].name,
                    offset: a.offset,
                    expected: a.value,
                    got,
                });
            }
        }
        result
    }
}
