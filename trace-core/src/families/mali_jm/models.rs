//! Models of Bifrost GPUs with a job manager: the registers that differ between them, and what their shader cores have.
//!
//! Recordings of one model compile for another model of the same group; see [`check_models`].

mod table;

pub use table::{G31, G51, G52, G71, G72, G76, MODELS};

use crate::RegOffset;
use crate::recording::MmuFormat;
use bifrost::Op;

/// Bits of `GPU_ID` that identify a product: major architecture and product number, without revisions.
const PRODUCT: u32 = 0xf00f_0000;
/// Offsets of feature registers with a meaning for plans.
const MMU_FEATURES: u32 = 0x014;
const TILER_FEATURES: u32 = 0x00c;
const THREAD_MAX_THREAD: u32 = 0x0a0;
const THREAD_TLS_ALLOC: u32 = 0x310;
const TEXTURE_FEATURES: [u32; 4] = [0x0b0, 0x0b4, 0x0b8, 0x0bc];

/// Tile-buffer sizes of one shader core, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileBuffer {
    /// For colors.
    pub color_bytes: u32,
    /// For depth and stencil.
    pub depth_bytes: u32,
}

/// Bits of the unit set-up registers that a driver writes on some models only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetupFeatures {
    /// `SHADER_CONFIG` has a bit that hashes thread storage.
    pub hashes_thread_storage: bool,
    /// `JM_CONFIG` has the group size of indexed vertex jobs.
    pub has_vertex_group_size: bool,
    /// `JM_CONFIG` forces the coherency protocols that `COHERENCY_FEATURES` names.
    pub forces_coherency: bool,
    /// `L2_MMU_CONFIG` has limits of outstanding accesses with three bits and not two.
    pub has_wide_access_limits: bool,
}

/// A GPU model with the register values of one chip.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuModel {
    /// Device name: `mali-g71`.
    pub device_name: &'static str,
    /// Common name: `Mali-G71`.
    pub name: &'static str,
    /// Value of `GPU_ID`.
    pub gpu_id: u32,
    /// Number of threads that execute a clause together, which a shader sees as its subgroup.
    pub warp_width: u8,
    /// Existing shader cores, one bit each.
    pub shader_present: u64,
    /// Existing tilers.
    pub tiler_present: u64,
    /// Existing level-2 cache slices.
    pub l2_present: u64,
    /// Existing core stacks.
    pub stack_present: u64,
    /// Existing address spaces, one bit each; at most 16.
    pub as_present: u32,
    /// Existing job slots, one bit each; at most 16.
    pub js_present: u32,
    /// Job types that each slot supports, bit `n` for type `n`.
    pub js_features: [u32; 16],
    /// Coherency protocols that are offered after power-on, before the first reset command.
    ///
    /// Both recordings of a G71 read 3 (ACE-Lite and ACE) before the driver's reset and 2 (ACE) after it. The register
    /// shows the interconnect's protocols until a reset selects the protocol that the GPU was built to use.
    pub coherency_at_power_on: u32,
    /// Coherency protocols that are offered after a reset command.
    pub coherency_after_reset: u32,
    /// Feature registers that never change: offset and value, sorted by offset. Others read as 0.
    pub features: &'static [(u32, u32)],
    /// Formats of page tables that the MMU walks.
    pub formats: &'static [MmuFormat],
    /// Tile buffers of a core.
    pub tile_buffer: TileBuffer,
    /// Whether the cores have reciprocals, square roots, exponents and logarithms of 32-bit floats.
    pub has_f32_transcendentals: bool,
    /// Whether the cores have the full form of `CLPER`, which reads a register of another thread.
    pub has_full_clper: bool,
    /// The first major revision whose cores have the dot product of four bytes, or `None` if no revision has it.
    pub dot_product_since: Option<u8>,
    /// Set-up of its units.
    pub setup: SetupFeatures,
    /// Values that no recording and no public source of this model shows, as text; empty if there are none.
    pub guessed: &'static str,
}

/// Why a recording of one GPU model cannot be compiled for another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelMismatch {
    /// The models have different instruction sets and descriptors.
    #[error("the first runs shaders and descriptors of {recorded}, the second those of {target}")]
    Generations {
        /// Instruction set of the recorded GPU.
        recorded: &'static str,
        /// Instruction set of the target.
        target: &'static str,
    },
    /// Recordings of this generation compile only for their own model.
    #[error("a recording of a GPU with shaders of {generation} compiles only for its own model")]
    OwnModelOnly {
        /// Instruction set of both.
        generation: &'static str,
    },
    /// The values of the registers are not known.
    #[error("the feature registers of the GPU {gpu_id:#010x} are not known")]
    UnknownModel {
        /// Value of `GPU_ID`.
        gpu_id: u32,
    },
}

/// Returns the instruction set of the GPU with this id, in words.
#[must_use]
pub fn shader_generation(gpu_id: u32) -> &'static str {
    let (product, major) = (gpu_id >> 16, gpu_id >> 28);
    match major {
        // The T60x has an id of its own; the other GPUs before Bifrost have a product number of three digits.
        _ if product < 0x1000 || product == 0x6956 => "Midgard",
        6 => "Bifrost's first generation (architecture 6)",
        7 => "Bifrost's second generation (architecture 7)",
        9..=11 => "Valhall",
        _ => "an unknown generation",
    }
}

/// Returns the models of a recorded GPU and of a target, if recordings of the first compile for the second: both are of
/// one generation of Bifrost, and their registers are known. The ids are values of `GPU_ID`.
///
/// # Errors
/// [`ModelMismatch`], the reason.
pub fn check_models(recorded: u32, target: u32) -> Result<(&'static GpuModel, &'static GpuModel), ModelMismatch> {
    let (first, second) = (shader_generation(recorded), shader_generation(target));
    if first != second {
        return Err(ModelMismatch::Generations {
            recorded: first,
            target: second,
        });
    }
    if !first.starts_with("Bifrost") {
        return Err(ModelMismatch::OwnModelOnly { generation: first });
    }
    let find = |gpu_id| GpuModel::for_id(gpu_id).ok_or(ModelMismatch::UnknownModel { gpu_id });
    Ok((find(recorded)?, find(target)?))
}

impl GpuModel {
    /// Returns the model with this `GPU_ID`, whatever its revision.
    #[must_use]
    pub fn for_id(gpu_id: u32) -> Option<&'static Self> {
        MODELS.iter().find(|m| (m.gpu_id ^ gpu_id) & PRODUCT == 0)
    }

    /// Returns the major version of the architecture: 6 or 7.
    #[must_use]
    pub const fn architecture(&self) -> u8 {
        (self.gpu_id >> 28) as u8
    }

    /// Returns the value of a feature register, or 0 if the model does not have it.
    #[must_use]
    pub fn feature(&self, offset: u32) -> u32 {
        let at = self.features.binary_search_by_key(&offset, |f| f.0);
        at.ok().and_then(|n| self.features.get(n)).map_or(0, |f| f.1)
    }

    /// Returns the value of the identity or feature register at an offset. `was_reset` says whether a reset command
    /// was given since power-on. Registers that the model does not have read as 0.
    #[must_use]
    pub fn identity_register(&self, offset: RegOffset, was_reset: bool) -> u32 {
        let offset = offset.get();
        let half = |value: u64| {
            if offset & 4 == 0 {
                value as u32
            } else {
                (value >> 32) as u32
            }
        };
        match offset {
            0x000 => self.gpu_id,
            0x018 => self.as_present,
            0x01c => self.js_present,
            0x0c0..=0x0fc => self
                .js_features
                .get((offset as usize - 0x0c0) / 4)
                .copied()
                .unwrap_or(0),
            0x100 | 0x104 => half(self.shader_present),
            0x110 | 0x114 => half(self.tiler_present),
            0x120 | 0x124 => half(self.l2_present),
            0xe00 | 0xe04 => half(self.stack_present),
            0x300 if was_reset => self.coherency_after_reset,
            0x300 => self.coherency_at_power_on,
            _ => self.feature(offset),
        }
    }

    /// Returns the number of bits of a GPU address.
    #[must_use]
    pub fn va_bits(&self) -> u32 {
        self.feature(MMU_FEATURES) & 0xff
    }

    /// Returns the number of bits of a physical address.
    #[must_use]
    pub fn pa_bits(&self) -> u32 {
        self.feature(MMU_FEATURES) >> 8 & 0xff
    }

    /// Returns the number of hierarchy levels of the tiler.
    #[must_use]
    pub fn tiler_levels(&self) -> u32 {
        self.feature(TILER_FEATURES) >> 8 & 0xf
    }

    /// Returns the texture formats that the GPU reads, one bit each, in four words.
    #[must_use]
    pub fn texture_formats(&self) -> [u32; 4] {
        TEXTURE_FEATURES.map(|offset| self.feature(offset))
    }

    /// Returns the number of threads of a core that thread storage is laid out for.
    #[must_use]
    pub fn storage_threads(&self) -> u32 {
        match self.feature(THREAD_TLS_ALLOC) {
            0 => self.feature(THREAD_MAX_THREAD),
            threads => threads,
        }
    }

    /// Returns the number of core numbers that storage is laid out for: the highest core number plus one.
    #[must_use]
    pub fn core_numbers(&self) -> u32 {
        u64::BITS - self.shader_present.leading_zeros()
    }

    /// Returns the major revision, the `r` of r1p0.
    #[must_use]
    pub fn major_revision(&self) -> u8 {
        (self.gpu_id >> 12 & 0xf) as u8
    }

    /// Returns why the cores do not execute an operation, or `None` if they do.
    ///
    /// The differences between models of one generation are those of Mesa's compiler: see [`MODELS`].
    #[must_use]
    pub fn missing_operation(&self, op: Op) -> Option<&'static str> {
        match op {
            Op::FrcpF32 | Op::FrsqF32 | Op::FexpF32 | Op::FlogdF32 if !self.has_f32_transcendentals => {
                Some("its cores have only tables for these functions of 32-bit floats")
            }
            Op::ClperI32 if !self.has_full_clper => Some("its cores have only the old form of CLPER"),
            Op::ClperOldI32 if self.has_full_clper => Some("its cores have only the new form of CLPER"),
            Op::IdpV4i8 if self.dot_product_since.is_none_or(|since| self.major_revision() < since) => {
                Some("its cores have no dot product of four bytes")
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_compile_within_their_generation_only() {
        for first in &MODELS {
            for second in &MODELS {
                let fits = check_models(first.gpu_id, second.gpu_id);
                assert_eq!(fits.is_ok(), first.architecture() == second.architecture(), "{fits:?}");
            }
        }
        let error = |a, b| check_models(a, b).unwrap_err().to_string();
        assert_eq!(
            error(G71.gpu_id, G52.gpu_id),
            "the first runs shaders and descriptors of Bifrost's first generation (architecture 6), the second those of \
             Bifrost's second generation (architecture 7)"
        );
        // A T860, a T60x, a G57.
        assert!(error(0x0860_0000, G71.gpu_id).contains("Midgard"));
        assert!(error(0x6956_0000, G71.gpu_id).contains("Midgard"));
        assert!(error(G31.gpu_id, 0x9093_0000).contains("Valhall"));
        assert_eq!(
            error(0x9091_0000, 0x9093_0000),
            "a recording of a GPU with shaders of Valhall compiles only for its own model"
        );
        assert_eq!(
            error(0x600f_0000, G71.gpu_id),
            "the feature registers of the GPU 0x600f0000 are not known"
        );
    }

    #[test]
    fn identity_registers_are_those_of_the_model() {
        let at = |m: &GpuModel, offset| m.identity_register(RegOffset::new(offset), true);
        assert_eq!((at(&G72, 0x000), at(&G72, 0x100), at(&G72, 0x104)), (0x6221_0030, 7, 0));
        assert_eq!(
            (at(&G31, 0x004), at(&G31, 0x014), at(&G31, 0x0c4)),
            (0x0710_0206, 0x2821, 0x4fe)
        );
        assert_eq!((at(&G76, 0x100), at(&G76, 0x0a0), at(&G76, 0x3fc)), (0xffff, 0x300, 0));
        assert_eq!(G71.identity_register(RegOffset::new(0x300), false), 3);
        assert_eq!((G31.va_bits(), G31.pa_bits(), G31.tiler_levels()), (33, 40, 2));
        assert_eq!(
            (G76.core_numbers(), G31.storage_threads(), G52.storage_threads()),
            (16, 512, 768)
        );
    }

    #[test]
    fn operations_exist_on_the_models_of_mesa_s_compiler() {
        let lack = |op| {
            let lacking = MODELS.iter().filter(|m| m.missing_operation(op).is_some());
            lacking.map(|m| m.name).collect::<Vec<_>>()
        };
        assert_eq!(lack(Op::FrcpF32), ["Mali-G71"]);
        assert_eq!(lack(Op::ClperI32), ["Mali-G71", "Mali-G72", "Mali-G51", "Mali-G31"]);
        assert_eq!(lack(Op::ClperOldI32), ["Mali-G52", "Mali-G76"]);
        assert_eq!(
            lack(Op::IdpV4i8),
            ["Mali-G71", "Mali-G52", "Mali-G72", "Mali-G51", "Mali-G31"]
        );
        assert!(lack(Op::FmaF32).is_empty());
        let later = GpuModel {
            gpu_id: 0x7402_1000,
            ..G52
        };
        assert_eq!(later.missing_operation(Op::IdpV4i8), None);
    }

    #[test]
    fn features_are_sorted_and_models_are_found_by_any_revision() {
        for m in &MODELS {
            assert!(m.features.windows(2).all(|w| w[0].0 < w[1].0), "{}", m.name);
            assert_eq!(GpuModel::for_id(m.gpu_id | 0x00f0_fff0).map(|f| f.name), Some(m.name));
            assert!(m.as_present < 1 << 16 && m.js_present < 1 << 16);
            assert!(m.shader_present != 0 && m.tiler_present == 1 && m.l2_present != 0);
        }
        assert_eq!(GpuModel::for_id(0x9091_0000), None);
    }
}
