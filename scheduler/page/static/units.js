// The pods of one gang as one unit of the queue.

import { seconds } from "./dom.js";

export const ORDER = ["PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "COMPLETED", "FAILED", "UNKNOWN"];

// The pods that are alone, and each gang that has several as one line with its `members` by rank.
export function unitsOf(pods) {
  const gangs = new Map();
  const units = [];
  for (const pod of pods) {
    const members = pod.gang && gangs.get(pod.gang.key);
    if (members) members.push(pod);
    else if (pod.gang) gangs.set(pod.gang.key, [pod]);
    else units.push(pod);
  }
  for (const [key, members] of gangs) units.push(members.length > 1 ? unitOf(key, members) : members[0]);
  return units;
}

function unitOf(key, members) {
  members.sort((a, b) => (a.gang.rank ?? 1e9) - (b.gang.rank ?? 1e9) || (a.name < b.name ? -1 : 1));
  const sum = (field) => members.reduce((total, it) => total + (it[field] ?? 0), 0);
  const states = ORDER.filter((state) => members.some((it) => it.state === state));
  const counted = states.map((state) => `${members.filter((it) => it.state === state).length} ${state}`);
  const nodes = new Set(members.map((it) => it.node).filter(Boolean));
  const first = members[0];
  return {
    ...first,
    id: `gang ${key}`,
    name: first.gang.name,
    state: states[0],
    states: states.length > 1 ? counted.join(", ") : states[0],
    reason: members.find((it) => it.reason)?.reason,
    created: members.reduce((least, it) => (seconds(it.created) < seconds(least) ? it.created : least), first.created),
    cpus: sum("cpus"),
    gpus: sum("gpus"),
    node: nodes.size > 1 ? `${nodes.size} nodes` : [...nodes][0],
    members,
  };
}
