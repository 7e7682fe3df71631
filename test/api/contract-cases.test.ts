import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { after, test } from "node:test";
import { createApi } from "../../src/api/app.ts";
import type { ApiSettings } from "../../src/api/deps.ts";
import { listTemplates, templatesDirectory } from "../../src/builds/sources/templates.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { startApi } from "./harness.ts";

/** One line of test/contract-cases/*.jsonl; its README explains the keys. */
interface Case {
  rule: string;
  server?: string;
  on?: string;
  key?: string;
  verb: string;
  path: string;
  headers?: Record<string, string>;
  body?: unknown;
  text?: string;
  status: number;
  answer?: unknown;
  part?: Record<string, unknown>;
}

const directory = path.join(import.meta.dirname, "../contract-cases");
const read = (file: string) => readFileSync(path.join(directory, file), "utf8");
const fixtures: Record<string, Record<string, unknown>> = JSON.parse(read("fixtures.json"));

const servers: Record<string, Partial<ApiSettings>> = {
  standalone: {},
  cloud: { mode: "cloud" },
  self_hosted: { mode: "self_hosted" },
  "without data plane": { hasBuiltinDataPlane: false },
  uncapped: { uncappedResources: true },
};

const t = await startApi({ templatesDir: templatesDirectory });
const apis = Object.fromEntries(
  await Promise.all(
    Object.entries(servers).map(async ([name, settings]) => {
      const api = await createApi({ ...t.deps, settings: { ...t.deps.settings, ...settings } });
      after(() => api.close());
      return [name, api] as const;
    }),
  ),
);

const keys: Record<string, string | undefined> = {
  admin: t.tenant.adminKey,
  none: undefined,
  reader: await t.mintKey({ role: "reader" }),
  deployer: await t.mintKey({ role: "deployer" }),
  organization: await t.mintKey({ isOrganizational: true }),
};

async function makeFixture(name: string, key = t.tenant.adminKey) {
  const payload = { name: `${name.replaceAll("_", "-")} ${randomUUID()}`, ...fixtures[name] };
  const { status, body, text } = await t.ask({ method: "POST", url: "/v2/deployments", key, payload });
  assert.equal(status, 201, `${name}: ${text}`);
  if (name === "deleting") await t.ask({ method: "DELETE", url: `/v2/deployments/${body.id}`, key });
  return body;
}

const { id: theirs } = await makeFixture("internal_docker", t.stranger.adminKey);

const repository = await createAgentRepository({ "agents/langgraph.json": "{}" });
after(() => repository[Symbol.asyncDispose]());
await repository.branch("bare");
await repository.commit({ "langgraph.json": "{}" });

const templates = (await listTemplates()).map(({ id }) => id).join(", ");

const integration = await t.ask({
  method: "POST",
  url: "/v2/integrations",
  payload: { host: "github", name: "cases", url: "https://github.com/acme", token: "ghp_cases" },
});
assert.equal(integration.status, 201, integration.text);
const integrationId: string = integration.body.id;

/** Replaces every placeholder of a case by its value in this run. */
async function fill(one: Case): Promise<Case> {
  const made = one.on === undefined ? undefined : await makeFixture(one.on);
  const names = {
    id: made?.id,
    revision: made?.latest_revision_id,
    name: made?.name,
    theirs,
    unknown: "00000000-0000-4000-8000-000000000000",
    tenant: t.tenant.tenantId,
    stranger: t.stranger.tenantId,
    templates,
    repository: repository.url,
    integration: integrationId,
    INTEGRATION: integrationId.toUpperCase(),
    integration_hex: integrationId.replaceAll("-", ""),
  };
  const entries = Object.entries(names).filter(([, value]) => value !== undefined);
  return JSON.parse(entries.reduce((text, [name, value]) => text.replaceAll(`{${name}}`, value), JSON.stringify(one)));
}

async function run(one: Case): Promise<void> {
  const { server = "standalone", key = "admin", verb, path: url, body, text, headers, ...expected } = await fill(one);
  const api = apis[server];
  assert.ok(api && key in keys, `no such server or key: ${server}, ${key}`);
  const payload = text ?? (body === undefined ? undefined : JSON.stringify(body));
  const answer = await api.inject({
    method: verb as "GET",
    url,
    headers: {
      ...(keys[key] !== undefined && { "x-api-key": keys[key] }),
      ...(body !== undefined && { "content-type": "application/json" }),
      ...headers,
    },
    ...(payload !== undefined && { payload }),
  });
  assert.equal(answer.statusCode, expected.status, answer.payload);
  const got = answer.payload === "" ? undefined : answer.json();
  if (expected.part === undefined) assert.deepEqual(got, expected.answer ?? undefined);
  else assert.partialDeepStrictEqual(got, expected.part);
}

let count = 0;
for (const file of readdirSync(directory).filter((name) => name.endsWith(".jsonl"))) {
  const cases: Case[] = read(file)
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  count += cases.length;
  test(file, async (t) => {
    for (const [index, one] of cases.entries()) {
      await t.test(`${index + 1}: ${one.rule}`, () => run(one));
    }
  });
}

test("runs at least 300 cases", () => assert.ok(count >= 300, String(count)));
