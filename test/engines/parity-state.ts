import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { eventually } from "../support/eventually.ts";
import { type Check, type Loose, ran, send, statusOf } from "./checks.ts";

export const assistants: Check[] = [
  [
    "each graph has an assistant of the system",
    async ({ client }) => {
      const found = await client.assistants.search({ limit: 100, metadata: { created_by: "system" } });
      // The project of an engine may have more graphs than the others.
      const graphs = ["approval", "branches", "chat", "failing", "memory", "steps"];
      const ids = found.map((one: Loose) => one.graph_id).filter((id: string) => graphs.includes(id));
      assert.deepEqual(ids.sort(), graphs);
    },
  ],
  [
    "creates, reads and deletes an assistant",
    async ({ client }) => {
      const made = await client.assistants.create({ graphId: "steps", name: "Mine", metadata: { team: "a" } });
      assert.equal((await client.assistants.get(made.assistant_id)).name, "Mine");
      await client.assistants.delete(made.assistant_id);
      assert.equal(await statusOf(client.assistants.get(made.assistant_id)), 404);
    },
  ],
  [
    "refuses a second assistant with the same id",
    async ({ client }) => {
      const assistantId = randomUUID();
      await client.assistants.create({ graphId: "steps", assistantId });
      assert.equal(await statusOf(client.assistants.create({ graphId: "steps", assistantId })), 409);
      await client.assistants.create({ graphId: "steps", assistantId, ifExists: "do_nothing" });
    },
  ],
  [
    "keeps the versions of an assistant",
    async ({ client }) => {
      const { assistant_id } = await client.assistants.create({ graphId: "steps", config: { configurable: { a: 1 } } });
      const second = await client.assistants.update(assistant_id, {
        config: { configurable: { a: 2 } },
        metadata: { b: 1 },
      });
      assert.equal(second.version, 2);
      assert.deepEqual(
        (await client.assistants.getVersions(assistant_id)).map((one: Loose) => one.version),
        [2, 1],
      );
      assert.deepEqual((await client.assistants.setLatest(assistant_id, 1)).config.configurable, { a: 1 });
    },
  ],
  [
    "finds assistants by graph, name and metadata, and counts them",
    async ({ client }) => {
      const mark = randomUUID();
      for (const name of ["Alpha", "Beta"])
        await client.assistants.create({ graphId: "chat", name, metadata: { mark } });
      assert.equal((await client.assistants.search({ metadata: { mark }, graphId: "chat" })).length, 2);
      assert.equal((await client.assistants.search({ metadata: { mark }, name: "alp" })).length, 1);
      assert.equal(await client.assistants.count({ metadata: { mark } }), 2);
      assert.equal((await client.assistants.search({ metadata: { mark }, limit: 1, offset: 1 })).length, 1);
    },
  ],
  [
    "draws a graph",
    async ({ client }) => {
      assert.ok((await client.assistants.getGraph("steps")).nodes.length >= 3);
    },
  ],
];

export const threads: Check[] = [
  [
    "creates, reads, changes and deletes a thread",
    async ({ client }) => {
      const { thread_id } = await client.threads.create({ metadata: { a: 1 } });
      assert.equal((await client.threads.get(thread_id)).status, "idle");
      assert.deepEqual((await client.threads.update(thread_id, { metadata: { b: 2 } })).metadata, { a: 1, b: 2 });
      await client.threads.delete(thread_id);
      assert.equal(await statusOf(client.threads.get(thread_id)), 404);
    },
  ],
  [
    "deletes a thread while it runs",
    async ({ client }) => {
      const { thread_id } = await client.threads.create();
      await client.runs.create(thread_id, "steps", { input: { total: 10, ms: 50 } });
      await eventually(
        () => client.runs.list(thread_id),
        (list: Loose[]) => list[0]?.status === "running",
        { what: "a running run" },
      );
      await client.threads.delete(thread_id);
      assert.equal(await statusOf(client.threads.get(thread_id)), 404);
    },
  ],
  [
    "refuses a second thread with the same id",
    async ({ client }) => {
      const threadId = randomUUID();
      await client.threads.create({ threadId });
      assert.equal(await statusOf(client.threads.create({ threadId })), 409);
      await client.threads.create({ threadId, ifExists: "do_nothing" });
    },
  ],
  [
    "finds threads by metadata, status and values, and counts them",
    async (target) => {
      const { client } = target;
      const mark = randomUUID();
      const { id } = await ran(target, "steps", { total: 2 });
      await client.threads.update(id, { metadata: { mark } });
      await client.threads.create({ metadata: { mark, nested: { x: 1 } } });
      assert.equal((await client.threads.search({ metadata: { mark } })).length, 2);
      assert.equal((await client.threads.search({ metadata: { mark, nested: { x: 1 } } })).length, 1);
      assert.equal((await client.threads.search({ metadata: { mark }, status: "idle" })).length, 2);
      assert.equal((await client.threads.search({ metadata: { mark }, limit: 1 })).length, 1);
      assert.equal(await client.threads.count({ metadata: { mark } }), 2);
      assert.ok((await client.threads.search({ values: { total: 2 }, ids: [id] })).length === 1);
    },
  ],
  [
    "sorts threads by their time",
    async ({ client }) => {
      const mark = randomUUID();
      const ids: string[] = [];
      for (let i = 0; i < 3; i += 1) {
        ids.push((await client.threads.create({ metadata: { mark } })).thread_id);
        await new Promise((resolve) => setTimeout(resolve, 3));
      }
      const sorted = async (sortOrder: string) =>
        (await client.threads.search({ metadata: { mark }, sortBy: "created_at", sortOrder })).map(
          (one: Loose) => one.thread_id,
        );
      assert.deepEqual(await sorted("asc"), ids);
      assert.deepEqual(await sorted("desc"), ids.toReversed());
    },
  ],
  [
    "reads state and history",
    async (target) => {
      const { id } = await ran(target, "steps", { total: 3 });
      const state = await target.client.threads.getState(id);
      assert.deepEqual(state.values.done, [1, 2, 3]);
      assert.deepEqual(state.next, []);
      const history = await target.client.threads.getHistory(id, { limit: 20 });
      assert.equal(history.length, 5);
      const [, before] = history;
      const earlier = await target.client.threads.getState(id, before.checkpoint.checkpoint_id);
      assert.deepEqual(earlier.values.done, [1, 2]);
      assert.equal(
        (await target.client.threads.getHistory(id, { limit: 2, before: before.checkpoint.checkpoint_id })).length,
        2,
      );
    },
  ],
  [
    "changes the state as a node",
    async (target) => {
      const { id } = await ran(target, "steps", { total: 1 });
      await target.client.threads.updateState(id, { values: { done: ["by hand"] }, asNode: "step" });
      assert.deepEqual((await target.client.threads.getState(id)).values.done, [1, "by hand"]);
      assert.deepEqual((await target.client.threads.get(id)).values.done, [1, "by hand"]);
    },
  ],
  [
    "copies a thread with its state",
    async (target) => {
      const { id } = await ran(target, "steps", { total: 2 });
      const copy = await target.client.threads.copy(id);
      assert.deepEqual((await target.client.threads.getState(copy.thread_id)).values.done, [1, 2]);
    },
  ],
  [
    "makes a thread from supersteps",
    async ({ client }) => {
      const supersteps = [{ updates: [{ values: { total: 9, done: ["given"] }, asNode: "__start__" }] }];
      const { thread_id } = await client.threads.create({ graphId: "steps", supersteps });
      assert.deepEqual((await client.threads.getState(thread_id)).values.done, ["given"]);
    },
  ],
  [
    "a run from an earlier checkpoint leaves the other branch as it is",
    async (target) => {
      const { id } = await ran(target, "steps", { total: 2 });
      const history = await target.client.threads.getHistory(id, { limit: 20 });
      const [last, first] = history;
      await target.client.threads.updateState(id, {
        values: { done: ["other"] },
        asNode: "step",
        checkpoint: first.checkpoint,
      });
      assert.deepEqual((await target.client.threads.getState(id)).values.done, [1, "other"]);
      assert.deepEqual((await target.client.threads.getState(id, last.checkpoint.checkpoint_id)).values.done, [1, 2]);
      const again = await target.client.runs.wait(id, "steps", { input: null, checkpoint: first.checkpoint });
      assert.deepEqual(again.done, [1, 2]);
    },
  ],
];

export const store: Check[] = [
  [
    "puts, gets and deletes items",
    async ({ client }) => {
      const namespace = ["items", randomUUID()];
      await client.store.putItem(namespace, "a", { n: 1 });
      assert.deepEqual((await client.store.getItem(namespace, "a")).value, { n: 1 });
      await client.store.putItem(namespace, "a", { n: 2 });
      assert.deepEqual((await client.store.getItem(namespace, "a")).value, { n: 2 });
      await client.store.deleteItem(namespace, "a");
      assert.equal(await client.store.getItem(namespace, "a"), null);
    },
  ],
  [
    "finds items below a namespace, by filter and page",
    async ({ client }) => {
      const top = randomUUID();
      for (const [i, color] of ["red", "blue", "red"].entries())
        await client.store.putItem([top, "sub"], `k${i}`, { color, i });
      await client.store.putItem([`${top}-other`], "k", { color: "red" });
      const keys = async (options: Loose) =>
        (await client.store.searchItems([top, "sub"], options)).items.map((one: Loose) => one.key);
      assert.deepEqual((await client.store.searchItems([top, "sub"])).items.length, 3);
      assert.deepEqual(await keys({ filter: { color: "red" } }), ["k0", "k2"]);
      assert.deepEqual(await keys({ filter: { i: { $gte: 1 } } }), ["k1", "k2"]);
      assert.deepEqual(await keys({ limit: 1, offset: 1 }), ["k1"]);
    },
  ],
  [
    "lists namespaces",
    async ({ client }) => {
      const top = randomUUID();
      for (const rest of [["a", "x"], ["a", "y"], ["b"]]) await client.store.putItem([top, ...rest], "k", {});
      assert.equal((await client.store.listNamespaces({ prefix: [top] })).namespaces.length, 3);
      assert.deepEqual((await client.store.listNamespaces({ prefix: [top], maxDepth: 2 })).namespaces, [
        [top, "a"],
        [top, "b"],
      ]);
      assert.deepEqual((await client.store.listNamespaces({ prefix: [top], suffix: ["y"] })).namespaces, [
        [top, "a", "y"],
      ]);
    },
  ],
  [
    "keeps broken characters",
    async (target) => {
      const value = { text: "a\ud800b\u0000c" };
      const namespace = ["broken", randomUUID()];
      assert.equal((await send(target, "/store/items", { namespace, key: "k", value }, "PUT")).status, 204);
      assert.deepEqual((await target.client.store.getItem(namespace, "k")).value, value);
      const metadata = { text: "x\udfff" };
      const { body } = await send(target, "/threads", { metadata });
      assert.deepEqual((await target.client.threads.get(body.thread_id)).metadata, metadata);
      assert.equal((await send(target, "/threads/search", { metadata: { ...metadata, none: 1 } })).status, 200);
      const { values } = await ran(target, "steps", { total: 1, answer: "z\ud800\u0000" }, { metadata });
      assert.equal(values.answer, "z\ud800\u0000");
    },
  ],
];

export const meta: Check[] = [
  [
    "answers /ok and /info",
    async (target) => {
      assert.deepEqual((await send(target, "/ok")).body, { ok: true });
      assert.equal((await send(target, "/info")).status, 200);
    },
  ],
  [
    "a body that is not valid is refused",
    async (target) => {
      assert.ok((await send(target, "/threads/search", { limit: "many" })).status >= 400);
    },
  ],
];
