//! Seeds of the user's files.

use super::seed::Add;
use kinescope_files::buffers::npy;
use trace_core::recording::ElementType;

const WORKSPACE: &str = r#"version = 1
moment = 95
filter = "job = 1 and not poll"
board = "software:mali-g71"
axis = "compressed"
view = [10.0, 90.5]
keep_gaps = true
outline = { shown = false, width = 200.0 }
inspector = { shown = true }
torn = [{ panel = "memory", at = [-40.0, 12.5], size = [720.0, 460.0] }]

[selection.memory]
space = 0
va = 281474708172800
bytes = 16

[dock]
kind = "column"
shares = [0.6, 0.4]

[[dock.children]]
kind = "panel"
id = "timeline"

[[dock.children]]
kind = "tabs"
active = 1
children = [{ kind = "panel", id = "events" }, { kind = "row", shares = [1.0], children = [{ kind = "panel", id = "jobs" }] }]
"#;

const RULES: &str = "ignore register JS?_STATUS field CO*
ignore register BAR2+0x64
ignore events dma-map
ignore buffer scratch*
ignore memory 1:0x8000000000..0x8000001000
ignore mappings
tolerance buffer * absolute 1e-5 relative 1.5e-3 ulp 0x4
";

const JOURNAL: &str = r#"{"do":{"bytes":{"buffer":"in","title":"edit","pieces":[{"offset":1,"new":"0708"},{"offset":9,"new":"ff"}]}}}
{"do":{"note":{"event":3,"old":null,"new":"first"}}}
{"do":{"note":{"event":3,"old":"first","new":{"text":"second","selection":{"job":1},"panels":["memory"]}}}}
"undo"
"redo"
{"do":{"pin":{"register":6336,"on":true}}}
{"do":{"plot":{"line":{"register":6336,"field":"start_flush"},"slot":1,"on":true}}}
{"do":{"element":{"buffer":"in","old":null,"new":"f16"}}}
{"do":{"switch":{"edit":0,"on":false}}}
{"do":{"switch":{"edit":0,"on":true}}}
{"do":{"revert":{"buffer":"in"}}}
"closed"
"#;

/// A grey picture of three pixels.
const PNG: &[u8] = &[
    0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x00,
    0x03, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00, 0x00, 0x00, 0x00, 0x3e, 0x8b, 0x4b, 0x68, 0x00, 0x00, 0x00, 0x0c, 0x49,
    0x44, 0x41, 0x54, 0x78, 0x9c, 0x63, 0x60, 0xf8, 0x6f, 0x0c, 0x00, 0x02, 0x35, 0x01, 0x33, 0xd5, 0x94, 0x00, 0x6e,
    0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82,
];

/// Adds the seeds.
pub fn add(add: Add<'_>) {
    for (file, element) in [
        ("f32", ElementType::F32),
        ("u8", ElementType::U8),
        ("f16", ElementType::F16),
    ] {
        add("npy", file, npy::write(element, &[], &[1, 2, 3, 4, 5, 6, 7, 8]));
    }
    add("ppm", "two-by-two", b"P6\n2 2\n255\n0123456789ab".to_vec());
    add("ppm", "comments", b"P6 # a\n#b\n1\t1 255 123 and more".to_vec());
    add("workspace", "whole", WORKSPACE.into());
    for (name, text) in [
        ("one", "next-event = \"Ctrl Shift N\"\n"),
        (
            "several",
            "undo = [\"Ctrl Z\", \"ctrl+u\"]\nredo = []\n\"no command\" = \"Alt +\"\n",
        ),
        (
            "wrong",
            "open = 7\nfit = [\"F\", 2]\nhelp = \"\"\nquit = [\"Ctrl \\u0007\", \"'\"]\n",
        ),
    ] {
        add("keys", name, text.into());
    }
    for (name, link) in [
        (
            "register",
            "kinescope:///home/ann/alexnet.kine?event=1200&select=register:0x24&show=memory,events&events=2130",
        ),
        ("memory", "kinescope:alexnet.kine?event=5&select=memory:0:0x7f0000:64"),
        (
            "buffer",
            "KINESCOPE:///a%20b/%C3%BC.kine?select=buffer:in%20%26%20out&later=1#part",
        ),
        ("bare", "kinescope:///a.kine"),
        ("note", "kinescope:///a.kine?event=1&select=note:1"),
    ] {
        add("link", name, link.into());
    }
    add("diff_rules", "every-rule", RULES.into());
    add(
        "diff_rules",
        "a-note",
        b"  # what this board does by itself\n\nignore mappings # all\n".to_vec(),
    );
    add(
        "workspace",
        "least",
        b"version = 1\nmoment = 0\nselection = { job = 3 }\n".to_vec(),
    );
    add("journal", "every-change", JOURNAL.into());
    let file = |head: [u8; 3], bytes: &[u8]| [&head, bytes].concat();
    add("buffer_file", "csv", file([0, 10, 3], b"1, 2.5\n-3e2\n"));
    add("buffer_file", "png", file([1, 0, 3], PNG));
    add(
        "buffer_file",
        "npy",
        file([3, 0, 8], &npy::write(ElementType::U8, &[], &[1, 2, 3, 4, 5, 6, 7, 8])),
    );
}
