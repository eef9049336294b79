"""Style and script of the page of an audit.

The script asks for nothing of the network. A key does nothing while Ctrl, Alt or Meta is held.
"""

STYLE = """<style>
#item { outline: none; }
#texts blockquote { max-height: 60vh; overflow: auto; white-space: pre-wrap; margin: .5rem 0; }
#questions fieldset { border: 0; padding: 0; margin: .6rem 0; display: flex; flex-wrap: wrap; gap: .4rem; }
#questions legend { font-size: .85rem; color: var(--quiet); padding: 0; margin-bottom: .2rem; }
#questions button, #moves button { min-height: 2.2rem; padding: .2rem .7rem; }
#questions button[aria-pressed=true] { background: var(--link); color: var(--ground); border-color: var(--link); }
#questions button.derived { border: 2px dashed var(--link); }
#moves { display: flex; flex-wrap: wrap; gap: .4rem; }
kbd { font: inherit; font-weight: 700; margin-right: .35rem; }
#known .enough { font-weight: 700; } #known .enough::before { content: "■ "; color: var(--mark); }
.load input { max-width: 13rem; }
</style>"""

SCRIPT = r"""
(() => {
const D = JSON.parse(document.getElementById("data").textContent), Z = 1.959963984540054;
const at = id => document.getElementById(id), KEY = `xling audit ${D.corpus} ${D.labels}`;
const make = (tag, props = {}, ...inside) => {
  const made = Object.assign(document.createElement(tag), props); made.append(...inside); return made; };
let state = {reader: "", lang: "", answers: {}, place: 0}, shown = [], isOpen = false;
try { state = {...state, ...JSON.parse(localStorage.getItem(KEY) || "{}")}; } catch { state.place = 0; }
const tell = text => { at("said").textContent = text; };
function keep() {
  try { localStorage.setItem(KEY, JSON.stringify(state)); return true; }
  catch { tell("This browser keeps nothing: save the answers before you close the page."); return false; } }

const labelsOf = answers => D.questions.flatMap(q => q.labels.filter(l => (answers[q.name] || []).includes(l.name)));
const isWrong = answers => labelsOf(answers).some(l => l.is_wrong_language);
const isComplete = answers => isWrong(answers) ||
  D.questions.every(q => q.takes_many || q.is_verdict || (answers[q.name] || []).length);
function belongs(answers) {
  const verdict = D.questions.find(q => q.is_verdict), given = verdict && answers[verdict.name];
  if (given && given.length) return given[0] === "keep";
  return !labelsOf(answers).some(l => l.is_unwanted); }

const answersOf = text => state.answers[text.id] || {};
const current = () => shown[state.place];

// The same sums as xling/corpora/audit/estimates.py.
function wilson(share, n) {
  if (n === Infinity) return [share, share];
  const middle = share + Z * Z / (2 * n), scale = 1 + Z * Z / n;
  const half = Z * Math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n));
  return [Math.max(0, (middle - half) / scale), Math.min(1, (middle + half) / scale)]; }
function estimate(goal) {
  const judge = goal.measure === D.measures.right ? a => !isWrong(a) : belongs, counts = {};
  for (const name of goal.strata) counts[name] = [0, 0];
  for (const text of D.texts) {
    const answers = answersOf(text);
    if (!(text.stratum in counts) || !isComplete(answers)) continue;
    counts[text.stratum][0] += 1; counts[text.stratum][1] += judge(answers) ? 1 : 0; }
  const sizes = goal.strata.map(name => D.strata[name].size), all = sizes.reduce((a, b) => a + b, 0);
  const read = goal.strata.filter(name => counts[name][0]);
  const total = read.reduce((sum, name) => sum + D.strata[name].size, 0);
  if (!total) return null;
  let share = 0, smoothed = 0, variance = 0, num = 0;
  for (const name of read) {
    const [n, hits] = counts[name], size = D.strata[name].size, weight = size / total;
    const likely = (hits + 1) / (n + 2), left = (size - n) / Math.max(1, size - 1);
    share += weight * hits / n; smoothed += weight * likely; num += n;
    variance += weight * weight * likely * (1 - likely) / n * left; }
  const [low, high] = wilson(share, variance > 0 ? smoothed * (1 - smoothed) / variance : Infinity);
  return {share, low, high, read: num, covered: total / all}; }

const HEADS = [...at("known").tHead.rows[0].cells].map(cell => cell.textContent);
function showKnown() {
  const percent = x => (100 * x).toFixed(1);
  at("known").tBodies[0].replaceChildren(...D.goals.filter(g => !state.lang || g.lang === state.lang).map(goal => {
    const e = estimate(goal), enough = e && e.covered === 1 && e.high - e.low <= D.width + 1e-12;
    const cells = e ? [e.read, `${percent(e.share)} %`, `${percent(e.low)} to ${percent(e.high)}`,
      enough ? "enough" : "read more"] : ["0", "", "", "read"];
    const row = make("tr", {}, make("th", {scope: "row", textContent: goal.text}),
      make("td", {className: "text", textContent: goal.measure}));
    cells.forEach((cell, i) => row.append(make("td", {textContent: cell,
      className: i < 3 ? "num" : enough ? "text enough" : "text"})));
    [...row.cells].forEach((cell, i) => { cell.dataset.label = HEADS[i]; });
    row.dataset.estimate = JSON.stringify(e); return row; })); }

function showQuestions(text) {
  const answers = answersOf(text), done = isComplete(answers);
  at("questions").replaceChildren(...D.questions.map(q => {
    const given = answers[q.name] || [];
    const box = make("fieldset", {}, make("legend", {textContent: q.text}));
    for (const label of q.labels) {
      const button = make("button", {type: "button", onclick: () => give(q, label)},
        make("kbd", {textContent: label.key.toUpperCase()}), label.text);
      button.dataset.label = `${q.name}/${label.name}`;
      button.setAttribute("aria-pressed", given.includes(label.name));
      if (q.is_verdict && done && !given.length && (label.name === "keep") === belongs(answers)) {
        button.className = "derived"; button.title = "follows from your other answers"; }
      box.append(button); }
    return box; })); }

function show() {
  const text = current();
  at("about").hidden = !isOpen; at("origin").setAttribute("aria-expanded", isOpen);
  const done = shown.filter(t => isComplete(answersOf(t))).length;
  at("place").textContent = text ? `text ${state.place + 1} of ${shown.length}, ${done} answered` : "no text";
  if (!text) return;
  const stratum = D.strata[text.stratum], lang = D.langs[stratum.lang];
  at("asked").replaceChildren("Should be ", make("b", {textContent: lang ? lang.name : "a language of this crawl"}));
  at("texts").replaceChildren(...text.texts.map((body, i) => {
    const quote = make("blockquote", {textContent: body, dir: "auto", tabIndex: 0});
    quote.setAttribute("aria-label", text.texts.length > 1 ? `side ${i + 1}` : "text");
    if (lang) quote.lang = lang.sides[i].lang;
    return quote; }));
  const facts = [stratum.kind + (stratum.stage ? ` by ${stratum.stage}: ${stratum.reason}` : ""), stratum.meaning,
    stratum.source, text.url, `one of ${stratum.size.toLocaleString("en")}`];
  at("about").textContent = facts.filter(Boolean).join(" · ");
  showQuestions(text); showKnown(); }

function give(question, label) {
  const text = current(), answers = {...answersOf(text)}, given = answers[question.name] || [];
  const has = given.includes(label.name);
  answers[question.name] = has ? given.filter(name => name !== label.name)
    : question.takes_many ? [...given, label.name] : [label.name];
  if (!answers[question.name].length) delete answers[question.name];
  state.answers[text.id] = answers;
  const focus = `[data-label="${question.name}/${label.name}"]`;
  keep(); show(); document.querySelector(focus).focus({preventScroll: true}); }

function move(place) {
  if (place < 0 || place >= shown.length) return tell(place < 0 ? "This is the first text." : "This is the last text.");
  state.place = place; isOpen = false; tell(""); keep(); show();
  at("item").focus({preventScroll: true}); }
function next() {
  const order = [...shown.keys()], after = [...order.slice(state.place + 1), ...order.slice(0, state.place + 1)];
  const place = after.find(i => !isComplete(answersOf(shown[i])));
  if (place === undefined) tell("All texts are answered: save the answers.");
  else if (place === state.place) tell("This text is not fully answered.");
  else move(place); }
function clear() { delete state.answers[current().id]; keep(); show(); tell("The answers to this text are cleared."); }
function chooseLang() {
  state.lang = at("lang").value;
  shown = D.texts.filter(t => !state.lang || D.strata[t.stratum].lang === state.lang);
  state.place = Math.max(0, shown.findIndex(t => !isComplete(answersOf(t)))); keep(); show(); }

function save() {
  state.reader = at("reader").value.trim();
  if (!state.reader) { at("reader").focus(); return tell("Write your name or a sign for it, then save."); }
  const file = {format: D.format, corpus: D.corpus, labels: D.labels, reader: state.reader, answers: state.answers};
  const url = URL.createObjectURL(new Blob([JSON.stringify(file, null, 1)], {type: "application/json"}));
  const name = `answers-${D.corpus.slice(0, 8)}-${state.reader.replace(/[^\p{L}\p{N}]+/gu, "_")}.json`;
  const link = make("a", {href: url, download: name});
  document.body.append(link); link.click(); link.remove();
  if (keep()) tell(`Saved as ${name}: xling corpus audit DIR answers=${name}`); }
async function load() {
  try {
    const file = JSON.parse(await at("load").files[0].text());
    if (file.format !== D.format || file.corpus !== D.corpus || file.labels !== D.labels) throw 0;
    state.answers = {...state.answers, ...file.answers}; state.reader = at("reader").value = file.reader;
    keep(); chooseLang(); tell(`Loaded ${Object.keys(file.answers).length} answers.`);
  } catch { tell("This file holds no answers to this page."); } }

const KEYS = {enter: next, arrowright: () => move(state.place + 1), arrowleft: () => move(state.place - 1),
  u: clear, s: save, i: () => { isOpen = !isOpen; show(); }};
document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.repeat) return;
  if (event.target.closest("input, select, textarea, summary, a")) return;
  const key = event.key.toLowerCase();
  // Enter on a button presses it; on a label, which the last key has focused, it goes on.
  if (key === "enter" && event.target.closest("button:not([data-label])")) return;
  if (event.target.closest("blockquote, .scroll") && key.startsWith("arrow")) return;
  const question = D.questions.find(q => q.labels.some(l => l.key === key));
  if (question && current()) give(question, question.labels.find(l => l.key === key));
  else if (KEYS[key] && current()) KEYS[key]();
  else return;
  event.preventDefault(); });

at("back").onclick = KEYS.arrowleft; at("next").onclick = next; at("clear").onclick = clear;
at("origin").onclick = KEYS.i; at("save").onclick = save; at("load").onchange = load; at("lang").onchange = chooseLang;
at("filter").onsubmit = event => { event.preventDefault(); at("item").focus({preventScroll: true}); };
at("reader").value = state.reader;
at("reader").oninput = () => { state.reader = at("reader").value.trim(); keep(); };
const codes = Object.keys(D.langs);
at("lang").append(make("option", {value: "", textContent: "all"}),
  ...codes.map(code => make("option", {value: code, textContent: `${D.langs[code].name} (${code})`})));
at("lang").value = codes.includes(state.lang) ? state.lang : "";
chooseLang();
})();
"""
