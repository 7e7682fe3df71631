import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const program = fileURLToPath(new URL("../../src/main.ts", import.meta.url));

/** Runs one API call that writes to a closed stderr. */
async function callWithNobodyReading(url: string, where: string) {
  const args = [program, "api", "GET", where, "--verbose", "--url", url];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "pipe"] });
  child.stderr.destroy();
  const [stdout, [code]] = await Promise.all([text(child.stdout), once(child, "exit")]);
  return { stdout, code };
}

test("finishes with its own exit code after stderr is closed", async () => {
  const server = createServer((request, response) => {
    response.writeHead(request.url === "/refused" ? 403 : 200, { "content-type": "application/json" }).end("{}");
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    assert.deepEqual(await callWithNobodyReading(url, "/v2/deployments"), { stdout: "{}\n", code: 0 });
    assert.deepEqual(await callWithNobodyReading(url, "/refused"), { stdout: "", code: 4 });
  } finally {
    server.close();
  }
});
