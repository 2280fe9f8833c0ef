// How people answer, with a way to leave their answers out, and the queue of what they disagree on. Names are set as text.

import { call } from "/static/call.js";
import { percent } from "/static/charts.js";
import { count, element, moment, names, whole } from "/static/owner.js";

const page = Object.fromEntries([...document.querySelectorAll("[id]")].map((found) => [found.id, found]));
const FEWEST = 5; // repeated questions from which on a share is told
const later = new Set(); // disagreements that the owner put off
const before = {}; // what each part shows, so that it is not built again under the owner's finger

function changed(part, what) {
  const now = JSON.stringify(what);
  const is = before[part] !== now;
  before[part] = now;
  return is;
}

function button(words, name, act, className = "quiet") {
  const made = element("button", className, words);
  made.type = "button";
  if (name) made.ariaLabel = name;
  made.addEventListener("click", async () => {
    const part = made.closest("section");
    made.disabled = true;
    say("");
    try {
      await act();
    } catch (trouble) {
      say(trouble.message);
    }
    await look();
    made.disabled = false;
    if (document.activeElement !== document.body) return;
    const next = made.isConnected ? made : part.querySelector(".dispute-item") ?? part.querySelector("h2");
    next.focus({ preventScroll: true }); // for whoever goes on by keyboard
  });
  return made;
}

function say(words) {
  page.notice.hidden = !words;
  page.notice.textContent = words;
}

// ---- people ---------------------------------------------------------------------------------------------------------

function within([estimate, low, high]) {
  const clip = (value) => percent(Math.min(1, Math.max(0, value)));
  return `${clip(estimate)} (${clip(low)} to ${clip(high)})`;
}

function facts(one) {
  const said = [`${count(one.n, "answer")}, ${whole(one.n_yes)} yes`];
  if (one.seconds !== null) said.push(`typically ${one.seconds.toFixed(one.seconds < 1 ? 2 : 1)} s`);
  if (one.n_with_others >= FEWEST) said.push(`agrees with others at ${within(one.with_others)} of ${count(one.n_with_others, "repeated question")}`);
  if (one.n_with_self >= FEWEST) said.push(`with their own earlier answers at ${within(one.with_self)} of ${whole(one.n_with_self)}`);
  if (one.with_model) said.push(`says yes to the model’s likeliest class for ${within(one.with_model)} of the items`);
  return `${said.join("; ")}.`;
}

function person(one) {
  const row = element("li", one.left_out ? "out" : one.reasons.length ? "named" : "");
  const name = Object.assign(element("a", "", element("b", "", one.name)), { href: `/items?person=${one.id}`, title: "See these answers" });
  const words = element("div", "", name);
  for (const reason of one.reasons) words.append(element("p", "reason", `${reason[0].toUpperCase()}${reason.slice(1)}.`));
  words.append(element("p", "", facts(one)));
  if (one.left_out) {
    const { by, at, reason } = one.left_out;
    words.append(element("p", "", `Left out by ${by}, ${moment(at)}${reason ? `: ${reason}` : ""}.`));
    row.append(words, button("Count again", `Count the answers of ${one.name} again`, () => call("/api/let-in", { id: one.id })));
  } else {
    const reason = one.reasons.join("; ").slice(0, 500);
    row.append(words, button("Leave out", `Leave out the answers of ${one.name}`, () => call("/api/leave-out", { id: one.id, reason })));
  }
  return row;
}

function people(all) {
  if (!changed("people", all)) return;
  page.judged.hidden = !all.length;
  const named = all.filter((one) => one.reasons.length && !one.left_out).map((one) => one.name);
  const out = all.filter((one) => one.left_out).length;
  const said = named.length ? `Look at the answers of ${names(named)}.` : "Nobody stands out.";
  const rest = "Who is left out counts in no estimate, training or label, until you count them again.";
  page["judged-said"].textContent = `${said} ${out ? `${count(out, "person is", "people are")} left out. ` : ""}${rest}`;
  page["judged-list"].replaceChildren(...all.map(person));
}

// ---- disagreements --------------------------------------------------------------------------------------------------

function picture(item, name) {
  const holder = element("div", "dispute-item");
  if (item.kind === "image") holder.append(Object.assign(new Image(), { src: item.src, alt: name }));
  else if (item.kind === "record") holder.append(element("dl", "", ...item.fields.flatMap(([field, value]) => [element("dt", "", field), element("dd", "", value)])));
  else holder.append(item.text);
  holder.tabIndex = 0; // a long one scrolls, by keyboard too
  holder.setAttribute("role", "group");
  holder.setAttribute("aria-label", "What they disagree on");
  return holder;
}

function settling(one, name) {
  return button(name ?? "Can’t tell", name ? `It is: ${name}` : "", () => call("/api/settle", { item: one.id, class: name }), name ? "button" : "quiet");
}

function choices(one, names) {
  const about = [...new Set([...one.said.map((each) => each.class), ...(one.model ? [one.model.class] : [])])];
  const made = element("div", "dispute-choices", ...about.map((name) => settling(one, name)));
  const others = names.filter((name) => !about.includes(name));
  if (others.length) {
    const select = element("select", "field", new Option("Another class", ""), ...others.map((name) => new Option(name, name)));
    select.ariaLabel = "It is another class";
    // A key may pass several classes on its way to the one that is meant: choosing settles nothing yet.
    const settle = button("Settle", "Settle it as the chosen class", () => call("/api/settle", { item: one.id, class: select.value }), "button");
    settle.disabled = true;
    select.addEventListener("change", () => (settle.disabled = !select.value));
    made.append(select, settle);
  }
  const put = button("Later", "", () => later.add(one.id));
  made.append(settling(one, null), put);
  return made;
}

function dispute(one, names) {
  const said = element("ul", "", ...one.said.map((each) => element("li", "", `${each.name}: ${each.value === "yes" ? "yes" : "no"} to ${each.class}`)));
  if (one.model) said.append(element("li", "", `The model, without these answers: ${one.model.class}, ${percent(one.model.sure)} sure`));
  const words = element("div", "dispute-said", element("b", "", one.why), said, element("p", "", "What is it?"), choices(one, names));
  return element("div", "dispute", picture(one.item, one.name), words);
}

function disputes({ classes, total, shown: first, settled }) {
  page.disputes.hidden = !total && !settled.length;
  page["disputes-said"].textContent = total
    ? `${count(total, "item")} on which people, or people and model, contradict each other. Your word settles an item; estimates stay as they are.`
    : "Nothing is left on which people, or people and model, contradict each other.";
  if (first.length && first.every((one) => later.has(one.id))) later.clear(); // round again
  const one = first.find((each) => !later.has(each.id));
  if (changed("dispute", one ?? null)) page.dispute.replaceChildren(...(one ? [dispute(one, classes)] : []));
  if (!changed("settled", settled)) return;
  page.settled.hidden = !settled.length;
  page["settled-list"].replaceChildren(...settled.map((each) => element("li", "",
    element("div", "", `${each.name}: ${each.class ?? "can’t tell"}`),
    button("Take back", `Take back what was settled about ${each.name}`, () => call("/api/reopen", { item: each.id })))));
}

// ---- again and again --------------------------------------------------------------------------------------------------

async function look() {
  try {
    const [found, next] = await Promise.all([call("/api/people"), call("/api/disagreements")]);
    people(found.people);
    disputes(next);
  } catch {
    // the dashboard says that the server cannot be reached; what is shown is from before
  }
}

setInterval(() => document.hidden || look(), 5000);
document.addEventListener("visibilitychange", () => document.hidden || look());
look();
