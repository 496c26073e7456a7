// Reads the runs of learn.sh and prints two tables: final losses, and the load of the hybrid's experts over steps.
const fs = require("fs");
const [dir] = process.argv.slice(2);
const read = (name, seed) => JSON.parse(fs.readFileSync(`${dir}/${name}.${seed}.json`));
const last = 20; // steps that a final loss is the mean of

const mean = (x) => x.reduce((a, b) => a + b, 0) / x.length;
const final = (r) => mean(r.steps.slice(-last).map((s) => s.metrics.lm_loss.value));

console.log("| layers | parameters | lm_loss, seed 1 | seed 2 | seed 3 | mean | of the unigram entropy |");
console.log("|---|---|---|---|---|---|---|");
for (const name of ["hybrid", "attention", "mamba"]) {
  const runs = [1, 2, 3].map((seed) => read(name, seed));
  const losses = runs.map(final), m = runs[0].config.model;
  console.log(`| \`${m.pattern}\` | ${runs[0].parameters} | ${losses.map((l) => l.toFixed(4)).join(" | ")} | ${mean(losses).toFixed(4)} | ${(mean(losses) / runs[0].unigram_entropy).toFixed(3)} |`);
}

const hybrid = read("hybrid", 1);
const layers = Object.keys(hybrid.steps[0].experts);
const at = [1, 10, 50, 100, 200, 300].filter((s) => s <= hybrid.steps.length);
console.log();
console.log(`| tokens of each expert, seed 1 | ${at.map((s) => `step ${s}`).join(" | ")} |`);
console.log(`|---|${at.map(() => "---").join("|")}|`);
for (const layer of layers) {
  console.log(`| ${layer} | ${at.map((s) => hybrid.steps[s - 1].experts[layer].join(" ")).join(" | ")} |`);
}
