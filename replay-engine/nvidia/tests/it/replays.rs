//! A client's life on the model: memory at chosen addresses, copies, uploads, semaphores, launches, end.

use crate::machine::{BYTES, CODE, CONTROL, LONG, Machine, SYSTEM, VIDEO, add_numbers, numbers, room, set_up, submit};
use nvidia_client::steps::{EngineKind, Step};
use nvidia_client::{ClientError, DriverBranch, Operation, Place, PlayError, Player};
use nvidia_model::Settings;

/// Returns the number of open files of this process.
fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn kernels_run_on_each_branch_and_nothing_is_left() {
    for (branch, version) in [
        (DriverBranch::R570, "570.211.01"),
        (DriverBranch::R580, "580.159.04"),
        (DriverBranch::R595, "595.45.04"),
    ] {
        let machine = Machine::new(Settings::default().with_version(version).unwrap());
        let client = machine.open(branch).unwrap();
        assert!(client.info().name().contains("H100"), "{:?}", client.info().name());
        assert_eq!(
            (client.info().sm_version, client.info().classes.compute),
            (0x900, 0xcbc0)
        );
        let mut memories = room();
        let mut player = Player::new(client, CONTROL, LONG.as_nanos() as u64, &mut memories).unwrap();
        let mut work = set_up(&mut player).unwrap();
        for _ in 0..3 {
            add_numbers(&mut player, &mut work).unwrap();
        }
        player.close().unwrap();
        assert!(memories.iter().all(Option::is_none));
        machine.assert_empty(version);
    }
}

#[test]
fn arguments_of_another_branch_are_refused() {
    let machine = Machine::new(Settings::default());
    let error = machine.open(DriverBranch::R570).unwrap_err();
    assert!(matches!(error, ClientError::Refused { .. }), "{error}");
    machine.assert_empty("another branch");
}

#[test]
fn memory_is_where_it_was_asked_for() {
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    let addresses = [0x7fd0_1a80_0000, 0x3_0200_0000, 0x1_0000_0000_0000];
    for (n, va) in (0u8..).zip(addresses) {
        player.map(Place::Video, va, BYTES).unwrap();
        player.map(Place::System, va + BYTES, BYTES).unwrap();
        // The write goes over the border of both.
        let content = vec![n + 1; 0x2000];
        player.write(va + BYTES - 0x1000, &content).unwrap();
        let mut read = vec![0; 0x2000];
        player.read(va + BYTES - 0x1000, &mut read).unwrap();
        assert_eq!(read, content);
        player.read(va, &mut read).unwrap();
        assert_eq!(read, vec![0; 0x2000], "memory is zero at first");
    }
    let taken = player.map(Place::Video, addresses[0], BYTES).unwrap_err();
    let operation = match taken {
        PlayError::Client(ClientError::Refused { operation, .. }) => operation,
        other => panic!("{other}"),
    };
    assert_eq!(operation, Operation::MapForGpu(addresses[0]));
    let outside = player.write(addresses[0] - 1, &[1]).unwrap_err();
    assert_eq!(
        outside,
        PlayError::Unmapped {
            va: addresses[0] - 1,
            bytes: 1
        }
    );
    player.close().unwrap();
    machine.assert_empty("memory");
}

#[test]
fn steps_are_played() {
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    let mut page = [7u8; 4096];
    page[100..104].copy_from_slice(&[1, 2, 3, 4]);
    let pages = [1u32.to_le_bytes(), 0u32.to_le_bytes()];
    let words = crate::work::Work::new(CODE).copy(SYSTEM + 100, VIDEO, 8);
    let mut push_buffer: Vec<u8> = [0x2001_8000u32, 0xc8b5].iter().flat_map(|w| w.to_le_bytes()).collect();
    push_buffer.extend(words.iter().flat_map(|w| w.to_le_bytes()));
    let map = |place, va| Step::Map {
        place,
        va,
        bytes: BYTES,
    };
    let steps = [
        map(Place::Video, VIDEO),
        map(Place::System, SYSTEM),
        Step::WritePages {
            va: SYSTEM + 100,
            bytes: 4096,
            pages: &pages,
        },
        Step::Write {
            va: SYSTEM + 0x1_0000,
            data: &push_buffer,
        },
        Step::Submit {
            event: 9,
            engine: EngineKind::Copy,
            va: SYSTEM + 0x1_0000,
            words: (push_buffer.len() / 4) as u32,
        },
    ];
    for step in &steps {
        player.play(step, |n| (n == 1).then_some(&page)).unwrap();
    }
    let mut read = [0; 8];
    player.read(VIDEO, &mut read).unwrap();
    assert_eq!(read, [1, 2, 3, 4, 7, 7, 7, 7]);
    let missing = Step::WritePages {
        va: SYSTEM,
        bytes: 4,
        pages: &pages[..1],
    };
    let error = player.play(&missing, |_| None).unwrap_err();
    assert_eq!(error, PlayError::NoPage { image: 1 });
    player.unmap_all().unwrap();
    player.close().unwrap();
    machine.assert_empty("steps");
}

#[test]
fn semaphores_order_the_channels() {
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    set_up(&mut player).unwrap();
    // Release with a time stamp, then acquire what was released.
    let [low, high] = [VIDEO as u32, (VIDEO >> 32) as u32];
    let release = [5 << 16 | 1 << 29 | 0x5c >> 2, low, high, 41, 0, 1 | 1 << 20 | 1 << 25];
    let acquire = [5 << 16 | 1 << 29 | 0x5c >> 2, low, high, 41, 0, 0];
    submit(&mut player, 1, &release).unwrap();
    submit(&mut player, 2, &acquire).unwrap();
    let mut value = [0; 4];
    player.read(VIDEO, &mut value).unwrap();
    assert_eq!(u32::from_le_bytes(value), 41);
    player.close().unwrap();
    machine.assert_empty("semaphores");
}

#[test]
fn memory_that_the_cpu_cannot_map_is_written_by_copies() {
    // The first six requests map the own memory of the player, and that of the machine: registers, ring, semaphores,
    // notifier, staging, and the memory of the machine. The next ones are for the first writes to video memory.
    let machine = Machine::with_failures("request:4e:0x51@7,request:4e:0x51@8");
    let mut memories = room();
    let mut player = machine.player(LONG, &mut memories).unwrap();
    let mut work = set_up(&mut player).unwrap();
    player.write(VIDEO + 3, &numbers(5.0)).unwrap();
    let mut read = vec![0; 4000];
    player.read(VIDEO + 3, &mut read).unwrap();
    assert_eq!(read, numbers(5.0));
    add_numbers(&mut player, &mut work).unwrap();
    player.close().unwrap();
    machine.assert_empty("memory without mapping");
}

#[test]
fn a_thousand_players_leave_nothing() {
    let machine = Machine::new(Settings::default());
    let mut memories = room();
    let files = open_files();
    for n in 0..1000 {
        let mut player = machine.player(LONG, &mut memories).unwrap();
        player.map(Place::System, SYSTEM, BYTES).unwrap();
        submit(&mut player, n, &[1 << 29 | 1 << 16 | 0x78 >> 2, 0]).unwrap();
        player.close().unwrap();
        if n % 100 == 0 {
            machine.assert_empty("a player");
        }
    }
    machine.assert_empty("the last player");
    // Other tests of this process may have files at this time.
    let more = open_files().saturating_sub(files);
    assert!(more < 200, "{more} files are left open");
}
