//! The graph of a pipeline: stages as boxes in columns by depth, and an edge for each tensor.

use super::view::View;
use crate::theme::{body, contrast, mono_small, palette, small, strong, widgets};
use egui::accesskit::Role;
use egui::epaint::CubicBezierShape;
use egui::{Align2, Color32, Pos2, Rect, ScrollArea, Sense, Stroke, StrokeKind, Ui, Vec2, WidgetInfo, pos2, vec2};
use kinescope_pipeline::{LiveStage, LiveState, Pipeline, RunVerdict, TensorType, ValueSource, output_names};

/// Size of a box without its ports, and the height of a port, points.
const BOX: Vec2 = vec2(152.0, 40.0);
const PORT: f32 = 16.0;
/// Distance between columns, which holds the names of tensors, and between boxes of a column, points.
const GAP: Vec2 = vec2(116.0, 20.0);
/// Distance to the border, points.
const MARGIN: f32 = 16.0;

/// A box of the graph.
struct Node {
    rect: Rect,
    title: String,
    /// Second line.
    note: String,
    /// Index of the stage; `None` for an input or an output of the pipeline.
    stage: Option<usize>,
    takes: Vec<String>,
    gives: Vec<String>,
}

impl Node {
    fn left_port(&self, at: usize) -> Pos2 {
        pos2(self.rect.left(), self.port_height(at))
    }

    fn right_port(&self, at: usize) -> Pos2 {
        pos2(self.rect.right(), self.port_height(at))
    }

    fn port_height(&self, at: usize) -> f32 {
        self.rect.top() + BOX.y + PORT * (at as f32 + 0.5)
    }
}

/// The boxes: inputs of the pipeline, its stages, and its outputs, each in their order.
struct Layout {
    inputs: Vec<Node>,
    stages: Vec<Node>,
    outputs: Vec<Node>,
    size: Vec2,
}

impl Layout {
    fn new(pipeline: &Pipeline) -> Self {
        let (document, graph) = (&pipeline.document, &pipeline.graph);
        let last = graph
            .stages
            .iter()
            .map(|s| s.depth.saturating_add(2))
            .max()
            .unwrap_or(1);
        let mut heights = vec![MARGIN; last.saturating_add(1)];
        let mut place = |column: usize, title: &str, note: String, takes: Vec<String>, gives: Vec<String>| {
            let top = heights.get(column).copied().unwrap_or(MARGIN);
            let ports = takes.len().max(gives.len()) as f32;
            let height = BOX.y + PORT * ports + 6.0;
            if let Some(slot) = heights.get_mut(column) {
                *slot = top + height + GAP.y;
            }
            let left = MARGIN + column as f32 * (BOX.x + GAP.x);
            Node {
                rect: Rect::from_min_size(pos2(left, top), vec2(BOX.x, height)),
                title: title.to_owned(),
                note,
                stage: None,
                takes,
                gives,
            }
        };
        let inputs = document.inputs.iter();
        let inputs = inputs
            .map(|i| place(0, &i.name, "input".to_owned(), Vec::new(), vec![i.name.clone()]))
            .collect();
        let stages = document
            .stages
            .iter()
            .zip(&graph.stages)
            .enumerate()
            .map(|(number, (stage, node))| {
                let of_loop = node
                    .of_loop
                    .and_then(|l| document.loops.get(l))
                    .map(|l| format!("loop {}", l.name));
                let takes = stage.inputs.iter().map(|c| c.name.clone()).collect();
                let gives = output_names(stage).into_iter().map(str::to_owned).collect();
                Node {
                    stage: Some(number),
                    ..place(
                        node.depth.saturating_add(1),
                        &stage.name,
                        of_loop.unwrap_or_default(),
                        takes,
                        gives,
                    )
                }
            });
        let stages = stages.collect();
        let outputs = document.outputs.iter();
        let outputs = outputs
            .map(|o| place(last, &o.name, o.file.clone(), vec![o.name.clone()], Vec::new()))
            .collect();
        let height = heights.iter().copied().fold(0.0, f32::max);
        Self {
            inputs,
            stages,
            outputs,
            size: vec2(2.0 * MARGIN + last as f32 * (BOX.x + GAP.x) + BOX.x, height),
        }
    }

    /// Returns the port that gives a value: for a carried value the one of its first round, or of the later ones.
    fn port(&self, pipeline: &Pipeline, source: ValueSource, of_later_rounds: bool) -> Option<Pos2> {
        match source {
            ValueSource::Input(input) => self.inputs.get(input).map(|n| n.right_port(0)),
            ValueSource::Stage { stage, output } => self.stages.get(stage).map(|n| n.right_port(output)),
            ValueSource::Carried { of_loop, value } => {
                let [start, next] = *pipeline.graph.loops.get(of_loop)?.carry.get(value)?;
                match (of_later_rounds, start) {
                    (true, _) => self.port(pipeline, next, true),
                    // The start of a loop can be a value of an earlier loop, never one of its own.
                    (false, ValueSource::Carried { of_loop: before, .. }) if before == of_loop => None,
                    (false, start) => self.port(pipeline, start, true),
                }
            }
        }
    }
}

/// Draws the graph, which scrolls.
pub(super) fn draw(view: &mut View, pipeline: &Pipeline, live: &[LiveStage], ui: &mut Ui) {
    let layout = Layout::new(pipeline);
    ScrollArea::both()
        .id_salt("pipeline graph")
        .auto_shrink(false)
        .show(ui, |ui| {
            let (area, _) = ui.allocate_exact_size(layout.size.max(ui.available_size()), Sense::hover());
            let origin = area.min.to_vec2();
            edges(pipeline, &layout, origin, ui);
            for node in layout.inputs.iter().chain(&layout.outputs) {
                draw_box(node, origin, palette(ui).line, false, ui);
            }
            for (node, live) in layout.stages.iter().zip(live) {
                let (word, ink) = describe_state(live, ui);
                let is_selected = view.selected.is_some() && view.selected == node.stage;
                let rect = draw_box(node, origin, ink, is_selected, ui);
                state(rect, &word, ink, ui);
                let id = ui.scope_id().with(("stage", node.stage));
                let response = ui.interact(rect, id, Sense::click());
                let label = format!("stage {} {word}", node.title);
                response.widget_info(|| WidgetInfo::labeled(Role::Button, true, &label));
                if response.clicked() {
                    view.selected = node.stage;
                }
                if response.gained_focus() {
                    response.scroll_to_me(None);
                }
                if response.has_focus() || response.hovered() {
                    let edge = Stroke::new(1.0, palette(ui).read);
                    ui.painter()
                        .rect_stroke(rect.expand(2.0), 4.0, edge, StrokeKind::Inside);
                }
                response.on_hover_text(label);
            }
        });
}

/// Returns the state of a stage in one or two words, and its colour.
pub(super) fn describe_state(live: &LiveStage, ui: &Ui) -> (String, Color32) {
    let p = palette(ui);
    let round = live.round.map_or_else(String::new, |round| format!(", round {round}"));
    match live.state {
        LiveState::Waiting => ("waiting".to_owned(), p.line),
        LiveState::Running => (format!("running{round}"), p.warning),
        LiveState::Ended(RunVerdict::Match) => (format!("✓ match{round}"), p.job),
        LiveState::Ended(verdict) => (format!("▲ {}{round}", verdict.name()), p.error),
    }
}

/// Draws a box with its ports. Returns its rectangle on the screen.
fn draw_box(node: &Node, origin: Vec2, edge: Color32, is_selected: bool, ui: &Ui) -> Rect {
    let p = palette(ui);
    let rect = node.rect.translate(origin);
    if !ui.is_rect_visible(rect) {
        return rect;
    }
    let fill = if is_selected { p.selection } else { p.raised };
    ui.painter()
        .rect(rect, 4.0, fill, Stroke::new(1.0, edge), StrokeKind::Inside);
    let line = |top: f32| Rect::from_min_size(rect.min + vec2(8.0, top), vec2(rect.width() - 16.0, 18.0));
    widgets::paint_truncated(ui, line(3.0), Align2::LEFT_CENTER, &node.title, strong(), p.text);
    if node.stage.is_none() || !node.note.is_empty() {
        let (place, align) = match node.stage {
            Some(_) => (line(3.0), Align2::RIGHT_CENTER),
            None => (line(20.0), Align2::LEFT_CENTER),
        };
        widgets::paint_truncated(ui, place, align, &node.note, small(), p.quiet);
    }
    let half = rect.width() / 2.0 - 10.0;
    for (at, name) in node.takes.iter().enumerate() {
        let port = node.left_port(at) + origin;
        ui.painter().circle_filled(port, 3.0, p.quiet);
        let place = Rect::from_min_size(port + vec2(8.0, -PORT / 2.0), vec2(half, PORT));
        widgets::paint_truncated(ui, place, Align2::LEFT_CENTER, name, mono_small(), p.quiet);
    }
    for (at, name) in node.gives.iter().enumerate() {
        let port = node.right_port(at) + origin;
        ui.painter().circle_filled(port, 3.0, p.quiet);
        let place = Rect::from_min_size(port + vec2(-8.0 - half, -PORT / 2.0), vec2(half, PORT));
        widgets::paint_truncated(ui, place, Align2::RIGHT_CENTER, name, mono_small(), p.quiet);
    }
    rect
}

/// Draws the state of a stage, below its name.
fn state(rect: Rect, word: &str, ink: Color32, ui: &Ui) {
    let p = palette(ui);
    // Lines are too faint for words.
    let ink = if contrast(ink, p.raised) < 3.0 { p.quiet } else { ink };
    let place = Rect::from_min_size(rect.min + vec2(8.0, 20.0), vec2(rect.width() - 16.0, 18.0));
    widgets::paint_truncated(ui, place, Align2::LEFT_CENTER, word, body(), ink);
}

/// Draws all edges, each with the name and the shape of its tensor at its start.
fn edges(pipeline: &Pipeline, layout: &Layout, origin: Vec2, ui: &Ui) {
    let mut named: Vec<Pos2> = Vec::new();
    let mut edge = |source: ValueSource, to: Pos2, of_later_rounds: bool| {
        let Some(from) = layout.port(pipeline, source, of_later_rounds) else {
            return;
        };
        curve(from + origin, to + origin, ui);
        // Several edges of a tensor have one name.
        if !named.contains(&from)
            && let Some(tensor) = pipeline.type_of(source)
        {
            named.push(from);
            name(from + origin, tensor, ui);
        }
    };
    for (node, at) in pipeline.graph.stages.iter().zip(&layout.stages) {
        for (number, source) in node.inputs.iter().enumerate() {
            let to = at.left_port(number);
            edge(*source, to, false);
            if let ValueSource::Carried { of_loop, .. } = source
                && node.of_loop == Some(*of_loop)
            {
                edge(*source, to, true);
            }
        }
    }
    for (source, at) in pipeline.graph.outputs.iter().zip(&layout.outputs) {
        edge(*source, at.left_port(0), true);
    }
}

/// Draws an edge. One that leads back, to the next round of a loop, goes around its boxes.
fn curve(from: Pos2, to: Pos2, ui: &Ui) {
    let p = palette(ui);
    let is_back = to.x <= from.x;
    let (ink, reach, drop) = match is_back {
        true => (p.poll, 90.0, 90.0),
        false => (p.quiet, ((to.x - from.x) / 2.0).clamp(24.0, 120.0), 0.0),
    };
    let points = [from, from + vec2(reach, drop), to + vec2(-reach, drop), to];
    let stroke = Stroke::new(1.0, ink);
    ui.painter().add(CubicBezierShape::from_points_stroke(
        points,
        false,
        Color32::TRANSPARENT,
        stroke,
    ));
}

/// Writes the type and shape of a tensor above the start of its edges.
fn name(from: Pos2, tensor: &TensorType, ui: &Ui) {
    let text = format!("{} {}", tensor.element().name(), tensor.format_shape());
    let place = Rect::from_min_size(from + vec2(6.0, -PORT - 1.0), vec2(GAP.x - 12.0, PORT));
    widgets::paint_truncated(ui, place, Align2::LEFT_CENTER, &text, mono_small(), palette(ui).quiet);
}
