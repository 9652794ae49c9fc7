//! Self-contained HTML pages: no script, no other file, light or dark like the reader's system.

use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = "
:root { color-scheme: light dark; --ink: light-dark(#1b1f24, #e2e6ea); --dim: light-dark(#5c6670, #98a2ad);
  --paper: light-dark(#ffffff, #15181c); --card: light-dark(#f4f6f8, #1e2328); --line: light-dark(#d8dde2, #343b43);
  --changed: light-dark(#8a5a00, #f0b64a); --gone: light-dark(#a1242f, #ff8f8a); --more: light-dark(#00669a, #6cc0ff);
  --same: light-dark(#2b6a3f, #7fcf98); }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 68rem;
  margin: 2.5rem auto; padding: 0 1.5rem; }
h1 { font-size: 1.45rem; margin: 0 0 .25rem; } h2 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p.files { color: var(--dim); margin: 0 0 1.25rem; } p.part { font-size: 1.05rem; }
code, td, .mono { font-family: ui-monospace, monospace; font-size: .86rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--dim); font-weight: 500; font-size: .86rem; } td.n, th.n { text-align: right; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(10.5rem, 1fr)); gap: .75rem; margin: 1rem 0; }
.card { background: var(--card); border-radius: 6px; padding: .7rem .9rem; }
.card b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.card span { color: var(--dim); font-size: .86rem; }
.changed { color: var(--changed); } .gone { color: var(--gone); } .more { color: var(--more); } .same { color: var(--same); }
.dim { color: var(--dim); } ol { margin: .25rem 0 1rem; padding-left: 1.4rem; }
article { margin: 2.25rem 0; } article h2 { margin: 0; } article > p.dim { margin: .1rem 0 .6rem; }
article img { width: 100%; height: auto; border: 1px solid var(--line); border-radius: 6px; margin: .6rem 0; }
article pre { background: var(--card); border-radius: 6px; padding: .7rem .9rem; overflow-x: auto; }
a { color: var(--more); }
@media print { body { margin: 0; max-width: none; } }
";

/// Renders a page with this title and body.
#[must_use]
pub fn page(title: &str, body: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    }
    .into_string()
}
