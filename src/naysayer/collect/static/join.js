// A link's token stands behind its #, which browsers keep to themselves. Exchange it, once, for a cookie.

import { call } from "/static/call.js";
import { words } from "/static/words.js";

const token = location.hash.slice(1);
history.replaceState(null, "", location.pathname); // out of sight, and out of the history

function say(name) {
  document.getElementById("title").textContent = words[`${name}_title`];
  document.getElementById("text").textContent = words[name];
}

if (!token) {
  say("join_part");
} else {
  try {
    const { to } = await call("/api/join", { token });
    location.replace(to);
  } catch (trouble) {
    say(trouble.status === 401 ? "join_wrong" : "join_failed");
  }
}
