//! Unified memory as a program of CUDA uses it: ranges backed by memory of the resource manager.

use crate::bring_up::{InProcess, model};
use crate::client::{Client, Driver, get32, methods, put, put32, put64};

struct Uvm<'a> {
    driver: InProcess<'a>,
    fd: i32,
}

impl Uvm<'_> {
    /// Makes a request, and returns its status at an offset.
    fn request(&self, request: u64, argument: &mut [u8], status: usize) -> u32 {
        assert_eq!(
            unsafe { self.driver.ioctl(self.fd, request, argument.as_mut_ptr()) },
            0,
            "{request:#x}"
        );
        get32(argument, status)
    }

    fn range(&self, base: u64, bytes: u64) -> u32 {
        let mut argument = [0; 24];
        put64(&mut argument, 0, base);
        put64(&mut argument, 8, bytes);
        self.request(0x49, &mut argument, 16)
    }

    fn map(&self, base: u64, bytes: u64, client: u32, memory: u32) -> u32 {
        let mut argument = vec![0; 9264];
        put64(&mut argument, 0, base);
        put64(&mut argument, 8, bytes);
        put64(&mut argument, 9240, 1);
        put32(&mut argument, 9252, client);
        put32(&mut argument, 9256, memory);
        self.request(0x21, &mut argument, 9260)
    }

    fn free(&self, base: u64, bytes: u64) -> u32 {
        let mut argument = [0; 24];
        put64(&mut argument, 0, base);
        put64(&mut argument, 8, bytes);
        self.request(0x22, &mut argument, 16)
    }
}

#[test]
fn ranges_have_memory_of_the_resource_manager() {
    let model = model();
    let client = Client::bring_up(InProcess(&model)).unwrap();
    let driver = InProcess(&model);
    let uvm = Uvm {
        fd: driver.open("/dev/nvidia-uvm"),
        driver,
    };
    assert_eq!(
        uvm.range(0x20_0000_0000, 0x20_0000),
        0x40,
        "the file is not initialized"
    );
    assert_eq!(uvm.request(0x3000_0001, &mut [0; 16], 8), 0);
    let second = InProcess(&model).open("/dev/nvidia-uvm");
    let mut argument = [0; 8];
    put(&mut argument, 0, &uvm.fd.to_le_bytes());
    let other = Uvm {
        driver: InProcess(&model),
        fd: second,
    };
    assert_eq!(other.request(0x4b, &mut argument, 4), 0);
    let mut space = [0; 32];
    put32(&mut space, 20, client.root);
    put32(&mut space, 24, client.space);
    assert_eq!(uvm.request(0x19, &mut space, 28), 0x40, "the GPU is not registered");
    assert_eq!(uvm.request(0x25, &mut [0; 40], 36), 0);
    assert_eq!(uvm.request(0x19, &mut space, 28), 0);
    let (base, bytes) = (0x20_0000_0000, 0x20_0000);
    let memory = client.memory(bytes, true).unwrap();
    assert_eq!(
        uvm.map(base, bytes, client.root, memory),
        0x1e,
        "the range does not exist"
    );
    assert_eq!(uvm.range(base, bytes), 0);
    assert_eq!(uvm.range(base + 0x1000, bytes), 0x1e, "ranges do not overlap");
    assert_eq!(
        uvm.map(base, 2 * bytes, client.root, memory),
        0x1e,
        "memory fits the range"
    );
    assert_eq!(uvm.map(base, bytes, client.root, memory), 0);
    // The device writes the range.
    let channel = client.channel(&[]).unwrap();
    let mut register = [0; 56];
    put32(&mut register, 20, client.root);
    put32(&mut register, 24, channel.handle);
    assert_eq!(uvm.request(0x1b, &mut register, 48), 0);
    client.schedule().unwrap();
    assert!(client.run(&channel, &methods(0, 0x5c, &[0, 0x20, 7, 0, 1])));
    assert_eq!(uvm.free(base, bytes), 0);
    assert_eq!(uvm.free(base, bytes), 0x1e);
    assert!(!client.run(&channel, &methods(0, 0x5c, &[0, 0x20, 7, 0, 1])));
    assert_eq!(client.notifier_code(), Some(31));
    // A closed file leaves no mappings.
    assert_eq!(
        (uvm.range(base, bytes), uvm.map(base, bytes, client.root, memory)),
        (0, 0)
    );
    let before = model.usage().mappings;
    assert_eq!((uvm.driver.close(uvm.fd), uvm.driver.close(second)), (0, 0));
    assert_eq!(model.usage().mappings, before - 1);
    client.close();
}
