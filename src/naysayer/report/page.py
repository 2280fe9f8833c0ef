"""The shell of every report: one HTML file, light and dark, that loads nothing from elsewhere."""

from __future__ import annotations

import re
from html import escape

# Colours are names, so that dark is one block; they are those of the web pages.
BASE = """
:root { color-scheme: light dark; --paper: #f6f5f2; --card: #fff; --ink: #1d1c1a; --soft: #67645e; --line: #e2dfd8;
  --accent: #3451b2; --no: #a8480c; --warn: #8a5a00; --warn-tint: #fdf1d6 }
@media screen and (prefers-color-scheme: dark) {
  :root { --paper: #131416; --card: #1d1f22; --ink: #ecebe8; --soft: #a5a29b; --line: #303338;
    --accent: #93a9ff; --no: #f0a467; --warn: #e7bd62; --warn-tint: #362b12 } }
*, *::before, *::after { box-sizing: border-box }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100% }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 68rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.55 Inter, system-ui, sans-serif }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .5rem; overflow-wrap: anywhere }
p { max-width: 44rem; margin: .5rem 0 }
a { color: var(--accent) }
figure { margin: 1.5rem 0 }
.note { color: var(--soft); font-size: .875em }
.scroll { overflow-x: auto }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums }
th, td { padding: .35rem .4rem; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top }
th:first-child { text-align: left; padding-left: 0 }
thead th { vertical-align: bottom }
tbody th { font-weight: 600 }
@media print {
  :root { --paper: #fff }
  body { max-width: none; padding: 0; font-size: 10pt }
  nav { display: none }
  figure, tr { break-inside: avoid }
  .scroll { overflow: visible }
  table { font-size: 8pt }
  th, td { padding: .2rem .3rem } }
"""


def html_page(title: str, css: str, body: str) -> str:
    """Give a whole page; its own policy forbids it to load anything.

    Parameters
    ----------
    title : plain text.
    css : styles beside those that all reports share.
    body : HTML.
    """
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)}</title>
<style>{BASE}{css}</style>
</head>
<body>
{body}
</body>
</html>
"""


def paragraphs(text: str, *, note: bool = False) -> str:
    """Give plain text as paragraphs; a blank line begins one.

    Examples
    --------
    >>> paragraphs("a < b")
    '<p>a &lt; b</p>\\n'
    """
    start = '<p class="note">' if note else "<p>"
    return "".join(f"{start}{escape(part.strip())}</p>\n" for part in re.split(r"\n\s*\n", text) if part.strip())
