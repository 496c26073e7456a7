// The playground: what is chosen becomes a setting (play.Setting), which the program in a worker runs; what it reports is drawn by draw.js. The
// address after # holds all that was chosen.
"use strict";

const { h, tree, partOf } = firstbit;
const form = document.getElementById("setting");
const main = document.querySelector("main");
const byId = (id) => document.getElementById(id);

// defaults are what a visitor sees first. Their types are those that a link may have.
const defaults = { kind: "flip", call: "layers.1.attn.wk", phase: "fwd", sum: "k", step: 2, rank: 0, elem: 7, bit: 3, order: "reverse", scheduleA: 1, scheduleB: 2,
  cause: "dprob-atomics", causeSteps: 2, preset: "pico", precision: "bf16", steps: 6, layout: "dp=1", recipe: "fixed", seed: 1 };
let chosen = fromLink();
let calls = []; // of the last run that was shown
let catalog = [];

function fromLink() {
  const c = { ...defaults };
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    if (!(name in defaults)) continue;
    c[name] = typeof defaults[name] === "number" ? Number(text) || 0 : text;
  }
  return c;
}

function toLink() {
  const changed = Object.entries(chosen).filter(([name, value]) => value !== defaults[name]);
  history.replaceState(null, "", "#" + new URLSearchParams(changed.map(([n, v]) => [n, String(v)])));
  return location.href;
}

// request is the setting that the program runs.
function request(c) {
  if (c.kind === "cause") return { cause: c.cause, steps: c.causeSteps, runs: [{}, {}] };
  const s = { preset: c.preset, precision: c.precision, layout: c.layout, recipe: c.recipe, steps: c.steps, seed: c.seed, runs: [{}, {}] };
  if (c.kind === "flip") s.runs[1].faults = [`flip@${c.call} step=${c.step} phase=${c.phase} rank=${c.rank} elem=${c.elem} bit=${c.bit}`];
  if (c.kind === "order") s.runs[1].plans = [`${c.call} ${c.sum}:${c.order}`];
  if (c.kind === "schedule") s.runs = [c.scheduleA, c.scheduleB].map((schedule) => ({ schedule, plans: [`${c.call} ${c.sum}:arrival`] }));
  return s;
}

// ---- the program

let module = null; // compiled
let worker = null;
let busy = false;
let began = 0;

async function load() {
  const packed = new Uint8Array(await (await fetch("firstbit.wasm.zst")).arrayBuffer());
  return WebAssembly.compile(fzstd.decompress(packed));
}

// run starts what is chosen; what runs is ended.
async function run() {
  toLink();
  error("");
  began = performance.now();
  module = module || load();
  const compiled = await module;
  if (busy) {
    worker.terminate();
    worker = null;
  }
  if (!worker) worker = new Worker("worker.js");
  busy = true;
  byId("progress").value = 0;
  const setting = request(chosen);
  const seen = [0, 0];
  let done = false, first = 0;
  worker.onmessage = (e) => {
    const { kind, text } = e.data;
    const say = (what) => { byId("status").textContent = what; };
    const seconds = () => ((performance.now() - began) / 1000).toFixed(1) + " s";
    if (kind === "step") {
      const [side, step] = JSON.parse(text);
      seen[side] = step;
      say(`run A: step ${seen[0]}, run B: step ${seen[1]}`);
      byId("progress").value = Math.min(0.5, (seen[0] + seen[1]) / (4 * (setting.steps || 8)));
    } else if (kind === "page" || kind === "done") {
      done = kind === "done";
      first = first || seconds();
      show(JSON.parse(text), done);
      say(done ? `first result after ${first}, verdict after ${seconds()}` : `first result after ${first}, looking for the root`);
      if (done) byId("progress").value = 1;
    } else if (kind === "stage") {
      byId("progress").value += 0.08;
      say(`first result after ${first}, looking at level ${JSON.parse(text)}`);
    } else if (kind === "error") {
      done = true;
      error(JSON.parse(text));
    } else if (kind === "end") {
      busy = false;
      document.body.dataset.ended = "true";
      if (!done) error("The program ended early. " + text);
    }
  };
  delete document.body.dataset.ended;
  worker.postMessage({ module: compiled, request: setting });
}

function error(text) {
  byId("error").hidden = !text;
  byId("error").textContent = text;
  if (text) byId("status").textContent = "";
}

function show(page, done) {
  calls = page.calls;
  firstbit.page = page; // for tests
  main.state = done && main.state && main.state.early ? null : main.state;
  if (!main.state || main.state.of !== page.command) main.state = null;
  firstbit.show(main, page);
  Object.assign(main.state, { of: page.command, early: !done });
  digests(page);
  offer();
}

function digests(page) {
  const line = (text) => h("div", { class: "command" }, firstbit.flags(text), h("button", { type: "button", onclick: () => navigator.clipboard.writeText(text) }, "copy"));
  const train = chosen.kind === "cause" ? [] : page.runs.map((flags) => line(`firstbit train ${flags} --json`));
  byId("digests").hidden = false;
  byId("digests").querySelector("div").replaceChildren(h("p", { class: "note" }, train.length ? "Run A, run B, and the whole page; state is the digest of all state after a step." : "This writes the same page; state is the digest of all state after a step."),
    ...train, line(page.command), h("div", { class: "scroll" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, ["step", "state, run A", "state, run B", ""].map((t) => h("th", { scope: "col" }, t)))),
      h("tbody", {}, page.steps.map((s) => h("tr", {}, h("th", { scope: "row" }, String(s.step)), s.state.map((d) => h("td", {}, h("code", {}, d))), h("td", {}, s.state[0] === s.state[1] ? "=" : "≠")))))));
}

// ---- what is chosen

const formats = { fp64: [1, 11, 52], fp32: [1, 8, 23], bf16: [1, 8, 7], fp16: [1, 5, 10] };

// here are the records of the chosen Call, as the last run had them.
const here = () => calls.filter((c) => c.path === chosen.call);

// offer fills lists with what the last run had, and shows what is chosen.
function offer() {
  const names = [...new Set(calls.filter((c) => ["op", "collective"].includes(c.kind)).filter((c) => chosen.kind === "flip" || Object.keys(c.leaves || {}).length).map((c) => c.path))];
  byId("calls").replaceChildren(...names.map((n) => h("option", { value: n })));
  const call = here().find((c) => c.phase === chosen.phase) || here()[0];
  const leaves = (call && call.leaves) || {};
  options("sum", Object.keys(leaves).length ? Object.keys(leaves) : [chosen.sum]);
  const out = call && call.out[0];
  const numel = out ? out.shape.reduce((n, d) => n * d, 1) : 0;
  byId("elements").textContent = numel ? `0 to ${numel - 1}` : "";
  byId("bit-of").textContent = out ? `${out.name}, ${out.dtype}` : "its output";
  bit(formats[(out && out.dtype) || "bf16"] || formats.bf16);
  if (chosen.kind === "order") order(leaves[chosen.sum] || 0);
  fill();
}

function options(name, values) {
  const select = form.elements[name];
  const all = values.includes(chosen[name]) ? values : [chosen[name], ...values];
  select.replaceChildren(...all.map((v) => h("option", { value: v }, v)));
}

function bit([sign, exponent, fraction]) {
  const group = (name, from, n) => h("span", { class: "field " + name }, h("small", {}, name), h("span", { class: "cells" }, Array.from({ length: n }, (_, i) => from - i).map((b) =>
    h("button", { type: "button", role: "radio", "aria-checked": String(b === chosen.bit), "data-bit": b, onclick: () => change({ bit: b }) }, String(b)))));
  const top = sign + exponent + fraction - 1;
  const had = document.activeElement && document.activeElement.dataset && document.activeElement.dataset.bit;
  byId("bit").replaceChildren(group("sign", top, sign), group("exponent", top - sign, exponent), group("fraction", fraction - 1, fraction));
  const back = had && byId("bit").querySelector(`[data-bit="${had}"]`);
  if (back) back.focus();
}

// ---- the order of a sum

const draggable = 64;
const named = ["seq", "reverse", "pairwise", "blocked(4)", "lanes(4)", "splitk(4)", "perm(7)"];
const given = (list) => `given(${list.join(" ")})`;
const chain = (list) => list.slice(1).reduce((t, leaf) => `(${t} ${leaf})`, String(list[0]));

// byHand is the order of leaves that was dragged, or that which a named order begins with.
function byHand(n) {
  const m = /^given\(([\d ]+)\)$/.exec(chosen.order);
  const list = m ? m[1].split(" ").map(Number) : [];
  if (list.length === n) return list;
  const straight = Array.from({ length: n }, (_, i) => i);
  return chosen.order === "reverse" ? straight.reverse() : straight;
}

function order(n) {
  const hand = chosen.order.startsWith("given");
  form.elements.named.replaceChildren(...[...named, "by hand"].map((o) => h("option", { value: o }, o)));
  form.elements.named.value = hand ? "by hand" : chosen.order;
  const list = n > 1 && n <= draggable ? byHand(n) : [];
  byId("leaves-box").hidden = !list.length;
  const focus = document.activeElement && document.activeElement.dataset && document.activeElement.dataset.leaf;
  const move = (leaf, to) => {
    const next = list.filter((x) => x !== leaf);
    next.splice(Math.max(0, Math.min(list.length - 1, to)), 0, leaf);
    change({ order: given(next) });
  };
  const chip = (leaf, i) => h("li", { tabindex: "0", "data-leaf": leaf, class: (hand || chosen.order === "reverse") && leaf !== i ? "moved" : null, "aria-label": `value ${leaf}, place ${i + 1} of ${n}`,
    onkeydown: (e) => {
      const by = { ArrowLeft: -1, ArrowRight: 1, Home: -n, End: n }[e.key];
      if (!by) return;
      e.preventDefault();
      move(leaf, i + by);
    } }, String(leaf));
  byId("leaves").replaceChildren(...list.map(chip));
  const back = focus && byId("leaves").querySelector(`[data-leaf="${focus}"]`);
  if (back) back.focus();
  const drawn = list.length && (hand || ["seq", "reverse"].includes(chosen.order));
  byId("preview").replaceChildren(...(drawn ? [tree(chain(list), { marked: new Set(list.filter((leaf, i) => leaf !== i)) })] : []));
}

// What is dragged is moved among the others at once; the list has the pointer, since an element that is moved loses it.
let held = null;
byId("leaves").addEventListener("pointerdown", (e) => {
  held = e.target.closest("li");
  if (!held) return;
  byId("leaves").setPointerCapture(e.pointerId);
  held.classList.add("held");
});
byId("leaves").addEventListener("pointermove", (e) => {
  if (!held) return;
  const over = document.elementsFromPoint(e.clientX, e.clientY).find((x) => x !== held && x.parentElement === held.parentElement);
  if (!over) return;
  const items = [...held.parentElement.children];
  held.parentElement.insertBefore(held, items.indexOf(over) > items.indexOf(held) ? over.nextSibling : over);
});
for (const end of ["pointerup", "pointercancel"]) {
  byId("leaves").addEventListener(end, () => {
    if (!held) return;
    held.classList.remove("held");
    held = null;
    const next = [...byId("leaves").children].map((x) => Number(x.dataset.leaf));
    if (next.join() !== byHand(next.length).join()) change({ order: given(next) });
  });
}

// ---- the form

// fill puts what is chosen into the form.
function fill() {
  for (const [name, value] of Object.entries(chosen)) {
    const e = form.elements[name];
    if (!e || document.activeElement === e) continue;
    if (e instanceof RadioNodeList) e.value = value;
    else e.value = String(value);
  }
  for (const e of form.querySelectorAll("input[type=range]")) e.nextElementSibling.textContent = e.value;
  for (const e of form.querySelectorAll("[data-kind]")) e.hidden = !e.dataset.kind.split(" ").includes(chosen.kind);
  byId("bit").querySelectorAll("button").forEach((b) => b.setAttribute("aria-checked", String(Number(b.dataset.bit) === chosen.bit)));
  about();
}

function about() {
  const c = catalog.find((x) => x.id === chosen.cause);
  byId("about").replaceChildren(...(c && chosen.kind === "cause" ? ["symptom", "cause", "cure", "source"].map((k) => [h("dt", {}, k), h("dd", {}, c[k])]).flat() : []));
}

let soon = 0;
// change takes over what was chosen and runs it, once nothing more is changed for a moment.
function change(what) {
  if (what.kind === "order" && chosen.precision === defaults.precision) what.precision = "fp32"; // bf16 rounds most of what an order changes away
  Object.assign(chosen, what);
  if (chosen.kind === "order" && !("order" in what) && ("call" in what || "sum" in what || "phase" in what) && chosen.order.startsWith("given")) chosen.order = "reverse"; // it was another sum's
  offer();
  clearTimeout(soon);
  soon = setTimeout(run, 250);
}

form.addEventListener("change", (e) => {
  const { name, value, type } = e.target;
  if (name === "named") change({ order: value === "by hand" ? given(byHand(here().map((c) => (c.leaves || {})[chosen.sum]).find(Boolean) || 0)) : value });
  else if (name in chosen) change({ [name]: typeof defaults[name] === "number" ? Number(value) : value });
});
form.addEventListener("input", (e) => { if (e.target.type === "range") e.target.nextElementSibling.textContent = e.target.value; });
form.addEventListener("submit", (e) => {
  e.preventDefault();
  clearTimeout(soon);
  run();
});
byId("link").addEventListener("click", () => navigator.clipboard.writeText(toLink()).then(() => { byId("status").textContent = "copied"; }));
addEventListener("hashchange", () => {
  chosen = fromLink();
  offer();
  run();
});

options("cause", []);
offer();
fetch("catalog.json").then((r) => r.json()).then((list) => {
  catalog = list.causes;
  form.elements.cause.replaceChildren(...catalog.map((c) => h("option", { value: c.id }, `${c.part}  ${c.title}`)));
  fill();
});
run();
