// The respondent's page. What was chosen lives in `chosen` alone: in no form, no storage, no address, no request.
// What leaves this device is made by `letter`, and the page shows it first. Draws are made for every option at
// once, chosen or not, and kept in this tab until it is sent: so a reload does not draw again, and they tell no choice.

import { Trouble, call, newId } from "/static/call.js";
import { drawAll } from "/static/survey_draw.js";

const page = document.querySelector("main.survey");
const questions = JSON.parse(document.getElementById("questions").textContent);
const place = page.dataset.path;
const keep = `naysayer ${place}`; // what waits to be sent, already drawn, so that a reload does not draw it again
const done = `${keep} sent`;
const dice = `${keep} draws`; // erased when the letter is made: letter and draws together would tell the choice
const chosen = new Map(); // question → place of the option
let waiting = null; // the letter on its way
let timer = 0;

// A browser that is told to store nothing for a site refuses even this; then a reload forgets what waits.
const shelf = (() => {
  try {
    return (sessionStorage.getItem(keep), sessionStorage);
  } catch {
    const kept = new Map();
    return { getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => kept.set(k, v), removeItem: (k) => kept.delete(k) };
  }
})();

const card = (question) => document.getElementById(`q-${question.id}`);
const options = (question) => [...card(question).querySelectorAll("[role=radio]")];
const words = (question, k) => options(question)[k].querySelector(".words").textContent;

// question → for each option that can be chosen, the places of those to store; the same for as long as this tab is open
let draws = null;
function drawsOf(question) {
  if (draws === null) {
    const asked = JSON.stringify(questions.map((q) => [q.id, q.options.length, q.truth, q.size])); // else they do not fit
    const kept = JSON.parse(shelf.getItem(dice) ?? "null");
    if (kept?.asked === asked) draws = kept.draws;
    else {
      const secret = questions.filter((q) => q.says !== "is");
      draws = Object.fromEntries(secret.map((q) => [q.id, drawAll(q.options.length, q.truth, q.size ?? 1)]));
      shelf.setItem(dice, JSON.stringify({ asked, draws }));
    }
  }
  return draws[question.id];
}

// The places of the options to store for what was chosen.
function stored(question) {
  const choice = chosen.get(question.id);
  return question.says === "is" ? [choice] : drawsOf(question)[choice];
}

function letter(id) {
  const answers = {};
  for (const question of questions.filter((q) => chosen.has(q.id))) {
    const names = stored(question).map((k) => question.options[k]);
    answers[question.id] = { [question.says]: question.size === null ? names[0] : names };
  }
  return { id, answers };
}

// Whether a letter is of these questions: they may have changed as long as nobody had answered.
function fits({ answers }) {
  return Object.entries(answers).every(([id, answer]) => {
    const question = questions.find((one) => one.id === id);
    return question && [answer[question.says]].flat().every((name) => question.options.includes(name));
  });
}

// ---- choosing ---------------------------------------------------------------------------------------------------

function choose(question, k) {
  if (k === undefined) chosen.delete(question.id);
  else chosen.set(question.id, k);
  options(question).forEach((option, i) => {
    option.setAttribute("aria-checked", String(i === k));
    option.tabIndex = i === (k ?? 0) ? 0 : -1;
  });
  card(question).querySelector(".clear").hidden = k === undefined;
  const line = card(question).querySelector(".stored");
  if (line !== null) {
    line.classList.toggle("open", k !== undefined);
    line.querySelector("b").textContent = k === undefined ? "" : said(question, stored(question));
  }
  count();
}

function count() {
  const n = chosen.size;
  document.getElementById("count").textContent = `${n} of ${questions.length} answered`;
  document.getElementById("meter").setAttribute("width", String((100 * n) / questions.length));
  document.getElementById("to-review").disabled = n === 0;
}

function said(question, places) {
  const texts = places.map((k) => words(question, k));
  return question.says === "is" ? texts[0] : `${question.says} ${texts.map((text) => `“${text}”`).join(", ")}`;
}

for (const question of questions) {
  const list = options(question);
  list.forEach((option, k) => {
    option.addEventListener("click", () => choose(question, k));
    option.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = (k + step + list.length) % list.length;
      list[next].focus();
      choose(question, next);
    });
  });
  card(question).querySelector(".clear").addEventListener("click", () => {
    choose(question, undefined);
    options(question)[0].focus();
  });
}

// ---- looking at it before it goes ---------------------------------------------------------------------------------

function review(sending) {
  const list = document.getElementById("letter");
  list.replaceChildren();
  for (const question of questions) {
    const answer = sending.answers[question.id];
    const row = list.appendChild(document.createElement("li"));
    const title = row.appendChild(document.createElement("span"));
    Object.assign(title, { className: "asked", dir: "auto" });
    title.textContent = card(question).querySelector("h2").textContent;
    const value = row.appendChild(document.createElement("span"));
    value.className = answer ? `value ${question.says}` : "value none";
    const names = answer ? [answer[question.says]].flat() : [];
    const places = names.map((name) => question.options.indexOf(name));
    value.textContent = answer ? said(question, places) : "nothing";
    if (answer && question.says !== "is") {
      const note = row.appendChild(document.createElement("small"));
      note.textContent = question.says === "not" ? "drawn on this device" : "by chance on this device, true or not";
    }
  }
  document.getElementById("bytes").textContent = JSON.stringify(sending, null, 2);
}

function show(step) {
  for (const section of page.querySelectorAll(":scope > section")) section.hidden = section.id !== step;
  page.dataset.step = step;
  scrollTo(0, 0);
}

function focusTitle(step) {
  document.querySelector(`#${step} h1`).focus({ preventScroll: true });
}

let prepared = null; // its id is made once, so that going back and forth sends one letter
document.getElementById("to-review").addEventListener("click", () => {
  prepared ??= newId();
  review(letter(prepared));
  history.pushState({ step: "review" }, "");
  show("review");
  focusTitle("review");
});
document.getElementById("change").addEventListener("click", () => {
  if (waiting === null) return history.back();
  shelf.removeItem(keep); // it was refused: begin anew
  location.reload();
});

addEventListener("popstate", (event) => {
  if (shelf.getItem(done)) show("thanks");
  else if (waiting) show("review");
  else if (event.state?.step === "review" && chosen.size) {
    review(letter((prepared ??= newId())));
    show("review");
  } else show("ask");
});

// ---- sending ----------------------------------------------------------------------------------------------------

function forget() {
  chosen.clear();
  prepared = null;
  for (const question of questions) choose(question, undefined);
}

document.getElementById("send").addEventListener("click", () => {
  if (waiting === null) {
    waiting = letter(prepared);
    shelf.setItem(keep, JSON.stringify(waiting));
    draws = null;
    shelf.removeItem(dice);
    forget(); // from here on nothing on this page knows what was chosen
  }
  send();
});

async function send(patience = 2) {
  clearTimeout(timer);
  const mine = waiting;
  document.getElementById("send").disabled = true;
  document.getElementById("change").hidden = true;
  tell("Sending…");
  try {
    await call(`${place}/answers`, mine);
  } catch (trouble) {
    if (waiting !== mine) return; // it went when the network came back, while this one hung
    document.getElementById("send").disabled = false;
    document.getElementById("send").textContent = "Try again";
    if (!(trouble instanceof Trouble) || !trouble.passing) {
      tell(`This could not be stored: ${trouble.message}`);
      const change = document.getElementById("change");
      [change.textContent, change.hidden] = ["Answer again", !trouble.told];
      return;
    }
    tell("No connection. What you see here is kept in this tab and goes out as soon as there is one.");
    timer = setTimeout(send, 1000 * Math.max(patience, trouble.wait), Math.min(60, 2 * patience));
    return;
  }
  waiting = null;
  shelf.removeItem(keep);
  shelf.setItem(done, "yes");
  document.getElementById("letter").replaceChildren();
  document.getElementById("bytes").textContent = "";
  history.replaceState({ step: "thanks" }, "");
  show("thanks");
  focusTitle("thanks");
}

function tell(text) {
  const line = document.getElementById("status");
  line.textContent = text;
  line.hidden = false;
}

addEventListener("online", () => waiting && send());
addEventListener("pagehide", forget); // the browser may keep this page for its back button
addEventListener("pageshow", (event) => event.persisted && !waiting && !shelf.getItem(done) && show("ask"));

document.getElementById("again").addEventListener("click", () => {
  shelf.removeItem(done);
  location.reload();
});

// ---- where a reload finds us ------------------------------------------------------------------------------------

count();
waiting = JSON.parse(shelf.getItem(keep) ?? "null");
if (waiting && !fits(waiting)) { // it would be refused, and cannot be shown
  waiting = null;
  shelf.removeItem(keep);
}
if (shelf.getItem(done)) show("thanks");
else if (waiting) {
  review(waiting);
  show("review");
  send();
} else {
  history.replaceState(null, "");
  show("ask");
}
