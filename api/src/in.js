// The way in. A ticket in the fragment of the address is exchanged for a cookie. Where the address names a page (`to`),
// this asks first whether one is let in there: browsers keep the cookie back where somebody follows a link of another
// site, but send it with what a page of this server asks for.
"use strict";

const named = new URLSearchParams(location.search).get("to") ?? "";
// A path of this server: browsers take two slashes, or a backslash, for the name of another one.
const to = /^\/(?!\/)[!-[\]-~]*$/.test(named) ? named + location.hash : null;

function say(what, hint) {
  document.getElementById("said").textContent = what;
  document.getElementById("try").textContent = hint;
}

function lost() {
  say("Nothing answers here.", "Load this page again later. Where a command serves it, the page ends with that " +
    "command: start it again, and open the address that it prints.");
}

function leave(place) {
  sessionStorage.removeItem("to");
  location.replace(place);
}

async function enter(ticket) {
  say("One moment.", "");
  history.replaceState(null, "", "/in");
  const answer = await fetch("/in", { method: "POST", body: ticket });
  if (answer.ok) return leave(sessionStorage.getItem("to") ?? "/");
  const problem = await answer.json();
  say(problem.title, problem.try);
}

// Only asks: one who is not let in would be led back to this page, again and again.
async function look() {
  const answer = await fetch(to, { method: "HEAD", headers: { Accept: "text/html" }, redirect: "manual" });
  if (answer.type !== "opaqueredirect") leave(to);
}

if (to !== null) {
  // A ticket that is opened in this tab leads there, too.
  sessionStorage.setItem("to", to);
  look().catch(lost);
  document.addEventListener("visibilitychange", () => {
    // Somebody may have come in by another tab.
    if (!document.hidden) look().catch(lost);
  });
} else if (location.hash.length > 1) {
  enter(location.hash.slice(1)).catch(lost);
}
