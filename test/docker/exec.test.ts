import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { after, before, describe, test } from "node:test";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { type RunOptions, runCli } from "../cli/run-cli.ts";
import { makeWorkspace } from "../security/two-workspaces.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";
import { buildAgentImage } from "./base-image.ts";
import { DockerWorld } from "./docker-world.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

const image = "pierhead-test/exec:1";
const agent = `
import { createServer } from "node:http";
createServer((_, response) => response.end("ok")).listen(Number(process.env.PORT), process.env.HOST);
process.on("SIGTERM", () => process.exit(0));
`;
/** Ignores everything that a terminal or a pipe says, and starts another program that does. */
const stubborn = `
  for (const signal of ["SIGINT", "SIGHUP", "SIGTERM"]) process.on(signal, () => {});
  require("node:child_process").spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)", "left-child"], { detached: true, stdio: "inherit" });
  setInterval(() => {}, 1000);
  console.log("started");`;

describe("docker: programs beside agents", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  before(async () => {
    ({ engine, end } = await engineForTests());
    await buildAgentImage(engine, image, agent);
  });
  after(() => end?.());

  const programsIn = async (container: string) => {
    const { Processes } = await engine.call<{ Processes: string[][] }>("GET", `/containers/${container}/top`);
    return Processes.map((columns) => columns.at(-1) as string);
  };

  test("exec runs in the container with input, variables and exit code, ends with its caller, and not for strangers", async () => {
    await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "docker", DOCKER_HOST: engine.host });
    const run = (argv: string[], options: RunOptions = {}, key = pierhead.apiKey) =>
      runCli(argv, { ...options, env: { PIERHEAD_URL: pierhead.url, PIERHEAD_API_KEY: key, PIERHEAD_DATA_DIR: "" } });
    const { id, latest_revision_id } = await pierhead.client.createDeployment({
      body: {
        name: "bot",
        source: "external_docker",
        source_config: { resource_spec: { cpu: 0.5, memory_mb: 256, memory_limit_mb: 256 } },
        source_revision_config: { image_uri: image },
        secrets: [{ name: "GREETING", value: "good morning" }],
      },
    });
    const ids = { deployment_id: id, revision_id: latest_revision_id as string };
    const revision = await pierhead.client.waitForRevision(ids);
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");

    const program = 'read line; echo "$GREETING, $line"; echo problem >&2; exit 7';
    const ran = await run(["exec", "bot", "--", "sh", "-c", program], { stdin: "typed\n" });
    assert.deepEqual([ran.code, ran.stdout, ran.stderr], [7, "good morning, typed\n", "problem\n"]);
    const input = "0123456789abcdef\n".repeat(100_000);
    const cat = "process.stdin.pipe(process.stdout)";
    const copied = await run(["exec", "bot", "--", "node", "-e", cat], { stdin: input });
    assert.ok(copied.code === 0 && copied.stdout === input, `${copied.stdout.length} of ${input.length}`);
    const missing = await run(["exec", "bot", "--", "no-such-program"]);
    assert.ok(missing.code !== 0, JSON.stringify(missing));
    assert.match(missing.stdout + missing.stderr, /no-such-program/);

    const [container] = await engine.call<{ Id: string }[]>("GET", "/containers/json", {
      query: { filters: { label: [`pierhead.dev/deployment=${id}`] } },
    });
    const cancelled = new AbortController();
    const left = run(["exec", "bot", "--", "node", "-e", stubborn, "left-parent"], {
      stdin: new PassThrough(),
      signal: cancelled.signal,
      onStdout: () => cancelled.abort(),
    });
    assert.equal((await left).code, 2);
    await eventually(
      () => programsIn(container?.Id as string),
      (programs) => programs.length === 1 || !programs.some((one) => one.includes("left-")),
    );

    const stranger = await makeWorkspace(pierhead);
    const refused = await run(["exec", id, "--", "env"], {}, stranger.apiKey);
    assert.equal(refused.code, 1, refused.stderr);
    assert.equal(refused.stdout, "");
  });

  test("a terminal has the size that was asked for, and follows it", async () => {
    await using world = await DockerWorld.open(engine);
    const wanted = await world.agent("healthy");
    await world.start(wanted);
    const program = `
      setInterval(() => {}, 1000);
      const show = () => {
        console.log(process.stdout.getWindowSize().join("x"));
        if (process.stdout.columns === 120) process.exit(3);
      };
      process.stdout.on("resize", show);
      show();`;
    const session = await world.compute.openExec(wanted.replicaId, {
      argv: ["node", "-e", program],
      terminal: { columns: 90, rows: 30 },
    });
    let shown = "";
    for await (const chunk of session.output) {
      const hadSize = shown.includes("90x30");
      shown += (chunk as Buffer).toString();
      // An old engine sets the size after the start.
      if (!hadSize && shown.includes("90x30")) void session.resize({ columns: 120, rows: 40 });
    }
    assert.match(shown, /90x30\r\n120x40\r\n$/);
    assert.equal(await session.ended, 3);
    const shell = await world.compute.openExec(wanted.replicaId, {
      argv: ["sh"],
      terminal: { columns: 80, rows: 24 },
    });
    await session.kill();
    await shell.kill();
    assert.equal(await shell.ended, 137);
  });
});
