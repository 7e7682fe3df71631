import assert from "node:assert/strict";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { databaseNameOf } from "../../src/provision/database-server.ts";
import { eventually } from "../support/eventually.ts";
import { postgresSkipped } from "../support/postgres-server.ts";
import { connect, find, inDatabase, lockNotes, type MoveWorld, read, startMoveWorld, write } from "./move-world.ts";

let world: MoveWorld | undefined;
before(async () => {
  world = await startMoveWorld();
});
after(() => world?.[Symbol.asyncDispose]());

test("goes on after the program was killed in the middle of the copy", async (context) => {
  if (world === undefined) return context.skip(postgresSkipped);
  const { us, eu, succeed, deploy, startMove, movedId } = world;
  const old = await deploy(us, "killed");
  for (const id of [1, 2, 3]) assert.equal(await write(old.url, id), 200);
  const program = startMove("killed");
  const ended = once(program, "exit");
  // The program certainly dies between backup and restore.
  const lock = await lockNotes(eu, await movedId("killed"));
  program.kill("SIGKILL");
  await ended;
  assert.equal(await write(old.url, 4), 500, "no write gets lost between the backup and the next call");
  await lock.release();

  await succeed("move", "killed", "--to-context", "eu", "--yes");
  const moved = await find(eu, "killed");
  assert.deepEqual(await read(moved?.url ?? null), [1, 2, 3]);
  assert.equal(await write(moved?.url ?? null, 5), 200);
});

test("lets the old one take writes again after Ctrl-C in the middle of the copy", async (context) => {
  if (world === undefined) return context.skip(postgresSkipped);
  const { us, eu, deploy, startMove, movedId } = world;
  const old = await deploy(us, "cancelled");
  assert.equal(await write(old.url, 1), 200);
  const program = startMove("cancelled");
  const lock = await lockNotes(eu, await movedId("cancelled"));
  assert.equal(await write(old.url, 2), 500);
  program.kill("SIGINT");
  await once(program, "exit");
  await eventually(
    () => write(old.url, 3),
    (status) => status === 200,
  );
  await lock.release();
  assert.deepEqual(await read(old.url), [1, 3]);
});

test("fails when a session leaves the read-only mode on purpose", async (context) => {
  if (world === undefined) return context.skip(postgresSkipped);
  const { us, runIn, deploy } = world;
  const old = await deploy(us, "stubborn");
  const session = await connect(us, old.id);
  await session.query("set default_transaction_read_only = off");
  let isWriting = true;
  const writing = (async () => {
    while (isWriting) {
      await session.query("insert into notes values (1)");
      await sleep(20);
    }
  })();
  const { code, stderr } = await runIn("move", "stubborn", "--to-context", "eu", "--yes");
  isWriting = false;
  await writing;
  await session.end();
  assert.equal(code, 1, stderr);
  assert.match(stderr, /was written to while it was read-only|copy of the database is not complete/);
  await eventually(
    () => write(old.url, 2),
    (status) => status === 200,
  );
});

test("a move to another target neither releases nor replaces a complete one", async (context) => {
  if (world === undefined) return context.skip(postgresSkipped);
  const { us, eu, runIn, succeed, deploy } = world;
  const old = await deploy(us, "twice");
  assert.equal(await write(old.url, 1), 200);
  await succeed("move", "twice", "--to-context", "eu", "--yes");
  const target = await find(eu, "twice");
  assert.equal(await write(target?.url ?? null, 2), 200);

  const other = await runIn("move", "twice", "--to-context", "eu", "--as", "elsewhere", "--yes");
  assert.equal(other.code, 1, other.stderr);
  assert.match(other.stderr, /moves to another deployment/);
  assert.equal(await find(eu, "elsewhere"), undefined);
  const back = await runIn("move", "twice", "--to-context", "eu", "--as", "elsewhere", "--back", "--yes");
  assert.equal(back.code, 1, back.stderr);
  assert.match(back.stderr, /add --as twice/);
  assert.equal(await write(old.url, 3), 500);

  await inDatabase(us, old.id, `alter database ${databaseNameOf(old.id)} reset default_transaction_read_only`);
  const again = await runIn("move", "twice", "--to-context", "eu", "--yes");
  assert.equal(again.code, 1, again.stderr);
  assert.match(again.stderr, /would delete what was written to twice since/);
  assert.deepEqual(await read(target?.url ?? null), [1, 2]);
});

test("fails when the old database takes writes during the copy", async (context) => {
  if (world === undefined) return context.skip(postgresSkipped);
  const { us, eu, runIn, deploy, movedId } = world;
  const old = await deploy(us, "released");
  assert.equal(await write(old.url, 1), 200);
  const moving = runIn("move", "released", "--to-context", "eu", "--yes");
  const lock = await lockNotes(eu, await movedId("released"));
  await inDatabase(us, old.id, `alter database ${databaseNameOf(old.id)} reset default_transaction_read_only`);
  await lock.release();
  const { code, stderr } = await moving;
  assert.equal(code, 1, stderr);
  assert.match(stderr, /takes writes again, so the copy may lack rows/);
});
