(() => {
const LANGS = JSON.parse(document.getElementById("langs").textContent);
const LANG_HEADS = ["language", "over", "scored in"], SUITE_HEADS = ["suite", "test"];
const make = (tag, props = {}, ...inside) => {
  const made = Object.assign(document.createElement(tag), props); made.append(...inside); return made; };
const said = make("p", {className: "quiet", id: "said"}); said.setAttribute("role", "status");
const heads = table => [...(table.tHead ? table.tHead.rows[table.tHead.rows.length - 1].cells : [])];
const own = cell => [...cell.childNodes].filter(n => n.nodeName !== "SMALL").map(n => n.textContent)
  .join("").trim();
const whole = cell => [...cell.childNodes].map(n => n.textContent.trim()).join(" ").trim();
const number = text => { const found = text.replace(/,/g, "").match(/^[+-]?\d+(\.\d+)?/);
  return found ? +found[0] : NaN; };
const titleOf = table => table.dataset.title || "table";

function sort(table, at, button) {
  const th = heads(table)[at], down = th.getAttribute("aria-sort") !== "descending";
  heads(table).forEach(h => h.removeAttribute("aria-sort"));
  th.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0], rows = [...body.rows];
  const fixed = rows.filter(r => r.classList.contains("summary")), movable = rows.filter(r => !fixed.includes(r));
  const key = new Map(movable.map(r => [r, own(r.cells[at])]));
  const numeric = movable.filter(r => !isNaN(number(key.get(r)))).length * 2 > movable.length;
  const compare = (a, b) => {
    if (!numeric) return key.get(a).localeCompare(key.get(b));
    const [x, y] = [number(key.get(a)), number(key.get(b))];
    return isNaN(x) ? (isNaN(y) ? 0 : down ? -1 : 1) : isNaN(y) ? (down ? 1 : -1) : x - y; };
  movable.sort((a, b) => down ? compare(b, a) : compare(a, b));
  body.append(...movable, ...fixed);
  said.textContent = `${titleOf(table)}: sorted by ${button.textContent}, ${down ? "descending" : "ascending"}`;
}

const quote = text => /[",\n]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
const tex = text => text.replace(/\\/g, "\\textbackslash ").replace(/[&%$#_{}]/g, "\\$&")
  .replace(/±/g, "$\\pm$").replace(/–/g, "--");
function written(table, how) {
  const top = table.tHead ? [...table.tHead.rows] : [];
  const rows = [...top, ...table.tBodies[0].rows].filter(r => !r.hidden).map(r => [...r.cells].filter(c => !c.hidden)
    .flatMap(c => [whole(c), ...Array(c.colSpan - 1).fill("")]));
  if (how === "CSV") return rows.map(r => r.map(quote).join(",")).join("\n") + "\n";
  if (how === "Markdown") {
    const line = r => "| " + r.map(c => c.replace(/\|/g, "\\|")).join(" | ") + " |";
    const at = Math.max(0, top.length - 1);
    const rule = "|" + rows[at].map(() => "---|").join("");
    return [line(rows[at]), rule, ...rows.slice(at + 1).map(line)].join("\n") + "\n"; }
  const body = rows.map(r => r.map(tex).join(" & ") + " \\\\");
  const spec = "\\begin{tabular}{l" + "r".repeat(rows[0].length - 1) + "}";
  return [spec, "\\toprule", ...body.slice(0, top.length), "\\midrule", ...body.slice(top.length), "\\bottomrule",
    "\\end{tabular}"].join("\n") + "\n";
}
async function copy(table, how) {
  const text = written(table, how);
  try { await navigator.clipboard.writeText(text); } catch {
    const field = make("textarea", {value: text}); document.body.append(field); field.select();
    document.execCommand("copy"); field.remove(); }
  said.textContent = `${titleOf(table)}: copied as ${how}`; said.dataset.copied = text;
}

document.querySelectorAll("main table").forEach(table => {
  heads(table).forEach((th, at) => {
    if (!th.textContent.trim() || th.colSpan > 1) return;
    const button = make("button", {type: "button", className: "sort"}, ...th.childNodes);
    button.onclick = () => sort(table, at, button); th.append(button); });
  const tools = make("p", {className: "tools"}, "Copy as ");
  for (const how of ["CSV", "LaTeX", "Markdown"]) {
    const button = make("button", {type: "button", onclick: () => copy(table, how)}, how);
    button.setAttribute("aria-label", `Copy ${titleOf(table)} as ${how}`); tools.append(button, " "); }
  table.closest(".scroll").before(tools); });

const base = code => { const name = code.split(" ")[0], ends = name.split("-");
  return LANGS[name] || LANGS[ends[ends.length - 1]] || LANGS[ends[0]]; };
const bar = document.getElementById("filter"), chosen = {};
const field = (name, label, input) => { input.id = "filter-" + name;
  input.oninput = () => { chosen[name] = input.value; filter(); }; chosen[name] = "";
  bar.append(make("label", {htmlFor: input.id}, label + " ", input)); };
const list = values => make("select", {}, make("option", {value: ""}, "all"),
  ...values.map(v => make("option", {value: v}, v)));
const distinct = at => [...new Set(Object.values(LANGS).map(v => v[at]))].filter(Boolean).sort();
const suites = [...new Set([...document.querySelectorAll("[data-suite]")].map(e => e.dataset.suite))];
field("suite", "Suite", list(suites)); field("family", "Family", list(distinct(0)));
field("script", "Script", list(distinct(1))); field("text", "Text of rows", make("input", {type: "search"}));
function filter() {
  let shown = 0, all = 0;
  const fits = code => {
    const of = base(code); if (!of) return !chosen.family && !chosen.script;
    return (!chosen.family || of[0] === chosen.family) && (!chosen.script || of[1] === chosen.script); };
  document.querySelectorAll("[data-suite]").forEach(e => {
    e.hidden = !!chosen.suite && e.dataset.suite !== chosen.suite; });
  document.querySelectorAll("main table").forEach(table => {
    const names = heads(table).map(h => h.textContent.trim().toLowerCase());
    const lang = table.dataset.rows === "languages" ? 0 : names.findIndex(n => LANG_HEADS.includes(n));
    const suite = names.findIndex(n => SUITE_HEADS.includes(n));
    const hidden = heads(table).map(h => !!chosen.suite && !!h.dataset.of && h.dataset.of !== chosen.suite);
    for (const row of [...(table.tHead ? table.tHead.rows : []), ...table.tBodies[0].rows])
      if (row.cells.length === hidden.length) [...row.cells].forEach((c, i) => { c.hidden = hidden[i]; });
    for (const row of table.tBodies[0].rows) {
      if (row.classList.contains("summary")) continue;
      const text = !chosen.text || !table.dataset.title.endsWith("rows with errors") ||
        row.textContent.toLowerCase().includes(chosen.text.toLowerCase());
      row.hidden = !(text && (lang < 0 || fits(row.cells[lang].textContent)) &&
        (suite < 0 || !chosen.suite || row.cells[suite].textContent === chosen.suite));
      all += 1; shown += !row.hidden; } });
  const is_whole = shown === all;
  said.textContent = `${shown} of ${all} rows of all tables shown` +
    (is_whole ? "" : "; averages stay those of all languages");
}
bar.append(said); bar.hidden = false;
})();
