// What the owner's pages share: elements, numbers with their nouns, buttons that copy, and a question before what cannot be undone.

export function element(name, className = "", ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

export function button(words, className, act, label = null) {
  const made = element("button", className, words);
  made.type = "button";
  if (label) made.ariaLabel = label;
  made.addEventListener("click", act);
  return made;
}

export const whole = (value) => Math.round(value).toLocaleString("en");

// count(1, "item") is "1 item", count(1200, "item") "1,200 items".
export const count = (n, noun, plural = `${noun}s`) => `${whole(n)} ${n === 1 ? noun : plural}`;

// A time in seconds, as people write it.
export const moment = (at) => new Date(1000 * at).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

// names(["Ann", "Ben", "Cem"]) is "Ann, Ben and Cem".
export const names = (some) => new Intl.ListFormat("en-GB").format(some);

// A button that copies a text, over http too, where browsers have no clipboard for pages.
export function copyButton(text, label) {
  const made = button("Copy", "quiet copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = element("textarea", "unseen");
      field.value = text;
      made.after(field);
      field.select();
      document.execCommand("copy");
      field.remove();
      made.focus();
    }
    made.textContent = "Copied";
    setTimeout(() => (made.textContent = "Copy"), 2000);
  }, label);
  return made;
}

// Ask before something that cannot be undone; true: go on.
export function confirmed(question, detail, yes) {
  return new Promise((resolve) => {
    const dialog = element("dialog", "panel confirm", element("h2", "", question), element("p", "soft", detail));
    const end = (answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    const keep = button("Cancel", "quiet", () => end(false));
    dialog.append(element("div", "confirm-buttons", keep, button(yes, "button danger", () => end(true))));
    dialog.addEventListener("cancel", () => end(false)); // Escape
    document.body.append(dialog);
    dialog.showModal();
    keep.focus();
  });
}
