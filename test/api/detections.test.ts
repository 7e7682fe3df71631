import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { create } from "tar";
import { createAgentRepository } from "../support/agent-repository.ts";
import { startApi } from "./harness.ts";

// Detections of other tests leave nothing here.
const temporary = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
process.env["TMPDIR"] = temporary;
const t = await startApi();
const repository = await createAgentRepository();
const server = createServer((request, response) => t.api.routing(request, response));
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
after(async () => {
  server.close();
  server.closeAllConnections();
  await repository[Symbol.asyncDispose]();
  await rm(temporary, { recursive: true, force: true });
});

const detect = (payload: object, key?: string) =>
  t.ask({ method: "POST", url: "/v2/detections", payload, ...(key !== undefined && { key }) });

const python = JSON.stringify({
  graphs: { agent: "./agent.py:graph", other: "./other.py:graph" },
  dependencies: ["."],
  python_version: "3.12",
  image_distro: "wolfi",
});

await repository.commit({
  "apps/bot/langgraph.json": python,
  "apps/bot/uv.lock": "version = 1\n",
  "apps/bot/.env.example": "# keys\nOPENAI_API_KEY=sk-... # yours\nexport MODEL='gpt-5'\n",
  "large.bin": randomBytes(400_000).toString("latin1"),
  "apps/api/requirements.txt": "fastapi\nuvicorn\n",
  "apps/api/main.py": "from fastapi import FastAPI\napp = FastAPI()\n",
});

const leftovers = async () => (await readdir(tmpdir())).filter((name) => name.startsWith("pierhead-detection-"));

test("shows the graphs, versions, lock file and variables of an agent in a repository", async () => {
  const { status, body, text } = await detect({ repo_url: repository.url, config_path: "apps/bot/langgraph.json" });
  assert.equal(status, 200, text);
  assert.equal(body.found, "apps/bot/langgraph.json: 2 graphs, Python 3.12, uv.lock");
  assert.deepEqual(body.graphs, [
    { id: "agent", path: "./agent.py:graph" },
    { id: "other", path: "./other.py:graph" },
  ]);
  assert.deepEqual(
    [body.kind, body.language, body.python_version, body.package_manager, body.lock_file, body.ref, body.problem],
    ["langgraph", "python", "3.12", "uv", "apps/bot/uv.lock", "main", null],
  );
  const from = "apps/bot/.env.example";
  assert.deepEqual(body.variables, [
    { name: "OPENAI_API_KEY", example: "sk-...", from },
    { name: "MODEL", example: "gpt-5", from },
  ]);
  assert.match(body.notes.join(), /image_distro/);
  assert.match(body.commit_sha, /^[0-9a-f]{40}$/);
  assert.deepEqual(await leftovers(), []);
});

test("answers at its deadline for a repository whose files take too long to look into", {
  timeout: 25_000,
}, async () => {
  const hurried = await startApi({ detectionTimeoutMs: 7_000 });
  // Without an end of a line or an equals sign, but with many beginnings of lines, as regular expressions count them.
  const files = { "requirements.txt": "fastapi\n", "app.py": "a:\r".repeat(80_000) };
  await using slow = await createAgentRepository(files);
  const asked = { method: "POST", url: "/v2/detections", payload: { repo_url: slow.url } } as const;
  const { status, body, text } = await hurried.ask(asked);
  assert.equal(status, 200, text);
  assert.equal(body.found, null);
  assert.match(body.problem.message, /takes too long to look into/);
  assert.match(body.commit_sha, /^[0-9a-f]{40}$/);
  assert.deepEqual(await leftovers(), []);
});

test("recognizes a server without a configuration, and says how it would start", async () => {
  const { body } = await detect({ repo_url: repository.url, config_path: "apps/api/requirements.txt" });
  assert.deepEqual(
    [body.kind, body.framework, body.because],
    ["command", "FastAPI", "fastapi in requirements.txt, app in main.py"],
  );
  assert.match(body.start_command, /uvicorn main:app .*\$PORT/);
});

test("answers with the problem and the configurations that exist when the named one is missing", async () => {
  const { status, body } = await detect({ repo_url: repository.url, config_path: "missing.json" });
  assert.equal(status, 200);
  assert.deepEqual([body.found, body.problem.reason], [null, "ConfigMissing"]);
  assert.match(body.problem.message, /apps\/bot\/langgraph\.json/);
  assert.ok(body.configs.includes("apps/bot/langgraph.json"));
});

test("describes a template", async () => {
  const { status, body, text } = await detect({ template_id: "node-server" });
  assert.equal(status, 200, text);
  assert.equal(body.problem, null);
});

test("refuses a ref that does not exist, a foreign address, two sources, and a path outside the source", async () => {
  const cases: [object, number, RegExp][] = [
    [{ repo_url: repository.url, ref: "nowhere" }, 400, /'ref' .*no branch 'nowhere'/],
    [{ repo_url: "https://127.0.0.1:1/acme/bot" }, 502, /code host/],
    [{ repo_url: repository.url, template_id: "node-server" }, 400, /one of the two/],
    [{}, 400, /one of the two/],
    [{ repo_url: repository.url, config_path: "../x.json" }, 400, /config_path/],
    [{ template_id: "no-such" }, 400, /node-server/],
  ];
  for (const [payload, expected, detail] of cases) {
    const { status, text } = await detect(payload);
    assert.deepEqual([status, detail.test(text)], [expected, true], text);
  }
  const reader = await t.mintKey({ role: "reader" });
  assert.equal((await detect({ template_id: "node-server" }, reader)).status, 403);
  assert.deepEqual(await leftovers(), []);
});

async function archiveOf(files: Record<string, string>): Promise<Buffer> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-test-"));
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.dirname(path.join(directory, name)), { recursive: true });
    await writeFile(path.join(directory, name), text);
  }
  const chunks: Buffer[] = [];
  for await (const chunk of create({ cwd: directory, gzip: true }, ["."])) chunks.push(chunk as Buffer);
  await rm(directory, { recursive: true });
  return Buffer.concat(chunks);
}

const post = async (body: Buffer, query = "") => {
  const answer = await fetch(
    `http://127.0.0.1:${(server.address() as AddressInfo).port}/v2/detections/archive${query}`,
    {
      method: "POST",
      body: new Uint8Array(body),
      headers: { "x-api-key": t.tenant.adminKey, "content-type": "application/gzip" },
    },
  );
  // biome-ignore lint/suspicious/noExplicitAny: responses of every shape.
  return { status: answer.status, body: (await answer.json()) as any };
};

test("detects the server in an archive, stores nothing of it, and rejects a file that is not an archive", async () => {
  const archive = await archiveOf({
    "package.json": JSON.stringify({ scripts: { start: "node server.js" }, dependencies: { hono: "4" } }),
    "pnpm-lock.yaml": "lockfileVersion: '9.0'\n",
    "server.js": "",
  });
  const { status, body } = await post(archive);
  assert.equal(status, 200, JSON.stringify(body));
  assert.deepEqual(
    [body.framework, body.package_manager, body.lock_file, body.start_command, body.ref],
    ["Hono", "pnpm", "pnpm-lock.yaml", "package.json script start", null],
  );
  assert.equal((await post(Buffer.from("no archive"))).status, 400);
  assert.deepEqual(await leftovers(), []);
});
