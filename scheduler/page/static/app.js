// Connects the stream with the views.

import { byId, element } from "./dom.js";
import { openStory } from "./story.js";
import { Refused, follow } from "./stream.js";
import { Table } from "./table.js";
import { Holders, showGangs, showNodes } from "./views.js";

const PAUSE = 2000;
// From the page's address, such as /?namespace=research: the only one to show. "" shows all.
const NAMESPACE = new URLSearchParams(location.search).get("namespace") ?? "";
const TABS = ["queue", "nodes", "gangs", "times"];
const pods = new Map();
const nodes = new Map();
const holders = new Holders();
const choose = (pod) => openStory(pod, token);
const table = new Table(choose);
let token = "";
let cursor = "";
let ahead = 0;
let open;
let chosen = "queue";
let painting = 0;
let changed = true;
let pressed = false;
let aborted = new AbortController();

const now = () => Date.now() / 1000 + ahead;

function say(text, bad = false) {
  byId("status").textContent = text;
  byId("status").classList.toggle("bad", bad);
}

function handle(kind, data) {
  if (kind === "hello") greet(data);
  else if (kind === "reset") (data.kind === "pods" ? pods : nodes).clear();
  else if (kind === "pods") data.forEach(takePod);
  else if (kind === "nodes") data.forEach((it) => (it.gone ? nodes.delete(it.id) : nodes.set(it.id, it)));
  else if (kind === "state") settle(data);
  changed ||= kind !== "state";
  painting ||= setTimeout(paint, 100);
}

function greet(hello) {
  open = hello;
  if (!hello.goesOn) {
    pods.clear();
    nodes.clear();
  }
  byId("scheduler").textContent = hello.scheduler;
  byId("sign-in").hidden = true;
  document.querySelector("main").hidden = false;
  byId("tab-nodes").hidden = !hello.nodes;
}

function takePod(it) {
  if (it.gone) {
    pods.delete(it.id);
    holders.gone(it.id, now());
  } else {
    pods.set(it.id, it);
    holders.see(it, now());
  }
}

function settle(state) {
  cursor = state.cursor;
  ahead = Date.parse(state.at) / 1000 - Date.now() / 1000;
  const more = open.partial ? " (there are more: to see another one, add ?namespace=NAME to this page's address)" : "";
  const some = NAMESPACE ? `namespace ${NAMESPACE}` : `${open.namespaces} namespaces${more}`;
  const seen = open.everywhere ? "all namespaces" : some;
  const age = state.nodesAge === undefined || state.nodesAge === null ? "" : `, nodes as of ${Math.round(state.nodesAge)} s ago`;
  const trouble = [...(state.notReady ?? []), ...(state.whole ? [] : ["there is more than is shown"])];
  say(trouble.length ? trouble.join("; ") : `live, ${seen}${age}`, trouble.length > 0);
}

function paint() {
  painting = 0;
  const all = [...pods.values()];
  const count = (state) => all.filter((it) => it.state === state).length;
  const gpus = [...nodes.values()].reduce((sum, it) => sum.map((value, at) => value + it.gpus[at]), [0, 0, 0, 0]);
  const facts = [["Waiting", count("PENDING")], ["Running", count("RUNNING")], ...(open?.nodes ? [["GPUs of pods", gpus[0]], ["GPUs of native jobs", gpus[1]], ["GPUs free", gpus[2]]] : [])];
  byId("summary").replaceChildren(...facts.map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))));
  // What is pressed must not be replaced before it is released.
  if (pressed) return;
  const focused = document.activeElement?.dataset.id;
  if (chosen === "queue") table.show(all, now());
  if (chosen === "times") holders.show(now(), choose);
  // They tell no ages.
  if (chosen === "nodes" && changed) showNodes([...nodes.values()].sort((a, b) => (a.id < b.id ? -1 : 1)));
  if (chosen === "gangs" && changed) showGangs(all, choose);
  changed = false;
  if (focused) byId(chosen).querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

function select(name) {
  chosen = name;
  changed = true;
  for (const it of TABS) {
    byId(it).hidden = it !== name;
    byId(`tab-${it}`).setAttribute("aria-selected", String(it === name));
    byId(`tab-${it}`).tabIndex = it === name ? 0 : -1;
  }
  paint();
}

// A page that nobody looks at holds no stream.
const visible = () => new Promise((resolve) => {
  const look = () => document.visibilityState === "visible" && (document.removeEventListener("visibilitychange", look), resolve());
  document.addEventListener("visibilitychange", look);
  look();
});

async function live() {
  for (;;) {
    await visible();
    aborted = new AbortController();
    try {
      await follow(cursor, NAMESPACE, token, aborted.signal, handle);
    } catch (error) {
      const refused = error instanceof Refused && (error.status === 401 || (token && error.status === 403));
      if (refused) return signIn(token ? error.message : "sign in");
      say(aborted.signal.aborted ? "paused" : `connecting again: ${error.message}`, !aborted.signal.aborted);
      if (!aborted.signal.aborted) await new Promise((resolve) => setTimeout(resolve, PAUSE));
    }
  }
}

function signIn(why) {
  say(why, Boolean(token));
  token = "";
  byId("sign-in").hidden = false;
  document.querySelector("main").hidden = true;
  byId("token").focus();
}

byId("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  token = byId("token").value.trim();
  byId("token").value = "";
  live();
});
document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && aborted.abort());
document.addEventListener("pointerdown", () => { pressed = true; });
for (const it of ["pointerup", "pointercancel"]) document.addEventListener(it, () => setTimeout(() => { pressed = false; }));
byId("filter").addEventListener("input", () => paint());
for (const it of ["ended", "fold"]) byId(it).addEventListener("change", () => paint());
TABS.forEach((name) => byId(`tab-${name}`).addEventListener("click", () => select(name)));
document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
  const shown = TABS.filter((it) => !byId(`tab-${it}`).hidden);
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const next = shown[(shown.indexOf(chosen) + step + shown.length) % shown.length];
  select(next);
  byId(`tab-${next}`).focus();
});
setInterval(() => document.visibilityState === "visible" && open && paint(), 1000);
live();
