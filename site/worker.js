// Runs the trainer. It is given the compiled module and, one after another, settings; it sends back what the program reports.
"use strict";
importScripts("fs.js", "wasm_exec.js");

const trouble = [];
Object.assign(globalThis, memoryFS((text) => trouble.push(text)));

onmessage = async (e) => {
  const { module, request } = e.data;
  const go = new Go();
  globalThis.firstbitRequest = JSON.stringify(request);
  globalThis.firstbitReport = (kind, text) => postMessage({ kind, text });
  try {
    await go.run(await WebAssembly.instantiate(module, go.importObject));
  } catch (err) {
    trouble.push(String(err));
  }
  for (const id of go._scheduledTimeouts.values()) clearTimeout(id); // they would wake a program that has ended
  postMessage({ kind: "end", text: trouble.join("") });
};
