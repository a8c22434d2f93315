// Statements: the editor, results as tables and charts, subscriptions that update.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { follow, post } from "./api.js";
import { AnswerChart } from "./chart.js";
import { Editor, show } from "./editor.js";
import { Problem, Table, count, html, seconds, useGet } from "./ui.js";

const SHOWN = 500;

export function Sql({ catalog, followed, setFollowed }) {
  const { data } = useGet("views", catalog);
  const schema = useMemo(() => Object.fromEntries((data?.relations ?? []).map((r) => [r.name, r.columns.map((c) => ({ label: c[0], detail: c[1] }))])), [JSON.stringify(data?.relations?.map((r) => [r.name, r.columns]))]);
  const [outcome, setOutcome] = useState(null);
  const [busy, setBusy] = useState(false);
  const view = useRef();
  const abort = useRef();
  const run = async (editor) => {
    const chosen = editor.state.selection.main;
    const text = chosen.empty ? editor.state.doc.toString() : editor.state.sliceDoc(chosen.from, chosen.to);
    if (!text.trim()) return;
    abort.current?.abort();
    abort.current = new AbortController();
    setBusy(true);
    const began = performance.now();
    let found;
    try {
      found = await post("execute", { sql: text, limit: SHOWN }, abort.current.signal);
    } catch (problem) {
      found = { results: problem.body?.results ?? [], error: problem.name === "AbortError" ? { message: "stopped" } : problem.error ?? { message: String(problem) } };
    }
    setBusy(false);
    setOutcome((before) => ({ ...found, number: (before?.number ?? 0) + 1, seconds: (performance.now() - began) / 1000 }));
    if (chosen.empty) show(view.current, found.error?.line ? found.error : null);
    const wanted = found.results.filter((r) => r.kind === "subscription").flatMap((r) => r.views);
    if (wanted.length) setFollowed((now) => [...new Set([...now, ...wanted])]);
  };
  return html`<div class="page">
    <h1 class="hidden">SQL</h1>
    <section class="card editor-card">
      <${Editor} text=${sessionStorage.getItem("tidemill.sql") ?? "SHOW VIEWS;\n"} schema=${schema} run=${run} made=${(v) => (view.current = v)} />
      <div class="toolbar">
        <button class="primary" onClick=${() => run(view.current)} disabled=${busy}>Execute <kbd>ctrl ⏎</kbd></button>
        ${busy ? html`<button onClick=${() => abort.current.abort()}>Stop</button>` : null}
        <span class="dim" role="status" data-runs=${outcome?.number ?? 0}>${busy ? "executing" : outcome ? `${outcome.error ? "failed" : "done"} in ${seconds(outcome.seconds)}` : ""}</span>
      </div>
    </section>
    <${Problem} error=${outcome?.error} />
    ${(outcome?.results ?? []).map((result, i) => html`<${Result} key=${i} result=${result} />`)}
    ${followed.map((name) => html`<${Subscription} key=${name} name=${name} close=${() => setFollowed((now) => now.filter((n) => n !== name))} />`)}
  </div>`;
}

function Result({ result }) {
  const [asChart, setAsChart] = useState(false);
  if (result.kind === "created") return html`<p class="created" role="status">${result.message}</p>`;
  if (result.kind === "subscription") return null;
  if (result.kind !== "rows") return html`<section class="card"><pre class="explain" tabindex="0">${result.text}</pre></section>`;
  const more = result.total > result.rows.length ? `, the first ${count(result.rows.length)} shown` : "";
  return html`<section class="card result">
    <div class="toolbar">
      <div role="group" aria-label="show as"><button aria-pressed=${!asChart} onClick=${() => setAsChart(false)}>Table</button><button aria-pressed=${asChart} onClick=${() => setAsChart(true)}>Chart</button></div>
      <span class="dim">${count(result.total)} rows${more}${result.as_of === null || result.as_of === undefined ? "" : ` · as of ${result.as_of}`}</span>
    </div>
    ${asChart ? html`<${AnswerChart} columns=${result.columns} rows=${result.rows} />`
      : html`<${Table} label="answer" columns=${result.columns.map((c) => c.name)} numeric=${result.columns.map((c) => c.numeric)} rows=${result.rows} empty="no rows" />`}
  </section>`;
}

// The contents of a view, kept up to date by its changes. Rows that change keep their place.
export class Contents {
  constructor() { this.rows = new Map(); this.columns = []; this.number = 0; }
  clear() { this.rows.clear(); }
  take(changes) {
    const names = changes.columns.map((c) => c.name);
    const [tag, stamp, old] = [names.indexOf("TAG"), names.indexOf("TS"), names.lastIndexOf("OLD")];
    const shown = changes.columns.map((_, i) => i).filter((i) => ![tag, stamp, old].includes(i));
    this.columns = shown.map((i) => changes.columns[i]);
    this.number += 1;
    for (const row of changes.rows) {
      const values = shown.map((i) => row[i]);
      const before = row[tag] === "u" ? JSON.stringify(this.columns.map((c) => row[old][c.name])) : null;
      if (row[tag] === "-") this.drop(JSON.stringify(values));
      else this.add(values, before);
    }
  }
  add(values, before) {
    const entry = before === null ? undefined : this.rows.get(before);
    if (entry && entry.times === 1) {
      this.rows.delete(before);
      entry.values = values;
      entry.changed = this.number;
      return this.put(entry);
    }
    if (before !== null) this.drop(before);
    this.put({ values, times: 1, changed: this.number, order: (this.last = (this.last ?? 0) + 1) });
  }
  put(entry) {
    const key = JSON.stringify(entry.values);
    const there = this.rows.get(key);
    if (there) { there.times += 1; there.changed = this.number; } else this.rows.set(key, entry);
  }
  drop(key) {
    const entry = this.rows.get(key);
    if (entry && --entry.times === 0) this.rows.delete(key);
  }
  listed(most) {
    return [...this.rows.values()].sort((a, b) => a.order - b.order).slice(0, most);
  }
}

export function Subscription({ name, close }) {
  const contents = useRef(null);
  const [shown, setShown] = useState({ at: null, state: "lost", changes: 0 });
  const [error, setError] = useState(null);
  const [asChart, setAsChart] = useState(false);
  useEffect(() => {
    contents.current = new Contents();
    let changes = 0;
    const take = (data, anew) => {
      if (anew) contents.current.clear();
      if (data.changes) { contents.current.take(data.changes); changes += data.changes.rows.length; }
      setShown((s) => ({ ...s, at: data.as_of ?? s.at, changes, state: "open" }));
    };
    const end = follow(`subscribe?view=${encodeURIComponent(name)}`, {
      contents: (d) => take(d, true),
      changes: (d) => take(d, false),
      reset: () => contents.current.clear(),
      failed: (problem) => { setError(problem); end(); },
    }, (state) => setShown((s) => ({ ...s, state })));
    return end;
  }, [name]);
  const rows = contents.current?.listed(SHOWN) ?? [];
  const columns = contents.current?.columns ?? [];
  const newest = contents.current?.number;
  return html`<section class="card subscription" aria-label=${`live view ${name}`} data-view=${name}>
    <div class="toolbar">
      <h2>${name}</h2><span class=${`badge ${shown.state === "open" ? "good" : "fair"}`}>${shown.state === "open" ? "live" : "reconnecting"}</span>
      <span class="dim">${count(contents.current?.rows.size ?? 0)} rows · ${count(shown.changes)} changes${shown.at ? ` · as of ${shown.at}` : ""}</span>
      <div role="group" aria-label="show as" class="right"><button aria-pressed=${!asChart} onClick=${() => setAsChart(false)}>Table</button><button aria-pressed=${asChart} onClick=${() => setAsChart(true)}>Chart</button>
      <button onClick=${close} aria-label=${`end subscription to ${name}`}>×</button></div>
    </div>
    <${Problem} error=${error} />
    ${asChart ? html`<${AnswerChart} columns=${columns} rows=${rows.map((r) => r.values)} />`
      : html`<${Table} label=${`contents of ${name}`} columns=${columns.map((c) => c.name)} numeric=${columns.map((c) => c.numeric)} rows=${rows.map((r) => ({ key: r.order, cells: r.values }))}
          changed=${(i) => rows[i].changed === newest && newest > 1} />`}
  </section>`;
}
