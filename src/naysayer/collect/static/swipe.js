// Swipe a card: left No, right Yes, up Can't tell. It follows the finger and says what letting go would mean.

const FAR = 0.28; // of the card's width: letting go there answers
const FAST = 0.55; // pixels a millisecond: so does a flick
const LEAST = 36; // pixels that even a flick must go

export function swipeable(card, answer) {
  let start = null;
  const stamps = Object.fromEntries(["no", "yes", "skip"].map((value) => [value, card.querySelector(`.stamp-${value}`)]));

  function direction(x, y) {
    if (Math.abs(x) >= Math.abs(y)) return x < 0 ? "no" : "yes";
    return y < 0 && !card.classList.contains("long") ? "skip" : null; // a long text needs up and down to scroll
  }

  function show(x, y) {
    card.style.transform = `translate(${x}px, ${y}px) rotate(${x / 28}deg)`;
    const leaning = direction(x, y);
    const strength = Math.min(1, Math.hypot(x, y) / (card.clientWidth * FAR));
    for (const [value, stamp] of Object.entries(stamps)) stamp.style.opacity = value === leaning ? strength : 0;
  }

  function rest() {
    card.classList.add("springing");
    card.style.transform = "";
    for (const stamp of Object.values(stamps)) stamp.style.opacity = "";
  }

  function stop() {
    start = null;
    rest();
  }

  card.addEventListener("pointerdown", (event) => {
    if (start && !event.isPrimary) return stop(); // a second finger: no swipe
    if (!event.isPrimary || event.button !== 0 || card.classList.contains("zoomed")) return;
    // A mouse on words selects them; a finger does so by resting on them.
    if (event.target.closest(event.pointerType === "mouse" ? "button, .words" : "button")) return;
    start = { x: event.clientX, y: event.clientY, at: event.timeStamp, id: event.pointerId };
    card.classList.remove("springing", "entering", "returning");
    card.setPointerCapture?.(event.pointerId);
  });
  card.addEventListener("pointermove", (event) => {
    if (start?.id !== event.pointerId) return;
    if (!getSelection().isCollapsed && card.contains(getSelection().anchorNode)) return stop();
    const [x, y] = [event.clientX - start.x, event.clientY - start.y];
    show(x, direction(x, y) === null ? 0 : y);
  });
  card.addEventListener("pointerup", (event) => {
    if (start?.id !== event.pointerId) return;
    const [x, y] = [event.clientX - start.x, event.clientY - start.y];
    const distance = Math.hypot(x, y);
    const speed = distance / Math.max(1, event.timeStamp - start.at);
    const value = direction(x, y);
    start = null;
    if (value && (distance > Math.min(160, card.clientWidth * FAR) || (speed > FAST && distance > LEAST))) {
      for (const stamp of Object.values(stamps)) stamp.style.opacity = "";
      answer(value);
    } else {
      rest();
    }
  });
  card.addEventListener("pointercancel", stop);
}
