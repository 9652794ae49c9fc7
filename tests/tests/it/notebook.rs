//! `notebook`, `link` and `--at`: notes of a user as pages, and links back to their events.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    reason = "a test panics when it fails, and prints a line when it is skipped"
)]

use std::fs;
use std::path::Path;
use std::process::Command;
use whole_program_tests::{copy_with_notes, program, root, run};

#[test]
fn notes_are_printed_in_event_order_with_links() {
    let folder = tempfile::tempdir().unwrap();
    let file = copy_with_notes(
        folder.path(),
        "digits.kine",
        &[(40, "- later"), (5, "# earlier\n\nwith `code`")],
    );
    let ended = run(["notebook".as_ref(), file.as_os_str()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let (a, b) = (
        ended.out.find("## Event 5").unwrap(),
        ended.out.find("## Event 40").unwrap(),
    );
    assert!(
        a < b && ended.out.contains("- later") && ended.out.contains("job 0"),
        "{}",
        ended.out
    );
    let expected = run([
        "link",
        file.to_str().unwrap(),
        "--at",
        "5",
        "--select",
        "job:0",
        "--show",
        "timeline",
        "--show",
        "jobs",
    ]);
    assert_eq!(expected.code, Some(0), "{expected:?}");
    assert!(
        ended.out.contains(expected.out.trim()),
        "{} in {}",
        expected.out,
        ended.out
    );
    let without_notes = root().join("sample-traces/vecadd.kine");
    let copy = folder.path().join("plain.kine");
    fs::copy(without_notes, &copy).unwrap();
    let ended = run(["notebook".as_ref(), copy.as_os_str()]);
    assert!(ended.code == Some(0) && ended.out.contains("no notes"), "{ended:?}");
}

#[test]
fn notebook_page_has_pictures_and_links_that_reproduce_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = copy_with_notes(folder.path(), "digits.kine", &[(5, "<b>first</b>"), (40, "second")]);
    let page = folder.path().join("notes.html");
    let ended = run(["notebook".as_ref(), file.as_os_str(), "-o".as_ref(), page.as_os_str()]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let text = fs::read_to_string(&page).unwrap();
    assert_eq!(text.matches("data:image/png;base64,").count(), 2);
    assert!(text.contains("&lt;b&gt;first") && !text.contains("<b>first"));
    for external in ["src=\"http", "<script", "<link"] {
        assert!(
            !text.contains(external),
            "the page refers to nothing external: {external}"
        );
    }
    let shot = |name: &str, more: &[&str]| {
        let out = folder.path().join(name);
        let fixed = ["--screenshot", out.to_str().unwrap(), "--size", "900x600"];
        let ended = run(fixed.iter().chain(more));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        fs::read(out).unwrap()
    };
    let path = file.to_str().unwrap();
    let link = run(["link", path, "--at", "40"]).out.trim().to_owned();
    let (by_link, by_event) = (shot("a.svg", &[&link]), shot("b.svg", &[path, "--at", "40"]));
    assert!(by_link == by_event && by_event != shot("c.svg", &[path, "--at", "5"]));
}

#[test]
fn invalid_events_and_links_are_refused() {
    let file = root().join("sample-traces/digits.kine");
    let (path, folder) = (file.to_str().unwrap(), tempfile::tempdir().unwrap());
    let out = folder.path().join("x.png");
    let out = out.to_str().unwrap();
    run(["link", path, "--at", "99999999"]).assert_refused("there is no event 99999999: its events are 0 to");
    // Invalid arguments are refused with a hint to the help.
    let assert_refused_with = |arguments: &[&str], needle: &str| {
        let ended = run(arguments);
        assert!(
            ended.code == Some(2) && ended.err.contains(needle),
            "expected '{needle}': {ended:?}"
        );
    };
    assert_refused_with(&["link", path, "--at", "x"], "is not the number of an event");
    assert_refused_with(&["link", path, "--show", "nothing"], "there is no panel 'nothing'");
    assert_refused_with(&["link", path, "--select", "pixel:1"], "expected event, register:");
    run([path, "--at", "99,999,999", "--screenshot", out]).assert_refused("has no event");
    run(["kinescope:///a.kine?event=1x", "--screenshot", out])
        .assert_refused("at character 26, '1x' is not a valid event number");
    run(["kinescope://lab3/a.kine", "--screenshot", out]).assert_refused("names the machine 'lab3'");
    run(["kinescope:///nowhere/a.kine", "--screenshot", out]).assert_refused("no such file");
    run(["notebook", path, "-o", folder.path().join("n.txt").to_str().unwrap()])
        .assert_refused("expected .md or .html");
    assert!(!Path::new(out).exists());
}

#[test]
fn link_registration_keeps_other_desktop_defaults() {
    let home = tempfile::tempdir().unwrap();
    let (data, config) = (home.path().join("data"), home.path().join("config"));
    fs::create_dir_all(&config).unwrap();
    fs::write(
        config.join("mimeapps.list"),
        "[Default Applications]\ntext/html=firefox.desktop\n",
    )
    .unwrap();
    for _ in 0..2 {
        let done = Command::new(program("kinescope"))
            .args(["link", "--register"])
            .env("HOME", home.path())
            .env("XDG_DATA_HOME", &data)
            .env("XDG_CONFIG_HOME", &config)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
    }
    let entry = fs::read_to_string(data.join("applications/kinescope.desktop")).unwrap();
    assert!(
        entry.contains("MimeType=x-scheme-handler/kinescope;") && entry.contains("/kinescope\" %u"),
        "{entry}"
    );
    let list = fs::read_to_string(config.join("mimeapps.list")).unwrap();
    assert_eq!(
        list,
        "[Default Applications]\nx-scheme-handler/kinescope=kinescope.desktop\ntext/html=firefox.desktop\n"
    );
}

#[test]
fn single_panel_exports_as_png_and_svg() {
    let folder = tempfile::tempdir().unwrap();
    let file = root().join("sample-traces/digits.kine");
    let draw = |name: &str, more: &[&str]| {
        let out = folder.path().join(name);
        let fixed = [
            file.to_str().unwrap(),
            "--screenshot",
            out.to_str().unwrap(),
            "--size",
            "900x600",
        ];
        let ended = run(fixed.iter().chain(more));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        fs::read(out).unwrap()
    };
    let text = |name: &str, more: &[&str]| String::from_utf8(draw(name, more)).unwrap();
    let window = text("whole.svg", &[]);
    let memory = text("memory.svg", &["--panel", "memory"]);
    assert!(window.contains("width=\"900\" height=\"600\""), "{}", &window[..200]);
    assert!(!memory.contains("width=\"900\" height=\"600\"") && memory.len() < window.len());
    for svg in [&window, &memory] {
        // Every reference has its definition, and the file refers to nothing external.
        for (i, _) in svg.match_indices("xlink:href=\"#") {
            let id = svg[i + 13..].split('"').next().unwrap();
            assert!(svg.contains(&format!("id=\"{id}\"")), "{id}");
        }
        assert!(!svg.contains("href=\"http"));
    }
    assert!(
        window.contains("Kinescope") || window.contains("digits.kine"),
        "the SVG contains its texts as characters"
    );
    let parse = Command::new("python3")
        .args([
            "-c",
            "import sys, xml.dom.minidom as m; [m.parse(p) for p in sys.argv[1:]]",
        ])
        .args(["whole.svg", "memory.svg"].map(|n| folder.path().join(n)))
        .output()
        .unwrap();
    assert!(parse.status.success(), "{parse:?}");
    let (full, panel) = (draw("a.png", &[]), draw("b.png", &["--panel", "timeline"]));
    assert!(full.starts_with(b"\x89PNG") && panel.starts_with(b"\x89PNG") && full.len() > panel.len());
    let out = folder.path().join("x.jpg");
    run([file.to_str().unwrap(), "--screenshot", out.to_str().unwrap()]).assert_refused("expected .png or .svg");
}
