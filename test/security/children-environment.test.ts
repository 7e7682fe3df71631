import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { resolveRef } from "../../src/integrations/git.ts";
import { RegistryProcess } from "../../src/registry/registry-process.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";

const canary = "canary-of-the-operator";
const secrets = ["DATABASE_URL", "PIERHEAD_MASTER_KEY", "PIERHEAD_ADMIN_KEY", "AWS_SECRET_ACCESS_KEY", "GIT_TRACE"];
const real = { ...process.env };
const directory = await mkdtemp(path.join(tmpdir(), "pierhead-children-"));
const seen = path.join(directory, "seen");

before(async () => {
  await mkdir(seen);
  await mkdir(path.join(directory, "bin"));
  for (const program of ["git", "ssh-agent", "ssh-add", "registry"]) {
    const { stdout } = await promisify(execFile)("sh", ["-c", `command -v ${program} || true`]);
    const next = stdout.trim() === "" ? "exit 1" : `exec ${stdout.trim()} "$@"`;
    const file = path.join(directory, "bin", program);
    await writeFile(file, `#!/bin/sh\n/usr/bin/env > ${seen}/${program}.$$\n${next}\n`);
    await chmod(file, 0o755);
  }
  for (const name of secrets) process.env[name] = canary;
  process.env["PATH"] = `${path.join(directory, "bin")}:${real["PATH"]}`;
});

after(async () => {
  for (const name of secrets) delete process.env[name];
  Object.assign(process.env, real);
  await rm(directory, { recursive: true, force: true });
});

/** Returns the environments that a program was started with. */
async function environmentsOf(program: string): Promise<string[]> {
  const names = (await readdir(seen)).filter((name) => name.startsWith(`${program}.`));
  const found = await Promise.all(names.map((name) => readFile(path.join(seen, name), "utf8")));
  // The test itself calls git too, to make the repository.
  return program === "git" ? found.filter((one) => one.includes("GIT_TERMINAL_PROMPT=0")) : found;
}

test("git, a build worker and its programs do not inherit secrets of the server", async () => {
  await using repository = await createAgentRepository({
    ...nodeAgent("one"),
    "pierhead.json": JSON.stringify({ start: ["node", "server.js"], health: "/ok", build: ["sh", "look.sh"] }),
    "look.sh": `cat /proc/$PPID/environ | tr '\\0' '\\n' > ${seen}/worker.$$; env > ${seen}/build.$$`,
  });
  await using server = await startTestServer();
  const made = await server.client.createDeployment({
    body: {
      name: "agent",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  const revision = await server.client.waitForRevision(ids);
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  for (const program of ["git", "worker", "build"]) {
    const found = await environmentsOf(program);
    assert.ok(found.length > 0, `${program} was started`);
    for (const one of found) assert.ok(!one.includes(canary), `${program} inherited:\n${one}`);
  }
});

test("the image registry and an ssh-agent do not inherit secrets of the server", async () => {
  const program = path.join(directory, "bin", "registry");
  const registry = new RegistryProcess({
    directory: path.join(directory, "registry"),
    program,
    logger: createLogger("silent"),
  });
  await registry.socket().catch(() => {});
  await registry.stop();
  const remote = {
    repoUrl: "ssh://git@127.0.0.1:1/acme/bot",
    credential: { privateKey: "no key", knownHosts: "" },
    allowLocal: false,
    allowPrivateNetwork: true,
    timeoutMs: 20_000,
    signal: new AbortController().signal,
  };
  await assert.rejects(resolveRef({ ...remote, ref: "main" }));
  for (const name of ["registry", "ssh-agent", "ssh-add"]) {
    const found = await eventually(
      () => environmentsOf(name),
      (all) => all.length > 0,
      { what: `start of ${name}` },
    );
    for (const one of found) assert.ok(!one.includes(canary), `${name} inherited:\n${one}`);
  }
});

test("an .npmrc of a source does not choose the program that runs install scripts", async () => {
  const mark = path.join(seen, "npmrc-ran");
  await using repository = await createAgentRepository({
    ...nodeAgent("one"),
    "package.json": JSON.stringify({ name: "agent", version: "1.0.0", scripts: { postinstall: "true" } }),
    "pierhead.json": JSON.stringify({ start: ["node", "server.js"], health: "/ok", build: ["npm", "install"] }),
    ".npmrc": "script-shell=./evil.sh\nregistry=http://127.0.0.1:1/\n",
    "evil.sh": `#!/bin/sh\ntouch ${mark}\n`,
  });
  await chmod(path.join(repository.directory, "evil.sh"), 0o755);
  await repository.commit({ "note.txt": "x" });
  await using server = await startTestServer();
  const made = await server.client.createDeployment({
    body: {
      name: "agent",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  const revision = await server.client.waitForRevision(ids);
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  assert.deepEqual(
    (await readdir(seen)).filter((name) => name.startsWith("npmrc-")),
    [],
  );
});
