//! Errors of channels: faults, damaged push buffers, launches that never end.

use crate::bring_up::{InProcess, model};
use crate::client::{COMPUTE, COPY, Client, get32, get64, high_low, methods, put32};
use crate::launches::{Launch, kernel_code, load_code};
use nvidia_model::{ENDLESS_KERNEL, Model, Settings};
use std::sync::atomic::Ordering;
use std::time::Duration;

const DATA: u64 = 0x11_0000_0000;

/// Returns a launch of the kernel that stores to an address.
fn store_launch(client: &Client<InProcess<'_>>, pointer: u64) -> Vec<u32> {
    let code = load_code(client, DATA + 0x8000, &kernel_code("fault"));
    let launch = Launch {
        program: code,
        grid: [1, 1, 1],
        block: [4, 1, 1],
        parameters: pointer.to_le_bytes().to_vec(),
        ..Launch::new(DATA)
    };
    launch.write(client)
}

/// Brings a client up with a compute channel and a debugger. Returns the debugger too.
fn debugged(model: &Model) -> (Client<InProcess<'_>>, crate::client::Channel, u32) {
    let client = Client::bring_up(InProcess(model)).unwrap();
    let channel = client.channel(&[]).unwrap();
    let compute = client.allocate(channel.handle, 0xcbc0, 0, &mut []).unwrap();
    client.allocate(channel.handle, 0xc8b5, 0, &mut []).unwrap();
    let mut parameters = [0; 12];
    put32(&mut parameters, 4, client.root);
    put32(&mut parameters, 8, compute);
    let debugger = client.allocate(client.device, 0x83de, 0, &mut parameters).unwrap();
    client.schedule().unwrap();
    client.buffer(0x20_0000, DATA, false).unwrap();
    assert!(client.run(&channel, &client.bind_words()));
    (client, channel, debugger)
}

#[test]
fn access_without_memory_is_a_fault_of_the_group() {
    let model = model();
    let (mut client, channel, debugger) = debugged(&model);
    let push = store_launch(&client, 0x7f_0000_0000);
    assert!(!client.run(&channel, &push));
    assert_eq!(client.notifier_code(), Some(31));
    assert_eq!(client.notifier.word(12).load(Ordering::SeqCst), 0xffff_0001);
    assert_ne!(client.notifier.read(0, 8), [0; 8]);
    let mut faults = [0; 72];
    client.command(debugger, 0x83de_0328, &mut faults).unwrap();
    let fault = (get64(&faults, 0), get32(&faults, 8), get32(&faults, 12));
    assert_eq!((fault, get32(&faults, 64)), ((0x7f_0000_0000, 0, 1), 1));
    // Later entries are ignored, and the group cannot be scheduled any more.
    client.notifier.write(0, &[0; 16]);
    assert!(!client.run_for(&channel, &[], Duration::from_millis(30)));
    assert_eq!(client.schedule().unwrap_err().0, 0x40);
    // A new group of the same client works.
    client.new_group().unwrap();
    let second = client.channel(&[0xcbc0, 0xc8b5]).unwrap();
    client.schedule().unwrap();
    assert!(client.run(&second, &client.bind_words()));
    client.close();
}

#[test]
fn misaligned_access_is_an_exception() {
    let model = model();
    let (client, channel, debugger) = debugged(&model);
    let push = store_launch(&client, DATA + 0x1_0002);
    assert!(!client.run(&channel, &push));
    assert_eq!(client.notifier_code(), Some(13));
    let mut states = vec![0; 4824];
    client.command(debugger, 0x83de_030c, &mut states).unwrap();
    let state = &states[8..56];
    assert_eq!(get32(state, 4) & 0xff, 0x0f);
    assert_eq!((get64(state, 24), get64(state, 32)), (DATA + 0x1_0002, DATA + 0x8000));
    client.close();
}

#[test]
fn unknown_code_is_a_fault_at_its_address() {
    let model = model();
    let (client, channel, debugger) = debugged(&model);
    let launch = Launch {
        program: DATA + 0x1_0000,
        ..Launch::new(DATA)
    };
    assert!(!client.run(&channel, &launch.write(&client)));
    assert_eq!(client.notifier_code(), Some(31));
    let mut faults = [0; 72];
    client.command(debugger, 0x83de_0328, &mut faults).unwrap();
    assert_eq!((get64(&faults, 0), get32(&faults, 12)), (DATA + 0x1_0000, 0));
    client.close();
}

#[test]
fn other_sizes_in_the_bank_than_in_the_descriptor_are_an_exception() {
    let model = model();
    let (client, channel, _) = debugged(&model);
    let push = store_launch(&client, DATA + 0x1_0000);
    client.write_words(DATA, &[5]);
    assert!(!client.run(&channel, &push));
    assert_eq!(client.notifier_code(), Some(13));
    client.close();
}

#[test]
fn endless_kernel_blocks_its_channel_until_it_is_freed() {
    let model = model();
    let (client, channel, _) = debugged(&model);
    load_code(&client, DATA + 0x8000, &ENDLESS_KERNEL);
    let launch = Launch {
        program: DATA + 0x8000,
        ..Launch::new(DATA)
    };
    let push = launch.write(&client);
    assert!(!client.run_for(&channel, &push, Duration::from_millis(50)));
    assert_eq!(client.notifier_code(), None);
    client.free(channel.handle).unwrap();
    let second = client.channel(&[]).unwrap();
    client.schedule().unwrap();
    assert!(client.run(&second, &[]));
    client.close();
}

#[test]
fn launches_fail_on_request() {
    for (failure, code) in [
        ("launch:1:hang", None),
        ("launch:1:mmu", Some(31)),
        ("launch:1:misaligned", Some(13)),
    ] {
        let settings = Settings::default().with_failures(failure).unwrap();
        let model = Model::new(settings).unwrap();
        let (client, channel, _) = debugged(&model);
        let push = store_launch(&client, DATA + 0x1_0000);
        assert!(!client.run_for(&channel, &push, Duration::from_millis(50)), "{failure}");
        assert_eq!(client.notifier_code(), code, "{failure}");
        client.close();
    }
}

#[test]
fn damaged_submissions_are_errors() {
    let copy = |physical: u32| {
        let [high, low] = high_low(DATA);
        [
            methods(COPY, 0x400, &[high, low, high, low]),
            methods(COPY, 0x418, &[16]),
            methods(COPY, 0x300, &[0x182 | physical << 12]),
        ]
        .concat()
    };
    for (name, words, code) in [
        ("reserved header", vec![0xc000_0000], 32),
        ("subchannel without class", methods(2, 0x200, &[1]), 32),
        ("class without object", methods(3, 0, &[0xc7c0]), 69),
        ("physical copy", copy(1), 39),
        (
            "upload without memory",
            {
                let mut words = methods(COMPUTE, 0x180, &[4, 1, 0x7f, 0]);
                words.extend(methods(COMPUTE, 0x1b0, &[0x11]));
                words.extend(methods(COMPUTE, 0x1b4, &[1]));
                words
            },
            31,
        ),
        ("semaphore without memory", methods(0, 0x5c, &[0, 0x7f, 1, 0, 1]), 31),
    ] {
        let model = model();
        let (client, channel, _) = debugged(&model);
        assert!(!client.run(&channel, &words), "{name}");
        assert_eq!(client.notifier_code(), Some(code), "{name}");
        client.close();
    }
}

#[test]
fn ring_index_beyond_the_ring_is_an_error() {
    let model = model();
    let (client, channel, _) = debugged(&model);
    client.ring.word(64 * 8 + 0x8c).store(64, Ordering::SeqCst);
    client.registers.word(0x90).store(channel.token, Ordering::SeqCst);
    assert!(client.wait(|| client.notifier_code() == Some(32)));
    client.close();
}
