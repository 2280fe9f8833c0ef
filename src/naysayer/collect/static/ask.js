// The page that asks: a queue of questions with their pictures already loaded, and an outbox for what was said.

import { call, newId } from "/static/call.js";
import { makeCard, makeRest, settle, preload } from "/static/card.js";
import { Outbox } from "/static/outbox.js";
import { swipeable } from "/static/swipe.js";

const LOW = 8; // fewer questions at hand than this: fetch more
const FULL = 16;
const DOUBLE = 150; // ms after a card came in which a tap can only be the second half of a double tap
const UNDOABLE = 50;
const LONG = 60; // characters of a question that is set smaller
const LOADED = ["picture", "failed"]; // what an item has of this page alone, and gets again after a reload
const KEYS = { ArrowLeft: "no", n: "no", N: "no", ArrowRight: "yes", y: "yes", Y: "yes", " ": "skip" };

const page = Object.fromEntries([...document.querySelectorAll("[id]")].map((found) => [found.id, found]));
const outbox = new Outbox(page.ask.dataset.owner);
const PAST = `naysayer/${page.ask.dataset.owner}/past`;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

let queue = []; // questions to come
let past = recall(); // { question, answer }: what Undo takes back
let current = null;
let card = null;
let shownAt = 0;
let refilling = false;
let progress = null;
let times = []; // when the last answers were given
let noticeTimer = 0;

// ---- the card and the question --------------------------------------------------------------------------------

function place(made, how) {
  if (card && !card.classList.contains("leaving")) card.remove();
  card = made;
  if (how) card.classList.add(how);
  page.stage.append(card);
}

function show(question, how = "entering") {
  current = question;
  page.stage.ariaLive = question.item.kind === "image" ? "off" : "polite"; // a text is read out before its question
  place(makeCard(question.item), how);
  settle(card);
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
  page.ask.dataset.state = state;
  for (const value of ["no", "skip", "yes"]) page[value].disabled = state !== "asking";
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
  else if (!outbox.ended) rest("waiting", "One moment", "The next question is on its way.");
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
    const { questions } = await call(`/api/next?n=${FULL - queue.length}${holding.join("")}`);
    outbox.offline = false;
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
      if (!current) rest("waiting", "Waiting for the network", "The next questions come as soon as the server can be reached. What you said is safe.");
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
  rest("done", "That is all for now", own ? `Nothing is left to ask. You gave ${count(own, "answer")}: thank you.` : "There is nothing to ask at the moment.");
}

function end() {
  outbox.ended = true;
  rest("ended", "This link has ended", "Ask whoever sent it for a new one.");
}

// ---- what is told ---------------------------------------------------------------------------------------------

function count(n, word) {
  return `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
}

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
  if (outbox.ended) notice(unsent ? `${count(unsent, "answer")} could not be sent and stay here.` : "");
  else if (outbox.offline || !navigator.onLine) {
    troubled = true;
    notice(unsent ? `Offline. ${count(unsent, "answer")} kept here until the network is back.` : "Offline. What you answer is kept here.");
  } else if (troubled && !unsent) {
    troubled = false;
    notice("Back online. Everything is sent.", 2500, true);
  } else if (!noticeTimer && !troubled) notice("");
  if (!progress) return;
  const words = [`${progress.own.toLocaleString("en")} answered`];
  if (pace()) words.push(`${pace()} a minute`);
  page.pace.textContent = words.join(" · ");
  const share = progress.items ? progress.decided / progress.items : 0;
  page["track-fill"].style.transform = `scaleX(${share})`;
  page.track.setAttribute("aria-valuenow", Math.round(100 * share));
  page.track.setAttribute("aria-valuetext", `${progress.decided} of ${count(progress.items, "item")} decided`);
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
  if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
  const onControl = event.target.closest?.("button, a, input");
  if (onControl && (event.key === " " || event.key === "Enter")) return; // the control's own meaning
  if (event.key === "u" || event.key === "U") undo();
  else if (KEYS[event.key]) answer(KEYS[event.key]);
  else return;
  event.preventDefault();
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
  notice(`One answer was not accepted: ${detail.error}.`, 6000);
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
