import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync, readFileSync, symlinkSync } from "node:fs";
import path from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";
import { eventually } from "../support/eventually.ts";
import { startPostgresServer } from "../support/postgres-server.ts";
import type { Loose } from "./checks.ts";
import { newDirectory, packageDir, startReplica } from "./replicas.ts";

const server = await startPostgresServer();
after(() => server?.stop());
const connectionString = server?.url ?? "";

/** Everything that a client can read of a server's threads, assistants and items. */
async function readAll({ client }: Loose, threads: string[]) {
  const byThread = threads.map(async (id) => {
    const { updated_at: _, ...thread } = await client.threads.get(id);
    const runs = await client.runs.list(id, { limit: 100 });
    return {
      thread,
      history: await client.threads.getHistory(id, { limit: 100 }),
      runs: runs.map(({ run_id, status, metadata, created_at }: Loose) => ({ run_id, status, metadata, created_at })),
    };
  });
  const assistants = (await client.assistants.search({ limit: 100, sortBy: "assistant_id" })) as Loose[];
  const own = assistants.filter(({ name }) => name === "mine");
  return {
    threads: await Promise.all(byThread),
    assistants: own.map(({ updated_at: _, ...rest }) => rest),
    versions: await client.assistants.getVersions(own[0]?.assistant_id),
    items: (await client.store.searchItems([], { limit: 100 })).items,
  };
}

const contentOf = (directory: string) =>
  readdirSync(path.join(directory, ".langgraph_api")).map((name) => [
    name,
    readFileSync(path.join(directory, ".langgraph_api", name), "utf8"),
  ]);

test("the state of the file engine is the same on PostgreSQL, and its threads go on there", async () => {
  const cwd = newDirectory();
  const files = await startReplica("file", { cwd });
  after(() => void files.process.kill("SIGKILL"));
  const { client } = files;
  const newThread = async (): Promise<string> =>
    (await client.threads.create({ metadata: { kind: "moved" } })).thread_id;
  const mine = await client.assistants.create({ graphId: "steps", name: "mine", config: { tags: ["a"] } });
  await client.assistants.update(mine.assistant_id, { metadata: { second: true } });
  const [plain, forked, waiting, cut] = await Promise.all([newThread(), newThread(), newThread(), newThread()]);
  await client.runs.wait(plain, mine.assistant_id, { input: { total: 3 } });
  await client.runs.wait(null, "memory", { input: {} });
  await client.runs.wait(waiting, "approval", { input: {} });
  // Two branches, whose channels have the same versions with different values.
  await client.runs.wait(forked, "steps", { input: { total: 2 } });
  const early = (await client.threads.getHistory(forked, { limit: 10 })).at(-2);
  await client.runs.wait(forked, "steps", { input: { total: 4 }, checkpointId: early.checkpoint.checkpoint_id });
  const ids = [plain, forked, waiting];
  const before = await readAll(files, ids);
  const { run_id: cutRun } = await client.runs.create(cut, "steps", { input: { total: 8, ms: 300 } });
  await eventually(
    () => client.threads.getState(cut),
    (state: Loose) => state.values.done?.length > 1,
    { what: "a step of the run that is cut" },
  );
  files.process.kill("SIGTERM");
  await files.ended;
  const written = contentOf(cwd);

  const start = () => startReplica("postgres", { connectionString, engine: { importFrom: cwd }, cwd: newDirectory() });
  // Only one of the replicas that start together copies the state.
  const moved = await Promise.all([start(), start()]);
  for (const replica of moved) after(() => void replica.process.kill("SIGKILL"));
  const [one, other] = moved as [Loose, Loose];
  assert.deepEqual(await readAll(one, ids), before);
  const logs = moved.map(({ log }) => log()).join("");
  assert.equal(logs.split("state of the file engine copied").length, 2);
  assert.deepEqual(contentOf(cwd), written, "the files stay as they were");

  // Out again, and read by the file engine. A run that is in progress is copied as it is.
  const exported = newDirectory();
  const program = path.join(packageDir, "src/export.ts");
  const env = { ...process.env, DATABASE_URI: connectionString };
  const { stdout } = await promisify(execFile)(process.execPath, [program, exported], { env });
  assert.equal(JSON.parse(stdout).threads, 4);
  await assert.rejects(promisify(execFile)(process.execPath, [program, exported], { env }), /EEXIST/);
  const back = await startReplica("file", { cwd: exported });
  after(() => void back.process.kill("SIGKILL"));
  assert.deepEqual(await readAll(back, ids), before);
  assert.deepEqual((await back.client.runs.wait(forked, "steps", { input: { total: 5 } })).done, [1, 2, 3, 4, 5]);

  const resumed = await other.client.runs.wait(waiting, "approval", { command: { resume: "yes" } });
  assert.deepEqual(resumed.done, ["answered yes"]);
  const more = await one.client.runs.wait(forked, "steps", { input: { total: 6 } });
  assert.deepEqual(more.done, [1, 2, 3, 4, 5, 6]);
  await one.client.runs.join(cut, cutRun);
  assert.equal((await one.client.runs.get(cut, cutRun)).status, "success");
  assert.deepEqual((await one.client.threads.getState(cut)).values.done, [1, 2, 3, 4, 5, 6, 7, 8]);
  assert.equal((await one.client.runs.wait(null, "memory", { input: {} })).answer, 2);
});

test("moving again copies what changed in the files since a rollback, and loses no change in the database", async () => {
  const cwd = newDirectory();
  const schema = "moved_again";
  const use = async (kind: "file" | "postgres", act: (client: Loose) => Promise<void>) => {
    const replica = await startReplica(kind, { connectionString, engine: { importFrom: cwd, schema }, cwd });
    after(() => void replica.process.kill("SIGKILL"));
    await act(replica.client);
    replica.process.kill("SIGTERM");
    await replica.ended;
    return replica.log();
  };
  const [alone, both] = [crypto.randomUUID(), crypto.randomUUID()];
  const run = (client: Loose, id: string, total: number) => client.runs.wait(id, "steps", { input: { total } });
  await use("file", async (client) => {
    for (const threadId of [alone, both]) await client.threads.create({ threadId });
    await run(client, alone, 2);
    await run(client, both, 2);
    await client.store.putItem(["notes"], "a", { text: "first" });
  });
  await use("postgres", async (client) => void (await run(client, both, 3)));
  await use("file", async (client) => {
    await run(client, alone, 4);
    await run(client, both, 5);
    await client.store.putItem(["notes"], "a", { text: "second" });
  });
  const log = await use("postgres", async (client) => {
    assert.deepEqual((await client.store.getItem(["notes"], "a")).value, { text: "second" });
    assert.deepEqual((await client.threads.getState(both)).values.done, [1, 2, 3]);
    assert.deepEqual((await client.threads.getState(alone)).values.done, [1, 2, 3, 4]);
    assert.equal((await client.runs.list(alone)).length, 2);
    assert.deepEqual((await run(client, alone, 5)).done, [1, 2, 3, 4, 5]);
  });
  assert.match(log, /threads not copied because they went on in the database/);

  // A data directory may be behind a link.
  const link = path.join(newDirectory(), "engine");
  symlinkSync(path.join(packageDir, "src"), link);
  const argv = [path.join(link, "export.ts"), newDirectory(), schema];
  const exported = await promisify(execFile)(process.execPath, argv, {
    env: { ...process.env, DATABASE_URI: connectionString },
  });
  assert.equal(JSON.parse(exported.stdout).threads, 2);
});
