import assert from "node:assert/strict";
import { once } from "node:events";
import { readFile, writeFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import type { ReplicaSpec } from "../../../src/compute/compute.ts";
import { findCgroups } from "../../../src/compute/process/system/cgroup.ts";
import { eventually } from "../../support/eventually.ts";
import { commandArtifact, writeAgent } from "../agents.ts";
import { soon } from "../compute-world.ts";
import { ask, ProcessWorld } from "./process-world.ts";

const cgroups = await findCgroups(`pierhead-test-${process.pid}`);
const limitsMemory = "directory" in cgroups.memory;

describe("process compute: failures", () => {
  let world: ProcessWorld;
  before(async () => {
    world = await ProcessWorld.open();
  });
  after(() => world?.[Symbol.asyncDispose]());

  const exitOf = async (spec: ReplicaSpec) => {
    await world.compute.ensure(spec, soon());
    const exit = await world.exits(spec);
    await world.remove(spec);
    return exit;
  };

  test("a server that exits with code 0 before it was ready has failed", async () => {
    const exit = await exitOf(await world.agent("endsAtOnce"));
    assert.equal(exit.reason, "Exited");
    assert.equal(exit.exitCode, 0);
    assert.deepEqual(exit.lastLines, ["nothing to do"]);
    assert.match(exit.message, /ended without an error before it was ready/);
  });

  test("a server that answers its health check with 503 is not ready", async () => {
    const exit = await exitOf(await world.agent("sick", { startTimeoutMs: 1_500 }));
    assert.equal(exit.reason, "NotHealthy");
    assert.match(exit.message, /\/ok within 1.5 s/);
  });

  test("a program that does not exist is a StartError with its name", async () => {
    const directory = path.join(world.root, "no-program");
    await writeAgent(directory, "");
    const exit = await exitOf(world.spec(commandArtifact(directory, ["no-such-program", "--serve"])));
    assert.equal(exit.reason, "StartError");
    assert.match(exit.message, /no-such-program: no such program in PATH/);
  });

  test("a program that the kernel refuses is a StartError with the reason", async () => {
    for (const [text, why] of [
      ["echo no first line", /neither a program for this machine nor a script/],
      ["#!/no/such/interpreter", /interpreter in its first line does not exist/],
    ] as const) {
      const directory = path.join(world.root, "refused");
      await writeAgent(directory, "");
      await writeFile(path.join(directory, "serve"), text, { mode: 0o755 });
      const exit = await exitOf(world.spec(commandArtifact(directory, ["./serve"])));
      assert.equal(exit.reason, "StartError", JSON.stringify(exit));
      assert.match(exit.message, why);
      assert.equal(exit.lastLines.length, 1);
    }
  });

  test("an invalid environment is a StartError that contains no value, and prepare reports it before", async () => {
    const value = "hush-hush";
    for (const env of [{ TOKEN: `${value}\0` }, { TOKEN: value.repeat(20_000) }, { "TO=KEN": value }]) {
      const spec = await world.agent("healthy", { env });
      const exit = await exitOf(spec);
      assert.equal(exit.reason, "StartError");
      assert.match(exit.message, /TO=?KEN/);
      assert.ok(!exit.message.includes(value));
      await assert.rejects(world.compute.prepare(spec, soon()), { message: exit.message });
    }
    await world.compute.prepare(await world.agent("healthy"), soon());
  });

  test("an image, and a directory that no longer exists, are StartErrors", async () => {
    const gone = await exitOf(world.spec(commandArtifact(path.join(world.root, "gone"), ["node"])));
    assert.equal(gone.reason, "StartError");
    const image = { kind: "image", digest: "sha256:0", uri: "example/agent", health_path: "/ok", rollout: "rolling" };
    const refused = await exitOf(world.spec(image as ReplicaSpec["artifact"]));
    assert.equal(refused.reason, "StartError");
    assert.match(refused.message, /cannot run images/);
  });

  test("the reported limits are the enforced limits", async () => {
    const spec = await world.agent("healthy", { memoryLimitMib: 300, cpuLimitCores: 0.5 });
    const { limits } = await world.start(spec);
    const { cgroups: directories } = JSON.parse(
      await readFile(path.join(world.directoryOf(spec), "replica.json"), "utf8"),
    );
    for (const name of ["memory", "cpu"] as const) {
      const home = cgroups[name];
      if ("because" in home) {
        assert.match(limits[name], /^not enforced: /);
        continue;
      }
      assert.equal(limits[name], "enforced");
      const directory = directories.find((found: string) => found.startsWith(home.directory));
      const files = {
        memory: { 1: "memory.limit_in_bytes", 2: "memory.max" },
        cpu: { 1: "cpu.cfs_quota_us", 2: "cpu.max" },
      };
      const value = await readFile(path.join(directory, files[name][home.version]), "utf8");
      assert.equal(Number.parseInt(value, 10), name === "memory" ? 300 * 1024 * 1024 : 50_000);
      const { pid } = JSON.parse((await ask((await world.stateOf(spec)) ?? assert.fail(), "/env")) ?? "");
      assert.ok((await readFile(path.join(directory, "cgroup.procs"), "utf8")).split("\n").includes(String(pid)));
    }
    await world.remove(spec);
    for (const directory of directories) await assert.rejects(readFile(path.join(directory, "cgroup.procs")));
  });

  test("a replica over its memory limit exits as OutOfMemory", {
    skip: !limitsMemory && "no writable memory cgroup",
  }, async () => {
    const spec = await world.agent("healthy", { memoryLimitMib: 160 });
    await ask(await world.start(spec), "/grow");
    const exit = await world.exits(spec);
    assert.equal(exit.reason, "OutOfMemory");
    assert.match(exit.message, /160 MiB/);
    await world.remove(spec);
  });

  test("a JavaScript heap at its limit exits as OutOfMemory, with or without cgroups", async () => {
    const directory = path.join(world.root, "heap");
    await writeAgent(directory, "const held = []; for (;;) held.push(new Array(1000).fill(held.length));");
    const argv = [process.execPath, "--max-old-space-size=32", "agent.mjs"];
    const exit = await exitOf(world.spec(commandArtifact(directory, argv), { memoryLimitMib: 1_024 }));
    assert.equal(exit.reason, "OutOfMemory");
    assert.equal(exit.signal, "SIGABRT");
  });

  test("a health answer of another process on the port never makes a replica ready", async () => {
    const { spec, portOf } = await latecomer(world, "silent");
    await world.compute.ensure(spec, soon());
    const foreign = [await takePort(await portOf(1)), await takePort(await portOf(2))];
    const exit = await world.exits(spec);
    assert.equal(exit.reason, "PortTaken");
    for (const server of foreign) server.close();
    await world.remove(spec);
  });

  test("a server that ignores PORT is ready on its own port, but never on one where another program answers", async () => {
    const foreign = createServer((_, response) => response.end("foreign")).listen(0, "127.0.0.1");
    await once(foreign, "listening");
    const { port } = foreign.address() as AddressInfo;
    const artifact = await writeAgent(
      path.join(world.root, "own-port"),
      `
      import { createServer } from "node:http";
      import inspector from "node:inspector";
      createServer((_, response) => response.end("hidden")).on("error", () => {}).listen({ port: ${port}, host: "::", ipv6Only: true });
      createServer((_, response) => response.writeHead(405).end("own")).listen(0, "127.0.0.1");
      inspector.open(0);
      `,
    );
    const spec = world.spec({ ...artifact, health_path: "" }, { startTimeoutMs: 10_000 });
    await world.compute.ensure(spec, soon());
    const { address } = await world.reaches(spec, "ready");
    assert.ok(address);
    assert.notEqual(address.port, port);
    assert.equal(await (await fetch(`http://127.0.0.1:${address.port}/`)).text(), "own");
    foreign.close();
    await world.remove(spec);
  });

  test("an exclusive server that ignores PORT becomes ready long before a tenth of its start timeout", async () => {
    const artifact = await writeAgent(
      path.join(world.root, "own-port-only"),
      `
      import { createServer } from "node:http";
      createServer((_, response) => response.end("own")).listen(0, "127.0.0.1");
      `,
    );
    const startTimeoutMs = 3_600_000;
    const spec = world.spec({ ...artifact, health_path: "", rollout: "handover" }, { startTimeoutMs });
    await world.compute.ensure(spec, soon());
    const { address } = await world.reaches(spec, "ready");
    assert.equal(await (await fetch(`http://127.0.0.1:${address?.port}/`)).text(), "own");
    await world.remove(spec);
  });

  test("a replica whose port was taken starts once more, on another port", async () => {
    const { spec, portOf, letListen } = await latecomer(world, "ending");
    await world.compute.ensure(spec, soon());
    // The other process does not answer, so only the exit of the replica shows that its port is taken.
    const foreign = await takePort(await portOf(1), () => {});
    await letListen(1);
    await letListen(2);
    const state = await world.reaches(spec, "ready");
    assert.equal(state.address?.port, await portOf(2));
    foreign.close();
    await world.remove(spec);
  });
});

/** An agent that writes the port of each try to `port-<try>`, listens once `go-<try>` exists, and exits if it cannot. */
async function latecomer(world: ProcessWorld, name: string) {
  const directory = path.join(world.root, name);
  const artifact = await writeAgent(
    directory,
    `
    import { existsSync, renameSync, writeFileSync } from "node:fs";
    import { createServer } from "node:http";
    const attempt = existsSync("port-1") ? 2 : 1;
    writeFileSync("draft", process.env.PORT);
    renameSync("draft", "port-" + attempt);
    const timer = setInterval(() => {
      if (!existsSync("go-" + attempt)) return;
      clearInterval(timer);
      createServer((_, response) => response.end("ok")).listen(Number(process.env.PORT), "127.0.0.1");
    }, 20);
    `,
  );
  const portOf = async (attempt: number) => {
    const read = () => readFile(path.join(directory, `port-${attempt}`), "utf8").catch(() => "");
    return Number(await eventually(read, (text) => text !== ""));
  };
  const letListen = (attempt: number) => writeFile(path.join(directory, `go-${attempt}`), "");
  return { spec: world.spec(artifact), portOf, letListen };
}

async function takePort(port: number, answer: RequestListener = (_, response) => void response.end('{"ok":true}')) {
  const server = createServer(answer).listen(port, "127.0.0.1");
  await once(server, "listening");
  return server;
}
