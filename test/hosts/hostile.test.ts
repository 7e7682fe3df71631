import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { repoUrlProblem } from "../../src/domain/git-url.ts";
import { putCommitStatus } from "../../src/integrations/commit-status.ts";
import { defaultBranch, fetchCommit, resolveRef } from "../../src/integrations/git.ts";
import { GitFailure, type GitRemote } from "../../src/integrations/git-failure.ts";
import { changedPaths, listFiles } from "../../src/integrations/git-tree.ts";
import { HostFailure } from "../../src/integrations/host-failure.ts";
import { startApi } from "../api/harness.ts";
import { createAgentRepository } from "../support/agent-repository.ts";

const read = async (name: string): Promise<string[]> =>
  JSON.parse(await readFile(path.join(import.meta.dirname, name), "utf8"));
const [addresses, payloads] = [await read("hostile-addresses.json"), await read("hostile-arguments.json")];

/** Records connections to this machine's loopback addresses. */
async function startTrap() {
  const connections: string[] = [];
  const listen = (host: string, port: number) =>
    new Promise<ReturnType<typeof createServer>>((resolve, reject) => {
      const server = createServer((socket) => {
        connections.push(`${host} ${socket.remoteAddress}`);
        socket.destroy();
      });
      server.once("error", reject);
      server.listen(port, host, () => resolve(server));
    });
  const first = await listen("127.0.0.1", 0);
  const { port } = first.address() as AddressInfo;
  const servers = [first, await listen("::1", port).catch(() => undefined)];
  return { port, connections, close: () => servers.forEach((server) => void server?.close()) };
}

const trap = await startTrap();
const repository = await createAgentRepository();
const directory = await mkdtemp(path.join(tmpdir(), "pierhead-canary-"));
const t = await startApi({ allowLocalSources: false, allowPrivateNetwork: false });
after(async () => {
  trap.close();
  await repository[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

/** Runs four at a time, because each is a process or a lookup. */
async function each<T>(all: readonly T[], act: (one: T, at: number) => Promise<void>): Promise<void> {
  const queue = [...all.entries()];
  const worker = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) await act(next[1], next[0]);
  };
  await Promise.all(Array.from({ length: 4 }, worker));
}

const fromUser = { allowLocal: false, allowPrivateNetwork: false, timeoutMs: 20_000 };
const someKey = { privateKey: "none", knownHosts: "none" };
const deploymentOf = (repo_url: string) => ({
  ...{ name: `d${Math.random()}`.replace(".", "-"), source: "github" },
  source_config: { repo_url, build_on_push: false },
  source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
});

test(`refuses ${addresses.length} addresses of this machine and its networks in every address field without connecting`, async () => {
  assert.ok(addresses.length >= 200);
  const urls = addresses.map((address) => address.replaceAll("{port}", String(trap.port)));
  await each(urls, async (repoUrl) => {
    for (const credential of [null, { username: "u", password: "p" }, someKey]) {
      const asked = { ...fromUser, repoUrl, credential, signal: AbortSignal.timeout(30_000) };
      await assert.rejects(resolveRef({ ...asked, ref: "main" }), GitFailure, repoUrl);
    }
    const projects = await t.ask({ url: `/v2/integrations/projects?${new URLSearchParams({ repo_url: repoUrl })}` });
    assert.ok([400, 422, 502].includes(projects.status), `${repoUrl}: ${projects.status}`);
    const integration = { host: "gitlab", name: "x", url: repoUrl, token: "t" };
    const made = await t.ask({ method: "POST", url: "/v2/integrations", payload: integration });
    assert.ok([201, 400, 422].includes(made.status), `${repoUrl}: ${made.status}`);
    if (made.status === 201) await t.ask({ method: "DELETE", url: `/v2/integrations/${made.body.id}` });
    const created = await t.ask({ method: "POST", url: "/v2/deployments", payload: deploymentOf(repoUrl) });
    const expected = repoUrlProblem(repoUrl, false) === null ? 201 : 400;
    assert.equal(created.status, expected, repoUrl);
    if (!URL.canParse(repoUrl) || !/^https?:/.test(repoUrl)) return;
    const status = {
      repoUrl,
      commitSha: "a".repeat(40),
      name: "x",
      state: "success",
      link: "",
      title: "",
      text: "",
    } as const;
    const access = { host: "gitea", token: "t", allowPrivateNetwork: false } as const;
    await assert.rejects(putCommitStatus(access, status, AbortSignal.timeout(20_000)), HostFailure, repoUrl);
  });
  assert.deepEqual(trap.connections, []);
});

test("requests no GitHub App secrets from these addresses, even for an operator", async () => {
  const key = await t.mintKey({ role: "admin", isOperator: true });
  let links = 0;
  await each(addresses, async (address) => {
    const github_url = address.replaceAll("{port}", String(trap.port));
    const asked = { method: "POST", url: "/v2/admin/integrations/github/app", key, payload: { github_url } } as const;
    const { status, body } = await t.ask(asked);
    assert.ok([200, 400, 422].includes(status), `${github_url}: ${status}`);
    if (status !== 200) return;
    links += 1;
    const state = new URL(body.create_url).searchParams.get("state") ?? "";
    const query = new URLSearchParams({ state, code: "c0de" });
    const { status: end, text } = await t.ask({ url: `/v2/auth/github-app/created?${query}`, key: null });
    assert.equal(end, 400, `${github_url}: ${text}`);
  });
  assert.ok(links >= 100, `${links}`);
  assert.deepEqual(trap.connections, []);
});

test(`runs none of ${payloads.length} arguments that look like options or commands, in any git field`, async () => {
  const canary = path.join(directory, "canary");
  const texts = payloads.map((payload) => payload.replaceAll("{canary}", canary));
  const local: Omit<GitRemote, "signal"> = {
    repoUrl: repository.url,
    credential: null,
    allowLocal: true,
    allowPrivateNetwork: true,
    timeoutMs: 20_000,
  };
  let cases = 0;
  const ended = async (act: (remote: GitRemote) => Promise<unknown>) => {
    cases += 1;
    await act({ ...local, signal: AbortSignal.timeout(30_000) }).catch((error: unknown) =>
      assert.ok(error instanceof GitFailure, String(error)),
    );
  };
  await each(texts, async (text, at) => {
    await ended((remote) => resolveRef({ ...remote, ref: text }));
    await ended((remote) => resolveRef({ ...remote, ref: `refs/tags/${text}` }));
    await ended((remote) => resolveRef({ ...remote, repoUrl: text, ref: "main" }));
    await ended((remote) => defaultBranch({ ...remote, repoUrl: text, credential: someKey }));
    await ended((remote) => fetchCommit({ ...remote, commitSha: text, directory: path.join(directory, `out-${at}`) }));
    await ended((remote) => listFiles({ ...remote, commitSha: text }));
    await ended((remote) => changedPaths({ ...remote, from: text, to: text }));
    const credential = { username: text, password: text };
    await ended((remote) => resolveRef({ ...remote, repoUrl: "http://127.0.0.1:1/acme/bot", credential, ref: "main" }));
    const key = { privateKey: text, knownHosts: text };
    await ended((remote) =>
      resolveRef({ ...remote, repoUrl: "ssh://git@127.0.0.1:1/acme/bot", credential: key, ref: "main" }),
    );
    for (const body of bodiesWith(text)) {
      const { status } = await t.ask({ method: "POST", url: "/v2/deployments", payload: body });
      assert.ok([201, 400, 422].includes(status), `${status} ${text}`);
    }
  });
  assert.ok(cases >= 200, `${cases}`);
  const found = (await readdir(directory, { recursive: true })).filter((name) => name.includes("canary"));
  assert.deepEqual(found, []);
});

function bodiesWith(text: string): object[] {
  const good = deploymentOf("https://github.com/acme/bot");
  const { source_config: config, source_revision_config: revision } = good;
  return [
    { ...good, source_config: { ...config, repo_url: text } },
    { ...good, source_revision_config: { ...revision, repo_ref: text } },
    { ...good, source_revision_config: { ...revision, langgraph_config_path: text } },
  ];
}
