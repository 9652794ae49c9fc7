//! Cube map directions: the face and the coordinates on it.

use super::float::source;
use super::words::Scalar;
use crate::shader::mods::Mods;
use crate::texture::{cube_across, cube_down, cube_face as face_of, cube_major};
use bifrost::Op;

/// Returns the face of a direction, in the three highest bits. The sources are those of `CUBEFACE1`, which is in the
/// same tuple as `CUBEFACE2`.
pub(crate) fn cube_face(m: &Mods, s: [u32; 4]) -> u32 {
    face_of(source(m, s, 0), source(m, s, 1), source(m, s, 2))
}

pub(super) fn scalar(op: Op) -> Option<Scalar> {
    Some(match op {
        Op::Cubeface1 => |m, s| cube_major(source(m, s, 0), source(m, s, 1), source(m, s, 2)).to_bits(),
        Op::CubeSsel => |m, s| cube_across(source(m, s, 0), source(m, s, 1), s[2]).to_bits(),
        Op::CubeTsel => |m, s| cube_down(source(m, s, 0), source(m, s, 1), s[2]).to_bits(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bifrost::{Instruction, Unit};

    #[test]
    fn cube_direction_selects_face_and_coordinates() {
        // CUBEFACE1 without negated sources, decoded from its encoding.
        let i = Instruction::decode(Unit::Fma, 0x70_6800).unwrap();
        let m = Mods::from_instruction(&i);
        let d = [0.25f32, -2.0, 1.0].map(f32::to_bits);
        let s = [d[0], d[1], d[2], 0];
        assert_eq!(scalar(Op::Cubeface1).unwrap()(&m, s), 2f32.to_bits());
        let face = cube_face(&m, s);
        assert_eq!(face >> 29, 3);
        let i = Instruction::decode(Unit::Add, 0x3_e000).unwrap();
        let m = Mods::from_instruction(&i);
        assert_eq!(
            scalar(Op::CubeSsel).unwrap()(&m, [d[2], d[0], face, 0]),
            0.25f32.to_bits()
        );
        assert_eq!(
            scalar(Op::CubeTsel).unwrap()(&m, [d[1], d[2], face, 0]),
            (-1f32).to_bits()
        );
    }
}
