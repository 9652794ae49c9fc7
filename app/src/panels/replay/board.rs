//! Where the replay runs: the boards that are known, another one by its address, the pace.

use super::say::{aside, told};
use crate::document::Document;
use crate::document::boards::software;
use crate::panels::desk::Asks;
use crate::theme::widgets::{self, Part};
use crate::theme::{field, mono, palette, small, text};
use egui::{RichText, Ui};
use replay_engine::client::boards::{Board, Reach};

/// What an address of a board must hold.
const WANTED: &str = "give the address with its device: HOST:PORT/DEVICE";

/// What to do on the board first.
const PAIRING: &str = "First run this on the board:\nkinescope-agent serve --pair --listen ADDRESS:PORT\n\
                       ADDRESS is the board's own, or 0.0.0.0 for all its networks. Without --listen only programs on \
                       the board itself can reach it.";

struct Row {
    name: String,
    /// On the line below.
    told: String,
    /// On hover.
    more: String,
    /// Whether it can be had now.
    free: bool,
}

fn row(b: &Board) -> Row {
    let gpu = b.info.as_ref().map_or("", |i| i.gpu_name.as_str());
    let (state, free) = match &b.reach {
        Reach::Here => ("in this program".to_owned(), true),
        Reach::Free => ("free".to_owned(), true),
        Reach::Busy(who) => (format!("held by {who}"), false),
        Reach::Away(why) => (format!("away: {why}"), false),
    };
    let told = match gpu {
        "" => state.clone(),
        g => format!("{g} · {state}"),
    };
    Row {
        name: b.name.clone(),
        more: format!("{}\n{}\n{state}", b.name, b.description),
        told,
        free,
    }
}

fn rows(doc: &Document) -> Vec<Row> {
    let mut rows: Vec<Row> = doc.replay.boards.iter().flatten().map(row).collect();
    // Those of this program are there before anybody looked for boards.
    for (at, (name, model)) in software().enumerate() {
        if !rows.iter().any(|r| r.name == name) {
            let row = Row {
                told: format!("{} · in this program", model.gpu_name),
                more: format!("{name}\n{}\nin this program", model.description),
                name,
                free: true,
            };
            rows.insert(at.min(rows.len()), row);
        }
    }
    let now = doc.replay.board();
    if !rows.iter().any(|r| r.name == now) {
        rows.push(Row {
            name: now.into(),
            told: doc
                .replay
                .info()
                .map_or("by its address, not asked yet".into(), |i| i.gpu_name.clone()),
            more: now.into(),
            free: true,
        });
    }
    for r in rows.iter_mut().filter(|r| doc.replay.silent.as_ref() == Some(&r.name)) {
        r.told = "no answer".into();
        r.more = format!("{}\nno answer when it was asked last", r.name);
        r.free = false;
    }
    rows
}

pub(super) fn draw(doc: &mut Document, asks: &mut Asks, ui: &mut Ui) {
    let p = palette(ui);
    widgets::section(ui, "Board");
    let now = doc.replay.board().to_owned();
    for b in rows(doc) {
        let mark = if now == b.name { "●" } else { "○" };
        let mut left = Part::mono(format!("{mark} {}", text::middle(&b.name, 24)));
        if now == b.name && b.free {
            left = left.colour(p.job);
        } else if now == b.name {
            left = left.colour(p.warning);
        } else if !b.free {
            left = left.colour(p.quiet);
        }
        let r = widgets::list_row(
            ui,
            &format!("board {}", b.name),
            now == b.name,
            0.0,
            left,
            Part::small(""),
        );
        if r.on_hover_text(&b.more).clicked() {
            doc.replay.choose(&b.name);
        }
        ui.horizontal(|ui| {
            ui.add_space(15.0);
            aside(ui, b.told);
        });
    }
    ui.add_space(6.0);
    let look = ui
        .button("Look for boards")
        .on_hover_text("asks the agents that are paired");
    if look.clicked() {
        asks.command("find-boards");
    }
    widgets::section(ui, "Another board");
    ui.add_space(2.0);
    let id = egui::Id::unique("board address");
    let hint = RichText::new("HOST:PORT/DEVICE").font(mono()).color(p.quiet);
    let field = field::value(ui, id, "Board address", &mut doc.replay.board_field, None, |text| {
        egui::TextEdit::singleline(text)
            .font(mono())
            .desired_width(f32::INFINITY)
            .hint_text(hint)
    });
    let how = "agent://HOST:PORT/DEVICE, agent:///PATH.sock/DEVICE; to pair, the device may be left out";
    field.response.clone().on_hover_text(how);
    let typed = doc.replay.board_field.trim().to_owned();
    let named = match typed.as_str() {
        t if t.contains(':') && !t.starts_with("agent:") && !t.starts_with("software:") => format!("agent://{t}"),
        t => t.to_owned(),
    };
    let device = replay_engine::client::boards::parse(&named).is_ok();
    let wrong = id.with("wrong");
    if field.enter && device {
        doc.replay.choose(&named);
    } else if field.enter && !typed.is_empty() {
        ui.data_mut(|d| d.insert_temp(wrong, typed.clone()));
        field.take();
    }
    // Why it was not taken stands there until it is written anew.
    if ui.data(|d| d.get_temp::<String>(wrong)).is_some_and(|w| w == typed) {
        told(ui, format!("▲ {WANTED}"), p.error);
    }
    ui.add_space(4.0);
    ui.horizontal_wrapped(|ui| {
        let how = "run replays there; its agent must be paired";
        let r = ui.add_enabled(device, egui::Button::new("Use")).on_hover_text(how);
        if r.on_disabled_hover_text(WANTED).clicked() {
            doc.replay.choose(&named);
        }
        let r = ui.add_enabled(!typed.is_empty(), egui::Button::new("Pair…"));
        if r.on_hover_text(PAIRING).clicked() {
            asks.command("pair");
        }
    });
    pairing(asks, ui);
    widgets::section(ui, "Pace");
    ui.horizontal(|ui| {
        for (keep, word) in [(false, "fast"), (true, "as recorded")] {
            if ui.radio(doc.replay.keep_gaps == keep, word).clicked() && doc.replay.keep_gaps != keep {
                asks.command("toggle-pace");
            }
        }
    });
    let pace = if doc.replay.keep_gaps {
        "recorded idle time is kept"
    } else {
        "recorded idle time is skipped"
    };
    ui.label(RichText::new(pace).font(small()).color(p.quiet));
}

/// Shows the pairing code and asks whether the agent shows the same.
fn pairing(asks: &Asks, ui: &mut Ui) {
    let Ok(mut pairing) = asks.pairing.lock() else { return };
    let Some(now) = pairing.as_ref() else { return };
    let mut answer = None;
    let asked = ui.scope(|ui| {
        ui.label("Does the agent show this code?");
        ui.label(RichText::new(&now.code).font(mono()).size(18.0));
        ui.horizontal_wrapped(|ui| {
            if ui.button("Codes are the same").clicked() {
                answer = Some(true);
            }
            if ui.button("They differ").clicked() {
                answer = Some(false);
            }
        });
    });
    // However many boards stand above it, a question that comes up is seen.
    let before = ui.scope_id().with("pairing code");
    if ui.data_mut(|d| std::mem::replace(d.get_temp_mut_or_default::<String>(before), now.code.clone())) != now.code {
        asked.response.scroll_to_me(None);
    }
    if let Some(a) = answer {
        let _ = now.answer.send(a);
        *pairing = None;
    }
}
