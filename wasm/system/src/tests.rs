//! Tests of both ends of the memory, and of the tables against the text of the module.

use crate::layout::header;
use crate::{HostFunction, LayoutError, ResultError, Stream, SystemFunction, SystemInputs, SystemLayout, find_export};

fn inputs(arguments: &[Vec<u8>]) -> SystemInputs<'_> {
    SystemInputs {
        arguments,
        standard_input: b"input",
        output_limit: 100,
        ..SystemInputs::default()
    }
}

/// Returns the layout of the tests and its memory before the start.
fn memory() -> (SystemLayout, Vec<u8>) {
    let arguments = [b"tool".to_vec(), b"x".to_vec()];
    let inputs = inputs(&arguments);
    let layout = SystemLayout::new(&inputs, 9, 20, 10, 3).unwrap();
    let mut memory = layout.encode(&inputs).unwrap();
    memory.resize(layout.bytes() as usize, 0);
    (layout, memory)
}

#[test]
fn module_assembles_and_exports_each_call() {
    let text = crate::text(3);
    assert!(text.contains("(memory $own (export \"memory\") 3 3)"));
    for function in SystemFunction::all() {
        assert!(
            text.contains(&format!("(export \"{}\")", function.name)),
            "{}",
            function.name
        );
    }
    assert_eq!(text.matches("(export \"").count(), SystemFunction::all().len() + 3);
    for host in HostFunction::ALL {
        assert!(text.contains(&format!("(import \"{}\" \"{}\"", HostFunction::MODULE, host.name())));
    }
    assert!(crate::assemble(3).unwrap().starts_with(b"\0asm"));
    assert!(crate::assemble(65_537).is_err());
}

#[test]
fn imports_are_found_by_module_and_name() {
    assert_eq!(find_export("wasi_snapshot_preview1", "fd_write"), Some("fd_write"));
    assert_eq!(find_export("wasi_snapshot_preview1", "invoke"), None);
    assert_eq!(find_export("kinescope", "invoke"), Some("invoke"));
    assert_eq!(find_export("kinescope", "fd_write"), None);
    assert_eq!(find_export("env", "serverless_response"), Some("respond"));
    assert_eq!(find_export("env", "respond"), None);
    assert_eq!(find_export("wasi_unstable", "fd_write"), None);
    let wasi = SystemFunction::all()
        .iter()
        .filter(|f| find_export("wasi_snapshot_preview1", f.name).is_some());
    assert_eq!(wasi.count(), 46);
}

#[test]
fn inputs_stand_where_the_header_says() {
    let (layout, memory) = memory();
    let at = |offset: usize| u32::from_le_bytes(memory[offset..offset + 4].try_into().unwrap()) as usize;
    assert_eq!(&memory[..4], b"KWSM");
    assert_eq!(&memory[at(header::ARGUMENTS)..][..7], b"tool\0x\0");
    assert_eq!((at(header::ARGUMENTS + 4), at(header::ARGUMENTS + 8)), (2, 7));
    assert_eq!(&memory[at(header::INPUT)..][..at(header::INPUT_LENGTH)], b"input");
    assert_eq!(at(header::INPUT_CAPACITY), 9);
    assert_eq!(at(header::LOG_CAPACITY), 3);
    assert_eq!(layout.bytes() % 16, 0);
    assert_eq!(layout.pages(), 1);
}

#[test]
fn inputs_that_do_not_fit_are_refused() {
    let (layout, _) = memory();
    let arguments = [b"to\0ol".to_vec()];
    assert_eq!(
        layout.encode(&inputs(&arguments)),
        Err(LayoutError::ZeroByte {
            what: "argument",
            index: 0
        })
    );
    let environment = [(b"A".to_vec(), b"b".to_vec())];
    let larger = SystemInputs {
        environment: &environment,
        ..inputs(&[])
    };
    assert_eq!(
        layout.encode(&larger).unwrap_err().to_string(),
        "the environment has 4 bytes (maximum 0)"
    );
    let larger = SystemInputs {
        standard_input: &[0; 10],
        ..inputs(&[])
    };
    assert_eq!(
        layout.encode(&larger).unwrap_err().to_string(),
        "the input has 10 bytes (maximum 9)"
    );
    assert!(layout.encode_request(&[0; 9]).is_ok());
    assert!(layout.encode_request(&[0; 10]).is_err());
    for bytes in [1 << 31, u64::MAX] {
        let layout = SystemLayout::new(&inputs(&[]), bytes, 0, 0, 0);
        assert!(matches!(layout, Err(LayoutError::MemoryTooLarge(_))), "{bytes}");
    }
}

#[test]
fn damaged_memory_is_an_error() {
    let (layout, good) = memory();
    let empty = layout.read_results(&good).unwrap();
    assert_eq!((empty.calls.len(), empty.lost_calls), (0, 0));
    let put = |offset: usize, value: u32| {
        let mut memory = good.clone();
        memory[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
        memory
    };
    // More calls than entries: the log has its capacity.
    let results = layout.read_results(&put(header::CALLS, 10)).unwrap();
    assert_eq!((results.calls.len(), results.lost_calls), (3, 7));
    let results = layout.read_results(&put(header::CALLS + 4, 1)).unwrap();
    assert_eq!(results.lost_calls, (1 << 32) - 3);
    for offset in [
        header::MAGIC,
        header::VERSION,
        header::OUTPUT + 8,
        header::ERROR_OUTPUT + 8,
    ] {
        let error = layout.read_results(&put(offset, 1000)).unwrap_err();
        assert!(matches!(error, ResultError::Header { .. }), "{offset}: {error}");
    }
    for length in 0..good.len() {
        let results = layout.read_results(&good[..length]);
        if length < 0x100 {
            assert!(results.is_err(), "{length}");
        }
    }
    let error = layout
        .read_results(&put(header::CALLS, 10)[..good.len() - 1])
        .unwrap_err();
    assert!(matches!(error, ResultError::Truncated { .. }));
    assert_eq!(
        layout
            .read_stream(&put(header::OUTPUT + 8, 20), Stream::Output)
            .unwrap()
            .len(),
        20
    );
}

#[test]
fn errors_of_the_module_have_names() {
    for (number, name) in [
        (0, "success"),
        (8, "EBADF"),
        (21, "EFAULT"),
        (28, "EINVAL"),
        (51, "ENOSPC"),
        (52, "ENOSYS"),
        (70, "ESPIPE"),
        (76, "ENOTCAPABLE"),
    ] {
        assert_eq!(crate::error_name(number), Some(name));
    }
    assert_eq!(crate::error_name(77), None);
}
