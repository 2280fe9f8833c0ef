// Small charts as SVG, drawn by hand: every one is given its width and gives back an <svg>. Colours are in the CSS.

import { count, whole } from "/static/owner.js";

const SPACE = "http://www.w3.org/2000/svg";

function svg(name, attributes = {}, ...children) {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

function text(x, y, words, attributes = {}) {
  return svg("text", { x, y, ...attributes }, String(words));
}

function titled(shape, words) {
  shape.append(svg("title", {}, words));
  return shape;
}

function canvas(width, height, label) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
}

export const percent = (value, digits = 0) => `${(100 * value).toFixed(digits)}%`;
const tidy = (value) => `${Number((100 * value).toFixed(2))}%`; // as many digits as a round number has

// About `n` round numbers from low to high.
export function ticks(low, high, n = 4) {
  const span = high - low || 1;
  const power = 10 ** Math.floor(Math.log10(span / n));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => span / size <= n) ?? 10 * power;
  const found = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) found.push(value || 0); // no -0
  return found;
}

const ruler = svg("text");

// How wide the widest of some words is, in the font that the page happens to have: room for words is never guessed.
function widest(words, className = "") {
  if (!ruler.isConnected) {
    const holder = document.createElement("div");
    holder.className = "plot ruler";
    holder.ariaHidden = "true";
    holder.append(svg("svg", {}, ruler));
    document.body.append(holder);
  }
  ruler.setAttribute("class", className);
  return Math.max(0, ...words.map((one) => {
    ruler.textContent = one;
    return ruler.getComputedTextLength();
  }));
}

function shorten(name, room) {
  const kept = name.slice(0, 100);
  if (kept === name && widest([name], "name") <= room) return name;
  const rest = room - widest(["…"], "name");
  widest([kept], "name"); // the ruler now has these letters, and tells how far the first few of them reach
  let n = kept.length;
  while (n > 1 && ruler.getSubStringLength(0, n) > rest) n -= 1;
  return `${kept.slice(0, n).replace(/[\ud800-\udbff]$/, "")}…`;
}

// The middle of words that would stand at x, moved so that they stay within the chart.
function inside(x, words, width) {
  const half = widest([words]) / 2;
  return Math.max(half, Math.min(width - half, x));
}

// The columns of a chart that has a row for each name: what names take, and what values take.
function columns(width, rows, values) {
  const names = Math.max(...rows.map((one) => widest([one.name.slice(0, 100)], "name")));
  return [Math.min(150, width * 0.32, names + 20), widest(values, "value") + 14];
}

// Bars over time: { start, step (both in seconds), counts }.
export function timeBars(width, { start, step, counts }) {
  const height = 190;
  const most = Math.max(4, ...counts);
  const marks = ticks(0, most, 3).filter(Number.isInteger);
  const [left, right, top, bottom] = [widest(marks.map(whole)) + 10, 4, 14, 26];
  const y = (value) => height - bottom - (value / most) * (height - top - bottom);
  const slot = (width - left - right) / counts.length;
  const chart = canvas(width, height, `Answers over time: ${whole(counts.reduce((a, b) => a + b, 0))} in all`);
  for (const value of marks) {
    chart.append(svg("line", { class: value ? "grid" : "base", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
    chart.append(text(left - 8, y(value) + 4, whole(value), { "text-anchor": "end" }));
  }
  const gap = Math.min(3, slot * 0.2);
  counts.forEach((value, i) => {
    const from = new Date(1000 * (start + i * step));
    if (value) {
      const bar = { class: "bar-accent", x: left + i * slot + gap / 2, y: y(value), width: Math.max(1, Math.min(slot - gap, 64)), height: y(0) - y(value), rx: Math.min(3, slot / 4) };
      chart.append(titled(svg("rect", bar), `${moment(from, step)}: ${whole(value)}`));
    }
  });
  const moments = counts.map((_, i) => moment(new Date(1000 * (start + i * step)), step));
  const room = widest(moments.slice(0, 40));
  const every = Math.max(1, Math.ceil((1.5 * room + 16) / slot)); // the first begins where the others have their middle
  for (let i = 0; i < counts.length; i += every) {
    const x = left + i * slot;
    if (i === 0 || x + room / 2 <= width) chart.append(text(x, height - 7, moments[i], { "text-anchor": i ? "middle" : "start" }));
  }
  return chart;
}

function moment(date, step) {
  const day = { month: "short", day: "numeric" };
  const time = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  return date.toLocaleString("en-GB", step >= 86400 ? day : step >= 3600 ? { ...day, ...time } : time);
}

// A line with its interval: points { x, y, low, high }.
export function ribbon(width, points, { chance = null, xLabel = "" } = {}) {
  const height = 230;
  const low = Math.max(0, Math.min(chance ?? 1, ...points.map((point) => point.low)) - 0.03);
  const high = Math.min(1, Math.max(...points.map((point) => point.high)) + 0.03);
  const marks = ticks(low, high, 4);
  const [left, right, top, bottom] = [widest(marks.map((value) => percent(value))) + 10, 14, 12, 42];
  const last = points[points.length - 1].x;
  const first = points.length > 1 ? points[0].x : 0;
  const x = (value) => left + ((value - first) / (last - first || 1)) * (width - left - right);
  const y = (value) => top + ((high - value) / (high - low || 1)) * (height - top - bottom);
  const chart = canvas(width, height, `Estimated accuracy: ${percent(points[points.length - 1].y, 1)} at the last training`);
  const crosses = (value) => chance !== null && y(chance) - y(value) > 1 && y(chance) - y(value) < 22; // the word "guessing"
  for (const value of marks.filter((one) => !crosses(one))) {
    chart.append(svg("line", { class: "grid", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
    chart.append(text(left - 8, y(value) + 4, percent(value), { "text-anchor": "end" }));
  }
  for (const value of ticks(first, last, Math.min(6, (width - left) / (widest([whole(last)]) + 40)))) {
    chart.append(text(inside(x(value), whole(value), width), height - bottom + 19, whole(value), { "text-anchor": "middle" }));
  }
  chart.append(text(width - right, height - 4, xLabel, { "text-anchor": "end" }));
  if (chance !== null && chance >= low) {
    chart.append(text(width - right, y(chance) - 6, "guessing", { class: "note", "text-anchor": "end" }));
    chart.append(svg("line", { class: "chance", x1: left, x2: width - right, y1: y(chance), y2: y(chance) }));
  }
  const clip = (value) => Math.min(1, Math.max(0, value));
  const upper = points.map((point) => `${x(point.x)},${y(clip(point.high))}`);
  const lower = points.map((point) => `${x(point.x)},${y(clip(point.low))}`).reverse();
  chart.append(svg("polygon", { class: "ribbon", points: [...upper, ...lower].join(" ") }));
  chart.append(svg("polyline", { class: "line", points: points.map((point) => `${x(point.x)},${y(clip(point.y))}`).join(" ") }));
  if (points.length === 1) chart.append(svg("line", { class: "whisker", x1: x(points[0].x), x2: x(points[0].x), y1: y(clip(points[0].low)), y2: y(clip(points[0].high)) }));
  for (const point of points.slice(points.length > 40 ? -1 : 0)) {
    const dot = svg("circle", { class: "dot", cx: x(point.x), cy: y(clip(point.y)), r: 5 });
    chart.append(titled(dot, `${count(point.x, "answer")}: ${percent(point.y, 1)} (${percent(point.low, 1)} to ${percent(point.high, 1)})`));
  }
  return chart;
}

// Rows of an estimate with its interval; `mark` draws a line where it was expected: { name, value, low, high, mark, said }.
export function whiskers(width, rows, { label, from = null, to = null, digits = 0 } = {}) {
  const row = 34;
  const [left, right] = columns(width, rows, rows.filter((one) => one.value !== null).map((one) => percent(one.value, digits)));
  const [top, bottom] = [4, 26];
  const height = top + rows.length * row + bottom;
  const ends = rows.flatMap((one) => [one.low, one.high, one.value, one.mark]).filter((value) => value !== null && value !== undefined);
  const low = from ?? Math.min(0, ...ends);
  const high = to ?? (Math.max(...ends) * 1.06 || 1);
  const x = (value) => left + ((Math.min(high, Math.max(low, value)) - low) / (high - low)) * (width - left - right);
  const chart = canvas(width, height, label);
  for (const value of ticks(low, high, Math.max(1, Math.min(5, (width - left - right) / (widest([tidy(high)]) + 30))))) {
    chart.append(svg("line", { class: value === 0 ? "base" : "grid", x1: x(value), x2: x(value), y1: top, y2: height - bottom + 4 }));
    chart.append(text(inside(x(value), tidy(value), width), height - 6, tidy(value), { "text-anchor": "middle" }));
  }
  rows.forEach((one, i) => {
    const y = top + (i + 0.5) * row;
    chart.append(titled(text(0, y + 5, shorten(one.name, left - 14), { class: "name" }), one.name));
    if (one.mark !== null && one.mark !== undefined) chart.append(svg("line", { class: "expected", x1: x(one.mark), x2: x(one.mark), y1: y - 9, y2: y + 9 }));
    if (one.value === null) {
      chart.append(text(left, y + 5, one.said ?? "nothing yet"));
      return;
    }
    chart.append(svg("line", { class: "whisker", x1: x(one.low), x2: x(one.high), y1: y, y2: y }));
    chart.append(svg("circle", { class: "dot", cx: x(one.value), cy: y, r: 5.5 }));
    chart.append(text(width, y + 5, percent(one.value, digits), { class: "value", "text-anchor": "end" }));
    chart.append(titled(svg("rect", { class: "hit", x: 0, y: y - row / 2, width, height: row, rx: 6 }), `${one.name}: ${one.said ?? `${percent(one.value, 1)} (${percent(one.low, 1)} to ${percent(one.high, 1)})`}`));
  });
  return chart;
}

// Rows of stacked counts: { name, parts: { yes, no, skip }, said }.
export function stacks(width, rows, { label }) {
  const row = 34;
  const totals = rows.map(({ parts }) => parts.yes + parts.no + parts.skip);
  const [left, right] = columns(width, rows, totals.map(whole));
  const height = rows.length * row + 4;
  const most = Math.max(1, ...totals);
  const scale = (width - left - right) / most;
  const chart = canvas(width, height, label);
  rows.forEach((one, i) => {
    const y = (i + 0.5) * row;
    chart.append(titled(text(0, y + 5, shorten(one.name, left - 14), { class: "name" }), one.name));
    let x = left;
    for (const part of ["yes", "no", "skip"]) {
      const size = one.parts[part] * scale;
      if (size) chart.append(svg("rect", { class: `bar-${part}`, x, y: y - 8, width: Math.max(1, size - 1.5), height: 16, rx: Math.min(3, size / 3) }));
      x += size;
    }
    if (!totals[i]) chart.append(text(left, y + 5, "nothing yet"));
    else chart.append(text(width, y + 5, whole(totals[i]), { class: "value", "text-anchor": "end" }));
    chart.append(titled(svg("rect", { class: "hit", x: 0, y: y - row / 2, width, height: row, rx: 6 }), `${one.name}: ${one.parts.yes} yes, ${one.parts.no} no, ${one.parts.skip} can’t tell`));
  });
  return chart;
}

// How a margin shrinks with answers: points { n, margin }, where we are, and where we want to be.
export function marginCurve(width, { points, now, wanted }) {
  const height = 200;
  const most = points[points.length - 1].n;
  const highest = Math.max(...points.map((point) => point.margin));
  const marks = ticks(0, highest, 4);
  const [left, right, top, bottom] = [widest(marks.map((value) => `±${tidy(value)}`)) + 10, 14, 12, 42];
  const x = (n) => left + (n / most) * (width - left - right);
  const y = (margin) => height - bottom - (margin / highest) * (height - top - bottom);
  const chart = canvas(width, height, `Margin by number of answers; now ${percent(now.margin, 1)}`);
  for (const value of marks) {
    chart.append(svg("line", { class: value ? "grid" : "base", x1: left, x2: width - right, y1: y(value), y2: y(value) }));
    chart.append(text(left - 8, y(value) + 4, `±${tidy(value)}`, { "text-anchor": "end" }));
  }
  for (const value of ticks(0, most, Math.min(5, (width - left) / (widest([whole(most)]) + 40)))) chart.append(text(inside(x(value), whole(value), width), height - bottom + 19, whole(value), { "text-anchor": "middle" }));
  chart.append(text(width - right, height - 4, "answers", { "text-anchor": "end" }));
  chart.append(svg("polyline", { class: "line", points: points.map((point) => `${x(point.n)},${y(point.margin)}`).join(" ") }));
  chart.append(text(left + 6, y(wanted) - 6, "wanted", { class: "note" }));
  chart.append(svg("line", { class: "chance", x1: left, x2: width - right, y1: y(wanted), y2: y(wanted) }));
  const [nowX, nowY] = [x(Math.min(most, now.n)), y(Math.min(highest, now.margin))];
  const dot = svg("circle", { class: "dot", cx: nowX, cy: nowY, r: 6 });
  chart.append(titled(dot, `now: ${count(now.n, "answer")}, ±${percent(now.margin, 1)}`));
  const after = nowX + 11 + widest(["now"], "value") <= width;
  chart.append(text(nowX + (after ? 11 : -11), nowY - 7, "now", { class: "value", "text-anchor": after ? "start" : "end" }));
  return chart;
}
