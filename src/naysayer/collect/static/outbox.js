// What was said and not yet acknowledged: kept in the browser, sent in order, sent again until it arrived.
//
// Each entry has a key of its own, so that two tabs cannot overwrite each other. Both may send the same entry: the
// server stores an id once.

import { call, newId } from "/static/call.js";

const BATCH = 50;
const LONGEST_WAIT = 15000;

export class Outbox extends EventTarget {
  #prefix;
  #sending = null;
  #timer = 0;
  #failures = 0;
  #memory = new Map(); // where the browser refuses to store
  #last = 0;
  offline = false;
  ended = false; // the server knows us no more: nothing is sent, nothing is lost

  constructor(owner) {
    super();
    this.#prefix = `naysayer/${owner}/`;
    addEventListener("online", () => this.flush());
    addEventListener("pageshow", () => this.flush());
    document.addEventListener("visibilitychange", () => document.hidden || this.flush());
  }

  get #keys() {
    const stored = [];
    try {
      for (let i = 0; i < localStorage.length; i++) stored.push(localStorage.key(i));
    } catch { /* no storage: memory it is */ }
    return [...stored.filter((key) => key.startsWith(this.#prefix)), ...this.#memory.keys()].sort();
  }

  get size() {
    return this.#keys.length;
  }

  // The questions whose answers wait here.
  get questions() {
    return this.#keys.map((key) => this.#read(key)).filter((entry) => entry?.kind === "answers").map((entry) => entry.question);
  }

  // kind "answers": { id, question, value, took_ms }; kind "undo": { id, answer }
  add(kind, entry) {
    this.#last = Math.max(this.#last + 1, Date.now() * 100); // of one page in order, of several by the clock
    const key = `${this.#prefix}${String(this.#last).padStart(18, "0")}-${newId().slice(0, 6)}`;
    const text = JSON.stringify({ kind, ...entry });
    try {
      localStorage.setItem(key, text);
    } catch {
      this.#memory.set(key, text);
    }
    this.flush();
  }

  #read(key) {
    try {
      return JSON.parse(this.#memory.get(key) ?? localStorage.getItem(key));
    } catch {
      return null;
    }
  }

  #remove(key) {
    this.#memory.delete(key);
    try {
      localStorage.removeItem(key);
    } catch { /* it was in memory only */ }
  }

  // Resolves when all that stood here was sent, or could not be for now.
  flush() {
    clearTimeout(this.#timer);
    this.#sending ??= this.#run().finally(() => (this.#sending = null));
    return this.#sending;
  }

  async #run() {
    await null; // what is added in this same turn goes along
    for (let keys = this.#keys; keys.length && !this.ended; keys = this.#keys) {
      try {
        await this.#send(keys);
        this.#failures = 0;
        this.offline = false;
      } catch (trouble) {
        this.ended = trouble.status === 401;
        this.offline = !this.ended;
        this.#tell(trouble);
        if (this.ended) return;
        const wait = Math.max(trouble.wait * 1000, Math.min(LONGEST_WAIT, 500 * 2 ** this.#failures++));
        this.#timer = setTimeout(() => this.flush(), wait);
        return;
      }
      this.#tell();
    }
  }

  async #send(keys, most = BATCH) {
    const batch = [];
    for (const key of keys.slice(0, most)) {
      const entry = this.#read(key);
      if (!entry) this.#remove(key);
      else if (!batch.length || (entry.kind === "answers" && batch[0].entry.kind === "answers")) batch.push({ key, entry });
      else break;
    }
    if (!batch.length) return;
    let lost = [];
    const undo = batch[0].entry.kind === "undo";
    try {
      if (undo) {
        const { id, answer } = batch[0].entry;
        await call("/api/undo", { id, answer });
      } else {
        const answers = batch.map(({ entry: { id, question, value, took_ms } }) => ({ id, question, value, took_ms }));
        lost = (await call("/api/answers", { answers })).refused;
      }
    } catch (trouble) {
      // Only where our own server says that it cannot take this does sending it again not help. What a proxy says while
      // the server is away, or a server that was started otherwise, is no reason to drop anything.
      if (!trouble.told || (trouble.status !== 422 && !(undo && trouble.status === 409))) throw trouble;
      if (batch.length > 1) return this.#send(keys, Math.ceil(batch.length / 2)); // one of them is at fault: which?
      lost = batch.map(({ entry }) => ({ id: entry.id, error: trouble.message }));
    }
    for (const { key } of batch) this.#remove(key);
    for (const one of lost) this.dispatchEvent(new CustomEvent("refused", { detail: one }));
  }

  #tell(trouble) {
    this.dispatchEvent(new CustomEvent("change", { detail: trouble }));
  }
}
