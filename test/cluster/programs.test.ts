import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { PassThrough } from "node:stream";
import { after, before, test } from "node:test";
import { type RunOptions, runCli, typing } from "../cli/run-cli.ts";
import { grant } from "../kubeplane/harness.ts";
import { type Plane, startPlane } from "../kubeplane/plane.ts";
import { type ListenerProgram, startListenerProgram } from "../server/listener-program.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { agentProgram } from "./agent.ts";
import { pushAgent } from "./images.ts";
import { type RealNode, startRealNode } from "./real-node.ts";

let plane: Plane;
let node: RealNode;
let pierhead: TestServer;
let listener: ListenerProgram;
let directory: string;
let namespace: string;

before(async () => {
  const program = process.env["PIERHEAD_TEST_KUBEPLANE"];
  if (program === undefined) throw new Error("run this by `npm run test:cluster`");
  plane = await startPlane(program);
  node = await startRealNode(plane, program);
  const programs = ["/usr/bin/env", "/bin/sh", "/usr/bin/cat", "/usr/bin/sleep", "/usr/bin/stty"];
  const image_uri = await pushAgent(node.images, "agent:1", agentProgram("one"), programs);
  directory = await mkdtemp(path.join(tmpdir(), "pierhead-listener-"));
  pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none", PIERHEAD_ADMIN_KEY: randomBytes(24).toString("hex") });
  namespace = await plane.newNamespace();
  await grant(plane, namespace);
  const { listener_key, id: listener_id } = await pierhead.client.createListener({
    body: { compute_type: "k8s", compute_id: "cluster", compute_config: { k8s_namespaces: [namespace] } },
  });
  listener = await startListenerProgram({
    ...{ PIERHEAD_URL: pierhead.url, PIERHEAD_LISTENER_KEY: listener_key, PIERHEAD_COMPUTE: "kubernetes" },
    PIERHEAD_KUBERNETES_URL: plane.address("listener").url,
    PIERHEAD_KUBERNETES_CA_FILE: plane.caFile,
    PIERHEAD_KUBERNETES_TOKEN_FILE: plane.tokenFile("listener"),
    PIERHEAD_KUBERNETES_NAMESPACES: namespace,
    PIERHEAD_DATA_DIR: directory,
  });
  const made = await pierhead.client.createDeployment({
    body: {
      name: "bot",
      source: "external_docker",
      source_config: { listener_id },
      source_revision_config: { image_uri },
      secrets: [
        { name: "GREETING", value: "good morning" },
        { name: "POSTGRES_URI_CUSTOM", value: "postgresql://127.0.0.1:1/x" },
        { name: "REDIS_URI_CUSTOM", value: "redis://127.0.0.1:1" },
      ],
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id ?? "" };
  const revision = await pierhead.client.waitForRevision(ids);
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
});

after(async () => {
  await listener?.stop();
  await pierhead?.[Symbol.asyncDispose]();
  await node?.[Symbol.asyncDispose]();
  await plane?.[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const run = (argv: string[], options: RunOptions = {}) =>
  runCli(argv, {
    ...options,
    env: { PIERHEAD_URL: pierhead.url, PIERHEAD_API_KEY: pierhead.apiKey, PIERHEAD_DATA_DIR: "" },
  });

test("says how to allow programs in a cluster whose listener may not run them", async () => {
  const ran = await run(["exec", "bot", "--", "env"]);
  assert.deepEqual([ran.code, /`programs: true` among the values/.test(ran.stderr)], [1, true], ran.stderr);
});

test("runs programs in a pod with its variables, input, terminal and exit code, and ends them with their caller", async () => {
  await grant(plane, namespace, "program-rules.json");
  const script = "echo $GREETING; cat; echo problem >&2; exit 7";
  const ran = await run(["exec", "bot", "--", "sh", "-c", script], { stdin: "typed" });
  assert.deepEqual([ran.code, ran.stdout, ran.stderr], [7, "good morning\ntyped", "problem\n"]);
  const missing = await run(["exec", "bot", "--", "no-such-program"]);
  assert.equal(missing.code, 127, missing.stderr);

  const input = "0123456789abcdef\n".repeat(100_000);
  const large = await run(["exec", "bot", "--", "cat"], { stdin: input });
  assert.ok(large.stdout === input, `${large.stdout.length} of ${input.length} characters: ${large.stderr}`);

  const shell = await run(["shell", "bot"], typing("stty size; exit 3"));
  assert.deepEqual([shell.code, /\n24 93\r\n/.test(shell.stdout)], [3, true], shell.stdout);

  const left = new AbortController();
  let pid = 0;
  const endless = run(["exec", "bot", "--", "sh", "-c", "sleep 1000 & echo $!; wait"], {
    stdin: new PassThrough(),
    signal: left.signal,
    onStdout(text) {
      pid = Number(text);
      left.abort();
    },
  });
  assert.equal((await endless).code, 2);
  await eventually(
    async () => (await run(["exec", "bot", "--", "sh", "-c", `test -d /proc/${pid}`])).code,
    (code) => code === 1,
    { timeoutMs: 60_000, what: "the end of the program" },
  );
});

test("port-forward reaches an agent that only the cluster can reach", async () => {
  const ended = new AbortController();
  const { promise: printed, resolve } = Promise.withResolvers<string>();
  const ran = run(["port-forward", "bot"], { signal: ended.signal, onStdout: (text) => resolve(text.trim()) });
  try {
    const url = await Promise.race([printed, ran.then(({ stderr }) => assert.fail(stderr))]);
    assert.equal(await (await fetch(`${url}/ok`)).text(), "one");
    const bodies = await Promise.all(Array.from({ length: 20 }, async () => (await fetch(`${url}/ok`)).text()));
    assert.deepEqual(new Set(bodies), new Set(["one"]));
  } finally {
    ended.abort();
  }
  assert.equal((await ran).code, 0);
});
