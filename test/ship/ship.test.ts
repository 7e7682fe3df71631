import assert from "node:assert/strict";
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdtemp, open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { userEnv as env, firstOutput, installPacked, type Pack, pack, startPackedServer } from "./packed.ts";

/** The package as `npm publish` would upload it, installed as a user would: from the archive, outside of this clone. */
const run = promisify(execFile);
let folder: string;
let packed: Pack;

before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "pierhead-ship-"));
  packed = await pack(process.cwd(), folder);
});
after(() => rm(folder, { recursive: true, force: true }));

test("the package contains the program, the console and the templates, and nothing else of the clone", () => {
  const files = packed.files.map(({ path: file }) => file);
  for (const file of [
    "LICENSE",
    "README.md",
    "package.json",
    "dist/main.js",
    "dist/client/client.d.ts",
    "dist/console/index.html",
    "dist/builds/python/install.py",
    "dist/engines/langgraph-js-postgres/serve.js",
    "templates/langgraph-js-hello/package-lock.json",
  ])
    assert.ok(files.includes(file), file);
  const strange = files.filter(
    (file) =>
      !/^(dist\/|templates\/|LICENSE$|README\.md$|package\.json$)/.test(file) ||
      /(^|\/)(node_modules|\.env|\.git|credentials\.json|master\.key)(\/|$)|\.(log|tgz|pem)$/.test(file) ||
      (/(?<!\.d)\.ts$/.test(file) && !file.startsWith("templates/")),
  );
  assert.deepEqual(strange, []);
  assert.ok(packed.size < 8 << 20, `the package has ${packed.size} bytes`);
});

test("an empty folder gets the program without build tools, and the first call of an agent is answered", async (t) => {
  const startedAt = performance.now();
  const home = path.join(folder, "home");
  const app = path.join(folder, "app");
  await installPacked(path.join(folder, packed.filename), app);
  const installed = await installedPackages(path.join(app, "node_modules"));
  const tools = ["@biomejs/biome", "execa", "node", "typescript"];
  assert.deepEqual(
    tools.filter((name) => installed.includes(name)),
    [],
  );
  assert.ok(installed.length < 100, `${installed.length} packages`);
  // So the same packages run on every processor for which there is a Node, and an image for another one differs in its base only.
  assert.deepEqual(await compiledFiles(path.join(app, "node_modules")), []);
  const installedAt = performance.now();

  const own = { ...env, HOME: home, PIERHEAD_LOG_LEVEL: "warn" };
  const npx = (...args: string[]) => ["--no-install", "pierhead", ...args, "--data-dir", path.join(folder, "data")];
  const up = spawn("npx", npx("up", "--port", "0", "--json", "--stop-agents-on-exit"), {
    ...{ cwd: app, env: own, detached: true, stdio: ["ignore", "pipe", "pipe"] },
  });
  try {
    await firstOutput(up);
    const readyAt = performance.now();
    const deployed = await run("npx", npx("deploy", "--template", "langgraph-js-hello", "--name", "hello", "--json"), {
      ...{ cwd: app, env: own, maxBuffer: 1e8 },
    });
    assert.equal(JSON.parse(deployed.stdout).revision.status, "DEPLOYED");
    const deployedAt = performance.now();
    const { stdout: answer } = await run("npx", npx("invoke", "hello", "hello"), { cwd: app, env: own });
    assert.match(answer, /\w/);
    const seconds = (from: number, to = performance.now()) => `${((to - from) / 1_000).toFixed(1)} s`;
    t.diagnostic(
      `first answered call after ${seconds(startedAt)}: install ${seconds(startedAt, installedAt)} (${installed.length} packages), start ${seconds(installedAt, readyAt)}, deploy ${seconds(readyAt, deployedAt)}, call ${seconds(deployedAt)}`,
    );
    const list = async (...args: string[]) =>
      JSON.parse((await run("npx", npx(...args, "--json"), { cwd: app, env: own })).stdout);
    const { threads } = await list("threads", "hello");
    assert.equal(threads.length, 1);
    const { runs } = await list("runs", "hello", threads[0].thread_id);
    assert.equal(runs[0].status, "success");
    const { stdout: streamed } = await run(
      "npx",
      npx("invoke", "hello", "What is 6 * 7?", "--stream", "--thread", threads[0].thread_id),
      { cwd: app, env: own },
    );
    assert.match(streamed, /message number 2 in this thread/);
    const program = path.join(app, "node_modules/.bin/pierhead");
    const sh = (command: string) => run("sh", ["-c", command, "sh", program, folder], { cwd: app, env: own });
    await sh('"$1" backup - --data-dir "$2/data" > "$2/backup.tar.gz"');
    const { stderr: restored } = await sh(
      'mkdir "$2/restored" && cp "$2/data/master.key" "$2/restored" && "$1" restore - --data-dir "$2/restored" < "$2/backup.tar.gz"',
    );
    assert.match(restored, /Restored 1 deployment as of/);
  } finally {
    await stop(up);
  }
});

test("the client alone takes less than 10 MB and calls a server, and says where the server is", async (t) => {
  await using server = await startPackedServer({ PIERHEAD_COMPUTE: "simulated" });
  const made = await run(
    process.execPath,
    ["scripts/release.mjs", "--only", "npm", "--out", path.join(folder, "release")],
    { env, maxBuffer: 1e8 },
  );
  assert.match(made.stdout, /npm publish .*pierhead-client-\d.*--provenance/);
  assert.match(
    made.stdout,
    /docker buildx build .*--platform linux\/amd64,linux\/arm64 .*--provenance=mode=max --sbom=true/,
  );
  const release = path.join(folder, "release");
  const files = await readdir(release);
  const tarball = files.find((file) => /^pierhead-client-.*\.tgz$/.test(file)) ?? "";
  const bill = JSON.parse(
    await readFile(path.join(release, files.find((file) => /\.cdx\.json$/.test(file)) ?? ""), "utf8"),
  );
  assert.ok(bill.components.some(({ name }: { name: string }) => name === "fastify"));
  await run("sha256sum", ["--check", "--quiet", "SHA256SUMS"], { cwd: release });
  const app = path.join(folder, "client");
  await installPacked(path.join(release, tarball), app);
  const { stdout: size } = await run("du", ["--summarize", "--bytes", app]);
  const megabytes = Number.parseInt(size, 10) / 1e6;
  t.diagnostic(`pierhead-client takes ${megabytes.toFixed(1)} MB installed`);
  assert.ok(megabytes <= 10, `${megabytes} MB`);
  const key = { PIERHEAD_URL: server.url, PIERHEAD_API_KEY: server.apiKey, HOME: path.join(folder, "home") };
  const pierhead = (...args: string[]) =>
    run("npx", ["--no-install", "pierhead", ...args], { cwd: app, env: { ...env, ...key }, maxBuffer: 1e8 });
  await pierhead("deploy", "--template", "node-server", "--name", "from-the-client");
  assert.match((await pierhead("list")).stdout, /from-the-client/);
  await assert.rejects(pierhead("up", "--data-dir", path.join(folder, "none")), /Install the package pierhead/);
  await assert.rejects(pierhead("mcp"), /not in the package pierhead-client/);
  await writeFile(
    path.join(app, "call.mjs"),
    'import { createClient } from "pierhead-client"; console.log(typeof createClient);',
  );
  assert.equal((await run(process.execPath, ["call.mjs"], { cwd: app })).stdout, "function\n");
});

async function installedPackages(directory: string): Promise<string[]> {
  const names = (await readdir(directory)).filter((name) => !name.startsWith("."));
  const scoped = names.map(async (name) =>
    name.startsWith("@") ? (await readdir(path.join(directory, name))).map((inner) => `${name}/${inner}`) : [name],
  );
  return (await Promise.all(scoped)).flat();
}

/** Returns the files that are compiled for one processor: libraries and programs of Linux, macOS and Windows. */
async function compiledFiles(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const found: string[] = [];
  for (const entry of entries.filter((one) => one.isFile())) {
    const file = path.join(entry.parentPath, entry.name);
    await using opened = await open(file);
    const { buffer } = await opened.read(Buffer.alloc(4), 0, 4, 0);
    const begin = buffer.toString("hex");
    if (/^7f454c46|^(feedface|feedfacf|cffaedfe|cefaedfe)|^4d5a/.test(begin))
      found.push(path.relative(directory, file));
  }
  return found;
}

/** Ends the whole group, because npx passes no signal on to its child. */
async function stop(child: ChildProcess): Promise<void> {
  const ended = new Promise((resolve) => child.once("close", resolve));
  if (child.exitCode !== null || child.pid === undefined) return;
  process.kill(-child.pid, "SIGINT");
  await ended;
}
