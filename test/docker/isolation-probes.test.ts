import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { hostname } from "node:os";
import { after, before, describe, test } from "node:test";
import type { ReplicaState } from "../../src/compute/compute.ts";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { anySpec } from "../compute/conformance.ts";
import { buildAgentImage } from "./base-image.ts";
import { DockerWorld } from "./docker-world.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";
import { prober } from "./prober.ts";

const image = "pierhead-test/prober-inside:1";

/** A probe inside a container: the body of a function, and its expected answer (its value or the code of its error). */
type Probe = [what: string, code: string, answer: RegExp];

const denied = /^500 (EPERM|EACCES|EROFS|ENOENT)$/;
const nobodyThere =
  /^500 (ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|UND_ERR_\w+|TimeoutError.*|23)$/;
const ok = /^200 true$/;

const fs = 'const fs = require("node:fs");';
const write = (file: string, text: string) =>
  `${fs} fs.writeFileSync(${JSON.stringify(file)}, ${JSON.stringify(text)})`;
const absent = (...files: string[]) => `${fs} return !${JSON.stringify(files)}.some((file) => fs.existsSync(file))`;
const status = (line: string) => `${fs} return ${line}.test(fs.readFileSync("/proc/self/status", "utf8"))`;
const masked = (file: string) => `${fs} return !fs.existsSync("${file}") || fs.readFileSync("${file}", "utf8") === ""`;
const get = (url: string) =>
  `const answer = await fetch(${JSON.stringify(url)}, { signal: AbortSignal.timeout(2_000) }); return answer.status`;

const rights: Probe[] = [
  ...["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"].map(
    (set): Probe => [`${set} is empty`, status(`/^${set}:\\s+0+$/m`), ok],
  ),
  ["no new privileges", status("/^NoNewPrivs:\\s+1$/m"), ok],
  ["system calls are filtered", status("/^Seccomp:\\s+2$/m"), ok],
  ["another user cannot be become", "process.setuid(12_345)", denied],
  ["another group cannot be become", "process.setgid(12_345)", denied],
  ["groups cannot be changed", "process.setgroups([0, 4, 27])", denied],
  [
    "files cannot be given away",
    `${fs} fs.writeFileSync("/tmp/x", ""); fs.chownSync("/tmp/x", 12_345, 12_345)`,
    denied,
  ],
  ["priority cannot be raised", 'require("node:os").setPriority(-10)', /^500 (EPERM|EACCES|ERR_SYSTEM_ERROR)$/],
  ["the OOM killer cannot be made to spare the process", write("/proc/self/oom_score_adj", "-1000"), denied],
];

const host: Probe[] = [
  ["no socket of the engine", absent("/var/run/docker.sock", "/run/docker.sock"), ok],
  ["no socket of what is below the engine", absent("/run/containerd/containerd.sock", "/run/containerd"), ok],
  ["no disk and no memory of the host", absent("/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/mem", "/dev/kmsg"), ok],
  ["what the kernel does with core dumps cannot be changed", write("/proc/sys/kernel/core_pattern", "|/x"), denied],
  ["the kernel cannot be made to act", write("/proc/sysrq-trigger", "b"), denied],
  ["control groups cannot be changed", write("/sys/fs/cgroup/release_agent", "/x"), denied],
  ["other files of the kernel cannot be changed", write("/sys/kernel/uevent_helper", "/x"), denied],
  ["memory of the kernel cannot be read", masked("/proc/kcore"), ok],
  ["keys of the kernel cannot be read", masked("/proc/keys"), ok],
  ["firmware cannot be read", `${fs} return fs.readdirSync("/sys/firmware").length === 0`, ok],
  [
    "processes of the host are not seen",
    `${fs} return fs.readdirSync("/proc").filter((name) => /^\\d+$/.test(name)).length < 5`,
    ok,
  ],
  [
    "nothing of the host's files is mounted but its words about names",
    `${fs} const lines = fs.readFileSync("/proc/self/mountinfo", "utf8").trim().split("\\n").map((line) => line.split(" "));
     const isKnown = (target) => /^\\/etc\\/(hosts|hostname|resolv\\.conf)$|^\\/(proc|sys|dev)(\\/|$)|^\\/$|^\\/sbin\\/docker-init$/.test(target);
     return lines.every(([, , , , target]) => isKnown(target)) || lines.map(([, , , , target]) => target)`,
    ok,
  ],
  ["it has a name of its own", `return require("node:os").hostname() !== ${JSON.stringify(hostname())}`, ok],
  [
    "it has a network of its own",
    'return Object.keys(require("node:os").networkInterfaces()).every((name) => /^(lo|eth\\d)$/.test(name))',
    ok,
  ],
  [
    "nothing of the server's environment is there",
    "return !Object.keys(process.env).some((name) => /^(DATABASE_URL|DOCKER_HOST|PIERHEAD_(?!DRAIN)\\w+)$/.test(name))",
    ok,
  ],
];

const limits: Probe[] = [
  ["memory is limited", "return process.constrainedMemory() <= 512 * 1024 * 1024", ok],
  [
    "processes are limited",
    `const child = require("node:child_process").spawn(
       "/bin/sh", ["-c", "i=0; while [ $i -lt 1200 ]; do ( read x <&3 ) & i=$((i+1)); done"], { stdio: ["ignore", "ignore", "pipe", "pipe"] });
     let said = "";
     child.stderr.on("data", (text) => (said += text));
     await new Promise((resolve) => child.on("exit", resolve));
     child.stdio[3].destroy();
     return /fork/i.test(said) || said`,
    ok,
  ],
];

describe("docker: escape attempts inside a container", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  /** Listens like the control plane, its database and its registry: on the loopback of the host. */
  const onLoopback: Server = createServer((_, response) => response.end());
  before(async () => {
    ({ engine, end } = await engineForTests());
    await buildAgentImage(engine, image, prober);
    onLoopback.listen(0, "127.0.0.1");
    await once(onLoopback, "listening");
  });
  after(async () => {
    onLoopback.close();
    await end?.();
  });

  const spec = () => anySpec({ kind: "image", digest: image, uri: image, health_path: "/ok", rollout: "rolling" });
  const run = async ({ address }: ReplicaState, code: string) => {
    const answer = await fetch(`http://127.0.0.1:${address?.port}/run?of=${encodeURIComponent(code)}`);
    return `${answer.status} ${await answer.text()}`;
  };

  test("none of at least 25 escape attempts succeeds", async () => {
    await using world = await DockerWorld.open(engine);
    const [inside, stranger] = [spec(), spec()];
    const [state, theirs] = await Promise.all([world.start(inside), world.start(stranger)]);
    const [[, { IPAddress, Gateway, Aliases }] = ["", {}]] = Object.entries(
      (await world.inspect(stranger)).NetworkSettings.Networks as Record<string, Record<string, string | string[]>>,
    );
    const gateways = Object.values((await world.inspect(inside)).NetworkSettings.Networks as Record<string, object>);
    const { Gateway: own } = gateways[0] as { Gateway: string };
    const { port } = onLoopback.address() as AddressInfo;
    const network: Probe[] = [
      ["an agent of another workspace, by its address", get(`http://${IPAddress}:8000/ok`), nobodyThere],
      ["by its name", get(`http://${[Aliases ?? "none"].flat()[0]}:8000/ok`), nobodyThere],
      ["by its port on the host", get(`http://host.docker.internal:${theirs.address?.port}/ok`), nobodyThere],
      ["by that port on its own side of the host", get(`http://${Gateway}:${theirs.address?.port}/ok`), nobodyThere],
      [
        "a listener on the host's loopback: control plane, database, registry",
        get(`http://host.docker.internal:${port}/`),
        nobodyThere,
      ],
      ["the same through its own gateway", get(`http://${own}:${port}/`), nobodyThere],
      ["the same as its own loopback", get(`http://127.0.0.1:${port}/`), nobodyThere],
      ["the engine, in clear", get(`http://${own}:2375/_ping`), nobodyThere],
    ];
    assert.equal(await run(state, get("http://127.0.0.1:8000/ok")), "200 200", "an existing address is found");
    const probes = [...rights, ...host, ...network, ...limits];
    assert.ok(probes.length >= 25, String(probes.length));
    // A connection to others is retried, because the engine opens for a moment when it creates a network (isolation.test.ts).
    const tryOut = async ([what, code, wanted]: Probe) => {
      let answer = await run(state, code);
      for (let left = 20; left > 0 && wanted === nobodyThere && !wanted.test(answer); left -= 1) {
        answer = await run(state, code);
      }
      return [what, wanted, answer] as const;
    };
    const found = await Promise.all(probes.slice(0, -1).map(tryOut));
    const [last, code, wanted] = probes.at(-1) as Probe;
    found.push([last, wanted, await run(state, code)]);
    const open = found
      .filter(([, wanted, answer]) => !wanted.test(answer))
      .map(([what, , answer]) => `${what}: ${answer}`);
    assert.deepEqual(open, []);
  });
});
