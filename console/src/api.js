// Requests to the server, and event streams that come back by themselves.

export class Refused extends Error {
  constructor(status, body) {
    super(body?.error?.message ?? `status ${status}`);
    this.status = status;
    this.body = body ?? {};
    this.error = body?.error ?? { message: this.message };
  }
}

export async function get(path) {
  return answer(await fetch(`/api/${path}`));
}

export async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  return answer(await fetch(`/api/${path}`, { method: "POST", headers, body: JSON.stringify(body), signal }));
}

async function answer(response) {
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new Refused(response.status, body);
  return body;
}

// Follow events; `on` has a function for each name. `state` is told "open" or "lost". Returns a function that ends it.
// A browser resumes by itself after a lost connection; where it gives up, a new stream begins after the last id.
export function follow(path, on, state = () => {}) {
  let source, last, timer, ended = false;
  const start = () => {
    const resumed = last === undefined ? "" : `${path.includes("?") ? "&" : "?"}as_of=${encodeURIComponent(last)}`;
    source = new EventSource(`/api/${path}${resumed}`);
    source.onopen = () => state("open");
    source.onerror = () => {
      state("lost");
      if (source.readyState === EventSource.CLOSED && !ended) timer = setTimeout(start, 1000);
    };
    for (const [name, call] of Object.entries(on)) {
      source.addEventListener(name, (event) => {
        if (event.lastEventId) last = event.lastEventId;
        call(JSON.parse(event.data));
      });
    }
  };
  start();
  return () => {
    ended = true;
    clearTimeout(timer);
    source.close();
  };
}
