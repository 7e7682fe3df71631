import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, before, test } from "node:test";
import { eventually } from "../support/eventually.ts";
import { startWithTwoWorkspaces, type TwoWorkspaces } from "./two-workspaces.ts";
import { victimIsAnsweredBeside, withoutPause } from "./victim-answers.ts";

/** What one workspace stores, and asks for at once, must not cost the others. */
let world: TwoWorkspaces;
before(async () => {
  world = await startWithTwoWorkspaces({ PIERHEAD_COMPUTE: "none" });
});
after(() => world[Symbol.asyncDispose]());

const key = () => ({ "x-api-key": world.attacker.apiKey });

const ask = async (path: string, signal?: AbortSignal) => {
  const answer = await fetch(world.pierhead.url + path, { headers: key(), ...(signal && { signal }) });
  return { status: answer.status, text: await answer.text() };
};

const create = (name: string, length: number) =>
  world.attacker.api.createDeployment({
    body: {
      ...{ name, source: "internal_source" as const, source_config: {}, source_revision_config: {} },
      secrets: [{ name: "LARGE", value: `${name} ${"x".repeat(length)}` }],
    },
  });

test("the audit log keeps the beginning of long values", async () => {
  const { id } = await create("audited", 10);
  const secrets = Array.from({ length: 4_000 }, (_, at) => ({ name: `NAME_${at}_${"N".repeat(100)}`, value: "v" }));
  await world.attacker.api.patchDeployment({ deployment_id: id, body: { secrets } });
  const { status, text } = await ask(`/v2/admin/audit-log?deployment_id=${id}`);
  assert.equal(status, 200);
  assert.ok(text.length < 30_000, `${text.length} characters`);
  assert.match(text, /… and \d{4} more/);
  const tooLong = world.attacker.api.patchDeployment({ deployment_id: id, body: { display_name: "n".repeat(257) } });
  await assert.rejects(tooLong, { status: 422 });
});

test("a page of deployments has their large secrets, however many, so that a pager with a fixed limit reads on", async () => {
  const names = Array.from({ length: 18 }, (_, at) => `large-${at}`);
  for (const name of names) await create(name, 1_000_000);
  const page = await ask("/v2/deployments?limit=18&offset=1&sort_by=name&sort_order=asc");
  assert.equal(page.status, 200, page.text.slice(0, 300));
  const { resources, offset } = JSON.parse(page.text) as {
    resources: { name: string; secrets: { value: string }[] }[];
    offset: number;
  };
  assert.equal(offset, 19);
  assert.deepEqual(
    resources.map(({ name }) => name),
    names.toSorted(),
  );
  for (const { name, secrets } of resources) {
    assert.deepEqual([secrets[0]?.value.split(" ")[0], secrets[0]?.value.length], [name, name.length + 1_000_001]);
  }
  const found: string[] = [];
  for await (const { name } of world.attacker.api.all("listDeployments", {})) found.push(name);
  assert.deepEqual(found.toSorted(), ["audited", ...names].toSorted());
});

test("references to secrets and settings count as well", async () => {
  const { api, id: workspaceId } = world.attacker;
  const { id } = await api.createListener({ body: { compute_type: "k8s", compute_id: "cluster", compute_config: {} } });
  const secret_references = Array.from({ length: 4_000 }, (_, at) => ({
    ...{ name: `N${at}_${"X".repeat(150)}`, secret_name: "s".repeat(100), secret_key: "k".repeat(100) },
  }));
  for (let at = 0; at < 12; at += 1) {
    const made = await api.createDeployment({
      body: {
        ...{ name: `referring-${at}`, source: "external_docker" as const, source_config: { listener_id: id } },
        ...{ source_revision_config: { image_uri: "127.0.0.1:1/agent:1" }, secrets: [], secret_references },
      },
    });
    assert.equal(made.tenant_id, workspaceId);
  }
  const of = `/v2/deployments?listener_id=${id}`;
  const { resources } = JSON.parse((await ask(`${of}&limit=100`)).text) as {
    resources: { secret_references: object[]; source_config: { listener_id: string } }[];
  };
  assert.equal(resources.length, 12);
  for (const one of resources) {
    assert.deepEqual([one.secret_references, one.source_config.listener_id], [secret_references, id]);
  }
});

test("the same holds for variable groups", async () => {
  const { api } = world.victim;
  const value = "x".repeat(250_000);
  for (let group = 0; group < 5; group += 1) {
    const variables = [{ name: "V0", value, is_secret: false }];
    const { id } = await api.createVariableGroup({ body: { name: `group-${group}`, variables } });
    const set = ["V1", "V2", "V3"].map((name) => ({ name, value, is_secret: false }));
    for (const one of set) await api.patchVariableGroup({ variable_group_id: id, body: { set: [one] } });
  }
  await api.createVariableGroup({ body: { name: "small", variables: [{ name: "V", value: "1", is_secret: false }] } });
  const { resources } = await api.listVariableGroups({});
  assert.deepEqual(
    resources.map(({ name, variables }) => [name, variables.map((one) => one.value?.length)]),
    [...Array.from({ length: 5 }, (_, at) => [`group-${at}`, new Array(4).fill(250_000)]), ["small", [1]]],
  );
});

test("another workspace is answered while one reads a large deployment all the time", async () => {
  const { id } = await create("read-often", 1_000_000);
  await othersAreAnsweredDuring(`/v2/deployments/${id}`);
});

test("another workspace is answered while one reads pages of large deployments all the time", async () => {
  await othersAreAnsweredDuring("/v2/deployments?limit=100");
});

test("a workspace that does not read pages of large deployments gets no more of them, and another one does", async () => {
  const path = "/v2/deployments?limit=100";
  const { hostname, port } = new URL(world.pierhead.url);
  const sockets = Array.from({ length: 80 }, () => {
    const socket = connect(Number(port), hostname).on("error", () => {});
    socket.pause();
    socket.write(`GET ${path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: ${world.attacker.apiKey}\r\n\r\n`);
    return socket;
  });
  const status = async () => (await fetch(world.pierhead.url + path, { method: "HEAD", headers: key() })).status;
  try {
    await eventually(status, (one) => one === 429, { timeoutMs: 30_000, what: "a refusal" });
    await world.victim.api.listDeployments({});
  } finally {
    for (const socket of sockets) socket.destroy();
  }
  await eventually(status, (one) => one === 200, { timeoutMs: 30_000, what: "an answer after they have left" });
});

const othersAreAnsweredDuring = (path: string) =>
  victimIsAnsweredBeside(
    world,
    withoutPause((signal) => ask(path, signal)),
  );
