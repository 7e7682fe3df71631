import assert from "node:assert/strict";
import { chmod } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { withOtherVersion } from "../../src/builds/node/bun-lock.ts";
import { BuildLog } from "../../src/builds/worker/build-log.ts";
import { scratch, writeFiles } from "./fixtures.ts";

const lock = (entries: readonly string[]) =>
  `{\n  "lockfileVersion": 1,\n  "workspaces": {\n    "": {\n      "dependencies": {\n        "@x/word": "^1.2.0",\n        "tone": "1.0.0",\n      },\n    },\n  },\n  "packages": {\n${entries.map((line) => `    ${line},`).join("\n\n")}\n  }\n}\n`;

const tone =
  '"tone": ["tone@1.0.0", "", { "dependencies": { "@x/word": "<1.4.0", "sound": "^2.0.0" } }, "sha512-tone"]';
const sound = '"sound": ["sound@2.1.0", "", {}, "sha512-sound"]';
const word = '"@x/word": ["@x/word@1.2.9", "", { "dependencies": { "sound": "^2.0.0" } }, "sha512-old"]';
const gone = { name: "@x/word", version: "1.2.9" };

/** Edits a lock file where npm answers as a registry with these versions would. */
async function editWith(
  dependencies: Record<string, string>,
  { text = lock([word, sound, tone]), more = {} }: { text?: string; more?: object } = {},
) {
  await using place = await scratch();
  const versions = JSON.stringify(["1.2.0", "1.3.0-beta.1", "1.3.1", "1.2.10", "1.4.0", "2.0.0"]);
  const published = JSON.stringify({ version: "1.3.1", dependencies, "dist.integrity": "sha512-new", ...more });
  await writeFiles(place.dir, {
    npm: `#!/bin/sh\ncase "$2" in\n@x/word) echo '${versions}' ;;\n@x/word@1.3.1) echo '${published}' ;;\n*) exit 1 ;;\nesac\n`,
  });
  await chmod(path.join(place.dir, "npm"), 0o755);
  const context = {
    sourceDir: place.dir,
    cacheDir: place.dir,
    env: { PATH: `${place.dir}:/usr/bin:/bin` },
    log: new BuildLog(() => {}),
    signal: new AbortController().signal,
  };
  // Without awaiting, the directory would be removed meanwhile.
  return await withOtherVersion(context, text, gone);
}

test("replaces a version that no registry has in a bun.lock by the newest that everything allows", async () => {
  const replaced = '"@x/word": ["@x/word@1.3.1","",{"dependencies":{"sound":"^2.1.0"}},"sha512-new"]';
  assert.equal(await editWith({ sound: "^2.1.0" }), lock([replaced, sound, tone]));
});

test("keeps the programs and the other packages of the version that it chooses", async () => {
  const more = {
    optionalDependencies: { sound: "2.1.0" },
    peerDependencies: { tone: "1.0.0", noise: "*" },
    peerDependenciesMeta: { noise: { optional: true } },
    bin: "word.js",
  };
  const text = (await editWith({}, { more })) ?? "";
  const [, line = ""] = /^ {4}"@x\/word": (\[.*\]),$/m.exec(text) ?? [];
  assert.deepEqual(JSON.parse(line)[2], {
    dependencies: {},
    optionalDependencies: { sound: "2.1.0" },
    peerDependencies: { tone: "1.0.0", noise: "*" },
    optionalPeers: ["noise"],
    bin: { word: "word.js" },
  });
  assert.equal(await editWith({}, { more: { optionalDependencies: { sound: "3.0.0" } } }), null);
});

test("leaves a bun.lock alone when the other version needs packages that are not locked", async () => {
  assert.equal(await editWith({ sound: "^3.0.0" }), null);
  assert.equal(await editWith({ noise: "^1.0.0" }), null);
  assert.equal(await editWith({}, { text: lock([sound, tone]) }), null, "the version is not in the lock file");
});
