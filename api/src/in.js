// Exchanges the ticket in the fragment of the address for a cookie, and goes on to the first page.
"use strict";

async function enter() {
  const said = document.getElementById("said");
  const ticket = location.hash.slice(1);
  history.replaceState(null, "", "/in");
  const answer = await fetch("/in", { method: "POST", body: ticket });
  if (answer.ok) {
    location.replace("/");
  } else {
    const problem = await answer.json();
    said.textContent = `${problem.title}. Try: ${problem.try}`;
  }
}

enter();
