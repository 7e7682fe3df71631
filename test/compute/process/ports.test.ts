import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { Ports } from "../../../src/compute/process/system/ports.ts";

test("the port of a server that has exited is not reused for 9,000 starts", async () => {
  const ports = new Ports();
  const given = new Set<number>();
  for (let start = 0; start < 9_000; start++) {
    const port = await ports.take();
    assert.ok(!given.has(port), `${port} was given again after ${given.size} starts`);
    given.add(port);
    ports.release(port);
  }
});

test("no port is handed out that is ephemeral, in use, already handed out or reserved", async () => {
  const { ports, first } = await farFromTheEnd();
  const listening = createServer();
  await once(listening.listen(first + 2, "127.0.0.1"), "listening");
  ports.reserve(first + 3);
  ports.release(first);
  const next = [await ports.take(), await ports.take(), await ports.take()];
  listening.close();
  assert.ok(!next.includes(first + 2) && !next.includes(first + 3), `${first}, then ${next}`);
  assert.ok(
    next.every((port) => port > first && port < 30_000),
    `${first}, then ${next}`,
  );
});

test("bind errors other than a taken port are reported instead of trying all 10,000 ports", {
  skip: process.platform === "win32" && "no shell",
}, () => {
  const module = JSON.stringify(new URL("../../../src/compute/process/system/ports.ts", import.meta.url).href);
  const program = `
    const { openSync } = await import("node:fs");
    const { Ports } = await import(${module});
    const ports = new Ports();
    try { for (;;) openSync("/dev/null"); } catch {}
    await ports.take().then(console.log, (error) => console.log(error.code, error.message));
  `;
  const argv = ["-c", 'ulimit -n 64 && exec "$0" --input-type=module -e "$1"', process.execPath, program];
  const { stdout, stderr } = spawnSync("sh", argv, { encoding: "utf8", timeout: 60_000 });
  assert.match(stdout, /^EMFILE /, stderr);
});

/** After the end of the range the sequence starts again. */
async function farFromTheEnd() {
  for (;;) {
    const ports = new Ports();
    const first = await ports.take();
    if (first < 29_900) return { ports, first };
  }
}
