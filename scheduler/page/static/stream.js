// Reads the scheduler's server-sent events. `fetch` is used because an EventSource sends no token.

const LONGEST = 4 * 1024 * 1024;

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

function headers(token) {
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export async function ask(path, query, token, signal) {
  const answer = await fetch(`${path}?${new URLSearchParams(query)}`, { headers: headers(token), signal });
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Refused(answer.status, said.error ?? `status ${answer.status}`);
}

// Calls `handle(kind, data)` for each event, until the stream ends. `namespace` is "" for all of them.
export async function follow(cursor, namespace, token, signal, handle) {
  const answer = await ask("/api/stream", { since: cursor, namespace }, token, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    if (text.length > LONGEST) throw new Error("an event is too long");
    const events = text.split("\n\n");
    text = events.pop();
    for (const event of events) {
      const found = /^event: (\w+)\ndata: (.*)$/.exec(event);
      if (found) handle(found[1], JSON.parse(found[2]));
    }
  }
}
