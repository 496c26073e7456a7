// The playground of scripts/site.sh: what the program finds as WebAssembly, in Node and in headless Chromium, is what the command finds that the page
// shows, for flips, orders, schedules and causes of the catalog (CAUSES=all: every one; it takes a quarter of an hour); the page works by mouse,
// keyboard and link.
const assert = require("node:assert");
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const { Worker, isMainThread, workerData, parentPort } = require("node:worker_threads");

// ---- one setting in Node, in a thread of its own

async function inThread() {
  const { dist, module, request } = workerData;
  const read = (name) => fs.readFileSync(path.join(dist, name), "utf8");
  (0, eval)(read("fs.js"));
  let trouble = "";
  for (const [name, value] of Object.entries(memoryFS((text) => { trouble += text; }))) Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  (0, eval)(read("wasm_exec.js"));
  const go = new Go();
  globalThis.firstbitRequest = JSON.stringify(request);
  globalThis.firstbitReport = (kind, text) => parentPort.postMessage({ kind, text });
  await go.run(await WebAssembly.instantiate(module, go.importObject));
  for (const id of go._scheduledTimeouts.values()) clearTimeout(id);
  if (trouble) throw new Error(trouble);
}

const inNode = (dist, module, request) => new Promise((resolve, reject) => {
  const thread = new Worker(__filename, { workerData: { dist, module, request }, resourceLimits: { stackSizeMb: 64 } });
  let page = null, wrong = null;
  thread.on("message", ({ kind, text }) => {
    if (kind === "done") page = JSON.parse(text);
    if (kind === "error") wrong = JSON.parse(text);
  });
  thread.on("error", reject);
  thread.on("exit", () => (page ? resolve(page) : reject(new Error(wrong || "the program ended early"))));
});

// ---- the command

// command runs what the page shows; exit 1 says that runs differ.
function command(binary, text) {
  try {
    return JSON.parse(execFileSync("sh", ["-c", text.replace(/^firstbit/, `'${binary}'`).replace(/-o report.html$/, "--json")], { maxBuffer: 1 << 30, stdio: ["ignore", "pipe", "inherit"] }));
  } catch (e) {
    if (e.status !== 1) throw e;
    return JSON.parse(e.stdout);
  }
}

function sameAs(binary, page) {
  assert.deepStrictEqual(page, command(binary, page.command));
  if (!page.runs[0].startsWith("--")) return;
  page.runs.forEach((flags, side) => {
    const steps = command(binary, `firstbit train ${flags} --json`).steps;
    assert.deepStrictEqual(page.steps.map((s) => s.state[side]), steps.map((s) => s.state));
  });
}

const pico = { preset: "pico", precision: "bf16", steps: 4 };
const flip = { faults: ["flip@layers.1.attn.wk step=2 elem=7 bit=3"] };
const raced = { plans: ["logits.dw k:arrival"] };
const settings = {
  "a flip": { ...pico, runs: [{}, flip] },
  "an order": { ...pico, precision: "fp32", runs: [{}, { plans: ["layers.1.attn.wk k:given(15 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14)"] }] },
  "a race over ranks": { ...pico, layout: "dp=2,ep=2", runs: [{ ...raced, schedule: 1 }, { ...raced, schedule: 2 }] },
  "the same bits": { ...pico, runs: [{}, {}] },
};
const some = ["dprob-atomics", "rng-omission"];

async function main() {
  const [dist, binary] = process.argv.slice(2).map((p) => path.resolve(p));
  const fzstd = require(path.join(dist, "fzstd.js"));
  const module = await WebAssembly.compile(fzstd.decompress(new Uint8Array(fs.readFileSync(path.join(dist, "firstbit.wasm.zst")))));
  const causes = process.env.CAUSES === "all" ? JSON.parse(fs.readFileSync(path.join(dist, "catalog.json"))).causes.map((c) => c.id) : some;
  for (const cause of causes) settings["cause " + cause] = { cause, steps: 2, runs: [{}, {}] };
  const wrong = [];
  for (const [name, request] of Object.entries(settings)) {
    const began = Date.now();
    try {
      const page = await inNode(dist, module, request);
      sameAs(binary, page);
      console.log("same bits in Node:", name, `(${((Date.now() - began) / 1000).toFixed(1)} s)`, page.diff.identical ? "identical" : page.diff.first.verdict);
    } catch (e) {
      console.log("DIFFERENT in Node:", name, e.message.split("\n").slice(0, 12).join("\n  "));
      wrong.push(name);
    }
  }
  assert.deepStrictEqual(wrong, []);
  const page = await inNode(dist, module, settings["a flip"]);
  assert.throws(() => sameAs(binary, { ...page, command: page.command.replace("bit=3", "bit=2") }), undefined, "the test cannot fail: another bit");
  await assert.rejects(inNode(dist, module, { ...pico, runs: [{}, { faults: ["flip@layers.1.attn.wx step=2 elem=7 bit=3"] }] }), /layers\.1\.attn\.wk/, "the test cannot fail: no such Call");
  await inChromium(dist, binary);
}

// ---- the page

const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json" };

function serve(dist) {
  const server = http.createServer((q, r) => {
    const name = path.normalize(new URL(q.url, "http://x").pathname).replace(/\/$/, "/index.html");
    fs.readFile(path.join(dist, name), (e, bytes) => {
      r.writeHead(e ? 404 : 200, { "content-type": types[path.extname(name)] || "application/octet-stream" });
      r.end(bytes);
    });
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve(server)));
}

async function inChromium(dist, binary) {
  const { chromium } = require("playwright-core");
  const server = await serve(dist);
  const home = `http://127.0.0.1:${server.address().port}/`;
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
  const errors = [];
  const open = async (hash, width = 1400, scheme = "light") => {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme });
    const page = await context.newPage();
    page.setDefaultTimeout(180000);
    page.on("console", (m) => m.type() === "error" && errors.push(m.text()));
    page.on("pageerror", (e) => errors.push(e.message));
    page.on("request", (r) => r.url().startsWith(home) || r.url().startsWith("data:") || errors.push("asks for " + r.url()));
    await page.goto(home + hash);
    return page;
  };
  const ended = async (page) => {
    await page.waitForFunction(() => document.body.dataset.ended);
    assert.strictEqual(await page.textContent("#error"), "");
    return page.evaluate(() => firstbit.page);
  };
  // again waits for the run that a change starts.
  const again = async (page, act) => {
    await page.evaluate(() => { delete document.body.dataset.ended; });
    await act();
    return ended(page);
  };

  const page = await open("");
  const first = await ended(page);
  console.log("in Chromium:", await page.textContent("#status"));
  sameAs(binary, first);
  await page.click("#to-root");
  assert.match(await page.textContent(".call"), /The root/);

  const other = await again(page, () => page.click('[data-bit="5"]'));
  assert.notStrictEqual(other.bytes.b, first.bytes.b);
  sameAs(binary, other);
  console.log("ok another bit by mouse");

  await again(page, () => page.locator('input[value="order"]').check({ force: true }));
  await page.locator('#leaves li').first().waitFor();
  const moved = await again(page, async () => {
    const [from, to] = [await page.locator("#leaves li").nth(0).boundingBox(), await page.locator("#leaves li").nth(3).boundingBox()];
    await page.mouse.move(from.x + from.width / 2, from.y + from.height / 2);
    await page.mouse.down();
    await page.mouse.move(to.x + to.width / 2, to.y + to.height / 2, { steps: 8 });
    await page.mouse.up();
  });
  const leaves = await page.locator("#leaves li").allTextContents();
  assert.deepStrictEqual(leaves.slice(0, 4), ["14", "13", "12", "15"]);
  assert.match(moved.command, new RegExp(`given\\(${leaves.join(" ")}\\)`));
  const keyed = await again(page, async () => {
    await page.locator("#leaves li").first().focus();
    await page.keyboard.press("End");
  });
  assert.match(keyed.command, / 14\)/);
  sameAs(binary, keyed);
  console.log("ok an order by mouse and keyboard");

  const link = await page.evaluate(() => location.hash);
  const replayed = await ended(await open(link));
  assert.deepStrictEqual(replayed, keyed);
  console.log("ok replayed from a link");

  const raced = await open("#kind=cause&causeSteps=1&cause=dprob-atomics", 800, "dark"); // its kernel has a name of its own
  await ended(raced);
  await raced.click("#to-root");
  assert.match(await raced.textContent(".call"), /The root.*grouped_gemm\.dprob/);
  await raced.context().close();

  const broken = await open("#" + new URLSearchParams({ call: "no.such" }));
  await broken.waitForSelector("#error:not([hidden])");
  assert.match(await broken.textContent("#error"), /no\.such/);
  await broken.context().close();

  const views = { flip: "", order: link, schedule: "#kind=schedule&call=logits.dw&phase=bwd", cause: "#kind=cause&causeSteps=1&cause=dprob-atomics" };
  const shots = process.env.SHOTS ? Object.entries(views) : [["order", link]];
  for (const [name, hash] of shots) {
    for (const width of [360, 800, 1400]) {
      for (const scheme of process.env.SHOTS ? ["light", "dark"] : ["light"]) {
        const view = await open(hash, width, scheme);
        await ended(view);
        const wide = await view.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${name}: the page is ${wide} wide, the screen ${width}`);
        if (process.env.SHOTS) await view.screenshot({ path: path.join(process.env.SHOTS, `play-${name}-${width}-${scheme}.png`), fullPage: true });
        await view.context().close();
      }
    }
  }
  assert.deepStrictEqual(errors, [], "errors of the page");
  console.log("ok three widths");
  await browser.close();
  server.close();
}

(isMainThread ? main() : inThread()).catch((e) => {
  console.error(e);
  process.exit(1);
});
