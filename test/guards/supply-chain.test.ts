import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";

interface Locked {
  version: string;
  integrity?: string;
  resolved?: string;
  inBundle?: boolean;
  dev?: boolean;
  link?: boolean;
  license?: string;
  hasInstallScript?: boolean;
}

const read = (file: string) => JSON.parse(readFileSync(file, "utf8"));
const packagesOf = (file: string) =>
  Object.entries(read(file).packages as Record<string, Locked>).filter(([place, { link }]) => place !== "" && !link);

const lockFiles = spawnSync("git", ["ls-files", "*package-lock.json"], { encoding: "utf8" }).stdout.trim().split("\n");

/** What is shipped: the program and the console that it serves. */
const shipped = ["package-lock.json", "console/package-lock.json"].flatMap((file) =>
  packagesOf(file).filter(([, { dev }]) => dev !== true),
);

test("every package of every lock file is pinned by its SHA-512 and names no registry", () => {
  assert.ok(lockFiles.length >= 10, `${lockFiles.length} lock files`);
  for (const file of lockFiles) {
    for (const [place, { inBundle, integrity, resolved }] of packagesOf(file)) {
      // A bundled package comes in the archive of the package that bundles it, whose digest pins both.
      if (inBundle !== true) assert.match(integrity ?? "", /^sha512-/, `${file}: ${place}`);
      assert.equal(resolved, undefined, `${file}: ${place}`);
    }
  }
});

test("nothing that is shipped runs a script when it is installed, or has a licence that asks for more than a notice", () => {
  // MIT-0 asks for nothing. MPL-2.0 asks for changes to its own files alone, and we make none. OFL-1.1 is that of the fonts,
  // which ship unchanged.
  const licences = /^(0BSD|Apache-2\.0|BSD-[23]-Clause|BlueOak-1\.0\.0|ISC|MIT(-0)?|MPL-2\.0|OFL-1\.1|Unlicense)$/;
  assert.ok(shipped.length > 100, `${shipped.length} packages`);
  for (const [place, { license, hasInstallScript }] of shipped) {
    assert.match(license ?? "", licences, place);
    assert.equal(hasInstallScript, undefined, place);
  }
});

test("every direct run-time dependency has its reason in decision 0006, and nothing else has", () => {
  const page = readFileSync("docs/decisions/0006-runtime-dependencies.md", "utf8");
  const named = [...page.matchAll(/^\| `([^`]+)`/gm)].map(([, name]) => name);
  assert.deepEqual(named.sort(), Object.keys(read("package.json").dependencies).sort());
});

// All of them: with `--omit dev` npm leaves out what is a development dependency of ours and a run-time one of another.
test("npm run sbom names every run-time package with its version and digest", () => {
  const { stdout, stderr } = spawnSync("npm", ["run", "--silent", "sbom"], { encoding: "utf8", maxBuffer: 1e8 });
  const { bomFormat, components } = JSON.parse(stdout || stderr) as {
    bomFormat: string;
    components: { name: string; version: string; hashes: { alg: string }[] }[];
  };
  assert.equal(bomFormat, "CycloneDX");
  const listed = new Map(components.map(({ name, version, hashes }) => [`${name}@${version}`, hashes]));
  for (const [place, { version, dev }] of packagesOf("package-lock.json")) {
    if (dev) continue;
    const name = `${place.split("node_modules/").at(-1)}@${version}`;
    assert.deepEqual(
      listed.get(name)?.map(({ alg }) => alg),
      ["SHA-512"],
      name,
    );
  }
});

test("every row of the threat model names tests that exist", () => {
  const rows = readFileSync("docs/explanation/threat-model.md", "utf8")
    .split("\n")
    .filter((line) => line.startsWith("| "));
  assert.ok(rows.length > 20);
  for (const row of rows.slice(1)) {
    const named = [...row.matchAll(/`(test\/[\w/.-]+)`/g)].map(([, file]) => file as string);
    assert.ok(named.length > 0, row);
    for (const file of named) assert.ok(existsSync(file), file);
  }
});
