import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdir, stat } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { downloadAdded, downloadsDir, policyOfBuilds } from "../../src/builds/image/added-downloads.ts";
import { scratch } from "./fixtures.ts";

/** Downloads what `ADD` names from a server of this machine, with the limits of builds. @returns the size of the file. */
async function download(context: TestContext, { path: address, answer }: { path: string; answer: RequestListener }) {
  const server = createServer(answer);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  await using place = await scratch();
  const sourceDir = path.join(place.dir, "source");
  await mkdir(sourceDir);
  const build = { sourceDir, signal: AbortSignal.timeout(60_000), log: { say: () => {} } };
  const dockerfile = `FROM x\nADD http://127.0.0.1:${(server.address() as AddressInfo).port}${address} /file`;
  await downloadAdded(dockerfile, build as never, { ...policyOfBuilds, allowPrivateNetwork: true });
  return (await stat(path.join(sourceDir, downloadsDir, "2", path.basename(address)))).size;
}

test("follows five redirects of a file that a Dockerfile adds by URL, and not a sixth", async (context) => {
  const asked: string[] = [];
  const answer: RequestListener = ({ url = "" }, response) => {
    asked.push(url);
    const left = Number(path.basename(url));
    if (left === 0) response.end("content");
    else response.writeHead(302, { location: `/${left - 1}` }).end();
  };
  assert.equal(await download(context, { path: "/5", answer }), "content".length);
  asked.length = 0;
  const failure = {
    reason: "BuildFailed",
    message: /^'ADD .*\/6 \/file': 127\.0\.0\.1:\d+ redirected more than 5 times\.$/,
  };
  await assert.rejects(download(context, { path: "/6", answer }), failure);
  assert.deepEqual(asked, ["/6", "/5", "/4", "/3", "/2", "/1"]);
});

test("downloads 100 MiB for an instruction, and not a byte more", async (context) => {
  const limit = 100 * 1024 * 1024;
  const piece = Buffer.alloc(1024 * 1024);
  const answer: RequestListener = ({ url = "" }, response) => {
    // Without a length, as of a server that does not know or does not say how much comes.
    for (let sent = 0; sent < limit; sent += piece.length) response.write(piece);
    response.end(url === "/larger" ? "a" : "");
  };
  assert.equal(await download(context, { path: "/largest", answer }), limit);
  const failure = { reason: "BuildFailed", message: /is larger than 104857600 bytes/ };
  await assert.rejects(download(context, { path: "/larger", answer }), failure);
});
