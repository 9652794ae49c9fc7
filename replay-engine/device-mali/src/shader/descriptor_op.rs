//! Instructions that use descriptors: textures, images, attributes, and converting stores and loads.

use crate::texture::{Dimension, Index, RegisterFormat, Single};
use bifrost::{Instruction, Modifier, Op, Value};

/// Instruction that uses descriptors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DescriptorOp {
    /// `TEXC`, whose third operand selects the operation.
    Texture,
    /// `TEXS_2D`.
    Simple(Single),
    /// `LD_ATTR` and its variants.
    LoadAttribute {
        place: ElementOperand,
        format: Option<RegisterFormat>,
        count: u8,
    },
    /// `LEA_ATTR` and its variants, which return an address and a conversion.
    LoadAddress {
        place: ElementOperand,
        format: Option<RegisterFormat>,
    },
    /// `ST_CVT`.
    Store { count: u8 },
    /// `LD_CVT`.
    Load { count: u8 },
}

/// Array element or image texel, given by operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ElementOperand {
    /// Whether the element is a texel.
    pub image: bool,
    /// Number of the attribute. If there is none, the third operand holds it.
    pub number: Option<u8>,
}

/// Decodes an instruction that uses descriptors. Returns `None` for other instructions, or the reason why it cannot be
/// executed.
pub(crate) fn decode(i: &Instruction, fma: &Instruction) -> Option<Result<DescriptorOp, String>> {
    let format = || match i.get(Modifier::RegisterFormat) {
        Value::F16 => Ok(Some(RegisterFormat::F16)),
        Value::F32 => Ok(Some(RegisterFormat::F32)),
        Value::S32 => Ok(Some(RegisterFormat::S32)),
        Value::U32 => Ok(Some(RegisterFormat::U32)),
        Value::S16 => Ok(Some(RegisterFormat::S16)),
        Value::U16 => Ok(Some(RegisterFormat::U16)),
        Value::Auto => Ok(None),
        other => Err(format!("+{}.{}", i.op().name(), other.name())),
    };
    let count = match i.get(Modifier::Vecsize) {
        Value::V2 => 2,
        Value::V3 => 3,
        Value::V4 => 4,
        _ => 1,
    };
    let place = |image: bool, immediate: bool| ElementOperand {
        image,
        number: immediate.then(|| i.immediate("attribute_index") as u8),
    };
    // The FMA operation of the tuple selects the table. Without it, a load uses the first table and an address the
    // second.
    let chosen = (fma.op() == Op::DtselImm).then(|| fma.get(Modifier::Table));
    let first = |default: Value| {
        let table = chosen.unwrap_or(default);
        (table == Value::Attribute1).then_some(()).ok_or_else(|| {
            let by = chosen.map(|_| " next to *DTSEL_IMM").unwrap_or_default();
            format!("+{} of table {}{by}", i.op().name(), table.name())
        })
    };
    let load = |place: ElementOperand| {
        first(Value::Attribute1)?;
        format().map(|format| DescriptorOp::LoadAttribute { place, format, count })
    };
    let refer = |place: ElementOperand| {
        first(Value::Attribute2)?;
        format().map(|format| DescriptorOp::LoadAddress { place, format })
    };
    // The cube variant has no other mode, so it does not occur in a compute shader.
    let computed = || Err(format!("+{} with a computed level of detail", i.op().name()));
    let simple = |format| {
        if i.get(Modifier::LodMode) != Value::ZeroLod {
            return computed();
        }
        Ok(DescriptorOp::Simple(Single {
            texture: Index::Immediate(i.immediate("texture_index")),
            sampler: Index::Immediate(i.immediate("sampler_index")),
            ..Single::simple(Dimension::D2, format, true)
        }))
    };
    Some(match i.op() {
        Op::Texc => Ok(DescriptorOp::Texture),
        Op::Texs2dF16 => simple(RegisterFormat::F16),
        Op::Texs2dF32 => simple(RegisterFormat::F32),
        Op::TexsCubeF16 | Op::TexsCubeF32 => computed(),
        Op::LdAttr => load(place(false, false)),
        Op::LdAttrImm => load(place(false, true)),
        Op::LdAttrTex => load(place(true, false)),
        Op::LeaAttr => refer(place(false, false)),
        Op::LeaAttrImm => refer(place(false, true)),
        Op::LeaAttrTex => refer(place(true, false)),
        Op::StCvt => Ok(DescriptorOp::Store { count }),
        Op::LdCvt => Ok(DescriptorOp::Load { count }),
        _ => return None,
    })
}
