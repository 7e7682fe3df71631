import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readdir, readFile, readlink, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { findRegistryProgram, RegistryProcess } from "../../src/registry/registry-process.ts";
import { createLogger } from "../../src/telemetry/log.ts";

const program = findRegistryProgram();
const skip =
  program === null
    ? "docker-registry (Debian: apt-get install docker-registry)"
    : process.platform !== "linux" && "Linux, to see what a process listens on";

async function startRegistry(context: TestContext, below = "") {
  const root = await mkdtemp(path.join(tmpdir(), "pierhead-registry-"));
  // Only the registry's own directories keep others out.
  await chmod(root, 0o755);
  const directory = path.join(root, below);
  const own = new RegistryProcess({ directory, program: program as string, logger: createLogger("silent") });
  context.after(async () => {
    await own.stop();
    await rm(root, { recursive: true, force: true });
  });
  const socket = await own.socket();
  const { pid } = JSON.parse(await readFile(path.join(directory, "process.json"), "utf8")) as { pid: number };
  return { own, socket, pid };
}

test("the registry cannot be reached over the network of this machine", { skip }, async (context) => {
  const { pid } = await startRegistry(context);
  const fds = await readdir(`/proc/${pid}/fd`);
  const links = await Promise.all(fds.map((fd) => readlink(`/proc/${pid}/fd/${fd}`).catch(() => "")));
  const inodes = links.flatMap((link) => /^socket:\[(\d+)\]$/.exec(link)?.[1] ?? []);
  assert.ok(inodes.length > 0, "it listens on something");
  const tables = await Promise.all(["tcp", "tcp6"].map((name) => readFile(`/proc/${pid}/net/${name}`, "utf8")));
  const open = tables
    .flatMap((table) => table.split("\n"))
    .filter((line) => inodes.some((inode) => line.includes(` ${inode} `)));
  assert.deepEqual(open, []);
});

test("another user of this machine cannot reach the registry", {
  skip: skip || (process.getuid?.() !== 0 && "root, to become another user"),
}, async (context) => {
  for (const below of ["", "a-long-name-".repeat(10)]) {
    const { socket } = await startRegistry(context, below);
    assert.equal(await connect(socket, 0), "connected", "the server's own user");
    assert.equal(await connect(socket, 65_534), "EACCES", socket);
  }
});

test("nothing is left of a socket outside the data directory", { skip }, async (context) => {
  const { own, socket } = await startRegistry(context, "a-long-name-".repeat(10));
  assert.ok(Buffer.byteLength(socket) < 104, socket);
  await own.stop();
  await assert.rejects(readdir(path.dirname(socket)), { code: "ENOENT" });
});

/** Connects to a socket as another user. @returns "connected", or the code of the error */
async function connect(socket: string, uid: number): Promise<string> {
  const code = `require("net").connect(${JSON.stringify(socket)}).on("connect", function () { console.log("connected"); this.destroy(); }).on("error", (error) => console.log(error.code));`;
  const child = spawn(process.execPath, ["-e", code], {
    uid,
    gid: uid,
    cwd: "/",
    stdio: ["ignore", "pipe", "inherit"],
  });
  let said = "";
  child.stdout.on("data", (text) => {
    said += text;
  });
  await once(child, "close");
  return said.trim();
}
