//! The table of models, with the source of each value.
//!
//! - Products, tile-buffer sizes and anisotropic filters: Mesa's model table (`src/panfrost/model/pan_model.c`,
//!   Copyright 2019 Collabora, Ltd., MIT).
//! - Differences of the shader cores: the quirks of Mesa's compiler (`src/panfrost/compiler/bi_quirks.h`, MIT). Widths
//!   of subgroups and threads of a core: `src/panfrost/lib/pan_props.c` (MIT).
//! - Set-up of units: the features and start of Linux' panfrost driver (`panfrost_features.h`, `panfrost_gpu.c`) and the
//!   feature lists of Arm's kernel driver.
//! - Formats of page tables: panfrost drives each of these models with the LPAE format. Arm's driver drives each of
//!   them with the AArch64 format, as the published recordings of a G71 show.
//! - Register values of a chip: the published recordings of a HiKey960 (G71), and boot messages of panfrost, which
//!   name the chip in the comment of each model.

use super::{GpuModel, SetupFeatures, TileBuffer};
use crate::recording::MmuFormat;

/// All models, in the order in which a user sees them.
pub static MODELS: [GpuModel; 6] = [G71, G52, G72, G51, G76, G31];

/// Job types of the three slots: fragment; all but fragment; vertex and compute. Only a G71 is known to have exactly
/// these.
const SLOT_TYPES: [u32; 16] = [0x20e, 0x4fe, 0x7e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

/// Mali-G71 with eight cores, as on a HiKey960 (Kirin 960). All register values are from the published recordings.
pub const G71: GpuModel = GpuModel {
    device_name: "mali-g71",
    name: "Mali-G71",
    gpu_id: 0x60a0_0002,
    warp_width: 4,
    shader_present: 0xff,
    tiler_present: 1,
    l2_present: 1,
    stack_present: 0,
    as_present: 0xff,
    js_present: 7,
    js_features: SLOT_TYPES,
    coherency_at_power_on: 3,
    coherency_after_reset: 2,
    features: &[
        (0x004, 0x0713_0206),
        (0x008, 0),
        (0x00c, 0x809),
        (0x010, 0x101),
        (0x014, 0x2830),
        (0x0a0, 0x180),
        (0x0a4, 0x180),
        (0x0a8, 0x180),
        (0x0ac, 0x0a04_6000),
        (0x0b0, 0xffff_ffff),
        (0x0b4, 0x00ff_0fff),
        (0x0b8, 0xfe3f_ffff),
        (0x0bc, 0),
        (0x310, 0),
    ],
    formats: &MmuFormat::WRITTEN,
    tile_buffer: TileBuffer {
        color_bytes: 4096,
        depth_bytes: 4096,
    },
    has_f32_transcendentals: false,
    has_full_clper: false,
    dot_product_since: None,
    setup: SetupFeatures {
        hashes_thread_storage: false,
        has_vertex_group_size: false,
        forces_coherency: true,
        has_wide_access_limits: false,
    },
    guessed: "",
};

/// Mali-G72 with three cores, as on an MT8183: id with revision r0p3, L2, tiler, memory and MMU features, address
/// spaces, job slots, cores and L2 slices are from a boot message of that chip.
pub const G72: GpuModel = GpuModel {
    device_name: "mali-g72",
    name: "Mali-G72",
    gpu_id: 0x6221_0030,
    shader_present: 0x7,
    features: &[
        (0x004, 0x0712_0206),
        (0x008, 0),
        (0x00c, 0x809),
        (0x010, 0x1),
        (0x014, 0x2830),
        (0x0a0, 0x180),
        (0x0a4, 0x180),
        (0x0a8, 0x180),
        (0x0ac, 0x0a04_6000),
        (0x0b0, 0xffff_ffff),
        (0x0b4, 0x00ff_0fff),
        (0x0b8, 0xfe3f_ffff),
        (0x0bc, 0),
        (0x310, 0),
    ],
    tile_buffer: TileBuffer {
        color_bytes: 8192,
        depth_bytes: 4096,
    },
    has_f32_transcendentals: true,
    setup: SetupFeatures {
        forces_coherency: false,
        ..G71.setup
    },
    guessed: "thread limits but the number of threads, texture formats, job types of each slot, coherency",
    ..G71
};

/// Mali-G52 with two cores, as on an S922X (revision r0p0). L2, tiler, memory and MMU features, address spaces and job
/// slots are those of a boot message of that chip.
pub const G52: GpuModel = GpuModel {
    device_name: "mali-g52",
    name: "Mali-G52",
    gpu_id: 0x7212_0000,
    warp_width: 8,
    shader_present: 0x3,
    tiler_present: 1,
    l2_present: 1,
    stack_present: 0,
    as_present: 0xff,
    js_present: 7,
    js_features: SLOT_TYPES,
    coherency_at_power_on: 1,
    coherency_after_reset: 1,
    features: &[
        (0x004, 0x0711_0206),
        (0x008, 0),
        (0x00c, 0x809),
        (0x010, 0x1),
        (0x014, 0x2830),
        (0x0a0, 0x300),
        (0x0a4, 0x180),
        (0x0a8, 0x180),
        (0x0ac, 0x0a04_6000),
        (0x0b0, 0xffff_ffff),
        (0x0b4, 0x00ff_0fff),
        (0x0b8, 0xfe3f_ffff),
        (0x0bc, 0),
        (0x310, 0),
    ],
    formats: &MmuFormat::WRITTEN,
    tile_buffer: TileBuffer {
        color_bytes: 16384,
        depth_bytes: 8192,
    },
    has_f32_transcendentals: true,
    has_full_clper: true,
    // That the first revision lacks it is not public; it is assumed, so that no shader is sent that may not run.
    dot_product_since: Some(1),
    setup: SetupFeatures {
        hashes_thread_storage: true,
        has_vertex_group_size: true,
        forces_coherency: false,
        has_wide_access_limits: false,
    },
    guessed: "thread limits but the number of threads, texture formats, job types of each slot, coherency",
};

/// Mali-G51 with four cores. No register value of a chip is public but the product number: the others are those of the
/// G52.
pub const G51: GpuModel = GpuModel {
    device_name: "mali-g51",
    name: "Mali-G51",
    gpu_id: 0x7090_0000,
    shader_present: 0xf,
    tile_buffer: TileBuffer {
        color_bytes: 8192,
        depth_bytes: 8192,
    },
    has_full_clper: false,
    dot_product_since: None,
    setup: SetupFeatures {
        hashes_thread_storage: false,
        has_vertex_group_size: false,
        ..G52.setup
    },
    guessed: "every register but the product number in GPU_ID and the number of threads",
    ..G52
};

/// Mali-G76 with sixteen cores, as on a Kirin 990: cores and L2 slices are those that panfrost reports there. The other
/// feature registers are those of the G52.
pub const G76: GpuModel = GpuModel {
    device_name: "mali-g76",
    name: "Mali-G76",
    gpu_id: 0x7211_0000,
    shader_present: 0xffff,
    dot_product_since: Some(0),
    setup: SetupFeatures {
        has_wide_access_limits: true,
        ..G52.setup
    },
    guessed: "L2, tiler, memory and MMU features, thread limits but the number of threads, texture formats, job types \
              of each slot, coherency",
    ..G52
};

/// Mali-G31 with one core, as on an S905X3 or H616 (revision r0p0): L2, tiler, memory and MMU features, address spaces,
/// job slots, cores and L2 slices are from boot messages of these chips. GPU addresses have 33 bits. The number of
/// threads is from a comment in Mesa's table of properties.
pub const G31: GpuModel = GpuModel {
    device_name: "mali-g31",
    name: "Mali-G31",
    gpu_id: 0x7093_0000,
    shader_present: 0x1,
    features: &[
        (0x004, 0x0710_0206),
        (0x008, 0),
        (0x00c, 0x209),
        (0x010, 0x1),
        (0x014, 0x2821),
        (0x0a0, 0x200),
        (0x0a4, 0x180),
        (0x0a8, 0x180),
        (0x0ac, 0x0a04_6000),
        (0x0b0, 0xffff_ffff),
        (0x0b4, 0x00ff_0fff),
        (0x0b8, 0xfe3f_ffff),
        (0x0bc, 0),
        (0x310, 0),
    ],
    tile_buffer: TileBuffer {
        color_bytes: 8192,
        depth_bytes: 8192,
    },
    has_full_clper: false,
    dot_product_since: None,
    setup: SetupFeatures {
        has_vertex_group_size: false,
        has_wide_access_limits: true,
        ..G52.setup
    },
    guessed: "thread limits but the number of threads, texture formats, job types of each slot, coherency",
    ..G52
};
