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
  merge(there, document.importNode(next, true));
  followAll();
}

// Changes as little as possible: what is open stays open, and what has the focus keeps it.
function merge(there, next) {
  tellTimes(next);
  const olds = [...there.children];
  const news = [...next.children];
  const alike = olds.length === news.length &&
    olds.every((old, place) => old.tagName === news[place].tagName);
  if (!alike || olds.length === 0) {
    if (!there.isEqualNode(next)) replace(there, next);
    return;
  }
  olds.forEach((old, place) => {
    const fresh = news[place];
    if (old.isEqualNode(fresh) || old.hasAttribute("data-follow")) return;
    const box = old.matches("main, section, article, ul, ol, tbody, table, div") &&
      fresh.attributes.length === old.attributes.length;
    if (box && textless(old) && textless(fresh)) {
      merge(old, fresh);
    } else {
      replace(old, fresh);
    }
  });
}

function replace(old, fresh) {
  keepOpen(old, fresh);
  // What is followed goes on where it is shown now.
  const followed = [...old.querySelectorAll("pre[data-follow]")].map((pre) => [pre, pre.scrollTop]);
  const nexts = [...fresh.querySelectorAll("pre[data-follow]")];
  for (const [pre] of followed) {
    nexts.find((next) => next.dataset.follow === pre.dataset.follow)?.replaceWith(pre);
  }
  old.replaceWith(fresh);
  for (const [pre, top] of followed) pre.scrollTop = top;
}

function textless(node) {
  return [...node.childNodes].every((child) =>
    child.nodeType !== Node.TEXT_NODE || child.data.trim() === "");
}

function keepOpen(old, fresh) {
  const opened = old.matches("details[open]") || old.querySelector("details[open]") !== null;
  if (!opened) return;
  const details = fresh.matches("details") ? fresh : fresh.querySelector("details");
  if (details !== null) details.open = true;
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
