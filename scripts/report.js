// The pages of scripts/report.sh in headless Chromium: no error, no request, drilling by keyboard reaches the root, and the numbers are those of
// the command.
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");

const dir = process.argv[2];
const json = (name) => JSON.parse(fs.readFileSync(path.join(dir, name)));
const number = (n) => n.toLocaleString("en-US");

// open loads a page that must get along by itself, and hands it to check.
async function open(browser, file, view, check) {
  const context = await browser.newContext({ viewport: { width: view.width, height: 900 }, colorScheme: view.scheme });
  const page = await context.newPage();
  const errors = [];
  page.on("console", (m) => m.type() === "error" && errors.push(m.text()));
  page.on("pageerror", (e) => errors.push(e.message));
  page.on("request", (r) => /^(file|data):/.test(r.url()) || errors.push("asks for " + r.url()));
  await page.goto("file://" + file);
  await page.waitForSelector("main h1");
  const result = await check(page);
  assert.deepStrictEqual(errors, [], "errors of the page");
  await context.close();
  return result;
}

// drill goes from the run to the root by keyboard alone: to its step, its layer, its Call.
async function drill(page, step, call) {
  const layer = await page.evaluate((name) => firstbit.partOf(name), call);
  for (const row of [layer, call]) {
    const cell = page.locator(`table.heat td[aria-label^="step ${step}, ${row}:"]`).first();
    const start = page.locator('table.heat td[tabindex="0"]').first();
    await start.focus();
    const [from, to] = await Promise.all([start, cell].map((c) => c.evaluate((td) => [td.parentElement.rowIndex, td.cellIndex])));
    for (let i = 0; i < Math.abs(to[0] - from[0]); i++) await page.keyboard.press(to[0] > from[0] ? "ArrowDown" : "ArrowUp");
    for (let i = 0; i < Math.abs(to[1] - from[1]); i++) await page.keyboard.press(to[1] > from[1] ? "ArrowRight" : "ArrowLeft");
    await page.keyboard.press("Enter");
  }
  assert.strictEqual(await page.getAttribute(".call", "data-call"), call);
  assert.match(await page.textContent(".call"), /The root/);
}

// holds compares what the page shows with what the command says.
async function holds(page, want) {
  const data = JSON.parse(await page.textContent("#data"));
  assert.deepStrictEqual(data.diff, want.diff);
  if (want.spread) assert.deepStrictEqual(data.spread, want.spread);
  const first = want.diff.first;
  const text = await page.textContent("main");
  for (const shown of [`${number(want.diff.records)} records`, first.verdict, want.diff.class, want.diff.action, `step ${first.iteration}`]) assert.ok(text.includes(shown), "shows " + shown);
  assert.strictEqual(await page.inputValue("input[type=range]"), String(first.iteration));
  if (want.diff.bytes) {
    for (const [i, side] of ["a", "b"].entries()) {
      const cells = await page.locator(`.bitrow >> nth=${i}`).locator(".bit").allTextContents();
      assert.strictEqual(BigInt("0b" + cells.join("")), BigInt("0x" + want.diff.bytes[side]));
    }
    const other = BigInt("0x" + want.diff.bytes.a) ^ BigInt("0x" + want.diff.bytes.b);
    assert.strictEqual(await page.locator(".bitrow >> nth=0").locator(".bit.other").count(), other.toString(2).replaceAll("0", "").length);
  }
  const root = await page.evaluate(() => firstbit.rootOf(JSON.parse(document.getElementById("data").textContent)));
  assert.strictEqual(root.inner || root.name, [first.scope, first.name].filter(Boolean).join("."));
  await drill(page, first.iteration, root.name);
}

// views are looked at for what does not fit.
async function fits(page) {
  const [wide, screen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide <= screen, `the page is ${wide} wide, the screen ${screen}`);
}

async function main() {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking"] });
  const wide = { width: 1400, scheme: "light" };
  const cause = json("cause.reproduce.json").results[0];
  const pages = { traces: { diff: json("traces.diff.json"), spread: json("traces.spread.json") }, pair: { diff: json("pair.diff.json") } };
  for (const [name, want] of Object.entries(pages)) {
    await open(browser, path.join(dir, name + ".html"), wide, (page) => holds(page, want));
    console.log("ok", name);
  }
  await open(browser, path.join(dir, "cause.html"), wide, async (page) => {
    const data = JSON.parse(await page.textContent("#data"));
    assert.deepStrictEqual(data.diff.first, cause.fault.root);
    assert.deepStrictEqual(data.diff.bytes, cause.fault.bytes);
    assert.strictEqual(data.routes.flips, cause.routes.flips);
    assert.strictEqual(await page.locator("#sum svg.tree").count(), 2);
    assert.strictEqual(data.chain.at(-1).path, "loss");
    await holds(page, { diff: data.diff });
    await page.locator("input[type=range]").focus();
    for (let step = data.diff.first.iteration; step < cause.routes.first_step; step++) await page.keyboard.press("ArrowRight");
    assert.match(await page.textContent("#routes"), new RegExp(`Those of step ${cause.routes.first_step}:`));
    assert.match(await page.textContent("#routes"), new RegExp(`margin ${number(cause.routes.first.margin_ulps)} ulp`));
  });
  console.log("ok", "cause");

  for (const name of ["traces", "cause"]) {
    for (const width of [360, 800, 1400]) {
      for (const scheme of ["light", "dark"]) {
        await open(browser, path.join(dir, name + ".html"), { width, scheme }, async (page) => {
          await page.click("#to-root");
          await fits(page);
          if (process.env.SHOTS) await page.screenshot({ path: path.join(process.env.SHOTS, `${name}-${width}-${scheme}.png`), fullPage: true });
        });
      }
    }
  }
  console.log("ok", "three widths, light and dark");

  // Negative controls: a number that is another, an error, a request, a line that does not fit.
  const html = fs.readFileSync(path.join(dir, "pair.html"), "utf8");
  const spoiled = { number: html.replace(/"records":(\d+)/, (_, n) => `"records":${Number(n) + 1}`), error: html.replace("</body>", "<script>throw new Error('spoiled')</script></body>"),
    request: html.replace("</body>", '<img src="http://127.0.0.1:9/x.png" alt=""></body>') };
  for (const [what, text] of Object.entries(spoiled)) {
    assert.notStrictEqual(text, html);
    const file = path.join(dir, what + ".html");
    fs.writeFileSync(file, text);
    await assert.rejects(open(browser, file, wide, (page) => holds(page, pages.pair)), undefined, "the test cannot fail: " + what);
  }
  await open(browser, path.join(dir, "pair.html"), wide, async (page) => {
    await page.evaluate(() => document.body.append(firstbit.h("div", { style: "width: 3000px; height: 1px" })));
    await assert.rejects(fits(page), undefined, "the test cannot fail: width");
  });
  console.log("ok", "four negative controls");
  await browser.close();
}

main().catch((e) => {
  console.error(e);
  process.exit(1);
});
