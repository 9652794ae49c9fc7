//! `cudaDeviceProp`: the properties of a device in the layouts of CUDA 11, 12 and 13.
//!
//! The offsets are those of a C compiler with the headers of the runtime's packages 12.9 and 13.5 on x86-64.

use crate::pointers::put_bytes;
use crate::{CallResult, devices};
use cuda_driver::{CuDevice, Uuid};
use std::ffi::c_void;

/// Size of the name at the start of the structure, bytes.
const NAME_BYTES: usize = 256;
/// Offset of the device's UUID.
const UUID_OFFSET: usize = 256;
/// Offset of the size of the device's memory.
const MEMORY_OFFSET: usize = 288;

/// Layout of the structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertiesLayout {
    /// CUDA 11, which the plain name has in CUDA 12: the first part of the next one.
    Cuda11,
    /// CUDA 12.
    Cuda12,
    /// CUDA 13.
    Cuda13,
}

impl PropertiesLayout {
    /// Returns the size of the structure, bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::Cuda11 => 728,
            Self::Cuda12 => 1032,
            Self::Cuda13 => 1008,
        }
    }
}

/// A field that holds an attribute of the device.
struct AttributeField {
    /// Number of the attribute.
    attribute: i32,
    /// Offset in CUDA 12, if the field exists there.
    offset_12: Option<usize>,
    /// Offset in CUDA 13, if the field exists there.
    offset_13: Option<usize>,
    /// Whether the field has 64 bits.
    is_wide: bool,
}

impl AttributeField {
    fn offset(&self, layout: PropertiesLayout) -> Option<usize> {
        match layout {
            PropertiesLayout::Cuda11 | PropertiesLayout::Cuda12 => self.offset_12,
            PropertiesLayout::Cuda13 => self.offset_13,
        }
    }
}

const fn word(attribute: i32, offset_12: Option<usize>, offset_13: Option<usize>) -> AttributeField {
    AttributeField {
        attribute,
        offset_12,
        offset_13,
        is_wide: false,
    }
}

const fn size(attribute: i32, offset_12: Option<usize>, offset_13: Option<usize>) -> AttributeField {
    AttributeField {
        attribute,
        offset_12,
        offset_13,
        is_wide: true,
    }
}

/// All fields that hold attributes, with their names in the header.
const FIELDS: [AttributeField; 119] = [
    size(8, Some(296), Some(296)),   // sharedMemPerBlock
    word(12, Some(304), Some(304)),  // regsPerBlock
    word(10, Some(308), Some(308)),  // warpSize
    size(11, Some(312), Some(312)),  // memPitch
    word(1, Some(320), Some(320)),   // maxThreadsPerBlock
    word(2, Some(324), Some(324)),   // maxThreadsDim[0]
    word(3, Some(328), Some(328)),   // maxThreadsDim[1]
    word(4, Some(332), Some(332)),   // maxThreadsDim[2]
    word(5, Some(336), Some(336)),   // maxGridSize[0]
    word(6, Some(340), Some(340)),   // maxGridSize[1]
    word(7, Some(344), Some(344)),   // maxGridSize[2]
    word(13, Some(348), None),       // clockRate
    size(9, Some(352), Some(352)),   // totalConstMem
    word(75, Some(360), Some(360)),  // major
    word(76, Some(364), Some(364)),  // minor
    size(14, Some(368), Some(368)),  // textureAlignment
    size(51, Some(376), Some(376)),  // texturePitchAlignment
    word(15, Some(384), None),       // deviceOverlap
    word(16, Some(388), Some(384)),  // multiProcessorCount
    word(17, Some(392), None),       // kernelExecTimeoutEnabled
    word(18, Some(396), Some(388)),  // integrated
    word(19, Some(400), Some(392)),  // canMapHostMemory
    word(20, Some(404), None),       // computeMode
    word(21, Some(408), Some(396)),  // maxTexture1D
    word(77, Some(412), Some(400)),  // maxTexture1DMipmap
    word(69, Some(416), None),       // maxTexture1DLinear
    word(22, Some(420), Some(404)),  // maxTexture2D[0]
    word(23, Some(424), Some(408)),  // maxTexture2D[1]
    word(73, Some(428), Some(412)),  // maxTexture2DMipmap[0]
    word(74, Some(432), Some(416)),  // maxTexture2DMipmap[1]
    word(70, Some(436), Some(420)),  // maxTexture2DLinear[0]
    word(71, Some(440), Some(424)),  // maxTexture2DLinear[1]
    word(72, Some(444), Some(428)),  // maxTexture2DLinear[2]
    word(45, Some(448), Some(432)),  // maxTexture2DGather[0]
    word(46, Some(452), Some(436)),  // maxTexture2DGather[1]
    word(24, Some(456), Some(440)),  // maxTexture3D[0]
    word(25, Some(460), Some(444)),  // maxTexture3D[1]
    word(26, Some(464), Some(448)),  // maxTexture3D[2]
    word(47, Some(468), Some(452)),  // maxTexture3DAlt[0]
    word(48, Some(472), Some(456)),  // maxTexture3DAlt[1]
    word(49, Some(476), Some(460)),  // maxTexture3DAlt[2]
    word(52, Some(480), Some(464)),  // maxTextureCubemap
    word(42, Some(484), Some(468)),  // maxTexture1DLayered[0]
    word(43, Some(488), Some(472)),  // maxTexture1DLayered[1]
    word(27, Some(492), Some(476)),  // maxTexture2DLayered[0]
    word(28, Some(496), Some(480)),  // maxTexture2DLayered[1]
    word(29, Some(500), Some(484)),  // maxTexture2DLayered[2]
    word(53, Some(504), Some(488)),  // maxTextureCubemapLayered[0]
    word(54, Some(508), Some(492)),  // maxTextureCubemapLayered[1]
    word(55, Some(512), Some(496)),  // maxSurface1D
    word(56, Some(516), Some(500)),  // maxSurface2D[0]
    word(57, Some(520), Some(504)),  // maxSurface2D[1]
    word(58, Some(524), Some(508)),  // maxSurface3D[0]
    word(59, Some(528), Some(512)),  // maxSurface3D[1]
    word(60, Some(532), Some(516)),  // maxSurface3D[2]
    word(61, Some(536), Some(520)),  // maxSurface1DLayered[0]
    word(62, Some(540), Some(524)),  // maxSurface1DLayered[1]
    word(63, Some(544), Some(528)),  // maxSurface2DLayered[0]
    word(64, Some(548), Some(532)),  // maxSurface2DLayered[1]
    word(65, Some(552), Some(536)),  // maxSurface2DLayered[2]
    word(66, Some(556), Some(540)),  // maxSurfaceCubemap
    word(67, Some(560), Some(544)),  // maxSurfaceCubemapLayered[0]
    word(68, Some(564), Some(548)),  // maxSurfaceCubemapLayered[1]
    size(30, Some(568), Some(552)),  // surfaceAlignment
    word(31, Some(576), Some(560)),  // concurrentKernels
    word(32, Some(580), Some(564)),  // ECCEnabled
    word(33, Some(584), Some(568)),  // pciBusID
    word(34, Some(588), Some(572)),  // pciDeviceID
    word(50, Some(592), Some(576)),  // pciDomainID
    word(35, Some(596), Some(580)),  // tccDriver
    word(40, Some(600), Some(584)),  // asyncEngineCount
    word(41, Some(604), Some(588)),  // unifiedAddressing
    word(36, Some(608), None),       // memoryClockRate
    word(37, Some(612), Some(592)),  // memoryBusWidth
    word(38, Some(616), Some(596)),  // l2CacheSize
    word(108, Some(620), Some(600)), // persistingL2CacheMaxSize
    word(39, Some(624), Some(604)),  // maxThreadsPerMultiProcessor
    word(78, Some(628), Some(608)),  // streamPrioritiesSupported
    word(79, Some(632), Some(612)),  // globalL1CacheSupported
    word(80, Some(636), Some(616)),  // localL1CacheSupported
    size(81, Some(640), Some(624)),  // sharedMemPerMultiprocessor
    word(82, Some(648), Some(632)),  // regsPerMultiprocessor
    word(83, Some(652), Some(636)),  // managedMemory
    word(84, Some(656), Some(640)),  // isMultiGpuBoard
    word(85, Some(660), Some(644)),  // multiGpuBoardGroupID
    word(86, Some(664), Some(648)),  // hostNativeAtomicSupported
    word(87, Some(668), None),       // singleToDoublePrecisionPerfRatio
    word(88, Some(672), Some(652)),  // pageableMemoryAccess
    word(89, Some(676), Some(656)),  // concurrentManagedAccess
    word(90, Some(680), Some(660)),  // computePreemptionSupported
    word(91, Some(684), Some(664)),  // canUseHostPointerForRegisteredMem
    word(95, Some(688), Some(668)),  // cooperativeLaunch
    word(96, Some(692), None),       // cooperativeMultiDeviceLaunch
    size(97, Some(696), Some(672)),  // sharedMemPerBlockOptin
    word(100, Some(704), Some(680)), // pageableMemoryAccessUsesHostPageTables
    word(101, Some(708), Some(684)), // directManagedMemAccessFromHost
    word(106, Some(712), Some(688)), // maxBlocksPerMultiProcessor
    word(109, Some(716), Some(692)), // accessPolicyMaxWindowSize
    size(111, Some(720), Some(696)), // reservedSharedMemPerBlock
    word(99, Some(728), Some(704)),  // hostRegisterSupported
    word(112, Some(732), Some(708)), // sparseCudaArraySupported
    word(113, Some(736), Some(712)), // hostRegisterReadOnlySupported
    word(114, Some(740), Some(716)), // timelineSemaphoreInteropSupported
    word(115, Some(744), Some(720)), // memoryPoolsSupported
    word(116, Some(748), Some(724)), // gpuDirectRDMASupported
    word(117, Some(752), Some(728)), // gpuDirectRDMAFlushWritesOptions
    word(118, Some(756), Some(732)), // gpuDirectRDMAWritesOrdering
    word(119, Some(760), Some(736)), // memoryPoolSupportedHandleTypes
    word(121, Some(764), Some(740)), // deferredMappingCudaArraySupported
    word(125, Some(768), Some(744)), // ipcEventSupported
    word(120, Some(772), Some(748)), // clusterLaunch
    word(129, Some(776), Some(752)), // unifiedFunctionPointers
    word(130, None, Some(756)),      // deviceNumaConfig
    word(131, None, Some(760)),      // deviceNumaId
    word(133, None, Some(764)),      // mpsEnabled
    word(134, None, Some(768)),      // hostNumaId
    word(139, None, Some(772)),      // gpuPciDeviceID
    word(140, None, Some(776)),      // gpuPciSubsystemID
    word(143, None, Some(780)),      // hostNumaMultinodeIpcSupported
];

/// Writes bytes into the structure. Fields behind its end are left out.
fn write_field(properties: &mut [u8], offset: usize, bytes: &[u8]) {
    let place = offset
        .checked_add(bytes.len())
        .and_then(|end| properties.get_mut(offset..end));
    if let Some(place) = place {
        place.copy_from_slice(bytes);
    }
}

/// `cudaGetDeviceProperties` in one of its layouts. Attributes that the driver does not know are zero.
pub fn write_properties(to: *mut c_void, device: CuDevice, layout: PropertiesLayout) -> CallResult {
    let driver = devices::check(device)?;
    let mut properties = vec![0; layout.bytes()];
    let mut name = [0_u8; NAME_BYTES];
    driver.cuDeviceGetName(name.as_mut_ptr().cast(), NAME_BYTES as i32, device)?;
    write_field(&mut properties, 0, &name);
    let mut uuid = Uuid::default();
    driver.cuDeviceGetUuid_v2(&raw mut uuid, device)?;
    write_field(&mut properties, UUID_OFFSET, &uuid.bytes);
    let mut memory = 0_usize;
    driver.cuDeviceTotalMem_v2(&raw mut memory, device)?;
    write_field(&mut properties, MEMORY_OFFSET, &memory.to_ne_bytes());
    for field in &FIELDS {
        let Some(offset) = field.offset(layout) else { continue };
        let mut value = 0;
        if driver
            .cuDeviceGetAttribute(&raw mut value, field.attribute, device)
            .is_err()
        {
            continue;
        }
        match field.is_wide {
            true => write_field(&mut properties, offset, &i64::from(value).to_ne_bytes()),
            false => write_field(&mut properties, offset, &value.to_ne_bytes()),
        }
    }
    put_bytes(to, &properties)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_overlap_and_are_inside() {
        for layout in [PropertiesLayout::Cuda12, PropertiesLayout::Cuda13] {
            let mut fields: Vec<_> = FIELDS
                .iter()
                .filter_map(|f| Some((f.offset(layout)?, if f.is_wide { 8 } else { 4 })))
                .collect();
            fields.sort_unstable();
            assert!(fields.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
            assert!(fields.iter().all(|(offset, bytes)| offset % bytes == 0));
            assert!(
                fields
                    .last()
                    .is_some_and(|(offset, bytes)| offset + bytes <= layout.bytes())
            );
        }
    }
}
