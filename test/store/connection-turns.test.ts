import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionTurns, forWorkspace } from "../../src/store/engine/connection-turns.ts";

/** Asks for connections and records who got one, in order. */
function asking(turns: ConnectionTurns) {
  const order: string[] = [];
  const ends: (() => void)[] = [];
  const ask = (workspace: string | null) =>
    forWorkspace(workspace, async () => {
      ends.push(await turns.begin());
      order.push(workspace ?? "server");
    });
  return { order, ends, ask };
}

/** Lets all tasks that may begin do so. */
const settled = () => new Promise((resolve) => setImmediate(resolve));

test("a workspace holds at most half of the connections that the others leave", async () => {
  const { order, ask } = asking(new ConnectionTurns({ max: 8, waitMaxMs: 0 }));
  for (let count = 0; count < 9; count += 1) void ask("a");
  for (let count = 0; count < 9; count += 1) void ask("b");
  await settled();
  assert.deepEqual(order, ["a", "a", "a", "a", "b", "b"]);
});

test("the server's own work may use all that is left", async () => {
  const { order, ask } = asking(new ConnectionTurns({ max: 4, waitMaxMs: 0 }));
  for (let count = 0; count < 5; count += 1) void ask("a");
  for (let count = 0; count < 5; count += 1) void ask(null);
  await settled();
  assert.deepEqual(order, ["a", "a", "server", "server"]);
});

test("workspaces take turns at the only connection, however many tasks one of them has", async () => {
  const { order, ends, ask } = asking(new ConnectionTurns({ max: 1, waitMaxMs: 0 }));
  for (const workspace of ["a", "a", "a", "a", "b", "b", null]) void ask(workspace);
  for (let count = 0; count < 7; count += 1) {
    await settled();
    ends[count]?.();
  }
  assert.deepEqual(order, ["a", "a", "b", "server", "a", "b", "a"]);
});

test("a task that waits for too long fails, and those behind it go on", async () => {
  const { order, ends, ask } = asking(new ConnectionTurns({ max: 1, waitMaxMs: 20 }));
  await ask("a");
  await assert.rejects(ask("a"), /timeout exceeded when trying to connect/);
  const next = ask("b");
  ends[0]?.();
  await next;
  assert.deepEqual(order, ["a", "b"]);
});
