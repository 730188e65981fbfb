// A pod's story in a dialog.

import { byId, element } from "./dom.js";
import { ask } from "./stream.js";

let latest = 0;

export async function openStory(pod, token) {
  latest += 1;
  const mine = latest;
  byId("story-title").textContent = `${pod.ns}/${pod.name}`;
  byId("story-text").replaceChildren(element("p", { class: "faint" }, "reading"));
  if (!byId("story").open) byId("story").showModal();
  let parts;
  try {
    const answer = await ask("/api/story", { namespace: pod.ns, name: pod.name }, token);
    parts = told(await answer.json());
  } catch (error) {
    parts = [element("p", {}, `It cannot be told: ${error.message}`)];
  }
  if (mine === latest) byId("story-text").replaceChildren(...parts);
}

function told(story) {
  const row = story.pod;
  const head = row ? [row.state, row.jobId && `job ${row.jobId}`, row.partition && `partition ${row.partition}`, row.node && `Node ${row.node}`] : ["does not exist any more"];
  const gang = story.gang ? Object.entries(story.gang).filter(([, it]) => it !== null && typeof it !== "object") : [];
  return [
    element("p", {}, head.filter(Boolean).join(" · ")),
    ...section("Why", [story.reason, story.message, story.meaning, story.toDo].filter(Boolean).map((it) => element("p", {}, it))),
    ...section("What it asks for", table(story.asked.map((it) => [it.what, it.value ?? "-", it.problem ? `${it.source}: ${it.problem}` : it.source]))),
    ...section("Its gang", table(gang)),
    ...section("Nodes ruled out", story.ruledOut.map((it) => element("p", {}, it.said))),
    ...section("What happened", table(story.history.map((it) => [it.time ?? "?", it.what, [it.message, it.times > 1 && `${it.times} times`, it.writer && `[${it.writer}]`].filter(Boolean).join(" ")]))),
    ...section("What is next", [element("p", {}, story.next)]),
    ...section("Commands", story.commands.flatMap((it) => [element("p", {}, it.what), element("pre", { tabindex: "0" }, it.command)])),
    ...section("Not read", story.unread.map((it) => element("p", {}, it))),
  ];
}

const section = (title, parts) => (parts.length ? [element("h3", {}, title), ...parts] : []);
const table = (rows) => (rows.length ? [element("table", {}, ...rows.map((row) => element("tr", {}, ...row.map((it) => element("td", {}, it)))))] : []);
