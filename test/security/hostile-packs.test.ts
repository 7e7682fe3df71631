import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { deflateSync } from "node:zlib";
import { fetchCommit, resolveRef } from "../../src/integrations/git.ts";
import { findFile } from "../../src/integrations/git-tree.ts";
import { gitRepository, scratch } from "../builds/fixtures.ts";

const hash = (type: string, body: Buffer) =>
  createHash("sha1").update(`${type} ${body.length}\0`).update(body).digest();

/** Bytes of seven bits each, as packs store sizes. */
function sizeOf(value: number): Buffer {
  const bytes = [];
  for (let left = value; bytes.length === 0 || left > 0; left = Math.floor(left / 128)) bytes.push((left % 128) | 128);
  return Buffer.from(bytes.map((byte, at) => (at === bytes.length - 1 ? byte & 127 : byte)));
}

function entry(type: number, size: number, content: Buffer): Buffer {
  const rest = size < 16 ? Buffer.alloc(0) : sizeOf(Math.floor(size / 16));
  return Buffer.concat([Buffer.from([(type << 4) | (size % 16) | (rest.length > 0 ? 128 : 0)]), rest, content]);
}

const packed = (type: number, body: Buffer, level = 9) => entry(type, body.length, deflateSync(body, { level }));
const packHead = (count: number) =>
  Buffer.from([...Buffer.from("PACK"), 0, 0, 0, 2, ...[24, 16, 8, 0].map((by) => (count >> by) & 255)]);

const tree = Buffer.alloc(0);
const commit = Buffer.from(
  `tree ${hash("tree", tree).toString("hex")}\nauthor a <a@b> 1700000000 +0000\ncommitter a <a@b> 1700000000 +0000\n\nx\n`,
);
const commitSha = hash("commit", commit).toString("hex");

const line = (content: string | Buffer) => {
  const bytes = Buffer.from(content as string);
  return Buffer.concat([Buffer.from((bytes.length + 4).toString(16).padStart(4, "0")), bytes]);
};
const band = (bytes: Buffer) => line(Buffer.concat([Buffer.from([1]), bytes]));

/** Runs `act` with the URL of a code host that answers each fetch with a pack of its own. */
async function withHost<T>(
  send: (response: ServerResponse) => void,
  act: (repoUrl: string) => Promise<T>,
  refs = line(`${commitSha} refs/heads/main\n`),
): Promise<T> {
  const host = createServer(async (request, response) => {
    let asked = "";
    for await (const chunk of request) asked += String(chunk);
    const isFirst = request.url?.includes("info/refs") === true;
    response.setHeader("content-type", `application/x-git-upload-pack-${isFirst ? "advertisement" : "result"}`);
    const features = ["version 2\n", "ls-refs=unborn\n", "fetch=shallow filter\n"].map(line);
    if (isFirst)
      return void response.end(
        Buffer.concat([line("# service=git-upload-pack\n"), Buffer.from("0000"), ...features, Buffer.from("0000")]),
      );
    if (asked.includes("command=ls-refs")) return void response.end(Buffer.concat([refs, Buffer.from("0000")]));
    if (asked.includes("deepen"))
      response.write(Buffer.concat([line("shallow-info\n"), line(`shallow ${commitSha}`), Buffer.from("0001")]));
    response.write(line("packfile\n"));
    send(response);
  });
  host.listen(0, "127.0.0.1");
  await once(host, "listening");
  try {
    return await act(`http://127.0.0.1:${(host.address() as AddressInfo).port}/acme/bot`);
  } finally {
    host.close();
    host.closeAllConnections();
  }
}

const calls = (repoUrl: string) => {
  const remote = { repoUrl, credential: null, allowLocal: false, allowPrivateNetwork: true, timeoutMs: 60_000 };
  const signal = AbortSignal.timeout(120_000);
  return [
    () => resolveRef({ ...remote, signal, ref: commitSha }),
    () => resolveRef({ ...remote, signal, ref: commitSha.slice(0, 8) }),
    () => findFile({ ...remote, signal, commitSha, file: "langgraph.json" }),
  ];
};

/** Memory of the largest git that this process has started, in MiB. */
function largestGitMib(): number {
  const statuses = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/status`, "utf8");
      } catch {
        return "";
      }
    });
  const sizes = statuses
    .filter((text) => /^Name:\s+git/.test(text))
    .map((text) => Number(/^VmRSS:\s+(\d+)/m.exec(text)?.[1] ?? 0));
  return Math.max(0, ...sizes) / 1024;
}

test("a few kilobytes of a code host must not take the memory of the machine", {
  skip: process.platform !== "linux",
}, async () => {
  const base = Buffer.alloc(0xff_ffff);
  const copies = 60;
  const copy = Buffer.from([0x80 | 0x70, 0xff, 0xff, 0xff]);
  const delta = Buffer.concat([sizeOf(base.length), sizeOf(base.length * copies), ...Array<Buffer>(copies).fill(copy)]);
  const large = entry(7, delta.length, Buffer.concat([hash("blob", base), deflateSync(delta)]));
  const objects = Buffer.concat([packHead(4), packed(1, commit), packed(2, tree), packed(3, base), large]);
  const pack = Buffer.concat([objects, createHash("sha1").update(objects).digest()]);
  assert.ok(pack.length < 20_000);
  let largest = 0;
  const watch = setInterval(() => {
    largest = Math.max(largest, largestGitMib());
  }, 20);
  await withHost(
    (response) => response.end(Buffer.concat([band(pack), Buffer.from("0000")])),
    async (repoUrl) => {
      for (const call of calls(repoUrl))
        await assert.rejects(call, { reason: "TooLarge", message: /more than 128 MiB/ });
    },
  );
  clearInterval(watch);
  assert.ok(largest < 400, `${largest} MiB`);
});

test("a code host that sends without end must not fill the disk of the server", async () => {
  const file = packed(3, Buffer.alloc(60_000, "x"), 0);
  await withHost(
    (response) => {
      response.write(band(Buffer.concat([packHead(1_000_000), packed(1, commit), packed(2, tree)])));
      const more = () => {
        while (!response.destroyed) if (!response.write(band(file))) return void response.once("drain", more);
      };
      more();
    },
    async (repoUrl) => {
      await assert.rejects(calls(repoUrl)[0] as () => Promise<unknown>, {
        reason: "TooLarge",
        message: /more than 1024 MiB/,
      });
    },
  );
});

test("a code host with many branches must not occupy the server that counts what git stores", async () => {
  const names = Array.from({ length: 20_000 }, (_, at) => `refs/heads/${commitSha}${at}`);
  const refs = Buffer.concat(names.map((name) => line(`${commitSha} ${name}\n`)));
  const objects = Buffer.concat([packHead(2), packed(1, commit), packed(2, tree)]);
  const pack = Buffer.concat([objects, createHash("sha1").update(objects).digest()]);
  let longestMs = 0;
  const used = () => (process.threadCpuUsage().user + process.threadCpuUsage().system) / 1_000;
  let last = used();
  const watch = setInterval(() => {
    longestMs = Math.max(longestMs, used() - last);
    last = used();
  }, 1);
  await withHost(
    (response) => response.end(Buffer.concat([band(pack), Buffer.from("0000")])),
    async (repoUrl) => {
      for (const call of calls(repoUrl).slice(0, 2)) {
        const found = await call().catch((error: { reason: string }) => error.reason);
        // A slow disk does not take so many in time.
        if (found !== "Timeout") assert.deepEqual(found, { commitSha, refKind: "commit" });
      }
    },
    refs,
  );
  clearInterval(watch);
  assert.ok(longestMs < 400, `${longestMs} ms`);
});

test("a .mailmap must not take the memory of the machine", { skip: process.platform !== "linux" }, async () => {
  await using place = await scratch();
  const repository = await gitRepository(path.join(place.dir, "repository"));
  const lines = Array.from({ length: 2_000_000 }, (_, at) => `<a> A <${at.toString(16).padStart(6, "0")}>\n`);
  const commitSha = await repository.commit({ ".mailmap": lines.join("") });
  let largest = 0;
  const watch = setInterval(() => {
    largest = Math.max(largest, largestGitMib());
  }, 20);
  const remote = { repoUrl: repository.dir, credential: null, allowLocal: true, allowPrivateNetwork: true };
  const asked = { ...remote, commitSha, timeoutMs: 60_000, signal: AbortSignal.timeout(60_000) };
  const { commit } = await fetchCommit({ ...asked, directory: path.join(place.dir, "source") });
  clearInterval(watch);
  assert.notEqual(commit, null);
  assert.ok(largest < 400, `${largest} MiB`);
});
