import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { after, test } from "node:test";
import { errorHeader } from "../../src/contract/error.ts";
import { epochHeader } from "../../src/contract/listeners/assignment.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { deploymentNowhere } from "../support/call-api.ts";
import { startTestServer } from "../support/server.ts";

interface Limit {
  what: string;
  /** In bytes, in seconds, or a plain count. */
  max: number;
  status: number;
  code: string | null;
}

const units: Record<string, number> = { KiB: 2 ** 10, MiB: 2 ** 20 };

/** Returns the rows of the table in docs/reference/limits.md. */
async function readTable(): Promise<Limit[]> {
  const rows = (await readFile("docs/reference/limits.md", "utf8")).matchAll(
    /^\| (.+?) \| (\d+) ?(\S*) \| (\d+) ?(?:`(\w+)`)? \|$/gm,
  );
  return [...rows].map(([, what = "", number, unit = "", status, code]) => ({
    ...{ what, max: Number(number) * (units[unit] ?? 1) },
    ...{ status: Number(status), code: code ?? null },
  }));
}

interface Answer {
  status: number;
  code: string | null;
}

/** Sends a request of a given size: the limit, or one more. */
type Probe = (size: number) => Promise<Answer>;

const pierhead = await startTestServer({ PIERHEAD_RATE_LIMIT: "1000000" });
after(() => pierhead[Symbol.asyncDispose]());

async function ask(verb: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const answer = await fetch(new URL(path, pierhead.url), {
    method: verb,
    headers: { "x-api-key": pierhead.apiKey, "content-type": "application/json", ...headers },
    ...(body !== undefined && { body: body instanceof Blob || typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await answer.text();
  // biome-ignore lint/suspicious/noExplicitAny: responses of every shape.
  const read = (): any => JSON.parse(text);
  return { status: answer.status, code: answer.headers.get(errorHeader), text, read };
}

const create = (changed: object) =>
  ask("POST", "/v2/deployments", { ...deploymentNowhere, name: randomUUID(), ...changed });

/** Makes `count` calls and returns the result of the last one. The earlier ones must succeed. */
async function repeated(count: number, act: (index: number) => Promise<Answer>): Promise<Answer> {
  for (let index = 1; index < count; index += 1) assert.ok((await act(index)).status < 300, `${index} of ${count}`);
  return act(count);
}

/** Deletes all resources of a list, so that each probe starts with none. */
async function emptied(path: string, field = "id"): Promise<void> {
  for (;;) {
    const { resources } = (await ask("GET", `${path}?limit=100`)).read();
    if (resources.length === 0) return;
    for (const one of resources) await ask("DELETE", `${path}/${one[field]}`);
  }
}

const tag = async () => (await ask("POST", "/v2/admin/tags", { name: randomUUID() })).read().id as string;
const tagValue = async (id: string) => {
  const made = await ask("POST", `/v2/admin/tags/${id}/values`, { name: randomUUID() });
  return { ...made, id: made.status < 300 ? (made.read().id as string) : "" };
};

const oauthProvider = (provider_id: string, fields: object = {}) =>
  ask("POST", "/v2/auth/providers", {
    ...{ provider_id, name: "Example", client_id: "c", client_secret: "s", ...fields },
    ...{ auth_url: "https://id.invalid/authorize", token_url: "https://id.invalid/token" },
  });

async function withoutProviders(): Promise<void> {
  for (const { provider_id } of (await ask("GET", "/v2/auth/providers")).read())
    await ask("DELETE", `/v2/auth/providers/${provider_id}`);
}

/** Imports a token of a provider that exists from the first call on. */
const importedToken = async (fields: object, user: string = randomUUID()) => {
  await oauthProvider("limits");
  const body = { provider_id: "limits", access_token: "a", ...fields };
  return ask("POST", "/v2/auth/tokens/import", body, { "x-user-id": user });
};

const variableGroup = () => ask("POST", "/v2/variable-groups", { name: randomUUID() });

/** Returns a valid create request, padded with spaces to exactly `size` bytes. */
function paddedBody(size: number): string {
  const text = JSON.stringify({ ...deploymentNowhere, name: randomUUID() });
  return text.padEnd(size, " ");
}

/** Returns a body with exactly `count` values, most of them in a list that the server ignores. */
function withList(body: object, count: number): string {
  const text = JSON.stringify(body);
  const others = (text.match(/[[{,]/g)?.length ?? 0) + 2;
  return `${text.slice(0, -1)},"ignored":[${Array(count - others + 1)
    .fill(0)
    .join(",")}]}`;
}

async function openListener(): Promise<{ listener_key: string; epoch: string }> {
  const made = await ask("POST", "/v2/listeners", {
    compute_type: "k8s",
    compute_id: randomUUID(),
    compute_config: {},
  });
  const { listener_key } = made.read();
  const session = { instance_id: "one", version: "1", protocols: [1], compute_type: "k8s" };
  const opened = await ask("POST", "/dp/v1/sessions", session, { "x-api-key": listener_key });
  return { listener_key, epoch: String(opened.read().epoch) };
}

const createImage = (resource_spec: object) =>
  create({
    ...{ source: "external_docker", source_config: { resource_spec } },
    source_revision_config: { image_uri: "registry.invalid/agent:1" },
  });

const probes: Record<string, Probe> = {
  "body of a request that creates or changes a deployment": (size) => ask("POST", "/v2/deployments", paddedBody(size)),
  "body of a report of a listener": async (size) => {
    const { listener_key, epoch } = await openListener();
    const headers = { "x-api-key": listener_key, [epochHeader]: epoch };
    return ask("POST", "/dp/v1/status", '{"reports":[]}'.padEnd(size, " "), headers);
  },
  "body of a message of a code host": async (size) => {
    const result = await ask("POST", "/v1/integrations/github/webhook", "{}".padEnd(size, " "), {
      "x-hub-signature-256": "sha256=0",
    });
    // The server read the whole message before it found that the signature is wrong, so the size is accepted.
    return result.code === "webhookUnsigned" ? { status: 200, code: null } : result;
  },
  "body of any other request with a key": (size) =>
    ask("POST", "/v2/webhooks", JSON.stringify({ url: "https://hooks.invalid/" }).padEnd(size, " ")),
  "body of any other request without a key": (size) => ask("POST", "/v1/metadata/submit", "{}".padEnd(size, " ")),
  "values in a body that creates or changes a deployment": (count) =>
    // The object, its list and the commas between its own members, and then one for each item.
    ask("POST", "/v2/deployments", withList({ ...deploymentNowhere, name: randomUUID() }, count)),
  "values in any other body with a key": (count) =>
    ask("POST", "/v2/webhooks", withList({ url: "https://hooks.invalid/" }, count)),
  "levels of a body": (depth) => {
    const list = "[".repeat(depth - 1) + "]".repeat(depth - 1);
    return ask("POST", "/v2/webhooks", `{"url":"https://hooks.invalid/","ignored":${list}}`);
  },
  "an uploaded archive": async (size) => {
    // Allocate before the first request: it takes seconds on a busy machine, and the server closes idle connections meanwhile.
    const archive = new Blob([new Uint8Array(size)]);
    const body = { name: randomUUID(), source: "internal_source", source_config: {}, source_revision_config: {} };
    const { id } = (await ask("POST", "/v2/deployments", body)).read();
    const { upload_url } = (await ask("POST", `/v2/deployments/${id}/upload-url`)).read();
    const result = await ask("PUT", upload_url, archive, { "content-type": "application/gzip" });
    // The server read the whole upload before it found that it is not an archive, so the size is accepted.
    return result.code === "uploadBroken" ? { status: 200, code: null } : result;
  },
  "an archive in which a server is detected": async (size) => {
    const result = await ask("POST", "/v2/detections/archive", new Blob([new Uint8Array(size)]), {
      "content-type": "application/gzip",
    });
    // The server read the whole file before it found that it is not an archive, so the size is accepted.
    return result.code === "uploadBroken" ? { status: 200, code: null } : result;
  },
  "body of a request to an agent": async (size) => ask("POST", await agentUrl(), new Blob([new Uint8Array(size)])),
  "path, names and values of headers of a request, all together": (size) => rawRequest(size),
  "time for the headers of a request to arrive": async (seconds) => (seconds === slowS ? inTime : tooLate),
  "items of a page": (count) => ask("GET", `/v2/deployments?limit=${count}`),
  "lines of a page of a log": async (count) => {
    const { id } = (await create({})).read();
    return ask("GET", `/v2/deployments/${id}/logs?type=deploy&limit=${count}`);
  },
  "query of a log search": (length) => ask("GET", `/v2/logs?query=${"x".repeat(length)}`),
  "deployments deleted by one call": async (count) => {
    const ids = Array.from({ length: count }, () => randomUUID());
    const result = await ask("DELETE", `/v2/deployments?deployment_ids=${ids.join()}`);
    // The response reports for each id that the deployment does not exist, so the count is accepted.
    return result.status === 422 ? result : { status: 200, code: null };
  },
  "name of a deployment": (length) => create({ name: randomUUID().padEnd(length, "x") }),
  "`Idempotency-Key`": (length) => {
    const headers = { "idempotency-key": randomUUID().padEnd(length, "x") };
    return ask("POST", "/v2/deployments", { ...deploymentNowhere, name: randomUUID() }, headers);
  },
  "secrets of a deployment, names and values together": (bytes) =>
    create({ secrets: [{ name: "KEY", value: "x".repeat(bytes - "KEY".length) }] }),
  "name of a secret": (length) => create({ secrets: [{ name: "K".repeat(length), value: "x" }] }),
  "secrets of a deployment, and references to those of Kubernetes, each": (count) =>
    create({ secrets: Array.from({ length: count }, (_, index) => ({ name: `KEY_${index}`, value: "" })) }),
  "`resource_spec` of a deployment, as JSON": (bytes) => {
    const specOf = (text: string) => ({ annotations: { a: text } });
    return createImage(specOf("x".repeat(bytes - JSON.stringify(specOf("")).length)));
  },
  "replicas of a deployment (`max_scale`)": (count) => createImage({ max_scale: count }),
  "labels of a listener": (count) => {
    const labels = Object.fromEntries(Array.from({ length: count }, (_, index) => [`label-${index}`, ""]));
    return ask("POST", "/v2/listeners", { compute_type: "k8s", compute_id: randomUUID(), compute_config: {}, labels });
  },
  "namespaces of a listener": (count) => {
    const k8s_namespaces = Array.from({ length: count }, (_, index) => `agents-${index}`);
    const listener = { compute_type: "k8s", compute_id: randomUUID(), compute_config: { k8s_namespaces } };
    return ask("POST", "/v2/listeners", listener);
  },
  "tags of a workspace": async (count) => {
    await emptied("/v2/admin/tags");
    return repeated(count, () => ask("POST", "/v2/admin/tags", { name: randomUUID() }));
  },
  "values of a tag": async (count) => {
    await emptied("/v2/admin/tags");
    const id = await tag();
    return repeated(count, () => tagValue(id));
  },
  "tags on a deployment": async (count) => {
    await emptied("/v2/admin/tags");
    const id = await tag();
    const tag_value_ids: string[] = [];
    for (let made = 0; made < count; made += 1) tag_value_ids.push((await tagValue(id)).id);
    const deployment = (await create({})).read();
    return ask("PUT", `/v2/admin/deployments/${deployment.id}/tags`, { tag_value_ids });
  },
  "variable groups of a workspace": async (count) => {
    await emptied("/v2/variable-groups");
    return repeated(count, variableGroup);
  },
  "variable groups of a deployment": async (count) => {
    await emptied("/v2/variable-groups");
    const variable_group_ids: string[] = [];
    for (let made = 0; made < count; made += 1) variable_group_ids.push((await variableGroup()).read().id);
    const deployment = (await create({})).read();
    const path = `/v2/deployments/${deployment.id}/variable-groups`;
    const set = await ask("PUT", path, { variable_group_ids });
    // A group that is used cannot be deleted, and the next probe begins without any.
    await ask("PUT", path, { variable_group_ids: [] });
    return set;
  },
  "webhooks of a workspace": async (count) => {
    await emptied("/v2/webhooks");
    return repeated(count, () => ask("POST", "/v2/webhooks", { url: "https://hooks.invalid/" }));
  },
  "integrations of a workspace": async (count) => {
    await emptied("/v2/integrations");
    const body = { host: "gitlab", url: "https://git.invalid/acme", token: "glpat-0123456789" };
    return repeated(count, () => ask("POST", "/v2/integrations", { ...body, name: randomUUID() }));
  },
  "OAuth providers of an organization": async (count) => {
    await withoutProviders();
    return repeated(count, () => oauthProvider(randomUUID().slice(1)));
  },
  "parameters and redirect URIs of an OAuth provider, as JSON": async (bytes) => {
    await withoutProviders();
    const paramsOf = (text: string) => ({ ...parts, z: text });
    const parts = Object.fromEntries(Array.from({ length: 15 }, (_, index) => [`p${index}`, "x".repeat(1_024)]));
    const emptyBytes = JSON.stringify([paramsOf(""), []]).length;
    return oauthProvider(randomUUID().slice(1), { authorization_params: paramsOf("x".repeat(bytes - emptyBytes)) });
  },
  "tokens of one owner at one OAuth provider": async (count) => {
    await withoutProviders();
    const user = randomUUID();
    return repeated(count, () => importedToken({}, user));
  },
  "scopes of an OAuth token, with a blank between two": (length) => {
    const whole = Array.from({ length: Math.floor((length + 1) / 512) }, () => "s".repeat(511));
    const rest = length - whole.join(" ").length - 1;
    return importedToken({ scopes: rest > 0 ? [...whole, "s".repeat(rest)] : whole });
  },
  "metadata of an imported OAuth token, as JSON": (length) =>
    importedToken({ metadata: { a: "x".repeat(length - JSON.stringify({ a: "" }).length) } }),
};

/** Writes text to a socket, and optionally more text later. Returns the status of the response; 0 if there is none. */
async function exchange(text: string, later?: { afterMs: number; text: string }): Promise<Answer> {
  const { hostname, port } = new URL(pierhead.url);
  const socket = connect(Number(port), hostname, () => socket.write(text));
  const timer = later && setTimeout(() => socket.write(later.text), later.afterMs);
  try {
    for await (const chunk of socket) {
      const [, status] = /^HTTP\/1\.1 (\d+)/.exec(chunk.toString()) ?? [];
      return { status: Number(status), code: null };
    }
    return { status: 0, code: null };
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}

/** Sends a request whose path, header names and header values have exactly `size` bytes in total. */
function rawRequest(size: number): Promise<Answer> {
  const others = "/ok" + "host" + "x" + "x-padding";
  return exchange(`GET /ok HTTP/1.1\r\nhost: x\r\nx-padding: ${"x".repeat(size - others.length)}\r\n\r\n`);
}

/** Deploys an agent that answers every request. Returns its URL. */
async function deployAgent(): Promise<string> {
  const repository = await createAgentRepository();
  const { id, latest_revision_id } = await pierhead.client.createDeployment({
    body: {
      ...{ name: randomUUID(), source: "github" },
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  await pierhead.client.waitForRevision({ deployment_id: id, revision_id: latest_revision_id as string });
  await repository[Symbol.asyncDispose]();
  return (await pierhead.client.getDeployment({ deployment_id: id })).url as string;
}

let deployed: Promise<string> | undefined;
const agentUrl = (): Promise<string> => {
  deployed ??= deployAgent();
  return deployed;
};

const table = await readTable();

/** Start these two requests before the other probes, because they take this long: one completes in time, one never does. */
const slowS = table.find(({ what }) => what.startsWith("time for the headers"))?.max ?? 0;
const late = "GET /ok HTTP/1.1\r\nhost: x\r\n";
const inTime = exchange(late, { afterMs: (slowS * 1_000) / 2, text: "\r\n" });
const tooLate = exchange(late);

test("has exactly one probe for each documented limit", () => {
  assert.deepEqual(table.map(({ what }) => what).sort(), Object.keys(probes).sort());
});

for (const { what, max, status, code } of table) {
  test(`documented limit "${what}": accepts ${max} and answers ${status} above`, async () => {
    const probe = probes[what] as Probe;
    const within = await probe(max);
    assert.ok(within.status >= 200 && within.status < 300, `${max}: ${within.status}`);
    const beyond = await probe(max + 1);
    assert.equal(beyond.status, status);
    if (code !== null) assert.equal(beyond.code, code);
  });
}
