// The words of the page, in the language that the server chose for it.

export const words = JSON.parse(document.querySelector("[data-words]").dataset.words);
const rules = new Intl.PluralRules(words.language);

export function number(n) {
  return n.toLocaleString(words.language);
}

// A text that depends on a number: the form that the language has for it.
export function counted(name, n, more = {}) {
  const text = words[name][rules.select(n)] ?? words[name].other;
  return text.replace(/\{(\w+)\}/g, (_, key) => (key === "n" ? number(n) : more[key]));
}
