//! Names of pixel formats for messages, from Mesa's `genxml/v6.xml` and `v7.xml` (Copyright 2019-2020 Collabora, Ltd.,
//! MIT), so that users can look them up.

use super::format::Arch;

/// Returns the name of a pixel format's number, or `reserved` if there is none.
#[must_use]
pub fn format_name(arch: Arch, index: u8) -> &'static str {
    let own = match arch {
        Arch::V6 => ONLY_V6,
        Arch::V7 => ONLY_V7,
    };
    BOTH.iter()
        .chain(own)
        .find(|(n, _)| *n == index)
        .map_or("reserved", |(_, name)| name)
}

#[rustfmt::skip]
const BOTH: &[(u8, &str)] = &[
    (1, "ETC2 RGB8"), (2, "ETC2 R11 UNORM"), (3, "ETC2 RGBA8"), (4, "ETC2 RG11 UNORM"), (7, "BC1 UNORM"),
    (8, "BC2 UNORM"), (9, "BC3 UNORM"), (10, "BC4 UNORM"), (11, "BC4 SNORM"), (12, "BC5 UNORM"), (13, "BC5 SNORM"),
    (14, "BC6H UF16"), (15, "BC6H SF16"), (16, "BC7 UNORM"), (17, "ETC2 R11 SNORM"), (18, "ETC2 RG11 SNORM"),
    (19, "ETC2 RGB8A1"), (20, "ASTC 3D LDR"), (21, "ASTC 3D HDR"), (22, "ASTC 2D LDR"), (23, "ASTC 2D HDR"),
    (64, "RGB565"), (65, "RGB5 A1 UNORM"), (66, "A1 BGR5 UNORM"), (67, "RGB10 A2 UNORM"), (68, "A2 BGR10 UNORM"),
    (69, "RGB10 A2 SNORM"), (70, "A2 BGR10 SNORM"), (71, "RGB10 A2UI"), (72, "A2 BGR10UI"), (73, "RGB10 A2I"),
    (74, "A2 BGR10I"), (77, "Z24X8 UNORM"), (78, "X8Z24"), (79, "X32 S8X24"), (80, "X24S8 X32"), (81, "R32 FIXED"),
    (82, "RG32 FIXED"), (83, "RGB32 FIXED"), (84, "RGBA32 FIXED"), (89, "R11F G11F B10F"), (90, "B10F G11F R11F"),
    (91, "R9F G9F B9F E5F"), (92, "E5F B9F G9F R9F"), (94, "Snap 4"), (95, "Constant"), (99, "R8 SNORM"),
    (100, "R16 SNORM"), (101, "R32 SNORM"), (106, "RG4 SNORM"), (107, "RG8 SNORM"), (108, "RG16 SNORM"),
    (109, "RG32 SNORM"), (115, "RGB8 SNORM"), (116, "RGB16 SNORM"), (117, "RGB32 SNORM"), (121, "RGBA2 SNORM"),
    (122, "RGBA4 SNORM"), (123, "RGBA8 SNORM"), (124, "RGBA16 SNORM"), (125, "RGBA32 SNORM"), (131, "R8UI"),
    (132, "R16UI"), (133, "R32UI"), (138, "RG4UI"), (139, "RG8UI"), (140, "RG16UI"), (141, "RG32UI"), (147, "RGB8UI"),
    (148, "RGB16UI"), (149, "RGB32UI"), (153, "RGBA2UI"), (154, "RGBA4UI"), (155, "RGBA8UI"), (156, "RGBA16UI"),
    (157, "RGBA32UI"), (163, "R8 UNORM"), (164, "R16 UNORM"), (165, "R32 UNORM"), (167, "R32F"), (170, "RG4 UNORM"),
    (171, "RG8 UNORM"), (172, "RG16 UNORM"), (173, "RG32 UNORM"), (175, "RG32F"), (179, "RGB8 UNORM"),
    (180, "RGB16 UNORM"), (181, "RGB32 UNORM"), (183, "RGB32F"), (185, "RGBA2 UNORM"), (186, "RGBA4 UNORM"),
    (187, "RGBA8 UNORM"), (188, "RGBA16 UNORM"), (189, "RGBA32 UNORM"), (191, "RGBA32F"), (195, "R8I"), (196, "R16I"),
    (197, "R32I"), (199, "R16F"), (202, "RG4I"), (203, "RG8I"), (204, "RG16I"), (205, "RG32I"), (207, "RG16F"),
    (211, "RGB8I"), (212, "RGB16I"), (213, "RGB32I"), (215, "RGB16F"), (217, "RGBA2I"), (218, "RGBA4I"),
    (219, "RGBA8I"), (220, "RGBA16I"), (221, "RGBA32I"), (223, "RGBA16F"), (224, "RGB5 A1 AU"), (225, "RGB5 A1 PU"),
    (226, "R5G6B5 AU"), (227, "R5G6B5 PU"), (230, "Snap4 V"), (232, "RGBA4 AU"), (233, "RGBA4 PU"), (237, "RGBA8 TB"),
    (238, "RGB10 A2 TB"), (240, "Tess Vertex Pack"), (241, "RGB8 A2 AU"), (242, "RGB8 A2 PU"),
];

#[rustfmt::skip]
const ONLY_V6: &[(u8, &str)] = &[
    (93, "Snap 2"), (96, "R1 SNORM"), (97, "R2 SNORM"), (98, "R4 SNORM"), (102, "R64 SNORM"), (104, "RG1 SNORM"),
    (105, "RG2 SNORM"), (110, "RG64 SNORM"), (112, "RGB1 SNORM"), (113, "RGB2 SNORM"), (114, "RGB4 SNORM"),
    (118, "RGB64 SNORM"), (120, "RGBA1 SNORM"), (126, "RGBA64 SNORM"), (128, "R1UI"), (129, "R2UI"), (130, "R4UI"),
    (134, "R64UI"), (135, "R64F"), (136, "RG1UI"), (137, "RG2UI"), (142, "RG64UI"), (143, "RG64F"), (144, "RGB1UI"),
    (145, "RGB2UI"), (146, "RGB4UI"), (150, "RGB64UI"), (151, "RGB64F"), (152, "RGBA1UI"), (158, "RGBA64UI"),
    (159, "RGBA64F"), (160, "R1 UNORM"), (161, "R2 UNORM"), (162, "R4 UNORM"), (166, "R64 UNORM"), (168, "RG1 UNORM"),
    (169, "RG2 UNORM"), (174, "RG64 UNORM"), (176, "RGB1 UNORM"), (177, "RGB2 UNORM"), (178, "RGB4 UNORM"),
    (182, "RGB64 UNORM"), (184, "RGBA1 UNORM"), (190, "RGBA64 UNORM"), (192, "R1I"), (193, "R2I"), (194, "R4I"),
    (198, "R64I"), (200, "RG1I"), (201, "RG2I"), (206, "RG64I"), (208, "RGB1I"), (209, "RGB2I"), (210, "RGB4I"),
    (214, "RGB64I"), (216, "RGBA1I"), (222, "RGBA64I"),
];

#[rustfmt::skip]
const ONLY_V7: &[(u8, &str)] = &[
    (5, "R4A4 UNORM"), (6, "A4R4 UNORM"), (24, "R8A8 UNORM"), (25, "A8R8 UNORM"), (26, "A8 UNORM"), (28, "RAW10"),
    (29, "RAW12"), (30, "R8G8B8G8"), (31, "G8R8G8B8"), (32, "YUV8"), (33, "YUVA8"), (34, "YUYV8"), (35, "VYUY8"),
    (36, "Y8 UV8 422"), (37, "Y8 U8 V8 422"), (38, "Y8 UV8 420"), (39, "Y8 U8 V8 420"), (40, "YUV10 A2"),
    (41, "A2 YUV10"), (42, "YUYAAYVYAA"), (44, "YUYV10"), (45, "VYUY10"), (46, "Y10 UV10 422"), (47, "Y10 UV10 420"),
    (48, "YUV16"), (49, "YUVA16"), (50, "YUYV16"), (51, "VYUY16"), (52, "Y10X6 U10X6V10X6 422"), (53, "Y16 UV16 422"),
    (54, "Y10X6 U10X6V10X6 420"), (55, "Y16 UV16 420"), (56, "Y8 UV8 BL 422"), (57, "Y8 UV8 BL 420"),
    (58, "CUSTOM YUV 2"), (59, "CUSTOM YUV 3"), (60, "CUSTOM YUV 4"), (61, "CUSTOM YUV 5"), (62, "ASTC 2D NARROW"),
    (63, "ASTC 3D NARROW"), (75, "Z16 UNORM"), (76, "Z32"), (85, "X24S8"), (86, "S8X24"), (87, "Z32 X32"),
    (88, "X32 Z32"), (93, "S8"), (231, "R32F RTZ"), (239, "RG32F RTZ"), (247, "RGB32F RTZ"), (255, "RGBA32F RTZ"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texture_format_numbers_are_unique_per_architecture() {
        assert_eq!(format_name(Arch::V6, 187), "RGBA8 UNORM");
        assert_eq!(format_name(Arch::V6, 75), "reserved");
        assert_eq!(format_name(Arch::V7, 75), "Z16 UNORM");
        for extra in [ONLY_V6, ONLY_V7] {
            let mut all: Vec<u8> = BOTH.iter().chain(extra).map(|(n, _)| *n).collect();
            all.sort_unstable();
            assert!(all.windows(2).all(|w| w[0] < w[1]));
        }
    }
}
