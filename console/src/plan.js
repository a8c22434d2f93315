// The plan in force: width of an arrow = rows a second, colour of a box = its share of the time.
import dagre from "@dagrejs/dagre";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "./api.js";
import { Problem, Table, count, html, rate, useGet } from "./ui.js";

const ROW = 15, MANY = 120;
const width = (node) => Math.min(240, Math.max(90, 7.2 * Math.max(node.label.length, node.detail.length * 0.85) + 24));

export function lay(graph) {
  const g = new dagre.graphlib.Graph();
  const many = graph.nodes.length > MANY;
  g.setGraph({ rankdir: "LR", nodesep: many ? 6 : 14, ranksep: many ? 60 : 46, ranker: many ? "longest-path" : "network-simplex", marginx: 12, marginy: 12 });
  g.setDefaultEdgeLabel(() => ({}));
  for (const node of graph.nodes) g.setNode(node.id, { width: width(node), height: node.detail ? 2 * ROW + 12 : ROW + 16 });
  for (const edge of graph.edges) if (!edge.loop) g.setEdge(edge.from, edge.to);
  dagre.layout(g);
  const places = Object.fromEntries(graph.nodes.map((n) => [n.id, g.node(n.id)]));
  const size = g.graph();
  return { places, width: size.width || 200, height: size.height || 100 };
}

function path(a, b) {
  const [x1, y1, x2, y2] = [a.x + a.width / 2, a.y, b.x - b.width / 2, b.y];
  const bend = Math.max(24, Math.abs(x2 - x1) / 2);
  return `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`;
}

// From pale to strong with the share of the time.
const heat = (share) => `color-mix(in srgb, var(--hot) ${Math.round(Math.min(1, share) * 85)}%, var(--box))`;
const stroke = (rows) => (rows > 0 ? Math.min(12, 1.2 + 1.6 * Math.log10(1 + rows)) : 1.2);

function speeds(graph, rates) {
  if (!rates) return graph;
  const known = (n) => n.members.map((m) => rates[m]).filter(Boolean);
  const nodes = graph.nodes.map((n) => {
    const found = known(n);
    return found.length ? { ...n, rows_in: found[0][0], rows_out: found.at(-1)[1], share: found.reduce((s, f) => s + f[2], 0) } : { ...n, rows_in: 0, rows_out: 0, share: 0 };
  });
  const by = Object.fromEntries(nodes.map((n) => [n.id, n]));
  return { ...graph, nodes, edges: graph.edges.map((e) => ({ ...e, rows: by[e.from].rows_out || by[e.to].rows_in })) };
}

export function Plan({ plan, rates, chosen, choose }) {
  const { data, error } = useGet("plan", plan);
  const layout = useMemo(() => (data ? lay(data) : null), [data]);
  const graph = useMemo(() => (data ? speeds(data, rates) : null), [data, rates]);
  const [view, setView] = useState(null);
  const drag = useRef(null);
  const box = useRef();
  useEffect(() => setView(null), [layout]);
  useEffect(() => {
    // Not passive: the page must not scroll while the plan is zoomed.
    const element = box.current;
    if (!element) return;
    const wheel = (event) => { if (event.ctrlKey || event.metaKey) { event.preventDefault(); zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15); } };
    element.addEventListener("wheel", wheel, { passive: false });
    return () => element.removeEventListener("wheel", wheel);
  });
  if (error) return html`<div class="page"><${Problem} error=${error} /></div>`;
  if (!layout) return html`<p class="empty">drawing the plan</p>`;
  const all = { x: 0, y: 0, w: layout.width, h: layout.height };
  const shown = view ?? all;
  const zoom = (factor) => setView((now) => { const v = now ?? all; const w = v.w * factor, h = v.h * factor; return { x: v.x + (v.w - w) / 2, y: v.y + (v.h - h) / 2, w, h }; });
  const move = (event) => {
    if (!drag.current) return;
    const scale = shown.w / box.current.clientWidth;
    setView({ ...shown, x: drag.current.x - (event.clientX - drag.current.px) * scale, y: drag.current.y - (event.clientY - drag.current.py) * scale });
  };
  return html`<div class="page plan-page">
    <h1 class="hidden">Live plan</h1>
    <div class="toolbar">
      <button onClick=${() => zoom(1 / 1.3)} aria-label="closer">+</button>
      <button onClick=${() => zoom(1.3)} aria-label="farther">−</button>
      <button onClick=${() => setView(null)}>fit</button>
      <span class="dim">${graph.nodes.length} boxes · width of an arrow: rows/s · colour: share of the time</span>
      <span class="legend" aria-hidden="true"><i></i><span>0 %</span><b></b><span>100 %</span></span>
    </div>
    <div class="plan-split">
      <svg ref=${box} class="plan" data-version=${data.version} viewBox=${`${shown.x} ${shown.y} ${shown.w} ${shown.h}`} role="group" aria-label="plan: from sources on the left to views on the right"
        onPointerDown=${(e) => { drag.current = { ...shown, px: e.clientX, py: e.clientY }; }} onPointerMove=${move}
        onPointerUp=${() => (drag.current = null)} onPointerLeave=${() => (drag.current = null)}>
        <g aria-hidden="true">${graph.edges.map((e) => html`<path key=${e.from + e.to} class=${`edge ${e.loop ? "loop" : ""} ${e.rows > 0 ? "live" : ""}`}
          d=${path(layout.places[e.from], layout.places[e.to])} stroke-width=${stroke(e.rows)}><title>${rate(e.rows)} rows/s ${e.route}</title></path>`)}</g>
        ${graph.nodes.map((n) => html`<${Box} key=${n.id} node=${n} at=${layout.places[n.id]} chosen=${chosen === n.id} choose=${choose} />`)}
      </svg>
      ${chosen ? html`<${Detail} node=${graph.nodes.find((n) => n.id === chosen)} plan=${plan} close=${() => choose(null)} />` : null}
    </div>
  </div>`;
}

function Box({ node, at, chosen, choose }) {
  const open = () => choose(node.id);
  const [first, second] = [node.label.slice(0, 30), (node.detail || "").slice(0, 34)];
  const load = `${rate(node.rows_out || node.rows_in)} rows/s, ${Math.round(node.share * 100)} % of the time`;
  const label = `${node.kind} ${second ? `${first} ${second}` : first}, ${load}`;  // has what is shown, as voice control asks for
  return html`<g class=${`box ${node.place} ${chosen ? "chosen" : ""}`} transform=${`translate(${at.x - at.width / 2},${at.y - at.height / 2})`} tabindex="0" role="button"
    aria-label=${label} data-node=${node.id} onClick=${open} onKeyDown=${(e) => (e.key === "Enter" || e.key === " ") && (e.preventDefault(), open())}>
    <title>${`${node.kind} ${node.label}, ${load}`}</title>
    <rect width=${at.width} height=${at.height} rx=${node.place === "source" || node.place === "view" ? 14 : 4} style=${{ fill: heat(node.share) }} />
    <text x=${at.width / 2} y=${node.detail ? ROW + 2 : at.height / 2 + 4} text-anchor="middle">${first}</text>${" "}
    ${second ? html`<text class="detail" x=${at.width / 2} y=${2 * ROW + 2} text-anchor="middle">${second}</text>` : null}
  </g>`;
}

function Detail({ node, plan, close }) {
  const [found, set] = useState(null);
  const id = node?.id;
  useEffect(() => {
    if (!id) return;
    let current = true;
    const query = node.place === "view" ? `view=${encodeURIComponent(node.label)}` : `node=${encodeURIComponent(id)}`;
    get(`explain?${query}`).then((data) => current && set(data), (p) => current && set({ text: p.message }));
    return () => (current = false);
  }, [id, plan]);
  if (!node) return null;
  const rows = Object.entries(found?.counted ?? {}).map(([op, c]) => [op.split(".")[0], count(c.rows_in), count(c.rows_out), c.predicted ? count(Math.round(c.predicted.rows_out ?? 0)) : "–", c.seconds === null ? "–" : `${(c.seconds * 1e3).toFixed(1)} ms`]);
  return html`<aside class="detail-panel" aria-label=${`details of ${node.label}`}>
    <header><h2>${node.label}</h2><button onClick=${close} aria-label="close details">×</button></header>
    <dl>
      <dt>kind</dt><dd>${node.kind}${node.detail ? ` · ${node.detail}` : ""}</dd>
      <dt>rows/s</dt><dd>${rate(node.rows_in)} → ${rate(node.rows_out)}</dd>
      <dt>time</dt><dd>${(node.share * 100).toFixed(1)} %</dd>
      ${found?.views?.length ? html`<dt>feeds</dt><dd>${found.views.slice(0, 20).join(", ")}${found.views.length > 20 ? " …" : ""}</dd>` : null}
    </dl>
    ${rows.length ? html`<${Table} label="counted and predicted rows" columns=${["operator", "in", "out", "predicted", "time"]} numeric=${[0, 1, 1, 1, 1]} rows=${rows} />` : null}
    <h3>EXPLAIN</h3>
    <pre class="explain" tabindex="0">${found?.text ?? "…"}</pre>
  </aside>`;
}
