// The pods of one gang as one unit of the queue.

import { seconds } from "./dom.js";

export const ORDER = ["PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "COMPLETED", "FAILED", "UNKNOWN"];

// The pods of each gang by rank, by the gang's key.
export function gangsOf(pods) {
  const gangs = new Map();
  for (const pod of pods.filter((it) => it.gang)) {
    const members = gangs.get(pod.gang.key);
    if (members) members.push(pod);
    else gangs.set(pod.gang.key, [pod]);
  }
  for (const members of gangs.values()) members.sort((a, b) => (a.gang.rank ?? 1e9) - (b.gang.rank ?? 1e9) || (a.name < b.name ? -1 : 1));
  return gangs;
}

// The pods that are alone, and each gang that has several as one line with its `members`.
export function unitsOf(pods) {
  const gangs = [...gangsOf(pods)];
  return [...pods.filter((it) => !it.gang), ...gangs.map(([key, members]) => (members.length > 1 ? unitOf(key, members) : members[0]))];
}

function unitOf(key, members) {
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
