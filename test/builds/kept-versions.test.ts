import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, readdir } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { packagingErrors, unbuildable, unsolvable } from "../../src/builds/python/server-environment.ts";
import { scratch, writeFiles } from "./fixtures.ts";

const run = promisify(execFile);

/** Writes wheels without modules: `NAME VERSION`. */
const makeWheels = `import sys, zipfile
for one in sys.argv[1:]:
    name, version = one.split()
    with zipfile.ZipFile(f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        info = f"{name}-{version}.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/RECORD", "")
`;

/** A uv that keeps the versions of the file to which it writes, except those of the framework, which the project wants newer. */
const fakeUv = `#!/bin/sh
[ -e "$(dirname "$0")/broken" ] && exit 2
while [ "$1" != --output-file ]; do shift; done
sed -i "s/^framework==.*/framework==2/" "$2"
`;

async function openImage() {
  const place = await scratch();
  const at = (name: string) => path.join(place.dir, name);
  await writeFiles(place.dir, {
    "bin/uv": fakeUv,
    "wheels/.keep": "",
    "tmp/.keep": "",
    "requirements.txt": "framework>=2\nwords\n",
    "constraints.txt": "framework==1\nwords==1\n",
  });
  await chmod(at("bin/uv"), 0o755);
  const wheels = ["framework 1", "framework 2", "words 1", "words 2"];
  await run("python3", ["-c", makeWheels, ...wheels], { cwd: at("wheels") });
  return {
    dir: place.dir,
    async install() {
      const source = ["--no-index", "--find-links", at("wheels"), "--target", at("packages")];
      const options = {
        installer: ["python3", "-m", "pip", "install", ...source],
        attempts: [
          {
            argv: ["--requirement", "requirements.txt", "--constraint", "constraints.txt"],
            withoutProject: null,
            because: "Installing the locked versions.",
          },
          { argv: ["--requirement", "requirements.txt"], withoutProject: null, because: "Installing what is allowed." },
        ],
        uv: "uv==0.0.0",
        unsolvable: unsolvable.source,
        packaging: packagingErrors.source,
        unbuildable: unbuildable.source,
      };
      const program = fileURLToPath(new URL("../../src/builds/python/install-server.py", import.meta.url));
      const env = { ...process.env, PATH: `${at("bin")}:${process.env["PATH"]}`, PIP_NO_INDEX: "1", TMPDIR: at("tmp") };
      const { stdout } = await run("python3", ["-P", program, JSON.stringify(options)], { cwd: place.dir, env });
      const installed = (await readdir(at("packages"))).filter((name) => name.endsWith(".dist-info")).sort();
      return { log: stdout, installed, left: await readdir(at("tmp")) };
    },
    [Symbol.asyncDispose]: () => place[Symbol.asyncDispose](),
  };
}

test("keeps the versions of an outdated lock file that still fit while an image is built", async () => {
  await using image = await openImage();
  const { log, installed, left } = await image.install();
  assert.deepEqual(installed, ["framework-2.dist-info", "words-1.dist-info"]);
  assert.deepEqual(left, [".keep"], "nothing temporary stays in the image");
  assert.match(log, /Installing what is allowed\. 1 of the 2 locked versions still fit and are kept\./);
});

test("installs what a project allows in an image when no version of its lock file can be kept", async () => {
  await using image = await openImage();
  await writeFiles(image.dir, { "bin/broken": "" });
  const { log, installed } = await image.install();
  assert.deepEqual(installed, ["framework-2.dist-info", "words-2.dist-info"]);
  assert.match(log, /Installing what is allowed\.\n/);
});
