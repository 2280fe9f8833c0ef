// The page that asks: a queue of questions with their pictures already loaded, and an outbox for what was said.

import { call, newId } from "/static/call.js";
import { makeCard, makeRest, settle, preload } from "/static/card.js";
import { fillGuide } from "/static/guide.js";
import { Outbox } from "/static/outbox.js";
import { swipeable } from "/static/swipe.js";
import { counted, words } from "/static/words.js";

const LOW = 8; // fewer questions at hand than this: fetch more
const FULL = 16;
const DOUBLE = 150; // ms after a card came in which a tap can only be the second half of a double tap
const UNDOABLE = 50;
const LONG = 60; // characters of a question that is set smaller
const LOADED = ["picture", "size", "sharp", "gone"]; // what an item has of this page alone, and gets again after a reload
const FAR = 80; // pixels that a key moves a picture
const KEYS = { arrowleft: "no", n: "no", [words.key_no]: "no", arrowright: "yes", y: "yes", [words.key_yes]: "yes", " ": "skip" };
const MOVES = { ArrowLeft: [FAR, 0], ArrowRight: [-FAR, 0], ArrowUp: [0, FAR], ArrowDown: [0, -FAR] };

const page = Object.fromEntries([...document.querySelectorAll("[id]")].map((found) => [found.id, found]));
const outbox = new Outbox(page.ask.dataset.owner);
const PAST = `naysayer/${page.ask.dataset.owner}/past`;
const device = thisDevice();
const calm = matchMedia("(prefers-reduced-motion: reduce)");

let queue = []; // questions to come
let past = recall(); // { question, answer }: what Undo takes back
let current = null;
let card = null;
let view = null; // how to look closer at a picture
let shownAt = 0;
let refilling = false;
let progress = null;
let times = []; // when the last answers were given
let noticeTimer = 0;
let left = null; // the button that had the focus when there was nothing more to answer

// ---- the card and the question --------------------------------------------------------------------------------

function place(made, how) {
  view = null;
  if (card && !card.classList.contains("leaving")) card.remove();
  card = made;
  if (how) card.classList.add(how);
  page.stage.append(card);
}

function show(question, how = "entering") {
  current = question;
  page.stage.ariaLive = question.item.kind === "image" ? "off" : "polite"; // a text is read out before its question
  place(makeCard(question.item), how);
  const mine = card;
  settle(card, question.item, (found) => card === mine && (view = found));
  swipeable(card, (value) => answer(value));
  const name = document.createElement("strong");
  Object.assign(name, { textContent: question.class, dir: "auto" });
  page.question.replaceChildren(question.before, name, question.after);
  page.question.classList.toggle("long", page.question.textContent.length > LONG);
  shownAt = performance.now();
  enter("asking");
}

function rest(state, title, text) {
  current = null;
  place(makeRest(title, text, state === "done"));
  page.question.replaceChildren();
  enter(state);
}

function enter(state) {
  if (state !== "asking" && document.activeElement.matches(".answer")) left = document.activeElement;
  page.ask.dataset.state = state;
  for (const value of ["no", "skip", "yes"]) page[value].disabled = state !== "asking";
  if (state === "asking" && left) {
    if (document.activeElement === document.body) left.focus({ preventScroll: true });
    left = null;
  }
  tell();
}

// ---- answering and taking back --------------------------------------------------------------------------------

function answer(value) {
  if (!current) return;
  const id = newId();
  const took_ms = Math.round(performance.now() - shownAt);
  outbox.add("answers", { id, question: current.id, value, took_ms });
  remember([...past, { question: current, answer: id }].slice(-UNDOABLE));
  times = [...times, Date.now()].slice(-30);
  if (progress) progress.own += 1;
  press(page[value]);
  leave(value);
  current = null;
  next();
}

function leave(value) {
  const gone = card;
  if (calm.matches) return gone.remove();
  gone.classList.add("leaving");
  gone.ariaHidden = "true";
  requestAnimationFrame(() => gone.classList.add(`to-${value}`));
  setTimeout(() => gone.remove(), 320);
}

function next() {
  const question = queue.shift();
  if (question) show(question);
  else if (!outbox.ended) rest("waiting", words.wait_title, words.wait);
  if (queue.length < LOW) refill();
}

function undo() {
  const last = past.at(-1);
  if (!last) return;
  remember(past.slice(0, -1));
  outbox.add("undo", { id: newId(), answer: last.answer });
  if (current) queue.unshift(current);
  times.pop();
  if (progress) progress.own = Math.max(0, progress.own - 1);
  show(last.question, "returning");
}

// A tab takes back what it said itself, also after a reload; another tab of the same person has a past of its own.
function remember(said) {
  past = said;
  try {
    sessionStorage.setItem(PAST, JSON.stringify(past, (key, value) => (LOADED.includes(key) ? undefined : value)));
  } catch { /* no storage: it is remembered until the next reload */ }
}

function recall() {
  try {
    return JSON.parse(sessionStorage.getItem(PAST)) ?? [];
  } catch {
    return [];
  }
}

// Each tab has its own questions, and a reloaded one those that it had.
function thisDevice() {
  try {
    const known = sessionStorage.getItem("naysayer-device");
    const id = known ?? newId().slice(0, 8);
    sessionStorage.setItem("naysayer-device", id);
    return id;
  } catch {
    return newId().slice(0, 8);
  }
}

function press(button) {
  button.classList.add("pressed");
  setTimeout(() => button.classList.remove("pressed"), 140);
}

// ---- questions ahead ------------------------------------------------------------------------------------------

async function refill() {
  if (refilling || outbox.ended || queue.length >= FULL) return;
  refilling = true;
  let wait = 0;
  try {
    if (!current) await outbox.flush(); // our own unsent answers may be what the next question waits for
    // The server gives back what a reloaded page was handed before, but for what we hold or have answered unsent.
    const held = () => [...(current ? [current, ...queue] : queue).map((question) => question.id), ...outbox.questions];
    const holding = held().slice(-100).map((id) => `&holding=${id}`);
    const { questions } = await call(`/api/next?n=${FULL - queue.length}&device=${device}${holding.join("")}`);
    outbox.offline = false;
    tell();
    const known = new Set(held());
    const fresh = questions.filter((question) => !known.has(question.id));
    queue.push(...fresh);
    load(fresh);
    if (!current && queue.length) show(queue.shift());
    else if (!current && !outbox.size) {
      finish();
      wait = 20000;
    } else if (!current) wait = 1000;
  } catch (trouble) {
    if (trouble.status === 401) end();
    else {
      wait = Math.max(trouble.wait * 1000, 2500);
      if (!current) rest("waiting", words.network_title, words.network);
      if (trouble.status === 0) outbox.offline = true;
      tell();
    }
  } finally {
    refilling = false;
  }
  if (wait) setTimeout(refill, wait);
}

async function load(questions) {
  for (const question of questions) await preload(question.item); // the next one first
}

async function finish() {
  await measure();
  if (current) return; // an undo was quicker
  const own = progress?.own ?? 0;
  rest("done", words.done_title, own ? counted("done", own) : words.done_none);
}

function end() {
  outbox.ended = true;
  rest("ended", words.ended_title, words.ended);
}

// ---- what is told ---------------------------------------------------------------------------------------------

function pace() {
  let spent = 0;
  for (let i = 1; i < times.length; i++) spent += Math.min(60000, times[i] - times[i - 1]); // a pause is no work
  return times.length > 4 && spent ? Math.round((60000 * (times.length - 1)) / spent) : null;
}

function notice(text, passing = 0, good = false) {
  clearTimeout(noticeTimer);
  page.notice.classList.toggle("good", good);
  if (page.notice.textContent !== text) page.notice.textContent = text;
  noticeTimer = passing && setTimeout(() => {
    noticeTimer = 0;
    tell();
  }, passing);
}

let troubled = false; // something was kept back, and its sending is worth a word

function tell() {
  page.undo.disabled = !past.length;
  const unsent = outbox.size;
  if (outbox.ended) notice(unsent ? counted("stuck", unsent) : "");
  else if (outbox.offline || !navigator.onLine) {
    troubled = true;
    notice(unsent ? counted("kept", unsent) : words.offline);
  } else if (troubled && !unsent) {
    troubled = false;
    notice(words.online, 2500, true);
  } else if (!noticeTimer && !troubled) notice("");
  if (!progress) return;
  const told = [counted("answered", progress.own)];
  if (pace()) told.push(counted("pace", pace()));
  page.pace.textContent = told.join(" · ");
  const share = progress.items ? progress.closed / progress.items : 0;
  page["track-fill"].style.transform = `scaleX(${share})`;
  page.track.setAttribute("aria-valuenow", Math.round(100 * share));
  page.track.setAttribute("aria-valuetext", counted("progress", progress.items, { done: progress.closed }));
}

async function measure() {
  try {
    const found = await call("/api/progress");
    progress = { ...found, own: found.own + outbox.questions.length };
    tell();
  } catch (trouble) {
    if (trouble.status === 401) end();
  }
}

// ---- keys, buttons, beginning -----------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || !page.keys.checked) return;
  const open = document.querySelector("dialog[open]");
  const closes = { "?": page.help, g: page.guide, G: page.guide }[event.key];
  if (open && open === closes) open.close();
  if (open) return;
  if (event.shiftKey && MOVES[event.key]) {
    if (!view) return; // of a text, shift and an arrow change what is selected
    view.move(...MOVES[event.key]);
  } else if (event.repeat) return;
  else if (!act(event)) return;
  event.preventDefault();
});

function act(event) {
  const onControl = event.target.closest?.("button, a, input");
  if (onControl && (event.key === " " || event.key === "Enter")) return false; // the control's own meaning
  const key = event.key.toLowerCase();
  if (key === "u") undo();
  else if (key === "g" && page.guide) openGuide();
  else if (key === "?") openHelp();
  else if (key === "+" || key === "=") view?.closer();
  else if (key === "-") view?.farther();
  else if (key === "0") view?.whole();
  else if (KEYS[key]) answer(KEYS[key]);
  else return false;
  return true;
}

// ---- guidelines and help ----------------------------------------------------------------------------------------

function openGuide() {
  fillGuide(page["guide-text"], current?.class ?? null);
  page.guide.showModal();
}

function openHelp() {
  for (const row of page.help.querySelectorAll("[data-picture]")) row.hidden = current?.item.kind !== "image";
  page.help.showModal();
}

page["to-guide"]?.addEventListener("click", openGuide);
page["to-help"].addEventListener("click", openHelp);
for (const sheet of document.querySelectorAll("dialog")) {
  sheet.addEventListener("click", (event) => event.target === sheet && sheet.close()); // beside it
  sheet.addEventListener("cancel", () => document.activeElement?.blur()); // the next key is not for what Escape hides
}

// Those who press keys by accident, or speak to their device, can turn them off: the page then shows none.
function useKeys(on) {
  page.keys.checked = on;
  document.body.classList.toggle("keyless", !on);
  for (const button of document.querySelectorAll("[data-keys], [aria-keyshortcuts]")) {
    button.dataset.keys ??= button.getAttribute("aria-keyshortcuts");
    if (on) button.setAttribute("aria-keyshortcuts", button.dataset.keys);
    else button.removeAttribute("aria-keyshortcuts");
  }
}

try {
  useKeys(localStorage.getItem("naysayer-keys") !== "off");
} catch { /* no storage: they are on */ }
page.keys.addEventListener("change", () => {
  useKeys(page.keys.checked);
  try {
    localStorage.setItem("naysayer-keys", page.keys.checked ? "on" : "off");
  } catch { /* until the next reload */ }
});

// A finger acts when it is lifted: after a swipe, browsers may hold the next click back. The click that follows, if it
// does, is the same touch once more.
for (const value of ["no", "skip", "yes", "undo"]) {
  const button = page[value];
  let touched = -Infinity;
  const act = () => (value === "undo" ? undo() : answer(value));
  const hasty = () => performance.now() - shownAt < DOUBLE;
  button.addEventListener("mousedown", (event) => event.preventDefault()); // a click leaves the space bar its meaning
  button.addEventListener("pointerup", (event) => {
    if (event.pointerType !== "touch" || button.disabled) return;
    const { left, right, top, bottom } = button.getBoundingClientRect();
    if (event.clientX < left || event.clientX > right || event.clientY < top || event.clientY > bottom) return;
    touched = event.timeStamp;
    if (!hasty()) act();
  });
  button.addEventListener("click", (event) => {
    if (!event.detail) act(); // by keyboard or screen reader
    else if (event.timeStamp - touched > 700 && !hasty()) act();
  });
}

outbox.addEventListener("change", () => {
  if (outbox.ended) return end();
  tell();
  if (!outbox.size && !current) refill();
});
outbox.addEventListener("refused", ({ detail }) => {
  remember(past.filter((one) => one.answer !== detail.id)); // what was never stored cannot be taken back
  notice(words.refused, 6000);
});
addEventListener("offline", tell);
addEventListener("online", () => {
  refill();
  measure();
});
setInterval(measure, 30000);

place(Object.assign(document.createElement("article"), { className: "card skeleton" }));
outbox.flush().then(measure);
refill();
