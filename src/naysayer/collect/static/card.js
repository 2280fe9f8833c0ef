// An item as a card. Texts are set as text, never as HTML.

import { call } from "/static/call.js";
import { words } from "/static/words.js";
import { zoomable } from "/static/zoom.js";

const SIZES = [320, 640, 1280, 2560]; // in which the server gives pictures, by their longer side
const RETRY = 5000; // milliseconds after which a picture that is shown, and did not come, is asked for again
const failed = new Set(); // items whose pictures did not come, which may be the network's fault
const TINY = 96; // pixels: smaller pictures are shown enlarged, with their pixels sharp

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) Object.assign(made, { textContent: text, dir: "auto" }); // Arabic runs from the right
  return made;
}

// Load an item's picture ahead of time, as large as it is shown; resolves when it can be painted at once, or did not
// come. One that did not come is tried again whenever this is called.
export async function preload(item) {
  if (item.kind !== "image" || item.gone || (item.picture && !failed.delete(item))) return;
  item.picture ??= newPicture(item);
  item.picture.src = `${item.src}?size=${item.size}`;
  try {
    await item.picture.decode();
  } catch {
    failed.add(item);
    look(item);
  }
}

function newPicture(item) {
  const { clientWidth, clientHeight } = document.getElementById("stage");
  const needed = Math.max(clientWidth, clientHeight) * Math.min(devicePixelRatio, 2);
  item.size = SIZES.find((size) => size >= needed) ?? SIZES.at(-1);
  return Object.assign(new Image(), { alt: words.picture, draggable: false });
}

// Find out why a picture did not come: only our own server knows that there is none.
async function look(item) {
  try {
    await call(`${item.src}?size=${item.size}`);
  } catch (trouble) {
    item.gone = trouble.told && (trouble.status === 404 || trouble.status === 415);
  }
  if (item.gone) {
    failed.delete(item);
    item.ongone?.();
  } else setTimeout(() => item.picture.isConnected && failed.has(item) && preload(item), RETRY);
}

addEventListener("online", () => [...failed].forEach(preload));

// Put the whole picture in the place of its preview, where that is smaller.
async function sharpen(item) {
  const { picture, size } = item;
  if (item.sharp || Math.max(picture.naturalWidth, picture.naturalHeight) < size) return;
  item.sharp = true;
  const full = Object.assign(new Image(), { src: `${item.src}?size=full` });
  try {
    await full.decode();
    picture.src = full.src;
  } catch {
    item.sharp = false; // the preview stays; the next step tries again
  }
}

export function makeCard(item) {
  const card = element("article", "card");
  if (item.kind === "image") {
    preload(item);
    card.append(item.picture);
    item.ongone = () => item.picture.replaceWith(element("p", "card-failed", words.unseen));
    if (item.gone) item.ongone();
  } else if (item.kind === "record") {
    const list = element("dl", "words");
    for (const [name, value] of item.fields) list.append(element("dt", "", name), element("dd", "", value));
    const holder = element("div", "card-record");
    holder.append(list);
    card.append(holder);
  } else {
    const holder = element("div", item.text.length < 120 ? "card-text short" : "card-text");
    holder.append(element("p", "words", item.text));
    card.append(holder);
  }
  for (const value of ["no", "skip", "yes"]) {
    const stamp = element("span", `stamp stamp-${value}`, words[value]);
    stamp.ariaHidden = "true";
    card.append(stamp);
  }
  return card;
}

// What needs the card's size, once it stands on the page. A long text scrolls: by finger, and by keyboard, which
// needs a place to stand. A picture can be looked at more closely: `found` is called with the ways to do so.
export function settle(card, item, found) {
  const picture = card.querySelector("img");
  if (picture) fit(picture, card, () => found(zoomable(card, picture, () => sharpen(item))));
  const holder = card.querySelector(".card-text, .card-record");
  if (!holder || holder.scrollHeight <= holder.clientHeight + 1) return;
  card.classList.add("long");
  holder.tabIndex = 0;
  holder.setAttribute("role", "region");
  holder.setAttribute("aria-label", words.text);
}

// Give the card the picture's shape; enlarge a tiny one by a whole factor, so that its pixels stay square.
function fit(picture, card, large) {
  const set = () => {
    const { naturalWidth: width, naturalHeight: height } = picture;
    if (!width) return;
    if (Math.max(width, height) > TINY) {
      card.classList.add("pictured");
      card.style.setProperty("--ratio", width / height);
      return large();
    }
    picture.classList.add("tiny");
    const room = Math.min((card.clientWidth - 48) / width, (card.clientHeight - 48) / height);
    picture.style.width = `${width * Math.max(1, Math.floor(room))}px`;
  };
  if (picture.complete && picture.naturalWidth) set(); // one that did not come is complete, too
  else picture.addEventListener("load", set, { once: true });
}

export function makeRest(title, text, done) {
  const card = element("article", "card resting");
  if (done) card.append(document.getElementById("done-mark").content.cloneNode(true));
  card.append(element("h2", "", title), element("p", "", text));
  return card;
}
