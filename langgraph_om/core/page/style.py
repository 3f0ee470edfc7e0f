"""How a memory looks: light and dark, on a screen of any width, without a script or a font file."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
.om {
  color-scheme: light dark; --ink: #1d2329; --soft: #5b6570; --faint: #646e79; --paper: #fff;
  --card: #f6f7f9; --line: #e3e6ea; --accent: #2b67d1; --ahead: #a9c5f6; --red: #d6453d;
  --amber: #c98a06; --green: #2b7a48; --warn: #fdf3e1; --warn-ink: #7a4d00; --add: #e3f5e9;
  --add-ink: #16633a; --cut: #fdeaea; --cut-ink: #97282a; --pin: #efe9fd; --pin-ink: #5a3ea8;
  color: var(--ink); background: var(--paper);
  font: 15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,Arial,"Noto Sans",sans-serif;
  max-width: 50rem; margin: 0 auto; padding: 1.75rem 1.25rem 3rem; overflow-wrap: break-word;
  -webkit-text-size-adjust: 100%; text-size-adjust: 100%;
}
@media (prefers-color-scheme:dark) {
  .om {
    --ink: #e4e8ec; --soft: #a3adb8; --faint: #8b96a2; --paper: #14181c; --card: #1c2228;
    --line: #2d353d; --accent: #6ea2ff; --ahead: #33507f; --red: #ff7b72; --amber: #e0b04a;
    --green: #6fcf97; --warn: #33290f; --warn-ink: #f0cf8a; --add: #12331f; --add-ink: #8fdcae;
    --cut: #3a1a1c; --cut-ink: #f5a3a3; --pin: #2a2344; --pin-ink: #c3b1f7;
  }
}
.om * { box-sizing: border-box; }
.om h1 {
  font-size: 1.55rem; line-height: 1.25; letter-spacing: -.012em; margin: 0 0 .3rem;
  font-weight: 650; text-wrap: balance; color: inherit;
}
.om h2 {
  font-size: .78rem; letter-spacing: .07em; text-transform: uppercase; color: var(--soft);
  font-weight: 650; margin: 0 0 .8rem;
}
.om section { margin-top: 2.4rem; }
.om h3 { font-size: 1rem; font-weight: 650; margin: 1.7rem 0 .45rem; color: inherit; }
.om h3 small { font-weight: 400; color: var(--faint); margin-left: .5em; font-size: .86em; }
.om p { margin: .35rem 0; max-width: 42rem; }
.om a { color: var(--accent); }
.om .sub, .om .note { color: var(--soft); font-size: .92rem; }
.om .meters { display: grid; gap: 1.1rem; margin: 1.5rem 0 .9rem; }
.om .meter-head {
  display: flex; justify-content: space-between; gap: 1rem; flex-wrap: wrap; font-size: .92rem;
  margin-bottom: .35rem;
}
.om .meter-head b { font-weight: 600; }
.om .meter-head span { color: var(--soft); font-variant-numeric: tabular-nums; }
.om .bar {
  display: flex; height: .6rem; border-radius: 99px; background: var(--line); overflow: hidden;
}
.om .bar i { display: block; background: var(--accent); }
.om .bar i+i, .om .bar .ahead { background: var(--ahead); }
.om .card {
  background: var(--card); border: 1px solid var(--line); border-radius: .7rem;
  padding: .85rem 1rem; margin: .7rem 0;
}
.om .card>:first-child { margin-top: 0; }
.om .card>:last-child { margin-bottom: 0; }
.om .card b { font-weight: 600; }
.om #done { scroll-margin-top: 6rem; }
.om .warn { background: var(--warn); color: var(--warn-ink); border-color: transparent; }
.om ul.items { list-style: none; margin: 0; padding: 0; }
.om ul.items li {
  display: grid; grid-template-columns: 1.1rem 3.1rem minmax(0,1fr); gap: 0 .35rem;
  padding: .24rem 0; align-items: baseline;
}
.om .dot {
  font-size: 0; width: .55rem; height: .55rem; border-radius: 50%; background: var(--faint);
  display: inline-block; align-self: center; justify-self: center; margin-top: .42rem;
  align-self: start;
}
.om .red { background: var(--red); }
.om .amber { background: var(--amber); }
.om .green { background: var(--green); }
.om .done {
  font-size: inherit; background: none; color: var(--green); font-weight: 700; width: auto;
  height: auto; margin: 0; line-height: 1.55;
}
.om time { color: var(--faint); font-size: .86rem; font-variant-numeric: tabular-nums; }
.om .value { white-space: pre-wrap; }
.om .below {
  white-space: pre-wrap; color: var(--soft); font-size: .94rem; padding-left: .1rem;
  margin-top: .1rem;
}
.om .id {
  font: .76rem/1.4 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace; color: var(--faint);
  white-space: nowrap; margin-left: .1em;
}
.om .badge {
  font-size: .72rem; font-weight: 600; background: var(--pin); color: var(--pin-ink);
  border-radius: 99px; padding: .1rem .5rem; margin-left: .15em; white-space: nowrap;
}
.om .range {
  font: .76rem/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace; color: var(--faint);
  margin: .15rem 0 .6rem 4.9rem;
}
.om .thread {
  margin: 2rem 0 0; padding: .2rem 0 0; border-top: 1px solid var(--line); color: var(--soft);
  font-size: .92rem;
}
.om table {
  border-collapse: collapse; width: 100%; font-size: .92rem;
  font-variant-numeric: tabular-nums;
}
.om th, .om td {
  text-align: right; padding: .34rem .2rem .34rem .9rem; border-bottom: 1px solid var(--line);
  background: none;
}
.om th:first-child, .om td:first-child { text-align: left; padding-left: 0; }
.om th { font-weight: 500; color: var(--soft); }
.om .wide { overflow-x: auto; }
.om details { border-bottom: 1px solid var(--line); padding: .5rem 0; }
.om summary { cursor: pointer; font-weight: 500; }
.om summary span { color: var(--soft); font-weight: 400; margin-left: .6em; font-size: .92rem; }
.om pre {
  white-space: pre-wrap; margin: .6rem 0 .3rem; padding: 0; background: none; border: 0;
  color: inherit; font: .8rem/1.55 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;
}
.om pre span { display: block; padding: 0 .45rem; border-radius: .2rem; }
.om .add { background: var(--add); color: var(--add-ink); }
.om .cut { background: var(--cut); color: var(--cut-ink); }
.om .gap { color: var(--faint); }
.om dl {
  margin: 0; display: grid; grid-template-columns: max-content minmax(0,1fr); gap: .3rem 1rem;
}
.om dt { color: var(--soft); }
.om dt, .om dd { display: block; float: none; width: auto; margin: 0; font-weight: 400; }
.om form { display: inline; }
.om button, .om input[type=text] {
  font: inherit; font-size: .86rem; color: inherit; border: 1px solid var(--line);
  border-radius: .45rem; background: var(--paper); padding: .22rem .6rem;
}
.om button { cursor: pointer; white-space: nowrap; }
.om button:hover { border-color: var(--accent); color: var(--accent); }
.om input[type=text] { width: min(100%,26rem); }
.om .acts { display: flex; flex-wrap: wrap; gap: .4rem; margin: .35rem 0 .3rem; }
.om ul.acts-done { list-style: none; margin: 0; padding: 0; }
.om ul.acts-done li { padding: .35rem 0; border-bottom: 1px solid var(--line); }
.om ul.acts-done .id { margin: 0; }
.om s { color: var(--faint); }
.om .acts form { display: flex; gap: .4rem; flex: 0 1 auto; }
.om details.change { border: 0; padding: 0; font-size: .86rem; }
.om details.change summary span { margin: 0; }
.om ul.threads { list-style: none; padding: 0; margin: 1rem 0; }
.om ul.threads li { border-bottom: 1px solid var(--line); padding: .7rem 0; }
@media (max-width:34rem) {
  .om { padding: 1.1rem .95rem 2.5rem; }
  .om h1 { font-size: 1.32rem; }
  .om ul.items li { grid-template-columns: 1rem minmax(0,1fr); }
  .om ul.items time { grid-column: 2; font-size: .78rem; }
  .om ul.items li>div { grid-column: 2; }
  .om .range { margin-left: 1.35rem; }
  .om dl { grid-template-columns: 1fr; }
  .om dd { margin-bottom: .4rem; }
}
@media print {
  .om { max-width: none; }
  .om details:not([open]) { display: none; }
}
"""
"""Everything stands below the class `om`, so that it changes nothing else in a notebook."""

BODY_STYLE: Final = (
    "html{background:#fff}body{margin:0}@media(prefers-color-scheme:dark){html{background:#14181c}}"
)
"""Of a page of its own."""
