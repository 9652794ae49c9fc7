//! Tests that any bytes decode or give an error, and never panic; and that what is encoded decodes to the same.

use nvidia_channel::command::Command;
use nvidia_channel::gpfifo::{GpfifoEntry, MAX_SEGMENT_WORDS, Segment};
use nvidia_channel::header::{Advance, Header, HeaderForm, MAX_COUNT, MAX_OLD_COUNT};
use nvidia_channel::memory::{MemoryReader, NoMemory};
use nvidia_channel::push_buffer::PushBuffer;
use nvidia_channel::qmd::{Qmd, QmdKind, QmdLayout};
use nvidia_channel::rm::{DeviceFile, DriverBranch, RequestCode, decode_allocation, decode_argument, decode_control};
use nvidia_channel::{Bindings, ClassTable, CommandReader, GpuVa};
use proptest::prelude::*;

/// Memory whose bytes depend on their address.
struct EveryByte(u8);

impl MemoryReader for EveryByte {
    fn read(&self, address: GpuVa, out: &mut [u8]) -> bool {
        for (n, byte) in out.iter_mut().enumerate() {
            *byte = (address.0 as u8).wrapping_mul(self.0).wrapping_add(n as u8);
        }
        // Descriptors need a version that exists.
        if let Some(version) = out.get_mut(72) {
            *version = [0x22, 0x30, 0x40, 0x50][usize::from(self.0 % 4)];
        }
        true
    }
}

/// Generates a header of methods that engines know.
fn header() -> impl Strategy<Value = u32> {
    let method = prop::sample::select(vec![
        0u32, 0x10, 0x5c, 0x6c, 0x158, 0x168, 0x180, 0x188, 0x1b0, 0x1b4, 0x1dc, 0x240, 0x2b4, 0x2bc, 0x2c0, 0x300,
        0x318, 0x320, 0x400, 0x418, 0x700, 0x1b00,
    ]);
    (
        prop::sample::select(vec![1u32, 3, 4, 5]),
        0u32..9,
        prop::sample::select(vec![0u32, 1, 4]),
        method,
    )
        .prop_map(|(operation, count, subchannel, method)| {
            operation << 29 | count << 16 | subchannel << 13 | (method / 4)
        })
}

/// Generates words, many of which are headers.
fn words() -> impl Strategy<Value = Vec<u32>> {
    let small = prop::sample::select(vec![0u32, 1, 2, 3, 9, 10, 0x41, 0x182, 0xcbc0, 0xc8b5, 0xc7c0, 0x200]);
    prop::collection::vec(prop_oneof![4 => header(), 4 => small, 1 => any::<u32>()], 0..120)
}

fn to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_le_bytes()).collect()
}

/// Reads a push buffer and checks what its commands promise.
fn read(bytes: &[u8], class: u16, memory: &dyn MemoryReader) {
    let mut bindings = Bindings::new(0xc86f).with(1, class).with(4, 0xc8b5);
    let mut reader = CommandReader::new();
    let mut commands = Vec::new();
    for method in PushBuffer::new(bytes).methods(&mut bindings) {
        let Ok(method) = method else {
            break;
        };
        assert!(method.word * 4 + 4 <= bytes.len());
        if let Some(named) = method.named() {
            assert!(!named.to_string().is_empty());
            assert!(named.fields(method.value).all(|f| f.value <= u64::from(method.value)));
        }
        commands.extend(reader.read(&method, memory));
    }
    commands.extend(reader.finish());
    for command in commands {
        match command {
            Command::Upload(upload) => {
                let all = u64::from(upload.line_bytes) * u64::from(upload.lines);
                assert_eq!(upload.bytes.len() as u64 + upload.missing_bytes, all);
            }
            Command::Launch(launch) => {
                let qmd = Qmd::parse(&launch.descriptor, Some(launch.class)).unwrap();
                assert_eq!((qmd.version(), qmd.kind()), (launch.version, launch.kind));
                assert!(launch.parameters.is_none_or(|p| p.len() <= launch.bank_0.len()));
            }
            Command::UnreadableLaunch(error) => assert!(!error.to_string().is_empty()),
            Command::Copy(copy) => _ = (copy.bytes(), copy.fill_pattern()),
            Command::Semaphore(semaphore) => _ = semaphore.operation.to_string(),
        }
    }
}

proptest! {
    #[test]
    fn any_push_buffer_is_read(words in words(), odd in 0usize..4, factor in any::<u8>()) {
        let mut bytes = to_bytes(&words);
        bytes.truncate(bytes.len().saturating_sub(odd));
        for class in [0xc3c0, 0xc7c0, 0xcbc0, 0xcec0] {
            read(&bytes, class, &NoMemory);
            read(&bytes, class, &EveryByte(factor));
        }
    }

    #[test]
    fn any_bytes_are_a_push_buffer_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let runs: Vec<_> = PushBuffer::new(&bytes).runs().collect();
        // Only the last one may be an error.
        prop_assert!(runs.iter().rev().skip(1).all(Result::is_ok));
        read(&bytes, 0xcbc0, &NoMemory);
    }

    #[test]
    fn headers_decode_to_what_was_encoded(
        advance in prop::sample::select(vec![Advance::Each, Advance::Once, Advance::Never]),
        old in any::<bool>(),
        subchannel in 0u8..8,
        method in 0u16..0x1000,
        count in 0..=MAX_COUNT,
        kind in 0..6,
    ) {
        let old = old && advance != Advance::Once;
        let (form, method) = match old {
            true => (HeaderForm::Old, method % 0x800 * 4),
            false => (HeaderForm::New, method * 4),
        };
        let header = match kind {
            0 => Header::Immediate { subchannel, method, value: count },
            1 => Header::SetSubdeviceMask(count & 0xfff),
            2 => Header::StoreSubdeviceMask(count & 0xfff),
            3 => Header::EndOfSegment,
            4 => Header::UseSubdeviceMask,
            _ => Header::Methods {
                advance,
                form,
                subchannel,
                method,
                count: if old { count & MAX_OLD_COUNT } else { count },
            },
        };
        let word = header.encode().unwrap();
        // A header of no methods at address 0 is the word 0.
        let expected = if word == 0 { Header::Nop } else { header };
        prop_assert_eq!(Header::decode(word), Ok(expected));
    }

    #[test]
    fn any_header_word_is_stable(word in any::<u32>()) {
        if let Ok(header) = Header::decode(word) {
            let again = header.encode().map(Header::decode);
            // Unused bits are lost, and a header without content is the word 0.
            prop_assert!(again == Some(Ok(header)) || again == Some(Ok(Header::Nop)));
        }
    }

    #[test]
    fn entries_decode_to_what_was_encoded(
        address in 0u64..1 << 38,
        words in 1..=MAX_SEGMENT_WORDS,
        flags in any::<[bool; 4]>(),
        entry in any::<u64>(),
    ) {
        let [conditional, privileged, subroutine, wait] = flags;
        let segment = Segment { address: GpuVa(address * 4), words, conditional, privileged, subroutine, wait };
        let encoded = GpfifoEntry::Segment(segment).encode().unwrap();
        prop_assert_eq!(GpfifoEntry::decode(encoded), GpfifoEntry::Segment(segment));
        let any = GpfifoEntry::decode(entry);
        prop_assert_eq!(any.encode().map(GpfifoEntry::decode), Some(any));
    }

    #[test]
    fn any_descriptor_is_read_or_an_error(
        mut bytes in prop::collection::vec(any::<u8>(), 0..400),
        version in prop::sample::select(vec![0x22u8, 0x23, 0x24, 0x30, 0x40, 0x41, 0x50, 0x51, 0x99]),
        class in prop::option::of(prop::sample::select(vec![0xc3c0u16, 0xc7c0, 0xcbc0, 0xcec0, 0x1234])),
    ) {
        let at = if version >> 4 == 5 { 58 } else { 72 };
        if let Some(byte) = bytes.get_mut(at) {
            *byte = version;
        }
        match Qmd::parse(&bytes, class) {
            Ok(qmd) => {
                let fields: usize = qmd.layout().fields().iter().map(|f| f.count as usize).sum();
                prop_assert_eq!(qmd.fields().count(), fields);
                prop_assert!(qmd.constant_banks().count() <= 8);
                prop_assert!(qmd.releases().count() <= 3 && qmd.dependents().count() <= 3);
                // Version 5.1 has several grids.
                let single = qmd.version() != QmdLayout::all().map(QmdLayout::version).max().unwrap();
                prop_assert_eq!(qmd.block().is_some(), single);
                // A grid of clusters can have more blocks than a number of 32 bits holds.
                let fits = qmd.kind() != QmdKind::ClusterGrid || qmd.grid().is_some();
                prop_assert_eq!(qmd.grid().is_some(), single && fits);
                prop_assert_eq!(qmd.program_address().is_some(), single);
            }
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn any_argument_is_decoded_or_an_error(
        number in any::<u32>(),
        bytes in prop::collection::vec(any::<u8>(), 0..700),
        class in prop::sample::select(vec![0x40u32, 0x80, 0x90f1, 0xc86f, 0xcbc0, 0x1234]),
    ) {
        for branch in DriverBranch::ALL {
            let code = RequestCode { number: number as u8, bytes: bytes.len() as u16 }.encode().unwrap();
            for (file, request) in [(DeviceFile::Rm, code), (DeviceFile::Rm, number), (DeviceFile::Uvm, number & 0x7f)] {
                if let Ok(argument) = decode_argument(branch, file, request, &bytes) {
                    prop_assert!(argument.values.iter().all(|v| !v.value.to_string().is_empty()));
                }
            }
            let _ = decode_allocation(branch, class, &bytes);
            let _ = decode_control(branch, number, &bytes);
        }
    }

    #[test]
    fn any_method_has_at_most_one_name(class in any::<u16>(), method in any::<u16>(), value in any::<u32>()) {
        let classes: Vec<u16> = ClassTable::all().map(ClassTable::number).collect();
        let table = ClassTable::find(class);
        prop_assert_eq!(table.is_some(), classes.contains(&class));
        for class in classes {
            if let Some(named) = ClassTable::find(class).and_then(|t| t.method(method)) {
                prop_assert!(named.fields(value).count() == named.info.fields.len());
            }
        }
    }
}
