// Exchanges the ticket in the fragment of the address for a cookie, and goes on to the first page.
"use strict";

async function enter(ticket) {
  const said = document.getElementById("said");
  said.textContent = "One moment.";
  history.replaceState(null, "", "/in");
  const answer = await fetch("/in", { method: "POST", body: ticket });
  if (answer.ok) {
    location.replace("/");
  } else {
    const problem = await answer.json();
    said.textContent = problem.title;
    document.getElementById("try").textContent = problem.try;
  }
}

if (location.hash.length > 1) enter(location.hash.slice(1));
