//! Fuzz targets for what NVIDIA's drivers send to a GPU: push buffers, launch descriptors, arguments of ioctls.

use crate::input::Input;
use nvidia_channel::command::Command;
use nvidia_channel::gpfifo::GpfifoEntry;
use nvidia_channel::memory::{MemoryReader, NoMemory};
use nvidia_channel::push_buffer::PushBuffer;
use nvidia_channel::qmd::Qmd;
use nvidia_channel::rm::{DeviceFile, DriverBranch, decode_allocation, decode_argument, decode_control, find_status};
use nvidia_channel::{Bindings, CommandReader, GpuVa};

/// Compute classes of the inputs.
pub const CLASSES: [u16; 8] = [0xc3c0, 0xc5c0, 0xc6c0, 0xc7c0, 0xc9c0, 0xcbc0, 0xcdc0, 0xcec0];

/// Memory that holds the input itself, again and again.
struct Repeated<'a>(&'a [u8]);

impl MemoryReader for Repeated<'_> {
    fn read(&self, address: GpuVa, out: &mut [u8]) -> bool {
        let Some(start) = usize::try_from(address.0)
            .ok()
            .and_then(|a| a.checked_rem(self.0.len()))
        else {
            return false;
        };
        for (byte, from) in out.iter_mut().zip(self.0.iter().cycle().skip(start)) {
            *byte = *from;
        }
        true
    }
}

/// Fuzzes a push buffer on a channel with a compute and a copy engine. The first byte selects the class of the compute
/// engine, and whether other memory is known. Every method before damage is read, and what commands say about
/// themselves is true. The input is accepted if it has a command and no damage.
pub fn push_buffer(data: &[u8]) -> bool {
    let mut input = Input(data);
    let select = usize::from(input.u8());
    let bytes = input.0;
    let class = CLASSES[select % CLASSES.len()];
    let repeated = Repeated(bytes);
    let memory: &dyn MemoryReader = if select & 0x80 == 0 { &NoMemory } else { &repeated };
    let mut bindings = Bindings::new(0xc86f).with(1, class).with(4, 0xc8b5);
    let mut reader = CommandReader::new();
    let (mut commands, mut sound) = (Vec::new(), true);
    for method in PushBuffer::new(bytes).methods(&mut bindings) {
        match method {
            Ok(method) => {
                let word = PushBuffer::new(bytes).word(method.word);
                assert!(word.is_some(), "a method is beyond the words");
                if let Some(named) = method.named() {
                    assert_eq!(named.fields(method.value).count(), named.info.fields.len());
                }
                commands.extend(reader.read(&method, memory));
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                sound = false;
            }
        }
    }
    commands.extend(reader.finish());
    for command in &commands {
        match command {
            Command::Upload(upload) => {
                let all = u64::from(upload.line_bytes) * u64::from(upload.lines);
                assert_eq!(upload.bytes.len() as u64 + upload.missing_bytes, all);
            }
            Command::Launch(launch) => {
                let qmd = Qmd::parse(&launch.descriptor, Some(launch.class));
                assert_eq!(qmd.map(|q| q.version()), Ok(launch.version));
            }
            Command::UnreadableLaunch(error) => assert!(!error.to_string().is_empty()),
            Command::Copy(copy) => _ = (copy.bytes(), copy.fill_pattern()),
            Command::Semaphore(semaphore) => _ = semaphore.operation.to_string(),
        }
    }
    sound && !commands.is_empty()
}

/// Fuzzes a launch descriptor. The first byte selects the class; 0 stands for an unknown one. The input is accepted if
/// its version is known.
pub fn qmd(data: &[u8]) -> bool {
    let mut input = Input(data);
    let class = usize::from(input.u8())
        .checked_sub(1)
        .map(|n| CLASSES[n % CLASSES.len()]);
    let Ok(qmd) = Qmd::parse(input.0, class) else {
        return false;
    };
    let elements: usize = qmd.layout().fields().iter().map(|f| f.count as usize).sum();
    assert_eq!(qmd.fields().count(), elements, "a field is missing");
    for value in qmd.fields() {
        assert!(!value.to_string().is_empty());
    }
    assert!(qmd.constant_banks().count() <= 8 && qmd.releases().count() <= 3 && qmd.dependents().count() <= 3);
    let _ = (
        qmd.grid(),
        qmd.block(),
        qmd.cluster(),
        qmd.shared_bytes(),
        qmd.local_bytes(),
    );
    let _ = (
        qmd.registers(),
        qmd.barriers(),
        qmd.program_address(),
        qmd.kind().to_string(),
    );
    true
}

/// Fuzzes the argument of an ioctl, the parameters of an allocation or of a control command, or a ring entry: branch,
/// kind, request, argument. The input is accepted if it is decoded.
pub fn ioctl(data: &[u8]) -> bool {
    let mut input = Input(data);
    let branch = DriverBranch::ALL[usize::from(input.u8()) % DriverBranch::ALL.len()];
    let (kind, request) = (input.u8(), input.u32());
    let bytes = input.0;
    let argument = match kind {
        0 => decode_argument(branch, DeviceFile::Rm, request, bytes),
        1 => decode_argument(branch, DeviceFile::Uvm, request, bytes),
        2 => decode_allocation(branch, request, bytes),
        3 => decode_control(branch, request, bytes),
        _ => {
            let entry = GpfifoEntry::decode(input.u64());
            assert_eq!(entry.encode().map(GpfifoEntry::decode), Some(entry));
            return true;
        }
    };
    match argument {
        Ok(argument) => {
            let structs = bytes.len().checked_div(argument.structure.bytes).unwrap_or(0);
            assert_eq!(argument.values.len(), structs * argument.structure.fields.len());
            assert!(argument.values.iter().all(|v| !v.value.to_string().is_empty()));
            let _ = argument.status().and_then(find_status);
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}
