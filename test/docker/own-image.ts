import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { copyFileSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { copyPrograms, importRoot } from "./base-image.ts";
import { composeSkipped } from "./compose/images.ts";
import { runCompose } from "./compose/run.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

/**
 * `npm run test:docker -- test/docker/own-image.ts`: builds `deploy/Dockerfile` as last committed, runs the image,
 * and runs it with `deploy/compose.yaml`.
 * Separate from the suite, because it installs all packages, which takes a minute and the npm registry of this machine.
 */

const base = "pierhead-test/base:24";
const image = "pierhead-test/pierhead:0";

/** What the Dockerfile expects of a base image that is not Debian: Node and npm, a shell, git, certificates. */
async function importBase(engine: Engine): Promise<void> {
  await importRoot(engine, base, (directory) => {
    const at = (file: string) => path.join(directory, file);
    const npm = execFileSync("which", ["npm"], { encoding: "utf8" }).trim();
    const npmDir = path.resolve(execFileSync("readlink", ["-f", npm], { encoding: "utf8" }).trim(), "../..");
    cpSync(npmDir, at("usr/local/lib/node_modules/npm"), { recursive: true });
    const programs = ["/usr/bin/env", "/bin/sh", "/usr/bin/install", "/usr/bin/git", "/bin/rm", "/usr/bin/id"];
    const [, libraries = "/lib"] = /(\/\S+)\/libc\.so\.6/.exec(readFileSync("/proc/self/maps", "utf8")) ?? [];
    copyPrograms(
      directory,
      { [process.execPath]: "/usr/local/bin/node", ...Object.fromEntries(programs.map((one) => [one, one])) },
      // The console's bundler links against it.
      [path.join(libraries, "librt.so.1")],
    );
    for (const name of ["npm", "npx"]) {
      writeFileSync(
        at(`usr/local/bin/${name}`),
        `#!/bin/sh\nexec node /usr/local/lib/node_modules/npm/bin/${name}-cli.js "$@"\n`,
        {
          mode: 0o755,
        },
      );
    }
    for (const file of ["/etc/ssl/certs/ca-certificates.crt", "/etc/nsswitch.conf"]) {
      mkdirSync(path.dirname(at(file)), { recursive: true });
      copyFileSync(file, at(file));
    }
    writeFileSync(at("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/tmp:/bin/sh\n");
    // Packages come from the registry of this machine, so the image needs the same certificate authorities.
    mkdirSync(at("usr/local/etc"), { recursive: true });
    writeFileSync(at("usr/local/etc/npmrc"), "cafile=/etc/ssl/certs/ca-certificates.crt\n");
    const npmrc = path.join(homedir(), ".npmrc");
    if (existsSync(npmrc)) copyFileSync(npmrc, at("root/.npmrc"));
  });
}

async function build(engine: Engine): Promise<void> {
  const archive = spawn("git", ["archive", "--format=tar", "HEAD"], { stdio: ["ignore", "pipe", "inherit"] });
  const query = {
    t: image,
    dockerfile: "deploy/Dockerfile",
    forcerm: true,
    networkmode: "host",
    buildargs: JSON.stringify({ NODE_IMAGE: base }),
  };
  let output = "";
  const progress = engine.values<{ error?: string; stream?: string }>("POST", "/build", {
    query,
    body: archive.stdout,
  });
  for await (const { error, stream = "" } of progress) {
    output = (output + stream).slice(-4_000);
    if (error !== undefined) assert.fail(`${error}\n${output}`);
  }
}

interface Inspected {
  State: { Running: boolean; ExitCode: number; Health?: { Status: string; Log: { Output: string }[] } };
}

let engine: Engine;
let end: () => Promise<void>;
before(async () => {
  if (dockerSkipped !== false) return;
  ({ engine, end } = await engineForTests());
  await importBase(engine);
  await build(engine);
});
after(async () => {
  await engine?.callUnless([404], "DELETE", `/images/${image}`, { query: { force: true } });
  await end?.();
});

test("the image of the Dockerfile serves as a non-root user on a read-only root, and has a health check", {
  skip: dockerSkipped,
}, async (t) => {
  const port = await freePort();
  let id: string | undefined;
  try {
    const { Config } = await engine.call<{ Config: { User: string; Volumes: object; Cmd: string[] } }>(
      "GET",
      `/images/${image}/json`,
    );
    assert.equal(Config.User, "1000:1000");
    const sizeOf = async (name: string) => (await engine.call<{ Size: number }>("GET", `/images/${name}/json`)).Size;
    const ownMegabytes = ((await sizeOf(image)) - (await sizeOf(base))) / 1e6;
    t.diagnostic(`Pierhead adds ${ownMegabytes.toFixed(0)} MB to its base image`);
    // Leaves 160 of 250 MB to Node, git and the system below them.
    assert.ok(ownMegabytes < 90, `${ownMegabytes} MB`);
    const made = await engine.call<{ Id: string }>("POST", "/containers/create", {
      body: {
        Image: image,
        Env: [
          `PORT=${port}`,
          "HOST=127.0.0.1",
          "PIERHEAD_COMPUTE=none",
          `PIERHEAD_ADMIN_KEY=${randomBytes(24).toString("hex")}`,
        ],
        HostConfig: {
          NetworkMode: "host",
          ReadonlyRootfs: true,
          CapDrop: ["ALL"],
          SecurityOpt: ["no-new-privileges"],
          Tmpfs: { "/tmp": "" },
        },
      },
    });
    id = made.Id;
    await engine.call("POST", `/containers/${id}/start`);
    const inspect = () => engine.call<Inspected>("GET", `/containers/${id}/json`);
    await eventually(
      () =>
        fetch(`http://127.0.0.1:${port}/ok`).then(
          ({ status }) => status,
          () => 0,
        ),
      (status) => status === 200,
      { timeoutMs: 120_000, what: "/ok" },
    );
    const { Titles, Processes } = await engine.call<{ Titles: string[]; Processes: string[][] }>(
      "GET",
      `/containers/${id}/top`,
      { query: { ps_args: "-eo pid,uid,args" } },
    );
    const uid = Titles.indexOf("UID");
    assert.ok(Processes.length > 0 && Processes.every((row) => row[uid] === "1000"), JSON.stringify(Processes));
    const { State } = await eventually(
      inspect,
      (seen) => seen.State.Health?.Status === "healthy" || !seen.State.Running,
      {
        timeoutMs: 120_000,
        what: "healthy",
      },
    );
    assert.ok(State.Running);
    await engine.call("POST", `/containers/${id}/stop`, { query: { t: 20 }, timeoutMs: 40_000 });
    assert.equal((await inspect()).State.ExitCode, 0, "it stops on request without being killed");
  } finally {
    if (id !== undefined) await engine.call("DELETE", `/containers/${id}`, { query: { force: true, v: true } });
  }
});

test(
  "compose.yaml starts Pierhead with TLS and a registry, keeps agents during an update, and is restored from a backup",
  {
    skip: dockerSkipped || composeSkipped,
  },
  () => runCompose(engine, image),
);
