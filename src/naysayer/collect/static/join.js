// A link's token stands behind its #, which browsers keep to themselves. Hand it over once, for a cookie.

import { call } from "/static/call.js";

const token = location.hash.slice(1);
history.replaceState(null, "", location.pathname); // out of sight, and out of the history

function say(title, text) {
  document.getElementById("title").textContent = title;
  document.getElementById("text").textContent = text;
}

if (!token) {
  say("This link is not whole", "Open it again as you got it, or ask whoever sent it for a new one.");
} else {
  try {
    const { to } = await call("/api/join", { token });
    location.replace(to);
  } catch (trouble) {
    if (trouble.status === 401) say("This link does not work", "It may have been ended. Ask whoever sent it for a new one.");
    else say("That did not go through", `${trouble.message}. Open the link again in a moment.`);
  }
}
