//! The notebook: the notes of a recording in event order, as Markdown or as a self-contained HTML page.

use crate::{Document, descriptions, html, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use kinescope_files::changes::Note;
use kinescope_files::link::Link;
use kinescope_files::scene::Scene;
use maud::{Markup, PreEscaped, html};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::fmt::Write as _;

/// A note with its context, for export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotebookEntry {
    /// The scene of the note.
    pub scene: Scene,
    /// Text of the note.
    pub text: String,
    /// Nanoseconds from the first event.
    pub ns: u64,
    /// Formatted time.
    pub time: String,
    /// The last job that started before or at the event.
    pub job: Option<u32>,
    /// Description of the event on one line.
    pub line: String,
    /// Description of the selection; empty if it is only the event.
    pub selected: String,
    /// Link that opens the scene.
    pub link: String,
}

impl NotebookEntry {
    fn new(doc: &Document, event: u64, note: &Note) -> Self {
        let jobs = &doc.derived.jobs;
        let job = jobs.partition_point(|j| j.submit <= event).checked_sub(1);
        let scene = note.scene(event);
        // The path works from any folder of this machine.
        let file = doc.path.canonicalize().unwrap_or_else(|_| doc.path.clone());
        Self {
            text: note.text.clone(),
            ns: doc.ns(event),
            time: doc.format_time(event),
            job: job.and_then(|n| Some(jobs.get(n)?.index)),
            line: descriptions::format_event(doc, event),
            selected: descriptions::describe_selection(doc, &scene.selection),
            link: Link::new(&file, doc.len(), scene.clone()).to_string(),
            scene,
        }
    }

    /// Returns the heading: `Event 1 200`.
    fn heading(&self) -> String {
        format!("Event {}", text::count(self.scene.event))
    }

    /// Returns time, job and selection.
    fn place(&self) -> String {
        let mut place = self.time.clone();
        if let Some(j) = self.job {
            let _ = write!(place, " · job {j}");
        }
        if !self.selected.is_empty() && !place.ends_with(&format!(" · {}", self.selected)) {
            let _ = write!(place, " · {}", self.selected);
        }
        place
    }
}

/// Returns the notebook entry of the note at an event.
#[must_use]
pub fn entry(doc: &Document, event: u64) -> Option<NotebookEntry> {
    Some(NotebookEntry::new(doc, event, doc.changes().notes().get(&event)?))
}

/// Returns all notes, in event order. Notes after the last event belong to another recording and are left out.
#[must_use]
pub fn entries(doc: &Document) -> Vec<NotebookEntry> {
    let notes = doc.changes().notes().range(..doc.len());
    notes.map(|(e, n)| NotebookEntry::new(doc, *e, n)).collect()
}

/// Returns a short description of the recording for the head of a notebook.
#[must_use]
pub fn describe_recording(doc: &Document) -> String {
    let (events, jobs) = (doc.len(), doc.derived.jobs.len() as u64);
    let mut message = text::count_noun(events, "event", "events");
    if jobs > 0 {
        let _ = write!(message, ", {}", text::count_noun(jobs, "job", "jobs"));
    }
    message
}

/// Formats the notebook as Markdown. `pictures` has for each entry the file name of its picture, if any.
#[must_use]
pub fn markdown(title: &str, about: &str, entries: &[NotebookEntry], pictures: &[Option<String>]) -> String {
    let mut out = format!("# {}\n\n{about}\n", escaped(title));
    for (n, e) in entries.iter().enumerate() {
        let _ = write!(
            out,
            "\n## {}\n\n{} · [open]({})\n\n",
            e.heading(),
            escaped(&e.place()),
            e.link
        );
        let _ = write!(out, "{}\n\n", code(&e.line));
        if !e.text.trim().is_empty() {
            let _ = write!(out, "{}\n\n", e.text.trim_end());
        }
        if let Some(Some(name)) = pictures.get(n) {
            let _ = writeln!(out, "![the window at event {}](<{}>)", e.scene.event, name);
        }
    }
    out
}

/// Formats a line as code, whatever backticks it contains (CommonMark 0.31, 6.1).
fn code(line: &str) -> String {
    let longest = line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let line = line.replace(['\n', '\r'], " ");
    let space = if line.starts_with('`') || line.ends_with('`') {
        " "
    } else {
        ""
    };
    format!("{fence}{space}{line}{space}{fence}")
}

/// Escapes all characters that have a meaning in Markdown.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_punctuation() && !".,:;/-()".contains(c) {
            out.push('\\');
        }
        out.push(if c.is_control() { ' ' } else { c });
    }
    out
}

/// Formats the notebook as an HTML page. `pictures` has for each entry its picture as PNG, if any.
#[must_use]
pub fn page(title: &str, about: &str, entries: &[NotebookEntry], pictures: &[Option<Vec<u8>>]) -> String {
    let body = html! {
        h1 { (title) }
        p class="files" { (about) }
        @for (n, e) in entries.iter().enumerate() {
            article id={ "event-" (e.scene.event) } {
                h2 { a href=(e.link) { (e.heading()) } }
                p class="dim" { (e.place()) }
                p { code { (e.line) } }
                (written(&e.text))
                @if let Some(Some(png)) = pictures.get(n) {
                    img src={ "data:image/png;base64," (BASE64.encode(png)) }
                        alt={ "The window at event " (e.scene.event) };
                }
            }
        }
        @if entries.is_empty() { p { "There are no notes." } }
    };
    html::page(title, &body)
}

/// Renders the user's text as HTML. Its HTML markup stays text, and links may lead only to pages and recordings.
fn written(text: &str) -> Markup {
    let parser = Parser::new_ext(text, Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH);
    let safe = parser.map(|e| match e {
        Event::Html(t) | Event::InlineHtml(t) => Event::Text(t),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(tag) => Event::Start(tame(tag)),
        Event::SoftBreak => Event::HardBreak,
        other => other,
    });
    let mut out = String::new();
    pulldown_cmark::html::push_html(&mut out, safe);
    PreEscaped(out)
}

fn tame(tag: Tag<'_>) -> Tag<'_> {
    let leads = |url: &str| {
        let scheme = url.split_once(':').map(|(s, _)| s.to_ascii_lowercase());
        matches!(scheme.as_deref(), Some("http" | "https" | "mailto" | "kinescope")) || url.starts_with('#')
    };
    match tag {
        Tag::Link {
            link_type,
            dest_url,
            title,
            id,
        } => Tag::Link {
            link_type,
            dest_url: if leads(&dest_url) { dest_url } else { "#".into() },
            title,
            id,
        },
        // The page is self-contained: a remote picture would reveal that the page was opened.
        Tag::Image {
            link_type, title, id, ..
        } => Tag::Image {
            link_type,
            dest_url: "data:,".into(),
            title,
            id,
        },
        other => other,
    }
}

/// Returns the first line of a note, for lists.
#[must_use]
pub fn title(note: &Note) -> &str {
    let line = note.text.lines().map(str::trim).find(|l| !l.is_empty());
    line.map_or("untitled", |l| l.trim_start_matches(['#', ' ']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kinescope_files::scene::Selection;

    fn entry(text: &str) -> NotebookEntry {
        NotebookEntry {
            scene: Scene {
                event: 1200,
                selection: Selection::Job(3),
                panels: Vec::new(),
            },
            text: text.into(),
            ns: 12_345_000,
            time: "12.345 ms".into(),
            job: Some(3),
            line: "write JS0_COMMAND 0x1 · `start`".into(),
            selected: "job 3".into(),
            link: "kinescope:///a%20b.kine?event=1200".into(),
        }
    }

    #[test]
    fn note_text_never_becomes_markup() {
        let bad = "<script>alert(1)</script>\n\nThis is **bold** [x](javascript:alert(1)) ![p](http://a/b.png)\n<img src=x onerror=1>";
        let page = page("<t>", "1 event", &[entry(bad)], &[]);
        assert!(
            page.contains("<strong>bold</strong>") && page.contains("&lt;script&gt;"),
            "{page}"
        );
        assert!(page.contains("<title>&lt;t&gt;</title>"));
        for never in ["<script", "<img src=x", "javascript:", "http://a/b.png"] {
            assert!(!page.contains(never), "{never}: {page}");
        }
    }

    #[test]
    fn a_page_holds_its_pictures_and_links() {
        let page = page("t", "", &[entry("seen"), entry("")], &[Some(vec![1, 2, 3]), None]);
        assert!(page.contains("data:image/png;base64,AQID") && page.contains("kinescope:///a%20b.kine?event=1200"));
        assert_eq!(page.matches("<img").count(), 1);
    }

    #[test]
    fn markdown_contains_events_and_pictures() {
        let m = markdown(
            "a_b*.kine",
            "1 event",
            &[entry("- one\n- two")],
            &[Some("notes-pictures/1.png".into())],
        );
        assert!(m.starts_with("# a\\_b\\*.kine\n"), "{m}");
        assert!(m.contains("## Event 1") && m.contains("- one\n- two\n"));
        assert!(
            m.contains("``write JS0_COMMAND 0x1 · `start` ``") || m.contains("`` write JS0_COMMAND 0x1 · `start` ``"),
            "{m}"
        );
        assert!(m.contains("![the window at event 1200](<notes-pictures/1.png>)"));
    }
}
