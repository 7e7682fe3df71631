import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { chmod, link, mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { openDatabase } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { parseMasterKey, readOrCreateMasterKey } from "../../src/store/secrets/master-key.ts";
import { openSealer, SealError } from "../../src/store/secrets/seal.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eachDatabase } from "../support/database.ts";

const secret = Buffer.from("correct horse battery staple");
const boundTo = "secrets/tenant/deployment";
const directory = await mkdtemp(path.join(tmpdir(), "pierhead-keys-"));
after(() => rm(directory, { recursive: true, force: true }));

eachDatabase("a sealed value opens for its owner, on this server and another one", async (db) => {
  const masterKey = randomBytes(32);
  const sealer = await openSealer(db, masterKey);
  const sealed = sealer.seal(secret, boundTo);
  assert.deepEqual(sealer.open(sealed, boundTo), secret);
  assert.ok(!sealed.sealed.includes(secret));
  assert.notDeepEqual(
    sealer.seal(secret, boundTo).sealed,
    sealed.sealed,
    "sealing the same value twice gives different results",
  );
  const next = await openSealer(db, masterKey);
  assert.deepEqual(next.open(sealed, boundTo), secret);
  assert.deepEqual(next.open(next.seal(Buffer.alloc(0), boundTo), boundTo), Buffer.alloc(0));
  sealer.close();
  next.close();
});

eachDatabase("a sealed value opens neither for another owner nor after any bit changed", async (db) => {
  const sealer = await openSealer(db, randomBytes(32));
  const { keyId, sealed } = sealer.seal(secret, boundTo);
  assert.throws(() => sealer.open({ keyId, sealed }, "secrets/tenant/another"), SealError);
  for (let bit = 0; bit < sealed.length * 8; bit += 1) {
    const changed = Buffer.from(sealed);
    changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7));
    assert.throws(() => sealer.open({ keyId, sealed: changed }, boundTo), SealError, `bit ${bit}`);
  }
  for (let length = 0; length < sealed.length; length += 1) {
    assert.throws(
      () => sealer.open({ keyId, sealed: sealed.subarray(0, length) }, boundTo),
      SealError,
      `${length} bytes`,
    );
  }
  assert.throws(() => sealer.open({ keyId: "another", sealed }, boundTo), SealError);
  sealer.close();
});

eachDatabase("refuses another master key at start, and names its id but never the key", async (db) => {
  const masterKey = randomBytes(32);
  (await openSealer(db, masterKey)).close();
  const other = randomBytes(32);
  await assert.rejects(openSealer(db, other), (error) => {
    assert.ok(error instanceof SealError);
    assert.match(error.message, /PIERHEAD_MASTER_KEY/);
    for (const key of [masterKey, other]) {
      assert.ok(!error.message.includes(key.toString("hex")) && !error.message.includes(key.toString("base64")));
    }
    return true;
  });
  await assert.rejects(openSealer(db, randomBytes(16)), /32 bytes/);
});

eachDatabase("a wrapped data key moved to another id does not open", async (db) => {
  const masterKey = randomBytes(32);
  (await openSealer(db, masterKey)).close();
  await db.query(sql`insert into data_keys (id, wrapped, master_key_id)
            select '00000000-0000-4000-8000-000000000000', wrapped, master_key_id from data_keys`);
  await assert.rejects(openSealer(db, masterKey), SealError);
});

eachDatabase(
  "after a rotation new values use the new key, old ones still open, and the old key is retired",
  async (db) => {
    const sealer = await openSealer(db, randomBytes(32));
    const old = sealer.seal(secret, boundTo);
    const newKeyId = await sealer.rotateDataKey();
    assert.deepEqual(sealer.open(old, boundTo), secret);
    const { rows: retired } = await db.query(sql`select id from data_keys where retired_at is not null`);
    assert.deepEqual(retired, [{ id: old.keyId }]);
    if (db.kind === "postgres") {
      assert.equal(sealer.activeKeyId, old.keyId, "not used before every server has read it");
      await db.query(sql`update data_keys set created_at = created_at - interval '1 minute'`);
      await sealer.refresh();
    }
    assert.equal(sealer.activeKeyId, newKeyId);
    assert.equal(sealer.seal(secret, boundTo).keyId, newKeyId);
    sealer.close();
  },
);

eachDatabase("a new master key opens everything, and the old one nothing", async (db) => {
  const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
  const old = await openSealer(db, oldKey);
  const before = old.seal(secret, boundTo);
  await assert.rejects(openSealer(db, newKey), SealError);
  const next = await openSealer(db, newKey, oldKey);
  assert.deepEqual(next.open(before, boundTo), secret);
  await assert.rejects(openSealer(db, oldKey), SealError);
  const alone = await openSealer(db, newKey);
  assert.deepEqual(alone.open(before, boundTo), secret);
  for (const sealer of [old, next, alone]) sealer.close();
});

eachDatabase("servers with the old and the new master key work side by side until all have the new one", async (db) => {
  const [oldKey, newKey] = [randomBytes(32), randomBytes(32)];
  const old = await openSealer(db, oldKey);
  const next = await openSealer(db, newKey, oldKey);
  assert.deepEqual(old.open(next.seal(secret, boundTo), boundTo), secret);
  await old.rotateDataKey();
  await db.query(sql`update data_keys set created_at = created_at - interval '1 minute'`);
  await next.refresh();
  assert.deepEqual(next.open(next.seal(secret, boundTo), boundTo), secret);
  (await openSealer(db, newKey, oldKey)).close();
  const alone = await openSealer(db, newKey);
  for (const sealer of [old, next, alone]) sealer.close();
});

eachDatabase(
  "servers that start together on an empty database agree on one data key",
  async (db, { databaseUrl }) => {
    const masterKey = randomBytes(32);
    const logger = createLogger("silent");
    const servers = await Promise.all(
      Array.from({ length: 4 }, () => openDatabase({ databaseUrl, dataDir: tmpdir(), poolMax: 2, logger })),
    );
    const sealers = await Promise.all([db, ...servers].map((server) => openSealer(server, masterKey)));
    assert.equal(new Set(sealers.map((sealer) => sealer.activeKeyId)).size, 1);
    for (const sealer of sealers) sealer.close();
    await Promise.all(servers.map((server) => server.close()));
  },
  { kinds: ["postgres"] },
);

test("creates the master key file once, readable for its owner only, and concurrent starts read the same key", async () => {
  const file = path.join(directory, "new", "master.key");
  const keys = await Promise.all(Array.from({ length: 10 }, () => readOrCreateMasterKey(file)));
  assert.equal(new Set(keys.map((key) => key.toString("hex"))).size, 1);
  assert.equal(keys[0]?.length, 32);
  assert.equal((await stat(file)).mode & 0o777, 0o600);
  assert.deepEqual(await readdir(path.dirname(file)), ["master.key"]);
  assert.deepEqual(parseMasterKey(await readFile(file, "utf8"), file), keys[0]);
});

test("the next start removes drafts of a process that died while it created the master key", async () => {
  const file = path.join(directory, "left", "master.key");
  await mkdir(path.dirname(file));
  const left = () => `${file}.${randomUUID()}`;
  await writeFile(left(), `${randomBytes(32).toString("base64")}\n`);
  const key = await readOrCreateMasterKey(file);
  await link(file, left());
  await writeFile(`${file}.old`, "kept by hand");
  assert.deepEqual(await readOrCreateMasterKey(file), key);
  assert.deepEqual((await readdir(path.dirname(file))).sort(), ["master.key", "master.key.old"]);
});

test("accepts 32 bytes of base64 or hex as master key, and refuses anything else without quoting it", async () => {
  const key = randomBytes(32);
  for (const text of [
    key.toString("hex"),
    key.toString("hex").toUpperCase(),
    key.toString("base64"),
    `${key.toString("base64url")}\n`,
  ]) {
    assert.deepEqual(parseMasterKey(text, "x"), key);
  }
  for (const text of [
    "",
    "short",
    key.toString("hex").slice(1),
    `${key.toString("base64")}AAAA`,
    `${"é".repeat(43)}`,
    "z".repeat(64),
  ]) {
    assert.throws(
      () => parseMasterKey(text, "PIERHEAD_MASTER_KEY"),
      (error: Error) => {
        return error.message.includes("PIERHEAD_MASTER_KEY") && (text === "" || !error.message.includes(text));
      },
    );
  }
  const file = path.join(directory, "bad.key");
  await writeFile(file, "not a key");
  await chmod(file, 0o600);
  await assert.rejects(readOrCreateMasterKey(file), /bad\.key/);
  assert.equal(await readFile(file, "utf8"), "not a key");
});
