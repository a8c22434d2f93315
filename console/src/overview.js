// Sources and views: how fresh, how many rows, how fast.
import { html, Table, age, bytes, count, rate, seconds } from "./ui.js";
import { Lines } from "./chart.js";

function freshness(view) {
  if (view.stopped) return html`<span class="badge bad">stopped</span>`;
  const old = age(view.frontier);
  if (old === null) return html`<span class="dim">${view.frontier ? "event time" : "no rows yet"}</span>`;
  return html`<span class=${`badge ${old < 5 ? "good" : old < 60 ? "fair" : "bad"}`}>${seconds(old)}</span>`;
}

export function Overview({ status, trend, open }) {
  if (!status) return html`<p class="empty">waiting for the server</p>`;
  const state = status.state ?? {};
  const speed = (status.sources ?? []).reduce((sum, s) => sum + (s.rows_per_second || 0), 0);
  return html`<div class="page">
    <h1 class="hidden">Overview</h1>
    <div class="tiles">
      <${Tile} name="rows/s" value=${rate(speed)} />
      <${Tile} name="batch" value=${count(status.batch)} note=${status.last_batch?.batch_seconds ? seconds(status.last_batch.batch_seconds) : ""} />
      <${Tile} name="state" value=${bytes(state.bytes)} note=${`${count(state.rows ?? 0)} rows`} />
      <${Tile} name="dead letters" value=${count(status.dead_letters ?? 0)} bad=${status.dead_letters > 0} />
      <${Tile} name="plan" value=${count(status.plan)} note="version" />
    </div>
    ${trend.x.length > 2 ? html`<section class="card"><h2>Rows a second</h2><${Lines} x=${trend.x} series=${trend.series} height=${140} label="rows a second over the last minutes" /></section>` : null}
    <section class="card">
      <h2>Sources</h2>
      <${Table} label="sources" columns=${["name", "kind", "rows", "rows/s", "lag", "slot lag", "late", "bad"]} numeric=${[0, 0, 1, 1, 1, 1, 1, 1]}
        empty="no sources" rows=${(status.sources ?? []).map((s) => ({ key: s.name, cells: [s.name, s.kind, count(s.rows), rate(s.rows_per_second), seconds(s.lag_seconds), s.slot_lag_bytes == null ? "–" : bytes(s.slot_lag_bytes), count(s.late), count(s.bad)] }))} />
    </section>
    <section class="card">
      <h2>Views</h2>
      <${Table} label="views" columns=${["name", "output", "rows", "freshness", "frontier"]} numeric=${[0, 0, 1, 1, 0]} empty="no views yet: create one in the SQL editor"
        onRow=${(i) => open(status.views[i].name)}
        rows=${(status.views ?? []).map((v) => ({ key: v.name, cells: [v.name, v.output, count(v.rows), freshness(v), v.frontier ?? "–"] }))} />
    </section>
    ${(status.sinks ?? []).length ? html`<section class="card"><h2>Sinks</h2>
      <${Table} label="sinks" columns=${["name", "undelivered", "problem"]} numeric=${[0, 1, 0]} rows=${status.sinks.map((s) => [s.name, s.undelivered, s.problem ?? "–"])} /></section>` : null}
  </div>`;
}

function Tile({ name, value, note, bad }) {
  return html`<div class=${`tile ${bad ? "warn" : ""}`}><span class="tile-name">${name}</span><span class="tile-value">${value}</span><span class="tile-note">${note ?? ""}</span></div>`;
}
