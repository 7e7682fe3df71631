import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { mayCall, reaches } from "../../src/auth/permissions.ts";
import type { KeyScope } from "../../src/contract/administration/organization.ts";
import { type ApiError, errors } from "../../src/contract/error.ts";
import type { Operation } from "../../src/contract/operation.ts";
import { type OperationId, operations } from "../../src/contract/operations.ts";
import { sql } from "../../src/store/engine/sql.ts";
import type { KeyRole } from "../../src/store/tenants/api-keys.ts";
import { type Ids, namedThings, secretText } from "../support/call-api.ts";
import { type Owner, requestOf, samples, serviceKeyOf, startAccessFixture } from "./access-fixture.ts";

const { t, base, mine, theirs, make, namesOf, headersOf, revokedKey, rowsOf } = await startAccessFixture();
const table: Operation[] = Object.values(operations);

/** Every kind of caller. */
interface Caller {
  name: string;
  headers: Record<string, string>;
  owner: Owner;
  role: KeyRole;
  scope: KeyScope;
  /**
   * The error that this caller gets from every operation that needs a key, or only from those that work in a workspace.
   */
  refusal?: ApiError;
  workspaceRefusal?: ApiError;
}

const keyOf = (key: string, tenantId?: string) => ({
  "x-api-key": key,
  ...(tenantId !== undefined && { "x-tenant-id": tenantId }),
});
const expiresAt = new Date(Date.now() - 1);
const organizationKey = await t.mintKey({ isOrganizational: true });
const admin = { owner: mine, role: "admin", scope: "workspace" } as const;
const unknown = { ...admin, refusal: errors.invalidToken() };
const ofOrganization = { ...admin, scope: "organization" } as const;

const callers: Caller[] = [
  { ...unknown, name: "no key", headers: {} },
  { ...unknown, name: "bad key", headers: keyOf(`ph_000000000000_${"0".repeat(43)}`) },
  { ...unknown, name: "own key with a wrong end", headers: keyOf(mine.adminKey.slice(0, -1)) },
  { ...unknown, name: "revoked key", headers: keyOf(await revokedKey()) },
  { ...unknown, name: "expired key", headers: keyOf(await t.mintKey({ expiresAt })) },
  {
    ...admin,
    name: "right key, another workspace",
    headers: keyOf(mine.adminKey, theirs.tenantId),
    refusal: errors.tenantMismatch(),
  },
  {
    ...ofOrganization,
    name: "organization key, no workspace",
    headers: keyOf(organizationKey),
    workspaceRefusal: errors.workspaceRequired(),
  },
  {
    ...ofOrganization,
    name: "organization key, another organization's workspace",
    headers: keyOf(organizationKey, theirs.tenantId),
    refusal: errors.forbidden(),
  },
  { ...admin, name: "caller key", headers: keyOf(await t.mintKey({ role: "caller" })), role: "caller" },
  { ...admin, name: "reader key", headers: keyOf(await t.mintKey({ role: "reader" })), role: "reader" },
  { ...admin, name: "agent key", headers: keyOf(await t.mintKey({ role: "agent" })), role: "agent" },
  {
    ...admin,
    name: "service key",
    headers: { "x-service-key": serviceKeyOf(mine.tenantId) },
    role: "agent",
  },
  {
    ...unknown,
    name: "service key of a workspace that is not there",
    headers: { "x-service-key": serviceKeyOf(randomUUID()) },
  },
  {
    ...admin,
    name: "service key, another workspace",
    headers: { "x-service-key": serviceKeyOf(mine.tenantId), "x-tenant-id": theirs.tenantId },
    role: "agent",
    refusal: errors.tenantMismatch(),
  },
  { ...admin, name: "deployer key", headers: keyOf(await t.mintKey({ role: "deployer" })), role: "deployer" },
  { ...admin, name: "admin key", headers: keyOf(mine.adminKey) },
  { ...ofOrganization, name: "organization key", headers: keyOf(organizationKey, mine.tenantId) },
  {
    ...admin,
    name: "operator key",
    headers: keyOf(await t.mintKey({ isOperator: true })),
    scope: "installation",
  },
  { ...admin, name: "listener key", headers: keyOf(mine.listenerKey, mine.tenantId), role: "listener" },
  { ...admin, name: "other tenant's key", headers: keyOf(theirs.adminKey), owner: theirs },
];

/** Returns the error that rejects this caller before the request is validated; undefined for an admitted caller. */
function barrier(caller: Caller, { role: needed, administers, errors: own }: Operation): ApiError | undefined {
  if (needed === "none") return undefined;
  if (caller.refusal?.status === 401) return caller.refusal;
  // A data plane has no workspace, so a caller with another key learns which one is required.
  if (needed === "listener") return caller.role === "listener" ? undefined : errors.roleMissing(needed);
  if (caller.refusal !== undefined) return caller.refusal;
  if (administers === null && caller.workspaceRefusal !== undefined) return caller.workspaceRefusal;
  if (!mayCall(caller.role, needed)) return errors.roleMissing(needed);
  // Resources shared by all workspaces of the organization, which has two of them here.
  const least = administers ?? (own.includes("scopeMissing") ? "organization" : "workspace");
  return reaches(caller.scope, least) ? undefined : errors.scopeMissing(least);
}

/** An operator administers everything, so nothing is foreign to it. */
const reachesAll = ({ scope }: Caller, { administers }: Operation) => scope === "installation" && administers !== null;

interface Answer {
  status: number;
  headers: Record<string, string>;
  text: string;
}

/** Reads only the head of an endless response. */
async function ask(caller: Caller, operation: Operation, ids: Ids, headers = {}): Promise<Answer> {
  const { path, body } = requestOf(operation, ids, caller.owner);
  const answer = await fetch(base + path, {
    method: operation.verb,
    headers: { ...caller.headers, ...headers, ...(body !== null && { "content-type": "application/json" }) },
    body,
  });
  const named = Object.fromEntries(answer.headers);
  const isEndless = named["content-type"]?.startsWith("text/event-stream") === true;
  if (isEndless) await answer.body?.cancel();
  const { "x-request-id": _id, date: _date, ...rest } = named;
  return { status: answer.status, headers: rest, text: isEndless ? "" : await answer.text() };
}

/** Returns one copy per id, with that id replaced and the others unchanged. */
function variants(ids: Ids, other: (name: string) => string): [string, Ids][] {
  return Object.keys(ids).map((name) => [name, { ...ids, [name]: other(name) }]);
}

/** Returns the errors of an operation for unknown ids, as this caller would read them. */
function unknownBodies({ errors: codes }: Operation, ids: Ids): unknown[] {
  const notFound = codes.filter((code) => code.endsWith("NotFound"));
  return notFound.flatMap((code) =>
    Object.values(ids).map((id) => (errors[code] as (id: string) => ApiError)(id).body()),
  );
}

/** The id only filters results or asks whether something exists, so an unknown one finds nothing. */
function isFilter({ id, path, query }: Operation, name: string): boolean {
  // It leaves out what the caller cannot see, because a list on a page may name a deployment that was just deleted.
  if (id === "readSummaries") return true;
  const { required = [] } = (query ?? {}) as { required?: string[] };
  const isNeeded = required.some((one) => one.replace(/_ids$/, "_id") === name);
  return !path.includes(`{${name}}`) && (!isNeeded || namedThings.has(name));
}

for (const operation of table) {
  const label = `${operation.verb} ${operation.path} (${operation.id})`;

  if (operation.role === "none") {
    test(`${label}: gives every caller the same response`, async () => {
      const ids = await make(operation, mine);
      const { refusal } = samples[operation.id as OperationId] ?? {};
      const expected = refusal === undefined ? operation.response.status : statusOf(refusal);
      const answers = await Promise.all(callers.map((caller) => ask(caller, operation, ids)));
      for (const answer of answers) assert.deepEqual([answer.status, answer.text], [expected, answers[0]?.text]);
    });
    continue;
  }

  test(`${label}: returns the same error body to every rejected caller`, async () => {
    const sets = [await make(operation, mine), await make(operation, theirs)];
    sets.push(Object.fromEntries(Object.keys(sets[0] ?? {}).map((name) => [name, randomUUID()])));
    sets.push(Object.fromEntries(Object.keys(sets[0] ?? {}).map((name) => [name, "no-uuid"])));
    for (const caller of callers) {
      const refusal = barrier(caller, operation);
      if (refusal === undefined) continue;
      const answers = await Promise.all(sets.map((ids) => ask(caller, operation, ids)));
      for (const answer of answers) {
        assert.deepEqual([answer.status, JSON.parse(answer.text)], [refusal.status, refusal.body()], caller.name);
        assert.deepEqual(answer, answers[0], caller.name);
      }
    }
  });

  test(`${label}: serves admitted callers and shows them nothing of others`, async () => {
    const callersIn = callers.filter((caller) => barrier(caller, operation) === undefined);
    assert.ok(callersIn.length > 0, "no caller is admitted");
    for (const caller of callersIn) {
      const ids = await make(operation, caller.owner);
      const answer = await ask(caller, operation, ids, await headersOf(operation, caller.owner));
      const { refusal } = samples[operation.id as OperationId] ?? {};
      const expected = refusal === undefined ? operation.response.status : statusOf(refusal);
      const hint = `${caller.name}: ${answer.text}\nIf the request is not a good one, add it to samples in test/api/access-fixture.ts.`;
      assert.equal(answer.status, expected, hint);
      const other = caller.owner === mine ? theirs : mine;
      assert.ok(reachesAll(caller, operation) || !answer.text.includes(other.mark), caller.name);
      if (caller.role === "reader") assert.ok(!answer.text.includes(secretText));
    }
  });

  if (namesOf(operation).length === 0) continue;

  test(`${label}: answers alike for foreign and unknown ids`, async () => {
    // Requests for missing resources change nothing, so one set of resources serves all callers.
    const things = [await make(operation, mine), await make(operation, theirs)] as const;
    const tenants = callers.filter((one) => barrier(one, operation) === undefined && !reachesAll(one, operation));
    const before = await Promise.all(things.map(rowsOf));
    assert.ok(before.every((rows) => rows.length > 0));
    for (const caller of tenants) {
      const [own, foreign] = caller.owner === mine ? things : [things[1], things[0]];
      const headers = await headersOf(operation, caller.owner);
      for (const [name, ids] of variants(own, (one) => foreign[one] as string)) {
        const random = { ...ids, [name]: randomUUID() };
        const [known, absent] = [
          await ask(caller, operation, ids, headers),
          await ask(caller, operation, random, headers),
        ];
        const renamed = absent.text.replaceAll(random[name] as string, ids[name] as string);
        assert.deepEqual({ ...absent, text: renamed }, known, `${caller.name}, ${name}`);
        if (isFilter(operation, name) && known.status === operation.response.status) continue;
        // The body is rejected before the path is checked.
        const { refusal } = samples[operation.id as OperationId] ?? {};
        if (refusal !== undefined && known.status === statusOf(refusal)) continue;
        assert.equal(known.status, 404, `${caller.name}, ${name}: ${known.text}`);
        assert.ok(
          unknownBodies(operation, ids).some((body) => JSON.stringify(body) === known.text),
          known.text,
        );
      }
      for (const [name, ids] of variants(own, () => "no-uuid").filter(([name]) => !namedThings.has(name))) {
        const { status, text } = await ask(caller, operation, ids, headers);
        assert.equal(status, 422, `${caller.name}, ${name}: ${text}`);
      }
    }
    // Reading all tables after each caller would take most of the suite's time.
    assert.deepEqual(
      await Promise.all(things.map(rowsOf)),
      before,
      "a caller changed a resource by a foreign or unknown id",
    );
  });
}

test("HEAD admits the callers that GET admits, and has no body", async () => {
  for (const operation of table.filter(({ verb }) => verb === "GET")) {
    const ids = await make(operation, mine);
    for (const caller of callers) {
      const head = await ask(caller, { ...operation, verb: "HEAD" as "GET" }, ids);
      const get = await ask(caller, operation, ids);
      assert.deepEqual([head.status, head.text], [get.status, ""], `${operation.id}, ${caller.name}`);
    }
  }
});

/** Pages for people without a key, which contain no one's data. */
const pages = [
  ...["/docs", "/redoc", "/", "/host/:page", "/host/:page/:id", "/assets/:name"],
  ...["", "/:id", "/:id/:part"].map((rest) => `/o/:tenant_id/host/:page${rest}`),
];

test("every route of the server has an operation in the table, so the matrix covers it", () => {
  const known = new Set(table.map(({ verb, path }) => `${verb} ${path.replaceAll(/\{(\w+)\}/g, ":$1")}`));
  const routes = routesOf(t.api.printRoutes({ commonPrefix: false }));
  // Behind it are the routes of agents: test/api/agent-calls.test.ts.
  const [passing, ...more] = routes.filter(([url]) => url.endsWith("*")).map(([url]) => url);
  assert.deepEqual(more, []);
  // They speak protocols of their own: test/e2e/exec.test.ts and test/server/tunnels.test.ts.
  const upgraded = [
    ...["/v2/deployments/:deployment_id/exec", "/v2/deployments/:deployment_id/connect"],
    ...["/dp/v1/tunnels", "/dp/v1/tunnels/:tunnel_id"],
  ];
  for (const [url, verbs] of routes.filter(([one = ""]) => one !== passing && !upgraded.includes(one))) {
    for (const verb of verbs.filter((one) => one !== "HEAD" && !pages.includes(url))) {
      assert.ok(
        known.has(`${verb} ${url}`),
        `${verb} ${url} has a route but no operation in src/contract/operations*.ts`,
      );
    }
  }
});

test("pages are the same for every caller and every id", async () => {
  const { deployment_id: own = "" } = await make(operations.getDeployment, mine);
  for (const page of pages) {
    const ids = [own, randomUUID()];
    const urls = ids.map((id) => page.replace(":tenant_id", mine.tenantId).replace(":id", id));
    for (const { headers } of callers) {
      const [known, unknown] = await Promise.all(
        urls.map(async (url) => (await fetch(base + url, { headers })).text()),
      );
      assert.equal(known?.replaceAll(own, ids[1] as string), unknown, page);
      assert.ok(!known?.includes(mine.mark), page);
    }
  }
});

test("no table contains a secret value in clear text", async () => {
  await make(operations.getDeployment, mine);
  const { rows: tables } = await t.db.query<{ name: string }>(sql`
    select table_name as name from information_schema.tables where table_schema = 'public'`);
  assert.ok(tables.length > 10);
  for (const { name } of tables) {
    const { rows } = await t.db.query<{ row: string }>(sql`select one::text as row from ${sql.identifier(name)} one`);
    assert.ok(!rows.some(({ row }) => row.includes(secretText)), name);
  }
});

/** Parses fastify's drawing of its routes: `├── /v2/deployments (GET, HEAD, POST)`, children indented by four. */
function routesOf(drawing: string): [string, string[]][] {
  const parents: string[] = [];
  return drawing
    .trimEnd()
    .split("\n")
    .flatMap((line): [string, string[]][] => {
      const [, indent = "", url = "", verbs] = /^((?:│ {3}| {4})*)[├└]── (\S*)(?: \((.*)\))?/.exec(line) ?? [];
      const depth = indent.length / 4;
      parents[depth] = (depth === 0 ? "" : (parents[depth - 1] ?? "")) + url;
      return verbs === undefined ? [] : [[parents[depth], verbs.split(", ")]];
    });
}

/** Returns the status of an error, whatever number of details its text takes. */
function statusOf(code: keyof typeof errors): number {
  return (errors[code] as (...details: string[]) => ApiError)("", "", "").status;
}
