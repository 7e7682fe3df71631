import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { parseAllDocuments } from "yaml";
import { findRegistryProgram } from "../../src/registry/registry-process.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";

const run = promisify(execFile);
const mediaType = "application/vnd.oci.image.manifest.v1+json";
const digestOf = (content: string) => `sha256:${createHash("sha256").update(content).digest("hex")}`;

let registry: Awaited<ReturnType<typeof startChartRegistry>>;
before(async () => {
  registry = await startChartRegistry();
});
after(() => registry?.[Symbol.asyncDispose]());

test("the program of builds pushes through one port, and nodes pull the image through the other one", async () => {
  const { image, manifest } = await registry.push("one");
  assert.equal(image, `${registry.push5000}/agents@${digestOf(manifest)}`);
  const pulled = await registry.call("pull", `manifests/${digestOf(manifest)}`, { headers: { accept: mediaType } });
  assert.deepEqual([pulled.status, await pulled.text()], [200, manifest]);
  const layer = await registry.call("pull", `blobs/${digestOf("layer of one")}`);
  assert.deepEqual([layer.status, await layer.text()], [200, "layer of one"]);
});

test("each port asks for its own password, and the one of nodes cannot push", async () => {
  const { manifest } = await registry.push("two");
  const name = `manifests/${digestOf(manifest)}`;
  for (const port of ["push", "pull"] as const) {
    assert.equal((await registry.call(port, name, {}, null)).status, 401);
    const other = port === "push" ? "pull" : "push";
    assert.equal((await registry.call(port, name, {}, other)).status, 401, `${port} with the password for ${other}`);
  }
  assert.equal((await registry.call("pull", name)).status, 200);
});

test("the port of nodes refuses pushes and deletion, also with the right password", async () => {
  const { manifest } = await registry.push("three");
  const headers = { "content-type": mediaType };
  const refused = [
    await registry.call("pull", "blobs/uploads/", { method: "POST" }),
    await registry.call("pull", "manifests/other", { method: "PUT", headers, body: manifest }),
    await registry.call("pull", `manifests/${digestOf(manifest)}`, { method: "DELETE" }),
  ];
  assert.deepEqual(
    refused.map(({ status }) => status),
    [405, 405, 405],
  );
  assert.equal((await registry.call("pull", "manifests/other")).status, 404);
  assert.equal((await registry.call("pull", `manifests/${digestOf(manifest)}`)).status, 200);
});

test("nodes cannot pull an image after its removal, and the next start frees its disk", async () => {
  const [gone, kept] = [await registry.push("gone"), await registry.push("kept")];
  const { removed, message } = await registry.remove(digestOf(gone.manifest));
  assert.deepEqual([removed, message], [[0], null]);
  const statusOf = async (port: "push" | "pull", manifest: string) =>
    (await registry.call(port, `manifests/${digestOf(manifest)}`)).status;
  assert.deepEqual([await statusOf("push", gone.manifest), await statusOf("pull", gone.manifest)], [404, 404]);
  assert.equal(await statusOf("pull", kept.manifest), 200);
  assert.ok((await registry.blobs()).includes(digestOf("layer of gone")));
  await registry.restart();
  const blobs = await registry.blobs();
  assert.equal(blobs.includes(digestOf("layer of gone")), false);
  assert.equal(blobs.includes(digestOf("layer of kept")), true);
  assert.equal(await statusOf("pull", kept.manifest), 200);
});

test("the registry starts on a new volume, where there is nothing to collect", async () => {
  await using fresh = await startChartRegistry();
  assert.deepEqual(await fresh.blobs(), []);
  assert.equal((await fresh.call("pull", "manifests/none")).status, 404);
});

/** Runs the pod of the chart's registry as processes of this machine: its init container, then its two containers. */
async function startChartRegistry() {
  const program = findRegistryProgram();
  assert.ok(program !== null, "docker-registry (Debian: apt-get install docker-registry)");
  const helm = process.env["PIERHEAD_TEST_HELM"] ?? "";
  assert.notEqual(helm, "", "helm could not be had: see test/kubeplane/helm.ts");
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-chart-registry-"));
  const at = (name: string) => path.join(directory, name);
  for (const name of ["bin", "config", "data", "passwords", "layouts"]) await mkdir(at(name));
  const ports = { push: await freePort(), pull: await freePort() };
  /** The paths and ports of the pod as those of this machine. */
  const here = (text: string) =>
    text
      .replaceAll("/etc/registry-passwords", at("passwords"))
      .replaceAll("/etc/registry", at("config"))
      .replaceAll("/var/lib/registry", at("data"))
      .replaceAll(":5000", `127.0.0.1:${ports.push}`)
      .replaceAll(":5001", `127.0.0.1:${ports.pull}`);
  const values = "deploy/helm/pierhead-listener/ci/several-namespaces.yaml";
  const flags = ["template", "r", "deploy/helm/pierhead-listener", "-n", "pierhead", "-f", values];
  const documents = parseAllDocuments((await run(helm, flags)).stdout).map((one) => one.toJS());
  const find = (kind: string, name: string) =>
    documents.find((one) => one?.kind === kind && one.metadata.name === `pierhead-r-registry${name}`);
  for (const [name, text] of Object.entries<string>(find("ConfigMap", "").data))
    await writeFile(path.join(at("config"), name), here(text));
  for (const [name, text] of Object.entries<string>(find("Secret", "").stringData))
    await writeFile(path.join(at("passwords"), name), text);
  await writeFile(at("bin/registry"), `#!/bin/sh\nexec ${program} "$@"\n`, { mode: 0o755 });
  const credentials = Object.fromEntries(
    (["push", "pull"] as const).map((task) => {
      const [entry] = Object.values<{ auth: string }>(
        JSON.parse(find("Secret", `-${task}`).stringData[".dockerconfigjson"]).auths,
      );
      return [task, entry?.auth ?? ""];
    }),
  ) as Record<"push" | "pull", string>;
  const { spec } = find("Deployment", "").spec.template;
  const environment = { PATH: `${at("bin")}:${process.env["PATH"]}`, OTEL_TRACES_EXPORTER: "none" };
  const children: ReturnType<typeof spawn>[] = [];
  const stop = async () => {
    for (const child of children.splice(0)) {
      const ended = once(child, "exit");
      if (child.exitCode === null && child.kill("SIGKILL")) await ended;
    }
  };
  const start = async () => {
    const [{ command, args }] = spec.initContainers;
    await run(command[0], [...command.slice(1), ...args.map(here)], { env: environment });
    for (const container of spec.containers)
      children.push(spawn(program, container.args.map(here), { env: environment, stdio: "ignore" }));
    for (const port of Object.values(ports)) {
      const answers = () =>
        fetch(`http://127.0.0.1:${port}/`).then(
          ({ ok }) => ok,
          () => false,
        );
      await eventually(answers, (isUp) => isUp, { what: "the registry" });
    }
  };
  const push5000 = `127.0.0.1:${ports.push}`;
  const auth = at("auth.json");
  await writeFile(auth, JSON.stringify({ auths: { [push5000]: { auth: credentials.push } } }));
  /** Runs a program of builds as their pod does. */
  const runProgram = async (name: string, ...args: string[]) => {
    const report = at("report");
    const env = { ...environment, PIERHEAD_TERMINATION_LOG: report, PIERHEAD_REGISTRY_AUTH_FILE: auth };
    const file = `src/compute/kubernetes/builds/${name}.ts`;
    await run(process.execPath, [file, ...args], { env: { ...env, PIERHEAD_REGISTRY_INSECURE: "true" } });
    return JSON.parse(await readFile(report, "utf8"));
  };
  const registry = {
    push5000,
    call: (task: "push" | "pull", what: string, init: RequestInit = {}, as: "push" | "pull" | null = task) => {
      const authorization = as === null ? {} : { authorization: `Basic ${credentials[as]}` };
      const headers = { accept: mediaType, ...init.headers, ...authorization };
      return fetch(`http://127.0.0.1:${ports[task]}/v2/agents/${what}`, { ...init, headers });
    },
    async push(tag: string): Promise<{ image: string; manifest: string }> {
      const layout = path.join(at("layouts"), tag);
      const manifest = await layOut(layout, `layer of ${tag}`);
      const { image } = await runProgram("push-image", layout, `${push5000}/agents`, tag);
      return { image, manifest };
    },
    remove: (digest: string) => runProgram("remove-images", `${push5000}/agents`, digest),
    async blobs(): Promise<string[]> {
      const blobs = await readdir(at("data/docker/registry/v2/blobs/sha256"), { recursive: true }).catch(() => []);
      return blobs.filter((one) => one.endsWith("/data")).map((one) => `sha256:${one.split("/").at(-2)}`);
    },
    async restart() {
      await stop();
      await start();
    },
    async [Symbol.asyncDispose]() {
      await stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
  try {
    await start();
  } catch (error) {
    await registry[Symbol.asyncDispose]();
    throw error;
  }
  return registry;
}

/** Writes an image of one layer as an OCI layout. @returns its manifest */
async function layOut(layout: string, content: string): Promise<string> {
  const blobs = path.join(layout, "blobs/sha256");
  await mkdir(blobs, { recursive: true });
  const put = async (blob: string) => {
    await writeFile(path.join(blobs, digestOf(blob).slice("sha256:".length)), blob);
    return { digest: digestOf(blob), size: blob.length };
  };
  const config = { mediaType: "application/vnd.oci.image.config.v1+json", ...(await put(JSON.stringify({ content }))) };
  const layers = [{ mediaType: "application/vnd.oci.image.layer.v1.tar", ...(await put(content)) }];
  const manifest = JSON.stringify({ schemaVersion: 2, mediaType, config, layers });
  const top = { ...(await put(manifest)), mediaType };
  await writeFile(path.join(layout, "index.json"), JSON.stringify({ schemaVersion: 2, manifests: [top] }));
  return manifest;
}
