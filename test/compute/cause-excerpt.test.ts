import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { Value } from "typebox/value";
import { explainExit } from "../../src/compute/exit-cause.ts";
import { causeWithLog } from "../../src/compute/kubernetes/watch/log-cause.ts";
import { Cause } from "../../src/contract/listeners/assignment.ts";

/** Names the directory of an artifact. */
const digest = "0a".repeat(32);

const site = "/data/cache/python/1d/lib/python3.11/site-packages";
const ofMain = "thread_name=MainThread logger=uvicorn.error langgraph_api_version=0.16.7";
/** A log of the LangGraph server for Python, which reports one exception several times among lines of its own. */
const serverLog = (error: string) => {
  const raised = [
    "Traceback (most recent call last):",
    `  File "${site}/langgraph_api/graph.py", line 672, in collect_graphs_from_env`,
    "    graph = await run_in_executor(None, _graph_from_spec, spec)",
    `  File "/data/artifacts/${digest}/src/agent.py", line 63, in <module>`,
    "    settings()",
    `  File "/data/artifacts/${digest}/src/settings.py", line 5, in settings`,
    "    raise ValueError(text)",
    ...error.split("\n"),
  ];
  return [
    "Worker stats max=10 active=0 thread_name=asyncio_0 logger=langgraph_api.metrics_collector",
    `Graph 'agent' failed to load: ${error} location=/data/artifacts/${digest}/src/agent.py`,
    `see docs user_traceback=${raised[0]}`,
    ...raised.slice(1),
    " action=fix_user_graph thread_name=asyncio_0 logger=langgraph_runtime_inmem.lifespan",
    ...raised,
    "The above exception was the direct cause of the following exception:",
    "Traceback (most recent call last):",
    `  File "${site}/langgraph_api/graph.py", line 674, in collect_graphs_from_env`,
    "    raise GraphLoadError(spec, exc) from exc",
    `langgraph_api.utils.errors.GraphLoadError: Failed to load graph 'agent' from /data/artifacts/${digest}/src/agent.py: ${error}`,
    ` ${ofMain}`,
    `Application startup failed. Exiting. ${ofMain}`,
    "error: pierhead: the agent server could not start: GraphLoadError: Failed to load graph 'agent'",
  ];
};

const failedStart = (lastLines: string[], unsetVariables: string[] = []) =>
  explainExit(
    {
      ...{ wasReady: false, exitCode: 1, signal: null, outOfMemoryKills: 0, memoryLimitMib: 64, verdict: undefined },
      ...{ lastLines, unsetVariables },
    },
    () => undefined,
  );

test("shows the exception of a graph with its file and line, without the lines and frames of the server", () => {
  const { message, lastLines } = failedStart(serverLog("ValueError: the model is unknown\nsee docs"));
  assert.equal(
    message,
    "The agent server ended with exit code 1 before it was ready. The graph 'agent' in src/agent.py cannot be loaded. ValueError: the model is unknown (src/settings.py, line 5)",
  );
  assert.deepEqual(lastLines, [
    "Traceback (most recent call last):",
    '  File "src/agent.py", line 63, in <module>',
    "    settings()",
    '  File "src/settings.py", line 5, in settings',
    "    raise ValueError(text)",
    "ValueError: the model is unknown",
    "see docs",
  ]);
});

test("shows the traceback of a missing variable, and none of Pierhead's own programs", () => {
  const { lastLines } = failedStart(serverLog("KeyError: 'FIRST_KEY'"));
  assert.equal(lastLines.at(-1), "KeyError: 'FIRST_KEY'");
  assert.ok(lastLines.includes('  File "src/settings.py", line 5, in settings'));
  const embeddings = failedStart([
    "Traceback (most recent call last):",
    `  File "${site}/openai/_client.py", line 587, in __init__`,
    "    raise OpenAIError(",
    "openai.OpenAIError: Missing credentials. Set the OPENAI_API_KEY environment variable",
    ` ${ofMain}`,
    "Traceback (most recent call last):",
    '  File "/opt/pierhead/langgraph-python-shim.py", line 248, in serve',
    '    raise RuntimeError("see the lines above")',
    "RuntimeError: see the lines above",
    "error: pierhead: the agent server could not start: RuntimeError: see the lines above",
  ]);
  assert.match(embeddings.lastLines.at(-1) ?? "", /^openai\.OpenAIError: Missing credentials/);
  assert.doesNotMatch(embeddings.lastLines.join("\n"), /shim|logger=/);
});

test("shows the stack of a graph in JavaScript without the lines of the server", () => {
  const { message, lastLines } = failedStart([
    "Registering graph with id 'agent' graph_id=agent",
    "Failed to load graph 'agent' from ./src/agent.ts: the model is unknown",
    "TypeError: the model is unknown",
    `    at settings (file:///data/artifacts/${digest}/src/agent.ts:82:9)`,
    "    at async Promise.all (index 0)",
    "    at async main (file:///srv/pierhead/dist/compute/process/langgraph/langgraph-js-shim.js:66:18)",
    "error: pierhead: the agent server could not start: Error: Failed to load graph 'agent'",
  ]);
  assert.match(message, /TypeError: the model is unknown \(src\/agent\.ts, line 82\)\.?$/);
  assert.equal(lastLines[0], "TypeError: the model is unknown");
  assert.doesNotMatch(lastLines.join("\n"), /shim|Registering|could not start/);
});

test("does not show the stack of a warning instead of an error that has no frame of the project", () => {
  const log = [
    "Warning: the option is old",
    "    at settings (/srv/src/settings.js:1:2)",
    "SyntaxError: Unexpected token",
    "    at compileSourceTextModule (node:internal/modules/esm/utils:357:16)",
  ];
  const { message, lastLines } = failedStart(log);
  assert.match(message, /SyntaxError: Unexpected token$/);
  assert.ok(lastLines.includes("SyntaxError: Unexpected token"), lastLines.join("\n"));
  const long = `Error: ${"the model is unknown ".repeat(30)}`;
  const ofLong = failedStart([...log.slice(0, 2), long, "    at settings (/srv/src/agent.js:3:2)", "Node.js v24.0.0"]);
  assert.deepEqual(ofLong.lastLines, [long, "    at settings (/srv/src/agent.js:3:2)"]);
});

test("does not show an exception that a program survived instead of its last error", () => {
  const log = [
    "Traceback (most recent call last):",
    '  File "/srv/telemetry.py", line 3, in connect',
    "ConnectionResetError: no telemetry",
    ...Array.from({ length: 12 }, (_, n) => `step ${n}`),
    "Error: the file of the settings is empty",
  ];
  const { message, lastLines } = failedStart(log);
  assert.match(message, /Error: the file of the settings is empty$/);
  assert.equal(lastLines.at(-1), "Error: the file of the settings is empty");
});

test("reads a log of hostile lines in time", () => {
  const lines = Array.from({ length: 200 }, () => `${"|".repeat(64_000)}Traceback`);
  assert.match(failedStart(lines).message, /ended with exit code 1/);
});

test("reads a stack of hostile frames without blocking the event loop", () => {
  const frames = Array.from({ length: 198 }, () => `    at ${"1:".repeat(490)}:1)`);
  const logs = [
    ["Error: no model", ...frames],
    ["Traceback (most recent call last):", ...frames, "ValueError: no model"],
  ];
  for (const log of logs) {
    const spentMs = Math.min(...[1, 2, 3].map(() => elapsedMs(() => failedStart(log))));
    assert.ok(spentMs < 100, `${Math.round(spentMs)} ms`);
  }
});

function elapsedMs(act: () => unknown): number {
  const before = process.cpuUsage();
  act();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

test("reports what the engine of an image lacks as a cause of its own", async () => {
  const programs = [
    [process.execPath, "langgraph-js-start.ts", "langgraph.json", "state", "toolchain", "engine"],
    ["python3", "langgraph-python-start.py", "launch.json", "shim.py", "state"],
  ] as const;
  const cwd = await mkdtemp(path.join(tmpdir(), "pierhead-image-"));
  after(() => rm(cwd, { recursive: true, force: true }));
  await writeFile(path.join(cwd, "launch.json"), JSON.stringify({ environment: {}, options: {}, engine: "aegra" }));
  for (const [program, file, ...argv] of programs) {
    const start = path.resolve("src/compute/docker/entrypoints", file);
    const env = { PATH: process.env["PATH"] };
    const { stderr } = spawnSync(program, [start, ...argv], { cwd, env, encoding: "utf8" });
    const { reason, message } = failedStart(stderr.split("\n"));
    assert.equal(reason, "EngineUnavailable", stderr);
    assert.match(message, /^The engine (?:aegra|postgres) needs a PostgreSQL, .* choose the engine (?:memory|file)\.$/);
  }
});

test("reports the other variables that the project names with the missing one, unless they are many", () => {
  const log = serverLog("KeyError: 'FIRST_KEY'");
  assert.deepEqual(failedStart(log, ["SECOND_KEY", "FIRST_KEY"]).variables, ["FIRST_KEY", "SECOND_KEY"]);
  const many = Array.from({ length: 9 }, (_, n) => `OPTION_${n}`);
  assert.deepEqual(failedStart(log, many).variables, ["FIRST_KEY"]);
  // A report with a longer name would be refused as a whole.
  assert.deepEqual(failedStart(log, [`LONG_${"X".repeat(300)}`]).variables, ["FIRST_KEY"]);
});

test("reports no more lines and variables than a report may have", () => {
  const statement = Array.from({ length: 60 }, (_, n) => `    part_${n},`);
  const log = [
    "Traceback (most recent call last):",
    '  File "/srv/agent.py", line 1, in <module>',
    ...statement,
    "ValueError: no model",
  ];
  const exited = { reason: "Exited", message: "It ended.", exit_code: 1, signal: null, last_lines: [] };
  const cause = causeWithLog(exited, log);
  assert.ok(Value.Check(Cause, cause), `${cause.last_lines.length} lines`);
  assert.equal(cause.last_lines.at(-1), "ValueError: no model");

  const settings = Array.from({ length: 10 }, (_, n) => [`setting_${n}`, "  Field required [type=missing]"]).flat();
  const { variables } = failedStart(["ValidationError: 10 validation errors for Settings", ...settings], ["OTHER_KEY"]);
  assert.equal(variables?.length, 10);
});

test("leaves out the lines that exception groups draw around their members", () => {
  const { lastLines } = failedStart([
    "  + Exception Group Traceback (most recent call last):",
    '  |   File "/srv/main.py", line 9, in main',
    "  |     async with TaskGroup() as tasks:",
    "  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
    "  +-+---------------- 1 ----------------",
    "    | Traceback (most recent call last):",
    '    |   File "/srv/main.py", line 4, in load',
    '    |     raise ValueError("no model")',
    "    | ValueError: no model",
    "    +------------------------------------",
  ]);
  assert.deepEqual(lastLines.slice(1), [
    '  File "/srv/main.py", line 4, in load',
    '    raise ValueError("no model")',
    "ValueError: no model",
  ]);
});
