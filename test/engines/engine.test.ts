import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { after, test } from "node:test";
import { pathToFileURL } from "node:url";
import pg from "pg";
import { copyForEachRequest } from "../../engines/langgraph-js-postgres/src/graphs.ts";
import { eventually } from "../support/eventually.ts";
import { startPostgresServer } from "../support/postgres-server.ts";
import type { Loose } from "./checks.ts";
import { clientOf, packageDir, startReplica } from "./replicas.ts";

const server = await startPostgresServer();
const connectionString = server?.url ?? "";
const database = new pg.Client({ connectionString });
await database.connect();
const schema = "engine_tests";
// The replicas share one schema. The second one only answers requests.
const engine = { schema, sweepIntervalMs: 300, eventTtlMs: 1_000, webhookTimeoutMs: 500, maxConnections: 3 };
const auth = { path: `${import.meta.dirname}/auth.mjs:auth` };
const replicas = await Promise.all([
  startReplica("postgres", { connectionString, engine, server: { nWorkers: 2, auth } }),
  startReplica("postgres", { connectionString, engine: { ...engine, role: "api" }, server: { auth } }),
]);
const [worker, api] = replicas as [Loose, Loose];
const ann = await clientOf(api.url, { authorization: "ann" });
const bob = await clientOf(worker.url, { authorization: "bob" });

after(async () => {
  for (const replica of replicas) replica.process.kill("SIGKILL");
  await database.end();
  await server?.stop();
});

const rowsOf = async (table: string, where = "true") =>
  (await database.query(`select * from ${schema}.${table} where ${where}`)).rows;

const refused = (promise: Promise<unknown>) =>
  promise.then(() => 200).catch((error: { status?: number }) => error.status);

test("a replica of the role api answers for runs that a worker executes", async () => {
  assert.deepEqual((await ann.runs.wait(null, "steps", { input: { total: 2 } })).done, [1, 2]);
  assert.doesNotMatch(api.log(), /Starting background run/);
});

test("the auth handler of the project separates the threads, runs and streams of users", async () => {
  const { thread_id } = await ann.threads.create({ metadata: { same: 1 } });
  const run = await ann.runs.create(thread_id, "steps", { input: { total: 1 } });
  await ann.runs.join(thread_id, run.run_id);
  assert.equal(await refused(bob.threads.get(thread_id)), 404);
  assert.equal(await refused(bob.runs.get(thread_id, run.run_id)), 404);
  assert.equal(await refused(bob.runs.join(thread_id, run.run_id)), 404);
  assert.equal(await refused(bob.runs.cancel(thread_id, run.run_id)), 404);
  assert.equal((await bob.threads.search({ metadata: { same: 1 } })).length, 0);
  assert.equal((await ann.threads.search({ metadata: { same: 1 } })).length, 1);
  for await (const { event } of bob.runs.joinStream(thread_id, run.run_id)) assert.equal(event, "error");
});

test("a run cannot be read through a thread that is not its own", async () => {
  const [hers, his] = (await Promise.all([ann.threads.create(), bob.threads.create()])) as [Loose, Loose];
  const { run_id } = await ann.runs.create(hers.thread_id, "steps", { input: { total: 1 } });
  assert.deepEqual((await ann.runs.join(hers.thread_id, run_id)).done, [1]);
  assert.equal(await bob.runs.join(his.thread_id, run_id), null);
  for await (const { event } of bob.runs.joinStream(his.thread_id, run_id)) assert.equal(event, "error");
  assert.equal(await refused(bob.runs.get(his.thread_id, run_id)), 404);
  assert.equal(await refused(bob.runs.cancel(his.thread_id, run_id)), 404);
  assert.equal(await refused(bob.runs.delete(his.thread_id, run_id)), 404);
});

test("a request with a value of 20,000 levels is refused, and the server goes on", async () => {
  const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
  const { thread_id } = await ann.threads.create();
  const headers = { authorization: "ann", "content-type": "application/json" };
  const bodies = {
    "/threads": `{"metadata": {"a": ${deep}}}`,
    "/threads/search": `{"metadata": {"a": ${deep}}}`,
    [`/threads/${thread_id}/runs`]: `{"assistant_id": "steps", "input": {"a": ${deep}}}`,
    [`/threads/${thread_id}/runs/wait`]: `{"assistant_id": "steps", "input": {"a": ${deep}}}`,
    "/assistants": `{"graph_id": "steps", "metadata": {"a": ${deep}}}`,
    "/runs/wait": `{"assistant_id": "steps", "input": {"a": ${deep}}}`,
    "/runs/crons": `{"assistant_id": "steps", "schedule": "0 0 1 1 *", "input": {"a": ${deep}}}`,
  };
  const answers: Record<string, number> = {};
  for (const [at, body] of Object.entries(bodies)) {
    answers[at] = (await fetch(api.url + at, { method: "POST", headers, body })).status;
  }
  assert.deepEqual(
    Object.entries(answers).filter(([, status]) => status !== 422),
    [],
  );
  assert.deepEqual((await ann.runs.wait(null, "steps", { input: { total: 1 } })).done, [1]);
});

test("runs without a thread do not take the state away from runs of the same graph on threads", async () => {
  const one = await startReplica("postgres", { connectionString, engine: { schema: "shared_graph" } });
  after(() => void one.process.kill("SIGKILL"));
  const input = { total: 2 };
  const onThread = async () => {
    const { thread_id } = await one.client.threads.create();
    await one.client.runs.wait(thread_id, "steps", { input });
    return (await one.client.threads.getHistory(thread_id, { limit: 20 })).length;
  };
  for (let round = 0; round < 10; round += 1) {
    const others = Array.from({ length: 5 }, () => one.client.runs.wait(null, "steps", { input }));
    const lengths = Array.from({ length: 5 }, onThread);
    assert.deepEqual(await Promise.all(lengths), Array(5).fill(4));
    await Promise.all(others);
  }
});

test("the copy of a graph for a request has the methods that the project has set on it", async () => {
  const { steps } = (await import(pathToFileURL(path.join(packageDir, "example/agent.mjs")).href)) as Loose;
  const traced: unknown[] = [];
  const hidden = Symbol("hidden");
  steps.invoke = (...input: unknown[]) => traced.push(input);
  Object.defineProperty(steps, hidden, { get: () => "kept" });
  const graphs: Loose = { steps };
  copyForEachRequest(graphs, "steps");
  const copy = await graphs.steps();
  assert.notEqual(copy, steps);
  assert.equal(copy.invoke, steps.invoke);
  assert.equal(copy[hidden], "kept");
});

test("the metrics count the runs of all replicas, also failed ones that were deleted", async () => {
  const read = async (url: string, format: string) => {
    const answer = await fetch(`${url}/metrics${format}`, { headers: { "x-auth-scheme": "langsmith" } });
    assert.equal(answer.status, 200);
    return answer;
  };
  const counts = async (url: string) => (await read(url, "?format=json")).json() as Promise<Loose>;
  const before = await counts(api.url);
  await ann.runs.wait(null, "failing", { input: {}, raiseError: false });
  assert.equal((await counts(api.url)).queue.n_failed, before.queue.n_failed + 1);
  const threads = await Promise.all(Array.from({ length: 5 }, () => ann.threads.create()));
  const runs = [];
  for (const { thread_id } of threads)
    runs.push(await ann.runs.create(thread_id, "steps", { input: { total: 20, ms: 300 } }));
  const { queue } = await eventually(
    () => counts(api.url),
    (found: Loose) => found.queue.n_running === 2,
    { what: "two running runs" },
  );
  assert.deepEqual([queue.n_pending, queue.n_recovered], [3, 0]);
  assert.deepEqual((await counts(worker.url)).workers, { max: 2, active: 2, available: 0 });
  assert.match(
    await (await read(worker.url, "")).text(),
    /^# TYPE lg_api_num_pending_runs gauge\nlg_api_num_pending_runs 3$/m,
  );
  await Promise.all(runs.map(({ thread_id, run_id }) => ann.runs.cancel(thread_id, run_id, true)));
});

test("the metrics count the tokens of each answer once, however often the thread goes on", async () => {
  const tokens = async () => {
    const answer = await fetch(`${api.url}/metrics?format=json`, { headers: { "x-auth-scheme": "langsmith" } });
    const { queue } = (await answer.json()) as Loose;
    return [queue.n_input_tokens, queue.n_output_tokens];
  };
  assert.deepEqual(await tokens(), [null, null], "no model has reported any yet");
  const { thread_id } = await ann.threads.create();
  const say = (content: string) => ({ input: { messages: [{ role: "user", content }] } });
  // No operator of PostgreSQL reads into a `json` with this character.
  await ann.runs.wait(thread_id, "chat", say("one\u0000"));
  assert.deepEqual(await tokens(), [10, 3]);
  const { messages } = (await ann.runs.wait(thread_id, "chat", say("two"))) as Loose;
  assert.deepEqual(await tokens(), [20, 6]);
  await ann.runs.wait(null, "chat", { input: { messages } });
  assert.deepEqual(await tokens(), [30, 9], "a run without a thread, with the conversation as its input");
  await ann.runs.wait(thread_id, "failing", { input: {}, raiseError: false });
  assert.deepEqual(await tokens(), [30, 9]);
  const { text } = await fetch(`${api.url}/metrics`, { headers: { "x-auth-scheme": "langsmith" } }).then(
    async (answer) => ({
      text: await answer.text(),
    }),
  );
  assert.match(text, /^# TYPE lg_api_output_tokens_total counter\nlg_api_output_tokens_total 9$/m);
});

test("the metrics tell how long the queue stays quiet", async () => {
  const dueIn = async () => {
    const answer = await fetch(`${api.url}/metrics?format=json`, { headers: { "x-auth-scheme": "langsmith" } });
    return ((await answer.json()) as Loose).queue.next_due_secs;
  };
  await eventually(dueIn, (seconds: number | null) => seconds === null, { what: "a quiet queue" });
  const { cron_id } = await ann.crons.create("steps", { schedule: "0 0 1 1 *", input: {} });
  const untilCron = await dueIn();
  assert.ok(untilCron > 0 && untilCron <= 366 * 86_400, String(untilCron));
  const { thread_id } = await ann.threads.create();
  const delayed = await ann.runs.create(thread_id, "steps", { input: { total: 1 }, afterSeconds: 50 });
  const untilRun = await dueIn();
  assert.ok(untilRun > 30 && untilRun <= Math.min(50, untilCron), String(untilRun));
  await ann.runs.cancel(thread_id, delayed.run_id, true);
  await ann.crons.update(cron_id, { enabled: false });
  assert.equal(await dueIn(), null, "a cron that is off is never due");
  await ann.crons.delete(cron_id);
});

test("a rollback removes the run with its checkpoints and leaves the thread as it was", async () => {
  const { thread_id } = await ann.threads.create();
  await ann.runs.wait(thread_id, "steps", { input: { total: 2 } });
  const run = await ann.runs.create(thread_id, "steps", { input: { total: 20, ms: 300 } });
  await eventually(
    () => ann.threads.getState(thread_id),
    (state: Loose) => state.values.done.length > 3,
    { what: "steps" },
  );
  const second = { input: { total: 3 }, multitaskStrategy: "rollback" };
  assert.deepEqual((await ann.runs.wait(thread_id, "steps", second)).done, [1, 2, 3]);
  assert.equal(await refused(ann.runs.get(thread_id, run.run_id)), 404);
  assert.equal(
    (await rowsOf("checkpoints", `thread_id = '${thread_id}' and metadata ->> 'run_id' = '${run.run_id}'`)).length,
    0,
  );
  assert.equal((await rowsOf("events", `run_id = '${run.run_id}'`)).length, 0);
});

test("deleting a thread or an assistant leaves no runs, events or checkpoints, and stops what runs", async () => {
  const assistant = await ann.assistants.create({ graphId: "steps" });
  const { thread_id } = await ann.threads.create();
  const runs: Loose[] = [];
  for (const total of [1, 20]) {
    runs.push(
      await ann.runs.create(thread_id, assistant.assistant_id, {
        input: { total, ms: total * 10 },
        multitaskStrategy: "enqueue",
      }),
    );
  }
  await eventually(
    () => ann.runs.get(thread_id, runs[1].run_id),
    (run: Loose) => run.status === "running",
    { what: "running" },
  );
  await ann.threads.delete(thread_id);
  await ann.assistants.delete(assistant.assistant_id);
  const ids = runs.map((run: Loose) => `'${run.run_id}'`).join();
  await eventually(
    () => worker.log(),
    (log: string) => log.includes("the execution was stopped: lost"),
    { what: "the stop" },
  );
  assert.equal((await rowsOf("runs", `run_id in (${ids})`)).length, 0);
  assert.equal((await rowsOf("events", `run_id in (${ids})`)).length, 0);
  assert.equal((await rowsOf("checkpoints", `thread_id = '${thread_id}'`)).length, 0);
});

test("events of ended runs are deleted after their time", async () => {
  const { thread_id } = await ann.threads.create();
  const { run_id } = await ann.runs.create(thread_id, "steps", { input: { total: 1 } });
  await ann.runs.join(thread_id, run_id);
  await eventually(
    () => rowsOf("events", `run_id = '${run_id}'`),
    (rows) => rows.length === 0,
    { what: "no events" },
  );
  assert.equal((await ann.runs.get(thread_id, run_id)).status, "success");
});

test("a cron fires once for each time, for the user who made it", async () => {
  const config = {
    configurable: { langgraph_auth_user: { identity: "bob" }, langgraph_auth_user_id: "bob", user_id: "bob" },
  };
  const cron = await ann.crons.create("steps", {
    schedule: "* * * * *",
    input: { total: 1 },
    config,
    onRunCompleted: "keep",
  });
  assert.deepEqual([cron.user_id, cron.enabled, Date.parse(cron.next_run_date) > Date.now()], ["ann", true, true]);
  assert.equal(await refused(bob.crons.delete(cron.cron_id)), 404);
  assert.equal((await bob.crons.search()).length, 0);
  await database.query(`update ${schema}.crons set next_run_at = now() - interval '1 second' where cron_id = $1`, [
    cron.cron_id,
  ]);
  const fired = await eventually(
    () => rowsOf("runs", `metadata ->> 'cron_id' = '${cron.cron_id}' and status = 'success'`),
    (rows) => rows.length > 0,
    { what: "a fired run" },
  );
  assert.equal(fired.length, 1);
  const { configurable } = fired[0].kwargs.config;
  assert.deepEqual([configurable.langgraph_auth_user.identity, configurable.user_id], ["ann", "ann"]);
  assert.equal((await ann.threads.get(fired[0].thread_id)).metadata.owner, "ann");
  assert.equal((await ann.crons.update(cron.cron_id, { enabled: false })).enabled, false);
  assert.equal(await refused(ann.crons.create("steps", { schedule: "at noon" })), 422);
  await ann.crons.delete(cron.cron_id);
});

test("a cron keeps to its multitask strategy when the thread is busy", async () => {
  const long = { input: { total: 40, ms: 300 } };
  for (const [strategy, status, fired] of [
    ["reject", "running", 0],
    ["interrupt", "interrupted", 1],
  ] as const) {
    const { thread_id } = await ann.threads.create();
    const { run_id } = await ann.runs.create(thread_id, "steps", long);
    await eventually(
      () => ann.runs.get(thread_id, run_id),
      (run: Loose) => run.status === "running",
      { what: "a busy thread" },
    );
    const cron = await ann.crons.createForThread(thread_id, "steps", {
      schedule: "0 12 * * *",
      input: { total: 1 },
      multitaskStrategy: strategy,
    });
    const isCron = `cron_id = '${cron.cron_id}'`;
    await database.query(`update ${schema}.crons set next_run_at = now() - interval '1 second' where ${isCron}`);
    const moved = async () => rowsOf("crons", `${isCron} and next_run_at > now()`);
    await eventually(moved, (rows) => rows.length === 1, { what: "the time of the cron" });
    await eventually(
      () => ann.runs.get(thread_id, run_id),
      (run: Loose) => run.status === status,
      { what: `${strategy}: ${status}` },
    );
    assert.equal((await rowsOf("runs", `metadata ->> 'cron_id' = '${cron.cron_id}'`)).length, fired);
    await ann.crons.delete(cron.cron_id);
    await ann.runs.cancel(thread_id, run_id, true, "rollback").catch(() => {});
  }
});

test("the stream of a run without a thread can be read after its end, by its user only", async () => {
  const run = await ann.runs.create(null, "steps", { input: { total: 1 }, streamMode: "values" });
  const gone = async () => rowsOf("runs", `run_id = '${run.run_id}'`);
  await eventually(gone, (rows) => rows.length === 0, { what: "the end of the run" });
  const eventsOf = async (user: string) => {
    const answer = await fetch(`${api.url}/runs/${run.run_id}/stream`, { headers: { authorization: user } });
    return [...(await answer.text()).matchAll(/^event: (.*)$/gm)].map(([, name]) => name);
  };
  assert.ok((await eventsOf("ann")).includes("values"), String(await eventsOf("ann")));
  assert.deepEqual(await eventsOf("bob"), ["error"]);
});

test("a run whose row is locked does not stop the renewal of other leases", async () => {
  const one = await startReplica("postgres", {
    connectionString,
    engine: { schema: "locked_row", leaseMs: 2_000 },
    server: { nWorkers: 2 },
  });
  after(() => void one.process.kill("SIGKILL"));
  const input = { total: 12, ms: 300 };
  const runs: Loose[] = [];
  for (let n = 0; n < 2; n += 1) {
    const { thread_id } = await one.client.threads.create();
    runs.push({ thread_id, ...(await one.client.runs.create(thread_id, "steps", { input })) });
  }
  const [locked, other] = runs;
  const running = async () =>
    (await database.query("select 1 from locked_row.runs where status = 'running'")).rowCount ?? 0;
  await eventually(running, (count) => count === 2, { what: "two running runs" });
  const lock = new pg.Client({ connectionString });
  await lock.connect();
  await lock.query("begin");
  await lock.query("select 1 from locked_row.runs where run_id = $1 for update", [locked.run_id]);
  await one.client.runs.join(other.thread_id, other.run_id);
  await lock.end();
  const { rows } = await database.query("select attempt, recovered, status from locked_row.runs where run_id = $1", [
    other.run_id,
  ]);
  assert.deepEqual(rows, [{ attempt: 1, recovered: 0, status: "success" }]);
});

test("a run ends with an error once replicas have lost it more often than the setting allows", async () => {
  const start = async (lossesMax: number, nWorkers: number) => {
    const replica = await startReplica("postgres", {
      connectionString,
      engine: { schema: "losses", lossesMax },
      server: { nWorkers },
    });
    after(() => void replica.process.kill("SIGKILL"));
    return replica.client;
  };
  const idle = await start(5, 0);
  const lost = async (times: number) => {
    const { thread_id } = await idle.threads.create();
    const { run_id } = await idle.runs.create(thread_id, "steps", { input: { total: 1 } });
    await database.query("update losses.runs set attempt = $2 where run_id = $1", [run_id, times]);
    return { thread_id, run_id };
  };
  const runs = [await lost(4), await lost(5)];
  const busy = await start(5, 2);
  const statuses = async () => Promise.all(runs.map(({ thread_id, run_id }) => busy.runs.get(thread_id, run_id)));
  const ended = await eventually(statuses, (all) => all.every(({ status }) => !/pending|running/.test(status)), {
    what: "the ends of both runs",
  });
  assert.deepEqual(
    ended.map(({ status }) => status),
    ["success", "error"],
  );
});

test("namespaces are listed by jumps through an index, and a thread search of a user uses one", async () => {
  const labels = ["a", "ab", "b"];
  for (const label of labels)
    for (const key of ["1", "2"]) await ann.store.putItem(["jumps", label, key], "k", { n: 1 });
  const { namespaces } = await ann.store.listNamespaces({ prefix: ["jumps"], maxDepth: 2 });
  assert.deepEqual(
    namespaces,
    labels.map((label) => ["jumps", label]),
  );
  await database.query("set enable_seqscan = off");
  const { rows } = await database.query(
    `explain select 1 from ${schema}.threads where search @> '{"owner":"ann"}' and coalesce(search -> 'owner', 'null') = '"ann"'`,
  );
  assert.match(JSON.stringify(rows), /threads_search_idx/);
});

test("a webhook is sent after the run, again after a failure, and holds no worker", async () => {
  const received: Loose[] = [];
  const receiver = createServer((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (text) => {
      body += text;
    });
    request.on("end", () => {
      received.push(JSON.parse(body));
      // The first delivery never gets an answer.
      if (received.length > 1) response.end();
    });
  }).listen(0, "127.0.0.1");
  await once(receiver, "listening");
  const webhook = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/`;
  const { thread_id } = await ann.threads.create();
  await ann.runs.wait(thread_id, "steps", { input: { total: 1 }, webhook });
  await eventually(
    () => received.length,
    (count) => count === 1,
    { what: "a delivery" },
  );
  await Promise.all([1, 2, 3].map(() => ann.runs.wait(null, "steps", { input: { total: 1 } })));
  await eventually(
    () => rowsOf("webhooks"),
    ([row]) => row?.attempt === 1,
    { what: "an attempt" },
  );
  await database.query(`update ${schema}.webhooks set due_at = now()`);
  await eventually(
    () => rowsOf("webhooks"),
    (rows) => rows.length === 0,
    { what: "a delivered webhook" },
  );
  assert.deepEqual([received.length, received[1].status, received[1].values.done], [2, "success", [1]]);
  receiver.closeAllConnections();
  receiver.close();
});

test("a search by namespace reads a range of an index, and the engine keeps to its connections", async () => {
  await ann.store.putItem(["notes", "a"], "k", { n: 1 });
  await database.query("set enable_seqscan = off");
  const plan = await database.query(
    `explain select * from ${schema}.items where path >= '"notes",' and path < '"notes"-'`,
  );
  assert.match(JSON.stringify(plan.rows), /Index Cond: \(\(path >=/);
  await Promise.all(Array.from({ length: 20 }, () => ann.runs.wait(null, "steps", { input: { total: 2 } })));
  const name = `langgraph-js-postgres ${schema}`;
  const { rows } = await database.query("select count(*) from pg_stat_activity where application_name like $1", [
    `${name}%`,
  ]);
  assert.ok(Number(rows[0].count) <= 2 * (engine.maxConnections + 1), `${rows[0].count} connections`);
});

test("deployments with schemas of their own share a database, and many replicas can start at once", async () => {
  const options = { connectionString, engine: { schema: "another_deployment" } };
  const started = await Promise.all([1, 2, 3].map(() => startReplica("postgres", options)));
  const [first] = started as [Loose];
  await first.client.runs.wait(null, "steps", { input: { total: 1 }, onCompletion: "keep" });
  assert.equal((await first.client.threads.search()).length, 1);
  // A later version has added to the schema: this one still starts.
  await database.query("insert into another_deployment.engine_migrations (version) values (1000)");
  const later = await startReplica("postgres", options);
  for (const replica of [...started, later]) replica.process.kill("SIGKILL");
});

test("a setting that is out of bounds is refused by its name", async () => {
  const bad = startReplica("postgres", { connectionString, engine: { schema: 'x"; drop' } });
  await assert.rejects(bad, /schema .* is invalid: use up to 63/);
});
