use super::*;

fn bank(parameters: &[u8]) -> ConstantBank0<'_> {
    ConstantBank0 {
        address: GpuVa(0x10_0000),
        block: [8, 4, 2],
        grid: [6, 4, 1],
        cluster: [2, 2, 1],
        shared_window: GpuVa(0x7294_0000_0000),
        local_window: GpuVa(0x7293_0000_0000),
        dynamic_shared_bytes: 5,
        shared_bytes: 0x405,
        reserved_shared_bytes: 0x400,
        launch_number: 9,
        descriptor: GpuVa(0x20_0000),
        sm_count: 132,
        program: GpuVa(0x30_0080),
        parameters,
    }
}

#[test]
fn unwritten_bytes_are_those_that_no_kernel_may_read() {
    let mut with_ones = bank(&[0xff; 100]);
    with_ones.shared_window = GpuVa(u64::MAX);
    with_ones.local_window = GpuVa(u64::MAX);
    with_ones.descriptor = GpuVa(u64::MAX);
    with_ones.program = GpuVa(u64::MAX);
    let bytes = with_ones.to_bytes().unwrap();
    assert_eq!(bytes.len(), 0x300);
    for (at, byte) in bytes.iter().enumerate().take(0x208) {
        if *byte != 0 {
            assert!(is_known_offset(at as u16, 1), "{at:#x}");
        }
    }
    // Unknown fields of the driver, and the work space of grids that synchronize.
    for offset in [0x40, 0x44, 0x48, 0x58, 0x68, 0xc8, 0xd0, 0xd8, 0x1a8, 0x200] {
        assert!(!is_known_offset(offset, 4), "{offset:#x}");
    }
    assert!(is_known_offset(0x208, 8) && is_known_offset(0x210, 8) && is_known_offset(0xfffc, 16));
    assert!(!is_known_offset(0x204, 8), "the first half is unknown");
}

#[test]
fn clusters_divide_the_grid() {
    let bytes = bank(&[]).to_bytes().unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!([word(0x144), word(0x148), word(0x14c)], [2, 2, 1]);
    assert_eq!([word(0x15c), word(0x160), word(0x164)], [3, 2, 1]);
    assert_eq!((f32::from_bits(word(0x150)), word(0x188)), (0.5, 4));
    for cluster in [[4, 1, 1], [0, 1, 1]] {
        let other = ConstantBank0 { cluster, ..bank(&[]) };
        assert!(matches!(other.to_bytes(), Err(BankError::Cluster { .. })));
    }
}

#[test]
fn sizes_are_limited() {
    let large = vec![1; MAX_PARAMETER_BYTES];
    let bytes = bank(&large).to_bytes().unwrap();
    assert_eq!(bytes[0x210..0x210 + large.len()], large);
    assert_eq!(
        bank(&vec![0; MAX_PARAMETER_BYTES + 1]).to_bytes(),
        Err(BankError::ParameterBytes {
            bytes: MAX_PARAMETER_BYTES + 1
        })
    );
    let address = GpuVa(u64::MAX - 0x20f);
    let beyond = ConstantBank0 { address, ..bank(&[1]) };
    assert_eq!(beyond.to_bytes(), Err(BankError::Address { address }));
}
