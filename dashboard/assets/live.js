// Keeps a page fresh while somebody looks at it, shows times as the reader's clock does, follows
// what a task writes, and knows some keys. Pages read without it.
"use strict";

const notice = document.getElementById("offline");
const EVERY_MS = Number(notice?.dataset.every); // no number where the page is to stay as it is
const MOST_MS = 30000;
const MOST_SHOWN = 1000000; // characters of what a task writes

/* Times */

const clock = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit" });
const soon = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const SOON_MS = 600000;
const day = new Intl.DateTimeFormat([], {
  month: "short", day: "numeric", hour: "2-digit", minute: "2-digit",
});

function tellTimes(root) {
  const today = new Date().toDateString();
  for (const time of root.querySelectorAll("time[datetime]")) {
    const at = new Date(time.dateTime);
    const near = Math.abs(at - Date.now()) < SOON_MS;
    const same = at.toDateString() === today;
    const text = (near ? soon : same ? clock : day).format(at);
    if (time.textContent !== text) {
      time.title = at.toLocaleString();
      time.textContent = text;
    }
  }
}

/* Freshness: the same page is fetched again, and what is new of it takes the place of the old. */

let mark = null;
let pause = EVERY_MS;
let timer = 0;

function busy() {
  const typing = document.activeElement;
  return typing !== null && typing.matches("input, select, textarea");
}

function fetchAgain() {
  const request = new XMLHttpRequest();
  request.open("GET", location.pathname + location.search);
  request.responseType = "document";
  request.timeout = 10000;
  if (mark !== null) request.setRequestHeader("If-None-Match", mark);
  request.onload = () => {
    // Of a page that is not shown the mark is not kept: it has to come again.
    if (request.status === 200 && request.response !== null && !busy()) {
      mark = request.getResponseHeader("ETag");
      renew(request.response);
    }
    if (request.status === 401) {
      say(notice.dataset.out);
    } else if (request.status >= 400 && request.status < 500) {
      say(notice.dataset.gone);
    } else if (request.status >= 500) {
      lost();
      return;
    } else {
      say("");
    }
    pause = EVERY_MS;
    again();
  };
  request.onerror = lost;
  request.ontimeout = lost;
  request.send();
}

function lost() {
  say(notice.dataset.lost);
  pause = Math.min(2 * pause, MOST_MS);
  again();
}

function say(text) {
  if (notice.textContent !== text) notice.textContent = text;
  notice.hidden = text === "";
}

function again() {
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(fetchAgain, pause);
}

function renew(fresh) {
  const there = document.getElementById("main");
  const next = fresh.getElementById("main");
  if (next === null) return;
  document.title = fresh.title;
  const focused = document.activeElement;
  const made = document.importNode(next, true);
  tellTimes(made);
  merge(there, made);
  if (focused !== null && !focused.isConnected) focusAgain(there, focused);
  followAll();
}

// Gives a node the children of another one, and changes as little as possible: what is open stays open, what is selected
// stays selected, and what has the focus keeps it.
function merge(there, next) {
  const olds = [...there.childNodes];
  const places = olds.map(placeOf);
  let at = 0;
  for (const fresh of [...next.childNodes]) {
    const found = places.indexOf(placeOf(fresh), at);
    if (found < 0) {
      there.insertBefore(fresh, olds[at] ?? null);
    } else {
      olds.slice(at, found).forEach((old) => old.remove());
      become(olds[found], fresh);
      at = found + 1;
    }
  }
  olds.slice(at).forEach((old) => old.remove());
}

// What a node is among its siblings. Entries and rows are what they lead to first: another job is another entry.
function placeOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return node.nodeName;
  const link = node.matches("a") ? node : node.matches("li, tr") ? node.querySelector("a") : null;
  const name = node.id || node.getAttribute("aria-labelledby") || node.getAttribute("action");
  return `${node.nodeName} ${name || link?.getAttribute("href") || ""}`;
}

// Makes a node the same as another one of its kind.
function become(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.data = fresh.data;
    return;
  }
  // What is followed goes on: its stream knows more than the page.
  if (old.hasAttribute("data-follow")) return;

  for (const { name } of [...old.attributes]) {
    // Only readers open what is folded.
    if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  merge(old, fresh);
}

// What had the focus may be at another place now, and keeps it there.
function focusAgain(there, lost) {
  const all = [...there.querySelectorAll("*")].filter((one) => one.nodeName === lost.nodeName);
  const same = (one) => ["id", "href", "name"].some((name) =>
    lost.hasAttribute(name) && lost.getAttribute(name) === one.getAttribute(name));
  (all.find((one) => one.isEqualNode(lost)) ?? all.find(same))?.focus({ preventScroll: true });
}

/* What a task writes */

const followed = new WeakSet();

function followAll() {
  for (const pre of document.querySelectorAll("pre[data-follow]")) {
    if (followed.has(pre)) continue;
    followed.add(pre);
    // However it ends, the next look shows what there is then: all of it, or what is to be followed again.
    follow(pre).catch(() => {}).then(() => {
      pre.removeAttribute("data-follow");
      followed.delete(pre);
      mark = null;
    });
  }
}

async function follow(pre) {
  const response = await fetch(pre.dataset.follow);
  if (!response.ok || response.body === null) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let length = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    if (!pre.isConnected) return reader.cancel();
    const low = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 8;
    const text = shown(value);
    pre.append(document.createTextNode(text));
    length += text.length;
    while (length > MOST_SHOWN && pre.childNodes.length > 1) {
      length -= pre.firstChild.data.length;
      pre.firstChild.remove();
    }
    if (low) pre.scrollTop = pre.scrollHeight;
  }
}

// Escapes and marks of direction are shown as signs that they were there.
function shown(text) {
  return text.replace(/\r\n?/g, "\n")
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g, "\ufffd");
}

/* Keys */

const PLACES = { n: "/", j: "/jobs", h: "/hosts", c: "/calendar", t: "/trust", s: "/submit" };
let going = false;

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.matches("input, select, textarea")) return;
  if (going && event.key in PLACES) {
    document.querySelector(`nav a[href="${PLACES[event.key]}"]`)?.click();
  } else if (event.key === "/") {
    const field = document.querySelector("form.filters input");
    if (field !== null) {
      field.focus();
      event.preventDefault();
    }
  }
  going = event.key === "g";
}

/* Begin */

tellTimes(document);
document.addEventListener("keydown", key);
followAll();
if (EVERY_MS > 0) {
  document.addEventListener("visibilitychange", () => {
    clearTimeout(timer);
    if (!document.hidden) fetchAgain();
  });
  again();
}
