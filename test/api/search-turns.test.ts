import assert from "node:assert/strict";
import { test } from "node:test";
import { SearchTurns } from "../../src/api/logs/search-turns.ts";
import { ApiError } from "../../src/contract/error.ts";

/** Signal of a client that does not leave. */
const stays = new AbortController().signal;

const isRefused = (error: unknown) => error instanceof ApiError && error.status === 429;

/** Takes turns with statements that run until the test ends them, and notes when they begin. */
function statements(turns: SearchTurns) {
  const began: string[] = [];
  const ends: (() => void)[] = [];
  return {
    began,
    take: (name: string, signal = stays) =>
      turns.take(
        name.slice(0, 1),
        () => {
          began.push(name);
          return new Promise<void>((resolve) => ends.push(resolve));
        },
        signal,
      ),
    async endOne() {
      ends.shift()?.();
      await new Promise(setImmediate);
    },
  };
}

test("searches run one statement at a time, and workspaces take turns however many searches one has", async () => {
  const { began, take, endOne } = statements(new SearchTurns());
  const done = Promise.all(["a1", "a2", "a3", "b1", "b2", "c1"].map((name) => take(name)));
  await new Promise(setImmediate);
  for (let running = 1; running <= 6; running += 1) {
    assert.equal(began.length, running);
    await endOne();
  }
  await done;
  assert.deepEqual(began, ["a1", "b1", "c1", "a2", "b2", "a3"]);
});

test("a search whose client has left takes no turn", async () => {
  const { began, take, endOne } = statements(new SearchTurns());
  const client = new AbortController();
  const first = take("a1");
  const left = ["a2", "b1"].map((name) => assert.rejects(take(name, client.signal), isRefused));
  const last = take("b2");
  await new Promise(setImmediate);
  client.abort();
  await Promise.all(left);
  await endOne();
  await endOne();
  await Promise.all([first, last]);
  assert.deepEqual(began, ["a1", "b2"]);
});

test("a search that waited for too long is refused, whether behind its own workspace or behind others", async () => {
  const { began, take, endOne } = statements(new SearchTurns({ waitMaxMs: 30 }));
  const first = take("a1");
  await Promise.all(["a2", "b1", "b2"].map((name) => assert.rejects(take(name), isRefused)));
  const next = take("c1");
  await endOne();
  await endOne();
  await Promise.all([first, next]);
  assert.deepEqual(began, ["a1", "c1"]);
});
