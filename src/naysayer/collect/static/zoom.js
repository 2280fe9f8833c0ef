// Look closer at a picture: by pinch, wheel, keys or its button. From the first step on it comes at full sharpness.

import { words } from "/static/words.js";

const MOST = 8; // times
const STEP = 1.5;

export function zoomable(card, picture, sharpen) {
  let [scale, x, y] = [1, 0, 0]; // of the picture, from the middle of its card
  let pinch = null;
  const fingers = new Map();
  const button = document.getElementById("zoom-button").content.cloneNode(true).firstChild;

  function apply() {
    if (scale < 1.02) [scale, x, y] = [1, 0, 0];
    card.classList.toggle("zoomed", scale > 1); // it then has the whole stage
    const { clientWidth: width, clientHeight: height } = card;
    const ratio = picture.naturalWidth / picture.naturalHeight;
    const shown = Math.min(width, height * ratio) * scale;
    const [wide, high] = [Math.max(0, shown - width) / 2, Math.max(0, shown / ratio - height) / 2];
    [x, y] = [Math.max(-wide, Math.min(wide, x)), Math.max(-high, Math.min(high, y))]; // no edge comes inside
    picture.style.transform = scale === 1 ? "" : `translate(${x}px, ${y}px) scale(${scale})`;
    button.setAttribute("aria-pressed", scale > 1);
    button.ariaLabel = button.title = scale > 1 ? words.whole : words.closer;
    if (scale > 1) sharpen();
  }

  // Zoom so that what lies at a point of the screen stays there.
  function about(factor, at = null) {
    const box = card.getBoundingClientRect();
    const [px, py] = at ? [at.x - box.x - box.width / 2, at.y - box.y - box.height / 2] : [0, 0];
    const next = Math.max(1, Math.min(MOST, scale * factor));
    [x, y, scale] = [px - ((px - x) * next) / scale, py - ((py - y) * next) / scale, next];
    apply();
  }

  function span() {
    const [one, other] = [...fingers.values()];
    return { x: (one.x + other.x) / 2, y: (one.y + other.y) / 2, wide: Math.hypot(one.x - other.x, one.y - other.y) };
  }

  card.addEventListener("pointerdown", (event) => {
    if (event.target.closest("button")) return;
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (fingers.size === 2) pinch = span();
    if (fingers.size === 2 || scale > 1) card.setPointerCapture?.(event.pointerId);
  });
  card.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return;
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (fingers.size === 2) {
      const now = span();
      [x, y] = [x + now.x - pinch.x, y + now.y - pinch.y];
      about(now.wide / Math.max(1, pinch.wide), now);
      pinch = now;
    } else if (scale > 1) move(event.clientX - before.x, event.clientY - before.y);
  });
  for (const end of ["pointerup", "pointercancel"]) card.addEventListener(end, (event) => fingers.delete(event.pointerId));
  card.addEventListener("wheel", (event) => {
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 30 : 1;
    about(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.002)), { x: event.clientX, y: event.clientY });
  }, { passive: false });
  card.addEventListener("dblclick", (event) => {
    if (!event.target.closest("button")) about(scale > 1 ? 0 : 3, { x: event.clientX, y: event.clientY });
  });
  button.addEventListener("mousedown", (event) => event.preventDefault()); // the space bar keeps its meaning
  button.addEventListener("click", () => about(scale > 1 ? 0 : 3));

  function move(dx, dy) {
    [x, y] = [x + dx, y + dy];
    apply();
  }

  card.append(button);
  apply();
  return { closer: () => about(STEP), farther: () => about(1 / STEP), whole: () => about(0), move };
}
