//! Tests that users with any of the common colour-vision deficiencies can distinguish the colours.
//!
//! The test simulates the view of a person without one kind of cones. It uses the matrices of G. Machado, M. Oliveira
//! and L. Fernandes, "A Physiologically-based Model for Simulation of Color Vision Deficiency" (2009), severity 1.0, on
//! linear light. The distance of two colours is their distance in OKLab (B. Ottosson, 2020).

use super::*;

/// A matrix of rows that maps linear red, green and blue to the perceived colour.
type Sight = [[f64; 3]; 3];

const SIGHTS: [(&str, Sight); 4] = [
    ("all cones", [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    (
        "protanopia",
        [
            [0.152_286, 1.052_583, -0.204_868],
            [0.114_503, 0.786_281, 0.099_216],
            [-0.003_882, -0.048_116, 1.051_998],
        ],
    ),
    (
        "deuteranopia",
        [
            [0.367_322, 0.860_646, -0.227_968],
            [0.280_085, 0.672_501, 0.047_413],
            [-0.011_820, 0.042_940, 0.968_881],
        ],
    ),
    (
        "tritanopia",
        [
            [1.255_528, -0.076_749, -0.178_779],
            [-0.078_411, 0.930_809, 0.147_602],
            [0.004_733, 0.691_367, 0.303_900],
        ],
    ),
];

/// Minimum distance: four times what is just noticeable on large adjacent fields, 0.02 in OKLab (CSS Color 4 uses that
/// for its mapping of gamuts). For marks of a third of a degree, some eight points at arm's length, M. Stone, D. Szafir
/// and V. Setlur (2014) measured differences of that order. Half of their readers noticed such a difference.
const MIN_DISTANCE: f64 = 0.08;

fn perceive(c: Color32, sight: &Sight) -> [f64; 3] {
    let linear = |v: u8| {
        let v = f64::from(v) / 255.0;
        if v <= 0.040_45 {
            v / 12.92
        } else {
            ((v + 0.055) / 1.055).powf(2.4)
        }
    };
    let light = [linear(c.r()), linear(c.g()), linear(c.b())];
    sight.map(|row| row.iter().zip(light).map(|(m, v)| m * v).sum::<f64>().clamp(0.0, 1.0))
}

fn oklab([r, g, b]: [f64; 3]) -> [f64; 3] {
    let l = (0.412_221_470_8 * r + 0.536_332_536_3 * g + 0.051_445_992_9 * b).cbrt();
    let m = (0.211_903_498_2 * r + 0.680_699_545_1 * g + 0.107_396_956_6 * b).cbrt();
    let s = (0.088_302_461_9 * r + 0.281_718_837_6 * g + 0.629_978_700_5 * b).cbrt();
    [
        0.210_454_255_3 * l + 0.793_617_785_0 * m - 0.004_072_046_8 * s,
        1.977_998_495_1 * l - 2.428_592_205_0 * m + 0.450_593_709_9 * s,
        0.025_904_037_1 * l + 0.782_771_766_2 * m - 0.808_675_766_0 * s,
    ]
}

fn distance(a: Color32, b: Color32, sight: &Sight) -> f64 {
    let (a, b) = (oklab(perceive(a, sight)), oklab(perceive(b, sight)));
    a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt()
}

/// Returns groups of colours that a reader must distinguish. Colour is never the only sign. Reads are hollow and writes
/// filled. An interrupt is as high as its lane and a job a block. A page that is writable and executable is crossed,
/// and rights are also letters. − + ≠ ↗ show the kind of change of events, and ▲ ! · show the severity of a finding.
fn groups(p: &Palette) -> Vec<(&'static str, Vec<(&'static str, Color32)>)> {
    vec![
        (
            "events",
            vec![
                ("read", p.read),
                ("write", p.write),
                ("interrupt", p.interrupt),
                ("job", p.job),
            ],
        ),
        (
            "rights",
            vec![
                ("read", p.read),
                ("write", p.write),
                ("run", p.interrupt),
                ("write and run", p.error),
            ],
        ),
        (
            "differences",
            vec![
                ("removed", p.only_a),
                ("added", p.only_b),
                ("changed", p.error),
                ("moved", p.text),
            ],
        ),
        (
            "findings",
            vec![("error", p.error), ("warning", p.warning), ("note", p.quiet)],
        ),
        ("edits of writes", vec![("edited", p.edited), ("write", p.write)]),
        ("edits of reads", vec![("edited", p.edited), ("read", p.read)]),
        (
            "lines of a plot",
            ["first", "second", "third", "fourth", "fifth", "sixth"]
                .into_iter()
                .zip(p.lines)
                .collect(),
        ),
    ]
}

#[test]
fn colours_are_distinguishable_with_colour_blindness() {
    let mut too_close = Vec::new();
    for theme in ThemeChoice::ALL {
        for (group, colours) in groups(Palette::for_theme(theme)) {
            for (n, (a, x)) in colours.iter().enumerate() {
                for (b, y) in colours.iter().skip(n + 1) {
                    for (sight, matrix) in &SIGHTS {
                        let d = distance(*x, *y, matrix);
                        if d < MIN_DISTANCE {
                            too_close.push(format!("{theme:?}, {group}: {a} and {b}, {sight}: {d:.3}"));
                        }
                    }
                }
            }
        }
    }
    assert!(too_close.is_empty(), "{}", too_close.join("\n"));
}

#[test]
fn colour_vision_simulation_removes_unseen_differences() {
    let [all, prot, deut, trit] = SIGHTS.map(|s| s.1);
    // Grey must stay grey, and white must stay white.
    for sight in [prot, deut, trit] {
        for grey in [Color32::WHITE, Color32::from_gray(90)] {
            assert!(distance(grey, grey, &sight) == 0.0);
            let (plain, through) = (oklab(perceive(grey, &all)), oklab(perceive(grey, &sight)));
            let off: f64 = plain.iter().zip(through).map(|(a, b)| (a - b).abs()).sum();
            assert!(off < 1e-3, "{off}");
        }
    }
    // Without red or green cones, a red and a green of one lightness look the same. Without blue cones, a blue and a
    // green look the same.
    let (red, green) = (Color32::from_rgb(190, 110, 60), Color32::from_rgb(125, 140, 60));
    assert!(distance(red, green, &all) > 0.1);
    assert!(distance(red, green, &deut) < 0.5 * distance(red, green, &all));
    let (blue, teal) = (Color32::from_rgb(70, 130, 200), Color32::from_rgb(50, 145, 130));
    assert!(distance(blue, teal, &all) > 0.1);
    assert!(distance(blue, teal, &trit) < 0.5 * distance(blue, teal, &all));
}
