import assert from "node:assert/strict";
import { mkdir, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { list } from "tar";
import { checkNames, packOwnContext } from "../../src/builds/image/context.ts";
import { scratch, writeFiles } from "./fixtures.ts";

/** A Latin-1 name from 1998, as git stores it. */
const latin1 = (directory: string) => Buffer.concat([Buffer.from(`${directory}/caf`), Buffer.from([0xe9])]);

test("reports an included file whose name is not UTF-8 before it calls an engine", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, { Dockerfile: "FROM scratch", "docs/\uFFFD": "a name as good as any" });
  await checkNames(place.dir);
  await packOwnContext(place.dir, "Dockerfile");
  await mkdir(path.join(place.dir, "menus"));
  await writeFile(latin1(path.join(place.dir, "menus")), "1,50");
  const named = { reason: "Unsupported", message: /^The name of 'menus\/caf\uFFFD' is not UTF-8/ };
  await assert.rejects(checkNames(place.dir), named);
  await assert.rejects(packOwnContext(place.dir, "Dockerfile"), named);
  await writeFile(path.join(place.dir, ".dockerignore"), "menus\n");
  assert.deepEqual(await namesIn(place.dir), [".dockerignore", "Dockerfile", "docs/", "docs/\uFFFD"]);
});

test("ignores a .dockerignore that links out of the source", async () => {
  await using place = await scratch();
  await writeFiles(place.dir, { rules: "*.txt", "source/Dockerfile": "FROM scratch", "source/a.txt": "" });
  await symlink("../rules", path.join(place.dir, "source/.dockerignore"));
  assert.ok((await namesIn(path.join(place.dir, "source"))).includes("a.txt"));
});

async function namesIn(directory: string): Promise<string[]> {
  const names: string[] = [];
  const read = list({ onReadEntry: (entry) => void names.push(entry.path) });
  for await (const chunk of await packOwnContext(directory, "Dockerfile")) read.write(chunk as Buffer);
  read.end();
  return names.sort();
}
