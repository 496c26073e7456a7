// What the page of a report is drawn with, and the playground too. firstbit.show(element, page) draws a page, whose fields are those of
// report.Page; it may be called again as a page grows. Everything can be reached by keyboard, and nothing is told by colour alone.
const firstbit = (() => {
  "use strict";

  // h makes an element: attributes that begin with "on" are listeners, null children are left out.
  function h(tag, attributes = {}, ...children) {
    const svg = ["svg", "path", "text", "rect", "g", "title", "line", "circle"].includes(tag);
    const e = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined && value !== false) e.setAttribute(name, value === true ? "" : value);
    }
    e.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
    return e;
  }

  const phases = { init: "initialisation", fwd: "forward", rec: "recomputation", bwd: "backward", opt: "optimizer", load: "restore" };
  const sum = (list, of) => list.reduce((n, x) => n + of(x), 0);
  const number = (n) => n.toLocaleString("en-US");
  const sides = ["A", "B"];

  // partOf is the layer of a Call, or what stands beside the layers.
  function partOf(name) {
    const words = name.split(".");
    return words.length > 2 && (words[0] === "layers" || words[0] === "mtp") ? words[0] + "." + words[1] : words[0];
  }

  // section is a heading with what stands under it.
  const section = (id, title, ...children) => h("section", { id, "aria-labelledby": id + "-title" }, h("h2", { id: id + "-title" }, title), ...children);

  // flags is a command that breaks between its words, not in them.
  const flags = (text) => h("code", {}, text.split(" ").map((w, i) => [i ? " " : "", h("span", { class: "flag" }, w)]));

  // ---- the heat map

  // shade is from 0, the same bits, to 4, all Calls differ; -1 where there is none. Shades differ in pattern as well as in colour.
  function shade(cell) {
    if (!cell || cell.of === 0) return -1;
    if (cell.differs === 0) return 0;
    return cell.differs === cell.of ? 4 : 1 + Math.floor((3 * cell.differs) / cell.of);
  }

  // rowsOf sums the Calls of a spread up by rows.
  function rowsOf(spread, row) {
    const rows = new Map();
    spread.steps.forEach((step, i) => {
      for (const call of step.calls) {
        const name = row(call);
        if (name === null) continue;
        if (!rows.has(name)) rows.set(name, []);
        const cells = rows.get(name);
        cells[i] = cells[i] || { differs: 0, of: 0 };
        cells[i].differs += call.differs;
        cells[i].of += call.of;
      }
    });
    return rows;
  }

  // heat draws rows over steps. Arrow keys move between its cells, Enter chooses one.
  function heat(spread, rows, chosen, choose) {
    const steps = spread.steps.map((s) => s.step);
    const names = [...rows.keys()];
    const wide = Math.max(17, Math.min(32, Math.floor(640 / steps.length)));
    const table = h("table", { class: "heat", role: "grid", style: `--cell: ${wide}px`, "aria-label": "where bits differ, by row and step" });
    table.append(h("thead", {}, h("tr", {}, h("th", { class: "name", scope: "col" }, "step"),
      steps.map((s) => h("th", { scope: "col", class: s === chosen.step ? "now" : null }, wide > 20 || s % 5 === 0 || s === steps[0] ? String(s) : "")))));
    const body = h("tbody");
    const cells = [];
    names.forEach((name, r) => {
      cells.push([]);
      const row = h("tr", { class: name === chosen.row ? "now" : null }, h("th", { class: "name", scope: "row" },
        h("button", { type: "button", class: "row", title: name, onclick: () => choose(chosen.step, name) }, h("bdi", {}, chosen.within && name.startsWith(chosen.within + ".") ? name.slice(chosen.within.length + 1) : name))));
      steps.forEach((step, i) => {
        const cell = rows.get(name)[i];
        const here = step === chosen.step && name === chosen.row;
        const text = cell ? `step ${step}, ${name}: ${cell.differs} of ${cell.of} differ` : `step ${step}, ${name}: not there`;
        const td = h("td", { class: `s${shade(cell)}${step === chosen.step ? " now" : ""}${here ? " here" : ""}`, role: "gridcell", title: text, "aria-label": text, tabindex: "-1",
          onclick: () => choose(step, name),
          onkeydown: (e) => {
            const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
            if (e.key === "Enter" || e.key === " ") choose(step, name);
            else if (move) focus(r + move[0], i + move[1]);
            else return;
            e.preventDefault();
          } });
        cells[r].push(td);
        row.append(td);
      });
      body.append(row);
    });
    function focus(r, i) {
      const td = cells[r] && cells[r][i];
      if (!td) return;
      for (const row of cells) for (const c of row) c.tabIndex = -1;
      td.tabIndex = 0;
      td.focus();
    }
    const at = [Math.max(0, names.indexOf(chosen.row)), Math.max(0, steps.indexOf(chosen.step))];
    if (cells[at[0]]) cells[at[0]][at[1]].tabIndex = 0;
    table.append(body);
    const box = h("div", { class: "scroll tall" }, table);
    requestAnimationFrame(() => { // what is chosen is in sight
      const td = cells[at[0]] && cells[at[0]][at[1]];
      if (!td) return;
      if (td.offsetLeft + td.offsetWidth > box.clientWidth) box.scrollLeft = td.offsetLeft - box.clientWidth / 2;
      if (td.offsetTop + td.offsetHeight > box.clientHeight) box.scrollTop = td.offsetTop - box.clientHeight / 2;
    });
    return box;
  }

  const legend = () => h("p", { class: "legend" }, [["0", "the same bits"], ["1", "under a third of the Calls differ"], ["2", "under two thirds"], ["3", "more"], ["4", "all"]]
    .map(([s, text]) => h("span", {}, h("i", { class: "s" + s }), text)));

  // ---- trees

  // parseTree reads ((0 1) (2 3)): a leaf is a number, a node a list.
  function parseTree(text) {
    let at = 0;
    function read() {
      if (text[at] !== "(") {
        const from = at;
        while (at < text.length && text[at] !== " " && text[at] !== ")") at++;
        return Number(text.slice(from, at));
      }
      const node = [];
      at++;
      while (text[at] !== ")") {
        if (text[at] === " ") at++;
        else if (text[at] === undefined) throw new Error("a tree that does not end: " + text);
        else node.push(read());
      }
      at++;
      return node;
    }
    return read();
  }

  const leavesOf = (node) => (Array.isArray(node) ? node.flatMap(leavesOf) : [node]);

  // tree draws an order of addition: leaves from above in the order in which they are added, meeting to the right. marked are leaves that stand
  // elsewhere on the other side.
  function tree(text, options = {}) {
    const root = parseTree(text);
    const order = leavesOf(root);
    const line = order.length > 12 ? 18 : 26, left = 92, right = 18;
    const depth = (n) => (Array.isArray(n) ? 1 + Math.max(...n.map(depth)) : 0);
    const deep = Math.max(1, depth(root));
    const across = Math.max(3, Math.min(34, 180 / deep));
    const width = left + deep * across + right;
    const parts = [];
    let row = 0;
    function place(n) {
      if (!Array.isArray(n)) {
        const y = 14 + line * row++;
        const moved = options.marked && options.marked.has(n);
        const label = (options.label || ((i) => "value " + i))(n);
        parts.push(h("text", { x: left - 10, y: y + 5, "text-anchor": "end", class: moved ? "moved" : null }, (moved ? "◆ " : "") + label));
        return { x: left, y };
      }
      const under = n.map(place);
      const x = left + across * depth(n);
      const y = sum(under, (u) => u.y) / under.length;
      for (const u of under) parts.push(h("path", { d: `M${u.x} ${u.y}H${x}`, class: "branch" }));
      parts.push(h("path", { d: `M${x} ${Math.min(...under.map((u) => u.y))}V${Math.max(...under.map((u) => u.y))}`, class: "branch" }));
      parts.push(h("circle", { cx: x, cy: y, r: Math.min(4, across / 3), class: "node" }));
      return { x, y };
    }
    const top = place(root);
    parts.push(h("path", { d: `M${top.x} ${top.y}h12`, class: "branch" }));
    const height = 14 + line * (row - 1) + 16;
    return h("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", class: "tree", "aria-label": `added as ${text}` }, h("title", {}, text), parts);
  }

  const drawable = 64;

  // trees draws the sum on both sides.
  function trees(s) {
    const orders = s.tree.map((t) => (t ? leavesOf(parseTree(t)) : null));
    const marked = new Set();
    if (orders[0] && orders[1]) orders[0].forEach((leaf, i) => { if (orders[1][i] !== leaf) marked.add(leaf); });
    const same = s.tree[0] === s.tree[1] && s.order[0] === s.order[1];
    const figures = sides.slice(0, same && s.tree[0] ? 1 : 2).map((side, i) => {
      const came = s.came[i];
      const walked = new Set(s.walked[i] || []);
      const label = (leaf) => (came ? "part " : "value ") + leaf + (walked.has(leaf) ? " ←" : "");
      let picture = h("p", { class: "note" }, "how many values it adds was not recorded");
      if (s.tree[i] && orders[i].length <= drawable) picture = h("div", { class: "scroll" }, tree(s.tree[i], { marked, label }));
      else if (s.tree[i]) picture = h("p", { class: "text" }, `${number(orders[i].length)} values: ${s.tree[i].slice(0, 300)}…`);
      return h("figure", { "data-side": side }, h("figcaption", {}, h("b", {}, same && s.tree[0] ? "both runs" : "run " + side), " ", h("code", {}, s.order[i]),
        came && came.length ? h("span", { class: "came" }, "arrived: ", came.join(", ")) : null), picture);
    });
    return [h("p", {}, `Sum `, h("code", {}, s.name), s.leaves ? ` of ${number(s.leaves)} contributions` : "", same ? ": both runs add in one order." :
      ": the runs add in different orders.", marked.size ? " ◆ marks what is added at another place." : "",
      s.walked.some((w) => w && w.length) ? " ← marks parts whose own values were added from the end." : ""), h("div", { class: "two" }, figures)];
  }

  // ---- bits

  // fields of a format: sign, exponent, fraction.
  const fields = { fp64: [1, 11, 52], fp32: [1, 8, 23], bf16: [1, 8, 7], fp16: [1, 5, 10], e4m3: [1, 4, 3], e5m2: [1, 5, 2], e2m1: [1, 2, 1], e8m0: [0, 8, 0], int32: [0, 0, 32] };

  function bits(b, dtype) {
    const width = 4 * b.a.length;
    const [sign, exponent] = fields[dtype] && sum(fields[dtype], (n) => n) === width ? fields[dtype] : [0, 0];
    const of = (hex) => BigInt("0x" + hex).toString(2).padStart(width, "0");
    const both = [of(b.a), of(b.b)];
    const field = (i) => (sign + exponent === 0 ? "bits" : i < sign ? "sign" : i < sign + exponent ? "exponent" : "fraction");
    const groups = [];
    for (let i = 0; i < width; i++) {
      if (!groups.length || groups[groups.length - 1].name !== field(i)) groups.push({ name: field(i), at: [] });
      groups[groups.length - 1].at.push(i);
    }
    const rows = sides.map((side, s) => h("div", { class: "bitrow", role: "group", "aria-label": `run ${side}: ${both[s]}` },
      h("span", { class: "side" }, side, " ", h("code", {}, s ? b.b : b.a)),
      groups.map((g) => h("span", { class: "field " + g.name }, h("small", {}, g.name), h("span", { class: "cells" },
        g.at.map((i) => h("span", { class: "bit" + (both[0][i] !== both[1][i] ? " other" : ""), title: `bit ${width - 1 - i}` }, both[s][i]))))),
      h("span", { class: "value" }, s ? b.value_b : b.value_a)));
    return [h("p", {}, h("code", {}, `${b.output}[${b.element}]`), dtype ? ` (${dtype})` : "", `, ${number(b.ulps)} ulp apart; ${number(b.count)} of ${number(b.of)} elements differ. Boxed digits differ.`),
      h("div", { class: "bits" }, rows)];
  }

  // ---- routes

  // scores draws those of every expert on one side: chosen ones are filled, and K stands under them.
  function scores(values, experts, highest) {
    const w = 14, height = 34;
    return h("svg", { width: w * values.length, height: height + 14, viewBox: `0 0 ${w * values.length} ${height + 14}`, role: "img", class: "scores", "aria-label": `experts ${experts.join(", ")}` },
      values.map((v, i) => {
        const tall = Math.max(1, Math.min(height, (height * v) / highest));
        return [h("rect", { x: i * w + 2, y: height - tall, width: w - 4, height: tall, class: experts.includes(i) ? "chosen" : "left" }, h("title", {}, `expert ${i}: ${v}`)),
          h("text", { x: i * w + w / 2, y: height + 11, "text-anchor": "middle", class: experts.includes(i) ? "chosen" : null }, String(i))];
      }).flat());
  }

  function routes(r, step, most, more) {
    if (r.flips === 0) return [h("p", {}, `No token takes another route: ${number(r.of)} routes are the same.`)];
    const here = r.first.filter((f) => f.step === step);
    const shown = (here.length ? here : r.first).slice(0, most);
    const total = (here.length ? here : r.first).length;
    const head = [h("p", {}, `${number(r.flips)} of ${number(r.of)} routes flip, the first at step ${r.first[0].step}. `, here.length ? `Those of step ${step}:` : `None of the first ${r.first.length} is of step ${step}; the first ones:`)];
    return head.concat(h("div", { class: "cards" }, shown.map((f) => {
      const highest = Math.max(...f.scores.flat(), 1e-9);
      return h("article", { class: "card" }, h("h3", {}, `step ${f.step}, token ${f.token}`), h("p", { class: "where" }, f.layer, f.rank ? `, rank ${f.rank}` : ""),
        h("div", { class: "two" }, sides.map((side, i) => h("figure", {}, h("figcaption", {}, h("b", {}, side), " experts ", f.experts[i].join(", ")), scores(f.scores[i], f.experts[i], highest)))),
        h("p", { class: "note" }, `margin ${number(f.margin_ulps)} ulp in run A; run B moved it by ${number(f.moved_ulps)}`));
    })), total > most ? h("p", {}, h("button", { type: "button", "data-focus": "more", onclick: more }, `${Math.min(total - most, 12)} more`)) : null);
  }

  // ---- the loss

  function chart(page, state, choose) {
    const box = h("div", { class: "chart" });
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const data = [page.steps.map((s) => s.step), page.steps.map((s) => s.loss[0].value), page.steps.map((s) => s.loss[1].value)];
    const axis = (more) => ({ stroke: colour("--text"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") }, font: "12px system-ui", ...more });
    let plot = null;
    const draw = () => {
      if (plot || !box.isConnected || typeof uPlot === "undefined") return;
      plot = new uPlot({ width: Math.max(200, box.clientWidth), height: 180, scales: { x: { time: false } }, legend: { show: false }, cursor: { drag: { x: false, y: false } },
        axes: [axis({ incrs: [1, 2, 5, 10, 20, 50, 100], size: 30 }), axis({ size: 48 })],
        series: [{}, { label: "A", stroke: colour("--a"), width: 3, points: { show: false } }, { label: "B", stroke: colour("--b"), width: 2, dash: [6, 4], points: { show: false } }],
        hooks: { draw: [(u) => {
          const x = Math.round(u.valToPos(state.step, "x", true));
          u.ctx.save();
          u.ctx.strokeStyle = colour("--text");
          u.ctx.beginPath();
          u.ctx.moveTo(x, u.bbox.top);
          u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
          u.ctx.stroke();
          u.ctx.restore();
        }] } }, data, box);
      plot.over.addEventListener("click", () => { if (plot.cursor.idx !== null) choose(data[0][plot.cursor.idx]); });
      new ResizeObserver(() => plot.setSize({ width: Math.max(200, box.clientWidth), height: 180 })).observe(box);
    };
    requestAnimationFrame(draw);
    return box;
  }

  // losses are those of a step, with the hexadecimal digits marked that differ.
  function losses(s) {
    const marked = (text, other) => [...text].map((c, i) => (c === other[i] ? c : h("mark", {}, c)));
    return h("table", { class: "plain" }, h("tbody", {}, sides.map((side, i) => h("tr", {}, h("th", { scope: "row" }, h("span", { class: "key " + side }), "run " + side),
      h("td", {}, s.loss[i].value === null ? "—" : s.loss[i].bits.length > 8 ? String(s.loss[i].value) : String(Number(s.loss[i].value.toPrecision(9)))), h("td", {}, h("code", {}, marked(s.loss[i].bits, s.loss[1 - i].bits))),
      s.state[i] ? h("td", { class: "digest" }, h("code", { title: "digest of all state: " + s.state[i] }, marked(s.state[i].slice(0, 12), s.state[1 - i].slice(0, 12)), "…")) : null))));
  }

  // ---- a Call

  function tensor(t) {
    const digest = (d) => h("code", { title: d }, d.slice(0, 12));
    return h("tr", { class: t.b ? "other" : null }, h("th", { scope: "row" }, t.name), h("td", {}, `${t.dtype} ${t.shape.join("×")}`),
      h("td", {}, t.b ? "≠ differs" : "= same"), h("td", { class: "digest" }, digest(t.a), t.b ? [" | ", digest(t.b)] : null), h("td", { class: "from" }, t.from ? "← " + t.from : ""));
  }

  const tensors = (title, list) => h("div", { class: "scroll" }, h("table", { class: "plain tensors" }, h("caption", {}, title), h("tbody", {}, list.map(tensor))));

  // where says on which ranks, where there are several.
  function where(calls) {
    const ranks = calls.filter((c) => c.differs > 0).map((c) => c.rank);
    if (calls.length < 2 || !ranks.length) return "";
    return `, on rank${ranks.length > 1 ? "s" : ""} ${ranks.slice(0, 8).join(", ")}${ranks.length > 8 ? " …" : ""}`;
  }

  function callPanel(page, state, name) {
    const step = page.spread.steps.find((s) => s.step === state.step);
    const of = step ? step.calls.filter((c) => c.name === name) : [];
    const root = rootOf(page);
    const panel = h("div", { class: "call", "data-call": name }, h("h3", {}, h("code", {}, name)));
    panel.append(h("p", {}, of.length ? `Step ${state.step}: ${sum(of, (c) => c.differs)} of ${sum(of, (c) => c.of)} records differ${where(of)}.` : `Not in step ${state.step}.`));
    if (root && state.step === root.step && name === root.name) {
      panel.append(h("p", { class: "root" }, h("b", {}, isRoot(page.diff.first) ? "◆ The root. " : "◆ Here the runs part. "), page.diff && page.diff.first ? `Verdict ${page.diff.first.verdict}` : "", root.inner ? [", in its kernel ", h("code", {}, root.inner)] : "", ". ",
        page.sum ? h("a", { href: "#sum" }, "its sum") : null, " ", page.bytes ? h("a", { href: "#bits" }, "its bits") : null));
    }
    const records = state.step === state.detailed ? page.calls.filter((c) => c.path === name) : [];
    if (!records.length) panel.append(h("p", { class: "note" }, `What Calls read and wrote is shown for step ${state.detailed}.`));
    for (const c of records) {
      panel.append(h("h4", {}, `${phases[c.phase] || c.phase}, ${c.kind}`, c.microbatch ? `, microbatch ${c.microbatch}` : ""));
      if (c.plan[0] || c.plan[1]) panel.append(c.plan[0] === c.plan[1] ? h("p", {}, "plan ", h("code", {}, c.plan[0])) : h("p", {}, "plan A ", h("code", {}, c.plan[0]), h("br"), "plan B ", h("code", {}, c.plan[1] || "—")));
      if (c.in.length) panel.append(tensors("reads", c.in));
      if (c.out.length) panel.append(tensors("writes", c.out));
    }
    return panel;
  }

  // rootOf is where drilling ends: the Call that has the root. Its kernel may have a name of its own: then it is what was found at op level, or
  // else the first Call that wrote other bits from the same.
  function rootOf(page) {
    const f = page.diff && page.diff.first;
    if (!f) return null;
    const path = (x) => [x.scope, x.name].filter(Boolean).join(".");
    const step = page.spread.steps.find((s) => s.step === f.iteration);
    const known = (name) => step && step.calls.some((c) => c.name === name);
    const op = (page.diff.levels || []).find((l) => l.level === "op" && l.first);
    const wrote = page.calls.find((c) => c.differs && c.phase === f.phase && !c.in.some((t) => t.b));
    const name = [path(f), op && path(op.first), wrote && wrote.path].find((n) => n && known(n)) || "";
    return { step: f.iteration, name, inner: name === path(f) ? "" : path(f), phase: f.phase };
  }

  // isRoot tells whether a verdict names what went wrong; else it lies deeper or elsewhere.
  const isRoot = (f) => !["narrow", "downstream", "unresolved", "blind-spot", "outside-window"].includes(f.verdict);

  // ---- the page

  function show(element, page, state = element.state) {
    const first = page.diff && page.diff.first;
    const root = rootOf(page);
    const parting = page.spread.steps.find((s) => s.calls.some((c) => c.differs > 0));
    state = state || { step: root ? root.step : parting ? parting.step : Math.max(1, page.spread.steps[0].step), part: null, call: null };
    state.detailed = first ? first.iteration : parting ? parting.step : 1;
    element.state = state;
    const again = (change) => {
      Object.assign(state, change);
      const at = document.activeElement && document.activeElement.closest("[data-focus]");
      const focus = at && at.dataset.focus;
      show(element, page, state);
      const back = focus && element.querySelector(`[data-focus="${focus}"]`);
      if (back) back.focus();
    };

    const steps = page.spread.steps.map((s) => s.step);
    const here = page.steps.find((s) => s.step === state.step);
    const slider = h("label", { class: "slider" }, h("span", {}, "step ", h("output", {}, String(state.step))),
      h("input", { type: "range", min: steps[0], max: steps[steps.length - 1], value: state.step, "data-focus": "slider", oninput: (e) => again({ step: Number(e.target.value) }) }));

    const crumbs = h("nav", { class: "crumbs", "aria-label": "where in the run" }, [
      ["run", () => again({ part: null, call: null })], [`step ${state.step}`, () => again({ part: null, call: null })],
      state.part ? [state.part, () => again({ call: null })] : null, state.call ? [state.call, () => {}] : null].filter(Boolean)
      .map(([text, go], i) => [i ? h("span", { class: "sep", "aria-hidden": "true" }, "›") : null, h("button", { type: "button", onclick: go }, text)]));

    let picture = null;
    if (!state.part) picture = heat(page.spread, rowsOf(page.spread, (c) => partOf(c.name)), { step: state.step, row: null }, (step, part) => again({ step, part, call: null }));
    else picture = heat(page.spread, rowsOf(page.spread, (c) => (partOf(c.name) === state.part ? c.name : null)), { step: state.step, row: state.call, within: state.part }, (step, call) => again({ step, call }));

    const ranks = rowsOf(page.spread, (c) => "rank " + c.rank);
    const toRoot = root && root.name ? h("button", { type: "button", class: "go", id: "to-root", onclick: () => again({ step: root.step, part: partOf(root.name), call: root.name }) }, isRoot(first) ? "Go to the root" : "Go to where they part") : null;

    const parts = [h("header", {}, h("h1", {}, h("span", { class: first ? "mark other" : "mark", "aria-hidden": "true" }, first ? "≠" : page.diff ? "=" : "…"), page.sentence || "Comparing the runs…"),
      h("dl", { class: "facts" }, sides.map((side, i) => [h("dt", {}, h("span", { class: "key " + side }), "run " + side), h("dd", {}, flags(page.runs[i]))]).flat(),
        page.command ? [h("dt", {}, "this page"), h("dd", {}, flags(page.command))] : null,
        first ? [h("dt", {}, "verdict"), h("dd", { id: "verdict" }, [first.verdict, page.diff.class, page.diff.pattern, page.diff.action].filter(Boolean).join(" · "))] : null,
        page.diff ? [h("dt", {}, "compared"), h("dd", {}, `${number(page.diff.records)} records over ${page.diff.steps} step${page.diff.steps === 1 ? "" : "s"}`)] : null,
        page.diff && page.diff.config_differences.length ? [h("dt", {}, "configured"), h("dd", {}, page.diff.config_differences.map((d) => h("div", {}, h("code", {}, `${d.field}: ${d.a} | ${d.b}`))))] : null))];

    parts.push(section("steps", "Step by step", slider, here ? losses(here) : h("p", { class: "note" }, "The loss of this step was not recorded."), page.steps.length > 1 ? chart(page, state, (step) => again({ step })) : null));
    const side = state.call ? callPanel(page, state, state.call) : h("p", { class: "note" }, state.part ? "Choose a Call." : "Choose a cell: a layer, or what stands beside the layers, at a step.");
    parts.push(section("spread", "Where bits differ", h("div", { class: "bar" }, crumbs, toRoot), h("div", { class: "beside" }, h("div", { class: "map" }, picture, legend(),
      ranks.size > 1 && !state.part ? h("details", { open: state.ranks, ontoggle: (e) => { state.ranks = e.target.open; } }, h("summary", {}, `by rank (${ranks.size})`), heat(page.spread, ranks, { step: state.step, row: null }, (step) => again({ step }))) : null),
      h("div", { class: "aside" }, side))));
    if (page.sum) parts.push(section("sum", "The two orders of addition", trees(page.sum)));
    if (page.bytes) parts.push(section("bits", "The bits of the first element", bits(page.bytes, dtypeOf(page, root))));
    if (page.chain.length) {
      parts.push(section("chain", "From the root to the loss", h("ol", { class: "chain" }, stretches(page.chain).map((c, i) => h("li", {}, h("button", { type: "button", disabled: c.kind === "metric", onclick: () => { again({ step: c.step, part: partOf(c.path), call: c.path }); document.getElementById("spread").scrollIntoView(); } }, c.path),
        h("small", {}, ` ${phases[c.phase] || c.phase} of step${c.last > c.step ? "s" : ""} ${c.step}${c.last > c.step ? " to " + c.last : ""}`, c.input ? `, by ${c.input}` : i ? "" : ", the first that differs"))))));
    }
    if (page.routes) parts.push(section("routes", "Tokens that take another route", routes(page.routes, state.step, state.routes || 6, () => again({ routes: (state.routes || 6) + 12 }))));
    if (page.missing.length) parts.push(section("missing", "Not shown", h("ul", {}, page.missing.map((m) => h("li", {}, m)))));
    element.replaceChildren(...parts);
  }

  // stretches joins what one Call passes on to itself from step to step.
  function stretches(chain) {
    const list = [];
    for (const c of chain) {
      const last = list[list.length - 1];
      if (last && last.path === c.path && last.phase === c.phase) last.last = c.step;
      else list.push({ ...c, last: c.step });
    }
    return list;
  }

  // dtypeOf is that of the output whose bits are shown.
  function dtypeOf(page, root) {
    const call = root && page.calls.find((c) => c.path === root.name && c.out.some((t) => t.name === page.bytes.output));
    const out = call && call.out.find((t) => t.name === page.bytes.output);
    return out ? out.dtype : "";
  }

  return { show, h, flags, tree, parseTree, leavesOf, trees, bits, partOf, rootOf };
})();
