// The SQL editor: our dialect, names of the catalog, problems underlined at their place.
import { Compartment, EditorState, Prec } from "@codemirror/state";
import { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { autocompletion, closeBrackets, completionKeymap } from "@codemirror/autocomplete";
import { HighlightStyle, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { forEachDiagnostic, linter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { SQLDialect, sql } from "@codemirror/lang-sql";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";
import { post } from "./api.js";
import { html } from "./ui.js";

const KEYWORDS = `add after alter all and any as asc as_of avg between by cascade case cast change complete create cross dead
 delete desc describe difference distinct drop else end every exists explain false files filter first following for from full
 generate grant group having in inner insert intersect interval into is istream join key last lateral latest left letters like
 limit minute minutes month not now null nulls of on or order outer over partition password plans port preceding queries query
 range register rescale restart revoke right row rows rstream second seconds hour hours day days select set settings show sink
 sinks site sites skip slide source sources standing stream streamed streams subscribe sync synchronize table tables tagged then
 timestamp to true union until update user users using values view views virtual when where why window with`;
const TYPES = "bigint blob boolean date decimal double float hugeint integer interval json list map real smallint struct text time timestamp tinyint uuid varchar";
const BUILTIN = "count sum avg min max stddev variance median quantile approx_count_distinct row_number rank dense_rank lag lead coalesce round floor ceil abs lower upper length substring date_trunc extract";

export const dialect = SQLDialect.define({ keywords: KEYWORDS.replace(/\s+/g, " "), types: TYPES, builtin: BUILTIN, doubleQuotedStrings: false, operatorChars: "*+-%<>!=&|^/~", caseInsensitiveIdentifiers: true });

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--violet)", fontWeight: "600" },
  { tag: tags.typeName, color: "var(--blue)" },
  { tag: tags.standard(tags.name), color: "var(--blue)" },
  { tag: tags.string, color: "var(--green)" },
  { tag: tags.number, color: "var(--orange)" },
  { tag: tags.comment, color: "var(--dim)", fontStyle: "italic" },
]);

const look = EditorView.theme({
  "&": { fontSize: "14px", backgroundColor: "var(--card)", color: "var(--text)", height: "100%" },
  "&.cm-focused": { outline: "2px solid var(--blue)", outlineOffset: "-2px" },
  ".cm-content": { fontFamily: "var(--mono)", padding: "8px 0", caretColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--card)", color: "var(--dim)", border: "none" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--blue) 6%, transparent)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "color-mix(in srgb, var(--blue) 28%, transparent) !important" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--text)", border: "1px solid var(--line)", borderRadius: "6px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--blue)", color: "var(--card)" },
  ".cm-diagnostic-error": { borderLeft: "3px solid var(--red)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--red) 1.5px", textUnderlineOffset: "3px" },
});

// The place of a problem: from its column to the end of the word there.
function diagnostic(problem, doc) {
  const line = doc.line(Math.max(1, Math.min(problem.line ?? 1, doc.lines)));
  const from = Math.min(line.from + Math.max(0, (problem.column ?? 1) - 1), line.to);
  const word = /^(\w+|"[^"]*"|.)/.exec(doc.sliceString(from, line.to))?.[0] ?? "";
  const message = `${problem.code ?? ""} ${problem.message}${problem.hint ? `\n${problem.hint}` : ""}`.trim();
  return { from: word ? from : Math.max(line.from, from - 1), to: from + word.length, severity: "error", message };
}

const language = (schema) => sql({ dialect, schema, upperCaseKeywords: true });

const check = linter(async (view) => {
  const text = view.state.doc.toString();
  if (!text.trim()) return [];
  try {
    const found = await post("check", { sql: text });
    return found.problems.map((p) => diagnostic(p, view.state.doc));
  } catch {
    return [];
  }
}, { delay: 400 });

export function show(view, problem) {
  view.dispatch(setDiagnostics(view.state, problem ? [diagnostic(problem, view.state.doc)] : []));
}

export function Editor({ text, schema, run, made }) {
  const host = useRef();
  const editor = useRef();
  const names = useRef(new Compartment());
  const latest = useRef(run);
  latest.current = run;
  useEffect(() => {
    // In a shadow root the editor adopts style sheets: no inline style, which the policy of the page forbids.
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const go = keymap.of([{ key: "Mod-Enter", run: (view) => (latest.current(view), true) }]);
    const label = EditorView.contentAttributes.of({ "aria-label": "SQL editor", "aria-description": "ctrl-Enter executes, ctrl-Space completes" });
    const view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: text,
        extensions: [
          Prec.highest(go), lineNumbers(), history(), drawSelection(), highlightActiveLine(), bracketMatching(), closeBrackets(), autocompletion(),
          names.current.of(language(schema)), syntaxHighlighting(colours), check, look, label, EditorView.lineWrapping,
          placeholder("SELECT … ; ctrl-Enter executes"), keymap.of([...completionKeymap, ...lintKeymap, ...historyKeymap, ...defaultKeymap]),
          EditorView.updateListener.of((u) => u.docChanged && sessionStorage.setItem("tidemill.sql", u.state.doc.toString())),
        ],
      }),
    });
    editor.current = view;
    made(view);
    return () => view.destroy();
  }, []);
  useEffect(() => editor.current.dispatch({ effects: names.current.reconfigure(language(schema)) }), [schema]);
  return html`<div class="editor" ref=${host}></div>`;
}

export function hasProblems(view) {
  let found = 0;
  forEachDiagnostic(view.state, () => found++);
  return found > 0;
}
