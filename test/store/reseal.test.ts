import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { createGithubApp, findGithubApp } from "../../src/store/code-hosts/github-app.ts";
import { createIntegration, noSecrets, openIntegration } from "../../src/store/code-hosts/integrations.ts";
import { createDeployment } from "../../src/store/deployments/create-deployment.ts";
import { findDeploymentDatabase, planDeploymentDatabase } from "../../src/store/deployments/deployment-databases.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import {
  draftProvider,
  findProvider,
  insertProvider,
  openProviderSecret,
} from "../../src/store/oauth/oauth-providers.ts";
import {
  claimRefresh,
  findToken,
  openToken,
  saveToken,
  storeRefreshed,
  type TokenRow,
} from "../../src/store/oauth/oauth-tokens.ts";
import { renewDataKey, resealValues, sealedColumns } from "../../src/store/secrets/reseal.ts";
import { openSealer, SealError, type Sealer } from "../../src/store/secrets/seal.ts";
import { findSecretSet, sealSecrets } from "../../src/store/secrets/secrets.ts";
import { createVariableGroup, readVariableGroup } from "../../src/store/variables/variable-groups.ts";
import {
  createWebhook,
  lockWebhook,
  openWebhook,
  readWebhook,
  sealAddresses,
} from "../../src/store/webhooks/webhooks.ts";
import { eachDatabase } from "../support/database.ts";
import { makeWorld, newDeployment, newRevision } from "./fixtures.ts";

const never = new AbortController().signal;

/** Deleted within a day, before the key they were sealed under matters. */
const shortLived = ["idempotency_keys", "oauth_requests"];

/** Creates one of every sealed value; `read` opens all of them again. */
async function makeSealed(db: Db, sealer: Sealer) {
  const world = await makeWorld(db);
  const { tenantId } = world;
  const { rows } = await db.query<{ organization_id: string }>(sql`select organization_id from workspaces`);
  const organizationId = rows[0]?.organization_id as string;
  const draft = newDeployment(world);
  const secrets = sealSecrets(sealer, { KEY: "value" }, { id: draft.id, tenant_id: tenantId });
  await createDeployment(db, { ...draft, secrets, revision: newRevision({ secret_set_id: secrets.id }) });
  const deployment = { id: draft.id, tenantId };
  const { password } = await planDeploymentDatabase(db, sealer, deployment, { postgres: "shared", redis: "none" });
  const fields = {
    ...{ name: "One", client_id: "c", auth_url: "https://id.example/a", token_url: "https://id.example/t" },
    ...{ uses_pkce: true, provider_type: null, token_endpoint_auth_method: "client_secret_post" as const },
    ...{ authorization_params: {}, allowed_redirect_uris: [], default_redirect_uri: null, issuer: null },
    ...{ revocation_url: null, names_issuer: false, mcp_server_url: null, resource: null, is_dynamic_client: false },
    scopes_supported: null,
  };
  const made = { id: randomUUID(), providerId: "one", fields, secret: "client secret" };
  const provider = draftProvider(sealer, organizationId, made);
  await insertProvider(db, { organizationId, actor: "test" }, provider, null);
  const subject = { tenantId, userId: "alice", agentId: null };
  const token = {
    accessToken: "access",
    refreshToken: "refresh",
    lifeMs: 1,
    scopes: [],
    metadata: {},
    accountLabel: null,
  };
  const kept = { subject, provider, token, isDefault: true, replacesTokenId: null };
  const tokenId = await db.transaction((trx) => saveToken(trx, sealer, kept));
  const settings = {
    url: "https://hooks.example/x",
    format: "standard" as const,
    description: null,
    types: null,
    deployment_ids: null,
    enabled: true,
  };
  const owner = { organizationId, tenantId, actor: "test" };
  const { row: webhook, secret: webhookSecret } = await createWebhook(db, sealer, owner, settings);
  const stored = {
    host: "gitlab",
    name: "x",
    installation_id: null,
    url: "https://git.example",
    username: null,
  } as const;
  const integration = await createIntegration(db, sealer, owner, {
    ...stored,
    secrets: { ...noSecrets, token: "git token" },
  });
  const client = { id: "Iv1.x", secret: "app secret" };
  const app = { app_id: "7", name: "App", url: "https://github.com", page_url: "https://github.com/apps/app" };
  const appSecrets = { privateKey: "pem", webhookSecret: null, client };
  assert.ok(await createGithubApp(db, sealer, owner, { ...app, secrets: appSecrets }));
  const group = await createVariableGroup(db, sealer, owner, {
    name: "keys",
    variables: [{ name: "SHARED", value: "hidden" }],
  });
  const expected = [
    { KEY: "value" },
    password,
    "client secret",
    "access",
    { url: settings.url, secrets: [webhookSecret] },
    "git token",
    appSecrets,
    { SHARED: { value: "hidden", is_secret: true } },
  ];
  const read = async (by: Sealer) => {
    const set = { listenerId: null, deploymentId: draft.id, secretSetId: secrets.id };
    const found = await db.transaction((trx) => lockWebhook(trx, tenantId, webhook.id));
    return [
      (await findSecretSet(db, by, set))?.values,
      (await findDeploymentDatabase(db, by, deployment))?.password,
      openProviderSecret(by, (await findProvider(db, organizationId, "one")) as typeof provider),
      openToken(by, (await findToken(db, tenantId, tokenId)) as TokenRow).accessToken,
      openWebhook(by, found, new Date()),
      (await openIntegration(db, by, { tenantId, id: integration.id }))?.secrets.token,
      (await findGithubApp(db, by))?.open(),
      (await readVariableGroup(db, by, tenantId, group.id)).variables,
    ];
  };
  return { tenantId, tokenId, webhookId: webhook.id, token, expected, read };
}

/** Makes the newest key that old, and known to every server. */
async function ageKeys(db: Db, sealer: Sealer, days: number): Promise<void> {
  await db.query(sql`update data_keys set created_at = created_at - ${days} * interval '1 day'`);
  await sealer.refresh();
}

const keysInUse = async (db: Db): Promise<Set<string>> => {
  const ids = sealedColumns.map(({ table, keyColumn }) =>
    db.query<{ id: string }>(sql`select ${sql.identifier(keyColumn)} as id from ${sql.identifier(table)}`),
  );
  return new Set((await Promise.all(ids)).flatMap(({ rows }) => rows.map(({ id }) => id)));
};

eachDatabase("replaces an old data key, and reseals every stored value under the new one", async (db) => {
  const sealer = await openSealer(db, randomBytes(32));
  const sealed = await makeSealed(db, sealer);
  const old = sealer.activeKeyId;
  assert.equal(await renewDataKey(db, sealer, { days: 90 }), false, "the key is young");
  assert.equal(await resealValues(db, sealer, never), 0);
  await ageKeys(db, sealer, 91);
  assert.equal(await renewDataKey(db, sealer, { days: 90 }), true);
  assert.equal(await renewDataKey(db, sealer, { days: 90 }), false, "the key was just replaced");
  await ageKeys(db, sealer, 1);
  assert.notEqual(sealer.activeKeyId, old);
  assert.deepEqual([...(await keysInUse(db))], [old]);
  assert.equal(await resealValues(db, sealer, never), sealedColumns.length);
  assert.deepEqual([...(await keysInUse(db))], [sealer.activeKeyId]);
  assert.deepEqual(await sealed.read(sealer), sealed.expected);
  assert.equal(await resealValues(db, sealer, never), 0, "there is nothing left to do");
  sealer.close();
});

eachDatabase("resealing a token during its refresh does not undo the refresh", async (db) => {
  const sealer = await openSealer(db, randomBytes(32));
  const { tenantId, tokenId, token } = await makeSealed(db, sealer);
  const row = (await findToken(db, tenantId, tokenId)) as TokenRow;
  assert.ok(await claimRefresh(db, row, { owner: "test", leaseMs: 60_000 }));
  await ageKeys(db, sealer, 1);
  await sealer.rotateDataKey();
  await ageKeys(db, sealer, 1);
  await resealValues(db, sealer, never);
  assert.ok(await storeRefreshed(db, sealer, row, { ...token, accessToken: "fresh" }));
  await resealValues(db, sealer, never);
  assert.equal(openToken(sealer, (await findToken(db, tenantId, tokenId)) as TokenRow).accessToken, "fresh");
  sealer.close();
});

eachDatabase("reports a value that does not open, and reseals all others", async (db) => {
  const sealer = await openSealer(db, randomBytes(32));
  const { tokenId } = await makeSealed(db, sealer);
  await db.query(sql`update oauth_tokens set sealed = substr(sealed, 1, 40) where id = ${tokenId}`);
  const old = sealer.activeKeyId;
  await ageKeys(db, sealer, 1);
  await sealer.rotateDataKey();
  await ageKeys(db, sealer, 1);
  await assert.rejects(
    resealValues(db, sealer, never),
    (error) => error instanceof SealError && /^1 /.test(error.message),
  );
  assert.deepEqual([...(await keysInUse(db))].sort(), [old, sealer.activeKeyId].sort());
  sealer.close();
});

eachDatabase("every table with sealed values is resealed or short-lived", async (db) => {
  const { rows } = await db.query<{ name: string }>(sql`
    select distinct table_name as name from information_schema.columns
     where table_schema = 'public' and column_name like '%sealed%' order by 1`);
  assert.deepEqual(
    rows.map(({ name }) => name).sort(),
    [...sealedColumns.map(({ table }) => table), ...shortLived].sort(),
  );
});

eachDatabase("seals the address of a webhook, also one that an early version stored in clear", async (db) => {
  const sealer = await openSealer(db, randomBytes(32));
  const { tenantId, webhookId } = await makeSealed(db, sealer);
  const origins = async () => (await db.query<{ origin: string }>(sql`select origin from webhooks`)).rows;
  assert.deepEqual(await origins(), [{ origin: "https://hooks.example" }]);
  assert.equal(await sealAddresses(db, sealer), 0);
  const early = sealer.seal(
    Buffer.from(JSON.stringify([{ secret: "s", until: null }])),
    `webhook/${tenantId}/${webhookId}`,
  );
  await db.query(sql`update webhooks set origin = 'https://chat.example/services/T0/secret', sealed = ${early.sealed},
                   data_key_id = ${early.keyId}`);
  const read = () => readWebhook(db, sealer, tenantId, webhookId);
  assert.equal((await read()).url, "https://chat.example/services/T0/secret");
  assert.equal(await sealAddresses(db, sealer), 1);
  assert.deepEqual(await origins(), [{ origin: "https://chat.example" }]);
  assert.equal((await read()).url, "https://chat.example/services/T0/secret");
  const stored = await db.transaction((trx) => lockWebhook(trx, tenantId, webhookId));
  assert.deepEqual(openWebhook(sealer, stored, new Date()).secrets, ["s"]);
  sealer.close();
});
