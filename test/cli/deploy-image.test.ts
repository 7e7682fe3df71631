import assert from "node:assert/strict";
import { test } from "node:test";
import { startTestServer } from "../support/server.ts";
import { runCli } from "./run-cli.ts";

test("deploys an image under its own name, then another one, and refuses what an image does not have", async () => {
  await using server = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
  const { client } = server;
  const run = (...args: string[]) =>
    runCli(["deploy", ...args, "--url", server.url], { env: { PIERHEAD_API_KEY: server.apiKey } });
  const image = "registry.invalid:5000/acme/support-agent:1.4";
  const first = await run("--image", image);
  assert.equal(first.code, 0, first.stderr);
  const [made] = (await client.listDeployments({})).resources;
  assert.deepEqual([made?.name, made?.source], ["support-agent", "external_docker"]);
  assert.equal(made?.source_revision_config.image_uri, image);

  // A tag may have moved, so the same name is looked up again.
  const same = await run("--image", image);
  assert.equal(same.code, 0, same.stderr);
  const planned = await run("--image", `${image}.1`, "--dry-run");
  assert.match(planned.stdout, /support-agent:1\.4\.1/);
  const second = await run("--image", `${image}.1`);
  assert.equal(second.code, 0, second.stderr);
  const { resources } = await client.listRevisions({ deployment_id: String(made?.id) });
  assert.equal(resources.length, 3);

  assert.match(
    (await run("--image", image, "--engine", "file")).stderr,
    /--engine belongs to a directory or a git URL/,
  );
  assert.match((await run("hello", "--image", image)).stderr, /either "hello" or the image/);
});

test("pushes nothing without docker, or when the text is no image", async () => {
  const run = (image: string) => runCli(["push", image, "--url", "http://127.0.0.1:1"], { env: { PATH: "/nowhere" } });
  assert.match((await run("support:1")).stderr, /The program docker was not found\./);
  const { code, stderr } = await run("Not an image");
  assert.deepEqual([code, /"Not an image" is not an image\./.test(stderr)], [2, true], stderr);
});
