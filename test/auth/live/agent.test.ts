import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { after, test } from "node:test";
import type { CreatedApiKey } from "../../../src/contract/administration/api-key.ts";
import { createAgentRepository } from "../../support/agent-repository.ts";
import { clientSecret, startLiveWorld } from "./world.ts";

/** Timeout far above the slowest step, a cold `npm install` of the agent server on a loaded machine. It measures nothing. */
const timeoutMs = 400_000;

const world = await startLiveWorld({ compute: "process" });
after(async () => {
  // Agents outlive their server, so an agent that is not deleted would keep running after this test.
  for (const { id } of (await world.client.listDeployments()).resources) {
    await world.client.deleteDeployment({ deployment_id: id });
    await world.client.waitForDeletion({ deployment_id: id }, { timeoutMs });
  }
  await world[Symbol.asyncDispose]();
});
const { identity, browser } = world;

async function deployExample(): Promise<string> {
  await using repository = await createAgentRepository(await filesOf(path.resolve("examples/account-agent")));
  const newKey = { name: "account-agent", role: "agent" };
  const { key } = (await world.client.request("POST", "/v2/admin/api-keys", newKey)) as CreatedApiKey;
  const variables = {
    PIERHEAD_API_KEY: key,
    ACCOUNT_PROVIDER: "one",
    ACCOUNT_SCOPES: "openid email offline_access",
    ACCOUNT_API: `${identity.issuer}/me`,
  };
  const { id, latest_revision_id: revisionId } = await world.client.createDeployment({
    body: {
      name: "account",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
      secrets: Object.entries(variables).map(([name, value]) => ({ name, value })),
    },
  });
  const ids = { deployment_id: id, revision_id: revisionId ?? "" };
  const revision = await world.client.waitForRevision(ids, { timeoutMs });
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  return (await world.client.getDeployment(ids)).url ?? "";
}

test("the example agent requests a token, waits for the user and calls an API, and its threads contain no token", async () => {
  await world.client.createOAuthProvider({
    body: {
      provider_id: "one",
      name: "Example ID",
      client_id: "pierhead",
      client_secret: clientSecret,
      auth_url: `${identity.issuer}/auth`,
      token_url: `${identity.issuer}/token`,
      issuer: identity.issuer,
      uses_pkce: true,
    },
  });
  const url = await deployExample();
  // biome-ignore lint/suspicious/noExplicitAny: the agent's own API, of which the test reads a few fields.
  const call = async (method: string, pathname: string, body?: object): Promise<any> => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(url + pathname, { method, headers, ...(body && { body: JSON.stringify(body) }) });
    assert.equal(answer.status, 200, pathname);
    return answer.json();
  };
  const newThread = async () => `/threads/${(await call("POST", "/threads", {})).thread_id}`;
  const run = (thread: string, what: object, user = "alice") =>
    call("POST", `${thread}/runs/wait`, {
      assistant_id: "agent",
      config: { configurable: { user_id: user } },
      ...what,
    });
  const question = { input: { messages: [{ role: "user", content: "Who am I?" }] } };
  const lastOf = ({ messages }: { messages: { content: string }[] }) => messages.at(-1)?.content;

  const thread = await newThread();
  const interrupted = await run(thread, question);
  const [{ value }] = interrupted.__interrupt__;
  assert.deepEqual([value.provider, new URL(value.auth_url).origin], ["one", identity.issuer]);
  const resumed = run(thread, { command: { resume: true } });
  const page = await browser.consent(value.auth_url, { user: "alice" });
  assert.equal(page.title, "Connected", page.text);
  assert.equal(lastOf(await resumed), "At one you are alice@example.org.");
  assert.equal(lastOf(await run(await newThread(), question)), "At one you are alice@example.org.");

  const denied = await newThread();
  const [{ value: asked }] = (await run(denied, question, "mallory")).__interrupt__;
  const waiting = run(denied, { command: { resume: true } }, "mallory");
  await browser.consent(asked.auth_url, { user: "mallory", denies: true });
  assert.match(lastOf(await waiting) ?? "", /the sign-in was refused/);

  const [deployment] = (await world.client.listDeployments()).resources;
  const of = { deployment_id: deployment?.id ?? "", type: "deploy", order: "asc", limit: 1_000 } as const;
  const { logs } = await world.client.getDeploymentLogs(of);
  const files = await readdir(world.dataDir, { recursive: true, withFileTypes: true });
  const texts = await Promise.all(
    files
      .filter((file) => file.isFile() && !file.parentPath.includes("node_modules"))
      .map((file) => readFile(path.join(file.parentPath, file.name), "latin1")),
  );
  const secrets = identity.lines.flatMap((line) => line.secrets ?? []);
  assert.ok(secrets.length >= 3 && texts.some((text) => text.includes("Who am I?")), "the files contain the threads");
  for (const secret of secrets) {
    assert.ok(!JSON.stringify(logs).includes(secret), "the logs contain a secret");
    assert.ok(!texts.some((text) => text.includes(secret)), "a file contains a secret");
  }
});

/** Returns the files of the example, as in a commit. */
async function filesOf(directory: string): Promise<Record<string, string>> {
  const names = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = names.filter((entry) => entry.isFile() && !entry.parentPath.includes("node_modules"));
  const read = files.map(async (entry) => {
    const file = path.join(entry.parentPath, entry.name);
    return [path.relative(directory, file), await readFile(file, "utf8")] as const;
  });
  return Object.fromEntries(await Promise.all(read));
}
