//! Tests of replay targets: the one that fits is chosen and offered by name, and a target that does not fit is refused.

use super::common::Window;
use egui::accesskit::Role;
use egui_kittest::kittest::{NodeT as _, Queryable as _};
use kinescope_session::targets::Targets;
use replay_engine::client::fitting::Fit;
use replay_engine::device::qemu;
use trace_core::progress::Progress;
use trace_core::recording::{Access, EventsBuilder, Hardware, PciFunction, Space, SpaceKind, TraceKind};
use trace_core::{Recording, RegOffset};

const RV100: &str = "qemu:ati-vga,model=rv100";

/// Returns a recording of a PCI device with a few accesses to its registers.
fn pci_recording(vendor: u16, device: u16) -> Recording {
    let mut recording = Recording::default();
    recording.set_hardware(&Hardware::Pci(PciFunction {
        vendor,
        device,
        ..PciFunction::default()
    }));
    recording.metadata.spaces = vec![Space {
        name: "bar2".into(),
        kind: SpaceKind::Registers,
        bytes: 0x4000,
    }];
    let mut events = EventsBuilder::new();
    for n in 0..8u64 {
        let access = Access {
            space: 0,
            write: n % 2 == 0,
            offset: RegOffset::new(0x50),
            width: 4,
            value: n,
        };
        events.access(n * 1000, 1, access);
    }
    recording.events = events.finish();
    recording
}

fn has_qemu() -> bool {
    qemu::check_installed().is_ok()
}

#[test]
fn pci_recording_selects_its_qemu_model() {
    let mut w = Window::from_recording(pci_recording(0x1002, 0x5159));
    assert_eq!(w.doc().replay.target(), RV100);
    assert_eq!(w.doc().replay.fit(RV100), Fit::Fits);
    w.run("show-replay");
    assert!(w.has(&format!("target {RV100}")));
    if !has_qemu() {
        assert!(w.has_part("QEMU not installed"));
        assert!(!w.run("replay"), "no target is available");
    }
}

#[test]
fn targets_say_whether_qemu_counts_as_installed() {
    for installed in [true, false] {
        let mut w = Window::from_recording(pci_recording(0x1002, 0x5159));
        let keys = w.folder.path().join("client-keys");
        let targets = Targets::new(Some(keys)).with_qemu_installed(installed);
        w.app().set_targets(targets);
        w.settle();
        let lacks = (!installed).then_some("QEMU not installed");
        assert_eq!(w.doc().replay.lacks(RV100), lacks);
        assert_eq!(w.doc().replay.obstacle().is_none(), installed);
        let targets = w.doc().replay.targets();
        assert_eq!(targets[0].name, RV100);
        assert_eq!(targets[0].free, installed);
    }
}

#[test]
fn replay_is_disabled_on_an_unfit_target_and_offers_a_fit_one() {
    let mut w = Window::from_recording(pci_recording(0x1002, 0x5159));
    w.run("show-replay");
    w.doc().replay.choose("software:mali-g71");
    w.settle();
    assert!(w.has_part("The recording is of 1002:5159"));
    assert!(w.has_part("the target is software:mali-g71, Mali-G71."));
    assert!(!w.run("replay") && !w.run("plan"));
    // The shortcut shows the reason until the user chooses a target that fits.
    w.harness.key_press_modifiers(egui::Modifiers::CTRL, egui::Key::Enter);
    w.settle();
    assert!(
        w.app()
            .notice
            .as_ref()
            .is_some_and(|n| n.1.contains("the target is software:mali-g71"))
    );
    assert!(w.harness.get_by_label("Run replay").accesskit_node().is_disabled());
    // A tab has the same label, so the test looks for any disabled button with it.
    let is_off = w
        .harness
        .query_all_by_role_and_label(Role::Button, "Replay")
        .any(|n| n.accesskit_node().is_disabled());
    assert!(is_off);
    if has_qemu() {
        w.click(&format!("Use {RV100}"));
        assert_eq!(w.doc().replay.target(), RV100);
        assert!(!w.has_part("the target is software:mali-g71"));
        assert!(w.app().notice.is_none());
    } else {
        assert!(w.has_part(&format!("{RV100} would fit · QEMU not installed")));
    }
}

#[test]
fn stored_target_that_does_not_fit_is_not_restored() {
    let mut w = Window::from_recording(pci_recording(0x1002, 0x5159));
    w.doc().replay.choose("software:mali-g71");
    w.settle();
    let path = w.doc().path.clone();
    w.app().close();
    trace_core::container::write(&pci_recording(0x1002, 0x5159), &path, &Progress::new()).unwrap();
    w.start(&path);
    assert_eq!(w.doc().replay.target(), RV100);
}

#[test]
fn target_menu_lists_fit_targets_first_with_reasons() {
    let mut w = Window::open_sample("vecadd.kine");
    assert_eq!(w.doc().replay.target(), "software:mali-g71");
    let targets = w.doc().replay.targets();
    let names: Vec<&str> = targets.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names[0], "software:mali-g71");
    for model in qemu::QEMU_MODELS {
        let t = targets.iter().find(|t| t.name == model.target()).unwrap();
        assert_eq!(t.fit, Fit::Unfit);
        assert_eq!(t.free, has_qemu());
        assert_eq!(t.state == "QEMU not installed", !has_qemu());
    }
    w.click("Target software:mali-g71");
    assert!(w.has_part("qemu:bochs-display") && w.has("other devices"));
    assert_eq!(w.has_part("QEMU not installed"), !has_qemu());
}

#[test]
fn gpu_without_a_simulator_reports_no_target() {
    let mut recording = pci_recording(0, 0);
    recording.metadata.kind = TraceKind::default();
    recording.metadata.identity.gpu_name = "Adreno 630".into();
    let mut w = Window::from_recording(recording);
    assert!(w.doc().replay.has_no_target() && !w.run("replay"));
    w.run("show-replay");
    assert!(w.has_part("The recording is of Adreno 630; no target of this program fits."));
}

#[test]
fn cuda_target_without_driver_disables_replay() {
    // With a CUDA driver, the driver decides whether the device exists.
    if replay_cuda::is_likely() {
        println!("skipped: this machine has a CUDA driver");
        return;
    }
    let mut w = Window::open_sample("cuda/net.kine");
    assert_eq!(w.doc().replay.target(), "cuda:0");
    assert_eq!(w.doc().replay.lacks("cuda:0"), Some("no driver here"));
    assert!(!w.run("replay"), "replay is disabled");
    assert!(w.run("plan"), "the plan can still be made");
    assert!(w.has_part("no driver here"));
    assert!(w.app().confirm.is_none(), "there is no question about a missing GPU");
}
