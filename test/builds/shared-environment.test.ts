import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { choicesName, sharedEnvironment } from "../../src/builds/python/shared-environment.ts";
import { BuildLog } from "../../src/builds/worker/build-log.ts";
import { scratch } from "./fixtures.ts";

test("repeats the choices of an earlier build, but not a large file of that name that a package has installed", async () => {
  await using place = await scratch();
  const lines: string[] = [];
  const context = {
    ...{ sourceDir: path.join(place.dir, "work", "source"), cacheDir: path.join(place.dir, "cache"), env: {} },
    ...{ log: new BuildLog(({ message }) => lines.push(message)), signal: new AbortController().signal },
  };
  await mkdir(context.sourceDir, { recursive: true });
  const tools = { interpreter: { python: "/usr/bin/python3", version: "3.12" }, uv: null };
  const reused = async (name: string, installed: string) => {
    const fill = async (draft: string, choose: (line: string) => void) => {
      await mkdir(path.join(draft, "bin"), { recursive: true });
      await mkdir(path.join(draft, "lib", "python3.12", "site-packages"), { recursive: true });
      await writeFile(path.join(draft, choicesName), installed);
      choose("an older server");
    };
    await sharedEnvironment(context, tools, [name], fill);
    lines.length = 0;
    await sharedEnvironment(context, tools, [name], fill);
    return lines.join("\n");
  };
  assert.match(await reused("small", ""), /which said:\n {2}an older server$/);
  assert.match(await reused("large", "x\n".repeat(1_000_000)), /reusing the environment of an earlier build\.$/);
});
