import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { createClient } from "../../src/client/client.ts";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { findRegistryProgram } from "../../src/registry/registry-process.ts";
import { mintStrangersKey } from "../clients/tenants.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { buildAgentImage, buildTinyImage } from "./base-image.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

const agent = (version: string) => `
import { createServer } from "node:http";
createServer((_, response) => response.end("${version}")).listen(Number(process.env.PORT), process.env.HOST);
process.on("SIGTERM", () => process.exit(0));
`;
/** Counts its starts in a file in its state directory. */
const keeping = `
import { appendFileSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
appendFileSync("/var/lib/agent/starts", "x");
const text = readFileSync("/var/lib/agent/starts", "utf8");
createServer((_, response) => response.end(text)).listen(Number(process.env.PORT), process.env.HOST);
process.on("SIGTERM", () => process.exit(0));
`;
const skip =
  dockerSkipped ||
  (findRegistryProgram() === null ? "docker-registry (Debian: apt-get install docker-registry)" : false);

describe("docker: images are pushed", { skip }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  let pierhead: TestServer;
  before(async () => {
    ({ engine, end } = await engineForTests());
    for (const version of ["one", "two"])
      await buildAgentImage(engine, `pierhead-test/pushed-${version}:1`, agent(version));
    for (const version of ["1", "2"])
      await buildAgentImage(engine, `pierhead-test/pushed-keeping:${version}`, keeping, [
        'LABEL "pierhead.dev/state"="exclusive"',
        `LABEL version=${version}`,
      ]);
    await buildTinyImage(engine, "pierhead-test/pushed-text:1");
    pierhead = await startTestServer({ PIERHEAD_COMPUTE: "docker", DOCKER_HOST: engine.host });
  });
  after(async () => {
    await pierhead?.[Symbol.asyncDispose]();
    await end?.();
  });

  const newDeployment = ({ client }: TestServer) =>
    client.createDeployment({
      body: {
        name: randomUUID(),
        source: "internal_docker",
        source_config: { deployment_type: "dev" },
        source_revision_config: {},
      },
    });
  /** Pushes like `docker push` with the engine. @returns the digest */
  const push = async (image: string, target: string, token: string) => {
    const [repo = "", tag = ""] = splitTag(target);
    await engine.call("POST", `/images/${image}/tag`, { query: { repo, tag } });
    const auth = { username: "oauth2accesstoken", password: token, serveraddress: repo.split("/")[0] };
    const headers = { "x-registry-auth": Buffer.from(JSON.stringify(auth)).toString("base64") };
    let digest = "";
    const progress = engine.values<{ error?: string; aux?: { Digest?: string } }>(
      "POST",
      `/images/${encodeURIComponent(repo)}/push`,
      { query: { tag }, headers },
    );
    for await (const { error, aux } of progress) {
      if (error !== undefined) throw new Error(error);
      digest = aux?.Digest ?? digest;
    }
    await engine.callUnless([404], "DELETE", `/images/${encodeURIComponent(target)}`);
    return digest;
  };
  const deploy = async ({ client }: TestServer, id: string, image: string) => {
    const body = { revision_source: "internal_docker" as const, source_revision_config: { image_uri: image } };
    const { latest_revision_id: revisionId } = await client.patchDeployment({ deployment_id: id, body });
    return client.waitForRevision({ deployment_id: id, revision_id: revisionId as string });
  };
  const ask = async ({ client }: TestServer, id: string) => {
    const { url } = await client.getDeployment({ deployment_id: id });
    return fetch(`${url}/`).then((answer) => answer.text());
  };

  test("an image is pushed with a token, deployed by its digest, and replaced by the next one", async () => {
    const { id } = await newDeployment(pierhead);
    const { token, registry_url: registry } = await pierhead.client.createPushToken({ deployment_id: id });
    assert.equal(registry, `${new URL(pierhead.url).host}/r/${id}`);
    const digest = await push("pierhead-test/pushed-one:1", `${registry}/my-agent:v1`, token);
    const first = await deploy(pierhead, id, `${registry}/my-agent@${digest}`);
    assert.equal(first.status, "DEPLOYED", first.status_message ?? "");
    assert.equal(await ask(pierhead, id), "one");
    await push("pierhead-test/pushed-two:1", `${registry}/my-agent:v1`, token);
    const second = await deploy(pierhead, id, `${registry}/my-agent:v1`);
    assert.equal(second.status, "DEPLOYED", second.status_message ?? "");
    assert.equal(await ask(pierhead, id), "two");
    const { id: other, latest_revision_id: revisionId } = await pierhead.client.createDeployment({
      body: {
        name: randomUUID(),
        source: "external_docker",
        source_config: { resource_spec: {} },
        source_revision_config: { image_uri: `${registry}/my-agent@${digest}` },
      },
    });
    const named = await pierhead.client.waitForRevision({ deployment_id: other, revision_id: revisionId as string });
    assert.equal(named.status, "DEPLOYED", named.status_message ?? "");
    assert.equal(await ask(pierhead, other), "one", "as external_docker, by its digest");
  });

  test("an image with state of its own is handed over, and the next revision finds that state", async () => {
    const { id } = await newDeployment(pierhead);
    const { token, registry_url: registry } = await pierhead.client.createPushToken({ deployment_id: id });
    for (const [version, starts] of [
      ["1", "x"],
      ["2", "xx"],
    ] as const) {
      await push(`pierhead-test/pushed-keeping:${version}`, `${registry}/agent:${version}`, token);
      const revision = await deploy(pierhead, id, `${registry}/agent:${version}`);
      assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
      assert.equal(revision.rollout, "handover");
      assert.equal(await ask(pierhead, id), starts);
    }
  });

  test("a token covers the images of its deployment: others are denied, wrong tokens are rejected, nothing is deleted", async () => {
    const [mine, other] = [await newDeployment(pierhead), await newDeployment(pierhead)];
    const { token, registry_url: registry } = await pierhead.client.createPushToken({ deployment_id: mine.id });
    const foreign = registry.replace(mine.id, other.id);
    await assert.rejects(push("pierhead-test/pushed-text:1", `${foreign}/agent:1`, token), /denied/i);
    await assert.rejects(
      push("pierhead-test/pushed-text:1", `${registry}/agent:1`, `${token}x`),
      /log in|unauthorized/i,
    );
    const digest = await push("pierhead-test/pushed-text:1", `${registry}/agent:1`, token);
    const call = (method: string, path: string, password: string | null = token) => {
      const authorization = `Basic ${Buffer.from(`oauth2accesstoken:${password}`).toString("base64")}`;
      const headers = password === null ? {} : { authorization };
      return fetch(`${pierhead.url}/v2/${path}`, { method, headers }).then(({ status }) => status);
    };
    assert.equal(await call("GET", "", null), 401);
    assert.equal(await call("GET", ""), 200);
    assert.equal(await call("GET", `r/${mine.id}/agent/manifests/${digest}`), 200);
    assert.equal(await call("GET", `r/${mine.id}/agent/manifests/${digest}`, "pull"), 401);
    assert.equal(await call("DELETE", `r/${mine.id}/agent/manifests/${digest}`), 403);
    assert.equal(await call("GET", `r/${mine.id}/../${other.id}/agent/tags/list`), 403);
    assert.equal(await call("GET", `r/${other.id}/agent/tags/list`), 403);
    assert.equal(await call("GET", "_catalog"), 403);
    const { status } = await fetch(`${pierhead.url}/v2/deployments`);
    assert.equal(status, 401, "the API keeps its own paths");
  });

  test("an image of another workspace looks as if it had never been pushed, under any name that the engine knows", async () => {
    const { id } = await newDeployment(pierhead);
    const { token, registry_url: registry } = await pierhead.client.createPushToken({ deployment_id: id });
    const digest = await push("pierhead-test/pushed-one:1", `${registry}/agent:1`, token);
    const mine = await deploy(pierhead, id, `${registry}/agent:1`);
    assert.equal(mine.status, "DEPLOYED", mine.status_message ?? "");
    const image = await engine.call<{ Id: string; RepoTags: string[] }>(
      "GET",
      `/images/${registry}/agent@${digest}/json`,
    );
    const kept = image.RepoTags.find((tag) => tag.startsWith("pierhead-used/")) ?? "";
    assert.notEqual(kept, "");
    const apiKey = await mintStrangersKey(pierhead);
    const strangers = () => ({ ...pierhead, client: createClient({ baseUrl: pierhead.url, apiKey }) });
    let stranger = strangers();
    const { id: theirs } = await newDeployment(stranger);
    const missing = async (name: string) => {
      const failed = await deploy(stranger, theirs, name);
      assert.match(failed.status, /^(CREATE|DEPLOY)_FAILED$/, name);
      return (failed.status_message ?? "").replace(name, "X");
    };
    const never = await missing(`${registry}/agent:never`);
    assert.match(never, /There is no image X in the registry/);
    const { port } = new URL(pierhead.url);
    for (const name of [
      `${registry}/agent:1`,
      `${registry}/agent@${digest}`,
      `localhost:${port}/r/${id}/agent:1`,
      `127.0.0.1:1/r/${id}/agent:1`,
      kept,
      `docker.io/${kept}`,
      image.Id.slice("sha256:".length),
      image.Id.slice("sha256:".length, 19),
      "pierhead-built/12345678:abc",
    ]) {
      assert.equal(await missing(name), never, name);
    }
    // A digest counts only together with its name, and this name refers to a registry that does not exist.
    await pierhead.restart({ PIERHEAD_DEPLOY_TIMEOUT_MS: "3000" });
    stranger = strangers();
    await missing(`127.0.0.1:1/team/agent@${image.Id}`);
  });

  test("pushed images survive a restart, and the registry's process stops with the server", async () => {
    const { id } = await newDeployment(pierhead);
    const pushed = await pierhead.client.createPushToken({ deployment_id: id });
    await push("pierhead-test/pushed-text:1", `${pushed.registry_url}/agent:1`, pushed.token);
    const { pid } = JSON.parse(await readFile(path.join(pierhead.dataDir, "registry/process.json"), "utf8"));
    await pierhead.restart();
    assert.equal(existsSync(`/proc/${pid}`), false);
    const { registry_url: registry, token } = await pierhead.client.createPushToken({ deployment_id: id });
    const headers = { authorization: `Basic ${Buffer.from(`oauth2accesstoken:${token}`).toString("base64")}` };
    const manifest = `${pierhead.url}/v2/${registry.replace(/^[^/]+\//, "")}/agent/manifests/1`;
    assert.equal((await fetch(manifest, { headers })).status, 200);
  });
});

const splitTag = (target: string) => /^(.*):([^:/]+)$/.exec(target)?.slice(1) ?? [];
