import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after } from "node:test";
import { mintApiKey } from "../../src/auth/api-key.ts";
import { bootstrap, writeCredentials } from "../../src/server/bootstrap.ts";
import { readConfig } from "../../src/server/config.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { insertApiKey } from "../../src/store/tenants/api-keys.ts";
import { createOrganization, createWorkspace, deleteWorkspace } from "../../src/store/tenants/tenants.ts";
import { eachDatabase } from "../support/database.ts";

const parent = await mkdtemp(path.join(tmpdir(), "pierhead-bootstrap-"));
after(() => rm(parent, { recursive: true, force: true }));
const configOf = async (environment: Record<string, string> = {}) =>
  readConfig({ PIERHEAD_DATA_DIR: await mkdtemp(path.join(parent, "data-")), ...environment });
const remember = (config: Awaited<ReturnType<typeof configOf>>, made: { workspaceId: string; adminKey: string }) =>
  writeCredentials(config, { url: "http://127.0.0.1", workspace_id: made.workspaceId, api_key: made.adminKey, pid: 1 });
const everything = { organizationId: null, workspaceId: null };

async function counts(db: Db) {
  const { rows } = await db.query<Record<string, number>>(sql`
    select (select count(*) from organizations) as organizations, (select count(*) from workspaces) as workspaces,
           (select count(*) from api_keys where is_operator) as operators`);
  return rows[0];
}

eachDatabase(
  "creates an organization, a workspace and an operator key at the first start and finds them at the next",
  async (db) => {
    const config = await configOf();
    const first = await bootstrap(db, config);
    assert.equal(first.isNewKey, true);
    await remember(config, first);
    const second = await bootstrap(db, config);
    assert.deepEqual(
      [second.isNewKey, second.adminKey, second.workspaceId],
      [false, first.adminKey, first.workspaceId],
    );
    assert.deepEqual(await counts(db), { organizations: 1, workspaces: 1, operators: 1 });
    const { rows } = await db.query(sql`select action, actor from audit_log order by id`);
    assert.deepEqual(rows, [
      { action: "organization.create", actor: "system" },
      { action: "workspace.create", actor: "system" },
      { action: "api_key.create", actor: "system" },
    ]);
  },
);

eachDatabase(
  "creates one organization and one workspace when several servers start simultaneously on an empty database",
  async (db) => {
    const configs = await Promise.all([configOf(), configOf(), configOf()]);
    const made = await Promise.all(configs.map((config) => bootstrap(db, config)));
    assert.equal(new Set(made.map(({ workspaceId }) => workspaceId)).size, 1);
    assert.deepEqual(await counts(db), { organizations: 1, workspaces: 1, operators: 3 });
  },
);

eachDatabase("creates one key and one listener when servers with the same keys start simultaneously", async (db) => {
  const shared = { PIERHEAD_ADMIN_KEY: "of-all-replicas", PIERHEAD_LISTENER_KEY: "of-the-listener" };
  const configs = await Promise.all(Array.from({ length: 5 }, () => configOf(shared)));
  const made = await Promise.all(configs.map((config) => bootstrap(db, config)));
  assert.equal(made.filter(({ isNewKey }) => isNewKey).length, 1);
  assert.equal(new Set(made.map(({ listenerId }) => listenerId)).size, 1);
  assert.deepEqual(await counts(db), { organizations: 1, workspaces: 1, operators: 1 });
});

eachDatabase(
  "turns the admin key of an older installation into an operator key and records the change in the audit log",
  async (db) => {
    const config = await configOf({ PIERHEAD_ADMIN_KEY: "chosen-by-the-operator" });
    const organizationId = await createOrganization(db, { name: "old", plan: "cloud" });
    const workspaceId = await createWorkspace(db, { organizationId, name: "old" });
    const key = { organizationId, workspaceId, listenerId: null, name: "admin", role: "admin" as const };
    await insertApiKey(db, { ...key, ...mintApiKey("chosen-by-the-operator") });
    const made = await bootstrap(db, config);
    assert.deepEqual([made.isNewKey, made.workspaceId], [false, workspaceId]);
    assert.deepEqual(await counts(db), { organizations: 1, workspaces: 1, operators: 1 });
    const { rows } = await db.query<{ data: unknown }>(sql`select data from audit_log where action = 'api_key.patch'`);
    assert.deepEqual(rows, [{ data: { changes: { scope: { before: "workspace", after: "installation" } } } }]);
  },
);

eachDatabase(
  "rejects a configured admin key that was revoked or is not an admin key, and replaces a lost one",
  async (db) => {
    const config = await configOf({ PIERHEAD_ADMIN_KEY: "chosen" });
    const { organizationId, workspaceId } = await bootstrap(db, config);
    await db.query(sql`update api_keys set revoked_at = now() where is_operator`);
    await assert.rejects(bootstrap(db, config), /PIERHEAD_ADMIN_KEY was revoked, has expired, or is not an admin key/);
    const key = { organizationId, workspaceId, listenerId: null, name: "reader", role: "reader" as const };
    await insertApiKey(db, { ...key, ...mintApiKey("a-reader") });
    await assert.rejects(bootstrap(db, await configOf({ PIERHEAD_ADMIN_KEY: "a-reader" })), /is not an admin key/);

    const forgetful = await configOf();
    const made = await bootstrap(db, forgetful);
    await remember(forgetful, made);
    await db.query(sql`update api_keys set revoked_at = now() where is_operator`);
    assert.equal((await bootstrap(db, forgetful)).isNewKey, true);
  },
);

eachDatabase("uses another workspace when the first one was deleted, and creates one when none is left", async (db) => {
  const config = await configOf();
  const first = await bootstrap(db, config);
  await remember(config, first);
  const { organizationId } = first;
  const other = await createWorkspace(db, { organizationId, name: "other" });
  await deleteWorkspace(db, everything, first.workspaceId, "test");
  const second = await bootstrap(db, config);
  assert.deepEqual([second.adminKey, second.workspaceId], [first.adminKey, other]);
  await deleteWorkspace(db, everything, other, "test");
  const third = await bootstrap(db, config);
  assert.deepEqual([third.organizationId, third.adminKey], [organizationId, first.adminKey]);
  assert.deepEqual(await counts(db), { organizations: 1, workspaces: 1, operators: 1 });
});
