import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm, symlink } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { gitHttpServer } from "../integrations/git-http-server.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { gitBackend } from "../support/git-backend.ts";
import { type Answer, startApi } from "./harness.ts";

const t = await startApi();

const [first, other] = [await createAgentRepository(), await createAgentRepository()];
await other.branch("before");
await other.commit({ "agents/bot/pierhead.json": "{}" });
after(() => Promise.all([first, other].map((repository) => repository[Symbol.asyncDispose]())));

async function create(config: object = {}): Promise<string> {
  const payload = {
    name: `moved-${randomUUID()}`,
    source: "github",
    source_config: { repo_url: first.url, build_on_push: false, ...config },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
  };
  const { status, text, body } = await t.ask({ method: "POST", url: "/v2/deployments", payload });
  assert.equal(status, 201, text);
  return `/v2/deployments/${body.id}`;
}

const patch = (url: string, payload: object, headers: Record<string, string> = {}) =>
  t.ask({ method: "PATCH", url, payload, headers });
const moveTo = (repo_url: string, more: object = {}) => ({ source_config: { repo_url }, ...more });
const shown = async (url: string) => (await t.ask({ url })).text;

/** Real git over HTTP that answers only when the test lets it. */
async function heldRepository(directory: string) {
  const asked = Promise.withResolvers<null>();
  const released = Promise.withResolvers<null>();
  let count = 0;
  const server = createServer(async (request, response) => {
    count += 1;
    asked.resolve(null);
    await released.promise;
    const url = new URL(request.url ?? "/", "http://localhost");
    gitBackend(directory, url.pathname.replace("/bot.git", "/.git"), { request, response, url });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/bot.git`,
    asked: asked.promise,
    release: () => released.resolve(null),
    count: () => count,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

test("moves a deployment to another readable repository with the config file, without a revision", async () => {
  const at = await create();
  const { body: before } = await t.ask({ url: at });
  const moved = await patch(at, moveTo(other.url));
  assert.equal(moved.status, 200, moved.text);
  assert.equal(moved.body.source_config.repo_url, other.url);
  assert.equal(moved.body.latest_revision_id, before.latest_revision_id);
});

test("rejects a repository that cannot be built, names the field, and changes nothing", async () => {
  const at = await create();
  const before = await shown(at);
  const sentPath = { source_revision_config: { langgraph_config_path: "agents/bot/pierhead.json" } };
  for (const [body, status, words] of [
    [
      moveTo(`${other.url}-gone`),
      400,
      /'source_config.repo_url' must be a repository that this server can read.*git: /,
    ],
    [moveTo(other.url, { tracked_repo_ref: "dev" }), 400, /'source_config.repo_url'.*no branch 'dev'.*is 'main'/],
    [moveTo(other.url, { source_revision_config: { repo_ref: "refs/tags/v1" } }), 400, /no tag 'v1'/],
    [
      moveTo(other.url, { tracked_repo_ref: "before", ...sentPath }),
      400,
      /'source_config.repo_url'.*no 'agents\/bot\/pierhead.json' at 'before'. There is pierhead.json: send it as/,
    ],
    [moveTo("http://127.0.0.1:1/acme/bot"), 502, /could not be reached/],
    [moveTo("git@127.0.0.1:acme/bot.git"), 400, /'source_config.repo_url'.*needs an SSH key/],
  ] as const) {
    for (const answer of [
      await patch(at, body),
      await patch(at, body, { "idempotency-key": randomUUID() }),
      ...("tracked_repo_ref" in body ? [] : [await t.ask({ method: "POST", url: `${at}/revisions`, payload: body })]),
    ]) {
      assert.equal(answer.status, status, `${JSON.stringify(body)}: ${answer.text}`);
      assert.match(answer.text, words);
      assert.equal(await shown(at), before);
    }
  }
});

test("checks ref and config file as they are after the change, also when it creates a revision", async () => {
  const at = await create();
  const sentPath = { source_revision_config: { langgraph_config_path: "agents/bot/pierhead.json" } };
  const post = (payload: object) => t.ask({ method: "POST", url: `${at}/revisions`, payload });
  assert.equal((await patch(at, { tracked_repo_ref: "dev" })).status, 200);
  assert.equal((await patch(at, moveTo(other.url, sentPath))).status, 400);
  assert.equal((await patch(at, moveTo(other.url, { ...sentPath, tracked_repo_ref: "main" }))).status, 200);
  assert.match((await post(moveTo(first.url))).text, /no 'agents\/bot\/pierhead.json' at 'main'/);
  const answer = await post(moveTo(first.url, { source_revision_config: { langgraph_config_path: "pierhead.json" } }));
  assert.equal(answer.status, 201, answer.text);
  assert.match(await shown(at), new RegExp(first.url));
});

test("does not read an unchanged repository, so a change succeeds while it is unreachable", async () => {
  const repository = await createAgentRepository();
  const at = await create({ repo_url: repository.url });
  await repository[Symbol.asyncDispose]();
  const { status, text } = await patch(at, moveTo(repository.url, { display_name: "Away", tracked_repo_ref: "dev" }));
  assert.equal(status, 200, text);
  assert.equal((await t.ask({ method: "POST", url: `${at}/revisions`, payload: moveTo(repository.url) })).status, 201);
});

test("finds a config file behind a symbolic link inside the repository, but not one beside it", async () => {
  const files = nodeAgent("linked");
  await using repository = await createAgentRepository(
    Object.fromEntries(Object.entries(files).map(([name, text]) => [`versions/2/${name}`, text])),
  );
  await symlink("versions/2", path.join(repository.directory, "current"));
  await symlink("2", path.join(repository.directory, "versions/newest"));
  await repository.commit({});
  for (const [configPath, status] of [
    ["current/pierhead.json", 200],
    ["versions/newest/pierhead.json", 200],
    ["versions/1/pierhead.json", 400],
    ["versions/*/pierhead.json", 400],
    ["versions/2/pierhead.json/x.json", 400],
    ["versions//2/./pierhead.json", 200],
  ] as const) {
    const at = await create();
    const sent = { source_revision_config: { langgraph_config_path: configPath } };
    const answer = await patch(at, moveTo(repository.url, sent));
    assert.equal(answer.status, status, `${configPath}: ${answer.text}`);
  }
});

test("reads the repository with the deployment's integration", async () => {
  const root = await mkdtemp(path.join(tmpdir(), "pierhead-host-"));
  after(() => rm(root, { recursive: true, force: true }));
  await symlink(other.directory, path.join(root, "bot.git"));
  await using host = await gitHttpServer(root, { username: "git", password: "good" });
  const repoUrl = `${host.url}/bot.git`;
  const integrationOf = async (token: string, url = host.url) => {
    const payload = { host: "git", name: randomUUID(), url, token };
    return (await t.ask({ method: "POST", url: "/v2/integrations", payload })).body.id as string;
  };
  const [good, bad] = [await integrationOf("good"), await integrationOf("bad")];
  const elsewhere = await integrationOf("good", `${host.url}/acme`);
  for (const [integrationId, status, words] of [
    [good, 200, /"repo_url"/],
    [bad, 400, /the credential of this integration may not read it/],
    [elsewhere, 400, /is not below/],
    [null, 400, /needs a credential/],
  ] as const) {
    const before = { integration_id: integrationId, repo_url: `${host.url}/acme/before` };
    const at = await create(integrationId === null ? {} : before);
    const answer = await patch(at, moveTo(repoUrl));
    assert.equal(answer.status, status, answer.text);
    assert.match(answer.text, words);
  }
});

test("runs git outside a transaction and keeps concurrent changes of others", async () => {
  await using held = await heldRepository(other.directory);
  const at = await create();
  const key = { "idempotency-key": randomUUID() };
  const moving = patch(at, moveTo(held.url), key);
  await held.asked;
  // The embedded database has one connection, so each of these would wait for git.
  assert.equal((await patch(at, { display_name: "Meanwhile" }, { "idempotency-key": randomUUID() })).status, 200);
  assert.match(await shown(at), new RegExp(first.url), "nothing changes before the repository was read");
  held.release();
  const moved = await moving;
  assert.equal(moved.status, 200, moved.text);
  assert.deepEqual([moved.body.display_name, moved.body.source_config.repo_url], ["Meanwhile", held.url]);

  const asked = held.count();
  const again = await patch(at, moveTo(held.url), key);
  assert.deepEqual([again.text, again.headers["idempotency-replayed"]], [moved.text, "true"]);
  assert.equal(held.count(), asked, "a retry asks no host");
  assert.equal((await patch(at, moveTo(other.url))).status, 200);
  const later = await patch(at, moveTo(held.url), key);
  assert.deepEqual([later.text, later.headers["idempotency-replayed"]], [moved.text, "true"]);
  assert.match(await shown(at), new RegExp(other.url), "and changes nothing");
});

test("equal concurrent requests under one key are one change", async () => {
  await using held = await heldRepository(other.directory);
  const at = await create();
  const key = { "idempotency-key": randomUUID() };
  const send = () => t.ask({ method: "POST", url: `${at}/revisions`, payload: moveTo(held.url), headers: key });
  const all = Promise.all([send(), send(), send()]);
  await held.asked;
  held.release();
  const answers: Answer[] = await all;
  assert.deepEqual([...new Set(answers.map(({ status, text }) => `${status} ${text}`))].length, 1);
  assert.equal(answers[0]?.status, 201, answers[0]?.text);
  assert.equal((await t.ask({ url: `${at}/revisions` })).body.resources.length, 2);
});

test("If-Match holds while the repository is read", async () => {
  await using held = await heldRepository(other.directory);
  const at = await create();
  const moving = patch(at, moveTo(held.url), { "if-match": String((await t.ask({ url: at })).headers["etag"]) });
  await held.asked;
  await patch(at, { display_name: "Meanwhile" });
  const before = await shown(at);
  held.release();
  assert.equal((await moving).status, 412);
  assert.equal(await shown(at), before);
  assert.equal(
    (await patch(at, moveTo(`${other.url}-gone`), { "if-match": '"old"' })).status,
    412,
    "before it is read",
  );
});

test("also checks a branch that is set while the repository is read", async () => {
  await using held = await heldRepository(other.directory);
  const at = await create();
  const moving = patch(at, moveTo(held.url));
  await held.asked;
  assert.equal((await patch(at, { tracked_repo_ref: "dev" })).status, 200);
  held.release();
  const { status, text } = await moving;
  assert.equal(status, 400, text);
  assert.match(text, /no branch 'dev'/);
  assert.match(await shown(at), new RegExp(first.url));
});

test("gives up on a silent host while the client still waits", { timeout: 30_000 }, async () => {
  await using held = await heldRepository(other.directory);
  const at = await create();
  const before = await shown(at);
  const { status, text } = await patch(at, moveTo(held.url), { "idempotency-key": randomUUID() });
  assert.equal(status, 502, text);
  assert.match(text, /did not answer/);
  assert.equal(await shown(at), before);
});
