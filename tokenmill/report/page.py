"""The fixed parts of the HTML page: its styles, light and dark, and the explanations of its terms."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --page: #f7f7f5; --card: #ffffff; --ink: #1c1c1a; --soft: #5f5e5a; --line: #dddcd6;
  --s0: #2563c9; --s1: #c2570c; --s2: #0f766e; --s3: #8a3fc4; --s4: #8f6a00; --s5: #b8286b; }
@media (prefers-color-scheme: dark) { :root { --page: #171716; --card: #212120; --ink: #f0efe9; --soft: #a9a8a1; --line: #3a3a37;
  --s0: #6fa5f5; --s1: #f09355; --s2: #3fc4b4; --s3: #c08bf0; --s4: #d8b13a; --s5: #f07fb0; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0; }
h2 { font-size: 18px; margin: 0 0 12px; overflow-wrap: anywhere; }
.lead { color: var(--soft); margin: 4px 0 20px; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 18px 20px; margin: 0 0 18px; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px 36px; margin: 0; }
.tiles div { display: flex; flex-direction: column; }
.tiles dd { margin: 0; font-size: 24px; font-weight: 600; font-variant-numeric: tabular-nums; line-height: 1.2; }
.tiles dt { color: var(--soft); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); gap: 18px 28px;
  margin-bottom: 14px; }
figure { margin: 0; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: 6px; overflow-wrap: anywhere; }
svg { display: block; width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 16px; font-family: inherit; }
svg text.value { fill: var(--ink); font-variant-numeric: tabular-nums; }
.axis { stroke: var(--soft); } .grid { stroke: var(--line); } .line { fill: none; stroke-width: 2.5; stroke-linejoin: round; }
.s0 { fill: var(--s0); } .s1 { fill: var(--s1); } .s2 { fill: var(--s2); }
.s3 { fill: var(--s3); } .s4 { fill: var(--s4); } .s5 { fill: var(--s5); }
.l0 { stroke: var(--s0); } .l1 { stroke: var(--s1); } .l2 { stroke: var(--s2); }
.l3 { stroke: var(--s3); } .l4 { stroke: var(--s4); } .l5 { stroke: var(--s5); }
.keys { list-style: none; display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 0 0 8px; padding: 0; color: var(--soft); }
.keys i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; }
.k0 { background: var(--s0); } .k1 { background: var(--s1); } .k2 { background: var(--s2); }
.k3 { background: var(--s3); } .k4 { background: var(--s4); } .k5 { background: var(--s5); }
.scroll { overflow-x: auto; }
.side { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(280px, 100%), 1fr)); gap: 18px 28px;
  align-items: start; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: 6px 0; }
th, td { text-align: right; padding: 4px 0 4px 18px; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { color: var(--soft); font-weight: 500; vertical-align: bottom; }
tbody th { font-weight: 400; }
th:first-child { text-align: left; padding-left: 0; white-space: pre-wrap; min-width: 8em; }
code { font: 13px/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.notes { color: var(--soft); } .notes dt { color: var(--ink); font-weight: 600; } .notes dd { margin: 0 0 8px; }
"""

NOTES = """<section class="notes"><h2>What the words mean</h2><dl>
<dt>word</dt><dd>A run of characters between whitespace, whatever the pre-tokenizer calls a word. Scripts that put no spaces
between words have few and long ones: compare bytes or characters per token there.</dd>
<dt>tokens per word</dt><dd>Also called fertility: 1 would be a token for each word.</dd>
<dt>never used</dt><dd>Tokens that these texts did not need. Other texts may.</dd>
<dt>unreachable</dt><dd>Tokens that encoding their own spelling does not give, so that hardly any text can use them: no
merges lead to them, or the pre-tokenizer cuts them.</dd>
<dt>changed by decoding</dt><dd>Documents that do not come back when their tokens are decoded.</dd>
</dl></section>"""
