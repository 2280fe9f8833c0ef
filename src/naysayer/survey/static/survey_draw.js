// The draw that keeps a private answer on this device. All chance comes from the browser's cryptographic generator.

// A whole number from 0 to n - 1, each equally likely: numbers past the last whole multiple of n are drawn again.
export function below(n) {
  const end = 2 ** 32 - (2 ** 32 % n);
  const box = new Uint32Array(1);
  do crypto.getRandomValues(box);
  while (box[0] >= end);
  return box[0] % n;
}

// A number from 0 to 1, 1 itself left out, with all the 53 bits that a number has.
function unit() {
  const [high, low] = crypto.getRandomValues(new Uint32Array(2));
  return ((high >>> 5) * 2 ** 26 + (low >>> 6)) / 2 ** 53;
}

// The options to store, `size` of the n: with probability `truth` the chosen one and any others, else only others; each
// set of others equally likely.
export function draw(choice, n, truth, size = 1) {
  const others = Array.from({ length: n }, (_, k) => k).filter((k) => k !== choice);
  const set = unit() < truth ? [choice] : [];
  while (set.length < size) set.push(...others.splice(below(others.length), 1));
  return set.sort((a, b) => a - b);
}

// A draw for every option of a question, whichever will be chosen.
export const drawAll = (n, truth, size) => Array.from({ length: n }, (_, k) => draw(k, n, truth, size));
