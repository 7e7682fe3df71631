import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";

const root = path.resolve(import.meta.dirname, "../..");
const entry = path.join(root, "src/client/client.ts");

/** Files that loading the client loads. Type imports are not among them. */
function loadedFrom(file: string, seen = new Set<string>()): Set<string> {
  if (seen.has(file)) return seen;
  seen.add(file);
  const code = readFileSync(file, "utf8").replaceAll(/^(?:import|export) type [^;]*;$/gm, "");
  for (const [, specifier = ""] of code.matchAll(/^(?:import|export)\b[^;]*?from "([^"]+)";$/gm)) {
    assert.ok(specifier.startsWith("."), `${path.relative(root, file)} loads ${specifier}`);
    loadedFrom(path.resolve(path.dirname(file), specifier), seen);
  }
  assert.ok(!/\bimport\("(?!\.)/.test(code), `${path.relative(root, file)} imports a package dynamically`);
  return seen;
}

test("the client loads only its own files: no package, no node: module, no schema", () => {
  const loaded = [...loadedFrom(entry)].map((file) => path.relative(root, file));
  assert.ok(loaded.length > 5);
  for (const file of loaded) assert.match(file, /^src\/(base\/|client\/|contract\/routes\.ts$)/);
});

test("the client compiles without the types of Node", async () => {
  const options = ["--target", "es2024", "--lib", "es2024,dom,dom.asynciterable,esnext.disposable", "--types", ""];
  const strict = [
    "--strict",
    "--exactOptionalPropertyTypes",
    "--noUncheckedIndexedAccess",
    "--skipLibCheck",
    "--noEmit",
  ];
  const modules = ["--module", "preserve", "--moduleResolution", "bundler", "--allowImportingTsExtensions"];
  const args = [
    "node_modules/typescript/bin/tsc",
    "--ignoreConfig",
    "--pretty",
    "false",
    ...options,
    ...strict,
    ...modules,
    entry,
  ];
  const child = spawn(process.execPath, args, { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  assert.deepEqual([await text(child.stdout), await ended], ["", 0]);
});
