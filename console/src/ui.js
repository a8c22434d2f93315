// Small pieces that all pages use.
import { h } from "preact";
import { useEffect, useState } from "preact/hooks";
import htm from "htm";
import { get } from "./api.js";

export const html = htm.bind(h);

export const count = (n) => (n === null || n === undefined ? "–" : Number(n).toLocaleString("en-US"));

export function rate(n) {
  if (!n) return "0";
  if (n >= 1e6) return `${(n / 1e6).toFixed(1)}M`;
  if (n >= 1e4) return `${(n / 1e3).toFixed(0)}k`;
  return n >= 10 ? n.toFixed(0) : n.toFixed(1);
}

export function bytes(n) {
  if (!n) return "0 B";
  const unit = Math.min(4, Math.floor(Math.log2(n) / 10));
  return `${(n / 2 ** (10 * unit)).toFixed(unit ? 1 : 0)} ${["B", "KB", "MB", "GB", "TB"][unit]}`;
}

export function seconds(s) {
  if (s === null || s === undefined) return "–";
  if (s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 120) return `${s.toFixed(1)} s`;
  return s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
}

// How old a frontier is; null where event time is not wall time.
export function age(frontier) {
  if (!frontier || frontier === "end") return null;
  const at = Date.parse(`${frontier.replace(" ", "T")}Z`);
  return at > Date.UTC(2000, 0, 1) ? Math.max(0, (Date.now() - at) / 1000) : null;
}

export function cell(value) {
  if (value === null || value === undefined) return html`<span class="null">NULL</span>`;
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function Table({ columns, rows, label, numeric = [], empty = "nothing yet", onRow, changed }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${label}>
    <table>
      <thead><tr>${columns.map((c, i) => html`<th scope="col" class=${numeric[i] ? "number" : ""}>${c}</th>`)}</tr></thead>
      <tbody>
        ${rows.map((row, r) => html`<tr key=${row.key ?? r} class=${changed?.(r) ? "changed" : ""}>
          ${(row.cells ?? row).map((value, i) => html`<td class=${numeric[i] ? "number" : ""}>
            ${i === 0 && onRow ? html`<button class="link" onClick=${() => onRow(r)}>${cell(value)}</button>` : value?.type ? value : cell(value)}
          </td>`)}
        </tr>`)}
      </tbody>
    </table>
    ${rows.length ? null : html`<p class="empty">${empty}</p>`}
  </div>`;
}

export function Problem({ error }) {
  if (!error) return null;
  const place = error.line ? ` · line ${error.line}, column ${error.column}` : "";
  return html`<div class="problem" role="alert">
    <strong>${error.code ?? "error"}</strong> ${error.message}<span class="dim">${place}</span>
    ${error.detail ? html`<div>${error.detail}</div>` : null}
    ${error.hint ? html`<div class="hint">${error.hint}</div>` : null}
  </div>`;
}

// What a GET gives, asked again whenever `depends` changes.
export function useGet(path, depends) {
  const [found, set] = useState({});
  useEffect(() => {
    let current = true;
    get(path).then((data) => current && set({ data }), (problem) => current && set({ error: problem.error ?? { message: String(problem) } }));
    return () => (current = false);
  }, [path, depends]);
  return found;
}
