// The queue as a table of which only the visible rows exist.

import { byId, duration, element, seconds } from "./dom.js";
import { ORDER, unitsOf } from "./units.js";

const COLUMNS = [
  ["name", "Name", (it) => it.name],
  ["ns", "Namespace", (it) => it.ns],
  ["state", "State", (it) => it.state],
  ["reason", "Reason", (it) => it.reason ?? ""],
  ["partition", "Partition", (it) => it.partition ?? ""],
  ["age", "Age", (it) => -seconds(it.created)],
  ["cpus", "CPUs", (it) => it.cpus],
  ["gpus", "GPUs", (it) => it.gpus],
  ["node", "Node", (it) => it.node ?? ""],
];
const NUMBERS = new Set(["age", "cpus", "gpus"]);
const ENDED = new Set(["COMPLETED", "FAILED"]);
const SIDEWAYS = { ArrowRight: true, ArrowLeft: false };
const MARGIN = 8;

export class Table {
  constructor(choose) {
    this.choose = choose;
    this.by = "state";
    this.down = false;
    this.rows = [];
    this.opened = new Set();
    this.now = Date.now() / 1000;
    this.at = 0;
    this.place = byId("table");
    this.head = element("div", { class: "row head", role: "row", "aria-rowindex": "1" }, ...COLUMNS.map((it) => this.heading(it)));
    this.body = element("div", { class: "body", role: "rowgroup" });
    this.place.append(element("div", { role: "rowgroup" , class: "head"}, this.head), this.body);
    this.place.addEventListener("scroll", () => this.paint());
    new ResizeObserver(() => this.paint()).observe(this.place);
    this.body.addEventListener("keydown", (event) => this.key(event));
  }

  heading([key, title]) {
    const button = element("button", { type: "button", onclick: () => this.sort(key) }, title);
    return element("span", { role: "columnheader", "data-key": key, class: NUMBERS.has(key) ? "number" : "" }, button);
  }

  sort(key) {
    this.down = this.by === key && !this.down;
    this.by = key;
    this.show(this.all, this.now);
  }

  show(pods, now) {
    this.all = pods;
    this.now = now;
    const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const ended = byId("ended").checked;
    const found = pods.filter((it) => (ended || !ENDED.has(it.state)) && words.every((word) => texts(it).includes(word)));
    const value = this.by === "state" ? (it) => ORDER.indexOf(it.state) : COLUMNS.find((it) => it[0] === this.by)[2];
    const turn = this.down ? -1 : 1;
    const units = byId("fold").checked ? unitsOf(found) : found;
    const keyed = units.map((it) => [value(it), it]);
    keyed.sort(([a, one], [b, other]) => turn * compare(a, b) || compare(other.priority ?? 0, one.priority ?? 0) || compare(seconds(one.created), seconds(other.created)) || compare(one.name, other.name));
    this.rows = keyed.flatMap(([, it]) => (it.members && this.opened.has(it.id) ? [it, ...it.members] : [it]));
    for (const it of this.head.children) it.setAttribute("aria-sort", it.dataset.key === this.by ? (this.down ? "descending" : "ascending") : "none");
    byId("count").textContent = found.length === pods.length ? `${pods.length} ${pods.length === 1 ? "pod" : "pods"}` : `${found.length} of ${pods.length} pods`;
    this.at = Math.min(this.at, Math.max(0, this.rows.length - 1));
    this.paint();
  }

  paint() {
    const height = matchMedia("(max-width: 46rem)").matches ? 52 : 32;
    this.height = height;
    this.body.style.height = `${this.rows.length * height}px`;
    this.place.setAttribute("aria-rowcount", this.rows.length + 1);
    const first = Math.max(0, Math.floor(this.place.scrollTop / height) - MARGIN);
    const last = Math.min(this.rows.length, first + Math.ceil(this.place.clientHeight / height) + 2 * MARGIN);
    const focused = this.body.contains(document.activeElement);
    if (this.at < first || this.at >= last) this.at = focused ? this.at : first;
    const made = [];
    for (let index = first; index < last; index += 1) made.push(this.row(index, height));
    this.body.replaceChildren(...made);
    if (focused) this.body.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
  }

  row(index, height) {
    const unit = this.rows[index];
    const cells = COLUMNS.map(([key]) => {
      const text = key === "age" ? duration(this.now - seconds(unit.created)) : String((key === "state" && unit.states) || (unit[key] ?? "-"));
      const kind = key === "state" ? unit.state : NUMBERS.has(key) ? "number" : "";
      return element("span", { role: "gridcell", class: kind, title: text }, text);
    });
    const about = unit.members ? `gang ${unit.name} of ${unit.members.length} pods, ${unit.ns}, ${unit.states}` : `${unit.name}, ${unit.ns}, ${unit.state}`;
    const row = element("div", { class: "row", role: "row", "aria-rowindex": index + 2, "aria-level": this.isMember(index) ? "2" : "1", tabindex: index === this.at ? "0" : "-1", "aria-label": about, onclick: () => this.pick(index) }, ...cells);
    if (unit.members) row.setAttribute("aria-expanded", String(this.opened.has(unit.id)));
    row.style.top = `${index * height}px`;
    return row;
  }

  isMember(index) {
    const gang = this.rows[index].gang;
    return Boolean(gang) && !this.rows[index].members && this.opened.has(`gang ${gang.key}`) && byId("fold").checked;
  }

  // A pod tells its story, a gang shows its pods or hides them.
  pick(index) {
    this.at = index;
    const unit = this.rows[index];
    if (unit?.members) this.open(unit, !this.opened.has(unit.id));
    else if (unit) this.choose(unit);
  }

  open(unit, opened) {
    if (opened) this.opened.add(unit.id);
    else this.opened.delete(unit.id);
    this.show(this.all, this.now);
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.place.clientHeight / this.height) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -this.rows.length, End: this.rows.length };
    const unit = this.rows[this.at];
    if (event.key === "Enter" || event.key === " ") this.pick(this.at);
    else if (unit?.members && event.key in SIDEWAYS) this.open(unit, SIDEWAYS[event.key]);
    else if (event.key in steps) this.move(Math.min(this.rows.length - 1, Math.max(0, this.at + steps[event.key])));
    else return;
    event.preventDefault();
  }

  move(to) {
    this.at = to;
    const top = to * this.height;
    const room = this.place.clientHeight - 2 * this.height;
    if (top < this.place.scrollTop) this.place.scrollTop = top;
    else if (top > this.place.scrollTop + room) this.place.scrollTop = top - room;
    this.paint();
  }
}

const texts = (pod) => [pod.name, pod.ns, pod.partition, pod.reason, pod.state, pod.node, pod.gang?.name].join(" ").toLowerCase();
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
