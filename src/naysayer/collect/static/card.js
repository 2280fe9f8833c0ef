// An item as a card. Texts are set as text, never as HTML.

const TINY = 96; // pixels: smaller pictures are shown enlarged, with their pixels sharp

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) Object.assign(made, { textContent: text, dir: "auto" }); // Arabic runs from the right
  return made;
}

// Load an item's picture ahead of time; resolves when it can be painted at once, or never will be.
export async function preload(item) {
  if (item.kind !== "image" || item.picture) return;
  const picture = new Image();
  picture.alt = "The picture to judge";
  picture.draggable = false;
  picture.src = item.src;
  item.picture = picture;
  try {
    await picture.decode();
  } catch {
    item.failed = true;
    item.onfail?.();
  }
}

export function makeCard(item) {
  const card = element("article", "card");
  if (item.kind === "image") {
    preload(item);
    card.append(item.picture);
    item.onfail = () => item.picture.replaceWith(element("p", "card-failed", "This picture cannot be shown. Answer “Can’t tell”."));
    if (item.failed) item.onfail();
  } else if (item.kind === "record") {
    const list = element("dl");
    for (const [name, value] of item.fields) list.append(element("dt", "", name), element("dd", "", value));
    const holder = element("div", "card-record");
    holder.append(list);
    card.append(holder);
  } else {
    const holder = element("div", item.text.length < 120 ? "card-text short" : "card-text");
    holder.append(element("p", "", item.text));
    card.append(holder);
  }
  for (const [value, word] of [["no", "No"], ["skip", "Can’t tell"], ["yes", "Yes"]]) {
    const stamp = element("span", `stamp stamp-${value}`, word);
    stamp.ariaHidden = "true";
    card.append(stamp);
  }
  return card;
}

// What needs the card's size, once it stands on the page. A long text scrolls: by finger, and by keyboard, which
// needs a place to stand.
export function settle(card) {
  const picture = card.querySelector("img");
  if (picture) fit(picture, card);
  const holder = card.querySelector(".card-text, .card-record");
  if (!holder || holder.scrollHeight <= holder.clientHeight + 1) return;
  card.classList.add("long");
  holder.tabIndex = 0;
  holder.setAttribute("role", "region");
  holder.setAttribute("aria-label", "The text to judge");
}

// Give the card the picture's shape; enlarge a tiny one by a whole factor, so that its pixels stay square.
function fit(picture, card) {
  const set = () => {
    const { naturalWidth: width, naturalHeight: height } = picture;
    if (!width) return;
    if (Math.max(width, height) > TINY) {
      card.classList.add("pictured");
      card.style.setProperty("--ratio", width / height);
      return;
    }
    picture.classList.add("tiny");
    const room = Math.min((card.clientWidth - 48) / width, (card.clientHeight - 48) / height);
    picture.style.width = `${width * Math.max(1, Math.floor(room))}px`;
  };
  if (picture.complete) set();
  else picture.addEventListener("load", set, { once: true });
}

export function makeRest(title, text, done) {
  const card = element("article", "card resting");
  if (done) card.append(document.getElementById("done-mark").content.cloneNode(true));
  card.append(element("h2", "", title), element("p", "", text));
  return card;
}
