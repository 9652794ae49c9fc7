//! Cube maps: the face and coordinates of a direction, and the neighbours of texels at the edge of a face.
//!
//! Faces are numbered as in the API: +X, -X, +Y, -Y, +Z, -Z. Registers hold a face in their three highest bits.

/// Returns the greatest magnitude of the three components, as `CUBEFACE1` does. A NaN loses against any number.
#[must_use]
pub fn major(x: f32, y: f32, z: f32) -> f32 {
    x.abs().max(y.abs()).max(z.abs())
}

/// Returns the face of a direction in the three highest bits, as `CUBEFACE2` does. Of components with equal magnitude,
/// z is preferred to y, and y to x.
#[must_use]
pub fn face(x: f32, y: f32, z: f32) -> u32 {
    let (ax, ay, az) = (x.abs(), y.abs(), z.abs());
    let face = if az >= ax && az >= ay {
        4 + u32::from(z.is_sign_negative())
    } else if ay >= ax {
        2 + u32::from(y.is_sign_negative())
    } else {
        u32::from(x.is_sign_negative())
    };
    face << 29
}

/// Returns the component across a face, with its sign, as `CUBE_SSEL` selects it from z and x.
#[must_use]
pub fn across(z: f32, x: f32, face: u32) -> f32 {
    match face >> 29 {
        0 => -z,
        1 => z,
        5 => -x,
        _ => x,
    }
}

/// Returns the component down a face, with its sign, as `CUBE_TSEL` selects it from y and z.
#[must_use]
pub fn down(y: f32, z: f32, face: u32) -> f32 {
    match face >> 29 {
        2 => z,
        3 => -z,
        _ => -y,
    }
}

/// Splits the register of a texture instruction into face and coordinate. The coordinate is between 0 and 1, so three
/// of its bits are known, and the face is stored in them.
#[must_use]
pub fn unpack(register: u32) -> (u32, f32) {
    let rest = register & 0x1fff_ffff;
    // Any nonzero coordinate has the second exponent bit set, because it is at least 2^-63.
    let bits = if rest == 0 { 0 } else { rest | 0x2000_0000 };
    (register >> 29, f32::from_bits(bits))
}

/// Returns the neighbour of a texel across the edge of a face, as face and texel. Both numbers may range from -1 to the
/// size. Returns `None` for the corners, which have no texel.
#[must_use]
pub fn cross_edge(face: u32, x: i64, y: i64, size: i64) -> Option<(u32, u32, u32)> {
    let inside = |v: i64| (0..size).contains(&v);
    let texel = |face: u32, x: i64, y: i64| {
        let clamp = |v: i64| v.clamp(0, size - 1) as u32;
        Some((face, clamp(x), clamp(y)))
    };
    match (inside(x), inside(y)) {
        (true, true) => return texel(face, x, y),
        (false, false) => return None,
        _ => {}
    }
    // Texel centres in half texels from the middle of the face, which is `size` from the centre of the cube.
    let (s, t) = (2 * x + 1 - size, 2 * y + 1 - size);
    // A point outside the edge folds onto the next face: it stays at the edge and moves down by the amount by which it
    // exceeded the edge.
    let sink = |v: i64| {
        if v.abs() > size {
            (size * v.signum(), v.abs() - size)
        } else {
            (v, 0)
        }
    };
    let ((s, a), (t, b)) = (sink(s), sink(t));
    let m = size - a - b;
    let (px, py, pz) = match face {
        0 => (m, -t, -s),
        1 => (-m, -t, s),
        2 => (s, m, t),
        3 => (s, -m, -t),
        4 => (s, -t, m),
        _ => (-s, -t, -m),
    };
    let (face, s, t) = if px.abs() == size {
        if px > 0 { (0, -pz, -py) } else { (1, pz, -py) }
    } else if py.abs() == size {
        if py > 0 { (2, px, pz) } else { (3, px, -pz) }
    } else if pz > 0 {
        (4, px, -py)
    } else {
        (5, -px, -py)
    };
    texel(face, (s + size - 1) / 2, (t + size - 1) / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the direction through the centre of a texel.
    fn direction(face: u32, s: f32, t: f32) -> [f32; 3] {
        match face {
            0 => [1.0, -t, -s],
            1 => [-1.0, -t, s],
            2 => [s, 1.0, t],
            3 => [s, -1.0, -t],
            4 => [s, -t, 1.0],
            _ => [-s, -t, -1.0],
        }
    }

    #[test]
    fn cube_directions_give_face_and_coordinates() {
        for f in 0..6 {
            for (s, t) in [(0.25, -0.5), (-0.75, 0.125), (0.0, 0.0)] {
                let [x, y, z] = direction(f, s, t);
                let got = face(x, y, z);
                assert_eq!(got >> 29, f);
                assert_eq!(major(x, y, z), 1.0);
                assert_eq!((across(z, x, got), down(y, z, got)), (s, t));
                let scaled = (s * 0.5 + 0.5).to_bits() & 0x1fff_ffff | got;
                assert_eq!(unpack(scaled), (f, s * 0.5 + 0.5));
            }
        }
        assert_eq!(unpack(3 << 29), (3, 0.0));
        assert_eq!(unpack(1f32.to_bits() & 0x1fff_ffff | 5 << 29), (5, 1.0));
    }

    #[test]
    fn cube_texels_beyond_an_edge_match_their_direction() {
        for size in [1i64, 2, 3, 8] {
            let n = size as f32;
            for f in 0..6 {
                for (x, y) in (-1..=size).flat_map(|x| (-1..=size).map(move |y| (x, y))) {
                    let out = |v: i64| !(0..size).contains(&v);
                    let got = cross_edge(f, x, y, size);
                    if out(x) && out(y) {
                        assert_eq!(got, None);
                        continue;
                    }
                    // The expected texel is the nearest texel of the next face to a point slightly outside the edge.
                    let coordinate = |v: i64| ((2 * v + 1) as f32 / n - 1.0).clamp(-1.0 - 1e-3, 1.0 + 1e-3);
                    let [dx, dy, dz] = direction(f, coordinate(x), coordinate(y));
                    let g = face(dx, dy, dz);
                    let m = major(dx, dy, dz);
                    let texel = |c: f32| (((c / m * 0.5 + 0.5) * n).floor() as i64).clamp(0, size - 1) as u32;
                    let want = (g >> 29, texel(across(dz, dx, g)), texel(down(dy, dz, g)));
                    assert_eq!(got, Some(want), "face {f} ({x}, {y}) of {size}");
                }
            }
        }
    }
}
