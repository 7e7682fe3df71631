import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";
import { startGithub } from "./github-server.ts";

const repository = await createAgentRepository(
  Object.fromEntries(Object.entries(nodeAgent("private")).map(([name, text]) => [`agents/bot/${name}`, text])),
);
const watched = await watchGit();
const github = await startGithub({ "acme/bot": repository.directory });
const t = await startTestServer(github.environment);
after(async () => {
  await t[Symbol.asyncDispose]();
  await github[Symbol.asyncDispose]();
  await repository[Symbol.asyncDispose]();
  await watched[Symbol.asyncDispose]();
});

const { workspaceId } = t.server.credentials;
const attached = await t.client.attachInstallation({ body: { installation_id: 41, workspace_id: workspaceId } });
const create = (name: string, repo_url: string, integration_id = attached.id) =>
  t.client.createDeployment({
    body: {
      ...{ name, source: "github" },
      source_config: { repo_url, integration_id, build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "agents/bot/pierhead.json" },
    },
  });
const ended = (id: string) =>
  eventually(
    async () => (await t.client.listRevisions({ deployment_id: id })).resources[0],
    (revision) => revision !== undefined && /FAILED|DEPLOYED/.test(revision.status),
    { timeoutMs: 300_000 },
  );

test("builds a private repository with its own tokens, which appear in no argument, variable, log, error or file", async () => {
  const watching = new AbortController();
  const seen = watchProcesses(watching.signal);
  const { id } = await create("private-bot", `${github.origin}/acme/bot`);
  const revision = await ended(id);
  watching.abort();
  assert.equal(revision?.status, "DEPLOYED", revision?.status_message ?? "");
  const tokens = [...github.tokens];
  assert.ok(tokens.length >= 2, "one to resolve the branch, one to fetch it");
  for (const [, { permissions, repositories }] of tokens) {
    assert.deepEqual([permissions, repositories], [{ contents: "read" }, ["bot"]]);
  }
  const logs = await t.client.readBuildLogs({
    deployment_id: id,
    revision_id: revision?.id ?? "",
    body: { limit: 1000 },
  });
  const runs = await readFile(watched.file, "utf8");
  assert.match(runs, /ls-remote/);
  assert.match(runs, /fetch/);
  const texts = [
    runs,
    await seen,
    JSON.stringify(logs),
    JSON.stringify(await t.client.getDeployment({ deployment_id: id })),
  ];
  texts.push(...(await filesBelow(t.dataDir)));
  for (const [token] of tokens) {
    for (const form of [token, Buffer.from(`x-access-token:${token}`).toString("base64")]) {
      assert.ok(!texts.some((text) => text.includes(form)), "a token was found");
    }
  }
});

test("requests no token for a repository outside of the installation and explains the rejection", async () => {
  const before = github.tokens.size;
  for (const [name, url] of [
    ["other-account", `${github.origin}/other/bot`],
    ["other-host", "http://127.0.0.1:1/acme/bot"],
    ["sideways", `${github.origin}/acme/..%2fother/bot`],
  ] as const) {
    await assert.rejects(create(name, url), {
      status: 400,
      code: "invalidField",
      message: /'source_config.repo_url' .*not below/,
    });
  }
  const { id } = await create("not-given", `${github.origin}/acme/secret-bot`);
  const revision = await ended(id);
  assert.equal(revision?.status, "CREATE_FAILED");
  assert.match(revision?.status_message ?? "", /may not read|not accessible/);
  assert.equal(github.tokens.size, before);
  await assert.rejects(create("no-integration", `${github.origin}/acme/bot`, "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11"), {
    status: 400,
    message: /'source_config.integration_id' is not an integration of this workspace/,
  });
});

/** Puts a `git` in front of the real one that records its command line and environment. */
async function watchGit(): Promise<AsyncDisposable & { file: string }> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-git-"));
  const file = path.join(directory, "seen");
  const before = process.env["PATH"] ?? "";
  const script = `#!/bin/sh\ncat /proc/$$/cmdline /proc/$$/environ >> '${file}'\nPATH='${before}' exec git "$@"\n`;
  await writeFile(path.join(directory, "git"), script, { mode: 0o755 });
  process.env["PATH"] = `${directory}:${before}`;
  return { file, [Symbol.asyncDispose]: () => rm(directory, { recursive: true, force: true }) };
}

/** Polls all processes of this machine to see those that git starts. */
async function watchProcesses(signal: AbortSignal): Promise<string> {
  const seen = new Set<string>();
  while (!signal.aborted) {
    for (const pid of await readdir("/proc")) {
      if (!/^\d+$/.test(pid)) continue;
      for (const file of ["cmdline", "environ"]) {
        const text = await readFile(`/proc/${pid}/${file}`, "utf8").catch(() => "");
        if (/git|pierhead/.test(text)) seen.add(text);
      }
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  return [...seen].join("\n");
}

async function filesBelow(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => path.join(entry.parentPath, entry.name));
  return Promise.all(files.map((file) => readFile(file, "latin1").catch(() => "")));
}
