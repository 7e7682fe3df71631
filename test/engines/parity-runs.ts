import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { eventually } from "../support/eventually.ts";
import { type Check, collect, type Loose, ran, settled, statusOf, type Target } from "./checks.ts";

export const runs: Check[] = [
  [
    "waits for the values of a run",
    async (target) => {
      const { values } = await ran(target, "steps", { total: 3 });
      assert.deepEqual(values.done, [1, 2, 3]);
    },
  ],
  [
    "a thread remembers its earlier runs",
    async (target) => {
      const { id } = await ran(target, "steps", { total: 1 });
      const values = await target.client.runs.wait(id, "steps", { input: { total: 3 } });
      assert.deepEqual(values.done, [1, 2, 3]);
    },
  ],
  [
    "a run without a thread leaves none",
    async ({ client }) => {
      const values = await client.runs.wait(null, "steps", { input: { total: 2 } });
      assert.deepEqual(values.done, [1, 2]);
    },
  ],
  [
    "keeps the thread of a run without one if asked",
    async ({ client }) => {
      const run = await client.runs.create(null, "steps", { input: { total: 1 }, onCompletion: "keep" });
      await settled({ client, url: "" }, run.thread_id);
      assert.deepEqual((await client.threads.getState(run.thread_id)).values.done, [1]);
    },
  ],
  [
    "creates runs in the background, joins and lists them",
    async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const run = await client.runs.create(thread_id, "steps", { input: { total: 2, ms: 50 }, metadata: { tag: "x" } });
      assert.equal(run.status, "pending");
      assert.deepEqual((await client.runs.join(thread_id, run.run_id)).done, [1, 2]);
      const ended = await eventually(
        () => client.runs.get(thread_id, run.run_id),
        (one: Loose) => one.status === "success",
        { what: "success" },
      );
      assert.equal(ended.metadata.tag, "x");
      assert.equal((await client.runs.list(thread_id)).length, 1);
      assert.equal((await client.runs.list(thread_id, { status: "pending" })).length, 0);
      await client.runs.delete(thread_id, run.run_id);
      assert.equal(await statusOf(client.runs.get(thread_id, run.run_id)), 404);
    },
  ],
  [
    "creates a batch of runs",
    async ({ client }) => {
      const batch = await client.runs.createBatch([
        { assistantId: "steps", input: { total: 1 } },
        { assistantId: "steps", input: { total: 1 } },
      ]);
      assert.equal(batch.length, 2);
    },
  ],
  [
    "a run of an unknown assistant is refused",
    async ({ client }) => {
      const { thread_id } = await client.threads.create();
      assert.equal(await statusOf(client.runs.create(thread_id, randomUUID(), { input: {} })), 404);
    },
  ],
  [
    "a run on an unknown thread creates it only if asked",
    async ({ client }) => {
      const id = randomUUID();
      assert.notEqual(
        await statusOf(client.runs.create(id, "steps", { input: { total: 1 }, multitaskStrategy: "enqueue" })),
        200,
      );
      await client.runs.wait(id, "steps", { input: { total: 1 }, ifNotExists: "create" });
      assert.deepEqual((await client.threads.getState(id)).values.done, [1]);
    },
  ],
  [
    "starts a delayed run when its time has come",
    async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const began = Date.now();
      const run = await client.runs.create(thread_id, "steps", { input: { total: 1 }, afterSeconds: 1 });
      await client.runs.join(thread_id, run.run_id);
      assert.ok(Date.now() - began >= 900, `${Date.now() - began} ms`);
    },
  ],
  [
    "a failed run reports its error",
    async (target) => {
      const { id, values } = await ran(target, "failing", {});
      assert.match(values.__error__.message, /second step failed/);
      assert.equal((await settled(target, id)).status, "error");
      assert.equal((await target.client.runs.list(id))[0].status, "error");
    },
  ],
  [
    "asks a person and goes on with the answer",
    async (target) => {
      const { id } = await ran(target, "approval", {});
      const thread = await settled(target, id);
      assert.equal(thread.status, "interrupted");
      const [[question]] = Object.values(thread.interrupts) as Loose[];
      assert.deepEqual(question.value, { question: "Continue?" });
      const values = await target.client.runs.wait(id, "approval", { command: { resume: "yes" } });
      assert.deepEqual(values.done, ["answered yes"]);
      assert.equal((await settled(target, id)).status, "idle");
    },
  ],
  [
    "interrupts before a node and goes on",
    async (target) => {
      const { id } = await ran(target, "failing", {}, { interruptBefore: ["second"] });
      assert.deepEqual((await target.client.threads.getState(id)).next, ["second"]);
      assert.equal((await settled(target, id)).status, "interrupted");
    },
  ],
  [
    "graphs and the API share the store",
    async (target) => {
      await ran(target, "memory", {});
      const before = (await target.client.store.getItem(["counters", "runs"], "count")).value.count;
      const { values } = await ran(target, "memory", {});
      assert.equal(values.answer, before + 1);
    },
  ],
  [
    "runs branches and subgraphs",
    async (target) => {
      const { values } = await ran(target, "branches", { total: 7 });
      assert.ok(
        ["branch 1", "branch 2"].every((one) => values.done.includes(one)),
        JSON.stringify(values),
      );
    },
  ],
];

const slow = { total: 20, ms: 300 };

export const multitask: Check[] = [
  [
    "refuses a second run by default",
    async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const run = await client.runs.create(thread_id, "steps", { input: slow });
      const second = client.runs.create(thread_id, "steps", { input: slow, multitaskStrategy: "reject" });
      // The stock server in JavaScript answers 422, the one in Python 409.
      assert.ok([409, 422].includes((await statusOf(second)) as number));
      await client.runs.cancel(thread_id, run.run_id, true);
    },
  ],
  [
    "enqueues a second run",
    async ({ client }) => {
      const { thread_id } = await client.threads.create();
      await client.runs.create(thread_id, "steps", { input: { total: 3, ms: 50 } });
      const second = await client.runs.wait(thread_id, "steps", { input: { total: 5 }, multitaskStrategy: "enqueue" });
      assert.deepEqual(second.done, [1, 2, 3, 4, 5]);
    },
  ],
  [
    "interrupts the first run for a second one",
    async (target) => {
      const { client } = target;
      const { thread_id } = await client.threads.create();
      const first = await client.runs.create(thread_id, "steps", { input: slow });
      await running(target, thread_id, first.run_id);
      const values = await client.runs.wait(thread_id, "steps", {
        input: { total: 1, ms: 0 },
        multitaskStrategy: "interrupt",
      });
      assert.ok(values.done.length < slow.total, `${values.done.length} steps`);
      assert.equal((await client.runs.get(thread_id, first.run_id)).status, "interrupted");
    },
  ],
  [
    "cancels a running run",
    async (target) => {
      const { client } = target;
      const { thread_id } = await client.threads.create();
      const run = await client.runs.create(thread_id, "steps", { input: slow });
      await running(target, thread_id, run.run_id);
      await client.runs.cancel(thread_id, run.run_id, true);
      assert.equal((await client.runs.get(thread_id, run.run_id)).status, "interrupted");
      assert.equal((await settled(target, thread_id)).status, "idle");
    },
  ],
  [
    "cancels a run that waits for its time",
    async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const run = await client.runs.create(thread_id, "steps", { input: { total: 1 }, afterSeconds: 600 });
      await client.runs.cancel(thread_id, run.run_id);
      assert.equal((await client.runs.get(thread_id, run.run_id)).status, "interrupted");
      assert.equal((await client.threads.get(thread_id)).status, "idle");
    },
  ],
  [
    "cancelling an unknown run is an error",
    async ({ client }) => {
      const { thread_id } = await client.threads.create();
      assert.equal(await statusOf(client.runs.cancel(thread_id, randomUUID())), 404);
    },
  ],
];

const running = ({ client }: Target, thread: string, run: string) =>
  eventually(
    () => client.runs.get(thread, run),
    (one: Loose) => one.status === "running",
    { what: "a running run" },
  );

export const streams: Check[] = [
  [
    "streams values and updates",
    async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const parts = await collect(
        client.runs.stream(thread_id, "steps", { input: { total: 2 }, streamMode: ["values", "updates"] }),
      );
      const events = parts.map((part) => part.event);
      assert.equal(events[0], "metadata");
      assert.equal(events.filter((event) => event === "updates").length, 2);
      assert.deepEqual(parts.findLast((part) => part.event === "values").data.done, [1, 2]);
    },
  ],
  [
    "streams what a node writes",
    async ({ client }) => {
      const parts = await collect(client.runs.stream(null, "steps", { input: { total: 2 }, streamMode: "custom" }));
      assert.deepEqual(
        parts.filter((part) => part.event === "custom").map((part) => part.data.step),
        [1, 2],
      );
    },
  ],
  [
    "streams messages in pieces",
    async ({ client }) => {
      const input = { messages: [{ role: "user", content: "Hello" }] };
      const parts = await collect(client.runs.stream(null, "chat", { input, streamMode: "messages-tuple" }));
      const text = parts.filter((part) => part.event === "messages").map((part) => part.data[0].content);
      assert.ok(text.length > 5 && text.join("").includes("one two three"), text.join("|"));
    },
  ],
  [
    "streams partial messages",
    async ({ client }) => {
      const input = { messages: [{ role: "user", content: "Hello" }] };
      const parts = await collect(client.runs.stream(null, "chat", { input, streamMode: "messages" }));
      assert.ok(parts.some((part) => part.event === "messages/partial"));
      assert.ok(parts.some((part) => part.event === "messages/complete"));
    },
  ],
  [
    "streams events, tasks, checkpoints and debug",
    async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const streamMode = ["events", "tasks", "checkpoints", "debug"];
      const parts = await collect(client.runs.stream(thread_id, "steps", { input: { total: 1 }, streamMode }));
      for (const mode of streamMode)
        assert.ok(
          parts.some((part) => part.event === mode),
          mode,
        );
    },
  ],
  [
    "streams from subgraphs",
    async ({ client }) => {
      const options = { input: { total: 1 }, streamMode: "updates", streamSubgraphs: true };
      const parts = await collect(client.runs.stream(null, "branches", options));
      assert.ok(
        parts.some((part) => part.event.startsWith("updates|child")),
        parts.map((part) => part.event).join(),
      );
    },
  ],
  [
    "streams the error of a failed run",
    async ({ client }) => {
      const parts = await collect(client.runs.stream(null, "failing", { input: {} }));
      assert.match(JSON.stringify(parts.find((part) => part.event === "error")?.data), /second step failed/);
    },
  ],
  [
    "joins the stream of a run",
    async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const run = await client.runs.create(thread_id, "steps", { input: { total: 4, ms: 100 }, streamMode: "values" });
      const parts = await collect(client.runs.joinStream(thread_id, run.run_id));
      assert.deepEqual(parts.findLast((part) => part.event === "values").data.done, [1, 2, 3, 4]);
    },
  ],
  [
    "resumes a stream after an event",
    async ({ client }) => {
      const { thread_id } = await client.threads.create();
      const options = { input: { total: 3 }, streamMode: "values", streamResumable: true };
      const all = await collect(client.runs.stream(thread_id, "steps", options));
      const [{ run_id }] = await client.runs.list(thread_id);
      const rest = await collect(client.runs.joinStream(thread_id, run_id, { lastEventId: all[1].id }));
      assert.deepEqual(
        rest.map((part) => part.id),
        all.slice(2).map((part) => part.id),
      );
    },
  ],
  [
    "cancels a run when its client leaves, if asked",
    async (target) => {
      const { client } = target;
      const { thread_id } = await client.threads.create();
      const leaving = new AbortController();
      const options = { input: slow, onDisconnect: "cancel", signal: leaving.signal };
      const reading = collect(client.runs.stream(thread_id, "steps", options)).catch(() => {});
      const [run] = await eventually(
        () => client.runs.list(thread_id),
        (list: Loose[]) => list[0]?.status === "running",
        { what: "a run" },
      );
      leaving.abort();
      await reading;
      await eventually(
        () => client.runs.get(thread_id, run.run_id),
        (one: Loose) => one.status === "interrupted",
        { timeoutMs: 10_000, what: "interrupted" },
      );
    },
  ],
];
