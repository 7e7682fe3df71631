import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pino } from "pino";
import { type Db, openDatabase } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { disguises } from "../support/canary.ts";
import { eachDatabase } from "../support/database.ts";
import { findBinaries } from "../support/postgres-server.ts";
import { type AuthFixture, authFixtureOf, canary } from "./auth-fixture.ts";
import { startApiOn } from "./harness.ts";

const asUser = (user: string) => ({ headers: { "x-user-id": user } });

/** Returns what a backup contains: `pg_dump` of a server; every row as text for the embedded database. */
async function backupOf(db: Db, databaseUrl: string | undefined): Promise<string> {
  if (databaseUrl !== undefined) {
    const dump = spawnSync(path.join(findBinaries() ?? "", "pg_dump"), [databaseUrl], { encoding: "utf8" });
    assert.equal(dump.status, 0, dump.stderr);
    return dump.stdout;
  }
  const { rows: tables } = await db.query<{ name: string }>(sql`
    select table_name as name from information_schema.tables where table_schema = 'public'`);
  const dumps = tables.map(({ name }) =>
    db.query<{ row: string }>(sql`select one::text as row from ${sql.identifier(name)} one`),
  );
  return (await Promise.all(dumps)).flatMap(({ rows }) => rows.map(({ row }) => row)).join("\n");
}

/** Runs everything that can happen to tokens, with a canary in every secret. @returns all responses and logs. */
async function live({ t, as, ...w }: AuthFixture): Promise<{ texts: string[]; secrets: string[] }> {
  const texts: string[] = [];
  const note = ({ text, headers }: { text: string; headers: object }) => void texts.push(text, JSON.stringify(headers));
  const token = (what: string) => ({
    json: {
      ...{ access_token: `${canary}-access-${what}`, refresh_token: `${canary}-refresh-${what}`, token_type: "bearer" },
      ...{ expires_in: 3600, id_token: `e30.${canary}.x`, instance: "https://eu.example", session_secret: canary },
    },
  });
  const provider = await w.addProvider({ uses_pkce: true, revocation_url: `${as.url}/revoke` });
  const { state } = await w.begin(provider);
  as.answer = () => token("one");
  note(await w.comeBack(provider, { code: `${canary}-code`, state }));
  note(await w.comeBack(provider, { code: `${canary}-code`, state }));
  const under = { headers: { "idempotency-key": "again" } };
  for (const _ of [1, 2]) assert.match((await w.authenticate(provider, {}, under)).body.token, /-access-one$/);
  await w.expireTokens(provider);
  as.answer = () => token("two");
  assert.match((await w.authenticate(provider)).body.token, /-access-two$/);
  await w.expireTokens(provider);
  as.answer = () => ({ status: 500, text: canary });
  note(await w.authenticate(provider));
  as.answer = ({ form }) => ({ status: 400, json: { error: form["refresh_token"], error_description: canary } });
  assert.equal((await w.authenticate(provider, { check_only: true })).body.status, "token_expired");
  const failed = await w.begin(provider, { user_id: "bob" });
  note(await w.comeBack(provider, { code: `${canary}-other`, state: failed.state }));
  const brought = { provider_id: provider, access_token: `${canary}-brought`, refresh_token: `${canary}-too` };
  const imported = await w.post("/v2/auth/tokens/import", brought, asUser("carol"));
  note(imported);
  note(await w.post("/v2/auth/tokens/import", { ...brought, expires_in_seconds: canary.length / 7 }, asUser("carol")));
  as.answer = () => ({ status: 503, text: canary });
  const { token_id } = imported.body;
  note(await t.ask({ method: "DELETE", url: `/v2/auth/tokens/${token_id}`, ...asUser("carol") }));
  for (const user of ["alice", "bob", "carol"]) {
    for (const url of ["/v2/auth/tokens", "/v2/auth/token-events"]) note(await t.ask({ url, ...asUser(user) }));
  }
  const admin = { key: await t.mintKey({ isOrganizational: true }) };
  for (const url of ["/v2/auth/providers", "/v2/admin/audit-log?limit=100"]) note(await t.ask({ url, ...admin }));
  note(await t.ask({ url: `/v2/auth/wait/${failed.authId}` }));
  const verifiers = as.calls.flatMap(({ form }) => form["code_verifier"] ?? []);
  assert.ok(verifiers.length >= 2);
  return { texts, secrets: [canary, state, failed.state, ...verifiers] };
}

eachDatabase(
  "no response, log, event, audit row, table or backup contains a secret of a token in clear text",
  async (db, { databaseUrl }) => {
    const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-canary-"));
    const lines: string[] = [];
    const logger = pino({ level: "trace" }, { write: (line: string) => void lines.push(line) });
    const t = await startApiOn(db, { dataDir }, { logger });
    const { texts, secrets } = await live(await authFixtureOf(t));
    const backup = await backupOf(db, databaseUrl);
    await t.api.close();
    await rm(dataDir, { recursive: true });
    assert.ok(texts.join().includes("flow_failed") && texts.join().includes("oauth_token.import"));
    assert.ok(lines.join().includes("token revocation failed") && lines.join().includes("sign-in failed"));
    assert.ok(backup.includes("refresh_failed") && backup.length > 5_000);
    for (const secret of secrets) {
      assert.ok(!texts.join("\n").includes(secret), "texts");
      assert.ok(!lines.join("\n").includes(secret), "logged");
      for (const disguise of disguises(secret)) assert.ok(!backup.includes(disguise), "in the backup");
    }
  },
);

eachDatabase(
  "of 50 concurrent requests to two servers for an expired token, one refreshes it and all get the new one",
  async (db, { databaseUrl }) => {
    const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-two-"));
    const other = await openDatabase({ databaseUrl, dataDir: tmpdir(), poolMax: 10, logger: createLogger("silent") });
    const t = await startApiOn(db, { dataDir });
    const second = await startApiOn(other, { dataDir, owner: "test:2" }, { sealer: t.deps.sealer });
    const w = await authFixtureOf(t);
    const provider = await w.addProvider();
    await w.connect(provider);
    for (const round of [1, 2]) {
      await w.expireTokens(provider);
      w.as.calls.length = 0;
      const payload = { provider, scopes: ["read"], user_id: "alice" };
      const request = { method: "POST" as const, url: "/v2/auth/authenticate", payload, key: t.tenant.adminKey };
      const asked = Array.from({ length: 50 }, (_, index) => (index % 2 === 0 ? t : second).ask(request));
      const answers = await Promise.all(asked);
      assert.deepEqual([...new Set(answers.map(({ status, body }) => `${status} ${body.status}`))], ["200 completed"]);
      assert.equal(new Set(answers.map(({ body }) => body.token)).size, 1, `round ${round}`);
      assert.equal(w.as.calls.length, 1);
    }
    await t.api.close();
    await second.api.close();
    await other.close();
    await rm(dataDir, { recursive: true });
  },
  { kinds: ["postgres"] },
);
