import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { after, test } from "node:test";
import { openDatabase } from "../../src/store/engine/database.ts";
import { DatabaseUnusable } from "../../src/store/engine/database-errors.ts";
import { lockDirectory } from "../../src/store/engine/embedded/directory-lock.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { templateDirectory } from "../support/database-template.ts";
import { eventually } from "../support/eventually.ts";

const logger = createLogger("silent");
const template = await templateDirectory();
const root = await mkdtemp(path.join(tmpdir(), "pierhead-embedded-"));
const children = new Set<ChildProcess>();
after(async () => {
  for (const child of children) child.kill("SIGKILL");
  await rm(root, { recursive: true, force: true });
});

test("a killed process loses no acknowledged commit and leaves none half written", async () => {
  const dataDir = path.join(root, "killed");
  const acknowledged = new Set<number>();
  for (let kill = 0; kill < 6; kill += 1) {
    const child = start("write", dataDir);
    const wanted = 3 + Math.floor(Math.random() * 120);
    let seen = 0;
    for await (const line of createInterface({ input: child.stdout })) {
      if (line === "open") continue;
      acknowledged.add(Number(line));
      seen += 1;
      if (seen === wanted) child.kill("SIGKILL");
    }
  }
  const db = await openDatabase({ dataDir, templateDirectory: template, logger });
  try {
    const { rows } = await db.query<{ id: number; other: number | null }>(sql`
      select w.id, h.id as other from writes w full join halves h on h.id = w.id`);
    assert.ok(acknowledged.size >= 18);
    assert.deepEqual(
      [...acknowledged].filter((id) => !rows.some((row) => row.id === id)),
      [],
    );
    assert.deepEqual(
      rows.filter((row) => row.id !== row.other),
      [],
    );
  } finally {
    await db.close();
  }
});

test("takes over the lock of a killed process, and names the pid of a living one", async () => {
  const dataDir = path.join(root, "locked");
  const holder = start("hold", dataDir);
  await once(createInterface({ input: holder.stdout }), "line");
  await assert.rejects(openDatabase({ dataDir, templateDirectory: template, logger }), (error) => {
    return error instanceof DatabaseUnusable && error.message.includes(`process ${holder.pid}`);
  });
  holder.kill("SIGKILL");
  await once(holder, "exit");
  const db = await openDatabase({ dataDir, templateDirectory: template, logger });
  await assert.rejects(openDatabase({ dataDir, logger }), (error) => {
    return error instanceof DatabaseUnusable && error.message.includes(`process ${process.pid}`);
  });
  await db.close();
  assert.deepEqual(await readdir(dataDir), ["database"]);
});

test("of many processes that find a stale lock at the same moment, one gets it", async () => {
  const gone = start("close", path.join(root, "any"));
  await once(gone, "exit");
  for (let round = 0; round < 10; round += 1) {
    const file = path.join(root, `race-${round}.lock`);
    const held = await lockDirectory(file, logger);
    const stale = JSON.parse(await readFile(file, "utf8"));
    await held.release();
    await writeFile(file, JSON.stringify({ ...stale, nonce: "stale", pid: gone.pid }));
    const tries = await Promise.allSettled(Array.from({ length: 12 }, () => lockDirectory(file, logger)));
    const locks = tries.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    assert.equal(locks.length, 1);
    for (const one of tries) if (one.status === "rejected") assert.ok(one.reason instanceof DatabaseUnusable);
    await locks[0]?.release();
  }
  assert.deepEqual(
    (await readdir(root)).filter((name) => name.startsWith("race-")),
    [],
  );
});

test("respects a lock of another host only while it is renewed", async () => {
  const file = path.join(root, "foreign.lock");
  await writeFile(file, JSON.stringify({ nonce: "n", pid: 1, startedAt: "1", scope: "other-host boot pid:[1]" }));
  const renewal = setInterval(() => void utimes(file, new Date(), new Date()), 100);
  // Renewals may come this late, because this process has other work too.
  await assert.rejects(lockDirectory(file, logger, { silentMs: 5_000 }), /process 1 of other-host/);
  clearInterval(renewal);
  await (await lockDirectory(file, logger, { silentMs: 500 })).release();
});

test("takes over a lock file that a power cut left empty, once it is no longer renewed", async () => {
  const file = path.join(root, "torn.lock");
  for (const content of ["", '{"nonce":"n","pi', "\0\0\0\0", "null"]) {
    await writeFile(file, content);
    const tries = await Promise.allSettled(
      Array.from({ length: 4 }, () => lockDirectory(file, logger, { silentMs: 500 })),
    );
    const locks = tries.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
    assert.equal(locks.length, 1, JSON.stringify(content));
    for (const one of tries) if (one.status === "rejected") assert.ok(one.reason instanceof DatabaseUnusable);
    await locks[0]?.release();
  }
  assert.deepEqual(
    (await readdir(root)).filter((name) => name.startsWith("torn")),
    [],
  );
});

test("a process frozen until another took its directory writes nothing more, and leaves the lock alone", async () => {
  const dataDir = path.join(root, "stood-still");
  const file = path.join(dataDir, "database.lock");
  const db = await openDatabase({ dataDir, templateDirectory: template, logger });
  try {
    await db.query(sql`create table writes (id int)`);
    const other = JSON.stringify({ nonce: "n", pid: 7, startedAt: "1", scope: "other-host boot pid:[1]" });
    await writeFile(`${file}.taken`, other);
    await rename(`${file}.taken`, file);
    const write = () =>
      db.query(sql`insert into writes values (1)`).then(
        () => undefined,
        (error) => error,
      );
    const refused = await eventually(write, (error) => error instanceof DatabaseUnusable);
    assert.match(refused.message, /taken over by process 7 of other-host/);
    const { mtimeMs } = await stat(file);
    await db.close();
    assert.equal(await readFile(file, "utf8"), other);
    assert.equal((await stat(file)).mtimeMs, mtimeMs);
  } finally {
    await db.close();
  }
});

test("a process ends whether it closes the database or forgets to", async () => {
  for (const mode of ["close", "leave"]) {
    const child = start(mode, path.join(root, mode));
    const [code] = await once(child, "exit", { signal: AbortSignal.timeout(60_000) });
    assert.equal(code, 0, mode);
  }
});

function start(mode: string, dataDir: string) {
  const file = path.join(import.meta.dirname, "engine-child.ts");
  const child = spawn(process.execPath, [file, mode, dataDir, template], { stdio: ["ignore", "pipe", "inherit"] });
  children.add(child);
  child.once("exit", () => children.delete(child));
  return child;
}
