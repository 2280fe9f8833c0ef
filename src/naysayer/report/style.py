"""How the report of a model looks: cards, from one column on a phone to two on a desktop."""

CSS = """
:root { --c0: #3451b2; --c1: #b3530f; --c2: #0b7a70; --c3: #b02a6b; --c4: #7a5c00; --c5: #6d4bb8; --c6: #2f7d32;
  --c7: #b3362b; --c8: #0f739c; --c9: #6b655d; --round: 1.25rem }
@media screen and (prefers-color-scheme: dark) {
  :root { --c0: #93a9ff; --c1: #f0a467; --c2: #55cdbd; --c3: #f48bbd; --c4: #e0c04f; --c5: #c4a7ff; --c6: #8bd17c;
    --c7: #ff9184; --c8: #6cc5ea; --c9: #b9b3aa } }
.c0 { --c: var(--c0) } .c1 { --c: var(--c1) } .c2 { --c: var(--c2) } .c3 { --c: var(--c3) } .c4 { --c: var(--c4) }
.c5 { --c: var(--c5) } .c6 { --c: var(--c6) } .c7 { --c: var(--c7) } .c8 { --c: var(--c8) } .c9 { --c: var(--c9) }
body { print-color-adjust: exact; -webkit-print-color-adjust: exact }
header { margin: .5rem .25rem 1.75rem }
.brand { display: flex; align-items: center; gap: .5rem; margin: 0 0 1.25rem; font-weight: 600; font-size: .9rem }
.brand svg { width: 1.1rem; height: 1.1rem; flex: none }
h1 { font-size: clamp(1.6rem, 1.2rem + 2vw, 2.4rem); letter-spacing: -.02em; text-wrap: balance }
header p { color: var(--soft); margin: 0 }
.facts { display: flex; flex-wrap: wrap; gap: 1.25rem 2.75rem; margin: 1.75rem 0 0 }
.facts div { display: flex; flex-direction: column-reverse }
.facts dd { margin: 0; font-size: 1.6rem; font-weight: 650; line-height: 1.2; letter-spacing: -.02em;
  font-variant-numeric: tabular-nums }
.facts dt { color: var(--soft); font-size: .875rem }
main { display: grid; grid-template-columns: minmax(0, 1fr); gap: 1.1rem }
.card { background: var(--card); border: 1px solid var(--line); border-radius: var(--round); padding: 1.25rem 1.15rem }
h2 { margin: 0 0 .15rem; font-size: 1.125rem; line-height: 1.35 }
h3 { margin: 1.5rem 0 .6rem; font-size: 1rem; overflow-wrap: anywhere }
h3 .note { font-weight: 400 }
.card > p:not(.big):not(.notice) { color: var(--soft); font-size: .925rem; margin: .15rem 0 0; max-width: 46rem }
.card > p.quiet { margin-top: .9rem !important }
.big { margin: .5rem 0 0; font-size: clamp(2.6rem, 2rem + 4vw, 4rem); font-weight: 650; line-height: 1.1;
  letter-spacing: -.035em; font-variant-numeric: tabular-nums }
.notice { margin: .9rem 0 0; padding: .75rem 1rem; border-radius: .8rem; background: var(--warn-tint); max-width: none }
.notice strong { color: var(--warn) }
.axis { display: grid; grid-template-columns: repeat(3, 1fr); margin-top: .15rem; color: var(--soft); font-size: .8rem;
  font-variant-numeric: tabular-nums }
.axis span:nth-child(2) { text-align: center } .axis span:last-child { text-align: right }
.key { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; margin: .75rem 0 0; padding: 0; list-style: none;
  color: var(--soft); font-size: .85rem }
.key li { display: flex; align-items: center; gap: .45rem; min-width: 0; overflow-wrap: anywhere }
.key .track { width: 1.6rem; margin: 0; background: none }
.track { display: block; position: relative; height: .5rem; margin: .45rem 0 .1rem; border-radius: 1rem;
  background: color-mix(in srgb, var(--line) 60%, transparent) }
.track i { position: absolute; top: 0; height: 100% }
.track .band { border-radius: 1rem; background: color-mix(in srgb, var(--accent) 42%, transparent); min-width: 3px }
.track .dot { width: .8rem; height: .8rem; top: -.15rem; margin-left: -.4rem; border-radius: 50%;
  background: var(--accent); border: 2px solid var(--card) }
.track .tick { width: 3px; top: -.25rem; height: 1rem; margin-left: -1.5px; border-radius: 1px; background: var(--ink) }
.track .bar { left: 0; border-radius: 1rem; background: var(--accent); min-width: 2px }
.hero > .track { height: .8rem; margin: 1.5rem 0 .5rem }
.hero > .track .dot { width: 1.3rem; height: 1.3rem; top: -.25rem; margin-left: -.65rem; border-width: 3px }
.hero > .track .tick { top: -.4rem; height: 1.6rem }
.swatch { flex: none; display: inline-block; width: .7rem; height: .7rem; border-radius: .2rem; background: var(--c) }
h3 .swatch { margin-right: .45rem }
.named { display: flex; align-items: baseline; gap: .45rem }
.left .named + small { margin-left: 1.15rem }
table { width: 100% }
.scroll { margin-top: .9rem }
th, td { padding: .5rem .55rem }
tr > :first-child { padding-left: 0 } tr > :last-child { padding-right: 0 }
tbody tr:last-child > * { border-bottom: 0 }
thead th { color: var(--soft); font-weight: 400; font-size: .8rem; line-height: 1.3 }
td small, th small { display: block; color: var(--soft); font-size: .8em; font-weight: 400; line-height: 1.35 }
.names th:first-child { width: 45%; min-width: 8rem }
.names.left th:first-child { width: 34%; min-width: 6rem }
.left td, .left th { text-align: left }
th, td { overflow-wrap: break-word }
.wide th, .wide td { text-align: left; white-space: nowrap; max-width: 16rem; overflow: hidden;
  text-overflow: ellipsis }
.wide img { display: block; margin-top: .3rem; border-radius: .4rem }
.wide thead th { white-space: normal; overflow-wrap: anywhere; min-width: 5rem }
.matrix { width: auto; border-collapse: separate; border-spacing: 3px; margin-left: -3px }
.matrix th, .matrix td { border: 0; padding: .4rem .5rem; max-width: 9rem }
.half .matrix { width: 100% }
.matrix thead th { text-align: center; min-width: 3.6rem; color: var(--ink) }
.matrix thead .of { text-align: left; color: var(--soft); font-weight: 400 }
.matrix thead td { background: none }
.matrix td { text-align: center; border-radius: .45rem; vertical-align: middle; font-weight: 600;
  background: color-mix(in srgb, var(--no) calc(var(--v) * 45%), color-mix(in srgb, var(--line) 35%, transparent)) }
.matrix td.right { background: color-mix(in srgb, var(--accent) calc(var(--v) * 45%), transparent) }
.matrix td small { color: inherit; white-space: nowrap }
.wide tr > :first-child, .matrix tr > :first-child { position: sticky; left: 0; background: var(--card) }
.photos { display: grid; grid-template-columns: repeat(4, minmax(0, 1fr)); gap: .9rem .6rem; padding: 0;
  margin: .9rem 0 0; list-style: none }
.photos li { min-width: 0; font-size: .8rem; line-height: 1.35 }
.photos img, .photos .gone { display: block; width: 100%; height: auto; aspect-ratio: 1; border-radius: .6rem;
  margin-bottom: .35rem; background: var(--line); object-fit: cover }
.photos .gone { display: grid; place-items: center; padding: .4rem; text-align: center; color: var(--soft) }
.photos span { display: block; overflow-wrap: anywhere }
.photos .soft, .texts .soft { color: var(--soft) }
.texts { display: grid; grid-template-columns: minmax(0, 1fr); gap: .7rem; padding: 0; margin: .9rem 0 0;
  list-style: none }
.texts li { border-left: 3px solid var(--c, var(--line)); padding: .1rem 0 .1rem .8rem; overflow-wrap: anywhere }
.texts p { margin: 0; max-width: 46rem; white-space: pre-line }
.texts .soft { font-size: .85rem; margin-top: .15rem }
.words { display: flex; flex-wrap: wrap; gap: .35rem; padding: 0; margin: 0; list-style: none }
.words li { padding: .1rem .6rem; border-radius: 1rem; font-size: .9rem; overflow-wrap: anywhere;
  background: color-mix(in srgb, var(--c) 16%, transparent) }
.map { display: block; width: 100%; height: auto; margin-top: 1rem }
.points path { stroke: var(--c); stroke-width: 8px; stroke-linecap: round; vector-effect: non-scaling-stroke;
  stroke-opacity: .78 }
.pictures rect { fill: none; stroke: var(--c); stroke-width: 2.5px; vector-effect: non-scaling-stroke }
.pictures rect.gone { fill: var(--c); fill-opacity: .25 }
footer { margin: 1.75rem .25rem 0; color: var(--soft); font-size: .85rem }
@media (max-width: 40rem) {
  .matrix th, .matrix td { padding: .35rem .3rem }
  .points path { stroke-width: 5.5px } .pictures rect { stroke-width: 1.5px } }
.pictures { min-width: 32rem }
@media (min-width: 40rem) {
  .card { padding: 1.6rem 1.75rem }
  .photos { grid-template-columns: repeat(8, minmax(0, 1fr)); gap: 1.1rem .8rem } }
@media (min-width: 60rem) {
  main { grid-template-columns: repeat(2, minmax(0, 1fr)) }
  .card { grid-column: 1 / -1 } .card.half { grid-column: auto }
  .texts { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem 2rem } }
@media print {
  main { display: block } .card { border: 0; padding: 0; margin: 0 0 1.5rem }
  h2, h3 { break-after: avoid } .photos li, .texts li, .map { break-inside: avoid }
  .photos { grid-template-columns: repeat(8, minmax(0, 1fr)) } }
"""
