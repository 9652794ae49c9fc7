//! Operations by name, with the message that each sends and the staging registers that it uses.
// Copyright (C) 2020 Collabora Ltd.: names and staging registers are derived from Mesa's ISA.xml, under the MIT licence
// (see `table/NOTICE`).

/// The unit outside the cores that an operation sends a message to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// No message.
    None,
    /// Varying unit.
    Varying,
    /// Attribute unit.
    Attribute,
    /// Store to memory.
    Store,
    /// Load from memory.
    Load,
    /// Texture unit.
    Texture,
    /// Job management.
    JobManagement,
    /// Atomic unit.
    Atomic,
    /// Depth and stencil.
    DepthStencil,
    /// Varying, then texture unit.
    VaryingTexture,
    /// Tile buffer.
    Tile,
    /// Job spawning.
    Job,
    /// Blending.
    Blend,
    /// Barrier of the workgroup.
    Barrier,
    /// Alpha test.
    AlphaTest,
}

/// The number of staging registers that an operation uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Count {
    /// This many.
    Words(u8),
    /// As many as the register format and vector size require.
    Format,
    /// As many as a descriptor, or the operation that it completes, requires.
    Descriptor,
}

/// How an operation uses its staging registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Staging {
    /// There are none.
    None,
    /// They are read.
    Read(Count),
    /// They are written.
    Write(Count),
    /// They are read, then written.
    ReadWrite(Count),
}

/// Defines the operations and their properties from one list.
macro_rules! operations {
    ($($id:ident $name:literal $message:ident $staging:expr;)*) => {
        /// An operation. Several operations exist in both units, so the unit is stored separately.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Op {
            $(#[doc = concat!("`", $name, "`")] $id,)*
        }

        impl Op {
            /// All operations, by name.
            pub const ALL: &'static [Self] = &[$(Self::$id),*];

            /// Returns the name in the notation of Mesa's disassembler: `FMA.f32`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }

            /// Returns the message that it sends.
            #[must_use]
            pub const fn message(self) -> Message {
                match self { $(Self::$id => Message::$message,)* }
            }

            /// Returns how the operation uses staging registers.
            #[must_use]
            pub const fn staging(self) -> Staging {
                match self { $(Self::$id => $staging,)* }
            }
        }
    };
}

use Count::{Descriptor as D, Format as F, Words as N};
use Staging::{None as X, Read as R, ReadWrite as RW, Write as W};

#[rustfmt::skip]
mod list {
    use super::*;
    operations! {
        AcmpstoreI32 "ACMPSTORE.i32" Atomic R(N(2));
        AcmpstoreI64 "ACMPSTORE.i64" Atomic R(N(4));
        AcmpxchgI32 "ACMPXCHG.i32" Atomic RW(N(2));
        AcmpxchgI64 "ACMPXCHG.i64" Atomic RW(N(4));
        ArshiftI32 "ARSHIFT.i32" None X;
        ArshiftV2i16 "ARSHIFT.v2i16" None X;
        ArshiftV4i8 "ARSHIFT.v4i8" None X;
        ArshiftDoubleI32 "ARSHIFT_DOUBLE.i32" None X;
        Atest "ATEST" AlphaTest W(N(1));
        AtomCI32 "ATOM_C.i32" None X;
        AtomCI64 "ATOM_C.i64" None X;
        AtomC1I32 "ATOM_C1.i32" None X;
        AtomC1I64 "ATOM_C1.i64" None X;
        AtomC1ReturnI32 "ATOM_C1_RETURN.i32" None X;
        AtomC1ReturnI64 "ATOM_C1_RETURN.i64" None X;
        AtomCx "ATOM_CX" Atomic RW(D);
        AtomCReturnI32 "ATOM_C_RETURN.i32" None X;
        AtomCReturnI64 "ATOM_C_RETURN.i64" None X;
        AtomPostI32 "ATOM_POST.i32" None X;
        AtomPostI64 "ATOM_POST.i64" None X;
        AtomPreI64 "ATOM_PRE.i64" None X;
        AxchgI32 "AXCHG.i32" Atomic RW(N(1));
        AxchgI64 "AXCHG.i64" Atomic RW(N(2));
        Barrier "BARRIER" Barrier X;
        BitrevI32 "BITREV.i32" None X;
        Blend "BLEND" Blend R(D);
        BranchF16 "BRANCH.f16" None X;
        BranchF32 "BRANCH.f32" None X;
        BranchI16 "BRANCH.i16" None X;
        BranchI32 "BRANCH.i32" None X;
        BranchS16 "BRANCH.s16" None X;
        BranchS32 "BRANCH.s32" None X;
        BranchU16 "BRANCH.u16" None X;
        BranchU32 "BRANCH.u32" None X;
        BranchcI16 "BRANCHC.i16" None X;
        BranchcI32 "BRANCHC.i32" None X;
        BranchzF16 "BRANCHZ.f16" None X;
        BranchzF32 "BRANCHZ.f32" None X;
        BranchzI16 "BRANCHZ.i16" None X;
        BranchzI32 "BRANCHZ.i32" None X;
        BranchzS16 "BRANCHZ.s16" None X;
        BranchzS32 "BRANCHZ.s32" None X;
        BranchzU16 "BRANCHZ.u16" None X;
        BranchzU32 "BRANCHZ.u32" None X;
        BranchDiverg "BRANCH_DIVERG" None X;
        BranchLowbitsF32 "BRANCH_LOWBITS.f32" None X;
        BranchNoDiverg "BRANCH_NO_DIVERG" None X;
        ClperI32 "CLPER.i32" None X;
        ClperOldI32 "CLPER_OLD.i32" None X;
        ClzU32 "CLZ.u32" None X;
        ClzV2u16 "CLZ.v2u16" None X;
        ClzV4u8 "CLZ.v4u8" None X;
        CselF32 "CSEL.f32" None X;
        CselI32 "CSEL.i32" None X;
        CselS32 "CSEL.s32" None X;
        CselU32 "CSEL.u32" None X;
        CselV2f16 "CSEL.v2f16" None X;
        CselV2i16 "CSEL.v2i16" None X;
        CselV2s16 "CSEL.v2s16" None X;
        CselV2u16 "CSEL.v2u16" None X;
        Cubeface1 "CUBEFACE1" None X;
        Cubeface2 "CUBEFACE2" None X;
        CubeSsel "CUBE_SSEL" None X;
        CubeTsel "CUBE_TSEL" None X;
        DiscardF32 "DISCARD.f32" None X;
        Doorbell "DOORBELL" JobManagement X;
        DtselImm "DTSEL_IMM" None X;
        Eureka "EUREKA" JobManagement X;
        F16ToF32 "F16_TO_F32" None X;
        F16ToS32 "F16_TO_S32" None X;
        F16ToU32 "F16_TO_U32" None X;
        F32ToS32 "F32_TO_S32" None X;
        F32ToU32 "F32_TO_U32" None X;
        FaddF32 "FADD.f32" None X;
        FaddV2f16 "FADD.v2f16" None X;
        FaddLscaleF32 "FADD_LSCALE.f32" None X;
        FaddRscaleF32 "FADD_RSCALE.f32" None X;
        FatanAssistF16 "FATAN_ASSIST.f16" None X;
        FatanAssistF32 "FATAN_ASSIST.f32" None X;
        FatanTableF16 "FATAN_TABLE.f16" None X;
        FatanTableF32 "FATAN_TABLE.f32" None X;
        FcmpF32 "FCMP.f32" None X;
        FcmpV2f16 "FCMP.v2f16" None X;
        FcosTableU6 "FCOS_TABLE.u6" None X;
        FexpF32 "FEXP.f32" None X;
        FexpTableU4 "FEXP_TABLE.u4" None X;
        FlogdF32 "FLOGD.f32" None X;
        FlogTableF32 "FLOG_TABLE.f32" None X;
        FlshiftDoubleI32 "FLSHIFT_DOUBLE.i32" None X;
        FmaF32 "FMA.f32" None X;
        FmaV2f16 "FMA.v2f16" None X;
        FmaxF32 "FMAX.f32" None X;
        FmaxV2f16 "FMAX.v2f16" None X;
        FmaRscaleF32 "FMA_RSCALE.f32" None X;
        FmaRscaleV2f16 "FMA_RSCALE.v2f16" None X;
        FminF32 "FMIN.f32" None X;
        FminV2f16 "FMIN.v2f16" None X;
        FmulCslice "FMUL_CSLICE" None X;
        FmulSliceF32 "FMUL_SLICE.f32" None X;
        FpclassF16 "FPCLASS.f16" None X;
        FpclassF32 "FPCLASS.f32" None X;
        FpowScApply "FPOW_SC_APPLY" None X;
        FpowScDetF16 "FPOW_SC_DET.f16" None X;
        FpowScDetF32 "FPOW_SC_DET.f32" None X;
        FrcbrtApproxAF32 "FRCBRT_APPROX_A.f32" None X;
        FrcbrtApproxBF32 "FRCBRT_APPROX_B.f32" None X;
        FrcbrtApproxCF32 "FRCBRT_APPROX_C.f32" None X;
        FrcpF16 "FRCP.f16" None X;
        FrcpF32 "FRCP.f32" None X;
        FrcpApproxF32 "FRCP_APPROX.f32" None X;
        FrexpeF32 "FREXPE.f32" None X;
        FrexpeV2f16 "FREXPE.v2f16" None X;
        FrexpmF32 "FREXPM.f32" None X;
        FrexpmV2f16 "FREXPM.v2f16" None X;
        FroundF32 "FROUND.f32" None X;
        FroundV2f16 "FROUND.v2f16" None X;
        FrshiftDoubleI32 "FRSHIFT_DOUBLE.i32" None X;
        FrsqF16 "FRSQ.f16" None X;
        FrsqF32 "FRSQ.f32" None X;
        FrsqApproxF32 "FRSQ_APPROX.f32" None X;
        FsincosOffsetU6 "FSINCOS_OFFSET.u6" None X;
        FsinTableU6 "FSIN_TABLE.u6" None X;
        HaddS32 "HADD.s32" None X;
        HaddU32 "HADD.u32" None X;
        HaddV2s16 "HADD.v2s16" None X;
        HaddV2u16 "HADD.v2u16" None X;
        HaddV4s8 "HADD.v4s8" None X;
        HaddV4u8 "HADD.v4u8" None X;
        IabsS32 "IABS.s32" None X;
        IabsV2s16 "IABS.v2s16" None X;
        IabsV4s8 "IABS.v4s8" None X;
        IaddS32 "IADD.s32" None X;
        IaddU32 "IADD.u32" None X;
        IaddV2s16 "IADD.v2s16" None X;
        IaddV2u16 "IADD.v2u16" None X;
        IaddV4s8 "IADD.v4s8" None X;
        IaddV4u8 "IADD.v4u8" None X;
        IaddcI32 "IADDC.i32" None X;
        IcmpI32 "ICMP.i32" None X;
        IcmpS32 "ICMP.s32" None X;
        IcmpU32 "ICMP.u32" None X;
        IcmpV2i16 "ICMP.v2i16" None X;
        IcmpV2s16 "ICMP.v2s16" None X;
        IcmpV2u16 "ICMP.v2u16" None X;
        IcmpV4i8 "ICMP.v4i8" None X;
        IcmpV4s8 "ICMP.v4s8" None X;
        IcmpV4u8 "ICMP.v4u8" None X;
        IcmpfI32 "ICMPF.i32" None X;
        IcmpiI32 "ICMPI.i32" None X;
        IcmpiS32 "ICMPI.s32" None X;
        IcmpiU32 "ICMPI.u32" None X;
        IcmpmI32 "ICMPM.i32" None X;
        IdpV4i8 "IDP.v4i8" None X;
        IlogbF32 "ILOGB.f32" None X;
        IlogbV2f16 "ILOGB.v2f16" None X;
        ImovFma "IMOV_FMA" None X;
        ImulI32 "IMUL.i32" None X;
        ImulV2i16 "IMUL.v2i16" None X;
        ImulV4i8 "IMUL.v4i8" None X;
        Imuld "IMULD" None X;
        IsubS32 "ISUB.s32" None X;
        IsubU32 "ISUB.u32" None X;
        IsubV2s16 "ISUB.v2s16" None X;
        IsubV2u16 "ISUB.v2u16" None X;
        IsubV4s8 "ISUB.v4s8" None X;
        IsubV4u8 "ISUB.v4u8" None X;
        IsubbI32 "ISUBB.i32" None X;
        Jump "JUMP" None X;
        JumpEx "JUMP_EX" None X;
        Kaboom "KABOOM" Job X;
        LdexpF32 "LDEXP.f32" None X;
        LdexpV2f16 "LDEXP.v2f16" None X;
        LdAttr "LD_ATTR" Attribute W(F);
        LdAttrImm "LD_ATTR_IMM" Attribute W(F);
        LdAttrTex "LD_ATTR_TEX" Attribute W(F);
        LdCvt "LD_CVT" Load W(F);
        LdGclkU64 "LD_GCLK.u64" Attribute W(N(2));
        LdTile "LD_TILE" Tile W(F);
        LdVar "LD_VAR" Varying W(F);
        LdVarFlat "LD_VAR_FLAT" Varying W(F);
        LdVarFlatImm "LD_VAR_FLAT_IMM" Varying W(F);
        LdVarImm "LD_VAR_IMM" Varying W(F);
        LdVarSpecial "LD_VAR_SPECIAL" Varying W(F);
        LeaAttr "LEA_ATTR" Attribute W(N(3));
        LeaAttrImm "LEA_ATTR_IMM" Attribute W(N(3));
        LeaAttrTex "LEA_ATTR_TEX" Attribute W(N(3));
        LeaTex "LEA_TEX" Attribute W(N(3));
        LeaTexImm "LEA_TEX_IMM" Attribute W(N(3));
        LoadI128 "LOAD.i128" Load W(N(4));
        LoadI16 "LOAD.i16" Load W(N(1));
        LoadI24 "LOAD.i24" Load W(N(1));
        LoadI32 "LOAD.i32" Load W(N(1));
        LoadI48 "LOAD.i48" Load W(N(2));
        LoadI64 "LOAD.i64" Load W(N(2));
        LoadI8 "LOAD.i8" Load W(N(1));
        LoadI96 "LOAD.i96" Load W(N(3));
        LogbF32 "LOGB.f32" None X;
        LogbV2f16 "LOGB.v2f16" None X;
        LrotDoubleI32 "LROT_DOUBLE.i32" None X;
        LshiftAndI32 "LSHIFT_AND.i32" None X;
        LshiftAndV2i16 "LSHIFT_AND.v2i16" None X;
        LshiftAndV4i8 "LSHIFT_AND.v4i8" None X;
        LshiftDoubleI32 "LSHIFT_DOUBLE.i32" None X;
        LshiftOrI32 "LSHIFT_OR.i32" None X;
        LshiftOrV2i16 "LSHIFT_OR.v2i16" None X;
        LshiftOrV4i8 "LSHIFT_OR.v4i8" None X;
        LshiftXorI32 "LSHIFT_XOR.i32" None X;
        LshiftXorV2i16 "LSHIFT_XOR.v2i16" None X;
        LshiftXorV4i8 "LSHIFT_XOR.v4i8" None X;
        MkvecV2i16 "MKVEC.v2i16" None X;
        MkvecV4i8 "MKVEC.v4i8" None X;
        MovI32 "MOV.i32" None X;
        MuxI32 "MUX.i32" None X;
        MuxV2i16 "MUX.v2i16" None X;
        MuxV4i8 "MUX.v4i8" None X;
        Nop "NOP" None X;
        PopcountI32 "POPCOUNT.i32" None X;
        QuietF32 "QUIET.f32" None X;
        QuietV2f16 "QUIET.v2f16" None X;
        RrotDoubleI32 "RROT_DOUBLE.i32" None X;
        RshiftAndI32 "RSHIFT_AND.i32" None X;
        RshiftAndV2i16 "RSHIFT_AND.v2i16" None X;
        RshiftAndV4i8 "RSHIFT_AND.v4i8" None X;
        RshiftDoubleI32 "RSHIFT_DOUBLE.i32" None X;
        RshiftOrI32 "RSHIFT_OR.i32" None X;
        RshiftOrV2i16 "RSHIFT_OR.v2i16" None X;
        RshiftOrV4i8 "RSHIFT_OR.v4i8" None X;
        RshiftXorI32 "RSHIFT_XOR.i32" None X;
        RshiftXorV2i16 "RSHIFT_XOR.v2i16" None X;
        RshiftXorV4i8 "RSHIFT_XOR.v4i8" None X;
        S16ToF32 "S16_TO_F32" None X;
        S16ToS32 "S16_TO_S32" None X;
        S32ToF32 "S32_TO_F32" None X;
        S8ToF32 "S8_TO_F32" None X;
        S8ToS32 "S8_TO_S32" None X;
        SegAdd "SEG_ADD" None X;
        SegSub "SEG_SUB" None X;
        ShaddxhI32 "SHADDXH.i32" None X;
        ShaddxlI64 "SHADDXL.i64" None X;
        ShaddxlS32 "SHADDXL.s32" None X;
        ShaddxlU32 "SHADDXL.u32" None X;
        ShiftDoubleI32 "SHIFT_DOUBLE.i32" None X;
        StoreI128 "STORE.i128" Store R(N(4));
        StoreI16 "STORE.i16" Store R(N(1));
        StoreI24 "STORE.i24" Store R(N(1));
        StoreI32 "STORE.i32" Store R(N(1));
        StoreI48 "STORE.i48" Store R(N(2));
        StoreI64 "STORE.i64" Store R(N(2));
        StoreI8 "STORE.i8" Store R(N(1));
        StoreI96 "STORE.i96" Store R(N(3));
        StCvt "ST_CVT" Store R(F);
        StTile "ST_TILE" Tile R(F);
        SwzV2i16 "SWZ.v2i16" None X;
        SwzV4i8 "SWZ.v4i8" None X;
        Texc "TEXC" Texture RW(D);
        Texs2dF16 "TEXS_2D.f16" Texture W(N(2));
        Texs2dF32 "TEXS_2D.f32" Texture W(N(4));
        TexsCubeF16 "TEXS_CUBE.f16" Texture W(N(2));
        TexsCubeF32 "TEXS_CUBE.f32" Texture W(N(4));
        U16ToF32 "U16_TO_F32" None X;
        U16ToU32 "U16_TO_U32" None X;
        U32ToF32 "U32_TO_F32" None X;
        U8ToF32 "U8_TO_F32" None X;
        U8ToU32 "U8_TO_U32" None X;
        V2f16ToV2s16 "V2F16_TO_V2S16" None X;
        V2f16ToV2u16 "V2F16_TO_V2U16" None X;
        V2f32ToV2f16 "V2F32_TO_V2F16" None X;
        V2s16ToV2f16 "V2S16_TO_V2F16" None X;
        V2s8ToV2f16 "V2S8_TO_V2F16" None X;
        V2s8ToV2s16 "V2S8_TO_V2S16" None X;
        V2u16ToV2f16 "V2U16_TO_V2F16" None X;
        V2u8ToV2f16 "V2U8_TO_V2F16" None X;
        V2u8ToV2u16 "V2U8_TO_V2U16" None X;
        VarTexF16 "VAR_TEX.f16" VaryingTexture W(N(2));
        VarTexF32 "VAR_TEX.f32" VaryingTexture W(N(4));
        VnAsst1F16 "VN_ASST1.f16" None X;
        VnAsst1F32 "VN_ASST1.f32" None X;
        VnAsst2F32 "VN_ASST2.f32" None X;
        VnAsst2V2f16 "VN_ASST2.v2f16" None X;
        Wmask "WMASK" None X;
        ZsEmit "ZS_EMIT" DepthStencil W(N(1));
    }
}
pub use list::Op;
