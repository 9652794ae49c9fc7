//! Tests of attributes and images: addresses, ranges, loads and stores.

use super::super::testing::Flat;
use super::*;
use proptest::prelude::*;

/// Returns memory with one attribute at 0, its buffer at 64, and the record after it.
fn tables(attribute: [u32; 2], buffer: [u32; 4], record: [u32; 4]) -> Flat {
    let mut m = Flat(vec![0; 8192]);
    m.words(0, &attribute);
    m.words(64, &buffer);
    m.words(80, &record);
    m
}

fn load(m: &mut Flat) -> Result<Attribute, TexError<GpuVa>> {
    Attribute::load(Arch::V6, m, GpuVa::ZERO, GpuVa::new(64), 0)
}

const RGBA8: u32 = (187 << 12 | 0o3210) << 10;

fn image(kind: u32, size: u32) -> Flat {
    tables(
        [RGBA8, 0],
        [kind | 4096, 0, 4, size],
        [32 | 19 << 16, 17 | 1 << 16, if kind == 6 { 2048 } else { 128 }, 2400],
    )
}

#[test]
fn images_of_both_texel_orders_are_addressed() {
    for kind in [5, 6] {
        let mut m = image(kind, 4096);
        let a = load(&mut m).unwrap();
        let Shape::Image { extent, .. } = a.shape else { panic!() };
        assert_eq!(extent, [20, 18, 2]);
        let at = |x: u32, y: u32, z: u32| a.texel(y << 16 | x, z).unwrap();
        let (three_five, second_tile) = if kind == 5 {
            (5 * 128 + 12, 17 * 128 + 18 * 4)
        } else {
            (4 * 0x36, 2048 + 1024 + 4 * 7)
        };
        assert_eq!(at(3, 5, 0), Some(GpuVa::new(4096 + three_five)));
        assert_eq!(
            at(18, 17, 0),
            (second_tile + 4 <= 4096).then_some(GpuVa::new(4096 + second_tile))
        );
        assert_eq!(at(3, 5, 1), Some(GpuVa::new(4096 + 2400 + three_five)));
        for (x, y, z) in [
            (20, 0, 0),
            (0, 18, 0),
            (0, 0, 2),
            (0xffff, 0, 0),
            (0, 0xffff, 0),
            (0, 0, u32::MAX),
        ] {
            assert_eq!(at(x, y, z), None);
        }
        assert!(a.element(0).is_err());
        // A smaller buffer ends the image earlier.
        let mut m = image(kind, 100);
        assert_eq!(load(&mut m).unwrap().texel(17 << 16, 0), Ok(None));
    }
}

#[test]
fn arrays_of_elements_have_ends() {
    let mut m = tables([RGBA8 | 1 << 9, 4], [1 | 4096, 0, 12, 40], [0; 4]);
    let a = load(&mut m).unwrap();
    assert_eq!(
        [a.element(0), a.element(2), a.element(3), a.element(u32::MAX)],
        [
            Ok(Some(GpuVa::new(4100))),
            Ok(Some(GpuVa::new(4124))),
            Ok(None),
            Ok(None)
        ]
    );
    assert!(a.texel(0, 0).is_err());
    let mut m = tables([RGBA8 | 1 << 9, -1i32 as u32], [1 | 4096, 0, 12, 40], [0; 4]);
    assert_eq!(load(&mut m).unwrap().element(0), Ok(None));
    // The offset is used only if its bit is set.
    let mut m = tables([RGBA8, 4], [1 | 4096, 0, 12, 40], [0; 4]);
    assert_eq!(load(&mut m).unwrap().element(0), Ok(Some(GpuVa::new(4096))));
}

#[test]
fn unimplemented_texture_features_are_named() {
    let load_error = |a: [u32; 2], b: [u32; 4], c: [u32; 4]| load(&mut tables(a, b, c)).unwrap_err().to_string();
    assert_eq!(
        load_error([RGBA8, 0], [3, 0, 0, 0], [0; 4]),
        "an attribute buffer with a modulus is not implemented"
    );
    assert_eq!(
        load_error([RGBA8, 0], [0, 0, 0, 0], [0; 4]),
        "the type of an attribute buffer has the value 0x0, which is not implemented"
    );
    assert_eq!(
        load_error([RGBA8, 0], [6, 0, 0, 0], [1; 4]),
        "a continued attribute buffer descriptor has type 1, expected 32"
    );
    assert_eq!(
        load_error([(1 << 12 | 0o3210) << 10, 0], [1, 0, 0, 0], [0; 4]),
        "pixel format 1 (ETC2 RGB8) cannot be loaded or stored as an attribute or image"
    );
    assert_eq!(
        Attribute::load(
            Arch::V6,
            &mut Flat(Vec::new()),
            GpuVa::MAX.wrapping_sub(3),
            GpuVa::ZERO,
            1
        ),
        Err(TexError::Refused(Refusal::Address))
    );
}

#[test]
fn image_loads_convert_and_return_zero_out_of_range() {
    let mut m = image(5, 4096);
    m.bytes(4096, &[255, 0, 51, 102]);
    let a = load(&mut m).unwrap();
    let at = a.texel(0, 0).unwrap();
    let f = a
        .load_from(&mut m, at, Some(RegisterFormat::F32))
        .unwrap()
        .map(f32::from_bits);
    assert_eq!(f, [1.0, 0.0, 0.2, 0.4]);
    assert_eq!(
        a.load_from(&mut m, at, None),
        a.load_from(&mut m, at, Some(RegisterFormat::F32))
    );
    assert_eq!(a.load_from(&mut m, at, Some(RegisterFormat::F16)).unwrap()[0], 0x3c00);
    assert_eq!(a.load_from(&mut m, None, Some(RegisterFormat::F32)), Ok([0; 4]));
    assert!(a.load_from(&mut m, at, Some(RegisterFormat::U32)).is_err());
}

#[test]
fn image_store_uses_three_registers() {
    let mut m = image(5, 4096);
    let a = load(&mut m).unwrap();
    let [low, high, word] = a.reference(a.texel(3 << 16 | 2, 1).unwrap(), Some(RegisterFormat::F32));
    assert_eq!((low, high), (4096 + 2400 + 3 * 128 + 8, 0));
    let c = Conversion::parse(Arch::V6, word).unwrap().unwrap();
    let stored = c.store([1.0f32, 0.5, 2.0, -1.0].map(f32::to_bits), 4).unwrap();
    assert_eq!(stored.bytes(), [255, 128, 255, 0]);
    // Missing components are 0, and alpha is 1.
    assert_eq!(c.store([0; 4], 1).unwrap().bytes(), [0, 0, 0, 255]);
    assert_eq!(a.reference(a.texel(99, 0).unwrap(), None), [0; 3]);
    assert_eq!(Conversion::parse(Arch::V6, 0), Ok(None));
    assert!(Conversion::parse(Arch::V6, word | 1 << 22).is_err());
    assert!(Conversion::parse(Arch::V6, word | 7 << 24).is_err());
}

#[test]
fn integer_stores_saturate_and_reverse_the_channel_order() {
    let c = |index: u32, order: u32, registers| {
        Conversion::word(&PixelFormat::parse(Arch::V6, index << 12 | order).unwrap(), registers)
    };
    let store = |word: u32, v: [u32; 4]| Conversion::parse(Arch::V6, word).unwrap().unwrap().store(v, 4).unwrap();
    let v = store(c(155, 0o3210, RegisterFormat::U32), [300, 1, u32::MAX, 0]);
    assert_eq!(v.bytes(), [255, 1, 255, 0]);
    let v = store(
        c(219, 0o3210, RegisterFormat::S32),
        [300, -300i32 as u32, -1i32 as u32, 5],
    );
    assert_eq!(v.bytes(), [127, 128, 255, 5]);
    let v = store(c(155, 0o3012, RegisterFormat::U32), [1, 2, 3, 4]);
    assert_eq!(v.bytes(), [3, 2, 1, 4]);
    let v = store(c(133, 0o5440, RegisterFormat::U32), [77, 2, 3, 4]);
    assert_eq!(v.bytes(), 77u32.to_le_bytes());
    // Two halves share a register.
    let v = store(c(223, 0o3210, RegisterFormat::F16), [0x4000_3c00, 0x4400_4200, 9, 9]);
    assert_eq!(v.bytes(), [0, 0x3c, 0, 0x40, 0, 0x42, 0, 0x44]);
    let word = c(223, 0o3210, RegisterFormat::F32);
    assert!(
        Conversion::parse(Arch::V6, word | 2 << 24 ^ 1 << 24)
            .unwrap()
            .unwrap()
            .store([0; 4], 4)
            .is_err()
    );
}

proptest! {
    #[test]
    fn arbitrary_attributes_address_within_their_buffer(a in any::<[u32; 2]>(), b in any::<[u32; 4]>(), c in any::<[u32; 4]>(), xy in any::<u32>(), z in any::<u32>(), kind in 0u32..8, near in any::<bool>()) {
        let mut a = a;
        a[0] &= !0x1ff;
        let b = [b[0] & !63 | kind, b[1], b[2], b[3]];
        let c = [c[0] & !63 | 32, c[1], c[2], c[3]];
        let (xy, z) = if near { (xy & 0x00ff_00ff, z & 3) } else { (xy, z) };
        let mut m = tables(a, b, c);
        for arch in [Arch::V6, Arch::V7] {
            let Ok(a) = Attribute::load(arch, &mut m, GpuVa::ZERO, GpuVa::new(64), 0) else { continue };
            for at in [a.element(xy), a.texel(xy, z)].into_iter().flatten().flatten() {
                prop_assert!(at >= a.pointer && at + u64::from(a.format.block().bytes) <= a.pointer + u64::from(a.size));
            }
            let _ = a.load_from(&mut m, Some(GpuVa::new(64)), Some(RegisterFormat::F32));
        }
    }

    #[test]
    fn conversion_stores_the_size_of_its_format(word in any::<u32>(), v in any::<[u32; 4]>(), count in 0u32..6) {
        for arch in [Arch::V6, Arch::V7] {
            if let Ok(Some(c)) = Conversion::parse(arch, word)
                && let Ok(s) = c.store(v, count)
            {
                prop_assert_eq!(s.bytes().len(), c.memory.block().bytes as usize);
            }
        }
    }
}
