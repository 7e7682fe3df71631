import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { after, before, describe, test } from "node:test";
import { startTestServer, type TestServer } from "../support/server.ts";
import { isAsShown, type Page } from "./pages.ts";
import { selectedPages } from "./select.ts";

/** Longer than the slowest command: installing packages that no cache has, on a loaded machine. Measures nothing. */
const timeoutMs = 550_000;

describe("pages of docs/frameworks", () => {
  let server: TestServer;
  let home: string;

  before(async () => {
    server = await startTestServer();
    home = await mkdtemp(path.join(tmpdir(), "pierhead-pages-"));
    // Readers have `pierhead` on their PATH. A terminal shows no progress of curl.
    const program = path.join(home, "pierhead");
    await writeFile(program, `#!/bin/sh\nexec '${process.execPath}' '${path.resolve("src/main.ts")}' "$@"\n`);
    await chmod(program, 0o755);
    await writeFile(path.join(home, ".curlrc"), "silent\nshow-error\n");
  });

  after(async () => {
    await server[Symbol.asyncDispose]();
    await rm(home, { recursive: true, force: true });
  });

  for (const page of selectedPages()) {
    test(`runs ${page.name}.md`, () => follow(page));
  }

  async function follow({ name, steps }: Page): Promise<void> {
    const directory = await mkdtemp(path.join(home, `${name}-`));
    for (const step of steps) {
      if (step.kind === "file") {
        const file = path.join(directory, step.path);
        await mkdir(path.dirname(file), { recursive: true });
        await writeFile(file, step.content);
        continue;
      }
      const { code, printed } = await run(step.command, directory);
      const where = `docs/frameworks/${name}.md:${step.line}\n$ ${step.command}\n${printed}`;
      assert.equal(code, 0, where);
      if (step.output !== undefined)
        assert.ok(isAsShown(step.output, printed), `${where}\nThe page shows:\n${step.output}`);
    }
    const { resources } = await server.client.listDeployments({ limit: 100 });
    for (const { id } of resources) {
      await server.client.deleteDeployment({ deployment_id: id });
      await server.client.waitForDeletion({ deployment_id: id }, { timeoutMs });
    }
  }

  async function run(command: string, cwd: string): Promise<{ code: number | null; printed: string }> {
    const child = spawn("bash", ["-euo", "pipefail", "-c", `exec 2>&1\n${command}`], {
      cwd,
      env: {
        ...process.env,
        PATH: [home, process.env["PATH"]].join(path.delimiter),
        CURL_HOME: home,
        PIERHEAD_URL: server.url,
        PIERHEAD_API_KEY: server.apiKey,
        PIERHEAD_CONFIG_DIR: path.join(home, "config"),
        NO_COLOR: "1",
      },
      stdio: ["ignore", "pipe", "inherit"],
      timeout: timeoutMs,
    });
    const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
    const printed = await text(child.stdout);
    return { code: await ended, printed };
  }
});
