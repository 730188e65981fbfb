// Nodes as a grid, gangs as rows of slots, and who held each Node when.

import { byId, duration, element, seconds } from "./dom.js";
import { gangsOf } from "./units.js";

const MOST_CARDS = 500;
const MOST_DEVICES = 32;
const MOST_SPANS = 64;
const WINDOW_SECONDS = 900;
const LEAST_SECONDS = 60;

function more(count, what) {
  return count > MOST_CARDS ? [element("p", { class: "faint" }, `and ${count - MOST_CARDS} more ${what}`)] : [];
}

const amounts = ([pods, jobs, free, total]) => `${pods} by pods, ${jobs} by native jobs, ${free} free of ${total}`;

export function showNodes(nodes) {
  const legend = element("p", { class: "legend" }, ...[["pods", "GPU held by a pod"], ["jobs", "by a native job"], ["", "free"]].map(([kind, text]) => element("span", {}, element("i", { class: `unit ${kind}` }), text)));
  const cards = nodes.slice(0, MOST_CARDS).map((node) => {
    const [pods, jobs, free, total] = node.gpus;
    const kinds = [...Array(Math.min(pods, MOST_DEVICES)).fill("pods"), ...Array(Math.min(jobs, MOST_DEVICES)).fill("jobs"), ...Array(Math.min(free, MOST_DEVICES)).fill("")];
    const devices = element("div", { class: "units", role: "img", "aria-label": `GPUs: ${amounts(node.gpus)}` }, ...kinds.slice(0, MOST_DEVICES).map((it) => element("i", { class: `unit ${it}` })));
    return element("li", { class: "card" }, element("strong", {}, node.id), element("span", { class: "faint" }, node.states.join(" ")), devices,
      element("div", { class: "faint" }, `GPUs ${pods}+${jobs} of ${total} · CPUs ${node.cpus[0]}+${node.cpus[1]} of ${node.cpus[3]}`),
      ...(node.node && node.node !== node.id ? [element("div", { class: "faint" }, `Node ${node.node}`)] : []));
  });
  byId("nodes").replaceChildren(legend, element("ul", { class: "grid list", "aria-label": "Nodes" }, ...cards), ...more(nodes.length, "nodes"));
}

export function showGangs(pods, choose) {
  const gangs = gangsOf(pods);
  const made = [...gangs.values()].slice(0, MOST_CARDS).flatMap((members) => {
    const { name, size } = members[0].gang;
    const slots = members.slice(0, 256).map((pod) => element("button", { type: "button", "data-id": pod.id, class: `slot ${pod.state}`, onclick: () => choose(pod) }, `${pod.gang.rank ?? "?"} · ${pod.name} · ${pod.node ?? pod.state}`));
    const empty = Array(Math.min(64, Math.max(0, (size ?? 0) - members.length))).fill(0).map(() => element("span", { class: "slot card empty" }, "no pod"));
    const placed = members.filter((it) => it.node).length;
    return [element("h3", {}, `${members[0].ns}/${name}: ${placed} of ${size ?? members.length} have a Node`), element("div", { class: "slots" }, ...slots, ...empty)];
  });
  byId("gangs").replaceChildren(...(made.length ? made : [element("p", { class: "faint" }, "There are no gangs.")]), ...more(gangs.size, "gangs"));
}

// Pods that are on a Node at the same time go below each other. Kubernetes tells whole seconds.
function tracks(spans) {
  const made = [];
  for (const it of spans.sort((a, b) => a.from - b.from).slice(-MOST_SPANS)) {
    const free = made.find((track) => (track.at(-1).to ?? Infinity) <= it.from + 1);
    if (free) free.push(it);
    else made.push([it]);
  }
  return made;
}

// Remembers who held a Node, also after the pod is gone: as long as this tab is open.
export class Holders {
  constructor() {
    this.held = new Map();
  }

  see(pod, now) {
    if (!pod.node) return;
    const over = ["COMPLETED", "FAILED"].includes(pod.state);
    const known = this.held.get(pod.id);
    if (over && !known) return;
    this.held.set(pod.id, { pod, from: known?.from ?? (seconds(pod.bound) || now), to: over ? known.to ?? now : undefined });
  }

  gone(id, now) {
    const known = this.held.get(id);
    if (known) known.to ??= now;
  }

  show(now, choose) {
    const lanes = new Map();
    for (const [id, it] of this.held) {
      if ((it.to ?? now) < now - WINDOW_SECONDS) this.held.delete(id);
      else lanes.set(it.pod.node, [...(lanes.get(it.pod.node) ?? []), it]);
    }
    const oldest = [...this.held.values()].reduce((least, it) => Math.min(least, it.from), now);
    const room = Math.min(WINDOW_SECONDS, Math.max(LEAST_SECONDS, now - oldest));
    const made = [...lanes].sort(([a], [b]) => (a < b ? -1 : 1)).slice(0, MOST_CARDS).map(([node, spans]) =>
      element("div", { class: "lane" }, element("span", {}, node), element("div", { class: "tracks" }, ...tracks(spans).map((track) =>
        element("div", { class: "track" }, ...track.map((it) => this.span(it, now - room, room, now, choose)))))));
    const about = `The last ${duration(room)}. Pods that ended before this page was opened are not known. Gaps are handovers.`;
    byId("times").replaceChildren(element("p", { class: "faint" }, about), ...made, ...more(lanes.size, "Nodes"));
  }

  span(it, begin, room, now, choose) {
    const place = (at) => (100 * (Math.max(at, begin) - begin)) / room;
    const until = it.to === undefined ? "holds it" : `left ${duration(now - it.to)} ago`;
    const label = `${it.pod.ns}/${it.pod.name}, since ${duration(now - it.from)}, ${until}`;
    const made = element("button", { type: "button", "data-id": it.pod.id, class: it.to === undefined ? "span" : "span over", title: label, "aria-label": label, onclick: () => choose(it.pod) }, it.pod.name);
    made.style.left = `${place(it.from)}%`;
    made.style.width = `${Math.max(0.5, place(it.to ?? now) - place(it.from))}%`;
    return made;
  }
}
