// The owner's dashboard: what /api/dashboard says, as pictures. Names are set as text, never as HTML.

import { call } from "/static/call.js";
import { marginCurve, percent, ribbon, stacks, timeBars, whiskers } from "/static/charts.js";
import { button, confirmed, copyButton, count, element, moment, whole } from "/static/owner.js";

const page = Object.fromEntries([...document.querySelectorAll("[id]")].map((found) => [found.id, found]));
let known = null;
let wanted = 0.02; // the margin that the owner asks about

// ---- the frame of a figure ------------------------------------------------------------------------------------------

const figures = new Map();

// One figure: a title, a sentence, a picture drawn to the width there is, and the numbers behind it.
function figure(key, title, { wide = false } = {}) {
  if (!figures.has(key)) {
    const made = element("figure", wide ? "figure panel wide" : "figure panel");
    const sentence = element("p");
    const controls = element("div");
    const plot = element("div", "plot");
    const numbers = element("details", "", element("summary", "", "Numbers"), element("div", "scroll"));
    made.append(element("figcaption", "", element("h2", "", title), sentence), controls, plot, numbers);
    page.figures.append(made);
    const frame = { sentence, controls, plot, numbers, draw: null };
    new ResizeObserver(() => frame.draw?.(plot.clientWidth)).observe(plot);
    figures.set(key, frame);
  }
  return figures.get(key);
}

function fill(frame, { said, legend = null, draw, empty = null, heads, rows }) {
  frame.sentence.replaceChildren(...[said].flat());
  if (legend) {
    const list = element("ul", "legend");
    for (const [colour, words] of legend) list.append(element("li", "", element("i", colour), words));
    frame.controls.replaceChildren(list);
  }
  frame.draw = (width) => width && frame.plot.replaceChildren(empty ? element("p", "empty", empty) : draw(width));
  frame.draw(frame.plot.clientWidth);
  frame.numbers.hidden = !rows?.length;
  if (!rows?.length) return;
  const table = element("table", "", element("thead", "", line("th", heads)), element("tbody", "", ...rows.map((row) => line("td", row))));
  frame.numbers.lastChild.replaceChildren(table);
}

function line(cell, values) {
  return element("tr", "", ...values.map((value) => element(cell, "", String(value))));
}

function bold(words) {
  return element("b", "", words);
}

// ---- the verdict --------------------------------------------------------------------------------------------------------

const VERDICT = [["known", "What is known"], ["wrong", "What is wrong"], ["next", "What to do next"]];

let judged = "";

function verdict({ verdict: found }) {
  const now = JSON.stringify(found);
  if (now === judged) return; // a button that somebody is about to press stays where it is
  judged = now;
  page.verdict.replaceChildren(...VERDICT.map(([key, title]) => {
    const sentences = found[key].map(({ text, command }) => {
      const said = element("li", "", text);
      if (command) said.append(element("span", "command", element("code", "", command), copyButton(command, `Copy ${command}`)));
      return said;
    });
    return element("div", `verdict-${key}`, element("h2", "", title), element("ul", "", ...sentences));
  }));
}

// ---- the figures ------------------------------------------------------------------------------------------------------

const ANSWERS = [["c-yes", "Yes"], ["c-no", "No"], ["c-skip", "Can’t tell"]];

function tiles({ progress, people, per_class }) {
  const yes = per_class.reduce((sum, one) => sum + one.yes, 0);
  const said = per_class.reduce((sum, one) => sum + one.yes + one.no, 0);
  const answering = people.filter((one) => one.answers).length;
  const shown = [
    [whole(progress.answers), progress.answers === 1 ? "answer" : "answers"],
    [whole(progress.answered), `of ${count(progress.items, "item")} answered`],
    [whole(progress.decided), progress.decided === 1 ? "item settled" : "items settled"],
    [said ? percent(yes / said) : "–", "of answers are yes"],
    [whole(answering), answering === 1 ? "person answered" : "people answered"],
  ];
  page.tiles.replaceChildren(...shown.map(([number, words]) => element("div", "tile", element("b", "", number), element("span", "", words))));
}

function time({ over_time }) {
  const frame = figure("time", "Answers over time", { wide: true });
  const units = { 60: "one minute", 300: "5 minutes", 900: "15 minutes", 3600: "one hour", 14400: "4 hours", 86400: "one day", 604800: "one week" };
  fill(frame, {
    said: over_time ? `Each bar is ${units[over_time.step] ?? `${over_time.step / 604800} weeks`}.` : "Nothing has come in yet.",
    empty: over_time ? null : "The first answers will appear here.",
    draw: (width) => timeBars(width, over_time),
  });
}

function annotators({ people }) {
  const shown = people.filter((one) => one.answers);
  const seconds = shown.filter((one) => one.seconds !== null).map((one) => one.seconds);
  const [least, most] = [Math.min(...seconds).toFixed(1), Math.max(...seconds).toFixed(1)];
  fill(figure("people", "Who answered"), {
    said: seconds.length ? `A typical answer takes ${least === most ? least : `${least} to ${most}`} ${least === most && least === "1.0" ? "second" : "seconds"}.` : "Answers by person.",
    legend: shown.length ? ANSWERS : null,
    empty: shown.length ? null : "Nobody has answered yet.",
    draw: (width) => stacks(width, shown.map((one) => ({ name: one.name, parts: one })), { label: "Answers by person" }),
    heads: ["person", "answers", "yes", "no", "can’t tell", "seconds"],
    rows: shown.map((one) => [one.name, whole(one.answers), one.yes, one.no, one.skip, one.seconds?.toFixed(1) ?? "–"]),
  });
}

function classes({ per_class, progress }) {
  fill(figure("classes", "What was asked"), {
    said: "Answers by the class that was asked about.",
    legend: progress.answers ? ANSWERS : null,
    empty: progress.answers ? null : "Nothing has been answered yet.",
    draw: (width) => stacks(width, per_class.map((one) => ({ name: one.name, parts: one })), { label: "Answers by class" }),
    heads: ["class", "yes", "no", "can’t tell"],
    rows: progress.answers ? per_class.map((one) => [one.name, one.yes, one.no, one.skip]) : [],
  });
}

function accuracy({ trainings, trains, training_error, progress, classes: names, guided }) {
  if (!trains && !trainings.length) return;
  // Answers that were left out or removed count no more, nor does, in the picture, what was learned with them.
  const drawn = trainings.filter((one, i) => trainings.slice(i).every((later) => later.n_answers >= one.n_answers));
  const last = trainings[trainings.length - 1];
  const said = [];
  if (last) said.push("Trained on what has come in, the model is right on ", bold(`${percent(last.estimate, 1)} (${percent(last.low, 1)} to ${percent(last.high, 1)})`), ` of the items, as estimated from the ${guided ? "random answers before guided questions began" : "answers"} alone.`);
  if (last?.unanswered) said.push(" It also names the ", bold(count(last.unanswered, "item")), last.named == null ? " without any answer." : ` without any answer, ${percent(last.named)} of them with a probability of 90% or more.`);
  for (const note of last?.notes ?? []) said.push(` ${note[0].toUpperCase()}${note.slice(1)}.`);
  fill(figure("accuracy", "Estimated accuracy", { wide: true }), {
    said: last ? said : "A model is trained in the background as answers come in.",
    empty: last ? null : training_error ?? (progress.answers < 50 ? "The first training begins after 50 answers." : "The first training is under way."),
    draw: (width) => ribbon(width, drawn.map((one) => ({ x: one.n_answers, y: one.estimate, low: one.low, high: one.high })), { chance: 1 / names.length, xLabel: "answers" }),
    heads: ["answers", "method", "estimate", "from", "to", "items without an answer", "sure of", "when"],
    rows: trainings.map((one) => [whole(one.n_answers), one.method, percent(one.estimate, 1), percent(one.low, 1), percent(one.high, 1), whole(one.unanswered ?? 0), one.named == null ? "–" : percent(one.named), moment(one.at)]),
  });
}

function likely(p) {
  return p < 0.001 ? "less than 1 time in 1,000" : `${count(Math.max(1, Math.round(100 * p)), "time")} in 100`;
}

function fairness({ report, classes: names }) {
  const frame = figure("fairness", "As it should be?");
  const { yes, yes_expected, yes_p_value, asked_p_value, findings } = report ?? {};
  const odd = [];
  if (yes_p_value !== null && yes_p_value < 0.01) odd.push(`so far from the expected share only ${likely(yes_p_value)} by chance`);
  if (asked_p_value !== null && asked_p_value < 0.01) odd.push("the classes were not asked about as often as they were meant to be");
  let said = "The first question about an item should get a yes as often as chance predicts.";
  if (yes && yes_expected !== null) {
    const share = `Of the first answers about an item ${percent(yes[0], 1)} are yes; ${percent(yes_expected, 1)} were expected. `;
    said = odd.length ? [share, bold(`That does not fit: ${odd.join("; ")}.`)] : [share, bold("That fits.")];
  } else if (yes) said = "Classes are asked about unevenly, so no particular share of yes is expected.";
  const rows = yes ? [{ name: "yes", value: yes[0], low: yes[1], high: yes[2], mark: yes_expected }] : [];
  for (const [k, one] of (report?.asked ?? []).entries()) rows.push({ name: `asked: ${names[k]}`, value: one.estimate, low: one.low, high: one.high, mark: one.expected });
  fill(frame, {
    said,
    legend: yes ? [["c-accent", "found, with its 95% interval"], ["c-expected", "expected"]] : null,
    empty: yes ? null : "Nothing to test yet.",
    draw: (width) => whiskers(width, rows, { label: "What was asked and answered first, against what is expected", from: 0 }),
    heads: ["of first questions", "share", "from", "to", "expected"],
    rows: rows.map((row) => [row.name, ...[row.value, row.low, row.high].map((value) => percent(value, 1)), row.mark === null ? "–" : percent(row.mark, 1)]),
  });
  if (findings?.length) frame.plot.append(element("ul", "findings", ...findings.map((one) => element("li", one.level, one.text))));
}

function suggestions({ guided, progress }) {
  if (!guided) return;
  const [value, low, high] = guided.labels;
  const pair = (one) => one.random !== null && one.guided !== null;
  const rows = guided.classes.filter(pair).map((one) => ({ name: one.name, value: one.guided, low: one.guided, high: one.guided, mark: one.random }));
  const vague = high - low > 0.5;
  const right = vague ? "how many would be right cannot be told yet" : [bold(`${percent(value, 1)} (${percent(low, 1)} to ${percent(high, 1)})`), " would be right"];
  const told = [];
  if (guided.differ.length) told.push(bold(`People do not answer guided questions about ${guided.differ.join(", ")} as they answer random ones about the same items. Look at these answers.`));
  else if (guided.difference) told.push(`Between guided and random questions about the same class of the same items no difference was found; it could be up to about ${Math.round(100 * Math.max(-guided.difference[1], guided.difference[2]))} points.`);
  if (guided.any.odd) told.push(" ", bold(`Of the random questions in between ${percent(guided.any.yes, 1)} got a yes; at most ${percent(guided.any.most, 1)} should.`));
  fill(figure("suggestions", "Guided questions", { wide: true }), {
    said: [`If ${guided.items < progress.items ? `each of the ${count(guided.items, "item")} that are guided now` : "every item"} were given its likeliest class, `, ...[right].flat(), `, by the later ones of ${count(guided.n, "guided answer")}. `, ...told],
    legend: rows.length ? [["c-accent", "guided"], ["c-expected", "random"]] : null,
    empty: rows.length ? null : "No random question was about the likeliest class yet, to compare with.",
    draw: (width) => whiskers(width, rows, { label: "Share of yes by class, guided and random", from: 0 }),
    heads: ["likeliest class", "random", "yes", "guided", "yes, weighted", "by chance"],
    rows: guided.classes.map((one) => [one.name, whole(one.n_random), one.random === null ? "–" : percent(one.random, 1), whole(one.n_guided), one.guided === null ? "–" : percent(one.guided, 1), one.n_random ? likely(one.p_value) : "–"]),
  });
}

function mistakes({ report, errors, people }) {
  const { errors: all } = report ?? {};
  const shown = people.filter((one) => errors[one.id]?.pairs);
  const rows = shown.map((one) => {
    const [value, low, high] = errors[one.id].interval;
    return { name: one.name, value, low, high };
  });
  if (all?.pairs && rows.length > 1) rows.push({ name: "all", value: all.interval[0], low: all.interval[1], high: all.interval[2] });
  fill(figure("mistakes", "How often answers are wrong"), {
    said: all?.pairs ? [`${count(all.pairs, "question was", "questions were")} asked twice, ${all.differ ? whole(all.differ) : "none"} got two different answers: `, bold(all.differ ? `about ${percent(all.interval[0], 1)} of answers are wrong.` : `at most ${percent(all.interval[2], 1)} of answers are wrong.`)] : "Some questions are asked twice; where the two answers differ, one is wrong.",
    empty: all?.pairs ? null : "No question has been repeated yet.",
    draw: (width) => whiskers(width, rows, { label: "Error rate by person", from: 0, digits: 1 }),
    heads: ["person", "repeated", "error rate", "from", "to"],
    rows: all?.pairs ? rows.map((row, i) => [row.name, errors[shown[i]?.id]?.pairs ?? all.pairs, percent(row.value, 1), percent(row.low, 1), percent(row.high, 1)]) : [],
  });
}

function shares({ report, classes: names, since, vague, progress, guided, guided_shares }) {
  const priors = report?.priors;
  const rows = (priors ?? []).map(([value, low, high], k) => ({ name: names[k], value, low, high }));
  fill(figure("shares", "How common each class is"), {
    said: since?.items ? `Share of each class, with its 95% interval, among the ${count(since.items, "item")} first asked about since there are ${whole(since.classes)} classes.` : `Share of each class among the items, with its 95% interval, estimated from yes and no alone${guided_shares ? ": by the random answers before guided questions began, and by the guided ones" : guided ? ", by the answers before guided questions began" : ""}.`,
    empty: priors ? null : vague ? `Too few answers: after ${whole(progress.answers)}, a class may be anything from rare to common.` : since ? "Earlier answers say nothing of a class that was added; this needs answers about items that nobody was asked about before." : "Answers about two items are needed.",
    draw: (width) => whiskers(width, rows, { label: "Share of each class", from: 0, to: Math.min(1, Math.max(...rows.map((row) => row.high)) * 1.05) }),
    heads: ["class", "share", "from", "to"],
    rows: rows.map((row) => [row.name, percent(row.value, 1), percent(row.low, 1), percent(row.high, 1)]),
  });
}

function more({ margins, left }) {
  const frame = figure("more", "How many more");
  if (!frame.slider && margins) {
    frame.slider = Object.assign(document.createElement("input"), { type: "range", min: 0, max: margins.points.length - 1, value: margins.points.findIndex((point) => point.margin === wanted) });
    frame.slider.ariaLabel = "Margin that is wanted";
    frame.slider.addEventListener("input", () => {
      wanted = known.margins.points[frame.slider.value].margin;
      more(known);
    });
    frame.controls.className = "controls";
    frame.output = element("output", "number", "");
    frame.controls.append(frame.slider, frame.output);
  }
  if (!margins) return fill(frame, { said: "How many answers it takes to know a model’s accuracy within a margin.", empty: "This is known after the first answers." });
  const { points, answers, now } = margins;
  const goal = points.find((point) => point.margin === wanted);
  const missing = Math.max(0, goal.n - answers);
  frame.output.textContent = `±${percent(wanted, wanted < 0.03 ? 1 : 0)}`;
  frame.slider.setAttribute("aria-valuetext", `plus or minus ${percent(wanted, 1)}`);
  const reach = Math.max(goal.n, answers) * 1.08;
  const curve = [{ n: answers, margin: now }, ...points].sort((one, other) => one.n - other.n).filter((point) => point.n <= reach * 1.4 && point.margin <= Math.max(0.1, 2 * Math.min(now, wanted * 4)));
  const known_by = ["A model’s accuracy is known within ", bold(`±${percent(now, 1)}`), `, by ${count(answers, "answer")} to random questions. Guided ones add nothing to it.`];
  fill(frame, {
    said: margins.guided ? (missing ? [...known_by, " It would take ", bold(`${count(goal.n, "answer")} to random questions about other items`), `, in a store of their own, to know it within ±${percent(wanted, 1)}.`] : known_by) : missing > left.answers ? [left.answers ? `At most ${count(left.answers, "more answer")} can be given about these items. ` : "Nothing is left to ask about these items. ", bold(count(missing - left.answers, "more item")), ` would give a model’s accuracy within ±${percent(wanted, 1)}; so far it is known within ±${percent(now, 1)}.`] : missing ? [bold(count(missing, "more answer")), ` would give a model’s accuracy within ±${percent(wanted, 1)}; so far it is known within ±${percent(now, 1)}.`] : [bold("There are enough:"), ` a model’s accuracy is known within ±${percent(now, 1)}.`],
    draw: (width) => marginCurve(width, { points: curve, now: { n: answers, margin: now }, wanted }),
    heads: ["margin", "answers in all", margins.guided ? "more than so far" : "still missing"],
    rows: points.map((point) => [`±${percent(point.margin, 1)}`, whole(point.n), whole(Math.max(0, point.n - answers))]),
  });
}

// ---- people and their links ---------------------------------------------------------------------------------------------

let linked = ""; // who is listed, so that the list is not built again under the owner's finger or focus

function links({ people }) {
  if (!page["people-list"]) return;
  const shown = people.filter((one) => one.role === "annotator");
  const now = JSON.stringify(shown.map(({ id, name, ended }) => [id, name, ended]));
  if (linked === now) return;
  linked = now;
  const here = page["people-list"].contains(document.activeElement);
  page["people-list"].replaceChildren(...shown.map((one) => {
    const row = element("li", "", element("span", one.ended ? "soft" : "", one.ended ? `${one.name} (ended)` : one.name));
    if (!one.ended) {
      row.append(button("End link", "quiet", async () => {
        const detail = `${one.name} can no longer answer with it. Answers given so far stay.`;
        if (await confirmed(`End the link of ${one.name}?`, detail, "End link")) act(() => call("/api/revoke", { id: one.id }));
      }, `End the link of ${one.name}`));
    }
    return row;
  }));
  if (here) page["people-title"].focus(); // its button is gone
}

let inviting = false; // a second press on a slow network would make a second link

page.invite?.addEventListener("submit", (event) => {
  event.preventDefault();
  if (inviting) return;
  inviting = true;
  const field = page["invite-name"];
  act(async () => {
    const name = field.value.trim();
    const { link, known } = await call("/api/invite", { name }).finally(() => (inviting = false)); // not once all is shown
    page["invite-known"].hidden = !known;
    page["invite-known"].textContent = `${name} was invited before: this link is one more for the same person.`;
    const made = element("li", "", element("span", "", "For ", element("b", "", name)), element("code", "link", link), copyButton(link, `Copy the link for ${name}`));
    page["new-links"].prepend(made);
    field.value = "";
  });
});

async function act(what) {
  say("");
  try {
    await what();
  } catch (trouble) {
    say(trouble.message);
  }
  await look();
}

// ---- all of it, again and again -------------------------------------------------------------------------------------------

function say(words) {
  page.notice.hidden = !words;
  page.notice.textContent = words;
}

function show() {
  verdict(known);
  tiles(known);
  accuracy(known);
  time(known);
  annotators(known);
  classes(known);
  shares(known);
  mistakes(known);
  fairness(known);
  suggestions(known);
  more(known);
  links(known);
  page.dashboard.ariaBusy = "false";
}

let looked = ""; // what was said about looking: only that is taken back when it goes well again

async function look() {
  try {
    known = await call("/api/dashboard");
    if (looked && page.notice.textContent === looked) say("");
    show();
  } catch (trouble) {
    looked = trouble.status === 0 ? "The server cannot be reached; these figures are from before." : trouble.message;
    say(looked);
  }
}

setInterval(() => document.hidden || look(), 5000);
document.addEventListener("visibilitychange", () => document.hidden || look());
document.fonts.ready.then(() => figures.forEach((frame) => frame.draw?.(frame.plot.clientWidth))); // words are wider now, or less wide
look();
