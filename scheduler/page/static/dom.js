// Makes elements. Texts of users are always set as text, never as HTML.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  made.append(...children.map((it) => (it instanceof Node ? it : document.createTextNode(String(it)))));
  return made;
}

export const byId = (id) => document.getElementById(id);

export function duration(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  for (const [size, unit, most] of [[1, "s", 120], [60, "m", 120], [3600, "h", 48]]) {
    if (whole < most * size) return `${Math.floor(whole / size)}${unit}`;
  }
  return `${Math.floor(whole / 86400)}d`;
}

export const seconds = (moment) => (moment ? Date.parse(moment) / 1000 : NaN);
