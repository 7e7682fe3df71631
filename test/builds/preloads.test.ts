import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { get } from "node:http";
import { type AddressInfo, createServer } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { execa } from "execa";
import { generateDockerfile } from "../../src/builds/image/dockerfile.ts";
import { scratch } from "./fixtures.ts";

test("opens the port in PORT for a server of an image that has a port of its own", async () => {
  await using place = await scratch();
  const port = await freePort();
  const preload = fileURLToPath(new URL("../../src/compute/listen-on-port.mjs", import.meta.url));
  const run = async (program: string) => {
    const options = { env: { PORT: String(port), TMPDIR: place.dir }, timeout: 20_000 };
    return (await execa(process.execPath, ["--import", preload, "-e", program], options)).stdout;
  };
  const made = 'const server = require("node:http").createServer();';
  const shown = "console.log(server.address().port);";
  assert.equal(
    await run(`${made} server.listen(3000, "localhost", () => { ${shown} server.close(); });`),
    String(port),
  );
  const stopped = `${made} const stop = new AbortController();
    server.listen({ port: 3000, host: "localhost", signal: stop.signal }, () => { ${shown} stop.abort(); });`;
  assert.equal(await run(stopped), String(port), "its other options stay");
});

test("opens the port in PORT for a server that first looks whether its own port is free", async () => {
  await using place = await scratch();
  const port = await freePort();
  const preload = fileURLToPath(new URL("../../src/compute/listen-on-port.mjs", import.meta.url));
  const program = `const { createServer } = require("node:http");
    const other = createServer();
    const probe = createServer().listen(3141, () => other.listen(0, () => probe.close(() => {
      const server = createServer().listen(3141, () => {
        console.log(server.address().port, other.address().port === ${port});
        for (const one of [server, other]) one.close();
      });
    })));`;
  const options = { env: { PORT: String(port), HOST: "127.0.0.1", TMPDIR: place.dir }, timeout: 20_000 };
  const { stdout } = await execa(process.execPath, ["--import", preload, "-e", program], options);
  assert.equal(stdout, `${port} false`);
});

test("gives the port to the first process of a server, and lets the others keep theirs", async () => {
  await using place = await scratch();
  const preload = fileURLToPath(new URL("../../src/compute/listen-on-port.mjs", import.meta.url));
  const open = `require("node:http").createServer().listen(0 + Number(process.argv[1]), function () {
    console.log(this.address().port);
    if (process.argv[2]) require("node:child_process").spawn(process.execPath, ["-e", process.argv[3], process.argv[2]], { stdio: "inherit" }).on("exit", () => this.close());
    else this.close();
  });`;
  const [first, second] = [await freePort(), await freePort()];
  const env = { PORT: String(first), HOST: "127.0.0.1", TMPDIR: place.dir, NODE_OPTIONS: `--import ${preload}` };
  const run = () => execa(process.execPath, ["-e", open, "3000", String(second), open], { env, timeout: 20_000 });
  assert.equal((await run()).stdout, `${first}\n${second}`);
  assert.equal((await run()).stdout, `${first}\n${second}`, "the process of an earlier start has ended");
  if (process.platform !== "linux") return;
  await writeFile(path.join(place.dir, `pierhead-port-${first}`), `${process.pid} 1`);
  assert.equal((await run()).stdout, `${first}\n${second}`, "another process has its id now");
});

test("sends a server requests with the only host name that it accepts", async () => {
  const preload = fileURLToPath(new URL("../../src/compute/local-host.mjs", import.meta.url));
  const program = `require("node:http").createServer(({ headers, rawHeaders }, response) => {
    const raw = Object.fromEntries(rawHeaders.map((name, at) => [name.toLowerCase(), rawHeaders[at + 1]]));
    response.end(JSON.stringify([headers.host, raw.host, headers.origin, headers["x-forwarded-host"]]));
  }).listen(0, "127.0.0.1", function () { console.log(this.address().port); });`;
  const local = "localhost:8000";
  const ask = async (port: string, more: Record<string, string>) => {
    const headers = { host: "agents.example.com", "x-forwarded-host": "a", ...more };
    const [answer] = await once(get({ port: Number(port), headers }), "response");
    return JSON.parse((await answer.toArray()).join(""));
  };
  const start = (more: Record<string, string> = {}) => {
    const env = { PORT: "8000", PIERHEAD_LOCAL_HOST: "localhost:*", ...more };
    return execa(process.execPath, ["--import", preload, "-e", program], { env, reject: false, timeout: 20_000 });
  };
  const [always, paths] = [start(), start({ PIERHEAD_LOCAL_HOST_FOR: "paths" })];
  const [[port], [otherPort]] = await Promise.all([once(always.stdout, "data"), once(paths.stdout, "data")]);
  assert.deepEqual(await ask(port, {}), [local, local, null, "a"]);
  assert.deepEqual((await ask(port, { origin: "https://agents.example.com" }))[2], `http://${local}`);
  assert.deepEqual((await ask(port, { origin: "https://other.example.com" }))[2], "https://other.example.com");
  assert.deepEqual(await ask(otherPort, {}), ["agents.example.com", "agents.example.com", null, "a"]);
  assert.deepEqual(await ask(otherPort, { "x-forwarded-prefix": "/d/a" }), [local, local, null, null]);
  for (const server of [always, paths]) server.kill();
  await Promise.all([always, paths]);
});

test("gives an image the modules that Node loads first, and the build its variables", () => {
  const instructions = generateDockerfile({
    base: "node:24",
    label: "LABEL a=b",
    install: { steps: [], manifests: null, because: "" },
    afterInstall: [],
    variables: { NEXT_PUBLIC_A: 'say "$5"', NEXT_PUBLIC_B: "two\nlines" },
    build: [],
    preloads: ["listen-on-port.mjs", "local-host.mjs"],
    directory: ".",
    start: ["node", "server.js"],
  }).map(({ text }) => text);
  assert.deepEqual(
    instructions.filter((text) => text.startsWith("ENV NEXT_PUBLIC")),
    ['ENV NEXT_PUBLIC_A="say \\"\\$5\\""'],
  );
  const modules = "--import /opt/pierhead/compute/listen-on-port.mjs --import /opt/pierhead/compute/local-host.mjs";
  assert.ok(instructions.includes(`ENV NODE_OPTIONS="${modules}"`), instructions.join("\n"));
});

async function freePort(): Promise<number> {
  const free = createServer().listen(0, "127.0.0.1");
  await once(free, "listening");
  const { port } = free.address() as AddressInfo;
  free.close();
  await once(free, "close");
  return port;
}
