// Dead letters, changes of plan, micro-batches, users.
import { Lines } from "./chart.js";
import { Problem, Table, bytes, count, html, seconds, useGet } from "./ui.js";

const time = (text) => String(text ?? "–").slice(0, 19);
const number = (n) => (n === null || n === undefined ? "–" : Number(n).toPrecision(3));

function Listing({ path, depends, title, columns, numeric, row, empty, before }) {
  const { data, error } = useGet(path, depends);
  return html`<div class="page"><section class="card"><h1>${title}</h1><${Problem} error=${error} />
    ${data ? before?.(data.rows) : null}
    ${data ? html`<${Table} label=${title} columns=${columns} numeric=${numeric} rows=${data.rows.map(row)} empty=${empty} />` : null}
  </section></div>`;
}

export const DeadLetters = ({ count: depends }) => html`<${Listing} path="dead-letters" depends=${depends} title="Dead letters" empty="no dead letters: every record could be read"
  columns=${["noticed", "source", "reason", "record", "position", "batch"]} numeric=${[0, 0, 0, 0, 0, 1]}
  row=${(r) => [time(r.noticed), r.source, r.reason, html`<code>${String(r.raw).slice(0, 300)}</code>`, r.position, count(r.batch)]} />`;

export const PlanHistory = ({ plan }) => html`<${Listing} path="plan-history" depends=${plan} title="Changes of plan" empty="no shared plan has changed yet"
  columns=${["at", "batch", "what", "why", "from", "to", "predicted", "measured"]} numeric=${[0, 1, 0, 0, 0, 0, 1, 1]}
  row=${(r) => [time(r.at), count(r.batch), `${r.kind} ${r.name}`, r.reason, html`<code>${r.before ?? "–"}</code>`, html`<code>${r.after ?? "–"}</code>`,
    `${number(r.predicted_before)} → ${number(r.predicted_after)}`, `${number(r.measured_before)} → ${number(r.measured_after)}`]} />`;

function batchChart(rows) {
  if (rows.length < 3) return null;
  const old = [...rows].reverse();
  const series = [{ name: "seconds", values: old.map((r) => r.seconds) }, { name: "in stages", values: old.map((r) => r.stage_seconds) }, { name: "outlet", values: old.map((r) => r.outlet_seconds) }];
  return html`<${Lines} x=${old.map((r) => r.at)} series=${series} height=${180} label="seconds of each micro-batch" />`;
}

export const Batches = ({ batch }) => html`<${Listing} path="batches" depends=${Math.floor((batch ?? 0) / 5)} title="Micro-batches" empty="no batch in this process yet" before=${batchChart}
  columns=${["batch", "at", "plan", "rows", "late", "bad", "seconds", "stages", "outlet", "state"]} numeric=${[1, 0, 1, 1, 1, 1, 1, 1, 1, 1]}
  row=${(r) => [count(r.batch), time(new Date(r.at * 1000).toISOString().replace("T", " ")), count(r.plan), count(r.rows), count(r.late), count(r.bad), seconds(r.seconds), seconds(r.stage_seconds), seconds(r.outlet_seconds), bytes(r.state_bytes)]} />`;

export const Users = () => {
  const { data, error } = useGet("users", 0);
  const columns = data?.rows.length ? Object.keys(data.rows[0]) : ["name"];
  return html`<div class="page"><section class="card"><h1>Users</h1><${Problem} error=${error} />
    ${data ? html`<${Table} label="users" columns=${columns} rows=${data.rows.map((r) => columns.map((c) => r[c]))}
      empty="There are no users: everyone on this machine may connect and do everything. CREATE USER name PASSWORD '…' changes it." />` : null}
  </section></div>`;
};
