import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { startTestServer } from "../support/server.ts";

/** The examples of docs/reference/typescript-client.md as files in this directory, so that they import the client of this tree. */
const directory = await mkdtemp(path.join(import.meta.dirname, "documented-"));
after(() => rm(directory, { recursive: true, force: true }));
const page = await readFile(path.join(import.meta.dirname, "../../docs/reference/typescript-client.md"), "utf8");
const examples = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, code = ""]) => code);

before(async () => {
  for (const [index, code] of examples.entries()) {
    await writeFile(
      path.join(directory, `example-${index}.ts`),
      code.replaceAll("pierhead/client", "../../../src/client/client.ts"),
    );
  }
  const config = { extends: "../../../tsconfig.json", include: ["."], exclude: [] };
  await writeFile(path.join(directory, "tsconfig.json"), JSON.stringify(config));
});

async function run(args: string[], environment: Record<string, string> = {}) {
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const [output, complaints, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { code, output, complaints };
}

test("the examples of the client's documentation compile", async () => {
  assert.ok(examples.length >= 2);
  const { code, output } = await run(["node_modules/typescript/bin/tsc", "--pretty", "false", "-p", directory]);
  assert.deepEqual([code, output], [0, ""]);
});

test("the first example of the client's documentation does what the page says", async () => {
  await using server = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
  const environment = { PIERHEAD_URL: server.url, PIERHEAD_API_KEY: server.apiKey };
  const { code, output, complaints } = await run([path.join(directory, "example-0.ts")], environment);
  assert.equal(code, 0, complaints);
  const [serving = "", ...rest] = output.trim().split("\n");
  assert.match(serving, /^DEPLOYED http:\/\/127\.0\.0\.1:\d+\/d\/support-bot-[0-9a-f]{8}$/);
  assert.deepEqual(rest, ["support-bot READY", "400 invalidField"]);
});
