"""The look of a report: one style sheet, light and dark, no fonts or pictures from elsewhere."""

_RULES = """
:root {
  color-scheme: light dark;
  --page: #f6f5f1; --card: #ffffff; --ink: #1c1d21; --soft: #62656f; --faint: #9a9ca5;
  --rule: #e4e2da; --grid: #eceae3; --good: #16794c; --bad: #b3362b; --accent: #2f5fd0;
  --c0: #2f6fde; --c1: #dd6a1f; --c2: #11906a; --c3: #b4458f; --c4: #8d8410; --c5: #8b8f9c;
  --c6: #5a55b8; --c7: #b3362b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #121317; --card: #1a1c21; --ink: #eceef2; --soft: #a2a6b1; --faint: #70747f;
    --rule: #2b2e36; --grid: #272a31; --good: #56c995; --bad: #f08a7e; --accent: #8fb0ff;
    --c0: #7ba7ff; --c1: #ff9c5c; --c2: #4fcfa4; --c3: #e78bc8; --c4: #d3ca58; --c5: #7d8190;
    --c6: #a7a2f5; --c7: #f08a7e;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  font-variant-numeric: tabular-nums;
}
main { max-width: 1140px; margin: 0 auto; padding: 48px 24px 72px; }
header p { margin: 0; color: var(--soft); }
header .kicker { color: var(--accent); font-size: 13px; font-weight: 600; letter-spacing: .02em; }
h1 {
  margin: 2px 0 4px; font-size: 34px; line-height: 1.15;
  letter-spacing: -.02em; overflow-wrap: anywhere;
}
h2 { margin: 44px 0 14px; font-size: 19px; letter-spacing: -.01em; }
h3 { margin: 0; font-size: 14px; font-weight: 600; }
code, pre {
  font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: 13px;
  ;
}
.grid { display: grid; gap: 16px; }
.results { grid-template-columns: repeat(auto-fit, minmax(230px, 1fr)); margin-top: 28px; }
.two { grid-template-columns: repeat(auto-fit, minmax(min(100%, 440px), 1fr)); margin-top: 16px; }
.three { grid-template-columns: repeat(auto-fill, minmax(min(100%, 300px), 1fr)); }
.card {
  background: var(--card); border: 1px solid var(--rule); border-radius: 10px;
  padding: 16px 18px; min-width: 0;
}
.card .name { color: var(--soft); font-size: 13px; }
.card .value { font-size: 30px; font-weight: 650; letter-spacing: -.02em; line-height: 1.2; }
.card .more { color: var(--soft); font-size: 13px; }
.good { color: var(--good); } .bad { color: var(--bad); }
.facts {
  display: flex; flex-wrap: wrap; gap: 6px 36px; margin: 22px 0 0;
  padding: 0; list-style: none;
}
.facts b { font-weight: 600; } .facts li { color: var(--soft); } .facts b { color: var(--ink); }
figure { margin: 0; }
figcaption { display: flex; flex-wrap: wrap; align-items: baseline; gap: 2px 18px; margin-bottom: 8px; }
figcaption span { color: var(--soft); font-size: 13px; white-space: nowrap; }
figcaption span b { color: var(--ink); font-weight: 600; }
figcaption i {
  display: inline-block; width: 10px; height: 10px;
  border-radius: 3px; margin-right: 6px;
}
.scroll { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; }
.main svg { min-width: 620px; }
svg .grid { stroke: var(--grid); fill: none; } svg .zero { stroke: var(--faint); fill: none; }
svg .tick { fill: var(--soft); font-size: 12px; }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg .band { opacity: .16; } svg .stack { opacity: .85; }
svg path.level { stroke: var(--soft); stroke-dasharray: 2 5; stroke-linecap: round; fill: none; }
svg text.level { fill: var(--soft); font-size: 12px; }
svg .hover rect { fill: transparent; } svg .hover path { stroke: var(--soft); opacity: 0; }
svg .hover circle { stroke: var(--card); stroke-width: 1.5; opacity: 0; }
svg .hover:hover path { opacity: .5; } svg .hover:hover circle { opacity: 1; }
table { width: 100%; border-collapse: collapse; }
th { color: var(--soft); font-size: 13px; font-weight: 500; text-align: left; }
th, td { padding: 8px 12px 8px 0; border-bottom: 1px solid var(--rule); }
tr:last-child td { border-bottom: 0; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.plot { width: 34%; min-width: 160px; padding-left: 16px; }
td.number + td:last-child:not(.number) { padding-left: 20px; }
.tag {
  border: 1px solid var(--rule); border-radius: 999px; padding: 1px 9px;
  font-size: 12px; color: var(--soft);
}
.tag.star { color: var(--good); border-color: currentColor; }
.track { fill: var(--grid); }
.mark { fill: var(--soft); }
.range { fill: var(--c0); opacity: .35; }
.point { fill: var(--c0); }
.commands {
  display: grid; grid-template-columns: max-content 1fr; gap: 8px 20px;
  align-items: baseline; margin: 0;
}
.commands dt { color: var(--soft); }
.commands dd { margin: 0; min-width: 0; overflow-x: auto; white-space: nowrap; }
.settings { columns: 320px; column-gap: 16px; }
.settings .card { break-inside: avoid; margin-bottom: 16px; padding: 12px 18px; }
.settings td { padding: 5px 0; vertical-align: top; }
.settings td + td { text-align: right; overflow-wrap: anywhere; }
.settings td:first-child { color: var(--soft); padding-right: 16px; white-space: nowrap; }
.empty { color: var(--soft); }
a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: 3px; }
summary { cursor: pointer; color: var(--soft); margin-bottom: 12px; }
footer { margin-top: 48px; color: var(--faint); font-size: 13px; }
@media (max-width: 640px) {
  main { padding: 28px 16px 48px; }
  .commands { grid-template-columns: 1fr; gap: 2px; }
}
@media print { body { background: none; } .card { break-inside: avoid; } }
"""

# A series colours lines by stroke, areas and dots by fill, and legend squares by background.
_SERIES = """
svg .s{0} {{ stroke: var(--c{0}); }}
.f{0} {{ fill: var(--c{0}); background: var(--c{0}); }}
"""

STYLE = _RULES + "".join(_SERIES.format(index) for index in range(8))
