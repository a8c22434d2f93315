// Charts: lines over numbers and times, bars over names.
import uPlot from "uplot";
import { useEffect, useRef } from "preact/hooks";
import { html } from "./ui.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const SERIES = ["--blue", "--orange", "--green", "--violet", "--red"];

export function Lines({ x, series, time = true, height = 180, label }) {
  const box = useRef();
  useEffect(() => {
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") }, font: "11px system-ui" };
    const made = new uPlot(
      {
        width: box.current.clientWidth || 400,
        height,
        scales: { x: { time } },
        axes: [axis, { ...axis, size: 60 }],
        series: [{}, ...series.map((s, i) => ({ label: s.name, stroke: colour(SERIES[i % 5]), width: 2, points: { show: x.length < 40 } }))],
        legend: { live: false },
        cursor: { drag: { x: false, y: false } },
      },
      [x, ...series.map((s) => s.values)],
      box.current,
    );
    const watch = new ResizeObserver(() => made.setSize({ width: box.current.clientWidth, height }));
    watch.observe(box.current);
    return () => { watch.disconnect(); made.destroy(); };
  }, [x, series]);
  return html`<div class="chart" ref=${box} role="img" aria-label=${label}></div>`;
}

export function Bars({ names, values, label }) {
  const shown = names.slice(0, 40).map((name, i) => ({ name: String(name), value: Number(values[i]) || 0 }));
  const most = Math.max(...shown.map((s) => Math.abs(s.value)), 1e-9);
  return html`<div class="bars" role="img" aria-label=${`${label}: ${shown.slice(0, 10).map((s) => `${s.name} ${s.value}`).join(", ")}`}>
    ${shown.map((s) => html`<div class="bar-row" key=${s.name}>
      <span class="bar-name">${s.name}</span>
      <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect width=${(Math.abs(s.value) / most) * 100} height="10" rx="1" /></svg>
      <span class="number">${s.value.toLocaleString("en-US")}</span>
    </div>`)}
  </div>`;
}

// A chart of an answer: lines where the first column is a number or a time, bars where it is a name.
export function AnswerChart({ columns, rows }) {
  const numbers = columns.map((c, i) => (c.numeric && i > 0 ? i : -1)).filter((i) => i > 0);
  if (!rows.length || !numbers.length) return html`<p class="empty">a chart needs a first column of names, numbers or times, and numbers beside it</p>`;
  const isTime = /^timestamp|^date/.test(columns[0].type);
  if (!isTime && !columns[0].numeric) {
    return html`<${Bars} names=${rows.map((r) => r[0])} values=${rows.map((r) => r[numbers[0]])} label=${columns[numbers[0]].name} />`;
  }
  const x = (row) => (isTime ? Date.parse(`${String(row[0]).replace(" ", "T")}Z`) / 1000 : Number(row[0]));
  const sorted = [...rows].filter((r) => Number.isFinite(x(r))).sort((a, b) => x(a) - x(b));
  const series = numbers.map((i) => ({ name: columns[i].name, values: sorted.map((r) => (r[i] === null ? null : Number(r[i]))) }));
  return html`<${Lines} x=${sorted.map(x)} series=${series} time=${isTime} height=${260} label=${series.map((s) => s.name).join(", ")} />`;
}
