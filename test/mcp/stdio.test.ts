import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, test } from "node:test";
import { Client, ReadBuffer, serializeMessage, type Transport } from "@modelcontextprotocol/client";
import { createDirectory } from "../cli/run-cli.ts";
import { type PackedServer, startPackedServer, userEnv } from "../ship/packed.ts";
import { nodeAgent } from "../support/agent-repository.ts";

/** The packed server, whose replicas are simulated, driven by the official client through `pierhead mcp`. */
let server: PackedServer;
before(async () => {
  server = await startPackedServer({ PIERHEAD_COMPUTE: "simulated" });
});
after(() => server[Symbol.asyncDispose]());

/** Runs `pierhead mcp` of the packed program and connects a client to its streams. */
async function connect(cwd: string, ...flags: string[]) {
  const buffer = new ReadBuffer();
  const argv = [server.program, "mcp", ...flags, "--data-dir", server.dataDir];
  const ran = spawn(process.execPath, argv, { cwd, env: userEnv, stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(ran, "close");
  const transport: Transport = {
    start: async () => {},
    send: async (message) => void ran.stdin.write(serializeMessage(message)),
    close: async () => void ran.stdin.end(),
  };
  ran.stdout.on("data", (chunk: Buffer) => {
    buffer.append(chunk);
    for (let message = buffer.readMessage(); message !== null; message = buffer.readMessage())
      transport.onmessage?.(message);
  });
  const client = new Client({ name: "test", version: "1.0.0" });
  await client.connect(transport);
  const call = async (name: string, args: Record<string, unknown> = {}) => {
    const { content, isError } = await client.callTool({ name, arguments: args });
    const [{ text }] = content as unknown as [{ text: string }];
    // biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
    return { isError: isError === true, text, value: isError ? null : (JSON.parse(text) as any) };
  };
  const end = async () => {
    await client.close();
    assert.deepEqual(await ended, [0, null]);
  };
  return { client, call, end };
}

const broken = {
  ...nodeAgent("one"),
  "pierhead.json": JSON.stringify({
    build: [["node", "-e", "console.error('no compiler here'); process.exit(3)"]],
    start: ["node", "server.js"],
  }),
};

test("a client deploys a directory, reads why it failed, repairs it, and deletes it after a confirmation", async () => {
  await using source = await createDirectory(broken);
  const { call, end } = await connect(source.directory);
  const deployed = await call("deploy", { directory: ".", name: "shop" });
  assert.equal(deployed.isError, false, deployed.text);
  const failed = (await call("wait_for_deployment", { deployment: "shop" })).value;
  assert.deepEqual([failed.finished, failed.succeeded, failed.revision.status], [true, false, "BUILD_FAILED"]);
  assert.match(failed.build_log.join("\n"), /no compiler here/);
  assert.match((await call("read_logs", { deployment: "shop", kind: "build" })).text, /no compiler here/);
  assert.match((await call("why", { deployment: "shop" })).text, /BuildFailed|exit code 3/);

  await writeFile(path.join(source.directory, "pierhead.json"), nodeAgent("one")["pierhead.json"] ?? "");
  assert.equal((await call("deploy", { directory: ".", name: "shop" })).isError, false);
  const repaired = (await call("wait_for_deployment", { deployment: "shop" })).value;
  assert.equal(repaired.succeeded, true);
  assert.equal((await call("deployment_status", { deployment: "shop" })).value.revisions.length, 2);

  const set = await call("set_variables", { deployment: "shop", variables: { TOKEN: "hunter2" } });
  assert.deepEqual(set.value.variables, ["TOKEN"]);
  await call("wait_for_deployment", { deployment: "shop" });
  assert.doesNotMatch((await call("list_variables", { deployment: "shop" })).text, /hunter2/);

  const unconfirmed = await call("rollback", { deployment: "shop" });
  const asked = /Ask the user.*"removed":\["TOKEN"\].*(\{"revision_id":"(.*)","confirm":"shop"\})/.exec(
    unconfirmed.text,
  );
  assert.ok(asked, unconfirmed.text);
  // The agreement is for one revision: another deploy in between must not change which one it is.
  assert.match((await call("rollback", { deployment: "shop", confirm: "shop" })).text, /revision_id/);
  const agreed = { deployment: "shop", revision_id: asked[2], confirm: "shop" };
  assert.equal((await call("rollback", agreed)).isError, false);
  assert.equal((await call("wait_for_deployment", { deployment: "shop" })).value.succeeded, true);
  assert.deepEqual((await call("list_variables", { deployment: "shop" })).value.variables, []);
  assert.equal((await call("delete_deployment", { deployment: "shop", confirm: "yes" })).isError, true);
  assert.equal((await call("delete_deployment", { deployment: "shop", confirm: "shop" })).isError, false);
  await end();
});

test("refuses a project that needs files above the working directory", async () => {
  const manifest = (name: string, more = {}) => JSON.stringify({ name, version: "1.0.0", ...more });
  await using monorepo = await createDirectory({
    "package.json": manifest("root", { private: true, workspaces: ["agents/*"] }),
    "agents/one/package.json": manifest("one", { scripts: { start: "node server.js" } }),
    "agents/one/server.js": "",
  });
  const inside = await connect(path.join(monorepo.directory, "agents/one"));
  assert.match((await inside.call("deploy", { directory: ".", name: "one" })).text, /needs files of .*, above/);
  await inside.end();
});

test("refuses directories outside of the working directory, unknown arguments, and every change in read-only mode", async () => {
  await using source = await createDirectory(nodeAgent("one"));
  const { call, end } = await connect(path.join(source.directory));
  assert.match((await call("deploy", { directory: ".." })).text, /Only directories below/);
  assert.match((await call("deploy", { directory: "/etc" })).text, /Only directories below/);
  assert.match((await call("deploy", { name: "x" })).text, /exactly one of/);
  assert.match((await call("deployment_status", { deployment: "nothing" })).text, /There is no deployment "nothing"/);
  await end();

  const reading = await connect(source.directory, "--read-only");
  const { tools } = await reading.client.listTools();
  assert.ok(tools.length >= 6);
  assert.ok(tools.every(({ annotations }) => annotations?.readOnlyHint === true));
  await assert.rejects(reading.call("deploy", { directory: "." }), /deploy/);
  await reading.end();
});
