use super::*;

/// Returns a descriptor with these fields: name, element, value.
fn build(version: QmdVersion, class: u16, fields: &[(&str, u32, u64)]) -> Vec<u8> {
    let layout = QmdLayout::find(version, Some(class)).unwrap();
    let mut bytes = vec![0; layout.bytes()];
    let major = if version.major == 5 { 58 } else { 72 };
    bytes[major] = version.major << 4 | version.minor;
    for (name, element, value) in fields {
        let field = layout.field(name).unwrap_or_else(|| panic!("{version} has no {name}"));
        for bit in 0..field.bits() {
            let at = (field.low + field.stride * element + bit) as usize;
            bytes[at / 8] |= ((value >> bit & 1) as u8) << (at % 8);
        }
    }
    bytes
}

fn version(major: u8, minor: u8) -> QmdVersion {
    QmdVersion { major, minor }
}

#[test]
fn older_versions_have_other_names() {
    for (v, class) in [
        (version(2, 2), 0xc3c0),
        (version(2, 3), 0xc5c0),
        (version(2, 4), 0xc6c0),
        (version(3, 0), 0xc7c0),
    ] {
        let fields = [
            ("CTA_RASTER_WIDTH", 0, 100),
            ("CTA_RASTER_HEIGHT", 0, 2),
            ("CTA_RASTER_DEPTH", 0, 3),
            ("CTA_THREAD_DIMENSION0", 0, 64),
            ("CTA_THREAD_DIMENSION1", 0, 4),
            ("CTA_THREAD_DIMENSION2", 0, 1),
            ("SHARED_MEMORY_SIZE", 0, 0x800),
            ("REGISTER_COUNT_V", 0, 255),
            ("BARRIER_COUNT", 0, 1),
            ("SHADER_LOCAL_MEMORY_LOW_SIZE", 0, 0x10),
            ("SHADER_LOCAL_MEMORY_HIGH_SIZE", 0, 0x20),
            ("PROGRAM_ADDRESS_LOWER", 0, 0x1000),
            ("PROGRAM_ADDRESS_UPPER", 0, 0x7f),
            ("CONSTANT_BUFFER_VALID", 3, 1),
            ("CONSTANT_BUFFER_ADDR_LOWER", 3, 0x4000),
            ("CONSTANT_BUFFER_ADDR_UPPER", 3, 1),
            ("CONSTANT_BUFFER_SIZE_SHIFTED4", 3, 0x16),
            ("RELEASE1_ADDRESS_LOWER", 0, 0x8000),
            ("RELEASE1_ADDRESS_UPPER", 0, 2),
            ("RELEASE1_STRUCTURE_SIZE", 0, 1),
        ];
        let mut fields = fields.to_vec();
        match v.major {
            2 => fields.extend([("SEMAPHORE_RELEASE_ENABLE1", 0, 1), ("RELEASE1_PAYLOAD", 0, 9)]),
            _ => fields.extend([("RELEASE1_ENABLE", 0, 1), ("RELEASE1_PAYLOAD_LOWER", 0, 9)]),
        }
        let bytes = build(v, class, &fields);
        let qmd = Qmd::parse(&bytes, Some(class)).unwrap();
        assert_eq!((qmd.version(), qmd.kind()), (v, QmdKind::Grid));
        assert_eq!((qmd.grid(), qmd.block()), (Some([100, 2, 3]), Some([64, 4, 1])));
        assert_eq!((qmd.shared_bytes(), qmd.registers()), (Some(0x800), Some(255)));
        assert_eq!((qmd.barriers(), qmd.local_bytes()), (Some(1), Some([0x10, 0x20])));
        assert_eq!(
            (qmd.program_address(), qmd.cluster()),
            (Some(GpuVa(0x7f_0000_1000)), None)
        );
        let banks: Vec<ConstantBank> = qmd.constant_banks().collect();
        let bank = ConstantBank {
            index: 3,
            address: GpuVa(0x1_0000_4000),
            bytes: 0x160,
            invalidate: false,
        };
        assert_eq!(banks, [bank], "{v}");
        let release = Release {
            index: 1,
            address: GpuVa(0x2_0000_8000),
            payload: 9,
            words: 1,
            reduction: None,
        };
        assert_eq!(qmd.releases().collect::<Vec<_>>(), [release], "{v}");
        assert_eq!(qmd.dependents().count(), 0, "{v}");
    }
}

#[test]
fn version_5_has_shifted_fields() {
    let fields = [
        ("QMD_TYPE", 0, 3),
        ("GRID_WIDTH", 0, 8),
        ("GRID_HEIGHT", 0, 1),
        ("GRID_DEPTH", 0, 1),
        ("GPC_CGA_WIDTH", 0, 2),
        ("GPC_CGA_HEIGHT", 0, 1),
        ("GPC_CGA_DEPTH", 0, 1),
        ("SHARED_MEMORY_SIZE_SHIFTED7", 0, 8),
        ("SHADER_LOCAL_MEMORY_HIGH_SIZE_SHIFTED4", 0, 0x64),
        ("PROGRAM_ADDRESS_LOWER_SHIFTED4", 0, 0x1234),
        ("PROGRAM_ADDRESS_UPPER_SHIFTED4", 0, 1),
        ("CONSTANT_BUFFER_VALID", 0, 1),
        ("CONSTANT_BUFFER_ADDR_LOWER_SHIFTED6", 0, 0x10),
        ("CONSTANT_BUFFER_SIZE_SHIFTED4", 0, 0x40),
        ("RELEASE_ENABLE", 2, 1),
        ("RELEASE_REDUCTION_ENABLE", 2, 1),
        ("RELEASE_REDUCTION_OP", 2, 2),
        ("RELEASE_SEMAPHORE2_PAYLOAD_UPPER", 0, 1),
        ("DEPENDENT_QMD1_ENABLE", 0, 1),
        ("DEPENDENT_QMD1_ACTION", 0, 1),
        ("DEPENDENT_QMD1_POINTER", 0, 0x20),
    ];
    let bytes = build(version(5, 0), 0xcdc0, &fields);
    let qmd = Qmd::parse(&bytes, None).unwrap();
    assert_eq!((qmd.kind(), qmd.cluster()), (QmdKind::ClusterGrid, Some([2, 1, 1])));
    assert_eq!(qmd.grid(), Some([16, 1, 1]), "the descriptor counts clusters");
    assert_eq!((qmd.shared_bytes(), qmd.local_bytes()), (Some(0x400), Some([0, 0x640])));
    assert_eq!(qmd.program_address(), Some(GpuVa(0x10_0001_2340)));
    let bank = qmd.constant_banks().next().unwrap();
    assert_eq!((bank.address, bank.bytes), (GpuVa(0x400), 0x400));
    let release = qmd.releases().next().unwrap();
    assert_eq!((release.index, release.payload, release.words), (2, 1 << 32, 4));
    assert_eq!(release.reduction, Some("RED_MAX"));
    let dependent = qmd.dependents().next().unwrap();
    assert_eq!((dependent.index, dependent.address), (1, GpuVa(0x2000)));
    assert_eq!(dependent.action, Some("QMD_SCHEDULE"));
}

#[test]
fn oldest_version_schedules_one_dependent() {
    let fields = [
        ("DEPENDENT_QMD_SCHEDULE_ENABLE", 0, 1),
        ("DEPENDENT_QMD_POINTER", 0, 0x20),
    ];
    let bytes = build(version(2, 2), 0xc3c0, &fields);
    let qmd = Qmd::parse(&bytes, None).unwrap();
    let dependent = Dependent {
        index: 0,
        address: GpuVa(0x2000),
        action: Some("QMD_SCHEDULE"),
    };
    assert_eq!(qmd.dependents().collect::<Vec<_>>(), [dependent]);
}

#[test]
fn damaged_descriptors_are_errors() {
    let bytes = build(version(4, 0), 0xcbc0, &[]);
    let error = Qmd::parse(&bytes[..383], None).unwrap_err();
    assert_eq!(error.to_string(), "the descriptor has 383 bytes; V04_00 has 384");
    let error = Qmd::parse(&bytes[..70], None).unwrap_err();
    assert_eq!(error.to_string(), "the descriptor has 70 bytes; each version has 256");
    let error = Qmd::parse(&[0; 256], None).unwrap_err();
    assert_eq!(error.to_string(), "byte 72: the descriptor's version V00_00 is unknown");
}
