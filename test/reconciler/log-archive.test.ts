import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { gunzipSync } from "node:zlib";
import { archiveLogLines, type LogArchive, trimLogArchive } from "../../src/reconciler/loop/log-archive.ts";
import { DirectoryLogArchive } from "../../src/server/log-archives.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { appendLogEntries, type NewLogEntry } from "../../src/store/logs/log-entries.ts";
import { moveOldLines, type OldLines } from "../../src/store/maintenance/log-archive.ts";
import { makeDeployment, makeWorld } from "../store/fixtures.ts";
import { eachDatabase } from "../support/database.ts";

const never = new AbortController().signal;
const dayMs = 86_400_000;
const dayOf = (time: number) => new Date(time).toISOString().slice(0, 10);
/** Noon, so that no line of the tests is at the border of two days. */
const daysAgo = (days: number) => Date.parse(`${dayOf(Date.now())}T12:00:00Z`) - days * dayMs;

async function openArchive() {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-log-archive-"));
  const root = path.join(dataDir, "log-archive");
  return {
    archive: new DirectoryLogArchive(dataDir),
    root,
    async files() {
      const entries = await readdir(root, { recursive: true, withFileTypes: true });
      return entries
        .filter((entry) => entry.isFile())
        .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)))
        .sort();
    },
    async lines(file: string): Promise<Record<string, unknown>[]> {
      const text = gunzipSync(await readFile(path.join(root, file))).toString();
      return text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line));
    },
    [Symbol.asyncDispose]: () => rm(dataDir, { recursive: true, force: true }),
  };
}

async function deploymentWithLines(db: Db, lines: { kind?: "build"; at: number; message: string }[]) {
  const { id, revisionId } = await makeDeployment(db, await makeWorld(db));
  const entries = lines.map(
    ({ kind, at, message }): NewLogEntry => ({
      deployment_id: id,
      revision_id: revisionId,
      kind: kind ?? "deploy",
      replica_id: "one",
      stream: "stderr",
      level: "ERROR",
      logged_at: new Date(at),
      message,
      line_key: null,
    }),
  );
  await appendLogEntries(db, entries);
  return { id, revisionId };
}

async function messages(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ message: string }>(sql`select message from log_entries order by id`);
  return rows.map(({ message }) => message);
}

eachDatabase("moves the lines of past days into files, and keeps younger ones and those of builds", async (db) => {
  await using place = await openArchive();
  const { id, revisionId } = await deploymentWithLines(db, [
    { kind: "build", at: daysAgo(30), message: "built" },
    { at: daysAgo(20), message: "first" },
    { at: daysAgo(20), message: "second\nline" },
    { at: daysAgo(19), message: "next day" },
    { at: daysAgo(14), message: "too young: its day is not over the limit" },
    { at: daysAgo(1), message: "new" },
  ]);
  assert.equal(await archiveLogLines(db, place.archive, { days: 14 }, never), 3);
  assert.deepEqual(await messages(db), ["built", "too young: its day is not over the limit", "new"]);
  const [one = "", two = "", ...others] = await place.files();
  assert.match(one, new RegExp(`^${dayOf(daysAgo(20))}/${id}/\\d+\\.jsonl\\.gz$`));
  assert.match(two, new RegExp(`^${dayOf(daysAgo(19))}/${id}/\\d+\\.jsonl\\.gz$`));
  assert.deepEqual(others, []);
  const [first, second] = await place.lines(one);
  assert.deepEqual(
    { ...first, id: typeof first?.id },
    {
      ...{ id: "string", deployment_id: id, revision_id: revisionId, replica_id: "one" },
      ...{ timestamp: new Date(daysAgo(20)).toISOString(), level: "ERROR", stream: "stderr", message: "first" },
    },
  );
  assert.equal(second?.message, "second\nline");
  assert.equal(await archiveLogLines(db, place.archive, { days: 14 }, never), 0);
});

eachDatabase("keeps lines that cannot be stored, and moves them in the next round", async (db) => {
  await using place = await openArchive();
  await deploymentWithLines(db, [
    { at: daysAgo(20), message: "first" },
    { at: daysAgo(19), message: "next day" },
  ]);
  let calls = 0;
  const failing: LogArchive = {
    removeBefore: async () => 0,
    async put(name, content) {
      calls += 1;
      if (calls === 2) throw new Error("the bucket is away");
      await place.archive.put(name, content);
    },
  };
  await assert.rejects(archiveLogLines(db, failing, { days: 14 }, never), /the bucket is away/);
  assert.deepEqual(await messages(db), ["next day"]);
  assert.equal(await archiveLogLines(db, place.archive, { days: 14 }, never), 1);
  assert.equal((await place.files()).length, 2);
});

eachDatabase("moves what a long log has beyond its limit, many lines at once", async (db) => {
  const { id, revisionId } = await deploymentWithLines(db, []);
  const kept: OldLines[] = [];
  const add = (from: number, to: number) =>
    db.query(sql`
      insert into log_entries (tenant_id, deployment_id, revision_id, kind, stream, level, logged_at, message)
      select tenant_id, ${id}, ${revisionId}, 'deploy', 'stdout', 20, now(), line::text
        from deployments, generate_series(${from}::int, ${to}::int) as lines (line) where id = ${id} order by lines.line`);
  const move = () =>
    moveOldLines(db, { before: new Date(daysAgo(14)), linesMax: 100 }, async (old) => void kept.push(old), never);
  await add(1, 5_099);
  assert.equal(await move(), 0, "4,999 lines are not worth a file");
  await add(5_100, 5_100);
  assert.equal(await move(), 5_000);
  assert.deepEqual(
    kept.flatMap(({ lines }) => lines.map(({ message }) => Number(message))),
    Array.from({ length: 5_000 }, (_, index) => index + 1),
  );
  assert.deepEqual((await messages(db)).at(0), "5001");
});

eachDatabase("has few long lines in memory at once", async (db) => {
  const at = daysAgo(20);
  const message = "x".repeat(64 * 1_024);
  await deploymentWithLines(
    db,
    Array.from({ length: 200 }, () => ({ at, message })),
  );
  const sizes: number[] = [];
  const keep = async ({ lines }: OldLines) => void sizes.push(lines.length);
  assert.equal(await moveOldLines(db, { before: new Date(daysAgo(14)), linesMax: 100 }, keep, never), 200);
  assert.deepEqual(sizes, [64, 64, 64, 8], "4 MiB each");
  assert.deepEqual(await messages(db), []);
});

eachDatabase("deletes archived days at the end of their time", async (db) => {
  await using place = await openArchive();
  assert.equal(await trimLogArchive(db, place.archive, { days: 365 }, never), 0, "there may be no archive yet");
  await deploymentWithLines(db, [
    { at: daysAgo(400), message: "very old" },
    { at: daysAgo(300), message: "old" },
  ]);
  await archiveLogLines(db, place.archive, { days: 14 }, never);
  assert.equal(await trimLogArchive(db, place.archive, { days: 365 }, never), 1);
  const files = await place.files();
  assert.equal(files.length, 1);
  assert.ok(files[0]?.startsWith(dayOf(daysAgo(300))));
});
