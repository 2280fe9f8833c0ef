// The list of items with their answers, a page at a time. Names and texts are set as text, never as HTML.

import { call } from "/static/call.js";
import { button, confirmed, count, element, moment, whole } from "/static/owner.js";

const page = Object.fromEntries([...document.querySelectorAll("[id]")].map((found) => [found.id, found]));
const PER_PAGE = 20;
const SAID = { yes: "Yes", no: "No", skip: "Can’t tell" };
const STATES = { unanswered: "no answer yet", open: "open", closed: "closed", gone: "picture is gone" };
const asked = { state: "", name: "", person: new URLSearchParams(location.search).get("person") ?? "", page: 1 };
let request = 0;

function say(words) {
  page.notice.hidden = !words;
  page.notice.textContent = words;
}

function picture(item, name) {
  const image = element("img", "thumb");
  image.loading = "lazy";
  image.alt = "";
  image.addEventListener("error", () => image.replaceWith(element("div", "thumb none", "no picture")));
  image.src = item.src;
  image.title = name;
  return image;
}

function content(one) {
  if (one.item.kind === "image") return picture(one.item, one.name);
  if (one.item.kind === "text") return element("p", "item-text", one.item.text);
  const list = element("dl", "item-fields");
  for (const [name, value] of one.item.fields) list.append(element("dt", "", name), element("dd", "", value));
  return list;
}

function known(one) {
  if (one.label !== null && one.state === "closed") return `closed: ${one.label}`;
  if (one.state === "closed") return one.answers.some((said) => said.final) ? "closed: nobody can tell" : "closed: people disagree";
  if (one.state === "open") return `open: ${one.left.join(", ")}`;
  return STATES[one.state];
}

function answer(said) {
  const words = said.final && said.value === "skip" ? "Can’t tell" : `${said.class}? ${SAID[said.value]}`;
  const how = `${said.final ? ", the last word" : said.repeat ? ", asked again" : ""}${said.counts ? "" : ", left out"}`;
  return element("li", said.counts ? "" : "out", element("span", `said ${said.value}`, words), element("span", "soft", `${said.person}, ${moment(said.at)}${how}`));
}

function row(one) {
  const remove = button("Remove", "quiet", async () => {
    const n = one.answers.length;
    const detail = `The item${n ? ` and its ${n === 1 ? "answer" : count(n, "answer")} are` : " is"} deleted from the store for good. Files on the disk, exports and models made earlier stay as they are.`;
    if (!(await confirmed(`Remove ${one.name}?`, detail, "Remove"))) return;
    try {
      const { answers } = await call("/api/remove", { id: one.id });
      await look();
      say(`Removed ${one.name}${answers ? ` and ${count(answers, "answer")}` : ""}.`);
    } catch (trouble) {
      say(trouble.message);
    }
  }, `Remove ${one.name}`);
  const head = element("div", "item-head", element("h2", "", one.name), element("span", `state ${one.state}`, known(one)));
  const answers = one.answers.length ? element("ul", "item-answers", ...one.answers.map(answer)) : element("p", "soft", "Nobody has answered.");
  return element("li", "panel item", element("div", "item-content", content(one)), element("div", "item-about", head, answers), remove);
}

async function look() {
  const mine = ++request;
  page.items.ariaBusy = "true";
  try {
    const query = new URLSearchParams({ page: asked.page, name: asked.name });
    for (const key of ["state", "person"]) if (asked[key]) query.set(key, asked[key]);
    const { items, total, people } = await call(`/api/items?${query}`);
    if (mine !== request) return; // a later one is under way
    const last = Math.max(1, Math.ceil(total / PER_PAGE));
    if (asked.page > last) {
      asked.page = last;
      return look();
    }
    say("");
    page.person.replaceChildren(page.person.options[0], ...people.map((one) => new Option(one.name, one.id)));
    page.person.value = asked.person;
    const here = page.items.contains(document.activeElement);
    page.items.replaceChildren(...items.map(row));
    if (here) page.range.focus({ preventScroll: true }); // the button that was pressed is gone
    const first = (asked.page - 1) * PER_PAGE;
    page.range.textContent = total > PER_PAGE ? `${whole(first + 1)} to ${whole(first + items.length)} of ${count(total, "item")}` : total ? count(total, "item") : "No such items.";
    page.before.disabled = asked.page === 1;
    page.after.disabled = asked.page === last;
    page.pager.hidden = total <= PER_PAGE;
  } catch (trouble) {
    say(trouble.message);
  }
  page.items.ariaBusy = "false";
}

function go(changes) {
  Object.assign(asked, changes);
  return look();
}

for (const key of ["state", "person"]) page[key].addEventListener("change", () => go({ [key]: page[key].value, page: 1 }));
page.name.addEventListener("input", () => go({ name: page.name.value, page: 1 }));
page.filter.addEventListener("submit", (event) => event.preventDefault());
page.before.addEventListener("click", () => go({ page: asked.page - 1 }).then(() => scrollTo(0, 0)));
page.after.addEventListener("click", () => go({ page: asked.page + 1 }).then(() => scrollTo(0, 0)));
look();
