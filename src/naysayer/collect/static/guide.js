// The guidelines: fetched once, shown with the class that is asked about first.

import { call } from "/static/call.js";
import { words } from "/static/words.js";

let fetched = null;
let asked = 0;

function element(name, className, text) {
  return Object.assign(document.createElement(name), { className, textContent: text, dir: "auto" });
}

function section({ class: name, text, examples }, current) {
  const made = element("section", current ? "guide-class now" : "guide-class", "");
  const title = element("h3", "", name);
  if (current) title.append(" ", element("small", "", words.guide_now));
  made.append(title);
  if (text) made.append(element("p", "", text));
  const row = element("div", "examples", "");
  for (const src of examples) {
    row.append(Object.assign(new Image(), { src, alt: words.example.replace("{}", name), loading: "lazy" }));
  }
  if (examples.length) made.append(row);
  return made;
}

export async function fillGuide(holder, current) {
  const mine = ++asked; // by the time they come, another class may be asked about
  if (!fetched) holder.replaceChildren(element("p", "soft", words.wait_title));
  try {
    fetched ??= await call("/api/guidelines");
  } catch {
    if (mine === asked) holder.replaceChildren(element("p", "soft", words.guide_failed));
    return;
  }
  if (mine !== asked) return;
  const of = (name) => fetched.classes.find((one) => one.class === name);
  const first = current === null ? [] : [of(current) ?? { class: current, text: words.guide_none, examples: [] }];
  const others = fetched.classes.filter((one) => one.class !== current);
  const general = fetched.text ? [element("p", "", fetched.text)] : [];
  holder.replaceChildren(...general, ...first.map((one) => section(one, true)), ...others.map((one) => section(one, false)));
  holder.closest("dialog").scrollTop = 0;
}
