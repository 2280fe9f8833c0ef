// Talk to our own server: JSON both ways, one kind of error.

export class Trouble extends Error {
  // status 0: no answer came at all, so that it is worth trying again. told: the answer had an error of our own shape.
  constructor(status, message, wait = 0, told = false) {
    super(message);
    this.status = status;
    this.wait = wait;
    this.told = told;
  }
  get passing() {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

export async function call(path, body) {
  const options = { headers: { accept: "application/json" }, cache: "no-store", signal: AbortSignal.timeout(15000) };
  if (body !== undefined) {
    options.method = "POST";
    options.headers["content-type"] = "application/json";
    options.headers["x-naysayer"] = "1"; // no other site's page can set this one
    options.body = JSON.stringify(body);
  }
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Trouble(0, "no connection to the server");
  }
  let answer = null;
  try {
    answer = await response.json();
  } catch {
    if (response.ok) throw new Trouble(0, "the server's answer was cut short");
  }
  if (!response.ok) {
    const wait = Number(response.headers.get("retry-after")) || 0;
    const error = answer?.error;
    throw new Trouble(response.status, error ?? `the server answered ${response.status}`, wait, error !== undefined);
  }
  return answer;
}

// 128 random bits: an id that nobody else makes. (crypto.randomUUID would need https.)
export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
