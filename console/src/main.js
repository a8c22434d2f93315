// The console: who is logged in, which page is shown, and the status that all pages share.
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { follow, get, post } from "./api.js";
import { Batches, DeadLetters, PlanHistory, Users } from "./lists.js";
import { Overview } from "./overview.js";
import { Plan } from "./plan.js";
import { Sql } from "./sql.js";
import { Problem, html } from "./ui.js";

const PAGES = [["overview", "Overview"], ["plan", "Plan"], ["sql", "SQL"], ["letters", "Dead letters"], ["history", "Plan history"], ["batches", "Batches"], ["users", "Users"]];
const READER = ["overview", "sql"];
const KEPT = 240;
const page = () => location.hash.replace(/^#\//, "") || "overview";

async function redeem() {
  const token = /^#token=(.+)$/.exec(location.hash)?.[1];
  if (!token) return;
  history.replaceState(null, "", "#/overview");
  await post("login", { token }).catch(() => null);
}

function useStatus(session) {
  const [live, set] = useState({ trend: { x: [], series: [] }, state: "lost" });
  useEffect(() => {
    if (!session) return;
    return follow("live", {
      status: (found) => set((now) => ({ ...found, state: "open", trend: extend(now.trend, found.status) })),
    }, (state) => set((now) => ({ ...now, state })));
  }, [session?.user, Boolean(session)]);
  return live;
}

function extend(trend, status) {
  const at = Date.now() / 1000;
  const sources = (status.sources ?? []).slice(0, 5);
  const x = [...trend.x, at].slice(-KEPT);
  const series = sources.map((s) => {
    const known = trend.series.find((t) => t.name === s.name)?.values ?? [];
    const values = [...known, s.rows_per_second].slice(-KEPT);
    return { name: s.name, values: [...Array(x.length - values.length).fill(null), ...values] };
  });
  return series.length ? { x, series } : trend;
}

function App() {
  const [session, setSession] = useState(undefined);
  const [users, setUsers] = useState(false);
  const [shown, setShown] = useState(page());
  const [followed, setFollowed] = useState([]);
  const [chosen, choose] = useState(null);
  const live = useStatus(session);
  const ask = () => get("session").then(setSession, (p) => { setUsers(Boolean(p.body?.users)); setSession(null); });
  useEffect(() => { redeem().then(ask); }, []);
  useEffect(() => {
    const change = () => (location.hash.startsWith("#token=") ? redeem().then(ask) : setShown(page()));
    addEventListener("hashchange", change);
    return () => removeEventListener("hashchange", change);
  }, []);
  if (session === undefined) return html`<p class="empty">…</p>`;
  if (session === null) return html`<${Login} users=${users} done=${ask} />`;
  const status = live.status;
  const pages = PAGES.filter(([id]) => session.sees_all || READER.includes(id));
  const openView = (name) => { setFollowed((now) => [...new Set([...now, name])]); location.hash = "#/sql"; };
  return html`<a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); document.getElementById("main").focus(); }}>skip to the content</a>
    <header class="top">
      <span class="brand">${Mark()} Tidemill</span>
      <nav aria-label="pages">${pages.map(([id, name]) => html`<a href=${`#/${id}`} aria-current=${shown === id ? "page" : undefined}>${name}</a>`)}</nav>
      <span class="state" role="status"><span class=${`dot ${live.state !== "open" ? "lost" : status?.running ? "on" : "off"}`}></span>
        ${live.state !== "open" ? "reconnecting" : status?.running ? "running" : "stopped"} · ${session.database}${session.user ? ` · ${session.user}` : ""}</span>
      <${Theme} />
      ${session.user ? html`<button onClick=${() => post("logout", {}).then(ask)}>Log out</button>` : null}
    </header>
    <main id="main" tabindex="-1">
      ${shown === "plan" ? html`<${Plan} plan=${status?.plan ?? 0} rates=${live.rates} chosen=${chosen} choose=${choose} />` : null}
      ${shown === "sql" ? html`<${Sql} catalog=${status?.plan ?? 0} followed=${followed} setFollowed=${setFollowed} />` : null}
      ${shown === "letters" ? html`<${DeadLetters} count=${status?.dead_letters ?? 0} />` : null}
      ${shown === "history" ? html`<${PlanHistory} plan=${status?.plan ?? 0} />` : null}
      ${shown === "batches" ? html`<${Batches} batch=${status?.batch} />` : null}
      ${shown === "users" ? html`<${Users} />` : null}
      ${PAGES.some(([id]) => id === shown && id !== "overview") ? null : html`<${Overview} status=${status} trend=${live.trend} open=${openView} />`}
    </main>`;
}

function Login({ users, done }) {
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    const form = new FormData(event.target);
    try {
      await post("login", { user: form.get("user"), password: form.get("password") });
      done();
    } catch (problem) {
      setError(problem.status === 401 ? { message: "wrong user or password" } : problem.error ?? { message: String(problem) });
    }
  };
  return html`<main class="login card"><h1>${Mark()} Tidemill</h1>
    ${users ? html`<form onSubmit=${submit}>
      <label>User <input name="user" autocomplete="username" required /></label>
      <label>Password <input name="password" type="password" autocomplete="current-password" required /></label>
      <button class="primary">Log in</button></form>`
    : html`<p>Open the address that <code>tidemill serve</code> printed when it started: it has a token that lets one browser in.</p>`}
    <${Problem} error=${error} />
  </main>`;
}

function Theme() {
  const [theme, setTheme] = useState(localStorage.getItem("tidemill.theme") ?? "auto");
  useEffect(() => { document.documentElement.dataset.theme = theme; localStorage.setItem("tidemill.theme", theme); }, [theme]);
  const next = { auto: "light", light: "dark", dark: "auto" }[theme];
  return html`<button onClick=${() => setTheme(next)} aria-label=${`colours: ${theme}; change to ${next}`} title=${`colours: ${theme}`}>${{ auto: "◐", light: "☀", dark: "☾" }[theme]}</button>`;
}

const Mark = () => html`<svg class="mark" viewBox="0 0 24 24" aria-hidden="true"><path d="M2 9c3-4 6-4 10 0s7 4 10 0M2 16c3-4 6-4 10 0s7 4 10 0" fill="none" stroke="currentColor" stroke-width="2.4" stroke-linecap="round"/></svg>`;

render(html`<${App} />`, document.getElementById("app"));
